"""The plane of a roofline picture: two log axes, the lines of its roofs, and their names.

A table of roofs has `kind` (`peak` in GFLOP/s or `bandwidth` in GB/s), `label` and `value`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import holoviews as hv
import holoviews.plotting.bokeh
import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.views.theme import Theme

Range = tuple[float, float]
AXES = ["flops_per_byte", "gflops_per_s"]
GIGA = 1e9
MIN_SIZE, MAX_SIZE = 5.0, 42.0
"""Diameters in screen pixels of the point with the least and with the most time."""
MARGIN = (85, 75)
"""Screen pixels that axes, title and tools take of the width and the height."""
DRAWN = (pl.col("flops_per_byte") > 0) & (pl.col("achieved_flops_per_s") > 0)
"""Rows that have a place on the plane: those with FLOPs, bytes and time."""
REACHED = (pl.col("achieved_flops_per_s") / GIGA).alias("gflops_per_s")
SIZE = (
    (pl.col("time_ns") / pl.col("time_ns").max()).sqrt() * (MAX_SIZE - MIN_SIZE) + MIN_SIZE
).alias("size")
"""Diameter of a point: its area grows with its time."""
_TEXT = {"text_font_size": "9pt", "text_baseline": "bottom", "backend": "bokeh"}


def extents(shown: pl.DataFrame, roofs: pl.DataFrame) -> tuple[Range, Range]:
    """Return the extents: all points, the ridges where a bandwidth meets a peak, and some air."""
    peaks, slopes = (_values(roofs, kind) for kind in ("peak", "bandwidth"))
    across = [*shown["flops_per_byte"], *(p / s for p in peaks for s in slopes)]
    up = [*shown["gflops_per_s"], *peaks]
    return (min(across) / 5, max(across) * 4), (min(up) / 3, max(up) * 3)


def lines(roofs: pl.DataFrame, x: Range, y: Range, colours: Sequence[str]) -> list[hv.Curve]:
    """Draw each roof as far as it is one: slopes up to the highest peak, peaks from the ridge."""
    peaks, slopes = (_values(roofs, kind) for kind in ("peak", "bandwidth"))
    steepest, highest = max(slopes, default=0.0), max(peaks, default=y[1])
    drawn = []
    for (kind, value), colour in zip(
        roofs.select("kind", "value").iter_rows(), colours, strict=True
    ):
        flat = ((value / steepest if steepest else x[0], x[1]), (value, value))
        ends = flat if kind == "peak" else ((x[0], highest / value), (x[0] * value, highest))
        drawn.append(hv.Curve(ends, *AXES).opts(color=colour, line_width=1.5, backend="bokeh"))
    return drawn


def points(
    part: pl.DataFrame, look: Theme, *, label: str, colour: str, tooltips: list[Any], **options: Any
) -> hv.Points:
    """Draw the points of one colour; every other column is there for the texts under the mouse."""
    columns = {name: part[name].to_numpy() for name in part.columns}
    texts = [n for n in part.columns if n not in AXES]
    return hv.Points(columns, AXES, texts, label=label).opts(
        color=colour,
        size="size",
        line_color=look.background,
        line_width=0.5,
        hover_tooltips=tooltips,
        backend="bokeh",
        **{"alpha": 0.75, "tools": ["hover"]} | options,
    )


def labels(
    roofs: pl.DataFrame, x: Range, y: Range, look: Theme, *, width: int, height: int
) -> list[hv.Labels]:
    """Write each roof's name along it: bandwidths at the left end, peaks at the right end."""
    tilt = _tilt(x, y, width, height)
    ends = (("bandwidth", "left", x[0] * 1.15, tilt), ("peak", "right", x[1] / 1.15, 0.0))
    drawn = []
    for kind, align, at, angle in ends:
        roof = roofs.filter(pl.col("kind") == kind)
        heights = [v if kind == "peak" else v * at for v in roof["value"]]
        data = ([at] * roof.height, spread(heights, y), roof["label"].to_list())
        text = hv.Labels(data, AXES, "label")
        drawn.append(text.opts(text_align=align, text_color=look.text, angle=angle, **_TEXT))
    return drawn


def plane(x: Range, y: Range, look: Theme, width: int, height: int) -> dict[str, Any]:
    """Return the options of a picture on this plane."""
    return {
        "width": width,
        "height": height,
        "logx": True,
        "logy": True,
        "xlim": x,
        "ylim": y,
        "ylabel": "reached (GFLOP/s)",
        "show_grid": True,
        "legend_position": "bottom_right",
        "active_tools": ["pan"],
        "hooks": [_themed(look)],
        "backend": "bokeh",
    }


def spread(heights: Sequence[float], y: Range, rows: int = 24) -> list[float]:
    """Move ascending heights up, as far as texts need to stand apart on a log axis of `rows`.

    On 1 to 10^24 with 24 rows, 1, 2 and 1000 become 1, 10 and 1000.
    """
    step = np.log10(y[1] / y[0]) / rows
    out: list[float] = []
    for height in heights:
        logged = float(np.log10(height))
        out.append(logged if not out else max(logged, out[-1] + step))
    return [10**v for v in out]


def _values(roofs: pl.DataFrame, kind: str) -> list[float]:
    found: list[float] = roofs.filter(pl.col("kind") == kind)["value"].to_list()
    return found


def _tilt(x: Range, y: Range, width: int, height: int) -> float:
    """Return the angle on the screen, in degrees, of a bandwidth's line: slope 1 in decades."""
    across = (width - MARGIN[0]) / np.log10(x[1] / x[0])
    up = (height - MARGIN[1]) / np.log10(y[1] / y[0])
    return float(np.degrees(np.arctan2(up, across)))


def _themed(look: Theme) -> Any:
    """Return a hook that colours page, axes, grid and legend of the Bokeh figure."""

    def apply(plot: Any, _: Any) -> None:
        figure = plot.state
        figure.background_fill_color = look.background
        figure.border_fill_color = look.background
        figure.outline_line_color = look.muted
        figure.title.text_color = look.text
        for axis in figure.axis:
            axis.axis_label_text_color = axis.major_label_text_color = look.text
            axis.axis_line_color = axis.major_tick_line_color = look.muted
            axis.minor_tick_line_color = look.muted
        for grid in (g for g in figure.grid if g.grid_line_color is not None):
            grid.grid_line_color, grid.grid_line_alpha = look.muted, 0.25
        for legend in figure.legend:
            legend.background_fill_color, legend.background_fill_alpha = look.background, 0.8
            legend.label_text_color = look.text
            legend.click_policy = "hide"

    return apply
