"""The roofline picture: what operators reach against what the device allows, on two log axes.

Draws the frame of `analysis.roofline` and nothing else, so the frame is its text form. A point is
one operator with its shapes, or one group: across, FLOPs per byte; up, FLOP/s reached; its area,
its share of the device's time; its colour, its kind. Roofs are the peaks and bandwidths that the
frame names. A click on a point picks its row of the frame.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import holoviews as hv
import polars as pl

from workbench import units
from workbench.views import log_plane
from workbench.views.breakdown import sentence
from workbench.views.log_plane import DRAWN, GIGA, REACHED, SIZE
from workbench.views.theme import THEMES, Theme

if TYPE_CHECKING:
    from collections.abc import Sequence

CROWD = 300
"""With more points than this, they are drawn fainter."""
LEGEND = {
    "matmul": ("matmul", 0),
    "convolution": ("convolution", 1),
    "attention": ("attention", 2),
    "norm": ("norm, softmax", 4),
    "softmax": ("norm, softmax", 4),
    "elementwise": ("elementwise", 5),
    "fused": ("elementwise", 5),
    "optimizer": ("elementwise", 5),
    "random": ("elementwise", 5),
    "loss": ("reduction", 7),
    "reduction": ("reduction", 7),
    "pooling": ("reduction", 7),
    "embedding": ("indexing", 8),
    "indexing": ("indexing", 8),
    "sort": ("indexing", 8),
}
"""What the legend calls a kind of work, and which of the theme's family colours it has."""
REST = "other"
TOOLTIPS = [
    ("what", "@what"),
    ("shapes", "@shapes"),
    ("rank, device", "@place"),
    ("time", "@time (@share of device time, @calls calls)"),
    ("reached", "@reached at @intensity"),
    ("of its roof", "@ratio (@bound, @precision)"),
    ("of the memory roof", "@memory_ratio"),
    ("bytes", "@moved"),
]
NOTHING = "No operator in this window has recorded shapes and a model with FLOPs."


