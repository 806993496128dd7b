import dataclasses
import json

import polars as pl
import pytest
from analysis.stepped import BF2, S, kernel, marked
from costs.made import op_row, trace_of

import workbench as wb
from workbench import show
from workbench.analysis.mfu import NONE_SHARED, SCHEMA, SHARED, UNLINKED, UNPRICED, mfu
from workbench.analysis.step_times import NONE_WHOLE
from workbench.costs import hardware
from workbench.costs.ceilings import VERSION, Ceilings, Compute
from workbench.costs.step_work import NOT_TOLD, StepWork, recorded
from workbench.costs.transformer import TransformerConfig, forward
from workbench.errors import UsageError
from workbench.resources import data
from workbench.trace.core import Job

F2 = ["float"] * 2
# 2 x 60,000 x 40,000 x 100,000 = 480 TFLOP
BIG = [[60_000, 40_000], [40_000, 100_000]]
SMALL = [[64, 128], [128, 256]]
"""2 x 64 x 128 x 256 = 4,194,304 FLOP."""
H100 = "NVIDIA H100 80GB HBM3"


def made(dims=BIG, types=BF2, *, durations=(S, S, S), device=H100, names="gemm", rank=0):
    """A product a step, in the first tenth of it."""
    count = len(durations)
    ops = [op_row(n, "aten::mm", dims=dims, types=types) for n in range(count)]
    starts = [sum(durations[:n]) for n in range(count)]
    ran = [kernel(n, n, n + 1, t, t + S // 10, name=names) for n, t in enumerate(starts)]
    return marked(trace_of(ops, ran, device=device), list(durations), rank=rank)


def only(frame):
    assert frame.schema == pl.Schema(SCHEMA)
    assert frame.height == 1
    return frame.row(0, named=True)


def test_mfu_by_hand():
    # K48: 480 TFLOP in a step of 1 s on an H100 of 989.4 dense: 48.5 %
    row = only(mfu(made()))
    assert (row["steps"], row["step_ns"], row["model_flops"]) == (2, S, 480e12)
    assert (row["precision"], row["peak_flops_per_s"]) == ("bf16", 989.4e12)
    assert row["peak_source"] == "data sheet: H100-SXM-80GB"
    assert row["mfu"] == row["hfu"] == pytest.approx(0.485, abs=5e-4)
    assert row["devices"] == 1


def test_a_multiply_add_is_two_flops():
    # K47: 64 x 128 by 128 x 256 is 4,194,304 FLOP, not 2,097,152
    assert only(mfu(made(SMALL)))["model_flops"] == 4_194_304


def test_the_form_of_a_card_has_its_own_peak_and_an_unknown_one_none():
    # K48
    pcie = only(mfu(made(device="NVIDIA H100 PCIe")))
    assert pcie["mfu"] == pytest.approx(480 / 756)
    unknown = only(mfu(made(device="NVIDIA H100 80GB HBM9")))
    assert (unknown["mfu"], unknown["peak_flops_per_s"]) == (None, None)
    assert unknown["reason"].startswith("no data sheet for 'NVIDIA H100 80GB HBM9'; closest: ")
    assert unknown["model_flops"] == 480e12
    named = mfu(made(device="Board 7"), hardware=hardware.lookup("NVIDIA H100 PCIe"))
    assert only(named)["mfu"] == pytest.approx(480 / 756)


def test_a_measured_peak_comes_first():
    measured = Ceilings(
        version=VERSION, device=H100, kind="cuda", date="2026-01-31", machine="Linux", torch="2",
        driver=None, threads=2, clock_mhz=None, seconds=1.0,
        compute=(Compute("bf16", 600e12, 0.0, 8192, "nn", 7),), memory=(),
    )  # fmt: skip
    row = only(mfu(made(), ceilings=measured))
    assert (row["mfu"], row["peak_source"]) == (pytest.approx(0.8), "measured on 2026-01-31")


def test_the_step_is_the_median_of_complete_ones_without_the_tail():
    # 1 s, 3 s, 2 s and a tail of 9 s: median 2 s
    row = only(mfu(made(durations=(S, 3 * S, 2 * S, 9 * S))))
    assert (row["steps"], row["step_ns"]) == (3, 2 * S)
    assert row["mfu"] == pytest.approx(480 / 2 / 989.4)
    assert only(mfu(made(durations=(S, 3 * S, 2 * S, 9 * S)), step=(2, 2)))["step_ns"] == 3 * S


def test_fp32_may_be_tf32_and_only_kernels_tell():
    doubt = only(mfu(made(types=F2)))
    assert (doubt["precision"], doubt["mfu"]) == ("fp32 or tf32", None)
    assert doubt["reason"].startswith("the kernels' names do not tell fp32 from TF32")
    tf32 = only(mfu(made(types=F2, names="ampere_tf32_s1688gemm")))
    assert (tf32["precision"], tf32["peak_flops_per_s"]) == ("tf32", 494.7e12)
    fp32 = only(mfu(made(types=F2, names="ampere_sgemm_128x64")))
    assert (fp32["precision"], fp32["peak_flops_per_s"]) == ("fp32", 67e12)


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("Cijk_Ailk_Bljk_SB_MT128x128x16_MI32x32x2", "fp32"),
        ("Cijk_Alik_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT64x64x32", "fp32"),
        ("Cijk_Alik_Bjlk_S_MX_B_Bias_AS_SAV_UserArgs_MT192x16x64_MI16x16x1", "tf32"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8", "fp32"),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16", "tf32"),
        ("cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4", "tf32"),
    ],
)
def test_what_names_of_kernels_say_of_32_bits(name, precision):
    device = "AMD Instinct MI300X" if name.startswith("Cijk") else H100
    assert only(mfu(made(types=F2, names=name, device=device)))["precision"] == precision


