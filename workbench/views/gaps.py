"""How long the gaps of a device are, and what it waited for in them: few long or many short ones.

`histogram` draws a frame of `analysis.idle`; `bins` is the frame that is drawn. The height is the
idle time that gaps of a length add up to, not their number: that is what could be saved.
"""

from __future__ import annotations

import math

import holoviews as hv
import holoviews.plotting.bokeh
import polars as pl

from workbench import units
from workbench.views import causes
from workbench.views.breakdown import sentence
from workbench.views.figure import themed
from workbench.views.theme import THEMES

PER_DECADE = 3
NOTHING = "No idle time lies in this window."
HEIGHT = 300
TOOLTIPS = [("", "@label"), ("gaps", "@count, @from to @below each"), ("idle", "@time (@share)")]


def bins(frame: pl.DataFrame) -> pl.DataFrame:
    """Return `place cause label from below count ms time share`, by length and cause.

    Three bins a decade: [1, 2.15) us, [2.15, 4.64) us, … A gap counts to the cause that fills most
    of it. `share` is of all idle time in the frame.
    """
    whole = int(frame["dur_ns"].sum())
    place = (pl.col("dur_ns").log10() * PER_DECADE + 1e-9).floor().cast(pl.Int64)
    grouped = (
        frame.filter(pl.col("dur_ns") > 0)
        .group_by(place.alias("bin"), "cause")
        .agg(count=pl.len(), time_ns=pl.col("dur_ns").sum())
    )
    order = list(causes.CAUSES)
    rows = [
        {
            "place": edge(row["bin"]),
            "cause": row["cause"],
            "label": causes.label(row["cause"]),
            "from": edge(row["bin"]),
            "below": edge(row["bin"] + 1),
            "count": row["count"],
            "ms": row["time_ns"] / units.NS_PER_MS,
            "time": units.duration(row["time_ns"]),
            "share": units.share(row["time_ns"], whole),
        }
        for row in sorted(
            grouped.rows(named=True), key=lambda r: (r["bin"], order.index(r["cause"]))
        )
    ]
    text = dict.fromkeys(("place", "cause", "label", "from", "below"), pl.String())
    schema = text | {"count": pl.Int64(), "ms": pl.Float64(), "time": pl.String()}
    return pl.DataFrame(rows, schema=schema | {"share": pl.String()})


def edge(number: int) -> str:
    """Return where a bin begins, as text: bin 9 at 1 us, 10 at 2.15 us."""
    ns = 10 ** (number / PER_DECADE)
    return units.duration(float(f"{ns:.3g}"))


def caption(frame: pl.DataFrame) -> str:
    """Say how many gaps there are, their time, and how much of it the longest tenth holds."""
    lengths = frame["dur_ns"].sort(descending=True)
    longest = math.ceil(len(lengths) / 10)
    whole = int(lengths.sum())
    return (
        f"{len(lengths):,} gaps, {units.duration(whole)} idle; the longest {longest:,} hold "
        f"{units.share(int(lengths.head(longest).sum()), whole)}"
    )


def histogram(
    frame: pl.DataFrame, *, theme: str = "light", width: int = 900
) -> hv.Overlay | hv.Bars:
    """Draw idle time by the length of the gaps, stacked by cause."""
    look = THEMES[theme]
    drawn = bins(frame)
    if drawn.is_empty():
        return sentence(NOTHING, look, width)
    rest = ["ms", "time", "share", "count", "from", "below"]
    columns = {name: drawn[name].to_list() for name in ("place", "label", *rest)}
    return hv.Bars(columns, ["place", "label"], rest).opts(
        width=width,
        height=HEIGHT,
        title=caption(frame),
        stacked=True,
        color="label",
        cmap=causes.colours(look),
        line_color=look.background,
        bar_width=0.9,
        legend_position="right",
        xlabel="length of a gap, at least",
        ylabel="idle (ms)",
        fontsize={"title": "10pt"},
        tools=["hover"],
        default_tools=[],
        hover_tooltips=TOOLTIPS,
        hooks=[themed(look, legend_below=True)],
        backend="bokeh",
    )
