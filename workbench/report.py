"""`workbench report`: what a recording shows, as one HTML file that opens anywhere offline."""

from __future__ import annotations

import html
from pathlib import Path

import polars as pl

from workbench import show
from workbench.errors import InputError, UsageError
from workbench.output import cell, header
from workbench.trace.core import Source
from workbench.trace.open import RUN_FILE, open_source
from workbench.views.html import save
from workbench.views.timeline import Timeline

SECTIONS = (
    ("Summary", "summary", None),
    ("Where the window goes", "breakdown", None),
    ("Steps", "steps", None),
    ("Overlap of communication with compute", "overlap", None),
    ("Longest kernels", "kernels", 25),
    ("Operators", "ops", 25),
)


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
    notes = "".join(
        f'<p class="note">{html.escape(f"{name}: {value}")}</p>'
        for name, value in show.brief(show.about(source, "summary", show.Choice())).items()
        if value is not None
    )
    notes += "".join(
        f'<p class="note">{html.escape("{code} ({count}): {effect}".format(**r))}</p>'
        for r in show.frame(source, "problems", show.Choice()).to_dicts()
    )
    parts = [("Notes", notes)] if notes else []
    for heading, name, top in SECTIONS:
        found = show.frame(source, name, show.Choice())
        if found.height:
            more = "" if top is None or found.height <= top else f", the first {top}"
            parts.append((heading + more, table(found if top is None else found.head(top))))
    return parts


def table(frame: pl.DataFrame) -> str:
    """Return a frame as an HTML table, with units in the cells as `workbench show` prints them."""
    head = "".join(f"<th>{html.escape(header(n).replace('_', ' '))}</th>" for n in frame.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_text(n, v))}</td>" for n, v in row.items()) + "</tr>"
        for row in frame.iter_rows(named=True)
    )
    body = f"<thead style='white-space: normal'><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    return f"<div style='overflow-x: auto'><table style='white-space: nowrap'>{body}</table></div>"


def _text(name: str, value: object) -> str:
    if name.endswith("share") and isinstance(value, float):
        return f"{100 * value:.1f} %"
    return cell(name, value)
