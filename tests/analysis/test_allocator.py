"""Allocator calls and fragmentation: tiny recordings whose answers stand in comments."""

import pickle

import polars as pl
import pytest
from tinytrace import allocation, call, kernel, mark, op, step, write

import workbench as wb
from workbench import show
from workbench.errors import UsageError

US = 1000
KIB = 1024


def python(name, ts, dur, number, parent=None):
    args = {"Python id": number, "Python parent id": parent}
    return mark(name, ts, dur, **args) | {"cat": "python_function"}


@pytest.fixture
def trace(tmp_path):
    """Two cudaMalloc, a cudaFree and a question, beside a kernel that runs 30-60.

    malloc      10..18      55....65     (and 205 after the steps)
    free                        70..72
    meminfo  2-3
    kernel           30........60
    """
    return wb.open(
        write(
            tmp_path,
            [
                step(1, 0, 100),
                python("train.py(3): step", 1, 98, 1),
                python("model.py(9): forward", 5, 60, 2, 1),
                python("<built-in method empty of type object at 0x7f>", 6, 50, 3, 2),
                op("aten::linear", 8, 20),
                op("aten::mm", 9, 15),
                op("aten::add", 52, 14),
                call("cudaMemGetInfo", 2, 1, 0),
                call("cudaMalloc", 10, 8, 0),
                call("cudaLaunchKernel", 20, 2, 1),
                call("cudaMalloc", 55, 10, 0),
                call("cudaFree", 70, 2, 0),
                call("cudaMalloc", 205, 9, 0),
                kernel("gemm", 30, 30, 1),
            ],
        )
    )


def test_each_call_with_who_made_it(trace):
    columns = ("name", "start_ns", "dur_ns", "idle_ns", "step", "op", "outer_op", "frame")
    assert wb.allocator(trace).select(columns).rows() == [
        # of 55-65 the kernel runs until 60
        ("cudaMalloc", 55 * US, 10 * US, 5 * US, 1, "aten::add", "aten::add",
         "model.py(9): forward"),
        ("cudaMalloc", 10 * US, 8 * US, 8 * US, 1, "aten::mm", "aten::linear",
         "model.py(9): forward"),
        ("cudaFree", 70 * US, 2 * US, 2 * US, 1, None, None, "train.py(3): step"),
        ("cudaMemGetInfo", 2 * US, 1 * US, 1 * US, 1, None, None, "train.py(3): step"),
    ]  # fmt: skip
    assert wb.allocator(trace, window="all").height == 5
    assert wb.allocator(trace, within=(0, 11 * US)).height == 2


def test_calls_by_cause(trace):
    found = wb.allocator_causes(trace, window="all")
    columns = ("name", "op", "frame", "calls", "total_ns", "max_ns", "idle_ns", "share")
    assert found.select(columns).rows()[:2] == [
        ("cudaMalloc", "aten::add", "model.py(9): forward", 1, 10 * US, 10 * US, 5 * US, 1 / 3),
        ("cudaMalloc", None, None, 1, 9 * US, 9 * US, 9 * US, 0.3),
    ]
    assert found["share"].sum() == pytest.approx(1)
    assert found["total_ns"].sum() == 30 * US


def test_a_recording_without_calls_says_so(tmp_path):
    bare = wb.open(write(tmp_path, [step(1, 0, 90), op("aten::mm", 5, 9)]))
    assert wb.allocator(bare).is_empty()
    assert wb.allocator_causes(bare).is_empty()
    assert "no runtime calls" in show.about(bare, "allocator", show.Choice())["reason"]


def test_the_window_that_is_said_is_the_one_that_was_used(trace):
    assert show.about(trace, "allocator", show.Choice())["window"] == "host"
    assert show.about(trace, "breakdown", show.Choice())["window"] == "steps"
    assert show.about(trace, "allocator", show.Choice(window="all"))["window"] == "all"


def segment(size, used, blocks, **more):
    listed = [{"size": abs(b), "state": "inactive" if b < 0 else "active_allocated"}
              for b in blocks]  # fmt: skip
    return {"device": 0, "address": 4096, "total_size": size, "allocated_size": used,
            "active_size": used, "requested_size": used - 24 if used else 0, "stream": 0,
            "segment_type": "large", "segment_pool_id": (0, 0), "blocks": listed,
            "frames": [], **more}  # fmt: skip


