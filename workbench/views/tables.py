"""Tables as HTML: units in the headings, bars behind shares, long names cut but whole on hover.

`html_table` writes any frame by a list of `Column`; `views.columns` has those of the analyses.
Names come from foreign files, so every text is escaped.
"""

from __future__ import annotations

import datetime as dt
import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench import units
from workbench.views import causes

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_NAME = 96
MOST_ROWS = 1_000
"""Rows that a table shows; the frame has all of them."""
UNKNOWN = "-"
PLAIN_DIGITS = (100, 1_000)
"""Below the first, three decimals; below the second, two; else one."""
TIME_UNITS = ((units.NS_PER_S, "s"), (units.NS_PER_MS, "ms"), (units.NS_PER_US, "us"))
BYTE_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: where its values come from, what they are, and what they mean."""

    name: str
    """Column of the frame."""
    heading: str
    kind: str = "text"
    """text, word (text on one line), long (text that may break anywhere), sentence (the same, never
    cut), cause (of idle time), count, number (with decimals), time (ns), share (0 to 1), bytes,
    rate (bytes a second), flag or place."""
    hint: str = ""
    """One sentence that the heading shows on hover."""
    spare: bool = False
    """Left out where no row has a value, and where the frame does not have it."""


def place(rank: int | None, device: int | None) -> str:
    """Name a (rank, device) in a few letters; a null device is host execution."""
    where = "CPU" if device is None else f"GPU {device}"
    return where if rank is None else f"rank {rank} · {where}"


def html_table(
    frame: pl.DataFrame,
    columns: Sequence[Column],
    *,
    selected: int | None = None,
    nothing: str = "No rows in this window.",
) -> str:
    """Write a frame as an HTML table of at most `MOST_ROWS` rows, in the frame's order.

    Each row carries its number in the frame as `data-row`, each cell its value as `data-v`, so that
    a page can select and sort; `selected` is the row to highlight. Numbers of a column share one
    unit, which stands in the heading. `place` is left out when all rows have the same one, and a
    spare column when it has no value.
    """
    if frame.is_empty():
        return f'<p class="wb-nothing">{html.escape(nothing)}</p>'
    shown = frame.head(MOST_ROWS)
    scaled = [_scaled(frame, c) for c in columns if _is_told(frame, c)]
    head = "".join(_heading(s) for s in scaled)
    rows = "".join(
        f'<tr data-row="{i}"{_MARK if i == selected else ""}>'
        + "".join(_cell(s, row) for s in scaled)
        + "</tr>"
        for i, row in enumerate(shown.iter_rows(named=True))
    )
    table = f'<table class="wb-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    left_out = frame.height - shown.height
    return table + (f'<p class="wb-nothing">{left_out:,} more rows.</p>' if left_out else "")


TEXTS = ("text", "word", "long", "sentence", "cause", "flag")
_MARK = ' class="wb-selected" aria-selected="true"'
_LOOKS = {
    "word": "text wb-word",
    "cause": "text wb-word",
    "long": "text wb-long",
    "sentence": "text wb-long",
}
"""Kinds that look like text, and how they differ from it."""


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A column with the unit that its numbers are written in."""

    column: Column
    scale: float = 1
    unit: str = ""
    decimals: int = 0


def _is_told(frame: pl.DataFrame, column: Column) -> bool:
    if column.kind != "place":
        if not column.spare:
            return True
        return column.name in frame.columns and frame[column.name].count() > 0
    places = [c for c in ("rank", "device") if c in frame.columns]
    return frame.select(places).n_unique() > 1


def _scaled(frame: pl.DataFrame, column: Column) -> _Scaled:
    """Choose the largest unit in which the largest value is at least ten."""
    if column.kind not in ("number", "time", "bytes", "rate"):
        return _Scaled(column)
    largest = float(frame[column.name].max() or 0)  # type: ignore[arg-type]
    if column.kind == "number":
        return _Scaled(column, decimals=_decimals(largest))
    ladder = TIME_UNITS if column.kind == "time" else BYTE_UNITS
    base = "ns" if column.kind == "time" else "B"
    scale, unit = next(((s, u) for s, u in ladder if largest >= 10 * s), (1, base))
    decimals = _decimals(largest / scale)
    is_whole = scale == 1 and frame.schema[column.name].is_integer()
    suffix = "/s" if column.kind == "rate" else ""
    return _Scaled(column, scale, unit + suffix, 0 if is_whole else decimals)


def _decimals(largest: float) -> int:
    return 3 - sum(largest >= limit for limit in PLAIN_DIGITS)


def _heading(scaled: _Scaled) -> str:
    column = scaled.column
    unit = f' <span class="wb-unit">{scaled.unit}</span>' if scaled.unit else ""
    hint = f' title="{html.escape(column.hint)}"' if column.hint else ""
    name = f'data-name="{html.escape(column.name)}" aria-sort="none" tabindex="0"'
    look = _LOOKS.get(column.kind, column.kind)
    return f'<th class="wb-{look}" {name}{hint}>{html.escape(column.heading)}{unit}</th>'


def _cell(scaled: _Scaled, row: dict[str, Any]) -> str:
    column = scaled.column
    if column.kind == "place":
        text = place(row.get("rank"), row.get("device"))
        return f'<td class="wb-place" data-v="{html.escape(text)}">{html.escape(text)}</td>'
    value = row[column.name]
    if value is None:
        look = _LOOKS.get(column.kind, column.kind)
        return f'<td class="wb-{look} wb-null" data-v="">{UNKNOWN}</td>'
    if column.kind in TEXTS:
        return _text_cell(column.kind, value)
    if column.kind == "share":
        return _share_cell(value)
    text = f"{value / scaled.scale:,.{scaled.decimals}f}"
    return f'<td class="wb-{column.kind}" data-v="{value}">{text}</td>'


def _text_cell(kind: str, value: object) -> str:
    text = ("yes" if value else "no") if kind == "flag" else str(value)
    if isinstance(value, dt.datetime):
        text = f"{value:%Y-%m-%d %H:%M}"
    text = causes.label(text) if kind == "cause" else text
    whole = html.escape(text)
    shown = whole if kind == "sentence" else html.escape(cut(text))
    title = f' title="{whole}"' if shown != whole else ""
    look = _LOOKS.get(kind, kind)
    return f'<td class="wb-{look}" data-v="{whole}"{title}>{shown}</td>'


def _share_cell(value: float) -> str:
    percent = 100 * value
    bar = f"--wb-bar:{min(max(percent, 0), 100):.2f}%"
    return f'<td class="wb-share" data-v="{value}" style="{bar}">{percent:.1f} %</td>'


def cut(text: str) -> str:
    """Shorten a long name in its middle: its end often tells two kernels apart."""
    if len(text) <= LONGEST_NAME:
        return text
    head = LONGEST_NAME * 2 // 3
    return f"{text[:head]}…{text[len(text) - (LONGEST_NAME - head - 1) :]}"
