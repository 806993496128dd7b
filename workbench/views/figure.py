"""A Bokeh picture in a notebook that needs no network and no cell that loads BokehJS first.

The front end (`figure.js`) asks for a picture when it is shown, when its width changes and when the
page turns dark or light; only then is anything drawn. The first picture of a page fetches BokehJS
from the kernel's own `bokeh`, so both versions are the same and a saved notebook stays small.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import polars as pl
import traitlets as t

from workbench.output import text_table
from workbench.views.theme import THEMES, Theme

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE = Path(__file__).parent
MOST_ROWS = 12
"""Rows of a picture's frame that stand in a notebook without its widgets."""
NO_PICTURES = (
    "There are no pictures, since {} can't be imported; tables and timeline do without. Install it "
    "again and restart the kernel."
)
MIN_WIDTH, MAX_WIDTH = 320, 4000
Draw = "Callable[[str, int], Any]"


class Figure(anywidget.AnyWidget):
    """Shows what `draw(theme, width)` returns, a HoloViews object of that width in pixels.

    `redraw()` after the data behind it changed.
    """

    _esm = (HERE / "figure.js").read_text("utf-8")
    _css = ".wb-figure { width: 100%; min-width: 320px; overflow: hidden; }"
    version = t.Int(0).tag(sync=True)
    picked = t.Int(-1)
    """Row of the frame whose mark was clicked, in pictures that know it (a column `row`)."""
    height = t.Int(100).tag(sync=True)
    """Room kept free in pixels until the picture is there, so that nothing jumps."""

    def __init__(
        self,
        draw: Callable[[str, int], Any],
        *,
        height: int,
        name: str = "",
        twin: pl.DataFrame | None = None,
    ) -> None:
        super().__init__(height=height)
        self.draw, self.name, self.twin = draw, name, twin
        self.on_msg(self._on_message)

    @classmethod
    def of(cls, view: Callable[..., Any], frame: Any, **options: Any) -> Figure:
        """Show what a view of this package draws of a frame: `Figure.of(overlap.bars, frame)`.

        The picture follows the page's width and theme; `options` are the view's others.
        """

        def draw(theme: str, width: int) -> Any:
            return view(frame, theme=theme, width=width, **options)

        import holoviews as hv

        height = hv.Store.lookup_options("bokeh", draw("light", MIN_WIDTH), "plot").kwargs["height"]
        name = f"{view.__module__.rpartition('.')[2]}.{view.__name__}"
        return cls(draw, height=height, name=name, twin=frame)

    def __repr__(self) -> str:
        """Name the picture and nothing that changes between runs (notebook checks compare it)."""
        return f"Figure({self.name})"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Add the first rows of what is drawn, for a notebook that is read without its widgets."""
        out = super()._repr_mimebundle_(**kwargs)
        data, meta = out if isinstance(out, tuple) else (out or {}, {})
        if isinstance(self.twin, pl.DataFrame):
            table = text_table(self.twin.head(MOST_ROWS), width=100, longest=40)
            data |= {"text/plain": f"{self!r}\n{table}"}
        return data, meta

    def redraw(self) -> None:
        """Have every view ask for the picture again."""
        self.version += 1

    def item(self, theme: str, width: int) -> dict[str, Any]:
        """Return the picture as Bokeh's JSON item."""
        width = min(max(int(width), MIN_WIDTH), MAX_WIDTH)
        return item(self.draw(theme if theme in THEMES else "light", width))

    def _on_message(self, _: object, message: Mapping[str, Any], __: object = None) -> None:
        try:
            self._answer(message)
        except ImportError as error:
            said = NO_PICTURES.format(error.name or "HoloViews or Bokeh")
            self.send({"type": "missing", "said": said, "view": message.get("view")})

    def _answer(self, message: Mapping[str, Any]) -> None:
        if message.get("type") == "bokehjs":
            self.send({"type": "bokehjs"}, [bokehjs()])
        elif message.get("type") == "pick":
            self.picked = -1  # the same mark can be clicked again
            self.picked = int(message["row"])
        elif message.get("type") == "draw":
            item = self.item(str(message["theme"]), message["width"])
            self.send({"type": "item", "item": item} | {k: message.get(k) for k in ("view", "seq")})


def item(picture: Any) -> dict[str, Any]:
    """Return a HoloViews object as Bokeh's JSON item, the page shining through."""
    from bokeh.embed import json_item

    figure = rendered(picture)
    # a cell, a tab and a standalone page differ in their background
    figure.background_fill_color = figure.border_fill_color = None
    found: dict[str, Any] = json_item(figure)
    return found


def rendered(picture: Any) -> Any:
    """Return a HoloViews object as a Bokeh figure."""
    import holoviews as hv
    import holoviews.plotting.bokeh  # registers the backend

    figure = hv.render(picture, backend="bokeh")
    figure.toolbar.logo = None
    return figure


def bokehjs() -> bytes:
    """Return BokehJS as the installed bokeh carries it."""
    from bokeh.resources import Resources

    path = Resources(mode="server", components=["bokeh"]).base_dir / "js" / "bokeh.min.js"
    return bytes(path.read_bytes())


def themed(look: Theme, *, legend_below: bool = False) -> Any:
    """Return a HoloViews hook that gives a Bokeh figure the colours of the page.

    A legend stands in one line; with `legend_below` its entries stand below one another.
    """

    def apply(plot: Any, _: Any) -> None:
        figure = plot.state
        figure.background_fill_color = figure.border_fill_color = look.background
        figure.outline_line_color = None
        figure.title.text_color = look.text
        figure.toolbar.logo = None
        figure.toolbar_location = None
        for axis in figure.axis:
            axis.axis_label_text_color = axis.major_label_text_color = look.text
            axis.axis_line_color = axis.major_tick_line_color = look.muted
            axis.minor_tick_line_color = None
            axis.axis_label_text_font_style = "normal"
        for grid in (g for g in figure.grid if g.grid_line_color is not None):
            grid.grid_line_color, grid.grid_line_alpha = look.muted, 0.2
        for legend in figure.legend:
            legend.background_fill_alpha, legend.border_line_alpha = 0, 0
            legend.label_text_color = look.text
            legend.padding, legend.margin, legend.spacing = 2, 0, 18
            legend.orientation, legend.nrows, legend.ncols = "horizontal", 1, "auto"
            if legend_below:
                legend.orientation, legend.nrows, legend.ncols = "vertical", "auto", 1
                legend.spacing, legend.glyph_height, legend.label_height = 0, 14, 14

    return apply
