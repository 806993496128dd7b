"""Other tools' rules on traces small enough to work out by hand, and how they account for us."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinytrace import call, kernel, mark, op, step, write

import workbench as wb
from workbench import intervals
from workbench.analysis.rules import account, hta, nsight, tensorboard, tracelens
from workbench.analysis.rules.account import Events, View
from workbench.analysis.window import select
from workbench.errors import UsageError

US = 1000
MOVED = re.compile(r": ([+-][\d,]+) ns(?:;|$)")


def opened(folder, *events, **header):
    return wb.open(write(folder, list(events), **header))


def row(frame, tool, measure):
    return frame.row(by_predicate=(pl.col("tool") == tool) & (pl.col("measure") == measure),
                     named=True)  # fmt: skip


def moved(reason):
    return [int(text.replace(",", "")) for text in MOVED.findall(reason)]


def sync(name, ts, dur, stream=7):
    return kernel(name, ts, dur, cat="cuda_sync", stream=stream)


def launched(name, ts, dur, correlation, **more):
    """A kernel with the call that launched it, 1 us before."""
    return [
        call("cudaLaunchKernel", ts - 1, 1, correlation),
        kernel(name, ts, dur, correlation, **more),
    ]


# ---- the account of differences -------------------------------------------------------------


def test_the_rules_of_a_difference_add_up_to_it_on_a_generated_run():
    trace = wb.open("data/generated_gpu_2ranks")
    frame = wb.definitions(trace)
    assert set(frame["rank"]) == {0, 1}
    told = 0
    for r in frame.iter_rows(named=True):
        if r["ours_ns"] is None:
            assert r["difference_ns"] is None
            assert r["reason"]
            continue
        assert r["difference_ns"] == r["value_ns"] - r["ours_ns"]
        assert (r["reason"] is None) == (r["difference_ns"] == 0), r
        if r["reason"]:
            assert sum(moved(r["reason"])) == r["difference_ns"], r
            assert 0 not in moved(r["reason"])
            told += 1
    assert told > 30


def test_ours_are_the_figures_of_the_summary():
    trace = wb.open("data/generated_gpu_2ranks").ranks[0]
    for window in ("steps", "host", "all"):
        frame, summary = wb.definitions(trace, window=window), wb.summary(trace, window=window)
        for name in tracelens.MEASURES:
            assert row(frame, "tracelens", name)["ours_ns"] == summary[f"{name}_ns"][0], name


def test_hta_as_it_was_run_on_the_generated_run():
    # HolisticTraceAnalysis 0.5.0 on rank0.trace.json.gz, given as rank 0: us; 41.78 % overlap
    trace = wb.open("data/generated_gpu_2ranks/rank0.trace.json.gz")
    frame = wb.definitions(trace)
    wanted = {"idle": 1297, "compute": 4632, "non_compute": 963, "window": 6892,
              "idle_host_wait": 10996, "idle_kernel_wait": 279, "idle_other": 1518}  # fmt: skip
    assert {m: row(frame, "hta", m)["value_ns"] // US for m in wanted} == wanted
    assert round(100 * row(frame, "hta", "overlap")["share"], 2) == 41.78


def test_a_trace_on_which_all_agree_has_no_reasons(tmp_path):
    frame = wb.definitions(opened(tmp_path, *launched("gemm", 10, 20, 1)))
    plugin = frame["tool"].str.starts_with("tensorboard")  # host time belongs to its steps
    agreed = frame.filter(~plugin & pl.col("ours_ns").is_not_null())
    assert agreed["difference_ns"].to_list() == [0] * agreed.height
    assert agreed["reason"].null_count() == agreed.height


def test_a_synchronisation_event_is_named_as_the_cause(tmp_path):
    # gemm 0-10 and 90-100 of 100 us; a wait of 60 us between
    frame = wb.definitions(opened(
        tmp_path, kernel("gemm", 0, 10), kernel("gemm", 90, 10),
        sync("Stream Wait Event", 20, 60),
    ))  # fmt: skip
    found = row(frame, "hta", "idle")
    assert (found["value_ns"], found["ours_ns"], found["share"]) == (20 * US, 80 * US, 0.2)
    assert found["reason"] == (
        "synchronisation events on a stream count as busy (1 of them): -60,000 ns"
    )
    assert row(frame, "tracelens", "idle")["reason"] is None


def test_several_devices_of_a_file_are_one_timeline_to_some(tmp_path):
    # 0-10 on device 0, 5-15 on device 1: 20 us of ours, 15 on one timeline
    frame = wb.definitions(opened(tmp_path, kernel("a", 0, 10), kernel("b", 5, 10, device=1)))
    found = row(frame, "tracelens", "compute")
    assert (found["device"], found["value_ns"], found["ours_ns"]) == (None, 15 * US, 20 * US)
    assert found["reason"] == "the 2 devices are one timeline: -5,000 ns"
    alone = frame.filter(tool="nsys-ai", measure="compute")
    assert alone.select("device", "value_ns").rows() == [(0, 10 * US), (1, 10 * US)]


def test_what_needs_an_accelerator_is_left_empty(tmp_path):
    frame = wb.definitions(opened(tmp_path, op("aten::mm", 0, 10)))
    assert frame.height == 0
    assert frame.columns == list(frame.schema)


# ---- HTA ------------------------------------------------------------------------------------


def test_hta_drops_the_last_step_and_what_has_no_launch(tmp_path):
    """Step 1 launches 10-20, step 2 launches 60-70; a kernel without a launch runs 30-40.

    Only 10-20 is left: kernel time 10, idle 0.
    """
    trace = opened(
        tmp_path, step(1, 0, 50), step(2, 50, 50), *launched("gemm", 10, 10, 1),
        *launched("gemm", 60, 10, 2), kernel("stray", 30, 10, 9),
    )  # fmt: skip
    found = hta.temporal(hta.events(trace))
    assert (found.kernel_time_ns, found.idle_ns) == (10 * US, 0)


def test_hta_rounds_inwards_when_any_time_has_a_fraction(tmp_path):
    # 0.5-10.5 becomes 1-10, 20-30 stays
    trace = opened(tmp_path, kernel("a", 0.5, 10), kernel("b", 20, 10))
    assert hta.rounds(trace)
    found = hta.temporal(hta.events(trace))
    assert (found.compute_ns, found.idle_ns) == ((9 + 10) * US, 10 * US)
    assert not hta.rounds(opened(tmp_path, kernel("a", 0, 10.5)))  # a duration alone does not


def test_hta_stops_when_rounding_turns_a_kernel_inside_out(tmp_path):
    # 0.2-0.8 becomes 1-0: a busy time of -1 us
    frame = wb.definitions(opened(tmp_path, kernel("tiny", 0.2, 0.6)))
    found = row(frame, "hta", "compute")
    assert (found["value_ns"], found["ours_ns"]) == (None, 600)
    assert found["reason"] == (
        "it stops with an AssertionError: rounding turned 1 events inside out"
    )


def test_hta_idle_classes(tmp_path):
    """On stream 7: 0-10, 50-60, 80-90, 150-160 us; calls at 0, 20, 61, 40.

    Gap 10-50: called at 20, after 10: host wait. 60-80: called at 61: host wait.
    90-150: called before 90 and not below 30: other. Stream 8: 0-10, 25-30, called at 1: kernel
    wait 15.
    """
    starts = {1: (0, 0), 2: (50, 20), 3: (80, 61), 4: (150, 40)}
    events = [call("cudaLaunchKernel", at, 1, c) for c, (_, at) in starts.items()]
    events += [kernel("k", at, 10, c) for c, (at, _) in starts.items()]
    events += [call("cudaLaunchKernel", 1, 1, 8), call("cudaLaunchKernel", 2, 1, 9),
               kernel("k", 2, 8, 8, stream=8), kernel("k", 25, 5, 9, stream=8)]  # fmt: skip
    found = {(s, c): ns // US for s, c, ns in hta.idle(opened(tmp_path, *events)).rows()}
    assert found == {(7, "host_wait"): 60, (7, "other"): 60, (8, "kernel_wait"): 15,
                     (8, "other"): 0}  # fmt: skip


def test_the_shares_of_hta_idle_classes_are_of_all_of_them(tmp_path):
    # both streams are idle 10-100 of 0-110 us: 180 us, more than the window; one was called late
    starts = {1: (0, 0, 7), 2: (100, 50, 7), 3: (0, 1, 8), 4: (100, 2, 8)}
    events = [call("cudaLaunchKernel", at, 1, c) for c, (_, at, _) in starts.items()]
    events += [kernel("k", at, 10, c, stream=s) for c, (at, _, s) in starts.items()]
    found = wb.definitions(opened(tmp_path, *events)).filter(tool="hta")
    shares = dict(found.select("measure", "share").rows())
    assert row(found, "hta", "idle_host_wait")["value_ns"] == 90 * US
    assert shares["idle_host_wait"] == 0.5
    assert shares["idle_kernel_wait"] + shares["idle_other"] == 0.5


def test_an_unknown_version_of_hta_is_refused():
    with pytest.raises(UsageError, match="version of HTA's classes"):
        hta.sorts(pl.Series(["k"]), "0.4")


# ---- TraceLens ------------------------------------------------------------------------------


def test_tracelens_leaves_out_what_has_no_launch_and_counts_sets_as_compute(tmp_path):
    """gemm 10-20; set 30-40; a kernel without a launch 100-110: busy 20 of 30 us."""
    trace = opened(
        tmp_path, *launched("gemm", 10, 10, 1), kernel("stray", 100, 10, 9),
        call("cudaMemsetAsync", 29, 1, 2),
        kernel("Memset (Device)", 30, 10, 2, cat="gpu_memset", stream=8),
    )  # fmt: skip
    found = tracelens.timeline(trace)
    assert (found["window"], found["compute"], found["copy"]) == (30 * US, 20 * US, 0)
    frame = wb.definitions(trace)
    assert row(frame, "tracelens", "window")["reason"] == (
        "what no flow links to a call is left out (1 of 3): -70,000 ns"
    )
    assert row(frame, "tracelens", "copy")["reason"] == (
        "sets count as compute (1 of them): -10,000 ns"
    )


def test_tracelens_leaves_out_sets_of_hip_and_knows_old_copy_kernels(tmp_path):
    trace = opened(
        tmp_path, call("hipMemsetAsync", 0, 1, 1), *launched("__amd_rocclr_copyBuffer", 20, 10, 2),
        kernel("Memset (Device)", 5, 10, 1, cat="gpu_memset"),
    )  # fmt: skip
    found = tracelens.timeline(trace)
    assert (found["busy"], found["copy"]) == (10 * US, 10 * US)


# ---- the TensorBoard plugin -----------------------------------------------------------------


@pytest.fixture
def two_steps(tmp_path):
    """Steps 0-100 and 100-200 on the host; the device ends at 110 and 230.

    host      loader 0-20, op 20-60, call 50-55 | op 110-150, call 140-145
    device    memcpy 60-70, kernel 65-110       | kernel 150-230, memset 220-225
    """
    return opened(
        tmp_path, step(1, 0, 100), step(2, 100, 100),
        mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 20),
        op("aten::mm", 20, 40), call("cudaLaunchKernel", 50, 5, 1),
        call("cudaMemcpyAsync", 55, 2, 2),
        kernel("gemm", 65, 45, 1), kernel("Memcpy HtoD", 60, 10, 2, cat="gpu_memcpy", stream=8),
        op("aten::mm", 110, 40), call("cudaLaunchKernel", 140, 5, 3),
        call("cudaMemsetAsync", 146, 2, 4), kernel("gemm", 150, 80, 3),
        kernel("Memset", 220, 5, 4, cat="gpu_memset", stream=8),
    )  # fmt: skip


def test_tensorboard_paints_steps_by_priority(two_steps):
    """Step 1 is 0-110, step 2 is 110-230.

    1: kernel 65-110; memcpy 60-65; runtime 50-57; loader 0-20; cpu op 20-50 and 57-60; other 0.
    2: kernel 150-230; memset under it; runtime 140-145 and 146-148; op 110-140, 145-146, 148-150.
    """
    rows = {r.pop("step"): {n: ns // US for n, ns in r.items()}
            for r in tensorboard.overall(two_steps).iter_rows(named=True)}  # fmt: skip
    assert rows[1] == {"dur_ns": 110, "kernel": 45, "memcpy": 5, "memset": 0, "communication": 0,
                       "runtime": 7, "data_loader": 20, "cpu_op": 33, "other": 0}  # fmt: skip
    assert rows[2] == {"dur_ns": 120, "kernel": 80, "memcpy": 0, "memset": 0, "communication": 0,
                       "runtime": 7, "data_loader": 0, "cpu_op": 33, "other": 0}  # fmt: skip


def test_tensorboard_utilisation_is_of_kernels_alone(two_steps):
    steps = tensorboard.device_steps(two_steps)
    assert tensorboard.gpu_utilisation(two_steps.activities, steps) == (125 * US, 230 * US)
    found = row(wb.definitions(two_steps), "tensorboard gpu_utilization", "busy")
    assert found["share"] == 125 / 230


def test_tensorboard_drops_a_last_step_that_lost_kernels(tmp_path):
    # two launches in step 1, one in step 2: 1 < 0.8 x 2
    trace = opened(
        tmp_path, step(1, 0, 100), step(2, 100, 100), *launched("a", 10, 5, 1),
        *launched("b", 20, 5, 2), *launched("c", 110, 5, 3),
    )  # fmt: skip
    assert tensorboard.overall(trace)["step"].to_list() == [1]


def test_tensorboard_does_not_know_driver_calls(tmp_path):
    trace = opened(tmp_path, step(1, 0, 100), call("cuLaunchKernel", 10, 5, 1),
                   kernel("a", 90, 50, 1))  # fmt: skip
    found = tensorboard.overall(trace).row(0, named=True)
    assert (found["dur_ns"], found["runtime"], found["kernel"]) == (100 * US, 0, 10 * US)


def test_tensorboard_begins_anew_when_a_step_is_filled(tmp_path):
    # the kernel fills the step, so nothing is left, and the plugin paints the copy over all of it
    trace = opened(
        tmp_path, step(1, 0, 100), call("cudaLaunchKernel", 0, 1, 1), kernel("a", 0, 100, 1),
        kernel("Memcpy HtoD", 20, 10, 2, cat="gpu_memcpy", stream=8),
    )  # fmt: skip
    found = tensorboard.overall(trace).row(0, named=True)
    assert (found["kernel"], found["memcpy"], found["other"]) == (100 * US, 10 * US, 89 * US)


def test_tensorboard_takes_a_kernel_for_communication_by_its_operator(tmp_path):
    trace = opened(
        tmp_path, op("nccl:all_reduce", 0, 10), call("cudaLaunchKernel", 5, 1, 1),
        kernel("ncclKernel_AllReduce", 20, 10, 1), op("last", 100, 1),
        kernel("ncclKernel_AllReduce", 50, 10, 2),
    )  # fmt: skip
    found = tensorboard.overall(trace).row(0, named=True)
    assert (found["communication"], found["kernel"]) == (20 * US, 10 * US)


# ---- Nsight and nsys-ai ---------------------------------------------------------------------


@pytest.fixture
def view(tmp_path):
    """gemm 0-10, my_nccl_copy 5-15, Memcpy 15-25, nccl 1,000,015-1,000,025 us (1 s later)."""
    trace = opened(
        tmp_path, kernel("gemm", 0, 10), kernel("my_nccl_like", 5, 10, stream=8),
        kernel("Memcpy HtoD", 15, 10, cat="gpu_memcpy"), kernel("gemm", 30, 10),
        kernel("ncclDevKernel", 1_000_015, 10),
    )  # fmt: skip
    return View(trace, tuple(select(trace, window="all")))


def last(found):
    return {m: ns // US for m, ns in found.stages[-1].values.items()}


def test_nsight_lists_long_gaps_alone(view):
    # gaps 25-30 and 40-1,000,015
    assert last(nsight.gaps(view)) == {"idle": 999_975}
    assert last(nsight.gaps(view, longer_than_ns=1)) == {"idle": 999_980}


def test_nsight_adds_up_what_runs_at_once(view):
    assert last(nsight.kernel_sum(view)) == {"kernel": 40}
    assert last(nsight.operations(view)) == {"busy": 50}


def test_nccl_by_prefix_or_anywhere(view):
    # by prefix: compute 0-15 and 30-40, communication the last 10; anywhere: 5-15 too
    assert last(nsight.overlap(view)) == {"compute": 25, "communication": 10, "overlap": 0}
    found = last(nsight.nsys_ai(view))
    assert (found["compute"], found["communication"], found["overlap"]) == (20, 20, 5)
    assert found["idle"] == 1_000_025 - 35  # the copy is idle time


# ---- painting -------------------------------------------------------------------------------

EVENTS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 4)), max_size=12)
WINDOWS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=3)


def arrays(rows, columns):
    return [np.array([r[c] for r in rows], np.int64) for c in range(columns)]


@given(EVENTS, WINDOWS)
def test_painting_equals_counting_ticks(rows, spans):
    start, length, sort = arrays(rows, 3)
    begin, extent = arrays(spans, 2)
    inside = intervals.union(begin, begin + extent)
    found = account.painted(Events(start, start + length, sort.astype(np.int8)), inside)
    ticks = np.zeros(len(found), np.int64)
    for t in range(60):
        if not intervals.contains(inside, np.array([t]))[0]:
            continue
        running = {s for a, n, s in rows if a <= t < a + n}
        ticks[sum(1 << s for s in running)] += 1
    assert found.tolist() == ticks.tolist()


@given(EVENTS)
def test_hta_finds_the_plain_unions_where_nothing_is_rounded(rows):
    start, length, sort = arrays(rows, 3)
    found = Events(start, start + length, sort.astype(np.int8))
    if not len(start):
        return
    parts, (both, communication) = hta.temporal(found), hta.overlap(found)
    plain = account.read(account.painted(found, found.span), (*hta.MEASURES, "communication"))
    assert parts.kernel_time_ns == plain["window"]
    assert (parts.idle_ns, parts.compute_ns) == (plain["idle"], plain["compute"])
    assert (both, communication) == (plain["overlap"], plain["communication"])


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    [
        "hta/nccl_args_resnet_a100_rank0_of_2",
        "tracelens/mi300_resnet_ddp_act_checkpoint_rank0_of_8",
        "nsys/nsys_ai_mfu_2gpu_before",
        "hta/mtia_inference_rank0",
        "ascend_npu/pytorch_level1_rank0_trace_view",
    ],
)
def test_recordings_of_all_makers_are_accounted_for(corpus, name):
    frame = wb.definitions(wb.open(next((corpus / "traces").glob(f"{name}.*"))))
    assert set(frame["tool"]) == {
        "hta", "tracelens", "tensorboard", "tensorboard gpu_utilization", "nsight gpu_gaps",
        "nsight gpu_time_util", "nsight cuda_gpu_kern_sum", "nsight nccl_gpu_overlap", "nsys-ai",
    }  # fmt: skip
    known = frame.drop_nulls(["difference_ns", "reason"])
    assert known.height > 5
    for r in known.iter_rows(named=True):
        assert sum(moved(r["reason"])) == r["difference_ns"], r
