"""The phase of a training step that a host position belongs to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.intervals import Times
from workbench.trace import schema, steps
from workbench.trace.nesting import Axis

Threads = NDArray[np.integer]
BACKWARD_NODE = "autograd::engine::evaluate_function"
_COMMUNICATION_OPS = ("record_param_comms", "c10d::", "gloo:", "nccl:")


class Cover:
    """Stretches of host threads, and whether a position lies in one."""

    def __init__(self, events: pl.DataFrame) -> None:
        events = events.filter(pl.col("thread").is_not_null())
        self._thread = events["thread"].to_numpy()
        self._start = events["start_ns"].to_numpy()
        self._end = self._start + events["dur_ns"].to_numpy()

    def holds(self, thread: Threads, at: Times) -> NDArray[np.bool_]:
        """Say of each (thread, time) whether it is covered."""
        mine = self._thread
        axis = Axis((mine, self._start), (mine, self._end), (thread, at))
        stretches = intervals.union(axis(mine, self._start), axis(mine, self._end))
        return intervals.contains(stretches, axis(thread, at))


def classifier(
    ops: pl.DataFrame, ranges: pl.DataFrame, host_steps: pl.DataFrame
) -> Callable[[Threads, Times], pl.Series]:
    """Build the function that names the phase of host positions (thread, time).

    The first that applies: data, optimizer, communication, recomputation (a forward operator below
    a backward node), backward, forward (inside a step), other.
    """
    columns = ["name", "thread", "start_ns", "dur_ns"]
    marks = pl.concat(
        [ops.select(columns), ranges.filter(pl.col("device").is_null()).select(columns)]
    )
    name = pl.col("name").cast(pl.String)
    backward = Cover(ops.filter(name.str.starts_with(BACKWARD_NODE)))
    covers = (
        ("data", Cover(marks.filter(name.str.starts_with("enumerate(DataLoader)")))),
        ("optimizer", Cover(marks.filter(name.str.contains(r"^Optimizer\.(step|zero_grad)#")))),
        ("communication", Cover(marks.filter(_any_prefix(name, _COMMUNICATION_OPS)))),
        ("recomputation", Cover(_recomputed(ops, backward))),
        ("backward", backward),
    )
    autograd = _autograd_threads(ops, ranges)

    def classify(thread: Threads, at: Times) -> pl.Series:
        in_step = steps.containing(host_steps, at).is_not_null().to_numpy()
        codes = np.where(in_step, _code("forward"), _code("other"))
        codes = np.where(np.isin(thread, autograd), _code("backward"), codes)
        for phase, cover in reversed(covers):
            codes[cover.holds(thread, at)] = _code(phase)
        return pl.Series(schema.PHASES, dtype=schema.PHASE).gather(codes)

    return classify


def _code(phase: str) -> int:
    return schema.PHASES.index(phase)


def _any_prefix(name: pl.Expr, prefixes: tuple[str, ...]) -> pl.Expr:
    return pl.any_horizontal(name.str.starts_with(p) for p in prefixes)


def _recomputed(ops: pl.DataFrame, backward: Cover) -> pl.DataFrame:
    """Return forward operators that run below a backward node: activation checkpointing.

    Autograd numbers an operator only while it builds a graph, and gives a backward one the thread
    of its forward partner.
    """
    forward = ops.filter(pl.col("sequence").is_not_null() & pl.col("forward_thread").is_null())
    inside = backward.holds(forward["thread"].to_numpy(), forward["start_ns"].to_numpy())
    return forward.filter(pl.Series(inside, dtype=pl.Boolean))


def _autograd_threads(ops: pl.DataFrame, ranges: pl.DataFrame) -> list[int]:
    """Return autograd's own threads: all their outermost operators are backward nodes.

    On the CPU backward runs on the thread that called it, beside forward operators.
    """
    name = pl.col("name").cast(pl.String)
    outermost = ops.filter(pl.col("parent").is_null())
    only_nodes = outermost.group_by("thread").agg(own=name.str.starts_with(BACKWARD_NODE).all())
    marked = ranges.filter(pl.col("domain") == "step")["thread"].unique()
    own = only_nodes.filter("own", ~pl.col("thread").is_in(marked.drop_nulls().implode()))
    return own["thread"].to_list()
