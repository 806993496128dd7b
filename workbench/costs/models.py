"""FLOPs and bytes of the operators of a trace: which have a model, and which of them counts.

A wrapper and what it calls may both have a model (linear and addmm, attention and its fused form):
the innermost carries the count, so that a sum counts every multiply-add once.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from workbench.costs import attention, matmul, shapes
from workbench.errors import unknown_name
from workbench.trace import nesting

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from workbench.costs.matmul import Cost
    from workbench.costs.shapes import Call
    from workbench.trace.core import Trace

    Model = Callable[[Call], Cost]

MODELS: dict[str, Model] = matmul.MODELS | attention.MODELS
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
_COST = [name for name in SCHEMA.names() if name != "op"]


def model_of(name: str) -> Model | None:
    """Return the model of an operator name; `addmm_` (in place) has that of `addmm`."""
    return MODELS.get(name) or MODELS.get(name.removesuffix("_"))


def cost(name: str, call: Call) -> Cost:
    """Return the cost of one call; unknown operators raise, unusable shapes raise `ShapeError`."""
    model = model_of(name)
    if model is None:
        raise unknown_name("operator model", name, MODELS)
    found = model(call)
    counts = (found.flops, found.read_bytes or 0, found.write_bytes or 0)
    if max(counts) > MAX_COUNT:
        raise shapes.ShapeError("more work than a 64-bit count holds")
    return found


def operators(trace: Trace) -> pl.DataFrame:
    """Return a row for each operator that carries a count (columns of `SCHEMA`); none for others.

    flops in floating-point operations, `read_bytes` and `write_bytes` compulsory (null: not known).
    Only the innermost modelled operator of a call tree has a row.
    """
    priced = _priced(trace.ops)
    wrappers = enclosing(trace.ops["parent"], priced["op"])
    return priced.filter(~pl.col("op").is_in(wrappers.implode()))


def unmodelled(trace: Trace) -> pl.DataFrame:
    """Return (op, reason) for operators whose name has a model but whose shapes cannot be used."""
    known = _modelled_ops(trace.ops)
    table = _table(known)
    failed = table.filter(pl.col("reason").is_not_null()).select(*_KEY, "reason")
    joined = known.join(failed, on=_KEY, how="inner", nulls_equal=True)
    return joined.select(pl.col("id").alias("op"), "reason").sort("op")


def _modelled_ops(ops: pl.DataFrame) -> pl.DataFrame:
    names = [n for n in ops["name"].unique().cast(pl.String).drop_nulls() if model_of(n)]
    kept = ops.filter(pl.col("name").cast(pl.String).is_in(names)).select("id", *_KEY)
    return kept.with_columns(pl.col("name").cast(pl.String))


def _table(known: pl.DataFrame) -> pl.DataFrame:
    """Price each distinct call once: a trace repeats few shapes many times."""
    keys = known.select(_KEY).unique(maintain_order=True)
    rows = [_row(*key) for key in keys.iter_rows()]
    schema = {name: SCHEMA[name] for name in _COST} | {"reason": pl.String()}
    return keys.hstack(pl.DataFrame(rows, schema=schema, orient="row"))


def _row(
    name: str, dims: str | None, types: str | None, strides: str | None, concrete: str | None
) -> dict[str, object]:
    try:
        found = cost(name, shapes.parse(dims, types, strides, concrete))
    except shapes.ShapeError as error:
        return dict.fromkeys(_COST) | {"reason": str(error)}
    return asdict(found) | {"reason": None}


def _priced(ops: pl.DataFrame) -> pl.DataFrame:
    known = _modelled_ops(ops)
    table = _table(known).filter(pl.col("flops").is_not_null()).drop("reason")
    joined = known.join(table, on=_KEY, how="inner", nulls_equal=True)
    return joined.rename({"id": "op"}).select(SCHEMA.names()).sort("op")


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
    # A last entry, reached by index -1, ends every climb.
    up = np.append(_parents(parent), -1)
    stop = np.zeros(len(up), dtype=bool)
    stop[carriers.to_numpy()] = True
    stop[-1] = True
    start = nesting.ids(ops)
    at = start
    while not stop[at].all():
        at = np.where(stop[at], at, up[at])
    owner = pl.Series("owner", np.where(at >= 0, at, start))
    return owner.replace(-1, None).cast(pl.UInt32)


def _parents(parent: pl.Series) -> npt.NDArray[np.int64]:
    return nesting.ids(parent)
