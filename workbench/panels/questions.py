"""The frames that the explorer can show, by name, and how each is asked of a source and choice."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.analysis.breakdown import breakdown
from workbench.analysis.collectives import collectives
from workbench.analysis.compare import SCHEMA as COMPARED
from workbench.analysis.compare import compare
from workbench.analysis.counter_roofline import counter_roofline
from workbench.analysis.counters import counters
from workbench.analysis.coverage import coverage
from workbench.analysis.energy import energy
from workbench.analysis.groups import groups
from workbench.analysis.idle import idle, idle_causes
from workbench.analysis.kernels import kernels
from workbench.analysis.launches import launches
from workbench.analysis.leads import leads
from workbench.analysis.memory_peak import memory_peak
from workbench.analysis.memory_timeline import memory_timeline
from workbench.analysis.mfu import mfu
from workbench.analysis.modules import modules
from workbench.analysis.ops import ops
from workbench.analysis.overlap import exposed, overlap
from workbench.analysis.phases import phases
from workbench.analysis.queue import queue_depth
from workbench.analysis.recoverable import recoverable
from workbench.analysis.roofline import roofline
from workbench.analysis.steps import steps
from workbench.analysis.summary import summary
from workbench.analysis.trust import trust
from workbench.analysis.waterfall import waterfall_mean
from workbench.noting.frame import notes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workbench.panels.answers import Answers
    from workbench.trace.core import Job, Trace

MEMORY_POINTS = 800
"""Moments of each device that fill a picture; peaks stay exact."""
Options = dict[str, Any]


def _nothing(_: Answers) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Question:
    """A function of a source, and the options that a choice gives it: those that it takes."""

    ask: Callable[..., pl.DataFrame]
    more: Callable[[Answers], Mapping[str, Any]] = _nothing
    """Options besides those that every choice gives; they go before."""
    own: str = ""
    """What is chosen in its table, which then doesn't narrow it: see `Choice.narrowing`."""
    whole: bool = False
    """Whether it is of the whole recording, whatever is chosen."""

    def __call__(self, answers: Answers) -> pl.DataFrame:
        """Ask it."""
        return self.ask(answers.source, **self.options(answers))

    @cached_property
    def taken(self) -> set[str]:
        """The options that the function takes."""
        return set(inspect.signature(self.ask).parameters)

    def options(self, answers: Answers) -> Options:
        """Return the options that it is asked with."""
        if self.whole:
            return dict(self.more(answers))
        given = answers.choice.narrowing(self.own, takes_range="within" in self.taken)
        return {k: v for k, v in (given | dict(self.more(answers))).items() if k in self.taken}

    def unheeded(self, answers: Answers) -> list[str]:
        """Name what is chosen that it can't be narrowed to."""
        return [] if self.whole else answers.choice.unheeded(self.taken, self.own)


@dataclass(frozen=True)
class Compared(Question):
    """Rows of one kind of `compare`, of the run to compare with and the one that is shown."""

    kind: str = ""

    def __call__(self, answers: Answers) -> pl.DataFrame:
        """Ask it; without a run to compare with there are no rows."""
        if answers.before is None:
            return pl.DataFrame(schema=COMPARED)
        if self.kind:
            return answers["compare"].filter(pl.col("kind") == self.kind)
        return self.ask(answers.before, answers.whole, **self.options(answers))


@dataclass(frozen=True)
class Selected(Question):
    """The summary of the part of the work that is chosen."""

    def __call__(self, answers: Answers) -> pl.DataFrame:
        """Ask it; without a choice there are no rows."""
        found = super().__call__(answers)
        return found if answers.choice.only else found.clear()


def problems(source: Trace | Job) -> pl.DataFrame:
    """Return the table of faults met while reading."""
    return source.problems


def _host(a: Answers) -> Mapping[str, Any]:
    """Return the window for memory: the allocator acts at host time, so steps are those there."""
    of_steps = a.choice.within is None and a.choice.window in ("steps", "steady")
    return {"window": "host"} if of_steps else {}


def _memory(a: Answers) -> Mapping[str, Any]:
    """Ask for memory by category where the recording names some, else by phase."""
    named = any(t.memory["category"].count() for t in a.source.ranks)
    by = "category" if named else "phase"
    return {"by": by, "points": MEMORY_POINTS, **_host(a)}


def _points(a: Answers) -> Mapping[str, Any]:
    grouped = {"by": a.choice.by, "convention": a.choice.convention}
    return {**grouped, "ceilings": a.beside.ceilings}


def _ceilings(a: Answers) -> Mapping[str, Any]:
    return {"ceilings": a.beside.ceilings}


def _utilised(a: Answers) -> Mapping[str, Any]:
    return {"work": a.beside.work, "ceilings": a.beside.ceilings}


def _powered(a: Answers) -> Mapping[str, Any]:
    return {"power": a.beside.power, "work": a.beside.work}


def _trusted(a: Answers) -> Mapping[str, Any]:
    """Ask with what profiling cost and how the recording went, where a run folder says so."""
    return {"overhead": a.beside.overhead, "remarks": a.beside.remarks}


def _everything(_: Answers) -> Mapping[str, Any]:
    return {"only": None}


def _steps(a: Answers) -> Mapping[str, Any]:
    """Compare the chosen steps of the chosen rank."""
    return {"step": a.choice.acting_step, "rank": a.choice.rank}


def _all_steps(_: Answers) -> Mapping[str, Any]:
    return {"step": None}


COMPARISONS = {f"compare_{kind}": kind for kind in ("part", "family", "kernel", "operator", "host")}
"""Frames of rows of `compare`, and the kind of each."""
QUESTIONS: dict[str, Question] = {
    "summary": Question(summary, _everything),
    "selected": Selected(summary),
    "breakdown": Question(breakdown),
    "leads": Question(leads, _ceilings),
    "mfu": Question(mfu, _utilised),
    "energy": Question(energy, _powered),
    "steps": Question(steps, _all_steps, own="step"),
    "waterfall_mean": Question(waterfall_mean),
    "kernels": Question(kernels, own="kernel"),
    "ops": Question(ops, own="operator"),
    "modules": Question(modules, own="module"),
    "phases": Question(phases),
    "idle": Question(idle, own="idle"),
    "idle_causes": Question(idle_causes),
    "launches": Question(launches),
    "queue_depth": Question(queue_depth),
    "overlap": Question(overlap),
    "groups": Question(groups),
    "collectives": Question(collectives, own="collectives"),
    "exposed": Question(exposed, own="exposed"),
    "memory_timeline": Question(memory_timeline, _memory),
    "memory_peak": Question(memory_peak, _host),
    "roofline": Question(roofline, _points, own="point"),
    "recoverable": Question(recoverable, _points, own="point"),
    "coverage": Question(coverage),
    "counters": Question(counters),
    "counter_roofline": Question(counter_roofline),
    "problems": Question(problems, whole=True),
    "trust": Question(trust, _trusted, whole=True),
    "notes": Question(notes, whole=True),
    "compare": Compared(compare, _steps, whole=True),
    **{name: Compared(compare, _steps, whole=True, kind=k) for name, k in COMPARISONS.items()},
}
"""Those of an analysis have its name, that of a table the table's."""
