"""Time of whole subtrees of operators: the union of the stretches that their members own.

At any moment some operators own a running stretch. Give each of them +1 and the closest common
ancestor of each two neighbours (in row order) -1: then the sum over a subtree is 1 where it holds
any of them, else 0, for rows are in depth-first order. So weights of time, added up towards the
roots once, give all totals.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple

import numpy as np

from workbench.intervals import Times
from workbench.trace import nesting
from workbench.trace.nesting import Rows

CONCURRENT = 8
"""Above this many stretches at a time, on average, each change is followed by itself instead."""


class Owned(NamedTuple):
    """Stretches of time, each with the operator (a row) that it counts to."""

    owner: Rows
    start: Times
    end: Times


class _Neighbours(NamedTuple):
    """Two owners that were neighbours among the running for some time."""

    first: Rows
    second: Rows
    ns: Times


def totals(parent: Rows, owned: Owned) -> Times:
    """Return the length of the union over each operator's subtree, in ns.

    `parent` is the row of each operator's parent or -1, rows in depth-first order.
    """
    keep = owned.end > owned.start
    owned = Owned(*(x[keep] for x in owned))
    total = np.zeros(len(parent), np.int64)
    np.add.at(total, owned.owner, owned.end - owned.start)
    near = _neighbours(parent, owned)
    if len(near.ns):
        np.subtract.at(total, _common(parent, near), near.ns)
    depth = nesting.depths(parent)
    order = np.argsort(depth, kind="stable")
    first = np.searchsorted(depth[order], np.arange(1, depth.max(initial=0) + 2))
    for begin, end in zip(first[-2::-1], first[:0:-1], strict=True):
        level = order[begin:end]
        np.add.at(total, parent[level], total[level])
    return total


def _neighbours(parent: Rows, owned: Owned) -> _Neighbours:
    """Pair neighbouring owners below one root, with how long they were neighbours.

    Nothing changes between two edges, so the pairs of each stretch of time between edges are enough
    unless very many run at a time.
    """
    roots = np.maximum.accumulate(np.where(parent < 0, np.arange(len(parent)), 0))
    tree = roots[owned.owner]
    at = np.concatenate((owned.start, owned.end))
    edges = np.lexsort((at, np.tile(tree, 2)))
    place = np.empty(len(edges), np.int64)
    place[edges] = np.arange(len(edges))
    n = len(tree)
    count = place[n:] - place[:n]
    if count.sum() > 2 * CONCURRENT * n:
        return _followed(owned, tree)
    row = np.repeat(np.arange(n), count)
    slot = place[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    order = np.lexsort((owned.owner[row], slot))
    slot, owner = slot[order], owned.owner[row[order]]
    time = at[edges]
    pair = np.flatnonzero(slot[1:] == slot[:-1])
    ns = time[slot[pair] + 1] - time[slot[pair]]
    return _Neighbours(owner[pair], owner[pair + 1], ns)


def _followed(owned: Owned, tree: Rows) -> _Neighbours:
    """Keep the running owners in order through time and note each pair when it ends."""
    begins = zip(tree.tolist(), owned.start.tolist(), owned.owner.tolist(), strict=True)
    ends = zip(tree.tolist(), owned.end.tolist(), owned.owner.tolist(), strict=True)
    events = [(t, at, 1, x) for t, at, x in begins] + [(t, at, 0, x) for t, at, x in ends]
    running: list[int] = []
    signs: list[tuple[int, int, int]] = []  # a pair that begins counts -time, one that ends +time
    for _, at, begins_now, x in sorted(events):
        if begins_now:
            insort(running, x)
        i = bisect_left(running, x)
        sides = running[i - 1] if i else None, running[i + 1] if i + 1 < len(running) else None
        sign = -at if begins_now else at
        signs += [(u, v, sign) for u, v in ((sides[0], x), (x, sides[1])) if None not in (u, v)]  # type: ignore[misc]
        if None not in sides:
            signs.append((sides[0], sides[1], -sign))  # type: ignore[arg-type]
        if not begins_now:
            running.pop(i)
    columns = np.array(signs, np.int64).reshape(-1, 3)
    return _Neighbours(columns[:, 0], columns[:, 1], columns[:, 2])


def _common(parent: Rows, near: _Neighbours) -> Rows:
    """Return the closest common ancestor of two rows, the first not after the second.

    It is the first ancestor of the second (or itself) that is not after the first one.
    """
    ups = [parent]
    while (ups[-1] >= 0).any():
        ups.append(np.where(ups[-1] >= 0, ups[-1][ups[-1]], ups[-1]))
    row = near.second
    for up in reversed(ups):
        row = np.where(up[row] > near.first, up[row], row)
    return np.where(row > near.first, parent[row], row)
