"""How the panes hang together: from rows to what they choose and show, from events to rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.analysis import only
from workbench.analysis.only import Only
from workbench.analysis.window import select
from workbench.errors import unknown_name
from workbench.panels.choice import STRETCHES
from workbench.panels.details import find
from workbench.panels.table import NO_ROW
from workbench.views import chosen

if TYPE_CHECKING:
    from workbench.analysis.window import Range
    from workbench.panels.answers import Answers
    from workbench.panels.choice import Choice

NAMED = {
    "kernels": ("kernel", "name"),
    "ops": ("operator", "name"),
    "modules": ("module", "path"),
    "compare_kernel": ("kernel", "name"),
    "compare_operator": ("operator", "name"),
}
"""Tables whose rows choose a part of the work by name: what kind, and the column of the name."""
POINTS = ("roofline", "recoverable")
CLICKABLE = (*NAMED, *POINTS, *STRETCHES, "steps", "leads", "notes")
"""Tables whose rows stand for something on the timeline."""
_EVENTS = {"kernels": ("rank", "device", "kind", "name"), "ops": ("rank", "name"),
           "steps": ("rank", "device", "step")}  # fmt: skip
AROUND = 2
"""A stretch is shown with half of its length before and after."""


class Act(NamedTuple):
    """What a click on a row does."""

    only: Mapping[str, Any] = {}
    """The part of the work that it chooses."""
    within: Range | None = None
    """The stretch of time that it chooses."""
    step: int | None = None
    """The step that it chooses."""
    window: list[int] | None = None
    """Where the timeline goes."""
    event: Mapping[str, Any] = {}
    """What is marked there, as a timeline's `selected` has it; {} leaves it."""
    note: str = ""
    """The note that the timeline brings in sight."""


@contextmanager
def silent(panel: Any) -> Iterator[None]:
    """Set controls without the panel acting on it."""
    before, panel._quiet = panel._quiet, True  # noqa: SLF001 - the panels' own agreement
    try:
        yield
    finally:
        panel._quiet = before  # noqa: SLF001


def set_option(control: Any, name: str, value: Any) -> None:
    """Set a dropdown; a value that is not offered raises with the nearest."""
    values = [o[1] if isinstance(o, tuple) else o for o in control.options]
    if value not in values:
        raise unknown_name(name, str(value), [str(v) for v in values])
    control.value = value


# ---- from a row ---------------------------------------------------------------------------------


def act(answers: Answers, table: str, row: int) -> Act:
    """Return what a click on a row of a table does; nothing where the row has no place in time."""
    keys = answers[table].row(row, named=True)
    if table in NAMED or table in POINTS:
        return _part(answers, table, keys)
    if table == "notes":
        return _note(answers, keys)
    start, length = keys["start_ns"], keys["dur_ns"]
    timed = start is not None and length is not None
    if table == "steps":
        step = keys["step"] if keys["complete"] else None
        return Act(step=step, window=[start, start + length] if timed else None)
    if not timed:
        return Act()
    event = _event(answers, table, keys)
    if table == "leads":
        return Act(window=around(start, length), event=event)
    return Act(within=(start, start + length), window=around(start, length), event=event)


def _part(answers: Answers, table: str, keys: Mapping[str, Any]) -> Act:
    """Choose the part of the work that a row names, on its rank, and show its longest activity."""
    several = len(answers.source.ranks) > 1
    chosen: dict[str, Any] = {"rank": keys["rank"] if several else None}
    if table in NAMED:
        kind, column = NAMED[table]
        chosen[kind] = keys[column] or ""
    else:
        by = answers.choice.by
        name = keys["operator" if by == "operator" else "group"]
        chosen["point"] = (by, name, keys.get("shapes"))
    device = keys.get("device") if table == "kernels" or table in POINTS else None
    return Act(only=chosen, event=longest(answers, Only(**chosen), device))


def _note(answers: Answers, keys: Mapping[str, Any]) -> Act:
    """Show the longest activity of a name that is noted on; other notes the timeline brings."""
    if keys["kind"] not in ("kernel", "operator"):
        return Act(note=keys["id"])
    name = keys["target"].removeprefix(f"every {keys['kind']} ")
    return Act(event=longest(answers, Only(**{keys["kind"]: name})))


