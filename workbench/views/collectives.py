"""How fast each collective moved its message: size across, bus bandwidth up, both logarithmic.

`scatter` draws a frame of `analysis.collectives`; `points` is the frame that is drawn. Small
messages are bound by latency, so their points climb with the size; large ones should lie on a
plateau, and points of one size far below the others waited for another rank or shared the link.
"""

from __future__ import annotations

from typing import Any

import holoviews as hv
import holoviews.plotting.bokeh
import polars as pl
from bokeh.models import CustomJSTickFormatter

from workbench import units
from workbench.views.breakdown import sentence
from workbench.views.figure import themed
from workbench.views.tables import place
from workbench.views.theme import THEMES, Theme

GIGA = 1e9
MARGIN = 1.6
"""How far the axes reach beyond the points, as a factor."""
NOTHING = "No collective in this window has both a known size and a known group."
MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "hex", "star", "plus")
BYTES = """
const prefixes = ["", "k", "M", "G", "T"];
const step = Math.max(0, Math.min(4, Math.floor(Math.log10(tick) / 3 + 1e-9)));
return `${+(tick / 1000 ** step).toPrecision(3)} ${prefixes[step]}B`;
"""
TOOLTIPS = [
    ("", "@name on @place"),
    ("message", "@size, @dtype"),
    ("group", "@group of @members"),
    ("time", "@time (@exposed exposed, @wait waiting)"),
    ("bus bandwidth", "@bus"),
    ("algorithm bandwidth", "@algorithm"),
]
_TEXTS = ("place", "size", "dtype", "group", "members", "time", "exposed", "wait", "bus",
          "algorithm")  # fmt: skip


def points(frame: pl.DataFrame) -> pl.DataFrame:
    """Return `name bytes gb_per_s` and texts for hover, of collectives with a known bandwidth."""
    known = frame.filter((pl.col("bytes") > 0) & (pl.col("bus_bytes_per_s") > 0))
    texts = [_texts(row) for row in known.iter_rows(named=True)]
    return known.select("name", "bytes", gb_per_s=pl.col("bus_bytes_per_s") / GIGA).hstack(
        pl.DataFrame(texts, schema=dict.fromkeys(_TEXTS, pl.String()))
    )


def _texts(row: dict[str, Any]) -> dict[str, str]:
    group = row["dimension"] or row["group"] or "unknown"
    wait = row["wait_ns"]
    return {
        "place": place(row["rank"], row["device"]),
        "size": units.decimal(row["bytes"], "B"),
        "dtype": row["dtype"] or "type not recorded",
        "group": str(group),
        "members": f"{row['group_size']} ranks" if row["group_size"] else "unknown size",
        "time": units.duration(row["dur_ns"]),
        "exposed": units.duration(row["exposed_ns"]),
        "wait": "unknown time" if wait is None else units.duration(wait),
        "bus": units.decimal(row["bus_bytes_per_s"], "B/s"),
        "algorithm": units.decimal(row["algorithm_bytes_per_s"], "B/s"),
    }


def caption(frame: pl.DataFrame) -> str:
    """Say how many collectives are drawn, and how many can't be."""
    drawn = points(frame).height
    left = frame.height - drawn
    more = f"; {left} of unknown size or group left out" if left else ""
    return f"{drawn} collective{'' if drawn == 1 else 's'}, decimal GB/s{more}"


def scatter(
    frame: pl.DataFrame, *, theme: str = "light", width: int = 900, height: int = 360
) -> hv.Overlay:
    """Draw one point for each collective; each kind of collective has its own marker and colour."""
    look = THEMES[theme]
    drawn = points(frame)
    if drawn.is_empty():
        return sentence(NOTHING, look, width)
    parts = drawn.sort("name").partition_by("name", maintain_order=True)
    return hv.Overlay([_points(part, n, look) for n, part in enumerate(parts)]).opts(
        width=width,
        height=height,
        title=caption(frame),
        logx=True,
        logy=True,
        xlim=_extent(drawn["bytes"]),
        ylim=_extent(drawn["gb_per_s"]),
        xlabel="message size",
        xformatter=CustomJSTickFormatter(code=BYTES),
        ylabel="bus bandwidth (GB/s)",
        show_grid=True,
        legend_position="top",
        fontsize={"title": "10pt"},
        active_tools=[],
        hooks=[themed(look)],
        backend="bokeh",
    )


def _points(part: pl.DataFrame, number: int, look: Theme) -> hv.Points:
    name = part["name"][0]
    columns = {n: part[n].to_list() for n in part.columns}
    rest = [n for n in part.columns if n not in {"bytes", "gb_per_s"}]
    colour = look.of("communication") if number == 0 else look.families[number % len(look.families)]
    return hv.Points(columns, ["bytes", "gb_per_s"], rest, label=name.replace("_", " ")).opts(
        marker=MARKERS[number % len(MARKERS)],
        color=colour,
        size=8,
        alpha=0.75,
        line_color=look.background,
        tools=["hover"],
        default_tools=[],
        hover_tooltips=TOOLTIPS,
        backend="bokeh",
    )


def _extent(values: pl.Series) -> tuple[float, float]:
    return float(values.min()) / MARGIN, float(values.max()) * MARGIN  # type: ignore[arg-type]
