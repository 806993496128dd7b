"""What is said as a recording ends: each gap with what to change."""

import gzip
import json

import pytest
from tinytrace import op, step

from workbench import lint
from workbench.capture.remarks import FEW, LOST

PAIR = [("untraced", 100), ("untraced", 100), ("traced", 110), ("traced", 110)]


@pytest.fixture
def run(tmp_path):
    """A run folder with a trace of two operators in two steps."""

    def write(*, dims=(), device="cpu", times=PAIR, **manifest):
        shape = {"Input Dims": [[2, 2]]} if dims else {}
        events = [step(0, 0, 100), step(1, 100, 100), op("aten::mm", 10, 10, **shape),
                  op("aten::mm", 110, 120, **shape)]  # fmt: skip
        with gzip.open(tmp_path / "rank0.trace.json.gz", "wt") as file:
            json.dump({"traceEvents": events}, file)
        steps = [
            {"rank": 0, "index": i, "phase": phase, "dur_ns": dur} for i, (phase, dur) in
            enumerate(times)
        ]  # fmt: skip
        content = {"schema_version": 1, "device": device, "steps": steps} | manifest
        (tmp_path / "run.json").write_text(json.dumps(content))
        return tmp_path

    return write


def fixes(folder):
    return {row["aspect"]: row["fix"] for row in lint.lint(folder).iter_rows(named=True)}


def test_each_gap_has_the_option_that_closes_it(run):
    found = fixes(run())
    assert found["shapes"].startswith("leave out --no-shapes")
    assert found["memory"] == "leave out --no-memory"
    assert found["modules, frames"].startswith("add --stacks")


def test_what_was_recorded_is_not_asked_for_nor_what_a_cpu_has_not(run):
    found = fixes(run(dims=[[2, 2]]))
    assert "shapes" not in found
    assert not {"activity", "occupancy", "grid", "counters", "collectives"} & set(found)


def test_a_run_on_a_gpu_without_its_activities_says_so(run):
    found = fixes(run(device="cuda:0"))
    assert found["accelerator, launches"].startswith("`workbench doctor`")


def test_what_the_run_folder_says_is_told_as_well(run):
    folder = run(times=PAIR[1:], lost={"dropped_records": 3})
    found = fixes(folder)
    assert "--untraced 5" in found[FEW]
    text = lint.lines(folder, lint.lint(folder))
    assert text[0] == f"{len(found)} things to know (all of it: workbench show {folder} trust)"
    (told,) = (line for line in text if line.startswith(f"  {LOST}: "))
    assert told.startswith(
        f"  {LOST}: 3 times: activity records were dropped -> record fewer steps"
    )


def test_a_large_trace_is_not_read_unasked(run, monkeypatch):
    folder = run(lost={"dropped_records": 3})
    monkeypatch.setattr(lint, "LARGEST", 10)
    monkeypatch.setattr(lint, "open_source", None)
    assert list(fixes(folder)) == [LOST]


def test_nothing_to_say_is_no_line(run):
    folder = run()
    assert lint.lines(folder, lint.lint(folder).clear()) == []
    assert lint.lines(folder, lint.lint(folder)[:1])[0].startswith("1 thing to know")
