import csv
import json

import polars as pl
import pytest
from costs.made import op_row, trace_of

from workbench.analysis.coverage import SCHEMA as COVERAGE
from workbench.analysis.coverage import coverage
from workbench.analysis.recoverable import SCHEMA, recoverable
from workbench.analysis.roofline import COLUMNS, GROUPED, roofline
from workbench.costs import hardware, models
from workbench.costs.ceilings import VERSION, Ceilings, Compute, Memory
from workbench.costs.cost import Cost
from workbench.errors import UsageError

BF2, F2 = ["c10::BFloat16"] * 2, ["float"] * 2


def kernel(number, op, start, end, *, kind="kernel", name="gemm", device=0):
    return {
        "id": number, "kind": kind, "name": name, "device": device, "stream": 7,
        "start_ns": start, "dur_ns": end - start, "op": op, "source": "device",
    }  # fmt: skip


def segment(number, op, start, end):
    return kernel(number, op, start, end, kind="compute", device=None) | {"source": "host"}


def measured(kind="cpu", device="Some CPU"):
    # 100 GFLOP/s; 50 GB/s up to 10 kB, 20 GB/s beyond
    memory = (Memory("copy", 10_000, 50e9, 0.0, 7), Memory("copy", 10**9, 20e9, 0.0, 7))
    return Ceilings(
        version=VERSION, device=device, kind=kind, date="2026-01-31", machine="Linux", torch="2",
        driver=None, threads=2, clock_mhz=None, seconds=1.0,
        compute=(Compute("fp32", 100e9, 0.0, 512, "nn", 7),), memory=memory,
    )  # fmt: skip


# linear > addmm > copy_;  mm twice;  relu;  and a kernel that nobody launched
OPS = [
    op_row(0, "aten::linear", None, 0, [[4, 8], [16, 8], [16]], ["c10::BFloat16"] * 3),
    op_row(1, "aten::addmm", 0, 1, [[16], [4, 8], [8, 16]], ["c10::BFloat16"] * 3),
    op_row(2, "aten::copy_", 1, 2, [[4, 16], [4, 16]], BF2),
    op_row(3, "aten::mm", None, 0, [[64, 128], [128, 256]], BF2),
    op_row(4, "aten::mm", None, 0, [[64, 128], [128, 256]], BF2),
    op_row(5, "my::relu", None, 0, [[4]], ["float"]),
]
#  addmm 0-100 and its copy_ 50-150: 150;  mm 200-300 and 300-400;  relu 400-420;  unlinked 500-600
ACTIVITIES = [
    kernel(0, 1, 0, 100),
    kernel(1, 2, 50, 150),
    kernel(2, 3, 200, 300),
    kernel(3, 4, 300, 400),
    kernel(4, 5, 400, 420),
    kernel(5, None, 500, 600),
]


def row(frame, **wanted):
    rows = frame.filter(*(pl.col(k) == v for k, v in wanted.items())).to_dicts()
    assert len(rows) == 1, rows
    return rows[0]


def test_time_of_a_modelled_operator_holds_what_it_calls():
    frame = roofline(trace_of(OPS, ACTIVITIES))
    assert frame.schema == pl.Schema(COLUMNS)
    assert frame.select("operator", "calls", "activities", "time_ns", "kind").rows() == [
        ("aten::mm", 2, 2, 200, "matmul"),
        ("aten::addmm", 1, 2, 150, "matmul"),
        (None, None, 1, 100, "other"),
        ("my::relu", 1, 1, 20, "other"),
    ]
    # device time 150 + 200 + 20 + 100 = 470
    assert frame["share_of_device_time"].to_list() == pytest.approx(
        [200 / 470, 150 / 470, 100 / 470, 20 / 470]
    )


