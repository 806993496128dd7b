"""Counters beside a recording: formulas, matching, differences in words, roofs by level.

The product of the tests: `aten::mm` of [64, 32] and [32, 16] in fp32 has 2 * 64 * 32 * 16 = 65,536
FLOPs and (64 * 32 + 32 * 16 + 64 * 16) * 4 = 14,336 bytes.
"""

import json

import countersfile as made
import polars as pl
import pytest
import tinytrace as tiny

import workbench as wb
from workbench.analysis.counter_roofline import counter_roofline
from workbench.analysis.counters import counters, matches
from workbench.analysis.launch_match import function
from workbench.costs import counted
from workbench.costs.hardware import given
from workbench.errors import UsageError

NAME = "void gemm<float, 4>(float const*, int)"
AGREES = {made.FADD: "0", made.FMUL: "0", made.FFMA: "32,768", made.READ: "10,240",
          made.WRITE: "4,096", made.DURATION: "2,000"}  # fmt: skip


def recording(folder, kernels, dtype="float", **header):
    """A trace in which each product launches the kernels of one entry: lists of names."""
    events = []
    for i, names in enumerate(kernels):
        at = 100 * i
        events.append(
            tiny.op("aten::mm", at, 50, **{
                "Input Dims": [[64, 32], [32, 16]], "Input type": [dtype, dtype],
            })
        )  # fmt: skip
        for j, name in enumerate(names):
            number = 10 * i + j + 1
            events.append(tiny.call("cudaLaunchKernel", at + 5 + 10 * j, 5, number))
            events.append(
                tiny.kernel(name, at + 20 + 10 * j, 4, number, grid=[4, 1, 1], block=[128, 1, 1])
            )
    return wb.open(tiny.write(folder, events, **header))


def counts(folder, launches, **options):
    return wb.open(made.write(folder, made.raw(launches, **options)))


def only(frame):
    assert frame.height == 1
    return frame.row(0, named=True)


def test_a_product_that_does_what_its_model_says(tmp_path):
    row = only(counters(recording(tmp_path, [[NAME]]), counters=counts(tmp_path, [(NAME, AGREES)])))
    assert (row["operator"], row["flops"], row["model_flops"]) == ("aten::mm", 65_536, 65_536)
    assert (row["memory_bytes"], row["model_bytes"]) == (14_336, 14_336)
    assert (row["flops_ratio"], row["bytes_ratio"], row["difference"]) == (1, 1, "agrees")
    assert (row["precision"], row["unit"], row["fp32_flops"]) == ("fp32", "vector", 65_536)
    assert row["memory_flops_per_byte"] == 65_536 / 14_336
    assert row["achieved_flops_per_s"] == pytest.approx(65_536 / 2e-6)
    assert (row["blocks"], row["threads_per_block"], row["time_ns"]) == (4, 128, 2000)
    # of the types that were not collected nothing is known
    assert (row["fp64_flops"], row["matrix_flops"]) == (None, None)
    assert row["reason"] == (
        "FLOPs of fp64, fp16, tensor cores not collected, so these are a lower bound"
    )


def test_padding_and_cache_hits_are_said_with_their_size(tmp_path):
    # 40,960 fma = 81,920 FLOPs, a quarter more; 7,168 bytes, half of the compulsory
    off = AGREES | {made.FFMA: "40,960", made.READ: "3,072"}
    row = only(counters(recording(tmp_path, [[NAME]]), counters=counts(tmp_path, [(NAME, off)])))
    assert row["difference"] == (
        "25 % more FLOPs: tiles padded beyond the shape; "
        "50 % fewer bytes from memory than compulsory: they were in a cache"
    )


def test_a_part_of_the_flops_is_not_said_to_be_fewer(tmp_path):
    # half of the model's FLOPs, and what the tensor cores did was not collected
    half = AGREES | {made.FFMA: "16,384"}
    row = only(counters(recording(tmp_path, [[NAME]]), counters=counts(tmp_path, [(NAME, half)])))
    assert (row["flops_ratio"], row["difference"]) == (None, "bytes agree")
    every = {f"smsp__sass_thread_inst_executed_op_{t}{n}_pred_on.sum": "0"
             for t in "dh" for n in ("add", "mul", "fma")}  # fmt: skip
    every |= {"sm__ops_path_tensor_src_bf16_dst_fp32.sum": "0"}
    file = counts(tmp_path, [(NAME, half | every)])
    row = only(counters(recording(tmp_path, [[NAME]]), counters=file))
    assert row["flops_ratio"] == 0.5
    assert row["difference"] == "50 % fewer FLOPs: work of a kind that no counter here counts"


