import json

import pytest

from workbench.capture import power
from workbench.capture.telemetry import COLUMNS

OLD = COLUMNS[: COLUMNS.index("uuid") + 1]
"""Columns of the first runs, which have no counter of energy."""
HEAD = ",".join(OLD)


def run_folder(tmp_path, lines, devices=None, head=HEAD):
    (tmp_path / power.FILE).write_text("\n".join([head, *lines]) + "\n")
    if devices is not None:
        (tmp_path / "run.json").write_text(json.dumps({"schema_version": 1, "devices": devices}))
    return power.recorded(tmp_path)


def line(t, device, watts, uuid=""):
    return f"{t},{device},50,1000,{watts},40,1500,2600,{uuid}"


def test_a_gpu_of_the_machine_is_a_device_of_the_run_by_its_uuid(tmp_path):
    # the run sees only the second GPU of two, as its device 0; torch writes uuids without prefix
    lines = [line(5, "gpu0", 90, "GPU-aa"), line(5, "gpu1", 300, "GPU-bb"),
             line(2, "gpu1", 310.5, "GPU-bb"), line(2, "cpu", "")]  # fmt: skip
    found = run_folder(tmp_path, lines, [{"index": 0, "uuid": "BB"}])
    assert found.samples.rows() == [(2, 0, 310.5), (5, 0, 300.0)]
    assert found.samples.schema == power.SCHEMA
    assert found.reason is None


def test_without_uuids_numbers_hold_when_the_run_saw_every_gpu(tmp_path):
    head = HEAD.removesuffix(",uuid")
    lines = [line(1, "gpu0", 90)[:-1], line(1, "gpu1", 300)[:-1]]
    found = run_folder(tmp_path, lines, [{"index": 0}, {"index": 1}], head)
    assert found.samples.rows() == [(1, 0, 90.0), (1, 1, 300.0)]
    found = run_folder(tmp_path, lines, [{"index": 0}], head)
    assert (found.samples.height, found.reason) == (0, power.NO_PLACE)


COUNTED = f"{HEAD},energy_j"


def test_a_counter_of_energy_goes_before_reported_power(tmp_path):
    # At 0, 1 and 3 s the counter stands at 10, 110 and 510 J: 100 W, then 400 J in 2 s, 200 W, in
    # the middle of each; its standing still at 2 s, when it was not renewed yet, is no power of 0.
    lines = [f"{line(t * 10**9, 'gpu0', 7)},{joules}"
             for t, joules in ((0, 10), (1, 110), (2, 110), (3, 510))]  # fmt: skip
    found = run_folder(tmp_path, lines, [{"index": 0}], COUNTED)
    assert found.samples.rows() == [
        (0, 0, 100.0), (500_000_000, 0, 100.0), (2_000_000_000, 0, 200.0),
        (3_000_000_000, 0, 200.0)
    ]  # fmt: skip


@pytest.mark.parametrize("joules", [("", ""), ("5", ""), ("5", "5"), ("5", "4"), ("inf", "nan")])
def test_a_counter_that_tells_nothing_leaves_the_reported_power(tmp_path, joules):
    lines = [f"{line(t, 'gpu0', 90)},{j}" for t, j in enumerate(joules)]
    found = run_folder(tmp_path, lines, [{"index": 0}], COUNTED)
    assert found.samples.rows() == [(0, 0, 90.0), (1, 0, 90.0)]


def test_power_of_the_processor_is_that_of_no_device(tmp_path):
    found = run_folder(tmp_path, [line(4, "cpu", 60), line(4, "gpu0", 90)], [{"index": 0}])
    assert found.samples.rows() == [(4, None, 60.0), (4, 0, 90.0)]


@pytest.mark.parametrize("watts", ["", "inf", "nan", "-3", "much"])
def test_what_is_no_power_is_left_out(tmp_path, watts):
    found = run_folder(tmp_path, [line(1, "gpu0", watts)], [{"index": 0}])
    assert (found.samples.height, found.reason) == (0, power.NO_POWER)


def test_a_folder_without_telemetry_or_with_a_strange_one(tmp_path):
    assert power.recorded(tmp_path).reason == power.NO_FILE
    (tmp_path / power.FILE).write_bytes(b"\xff\xfe\x00")
    assert power.recorded(tmp_path).samples.is_empty()
    (tmp_path / power.FILE).write_bytes(b"")
    assert power.recorded(tmp_path).reason == f"{power.FILE} cannot be read"
    found = run_folder(tmp_path, ["1,gpu0", line(9, "gpu0", 5) + ",more,cells"], [{"index": 0}])
    assert found.samples.rows() == [(9, 0, 5.0)]


def test_a_manifest_of_others_is_not_trusted(tmp_path):
    found = run_folder(tmp_path, [line(1, "gpu0", 90)], ["x", 3])
    assert found.reason == power.NO_PLACE