def test_rates_and_roof_by_hand():
    # two calls of 4,194,304 FLOP and (8192 + 32768 + 16384) * 2 bytes = 114,688, in 200 ns
    mm = row(roofline(trace_of(OPS, ACTIVITIES)), operator="aten::mm")
    assert (mm["flops"], mm["bytes"]) == (8_388_608, 229_376)
    assert mm["flops_per_byte"] == pytest.approx(36.5714, abs=1e-4)
    assert mm["achieved_flops_per_s"] == pytest.approx(8_388_608 / 200e-9)
    assert mm["achieved_bytes_per_s"] == pytest.approx(229_376 / 200e-9)
    # H200: min(989.4 T, 4.8 T * 36.57) = 175.5 TFLOP/s, by memory; 41.94 of it
    assert (mm["bound"], mm["memory_level"]) == ("memory", "memory")
    assert mm["attainable_flops_per_s"] == pytest.approx(4.8e12 * 36.5714, rel=1e-5)
    assert mm["ratio_to_roof"] == pytest.approx(41.943e12 / 175.543e12, rel=1e-4)
    assert mm["roof_source"] == "data sheet: H200-SXM-141GB"
    assert mm["shapes"] == "[64,128] bf16 x [128,256] bf16"
    assert mm["reason"] is None


def test_what_has_no_model_says_why_and_has_no_numbers():
    frame = roofline(trace_of(OPS, ACTIVITIES))
    assert row(frame, operator="my::relu")["reason"] == "no model of its FLOPs and bytes"
    unlinked = frame.filter(pl.col("operator").is_null()).to_dicts()[0]
    assert unlinked["reason"] == "no operator is linked to it"
    for name in ("flops", "bytes", "achieved_flops_per_s", "ratio_to_roof", "bound"):
        assert unlinked[name] is None, name


def test_what_only_moves_is_held_against_memory(monkeypatch):
    # 4,800,000 bytes at 4.8 TB/s need 1000 ns; it took 4000: a quarter, bound by memory, no FLOP/s
    moved = Cost(0, 2_400_000, 2_400_000, "bf16", "memory", "copy")
    monkeypatch.setitem(models.MODELS, "my::relu", lambda _: moved)
    trace = trace_of(OPS, [kernel(0, 5, 0, 4000)])
    found = row(roofline(trace), operator="my::relu")
    assert (found["kind"], found["roof_ns"], found["bound"]) == ("copy", 1000, "memory")
    assert found["ratio_to_roof"] == pytest.approx(0.25)
    assert (found["attainable_flops_per_s"], found["achieved_flops_per_s"]) == (None, 0)


@pytest.mark.parametrize(
    ("cost", "ratio", "reason"),
    [  # 2,400,000 bytes need 500 ns of 1000; integers have no peak, and no need of one
        (Cost(300, 2_400_000, 0, "int64", "vector", "elementwise"), 0.5, None),
        (Cost(None, 2_400_000, 0, "fp32", "vector", "fused"), 0.5, None),
        (Cost(300, None, 0, "fp32", "vector", "elementwise"), None, "the bytes that it moves"),
        (Cost(300, 8, 8, "int8", "matrix", "matmul"), None, "no peak of int8 (matrix) in"),
        # 67e12 / 1e9 FLOP on special-function units are held to ordinary arithmetic: 1 ns
        (Cost(67_000, 8, 8, "fp32", "special", "elementwise"), 0.001, None),
        (Cost(0, 0, 0, "fp32", "memory", "view"), None, "it makes or describes a tensor"),
    ],
)
def test_what_is_known_in_part_is_held_in_part(monkeypatch, cost, ratio, reason):
    monkeypatch.setitem(models.MODELS, "my::relu", lambda _: cost)
    found = row(roofline(trace_of(OPS, [kernel(0, 5, 0, 1000)])), operator="my::relu")
    assert found["ratio_to_roof"] == (None if ratio is None else pytest.approx(ratio))
    assert reason is None or found["reason"].startswith(reason)


def test_a_copy_over_the_link_is_not_held_against_memory(monkeypatch):
    moved = Cost(0, 100, 100, "fp32", "memory", "copy")
    monkeypatch.setitem(models.MODELS, "my::relu", lambda _: moved)
    for name, told in (("Memcpy HtoD (Pinned -> Device)", True), ("Memcpy DtoD", False)):
        trace = trace_of(OPS, [kernel(0, 5, 0, 100, kind="copy", name=name)])
        found = row(roofline(trace), operator="my::relu")
        assert (found["ratio_to_roof"] is None) == told
        assert not told or found["reason"].startswith("a copy between host and device")


