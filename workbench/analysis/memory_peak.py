"""`memory_peak`: what was alive when a device had most allocated, by who allocated it."""

from __future__ import annotations

import polars as pl

from workbench.analysis import needs
from workbench.analysis.pools import BEFORE, Peak, Pool, blocks, described, peak, pools
from workbench.analysis.window import Range
from workbench.errors import unknown_name
from workbench.trace.core import Source

NEEDS = ("memory",)
BY = ("op", "outer_op", "module", "phase", "site", "category")
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "place": pl.String(),
    "peak_t_ns": pl.Int64(),
    "peak_bytes": pl.Int64(),
    "by": pl.String(),
    "name": pl.String(),
    "bytes": pl.Int64(),
    "blocks": pl.Int64(),
    "share": pl.Float64(),
    "reason": pl.String(),
}
_COUNTED = {n: SCHEMA[n] for n in ("name", "bytes", "blocks", "reason")}
OUTSIDE = "allocated while no operator ran on that thread"
UNNAMED = {
    "op": OUTSIDE,
    "outer_op": OUTSIDE,
    "module": "allocated outside of modules",
    "phase": OUTSIDE,
    "site": "its Python line is not recorded",
    "category": "of no category",
}
NO_OPS = "operators are not recorded"
NO_BLOCKS = "allocations have no addresses, so what is alive can't be told apart"


def memory_peak(
    source: Source,
    *,
    window: str = "host",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    by: str | None = None,
) -> pl.DataFrame:
    """Return what is allocated at each device's peak, grouped by who allocated it, largest first.

    `by`: `op` (innermost operator that ran when it was allocated), `outer_op` (outermost), `module`
    (innermost nn.Module), `phase`, `site` (line of Python, in snapshots with stacks), `category`
    (as recorded); without it, every grouping that this
    recording knows, one below the other. The bytes of each grouping add up to `peak_bytes`, those
    that can't be named with a null name and the reason; `share` is of `peak_bytes`.

    The peak is that of `memory`: the first largest level in the window. Alive is what was
    allocated up to it and neither freed nor replaced. Bytes from before the recording are what
    is left of the total; their number of blocks is unknown. Without totals `peak_bytes` and
    shares are null.

    Raises
    ------
    UsageError
        An unknown grouping.
    """
    if by is not None and by not in BY:
        raise unknown_name("grouping", by, BY)
    frames = []
    for pool in pools(source, window=window, step=step, rank=rank, device=device, within=within):
        if found := peak(pool):
            shift = pool.trace.meta.origin_ns - source.origin_ns
            frames.append(_of_pool(pool, found, by, shift))
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _of_pool(pool: Pool, found: Peak, by: str | None, shift_ns: int) -> pl.DataFrame:
    groupings = _groupings(pool, found)
    if by is None:
        known = {n: g for n, g in groupings.items() if g["name"].count()}
        groupings = known or {n: g for n, g in groupings.items() if n == "op"}
    else:
        groupings = {by: groupings[by]} if by in groupings else {}
    whole = found.bytes if pool.has_totals else None
    frames = [
        frame.sort(
            "bytes", "name", descending=[True, False], nulls_last=True, maintain_order=True
        ).with_columns(by=pl.lit(name))
        for name, frame in groupings.items()
    ]
    every = pl.concat(frames) if frames else pl.DataFrame(schema=_COUNTED | {"by": pl.String})
    every = every.with_columns(
        rank=pl.lit(pool.rank),
        device=pl.lit(pool.device),
        place=pl.lit(pool.place),
        peak_t_ns=pl.lit(found.at + shift_ns if pool.timed else None),
        peak_bytes=pl.lit(whole),
        share=pl.col("bytes") / whole if whole else None,
    )
    return every.select(pl.col(n).cast(t) for n, t in SCHEMA.items())


def _groupings(pool: Pool, found: Peak) -> dict[str, pl.DataFrame]:
    if pool.rows["category"].count():
        return {"category": _by_category(pool, found)}
    lives = blocks(pool)
    if lives is None:
        return {"op": _rest(found.bytes if pool.has_totals else None, NO_BLOCKS)}
    alive = lives.row[(lives.row <= found.row) & (lives.end > found.row)]
    size = pool.rows["bytes"][alive]
    before = _before(pool, found.bytes - int(size.sum()))
    who = described(pool.trace, pool.rows["op"][alive]).with_columns(
        bytes=size, site=pool.rows["site"][alive]
    )
    lacking = {"site": UNNAMED["site"]}
    if not needs.NEEDS["modules"].present(pool.trace):
        lacking["module"] = needs.NEEDS["modules"].missing
    if not pool.trace.ops.height:
        lacking = dict.fromkeys(BY, NO_OPS) | lacking
    return {
        name: pl.concat([_grouped(who, name, lacking.get(name, UNNAMED[name])), before])
        for name in BY[:-1]
    }


def _grouped(who: pl.DataFrame, by: str, unnamed: str) -> pl.DataFrame:
    name = pl.col(by).cast(pl.String)
    grouped = who.group_by(name.alias("name")).agg(
        bytes=pl.col("bytes").sum(), blocks=pl.len().cast(pl.Int64)
    )
    reason = pl.when(pl.col("name").is_null()).then(pl.lit(unnamed))
    return grouped.with_columns(reason=reason)


def _before(pool: Pool, left: int) -> pl.DataFrame:
    """Return what the total holds beyond known blocks, when it holds any or isn't known."""
    if pool.has_totals and not left:
        return pl.DataFrame(schema=_COUNTED)
    return _rest(left if pool.has_totals else None, BEFORE)


def _rest(size: int | None, reason: str) -> pl.DataFrame:
    row = {"name": None, "bytes": size, "blocks": None, "reason": reason}
    return pl.DataFrame([row], schema=_COUNTED)


def _by_category(pool: Pool, found: Peak) -> pl.DataFrame:
    """Add up changes: each row brings a block into a category or takes one out."""
    upto = pool.rows.head(found.row + 1).select(
        "bytes", category=pl.col("category").cast(pl.String), blocks=pl.col("bytes").sign()
    )
    grouped = upto.group_by(pl.col("category").alias("name")).agg(pl.col("bytes", "blocks").sum())
    reason = pl.when(pl.col("name").is_null()).then(pl.lit(UNNAMED["category"]))
    kept = grouped.filter((pl.col("bytes") != 0) | (pl.col("blocks") != 0))
    return kept.with_columns(reason=reason).select(*_COUNTED)
