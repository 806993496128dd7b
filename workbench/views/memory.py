"""Allocated memory over time, stacked by what holds it, with its peak and the steps.

`plot` draws a frame of `analysis.memory_timeline`; `layers` is what is drawn and `caption` what is
said, so they are its text form. Long recordings are drawn from a frame made with `points`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import holoviews as hv
import holoviews.plotting.bokeh
import numpy as np
import polars as pl

from workbench import units
from workbench.analysis.memory_timeline import EARLIER, OUTSIDE, SINCE
from workbench.views.breakdown import sentence
from workbench.views.figure import themed
from workbench.views.tables import BYTE_UNITS, place
from workbench.views.theme import THEMES, Theme

if TYPE_CHECKING:
    from workbench.intervals import Times

WIDE_ENOUGH = 800
"""Points that fill a picture: ask `memory_timeline` for so many."""
HEIGHT = 320
HEADROOM = 1.14
"""Room above the highest value for the step numbers."""
FAR = 3
"""Reserved memory beyond so many times the peak is said, not drawn: it would flatten the rest."""
ALLOCATED = "allocated"
UNSAID = "device not recorded"
NOTHING = "No memory events are recorded in this window."
STACK = (
    EARLIER, "parameter", "optimizer_state", "optimizer", "input", "data", "gradient", "backward",
    "activation", "forward", "recomputation", "communication", "autograd_detail", "temporary",
    "other", "unknown", OUTSIDE, SINCE, ALLOCATED,
)  # fmt: skip
"""From the bottom: what stays long first, so that it doesn't move what lies on it."""
_FAMILY = {
    "parameter": 0, ALLOCATED: 0, SINCE: 0, "activation": 1, "forward": 1, "gradient": 2,
    "backward": 2, "recomputation": 3, "optimizer_state": 4, "optimizer": 4, "input": 5, "data": 5,
    "temporary": 7, "autograd_detail": 8,
}  # fmt: skip
_CLASS = {EARLIER: "idle", "communication": "communication"}
TOOLTIPS = [("", "@size at @time"), ("reserved", "@reserved"), ("step", "@step"),
            ("changed by", "@op"), ("running", "@running")]  # fmt: skip


