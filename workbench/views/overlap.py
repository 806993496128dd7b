"""How much communication hides behind compute: one bar for each rank and device.

`bars` draws a frame of `analysis.overlap`; `parts` is the frame that is drawn.
"""

from __future__ import annotations

import holoviews as hv
import holoviews.plotting.bokeh
import polars as pl

from workbench import units
from workbench.views.breakdown import FRAME_HEIGHT, ROW_HEIGHT, sentence
from workbench.views.figure import themed
from workbench.views.tables import place
from workbench.views.theme import THEMES, Theme, blend

HIDDEN, EXPOSED = "overlapped with compute", "exposed"
TITLE_HEIGHT = 24
TOOLTIPS = [("", "@label on @place"), ("time", "@time"), ("of communication", "@share")]
_SCHEMA: dict[str, pl.DataType] = {
    "place": pl.String(),
    "label": pl.String(),
    "ms": pl.Float64(),
    "time": pl.String(),
    "share": pl.String(),
}


def parts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return two rows for each (rank, device) that communicates: `place label ms time share`.

    `ms` is the part's time in milliseconds, `share` is of the communication time.
    """
    rows = [
        {
            "place": place(row["rank"], row["device"]),
            "label": label,
            "ms": row[column] / units.NS_PER_MS,
            "time": units.duration(row[column]),
            "share": units.share(row[column], row["communication_ns"]),
        }
        for row in frame.filter(pl.col("communication_ns") > 0).iter_rows(named=True)
        for label, column in ((HIDDEN, "overlap_ns"), (EXPOSED, "exposed_communication_ns"))
    ]
    return pl.DataFrame(rows, schema=_SCHEMA)


def caption(frame: pl.DataFrame) -> str:
    """Say the overlap of all rows as the ratio of their sums, with the smallest and the largest."""
    talking = frame.filter(pl.col("communication_ns") > 0)
    if talking.is_empty():
        return "No communication in this window."
    whole, hidden = (int(talking[c].sum()) for c in ("communication_ns", "overlap_ns"))
    text = f"{units.share(hidden, whole)} of the communication time overlaps with compute"
    shares = talking["overlap_share"]
    if talking.height > 1:
        low, high = (units.share(v, 1) for v in (shares.min(), shares.max()))  # type: ignore[arg-type]
        text += f" (from {low} to {high} by rank and device)"
    silent = frame.height - talking.height
    return text + (f"; {silent} without communication left out" if silent else "")


def bars(frame: pl.DataFrame, *, theme: str = "light", width: int = 900) -> hv.Overlay | hv.Bars:
    """Draw the communication time of each (rank, device), split into overlapped and exposed."""
    look = THEMES[theme]
    drawn = parts(frame)
    if drawn.is_empty():
        return sentence(caption(frame), look, width)
    columns = {name: drawn[name].to_list() for name in drawn.columns}
    return hv.Bars(columns, ["place", "label"], ["ms", "time", "share"]).opts(
        width=width,
        height=height(frame),
        title=caption(frame),
        stacked=True,
        invert_axes=True,
        invert_yaxis=True,
        color="label",
        cmap=colours(look),
        line_color=look.background,
        bar_width=0.75,
        legend_position="top",
        xlabel="",
        ylabel="communication (ms)",
        fontsize={"title": "10pt"},
        tools=["hover"],
        default_tools=[],
        hover_tooltips=TOOLTIPS,
        hooks=[themed(look)],
        backend="bokeh",
    )


def height(frame: pl.DataFrame) -> int:
    """Return the height in pixels of the picture that `bars` draws."""
    rows = max(1, frame.filter(pl.col("communication_ns") > 0).height)
    return FRAME_HEIGHT + TITLE_HEIGHT + ROW_HEIGHT * rows


def colours(look: Theme) -> dict[str, str]:
    """Exposed communication has the full colour; what hides is the same, half way to the page."""
    full = look.of("communication")
    return {HIDDEN: blend(full, look.background), EXPOSED: full}
