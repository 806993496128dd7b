"""The page of a recording: what an explorer shows, in one HTML file that is alive offline.

`workbench report` and `Explorer.save` write it. Timeline, tables and pictures are those of the
explorer, linked as there; the figures stay those of the choice that it was written with.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench import units
from workbench.errors import UsageError
from workbench.panels import text
from workbench.panels.details import details
from workbench.panels.notes import marked
from workbench.panels.panes import BREAKDOWN
from workbench.panels.parts import Boxes, Dials, Picture, Rows, Words
from workbench.panels.static_links import Links
from workbench.panels.tabs import TABS, titles
from workbench.version import __version__
from workbench.views import figure, html, packed, recolour
from workbench.views.tables import html_table
from workbench.views.theme import DARK, THEMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from workbench.panels.answers import Answers
    from workbench.panels.parts import Part
    from workbench.views.timeline import Timeline

HERE = Path(__file__).parent
WIDTH = 1_200
"""Pixels that pictures are laid out for; a page draws them as wide as it is."""
WINDOWS = {"steady": "steps but outliers", "host": "host step ranges", "all": "the whole trace"}
HOW_TO_SELECT = (
    "Click an event to see it here and in the tables, or a row to see it on the timeline; "
    "Shift and drag measures."
)
NO_SCRIPT = (
    "This page needs JavaScript, which is switched off here; `workbench show` prints every table."
)


@dataclass(frozen=True)
class Shown:
    """What of an explorer's state is neither in its answers nor in its timeline."""

    tab: str = next(iter(TABS))
    rows: Mapping[str, int] = field(default_factory=dict)
    sort: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def write(
    path: Path, answers: Answers, timeline: Timeline, title: str, shown: Shown | None = None
) -> Path:
    """Write the page.

    Raises
    ------
    UsageError
        The file does not end in .html.
    InputError
        The file can't be written.
    """
    if path.suffix != ".html":
        raise UsageError(f"{path} does not end in .html, the one form of a page.")
    whole = page(answers, timeline, title, shown or Shown())
    return html.written(path, whole.encode("utf-8"))


def page(answers: Answers, timeline: Timeline, title: str, shown: Shown) -> str:
    """Return the whole page, of at most `html.MAX_BYTES`."""
    room = html.MAX_BYTES - len(around(title, "").encode())
    return around(title, explorer(answers, timeline, shown, room))


def around(title: str, content: str, *, style: str = "", heading: bool = True) -> str:
    """Return a page in which explorers, timelines and pictures are alive."""
    has_pictures = "data-figure=" in content or "wb-page-picture" in content or not content
    bokeh = figure.bokehjs().decode("utf-8") if has_pictures else ""
    carried = html.data_element("bokeh", {"code": packed.text(bokeh)})
    said = text.caption(
        f"Written by workbench {__version__}; works offline, asks nothing of others."
    )
    body = f"{content}{carried}<div class='wb-panel'>{said}</div>"
    options: dict[str, Any] = {"scripts": [bokeh] if has_pictures else [], "heading": heading}
    return html.page(title, body, code=CODE, style=STYLE + style, **options)


def picture(plot: Callable[[str, int], Any], height: int) -> str:
    """Return the HTML of a picture for the content of `around`: `plot(theme, width)`."""
    carried = html.data_element("picture", {"looks": _looks(plot), "height": height})
    return f'<div class="wb-page-picture">{carried}</div>'


def explorer(answers: Answers, timeline: Timeline, shown: Shown, room: int) -> str:
    """Return the HTML of an explorer for the content of `around`, of about `room` bytes.

    The timeline gets what all else leaves.
    """
    links = Links(answers, timeline.data)
    targets = links.targets()
    selected = timeline.selected
    place = timeline.data.find(*(selected[k] for k in ("table", "id", "rank"))) if selected else -1
    alone = [*links.places, *([place] if place >= 0 else [])]
    operators = answers["ops"]["name"].cast(pl.String).to_list()
    linked = {"targets": targets, "belongs": links.belongs(), "operators": operators,
              "sort": shown.sort}  # fmt: skip
    panes = data(answers) | {"links": packed.text(json.dumps(linked)), "rows": dict(shown.rows)}
    carried = html.data_element("panes", panes)
    rest = len(body(answers, timeline, shown, carried, "").encode())
    drawn = html.fragment(timeline, room - rest, alone=alone, extra={"op": links.operators()})
    return body(answers, timeline, shown, carried, drawn)


def body(answers: Answers, timeline: Timeline, shown: Shown, carried: str, drawn: str) -> str:
    """Return the parts of an explorer from the top."""
    found = details(answers.source, timeline.selected)
    selected = text.caption(HOW_TO_SELECT) if found.is_empty() else text.details(found)
    parts = [
        f"<noscript>{text.notes([NO_SCRIPT])}</noscript>",
        text.facts(answers.facts),
        text.caption(said) if (said := _chosen(answers)) else "",
        text.notes(answers.notes),
        _part(answers, BREAKDOWN),
        f'<div class="wb-page-timeline">{drawn}</div>',
        f'<div class="wb-page-details" aria-live="polite">{selected}</div>',
        _notes_of(timeline),
        _tabs(answers, shown.tab),
        *(_section(answers, title, is_open=title == shown.tab) for title in titles(answers)),
        carried,
    ]
    return f'<div class="wb-panel wb-page">{"".join(parts)}</div>'


