"""The frames that the explorer can show, by name, and how each is asked of a source and choice."""

from __future__ import annotations

from dataclasses import dataclass
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
from workbench.analysis.trust import trust
from workbench.analysis.waterfall import waterfall_mean
from workbench.capture import overhead
from workbench.noting.frame import notes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from workbench.panels.answers import Answers
    from workbench.trace.core import Job, Trace

MEMORY_POINTS = 800
"""Moments of each device that fill a picture; peaks stay exact."""


@dataclass(frozen=True)
class Question:
    """A function of a source, and the options that a choice gives it."""

    ask: Callable[..., pl.DataFrame]
    options: Callable[[Answers], Mapping[str, Any]]

    def __call__(self, answers: Answers) -> pl.DataFrame:
        """Ask it."""
        return self.ask(answers.source, **self.options(answers))


def problems(source: Trace | Job) -> pl.DataFrame:
    """Return the table of faults met while reading."""
    return source.problems


def _narrowed(a: Answers) -> Mapping[str, Any]:
    return a.narrowed


def _whole(_: Answers) -> Mapping[str, Any]:
    return {}


def _waterfall(a: Answers) -> Mapping[str, Any]:
    """Ask for the mean step; it is of complete steps, whatever the window."""
    step = None if a.choice.within else a.unranged["step"]
    return {"step": step, "within": a.choice.within}


def _host(a: Answers) -> Mapping[str, Any]:
    """Return the window for memory: the allocator acts at host time, so steps are those there."""
    of_steps = a.narrowed["window"] in ("steps", "steady")
    return a.narrowed | ({"window": "host"} if of_steps else {})


def _memory(a: Answers) -> Mapping[str, Any]:
    """Ask for memory by category where the recording names some, else by phase."""
    named = any(t.memory["category"].count() for t in a.source.ranks)
    by = "category" if named else "phase"
    return {"by": by, "points": MEMORY_POINTS, **_host(a)}


def _roofline(a: Answers) -> Mapping[str, Any]:
    grouped = {"by": a.choice.by, "convention": a.choice.convention}
    return {**grouped, "ceilings": a.ceilings, **a.narrowed}


def _trust(a: Answers) -> Mapping[str, Any]:
    """Ask with what profiling cost, where the run folder has measured it."""
    return {"overhead": overhead.recorded(a.source.ranks[0].meta.path.parent)}


QUESTIONS: dict[str, Callable[[Answers], pl.DataFrame]] = {
    "summary": Question(summary, _narrowed),
    "breakdown": Question(breakdown, _narrowed),
    "steps": Question(steps, _whole),
    "waterfall_mean": Question(waterfall_mean, _waterfall),
    "kernels": Question(kernels, _narrowed),
    "ops": Question(ops, _narrowed),
    "modules": Question(modules, _narrowed),
    "phases": Question(phases, _narrowed),
    "idle": Question(idle, _narrowed),
    "idle_causes": Question(idle_causes, _narrowed),
    "launches": Question(launches, _narrowed),
    "queue_depth": Question(queue_depth, _narrowed),
    "overlap": Question(overlap, _narrowed),
    "groups": Question(groups, _narrowed),
    "collectives": Question(collectives, _narrowed),
    "memory_timeline": Question(memory_timeline, _memory),
    "memory_peak": Question(memory_peak, _host),
    "roofline": Question(roofline, _roofline),
    "recoverable": Question(recoverable, _roofline),
    "coverage": Question(coverage, _narrowed),
    "problems": Question(problems, _whole),
    "trust": Question(trust, _trust),
    "notes": Question(notes, _whole),
}
"""Those of an analysis have its name, that of a table the table's."""
REGROUPED = ("roofline", "recoverable")
"""Those that `Choice.by` and `Choice.convention` change."""