def layers(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the stack of the first (rank, device) of a frame: `label ms lower upper`, in bytes.

    A row for each moment and category; a layer keeps its height until its next row. Without totals
    the only layer is what came since the begin of the window.
    """
    moments = _moments(frame)
    if moments.is_empty():
        return pl.DataFrame(schema=_LAYERS)
    known = moments["held_bytes"].null_count() == 0
    size = pl.col("held_bytes") if known else pl.col("above_start_bytes")
    label = pl.col("category").fill_null(ALLOCATED)
    rank = label.replace_strict(list(STACK), range(len(STACK)), default=len(STACK))
    stacked = (
        moments.select("moment", "ms", label=label, size=size, rank=rank)
        .sort("moment", "rank", "label")
        .with_columns(upper=pl.col("size").cum_sum().over("moment"))
    )
    return stacked.select("label", "ms", lower=pl.col("upper") - pl.col("size"), upper="upper")


def caption(frame: pl.DataFrame) -> str:
    """Say the peak of the first (rank, device) of a frame: how much, when, and who reached it."""
    moments = _moments(frame)
    if moments.is_empty():
        return NOTHING
    level = _level(moments)
    row = moments.row(level.arg_max() or 0, named=True)
    unsaid = row["device"] is None and row["place"] is None
    where = UNSAID if unsaid else place(row["rank"], row["device"])
    size = units.decimal(_largest(level), "B")
    above = "" if row["allocated_bytes"] is not None else " above the start"
    reserved = row["reserved_bytes"]
    of = f" of {units.decimal(reserved, 'B')} reserved" if reserved is not None else ""
    step = None if row["step"] is None else f"step {row['step']}"
    who = ", ".join(str(x) for x in (step, row["phase"], row["op"]) if x is not None)
    return f"{where}: peak {size}{above}{of}" + (f" in {who}" if who else "")


def plot(
    frame: pl.DataFrame, *, theme: str = "light", width: int = 900, height: int = HEIGHT
) -> hv.Overlay:
    """Draw the first (rank, device) of a frame of `memory_timeline`: GPUs stand before the host."""
    look = THEMES[theme]
    drawn, moments = layers(frame), _moments(frame)
    if drawn.is_empty():
        return sentence(NOTHING, look, width)
    peak = _largest(drawn["upper"])
    reserved = _reserved(moments, peak)
    scale, unit = _unit(peak)
    top = peak if reserved is None else max(peak, _largest(reserved))
    bottom, ceiling = min(0.0, drawn["lower"].to_numpy().min() / scale), HEADROOM * top / scale or 1
    start, end = moments["ms"][0], _until(moments["ms"])
    elements = [
        *_steps(moments, end, ceiling, look),
        *_areas(drawn, end, scale, look),
        *([] if reserved is None else [_line(moments["ms"], reserved / scale, end, look)]),
        *_points(moments, scale, look),
    ]
    return hv.Overlay(elements).opts(
        width=width,
        height=height,
        title=caption(frame),
        fontsize={"title": "10pt"},
        xlim=(start, end),
        ylim=(bottom, ceiling),
        xlabel="time (ms)",
        ylabel=f"allocated ({unit})",
        legend_position="bottom",
        show_legend=True,
        default_tools=["box_zoom", "xwheel_zoom", "reset"],
        hooks=[themed(look)],
        backend="bokeh",
    )


_LAYERS = {"label": pl.String, "ms": pl.Float64, "lower": pl.Int64, "upper": pl.Int64}


def _moments(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the first (rank, device), each with the number of its moment."""
    first = frame.filter(
        pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).first()) for c in ("rank", "device"))
    )
    count = max(1, first["category"].n_unique())
    at = pl.col("t_ns") / units.NS_PER_MS if first["t_ns"].count() else pl.col("moment")
    numbered = first.with_columns(moment=pl.int_range(pl.len()) // count)
    return numbered.with_columns(ms=at.cast(pl.Float64))


def _level(moments: pl.DataFrame) -> pl.Series:
    known = moments["allocated_bytes"].null_count() == 0
    return moments["allocated_bytes" if known else "above_start_bytes"]


def _unit(largest: int) -> tuple[int, str]:
    return next(((size, name) for size, name in BYTE_UNITS if largest >= size), (1, "B"))


def _largest(values: pl.Series) -> int:
    return int(values.to_numpy().max())


def _until(ms: pl.Series) -> float:
    """Return where the last moment's level ends: a little after it, for nothing comes later."""
    return float(ms[-1] + max((ms[-1] - ms[0]) / 200, 1e-6))


def _held(values: Times, end: Any = None) -> Times:
    """Return each value twice, shifted by one: a line of steps."""
    twice = np.repeat(values, 2)
    return twice if end is None else np.append(twice[1:], end)


def _areas(drawn: pl.DataFrame, end: float, scale: int, look: Theme) -> list[hv.Area]:
    areas = []
    for (label,), layer in drawn.group_by("label", maintain_order=True):
        at = _held(layer["ms"].to_numpy(), end)
        lower, upper = (_held(layer[c].to_numpy()) / scale for c in ("lower", "upper"))
        if (upper > lower).any():
            area = hv.Area((at, lower, upper), "ms", ["lower", "upper"], label=str(label))
            colour = _colour(str(label), look)
            areas.append(area.opts(color=colour, line_width=0, default_tools=[], backend="bokeh"))
    return areas


def _colour(label: str, look: Theme) -> str:
    if label in _FAMILY:
        return look.families[_FAMILY[label]]
    return look.of(_CLASS.get(label, "other"))


def _reserved(moments: pl.DataFrame, peak: int) -> pl.Series | None:
    """Return what was reserved at each moment, where it can be drawn beside what was allocated."""
    values = moments["reserved_bytes"]
    if values.null_count() or moments["allocated_bytes"].null_count():
        return None
    return values if _largest(values) <= FAR * peak else None


def _line(ms: pl.Series, values: pl.Series, end: float, look: Theme) -> hv.Curve:
    points = (_held(ms.to_numpy(), end), _held(values.to_numpy()))
    return hv.Curve(points, "ms", "reserved", label="reserved").opts(
        color=look.text, line_dash="dashed", line_width=1.2, default_tools=[], backend="bokeh"
    )


def _steps(moments: pl.DataFrame, end: float, top: float, look: Theme) -> list[Any]:
    """Shade every other step and number all of them."""
    runs = moments.select("ms", "step", run=pl.col("step").rle_id())
    each = runs.group_by("run", maintain_order=True).agg(pl.col("step").first(), pl.col("ms").min())
    starts = each.with_columns(end=pl.col("ms").shift(-1).fill_null(end)).drop_nulls("step")
    boxes = [
        (row["ms"], 0, row["end"], top)
        for i, row in enumerate(starts.iter_rows(named=True))
        if i % 2 == 0
    ]
    texts = starts.select((pl.col("ms") + pl.col("end")) / 2, pl.lit(top), pl.format("{}", "step"))
    shade = hv.Rectangles(boxes).opts(
        color=look.of("step"), alpha=0.28, line_width=0, default_tools=[], backend="bokeh"
    )
    numbers = hv.Labels(texts.rows(), ["x", "y"], "text").opts(
        text_color=look.muted,
        text_font_size="8pt",
        text_baseline="top",
        default_tools=[],
        backend="bokeh",
    )
    return [shade, numbers] if starts.height else []


def _points(moments: pl.DataFrame, scale: int, look: Theme) -> list[hv.Points]:
    """Give every moment a point to hover on, and mark the peak."""
    level = _level(moments)
    texts = {
        "size": [units.decimal(v, "B") for v in level],
        "time": [units.duration(v) for v in moments["t_ns"]],
        "reserved": [units.decimal(v, "B") for v in moments["reserved_bytes"]],
        "step": moments["step"].cast(pl.String),
        "op": moments["op"],
        "running": moments["running"],
    }
    every = pl.DataFrame({"ms": moments["ms"], "level": level / scale} | texts)
    every = every.with_columns(pl.col(pl.String).fill_null("-"))
    peak = level.arg_max() or 0

    def points(rows: pl.DataFrame, **options: Any) -> hv.Points:
        columns = {name: rows[name].to_list() for name in rows.columns}
        return hv.Points(columns, ["ms", "level"], [*texts]).opts(
            tools=["hover"],
            hover_tooltips=TOOLTIPS,
            default_tools=[],
            backend="bokeh",
            **options,
        )

    mark = {"size": 9, "color": look.background, "line_color": look.text, "line_width": 2}
    return [
        points(every.unique("ms", keep="last", maintain_order=True), size=5, alpha=0),
        points(every[[peak]], **mark),
    ]
