"""The queue of launched work: depth over time by hand, by brute force and by the generator."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.analysis.queue import FULL, NO_PAIRS
from workbench.trace.synthetic import SyntheticSpec, generate

US = 1000


@pytest.fixture
def trace(tmp_path):
    """A graph of two kernels on stream 7 and one more kernel on stream 8.

    launch   0 (graph)       4           graph kernels leave at 10 and 30, the other at 20
    depth    2 .............. 3 ..10.. 2 ....20.. 1 ....30.. 0 until 40
    stream 7 2 ................10.. 1 ..............30.. 0
    stream 8                 1 .............20.. 0
    """
    return wb.open(
        write(
            tmp_path,
            [
                call("cudaGraphLaunch", 0, 2, 1),
                call("cudaLaunchKernel", 4, 2, 2),
                kernel("a", 10, 5, 1),
                kernel("b", 30, 10, 1),
                kernel("c", 20, 5, 2, stream=8),
            ],
        )
    )


def series(frame, stream):
    mine = frame.filter(pl.col("stream").eq_missing(stream))
    return [(t // US, depth) for t, depth in mine.select("t_ns", "depth").rows()]


def test_depth_over_time(trace):
    frame = wb.queue_depth(trace)
    assert series(frame, None) == [(0, 2), (4, 3), (10, 2), (20, 1), (30, 0)]
    assert series(frame, 7) == [(0, 2), (10, 1), (30, 0)]
    assert series(frame, 8) == [(0, 0), (4, 1), (20, 0)]


def test_summary_of_the_queue(trace):
    names = ("stream", "window_ns", "max_depth", "mean_depth", "empty_ns", "activities")
    assert wb.queue(trace).select(names).rows() == [
        # 0-40; 2 x 4 + 3 x 6 + 2 x 10 + 1 x 10 = 56
        (None, 40 * US, 3, 56 / 40, 10 * US, 3),
        (7, 40 * US, 2, (2 * 10 + 20) / 40, 10 * US, 2),
        (8, 40 * US, 1, 16 / 40, 24 * US, 1),
    ]


def test_a_device_is_full_while_any_stream_is(trace):
    # at least 1: stream 7 from 0 to 30, stream 8 from 4 to 20; at least 2: stream 7 until 10. That
    # the two together hold 3 fills neither
    for full, times in ((1, [30, 30, 16]), (2, [10, 10, 0]), (3, [0, 0, 0])):
        frame = wb.queue(trace, full=full)
        assert frame["full_ns"].to_list() == [us * US for us in times]
        assert frame["full_share"].to_list() == [us / 40 for us in times]


def test_a_range_begins_with_what_already_waits(trace):
    within = (15 * US, 25 * US)
    assert series(wb.queue_depth(trace, window="all", within=within), None) == [(15, 2), (20, 1)]
    row = wb.queue(trace, window="all", within=within).row(0, named=True)
    assert (row["window_ns"], row["max_depth"], row["mean_depth"]) == (10 * US, 2, 1.5)


def test_steps_are_the_window_of_both(tmp_path):
    # step 1 is 10-60 on the device; the kernel launched at 5 has left the host's step already
    trace = wb.open(
        write(
            tmp_path,
            [
                step(1, 0, 40), step(2, 40, 40),
                call("cudaLaunchKernel", 2, 1, 1), call("cudaLaunchKernel", 5, 1, 2),
                call("cudaLaunchKernel", 45, 1, 3),
                kernel("a", 10, 5, 1), kernel("b", 30, 5, 2), kernel("c", 60, 5, 3),
            ],
        )
    )  # fmt: skip
    frame = wb.queue_depth(trace, step=(1, 1))
    assert series(frame, None) == [(10, 1), (30, 0), (45, 1)]
    row = wb.queue(trace, step=(1, 1)).row(0, named=True)
    assert (row["window_ns"], row["mean_depth"], row["empty_ns"]) == (50 * US, 35 / 50, 15 * US)


def test_orphans_and_inverted_pairs_are_counted_apart(tmp_path):
    trace = wb.open(
        write(
            tmp_path,
            [
                call("cudaLaunchKernel", 10, 2, 1),
                kernel("inverted", 8, 1, 1),
                kernel("orphan", 20, 5, 77),
            ],
        )
    )
    for row in wb.queue(trace).rows(named=True):
        assert (row["inverted"], row["without_launch"], row["activities"]) == (1, 1, 2)
        assert (row["max_depth"], row["empty_ns"], row["reason"]) == (None, None, NO_PAIRS)
    assert wb.queue_depth(trace).height == 0


def test_an_execution_without_accelerator_has_no_queue(tmp_path):
    trace = wb.open(write(tmp_path, [op("aten::mm", 0, 10)]))
    assert wb.queue(trace).height == wb.queue_depth(trace).height == 0


@pytest.mark.parametrize("faults", [(), ("clock_inversion", "missing_launch")])
def test_depths_equal_the_generator_s_answers(faults, tmp_path):
    run = generate(SyntheticSpec(faults=faults))
    run.write(tmp_path)
    frame = wb.queue(wb.open(tmp_path), window="all")
    for rank in run.answers.ranks:
        mine = frame.filter(pl.col("rank") == rank.rank)
        names = [str(s) if s is not None else "device" for s in mine["stream"]]
        assert dict(zip(names, mine["max_depth"], strict=True)) == rank.queue_depth


moment = st.integers(0, 60)
launched = st.tuples(moment, st.lists(st.tuples(moment, st.integers(7, 8)), max_size=3))


@given(st.lists(launched, min_size=1, max_size=12), st.tuples(moment, moment))
def test_depth_equals_brute_force(tmp_path_factory, calls, span):
    """Ask at every microsecond how many are launched and not yet begun."""
    pairs = [(b, s, stream) for b, starts in calls for s, stream in starts]
    if not pairs:
        return
    events = [call("cudaGraphLaunch", b, 1, i + 1) for i, (b, _) in enumerate(calls)]
    events += [
        kernel("k", s, 1, i + 1, stream=stream)
        for i, (_, starts) in enumerate(calls)
        for s, stream in starts
    ]
    first = min(*(b for b, _ in calls), *(s for _, s, _ in pairs))  # the trace's zero
    trace = wb.open(write(tmp_path_factory.mktemp("queue"), events), cache=False)
    valid = [(b - first, s - first, stream) for b, s, stream in pairs if b <= s]
    kernels = [s - first for _, s, _ in pairs]
    low, high = sorted(span)
    inside = set(range(min(kernels), max(kernels) + 1))
    inside |= {t for b, s, _ in valid for t in range(b, s)}
    inside &= set(range(low, high))

    def depth(t, stream):
        return sum(b <= t < s for b, s, lane in valid if stream in {None, lane})

    frame = wb.queue(trace, window="all", within=(low * US, high * US), full=2)
    over_time = wb.queue_depth(trace, window="all", within=(low * US, high * US))
    for row in frame.rows(named=True):
        stream = row["stream"]
        if row["reason"]:
            assert not any(stream in {None, lane} for _, _, lane in valid)
            continue
        depths = [depth(t, stream) for t in inside]
        lanes = [stream] if stream is not None else [7, 8]
        full = sum(any(depth(t, lane) >= 2 for lane in lanes) for t in inside)
        assert row["window_ns"] == len(inside) * US
        assert row["max_depth"] == max(depths, default=0)
        assert row["empty_ns"] == depths.count(0) * US
        assert row["full_ns"] == full * US
        assert row["mean_depth"] == (sum(depths) / len(inside) if inside else None)
        known = dict(series(over_time, stream))
        for t in inside:
            latest = max(k for k in known if k <= t)
            assert known[latest] == depth(t, stream)


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path",
    [
        "hta/nccl_args_resnet_a100_rank0_of_2.json.gz",
        "tracelens/mi300_qwen1.5_0.5b_inference.json.gz",
        "nsys/cloverleaf_a100_schema3.13.sqlite",
    ],
)
def test_every_maker_s_queue(corpus, path):
    trace = wb.open(corpus / "traces" / path)
    frame = wb.queue(trace, window="all")
    device = frame.filter(pl.col("stream").is_null())
    assert device["max_depth"].min() > 0
    assert wb.queue_depth(trace, window="all")["depth"].min() == 0


@pytest.mark.corpus
def test_a_v100_whose_calls_block_on_a_full_queue(corpus):
    # its depth never reaches 1,024, and yet calls that find 1,020 take twenty times as long
    trace = wb.open(corpus / "traces/hta/ns_resolution_resnet_ddp_v100.json.gz")
    row = wb.queue(trace, window="all").row(0, named=True)
    assert row["max_depth"] == 1022
    assert row["full_share"] == pytest.approx(0.5988, abs=1e-4)
    calls = trace.launches.filter(pl.col("kind") == "launch").sort("start_ns")
    depth = wb.queue_depth(trace, window="all").filter(pl.col("stream").is_null())
    found = calls.select("start_ns", call_ns="dur_ns").join_asof(
        depth.select("t_ns", "depth"), left_on="start_ns", right_on="t_ns"
    )
    blocked = found.filter(pl.col("depth") >= FULL)["call_ns"].mean()
    free = found.filter(pl.col("depth") < FULL)["call_ns"].mean()
    assert blocked > 10 * free


@pytest.mark.corpus
def test_a_trace_without_device_events_has_no_rows_and_no_error(corpus):
    # HTA asserts: "queue length and memory bandwidth results must be empty, not an error"
    trace = wb.open(corpus / "traces/hta/odd_rank_non_gpu.json.gz")
    for question in (wb.queue, wb.queue_depth, wb.launches, wb.delays, wb.syncs):
        assert question(trace).height == 0
    assert wb.copies(trace)["bytes_per_s"].drop_nulls().len() == 0


def test_a_depth_of_centuries_does_not_overflow(tmp_path):
    # three calls at 0, whose kernels start one after another from 4e15 us on: 3 wait all along
    events = [call("cudaLaunchKernel", 0, 1, n) for n in (1, 2, 3)]
    events += [kernel("k", 4 * 10**15 + n, 1, n) for n in (1, 2, 3)]
    found = wb.queue(wb.open(write(tmp_path, events)), window="all").head(1)
    assert found["max_depth"].to_list() == [3]
    assert found["mean_depth"].item() == pytest.approx(3)
