"""The timeline as a HoloViews picture, on the same engine: to compose, and to keep in a page.

`timeline` draws one stretch of time; with `live` it follows the axis, so that a zoom refines it.
The widget (`timeline.Timeline`) is what to work with; this stands beside curves and under spans,
with `+` and `*`. The x axis is ms of the source's time, so that `hv.VSpan(start_ns / 1e6, …)` lies
where it belongs. The frames of `timeline_frames` are what is drawn.

In a notebook `Figure(lambda theme, width: timeline(trace, theme=theme, width=width), height=400)`
shows one without a network. HoloViews' own display, which a live one needs, loads its code inline
(`hv.extension("bokeh", inline=True)`) and asks its makers' server for style sheets, in vain offline
and without harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import holoviews as hv
import holoviews.plotting.bokeh
import numpy as np
import polars as pl

from workbench import units
from workbench.views import replies
from workbench.views.breakdown import sentence
from workbench.views.figure import themed
from workbench.views.lane_table import EMPTY_TEXT
from workbench.views.overview import Overview, pixels
from workbench.views.theme import THEMES, Theme
from workbench.views.timeline_frames import BOX, Stretch, boxes, stretch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from workbench.trace.core import Source
    from workbench.views.lanes import Lanes

ROW_PX, GUTTER_PX, RIGHT_PX = 16, 210, 14
CHARACTER_PX = 6
LEAST_CHARACTERS = 3
LABEL_CHARACTERS = 32
BRIGHT = 140
"""Of 255, from where on black reads better on a colour than white."""
LOD_TIMEOUT_MS = 20
"""Bokeh tells of a zoom after so long without another; by default, half a second."""


def timeline(
    source: Source | Lanes,
    *,
    window: Sequence[int] | None = None,
    lanes: Iterable[str] | None = None,
    theme: str = "light",
    width: int = 900,
    live: bool = False,
) -> hv.Overlay | hv.DynamicMap:
    """Draw a trace, a job or lanes: events with their names, or how busy each pixel is.

    `window` is [start_ns, end_ns] in the source's time, the whole without; `lanes` are labels, all
    without. Up to 2,000 visible events are boxes; of more, each pixel is filled as high as it is
    busy, in the colour of what takes most of it. `live` gives a DynamicMap that draws anew for the
    stretch that a zoom leaves. Raises UsageError on an unknown lane and a window without a length.
    """
    look = THEMES[theme]
    whole = stretch(source, window=window, lanes=lanes)
    if not len(whole.rows):
        return sentence(EMPTY_TEXT, look, width)
    plot = width - GUTTER_PX - RIGHT_PX
    options = _options(whole, plot) | {"hooks": [themed(look), _framed, *([_at_once] * live)]}

    def draw(x_range: tuple[float, float] | None = None) -> hv.Overlay:
        return _drawn(whole if x_range is None else _zoomed(whole, x_range), look, plot, options)

    return hv.DynamicMap(draw, streams=[hv.streams.RangeX()]) if live else draw()


def _zoomed(whole: Stretch, x_range: tuple[float, float]) -> Stretch:
    start, end = (x * units.NS_PER_MS for x in x_range)
    return whole._replace(start_ns=start, end_ns=max(end, start + 1))


def _drawn(seen: Stretch, look: Theme, width: int, options: Mapping[str, Any]) -> hv.Overlay:
    """Return the same three elements at any zoom, as a DynamicMap must.

    The first carries the options of the picture, as an overlay's own are lost when it meets a `*`;
    its hooks the overlay has too, which a DynamicMap's updates would undo otherwise.
    """
    found = boxes(seen)
    image = _image(seen, look, width, bare=found is not None).opts(**options)
    if found is None:
        found = pl.DataFrame(schema=BOX)
    parts = [image, _rectangles(found, seen, look), _names(found, seen, look, width)]
    return hv.Overlay(parts).opts(hooks=options["hooks"], backend="bokeh")


def _image(seen: Stretch, look: Theme, width: int, *, bare: bool) -> hv.RGB:
    """Fill the rows as high as they are busy, or leave them bare to lay boxes on."""
    window, rows = seen.window, seen.rows - seen.rows[0]
    if bare:
        view = Overview(*(np.zeros((len(rows), 1), np.uint8) for _ in range(2)))
    else:
        bins = seen.lanes.engine.bins(window, width)
        view = Overview(replies.shade(bins, window)[rows], replies.tint(seen.lanes, bins)[rows])
    bounds = (seen.start_ns / units.NS_PER_MS, 0, seen.end_ns / units.NS_PER_MS, len(rows))
    return hv.RGB(pixels(view, look), bounds=bounds, kdims=_axes(seen))


def _rectangles(found: pl.DataFrame, seen: Stretch, look: Theme) -> hv.Rectangles:
    axes = [*_axes(seen), "end", "foot"]
    top = _tops(found, seen)
    ends = (found["start_ns"], found["start_ns"] + found["dur_ns"])
    left, right = (t.to_numpy() / units.NS_PER_MS for t in ends)
    columns: dict[str, Any] = dict(zip(axes, (left, top - 0.9, right, top - 0.05), strict=True))
    texts = {
        "event": [replies.clip(n) for n in found["name"]],
        "lane": found["lane"].to_list(),
        "duration": [units.duration(d) for d in found["dur_ns"]],
        "step": ["" if s is None else str(s) for s in found["step"]],
    }
    columns |= texts | {"colour": found["colour"].to_list()}
    return hv.Rectangles(columns, axes, [*texts, "colour"]).opts(
        color="colour",
        line_color="colour",  # an instant has no width: its outline is what is seen of it
        line_width=1,
        tools=["hover"],
        hover_tooltips=[(n, f"@{n}") for n in texts],
        backend="bokeh",
        **_mapped(look.palette),
    )


def _names(found: pl.DataFrame, seen: Stretch, look: Theme, width: int) -> hv.Labels:
    """Write names into the boxes that have room, at the middle of what is seen of each."""
    scale = width / (seen.end_ns - seen.start_ns)
    left = np.maximum(found["start_ns"].to_numpy(), seen.start_ns)
    right = np.minimum((found["start_ns"] + found["dur_ns"]).to_numpy(), seen.end_ns)
    room = ((right - left) * scale / CHARACTER_PX).astype(np.int64) - 1
    wide = room >= LEAST_CHARACTERS
    names = zip(found["name"].to_numpy()[wide], room[wide].tolist(), strict=True)
    texts = [n if len(n) <= k else f"{n[: k - 1]}…" for n, k in names]
    middle = (left + right)[wide] / (2 * units.NS_PER_MS)
    bright = np.array([_is_bright(c) for c in look.palette], np.int64)
    ink = bright[found["colour"].to_numpy()[wide]]
    data = (middle, _tops(found, seen)[wide] - 0.5, texts, ink)
    return hv.Labels(data, _axes(seen), ["text", "ink"]).opts(
        text_font_size="8pt", text_color="ink", backend="bokeh", **_mapped(("#ffffff", "#000000"))
    )


def _axes(seen: Stretch) -> list[str]:
    """Name the axes: pictures side by side share those of one name, so rows have their own."""
    return ["ms", f"row of {len(seen.rows)}"]


def _mapped(colours: Sequence[str]) -> dict[str, Any]:
    """Return options by which a column of positions stands for colours, also an empty one."""
    return {"cmap": list(colours), "clim": (-0.5, len(colours) - 0.5)}


def _is_bright(colour: str) -> bool:
    """Judge by the luma of ITU-R BT.601."""
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return 299 * red + 587 * green + 114 * blue > BRIGHT * 1000


def _tops(found: pl.DataFrame, seen: Stretch) -> NDArray[np.float64]:
    """Return the upper edge of each event's row: the first row stands at the top."""
    return len(seen.rows) - found["row"].to_numpy().astype(np.float64)


