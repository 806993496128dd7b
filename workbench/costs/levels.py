"""Which level of a call counts: operators call each other, and several may have a model.

One of them carries the count, so that a sum counts every multiply-add and every byte once: a
wrapper (linear, attention, `to`) leaves it to what it calls, where that is recorded; any other
operator does its work itself, and what it calls (an `addmm` that copies an operand) is part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from workbench.costs import views
from workbench.costs.cost import SCHEMA
from workbench.costs.cost import convention as named
from workbench.trace import nesting

if TYPE_CHECKING:
    import numpy.typing as npt

VIEW = views.COST.model
"""The model of operators that only make or describe tensors: no work, and no time of others."""


def counted(ops: pl.DataFrame, priced: pl.DataFrame, convention: str) -> pl.DataFrame:
    """Return those of `prices` that carry a count, with their FLOPs by a convention."""
    flops = named(convention).flops().alias("flops")
    return carrying(ops, priced).with_columns(flops).select(SCHEMA.names())


def carrying(ops: pl.DataFrame, priced: pl.DataFrame) -> pl.DataFrame:
    """Return those of `prices` that carry a count: outside any that works itself, innermost."""
    found = priced.filter(pl.col("reason").is_null())
    op, is_view = found["op"], (found["model"] == VIEW).to_numpy()
    whole = op.filter(pl.Series(~is_view & ~found["wraps"].to_numpy()))
    outside = ~_inside(ops["parent"], whole, op).to_numpy()
    around = enclosing(ops["parent"], op.filter(pl.Series(outside & ~is_view)))
    encloses = np.zeros(ops.height, dtype=bool)
    encloses[around.to_numpy()] = True
    return found.filter(pl.Series(outside & (is_view | ~encloses[op.to_numpy()])))


def working(carrying: pl.DataFrame) -> pl.Series:
    """Return the ids of `counted` that do work: views own no time but their own."""
    return carrying.filter(pl.col("model") != VIEW)["op"]


def delegating(parent: pl.Series, priced: pl.DataFrame, carrying: pl.DataFrame) -> pl.Series:
    """Say which of `prices` leave their work to operators inside them, one of `counted`.

    A wrapper does even where its own arguments could not be used.
    """
    around = priced["op"].is_in(enclosing(parent, working(carrying)).implode())
    hands_on = priced["reason"].is_null() | (priced["wraps"] & around)
    return hands_on & ~priced["op"].is_in(carrying["op"].implode())


def _inside(parent: pl.Series, whole: pl.Series, ops: pl.Series) -> pl.Series:
    """Say for each operator whether one of `whole` encloses it, at any depth."""
    return pl.Series(_climb(parent, whole, nesting.ids(parent.gather(ops))) >= 0)


def enclosing(parent: pl.Series, ops: pl.Series) -> pl.Series:
    """Return the ids that enclose at least one of the given operators, at any depth."""
    up = _parents(parent)
    marked = np.zeros(len(up), dtype=bool)
    front = up[ops.to_numpy()]
    while (front := front[front >= 0]).size:
        front = front[~marked[front]]
        marked[front] = True
        front = up[front]
    return pl.Series("op", np.flatnonzero(marked), dtype=pl.UInt32())


def with_enclosing(parent: pl.Series, ops: pl.Series) -> pl.Series:
    """Return the given ids and those of all operators around them, in order, each once."""
    ids = ops.drop_nulls()
    return pl.concat([ids, enclosing(parent, ids)]).unique().sort()


def owners(parent: pl.Series, carriers: pl.Series, ops: pl.Series) -> pl.Series:
    """Return, for each operator, the nearest enclosing one (or itself) that carries a count.

    An operator with no carrier around it owns itself; null stays null. The work of a `copy_` inside
    a modelled `addmm` is thus time of the `addmm`.
    """
    start = nesting.ids(ops)
    at = _climb(parent, carriers, start)
    owner = pl.Series("owner", np.where(at >= 0, at, start))
    return owner.replace(-1, None).cast(pl.UInt32)


def is_inside(parent: pl.Series, around: pl.Series, ops: pl.Series) -> pl.Series:
    """Say for each operator whether it is one of `around` or inside one; null is in none."""
    return pl.Series(_climb(parent, around, nesting.ids(ops)) >= 0)


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