def test_two_precisions_are_held_each_at_its_own_peak():
    # 480 TFLOP in bf16 and 480 in fp32 a step of 100 s: 480 / 989.4 + 480 / 67 = 7.65 s at peak
    ops = [op_row(0, "aten::mm", dims=BIG, types=BF2), op_row(1, "aten::mm", dims=BIG, types=F2)]
    ran = [kernel(0, 0, 1, 0, S), kernel(1, 1, 1, S, 2 * S, name="sgemm")]
    trace = marked(trace_of(ops, ran, device=H100), [100 * S, S])
    row = only(mfu(trace))
    assert row["peak_rule"] == "each precision at its own peak"
    assert row["precision"] == "bf16 50.0%, fp32 50.0%"
    assert row["mfu"] == pytest.approx((480 / 989.4 + 480 / 67) / 100)


def test_recomputation_counts_for_the_hardware_alone():
    again = op_row(1, "aten::mm", dims=BIG, types=BF2) | {"phase": "recomputation"}
    ops = [op_row(0, "aten::mm", dims=BIG, types=BF2), again]
    ran = [kernel(0, 0, 1, 0, S), kernel(1, 1, 1, S, 2 * S)]
    row = only(mfu(marked(trace_of(ops, ran, device=H100), [4 * S, S])))
    assert (row["model_flops"], row["hardware_flops"]) == (480e12, 960e12)
    assert row["hfu"] == 2 * row["mfu"] == pytest.approx(960 / 4 / 989.4)


def test_a_fused_backward_scores_again_and_only_hfu_counts_it():
    # 1 x 2 heads x 4 x 4 pairs, half of them: 16 pairs x 2 x (3 x 8 + 2 x 8) = 1280; again 256
    head = [1, 2, 4, 8]
    dims = [head] * 5 + [[1, 2, 4]] + [[]] * 6
    types = ["c10::BFloat16"] * 5 + ["float"] + [""] * 6
    concrete = [""] * 6 + ["", "", "4", "4", "0.", "True"]
    name = "aten::_scaled_dot_product_flash_attention_backward"
    ops = [op_row(0, name, dims=dims, types=types, concrete=concrete)]
    trace = trace_of(ops, [kernel(0, 0, 1, 0, S)], device=H100)
    row = only(mfu(marked(trace, [S, S])))
    assert (row["model_flops"], row["hardware_flops"]) == (1024, 1280)


TINY = TransformerConfig(
    layers=2, hidden=128, ffn_hidden=352, heads=4, kv_heads=2, head_dim=32, vocab=1024,
    seq_len=128, gated_mlp=True,
)  # fmt: skip


def test_by_configuration_when_the_step_is_known():
    # 256 tokens x 3,194,880 FLOP = 817,889,280 in 1 s
    work = StepWork(config=TINY, tokens=256, samples=2)
    row = only(mfu(made(), work=work))
    assert row["config_flops"] == 817_889_280
    assert row["mfu_by_config"] == pytest.approx(817_889_280 / 989.4e12)
    assert row["operators_to_config"] == pytest.approx(480e12 / 817_889_280)
    assert (row["tokens_per_s"], row["samples_per_s"], row["reason"]) == (256, 2, None)
    full = only(mfu(made(), work=work, convention="full_attention"))
    assert full["config_flops"] == 256 * (3_194_880 + 196_608)
    assert full["convention"].startswith("full_attention: ")
    with pytest.raises(UsageError, match="megatron"):
        mfu(made(), convention="megatorn")


def test_without_the_work_of_a_step_only_operators_speak():
    row = only(mfu(made()))
    assert (row["config_flops"], row["tokens_per_s"]) == (None, None)
    assert row["reason"] == f"by configuration: {NOT_TOLD}"


