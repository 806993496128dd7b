"""Views as SVG and PNG files.

A timeline is drawn here. Pictures of HoloViews are Bokeh's, which draws in a browser alone: one
that is installed is run without a window, on a page that asks nothing of others.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import InputError, UsageError
from workbench.views import figure, still
from workbench.views.html import written
from workbench.views.theme import THEMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.views.lanes import Lanes

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
            "msedge", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")  # fmt: skip
PATIENCE_S = 60
FLAGS = (
    "--headless=new", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--virtual-time-budget=20000",
)  # fmt: skip
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)
SCALE = 2
"""Dots of a PNG for each pixel."""
DRAW = """
const data = JSON.parse(document.getElementById("item").textContent);
Bokeh.set_log_level("error");
Bokeh.embed.embed_item(data, document.getElementById("root")).then((views) => {
  const { PlotView } = Bokeh.require("models/plots/plot");
  for (const view of views.roots ?? Object.values(views))
    if (view instanceof PlotView && view.model.output_backend === "svg")
      document.getElementById("svg").textContent = view.export("svg").ctx.get_serialized_svg(true);
});"""


def save_lanes(
    lanes: Lanes,
    path: Path,
    window: Sequence[int] | None = None,
    *,
    theme: str = "light",
    width: int = 1_200,
) -> Path:
    """Write lanes as a picture: a stretch of the source's time in ns, or the whole."""
    check(path, theme)
    stretch = None if window is None else (window[0], window[1])
    drawing = still.draw(lanes, stretch, width=width, theme=THEMES[theme])
    made = drawing.png(SCALE) if path.suffix == ".png" else drawing.svg().encode("utf-8")
    return written(path, made)


def save_plot(plot: Any, path: Path) -> Path:
    """Write a HoloViews object as a picture; a browser draws it."""
    check(path)
    drawn = figure.rendered(plot)
    drawn.toolbar_location = None
    if path.suffix == ".svg":
        drawn.output_backend = "svg"
    return written(path, _run(drawn, path.suffix))


def check(path: Path, theme: str = "light") -> None:
    """Raise UsageError for a file or a theme that a picture does not have."""
    if path.suffix not in {".svg", ".png"}:
        raise UsageError(f"{path} does not end in .svg or .png, the two forms of a picture.")
    if theme not in THEMES:
        raise UsageError(f"A picture's theme is {' or '.join(THEMES)}, not {theme!r}.")


def _run(drawn: Any, suffix: str) -> bytes:
    """Have a browser draw a Bokeh figure."""
    from bokeh.embed import json_item

    item = json.dumps(json_item(drawn)).replace("<", "\\u003c")
    page = (
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f'content="{POLICY}"><style>body {{ margin: 0 }}</style><div id="root"></div>'
        f'<pre id="svg" hidden></pre><script id="item" type="application/json">{item}</script>'
        f"<script>{figure.bokehjs().decode('utf-8')}</script><script>{DRAW}</script>"
    )
    with tempfile.TemporaryDirectory(prefix="workbench-picture-") as name:
        folder = Path(name)
        (folder / "page.html").write_text(page, encoding="utf-8")
        size = f"--window-size={drawn.width},{drawn.height}"
        picture = folder / "picture.png"
        way = f"--screenshot={picture}" if suffix == ".png" else "--dump-dom"
        said = _browse(folder, [size, f"--force-device-scale-factor={SCALE}", way])
        if suffix == ".png":
            return picture.read_bytes() if picture.exists() else _failed()
    found = re.search(r'<pre id="svg" hidden="">(.*?)</pre>', said, re.DOTALL)
    return unescape(found[1]).encode("utf-8") if found and found[1] else _failed()


def _browse(folder: Path, options: list[str]) -> str:
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [browser(), *FLAGS, *root, profile, *options, (folder / "page.html").as_uri()]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        _failed()
    return ran.stdout.decode("utf-8", "replace")


def browser() -> str:
    """Return the browser that draws: WORKBENCH_CHROMIUM, or the first that is installed."""
    named = os.environ.get("WORKBENCH_CHROMIUM")
    found = named or next((b for name in BROWSERS if (b := shutil.which(name))), None)
    if found is None:
        raise UsageError(
            "No Chromium or Chrome was found, and only a browser draws this picture: install one, "
            "or name it in WORKBENCH_CHROMIUM. Timelines need none."
        )
    return found


def _failed() -> Any:
    raise InputError("The browser drew no picture; see whether it starts, then try again.")
