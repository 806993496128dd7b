"""The cell that reproduces what an explorer shows, in plain calls of `workbench`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from workbench.capture.overhead import Overhead
from workbench.costs.ceilings import Ceilings
from workbench.panels import state as states
from workbench.panels.questions import QUESTIONS, Question

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from workbench.panels.answers import Answers
    from workbench.trace.core import Job, Trace

_SPELLED: dict[type, tuple[str, str]] = {
    Ceilings: ("from workbench.costs import run_roofs", "run_roofs.recorded(run)"),
    Overhead: (
        "from workbench.capture import overhead",
        "overhead.recorded(run.ranks[0].meta.path.parent)",
    ),
}
"""Values that no literal spells: what to import, and what gives them."""
WIDTH = 96


def cell(state: states.State, source: Trace | Job, answers: Answers, frames: Iterable[str]) -> str:
    """Return code whose variables are the named frames, and whose value is the explorer.

    A source that no path opens to is taken from the variable `run`, as a comment says.
    """
    asked = {name: _options(name, answers) for name in frames}
    kinds = {type(v): v for options in asked.values() for v in options.values()}
    imports = [needed for kind, (needed, _) in _SPELLED.items() if kind in kinds]
    lines = ["import workbench as wb", *imports, "", *_opening(state, source)]
    of = "run" if state["rank"] is None else "ranked"
    lines += [_call(name, of, options) for name, options in asked.items()]
    return "\n".join([*lines, _explorer(state)]) + "\n"


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
    assert isinstance(question, Question)
    usual = inspect.signature(question.ask).parameters
    return {k: v for k, v in question.options(answers).items() if v != usual[k].default}


def _call(name: str, of: str, options: dict[str, Any]) -> str:
    question = QUESTIONS[name]
    assert isinstance(question, Question)
    if not question.ask.__module__.startswith(("workbench.analysis.", "workbench.noting.")):
        return f"{name} = {of}.{name}"
    given = [f"{k}={_spelled(v)}" for k, v in options.items()]
    return _folded(f"{name} = wb.{name}(", [of, *given], ")")


def _spelled(value: object) -> str:
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