def test_groups_add_up_and_are_weighted_by_time():
    # matmul: mm 200 ns and addmm 150 ns have roofs; relu and the unlinked kernel have none
    whole = roofline(trace_of(OPS, ACTIVITIES))
    frame = roofline(trace_of(OPS, ACTIVITIES), by="kind")
    assert frame.schema == pl.Schema(GROUPED)
    assert frame.select("group", "calls", "time_ns", "held_ns").rows() == [
        ("matmul", 3, 350, 350),
        ("other", 1, 120, 0),
    ]
    matmul = row(frame, group="matmul")
    products = whole.filter(pl.col("kind") == "matmul")
    assert matmul["flops"] == 8_388_608 + 1024
    assert matmul["flops_per_byte"] == pytest.approx(matmul["flops"] / products["bytes"].sum())
    assert matmul["achieved_flops_per_s"] == pytest.approx(matmul["flops"] / 350e-9)
    assert matmul["ratio_to_roof"] == pytest.approx(products["roof_ns"].sum() / 350)
    other = row(frame, group="other")
    assert (other["flops"], other["ratio_to_roof"]) == (None, None)
    assert other["reason"] == "no operator is linked to it"
    by_name = roofline(trace_of(OPS, ACTIVITIES), by="name")
    assert set(by_name["group"]) == {"aten::mm", "aten::addmm", "my::relu", None}
    assert roofline(trace_of(OPS, ACTIVITIES), by="phase")["group"].to_list() == ["other", None]
    whole_device = roofline(trace_of(OPS, ACTIVITIES), by="device").to_dicts()[0]
    assert (whole_device["time_ns"], whole_device["held_ns"]) == (470, 350)
    assert whole_device["roof_ns"] == matmul["roof_ns"]
    with pytest.raises(UsageError, match="column to group by"):
        roofline(trace_of(OPS, ACTIVITIES), by="modul")


def test_recoverable_is_the_time_above_the_roof():
    # mm: 2 x 114,688 bytes at 4.8 TB/s = 2 x 23.9 ns of 200, addmm: 480 bytes, 0.1 ns of 150
    frame = recoverable(trace_of(OPS, ACTIVITIES))
    assert frame.select("operator", "roof_ns", "recoverable_ns").rows() == [
        ("aten::mm", 48, 152),
        ("aten::addmm", 0, 150),
        (None, None, None),
        ("my::relu", None, None),
    ]
    assert frame["recoverable_share"][:2].to_list() == pytest.approx([152 / 470, 150 / 470])
    assert frame.schema == pl.Schema(SCHEMA)
    grouped = recoverable(trace_of(OPS, ACTIVITIES), by="kind")
    assert grouped.select("group", "recoverable_ns").rows() == [("matmul", 302), ("other", None)]


def test_a_convention_changes_the_flops_and_nothing_else():
    counted = {
        c: roofline(trace_of(OPS, ACTIVITIES), convention=c) for c in ("default", "tracelens")
    }
    # addmm of [4,8] and [8,16] with a bias: 1024, and 64 adds
    found = {c: row(f, operator="aten::addmm") for c, f in counted.items()}
    assert {c: f["flops"] for c, f in found.items()} == {"default": 1024, "tracelens": 1088}
    assert found["default"]["bytes"] == found["tracelens"]["bytes"]


def test_an_unknown_device_leaves_the_ratio_null_and_the_rates_known():
    frame = roofline(trace_of(OPS, ACTIVITIES, device="NVIDIA H200 NVL 2"))
    mm = row(frame, operator="aten::mm")
    assert mm["ratio_to_roof"] is None
    assert mm["achieved_flops_per_s"] > 0
    assert mm["reason"].startswith("no data sheet for 'NVIDIA H200 NVL 2'; closest: H200-NVL")


def test_a_data_sheet_can_be_named():
    part = hardware.lookup("NVIDIA H100 PCIe")
    frame = roofline(trace_of(OPS, ACTIVITIES, device="Board 7"), hardware=part)
    assert row(frame, operator="aten::mm")["peak_flops_per_s"] == 756e12


def test_measured_roofs_of_another_device_are_not_used():
    other = measured(kind="cuda", device="NVIDIA H100 PCIe")
    mm = row(roofline(trace_of(OPS, ACTIVITIES), ceilings=other), operator="aten::mm")
    assert mm["roof_source"] == "data sheet: H200-SXM-141GB"
    unknown = trace_of(OPS, ACTIVITIES, device="Board 7")
    reason = row(roofline(unknown, ceilings=other), operator="aten::mm")["reason"]
    assert reason.endswith("the measured roofs are of 'NVIDIA H100 PCIe'")
    same = measured(kind="cuda", device="NVIDIA H200")
    mm = row(roofline(trace_of(OPS, ACTIVITIES), ceilings=same), operator="aten::mm")
    assert (mm["roof_source"], mm["ratio_to_roof"]) == ("measured on 2026-01-31", None)
    assert mm["reason"] == "no peak of bf16 (matrix) in measured on 2026-01-31"


