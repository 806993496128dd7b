"""What the explorer says of a source, worked out by hand on a run of two ranks."""

import polars as pl
import pytest
from tinytrace import allocation, call, kernel, op, step, write
from views.traces import trace

import workbench as wb
from workbench.errors import UsageError
from workbench.panels.answers import Answers
from workbench.panels.choice import Choice
from workbench.panels.details import details

US = 1000


@pytest.fixture
def job(tmp_path):
    """Two ranks, two steps each; step 1 is [10, 110) on both devices.

    rank 0   gemm 10-60     nccl 50-70           gemm 110-150
    rank 1   gemm 10-30     nccl 50-70           gemm 110-150
    """
    for rank, gemm in ((0, 50), (1, 20)):
        calls = [call("cudaLaunchKernel", t, 1, c) for t, c in ((1, 1), (3, 2), (95, 3))]
        shapes = {"Input Dims": [[4, 8], []], "Input type": ["float", "Scalar"]}
        events = [
            step(1, 0, 90),
            step(2, 90, 80),
            op("aten::mm", 0, 3, **shapes),
            *calls,
            kernel("gemm<float>", 10, gemm, 1, device=rank),
            kernel("ncclDevKernel_AllReduce", 50, 20, 2, stream=20, device=rank),
            kernel("gemm<float>", 110, 40, 3, device=rank),
        ]
        info = {"rank": rank, "world_size": 2, "backend": "nccl"}
        write(tmp_path, events, f"rank{rank}.json", distributedInfo=info,
              deviceProperties=[{"id": rank, "name": "GPU X"}])  # fmt: skip
    return wb.open(tmp_path)


def test_headline_of_two_ranks(job):
    # busy 60 and 40 of 100 each; exposed communication 60-70 on rank 0, 50-70 on rank 1
    assert Answers(job, Choice(step=(1, 1))).headline == (
        "window 100 us (1 step, mean of 2); "
        "busy 50.0 % (40.0 to 60.0 %); "
        "compute 35.0 % (20.0 to 50.0 %); "
        "exposed communication 15.0 % (10.0 to 20.0 %); "
        "exposed copy 0.0 % (0.0 to 0.0 %); "
        "idle 50.0 % (40.0 to 60.0 %); "
        "step 100 us (median); "
        "device GPU X (2 ranks)"
    )


def test_headline_of_one_rank_and_a_range(job):
    # 20-70 of rank 1: gemm 20-30, nccl 50-70
    answers = Answers(job, Choice(rank=1, step=(2, 2), within=(20 * US, 70 * US)))
    assert answers.headline.startswith(
        "window 50 us (the selected range); busy 60.0 % (30 us); compute 20.0 % (10 us); "
        "exposed communication 40.0 % (20 us); "
    )
    assert answers["kernels"].select("rank", "name", "count", "total_ns").rows() == [
        (1, "ncclDevKernel_AllReduce", 1, 20 * US),
        (1, "gemm<float>", 0, 10 * US),
    ]
    # the roofline looks at whole activities: those that start in the range
    assert answers["coverage"]["device_ns"].to_list() == [20 * US]


def test_frames_are_computed_once_and_named(job):
    answers = Answers(job, Choice())
    assert answers["summary"] is answers["summary"]
    assert list(answers) == [
        "summary", "selected", "breakdown", "leads", "mfu", "energy", "steps", "waterfall_mean",
        "kernels", "ops", "modules", "phases", "idle", "idle_causes", "launches", "queue_depth",
        "overlap", "groups", "collectives", "exposed", "memory_timeline", "memory_peak", "roofline",
        "recoverable", "coverage", "counters", "counter_roofline", "problems", "trust", "notes",
        "compare", "compare_part", "compare_family", "compare_kernel", "compare_operator",
        "compare_host",
    ]  # fmt: skip
    assert repr(answers).startswith("Answers(summary, ")


def test_gaps_and_the_mean_step_follow_a_range(job):
    # rank 0 is idle in 70-110; of 80-130 lies 80-110, and of the steps 80-110 and 110-130
    whole = Answers(job, Choice(rank=0, step=(1, 1)))
    assert whole["idle"].select("start_ns", "dur_ns").rows() == [(70 * US, 40 * US)]
    parts = whole["waterfall_mean"].group_by("part").agg(pl.col("mean_ns").sum()).rows()
    assert dict(parts) == {
        "compute": 50 * US, "exposed_communication": 10 * US, "exposed_copy": 0, "idle": 40 * US,
    }  # fmt: skip
    ranged = Answers(job, Choice(rank=0, within=(80 * US, 130 * US)))
    assert ranged["idle"].select("start_ns", "dur_ns").rows() == [(80 * US, 30 * US)]
    assert ranged["idle_causes"]["time_ns"].sum() == 30 * US
    assert ranged["steps"].equals(whole["steps"])


