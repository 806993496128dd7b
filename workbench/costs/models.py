"""FLOPs and bytes of the operators of a trace: which have a model, and which of them counts.

Operators call each other, and several levels of one call may have a model. One of them carries the
count, so that a sum counts every multiply-add and every byte once: a wrapper (linear, attention,
`to`) leaves it to what it calls, where that is recorded; any other operator does its work itself,
and what it calls (an `addmm` that copies an operand) is part of it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from workbench.costs import (
    activation,
    attention,
    copies,
    drawing,
    elementwise,
    evidence,
    fourier,
    fused,
    indexing,
    loss,
    matmul,
    norm,
    optimizer,
    pooling,
    reduction,
    shapes,
    sparse,
    views,
)
from workbench.costs.cost import convention as named
from workbench.errors import unknown_name
from workbench.trace import nesting

if TYPE_CHECKING:
    import numpy.typing as npt

    from workbench.costs.cost import Cost, Model
    from workbench.costs.shapes import Call
    from workbench.trace.core import Trace

_FAMILIES = (
    matmul,
    attention,
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
PREFIXES: dict[str, Model] = sparse.PREFIXES | fused.PREFIXES
"""Models by the beginning of an operator's name."""
WRAPPERS = frozenset[str]().union(*(family.WRAPPERS for family in _FAMILIES))
VIEW = views.COST.model
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
_KEY = ["name", "input_dims", "input_types", "input_strides", "concrete_inputs"]
_PRICE: dict[str, pl.DataType] = {
    **{name: dtype for name, dtype in SCHEMA.items() if name != "op"},
    "epilogue_flops": pl.Int64(),
    "masked_flops": pl.Int64(),
    "recomputed_flops": pl.Int64(),
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
    ops = evidence.completed(trace)
    names = ops["name"].unique().cast(pl.String).drop_nulls().to_list()
    known = [n for n in names if n not in views.NAMES and model_of(n) is not None]
    kept = ops.filter(pl.col("name").is_in(known)).select("id", *_KEY)
    keys = kept.select(_KEY).unique(maintain_order=True)
    rows = [_row(*key) for key in keys.cast(pl.String()).iter_rows()]
    made = pl.DataFrame(rows, schema=_PRICE, orient="row")
    joined = kept.join(keys.hstack(made), on=_KEY, how="left", nulls_equal=True)
    launched = pl.col("op").is_in(_launchers(trace).implode())
    worked = joined.rename({"id": "op"}).select("op", *_PRICE)
    # A wrapper that launched kernels itself did the work.
    worked = worked.with_columns(pl.col("wraps") & ~launched)
    # A view that did is none: its work is not known.
    resting = _views(ops, [n for n in names if n in views.NAMES]).filter(~launched)
    return pl.concat([worked, resting]).sort("op")


def _launchers(trace: Trace) -> pl.Series:
    return trace.activities.filter(pl.col("kind") == "kernel")["op"].drop_nulls().unique()


def _row(name: str, *columns: str | None) -> tuple[object, ...]:
    """Return the columns of `_PRICE`."""
    wraps = name in WRAPPERS or name.removesuffix("_") in WRAPPERS
    try:
        found = cost(name, shapes.parse(*columns))
    except shapes.ShapeError as error:
        return (*(None for _ in range(len(_PRICE) - 2)), wraps, str(error))
    return (*(getattr(found, part) for part in list(_PRICE)[:-2]), wraps, None)


def _views(ops: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Return the views with a cost of 0: they need no arguments, and have thousands of them."""
    price = asdict(views.COST) | {"wraps": False, "reason": None}
    found = ops.filter(pl.col("name").is_in(names))
    zero = (pl.lit(price[n], dtype).alias(n) for n, dtype in _PRICE.items())
    return found.select(pl.col("id").alias("op"), *zero)


def counted(ops: pl.DataFrame, priced: pl.DataFrame, convention: str) -> pl.DataFrame:
    """Return those of `prices` that carry a count: outside any that works itself, innermost."""
    found = priced.filter(pl.col("reason").is_null())
    op, is_view = found["op"], (found["model"] == VIEW).to_numpy()
    whole = op.filter(pl.Series(~is_view & ~found["wraps"].to_numpy()))
    outside = ~_inside(ops["parent"], whole, op).to_numpy()
    around = enclosing(ops["parent"], op.filter(pl.Series(outside & ~is_view)))
    encloses = np.zeros(ops.height, dtype=bool)
    encloses[around.to_numpy()] = True
    carrying = found.filter(pl.Series(outside & (is_view | ~encloses[op.to_numpy()])))
    return carrying.with_columns(named(convention).flops().alias("flops")).select(SCHEMA.names())


def _inside(parent: pl.Series, whole: pl.Series, ops: pl.Series) -> pl.Series:
    """Say for each operator whether one of `whole` encloses it, at any depth."""
    return pl.Series(_climb(parent, whole, nesting.ids(parent.gather(ops))) >= 0)


def unmodelled(trace: Trace) -> pl.DataFrame:
    """Return (op, reason) for operators whose name has a model but whose shapes cannot be used."""
    return prices(trace).filter(pl.col("reason").is_not_null()).select("op", "reason")


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