def _options(whole: Stretch, width: int) -> dict[str, Any]:
    rows = len(whole.rows)
    return {
        "frame_width": width,
        "frame_height": rows * ROW_PX,
        "xlim": (whole.start_ns / units.NS_PER_MS, whole.end_ns / units.NS_PER_MS),
        "ylim": (0, rows),
        "yticks": _ticks(whole),
        "xlabel": "ms",
        "ylabel": "",
        "show_grid": False,
        "active_tools": ["xwheel_zoom"],
        "default_tools": ["xpan", "xwheel_zoom", "reset"],
        "lod": {"timeout": LOD_TIMEOUT_MS},
        "backend": "bokeh",
    }


def _ticks(whole: Stretch) -> list[tuple[float, str]]:
    """Return the place and label of each lane, beside its first row."""
    rows, labels = len(whole.rows), whole.labels
    lane = whole.lanes.row_lane[whole.rows]
    first = np.flatnonzero(np.diff(lane, prepend=-1)).tolist()
    return [(rows - r - 0.5, _shortened(labels[r])) for r in first]


def _shortened(label: str) -> str:
    return label if len(label) <= LABEL_CHARACTERS else f"{label[: LABEL_CHARACTERS - 1]}…"


def _framed(plot: Any, _: Any) -> None:
    """Keep the plot's edges where they are in every timeline of a width."""
    plot.state.min_border_left, plot.state.min_border_right = GUTTER_PX, RIGHT_PX


def _at_once(plot: Any, _: Any) -> None:
    """Draw anew at once after a zoom: HoloViews would wait for more of them."""
    for callback in plot.callbacks:
        callback.debounce = None
