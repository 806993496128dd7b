"""Recorded exports: what their sources and an independent script say of them, to the nanosecond."""

import polars as pl
import pytest
from nsysfile import busy_ns

import workbench as wb

pytestmark = pytest.mark.corpus

# device: (kernels with collectives, summed ns, union, first to last, collectives, their union)
TOTALS = {
    "nsys_ai_h100_2gpu_1s": {
        0: (1721, 22_385_163, 22_385_163, 960_485_009, 0, 0),
        1: (1721, 22_444_359, 22_444_359, 960_307_663, 0, 0),
    },
    "nsys_ai_mfu_2gpu_before": {
        0: (1993, 270_875_926, 270_863_484, 299_848_812, 33, 17_172_652),
        1: (2017, 264_324_724, 264_324_724, 298_661_551, 33, 8_229_100),
    },
    "nsys_ai_mock": {0: (2, 4_129, 4_129, 18_254_667, 0, 0)},
    "fuser_h100_schema3.16": {0: (19, 402_301, 402_301, 529_105_114, 0, 0)},
    "fuser_h200_schema3.16": {0: (19, 390_428, 390_428, 502_967_749, 0, 0)},
    "cloverleaf_a100_schema3.13": {0: (1312, 294_404_540, 294_404_540, 342_340_707, 0, 0)},
}


@pytest.fixture
def export(corpus):
    return lambda name: corpus / "traces" / "nsys" / f"{name}.sqlite"


@pytest.mark.parametrize("name", TOTALS)
def test_totals_equal_the_independent_ones(export, name):
    trace = wb.open(export(name))
    ends = pl.col("start_ns") + pl.col("dur_ns")
    kernels = trace.activities.filter(pl.col("kind").is_in(["kernel", "collective"]))
    for device, numbers in TOTALS[name].items():
        count, summed, busy, span, collectives, communication = numbers
        own = kernels.filter(pl.col("device") == device)
        assert (own.height, own["dur_ns"].sum()) == (count, summed)
        assert own.select(ends.max() - pl.col("start_ns").min()).item() == span
        (row,) = wb.summary(trace, window="all", device=device).rows(named=True)
        assert (row["kernels"], row["collectives"]) == (count, collectives)
        assert row["compute_ns"] + row["exposed_communication_ns"] == busy
        assert row["communication_ns"] == communication
        assert row["exposed_communication_ns"] == communication


@pytest.mark.parametrize("name", TOTALS)
def test_busy_time_is_that_of_a_plain_sweep(export, name):
    rows = wb.summary(wb.open(export(name)), window="all").iter_rows(named=True)
    assert {r["device"]: r["busy_ns"] for r in rows} == busy_ns(export(name))


def test_what_the_source_asserts_of_a_two_gpu_run(export):
    """535.20 ms of kernels, 25.400 ms of NCCL in 66 launches, 68 launches of flash attention."""
    found = wb.open(export("nsys_ai_mfu_2gpu_before")).activities
    kernels = found.filter(pl.col("kind").is_in(["kernel", "collective"]))
    nccl = found.filter(pl.col("kind") == "collective")
    name = pl.col("name").cast(pl.String)
    assert round(kernels["dur_ns"].sum() / 1e6, 2) == 535.20
    assert (round(nccl["dur_ns"].sum() / 1e6, 2), nccl.height) == (25.40, 66)
    assert found.filter(name.str.contains("flash_fwd_kernel")).height == 68


def test_kernels_belong_to_operators(export):
    """In the whole file 5,268 of 5,299 activities have their call inside the recording."""
    trace = wb.open(export("nsys_ai_mfu_2gpu_before"))
    assert trace.activities["launch"].count() == 5268
    both = trace.activities.join(trace.ops.select(op="id", by="name"), on="op")
    of = both.group_by(pl.col("by").cast(pl.String)).agg(pl.col("name").cast(pl.String))
    made = {by: set(names) for by, names in of.rows()}
    assert all("flash_fwd_kernel" in n for n in made["flash_attn::_flash_attn_forward"])
    assert any(n.startswith("nvjet") for n in made["aten::addmm"])
    assert made["record_param_comms"] == {n for n in both["name"].cast(pl.String) if "nccl" in n}
    assert set(trace.ranges["domain"].cast(pl.String)) == {"domain 1", "nccl"}


def test_an_export_without_annotations(export):
    trace = wb.open(export("cloverleaf_a100_schema3.13"))
    assert (trace.ops.height, trace.ranges.height) == (0, 0)
    assert "no_annotations" in trace.problems["code"].to_list()
    near = trace.meta.devices[0]
    assert (near.name, near.properties["busLocation"]) == ("NVIDIA A100-SXM4-80GB", "0000:03:00.0")
    assert trace.meta.producer["EXPORT_SCHEMA_VERSION"] == "3.13.2"


@pytest.mark.parametrize(
    ("name", "calls"),
    [("odd_no_kernel_table_rtx_a2000", 0), ("odd_no_kernels_rtx5060ti_schema3.17.2", 3)],
)
def test_an_export_without_activity_opens_and_says_so(export, name, calls):
    trace = wb.open(export(name))
    (row,) = wb.summary(trace).rows(named=True)
    assert (row["device_kind"], row["busy_ns"], row["kernels"]) == ("cuda", None, None)
    assert trace.launches.height == calls
    assert trace.meta.device_reason == "the trace has no device activity"
    effects = dict(zip(trace.problems["code"], trace.problems["effect"], strict=True))
    assert effects["no_kernels"] == "no GPU kernels in this export"
