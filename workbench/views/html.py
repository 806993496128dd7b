"""One offline HTML file with the timeline alive in it: zoom, hover and measure without a kernel.

The same front end as in Jupyter runs on arrays that the page carries. A content security policy in
the page forbids every request, so nothing can leave or enter whatever the sections hold.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.views import page_parts, replies, theme
from workbench.views.lod import Window
from workbench.views.overview import png
from workbench.views.timeline import FRONT_END, HERE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from workbench.views.lanes import Lanes
    from workbench.views.timeline import Timeline

STATIC = ("timeline_static_parts.js", "timeline_static.js")
"""What stands in for the kernel."""
MAX_EVENTS = 200_000
"""Beyond this the longest events are embedded, and the page says so."""
LEVELS = (1_200, 9_600, 76_800)
"""Pixels over the whole extent of the embedded pictures that stand in for the events left out."""
MAX_CELLS = 4_000_000
"""Pixels times rows of a level; finer ones are left out where there are many lanes."""
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; worker-src blob:; base-uri 'none'; form-action 'none'"
)
STATE = (
    "lanes", "palette", "extent", "window", "selection", "annotations", "max_height", "mark",
    "search", "filter", "matches", "filtered", "offers", "version", "order", "folded", "hidden",
    "curves", "measured",
)  # fmt: skip
STYLE = """
:root { color-scheme: light dark; --jp-layout-color0: PAGE; --jp-ui-font-color0: TEXT; }
@media (prefers-color-scheme: dark) {
  :root { --jp-layout-color0: DARK_PAGE; --jp-ui-font-color0: DARK_TEXT;
    --jp-ui-font-color2: DARK_MUTED; --jp-brand-color1: #64b5f6; }
}
body { margin: 0 auto; max-width: 1880px; padding: 12px 20px 40px; background: PAGE;
  background: var(--jp-layout-color0); color: var(--jp-ui-font-color0);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 20px; } h2 { font-size: 16px; margin: 28px 0 6px; }
.note { padding: 6px 10px; border-left: 3px solid #e69f00; }
pre { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: 2px 12px 2px 0; text-align: right; } th:first-child, td:first-child {
  text-align: left; }
"""


def save(
    path: Path,
    timeline: Timeline,
    title: str,
    sections: Iterable[tuple[str, str]] = (),
    *,
    max_events: int = MAX_EVENTS,
) -> Path:
    """Write the page: title, timeline, then (heading, HTML) sections in order.

    Title and headings are escaped, and so is all that comes from the trace; the HTML of a section
    is taken as it is, so its maker escapes what it shows.
    """
    parts = [f"<h2>{html.escape(heading)}</h2>\n{body}" for heading, body in sections]
    body = "\n".join([fragment(timeline, max_events=max_events), *parts])
    name = html.escape(title)
    path.write_text(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">\n'
        f"<title>{name}</title>\n<style>{_style()}</style></head>\n"
        f"<body><h1>{name}</h1>\n{body}\n</body></html>\n",
        encoding="utf-8",
    )
    return path


def fragment(timeline: Timeline, *, max_events: int = MAX_EVENTS) -> str:
    """Return the HTML of a timeline that is alive on its own, to stand inside another page."""
    page = payload(timeline, max_events)
    # "<" is written out, so that no name can end the element it stands in
    data = json.dumps(page, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    code = FRONT_END.replace("export default { render };", "")
    code += "".join((HERE / name).read_text("utf-8") for name in STATIC)
    css = (HERE / "timeline.css").read_text("utf-8")
    picture = base64.b64encode(png(timeline.data)).decode("ascii")
    return (
        f"{_note(page)}<style>{css}</style>\n"
        f"<script type='application/workbench-timeline'>{data}</script>\n"
        f"<script type='module'>{code}</script>\n"
        f'<noscript><img alt="Overview of the timeline" src="data:image/png;base64,{picture}">'
        "</noscript>"
    )


def payload(timeline: Timeline, max_events: int = MAX_EVENTS) -> dict[str, Any]:
    """Return what the page carries: traits, texts, and arrays as [type, gzip in base64].

    All events, or the longest `max_events` of them and the busy share at several levels.
    """
    lanes = timeline.data
    keep = _longest(lanes, max_events)
    complete = len(keep) == len(lanes.start)
    used, name = np.unique(lanes.name[keep], return_inverse=True)
    arrays = {
        "offset": np.searchsorted(keep, lanes.offset).astype("<u4"),
        "start": lanes.start[keep].astype("<i8"),
        "dur": lanes.dur[keep].astype("<i8"),
        "step": lanes.step[keep].astype("<i4"),
        "name": name.astype("<u4"),
    }
    limits, curves = page_parts.track_arrays(timeline.all_tracks)
    arrays |= curves | page_parts.ties(timeline.source, lanes, keep)
    levels = [] if complete else _levels(lanes)
    for width in levels:
        arrays |= _level(lanes, width)
    state = timeline.get_state(list(STATE))
    return {
        "state": state | {"snapshot_busy": None},
        "complete": complete,
        "events": len(lanes.start),
        "embedded": len(keep),
        "levels": levels or [LEVELS[0]],
        "texts": [replies.clip(lanes.names[k]) for k in used],
        "colours": lanes.colours[used].tolist(),
        "families": [lanes.families[k] for k in used],
        "streams": _streams(lanes),
        "curves": [{"limits": pair} for pair in limits],
        "parts": page_parts.classes(lanes, used),
        "peers": page_parts.peers(timeline.source, lanes, keep),
        "arrays": {k: _packed(v) for k, v in arrays.items()},
    }


def _streams(lanes: Lanes) -> list[str | None]:
    """Return the stream of each row; as text, since one may exceed what JSON numbers hold."""
    of_lane = [None if x.stream is None else str(x.stream) for x in lanes.lanes]
    return [of_lane[k] for k in lanes.row_lane]


def _longest(lanes: Lanes, limit: int) -> NDArray[np.int64]:
    n = len(lanes.start)
    if n <= limit:
        return np.arange(n)
    return np.sort(np.argpartition(lanes.dur, n - limit)[n - limit :])


def _levels(lanes: Lanes) -> list[int]:
    return [w for w in LEVELS if w == LEVELS[0] or w * lanes.engine.rows <= MAX_CELLS]


def _level(lanes: Lanes, width: int) -> dict[str, NDArray[np.uint8]]:
    window = Window(0, 0.0, float(lanes.engine.span_ns), 0, lanes.engine.rows)
    bins = lanes.engine.bins(window, width)
    return {
        f"busy{width}": replies.shade(bins, window),
        f"colour{width}": replies.tint(lanes, bins),
    }


def _packed(array: NDArray[Any]) -> list[str]:
    kind = array.dtype.kind + str(array.dtype.itemsize)
    # no file name and no time in the stream: the same trace gives the same page
    text = base64.b64encode(gzip.compress(array.tobytes(), 6, mtime=0))
    return [kind, text.decode("ascii")]


def _note(page: dict[str, Any]) -> str:
    if page["complete"]:
        return ""
    return (
        f'<p class="note">This page holds the longest {page["embedded"]:,} of '
        f"{page['events']:,} events. Zoomed out, the busy share counts all of them; zoomed in, "
        "only the embedded ones are drawn; search and filter look at those. Open the trace in the "
        "workbench to see every event.</p>"
    )


def _style() -> str:
    style = STYLE
    for word, look in (("DARK_", theme.DARK), ("", theme.LIGHT)):
        style = style.replace(word + "PAGE", look.background)
        style = style.replace(word + "TEXT", look.text).replace(word + "MUTED", look.muted)
    return style
