"""A tree of times as an icicle: what is inside something hangs below it, as wide as it takes.

`icicle` draws a frame of `analysis.modules`, or any with rows in depth-first order, a `depth`, a
name and a time; `cells` is the frame that is drawn.
"""

from __future__ import annotations

import holoviews as hv
import holoviews.plotting.bokeh
import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import units
from workbench.views.breakdown import sentence
from workbench.views.figure import themed
from workbench.views.tables import place
from workbench.views.theme import THEMES, Theme

NARROWEST = 0.002
"""Cells of a smaller share of the whole are not drawn; the title says how many."""
DEEPEST = 16
ROW_HEIGHT, FRAME_HEIGHT = 26, 60
LETTER = 6.2
"""Width in pixels of a letter of a label."""
NO_MODULE = "in no module"
NOTHING = "No time is tied to any part of this tree."
TOOLTIPS = [("", "@name"), ("inside", "@path"), ("time", "@time (@share of the whole)")]
_SCHEMA: dict[str, pl.DataType] = {
    "x0": pl.Float64(),
    "x1": pl.Float64(),
    "depth": pl.Int64(),
    "name": pl.String(),
    "path": pl.String(),
    "time": pl.String(),
    "share": pl.String(),
}


def cells(frame: pl.DataFrame, name: str = "name", time: str = "total_device_ns") -> pl.DataFrame:
    """Return `x0 x1 depth name path time share`, in the frame's order.

    `x0` and `x1` are shares of the sum of the roots. Children stand side by side from the left of
    their parent; where they run at the same time, and add up to more than it, all are narrowed
    alike: their times in the texts are exact, their widths then are not.
    """
    depth = frame["depth"].cast(pl.Int64).to_numpy()
    value = frame[time].fill_null(0).to_numpy().astype(np.float64)
    names = frame[name].cast(pl.String).fill_null("-").to_list()
    parent = _parents(depth)
    x0, x1 = _spans(parent, value)
    whole = value[parent < 0].sum()
    paths: list[str] = []
    for up in parent:
        paths.append("" if up < 0 else f"{paths[up]} / {names[up]}".removeprefix(" / "))
    texts = {
        "name": names,
        "path": paths,
        "time": [units.duration(v) for v in value],
        "share": [units.share(v, whole) for v in value],
    }
    return pl.DataFrame({"x0": x0, "x1": x1, "depth": depth, **texts}, schema=_SCHEMA)


def _parents(depth: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row of each row's parent, -1 for a root: the last row before that is higher."""
    parent = np.full(len(depth), -1)
    above: list[int] = []
    for row, d in enumerate(depth):
        del above[d:]
        parent[row] = above[-1] if above else -1
        above.append(row)
    return parent


def _spans(
    parent: NDArray[np.int64], value: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where each row begins and ends, as shares of the whole."""
    inner = np.zeros(len(value) + 1)
    np.add.at(inner, parent, value)  # the roots add to the last place
    room = np.append(np.maximum(value, inner[:-1]), inner[-1])
    scale, begin = np.zeros(len(room)), np.zeros(len(room))
    scale[-1] = 1 / room[-1] if room[-1] else 0
    x0, width = np.zeros(len(value)), np.zeros(len(value))
    for row, up in enumerate(parent):
        x0[row], width[row] = begin[up], value[row] * scale[up]
        begin[up] += width[row]
        begin[row] = x0[row]
        scale[row] = width[row] / room[row] if room[row] else 0
    return x0, x0 + width


def icicle(
    frame: pl.DataFrame,
    name: str = "name",
    time: str = "total_device_ns",
    *,
    title: str = "",
    theme: str = "light",
    width: int = 900,
) -> hv.Overlay:
    """Draw the tree of a frame, roots on top, names where they fit."""
    look = THEMES[theme]
    every = cells(frame, name, time)
    wide = (pl.col("x1") - pl.col("x0") >= NARROWEST) & (pl.col("depth") < DEEPEST)
    drawn = every.filter(wide)
    if drawn.is_empty():
        return sentence(NOTHING, look, width)
    left = every.filter(pl.col("x1") > pl.col("x0")).height - drawn.height
    more = f" ({left} too narrow or deep to draw)" if left else ""
    rows = int(drawn["depth"].max()) + 1  # type: ignore[arg-type]
    return hv.Overlay([_boxes(drawn, look), _labels(drawn, look, width)]).opts(
        width=width,
        height=FRAME_HEIGHT + ROW_HEIGHT * rows,
        title=title + more,
        xlim=(0, 1),
        ylim=(-rows, 0),
        xaxis=None,
        yaxis=None,
        show_grid=False,
        fontsize={"title": "10pt"},
        default_tools=[],
        hooks=[themed(look)],
        backend="bokeh",
    )


def modules(frame: pl.DataFrame, *, theme: str = "light", width: int = 900) -> hv.Overlay:
    """Draw the first rank of a frame of `analysis.modules` by device time."""
    first = frame.filter(pl.col("rank").eq_missing(pl.col("rank").first()))
    several = frame["rank"].n_unique() > 1
    title = "device time by module" + (f", rank {first['rank'][0]}" if several else "")
    named = first.with_columns(pl.col("name").fill_null(NO_MODULE))
    return icicle(named, title=title, theme=theme, width=width)


def phases(frame: pl.DataFrame, *, theme: str = "light", width: int = 900) -> hv.Overlay:
    """Draw the first (rank, device) of a frame of `analysis.phases` by the time it was busy."""
    keys = ("rank", "device")
    first = frame.filter(pl.all_horizontal(pl.col(k).eq_missing(pl.col(k).first()) for k in keys))
    several = frame.select(keys).n_unique() > 1
    title = "device time by phase" + (f", {place(*first.row(0)[:2])}" if several else "")
    flat = first.with_columns(pl.col("phase").fill_null("unknown"), depth=pl.lit(0))
    return icicle(flat, "phase", "busy_ns", title=title, theme=theme, width=width)


def _boxes(drawn: pl.DataFrame, look: Theme) -> hv.Rectangles:
    columns = {n: drawn[n].to_list() for n in drawn.columns}
    columns["top"] = [-d for d in columns["depth"]]
    columns["bottom"] = [-d - 1 for d in columns["depth"]]
    columns["colour"] = [look.family(n) for n in columns["name"]]
    texts = ["name", "path", "time", "share", "colour"]
    return hv.Rectangles(columns, ["x0", "bottom", "x1", "top"], texts).opts(
        color="colour",
        alpha=0.65,
        line_color=look.background,
        line_width=1,
        tools=["hover"],
        default_tools=[],
        hover_tooltips=TOOLTIPS,
        backend="bokeh",
    )


def _labels(drawn: pl.DataFrame, look: Theme, width: int) -> hv.Labels:
    """Write names, cut where a cell is too narrow for all of it."""
    x, y, text = [], [], []
    for row in drawn.iter_rows(named=True):
        letters = int((row["x1"] - row["x0"]) * width / LETTER) - 2
        label = f"{row['name']}  {row['time']}"
        label = label if len(label) <= letters else row["name"]
        if letters < 3:  # noqa: PLR2004 - a letter and an ellipsis say nothing
            continue
        x.append((row["x0"] + row["x1"]) / 2)
        y.append(-row["depth"] - 0.5)
        text.append(label if len(label) <= letters else label[: letters - 1] + "…")
    return hv.Labels((x, y, text), ["x", "y"], "text").opts(
        text_color=look.text, text_font_size="8.5pt", default_tools=[], backend="bokeh"
    )
