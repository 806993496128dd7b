"""The change of a step as a waterfall: from the step before, part by part, to the step after.

`bars` draws the rows of kind `part` of `analysis.compare`; `parts` is the frame that is drawn.
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

NOTHING = "There is nothing to compare: neither run has a step or a window."
BEFORE, AFTER = "before", "after"
ROW_HEIGHT, FRAME_HEIGHT = 24, 84
BAR = 0.42
"""Half the height of a bar, of a row of 1."""
TOOLTIPS = [("", "@label"), ("change", "@change"), ("before", "@before"), ("after", "@after")]
_SCHEMA: dict[str, pl.DataType] = {
    "label": pl.String(),
    "begin_ms": pl.Float64(),
    "end_ms": pl.Float64(),
    "change": pl.String(),
    "before": pl.String(),
    "after": pl.String(),
}


def parts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return `label begin_ms end_ms change before after`: the step before, changes, the step after.

    A part's bar goes from where the one above it ends, to the left where it became shorter. Of
    several ranks or devices each is the mean over them.
    """
    if frame.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    places = frame.select("rank", "device").n_unique()
    each = frame.group_by("name").agg(pl.col("a_ns", "b_ns").sum() / places)
    place = {name: k for k, name in enumerate(causes.EVERY)}
    rows = sorted(
        each.rows(named=True), key=lambda r: (place.get(r["name"], len(place)), r["name"])
    )
    a, b = float(each["a_ns"].sum()), float(each["b_ns"].sum())
    drawn, at = [_row(BEFORE, 0.0, a, a, a)], a
    for row in rows:
        end = at + row["b_ns"] - row["a_ns"]
        drawn.append(_row(causes.label(row["name"]), at, end, row["a_ns"], row["b_ns"]))
        at = end
    return pl.DataFrame([*drawn, _row(AFTER, 0.0, b, b, b)], schema=_SCHEMA)


def _row(label: str, begin: float, end: float, a: float, b: float) -> dict[str, object]:
    sign = "+" if b >= a else "-"
    is_whole = label in (BEFORE, AFTER)
    return {
        "label": label,
        "begin_ms": begin / units.NS_PER_MS,
        "end_ms": end / units.NS_PER_MS,
        "change": units.duration(a) if is_whole else f"{sign}{units.duration(abs(b - a))}",
        "before": units.duration(a),
        "after": units.duration(b),
    }


def caption(drawn: pl.DataFrame) -> str:
    """Say how long the step was and is."""
    a, b = float(drawn["end_ms"][0]), float(drawn["end_ms"][-1])
    change = f" ({100 * (b - a) / a:+.1f} %)" if a else ""
    return f"a step of {drawn['before'][0]} became one of {drawn['after'][-1]}{change}"


def bars(frame: pl.DataFrame, *, theme: str = "light", width: int = 900) -> hv.Overlay:
    """Draw the change of the mean step."""
    look = THEMES[theme]
    drawn = parts(frame)
    if drawn.is_empty():
        return sentence(NOTHING, look, width)
    rows = drawn.height
    ends = pl.concat([drawn["begin_ms"], drawn["end_ms"]])
    return hv.Overlay([_boxes(drawn, look), _labels(drawn, look)]).opts(
        width=width,
        height=FRAME_HEIGHT + ROW_HEIGHT * rows,
        title=caption(drawn),
        xlim=(min(0.0, float(ends.min())), float(ends.max()) * 1.14 or 1),  # type: ignore[arg-type]
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
    colour = causes.colours(look) | {BEFORE: look.muted, AFTER: look.muted}
    columns = {n: drawn[n].to_list() for n in drawn.columns}
    columns["colour"] = [colour.get(label, look.of("other")) for label in columns["label"]]
    columns["bottom"] = [-row - BAR for row in range(drawn.height)]
    columns["top"] = [-row + BAR for row in range(drawn.height)]
    texts = ["label", "change", "before", "after", "colour"]
    return hv.Rectangles(columns, ["begin_ms", "bottom", "end_ms", "top"], texts).opts(
        color="colour",
        line_color="colour",
        line_width=1,
        tools=["hover"],
        default_tools=[],
        hover_tooltips=TOOLTIPS,
        backend="bokeh",
    )


def _labels(drawn: pl.DataFrame, look: Theme) -> hv.Labels:
    right = drawn.select(pl.max_horizontal("begin_ms", "end_ms")).to_series().to_list()
    text = [f" {t}" for t in drawn["change"]]
    at = [-row for row in range(drawn.height)]
    return hv.Labels((right, at, text), ["x", "y"], "text").opts(
        text_align="left", text_color=look.text, text_font_size="8.5pt", backend="bokeh"
    )
