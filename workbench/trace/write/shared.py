"""What every kind of event shares: where it stands, when it was, how it is written."""

from __future__ import annotations

from typing import NamedTuple, cast

import msgspec
import polars as pl

from workbench.trace.write.text import us

LEAD_NS = 1_000
"""Time zero of the file lies this much before the origin: readers take a time of 0 as missing."""


class Block(NamedTuple):
    """Rows, and the expression that writes each of them as an event."""

    rows: pl.DataFrame
    event: pl.Expr


def word(text: str) -> pl.Expr:
    """Return a JSON string that needs no escapes."""
    return pl.lit(f'"{text}"')


def digits(column: str) -> pl.Expr:
    """Write a column as it prints: an integer, or text that is JSON already."""
    return pl.col(column).cast(pl.String)


def at(column: str = "start_ns") -> pl.Expr:
    """Write a time on the axis of the file."""
    return us(pl.col(column) + LEAD_NS)


def span(category: pl.Expr) -> dict[str, pl.Expr]:
    """Return the fields that every complete event has."""
    return {
        "ph": word("X"),
        "cat": category,
        "name": pl.col("name"),
        "pid": pl.col("pid"),
        "tid": pl.col("tid"),
        "ts": at(),
        "dur": us(pl.col("dur_ns")),
    }


def literal(value: int | str) -> str:
    """Return one value as JSON."""
    return msgspec.json.encode(value).decode()


def largest(column: pl.Series) -> int:
    """Return the largest value of an integer column, 0 without one."""
    return cast("int | None", column.max()) or 0