def test_another_type_than_modelled_is_said(tmp_path):
    tensor = {f"sm__ops_path_tensor_src_{n}_dst_fp32.sum": v
              for n, v in {"tf32": "65,536", "bf16": "0"}.items()}  # fmt: skip
    off = AGREES | {made.FFMA: "0"} | tensor
    row = only(counters(recording(tmp_path, [[NAME]]), counters=counts(tmp_path, [(NAME, off)])))
    assert (row["precision"], row["unit"], row["flops"]) == ("tf32", "matrix", 65_536)
    assert row["difference"] == "ran in tf32 matrix, modelled as fp32 matrix"


def test_launches_are_matched_in_order_and_the_rest_is_counted(tmp_path):
    trace = recording(tmp_path, [[NAME], [NAME]])
    launches = [(NAME, AGREES), ("other", AGREES), (NAME, AGREES), (NAME, AGREES)]
    file = counts(tmp_path, launches)
    found = only(matches(trace, counters=file))
    assert (found["launches"], found["matched"], found["kernels"]) == (4, 2, 2)
    assert found["unmatched_names"] == "other; " + NAME
    rows = counters(trace, counters=file).sort("launches", descending=True)
    assert rows["launches"].to_list() == [2, 1, 1]
    assert rows["flops"].to_list() == [131_072, 65_536, 65_536]
    assert rows["operator"].to_list() == ["aten::mm", None, None]
    assert rows["reason"][1].startswith("no kernel of this name and size in the recording")


def test_names_without_parameters_match_by_the_function_alone(tmp_path):
    trace = recording(tmp_path, [["void ns::gemm<float, A<4> >(float const*, int)"]])
    assert only(matches(trace, counters=counts(tmp_path, [("gemm", AGREES)])))["matched"] == 1


def test_another_size_is_another_kernel(tmp_path):
    trace = recording(tmp_path, [[NAME]])
    file = counts(tmp_path, [(NAME, AGREES)], grid=5)
    assert only(matches(trace, counters=file))["matched"] == 0


def test_an_operator_of_two_kernels_is_compared_as_one(tmp_path):
    trace = recording(tmp_path, [[NAME, "reduce"]])
    half = AGREES | {made.FFMA: "16,384", made.READ: "5,120", made.WRITE: "2,048"}
    file = counts(tmp_path, [(NAME, half), ("reduce", half)])
    apart = counters(trace, counters=file)
    assert apart["model_flops"].to_list() == [None, None]
    assert (
        apart["reason"]
        .str.starts_with("its operator launched 2 kernels: compare by operator")
        .all()
    )
    whole = only(counters(trace, counters=file, by="operator"))
    assert (whole["kernel"], whole["difference"]) == (f"{NAME} + reduce", "agrees")
    assert (whole["flops"], whole["launches"]) == (65_536, 1)


def test_an_operator_of_which_a_kernel_was_not_counted_is_not_compared(tmp_path):
    trace = recording(tmp_path, [[NAME, "reduce"]])
    row = only(counters(trace, counters=counts(tmp_path, [(NAME, AGREES)]), by="operator"))
    assert row["difference"] is None
    assert row["reason"].startswith("1 kernels of its operator were not counted")


def test_without_durations_the_recording_gives_the_time(tmp_path):
    untimed = {n: v for n, v in AGREES.items() if n != made.DURATION}
    file = counts(tmp_path, [(NAME, untimed)])
    row = only(counters(recording(tmp_path, [[NAME]]), counters=file))
    assert (row["time_ns"], row["time_source"]) == (4000, "recording")  # the kernel's 4 us


