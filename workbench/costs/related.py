"""Which other operator recorded what an operator's own arguments leave out.

Recordings without concrete inputs (torch before 2.0) hold no strides and no size lists. What these
would tell, a partner has as a tensor: the output of a convolution has the extents of its gradient
in the backward; the parts of a backward have their sizes in the backward that calls them; the
backward of an embedding lookup has the forward's indices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from workbench.costs import convolution_calls, lookup_calls
from workbench.trace import nesting

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = pl.Schema({"op": pl.UInt32(), "partner": pl.UInt32()})


def partners(ops: pl.DataFrame) -> pl.DataFrame:
    """Return (op, partner), ids in `ops`, for the operators that have one."""
    found = [_callers(ops), _gradients(ops), *_lookups(ops)]
    return pl.concat([pl.DataFrame(schema=SCHEMA), *found]).unique("op", maintain_order=True)


def _named(ops: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    return ops.filter(pl.col("name").is_in(list(names)))


def _pairs(ops: pl.Series, partner: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"op": ops, "partner": partner}, schema=SCHEMA)


def _callers(ops: pl.DataFrame) -> pl.DataFrame:
    """Tie the parts of a convolution's backward to the backward that calls them."""
    parts = _named(ops, convolution_calls.PARTS)
    callers = _named(ops, convolution_calls.BACKWARDS)["id"]
    tied = parts.filter(pl.col("parent").is_in(callers.implode()))
    return _pairs(tied["id"], tied["parent"])


def _gradients(ops: pl.DataFrame) -> pl.DataFrame:
    """Tie forward convolutions without recorded arguments to their backward, and what they call."""
    silent = _named(ops, convolution_calls.FORWARDS).filter(pl.col("concrete_inputs").is_null())
    if not silent.height:
        return pl.DataFrame(schema=SCHEMA)
    backwards = _named(ops, convolution_calls.BACKWARDS).select("id", "parent")
    nodes = ops.select(pl.col("id").alias("parent"), "forward")
    of = backwards.join(nodes, on="parent").drop_nulls("forward").unique("forward")
    known = dict(zip(of["forward"], of["id"], strict=True))
    for number, parent in silent.select("id", "parent").sort("id").iter_rows():
        if number not in known and parent in known:
            known[number] = known[parent]
    tied = silent.filter(pl.col("id").is_in(list(known)))["id"]
    return _pairs(tied, pl.Series([known[number] for number in tied], dtype=pl.UInt32))


def _lookups(ops: pl.DataFrame) -> list[pl.DataFrame]:
    """Tie each embedding lookup to its backward node, and the node to it.

    Autograd numbers the node right before the lookup runs, so the operator that the node points
    to is the last one before it: the lookup is the next one on that thread. Whether it is of the
    node's kind is for its cost to check.
    """
    nodes = _named(ops, lookup_calls.BACKWARDS).drop_nulls("forward")
    calls = _named(ops, lookup_calls.FORWARDS).sort("id")
    if not (nodes.height and calls.height):
        return []
    at = np.searchsorted(calls["id"].to_numpy(), nodes["forward"].to_numpy())
    inside = at < calls.height
    nodes, calls = nodes.filter(pl.Series(inside)), calls[at[inside].tolist()]
    threads = nesting.gathered(ops["thread"], nesting.ids(nodes["forward"]))
    same = threads == calls["thread"]
    node, call = nodes["id"].filter(same), calls["id"].filter(same)
    return [_pairs(node, call), _pairs(call, node)]
