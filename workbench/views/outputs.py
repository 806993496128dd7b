"""How a timeline leaves its notebook: as a file, as text, as what stands in a saved notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.views import html, lane_table, origin, picture
from workbench.views.overview import png

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from workbench.views.lanes import Lanes

MOST_LANES = 12
"""Lanes that stand in a notebook that is read without its widgets: the busiest."""
KEPT = ("window", "selection", "annotations", "search", "filter")
"""Traits that an exported notebook shows again."""


class Outputs:
    """What a `Timeline` can be written as."""

    data: Lanes
    drawn: Lanes
    window: list[int]
    selection: list[int]
    selected: dict[str, Any]
    filter: dict[str, Any]
    filtered: str
    origin: dict[str, Any] | None
    table: Callable[..., pl.DataFrame]
    get_state: Callable[[list[str]], Mapping[str, Any]]

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        out = super()._repr_mimebundle_(**kwargs)
        data, meta = out if isinstance(out, tuple) else (out or {}, {})
        said = f"{self!r}\n{self.text(MOST_LANES)}"
        return data | {"image/png": png(self.data), "text/plain": said}, meta | self._remembered()

    def _remembered(self) -> dict[str, Any]:
        """Return what makes an exported notebook show this view alive, without running it."""
        if self.origin is None:
            return {}
        state = json.dumps(self.get_state(list(KEPT)) | {"selected": dict(self.selected)})
        return {origin.KEY: {"view": "timeline", "origin": self.origin, "state": state}}

    def text(self, top: int | None = None) -> str:
        """Return `table` as aligned text with units."""
        a, b = self.selection or self.window
        said = lane_table.text(self.table(top), b - a)
        return f"{said}\n{self.filtered}" if self.filter and len(self.data.lanes) else said

    def save(
        self, path: str | Path, *, theme: str = "light", width: int = 1_200, title: str = "Timeline"
    ) -> Path:
        """Write it as a file: .html is alive, offline; .svg and .png are still pictures.

        A picture shows the window and the events that are drawn, in `theme` (light or dark) and
        `width` pixels; `title` is that of a page. Raises UsageError on another suffix or theme,
        InputError where nothing can be written.
        """
        path = Path(path).expanduser()
        if path.suffix == ".html":
            return html.save(path, self, title)
        return picture.save_lanes(self.drawn, path, self.window, theme=theme, width=width)
