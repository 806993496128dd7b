"""How the panes hang together: from an event on the timeline to rows of tables, and back."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.analysis import work
from workbench.analysis.roofline import GROUPS
from workbench.analysis.window import select
from workbench.errors import unknown_name
from workbench.panels.details import find
from workbench.panels.table import NO_ROW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from workbench.analysis.window import Selection
    from workbench.panels.answers import Answers
    from workbench.trace.core import Trace
    from workbench.views.timeline import Timeline

_KEYS = {"kernels": ("rank", "device", "kind", "name"), "ops": ("rank", "name"),
         "steps": ("rank", "device", "step")}  # fmt: skip


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


def rows(answers: Answers, selected: Mapping[str, Any]) -> dict[str, int]:
    """Return, for each table, the row that the selected event belongs to; -1 where it has none."""
    found = find(answers.source, selected)
    if found is None:
        return dict.fromkeys(_KEYS, NO_ROW)
    trace, row = found
    row = row | {"rank": trace.meta.rank, "device": row.get("device")}
    wanted: dict[str, Mapping[str, Any] | None] = dict.fromkeys(_KEYS)
    if selected["table"] == "activities":
        wanted["kernels"] = row
        op = row["op"]
        wanted["ops"] = None if op is None else row | {"name": trace.ops["name"][op]}
    elif selected["table"] in ("ops", "steps"):
        wanted[selected["table"]] = row
    return {table: _row_of(answers[table], table, keys) for table, keys in wanted.items()}


def _row_of(frame: pl.DataFrame, table: str, keys: Mapping[str, Any] | None) -> int:
    if keys is None:
        return NO_ROW
    same = [pl.col(k).cast(pl.String).eq_missing(_text(keys[k])) for k in _KEYS[table]]
    hits = frame.with_row_index("row").filter(same)["row"]
    return int(hits[0]) if len(hits) else NO_ROW


def _text(value: Any) -> pl.Expr:
    return pl.lit(None if value is None else str(value), pl.String)


def longest(answers: Answers, table: str, row: int) -> dict[str, Any]:
    """Return the longest event that a row of `kernels` or `ops` stands for, as `selected` has it.

    Of those in the selected range, when there is one and it holds any.
    """
    keys = answers[table].row(row, named=True)
    trace = next(t for t in answers.source.ranks if t.meta.rank == keys["rank"])
    source = "activities" if table == "kernels" else "ops"
    same = pl.col("name").cast(pl.String) == keys["name"]
    if table == "kernels":
        same &= pl.col("device").eq_missing(pl.lit(keys["device"], pl.Int32))
        same &= pl.col("kind").cast(pl.String) == keys["kind"]
    events = trace.tables[source].filter(same)
    events = _inside(answers, trace, events)
    best = events.sort("dur_ns", descending=True)["id"]
    return {"table": source, "rank": trace.meta.rank, "id": int(best[0])} if len(best) else {}


def _inside(answers: Answers, trace: Trace, events: pl.DataFrame) -> pl.DataFrame:
    within = answers.choice.within
    if within is None:
        return events
    shift = trace.meta.origin_ns - answers.source.origin_ns
    start = pl.col("start_ns") + shift
    touching = events.filter((start < within[1]) & (start + pl.col("dur_ns") > within[0]))
    return touching if touching.height else events


def step_window(answers: Answers, row: int) -> list[int]:
    """Return begin and end of a row of `steps`, in the source's time."""
    start, length = answers["steps"].select("start_ns", "dur_ns").row(row)
    return [start, start + length]


def gap(answers: Answers, row: int) -> tuple[list[int], dict[str, Any]]:
    """Return what shows a row of `idle`: the gap with its neighbours, and what ended it.

    The first is a window in the source's time, the second as a timeline's `selected` has it.
    """
    rank, start, length, ended_by = (
        answers["idle"].select("rank", "start_ns", "dur_ns", "activity").row(row)
    )
    window = [max(0, start - length // 2), start + length + length // 2]
    known = ended_by is not None
    return window, {"table": "activities", "rank": rank, "id": ended_by} if known else {}


def longest_of_point(answers: Answers, table: str, row: int) -> dict[str, Any]:
    """Return the longest activity that a row of `roofline` stands for, as `selected` has it."""
    keys = answers[table].row(row, named=True)
    found = {"table": "activities", "rank": keys["rank"]}
    options = answers.narrowed | {"device": keys["device"]}
    for chosen in select(answers.source, rank=keys["rank"], **options):
        ran = work.owned(chosen, answers.choice.convention)
        best = _of_point(answers, chosen, ran, keys).sort("dur_ns", descending=True)["id"]
        if len(best):
            return found | {"id": int(best[0])}
    return {}


def _of_point(
    answers: Answers, chosen: Selection, ran: pl.DataFrame, keys: Mapping[str, Any]
) -> pl.DataFrame:
    """Keep the activities of an operator with its shapes, or of the calls of a group."""
    if answers.choice.by == "operator":
        same = [pl.col(k).eq_missing(pl.lit(keys[k])) for k in ("operator", "shapes")]
        return work.labelled(ran).filter(same)
    calls = work.calls(ran, "roofs change no group", is_host=chosen.is_host)
    calls = calls.with_columns(everything=pl.lit("all"))
    group = pl.col(GROUPS[answers.choice.by]).cast(pl.String)
    mine = calls.filter(group.eq_missing(_text(keys["group"])))
    owned = pl.col("owner").is_in(mine["owner"].drop_nulls().implode())
    alone = mine.filter(pl.col("owner").is_null())["activity_kind"].cast(pl.String)
    alike = pl.col("kind").cast(pl.String).is_in(alone.implode())
    return ran.filter(owned.fill_null(value=False) | (pl.col("owner").is_null() & alike))


def show_note(timeline: Timeline, answers: Answers, row: int) -> None:
    """Show on a timeline what a note is about; of a name, the longest event in the window."""
    note = answers["notes"].row(row, named=True)
    table = {"kernel": "kernels", "operator": "ops"}.get(note["kind"])
    if table is None:
        timeline.noted.bring(note["id"])
        return
    name = note["target"].removeprefix(f"every {note['kind']} ")
    rows = answers[table].with_row_index("row").filter(pl.col("name").cast(pl.String) == name)
    if rows.height:
        timeline.selected = longest(answers, table, int(rows["row"][0]))


def show_row(timeline: Timeline, answers: Answers, table: str, row: int) -> None:
    """Show on a timeline what a row of a table stands for: a step, a gap, or the longest event."""
    if table == "steps":
        timeline.window = step_window(answers, row)
    elif table == "idle":
        timeline.window, timeline.selected = gap(answers, row)
    elif table == "notes":
        show_note(timeline, answers, row)
    elif table in {"roofline", "recoverable"}:
        timeline.selected = longest_of_point(answers, table, row)
    else:
        timeline.selected = longest(answers, table, row)
