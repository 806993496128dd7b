"""FLOPs and bytes of the operators of a trace: which have a model, and what each call costs."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import polars as pl

from workbench.costs import (
    activation,
    attention,
    convolution,
    copies,
    drawing,
    elementwise,
    embedding,
    evidence,
    fourier,
    fused,
    indexing,
    lookup,
    loss,
    matmul,
    norm,
    optimizer,
    pooling,
    recurrent,
    reduction,
    related,
    scaled,
    shapes,
    sparse,
    views,
)
from workbench.costs.cost import SCHEMA
from workbench.costs.levels import counted, with_enclosing
from workbench.errors import unknown_name

if TYPE_CHECKING:
    from workbench.costs.cost import Cost, Model
    from workbench.costs.shapes import Call
    from workbench.trace.core import Trace

_FAMILIES = (
    matmul,
    scaled,
    attention,
    convolution,
    embedding,
    lookup,
    recurrent,
    elementwise,
    activation,
    reduction,
    loss,
    norm,
    pooling,
    copies,
    indexing,
    drawing,
    optimizer,
    fourier,
    sparse,
    fused,
    views,
)
MODELS: dict[str, Model] = {n: m for family in _FAMILIES for n, m in family.MODELS.items()}
WRAPPERS = frozenset[str]().union(*(family.WRAPPERS for family in _FAMILIES))
PREFIXES: dict[str, Model] = sparse.PREFIXES | fused.PREFIXES
"""Models by the beginning of an operator's name."""
MAX_COUNT = 2**63 - 1
_CALL = ["name", "input_dims", "input_types", "input_strides", "concrete_inputs"]
_PARTNER = [f"partner_{column}" for column in _CALL]
_KEY = [*_CALL, *_PARTNER]
_PRICE: dict[str, pl.DataType] = {
    **{name: dtype for name, dtype in SCHEMA.items() if name != "op"},
    "epilogue_flops": pl.Int64(),
    "masked_flops": pl.Int64(),
    "recomputed_flops": pl.Int64(),
    "unknown": pl.String(),
    "wraps": pl.Boolean(),
    "reason": pl.String(),
}


def model_of(name: str) -> Model | None:
    """Return the model of an operator name; `addmm_` (in place) has that of `addmm`."""
    found = MODELS.get(name) or MODELS.get(name.removesuffix("_"))
    if found is None:
        found = next((m for start, m in PREFIXES.items() if name.startswith(start)), None)
    return found


def cost(name: str, call: Call) -> Cost:
    """Return the cost of one call; unknown operators raise, unusable shapes raise `ShapeError`."""
    model = model_of(name)
    if model is None:
        raise unknown_name("operator model", name, MODELS)
    found = model(call)
    flops = (found.flops or 0) + found.epilogue_flops + found.masked_flops
    read, written = found.read_bytes or 0, found.write_bytes or 0
    if min(flops, read, written) < 0:
        raise shapes.ShapeError("a recorded size or number is negative")
    if max(flops, read + written) > MAX_COUNT:
        raise shapes.ShapeError("more work than a 64-bit count holds")
    return found


def operators(trace: Trace, *, convention: str = "default") -> pl.DataFrame:
    """Return a row for each operator that carries a count (columns of `SCHEMA`); none for others.

    flops in floating-point operations by the named convention (`costs.cost.CONVENTIONS`),
    `read_bytes` and `write_bytes` compulsory; null where they are not known.
    """
    return counted(trace.ops, prices(trace), convention)


def prices(trace: Trace, among: pl.Series | None = None) -> pl.DataFrame:
    """Return a row for each operator whose name has a model: `op`, its cost, or the `reason`.

    `among`: only for operators with these ids, all by default. Each distinct call is priced once: a
    trace repeats few shapes many times.
    """
    ops = evidence.completed(trace, trace.ops if among is None else trace.ops[among])
    names = ops["name"].unique().cast(pl.String).drop_nulls().to_list()
    at_rest = [n for n in names if views.is_one(n)]
    known = [n for n in names if not views.is_one(n) and model_of(n) is not None]
    kept = ops.filter(pl.col("name").is_in(known)).select("id", *_CALL)
    kept = _with_partners(kept, trace.ops)
    keys = kept.select(_KEY).unique(maintain_order=True)
    rows = [_row(*key) for key in keys.cast(pl.String()).iter_rows()]
    made = pl.DataFrame(rows, schema=_PRICE, orient="row")
    joined = kept.join(keys.hstack(made), on=_KEY, how="left", nulls_equal=True)
    launched = pl.col("op").is_in(_launchers(trace).implode())
    worked = joined.rename({"id": "op"}).select("op", *_PRICE)
    # A wrapper that launched kernels itself did the work.
    worked = worked.with_columns(pl.col("wraps") & ~launched)
    # A view that did is none: its work is not known.
    resting = _views(ops, at_rest).filter(~launched)
    return pl.concat([worked, resting]).sort("op")


def prices_on_device(trace: Trace) -> pl.DataFrame:
    """Return `prices` of the operators that ran something on the device, and of those around them.

    The others neither own time nor take it from a wrapper. A trace is priced once.
    """

    def make() -> pl.DataFrame:
        ran = with_enclosing(trace.ops["parent"], trace.activities["op"])
        return prices(trace, ran)

    return trace.remembered("prices", make)


def _launchers(trace: Trace) -> pl.Series:
    return trace.activities.filter(pl.col("kind") == "kernel")["op"].drop_nulls().unique()


def _views(ops: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Return the views with a cost of 0: they need no arguments, and have thousands of them."""
    price = asdict(views.COST) | {"wraps": False, "reason": None}
    found = ops.filter(pl.col("name").is_in(names))
    zero = (pl.lit(price[n], dtype).alias(n) for n, dtype in _PRICE.items())
    return found.select(pl.col("id").alias("op"), *zero)


def _with_partners(kept: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Add the recorded arguments of each operator's partner (`related`); null without one."""
    partners = related.partners(ops)
    calls = ops.select(
        pl.col("id").alias("partner"), *(pl.col(c).alias(f"partner_{c}") for c in _CALL)
    )
    found = partners.join(calls, on="partner", how="left").drop("partner").rename({"op": "id"})
    return kept.join(found, on="id", how="left", maintain_order="left")


def _row(name: str, *recorded: str | None) -> dict[str, object]:
    """Price one call: name, dims, types, strides, concrete inputs, and those of its partner."""
    wraps = name in WRAPPERS or name.removesuffix("_") in WRAPPERS
    own, (partner, *others) = recorded[:4], recorded[4:]
    try:
        call = shapes.parse(*own)
        if partner is not None:
            call = replace(call, partner=(partner, shapes.parse(*others)))
        found = cost(name, call)
    except shapes.ShapeError as error:
        return dict.fromkeys(_PRICE) | {"reason": str(error), "wraps": wraps}
    return asdict(found) | {"reason": None, "wraps": wraps}
