"""`save_view`: any view as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.errors import UsageError
from workbench.views import picture
from workbench.views.figure import Figure
from workbench.views.timeline import Timeline


def save_view(view: Any, path: str | Path, *, theme: str = "light", width: int = 1_200) -> Path:
    """Write a view as a picture, by the file's suffix .svg or .png; a timeline also as .html.

    `view` is a `Timeline`, a `Figure`, or a HoloViews object that a view made (which has a theme
    and a width already). PNGs have two dots a pixel. HoloViews objects and figures are drawn by a
    Chromium or Chrome of this machine (WORKBENCH_CHROMIUM), without a network; timelines need none.

    Raises
    ------
    UsageError
        Another suffix, theme or kind of view, or no browser where one is needed.
    InputError
        The file can't be written.
    """
    target = Path(path).expanduser()
    if isinstance(view, Timeline):
        return view.save(target, theme=theme, width=width)
    picture.check(target, theme)
    plot = view.draw(theme, width) if isinstance(view, Figure) else view
    if not type(plot).__module__.startswith("holoviews."):
        raise UsageError(
            f"A {type(view).__name__} is no view; give a Timeline, a Figure or a HoloViews object."
        )
    return picture.save_plot(plot, target)