def data(answers: Answers) -> dict[str, Any]:
    """Return tables and pictures by name, packed; a picture in each theme."""
    parts = [BREAKDOWN, *(p for title in titles(answers) for p in _told(answers, title))]
    tables = {
        p.frame: packed.text(html_table(marked(answers, p.frame), p.columns, nothing=p.nothing))
        for p in parts
        if isinstance(p, Rows)
    }
    pictures = {
        p.name: _looks(partial(_draw, p, answers[p.frame]))
        for p in parts
        if isinstance(p, Picture) and answers[p.frame].height
    }
    return {"tables": tables, "pictures": pictures}


def _draw(part: Picture, frame: pl.DataFrame, theme: str, width: int) -> Any:
    return part.draw(frame, theme=theme, width=width)


def _looks(plot: Callable[[str, int], Any]) -> dict[str, str]:
    """Return a picture in each theme, drawn once.

    It is drawn dark: of light colours some are Bokeh's own, which its JSON leaves out.
    """
    drawn = json.dumps(figure.item(plot(DARK.name, WIDTH)))
    return {
        name: packed.text(recolour.recoloured(drawn, DARK, look)) for name, look in THEMES.items()
    }


def _told(answers: Answers, title: str) -> Iterator[Part]:
    """Return the parts of a tab that have something to say."""
    for part in TABS[title]:
        if isinstance(part, Dials) or not part.when(answers):
            continue
        if not (answers.lacking(part.frame) and answers[part.frame].is_empty()):
            yield part


def _tabs(answers: Answers, shown: str) -> str:
    buttons = "".join(
        f'<button role="tab" data-tab="{escape(title)}" aria-selected="{chosen}">'
        f"{escape(label)}</button>"
        for title, label in titles(answers).items()
        for chosen in ["true" if title == shown else "false"]
    )
    return f'<nav class="wb-page-tabs" role="tablist">{buttons}</nav>'


def _section(answers: Answers, title: str, *, is_open: bool) -> str:
    """Write a tab: first what the recording lacks for it, then its parts."""
    frames = [part.frame for part in TABS[title] if not isinstance(part, Dials)]
    lacking = dict.fromkeys(s for frame in frames for s in answers.lacking(frame))
    parts = "".join(_part(answers, part) for part in _told(answers, title))
    hidden = "" if is_open else " hidden"
    return (
        f'<section role="tabpanel" data-tab="{escape(title)}"{hidden}><h2>{escape(title)}</h2>'
        f"{text.notes(lacking)}{parts}</section>"
    )


def _part(answers: Answers, part: Part) -> str:
    said = part.said if isinstance(part.said, str) else part.said(answers)
    caption = text.caption(said) if said else ""
    if isinstance(part, Words):
        return caption
    if isinstance(part, Boxes):
        return caption + text.facts(part.made(answers))
    if isinstance(part, Rows):
        return caption + _slot("table", part.frame, 0)
    assert isinstance(part, Picture)
    if answers[part.frame].is_empty():
        return caption + text.caption(part.nothing)
    return caption + _slot("figure", part.name, part.height)


def _slot(kind: str, name: str, height: int) -> str:
    return f'<div data-{kind}="{escape(name)}" data-height="{height}"></div>'


def _chosen(answers: Answers) -> str:
    """Say what part of the recording the figures are of, where it is not all complete steps."""
    choice = answers.choice
    parts = [] if choice.rank is None else [f"rank {choice.rank}"]
    if choice.within is not None:
        start, end = choice.within
        parts.append(f"{units.duration(end - start)} from {units.duration(start)}")
    else:
        parts += [WINDOWS[choice.window]] if choice.window in WINDOWS else []
        parts += [] if choice.step is None else [f"step {choice.step[0]}"]
    return f"All figures are of {', '.join(parts)}." if parts else ""


def _notes_of(timeline: Timeline) -> str:
    """Write the annotations that are kept nowhere as a table; notes have their tab."""
    own = [note for note in timeline.annotations if "id" not in note]
    if not own:
        return ""
    rows = "".join(
        f"<tr><td class='wb-text'>{escape(str(note['name']))}</td>"
        f"<td>{units.duration(int(note['start_ns']))}</td>"
        f"<td>{units.duration(int(note['end_ns']) - int(note['start_ns']))}</td>"
        f"<td class='wb-text'>{escape(str(note.get('text', '')))}</td></tr>"
        for note in own
    )
    head = "<th class='wb-text'>name</th><th>at</th><th>length</th><th class='wb-text'>note</th>"
    return f"<h2>Notes</h2><table class='wb-table'><thead><tr>{head}</tr></thead>{rows}</table>"


def _module(name: str, path: Path) -> str:
    """Return a widget's front end as a value, so that those of several stand in one script."""
    front_end = path.read_text("utf-8").replace("export default { render };", "return { render };")
    return f"const {name} = (() => {{\n{front_end}}})();"


CODE = "\n".join((
    html.CODE,
    _module("tableWidget", HERE / "table.js"),
    _module("figureWidget", Path(figure.__file__).parent / "figure.js"),
    (HERE / "page.js").read_text("utf-8"),
))  # fmt: skip
STYLE = (HERE / "panels.css").read_text("utf-8") + (HERE / "page.css").read_text("utf-8")
