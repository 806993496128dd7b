"""What readers of tables do alike: leave out records without a usable time, find the origin."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from workbench.trace.problems import Tally

DAY_NS = 86_400 * 10**9
EARLIEST_NS, LATEST_NS = -(2**60), 2**62
LONGEST_NS = 10**15
"""Times are taken from 36 years before to 146 years after their zero, and durations up to eleven
days: beyond lies damage, and within, no difference and no sum of thousands overflows int64."""
LARGEST = 2**31 - 1
"""Of devices, registers and sizes of a launch."""
_INSTANT = ("counters", "memory")
"""Tables whose rows have one time, `t_ns`."""


class Settled(NamedTuple):
    """Tables relative to the earliest record, and where that stood."""

    tables: dict[str, pl.DataFrame]
    first_ns: int
    recording: tuple[int, int]
    """First and last ns of the records, relative to the first."""


def durations() -> pl.Expr:
    """Return `end - start`; null where a time is absent or absurd, so that nothing overflows."""
    sane = [pl.col(c).is_between(EARLIEST_NS, LATEST_NS) for c in ("start", "end")]
    return pl.when(*sane).then(pl.col("end") - pl.col("start"))


def settle(tables: dict[str, pl.DataFrame], tally: Tally) -> Settled:
    """Leave out what has no usable time, and make the rest relative to the earliest.

    An invalid device record has dur < 0, or start = 0 and (dur = 0 or the next-earliest record
    starts more than a day later). Any other record is invalid when its duration is negative.
    """
    kept = {n: _usable(n, f, _starts(tables), tally) for n, f in tables.items()}
    starts = _starts(kept)
    first = int(starts.min()) if len(starts) else 0  # type: ignore[arg-type]
    ends = [f.select((pl.col("start_ns") + pl.col("dur_ns")).max()).item() for f in _timed(kept)]
    last = max((e for e in ends if e is not None), default=first)
    return Settled({n: _shifted(n, f, first) for n, f in kept.items()}, first, (0, last - first))


def _timed(tables: dict[str, pl.DataFrame]) -> list[pl.DataFrame]:
    return [f for n, f in tables.items() if n not in _INSTANT]


def _starts(tables: dict[str, pl.DataFrame]) -> pl.Series:
    return pl.concat([f["start_ns"] for f in _timed(tables)])


def _usable(name: str, frame: pl.DataFrame, starts: pl.Series, tally: Tally) -> pl.DataFrame:
    if name in _INSTANT:
        sane = pl.col("t_ns").is_between(EARLIEST_NS, LATEST_NS)
    else:
        sane = pl.col("start_ns").is_between(EARLIEST_NS, LATEST_NS)
        sane &= pl.col("dur_ns").is_between(0, LONGEST_NS)
    if name == "activities":
        real = starts.filter(starts > 0).min()
        far = real is not None and int(real) > DAY_NS  # type: ignore[arg-type]
        unfilled = (pl.col("start_ns") == 0) & ((pl.col("dur_ns") == 0) | far)
        sane &= ~unfilled
    sane = sane.fill_null(value=False)
    bad = frame.filter(~sane)
    if bad.height:
        tally.add(
            "invalid_record",
            bad.height,
            f"{name}: {bad['name'].cast(pl.String)[0]}",
            "no usable time, so left out of every total",
        )
    return frame.filter(sane)


def _shifted(name: str, frame: pl.DataFrame, first: int) -> pl.DataFrame:
    return frame.with_columns(pl.col("t_ns" if name in _INSTANT else "start_ns") - first)


def shaped(
    wanted: dict[str, pl.DataType], frame: pl.DataFrame, tally: Tally | None = None
) -> pl.DataFrame:
    """Return the columns of a bare table; those that a frame lacks, or can't hold, are null."""
    given = frame.schema
    for name in [n for n, t in wanted.items() if tally and t == pl.Int32 and n in given]:
        absurd = frame[name].filter(frame[name].abs() > LARGEST)
        if tally and len(absurd):
            effect = "numbers beyond what their column can mean read as not recorded"
            tally.add("absurd_value", len(absurd), f"{name}: {absurd[0]}", effect)
    return frame.select(
        (
            pl.lit(None, dtype)
            if name not in given
            else pl.col(name)
            if given[name] == dtype
            else pl.col(name).cast(dtype, strict=False)
        ).alias(name)
        for name, dtype in wanted.items()
    )


def counted(column: str, *, least: int = 0) -> pl.Expr:
    """Return a column of numbers that count from `least`; smaller ones mean none."""
    return pl.when(pl.col(column) >= least).then(pl.col(column)).alias(column)
