"""The hierarchical roofline of counted kernels: a point for each memory level, on two log axes.

Draws the frame of `analysis.counter_roofline` and nothing else, so the frame is its text form.
Points of one kernel stand at one height, each at its FLOPs per byte of that level; the line between
them is the reuse in the caches. Colour is the level, area the share of time. A level's roof has the
colour of its points.
"""

from __future__ import annotations

from typing import Any

import holoviews as hv
import polars as pl

from workbench import units
from workbench.costs.counted import LEVELS
from workbench.views import log_plane
from workbench.views.breakdown import sentence
from workbench.views.log_plane import AXES, DRAWN, GIGA, REACHED, SIZE
from workbench.views.tables import place
from workbench.views.theme import THEMES, Theme

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


def points(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that can be drawn, with size in pixels and texts for hover.

    Left out: rows without FLOPs, bytes or time.
    """
    drawn = frame.filter(DRAWN)
    texts = pl.DataFrame([_texts(row) for row in drawn.iter_rows(named=True)], schema=_TEXTS)
    return drawn.select("flops_per_byte", REACHED, SIZE, "level").hstack(texts)


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
    return pl.DataFrame(rows, schema=schema, orient="row").sort("kind", "value", "label")


def plot(
    frame: pl.DataFrame, *, theme: str = "light", width: int = 900, height: int = 520
) -> hv.Overlay:
    """Draw a frame of `counter_roofline`; a sentence stands in for a picture of nothing."""
    look = THEMES[theme]
    shown = points(frame)
    if shown.is_empty():
        return sentence(NOTHING, look, width)
    lines = roofs(frame)
    x, y = log_plane.extents(shown, lines)
    colours = [look.text if n is None else look.families[FAMILY[n]] for n in lines["level"]]
    levels = [shown.filter(pl.col("level") == level) for level in LEVELS]
    elements = [
        *_reuse(shown, look),
        *log_plane.lines(lines, x, y, colours),
        *(_points(part, look) for part in levels if part.height),
        *log_plane.labels(lines, x, y, look, width=width, height=height),
    ]
    return hv.Overlay(elements).opts(
        title=caption(frame),
        xlabel="FLOP per byte that the level moved",
        **log_plane.plane(x, y, look, width, height),
    )


def caption(frame: pl.DataFrame) -> str:
    """Say how many of the counted kernels are drawn, and where the roofs come from."""
    keys = ["rank", "device", "kernel", "blocks", "threads_per_block", "operator", "shapes"]
    drawn, every = (f.select(keys).n_unique() for f in (frame.filter(DRAWN), frame))
    sources = frame["roof_source"].drop_nulls().unique(maintain_order=True)
    roofs_of = f"; roofs: {', '.join(sources)}" if len(sources) else "; roofs not known"
    return f"Counted kernels by memory level: {drawn} of {every}{roofs_of}"


def _reuse(shown: pl.DataFrame, look: Theme) -> list[hv.Curve]:
    """Join the points of one kernel, from its lowest to its highest intensity."""
    keys = ["kernel", "operator", "place", "gflops_per_s"]
    ends = shown.group_by(keys, maintain_order=True).agg(
        low=pl.col("flops_per_byte").min(), high=pl.col("flops_per_byte").max()
    )
    options = {"color": look.muted, "line_width": 1, "line_dash": "dotted", "backend": "bokeh"}
    return [
        hv.Curve(((low, high), (up, up)), *AXES).opts(**options)
        for *_, up, low, high in ends.filter(pl.col("low") < pl.col("high")).iter_rows()
    ]


def _points(part: pl.DataFrame, look: Theme) -> hv.Points:
    level = part["level"][0]
    colour = look.families[FAMILY[level]]
    return log_plane.points(part, look, label=NAMES[level], colour=colour, tooltips=TOOLTIPS)
