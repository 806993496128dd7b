"""Trees of what calls what: of `nn.Module` instances, of annotated ranges, of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from workbench import intervals
from workbench.trace import nesting, partners
from workbench.trace.families import COMMUNICATION_DOMAINS
from workbench.trace.nesting import NONE, Nested, Rows

if TYPE_CHECKING:
    from workbench.intervals import Times
    from workbench.trace.core import Trace

RANGED_FORMATS = ("nsight-systems", "rocprofv3", "rocm-rpd")
"""Formats that can't record modules: there a program marks its parts with NVTX or roctx ranges."""
MODULE, RANGE, OPERATOR = "module", "range", "operator"


class Tree(NamedTuple):
    """Distinct places in depth-first order (by first call), and the calls made at each."""

    name: list[str]
    parent: Rows
    calls: Nested
    node: Rows
    """The place of each call."""
    kind: str

    @property
    def path(self) -> list[str]:
        """Return the names from the outermost place down, with `/` between."""
        found: list[str] = []
        for name, above in zip(self.name, self.parent.tolist(), strict=True):
            found.append(name if above == NONE else f"{found[above]}/{name}")
        return found


class _Nodes(NamedTuple):
    """Distinct (parent, name) pairs as they were met, outermost level first."""

    parent: list[int]
    code: list[int]
    of_call: Rows


def tree(trace: Trace) -> Tree:
    """Return the tree of what the recording marks: modules, or ranges in formats without them.

    Two calls are of one place when their names and the places around them are the same. An
    outermost call of a module that otherwise runs in exactly one place counts there: that is how
    activation checkpointing calls it again. Without calls (`ops.module` alone is known) each
    module is a place of its own.
    """
    marked, kind = _marked(trace)
    if not marked.height:
        known = trace.ops["module"].unique(maintain_order=True).drop_nulls().cast(pl.String)
        empty = np.empty(0, np.int64)
        none = Nested(empty, empty, empty, empty)
        return Tree(known.to_list(), np.full(len(known), NONE), none, empty, MODULE)
    order, calls = nesting.sort_and_nest(marked)
    text = marked["name"].cast(pl.String).str.strip_prefix(partners.MODULE)[order]
    names = text.unique(maintain_order=True)
    code = text.replace_strict(names, pl.int_range(len(names), eager=True)).to_numpy()
    nodes = _nodes(calls.parent, code)
    merged = _merged(nodes) if kind == MODULE else list(range(len(nodes.parent)))
    return _ordered(nodes, merged, calls, names.to_list(), kind)


def of_operators(ops: pl.DataFrame) -> Tree:
    """Return the tree of places at which operators call one another; rows as in `Trace.ops`.

    Rows may be left out: what an operator called that isn't there is outermost.
    """
    ids, above = ops["id"].to_numpy(), nesting.ids(ops["parent"])
    place = np.minimum(np.searchsorted(ids, above), len(ids) - 1)
    parent = np.where(ids[place] == above, place, NONE)
    thread, start = ops["thread"].to_numpy(), ops["start_ns"].to_numpy()
    calls = Nested(thread, start, start + ops["dur_ns"].to_numpy(), parent)
    names = ops["name"].cast(pl.String)
    distinct = names.unique(maintain_order=True)
    code = names.replace_strict(distinct, pl.int_range(len(distinct), eager=True)).to_numpy()
    nodes = _nodes(parent, code)
    return _ordered(nodes, list(range(len(nodes.parent))), calls, distinct.to_list(), OPERATOR)


def _marked(trace: Trace) -> tuple[pl.DataFrame, str]:
    if trace.meta.format in RANGED_FORMATS:
        return ranges(trace), RANGE
    if trace.ops["module"].null_count() == trace.ops.height:
        return trace.ranges.clear(), MODULE
    found = trace.frames.filter(pl.col("module").is_not_null())
    return found.select("thread", "start_ns", "dur_ns", name="module"), MODULE