def test_a_sum_of_which_a_part_was_not_collected_is_unknown(tmp_path):
    file = counts(tmp_path, [("k", {made.FFMA: "8", made.READ: "32"})])
    row = only(counters(file))
    assert (row["flops"], row["memory_bytes"], row["memory_read_bytes"]) == (None, None, 32)
    assert row["reason"] == "FLOPs not collected; bytes of memory not collected; no duration"


def test_rates_stand_in_for_totals(tmp_path):
    # 3 a cycle x 1,000 cycles = 3,000 fma; 2 GB/s x 5 us = 10,000 bytes
    zero = {f"{n}.per_cycle_elapsed": "0" for n in (made.FADD, made.FMUL)}
    rates = zero | {f"{made.FFMA}.per_cycle_elapsed": "3", "smsp__cycles_elapsed.avg": "1,000",
                    "dram__bytes.sum.per_second": "2", made.DURATION: "5"}  # fmt: skip
    units = {"dram__bytes.sum.per_second": "Gbyte/second", made.DURATION: "usecond"}
    row = only(counters(counts(tmp_path, [("k", rates)], units=units)))
    assert (row["flops"], row["memory_bytes"]) == (6000, 10_000)


def test_tensor_operations_apart_by_sparsity_count_once(tmp_path):
    name = "sm__ops_path_tensor_src_fp16_dst_fp32"
    dense = {f"{name}_sparsity_off.sum": "100", f"{name}_sparsity_on.sum": "50"}
    assert only(counters(counts(tmp_path, [("k", dense)])))["fp16_flops"] == 150
    both = dense | {f"{name}.sum": "150"}
    assert only(counters(counts(tmp_path, [("k", both)])))["fp16_flops"] == 150


@pytest.mark.parametrize(("cc", "flops"), [("7.0", 5120), ("8.0", None)])
def test_instructions_of_tensor_cores_have_a_known_size_on_volta_alone(tmp_path, cc, flops):
    for unit in ("sm", "smsp"):
        counts_of = {f"{unit}__inst_executed_pipe_tensor.sum": "10"}
        assert only(counters(counts(tmp_path, [("k", counts_of)], cc=cc)))["fp16_flops"] == flops


def amd(folder, row, arch="gfx90a", **options):
    return wb.open(made.rocprof(folder, [row], arch=arch, **options))


VALU = {f"SQ_INSTS_VALU_{n}_F32": v for n, v in {"ADD": 1, "MUL": 2, "FMA": 3, "TRANS": 4}.items()}
TIMES = {"Start_Timestamp": 1000, "End_Timestamp": 2000}


def test_amd_counts_waves_of_64_lanes_and_blocks_of_512(tmp_path):
    # 64 * (1 + 2 + 2 * 3 + 4) = 832; 512 * 2 = 1,024
    row = only(counters(amd(tmp_path, VALU | {"SQ_INSTS_VALU_MFMA_MOPS_BF16": 2})))
    assert (row["fp32_flops"], row["bf16_flops"], row["flops"]) == (832, 1024, 1856)
    assert (row["precision"], row["unit"], row["blocks"]) == ("bf16", "matrix", 4)


def test_amd_channels_are_added_up_where_their_sum_is_not_given(tmp_path):
    # (3 + 5) * 64 - 2 * 32 = 448
    row = {"TCC_EA_RDREQ[0]": 3, "TCC_EA_RDREQ[1]": 5, "TCC_EA_RDREQ_32B_sum": 2}
    assert only(counters(amd(tmp_path, row)))["memory_read_bytes"] == 448


@pytest.mark.parametrize(("arch", "l2", "l1"), [("gfx90a", 192, 64), ("gfx942", 320, 128),
                                                ("gfx950", None, None)])  # fmt: skip
def test_amd_requests_have_the_size_of_their_architecture(tmp_path, arch, l2, l1):
    # two reads and a write: 3 * 64, or 2 * 128 + 64
    row = {"TCP_TCC_READ_REQ_sum": 2, "TCP_TCC_WRITE_REQ_sum": 1,
           "TCP_TCC_ATOMIC_WITH_RET_REQ_sum": 0, "TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum": 0,
           "TCP_TOTAL_CACHE_ACCESSES_sum": 1}  # fmt: skip
    found = only(counters(amd(tmp_path, row, arch)))
    assert (found["l2_bytes"], found["l1_bytes"]) == (l2, l1)


