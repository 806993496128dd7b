"""Idle time by cause on traces small enough to work out by hand, generated and recorded ones."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nsysfile import Export
from rawtables import attributed
from rawtables import call as raw_call
from rawtables import kernel as raw_kernel
from rawtables import op as raw_op
from tinytrace import call, kernel, mark, op, step, write

import workbench as wb
from workbench.analysis.gaps import CAUSES
from workbench.analysis.idle import TELLING
from workbench.trace.synthetic import Gaps, SyntheticSpec, generate
from workbench.trace.synthetic.spec import FAULTS

US = 1000


def frame(name, ts, dur, tid=1):
    return op(name, ts, dur, tid) | {"cat": "python_function"}


def wait(ts, dur, correlation, *, stream, on_stream, on_record):
    args = {
        "cuda_sync_kind": "Stream Wait Event",
        "stream": stream,
        "correlation": correlation,
        "wait_on_stream": on_stream,
        "wait_on_cuda_event_record_corr_id": on_record,
    }
    place = {"pid": 0, "tid": stream, "ts": ts, "dur": dur}
    return {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", **place, "args": args}


def causes(source, **options):
    """Causes with time, in us; the whole recording unless a window is asked for."""
    found = wb.idle_causes(source, **{"window": "all"} | options)
    return {c: t // US for c, t in found.select("cause", "time_ns").rows() if t}


def launched(name, at, dur, number, called, *, call_dur=1, **more):
    return [
        call("cudaLaunchKernel", called, call_dur, number),
        kernel(name, at, dur, number, **more),
    ]


@pytest.fixture
def host_gap(tmp_path):
    """One gap of 100 us, 10 to 110, whose kernel is called at 90 for 5 us.

    Host until 90, then the call 90-95, then 10 us of latency, then 5 unknown. The thread runs an
    annotation 0-89 (transparent); in it Python 12-60, in that the operator 20-40, in that a
    synchronising call 25-35; data loading 62-72 with Python 65-70 in it; `Python GC` 75-80.
    """
    events = [
        *launched("first", 0, 10, 1, -5),
        *launched("second", 110, 10, 2, 90, call_dur=5),
        mark("train", 0, 89),
        frame("train.py(1): step", 12, 48),
        op("aten::item", 20, 20),
        call("cudaStreamSynchronize", 25, 10, 3),
        mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 62, 10),
        frame("dataset.py(3): __getitem__", 65, 5),
        frame("Python GC", 75, 5),
    ]
    return wb.open(write(tmp_path, events))


def test_host_time_is_divided_by_the_innermost_event(host_gap):
    assert causes(host_gap) == {
        "host_sync": 10,  # 25-35
        "host_operator": 10,  # 20-25 35-40
        "host_python": 28,  # 12-20 40-60
        "host_data_loading": 10,  # 62-72, the Python in it too
        "host_garbage_collection": 5,
        "host_unknown": 17,  # 10-12 60-62 72-75 80-90
        "launch_call": 5,
        "launch_latency": 10,
        "unknown": 5,
    }


def test_a_gap_says_what_blocked_and_what_ended_it(host_gap):
    (row,) = wb.idle(host_gap, window="all").rows(named=True)
    assert row | {"start_ns": None} == {
        "rank": None, "device": 0, "step": None, "start_ns": None, "dur_ns": 100 * US,
        "cause": "host_python", "host_ns": 80 * US, "launch_call_ns": 5 * US,
        "device_ns": 15 * US, "blocked_by": "train.py(1): step", "call": "cudaLaunchKernel",
        "ended_by": "second", "activity": 1,
    }  # fmt: skip


def test_without_python_calls_its_time_is_unknown_and_that_is_said(tmp_path):
    events = [*launched("a", 0, 10, 1, -5), *launched("b", 60, 10, 2, 50)]
    found = wb.idle_causes(wb.open(write(tmp_path, events)), window="all")
    told = {r["cause"]: (r["time_ns"], r["reason"]) for r in found.rows(named=True)}
    assert told["host_python"] == (
        None, "Python calls are not recorded, so it would count as host_unknown",
    )  # fmt: skip
    assert told["dependency"][1].startswith("waits of streams on events are not recorded")
    assert told["host_unknown"] == (40 * US, None)
    assert told["host_sync"] == (0, None)
    assert set(told) == set(CAUSES) - {"host"}
    assert {c for c, (ns, _) in told.items() if ns is None} == set(TELLING)


def test_a_device_without_recorded_launches_has_only_unknown_causes(tmp_path):
    trace = wb.open(write(tmp_path, [kernel("a", 0, 10), kernel("b", 30, 10), op("mm", 0, 9)]))
    found = wb.idle_causes(trace, window="all")
    assert causes(trace) == {"unknown": 20}
    assert found.filter(cause="host_operator")["reason"].item() == (
        "no activity is tied to the call that launched it, so all is unknown"
    )
    said = wb.idle(trace, window="all").select("cause", "device_ns", "call").row(0)
    assert said == ("unknown", 20 * US, None)


def test_of_kernels_that_start_together_the_one_launched_first_ends_the_gap(tmp_path):
    # both start at 50: called at 40 and at 20; the earlier call leaves 10 of host, 1 of call,
    # 10 of latency, 19 unknown
    events = [
        *launched("a", 0, 10, 1, -5),
        *launched("late", 50, 10, 2, 40, stream=8),
        *launched("early", 50, 10, 3, 20, stream=9),
    ]
    trace = wb.open(write(tmp_path, events))
    assert wb.idle(trace, window="all")["ended_by"].to_list() == ["early"]
    assert causes(trace) == {"host_unknown": 10, "launch_call": 1, "launch_latency": 10,
                             "unknown": 19}  # fmt: skip


def test_a_kernel_that_starts_before_its_call_was_waited_for_all_along(tmp_path):
    events = [*launched("a", 0, 10, 1, -5), *launched("b", 30, 10, 2, 33)]
    assert causes(wb.open(write(tmp_path, events))) == {"host_unknown": 20}


def test_a_zero_length_kernel_ends_a_gap(tmp_path):
    # 10-20 by the empty kernel called at 12, 20-30 by b called at 25
    events = [
        *launched("a", 0, 10, 1, -5),
        *launched("empty", 20, 0, 2, 12),
        *launched("b", 30, 5, 3, 25),
    ]
    trace = wb.open(write(tmp_path, events))
    assert wb.idle(trace, window="all")["ended_by"].to_list() == ["empty", "b"]
    assert causes(trace) == {"host_unknown": 7, "launch_call": 2, "launch_latency": 11}


def test_between_kernels_of_one_graph_launch(tmp_path):
    events = [call("cudaGraphLaunch", 0, 5, 1), kernel("a", 10, 10, 1), kernel("b", 25, 10, 1),
              call("cudaGraphLaunch", 26, 5, 2), kernel("a", 40, 10, 2)]  # fmt: skip
    # 20-25 within the graph; 35-40 until the next one, called long before
    assert causes(wb.open(write(tmp_path, events))) == {"graph": 5, "launch_latency": 5}


@pytest.mark.parametrize(
    ("start", "end", "asked", "cause"),
    [
        (53, 50, 30, "dependency"),  # 3 us after the copy
        (55, 50, 30, "dependency"),  # the last moment
        (56, 50, 30, "launch_latency"),  # a microsecond too late
        (53, 50, 46, "launch_latency"),  # the wait was asked for after the launch
    ],
)
def test_a_wait_that_ended_just_before_is_a_dependency(tmp_path, start, end, asked, cause):
    # a copy on stream 24 until `end`; its event is recorded at 20, stream 7 waits for it,
    # and the kernel that is called at 45 starts when the copy has ended
    events = [
        call("cudaMemcpyAsync", 5, 5, 1),
        kernel("Memcpy HtoD", 12, end - 12, 1, stream=24, cat="gpu_memcpy"),
        call("cudaEventRecord", 20, 1, 2),
        call("cudaStreamWaitEvent", asked, 1, 3),
        wait(asked + 0.5, 0.5, 3, stream=7, on_stream=24, on_record=2),
        *launched("k", start, 10, 4, 45),
    ]
    assert causes(wb.open(write(tmp_path, events))) == {cause: start - end}


def test_a_wait_goes_on_until_what_its_stream_waits_for_has_ended(tmp_path):
    # stream 7 waits for an event of stream 9, which itself waits for the copy until 50
    events = [
        call("cudaMemcpyAsync", 5, 5, 1),
        kernel("Memcpy HtoD", 12, 38, 1, stream=24, cat="gpu_memcpy"),
        call("cudaEventRecord", 20, 1, 2),
        call("cudaStreamWaitEvent", 22, 1, 3),
        wait(22.5, 0.5, 3, stream=9, on_stream=24, on_record=2),
        call("cudaEventRecord", 24, 1, 4),
        call("cudaStreamWaitEvent", 26, 1, 5),
        wait(26.5, 0.5, 5, stream=7, on_stream=9, on_record=4),
        *launched("k", 52, 10, 6, 45),
    ]
    assert causes(wb.open(write(tmp_path, events))) == {"dependency": 2}


def test_edges_of_a_window_and_a_gap_that_reaches_beyond_it(tmp_path):
    # two steps of 100 us; kernels at 20-40 and 150-160, called at 10 and 130: in the host window
    # 0-20 and 160-200 are edges, and 40-150 is host until 130, call until 131, latency, unknown
    events = [step(1, 0, 100), *launched("a", 20, 20, 1, 10),
              step(2, 100, 100), *launched("b", 150, 10, 2, 130)]  # fmt: skip
    trace = wb.open(write(tmp_path, events))
    host = causes(trace, window="host")
    assert host == {
        "edge": 60, "host_unknown": 90, "launch_call": 1, "launch_latency": 10, "unknown": 9,
    }  # fmt: skip
    rows = wb.idle(trace, window="host").select("dur_ns", "cause", "ended_by", "step").rows()
    assert rows == [
        (110 * US, "host_unknown", "b", 2),
        (40 * US, "edge", None, None),
        (20 * US, "edge", "a", 1),
    ]
    cut = causes(trace, window="host", within=(25 * US, 145 * US))
    # the only work in 25-145 ends at 40
    assert cut == {"edge": 105}


def test_host_execution_is_idle_on_the_host(tmp_path):
    events = [op("aten::mm", 0, 10), mark("log", 12, 6), op("aten::add", 20, 10)]
    trace = wb.open(write(tmp_path, events))
    assert causes(trace) == {"host": 10}
    (row,) = wb.idle(trace, window="all").rows(named=True)
    # the annotation holds 6 of the 10 us
    assert (row["cause"], row["host_ns"], row["blocked_by"]) == ("host", 10 * US, "log")


def test_a_breakdown_splits_idle_time_and_still_adds_up(host_gap):
    found = wb.breakdown(host_gap, window="all")
    idle = found.filter(part="idle")
    assert dict(idle.select("cause", pl.col("time_ns") // US).rows()) == {
        "host": 80, "launch_call": 5, "launch_latency": 10, "unknown": 5,
    }  # fmt: skip
    assert found["time_ns"].sum() == wb.summary(host_gap, window="all")["window_ns"].item()
    assert found.filter(pl.col("part") != "idle")["cause"].null_count() == 3


def test_no_idle_time_is_one_row_without_a_cause(tmp_path):
    trace = wb.open(write(tmp_path, launched("a", 0, 10, 1, -5)))
    assert wb.breakdown(trace, window="all").filter(part="idle").rows() == [
        (None, 0, "idle", None, 0, 0.0)
    ]
    assert wb.idle(trace, window="all").is_empty()


ZERO = Gaps(**dict.fromkeys(Gaps.__dataclass_fields__, 0))
SPECS = {
    "usual": {},
    "faults": {"faults": FAULTS},
    "no stacks": {"stacks": False},
    "no waits recorded": {"sync_events": False},
    "nothing planted": {"gaps": ZERO},
    "other gaps": {"gaps": Gaps(sync_ns=700, dependency_ns=4_999, unknown_ns=1, graph_ns=1)},
    "one rank": {"ranks": 1, "partial_step": False, "layers": 1},
    "three ranks": {"ranks": 3, "layers": 3, "rank_skew_ns": 31_000},
}


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_generated_idle_time_is_found_to_the_nanosecond(tmp_path, spec, seed):
    run = generate(SyntheticSpec(seed=seed, **spec))
    run.write(tmp_path)
    source = wb.open(tmp_path, cache=False)
    for rank in run.answers.ranks:
        for window, answer in rank.windows.items():
            options = {"window": window, "rank": rank.rank}
            found = wb.idle_causes(source, **options)
            by_cause = dict(found.select("cause", pl.col("time_ns").fill_null(0)).rows())
            assert by_cause == dict(answer.idle)
            rows = wb.idle(source, **options)
            parts = rows.select(pl.sum_horizontal("host_ns", "launch_call_ns", "device_ns"))
            assert parts.to_series().equals(rows["dur_ns"], check_names=False)
            assert rows["dur_ns"].sum() == answer.idle_ns
            assert wb.breakdown(source, **options)["time_ns"].sum() == answer.window_ns


# -- against a sweep over every nanosecond --------------------------------------------------------

LAST = 60


def innermost(events, thread, t):
    """The latest begun event of a thread at a time; events nest, so it is the shortest."""
    running = [e for e in events if e["thread"] == thread and e["start_ns"] <= t < end_of(e)]
    return max(running, key=lambda e: (e["start_ns"], -e["dur_ns"], e["rule"]), default=None)


def end_of(event):
    return event["start_ns"] + event["dur_ns"]


def slow(activities, calls, events):
    """The cause of each idle ns of the window from first start to last end; only what lasts
    bounds the edges."""
    lasting = [a for a in activities if a["dur_ns"]]
    first = min((a["start_ns"] for a in lasting), default=LAST * 9)
    last = max((end_of(a) for a in lasting), default=0)
    starts = [a["start_ns"] for a in activities]
    called = {c["correlation"]: c for c in calls}
    total = dict.fromkeys(CAUSES, 0)
    for t in range(min(starts), max(end_of(a) for a in activities)):
        if any(a["start_ns"] <= t < end_of(a) for a in activities):
            continue
        if not first <= t < last:
            total["edge"] += 1
            continue
        b = min(s for s in starts if s > t)
        ready = [called.get(a["correlation"]) for a in activities if a["start_ns"] == b]
        known = sorted((c for c in ready if c), key=lambda c: c["start_ns"])
        total[cause(t, known[0] if known else None, events)] += 1
    return total


def cause(t, one, events):
    if one is None:
        return "unknown"
    if t < one["start_ns"]:
        event = innermost(events, one["thread"], t)
        return "host_unknown" if event is None else event["cause"]
    return "launch_call" if t < end_of(one) else "launch_latency"


@st.composite
def nested(draw, low, high, depth=2):
    """Events of one thread that lie in one another or apart."""
    if high - low < 2 or depth < 0:
        return []
    cuts = sorted(draw(st.lists(st.integers(low, high), max_size=4, unique=True)))
    out = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        kind = draw(st.sampled_from(["op", "sync"]))
        out.append((kind, start, end))
        if kind == "op":
            out += draw(nested(start, end, depth - 1))
    return out


@given(data=st.data())
def test_idle_causes_equal_a_sweep_over_every_nanosecond(data):
    moment = st.integers(0, LAST)
    calls, activities = [], []
    for number in range(1, data.draw(st.integers(1, 6)) + 1):
        at = data.draw(moment)
        thread = data.draw(st.integers(0, 1))
        # of a length that no other event can begin or end in: calls lie within operators
        calls.append(raw_call("cudaLaunchKernel", at, data.draw(st.integers(0, 1)), number, thread))
        linked = number if data.draw(st.booleans()) or number == 1 else None
        begin, length = data.draw(moment), data.draw(st.integers(0, 9))
        activities.append(raw_kernel("k", begin, length, linked, stream=number))
    events, ops, syncs = [], [], []
    for thread in (0, 1):
        for kind, start, end in data.draw(nested(0, LAST)):
            if kind == "op":
                ops.append(raw_op("aten::mm", start, end - start, thread))
            else:
                syncs.append(raw_call("cudaStreamSynchronize", start, end - start, None, thread))
    events = [e | {"cause": "host_operator", "rule": 0} for e in ops]
    events += [e | {"cause": "host_sync", "rule": 1} for e in syncs]
    trace = attributed(activities=activities, launches=[*calls, *syncs], ops=ops)
    found = wb.idle_causes(trace, window="all")
    got = dict(found.select("cause", pl.col("time_ns").fill_null(0)).rows()) | {"host": 0}
    assert got == slow(activities, calls, events)


# -- other makers ---------------------------------------------------------------------------------


def test_nsight_operators_and_calls_divide_host_time(tmp_path):
    # gap 10-110 us, called at 90: the operator holds 20-80 of it, a synchronisation 30-50 of that
    export = Export()
    export.kernel("a", 1000, 10_000, 1).kernel("b", 110_000, 120_000, 2)
    export.call("cudaLaunchKernel", 500, 900, 1).call("cudaLaunchKernel", 90_000, 101_000, 2)
    export.call("cudaStreamSynchronize", 30_000, 50_000, 3)
    export.nvtx("aten::item, op_id = 4", 20_000, 80_000)
    assert causes(wb.open(export.write(tmp_path))) == {
        "host_sync": 20, "host_operator": 40, "host_unknown": 20,
        "launch_call": 11, "launch_latency": 9,
    }  # fmt: skip


RECORDED = {
    "hta/ns_resolution_resnet_ddp_v100.json.gz": "launch_latency",
    "hta/nccl_args_resnet_a100_rank0_of_2.json.gz": "host_operator",
    "tracelens/mi300_resnet_ddp_act_checkpoint_rank0_of_8.json.gz": "launch_latency",
    "tracelens/h100_owlv2_large_inference.json.gz": "host_data_loading",
    "nsys/nsys_ai_h100_2gpu_1s.sqlite": "unknown",
    "param/dlrm_v100_8ranks": "host_operator",
}


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "chief"), RECORDED.items(), ids=RECORDED)
def test_recorded_idle_time_adds_up(corpus, name, chief):
    source = wb.open(corpus / "traces" / name)
    found = wb.idle_causes(source)
    total = found.group_by("rank", "device").agg(pl.col("time_ns").sum()).sort("rank", "device")
    summary = wb.summary(source).sort("rank", "device")
    assert total["time_ns"].to_list() == summary["idle_ns"].to_list()
    most = found.group_by("cause").agg(pl.col("time_ns").sum()).sort("time_ns")
    assert most["cause"][-1] == chief
    gaps = wb.idle(source)
    assert gaps["dur_ns"].sum() == summary["idle_ns"].sum()
    assert gaps["dur_ns"].is_sorted(descending=True)
