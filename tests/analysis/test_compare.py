"""Two recordings side by side, worked out by hand; differences that add up to the nanosecond."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinytrace import call, kernel, op, step, write
from typer.testing import CliRunner

import workbench as wb
from workbench import cli
from workbench.analysis import compare as module
from workbench.analysis import sides
from workbench.analysis.window import select
from workbench.errors import UsageError
from workbench.trace.synthetic import SyntheticSpec, generate

US = 1000


def opened(folder, name, *events, **header):
    return wb.open(write(folder, list(events), f"{name}.json", **header))


def of(frame, kind, *columns):
    return dict(frame.filter(kind=kind).select("name", pl.concat_list(columns)).rows())


def adds_up(frame):
    """Each kind's columns are those of the step, on every device."""
    for _, rows in frame.group_by("rank", "device"):
        whole = rows.filter(kind="total").row(0, named=True)
        for kind in module.ADDITIVE:
            parts = rows.filter(kind=kind)
            for column in ("a_ns", "b_ns", "difference_ns"):
                assert parts[column].sum() == whole[column], (kind, column)
            if whole["difference_ns"]:
                assert parts["share_of_change"].sum() == pytest.approx(1)


def matmul(folder, name, dur):
    return opened(
        folder, name, op("aten::mm", 10, 50), call("cudaLaunchKernel", 20, 5, 1),
        kernel("gemm", 40, dur, 1),
    )  # fmt: skip


def test_a_single_operator_that_got_slower(tmp_path):
    # no steps, so the window: 40-50 became 40-60
    frame = wb.compare(matmul(tmp_path, "a", 10), matmul(tmp_path, "b", 20))
    assert of(frame, "operator", "a_ns", "b_ns", "difference_ns") == {
        "aten::mm": [10 * US, 20 * US, 10 * US], "idle": [0, 0, 0],
    }  # fmt: skip
    assert of(frame, "total", "difference_ns") == {
        "window": [10 * US], "busy": [10 * US], "launch_calls": [0],
    }  # fmt: skip
    adds_up(frame)
    (sentence,) = module.verdict(frame)
    assert sentence.startswith("the window went from 10 us to 20 us (+100.00 %); ")
    assert sentence.endswith("the largest change is compute, +10 us")


def test_a_graph_that_replays_the_same_kernels_is_no_less_work(tmp_path):
    """Eager: three launches, kernels 10-20, 30-40, 50-60. Graph: one launch, 10-40 without gaps."""
    starts = (10, 30, 50)
    eager = [op(f"aten::op{i}", t - 8, 7) for i, t in enumerate(starts)]
    eager += [call("cudaLaunchKernel", t - 5, 2, i + 1) for i, t in enumerate(starts)]
    eager += [kernel(f"k{i}", t, 10, i + 1) for i, t in enumerate(starts)]
    graph = [op("replay", 0, 9), call("cudaGraphLaunch", 2, 5, 1)]
    graph += [kernel(f"k{i}", 10 + 10 * i, 10, 1) for i in range(3)]
    frame = wb.compare(opened(tmp_path, "a", *eager), opened(tmp_path, "b", *graph))
    adds_up(frame)
    assert of(frame, "total", "a_count", "b_count") == {
        "window": [1, 1], "busy": [3, 3], "launch_calls": [3, 1],
    }  # fmt: skip
    assert of(frame, "part", "difference_ns") == {"idle": [-20 * US], "compute": [0]}
    assert of(frame, "kernel", "difference_ns") == {
        "idle": [-20 * US], "k0": [0], "k1": [0], "k2": [0],
    }  # fmt: skip
    assert module.verdict(frame)[1] == (
        "fewer launches, the same device work: 3 calls became 1 for the same 3 activities, "
        "30 us and 30 us of device time"
    )


def test_every_instant_counts_once(tmp_path):
    """One device.

    compute  first 0..40, second 30..60      first has 0-40, second 40-60
    nccl     50..80                          60-80
    copy     0..90                           80-90
    """
    trace = opened(
        tmp_path, "a", kernel("first", 0, 40), kernel("second", 30, 30, stream=8),
        kernel("ncclDevKernel_AllReduce", 50, 30, stream=9),
        kernel("Memcpy HtoD", 0, 90, stream=10, cat="gpu_memcpy"),
    )  # fmt: skip
    (chosen,) = select(trace)
    own = dict(zip(chosen.activities["name"], sides.exclusive(chosen), strict=True))
    assert own == {"first": 40 * US, "second": 20 * US, "ncclDevKernel_AllReduce": 20 * US,
                   "Memcpy HtoD": 10 * US}  # fmt: skip


