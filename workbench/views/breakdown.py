"""Where the time went, as stacked bars: a window by rank and device, and step by step.

`bars` draws a frame of `analysis.breakdown`, `by_step` one of `analysis.steps`; `parts` and
`step_parts` are the frames that are drawn, and so their text form.
"""

from __future__ import annotations

from typing import Any

import holoviews as hv
import holoviews.plotting.bokeh
import polars as pl

from workbench import units
from workbench.analysis.breakdown import PARTS
from workbench.views.figure import themed
from workbench.views.tables import place
from workbench.views.theme import THEMES, Theme

LABELS = {
    "compute": "compute",
    "exposed_communication": "exposed communication",
    "exposed_copy": "exposed copy",
    "idle": "idle",
}
CLASS_OF_PART = {
    "compute": "compute",
    "exposed_communication": "communication",
    "exposed_copy": "copy",
    "idle": "idle",
}
MANY_BARS = 24
"""With more bars than this, their names are turned to stand side by side."""
ROW_HEIGHT, FRAME_HEIGHT, STEP_HEIGHT = 26, 74, 260
NOTHING = "This window holds no time on any device."
TOOLTIPS = [("", "@label on @place"), ("time", "@time"), ("of the window", "@share")]
STEP_TOOLTIPS = [("", "@label in @place"), ("time", "@time"), ("of the step", "@share")]


def parts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each bar's part: `place label percent time share`, in drawing order.

    `percent` is of the window; rows of an empty window are left out. Idle time is one part,
    whatever its causes.
    """
    keys = ["rank", "device", "part"]
    frame = frame.group_by(keys, maintain_order=True).agg(
        pl.col("time_ns").sum(), pl.col("share").sum(), known=pl.col("share").is_not_null().all()
    )
    rows = [
        {
            "place": place(row["rank"], row["device"]),
            "label": LABELS[row["part"]],
            "percent": 100 * row["share"],
            "time": units.duration(row["time_ns"]),
            "share": units.share(row["share"], 1),
        }
        for row in frame.iter_rows(named=True)
        if row["known"]
    ]
    return pl.DataFrame(rows, schema=_drawn("percent"))


def step_parts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each part of each step: `place label ms time share`.

    `ms` is the part's time in milliseconds, so a bar is as high as its step is long.
    """
    several = frame.select("rank", "device").n_unique() > 1
    rows = [
        {
            "place": f"{row['step']}"
            + (f" · {place(row['rank'], row['device'])}" if several else ""),
            "label": LABELS[part],
            "ms": row[f"{part}_ns"] / units.NS_PER_MS,
            "time": units.duration(row[f"{part}_ns"]),
            "share": units.share(row[f"{part}_ns"], row["dur_ns"]),
        }
        for row in frame.sort("step", "rank", "device").iter_rows(named=True)
        for part in PARTS
    ]
    return pl.DataFrame(rows, schema=_drawn("ms"))


def bars(frame: pl.DataFrame, *, theme: str = "light", width: int = 900) -> hv.Overlay | hv.Bars:
    """Draw one bar for each (rank, device), 100 % of the window wide."""
    look = THEMES[theme]
    drawn = parts(frame)
    if drawn.is_empty():
        return sentence(NOTHING, look, width)
    return stacked(drawn, "percent", look, TOOLTIPS).opts(
        width=width,
        height=bars_height(frame),
        invert_axes=True,
        invert_yaxis=True,
        ylim=(0, 100),
        xlabel="",
        ylabel="% of the window",
        backend="bokeh",
    )


def bars_height(frame: pl.DataFrame) -> int:
    """Return the height in pixels of the picture that `bars` draws."""
    return FRAME_HEIGHT + ROW_HEIGHT * max(1, frame.select("rank", "device").n_unique())


def by_step(frame: pl.DataFrame, *, theme: str = "light", width: int = 900) -> hv.Overlay | hv.Bars:
    """Draw one bar for each step of each (rank, device), as high as it is long in ms."""
    look = THEMES[theme]
    drawn = step_parts(frame)
    if drawn.is_empty():
        return sentence("No step is marked in this recording.", look, width)
    turned = 60 if drawn["place"].n_unique() > MANY_BARS else 0
    return stacked(drawn, "ms", look, STEP_TOOLTIPS).opts(
        width=width,
        height=STEP_HEIGHT,
        xrotation=turned,
        xlabel="step",
        ylabel="ms",
        backend="bokeh",
    )


def stacked(drawn: pl.DataFrame, value: str, look: Theme, tooltips: list[tuple[str, str]]) -> Any:
    """Stack `value` by `label` at each `place`; each label has the colour of its meaning."""
    columns = {name: drawn[name].to_list() for name in drawn.columns}
    element = hv.Bars(columns, ["place", "label"], [value, "time", "share"])
    return element.opts(
        stacked=True,
        color="label",
        cmap=colours(look),
        line_color=look.background,
        bar_width=0.75,
        legend_position="top",
        show_legend=True,
        tools=["hover"],
        default_tools=[],
        hover_tooltips=tooltips,
        hooks=[themed(look)],
        backend="bokeh",
    )


def colours(look: Theme) -> dict[str, str]:
    """Return the colour of each part by its label."""
    return {LABELS[part]: look.of(CLASS_OF_PART[part]) for part in PARTS}


def sentence(text: str, look: Theme, width: int, height: int = 90) -> hv.Overlay:
    """Return a picture that only says why there is none."""
    words = hv.Text(0.5, 0.5, text).opts(
        color=look.muted, text_font_size="10pt", default_tools=[], backend="bokeh"
    )
    return hv.Overlay([words]).opts(
        width=width,
        height=height,
        xaxis=None,
        yaxis=None,
        xlim=(0, 1),
        ylim=(0, 1),
        show_grid=False,
        default_tools=[],
        hooks=[themed(look)],
        backend="bokeh",
    )


def _drawn(value: str) -> dict[str, pl.DataType]:
    text = dict.fromkeys(("place", "label", "time", "share"), pl.String())
    return {"place": text["place"], "label": text["label"], value: pl.Float64()} | text
