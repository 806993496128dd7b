"""The timeline's front end: files of JavaScript that make one module, the same everywhere."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = (
    "timeline_boxes.js", "timeline_draw.js", "timeline_lanes.js", "timeline_menu.js",
    "timeline_tracks.js", "timeline_flow.js", "timeline_map.js", "timeline_measure.js",
    "timeline_search.js", "timeline_notes.js", "timeline_card.js", "timeline_sight.js",
    "timeline_keys.js", "timeline_view.js", "timeline.js",
)  # fmt: skip
FRONT_END = "\n".join((HERE / f).read_text("utf-8") for f in SCRIPTS)
