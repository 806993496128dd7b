"""Time spent on recomputation, worked out by hand and beside TraceLens's asserted split."""

import csv

import pytest
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.analysis import needs

US = 1000
NODE = "autograd::engine::evaluate_function: CheckpointFunctionBackward"


@pytest.fixture
def trace(tmp_path):
    """A forward relu, and below a backward node the same again with a memset.

    host 1   relu 10-14
    host 2   node 20...60   linear 24-34 with addmm 26-32, then relu 40-44
    device   forward 12-22   again: set 30-34, addmm 32-42, relu 50-60   (W = 12-60, A = 40)
    """
    forward, again = {"Sequence number": 1}, {"Sequence number": 9}
    back = {"Sequence number": 1, "Fwd thread id": 1}
    events = [
        step(1, 0, 100),
        op("aten::relu", 10, 4, **forward),
        call("cudaLaunchKernel", 11, 1, 1),
        op(NODE, 20, 40, 2, **back),
        op("aten::linear", 24, 10, 2, **again),
        op("aten::addmm", 26, 6, 2, **again),
        call("cudaMemsetAsync", 27, 1, 2, 2),
        call("cudaLaunchKernel", 29, 1, 3, 2),
        op("aten::relu", 40, 4, 2, **again),
        call("cudaLaunchKernel", 41, 1, 4, 2),
        kernel("relu", 12, 10, 1),
        kernel("Memset (Device)", 30, 4, 2, cat="gpu_memset"),
        kernel("gemm", 32, 10, 3, stream=8),
        kernel("relu", 50, 10, 4),
    ]
    return wb.open(write(tmp_path, events))


def test_recompute(trace):
    found = wb.recompute(trace)
    columns = ("op", "calls", "count", "device_ns", "kernel_ns", "host_ns")
    assert found.select(columns).rows() == [
        (None, 3, 3, 22 * US, 20 * US, 14 * US),  # 30-42, 50-60; 32-42, 50-60
        ("aten::addmm", 1, 2, 12 * US, 10 * US, 6 * US),
        ("aten::relu", 1, 1, 10 * US, 10 * US, 4 * US),
        ("aten::linear", 1, 0, 0, 0, 4 * US),
    ]
    # |A| = 10 + 12 + 10; operators: 4 forward, 40 of the node with what is in it
    assert found["device_share"][0] == pytest.approx(22 / 32)
    assert found["host_share"][0] == pytest.approx(14 / 44)


def test_a_range_of_time(trace):
    found = wb.recompute(trace, window="all", within=(25 * US, 33 * US))
    assert found.select("op", "calls", "count", "device_ns", "kernel_ns").rows() == [
        (None, 1, 2, 3 * US, 1 * US),  # 30-33; 32-33
        ("aten::addmm", 1, 2, 3 * US, 1 * US),
    ]


def test_training_without_recomputation_has_a_row_of_zeros(tmp_path):
    events = [op("aten::mm", 0, 4, **{"Sequence number": 1}), call("cudaLaunchKernel", 1, 1, 1),
              kernel("k", 5, 5, 1)]  # fmt: skip
    (row,) = wb.recompute(wb.open(write(tmp_path, events))).rows(named=True)
    assert (row["op"], row["device_ns"], row["device_share"], row["calls"]) == (None, 0, 0, 0)


def test_without_autograd_numbers_nothing_is_known(tmp_path):
    events = [op("aten::mm", 0, 4), call("cudaLaunchKernel", 1, 1, 1), kernel("k", 5, 5, 1)]
    trace = wb.open(write(tmp_path, events))
    assert wb.recompute(trace).is_empty()
    (why,) = needs.unmet(trace, needs.of("workbench.analysis.recompute"))
    assert "sequence number" in why


def test_host_execution(tmp_path):
    back = {"Sequence number": 1, "Fwd thread id": 1}
    events = [op("aten::mm", 0, 10, **{"Sequence number": 1}), op(NODE, 20, 30, **back),
              op("aten::mm", 25, 10, **{"Sequence number": 2})]  # fmt: skip
    found = wb.recompute(wb.open(write(tmp_path, events)))
    assert found.select("op", "calls", "count", "device_ns").rows() == [
        (None, 1, 1, 10 * US),
        ("aten::mm", 1, 1, 10 * US),
    ]


@pytest.mark.corpus
def test_tracelens_split_of_a_checkpointed_run(corpus):
    name = "mi300_resnet_ddp_act_checkpoint_rank0_of_8"
    folder = corpus / "traces" / "tracelens"
    with (folder / "expected" / name / "gpu_timeline.csv").open() as lines:
        rows = csv.DictReader(lines)
        asserted = {(r["type"], r["is_recompute"]): float(r["time ms"]) for r in rows}
    source = wb.open(folder / f"{name}.json.gz")
    (whole,) = wb.recompute(source, window="all").head(1).rows(named=True)
    # its times pass through floats of four bytes: good to a microsecond
    assert whole["kernel_ns"] / 1e6 == pytest.approx(asserted["computation_time", "True"], abs=1e-3)
    # it leaves sets out, so what it calls busy is computation; 24 of 3.7 us belong to recomputation
    assert asserted["busy_time", "True"] == asserted["computation_time", "True"]
    assert whole["device_ns"] - whole["kernel_ns"] == 87_735
    again = source.activities.filter(source.activities["phase"] == "recomputation")
    span = (again["start_ns"] + again["dur_ns"]).max() - again["start_ns"].min()
    assert span / 1e6 == pytest.approx(asserted["total_time", "True"], abs=1e-6)
    # in complete steps as in the whole file: all of it is in them
    assert wb.recompute(source)["device_ns"][0] == whole["device_ns"]


@pytest.mark.corpus
@pytest.mark.parametrize(
    "file",
    ["hta/trace_diff_control_a100_rank3_of_8.json.gz", "nsys/nsys_ai_mfu_2gpu_before.sqlite"],
)
def test_recorded_runs_without_recomputation(corpus, file):
    found = wb.recompute(wb.open(corpus / "traces" / file))
    assert found["op"].is_null().all()
    assert found["device_ns"].sum() == 0
