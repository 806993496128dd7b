"""Memory of recorded and generated runs: what their sources assert, and what must add up."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

import workbench as wb
from workbench import show
from workbench.analysis.pools import BEFORE
from workbench.trace.memory.timeline import CATEGORIES

ROOT = Path(__file__).resolve().parents[2]
RECORDED = [
    "hta/df_index_resolver_v100_rank1_of_2.json.gz",
    "hta/memory_timeline.raw.json.gz",
    "kineto/resnet50_v100_num_workers_0_2021.json.gz",
    "memory/cuda_memory_snapshot_llm_train.pickle.gz",
    "tracelens/h100_owlv2_large_inference.json.gz",
    "tracelens/h100_qwen1.5_0.5b_inference.json.gz",
    "tracelens/mi300_qwen1.5_0.5b_inference.json.gz",
    "tracelens/mi300_vllm_piecewise_graph_capture.json.gz",
]


@pytest.mark.corpus
def test_sizes_that_the_source_of_the_timeline_asserts(corpus):
    found = wb.memory_timeline(wb.open(corpus / "traces/hta/memory_timeline.raw.json.gz"))
    last = found.group_by("t_ns", "category", maintain_order=True).last()
    wide = last.sort("t_ns").pivot("category", index="t_ns", values="held_bytes")
    # the source has one entry for what existed before and one for each time after it
    sizes = wide[744 - 1].select(*[c for c in CATEGORIES if c in wide.columns]).row(0, named=True)
    assert [sizes.get(c, 0) for c in CATEGORIES] == [
        102440608, 102228128, 19395584, 0, 2618160128, 58417152, 41811968, 25494440,
    ]  # fmt: skip


@pytest.mark.corpus
def test_the_state_that_the_snapshot_asserts(corpus):
    path = corpus / "traces/memory/cuda_memory_snapshot_llm_train.pickle.gz"
    trace = wb.open(path)
    state = wb.fragmentation(trace)
    sums = state.select("segments", "reserved_bytes", "allocated_bytes", "active_bytes").sum()
    assert sums.row(0) == (96, 4_238_344_192, 3_072_871_424, 3_072_871_424)
    (row,) = wb.memory(trace).rows(named=True)
    assert (row["allocations"], row["frees"]) == (2162, 2162)
    assert row["reserved_at_end_bytes"] == 4_238_344_192
    # as many blocks from before were freed as were made and kept
    assert row["early_frees"] == row["not_freed"] == 222
    sites = wb.memory_peak(trace)
    assert sites["by"].unique().to_list() == ["site"]
    assert sites["name"].drop_nulls().str.contains(r"\.py\(\d+\): ").all()


@pytest.mark.corpus
@pytest.mark.parametrize("name", RECORDED)
def test_a_walk_over_the_rows_gives_the_same(corpus, name):
    trace = wb.open(corpus / "traces" / name)
    for row in wb.memory(trace, window="all").rows(named=True):
        on_device = pl.col("device").is_null() == (row["device"] is None)
        pool = trace.memory.filter(on_device)
        level = peak = 0
        for change in pool["bytes"]:
            level += change
            peak = max(peak, level)
        assert row["peak_above_start_bytes"] == peak
        assert (row["allocations"], row["frees"]) == (
            (pool["bytes"] > 0).sum(), (pool["bytes"] < 0).sum(),
        )  # fmt: skip
        if row["peak_allocated_bytes"] is not None:
            assert row["peak_allocated_bytes"] == pool["total_allocated"].max()
            assert row["allocated_at_start_bytes"] + peak == row["peak_allocated_bytes"]
            assert row["allocated_at_end_bytes"] == pool["total_allocated"][-1]


@pytest.mark.corpus
@pytest.mark.parametrize("name", RECORDED)
def test_groups_and_phases_add_up(corpus, name):
    trace = wb.open(corpus / "traces" / name)
    held = wb.memory_peak(trace).filter(pl.col("peak_bytes").is_not_null())
    sums = held.group_by("device", "by").agg(pl.col("bytes").sum(), pl.col("peak_bytes").first())
    assert (sums["bytes"] == sums["peak_bytes"]).all()
    for grouping in ("category", "phase"):
        series = wb.memory_timeline(trace, by=grouping, points=200)
        known = series.filter(pl.col("allocated_bytes").is_not_null())
        moments = known.with_columns(
            first=(pl.col("category") == pl.col("category").first()).over("device")
            | pl.col("category").is_null()
        ).with_columns(moment=pl.col("first").cum_sum().over("device"))
        both = moments.group_by("device", "moment").agg(
            pl.col("held_bytes").sum(), pl.col("allocated_bytes").first()
        )
        assert (both["held_bytes"] == both["allocated_bytes"]).all()
        assert (
            series.group_by("device")
            .agg(pl.col("above_start_bytes").max())
            .sort("device")["above_start_bytes"]
            .to_list()
            == wb.memory(trace).sort("device")["peak_above_start_bytes"].to_list()
        )


@pytest.mark.corpus
def test_hip_memory_is_the_devices(corpus):
    trace = wb.open(corpus / "traces/tracelens/mi300_qwen1.5_0.5b_inference.json.gz")
    device, host = wb.memory(trace).rows(named=True)
    # memory is of the first device that the process sees, which is the machine's third
    assert trace.activities["device"].unique().to_list() == [device["device"]] == [2]
    assert trace.memory["device"].unique().sort().to_list() == [None, 0]
    assert (device["place"], host["place"], host["device"]) == ("device", "host", None)
    assert device["peak_running"] is not None
    assert device["reserved_at_end_bytes"] > device["peak_allocated_bytes"]


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "calls"),
    [
        # counted in the files by name
        ("hta/critical_path_alexnet_a100.json.gz", 24 + 15 + 1),
        ("nsys/cloverleaf_a100_schema3.13.sqlite", 76 + 68),
        ("rocm/rpd_matmul_result.rpd", 5),
        ("tracelens/mi300_vllm_piecewise_graph_capture.json.gz", 12 + 14),
    ],
)
def test_allocator_calls_of_every_maker(corpus, name, calls):
    trace = wb.open(corpus / "traces" / name)
    each = wb.allocator(trace)
    causes = wb.allocator_causes(trace)
    assert each.height == causes["calls"].sum() == calls
    assert each["dur_ns"].sum() == causes["total_ns"].sum()
    assert ((each["idle_ns"] >= 0) & (each["idle_ns"] <= each["dur_ns"])).all()


@pytest.mark.corpus
def test_known_cases(corpus):
    def case(name):
        (path,) = (corpus / "cases").glob(f"{name}*")
        expected = json.loads((corpus / "cases" / f"{name[:3]}.expected.json").read_text())
        return wb.open(path), expected["values"]

    twice, want = case("K52_free_twice")
    (row,) = wb.memory(twice).rows(named=True)
    assert row["peak_allocated_bytes"] == want["peak_allocated"]
    assert row["allocated_at_end_bytes"] == want["final_allocated"]
    assert row["peak_reserved_bytes"] == want["reserved"]
    for name in ("K53_no_history", "K53_no_frames", "K54_protocol5", "K54_bare_list"):
        trace, want = case(name)
        (state,) = wb.fragmentation(trace).rows(named=True)
        found = {"reserved": state["reserved_bytes"], "allocated": state["allocated_bytes"]}
        assert found == want["each_file"]
        (row,) = wb.memory(trace).rows(named=True)
        assert row["allocated_at_end_bytes"] == want["each_file"]["allocated"]
    unrecorded, _ = case("K55_no_memory_events")
    (row,) = wb.memory(unrecorded).rows(named=True)
    assert row["peak_allocated_bytes"] is None
    said = "profile_memory was on but the trace holds no memory events"
    assert row["reason"].startswith(said)
    assert wb.memory_timeline(unrecorded).is_empty()
    for name in ("memory_timeline", "memory_peak"):
        assert said in show.about(unrecorded, name, show.Choice())["reason"]


def test_a_generated_run_holds_its_activations_at_the_peak():
    run = wb.open(ROOT / "data/generated_gpu_2ranks")
    found = wb.memory(run)
    # every layer's forward operators keep one block of 4 MiB each until backward: 2 layers of 5;
    # from before, 2 layers of 2 weights of 2 MiB, with gradients and two moments each: 32 MiB
    mib = 2**20
    assert found["allocated_at_start_bytes"].to_list() == [32 * mib] * 2
    assert found["peak_allocated_bytes"].to_list() == [(32 + 10 * 4) * mib] * 2
    # 72 MiB are more than three segments of 20 MiB
    assert found["peak_reserved_bytes"].to_list() == [80 * mib] * 2
    assert found.select("peak_step", "peak_phase", "not_freed").rows() == [(10, "forward", 0)] * 2
    held = wb.memory_peak(run, by="phase", rank=0).select("name", "bytes", "blocks", "reason")
    assert held.rows() == [("forward", 40 * mib, 10, None), (None, 32 * mib, None, BEFORE)]


def test_a_recorded_run_on_the_host():
    run = wb.open(ROOT / "data/gpt_tiny_cpu")
    (row,) = wb.memory(run).rows(named=True)
    text = gzip.decompress((ROOT / "data/gpt_tiny_cpu/rank0.trace.json.gz").read_bytes())
    events = [e["args"] for e in json.loads(text)["traceEvents"] if e.get("name") == "[memory]"]
    assert row["peak_allocated_bytes"] == max(e["Total Allocated"] for e in events)
    assert row["allocated_bytes"] == sum(max(e["Bytes"], 0) for e in events)
    assert (row["place"], row["peak_phase"]) == ("host", "backward")
    held = wb.memory_peak(run, by="phase")
    assert held["name"].to_list() == ["forward", "backward", "data"]