def points(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that can be drawn, longest first, with size in pixels and texts for hover.

    Left out: rows without FLOPs, bytes or time; their share stands in the title.
    """
    if "group" in frame.columns:
        frame = frame.rename({"group": "operator"}).with_columns(shapes=pl.lit(None, pl.String))
    drawn = frame.with_row_index("row").filter(DRAWN).sort("time_ns", descending=True)
    texts = pl.DataFrame([_texts(row) for row in drawn.iter_rows(named=True)], schema=_TEXTS)
    legend = pl.col("kind").replace_strict(
        {k: v for k, (v, _) in LEGEND.items()}, default=REST, return_dtype=pl.String
    )
    return drawn.select(
        "flops_per_byte",
        REACHED,
        SIZE,
        legend.alias("kind"),
        pl.col("row").cast(pl.Int64),
    ).hstack(texts)


_TEXTS = pl.Schema(
    dict.fromkeys(
        (
            "what", "shapes", "place", "time", "share", "calls", "reached", "intensity",
            "ratio", "bound", "memory_ratio", "precision", "moved",
        ),
        pl.String(),
    )
)  # fmt: skip


def _texts(row: dict[str, Any]) -> dict[str, str]:
    place = (v if v is not None else "-" for v in (row["rank"], row["device"]))
    ratio = units.share(row["ratio_to_roof"], 1) if row["ratio_to_roof"] else row["reason"]
    bound, memory_ratio = row.get("bound"), row.get("ratio_to_memory_roof")
    return {
        "what": row["operator"] or "no operator",
        "shapes": row["shapes"] or "-",
        "place": ", ".join(str(v) for v in place),
        "time": units.duration(row["time_ns"]),
        "share": units.share(row["share_of_device_time"], 1),
        "calls": str(row["calls"]),
        "reached": units.decimal(row["achieved_flops_per_s"], "FLOP/s"),
        "intensity": f"{row['flops_per_byte']:.4g} FLOP/byte",
        "ratio": ratio or "-",
        "bound": f"bound by {bound}" if bound else "bound not known",
        "memory_ratio": units.share(memory_ratio, 1),
        "precision": row["precision"] or "-",
        "moved": units.decimal(row["bytes"], "B"),
    }


def roofs(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the distinct roofs that a frame names: kind, label, source, and value.

    `kind` is peak (GFLOP/s) or bandwidth (GB/s, decimal).
    """
    peak = frame.select(
        pl.lit("peak").alias("kind"),
        pl.format("{} {}", "precision", "unit").alias("name"),
        (pl.col("peak_flops_per_s") / GIGA).alias("value"),
        "roof_source",
    )
    names: list[tuple[str | None, str]] = [(None, "memory_bytes_per_s")]
    if "memory_level" in frame.columns:
        names.insert(0, ("memory_level", "level_bytes_per_s"))
    slopes = [
        frame.select(
            pl.lit("bandwidth").alias("kind"),
            pl.col(name) if name else pl.lit("memory").alias("memory_level"),
            (pl.col(value) / GIGA).alias("value"),
            "roof_source",
        ).rename({"memory_level": "name"})
        for name, value in names
    ]
    every = pl.concat([peak, *slopes]).drop_nulls("value")
    merged = every.group_by("kind", "value", "roof_source", maintain_order=True).agg(
        pl.col("name").unique(maintain_order=True)
    )
    together = [_together(n) for n in merged["name"]]
    merged = merged.with_columns(pl.Series("name", together, dtype=pl.String))
    unit = pl.when(pl.col("kind") == "peak").then(pl.lit("FLOP/s")).otherwise(pl.lit("B/s"))
    texts = merged.with_columns(unit.alias("unit"))
    labels = [_roof_label(**row) for row in texts.iter_rows(named=True)]
    merged = merged.with_columns(pl.Series("label", labels, dtype=pl.String))
    return merged.select("kind", "label", "value", "roof_source").sort("kind", "value")


def _together(names: Sequence[str]) -> str:
    """Join the names of one roof; a precision whose units share it is named once."""
    units = Counter(name.partition(" ")[0] for name in names)
    shared = (first if units[first := n.partition(" ")[0]] > 1 else n for n in names)
    return ", ".join(dict.fromkeys(shared))


def _roof_label(name: str, value: float, unit: str, roof_source: str, kind: str) -> str:
    """Name a roof; a cache level leaves the source to the label of main memory below it."""
    text = f"{name}: {units.decimal(value * GIGA, unit)}"
    is_cache = kind == "bandwidth" and "memory" not in name.split(", ")
    return text if is_cache else f"{text}, {roof_source}"


def plot(
    frame: pl.DataFrame, *, theme: str = "light", width: int = 900, height: int = 520
) -> hv.Overlay:
    """Draw a roofline frame; legible with three points and with three thousand.

    Without anything to draw, a sentence says so in the place of the picture.
    """
    look = THEMES[theme]
    shown = points(frame)
    if shown.is_empty():
        return sentence(NOTHING, look, width, height)
    lines = roofs(frame)
    x, y = log_plane.extents(shown, lines)
    kinds = [*dict.fromkeys(name for name, _ in LEGEND.values()), REST]
    drawn = [shown.filter(pl.col("kind") == kind) for kind in kinds]
    elements = [
        *log_plane.lines(lines, x, y, [look.text] * lines.height),
        *(_points(part, look, crowded=shown.height > CROWD) for part in drawn if part.height),
        *log_plane.labels(lines, x, y, look, width=width, height=height),
    ]
    return hv.Overlay(elements).opts(
        title=_title(frame, shown),
        xlabel="arithmetic intensity (FLOP per byte)",
        **log_plane.plane(x, y, look, width, height),
    )


def _title(frame: pl.DataFrame, shown: pl.DataFrame) -> str:
    """Say how much of the time the points stand for, and how near the roof the whole is."""
    drawn, every = (int(f["time_ns"].sum()) for f in (frame.filter(DRAWN), frame))
    noun = "group" if "group" in frame.columns else "operator shape"
    noun += "" if shown.height == 1 else "s"
    title = f"Roofline: {shown.height} {noun}, {units.share(drawn, every)} of the time"
    return title + _distance(frame)


def _distance(frame: pl.DataFrame) -> str:
    """Say how near its roofs all the work is that has some, weighted by time."""
    taken = "held_ns" if "held_ns" in frame.columns else "time_ns"
    held = frame.drop_nulls("ratio_to_roof")
    if held.is_empty():
        return ""
    allowed, took = int(held["roof_ns"].sum()), int(held[taken].sum())
    return f"; what has a roof runs at {units.share(allowed, took)} of it"


def _points(part: pl.DataFrame, look: Theme, *, crowded: bool) -> hv.Points:
    kind = part["kind"][0]
    return log_plane.points(
        part,
        look,
        label=kind,
        colour=_colour(kind, look),
        tooltips=TOOLTIPS,
        alpha=0.45 if crowded else 0.75,
        tools=["hover", "tap"],
        nonselection_alpha=0.25,
    )


def _colour(kind: str, look: Theme) -> str:
    numbers = dict(LEGEND.values())
    return look.families[numbers[kind]] if kind in numbers else look.of(REST)