def test_of_all_devices_flops_and_peaks_add_up_and_the_slowest_counts():
    # Steps of 1 s and 2 s on two ranks: 960 TFLOP in 2 s on twice 989.4
    job = Job((made(rank=0), made(rank=1, durations=(2 * S, 2 * S, S))))
    frame = mfu(job, work=StepWork(config=TINY, tokens=256, samples=2))
    assert frame.select("rank", "devices").rows() == [(0, 1), (1, 1), (None, 2)]
    whole = frame.row(2, named=True)
    assert (whole["step_ns"], whole["model_flops"]) == (2 * S, 960e12)
    assert whole["mfu"] == pytest.approx(960 / 2 / (2 * 989.4))
    assert (whole["tokens_per_s"], whole["config_flops"]) == (256, 2 * 817_889_280)
    assert mfu(job, rank=1).height == 1


def test_all_is_null_when_one_device_is_not_known():
    job = Job((made(rank=0), made(rank=1, device="Board 7")))
    whole = mfu(job).row(2, named=True)
    assert (whole["mfu"], whole["model_flops"]) == (None, 960e12)
    assert "no data sheet for 'Board 7'" in whole["reason"]


def test_ranks_without_a_step_in_common_have_no_figure_together():
    late = made(rank=1)
    steps = late.steps.with_columns(pl.col("step") + 10)
    activities = late.activities.with_columns(pl.col("step") + 10)
    tables = {**late.tables, "steps": steps, "activities": activities}
    frame = mfu(Job((made(rank=0), dataclasses.replace(late, tables=tables))))
    whole = frame.row(2, named=True)
    assert (whole["steps"], whole["step_ns"], whole["mfu"]) == (0, None, None)
    assert whole["reason"].startswith(NONE_SHARED)


def test_one_of_several_devices_of_a_rank_has_no_tokens_of_its_own():
    ops = [op_row(n, "aten::mm", dims=BIG, types=BF2) for n in range(2)]
    ran = [kernel(0, 0, 1, 0, S), kernel(1, 1, 1, 0, S, device=1)]
    trace = marked(trace_of(ops, ran, device=H100), [S, S])
    frame = mfu(trace, work=StepWork(config=TINY, tokens=256), device=0)
    assert only(frame)["reason"] == f"by configuration: {SHARED}"


def test_what_is_missing_is_named():
    bare = trace_of([], [kernel(0, None, 1, 0, S)], device=H100)
    assert only(mfu(bare))["reason"].startswith(NONE_WHOLE)
    row = only(mfu(marked(bare, [S, S])))
    assert row["reason"].startswith(UNLINKED)
    assert (row["model_flops"], row["mfu"]) == (None, None)
    shapeless = trace_of([op_row(0, "aten::mm")], [kernel(0, 0, 1, 0, S)], device=H100)
    assert only(mfu(marked(shapeless, [S, S])))["reason"].startswith(UNPRICED)
    ops = [op_row(0, "aten::mm", dims=BIG, types=BF2)]
    loose = trace_of(ops, [kernel(0, None, 1, 0, S)], device=H100)
    assert only(mfu(marked(loose, [S, S])))["reason"].startswith(UNLINKED)


def test_a_trace_without_times_has_no_rows():
    trace = trace_of([op_row(0, "aten::mm", dims=BIG, types=BF2)])
    meta = dataclasses.replace(trace.meta, timed=False)
    assert mfu(dataclasses.replace(trace, meta=meta)).is_empty()


def test_operators_and_configuration_agree_on_our_own_run():
    # gpt tiny, 256 tokens a step. By operators: 15 products forward (4 projections and 3 of the
    # feed-forward in each of 2 layers, the output) and 30 backward, 3 x 999,424 a token;
    # attention 65,536 forward, 2.5 x that backward, of which 0.5 x computes scores again.
    source = wb.open(data() / "gpt_tiny_cpu")
    work = recorded(source)
    row = only(mfu(source, work=work))
    parts = forward(work.config)
    products = sum(v for n, v in parts.items() if n != "attention")
    assert (products, parts["attention"]) == (999_424, 65_536)
    assert row["model_flops"] == 256 * 3 * (999_424 + 65_536)
    assert row["hardware_flops"] == 256 * (3 * 999_424 + 3.5 * 65_536)
    assert row["operators_to_config"] == 1.0
    assert (row["mfu"], row["precision"]) == (None, "fp32")
    # 256 tokens in the median of 20.5, 22.0 and 22.6 ms
    assert row["tokens_per_s"] == pytest.approx(256 / 22.0433e-3, rel=1e-5)


def test_convention_peak_and_numerator_stand_beside_it():
    source = wb.open(data() / "gpt_tiny_cpu")
    choice = show.Choice(convention="6P")
    assert show.frame(source, "mfu", choice)["convention"][0].startswith("6P: weights by param")
    notes = show.brief(show.about(source, "mfu", choice))
    assert "without recomputation" in notes["numerator"]
    assert notes["peak"] == (
        "dense; of the data sheet at its boost clock, unless peak_source says that it was measured"
    )
    with pytest.raises(UsageError, match="does not take --convention"):
        show.frame(source, "kernels", choice)
    json.dumps(show.about(source, "mfu", choice), default=str)
