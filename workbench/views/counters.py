"""The hierarchical roofline of counted kernels: a point for each memory level, on two log axes.

Draws the frame of `analysis.counter_roofline` and nothing else, so the frame is its text form.
Points of one kernel stand at one height, each at its FLOPs per byte of that level; the line between
them is the reuse in the caches. Colour is the level, area the share of time. A level's roof has the
colour of its points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import holoviews as hv
import holoviews.plotting.bokeh
import numpy as np
import polars as pl

from workbench import units
from workbench.costs.counted import LEVELS
from workbench.views.breakdown import sentence
from workbench.views.figure import themed
from workbench.views.roofline import MARGIN, MAX_SIZE, MIN_SIZE, spread
from workbench.views.tables import place
from workbench.views.theme import THEMES, Theme

if TYPE_CHECKING:
    from collections.abc import Sequence

GIGA = 1e9
NAMES = {"l1": "L1", "l2": "L2", "memory": "memory"}
FAMILY = {"l1": 5, "l2": 4, "memory": 0}
"""The family colour of each level: sand, violet, blue; none that means a kind of work."""
NOTHING = "No counted kernel did floating-point work; the table has its bytes and bandwidths."
TOOLTIPS = [
    ("kernel", "@kernel"),
    ("operator", "@operator"),
    ("device", "@place"),
    ("level", "@name: @moved, @bandwidth"),
    ("time", "@time (@launches launches)"),
    ("reached", "@reached at @intensity"),
    ("of its roof", "@ratio"),
]
_AXES = ["flops_per_byte", "gflops_per_s"]
_TEXT = {"text_font_size": "9pt", "text_baseline": "bottom", "backend": "bokeh"}
Range = tuple[float, float]


def points(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that can be drawn, with size in pixels and texts for hover.

    Left out: rows without FLOPs, bytes or time.
    """
    drawn = frame.filter((pl.col("flops_per_byte") > 0) & (pl.col("achieved_flops_per_s") > 0))
    grown = (pl.col("time_ns") / pl.col("time_ns").max()).sqrt() * (MAX_SIZE - MIN_SIZE) + MIN_SIZE
    texts = pl.DataFrame([_texts(row) for row in drawn.iter_rows(named=True)], schema=_TEXTS)
    return drawn.select(
        "flops_per_byte",
        (pl.col("achieved_flops_per_s") / GIGA).alias("gflops_per_s"),
        grown.alias("size"),
        "level",
    ).hstack(texts)


_TEXTS = pl.Schema(
    dict.fromkeys(
        (
            "kernel", "operator", "place", "name", "moved", "bandwidth", "time", "launches",
            "reached", "intensity", "ratio",
        ),
        pl.String(),
    )
)  # fmt: skip


def _texts(row: dict[str, Any]) -> dict[str, str]:
    ratio = units.share(row["ratio_to_roof"], 1) if row["ratio_to_roof"] else row["reason"]
    return {
        "kernel": row["kernel"],
        "operator": row["operator"] or "-",
        "place": place(row["rank"], row["device"]),
        "name": NAMES[row["level"]],
        "moved": units.decimal(row["bytes"], "B"),
        "bandwidth": units.decimal(row["achieved_bytes_per_s"], "B/s"),
        "time": units.duration(row["time_ns"]),
        "launches": str(row["launches"]),
        "reached": units.decimal(row["achieved_flops_per_s"], "FLOP/s"),
        "intensity": f"{row['flops_per_byte']:.4g} FLOP/byte",
        "ratio": ratio or "-",
    }