def marked(trace: Trace) -> bool:
    """Say whether ranges stand for modules, which this trace's format can't record."""
    return trace.meta.format in RANGED_FORMATS and bool(ranges(trace).height)


def ranges(trace: Trace) -> pl.DataFrame:
    """Return the nested ranges of host threads that a program set itself."""
    name, domain = (pl.col(c).cast(pl.String) for c in ("name", "domain"))
    foreign = domain.str.to_lowercase().is_in(["step", "overhead", *COMMUNICATION_DOMAINS])
    own = ~foreign & ~name.str.starts_with("nccl")
    return trace.ranges.filter(pl.col("thread").is_not_null() & (pl.col("form") == "nested"), own)


def _nodes(parent: Rows, code: Rows) -> _Nodes:
    """Give each call the place (place of its parent, name), level by level."""
    depth = nesting.depths(parent)
    of_call = np.full(len(parent), NONE)
    found = _Nodes([], [], of_call)
    names = int(code.max()) + 1
    for level in range(int(depth.max()) + 1):
        here = np.flatnonzero(depth == level)
        above = np.where(parent[here] == NONE, NONE, of_call[parent[here]])
        keys, place = np.unique((above + 1) * names + code[here], return_inverse=True)
        of_call[here] = place + len(found.parent)
        found.parent.extend((keys // names - 1).tolist())
        found.code.extend((keys % names).tolist())
    return found


def _merged(nodes: _Nodes) -> list[int]:
    """Return the place that each one is: an outermost one may be known elsewhere."""
    places: dict[int, list[int]] = {}
    children: dict[tuple[int, int], int] = {}
    below: dict[int, list[int]] = {}
    for node, (parent, code) in enumerate(zip(nodes.parent, nodes.code, strict=True)):
        children[parent, code] = node
        below.setdefault(parent, []).append(node)
        if parent != NONE:
            places.setdefault(code, []).append(node)
    merged = list(range(len(nodes.parent)))
    for root in below.get(NONE, []):
        elsewhere = places.get(nodes.code[root], [])
        if len(elsewhere) != 1 or _root(nodes, elsewhere[0]) == root:
            continue
        waiting = [(root, elsewhere[0])]
        while waiting:
            node, into = waiting.pop()
            merged[node] = into
            for child in below.get(node, []):
                same = children.get((into, nodes.code[child]))
                if same is None:
                    nodes.parent[child] = into
                else:
                    waiting.append((child, same))
    return merged


def _root(nodes: _Nodes, node: int) -> int:
    while nodes.parent[node] != NONE:
        node = nodes.parent[node]
    return node


def _ordered(nodes: _Nodes, merged: list[int], calls: Nested, names: list[str], kind: str) -> Tree:
    """Put the places in depth-first order, siblings in order of their first call."""
    of_call = np.array(merged)[nodes.of_call]
    first = np.full(len(merged), np.iinfo(np.int64).max)
    np.minimum.at(first, of_call, calls.start)
    below: dict[int, list[int]] = {}
    for node in np.argsort(first, kind="stable").tolist():
        if merged[node] == node:
            below.setdefault(nodes.parent[node], []).append(node)
    number = np.full(len(merged), NONE)
    order: list[int] = []
    waiting = below.get(NONE, [])[::-1]
    while waiting:
        node = waiting.pop()
        number[node] = len(order)
        order.append(node)
        waiting.extend(below.get(node, [])[::-1])
    parent = [NONE if nodes.parent[n] == NONE else int(number[nodes.parent[n]]) for n in order]
    return Tree(
        [names[nodes.code[n]] for n in order], np.array(parent), calls, number[of_call], kind
    )


def own_ns(calls: Nested) -> Times:
    """Return each call's time less that of the calls right below it."""
    inner = np.flatnonzero(calls.parent != NONE)
    outer = calls.parent[inner]
    start = np.maximum(calls.start[inner], calls.start[outer])
    end = np.minimum(calls.end[inner], calls.end[outer])
    inside = intervals.grouped_length(outer, start, end, len(calls.start))
    own: Times = calls.end - calls.start - inside
    return own
