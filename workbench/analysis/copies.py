"""`copies`: what was copied or set, in which direction, how fast, and how much of it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from workbench import intervals
from workbench.analysis.window import Range, Selection, select, spans
from workbench.intervals import Intervals
from workbench.trace.core import Source
from workbench.trace.schema import COMPUTE_KINDS, COPY_KINDS

NEEDS = ("activity", "copy sizes")
NS = 10**9
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "direction": pl.String(),
    "host_memory": pl.String(),
    "count": pl.Int64(),
    "bytes": pl.Int64(),
    "without_bytes": pl.Int64(),
    "total_ns": pl.Int64(),
    "union_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
    "exposed_share": pl.Float64(),
    "mean_bytes": pl.Float64(),
    "largest_bytes": pl.Int64(),
    "bytes_per_s": pl.Float64(),
}
SET = "set"
_ENDS = (
    re.compile(r"([HDPA])(?:to|2)([HDPA])(?![a-z])"),
    re.compile(r"(?i)(host|device|peer|array)_?(?:to|2)_?(host|device|peer|array)"),
)
"""Direction in a name: `Memcpy HtoD (…)` (CUPTI, Kineto, Nsight Systems), `MemcpyD2H` (XLA),
`CopyHostToDevice` and `MEMORY_COPY_HOST_TO_DEVICE` (ROCm)."""
_MEMORIES = re.compile(r"\(([\w ]+) -> ([\w ]+)\)")
_HOST_MEMORIES = ("pageable", "pinned", "managed")


def copies(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, device, direction, host memory) of copies and sets.

    `direction` is HtoD, DtoH, DtoD, PtoP, HtoH, … or `set`, and `host_memory` pageable, pinned or
    managed on the host's side, as the name says; null where it says nothing or no host is involved.
    `total_ns` is the sum and `union_ns` the union of durations clipped to the window; `exposed_ns`
    what of the union lies in M - C - N, under neither compute nor communication. Copies of several
    rows may run at once, so only `total_ns` adds up. `count`, `bytes` and what follows are of those
    that start in the window. `bytes_per_s` = bytes / |union of the whole durations|, over copies of
    known size alone; `without_bytes` counts the others. GB is 10^9 bytes. HTA adds up the bandwidth
    of each copy and stretches short ones to 1 us, so its figures are of another quantity. Under
    host execution the direction is HtoH, and `count` is of distinct operators, without sizes.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    rows = [row for s in chosen for row in _rows(s)]
    return pl.DataFrame(rows, schema=SCHEMA)


def _rows(chosen: Selection) -> Iterator[dict[str, object]]:
    compute, communication = chosen.times(*COMPUTE_KINDS), chosen.times("collective")
    bare = intervals.difference(chosen.times(*COPY_KINDS), compute)
    bare = intervals.difference(bare, communication)
    counted = chosen.counted().select("id", is_counted=pl.lit(value=True))
    moved = chosen.activities.with_columns(chosen.clipped_ns()).filter(
        pl.col("kind").is_in(COPY_KINDS)
    )
    moved = _directed(moved, is_host=chosen.is_host).join(
        counted, on="id", how="left", maintain_order="left"
    )
    keys = ["direction", "host_memory"]
    groups = moved.partition_by(keys, maintain_order=True)
    for group in sorted(groups, key=lambda g: -int(g["clipped_ns"].sum())):
        yield {
            "rank": chosen.rank,
            "device": chosen.device,
            **group.select(keys).row(0, named=True),
            **_times(group, chosen.inside, bare),
            **_sizes(group.filter("is_counted"), is_host=chosen.is_host),
        }


def _directed(moved: pl.DataFrame, *, is_host: bool) -> pl.DataFrame:
    """Add what the names say; asked once a distinct name."""
    if is_host:
        return moved.with_columns(direction=pl.lit("HtoH"), host_memory=pl.lit(None, pl.String))
    distinct = moved["name"].unique().cast(pl.String).to_list()
    said = {n: (direction(n), host_memory(n)) for n in distinct}
    name = pl.col("name").cast(pl.String)
    is_set = pl.col("kind") == SET
    columns = (
        name.replace_strict({n: s[i] for n, s in said.items()}, return_dtype=pl.String)
        for i in range(2)
    )
    way, memory = columns
    return moved.with_columns(
        direction=pl.when(is_set).then(pl.lit(SET)).otherwise(way),
        host_memory=pl.when(~is_set).then(memory),
    )


def direction(name: str) -> str | None:
    """Return from where to where a copy of this name goes, as `HtoD`; None when it doesn't say."""
    found = next((f for rule in _ENDS if (f := rule.search(name))), None)
    return None if found is None else "to".join(end[0].upper() for end in found.groups())


def host_memory(name: str) -> str | None:
    """Return the kind of memory on the host's side of a copy, None when unknown or no host's."""
    found, way = _MEMORIES.search(name), direction(name) or ""
    if found is None or "H" not in way:
        return None
    side = found[1 if way.startswith("H") else 2].lower()
    return next((m for m in _HOST_MEMORIES if side.startswith(m)), None)


def _times(group: pl.DataFrame, inside: Intervals, bare: Intervals) -> dict[str, object]:
    union = intervals.intersection(intervals.union(*spans(group)), inside)
    exposed_ns = intervals.length(intervals.intersection(union, bare))
    union_ns = intervals.length(union)
    return {
        "total_ns": group["clipped_ns"].sum(),
        "union_ns": union_ns,
        "exposed_ns": exposed_ns,
        "exposed_share": exposed_ns / union_ns if union_ns else None,
    }


def _sizes(group: pl.DataFrame, *, is_host: bool) -> dict[str, object]:
    if is_host:
        return {"count": group["op"].n_unique()}
    sized = group.filter(pl.col("bytes").is_not_null())
    count, known = group.height, sized.height
    union_ns = intervals.length(intervals.union(*spans(sized)))
    total = int(sized["bytes"].sum())
    return {
        "count": count,
        "without_bytes": count - known,
        "bytes": total if known else None,
        "mean_bytes": sized["bytes"].mean(),
        "largest_bytes": sized["bytes"].max(),
        "bytes_per_s": total * NS / union_ns if union_ns else None,
    }
