"""What fills a step, what it waits for its data, and garbage collections; worked out by hand."""

import polars as pl
import pytest
from nsysfile import Export
from tinytrace import call, kernel, mark, op, step, write

import workbench as wb
from workbench import show
from workbench.errors import UsageError
from workbench.trace.synthetic import SyntheticSpec, generate

US = 1000
LOADING = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


@pytest.fixture
def two_steps(tmp_path):
    """Steps of 100 us; each loads data for 30 us, copies it for 10 us and computes for 20 us.

    Step 1: loading 0-30, the copy 40-50 (called at 35), a kernel 50-70 (called at 45); step 2 the
    same 100 us later. Device step 1 is 40-140: copy 10, compute 20, idle 70-140, of which loading
    100-130, then 130-135 and 70-100 unrecorded, the call 135-136, latency 136-140. Device step 2
    is the tail 140-170.
    """
    events = []
    for n, at in ((1, 0), (2, 100)):
        events += [
            step(n, at, 100),
            mark(LOADING, at, 30),
            call("cudaMemcpyAsync", at + 35, 1, 2 * n),
            kernel("Memcpy HtoD (Pinned -> Device)", at + 40, 10, 2 * n, cat="gpu_memcpy"),
            call("cudaLaunchKernel", at + 45, 1, 2 * n + 1),
            kernel("k", at + 50, 20, 2 * n + 1),
        ]
    return wb.open(write(tmp_path, events))


def parts(frame):
    return {(p, c): ns // US for p, c, ns in frame.select("part", "cause", "time_ns").rows() if ns}


def test_the_parts_of_each_step(two_steps):
    found = wb.waterfall(two_steps)
    assert parts(found.filter(step=1)) == {
        ("compute", None): 20,
        ("exposed_copy", None): 10,
        ("idle", "host_data_loading"): 30,
        ("idle", "host_unknown"): 35,
        ("idle", "launch_call"): 1,
        ("idle", "launch_latency"): 4,
    }
    assert parts(found.filter(step=2)) == {("compute", None): 20, ("exposed_copy", None): 10}
    assert found.filter(step=1)["share"].sum() == pytest.approx(1)
    assert dict(found.select("step", "tail").unique().rows()) == {1: False, 2: True}


def test_the_mean_step_leaves_the_tail_out(two_steps):
    found = wb.waterfall_mean(two_steps)
    assert found["steps"].unique().to_list() == [1]
    assert found["mean_ns"].sum() == 100 * US
    assert found.filter(cause="host_unknown")["share"].item() == pytest.approx(0.35)


def test_a_mean_counts_a_step_without_a_part_as_0(tmp_path):
    # three steps of 50 us; in the first a second kernel leaves a gap of 10 us called in time
    events = []
    for n in (1, 2, 3):
        at = 50 * n
        events += [step(n, at, 50), call("cudaLaunchKernel", at, 1, n)]
        events.append(kernel("k", at + 10, 30 if n == 1 else 50, n))
    events += [call("cudaLaunchKernel", 60, 1, 9), kernel("k", 100, 10, 9)]
    found = wb.waterfall_mean(wb.open(write(tmp_path, events)))
    row = found.filter(cause="launch_latency").row(0, named=True)
    assert (row["steps"], row["mean_ns"], row["min_ns"], row["max_ns"]) == (2, 5 * US, 0, 10 * US)
    assert found["mean_ns"].sum() == 50 * US


def test_a_range_cuts_the_steps(two_steps):
    # 60-110 of the source's time: compute 60-70, unrecorded 70-100, loading 100-110; but what
    # comes after the last work of the window is an edge
    start = two_steps.steps["start_ns"][0] - 40 * US
    found = wb.waterfall(two_steps, within=(start + 60 * US, start + 110 * US))
    assert parts(found) == {("compute", None): 10, ("idle", "edge"): 40}


def test_waiting_for_data(two_steps):
    rows = wb.input_wait(two_steps).rows(named=True)
    plain = ("step", "dur_ns", "host_ns", "idle_ns", "exposed_copy_ns", "wait_ns")
    # nothing is known of the device before the first copy; step 2 waits 100-130
    assert [tuple(r[c] for c in plain) for r in rows] == [
        (1, 100 * US, 30 * US, 0, 10 * US, 10 * US),
        (2, 30 * US, 30 * US, 30 * US, 10 * US, 40 * US),
    ]
    assert rows[0]["share"] == pytest.approx(0.1)
    chosen = show.frame(two_steps, "input", show.Choice(step=(2, 2)))
    assert chosen["step"].to_list() == [2]
    with pytest.raises(UsageError, match="No complete step lies in 8:9"):
        wb.input_wait(two_steps, step=(8, 9))


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("Memcpy HtoD (Pageable -> Device)", True),
        ("MemcpyH2D", True),  # XLA
        ("MEMORY_COPY_HOST_TO_DEVICE", True),  # ROCm
        ("CopyHostToDevice", True),
        ("Memcpy DtoH (Device -> Pageable)", False),
        ("MemcpyD2H", False),
    ],
)
def test_copies_to_the_device_by_the_names_of_all_makers(tmp_path, name, counts):
    events = [step(1, 0, 50), call("cudaMemcpyAsync", 5, 1, 1),
              kernel(name, 10, 20, 1, cat="gpu_memcpy")]  # fmt: skip
    (row,) = wb.input_wait(wb.open(write(tmp_path, events))).rows(named=True)
    assert row["exposed_copy_ns"] == (20 * US if counts else 0)


