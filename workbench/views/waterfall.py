"""The step as a waterfall: each part begins where the one above it ends, down to the step's end.

`bars` draws a frame of `analysis.waterfall_mean`; `parts` is the frame that is drawn.
"""

from __future__ import annotations

import holoviews as hv
import holoviews.plotting.bokeh
import polars as pl

from workbench import units
from workbench.views import causes
from workbench.views.breakdown import sentence
from workbench.views.figure import themed
from workbench.views.theme import THEMES, Theme

NOTHING = "No complete step is marked in this recording, so there is no step to take apart."
ROW_HEIGHT, FRAME_HEIGHT = 24, 84
BAR = 0.42
"""Half the height of a bar, of a row of 1."""
TOOLTIPS = [("", "@label"), ("time", "@time (@share of the step)"), ("from", "@least to @most")]
_SCHEMA: dict[str, pl.DataType] = {
    "label": pl.String(),
    "begin_ms": pl.Float64(),
    "end_ms": pl.Float64(),
    "time": pl.String(),
    "share": pl.String(),
    "least": pl.String(),
    "most": pl.String(),
}


def parts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return `label begin_ms end_ms time share least most`: busy parts first, then idle by cause.

    Of several ranks or devices each part is the mean over them; `least` and `most` are the smallest
    and largest in one step of one device. The last part ends where the mean step does.
    """
    places = max(1, frame.select("rank", "device").n_unique())
    name = pl.coalesce("cause", pl.col("part").cast(pl.String))
    whole = float(frame["mean_ns"].sum())
    each = frame.group_by(name.alias("name")).agg(
        mean_ns=pl.col("mean_ns").sum() / places,
        least_ns=pl.when(pl.len() == places).then(pl.col("min_ns").min()).otherwise(0),
        max_ns=pl.col("max_ns").max(),
    )
    order = list(causes.EVERY)
    rows, at = [], 0.0
    for row in sorted(each.rows(named=True), key=lambda r: order.index(r["name"])):
        end = at + row["mean_ns"] / units.NS_PER_MS
        rows.append(
            {
                "label": causes.label(row["name"]),
                "begin_ms": at,
                "end_ms": end,
                "time": units.duration(row["mean_ns"]),
                "share": units.share(row["mean_ns"] * places, whole),
                "least": units.duration(row["least_ns"]),
                "most": units.duration(row["max_ns"]),
            }
        )
        at = end
    return pl.DataFrame(rows, schema=_SCHEMA)


def caption(frame: pl.DataFrame) -> str:
    """Say how long the mean step is, and of how many it is the mean."""
    by_place = frame.group_by("rank", "device").agg(pl.col("mean_ns").sum(), pl.col("steps").max())
    steps, places = int(by_place["steps"].max() or 0), by_place.height  # type: ignore[arg-type]
    text = f"a step of {units.duration(by_place['mean_ns'].mean())}"  # type: ignore[arg-type]
    text += f", mean of {steps} step{'' if steps == 1 else 's'}"
    return text + (f" on {places} devices" if places > 1 else "")


def bars(frame: pl.DataFrame, *, theme: str = "light", width: int = 900) -> hv.Overlay:
    """Draw the mean step from its first part to its last."""
    look = THEMES[theme]
    drawn = parts(frame)
    if drawn.is_empty():
        return sentence(NOTHING, look, width)
    rows = drawn.height
    return hv.Overlay([_steps(drawn, look), _boxes(drawn, look), _labels(drawn, look)]).opts(
        width=width,
        height=FRAME_HEIGHT + ROW_HEIGHT * rows,
        title=caption(frame),
        xlim=(0, float(drawn["end_ms"][-1]) * 1.14),
        ylim=(-rows + 0.5, 0.5),
        yticks=[(-row, label) for row, label in enumerate(drawn["label"])],
        xlabel="ms",
        ylabel="",
        show_grid=False,
        fontsize={"title": "10pt"},
        default_tools=[],
        hooks=[themed(look)],
        backend="bokeh",
    )


def _boxes(drawn: pl.DataFrame, look: Theme) -> hv.Rectangles:
    colour = causes.colours(look)
    columns = {n: drawn[n].to_list() for n in drawn.columns}
    columns["colour"] = [colour.get(label, look.of("other")) for label in columns["label"]]
    columns["bottom"] = [-row - BAR for row in range(drawn.height)]
    columns["top"] = [-row + BAR for row in range(drawn.height)]
    texts = ["label", "time", "share", "least", "most", "colour"]
    return hv.Rectangles(columns, ["begin_ms", "bottom", "end_ms", "top"], texts).opts(
        color="colour",
        line_color="colour",
        line_width=1,
        tools=["hover"],
        default_tools=[],
        hover_tooltips=TOOLTIPS,
        backend="bokeh",
    )


def _steps(drawn: pl.DataFrame, look: Theme) -> hv.Segments:
    """Join the end of each bar with the begin of the next."""
    ends = drawn["end_ms"].to_list()[:-1]
    rows = range(len(ends))
    data = (ends, [-r - BAR for r in rows], ends, [-r - 1 + BAR for r in rows])
    return hv.Segments(data).opts(color=look.muted, line_width=1, backend="bokeh")


def _labels(drawn: pl.DataFrame, look: Theme) -> hv.Labels:
    text = [f" {t}  {s}" for t, s in zip(drawn["time"], drawn["share"], strict=True)]
    at = [-row for row in range(drawn.height)]
    return hv.Labels((drawn["end_ms"].to_list(), at, text), ["x", "y"], "text").opts(
        text_align="left", text_color=look.text, text_font_size="8.5pt", backend="bokeh"
    )
