"""Values of foreign SQLite cells to polars columns, tolerant of what stands in the wrong column."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import polars as pl

_INT = re.compile(rb"-?\d{1,19}")
_INT64 = range(-(2**63), 2**63)


class Column(NamedTuple):
    """Converted values, how many were lost, and the first of these."""

    values: pl.Series
    lost: int = 0
    example: object = None


def text(value: object) -> str:
    """Read a text as SQLite gives it; bytes that are no UTF-8 are replaced."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _integers(values: Sequence[Any]) -> Column:
    try:
        return Column(pl.Series(values, dtype=pl.Int64))
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return _tolerant(values, _as_int, pl.Int64())


def _doubles(values: Sequence[Any]) -> Column:
    return _tolerant(values, _as_double, pl.Float64())


def _texts(values: Sequence[Any]) -> Column:
    try:
        return Column(pl.Series(values, dtype=pl.Binary).cast(pl.String))
    except (TypeError, pl.exceptions.PolarsError):
        return _tolerant(values, text, pl.String())


MAKERS: dict[pl.DataType, Callable[[Sequence[Any]], Column]] = {
    pl.Int64(): _integers,
    pl.Float64(): _doubles,
    pl.String(): _texts,
}
"""How the cells of one column become values, by the type that is wanted."""


def _tolerant(
    values: Sequence[Any], convert: Callable[[Any], object], dtype: pl.DataType
) -> Column:
    """Convert one by one; what the conversion makes None was lost."""
    read = [None if v is None else convert(v) for v in values]
    lost = [v for v, r in zip(values, read, strict=True) if r is None and v is not None]
    return Column(pl.Series(read, dtype=dtype), len(lost), lost[0] if lost else None)


def _as_int(value: int | float | bytes) -> int | None:  # noqa: PYI041 - what SQLite returns
    if isinstance(value, bytes):
        value = int(value) if _INT.fullmatch(value) else math.nan
    if isinstance(value, float):
        return int(value) if value.is_integer() and int(value) in _INT64 else None
    return value if value in _INT64 else None


def _as_double(value: int | float | bytes) -> float | None:  # noqa: PYI041 - what SQLite returns
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