def test_a_point_for_each_level_under_its_roof(tmp_path):
    # 832 FLOPs in 1 us; L1 640 bytes, L2 192 bytes, memory 2 * 64 + 32 = 160 bytes.
    # Peak 2 GFLOP/s: 416 ns. At 1 GB/s memory takes 160 ns, L2 at 0.1 GB/s 1,920 ns; L1 is unknown.
    traffic = {"TCP_TCC_READ_REQ_sum": 2, "TCP_TCC_WRITE_REQ_sum": 1,
               "TCP_TCC_ATOMIC_WITH_RET_REQ_sum": 0, "TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum": 0,
               "TCP_TOTAL_CACHE_ACCESSES_sum": 10, "TCC_EA_RDREQ_sum": 2,
               "TCC_EA_RDREQ_32B_sum": 0, "TCC_EA_WRREQ_sum": 1,
               "TCC_EA_WRREQ_64B_sum": 0}  # fmt: skip
    roofs = {"HBMBw": 1, "L2Bw": 0.1, "FP32Flops": 2}
    trace = amd(tmp_path, VALU | traffic | TIMES, benchmark=roofs)
    found = counter_roofline(trace)
    assert found["level"].to_list() == ["l1", "l2", "memory"]
    assert found["bytes"].to_list() == [640, 192, 160]
    assert found["bound"].to_list() == [None, "memory", "compute"]
    assert found["ratio_to_roof"].to_list()[0] is None
    assert found["ratio_to_roof"].to_list()[1:] == pytest.approx([1.92, 0.416])
    assert found["flops_per_byte"].to_list() == [1.3, 832 / 192, 5.2]
    assert (
        found["reason"][0] == "no bandwidth of l1 in benchmark of rocprofiler-compute on device 0"
    )


def test_a_copy_is_held_against_bandwidth_alone(tmp_path):
    row = dict.fromkeys(VALU, 0) | {"TCC_EA_RDREQ_sum": 5, "TCC_EA_RDREQ_32B_sum": 0,
                                  "TCC_EA_WRREQ_sum": 5, "TCC_EA_WRREQ_64B_sum": 5}  # fmt: skip
    found = counter_roofline(amd(tmp_path, row | TIMES, benchmark={"HBMBw": 1}))
    memory = found.filter(pl.col("level") == "memory").row(0, named=True)
    # 640 bytes at 1 GB/s take 640 ns of the 1,000
    assert (memory["flops"], memory["bound"]) == (0, "memory")
    assert memory["ratio_to_roof"] == pytest.approx(0.64)


def test_a_known_device_name_brings_its_data_sheet(tmp_path):
    name = {"device__attribute_display_name": "NVIDIA A100-SXM4-80GB"}
    found = counter_roofline(counts(tmp_path, [("k", AGREES | name)]))
    memory = found.filter(pl.col("level") == "memory").row(0, named=True)
    # 19.5 TFLOP/s and 2,039 GB/s: 65,536 FLOPs take 3.36 ns, 14,336 bytes 7.03 ns of 2,000
    assert memory["roof_source"].startswith("data sheet: A100")
    assert memory["ratio_to_roof"] == pytest.approx(14_336 / 2.039e12 / 2e-6)
    assert memory["bound"] == "memory"


def test_a_recording_without_counters_has_no_rows(tmp_path):
    trace = recording(tmp_path, [[NAME]])
    for frame in (counters(trace), counter_roofline(trace), matches(trace)):
        assert frame.is_empty()


def test_what_cannot_be_asked(tmp_path):
    trace, file = recording(tmp_path, [[NAME]]), counts(tmp_path, [(NAME, AGREES)])
    with pytest.raises(UsageError, match="choose kernel or operator"):
        counters(trace, by="name")
    with pytest.raises(UsageError, match="no device 5"):
        counters(file, device=5)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::reduce<512, 1, F<float> >(int)", "reduce"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("void (anonymous namespace)::f(T)", "f"),
        ("std::enable_if<(a > 1), void>::type ns::g<2>(x)", "g"),
        ("k(int) [clone .kd]", "k"),
        ("", ""),
        ("a>>>b<<<", "ab"),
    ],
)
def test_the_function_of_a_name(name, short):
    assert function(name) == short


