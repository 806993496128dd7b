import polars as pl
import pytest

from workbench.costs import published

NEEDS_MORE = {
    "Qwen3-30B-A3B": "columns, notes",
    "Qwen3-235B-A22B": "columns, notes",
    "DeepSeek-V3": "columns, notes, config.json",
}
"""Models with experts, whose widths no column holds."""


def test_the_table_is_whole():
    table = published.step_times()
    assert (table.schema, table.height) == (published.SCHEMA, 334)
    assert table["source"].null_count() == table["url_or_repo_path"].null_count() == 0


def test_every_row_with_both_figures_closes_within_a_percent():
    found = published.closure()
    # llm-foundry, Megatron-Bridge twice, Megatron-Core; with MFU alone DGX Cloud and Korthikanti
    assert found.height == 110 + 27 + 28 + 2 + 9 + 5
    assert found["ratio"].null_count() == 0
    assert found.filter((pl.col("ratio") - 1).abs() > 0.01).to_dicts() == []


def test_the_convention_is_what_makes_them_close():
    # Under one convention for all, rows of the others are off: half of the attention term, or 6P.
    found = published.closure()
    rows = published.step_times().filter(
        pl.col("check").eq("ok") & pl.col("source").str.starts_with("NVIDIA Megatron-Bridge")
    )
    row = rows.filter(model="Llama-3-8B").row(0, named=True)
    config, _ = published.config_of(row)
    full = published.model_flops_per_token(config, "megatron_full")
    assert full / published.implied_flops_per_token(row) == pytest.approx(1.125, abs=0.003)
    assert set(found["convention"]) == {"llm-foundry", "megatron", "megatron_full"}


def test_where_the_shape_comes_from_when_columns_do_not_hold_it():
    found = published.closure()
    beyond = found.filter(pl.col("configuration") != "columns")
    assert dict(beyond.select("model", "configuration").unique().rows()) == NEEDS_MORE


def test_rows_that_close_by_construction_say_so():
    told = published.closure().filter(pl.col("reason").is_not_null())
    assert set(told["model"]) == {"GPT-16B", "GPT-32B"}
    assert set(told["reason"]) == {published.CIRCULAR}


def test_a_row_by_hand():
    # MPT-7b, 2048 tokens: P = 50,368 x 4096 + 2048 x 4096 + 32 x 12 x 4096^2 + 65 x 4096
    weights = 206_307_328 + 8_388_608 + 6_442_450_944 + 266_240
    row = published.step_times().filter(model="MPT-7b", seq_len=2048).row(0, named=True)
    config, where = published.config_of(row)
    assert where == "columns"
    expected = 6 * weights + 12 * 32 * 4096 * 2048
    assert published.model_flops_per_token(config, "llm-foundry") == expected


def test_mfu_implies_flops_by_the_peak_of_its_precision():
    # Nemotron-4-15B, fp8 on H100: 0.391 x 1978.9 TFLOP/s / 8241.44 tokens/s = 93.9 GFLOP
    row = published.step_times().filter(model="Nemotron-4-15B", precision="fp8").row(0, named=True)
    implied = published.implied_flops_per_token(row)
    assert implied == pytest.approx(0.391 * 1978.9e12 / 8241.44)
    assert published.implied_flops_per_token(row | {"gpu_type": "no such"}) is None


def test_a_source_without_a_documented_convention_has_no_ratio():
    row = published.step_times().filter(model="MPT-7b").row(0, named=True)
    found = published._closed(row | {"source": "somebody"})
    assert (found["reason"], "ratio" in found) == ("the source documents no convention", False)
