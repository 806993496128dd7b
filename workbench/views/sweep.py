"""How long a step takes under each combination of a sweep, from the fastest to the slowest step.

`times` draws a frame of `capture.sweep_folder.frame`; `points` is the frame that is drawn.
"""

from __future__ import annotations

import holoviews as hv
import holoviews.plotting.bokeh
import polars as pl

from workbench import units
from workbench.views.breakdown import sentence
from workbench.views.figure import themed
from workbench.views.theme import THEMES

NOTHING = "No combination of this sweep has a step that was timed."
MOST = 60
"""Combinations that are drawn; the table has them all."""
ROW, FRAME = 22, 90
"""Pixels of a combination, and around all of them."""


def points(frame: pl.DataFrame) -> pl.DataFrame:
    """Return `label ms least most`, the combinations that were timed, the quickest first."""
    swept = frame.columns[: frame.columns.index("status")]
    varied = [n for n in swept if frame[n].n_unique() > 1] or swept
    label = pl.concat_str([pl.format("{}={}", pl.lit(n), n) for n in varied], separator=", ")
    times = {"ms": "step_ns", "least": "least_ns", "most": "most_ns"}
    found = frame.filter(pl.col("step_ns").is_not_null()).select(
        label=label, **{n: pl.col(c) / units.NS_PER_MS for n, c in times.items()}
    )
    return found.sort("ms", maintain_order=True)


def times(frame: pl.DataFrame, *, theme: str = "light", width: int = 900) -> hv.Overlay:
    """Draw the median step of each combination, and the span from its fastest to its slowest."""
    look = THEMES[theme]
    drawn = points(frame).head(MOST)
    if drawn.is_empty():
        return sentence(NOTHING, look, width)
    columns = {n: drawn[n].to_list() for n in drawn.columns}
    spans = hv.Segments(
        (columns["least"], columns["label"], columns["most"], columns["label"]),
        ["least", "label", "most", "end"],
    ).opts(color=look.muted, line_width=3, backend="bokeh")
    medians = hv.Points(columns, ["ms", "label"], []).opts(
        color=look.of("compute"), size=9, tools=["hover"], backend="bokeh"
    )
    return hv.Overlay([spans, medians]).opts(
        width=width,
        height=ROW * drawn.height + FRAME,
        xlabel="ms a step",
        ylabel="",
        xlim=(0, float(drawn["most"].max()) * 1.05),  # type: ignore[arg-type]
        invert_yaxis=True,
        show_grid=True,
        hooks=[themed(look)],
        backend="bokeh",
    )
