"""Memory of a tiny trace, worked out by hand; blocks and levels against a walk over the rows."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinytrace import allocation, call, kernel, op, step, write

import workbench as wb
from workbench.analysis import memory_timeline as timeline
from workbench.analysis import pools
from workbench.errors import UsageError
from workbench.trace import schema
from workbench.trace.core import Trace, TraceMeta

US = 1000


def module(name, ts, dur):
    args = {"Python id": 1, "Python module id": 1}
    return op(f"nn.Module: {name}", ts, dur) | {"cat": "python_function", "args": args}


EVENTS = [
    step(1, 0, 100),
    step(2, 100, 100),
    op("aten::linear", 10, 30),
    op("aten::addmm", 15, 20),
    op("autograd::engine::evaluate_function: AddmmBackward0", 60, 30),
    op("aten::mm", 65, 10),
    op("Optimizer.step#Adam.step", 110, 20),
    call("cudaMalloc", 18, 6, 0),
    call("cudaLaunchKernel", 30, 2, 1),
    call("cudaLaunchKernel", 70, 2, 2),
    call("cudaLaunchKernel", 120, 2, 3),
    kernel("gemm", 33, 40, 1),
    kernel("dgrad", 75, 5, 2),
    kernel("adam", 125, 10, 3),
]
MEMORY = [
    # 1000 is from before: address 8 (400) is freed at 80, the rest never
    allocation(20, 600, 16, 1600, reserved=4000),  # addmm
    allocation(45, 100, 32, 1700, reserved=4000),  # no operator
    allocation(68, 300, 64, 2000, reserved=5000),  # mm: the peak
    allocation(80, -400, 8, 1600, reserved=5000),
    allocation(85, -600, 16, 1000, reserved=5000),
    allocation(90, 200, 16, 1200, reserved=5000),  # backward, at the address of addmm's block
    allocation(112, 50, 32, 1250, reserved=5000),  # 32 again without a free: its 100 are lost
    allocation(150, -300, 64, 950, reserved=5000),
    allocation(50, 8, 9, 8, kind=0, device=-1),  # host memory
]


@pytest.fixture
def trace(tmp_path):
    return wb.open(write(tmp_path, [*EVENTS, *MEMORY]))


def test_the_summary_of_a_device(trace):
    row = wb.memory(trace).row(0, named=True)
    assert row == {
        "rank": None,
        "device": 0,
        "place": "device",
        "window": "host",
        "peak_allocated_bytes": 2000,
        "peak_above_start_bytes": 1000,
        "peak_t_ns": 68 * US,
        "peak_step": 1,
        "peak_phase": "backward",
        "peak_op": "aten::mm",
        "peak_running": "gemm",  # 33-73
        "allocated_at_start_bytes": 1000,
        "allocated_at_end_bytes": 950,
        "peak_reserved_bytes": 5000,
        "reserved_at_end_bytes": 5000,
        "reserved_rises": 1,
        "unused_at_peak_share": 1 - 2000 / 5000,
        "allocations": 5,
        "frees": 3,
        "allocated_bytes": 1250,
        "freed_bytes": 1300,
        "early_frees": 1,
        "lost_frees": 1,
        "not_freed": 2,  # 200 at address 16 and 50 at 32
        "not_freed_bytes": 250,
        "allocator_calls": 1,
        "allocator_ns": 6 * US,
        "reason": None,
    }


def test_host_memory_stands_last_and_reserves_nothing(trace):
    row = wb.memory(trace).row(1, named=True)
    assert (row["device"], row["place"], row["peak_allocated_bytes"]) == (None, "host", 8)
    assert row["peak_reserved_bytes"] is row["allocator_calls"] is None
    assert "from the profiler's start" in row["reason"]
    assert wb.memory(trace, device=0).height == 1


def test_a_window_begins_with_what_is_allocated_already(trace):
    # step 2 is 100-200: it begins with 1200, and only 50 come before 300 go
    row = wb.memory(trace, step=(2, 2), device=0).row(0, named=True)
    keys = ("allocated_at_start_bytes", "peak_allocated_bytes", "peak_t_ns", "peak_step")
    assert [row[k] for k in keys] == [1200, 1250, 112 * US, 2]
    later = wb.memory(trace, within=(160 * US, 200 * US), device=0).row(0, named=True)
    # nothing happens after 150, so the level that the window begins with is its peak
    assert [later[k] for k in keys] == [950, 950, 160 * US, 2]
    assert (later["allocations"], later["peak_op"]) == (0, None)
    with pytest.raises(UsageError):
        wb.memory(trace, device=3)


def test_times_are_those_of_the_job(tmp_path):
    for rank, base in ((0, 0), (1, 5_000)):
        info = {"distributedInfo": {"rank": rank, "world_size": 2}}
        write(tmp_path, [*EVENTS, *MEMORY], f"rank{rank}.json", baseTimeNanoseconds=base, **info)
    found = wb.memory(wb.open(tmp_path), device=0)
    assert found.select("rank", "peak_t_ns").rows() == [(0, 68 * US), (1, 73 * US)]
    assert wb.memory(wb.open(tmp_path), rank=1, device=0)["rank"].to_list() == [1]


def test_one_device_under_two_numbers_is_one(tmp_path):
    # the process sees one device as its first; the machine calls it 2
    events = [e for e in EVENTS if e["cat"] != "kernel"] + [kernel("gemm", 33, 40, 1, device=2)]
    seen = wb.open(write(tmp_path, [*events, *MEMORY]))
    found = wb.memory(seen, device=2).row(0, named=True)
    assert (found["device"], found["peak_running"]) == (2, "gemm")
    assert wb.memory(seen)["device"].to_list() == [2, None]


def test_without_memory_events_there_is_a_reason_and_no_level(tmp_path):
    bare = wb.open(write(tmp_path, EVENTS))
    (row,) = wb.memory(bare).rows(named=True)
    assert (row["device"], row["allocator_calls"], row["allocator_ns"]) == (0, 1, 6 * US)
    assert (
        row["peak_allocated_bytes"] is row["allocated_at_end_bytes"] is row["allocations"] is None
    )
    assert row["reason"] == "no memory events are recorded; record with profile_memory=True"
    assert wb.memory_timeline(bare).is_empty()
    assert wb.memory_peak(bare).is_empty()


def test_without_totals_and_addresses_changes_are_known(tmp_path):
    old = [
        allocation(t, size, None, None, reserved=None)
        for t, size in ((20, 600), (30, 300), (40, -900))
    ]
    trace = wb.open(write(tmp_path, [*EVENTS, *old]))
    (row,) = wb.memory(trace).rows(named=True)
    assert row["peak_allocated_bytes"] is None
    assert (row["peak_above_start_bytes"], row["peak_t_ns"]) == (900, 30 * US)
    assert row["not_freed"] is row["early_frees"] is row["peak_reserved_bytes"] is None
    for reason in (pools.NO_TOTALS, "no addresses", "reserved memory is not recorded"):
        assert reason in row["reason"]
    points = wb.memory_timeline(trace)
    assert points["above_start_bytes"].to_list() == [0, 600, 900, 0]
    assert points["allocated_bytes"].null_count() == points["held_bytes"].null_count() == 4
    (peak,) = wb.memory_peak(trace).rows(named=True)
    assert (peak["bytes"], peak["share"]) == (None, None)
    assert "no addresses" in peak["reason"]


def test_the_timeline_row_by_row(trace):
    found = wb.memory_timeline(trace, device=0)
    columns = ("t_ns", "change_bytes", "allocated_bytes", "reserved_bytes", "step", "op", "running")
    assert found.select(columns).rows() == [
        (0, 0, 1000, 4000, 1, None, None),
        (20 * US, 600, 1600, 4000, 1, "aten::addmm", None),
        (45 * US, 100, 1700, 4000, 1, None, "gemm"),
        (68 * US, 300, 2000, 5000, 1, "aten::mm", "gemm"),
        (80 * US, -400, 1600, 5000, 1, "autograd::engine::evaluate_function: AddmmBackward0", None),
        (85 * US, -600, 1000, 5000, 1, "autograd::engine::evaluate_function: AddmmBackward0", None),
        (90 * US, 200, 1200, 5000, 1, None, None),  # the operator ended at 90
        (112 * US, 50, 1250, 5000, 2, "Optimizer.step#Adam.step", None),
        (150 * US, -300, 950, 5000, 2, None, None),
    ]
    assert found["category"].null_count() == found.height


def test_the_timeline_by_phase(trace):
    found = wb.memory_timeline(trace, device=0, by="phase").select("t_ns", "category", "held_bytes")
    wide = found.pivot("category", index="t_ns", values="held_bytes")
    named = wide.select("forward", "backward", "optimizer", timeline.OUTSIDE, timeline.EARLIER)
    # the free at 80 is of early memory; at 112 the 100 at address 32 are gone without a free,
    # and the total still holds them
    assert named.rows() == [
        (0, 0, 0, 0, 1000),
        (600, 0, 0, 0, 1000),
        (600, 0, 0, 100, 1000),
        (600, 300, 0, 100, 1000),
        (600, 300, 0, 100, 600),
        (0, 300, 0, 100, 600),
        (0, 300, 0, 300, 600),
        (0, 300, 50, 200, 700),
        (0, 0, 50, 200, 700),
    ]


def test_points_keep_the_highest_of_each_bucket(trace):
    found = wb.memory_timeline(trace, device=0, points=2)
    # 0-150 in two: the highest of 0-75 is at 68, that of 76-150 at 80
    assert found.select("t_ns", "allocated_bytes").rows() == [(68 * US, 2000), (80 * US, 1600)]
    with pytest.raises(UsageError, match="at least 1"):
        wb.memory_timeline(trace, points=0)
    with pytest.raises(UsageError, match="category"):
        wb.memory_timeline(trace, by="categories")


def test_who_holds_the_peak(trace):
    found = wb.memory_peak(trace, device=0)
    early = (None, 1000, None, 0.5, pools.BEFORE)
    assert by(found, "op") == [
        early,
        ("aten::addmm", 600, 1, 0.3, None),
        ("aten::mm", 300, 1, 0.15, None),
        (None, 100, 1, 0.05, "allocated while no operator ran on that thread"),
    ]
    assert [row[:3] for row in by(found, "outer_op")] == [
        (None, 1000, None),
        ("aten::linear", 600, 1),
        ("autograd::engine::evaluate_function: AddmmBackward0", 300, 1),
        (None, 100, 1),
    ]
    assert [row[:3] for row in by(found, "phase")] == [
        (None, 1000, None), ("forward", 600, 1), ("backward", 300, 1), (None, 100, 1),
    ]  # fmt: skip
    assert found["by"].unique(maintain_order=True).to_list() == ["op", "outer_op", "phase"]
    assert found["peak_t_ns"].unique().to_list() == [68 * US]
    with pytest.raises(UsageError, match="grouping"):
        wb.memory_peak(trace, by="operator")


def by(found, grouping):
    chosen = found.filter(pl.col("by") == grouping)
    return chosen.select("name", "bytes", "blocks", "share", "reason").rows()


def test_a_block_whose_free_is_lost_is_gone_when_its_place_is_taken(tmp_path):
    rows = [allocation(20, 600, 16, 600), allocation(65, 700, 16, 1300)]
    found = wb.memory_peak(wb.open(write(tmp_path, [*EVENTS, *rows])), by="op")
    # the total still holds the 600, but no block does
    assert [row[:3] for row in by(found, "op")] == [("aten::mm", 700, 1), (None, 600, None)]


def test_of_equal_levels_at_one_time_the_first_is_the_peak(tmp_path):
    rows = [
        allocation(20, 500, 16, 500),
        allocation(20, -500, 16, 0),
        allocation(20, 500, 32, 500, tid=2),  # another thread, where no operator runs
    ]
    found = wb.memory(wb.open(write(tmp_path, [*EVENTS, *rows]))).row(0, named=True)
    assert (found["peak_allocated_bytes"], found["peak_op"]) == (500, "aten::addmm")


def test_what_runs_at_a_moment(trace):
    (pool, _) = pools.pools(trace)
    at = np.array([32, 33, 72, 73, 75, 79, 80, 134, 135]) * US
    # gemm 33-73, dgrad 75-80, adam 125-135
    assert pools.running(pool, at).to_list() == [
        None, "gemm", "gemm", None, "dgrad", "dgrad", None, "adam", None,
    ]  # fmt: skip
    assert pools.step_at(trace, at - at + 200 * US)[0] is None
    assert pools.step_at(trace, np.array([0, 99_999, 100_000, 199_999])).to_list() == [1, 1, 2, 2]


def test_of_overlapping_work_the_last_started_is_named(tmp_path):
    work = [
        kernel("long", 10, 100, stream=7),
        kernel("short", 20, 5, stream=7),  # on the stream of the first, inside it
        kernel("other", 50, 5, stream=9),
    ]
    trace = wb.open(write(tmp_path, [op("aten::mm", 0, 9), allocation(5, 1, 16, 1), *work]))
    (pool,) = pools.pools(trace)
    at = np.array([15, 22, 30, 52, 60, 110]) * US
    named = ["long", "short", "long", "other", "long", None]
    assert pools.running(pool, at).to_list() == named


def test_modules_hold_the_peak(tmp_path):
    trace = wb.open(write(tmp_path, [*EVENTS, *MEMORY, module("Linear_0", 5, 40)]))
    found = wb.memory_peak(trace, device=0, by="module")
    assert [row[:3] for row in by(found, "module")] == [
        (None, 1000, None), ("Linear_0", 600, 1), (None, 400, 2),
    ]  # fmt: skip
    assert found["reason"].to_list() == [pools.BEFORE, None, "allocated outside of modules"]


def test_modules_that_were_not_recorded_are_not_outside_of_any(trace):
    found = wb.memory_peak(trace, device=0, by="module")
    assert [(row[1], row[4]) for row in by(found, "module")] == [
        (1000, "modules are not recorded"), (1000, pools.BEFORE),
    ]  # fmt: skip


# a row: address (0: unknown), size (negative: a free), time that passes before it
rows = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([-3, -2, -1, 1, 2, 3]), st.integers(0, 2)),
    min_size=1,
    max_size=25,
)


def hand_made(events, base=100):
    """A trace of nothing but memory on device 0, its totals the running sum."""
    at, level, out = 0, base, []
    for address, size, wait in events:
        at, level = at + wait, level + size
        out.append({"t_ns": at, "device": 0, "address": address or None, "bytes": size,
                    "total_allocated": level})  # fmt: skip
    tables = {n: schema.empty(n) for n in schema.TABLES if n != "frames"}
    tables["memory"] = schema.conform("memory", pl.DataFrame(out, infer_schema_length=None))
    return Trace(TraceMeta(path=None, format="made", sha256="", origin_ns=0), tables)


def walk(events):
    """Return (alloc row, end row, freed) of every block and the early frees, one row at a time."""
    alive, done, early = {}, [], []
    for i, (address, size, _) in enumerate(events):
        if not address:
            continue
        before = alive.pop(address, None)
        if before is not None:
            done.append((before, i, size == -events[before][1]))
        if size > 0:
            alive[address] = i
        elif before is None or size != -events[before][1]:
            early.append(i)
    return sorted(done + [(i, len(events), False) for i in alive.values()]), early


@given(rows)
def test_blocks_are_those_of_a_walk(events):
    (pool,) = pools.pools(hand_made(events))
    found = pools.blocks(pool)
    done, early = walk(events)
    if found is None:
        assert not any(address for address, *_ in events)
        return
    got = zip(found.row.tolist(), found.end.tolist(), found.freed.tolist(), strict=True)
    assert sorted(got) == done
    assert sorted(found.early.tolist()) == early


@given(rows, st.integers(0, 8), st.integers(1, 9), st.integers(1, 6))
def test_levels_of_any_window_are_those_of_a_walk(events, start, length, points):
    trace = hand_made(events)
    within = (start, start + length)
    last = trace.memory["t_ns"][-1]
    inside = (max(start, trace.memory["t_ns"][0]), min(start + length, last + 1))
    found = wb.memory(trace, within=within).row(0, named=True)
    series = wb.memory_timeline(trace, within=within)
    if inside[0] >= inside[1]:
        assert found["peak_allocated_bytes"] is None
        assert series.is_empty()
        return
    level, moments, begins = 100, [], 100
    for t, size in trace.memory.select("t_ns", "bytes").rows():
        level += size
        if t < inside[0]:
            begins = level
        elif t < inside[1]:
            moments.append((t, level))
    moments = [(inside[0], begins), *moments]
    highest = max(level for _, level in moments)
    assert found["peak_allocated_bytes"] == highest
    assert found["peak_t_ns"] == next(t for t, level in moments if level == highest)
    assert found["peak_above_start_bytes"] == highest - begins
    assert found["allocated_at_end_bytes"] == moments[-1][1]
    assert series.select("t_ns", "allocated_bytes").rows() == moments
    check_points(trace, within, moments, points)
    peak = wb.memory_peak(trace, within=within)
    if any(address for address, *_ in events):
        assert peak["bytes"].sum() == peak["peak_bytes"][0] == highest


def check_points(trace, within, moments, points):
    few = wb.memory_timeline(trace, within=within, points=points)
    kept = few.select("t_ns", "allocated_bytes").rows()
    if len(moments) <= points:
        assert kept == moments
        return
    first, span = moments[0][0], moments[-1][0] - moments[0][0] + 1
    buckets = {}
    for t, level in moments:
        bucket = (t - first) * points // span
        if bucket not in buckets or level > buckets[bucket][1]:
            buckets[bucket] = (t, level)
    assert kept == list(buckets.values())


@given(rows)
def test_phases_add_up_to_the_total(events):
    found = wb.memory_timeline(hand_made(events), by="phase")
    series = found["category"].n_unique()
    moment = pl.Series("moment", range(found.height)) // series
    sums = found.group_by(moment, maintain_order=True).agg(
        pl.col("held_bytes").sum(), pl.col("allocated_bytes").first()
    )
    assert sums["held_bytes"].to_list() == sums["allocated_bytes"].to_list()
