"""What readers share between decoding a file and handing over a `Trace`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from workbench.trace import schema
from workbench.trace.core import Thread, Trace, TraceMeta
from workbench.trace.problems import Problem
from workbench.trace.problems import table as problem_table

DAY_NS = 86_400 * 10**9
EARLIEST_NS, LATEST_NS = -(2**60), 2**62
LONGEST_NS = 10**15
"""Times are taken from 36 years before to 146 years after their zero, and durations up to eleven
days: beyond lies damage, and within, no difference and no sum of thousands overflows int64."""


def assemble(
    meta: TraceMeta, tables: Mapping[str, pl.DataFrame], problems: Sequence[Problem], reader: str
) -> Trace:
    """Make a `Trace` of a format in which there is nothing to attribute; absent tables are empty.

    Raises
    ------
    SchemaError
        A table does not match its declared schema.
    """
    whole = {n: schema.empty(n) for n in schema.TABLES if n != "frames"} | dict(tables)
    whole["problems"] = problem_table(problems)
    checked = {
        n: schema.check(n, schema.conform(n, f), reader, timed=meta.timed) for n, f in whole.items()
    }
    return Trace(meta, checked)


@dataclass
class Threads:
    """Host threads by (process, thread id); their positions are the `thread` of the tables."""

    index: dict[tuple[int | str, int | str], int] = field(default_factory=dict)
    names: dict[tuple[int | str, int | str], str] = field(default_factory=dict)

    def of(self, pid: int | str, tids: Iterable[int | str]) -> pl.Series:
        """Return the index of each thread of a process."""
        found = [self.index.setdefault((pid, tid), len(self.index)) for tid in tids]
        return pl.Series(found, dtype=pl.Int32)

    def list(self) -> tuple[Thread, ...]:
        """Return the threads in the order of their indices."""
        return tuple(Thread(pid, tid, self.names.get((pid, tid))) for pid, tid in self.index)


def frame(columns: Mapping[str, pl.DataType], **given: pl.Series | pl.Expr) -> pl.DataFrame:
    """Make a bare table; columns that a format does not know are null."""
    part = pl.DataFrame({n: s for n, s in given.items() if isinstance(s, pl.Series)})
    part = part.with_columns(**{n: e for n, e in given.items() if isinstance(e, pl.Expr)})
    return part.select(
        (pl.col(n).cast(t, strict=False) if n in given else pl.lit(None, t).alias(n))
        for n, t in columns.items()
    )


@dataclass(frozen=True)
class Placed:
    """Bare tables with their times relative to the earliest valid one."""

    tables: dict[str, pl.DataFrame]
    origin_ns: int
    recording: tuple[int, int]
    problems: list[Problem]


def placed(tables: Mapping[str, pl.DataFrame]) -> Placed:
    """Leave records without a usable time out, and make times relative to the earliest.

    A device record is also invalid when it starts at 0 and has no duration, or starts more than a
    day before everything else.
    """
    kept, problems = _valid(tables)
    starts = [f[_time(f)] for f in kept.values() if f.height]
    first = min((int(s.min()) for s in starts), default=0)  # type: ignore[arg-type]
    moved = {n: f.with_columns(pl.col(_time(f)) - first) for n, f in kept.items()}
    timed = [f for f in moved.values() if f.height and "dur_ns" in f.columns]
    ends = [int((f["start_ns"] + f["dur_ns"]).max()) for f in timed]  # type: ignore[arg-type]
    return Placed(moved, first, (0, max(ends, default=0)), problems)


def _time(table: pl.DataFrame) -> str:
    return "t_ns" if "t_ns" in table.columns else "start_ns"


def _valid(
    tables: Mapping[str, pl.DataFrame],
) -> tuple[dict[str, pl.DataFrame], list[Problem]]:
    starts = pl.concat([f["start_ns"] for f in tables.values() if "start_ns" in f.columns])
    real = starts.filter(starts > 0).min()
    far = isinstance(real, int) and real > DAY_NS
    kept, problems = {}, []
    for name, table in tables.items():
        good = pl.col(_time(table)).is_between(EARLIEST_NS, LATEST_NS)
        if "dur_ns" in table.columns:
            good &= pl.col("dur_ns").is_between(0, LONGEST_NS)
        if name == "activities":
            good &= (pl.col("start_ns") != 0) | ((pl.col("dur_ns") > 0) & pl.lit(not far))
        kept[name] = table.filter(good.fill_null(value=False))
        if lost := table.height - kept[name].height:
            bad = table.filter(~good.fill_null(value=False))
            problems.append(invalid_record(name, lost, bad))
    return kept, problems


def invalid_record(table: str, count: int, bad: pl.DataFrame) -> Problem:
    """Describe records that were left out for want of a usable time."""
    example = str(bad["name"][0]) if "name" in bad.columns else "a record"
    return Problem(
        code="invalid_record",
        count=count,
        first_example=f"{table}: {example}",
        effect="no usable time, so left out of every total",
    )