def test_loading_that_is_not_marked_is_unknown(tmp_path):
    events = [step(1, 0, 50), call("cudaLaunchKernel", 5, 1, 1), kernel("k", 10, 20, 1)]
    trace = wb.open(write(tmp_path, events))
    (row,) = wb.input_wait(trace).rows(named=True)
    assert (row["host_ns"], row["idle_ns"], row["wait_ns"]) == (None, None, None)
    assert (row["exposed_copy_ns"], row["reason"]) == (0, "no data loading is marked")
    assert "no data loading is marked" in show.about(trace, "input", show.Choice())["reason"]


def test_operators_in_loading_count_to_it(tmp_path):
    # the loader stacks a batch 40-60 by an operator: idle for the operator, waiting for data
    events = [
        step(1, 0, 100), call("cudaLaunchKernel", 0, 1, 1), kernel("a", 5, 15, 1),
        step(2, 100, 50), mark(LOADING, 30, 40), op("aten::stack", 40, 20),
        call("cudaLaunchKernel", 101, 1, 2), kernel("b", 110, 10, 2),
    ]  # fmt: skip
    trace = wb.open(write(tmp_path, events))
    by_cause = dict(wb.idle_causes(trace, window="all").select("cause", "time_ns").rows())
    assert by_cause["host_operator"] == 20 * US
    assert by_cause["host_data_loading"] == 20 * US
    assert wb.input_wait(trace, step=(2, 2))["idle_ns"].item() == 40 * US


def frame(name, ts, dur, tid=1):
    return op(name, ts, dur, tid) | {"cat": "python_function"}


def test_collections_and_what_they_cost(tmp_path):
    # the device is idle 20-100; thread 1 has yet to launch what ends it at 90, thread 2 nothing
    events = [
        step(1, 0, 200), call("cudaLaunchKernel", 0, 1, 1), kernel("a", 5, 15, 1),
        call("cudaLaunchKernel", 90, 1, 2), kernel("b", 100, 50, 2),
        frame("Python GC", 10, 30),  # idle from 20 to 40
        frame("<built-in function collect>", 50, 20),
        frame("gc.py(3): callback", 55, 5),  # within it
        frame("Python GC", 60, 10, tid=2),  # a thread that launches nothing
        frame("Python GC", 120, 10),  # behind a busy device
        frame("Python GC", 150, 10),  # after all that is known of the device
    ]  # fmt: skip
    found = wb.gc(wb.open(write(tmp_path, events)))
    # relative to the earliest event, the step at 0
    assert found.select("name", pl.col("start_ns", "dur_ns", "idle_ns") // US).rows() == [
        ("Python GC", 10, 30, 20),
        ("<built-in function collect>", 50, 20, 20),
        ("Python GC", 60, 10, 0),
        ("Python GC", 120, 10, 0),
        ("Python GC", 150, 10, None),
    ]
    assert set(found["kind"]) == {"garbage_collection"}
    assert set(found["step"]) == {1}


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("Python GC", True),
        ("gc.collect", True),
        ("gc: generation 2", True),
        ("garbage_collect", True),
        ("lib/python3.11/gc.py(1): collect", True),
        ("nccl:gcd_kernel", False),
        ("src/gc/model.py(3): forward", False),
        ("collect_metrics", False),
    ],
)
def test_collections_are_told_by_name(tmp_path, name, is_one):
    events = [call("cudaLaunchKernel", 0, 1, 1), kernel("a", 5, 15, 1), mark(name, 30, 5)]
    assert wb.gc(wb.open(write(tmp_path, events))).height == is_one


def test_none_recorded_is_said(tmp_path):
    trace = wb.open(write(tmp_path, [call("cudaLaunchKernel", 0, 1, 1), kernel("a", 5, 15, 1)]))
    assert wb.gc(trace).is_empty()
    said = show.about(trace, "gc", show.Choice())["reason"]
    assert "no garbage collection is recorded" in said