def stepped(folder, name, *lengths):
    """Host steps of 100 us; step k launches one kernel of that length 50 us after it begins."""
    events = []
    for k, length in enumerate(lengths):
        at = 100 * k
        events += [step(k, at, 100), call("cudaLaunchKernel", at + 40, 5, k + 1),
                   kernel("gemm", at + 50, length, k + 1)]  # fmt: skip
    return opened(folder, name, *events)


def test_the_step_is_the_mean_of_complete_steps_before_the_last(tmp_path):
    # device steps of 100 us each; compute (10 + 20) / 2 became (40 + 41 + 41) / 3 = 40.6667 us
    frame = wb.compare(stepped(tmp_path, "a", 10, 20, 99), stepped(tmp_path, "b", 40, 41, 41, 99))
    adds_up(frame)
    assert of(frame, "total", "a_ns", "b_ns")["step"] == [100 * US, 100 * US]
    assert of(frame, "total", "a_count", "b_count")["step"] == [2, 3]
    assert of(frame, "part", "a_ns", "b_ns") == {
        "compute": [15_000, 40_667], "idle": [85_000, 59_333],
    }  # fmt: skip
    assert frame["share_of_change"].null_count() == frame.height  # the step did not change


def test_named_steps_may_be_the_last(tmp_path):
    traces = [stepped(tmp_path, "a", 10, 20), stepped(tmp_path, "b", 10, 25)]
    frame = wb.compare(*traces, step=(1, 1))
    assert of(frame, "part", "a_ns", "b_ns")["compute"] == [20 * US, 25 * US]
    assert module.basis(*traces, (1, 1), None) == {"a": "mean of 1 step", "b": "mean of 1 step"}
    with pytest.raises(UsageError, match="A has no step in 7:8"):
        wb.compare(*traces, step=(7, 8))


def test_a_whole_window_where_one_has_no_steps(tmp_path):
    traces = [stepped(tmp_path, "a", 10, 20, 30), matmul(tmp_path, "b", 20)]
    assert wb.compare(*traces)["name"][0] == "window"
    assert "whole window" in module.basis(*traces, None, None)["a"]


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=9), st.integers(1, 7))
def test_rounded_shares_add_up_and_none_is_off_by_a_nanosecond(totals, steps):
    found = module.per_step(np.array(totals, np.int64), steps)
    assert found.sum() == round(sum(totals) / steps) or sum(totals) > 2**52
    assert abs(int(found.sum()) * steps - sum(totals)) * 2 <= steps
    assert all(abs(int(x) * steps - t) < steps for x, t in zip(found, totals, strict=True))


def test_generated_runs_add_up(tmp_path):
    runs = [
        wb.open(generate(spec).write(tmp_path / name)[0].parent)
        for name, spec in (
            ("a", SyntheticSpec(seed=1, jitter=0.3)),
            ("b", SyntheticSpec(seed=2, jitter=0.3, layers=3, steps=4)),
        )
    ]
    frame = wb.compare(*runs)
    assert set(frame["rank"]) == {0, 1}
    adds_up(frame)
    assert wb.compare(*runs, rank=1).equals(frame.filter(rank=1))
    mean = frame.filter(rank=0, kind="total", name="step")
    steps = wb.steps(runs[0].ranks[0]).filter(pl.col("complete") & ~pl.col("tail"))
    assert mean["a_ns"][0] == pytest.approx(steps["dur_ns"].mean(), abs=0.5)
    same = wb.compare(runs[0], runs[0])
    assert same["difference_ns"].to_list() == [0] * same.height


def test_host_execution_adds_up():
    frame = wb.compare(wb.open("data/gpt_tiny_cpu"), wb.open("data/gpt_tiny_cpu"))
    adds_up(frame)
    assert frame["device"].null_count() == frame.height


SPANS = st.lists(
    st.tuples(
        st.integers(1, 30),
        st.integers(0, 12),
        st.sampled_from(["gemm", "relu", "ncclDevKernel_AllReduce", "Memcpy HtoD"]),
    ),
    min_size=1,
    max_size=10,
)


@given(SPANS)
def test_exclusive_time_equals_counting_ticks(tmp_path_factory, spans):
    events = [
        kernel(name, start, length, i + 1, stream=i,
               cat="gpu_memcpy" if name.startswith("Memcpy") else "kernel")
        for i, (start, length, name) in enumerate(spans)
    ]  # fmt: skip
    trace = wb.open(write(tmp_path_factory.mktemp("spans"), events), cache=False)
    (chosen,) = select(trace)
    found = dict(zip(chosen.activities["stream"], sides.exclusive(chosen), strict=True))
    rank = {"gemm": 0, "relu": 0, "ncclDevKernel_AllReduce": 1, "Memcpy HtoD": 2}
    want = dict.fromkeys(range(len(spans)), 0)
    for t in range(45):
        running = [i for i, (a, n, _) in enumerate(spans) if a <= t < a + n]
        if running:
            order = {s: n for n, s in enumerate(chosen.activities["stream"])}
            owner = min(running, key=lambda i: (rank[spans[i][2]], spans[i][0], order[i]))
            want[owner] += US
    assert found == {i: want[i] for i in found}
    assert sum(want.values()) == sum(found.values())


