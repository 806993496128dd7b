"""The frames that the explorer can show, by name, and how each is asked of a source and choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.analysis.breakdown import breakdown
from workbench.analysis.collectives import collectives
from workbench.analysis.coverage import coverage
from workbench.analysis.groups import groups
from workbench.analysis.idle import idle, idle_causes
from workbench.analysis.kernels import kernels
from workbench.analysis.launches import launches
from workbench.analysis.memory_peak import memory_peak
from workbench.analysis.memory_timeline import memory_timeline
from workbench.analysis.modules import modules
from workbench.analysis.ops import ops
from workbench.analysis.overlap import overlap
from workbench.analysis.phases import phases
from workbench.analysis.queue import queue_depth
from workbench.analysis.recoverable import recoverable
from workbench.analysis.roofline import roofline
from workbench.analysis.steps import steps
from workbench.analysis.summary import summary
from workbench.analysis.waterfall import waterfall_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from workbench.panels.answers import Answers

MEMORY_POINTS = 800
"""Moments of each device that fill a picture; peaks stay exact."""


def _waterfall(a: Answers) -> pl.DataFrame:
    """Ask for the mean step; it is of complete steps, whatever the window."""
    step = None if a.choice.within else a.unranged["step"]
    return waterfall_mean(a.source, step=step, within=a.choice.within)


def _host(a: Answers) -> dict[str, Any]:
    """Return the window for memory: the allocator acts at host time, so steps are those there."""
    of_steps = a.narrowed["window"] in ("steps", "steady")
    return a.narrowed | ({"window": "host"} if of_steps else {})


def _memory(a: Answers) -> pl.DataFrame:
    """Ask for memory by category where the recording names some, else by phase."""
    named = any(t.memory["category"].count() for t in a.source.ranks)
    by = "category" if named else "phase"
    return memory_timeline(a.source, by=by, points=MEMORY_POINTS, **_host(a))


QUESTIONS: dict[str, Callable[[Answers], pl.DataFrame]] = {
    "summary": lambda a: summary(a.source, **a.narrowed),
    "breakdown": lambda a: breakdown(a.source, **a.narrowed),
    "steps": lambda a: steps(a.source),
    "waterfall_mean": _waterfall,
    "kernels": lambda a: kernels(a.source, **a.narrowed),
    "ops": lambda a: ops(a.source, **a.narrowed),
    "modules": lambda a: modules(a.source, **a.narrowed),
    "phases": lambda a: phases(a.source, **a.narrowed),
    "idle": lambda a: idle(a.source, **a.narrowed),
    "idle_causes": lambda a: idle_causes(a.source, **a.narrowed),
    "launches": lambda a: launches(a.source, **a.narrowed),
    "queue_depth": lambda a: queue_depth(a.source, **a.narrowed),
    "overlap": lambda a: overlap(a.source, **a.narrowed),
    "groups": lambda a: groups(a.source, **a.narrowed),
    "collectives": lambda a: collectives(a.source, **a.narrowed),
    "memory_timeline": _memory,
    "memory_peak": lambda a: memory_peak(a.source, **_host(a)),
    "roofline": lambda a: roofline(a.source, ceilings=a.ceilings, **a.narrowed),
    "recoverable": lambda a: recoverable(a.source, ceilings=a.ceilings, **a.narrowed),
    "coverage": lambda a: coverage(a.source, **a.narrowed),
}
"""Those of an analysis have its name."""