def test_every_formula_says_where_it_comes_from():
    table = counted.table()
    formulas = [f for q in (*table.flops, *table.bytes) for f in q.formulas]
    assert all(f.source and f.terms for f in formulas)
    assert {"memory_bytes", "l2_bytes", "l1_bytes", "fp32_vector_flops"} <= set(table.columns)


@pytest.mark.corpus
@pytest.mark.parametrize("part", ["vcopy_MI200", "vcopy_MI300X_A1"])
def test_a_recorded_copy_moves_its_elements_once(corpus, part):
    """vcopy copies 1,048,576 doubles (vecCopy(double*, …)): 8,388,608 bytes each way."""
    found = counted.measured(wb.open(corpus / "traces/rocm/rocprof_compute" / part))
    whole = 1_048_576 * 8
    assert found["memory_read_bytes"].to_list() == pytest.approx([whole] * 3, rel=0.003)
    assert found["memory_write_bytes"][0] == whole
    assert found["l2_bytes"].to_list() == [2 * whole] * 3
    assert found["fp64_vector_flops"].to_list() == [0, 0, 0]


@pytest.mark.corpus
def test_the_benchmarked_roofs_hold_the_recorded_copy(corpus):
    found = counter_roofline(wb.open(corpus / "traces/rocm/rocprof_compute/vcopy_MI200"))
    assert found["level_bytes_per_s"].to_list() == [9263.2725e9, 5036.6968e9, 1389.0227e9]
    assert (found["ratio_to_roof"] < 1).all()
    assert found["roof_source"][0] == "benchmark of rocprofiler-compute on device 2"


@pytest.mark.corpus
def test_published_figures_of_kernels_follow_from_their_own_counts(corpus, tmp_path):
    """A kernel library publishes TFLOP/s, GB/s and FLOPs per byte of its kernels on a T4.

    Counters of 1 ms that give these rates must give the rest: intensity = FLOPs / bytes, and the
    share of the roof. Its own intensities are partly by hand: those that its rates do not bear out
    by 5 % are listed.
    """
    text = (corpus / "traces/roofline/flashkernel_ncu_metrics.json").read_text()
    published = {k["name"]: k for k in json.loads(text)["kernels"]}
    tensor = "sm__ops_path_tensor_src_fp16_dst_fp32.sum"
    launches = [
        (name, {
            tensor: f"{k['achieved_tflops'] * 1e9:.0f}",
            made.READ: f"{k['achieved_bw_gbs'] * 1e6:.0f}", made.WRITE: "0",
            made.DURATION: "1,000,000", "device__attribute_display_name": "Tesla T4",
        })
        for name, k in published.items()
    ]  # fmt: skip
    rows = counter_roofline(counts(tmp_path, launches, cc="7.5"))
    found = {r["kernel"]: r for r in rows.filter(pl.col("level") == "memory").to_dicts()}
    attention = found["flash_attention_fwd"]
    assert attention["flops_per_byte"] == pytest.approx(38.2e3 / 112, rel=1e-6)  # 341.07
    # 65 TFLOP/s of fp16 and 320 GB/s: 58.8 % of the peak, as published (58.8)
    assert (attention["bound"], round(attention["ratio_to_roof"], 3)) == ("compute", 0.588)
    off = {
        name
        for name, k in published.items()
        if abs(found[name]["flops_per_byte"] / k["arithmetic_intensity"] - 1) > 0.05
    }
    assert off == {"vector_add_f16", "reduce_sum_f16", "kv_cache_append", "kv_cache_read"}


def memory_of(trace, **options):
    found = counter_roofline(trace, **options)
    return found.filter(pl.col("level") == "memory").row(0, named=True)


