"""The timeline's front end: files of JavaScript that make one module, the same everywhere."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = ("timeline_draw.js", "timeline_search.js", "timeline.js")
FRONT_END = "\n".join((HERE / f).read_text("utf-8") for f in SCRIPTS)
