"""`workbench report`: what a recording shows, as one HTML file that opens anywhere offline."""

from __future__ import annotations

import html
from pathlib import Path
from typing import NamedTuple

import polars as pl

from workbench import show
from workbench.errors import InputError, UsageError
from workbench.noting import frame
from workbench.noting.book import Book
from workbench.output import cell, header
from workbench.trace.core import Source
from workbench.trace.open import RUN_FILE, open_source
from workbench.views.html import save
from workbench.views.timeline import Timeline


class Section(NamedTuple):
    """One table of the report; it stands there when it has rows."""

    heading: str
    name: str
    """As `workbench show` has it."""
    top: int | None = None
    sort: str | None = None
    columns: str | None = None


SECTIONS = (
    Section("Summary", "summary"),
    Section("Where the window goes", "breakdown"),
    Section("The mean step, part by part", "waterfall_mean"),
    Section("Steps", "steps"),
    Section("Why the device was idle", "idle_causes"),
    Section("Overlap of communication with compute", "overlap"),
    Section("Process groups", "groups"),
    Section("Most exposed collectives", "collectives", 25, "exposed_ns"),
    Section(
        "Phases",
        "phases",
        columns="rank,device,phase,count,busy_ns,busy_share,idle_ns,idle_share,host_ns,host_share",
    ),
    Section("Longest kernels", "kernels", 25),
    Section("Operators", "ops", 25),
    Section(
        "Launches",
        "launches",
        25,
        columns="rank,device,name,kind,calls,activities,short,inverted,call_total_ns,"
        "call_median_ns,queue_median_ns,queue_p95_ns,execution_median_ns,execution_total_ns",
    ),
    Section(
        "Memory at its peak, by who allocated it",
        "memory_peak",
        25,
        columns="rank,device,place,by,name,bytes,blocks,share,reason",
    ),
    Section("What this recording can answer", "trust", columns="aspect,state,detail,advice"),
)
NOTED = ("name", "text", "target", "start_ns", "author", "reason", "conflict")
SPARE = ("reason", "conflict")
LONG_TEXT = 48
"""Beyond so many characters a text may take several lines."""


def write(source: Path, out: Path | None = None) -> Path:
    """Write the report of a source; a run folder keeps it by default, as report.html.

    Raises
    ------
    UsageError
        The file does not end in .html.
    InputError
        The source can't be opened, or the file can't be written.
    """
    opened = open_source(source)
    path = out or _default(source)
    if path.suffix != ".html":
        raise UsageError(f"{path} does not end in .html, the one form of a report.")
    title = f"Workbench: {source.resolve().name}"
    try:
        return save(path, Timeline(opened), title, sections(opened))
    except OSError as e:
        raise InputError(f"{path} can't be written: {e.strerror}.") from None


def _default(source: Path) -> Path:
    if (source / RUN_FILE).exists():
        return source / "report.html"
    return Path(source.resolve().name.split(".")[0] + ".html")


def sections(source: Source) -> list[tuple[str, str]]:
    """Return (heading, HTML) of each section; every text from the recording is escaped."""
    said = [
        f"{name}: {value}"
        for name, value in show.brief(show.about(source, "summary", show.Choice())).items()
        if value is not None
    ]
    said += [
        "{code} ({count}): {effect}".format(**problem)
        for problem in show.frame(source, "problems", show.Choice()).to_dicts()
    ]
    # ranks often share a problem, word for word
    notes = "".join(f'<p class="note">{html.escape(s)}</p>' for s in dict.fromkeys(said))
    parts = [("About this recording", notes)] if notes else []
    parts += noted(source)
    for heading, name, top, sort, columns in SECTIONS:
        found = show.frame(source, name, show.Choice())
        if found.height:
            more = "" if top is None or found.height <= top else f", the first {top}"
            shown = show.arrange(found, top=top, sort=sort, columns=columns)
            parts.append((heading + more, table(shown)))
    return parts


def noted(source: Source) -> list[tuple[str, str]]:
    """Return the section of what people noted; nothing when they noted nothing."""
    book = Book(source)
    found = frame.of(book, source)
    if found.is_empty():
        return []
    shown = found.select(c for c in NOTED if c not in SPARE or found[c].count())
    return [("Notes", table(shown))]


def table(rows: pl.DataFrame) -> str:
    """Return a frame as an HTML table, with units in the cells as `workbench show` prints them."""
    kinds = {name: "text" if _is_text(dtype) else "number" for name, dtype in rows.schema.items()}
    head = "".join(
        f"<th{_LOOK[kind]}>{html.escape(header(name).replace('_', ' '))}</th>"
        for name, kind in kinds.items()
    )
    lines = "".join(
        "<tr>" + "".join(_cell(_text(n, v), kinds[n]) for n, v in row.items()) + "</tr>"
        for row in rows.iter_rows(named=True)
    )
    body = f"<thead style='white-space: normal'><tr>{head}</tr></thead><tbody>{lines}</tbody>"
    return f"<div style='overflow-x: auto'><table style='white-space: nowrap'>{body}</table></div>"


_LOOK = {
    "number": "",
    "text": ' style="text-align: left"',
    "long": ' style="text-align: left; white-space: normal; min-width: 30em"',
}


def _is_text(dtype: pl.DataType) -> bool:
    return isinstance(dtype, (pl.String, pl.Categorical, pl.Enum))


def _cell(text: str, kind: str) -> str:
    look = "long" if kind == "text" and len(text) > LONG_TEXT else kind
    return f"<td{_LOOK[look]}>{html.escape(text)}</td>"


def _text(name: str, value: object) -> str:
    if name.endswith("share") and isinstance(value, float):
        return f"{100 * value:.1f} %"
    return cell(name, value)
