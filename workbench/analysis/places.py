"""In which module each activity of a device counts: its place in the tree of modules.

An activity counts to the module whose call its operator ran in; without an operator, to the call
around its launch (a graph replay); a backward operator's to the module of its forward partner
(`workbench.trace.partners:modules`).
"""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench.analysis import pieces
from workbench.analysis.calltree import Tree
from workbench.trace import nesting, partners
from workbench.trace.core import Trace
from workbench.trace.nesting import NONE, Nested, Rows


def of_operators(tree: Tree, trace: Trace) -> Rows:
    """Return the place of each operator, by the rule of `partners.modules`; -1: in none."""
    ops = trace.ops
    if not len(tree.node):
        code = {name: i for i, name in enumerate(tree.name)}
        module = ops["module"].cast(pl.String)
        found: Rows = module.replace_strict(code, default=NONE, return_dtype=pl.Int64).to_numpy()
        return found
    start = ops["start_ns"].to_numpy()
    end = start + ops["dur_ns"].to_numpy()
    nested = Nested(ops["thread"].to_numpy(), start, end, nesting.ids(ops["parent"]))
    backward = (ops["phase"] == "backward").fill_null(value=False).to_numpy()
    call = partners.calls_around(nested, nesting.ids(ops["forward"]), backward, tree.calls)
    return np.where(call == NONE, NONE, tree.node[call])


def of_activities(tree: Tree, trace: Trace, activities: pl.DataFrame, of_op: Rows) -> Rows:
    """Return the place of each activity as a number of the tree; -1: in no module.

    `of_op` is what `of_operators` returns.
    """
    op = nesting.ids(activities["op"])
    place = np.where(op == NONE, NONE, np.append(of_op, NONE)[op])
    bare = np.flatnonzero(op == NONE)
    if len(tree.node) and len(bare):
        thread, at = pieces.launching(activities[bare], trace)
        call = nesting.innermost(tree.calls, thread, at)
        call[thread == NONE] = NONE
        place[bare] = np.where(call == NONE, NONE, tree.node[call])
    return place