# Host execution: linear 0-10, addmm 10-50, its copy_ 50-60, addmm again 60-100
HOST_OPS = [
    op_row(0, "aten::linear", None, 0, [[4, 8], [16, 8], [16]], ["float"] * 3),
    op_row(1, "aten::addmm", 0, 1, [[16], [4, 8], [8, 16]], ["float"] * 3),
    op_row(2, "aten::copy_", 1, 2, [[4, 16], [4, 16]], F2),
]
HOST = [segment(0, 0, 0, 10), segment(1, 1, 10, 50), segment(2, 2, 50, 60), segment(3, 1, 60, 100)]


def test_host_execution_against_measured_roofs_by_working_set():
    frame = roofline(trace_of(HOST_OPS, HOST, kind="cpu", device=None), ceilings=measured())
    # 1024 FLOP in 90 ns on 704 + 256 = 960 bytes
    found = row(frame, operator="aten::addmm")
    assert (found["time_ns"], found["calls"], found["flops"], found["bytes"]) == (90, 1, 1024, 960)
    # 960 bytes fit the level of 10 kB: 50e9 * 1024 / 960 = 53.3 GFLOP/s; main memory 21.3
    assert found["memory_level"] == "working set up to 0.01 MB"
    assert found["ratio_to_roof"] == pytest.approx((1024 / 90) / (50 * 1024 / 960))
    assert found["ratio_to_memory_roof"] == pytest.approx((1024 / 90) / (20 * 1024 / 960))
    assert found["roof_source"] == "measured on 2026-01-31"
    wrapper = row(frame, operator="aten::linear")
    assert (wrapper["time_ns"], wrapper["kind"]) == (10, "other")
    assert wrapper["reason"] == "its work is counted in an operator that it calls"


def test_a_wrapper_that_cannot_be_priced_leaves_its_work_to_what_it_calls_all_the_same():
    # conv2d with padding="same" (profilers write no strings) > convolution: 2 * 64 * 27 FLOPs
    dims, types = [[1, 3, 4, 4], [4, 3, 3, 3]], F2
    lists = [[]] * 5, ["", "ScalarList", "", "ScalarList", "Scalar"]
    texts = ["", "", "", "[1, 1]", "", "[1, 1]", "1"]
    inner = ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
    ops = [
        op_row(0, "aten::conv2d", None, 0, dims + lists[0], types + lists[1], None, texts),
        op_row(1, "aten::convolution", 0, 1, dims + [[]] * 7, types + [""] * 7, None, inner),
        op_row(2, "aten::conv2d", None, 0, dims + lists[0], types + lists[1], None, texts),
    ]
    host = [segment(0, 0, 0, 10), segment(1, 1, 10, 50), segment(2, 2, 50, 60)]
    trace = trace_of(ops, host, kind="cpu", device=None)
    frame = roofline(trace)
    assert row(frame, operator="aten::convolution")["flops"] == 2 * 64 * 27
    reasons = frame.filter(pl.col("operator") == "aten::conv2d")["reason"].to_list()
    # the second one calls nothing that is recorded: its own work is not known
    assert sorted(reasons) == [
        "argument 4 (a list of numbers) was not recorded",
        "its work is counted in an operator that it calls",
    ]
    # 10 of its own and 40 of the convolution; the other 10 have no model
    assert coverage(trace)["modelled_ns"].to_list() == [50]


def test_sums_that_no_count_holds_are_not_known():
    # 2 * 2^20 * 2^20 * 2^21 = 2^62 FLOPs, and as many more of another shape: 2^63
    n = 2**20
    dims = [[n, 2 * n], [2 * n, n]], [[2 * n, n], [n, n]]
    ops = [op_row(i, "aten::mm", None, 0, d, BF2) for i, d in enumerate(dims)]
    ran = [kernel(i, i, 100 * i, 100 * i + 100) for i in range(2)]
    found = row(roofline(trace_of(ops, ran), by="name"), group="aten::mm")
    # 2 bytes of 2 n^2, 2 n^2 and n^2; of 2 n^2, n^2 and 2 n^2
    assert (found["flops"], found["bytes"]) == (None, 2 * 10 * n * n)
    assert found["flops_per_byte"] == pytest.approx(2**63 / (20 * n * n))


