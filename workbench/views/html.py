"""One offline HTML file with a timeline alive in it: zoom, hover, search, measure; no kernel.

The same front end as in Jupyter runs on arrays that the page carries. A content security policy in
the page forbids every request, and every script but the page's own, so nothing can leave or enter
whatever the sections hold.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench import units
from workbench.errors import InputError
from workbench.views import held, packed, page_parts, replies, theme
from workbench.views.front_end import FRONT_END, HERE
from workbench.views.overview import png

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from workbench.views.lanes import Lanes
    from workbench.views.timeline import Timeline

MAX_BYTES = 5_000_000
"""Size of a page; events that do not fit it are joined in boxes, and the page says so."""
LEAST_ROOM = 400_000
"""Bytes that a timeline gets, however much else a page holds."""
POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; base-uri 'none'; form-action 'none'"
)
STATE = (
    "lanes", "palette", "extent", "window", "selection", "annotations", "max_height", "mark",
    "search", "filter", "matches", "filtered", "offers", "version", "order", "folded", "hidden",
    "curves", "measured",
)  # fmt: skip
READ_ONLY = {
    "editable": False,
    "said": "Notes can't be changed in a page; open the recording in the workbench.",
}
STYLE = """
:root { color-scheme: light dark; --jp-layout-color0: PAGE; --jp-ui-font-color0: TEXT; }
@media (prefers-color-scheme: dark) {
  :root { --jp-layout-color0: DARK_PAGE; --jp-ui-font-color0: DARK_TEXT;
    --jp-ui-font-color1: DARK_TEXT; --jp-ui-font-color2: DARK_MUTED; --jp-ui-font-color3: #7d8590;
    --jp-layout-color1: #1c2027; --jp-layout-color2: #262b33; --jp-brand-color1: #64b5f6;
    --jp-border-color1: #6b7280; --jp-border-color2: #3a404a; --jp-border-color3: #2c313a; }
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


CODE = "\n".join((
    (HERE / "page_data.js").read_text("utf-8"),
    FRONT_END.replace("export default { render };", ""),
    (HERE / "timeline_static_parts.js").read_text("utf-8"),
    (HERE / "timeline_static.js").read_text("utf-8"),
))  # fmt: skip
"""What makes timelines of a page alive; `await showTimelines()` does it."""


def save(
    path: Path,
    timeline: Timeline,
    title: str,
    sections: Iterable[tuple[str, str]] = (),
    *,
    max_bytes: int = MAX_BYTES,
) -> Path:
    """Write the page: title, timeline, then (heading, HTML) sections in order.

    Title and headings are escaped, and so is all that comes from the trace; the HTML of a section
    is taken as it is, so its maker escapes what it shows; scripts in it do not run.
    """
    rest = "\n".join(f"<h2>{html.escape(heading)}</h2>\n{body}" for heading, body in sections)
    around = len(page(title, rest).encode())
    whole = page(title, f"{fragment(timeline, max_bytes - around)}\n{rest}")
    return written(path, whole.encode("utf-8"))


def written(path: Path, content: bytes) -> Path:
    """Write a file; InputError, where that can't be done."""
    try:
        path.write_bytes(content)
    except OSError as e:
        raise InputError(f"{path} can't be written: {e.strerror}.") from None
    return path


def page(title: str, body: str, *, code: str = CODE + "await showTimelines();", style: str = "",
         scripts: Sequence[str] = (), heading: bool = True) -> str:  # fmt: skip
    """Return a whole page; `scripts` are those that `code` itself may add to it.

    Without `heading` the title stands in the tab of the browser alone.
    """
    name = html.escape(title)
    allowed = " ".join(f"'sha256-{_sha256(script)}'" for script in (code, *scripts))
    if scripts:  # Bokeh makes functions of the formatters of axes; only these scripts can
        allowed += " 'unsafe-eval'"
    css = (HERE / "timeline.css").read_text("utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY.format(scripts=allowed)}">\n'
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">\n'
        f"<title>{name}</title>\n<style>{_style()}{css}{style}</style></head>\n"
        f"<body>{f'<h1>{name}</h1>' if heading else ''}\n{body}\n"
        f"<script type='module'>{code}</script>\n</body></html>\n"
    )


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def fragment(timeline: Timeline, room: int = MAX_BYTES, **options: Any) -> str:
    """Return the HTML of a timeline for the body of a `page`, of about `room` bytes.

    `options` are those of `payload`.
    """
    lanes = timeline.data
    picture = base64.b64encode(png(lanes)).decode("ascii")
    still = (
        f'<noscript><img alt="Overview of the timeline" src="data:image/png;base64,{picture}">'
        "</noscript>"
    )
    carried = payload(timeline, max(room - len(still), LEAST_ROOM), **options)
    return f"{_note(carried)}{data_element('timeline', carried)}\n{still}"


def data_element(kind: str, carried: Mapping[str, Any]) -> str:
    """Return an element that holds data for the scripts of a page."""
    # "<" is written out, so that no name can end the element it stands in
    data = json.dumps(carried, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    return f"<script type='application/workbench-{kind}'>{data}</script>"


def payload(
    timeline: Timeline,
    room: int = MAX_BYTES,
    *,
    alone: Sequence[int] = (),
    extra: Mapping[str, NDArray[Any]] | None = None,
    max_boxes: int = held.MAX_BOXES,
) -> dict[str, Any]:
    """Return what the page carries: traits, texts, and packed columns of the boxes that it draws.

    `alone` are places of events that get a box of their own; `places` says which boxes those are.
    `extra` are further columns, one entry an event.
    """
    lanes = timeline.data
    state = timeline.get_state(list(STATE))
    limits, tracks = page_parts.track_columns(timeline.all_tracks)
    carried: dict[str, Any] = {
        "state": state | {"snapshot_busy": None, "keeping": READ_ONLY},
        "curves": [{"limits": pair} for pair in limits],
        "events": len(lanes.start),
        "steps": np.unique(lanes.step).tolist(),
        "streams": _streams(lanes),
        "words": packed.text(json.dumps(_words(lanes))),
    }
    rest = len(json.dumps(carried)) + 12 * len(lanes.offset) + packed.total(tracks)
    single = np.array(alone, np.int64)
    options: dict[str, Any] = {"alone": single, "extra": extra, "max_boxes": max_boxes}
    boxes, columns = held.fitted(lanes, room - rest, **options)
    ties = page_parts.ties(timeline.source, lanes, boxes)
    if (over := packed.total(columns) + packed.total(ties) - (room - rest)) > 0:
        boxes, columns = held.fitted(lanes, room - rest - over, **options)
        ties = page_parts.ties(timeline.source, lanes, boxes)
    joined = boxes.count > 1
    return carried | {
        "grain": boxes.grain_ns,
        "alone": int((~joined).sum()),
        "boxes": len(boxes.first),
        "offset": np.searchsorted(boxes.first, lanes.offset).tolist(),
        "columns": columns | ties | tracks,
        "peers": page_parts.peers(timeline.source, lanes, boxes),
        "places": np.searchsorted(boxes.first, single).tolist(),
    }


def _words(lanes: Lanes) -> dict[str, Any]:
    """Return what is known of each distinct text; `totals` counts its events."""
    return {
        "texts": [replies.clip(name) for name in lanes.names],
        "tints": lanes.colours.tolist(),
        "families": list(lanes.families),
        "parts": page_parts.classes(lanes),
        "totals": np.bincount(lanes.name, minlength=len(lanes.names)).tolist(),
    }


def _streams(lanes: Lanes) -> list[str | None]:
    """Return the stream of each row; as text, since one may exceed what JSON numbers hold."""
    of_lane = [None if x.stream is None else str(x.stream) for x in lanes.lanes]
    return [of_lane[k] for k in lanes.row_lane]


def _note(carried: Mapping[str, Any]) -> str:
    if not carried["grain"]:
        return ""
    boxes, grain = carried["boxes"] - carried["alone"], carried["grain"]
    stand = f"{boxes:,} hatched boxes stand" if boxes > 1 else "one hatched box stands"
    return (
        f'<p class="note">This page holds {carried["alone"]:,} of {carried["events"]:,} events one '
        f"by one, among them all that last {units.duration(grain)} or longer. For the other "
        f"{carried['events'] - carried['alone']:,}, which lie close together, {stand}, none longer "
        f"than {units.duration(2 * grain)}: it says how many it holds, how long they ran and which "
        "is the longest; search, filter and colour go by that one. Starts, ends and busy times are "
        "exact. Open the recording in the workbench to see each event.</p>"
    )


def _style() -> str:
    style = STYLE
    for word, look in (("DARK_", theme.DARK), ("", theme.LIGHT)):
        style = style.replace(word + "PAGE", look.background)
        style = style.replace(word + "TEXT", look.text).replace(word + "MUTED", look.muted)
    return style
