"""Which rank differs, and in which step: one cell for each, coloured by a column of `steps`.

`heat` draws a frame of `analysis.steps`; `cells` is the frame that is drawn. The colour is of the
difference from the median of the ranks in that step, so a slow step of all ranks shows no one.
"""

from __future__ import annotations

import holoviews as hv
import holoviews.plotting.bokeh
import polars as pl

from workbench import units
from workbench.errors import unknown_name
from workbench.views.breakdown import sentence
from workbench.views.figure import themed
from workbench.views.tables import place
from workbench.views.theme import THEMES, Theme, blend

COLUMNS = {
    "dur_ns": "step",
    "host_dur_ns": "host step",
    "busy_ns": "busy time",
    "compute_ns": "compute",
    "exposed_communication_ns": "exposed communication",
    "exposed_copy_ns": "exposed copy",
    "idle_ns": "idle",
}
"""What can be compared, with its name on the picture."""
NOTHING = "Ranks can be compared where two or more recorded the same complete step."
LEAST = 0.01
"""A difference of less than this share of a usual step has no full colour: ranks jitter."""
ROW_HEIGHT, FRAME_HEIGHT = 24, 110
TOOLTIPS = [("", "step @step, @place"), ("time", "@time"), ("from the median", "@away")]


def cells(frame: pl.DataFrame, column: str = "dur_ns") -> pl.DataFrame:
    """Return `step place ms_away time away` of complete steps that two or more ranks recorded.

    `ms_away` is the difference from the median over (rank, device) in that step, in ms.
    """
    if column not in COLUMNS:
        raise unknown_name("column", column, COLUMNS)
    median = pl.col(column).median().over("step")
    shared = frame.filter("complete").filter(pl.len().over("step") > 1)
    shared = shared.with_columns(away=pl.col(column) - median).sort("step", "rank", "device")
    rows = [
        {
            "step": str(row["step"]),
            "place": place(row["rank"], row["device"]),
            "ms_away": row["away"] / units.NS_PER_MS,
            "time": units.duration(row[column]),
            "away": ("+" if row["away"] > 0 else "") + units.duration(row["away"]),
        }
        for row in shared.iter_rows(named=True)
    ]
    text = pl.String()
    schema = {"step": text, "place": text, "ms_away": pl.Float64(), "time": text, "away": text}
    return pl.DataFrame(rows, schema=schema)


def heat(
    frame: pl.DataFrame, column: str = "dur_ns", *, theme: str = "light", width: int = 900
) -> hv.Overlay | hv.HeatMap:
    """Draw a cell for each step and place: the fuller the colour, the longer than its peers."""
    look = THEMES[theme]
    drawn = cells(frame, column)
    if drawn.is_empty():
        return sentence(NOTHING, look, width)
    reach = max(float(drawn["ms_away"].abs().max()), LEAST * _usual_ms(frame))  # type: ignore[arg-type]
    columns = {n: drawn[n].to_list() for n in drawn.columns}
    return hv.HeatMap(columns, ["step", "place"], ["ms_away", "time", "away"]).opts(
        width=width,
        height=FRAME_HEIGHT + ROW_HEIGHT * drawn["place"].n_unique(),
        title=f"{COLUMNS[column]}: difference from the median of the ranks (ms)",
        cmap=colours(look),
        clim=(-reach, reach),
        colorbar=True,
        clabel="",
        colorbar_opts={"background_fill_alpha": 0, "major_label_text_color": look.text},
        invert_yaxis=True,
        xlabel="step",
        ylabel="",
        fontsize={"title": "10pt"},
        tools=["hover"],
        default_tools=[],
        hover_tooltips=TOOLTIPS,
        hooks=[themed(look)],
        backend="bokeh",
    )


def _usual_ms(frame: pl.DataFrame) -> float:
    """Return the median of the complete steps, in ms."""
    usual = frame.filter("complete")["dur_ns"].median()
    return float(usual or 1) / units.NS_PER_MS  # type: ignore[arg-type]


def colours(look: Theme, levels: int = 32) -> list[str]:
    """Return shades from less (compute's colour) over the lane's to more (communication's)."""
    less, none, more = look.of("compute"), look.lane, look.of("communication")
    down = [blend(none, less, i / levels) for i in range(levels)]
    return down + [blend(more, none, i / levels) for i in range(levels + 1)]