def test_a_composite_does_not_own_the_time_of_what_has_no_model_inside_it():
    # pad > reflection_pad1d, which has none, 0-100; nll_loss > its forward, not recorded whole
    ops = [
        op_row(0, "aten::pad", None, 0, [[1, 4, 8]], ["float"]),
        op_row(1, "aten::reflection_pad1d", 0, 1, [[1, 4, 8]], ["float"]),
        op_row(2, "aten::nll_loss", None, 0, [[4, 8], [4]], ["float", "long"]),
        op_row(3, "aten::nll_loss_forward", 2, 1, [[4, 8], [4]], ["float", "long"]),
    ]
    trace = trace_of(ops, [kernel(0, 1, 0, 100), kernel(1, 3, 100, 150)])
    assert roofline(trace).select("operator", "time_ns", "reason").rows() == [
        ("aten::reflection_pad1d", 100, "no model of its FLOPs and bytes"),
        ("aten::nll_loss_forward", 50, "whether the loss is averaged was not recorded"),
    ]
    found = coverage(trace).to_dicts()[0]
    assert (found["shaped_ns"], found["modelled_ns"]) == (150, 0)


def test_host_execution_without_roofs():
    frame = roofline(trace_of(HOST_OPS, HOST, kind="cpu", device=None))
    assert row(frame, operator="aten::addmm")["reason"].startswith("no data sheet for processors")


@pytest.mark.parametrize(
    ("name", "precision", "peak"),
    [("ampere_sgemm_128x64_tn", "fp32", 67e12),
     ("cutlass_80_tensorop_s1688gemm_128x128_nn", "tf32", 494.7e12),
     ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn", "tf32", 494.7e12),
     ("sm80_xmma_gemm_f32f32_f32f32_f32_tn", "fp32", 67e12),
     ("nvjet_mystery", "fp32 or tf32", None)],
)  # fmt: skip
def test_tf32_is_told_by_the_kernel_or_not_at_all(name, precision, peak):
    ops = [op_row(0, "aten::mm", None, 0, [[64, 128], [128, 256]], F2)]
    mm = roofline(trace_of(ops, [kernel(0, 0, 0, 100, name=name)])).to_dicts()[0]
    assert (mm["precision"], mm["peak_flops_per_s"]) == (precision, peak)
    assert (mm["ratio_to_roof"] is None) == (peak is None)
    if peak is None:
        assert mm["reason"] == "the kernels' names do not tell fp32 from TF32"


@pytest.mark.parametrize(
    ("name", "precision"), [("ampere_sgemm_128x64_tn", "fp32"), ("mystery", "fp32 or tf32")]
)
def test_an_unknown_device_may_have_tf32(name, precision):
    ops = [op_row(0, "aten::mm", None, 0, [[64, 128], [128, 256]], F2)]
    trace = trace_of(ops, [kernel(0, 0, 0, 100, name=name)], device="Board 7")
    assert roofline(trace)["precision"].to_list() == [precision]


def test_devices_without_tf32_run_floats_in_fp32():
    ops = [op_row(0, "aten::mm", None, 0, [[64, 128], [128, 256]], F2)]
    trace = trace_of(ops, [kernel(0, 0, 0, 100, name="mystery")], device="Tesla T4")
    assert roofline(trace)["precision"].to_list() == ["fp32"]


def test_zero_time_and_zero_work_have_no_ratio():
    ops = [op_row(0, "aten::mm", None, 0, [[64, 128], [128, 256]], BF2),
           op_row(1, "aten::mm", None, 0, [[0, 128], [128, 256]], BF2)]  # fmt: skip
    frame = roofline(trace_of(ops, [kernel(0, 0, 10, 10), kernel(1, 1, 10, 20)]))
    assert frame["ratio_to_roof"].to_list() == [None, None]
    assert set(frame["reason"]) == {"it took no time, or has no work to do"}
    assert frame["achieved_flops_per_s"].to_list() == [0, None]


