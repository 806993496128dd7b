"""Where counters and model disagree, in words: what was measured, and the likely causes of it."""

from __future__ import annotations

import polars as pl

from workbench.costs import counted

TOLERANCE = 0.05
"""Counter and model that differ by less than this share are said to agree."""
_MORE = {
    "matmul": "tiles padded beyond the shape",
    "convolution": "tiles padded beyond the shape",
    "attention": "masked or padded tiles computed, or scores computed again",
}
_FEWER = {
    "convolution": "another algorithm (Winograd, FFT)",
    "attention": "masked tiles skipped",
}
_NOT_COUNTED = "work of a kind that no counter here counts"


def explained(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `difference` and `reason` to rows of counters beside a model.

    A difference of less than 5 % of FLOPs and of bytes, at the precision that was modelled, is
    "agrees". More or fewer FLOPs, fewer bytes than compulsory (cache hits), more bytes (read again
    or partly used sectors), and another precision than modelled are each said with their size.
    A count of which a part is missing is compared with nothing: neither kernels of an operator that
    were not counted nor, where it is below the model, FLOPs of types that were not collected.
    """
    flops, moved = pl.col("flops_ratio"), pl.col("bytes_ratio")
    whole = pl.col("untold") == 0
    lower = (_uncollected() != "") & (flops < 1 - TOLERANCE)
    rows = rows.with_columns(
        pl.when(whole & ~lower).then(flops).alias("flops_ratio"),
        pl.when(whole).then(moved).alias("bytes_ratio"),
    )
    words = pl.concat_str([_precision(), _flops(), _bytes()], separator="; ", ignore_nulls=True)
    told = (
        pl.when(words != "")
        .then(words)
        .when(flops.is_not_null() & moved.is_not_null())
        .then(pl.lit("agrees"))
        .when(flops.is_not_null())
        .then(pl.lit("FLOPs agree"))
        .when(moved.is_not_null())
        .then(pl.lit("bytes agree"))
    )
    return rows.with_columns(told.alias("difference"), _reason().alias("reason"))


def _percent(ratio: pl.Expr) -> pl.Expr:
    return ((ratio - 1).abs() * 100).round(0).cast(pl.Int64, strict=False)


def _flops() -> pl.Expr:
    ratio = pl.col("flops_ratio")
    more = _cause(_MORE, "functions that take several instructions, or work beyond the model")
    fewer = _cause(_FEWER, _NOT_COUNTED)
    many = pl.format("{} times the FLOPs of the model: {}", ratio.round(1), more)
    return (
        pl.when(ratio >= 2)  # noqa: PLR2004 - beyond twice a factor reads better than per cent
        .then(many)
        .when(ratio > 1 + TOLERANCE)
        .then(pl.format("{} % more FLOPs: {}", _percent(ratio), more))
        .when(ratio < 1 - TOLERANCE)
        .then(pl.format("{} % fewer FLOPs: {}", _percent(ratio), fewer))
    )


def _cause(causes: dict[str, str], other: str) -> pl.Expr:
    return pl.col("model").replace_strict(causes, default=other, return_dtype=pl.String)


def _bytes() -> pl.Expr:
    ratio = pl.col("bytes_ratio")
    return (
        pl.when(ratio < 1 - TOLERANCE)
        .then(
            pl.format(
                "{} % fewer bytes from memory than compulsory: they were in a cache",
                _percent(ratio),
            )
        )
        .when(ratio > 1 + TOLERANCE)
        .then(
            pl.format(
                "{} % more bytes from memory: read again, or sectors used in part", _percent(ratio)
            )
        )
    )


def _precision() -> pl.Expr:
    """Say where most FLOPs ran in another type or unit than modelled; matrix products alone.

    A product of fp32 or fp64 on the ordinary units is what its type asks for.
    """
    ran = pl.format("{} {}", "precision", "unit")
    modelled = pl.format("{} {}", "model_precision", "model_unit")
    differs = (pl.col("model_unit") == "matrix") & (ran != modelled)
    ordinary = (pl.col("precision") == pl.col("model_precision")) & pl.col("precision").is_in(
        ["fp32", "fp64"]
    )
    on_vector = pl.col("matrix_flops").is_null() & (pl.col("unit") == "vector")
    text = pl.format("ran in {}, modelled as {}", ran, modelled)
    return pl.when(differs & ~ordinary & ~on_vector & (pl.col("untold") == 0)).then(text)


def _reason() -> pl.Expr:
    alone = pl.col("siblings") == 1
    some = pl.col("matched") > 0
    lost = pl.col("kernels").is_not_null() & (pl.col("matched") == 0)
    parts = [
        pl.when(lost).then(pl.lit("no kernel of this name and size in the recording")),
        pl.when(~alone).then(
            pl.format("its operator launched {} kernels: compare by operator", "siblings")
        ),
        pl.when(pl.col("untold") > 0).then(
            pl.format("{} kernels of its operator were not counted", "untold")
        ),
        pl.when(some & pl.col("operator").is_null()).then(pl.lit("no operator is linked to it")),
        pl.when(some & pl.col("operator").is_not_null() & pl.col("model").is_null()).then(
            pl.lit("not modelled")
        ),
        _uncounted(),
        pl.when(pl.col("memory_bytes").is_null()).then(pl.lit("bytes of memory not collected")),
        pl.when(pl.col("time_ns").is_null()).then(pl.lit("no duration")),
    ]
    words = pl.concat_str(parts, separator="; ", ignore_nulls=True)
    return pl.when(words != "").then(words)


def _uncollected() -> pl.Expr:
    """Name the kinds of FLOPs that were not collected and may be missing from the total."""
    vector = [q.column for q in counted.table().flops if "_vector_" in q.column]
    missing = [pl.when(pl.col(c).is_null()).then(pl.lit(c.split("_")[0])) for c in vector]
    matrix = pl.when(pl.col("matrix_flops").is_null()).then(pl.lit("tensor cores"))
    return pl.concat_str([*missing, matrix], separator=", ", ignore_nulls=True)


def _uncounted() -> pl.Expr:
    names = _uncollected()
    none = pl.col("flops").is_null()
    return (
        pl.when(none)
        .then(pl.lit("FLOPs not collected"))
        .when(names != "")
        .then(pl.format("FLOPs of {} not collected, so these are a lower bound", names))
    )