def snapshot(folder, *segments):
    path = folder / "s.pickle"
    path.write_bytes(pickle.dumps({"segments": list(segments), "device_traces": [[]]}))
    return wb.open(path)


def test_segments_by_kind(tmp_path):
    trace = snapshot(
        tmp_path,
        # 100 reserved, 60 used: gaps of 30 and 10
        segment(100 * KIB, 60 * KIB, [20 * KIB, -30 * KIB, 40 * KIB, -10 * KIB]),
        # nothing used: it can be given back whole
        segment(50 * KIB, 0, [-50 * KIB]),
        segment(2 * KIB, 2 * KIB, [2 * KIB], segment_type="small"),
    )
    large, small = wb.fragmentation(trace).rows(named=True)
    assert large == {
        "rank": None,
        "device": 0,
        "kind": "large",
        "pool": "[0,0]",
        "stream": 0,
        "segments": 2,
        "reserved_bytes": 150 * KIB,
        "allocated_bytes": 60 * KIB,
        "active_bytes": 60 * KIB,
        "requested_bytes": 60 * KIB - 24,
        "free_bytes": 90 * KIB,
        "releasable_bytes": 50 * KIB,
        "inactive_split_bytes": 40 * KIB,
        "largest_free_bytes": 50 * KIB,
        "rounding_bytes": 24,
        "fragmented_share": 40 / 150,
        "reason": None,
    }
    assert (small["free_bytes"], small["largest_free_bytes"], small["fragmented_share"]) == (
        0,
        0,
        0,
    )
    assert wb.fragmentation(trace, device=0).height == 2
    with pytest.raises(UsageError, match="no device 1"):
        wb.fragmentation(trace, device=1)


def test_what_a_segment_does_not_say_is_null(tmp_path):
    trace = snapshot(
        tmp_path, segment(100, 60, []), segment(50, 0, [], active_size=None, requested_size=None)
    )
    (row,) = wb.fragmentation(trace).rows(named=True)
    assert (row["reserved_bytes"], row["allocated_bytes"]) == (150, 60)
    unknown = ("active_bytes", "requested_bytes", "free_bytes", "releasable_bytes",
               "inactive_split_bytes", "largest_free_bytes", "rounding_bytes",
               "fragmented_share")  # fmt: skip
    assert [row[n] for n in unknown] == [None] * len(unknown)
    assert "largest free one is unknown" in row["reason"]


def test_without_history_the_summary_has_the_state_at_the_end(tmp_path):
    trace = snapshot(tmp_path, segment(100, 60, []))
    (row,) = wb.memory(trace).rows(named=True)
    assert (row["allocated_at_end_bytes"], row["reserved_at_end_bytes"]) == (60, 100)
    assert row["peak_allocated_bytes"] is None
    assert "recording was not enabled" in row["reason"]
    assert wb.memory(trace, device=0).height == 1


def test_totals_stand_in_for_segments(tmp_path):
    events = [op("aten::mm", 0, 9), allocation(5, 100, 16, 300, reserved=800),
              allocation(6, -100, 16, 200, reserved=900), kernel("k", 3, 5)]  # fmt: skip
    (row,) = wb.fragmentation(wb.open(write(tmp_path, events))).rows(named=True)
    known = ("device", "reserved_bytes", "allocated_bytes", "largest_free_bytes", "segments")
    assert [row[n] for n in known] == [0, 900, 200, None, None]
    assert "take a snapshot" in row["reason"]


def test_a_recording_of_host_memory_has_no_fragmentation(tmp_path):
    host = [op("aten::mm", 0, 9), allocation(5, 100, 16, 100, kind=0, device=-1)]
    trace = wb.open(write(tmp_path, host))
    assert wb.fragmentation(trace).is_empty()
    assert (
        "segments are not recorded" in show.about(trace, "fragmentation", show.Choice())["reason"]
    )
    assert isinstance(wb.fragmentation(trace), pl.DataFrame)