def test_collectives_have_bytes_and_no_roof():
    ops = [op_row(0, "nccl:all_reduce", None, 0, [[1000]], ["float"])]
    collective = {"id": 0, "activity": 0, "name": "all_reduce", "bytes": 4000, "start_ns": 0,
                  "dur_ns": 100}  # fmt: skip
    trace = trace_of(ops, [kernel(0, 0, 0, 100, kind="collective")], [collective])
    found = roofline(trace).to_dicts()[0]
    assert (found["kind"], found["bytes"], found["flops"]) == ("communication", 4000, None)
    assert found["achieved_bytes_per_s"] == pytest.approx(4000 / 100e-9)
    assert found["reason"].startswith("communication is held against links")
    assert coverage(trace)["coverage_pct"].to_list() == [100.0]


def test_coverage_by_hand():
    # shaped 150 + 200 + 20 = 370, modelled 350, linked 370 of 470
    frame = coverage(trace_of(OPS, ACTIVITIES))
    assert frame.schema == pl.Schema(COVERAGE)
    found = frame.to_dicts()[0]
    assert (found["device_ns"], found["linked_ns"]) == (470, 370)
    assert (found["shaped_ns"], found["modelled_ns"]) == (370, 350)
    assert found["coverage_pct"] == pytest.approx(100 * 350 / 370)
    assert found["linked_pct"] == pytest.approx(100 * 370 / 470)


def test_coverage_of_nothing_is_null_not_zero():
    trace = trace_of([op_row(0, "aten::mm")], [kernel(0, 0, 0, 100)])
    assert coverage(trace)["coverage_pct"].to_list() == [None]
    assert roofline(trace)["reason"].to_list() == ["shapes were not recorded"]


def test_an_empty_trace_gives_empty_frames():
    trace = trace_of([])
    assert roofline(trace).schema == pl.Schema(COLUMNS)
    assert roofline(trace).is_empty()
    assert coverage(trace).schema == pl.Schema(COVERAGE)


def test_every_number_has_its_unit_in_its_name():
    bare = {"rank", "device", "calls", "activities"}  # ids and counts
    units = ("_ns", "_pct", "_per_s", "_per_byte", "flops", "bytes")
    ratios = ("share_of_", "ratio_to_")
    for name, dtype in (COLUMNS | COVERAGE).items():
        if dtype.is_numeric() and name not in bare:
            assert name.endswith(units) or name.startswith(ratios), name


@pytest.mark.corpus
def test_k49_coverage(corpus):
    from workbench.trace.open import open_source

    expected = json.loads((corpus / "cases" / "K49.expected.json").read_bytes())["values"]
    trace = open_source(corpus / "cases" / "K49_flop_coverage.json")
    covered = coverage(trace, window="all").to_dicts()[0]
    assert covered["coverage_pct"] == expected["coverage_pct"]
    assert covered["modelled_ns"] == expected["device_ns_with_model"]
    frame = roofline(trace, window="all")
    assert frame["flops"].sum() == expected["flops_known"]
    other = row(frame, operator="my_ext::fused_norm")
    assert (other["time_ns"], other["flops"]) == (expected["device_ns_without_model"], None)


@pytest.mark.corpus
def test_rates_agree_with_a_peer_on_a_real_trace(corpus):
    # TraceLens on the same file, products without bias (its bias rule differs): GFLOP a call,
    # FLOP/byte, and kernel time in us (of which they keep about five digits).
    from workbench.trace.open import open_source

    folder = corpus / "traces" / "tracelens"
    name = "h100_owlv2_large_inference"
    frame = roofline(open_source(folder / f"{name}.json.gz"), window="all")
    checked = 0
    with (folder / "expected" / name / "GEMM.csv").open() as file:
        for peer in csv.DictReader(file):
            if peer["name"] != "aten::bmm":
                continue
            dims = json.loads(peer["Input Dims_first"].replace("(", "[").replace(")", "]"))
            text = " x ".join(f"[{','.join(map(str, d))}] bf16" for d in dims)
            ours = row(frame, operator="aten::bmm", shapes=text)
            assert ours["flops"] / ours["calls"] == float(peer["GFLOPS_first"]) * 1e9
            assert ours["flops_per_byte"] == pytest.approx(float(peer["FLOPS/Byte_first"]))
            assert ours["time_ns"] / 1e3 == pytest.approx(
                float(peer["Kernel Time (µs)_sum"]), rel=1e-4
            )
            checked += 1
    assert checked
