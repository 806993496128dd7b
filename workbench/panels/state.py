"""The state of an explorer as a plain dict that JSON can hold: its keys, and what they may hold."""

from __future__ import annotations

from dataclasses import fields
from types import NoneType
from typing import TYPE_CHECKING, Any

from workbench.analysis.only import POINTS as POINT_GROUPS
from workbench.analysis.only import Only
from workbench.costs.cost import CONVENTIONS
from workbench.errors import UsageError, unknown_name
from workbench.panels.answers import Answers
from workbench.panels.choice import STRETCHES, Choice
from workbench.panels.controls import (
    POINTS,
    WINDOWS,
    offered_devices,
    offered_ranks,
    offered_steps,
)
from workbench.panels.details import find
from workbench.panels.parts import Rows
from workbench.panels.tabs import TABS, there

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workbench.panels.explorer import Explorer
    from workbench.panels.opened import Opened
    from workbench.trace.core import Job, Trace

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

    `source` is a path, null for what the explorer was given as an object, and so is `before`, the
    run to compare with, null for none; `rank`, `device`, `step`: null is all, a range of steps is
    [first, last]; `only`: the part of the work that is chosen, as arguments of `wb.Only`;
    `selection`, `view`: [start, end] in ns of the chosen ranks' time, null is none and the whole;
    `stretch`: the table in which the selection was chosen as a row, or null; `event`: table, rank,
    id, or null; `search`, `filter`: those of the timeline; `rows`: table to the number of its
    marked row; `sort`: table to {column, down}.
    """
    return {
        "source": None,
        "before": None,
        "rank": None,
        "device": None,
        "window": "steps",
        "step": None,
        "only": {},
        "selection": None,
        "stretch": None,
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


def read(explorer: Explorer) -> State:
    """Return the state of an explorer; the default without a source."""
    shown, timeline = explorer.opened, explorer.timeline
    before = None if explorer.before is None else explorer.before.path
    found = default() | {"source": None if shown is None else shown.path, "before": before}
    if timeline is None:
        return found
    choice, panes = explorer.choice, explorer.panes
    step = choice.step
    return found | {
        "rank": choice.rank,
        "device": choice.device,
        "window": choice.window,
        "step": step[0] if step is not None and step[0] == step[1] else step and list(step),
        "only": {k: list(v) if k == "point" else v for k, v in choice.only.given().items()},
        "selection": list(timeline.selection) or None,
        "stretch": choice.stretch or None,
        "view": list(timeline.window) if timeline.window != timeline.extent else None,
        "event": dict(timeline.selected) or None,
        "search": timeline.search,
        "filter": dict(timeline.filter),
        "rows": panes.rows,
        "tab": panes.tab,
        "sort": panes.sort,
        "roofline_by": choice.by,
        "convention": choice.convention,
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


def answers(state: State, shown: Opened, before: Opened | None) -> Answers:
    """Return what is to be shown of a source under a state.

    Raises
    ------
    UsageError
        The state speaks of what the source does not have: a rank, step, event or row.
    """
    _check_offered(state, shown.source)
    found = Answers(shown.source, choice(state), shown.beside)
    found = found.against(None if before is None else before.source)
    if not there(state["tab"], found):
        raise _wrong("tab", "one that the source has something for", state["tab"])
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


def _check_offered(state: State, source: Trace | Job) -> None:
    """Raise UsageError for a rank, device, step or tab that a source does not have."""
    offers = {"rank": offered_ranks, "device": offered_devices, "step": offered_steps}
    for key, offer in offers.items():
        offered, value = offer(source), state[key]
        wanted = value if isinstance(value, (list, tuple)) else [value]
        if value is not None and not set(wanted) <= set(offered):
            known = ", ".join(map(str, offered)) or "none to choose from"
            raise _wrong(key, f"one of the source's ({known}) or None", value)


def choice(state: State) -> Choice:
    """Return what part of its source a state looks at."""
    step, selection = state["step"], state["selection"]
    return Choice(
        rank=state["rank"],
        device=state["device"],
        window=state["window"],
        step=(step, step) if isinstance(step, int) else step and (step[0], step[1]),
        within=None if selection is None else (selection[0], selection[1]),
        stretch=(state["stretch"] or "") if selection is not None else "",
        only=Only(**state["only"]),
        by=state["roofline_by"],
        convention=state["convention"],
    )


def _wrong(key: str, wanted: str, value: object) -> UsageError:
    return UsageError(f"The state's {key} must be {wanted}, not {value!r}.")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_steps(value: object) -> bool:
    return _is_whole(value) or _is_stretch(value)


def _is_only(value: object) -> bool:
    if not isinstance(value, dict) or not set(value) <= {f.name for f in fields(Only)}:
        return False
    texts = all(
        isinstance(value.get(k, ""), (str, NoneType)) for k in ("kernel", "operator", "module")
    )
    point = value.get("point")
    is_point = point is None or (
        isinstance(point, (list, tuple))
        and len(point) == len(("by", "name", "shapes"))
        and all(isinstance(x, (str, NoneType)) for x in point)
        and point[0] in POINT_GROUPS
    )
    return texts and is_point and (value.get("rank") is None or _is_whole(value["rank"]))


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
    "before": (lambda value: isinstance(value, str), "a path or None"),
    "rank": (_is_whole, "a whole number or None"),
    "device": (_is_whole, "a whole number or None"),
    "step": (_are_steps, "a whole number, [first, last] or None"),
    "only": (_is_only, 'a dict of arguments of wb.Only, like {"kernel": "gemm"}'),
    "stretch": (lambda value: value in STRETCHES, f"one of {', '.join(STRETCHES)} or None"),
    "selection": _STRETCH,
    "view": _STRETCH,
    "event": (_is_event, 'like {"table": "activities", "rank": 0, "id": 7} or None'),
    "search": (lambda value: isinstance(value, str), "a text, or a pattern as in /gemm|conv/"),
    "filter": (lambda value: isinstance(value, dict), "a dict, as a timeline's filter"),
    "rows": (_are_rows, f"numbers of rows by table ({', '.join(_TABLES)})"),
    "sort": (_is_sort, 'like {"kernels": {"column": "count", "down": True}}, of known columns'),
}
