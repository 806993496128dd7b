"""How a timeline leaves its notebook: as a file, as text, as what stands in a saved notebook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workbench.views import lane_table, origin
from workbench.views.overview import png

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.views.timeline import Timeline

MOST_LANES = 12
"""Lanes that stand in a notebook that is read without its widgets: the busiest."""
KEPT = ("window", "selection", "annotations", "search", "filter")
"""Traits that an exported notebook shows again."""


def text(timeline: Timeline, top: int | None = None) -> str:
    """Return a timeline's `table` as aligned text with units."""
    a, b = timeline.selection or timeline.window
    said = lane_table.text(timeline.table(top), b - a)
    return f"{said}\n{timeline.filtered}" if timeline.filter and timeline.lanes else said


def mimebundle(timeline: Timeline, found: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Add to what a widget shows a picture, its figures, and what opens its recording again."""
    data, meta = found if isinstance(found, tuple) else (found or {}, {})
    said = f"{timeline!r}\n{text(timeline, MOST_LANES)}"
    remembered = {} if timeline.origin is None else {origin.KEY: _kept(timeline)}
    return data | {
        "image/png": png(timeline.data, timeline.whole),
        "text/plain": said,
    }, meta | remembered


def _kept(timeline: Timeline) -> dict[str, Any]:
    """Return what makes an exported notebook show a timeline alive, without running it."""
    traits = {**timeline.get_state(list(KEPT)), "selected": dict(timeline.selected)}
    return {"view": "timeline", "origin": timeline.origin, "state": json.dumps(traits)}


def save(timeline: Timeline, path: Path, *, theme: str, width: int, title: str) -> Path:
    """Write a timeline as a page or as a picture; see `Timeline.save`."""
    if path.suffix == ".html":
        from workbench.views import html

        return html.save(path, timeline, title)
    from workbench.views import picture  # with all that draws, which showing a widget does not need

    return picture.save_lanes(timeline.drawn, path, timeline.window, theme=theme, width=width)