def test_host_execution_collects_too(tmp_path):
    # one thread: mm 0-10, collecting 12-18, add 20-30
    events = [op("aten::mm", 0, 10), frame("Python GC", 12, 6), op("aten::add", 20, 10)]
    (row,) = wb.gc(wb.open(write(tmp_path, events))).rows(named=True)
    assert (row["device"], row["idle_ns"]) == (None, 6 * US)


def test_nsight_ranges_of_collections_and_of_the_lock(tmp_path):
    # the device is idle 10-110 us, until a call at 90
    export = Export()
    export.kernel("a", 1000, 10_000, 1).kernel("b", 110_000, 120_000, 2)
    export.call("cudaLaunchKernel", 500, 900, 1).call("cudaLaunchKernel", 90_000, 101_000, 2)
    export.nvtx("gc", 5_000, 30_000).nvtx("Waiting for GIL", 80_000, 95_000)
    export.nvtx("Holding GIL", 95_000, 99_000)
    found = wb.gc(wb.open(export.write(tmp_path)))
    assert found.select("kind", pl.col("idle_ns") // US).rows() == [
        ("garbage_collection", 20),
        ("gil_wait", 10),
    ]


def test_generated_steps_and_collections(tmp_path):
    run = generate(SyntheticSpec(seed=3))
    run.write(tmp_path)
    source = wb.open(tmp_path, cache=False)
    for rank in run.answers.ranks:
        found = wb.waterfall(source, rank=rank.rank)
        whole = {s.step: s.dur_ns for s in rank.steps if s.complete}
        got = found.group_by("step").agg(pl.col("time_ns").sum())
        assert dict(got.rows()) == whole
        answer = rank.windows["steps"]
        idle = found.filter(part="idle").group_by("cause").agg(pl.col("time_ns").sum())
        assert dict(idle.rows()) == {c: ns for c, ns in answer.idle.items() if ns}
        for part in ("compute", "exposed_communication", "exposed_copy"):
            assert found.filter(part=part)["time_ns"].sum() == getattr(answer, f"{part}_ns")
        collected = wb.gc(source, rank=rank.rank)
        assert collected["idle_ns"].sum() == rank.planted["host_garbage_collection"]
        loaded = wb.input_wait(source, rank=rank.rank)
        assert loaded["idle_ns"].min() > 0


def test_waterfalls_of_host_execution_add_up(request):
    trace = wb.open(request.config.rootpath / "data" / "gpt_tiny_cpu")
    found = wb.waterfall(trace).group_by("step").agg(pl.col("time_ns").sum()).sort("step")
    assert found["time_ns"].to_list() == wb.steps(trace).filter("complete")["dur_ns"].to_list()
    assert wb.input_wait(trace)["host_ns"].min() > 0


RECORDED = [
    "hta/ns_resolution_resnet_ddp_v100.json.gz",
    "hta/trace_diff_control_a100_rank3_of_8.json.gz",
    "tracelens/mi300_resnet_ddp_act_checkpoint_rank0_of_8.json.gz",
    "param/dlrm_v100_8ranks",
]


@pytest.mark.corpus
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_waterfalls_add_up(corpus, name):
    source = wb.open(corpus / "traces" / name)
    place = ["rank", "device", "step"]
    found = wb.waterfall(source).group_by(place).agg(pl.col("time_ns").sum()).sort(place)
    steps = wb.steps(source).filter("complete").sort(place)
    assert found["time_ns"].to_list() == steps["dur_ns"].to_list()
    assert wb.input_wait(source).height == steps.height
    mean = wb.waterfall_mean(source).group_by("rank", "device").agg(pl.col("share").sum())
    assert mean["share"].to_list() == pytest.approx([1] * mean.height)


def test_copies_of_one_step_at_once_count_once_and_those_of_two_steps_each(tmp_path):
    # step 1 copies 10-30 and 20-40, step 2 copies 25-35; a kernel runs 28-32: step 1 waits
    # 30 - 4, step 2 10 - 4
    events = [step(1, 0, 8), step(2, 8, 8), call("cudaLaunchKernel", 9, 1, 4),
              kernel("k", 28, 4, 4, stream=8)]  # fmt: skip
    for number, (called, at, dur) in enumerate(((1, 10, 20), (2, 20, 20), (10, 25, 10)), 1):
        place = {"cat": "gpu_memcpy", "stream": 20 + number}
        events.append(call("cudaMemcpyAsync", called, 1, number))
        events.append(kernel("Memcpy HtoD", at, dur, number, **place))
    found = wb.input_wait(wb.open(write(tmp_path, events)))
    assert dict(found.select("step", "exposed_copy_ns").rows()) == {1: 26 * US, 2: 6 * US}
