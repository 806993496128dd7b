"""Backward operators and the forward operators whose gradients they compute; modules of both.

Autograd numbers its nodes per thread. The profiler writes on an operator the number that the next
node of its thread gets, so a wrapper, what it calls and even an unrelated operator before them may
carry one number; the node is made by the one that began last. On a backward operator it writes
the number of its node, and as `Fwd thread id` the profiler's own count of the thread that made it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.trace import nesting
from workbench.trace.core import Thread
from workbench.trace.nesting import NONE, Axis, Nested, Rows, gathered
from workbench.trace.problems import Problem

MODULE = "nn.Module: "
"""How the profiler begins the name of a module's call; left out of `ops.module`."""
MOST_THREADS = 64
"""A number that forward operators of more threads carry tells none of them apart."""


def forward(ops: pl.DataFrame, threads: Sequence[Thread], problems: list[Problem]) -> Rows:
    """Return the row of each backward operator's forward partner, or -1.

    `ops` are in nesting order; `threads` are the host's. The partner is the operator on the forward
    thread with the same sequence number that began last, before the backward one. Which thread a
    `Fwd thread id` means is not recorded: it is the one of the same process that gave most of the
    numbers that are said to come from there, before they came back; none where two gave as many.
    """
    out = np.full(ops.height, NONE, np.int64)
    if not ops["forward_thread"].count():
        return out
    numbered = ops.select(
        "thread", "sequence", "forward_thread", "start_ns", row=pl.int_range(pl.len())
    ).filter(pl.col("sequence").is_not_null())
    is_backward = pl.col("forward_thread").is_not_null()
    made, back = numbered.filter(~is_backward), numbered.filter(is_backward)
    back = _on_threads(made, back, _processes(threads))
    known = back.filter(pl.col("on").is_not_null())
    if known.height < back.height:
        problems.append(_unknown_thread(back.filter(pl.col("on").is_null()), ops))
    if known.height:
        out[known["row"].to_numpy()] = _last_before(made, known)
    return out


def _processes(threads: Sequence[Thread]) -> pl.DataFrame:
    """Return `thread process`, with a number for each process."""
    numbers: dict[object, int] = {}
    codes = [numbers.setdefault(t.pid, len(numbers)) for t in threads]
    return pl.DataFrame(
        {"thread": range(len(codes)), "process": codes},
        schema={"thread": pl.Int32, "process": pl.Int64},
    )


def _on_threads(made: pl.DataFrame, back: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Add `on`: the host thread that each backward operator's forward thread is."""
    made, back = (
        f.join(processes, on="thread", how="left", maintain_order="left") for f in (made, back)
    )
    first = pl.col("start_ns").min()
    nodes = made.group_by("process", "thread", "sequence").agg(made_ns=first)
    few = pl.len().over("process", "sequence") <= MOST_THREADS
    said = back.group_by("process", "forward_thread", "sequence").agg(first)
    votes = (
        said.join(nodes.filter(few), on=["process", "sequence"])
        .filter(pl.col("made_ns") <= pl.col("start_ns"))
        .group_by("process", "forward_thread", "thread")
        .len()
    )
    most = pl.col("len") == pl.col("len").max().over("process", "forward_thread")
    winners = votes.filter(most).filter(pl.len().over("process", "forward_thread") == 1)
    return back.join(
        winners.select("process", "forward_thread", on="thread"),
        on=["process", "forward_thread"],
        how="left",
        maintain_order="left",
    )


def _last_before(made: pl.DataFrame, back: pl.DataFrame) -> Rows:
    """Return the row of the last operator with the number and thread that began before each."""
    row = made["row"].to_numpy()
    thread = np.concatenate((made["thread"], back["on"])).astype(np.int64)
    number = np.concatenate((made["sequence"], back["sequence"]))
    at = np.concatenate((made["start_ns"], back["start_ns"]))
    n = len(row)
    _, node = np.unique(Axis((thread, number))(thread, number), return_inverse=True)
    key = Axis((node, at))(node, at)
    order = np.lexsort((row, key[:n]))
    place = order[np.maximum(np.searchsorted(key[:n][order], key[n:], "right") - 1, 0)]
    same = (node[place] == node[n:]) & (key[place] <= key[n:])
    return np.where(same, row[place], NONE)


def _unknown_thread(lost: pl.DataFrame, ops: pl.DataFrame) -> Problem:
    return Problem(
        code="forward_thread_unknown",
        count=lost.height,
        first_example=str(ops["name"][lost["row"][0]]),
        effect="the thread of their forward operators was not recorded or cannot be told from "
        "another, so they have no forward partner and no module of its",
    )


def modules(
    ops: Nested, partner: Rows, backward: NDArray[np.bool_], calls: pl.DataFrame
) -> pl.Series:
    """Return the innermost `nn.Module` call that each operator ran in: `Linear_3`.

    That is the last one to begin on its thread before it which still runs at its midpoint.
    `backward` says which operators are of that phase: where no module runs, they take the one of
    the forward partner of the closest backward node around them.
    """
    if not calls.height:
        return pl.Series([None], dtype=pl.Categorical()).new_from_index(0, len(partner))
    order, nested = nesting.sort_and_nest(calls)
    row = calls_around(ops, partner, backward, nested)
    names = calls["name"].gather(order).cast(pl.String).str.strip_prefix(MODULE)
    return gathered(names.cast(pl.Categorical()), row)


def calls_around(ops: Nested, partner: Rows, backward: NDArray[np.bool_], calls: Nested) -> Rows:
    """Return the row of the call that each operator counts to by the rule of `modules`, or -1."""
    middle = ops.start + (ops.end - ops.start) // 2
    row = nesting.innermost(calls, ops.thread, ops.start, middle)
    node = nesting.nearest(ops.parent, partner != NONE)
    lent = backward & (row == NONE) & (node != NONE)
    row[lent] = row[partner[node[lent]]]
    return row
