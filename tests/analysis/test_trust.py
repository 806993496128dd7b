"""What a recording can answer: each row against a recording made for it."""

from pathlib import Path

import polars as pl
import pytest
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench import show
from workbench.analysis import needs
from workbench.analysis.names import ANALYSES
from workbench.capture.overhead import Overhead
from workbench.capture.remarks import Remark, Remarks


def rows(frame):
    return {r["aspect"]: r for r in frame.rows(named=True)}


@pytest.fixture
def linked(tmp_path):
    """A kernel of 30 us with launch and operator, one of 10 us without."""
    events = [op("aten::mm", 0, 20), call("cudaLaunchKernel", 5, 5, 1), kernel("gemm", 30, 30, 1),
              kernel("stray", 80, 10)]  # fmt: skip
    return wb.open(write(tmp_path, events))


def test_what_is_recorded_and_what_is_not(linked):
    found = rows(wb.trust(linked))
    assert {n: found[n]["state"] for n in ("activity", "launches", "ops", "shapes", "frames")} == {
        "activity": "yes",
        "launches": "yes",
        "ops": "yes",
        "shapes": "no",
        "frames": "no",
    }
    assert found["shapes"]["advice"] == "record with record_shapes=True"


def test_linked_time(linked):
    found = rows(wb.trust(linked))["activities with a launch"]
    assert (found["state"], found["detail"]) == ("partly", "75.0 % of the activities' time")


def test_the_clock(linked, tmp_path):
    assert rows(wb.trust(linked))["clock resolution"]["state"] == "partly"
    fine = wb.open(write(tmp_path, [kernel("k", 0, 1.5)], "fine.json"))
    assert rows(wb.trust(fine))["clock resolution"]["state"] == "yes"


def test_faults_are_repeated(linked):
    fault = rows(wb.trust(linked))["launch_missing"]
    assert (fault["state"], fault["detail"]) == ("fault", "1 times; first: stray")


def test_some_ranks_lack_it(tmp_path):
    write(tmp_path, [op("aten::mm", 0, 20, **{"Input Dims": [[2, 2]]})], "rank0.json")
    write(tmp_path, [op("aten::mm", 0, 20)], "rank1.json")
    found = rows(wb.trust(wb.open(tmp_path)))["shapes"]
    assert (found["state"], found["detail"]) == ("partly", "operators have no shapes on ranks 1")


def test_steps(tmp_path):
    # the recording ends inside step 1
    events = [step(0, 0, 100), step(1, 100, 100), op("aten::mm", 10, 10), op("aten::mm", 110, 10)]
    found = rows(wb.trust(wb.open(write(tmp_path, events))))
    assert found["complete steps"]["detail"].endswith("of 2")


def test_what_profiling_cost(linked):
    assert rows(wb.trust(linked))["cost of profiling"]["state"] == "no"
    cost = Overhead(1.5e6, 1e6, 4, 4, ratio=0.5, low=0.4, high=0.6)
    found = rows(wb.trust(linked, overhead=cost))["cost of profiling"]
    assert found["detail"] == "traced steps take +50.0 % (95 %: +40.0 to +60.0)"


def test_without_untraced_steps_the_cost_is_unknown_and_the_fix_is_named(linked):
    cost = Overhead(1.5e6, None, 4, 0, reason="the run has no untraced steps")
    found = rows(wb.trust(linked, overhead=cost))["cost of profiling"]
    assert (found["state"], found["detail"]) == ("no", "the run has no untraced steps")
    assert "--untraced" in found["advice"]


def test_the_profilers_own_work(tmp_path):
    # steps 0-100 and 100-200; overhead 90-110, of which all lies in the two complete steps
    own = op("Activity Buffer Request", 90, 20) | {"cat": "overhead"}
    events = [step(0, 0, 100), step(1, 100, 100), own, op("a", 0, 200), op("b", 0, 300, tid=2)]
    found = rows(wb.trust(wb.open(write(tmp_path, events))))["the profiler's own work"]
    assert found["detail"] == "1 times, 20 us together"
    assert found["advice"].startswith("20 us of it within complete steps")


def test_launches_whose_kernels_are_not_recorded(tmp_path):
    # three launches of kernels, of which the last has none; the copy's call does not count
    events = [call("cudaLaunchKernel", 0, 5, 1), call("cudaLaunchKernel", 10, 5, 2),
              call("cudaLaunchKernel", 20, 5, 3), call("cudaMemcpyAsync", 30, 5, 4),
              kernel("a", 30, 30, 1), kernel("b", 60, 10, 2)]  # fmt: skip
    found = rows(wb.trust(wb.open(write(tmp_path, events))))["launches with an activity"]
    assert (found["state"], found["detail"]) == ("partly", "2 of 3 (66.7 %)")
    assert "dropped" in found["advice"]


def test_launches_of_a_captured_graph_have_no_kernel_by_nature(tmp_path):
    # a launch while the graph was captured, then the graph's own launch and its kernel
    events = [call("cudaLaunchKernel", 0, 5, 1), call("cudaGraphLaunch", 10, 5, 2),
              kernel("a", 30, 30, 2)]  # fmt: skip
    found = rows(wb.trust(wb.open(write(tmp_path, events))))["launches with an activity"]
    assert (found["state"], found["detail"]) == ("partly", "1 of 2 (50.0 %)")
    assert found["advice"].endswith("launches while a CUDA graph is captured have none by nature")


def test_all_launches_have_their_kernel(tmp_path):
    events = [call("cudaLaunchKernel", 0, 5, 1), kernel("a", 30, 30, 1)]
    found = rows(wb.trust(wb.open(write(tmp_path, events))))["launches with an activity"]
    assert (found["state"], found["advice"]) == ("yes", None)


def test_how_a_recording_went(linked):
    said = Remarks((Remark("warm-up", "partly", "uneven", "allow more"),))
    found = rows(wb.trust(linked, remarks=said))["warm-up"]
    assert (found["state"], found["detail"], found["advice"]) == ("partly", "uneven", "allow more")


def test_a_run_folder_knows_its_overhead():
    run = wb.open(Path(__file__).parents[2] / "data" / "gpt_tiny_cpu")
    found = rows(show.frame(run, "trust", show.Choice()))["cost of profiling"]
    assert found["detail"].startswith("traced steps take +")


def test_every_need_is_declared_by_name():
    for module in set(ANALYSES.values()):
        assert set(needs.of(module)) <= set(needs.NEEDS), module


def test_show_says_what_is_missing(tmp_path):
    trace = wb.open(write(tmp_path, [kernel("k", 0, 5)]))
    reason = show.about(trace, "step_times", show.Choice())["reason"]
    assert "call profiler.step() once a step" in reason


def test_without_an_accelerator_nothing_else_of_it_is_asked_for(tmp_path):
    trace = wb.open(write(tmp_path, [op("aten::mm", 0, 20)]))
    for name in ("queue", "syncs"):
        reason = show.about(trace, name, show.Choice())["reason"]
        assert reason.endswith("record on a machine with an accelerator")


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    ["hta/mtia_inference_rank0.json.gz", "nsys/nsys_ai_mock.sqlite", "param/linear_et.json.gz"],
)
def test_other_makers(corpus, name):
    frame = wb.trust(wb.open(corpus / "traces" / name))
    assert set(needs.NEEDS) <= set(frame["aspect"])
    assert frame.filter(pl.col("detail").is_null()).is_empty()