def around(start: int, length: int) -> list[int]:
    """Return a window in which a stretch is seen with what is beside it."""
    margin = max(length // AROUND, 1)
    return [max(0, start - margin), start + length + margin]


def _event(answers: Answers, table: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the activity that a row tells; that of a collective is found by its time."""
    number = keys.get("activity")
    if table == "collectives":
        (trace,) = (t for t in answers.source.ranks if t.meta.rank == keys["rank"])
        start = keys["start_ns"] - (trace.meta.origin_ns - answers.source.origin_ns)
        same = trace.collectives.filter(
            (pl.col("start_ns") == start) & (pl.col("dur_ns") == keys["dur_ns"])
        )
        number = same["activity"].drop_nulls().first()
    if number is None:
        return {}
    return {"table": "activities", "rank": keys["rank"], "id": int(number)}


def longest(answers: Answers, part: Only, device: int | None = None) -> dict[str, Any]:
    """Return the longest activity of a part of the work, as a timeline's `selected` has it.

    Of those that start in what is looked at; {} without any.
    """
    choice = answers.choice
    options = choice.narrowing("", takes_range=True) | {"device": device or choice.device}
    options.pop("only")
    best: tuple[int, dict[str, Any]] = (-1, {})
    for there in only.narrowed(select(answers.source, **options), part):
        counted = there.counted()
        top = (counted if counted.height else there.activities).top_k(1, by="dur_ns")
        for number, length in top.select("id", "dur_ns").iter_rows():
            event = {"table": "activities", "rank": there.rank, "id": int(number)}
            best = max(best, (length, event), key=lambda found: found[0])
    return best[1]


def chosen_in(table: str) -> str:
    """Return what is chosen by the rows of a table: a part of the work, within, step or ""."""
    if table in NAMED:
        return NAMED[table][0]
    if table in POINTS:
        return "point"
    return "within" if table in STRETCHES else {"steps": "step"}.get(table, "")


# ---- to rows ------------------------------------------------------------------------------------


def row_of(answers: Answers, table: str, selected: Mapping[str, Any]) -> int | None:
    """Return the row of a table that is chosen, or that the selected event belongs to; else -1.

    None for a table whose rows are neither.
    """
    if table not in (*NAMED, *POINTS, *STRETCHES, "steps"):
        return None
    mine = _chosen(answers.choice, table)
    if mine is None:
        mine = _of_event(answers, table, selected)
    if mine is None:
        return NO_ROW
    frame = answers[table]
    same = [_text(pl.col(k)).eq_missing(pl.lit(_plain(v), pl.String)) for k, v in mine.items()]
    hits = frame.with_row_index("row").filter(same)["row"]
    return int(hits[0]) if len(hits) else NO_ROW


def _chosen(choice: Choice, table: str) -> dict[str, Any] | None:
    """Return what the row of a table holds that is chosen."""
    rank = {} if choice.only.rank is None else {"rank": choice.only.rank}
    if table in NAMED and getattr(choice.only, NAMED[table][0]) is not None:
        kind, column = NAMED[table]
        return {column: getattr(choice.only, kind) or None} | rank
    if table in POINTS and choice.only.point is not None:
        by, name, shapes = choice.only.point
        named = {"operator": name, "shapes": shapes} if by == "operator" else {"group": name}
        return named | rank
    if table == choice.stretch and choice.within is not None:
        start, end = choice.within
        return {"start_ns": start, "dur_ns": end - start}
    if table == "steps" and choice.acting_step is not None:
        return {"step": choice.acting_step[0]}
    return None


def _of_event(answers: Answers, table: str, selected: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the row of a table holds that an event belongs to."""
    found = find(answers.source, selected) if table in _EVENTS else None
    if found is None:
        return None
    trace, row = found
    row = row | {"rank": trace.meta.rank, "device": row.get("device")}
    if table == "ops" and selected["table"] == "activities":
        if row["op"] is None:
            return None
        row["name"] = trace.ops["name"][row["op"]]
    elif selected["table"] != {"kernels": "activities"}.get(table, table):
        return None
    return {k: row[k] for k in _EVENTS[table]}


def _text(column: pl.Expr) -> pl.Expr:
    return column.cast(pl.String)


def _plain(value: Any) -> str | None:
    return None if value is None else str(value)


# ---- to the timeline ----------------------------------------------------------------------------


def emphasis(answers: Answers) -> tuple[str, list[chosen.Rows]]:
    """Return in words what part of the work is chosen, and its rows; ("", []) without one."""
    part = answers.choice.only
    if not part:
        return "", []
    rows = []
    for trace in answers.source.ranks:
        rank = trace.meta.rank
        mine = only.mask(trace, part).to_numpy()
        rows.append(chosen.Rows("activities", rank, mine))
        if part.operator is not None and part.rank in (None, rank):
            named = trace.ops["name"].cast(pl.String) == part.operator
            rows.append(chosen.Rows("ops", rank, named.fill_null(value=False).to_numpy()))
    text = ", ".join(c.text for c in answers.choice.chips() if c.key not in ("within", "step"))
    return text, rows