def test_a_slice_has_its_share_of_the_data_sheet(tmp_path):
    name = {"device__attribute_display_name": "NVIDIA A100-SXM4-40GB MIG 3g.20gb"}
    memory = memory_of(counts(tmp_path, [("k", AGREES | name)]))
    assert memory["peak_flops_per_s"] == pytest.approx(19.5e12 * 3 / 7)
    assert memory["level_bytes_per_s"] == 777.5e9


def test_a_part_that_is_named_stands_before_the_benchmark(tmp_path):
    trace = amd(tmp_path, VALU | TIMES, benchmark={"HBMBw": 1, "FP32Flops": 2})
    # one of the two dies of an MI250X: half of 3,277 GB/s
    memory = memory_of(trace, hardware=given("MI250X"))
    assert memory["level_bytes_per_s"] == 1638.5e9
    assert memory["roof_source"].startswith("data sheet: MI250X")


@pytest.mark.parametrize("speed", [0, -1, 1e300])
def test_a_benchmark_of_nothing_is_none(tmp_path, speed):
    trace = amd(tmp_path, VALU | TIMES, benchmark={"HBMBw": speed, "FP32Flops": 2})
    assert memory_of(trace)["level_bytes_per_s"] is None


def test_cycles_of_a_roofline_chart_are_told_by_the_clock(tmp_path):
    # its sections collect no cycles: 1.5 GHz x 2 us = 3,000 cycles; 2 fma a cycle = 12,000 FLOPs
    zero = {f"{n}.per_cycle_elapsed": "0" for n in (made.FADD, made.FMUL)}
    clock = "smsp__cycles_elapsed.avg.per_second"
    rates = zero | {f"{made.FFMA}.per_cycle_elapsed": "2", clock: "1.5", made.DURATION: "2"}
    units = {clock: "cycle/nsecond", made.DURATION: "usecond"}
    row = only(counters(counts(tmp_path, [("k", rates)], units=units)))
    assert row["flops"] == 12_000


@pytest.mark.parametrize(
    "name",
    [
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum.per_cycle_elapsed",
        "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum.per_cycle_elapsed",
        "sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32_sparsity_off.sum.per_cycle_elapsed",
    ],
)
def test_rates_of_tensor_cores_stand_in_for_totals_too(tmp_path, name):
    # 1,024 a cycle x 100 cycles
    rates = {name: "1,024", "sm__cycles_elapsed.max": "100"}
    row = only(counters(counts(tmp_path, [("k", rates)])))
    assert (row["bf16_flops"], row["precision"], row["unit"]) == (102_400, "bf16", "matrix")


def test_a_total_of_tensor_cores_comes_before_its_rate_and_kinds_of_instruction_add_up(tmp_path):
    name = "sm__ops_path_tensor_op_{}_src_fp16_dst_fp32_sparsity_off.sum"
    both = {name.format("hmma"): "100", name.format("utcmma"): "20",
            f"{name.format('hmma')}.per_cycle_elapsed": "7",
            "sm__cycles_elapsed.max": "100"}  # fmt: skip
    assert only(counters(counts(tmp_path, [("k", both)])))["fp16_flops"] == 120
    whole = both | {"sm__ops_path_tensor_src_fp16_dst_fp32.sum": "130"}
    assert only(counters(counts(tmp_path, [("k", whole)])))["fp16_flops"] == 130


def test_counts_beyond_all_measure_are_no_reason_to_stop(tmp_path):
    far = AGREES | {made.FFMA: "1e300", made.READ: "1e300"}
    row = only(counters(recording(tmp_path, [[NAME]]), counters=counts(tmp_path, [(NAME, far)])))
    assert row["difference"].startswith("3.0517578125e+295 times")


def test_kernels_of_no_operator_are_no_siblings(tmp_path):
    loose = [tiny.kernel(NAME, at, 4, 0, grid=[4, 1, 1], block=[128, 1, 1]) for at in (0, 10, 20)]
    trace = wb.open(tiny.write(tmp_path, loose))
    file = counts(tmp_path, [(NAME, AGREES), (NAME, AGREES)])
    for by in ("kernel", "operator"):
        rows = counters(trace, counters=file, by=by)
        assert rows["launches"].sum() == 2
        assert rows["reason"].str.contains("no operator is linked to it").all()
        assert not rows["reason"].str.contains("its operator").any()