def test_what_the_recording_lacks_is_said_with_how_to_record_it(job):
    answers = Answers(job, Choice())
    assert answers.lacking("memory_peak") == (
        "No memory events are recorded; record with profile_memory=True.",
    )
    assert answers.lacking("modules") == (
        (
            "Modules are not recorded; record with with_stack=True or with_modules=True, or mark "
            "them with NVTX ranges."
        ),
    )
    assert answers.lacking("idle") == ()
    assert answers.lacking("coverage") == ()


def test_memory_is_of_the_hosts_steps(tmp_path):
    # host steps 0-100 and 100-200; 8 B come at 10, 16 B more at 150
    events = [
        step(1, 0, 100), step(2, 100, 100),
        op("aten::a", 5, 10), allocation(10, 8, 1, 8),
        op("aten::b", 145, 10), allocation(150, 16, 2, 24),
        *(call("cudaLaunchKernel", t, 1, c) for c, t in ((1, 7), (2, 147))),
        kernel("k", 20, 10, 1), kernel("k", 160, 10, 2),
    ]  # fmt: skip
    trace = wb.open(write(tmp_path, events))
    for window in ("steps", "steady", "host"):
        answers = Answers(trace, Choice(window=window, step=(1, 1)))
        assert answers["memory_peak"]["peak_bytes"].unique().to_list() == [8]
        assert answers["memory_timeline"]["allocated_bytes"].max() == 8
    held = Answers(trace, Choice())["memory_peak"].filter(pl.col("by") == "op")
    assert held.select("name", "bytes").rows() == [("aten::b", 16), ("aten::a", 8)]
    ranged = Answers(trace, Choice(step=(1, 1), within=(120 * US, 180 * US)))
    assert ranged["memory_peak"]["peak_bytes"].unique().to_list() == [24]


def test_an_empty_range_is_said(job):
    assert Answers(job, Choice(within=(0, 0))).headline == (
        "window empty (no device time in it); device GPU X (2 ranks)"
    )


def test_host_execution_and_a_trace_without_steps_are_noted(tmp_path):
    trace = wb.open(write(tmp_path, [op("aten::mm", 0, 10)]))
    answers = Answers(trace, Choice())
    assert answers.headline.endswith("device CPU (host execution, 1 rank)")
    assert "the whole trace" in answers.headline
    (note,) = answers.notes
    assert "no GPU activity in this trace" in note
    assert "the window is the whole trace" in note
    assert note[0].isupper()
    assert note.endswith(".")


def test_details_of_a_kernel(job):
    found = dict(details(job, {"table": "activities", "rank": 1, "id": 0}).iter_rows())
    assert found == {
        "name": "gemm<float>",
        "what": "kernel",
        "rank": "1",
        "duration": "20 us",
        "start": "10 us",
        "device": "1",
        "stream": "7",
        "launched by": "cudaLaunchKernel, 1 us",
        "queued": "8 us",  # the call ends at 2, the kernel starts at 10
        "operator": "aten::mm",
        "input shapes": "4x8 float",
        "step": "1",
        "phase": "forward",
    }


def test_details_of_others(job):
    step_one = dict(details(job, {"table": "steps", "rank": 0, "id": 0}).iter_rows())
    assert (step_one["name"], step_one["duration"], step_one["host range"]) == (
        "step 1", "100 us", "90 us",
    )  # fmt: skip
    mm = dict(details(job, {"table": "ops", "rank": 0, "id": 0}).iter_rows())
    assert (mm["name"], mm["duration"], mm["self"]) == ("aten::mm", "3 us", "2 us")
    assert details(job, {}).is_empty()
    with pytest.raises(UsageError, match="no row 999"):
        details(job, {"table": "ops", "rank": 0, "id": 999})


def test_details_of_a_wait_name_a_stream_only_where_there_is_one():
    waits = [
        {
            "name": "Sync",
            "domain": "cuda_sync",
            "device": 0,
            "stream": s,
            "start_ns": 0,
            "dur_ns": 1,
        }
        for s in (7, 4294967295)
    ]
    source = trace(rank=0, ranges=waits)
    told = [dict(details(source, {"table": "ranges", "rank": 0, "id": k}).rows()) for k in (0, 1)]
    assert [(d["device"], d.get("stream")) for d in told] == [("0", "7"), ("0", None)]