def roofs(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the distinct roofs that a frame names: `kind level label value`, ascending.

    `kind` is peak (`value` in GFLOP/s) or bandwidth (GB/s, decimal), which alone has a level.
    """
    peaks = frame.select("precision", "unit", value="peak_flops_per_s").drop_nulls().unique()
    slopes = frame.select("level", value="level_bytes_per_s").drop_nulls().unique()
    rows = [("peak", None, f"{p} {u}: {units.decimal(v, 'FLOP/s')}", v / GIGA)
            for p, u, v in peaks.iter_rows()]  # fmt: skip
    rows += [("bandwidth", n, f"{NAMES[n]}: {units.decimal(v, 'B/s')}", v / GIGA)
             for n, v in slopes.iter_rows()]  # fmt: skip
    schema = {"kind": pl.String(), "level": pl.String(), "label": pl.String(),
              "value": pl.Float64()}  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row").sort("kind", "value")


def plot(
    frame: pl.DataFrame, *, theme: str = "light", width: int = 900, height: int = 520
) -> hv.Overlay:
    """Draw a frame of `counter_roofline`; a sentence stands in for a picture of nothing."""
    look = THEMES[theme]
    shown = points(frame)
    if shown.is_empty():
        return sentence(NOTHING, look, width)
    lines = roofs(frame)
    x, y = _range(shown, lines)
    levels = [shown.filter(pl.col("level") == level) for level in LEVELS]
    elements = [
        *_reuse(shown, look),
        *_lines(lines, x, y, look),
        *(_points(part, look) for part in levels if part.height),
        *_labels(lines, x, y, look, _tilt(x, y, width, height)),
    ]
    return hv.Overlay(elements).opts(
        width=width,
        height=height,
        title=caption(frame),
        logx=True,
        logy=True,
        xlim=x,
        ylim=y,
        xlabel="FLOP per byte that the level moved",
        ylabel="reached (GFLOP/s)",
        show_grid=True,
        legend_position="bottom_right",
        active_tools=["pan"],
        hooks=[themed(look)],
        backend="bokeh",
    )


def caption(frame: pl.DataFrame) -> str:
    """Say how many of the counted kernels are drawn, and where the roofs come from."""
    keys = ["rank", "device", "kernel", "blocks", "threads_per_block", "operator", "shapes"]
    can = (pl.col("flops_per_byte") > 0) & (pl.col("achieved_flops_per_s") > 0)
    drawn, every = (f.select(keys).n_unique() for f in (frame.filter(can), frame))
    sources = frame["roof_source"].drop_nulls().unique(maintain_order=True)
    roofs_of = f"; roofs: {', '.join(sources)}" if len(sources) else "; roofs not known"
    return f"Counted kernels by memory level: {drawn} of {every}{roofs_of}"


def _range(shown: pl.DataFrame, lines: pl.DataFrame) -> tuple[Range, Range]:
    """Return the extents: all points, the ridges where a bandwidth meets a peak, and some air."""
    peaks, slopes = (_values(lines, kind) for kind in ("peak", "bandwidth"))
    across = [*shown["flops_per_byte"], *(p / s for p in peaks for s in slopes)]
    up = [*shown["gflops_per_s"], *peaks]
    return (min(across) / 5, max(across) * 4), (min(up) / 3, max(up) * 3)


def _values(lines: pl.DataFrame, kind: str) -> list[float]:
    found: list[float] = lines.filter(pl.col("kind") == kind)["value"].to_list()
    return found


def _lines(lines: pl.DataFrame, x: Range, y: Range, look: Theme) -> list[hv.Curve]:
    peaks, slopes = (_values(lines, kind) for kind in ("peak", "bandwidth"))
    steepest, highest = max(slopes, default=0.0), max(peaks, default=y[1])
    drawn = []
    for kind, level, _, value in lines.iter_rows():
        flat = ((value / steepest if steepest else x[0], x[1]), (value, value))
        ends = flat if kind == "peak" else ((x[0], highest / value), (x[0] * value, highest))
        colour = look.text if level is None else look.families[FAMILY[level]]
        drawn.append(hv.Curve(ends, *_AXES).opts(color=colour, line_width=1.5, backend="bokeh"))
    return drawn


def _reuse(shown: pl.DataFrame, look: Theme) -> list[hv.Curve]:
    """Join the points of one kernel, from its lowest to its highest intensity."""
    keys = ["kernel", "operator", "place", "gflops_per_s"]
    ends = shown.group_by(keys, maintain_order=True).agg(
        low=pl.col("flops_per_byte").min(), high=pl.col("flops_per_byte").max()
    )
    options = {"color": look.muted, "line_width": 1, "line_dash": "dotted", "backend": "bokeh"}
    return [
        hv.Curve(((low, high), (up, up)), *_AXES).opts(**options)
        for *_, up, low, high in ends.filter(pl.col("low") < pl.col("high")).iter_rows()
    ]


def _points(part: pl.DataFrame, look: Theme) -> hv.Points:
    level = part["level"][0]
    columns = {name: part[name].to_numpy() for name in part.columns}
    texts = [n for n in part.columns if n not in _AXES]
    return hv.Points(columns, _AXES, texts, label=NAMES[level]).opts(
        color=look.families[FAMILY[level]],
        size="size",
        alpha=0.75,
        line_color=look.background,
        line_width=0.5,
        tools=["hover"],
        hover_tooltips=TOOLTIPS,
        backend="bokeh",
    )


def _labels(lines: pl.DataFrame, x: Range, y: Range, look: Theme, tilt: float) -> list[hv.Labels]:
    """Write each roof's name along it: bandwidths at the left end, peaks at the right end."""
    ends = (("bandwidth", "left", x[0] * 1.15, tilt), ("peak", "right", x[1] / 1.15, 0.0))
    return [
        hv.Labels(
            ([at] * roof.height, _heights(roof, at, y), roof["label"].to_list()), _AXES, "label"
        ).opts(text_align=align, text_color=look.text, angle=angle, **_TEXT)
        for kind, align, at, angle in ends
        if (roof := lines.filter(pl.col("kind") == kind)).height
    ]


def _heights(roof: pl.DataFrame, at: float, y: Range) -> Sequence[float]:
    return spread([v if k == "peak" else v * at for k, _, _, v in roof.iter_rows()], y)


def _tilt(x: Range, y: Range, width: int, height: int) -> float:
    """Return the angle on the screen, in degrees, of a bandwidth's line: slope 1 in decades."""
    across = (width - MARGIN[0]) / np.log10(x[1] / x[0])
    up = (height - MARGIN[1]) / np.log10(y[1] / y[0])
    return float(np.degrees(np.arctan2(up, across)))
