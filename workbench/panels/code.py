"""The cell that reproduces what an explorer shows, in plain calls of `workbench`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from workbench.analysis.only import Only
from workbench.capture.overhead import Overhead
from workbench.capture.power import Power
from workbench.capture.remarks import Remarks
from workbench.costs.ceilings import Ceilings
from workbench.costs.step_work import StepWork
from workbench.panels import state as states
from workbench.panels.questions import COMPARISONS, QUESTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from workbench.panels.answers import Answers
    from workbench.trace.core import Job, Trace

_FOLDER = "run.ranks[0].meta.path.parent"
_SPELLED: dict[type, tuple[str, str]] = {
    Ceilings: ("from workbench.costs import run_roofs", "run_roofs.recorded(run)"),
    Overhead: ("from workbench.capture import overhead", f"overhead.recorded({_FOLDER})"),
    Power: ("from workbench.capture import power", f"power.recorded({_FOLDER})"),
    Remarks: ("from workbench.capture import remarks", f"remarks.recorded({_FOLDER})"),
    StepWork: ("from workbench.costs import step_work", "step_work.recorded(run)"),
}
"""Values that no literal spells: what to import, and what gives them."""
WIDTH = 96
COMPARE = "compare"


def cell(state: states.State, source: Trace | Job, answers: Answers, frames: Iterable[str]) -> str:
    """Return code whose variables are the named frames, and whose value is the explorer.

    A source that no path opens to is taken from the variable `run`, as a comment says.
    """
    asked = {name: _options(name, answers) for name in _complete(frames)}
    kinds = {type(v): v for options in asked.values() for v in options.values()}
    imports = [needed for kind, (needed, _) in _SPELLED.items() if kind in kinds]
    lines = ["import workbench as wb", *imports, "", *_opening(state, source)]
    if COMPARE in asked:
        lines.append(f"before = wb.open({state['before']!r})")
    of = "run" if state["rank"] is None else "ranked"
    lines += [_call(name, of, options) for name, options in asked.items()]
    return "\n".join([*lines, _explorer(state)]) + "\n"


def _complete(frames: Iterable[str]) -> list[str]:
    """Put the comparison before the frames that are rows of it."""
    names = list(frames)
    return [COMPARE, *names] if COMPARISONS.keys() & set(names) else names


def _opening(state: states.State, source: Trace | Job) -> Iterator[str]:
    if state["source"] is None:
        yield "# run: the Trace or Job that the explorer was given"
    else:
        yield f"run = wb.open({state['source']!r})"
    if state["rank"] is not None:
        at = [t.meta.rank for t in source.ranks].index(state["rank"])
        yield f"ranked = wb.Job((run.ranks[{at}],))  # rank {state['rank']} alone, in its own time"


def _options(name: str, answers: Answers) -> dict[str, Any]:
    """Return the options of a question that are not the function's defaults."""
    question = QUESTIONS[name]
    usual = inspect.signature(question.ask).parameters
    return {k: v for k, v in question.options(answers).items() if v is not usual[k].default
            and v != usual[k].default}  # fmt: skip


def _call(name: str, of: str, options: dict[str, Any]) -> str:
    if name in COMPARISONS:
        return f"{name} = {COMPARE}.filter(kind={COMPARISONS[name]!r})"
    question = QUESTIONS[name]
    if not question.ask.__module__.startswith(("workbench.analysis.", "workbench.noting.")):
        return f"{name} = {of}.{name}"
    given = [f"{k}={_spelled(v)}" for k, v in options.items()]
    sources = ["before", "run"] if name == COMPARE else [of]
    return _folded(f"{name} = wb.{question.ask.__name__}(", [*sources, *given], ")")


def _spelled(value: object) -> str:
    if isinstance(value, Only):
        return f"wb.{value!r}"
    return _SPELLED[type(value)][1] if type(value) in _SPELLED else repr(value)


def _explorer(state: states.State) -> str:
    told = [f"{key!r}: {value!r}" for key, value in states.told(state).items()]
    return _folded("wb.Explorer(run, state={", told, "})") if told else "wb.Explorer(run)"


def _folded(head: str, items: list[str], tail: str) -> str:
    """Write items on one line, or on one each where they would make it too long."""
    line = head + ", ".join(items) + tail
    if len(line) <= WIDTH:
        return line
    return head + "".join(f"\n    {item}," for item in items) + f"\n{tail}"
