"""FLOPs and bytes of the operators of a trace: which have a model, and which of them counts.

Operators call each other, and several levels of one call may have a model. One of them carries the
count, so that a sum counts every multiply-add and every byte once: a wrapper (linear, attention,
`to`) leaves it to what it calls, where that is recorded; any other operator does its work itself,
and what it calls (an `addmm` that copies an operand) is part of it.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from workbench.costs import (
    attention,
    convolution,
    embedding,
    lookup,
    matmul,
    recurrent,
    related,
    scaled,
    shapes,
)
from workbench.costs.cost import convention as named
from workbench.errors import unknown_name
from workbench.trace import nesting

if TYPE_CHECKING:
    import numpy.typing as npt

    from workbench.costs.cost import Cost, Model
    from workbench.costs.shapes import Call
    from workbench.trace.core import Trace

_FAMILIES = (matmul, scaled, attention, convolution, embedding, lookup, recurrent)
MODELS: dict[str, Model] = {n: m for family in _FAMILIES for n, m in family.MODELS.items()}
WRAPPERS = frozenset[str]().union(*(family.WRAPPERS for family in _FAMILIES))
VIEW = "view"
"""The model of operators that only make or describe tensors: no work, and no time of others."""
SCHEMA = pl.Schema(
    {
        "op": pl.UInt32(),
        "flops": pl.Int64(),
        "read_bytes": pl.Int64(),
        "write_bytes": pl.Int64(),
        "precision": pl.String(),
        "unit": pl.String(),
        "model": pl.String(),
    }
)
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
    return MODELS.get(name) or MODELS.get(name.removesuffix("_"))


def cost(name: str, call: Call) -> Cost:
    """Return the cost of one call; unknown operators raise, unusable shapes raise `ShapeError`."""
    model = model_of(name)
    if model is None:
        raise unknown_name("operator model", name, MODELS)
    found = model(call)
    flops = (found.flops or 0) + found.epilogue_flops + found.masked_flops
    if max(flops, found.read_bytes or 0, found.write_bytes or 0) > MAX_COUNT:
        raise shapes.ShapeError("more work than a 64-bit count holds")
    return found


def operators(trace: Trace, *, convention: str = "default") -> pl.DataFrame:
    """Return a row for each operator that carries a count (columns of `SCHEMA`); none for others.

    flops in floating-point operations by the named convention (`costs.cost.CONVENTIONS`),
    `read_bytes` and `write_bytes` compulsory; null where they are not known.
    """
    return counted(trace.ops, prices(trace), convention)


def prices(trace: Trace) -> pl.DataFrame:
    """Return a row for each operator whose name has a model: `op`, its cost, or the `reason`.

    Each distinct call is priced once: a trace repeats few shapes many times.
    """
    ops = trace.ops
    names = ops["name"].unique()
    has_model = [n is not None and model_of(n) is not None for n in names.cast(pl.String)]
    known = names.filter(pl.Series(has_model, dtype=pl.Boolean))
    kept = ops.filter(pl.col("name").is_in(known.implode())).select("id", *_CALL)
    kept = _with_partners(kept, ops)
    keys = kept.select(_KEY).unique(maintain_order=True)
    rows = [_row(*key) for key in keys.cast(pl.String()).iter_rows()]
    made = pl.DataFrame(rows, schema=_PRICE, orient="row")
    joined = kept.join(keys.hstack(made), on=_KEY, how="left", nulls_equal=True)
    return joined.rename({"id": "op"}).select("op", *_PRICE).sort("op")


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


def counted(ops: pl.DataFrame, priced: pl.DataFrame, convention: str) -> pl.DataFrame:
    """Return those of `prices` that carry a count: outside any that works itself, innermost."""
    found = priced.filter(pl.col("reason").is_null())
    is_view = pl.col("model") == VIEW
    whole = found.filter(~is_view & ~pl.col("wraps"))["op"]
    outside = found.filter(~_inside(ops["parent"], whole, found["op"]))
    around = enclosing(ops["parent"], outside.filter(~is_view)["op"])
    carrying = outside.filter(is_view | ~pl.col("op").is_in(around.implode()))
    return carrying.with_columns(named(convention).flops().alias("flops")).select(SCHEMA.names())


def _inside(parent: pl.Series, whole: pl.Series, ops: pl.Series) -> pl.Series:
    """Say for each operator whether one of `whole` encloses it, at any depth."""
    return pl.Series(_climb(parent, whole, nesting.ids(parent.gather(ops))) >= 0)


def enclosing(parent: pl.Series, ops: pl.Series) -> pl.Series:
    """Return the ids that enclose at least one of the given operators, at any depth."""
    up = _parents(parent)
    marked = np.zeros(len(up), dtype=bool)
    front = up[ops.to_numpy()]
    while (front := np.unique(front[front >= 0])).size:
        front = front[~marked[front]]
        marked[front] = True
        front = up[front]
    return pl.Series("op", np.flatnonzero(marked), dtype=pl.UInt32())


def owners(parent: pl.Series, carriers: pl.Series, ops: pl.Series) -> pl.Series:
    """Return, for each operator, the nearest enclosing one (or itself) that carries a count.

    An operator with no carrier around it owns itself; null stays null. The work of a `copy_` inside
    a modelled `addmm` is thus time of the `addmm`.
    """
    start = nesting.ids(ops)
    at = _climb(parent, carriers, start)
    owner = pl.Series("owner", np.where(at >= 0, at, start))
    return owner.replace(-1, None).cast(pl.UInt32)


def _climb(
    parent: pl.Series, stops: pl.Series, start: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Go up from each operator until one of `stops`, itself included; -1 where there is none."""
    # A last entry, reached by index -1, ends every climb.
    up = np.append(_parents(parent), -1)
    stop = np.zeros(len(up), dtype=bool)
    stop[stops.to_numpy()] = True
    stop[-1] = True
    at = start
    while not stop[at].all():
        at = np.where(stop[at], at, up[at])
    return at


def _parents(parent: pl.Series) -> npt.NDArray[np.int64]:
    return nesting.ids(parent)
