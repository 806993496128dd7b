"""Kernel and operator tables that other tools' own tests assert about recorded traces."""

import polars as pl
import pytest

import workbench as wb

pytestmark = pytest.mark.corpus
KERNELS = (
    "h100_bert_small_inference",
    "h100_owlv2_large_inference",
    "h100_qwen1.5_0.5b_inference",
    "mi210_gpu_only",
    "mi300_bert_small_inference",
    "mi300_qwen1.5_0.5b_inference",
    "mi300_torch_compile_triton",
)
OPERATORS = tuple(name for name in KERNELS if name != "mi210_gpu_only")
"""Those whose operators were recorded. Elsewhere the reference leaves out an operator's copies and
sets, which have device time here, or names operators by what a graph was captured from."""


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_by_name(corpus, name):
    """TraceLens, kernel_summary.csv: count, sum, least and most of each kernel, without copies."""
    folder = corpus / "traces" / "tracelens"
    published = pl.read_csv(folder / "expected" / name / "kernel_summary.csv")
    duration = "Kernel duration (µs)_"
    wanted = published.group_by("Kernel name").agg(
        pl.col(f"{duration}count").sum(),
        (pl.col(f"{duration}sum").sum() * 1000).round().cast(pl.Int64),
        (pl.col(f"{duration}min").min() * 1000).round().cast(pl.Int64),
        (pl.col(f"{duration}max").max() * 1000).round().cast(pl.Int64),
    )
    found = wb.kernels(wb.open(folder / f"{name}.json.gz"), window="all")
    found = found.filter(~pl.col("kind").cast(pl.String).is_in(["copy", "set"]))
    rows = found.select("name", "count", "total_ns", "min_ns", "max_ns").rows()
    assert sorted(rows) == sorted(wanted.rows())


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_with_device_time(corpus, name):
    """TraceLens, ops_summary.csv: time of the kernels that an operator launched, in float32 us."""
    folder = corpus / "traces" / "tracelens"
    published = pl.read_csv(folder / "expected" / name / "ops_summary.csv")
    wanted = dict(published.select("name", "total_direct_kernel_time_sum").rows())
    found = wb.ops(wb.open(folder / f"{name}.json.gz"), window="all")
    own_us = {n: ns / 1000 for n, ns in found.select("name", "self_device_ns").rows()}
    assert {n: own_us[n] for n in wanted} == {
        n: pytest.approx(us, abs=1) for n, us in wanted.items()
    }


def test_occupancy_of_the_tensorboard_plugin_s_example(corpus):
    """Kineto's tb_plugin: est. achieved occupancy 49.13 %, weighted by time over the kernels."""
    trace = wb.open(corpus / "traces/kineto/resnet50_v100_num_workers_0_2021.json.gz")
    frame = wb.kernels(trace, by=("kind",))
    (kernels,) = frame.filter(pl.col("kind") == "kernel").rows(named=True)
    assert round(100 * kernels["occupancy"], 2) == 49.13


def test_totals_of_a_shared_recording(corpus):
    """nsys-ai: 535.20 ms of kernels, 25.400 of NCCL in 66 launches, 68 of flash attention."""
    frame = wb.kernels(wb.open(corpus / "traces/nsys/nsys_ai_mfu_2gpu_before.sqlite"), window="all")
    kernels = frame.filter(pl.col("kind").cast(pl.String).is_in(["kernel", "collective"]))
    assert round(kernels["total_ns"].sum() / 1e6, 2) == 535.20
    nccl = kernels.filter(pl.col("family") == "communication")
    assert (round(nccl["total_ns"].sum() / 1e6, 2), nccl["count"].sum()) == (25.40, 66)
    flash = kernels.filter(pl.col("name").str.contains("flash_fwd_kernel"))
    assert flash["count"].sum() == 68
