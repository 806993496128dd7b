"""The state of an explorer as a plain dict that JSON can hold: its keys, and what they may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.costs.cost import CONVENTIONS
from workbench.errors import UsageError, WorkbenchError, unknown_name
from workbench.panels.answers import Answers, Choice
from workbench.panels.controls import POINTS, WINDOWS, offered_ranks, offered_steps
from workbench.panels.details import find
from workbench.panels.parts import Rows
from workbench.panels.tabs import TABS
from workbench.trace.core import Job, Trace
from workbench.trace.open import open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from workbench.costs.ceilings import Ceilings

State = dict[str, Any]
_NAMES = {
    "window": [value for _, value in WINDOWS],
    "tab": list(TABS),
    "roofline_by": [value for _, value in POINTS],
    "convention": list(CONVENTIONS),
}
_TABLES = {
    part.frame: [c.name for c in part.columns]
    for tab in TABS.values()
    for part in tab
    if isinstance(part, Rows)
}


def default() -> State:
    """Return the state that a source is opened with, a new dict each time.

    `source` is a path, null for what the explorer was given as an object; `rank`, `step`: null is
    all; `selection`, `view`: [start, end] in ns of the chosen ranks' time, null is none and the
    whole; `event`: table, rank, id, or null; `search`, `filter`: those of the timeline; `rows`:
    table to the number of its marked row; `sort`: table to {column, down}.
    """
    return {
        "source": None,
        "rank": None,
        "window": "steps",
        "step": None,
        "selection": None,
        "view": None,
        "event": None,
        "search": "",
        "filter": {},
        "rows": {},
        "tab": next(iter(TABS)),
        "sort": {},
        "roofline_by": "operator",
        "convention": "default",
    }


def told(state: State) -> State:
    """Return what of a state is not default, without the source."""
    usual = default() | {"source": state["source"]}
    return {key: value for key, value in state.items() if value != usual[key]}


def checked(given: Mapping[str, Any]) -> State:
    """Return a whole state, keys that are left out as in `default`.

    Raises
    ------
    UsageError
        A key that is not one of a state's, or a value of another form than its key has.
    """
    if not isinstance(given, dict):
        raise UsageError(f"A state is a dict with keys of {', '.join(default())}; not {given!r}.")
    for key, value in given.items():
        if key not in default():
            raise unknown_name("part of the state", str(key), default())
        if key in _NAMES and value not in _NAMES[key]:
            raise unknown_name(key, str(value), _NAMES[key])
        if key in _FORMS and value != default()[key]:
            is_right, wanted = _FORMS[key]
            if not is_right(value):
                raise _wrong(key, wanted, value)
    return default() | given


def answers(state: State, source: Trace | Job, roofs: Ceilings | None) -> Answers:
    """Return what is to be shown of a source under a state.

    Raises
    ------
    UsageError
        The state speaks of what the source does not have: a rank, step, event or row.
    """
    for key, offered in (("rank", offered_ranks(source)), ("step", offered_steps(source))):
        if state[key] is not None and state[key] not in offered:
            known = ", ".join(map(str, offered)) or "none to choose from"
            raise _wrong(key, f"one of the source's ({known}) or None", state[key])
    found = Answers(source, choice(state), roofs)
    if state["event"] is not None:
        ranks = [t.meta.rank for t in found.source.ranks]
        if state["event"]["rank"] not in ranks:
            raise _wrong("event", f"of rank {' or '.join(map(str, ranks))}", state["event"])
        find(found.source, state["event"])
    for table, row in state["rows"].items():
        if row >= found[table].height:
            raise _wrong(
                "rows", f"rows that exist ({table} has {found[table].height})", {table: row}
            )
    return found


def choice(state: State) -> Choice:
    """Return what part of its source a state looks at."""
    step, selection = state["step"], state["selection"]
    return Choice(
        rank=state["rank"],
        window=state["window"],
        step=None if step is None else (step, step),
        within=None if selection is None else (selection[0], selection[1]),
        by=state["roofline_by"],
        convention=state["convention"],
    )


def path_of(given: str | Path | Trace | Job) -> str | None:
    """Return the path that opens to the same source; None for an object that no path opens to."""
    if not isinstance(given, (Trace, Job)):
        return str(given)
    first = given.ranks[0].meta.path
    path = first.parent if isinstance(given, Job) else first
    return str(path) if _opens_to(path, given) else None


def _opens_to(path: Path, given: Trace | Job) -> bool:
    try:
        opened = open_source(path) if path.exists() else None
    except (WorkbenchError, OSError):
        return False
    return type(opened) is type(given) and list(_signs(opened)) == list(_signs(given))


def _signs(source: Trace | Job | None) -> Iterator[tuple[Any, ...]]:
    """Yield what tells a trace from another of the same files: what it is of, and how much."""
    for trace in source.ranks if source is not None else ():
        yield trace.meta, {name: table.height for name, table in trace.tables.items()}


def _wrong(key: str, wanted: str, value: object) -> UsageError:
    return UsageError(f"The state's {key} must be {wanted}, not {value!r}.")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_stretch(value: object) -> bool:
    is_pair = isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_whole, value))  # noqa: PLR2004
    return is_pair and value[0] <= value[1]  # type: ignore[index]


def _is_event(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"table", "rank", "id"}:
        return False
    known_rank = value["rank"] is None or _is_whole(value["rank"])
    return isinstance(value["table"], str) and _is_whole(value["id"]) and known_rank


def _are_rows(value: object) -> bool:
    return isinstance(value, dict) and all(
        table in _TABLES and _is_whole(row) and row >= 0 for table, row in value.items()
    )


def _is_sort(value: object) -> bool:
    return isinstance(value, dict) and all(
        table in _TABLES
        and isinstance(order, dict)
        and set(order) == {"column", "down"}
        and order["column"] in _TABLES[table]
        and isinstance(order["down"], bool)
        for table, order in value.items()
    )


_STRETCH = (_is_stretch, "[start, end] in whole ns, in order, or None")
_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "source": (lambda value: isinstance(value, str), "a path or None"),
    "rank": (_is_whole, "a whole number or None"),
    "step": (_is_whole, "a whole number or None"),
    "selection": _STRETCH,
    "view": _STRETCH,
    "event": (_is_event, 'like {"table": "activities", "rank": 0, "id": 7} or None'),
    "search": (lambda value: isinstance(value, str), "a text, or a pattern as in /gemm|conv/"),
    "filter": (lambda value: isinstance(value, dict), "a dict, as a timeline's filter"),
    "rows": (_are_rows, f"numbers of rows by table ({', '.join(_TABLES)})"),
    "sort": (_is_sort, 'like {"kernels": {"column": "count", "down": True}}, of known columns'),
}