# ---- what can't be compared -----------------------------------------------------------------


def test_a_host_and_a_device_are_refused(tmp_path):
    host = opened(tmp_path, "host", op("aten::mm", 0, 10))
    with pytest.raises(UsageError, match="A ran on cpu and B on cuda"):
        wb.compare(host, matmul(tmp_path, "b", 10))


def test_different_numbers_of_devices_are_refused(tmp_path):
    two = opened(tmp_path, "two", kernel("a", 0, 10), kernel("b", 0, 10, device=1))
    with pytest.raises(UsageError, match="A has 1 devices and B 2"):
        wb.compare(matmul(tmp_path, "a", 10), two)


def test_a_recording_without_activity_is_refused(tmp_path):
    lost = opened(tmp_path, "lost", op("aten::mm", 0, 10), call("cudaLaunchKernel", 2, 1, 1))
    with pytest.raises(UsageError, match="B has no device time to compare"):
        wb.compare(matmul(tmp_path, "a", 10), lost)


def test_different_ranks_are_refused():
    job = wb.open("data/generated_gpu_2ranks")
    with pytest.raises(UsageError, match="A holds ranks 0, 1 and B ranks 1"):
        wb.compare(job, job.ranks[1])
    with pytest.raises(UsageError, match="no rank 7"):
        wb.compare(job, job, rank=7)


@pytest.mark.corpus
def test_a_graph_without_times_is_refused(corpus, tmp_path):
    graph = wb.open(corpus / "traces" / "param" / "linear_et.json.gz")
    with pytest.raises(UsageError, match="says what ran but not when"):
        wb.compare(matmul(tmp_path, "a", 10), graph)


@pytest.mark.corpus
def test_recorded_pairs(corpus):
    expected = json.loads((corpus / "cases" / "K56.expected.json").read_text())["values"]
    frame = wb.compare(*(wb.open(corpus / "cases" / f"K56_{n}.json") for n in ("eager", "graph")))
    total = of(frame, "total", "a_count", "b_count")
    assert total["launch_calls"] == expected["launch_calls"]
    assert total["busy"] == expected["kernels"]
    assert of(frame, "total", "a_ns", "b_ns")["busy"] == expected["device_busy_ns"]
    kernels = frame.filter(pl.col("name") != "idle", kind="kernel")
    assert kernels.filter((pl.col("a_count") == 0) | (pl.col("b_count") == 0)).height == 0
    assert "fewer launches, the same device work" in module.verdict(frame)[1]
    expected = json.loads((corpus / "cases" / "K57.expected.json").read_text())["values"]
    frame = wb.compare(*(wb.open(corpus / "cases" / f"K57_{n}.json") for n in "ab"))
    changed = frame.filter(pl.col("difference_ns") != 0, kind="operator")
    assert dict(changed.select("name", "difference_ns").rows()) == expected["delta_device_ns"]
    assert changed.height == expected["rows"]


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("tracelens/h100_qwen1.5_0.5b_inference", "tracelens/mi300_qwen1.5_0.5b_inference"),
        ("hta/trace_diff_control_a100_rank3_of_8", "hta/trace_diff_test_v100_rank1_of_2"),
        ("param/dlrm_v100_8ranks/kineto_rank0", "param/dlrm_v100_8ranks/kineto_rank1"),
        ("nsys/fuser_h100_schema3.16", "nsys/fuser_h200_schema3.16"),
    ],
)
def test_recordings_of_all_makers_add_up(corpus, a, b):
    frame = wb.compare(*(wb.open(next((corpus / "traces").glob(f"{n}.*"))) for n in (a, b)))
    assert frame.filter(kind="kernel").height > 10
    adds_up(frame)


# ---- the command line -----------------------------------------------------------------------


def run(*args):
    result = CliRunner().invoke(cli.app, ["compare", *map(str, args)], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.stdout


def test_the_verb_prints_rows_meta_and_a_verdict(tmp_path):
    matmul(tmp_path, "a", 10)
    matmul(tmp_path, "b", 20)
    files = tmp_path / "a.json", tmp_path / "b.json"
    out = json.loads(run(*files, "--kind", "part", "--json"))
    assert [r["name"] for r in out["rows"]] == ["compute", "idle"]
    assert set(out["meta"]) == {"a", "b", "verdict"}
    assert out["meta"]["a"].startswith("a.json, the whole window")
    assert "aten::mm" in run(*files)
    assert len(json.loads(run(*files, "--top", "1", "--json"))["rows"]) == 6  # one of each kind
    with pytest.raises(UsageError, match="did you mean operator"):
        run(*files, "--kind", "operators")
