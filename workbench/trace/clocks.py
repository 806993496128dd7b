"""How far the clocks of ranks are apart, told from the collectives that they ran together.

A collective ends on all of its members at nearly one moment, so where the recorded ends differ by
much, and by the same again and again, the clocks differ. Tables keep recorded times; only waits
across ranks use aligned ones, and only where the recorded ones can't be right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.trace import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.trace.core import Trace

OFFSETS = {
    "rank": pl.Int32(),
    "offset_ns": pl.Int64(),
    "collectives": pl.Int64(),
    "spread_ns": pl.Int64(),
}
MEMBERS = pl.List(pl.Int64())
CORRECTIONS = {"member_list": MEMBERS, "rank": pl.Int32(), "ahead_ns": pl.Int64()}
FEWEST = 2
"""Collectives that must agree before recorded times are doubted; one alone agrees with itself."""
_SAME = ["member_list", "seq", "name", "same_group"]
_LIST_OF_RANKS = r"^\s*(\[\s*\d{1,9}(?:\s*,\s*\d{1,9})*\s*\])\s*$"


def identified(trace: Trace, shift_ns: int) -> pl.DataFrame:
    """Return a rank's collectives with what identifies them on the others; times are shifted."""
    members = pl.col("members").str.extract(_LIST_OF_RANKS)
    return trace.collectives.select(
        "id",
        "seq",
        rank=pl.lit(trace.meta.rank, pl.Int32()),
        start_ns=pl.col("start_ns") + shift_ns,
        end_ns=pl.col("start_ns") + pl.col("dur_ns") + shift_ns,
        name=pl.col("name").cast(pl.String),
        member_list=members.str.json_decode(MEMBERS).list.sort(),
        same_group=pl.col("group").cast(pl.String).fill_null(""),
    )


def offsets(ranks: Sequence[Trace]) -> pl.DataFrame:
    """Return `rank offset_ns collectives spread_ns`, a row a rank.

    `offset_ns` = median over collectives of (own end - end on the lowest rank), ends as recorded;
    positive: this rank's clock is ahead. A collective is the same on two ranks by members, sequence
    number, name and group, and counts when each member recorded it once. A rank that shares none
    with the lowest is told from a rank that does, whose offset is taken off first. `collectives` is
    how many the median rests on, `spread_ns` the largest difference less the smallest. The lowest
    rank has 0; null where nothing ties a rank to it.
    """
    matched = _matched(ranks)
    lowest = min(t.meta.rank or 0 for t in ranks)
    known = pl.DataFrame([(lowest, 0, None, None)], schema=OFFSETS, orient="row")
    while (found := _reached(matched, known)).height:
        known = pl.concat([known, found])
    every = pl.DataFrame({"rank": [t.meta.rank for t in ranks]}, schema={"rank": pl.Int32()})
    return every.join(known, on="rank", how="left", maintain_order="left")


def corrections(ranks: Sequence[Trace], offsets: pl.DataFrame) -> pl.DataFrame:
    """Return `member_list rank ahead_ns`: what to take off the times of a group's collectives.

    Only of groups (lists of members) of whose matched collectives, two at least, most have no
    moment in common as recorded and have one with `offset_ns` taken off.
    """
    matched = _matched(ranks).join(offsets.select("rank", "offset_ns"), on="rank")
    start, end, ahead = pl.col("start_ns"), pl.col("end_ns"), pl.col("offset_ns")
    instances = matched.group_by(_SAME).agg(
        apart=start.max() > end.min(),
        mended=((start - ahead).max() <= (end - ahead).min()) & ahead.is_not_null().all(),
    )
    most = (pl.col("apart") & pl.col("mended")).sum() * 2 > pl.len()
    groups = instances.group_by("member_list").agg(wrong=most & (pl.len() >= FEWEST))
    return (
        groups.filter("wrong")
        .select("member_list", rank="member_list")
        .explode("rank")
        .with_columns(pl.col("rank").cast(pl.Int32))
        .join(offsets.select("rank", ahead_ns="offset_ns"), on="rank")
        .sort("rank")
        .select(pl.col(n).cast(t) for n, t in CORRECTIONS.items())
    )


def problems(offsets: pl.DataFrame, corrections: pl.DataFrame) -> pl.DataFrame:
    """Return the `problems` rows, with `rank`, of clocks that waits had to be aligned by."""
    lowest = min(offsets["rank"].to_list())
    wrong = offsets.join(corrections.select("rank").unique(), on="rank", how="semi")
    rows = [
        {
            "rank": rank,
            "code": "clock_offset",
            "count": count,
            "first_example": f"rank {rank} is {abs(ns):,} ns {'ahead of' if ns > 0 else 'behind'} "
            f"rank {lowest} by the ends of {count} collectives",
            "effect": "waits for other ranks are computed with this taken off; times in tables are "
            "as recorded",
        }
        for rank, ns, count, _ in wrong.rows()
        if ns
    ]
    return pl.DataFrame(rows, schema={"rank": pl.Int32(), **schema.polars_schema("problems")})


def _matched(ranks: Sequence[Trace]) -> pl.DataFrame:
    """Return the records of collectives that every member recorded exactly once."""
    origin = min(t.meta.origin_ns for t in ranks)
    every = pl.concat([identified(t, t.meta.origin_ns - origin) for t in ranks])
    every = every.drop_nulls(["member_list", "seq", "end_ns"])
    members = pl.col("member_list").list.len()
    once_each = (pl.col("rank").n_unique() == members) & (pl.len() == members)
    return every.filter(once_each.over(_SAME) & (members > 1))


def _reached(matched: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return the offsets of ranks that share collectives with one whose offset is known."""
    ends = matched.join(known.select("rank", "offset_ns"), on="rank", how="left")
    told = ends.drop_nulls("offset_ns").sort("rank").group_by(_SAME, maintain_order=True)
    reference = told.agg(at_ns=(pl.col("end_ns") - pl.col("offset_ns")).first())
    apart = ends.filter(pl.col("offset_ns").is_null()).join(reference, on=_SAME)
    ahead = (pl.col("end_ns") - pl.col("at_ns")).sort()
    low, high = ahead.get((pl.len() - 1) // 2), ahead.get(pl.len() // 2)
    return (
        apart.group_by("rank")
        .agg(
            # not .median(), a double, which rounds what is beyond 2^53 ns
            offset_ns=low + (high - low) // 2,
            collectives=pl.len(),
            spread_ns=ahead.max() - ahead.min(),
        )
        .sort("rank")
        .select(pl.col(n).cast(t) for n, t in OFFSETS.items())
    )
