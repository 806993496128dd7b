"""The phase of a training step that a host position belongs to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.intervals import Times
from workbench.trace import schema, steps
from workbench.trace.names import matching
from workbench.trace.nesting import Axis

Threads = NDArray[np.integer]
BACKWARD_NODE = "autograd::engine::evaluate_function"
COMMUNICATION_OPS = ("record_param_comms", "c10d::", "gloo:", "nccl:")
STATED = ("data", "optimizer", "communication")
"""Phases that a name alone states."""
_DATA = "enumerate(DataLoader)"
_OPTIMIZER = re.compile(r"Optimizer\.(step|zero_grad)#|[# ]*([Oo]ptimizer\.)?zero_grad[# ]*$")
"""Torch's own annotations, and the bare `zero_grad` that programs write around the call."""


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
        if not len(mine):
            return np.zeros(len(at), np.bool_)
        axis = Axis((mine, self._start), (mine, self._end), (thread, at))
        stretches = intervals.union(axis(mine, self._start), axis(mine, self._end))
        return intervals.contains(stretches, axis(thread, at))


def classifier(ops: pl.DataFrame, ranges: pl.DataFrame, host_steps: pl.DataFrame) -> Classifier:
    """Build what names the phase of host positions (thread, time).

    The first that applies: data (torch's `enumerate(DataLoader)…`), optimizer (`Optimizer.step#…`,
    `zero_grad`), communication, recomputation (a forward operator below a backward node), backward
    (below a backward node, or on an autograd thread), forward (inside a step), other. A backward
    node is `autograd::engine::evaluate_function…`, or any operator with the thread of its forward
    partner (recordings of 2021 have only those).
    """
    columns = ["name", "thread", "start_ns", "dur_ns"]
    marks = pl.concat(
        [ops.select(columns), ranges.filter(pl.col("device").is_null()).select(columns)]
    )
    is_node = _is_node(ops)
    backward = Cover(ops.filter(is_node))
    covers = {
        **{phase: _cover(marks, lambda name, p=phase: stated(name) == p) for phase in STATED},  # type: ignore[misc]
        "recomputation": Cover(_recomputed(ops, backward)),
        "backward": backward,
    }
    autograd = _autograd_threads(ops.with_columns(node=is_node), ranges)
    return Classifier(covers, autograd, host_steps)


class Classifier(NamedTuple):
    """What was going on where: stretches of each phase, the first that covers a position wins."""

    covers: Mapping[str, Cover]
    autograd: Sequence[int]
    """Threads of autograd."""
    host_steps: pl.DataFrame

    def __call__(self, thread: Threads, at: Times, step: pl.Series | None = None) -> pl.Series:
        """Name the phase of each position; `step`, that of each position, saves looking it up."""
        step = steps.containing(self.host_steps, at) if step is None else step
        codes = np.where(step.is_not_null().to_numpy(), _code("forward"), _code("other"))
        codes[np.isin(thread, self.autograd)] = _code("backward")
        for phase, cover in reversed(tuple(self.covers.items())):
            codes[cover.holds(thread, at)] = _code(phase)
        return pl.Series(schema.PHASES, dtype=schema.PHASE).gather(codes)


def is_communication(name: str) -> bool:
    """Say whether an operator or annotation is one of torch's about communication."""
    return name.startswith(COMMUNICATION_OPS)


def stated(name: str) -> str | None:
    """Return the phase that an operator's or annotation's name alone states, if it does."""
    if name.startswith(_DATA):
        return "data"
    if _OPTIMIZER.match(name):
        return "optimizer"
    return "communication" if is_communication(name) else None


def _cover(marks: pl.DataFrame, rule: Callable[[str], bool]) -> Cover:
    return Cover(marks.filter(matching(marks["name"], rule)))


def _code(phase: str) -> int:
    return schema.PHASES.index(phase)


def _is_node(ops: pl.DataFrame) -> pl.Series:
    by_name = matching(ops["name"], lambda name: name.startswith(BACKWARD_NODE))
    return by_name | ops["forward_thread"].is_not_null()


def _numbered() -> pl.Expr:
    """Autograd numbers a forward operator only while it builds a graph."""
    return pl.col("sequence").is_not_null() & pl.col("forward_thread").is_null()


def _recomputed(ops: pl.DataFrame, backward: Cover) -> pl.DataFrame:
    """Return forward operators that run below a backward node: activation checkpointing."""
    forward = ops.filter(_numbered())
    inside = backward.holds(forward["thread"].to_numpy(), forward["start_ns"].to_numpy())
    return forward.filter(pl.Series(inside, dtype=pl.Boolean))


def _autograd_threads(ops: pl.DataFrame, ranges: pl.DataFrame) -> list[int]:
    """Return autograd's own threads: they run nodes, mark no step and begin no forward operator.

    On the CPU backward runs on the thread that called it, beside forward operators. What hooks do
    between the nodes (a reducer's copies) is on autograd's thread too without being below a node,
    so operators of no number are allowed where a node says that its forward ran elsewhere.
    """
    outermost = ops.filter(pl.col("parent").is_null())
    forward = _numbered().any()
    elsewhere = pl.col("forward_thread").is_not_null().any()
    own = outermost.group_by("thread").agg(own=~forward & (pl.col("node").all() | elsewhere))
    marked = ranges.filter(pl.col("domain") == "step")["thread"].unique().drop_nulls()
    return own.filter("own", ~pl.col("thread").is_in(marked.implode()))["thread"].to_list()
