"""Lists of decoded values to polars columns, tolerant of numbers written as text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import polars as pl

from workbench.trace.kineto.events import UNREADABLE, Event, Raw, Scalar

_INT = re.compile(r"-?\d{1,19}")
_INT64 = range(-(2**63), 2**63)


def as_int(value: Scalar) -> int | None:
    """Read an integer that may be written as a double or as text; anything else is None."""
    if isinstance(value, str):
        value = int(value) if _INT.fullmatch(value) else None
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if type(value) is int and value in _INT64 else None


def ints(values: Sequence[Scalar]) -> pl.Series:
    """Make an Int64 column; what is no integer is null."""
    try:
        return pl.Series(values, dtype=pl.Int64)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series([as_int(v) for v in values], dtype=pl.Int64)


def ids(values: Sequence[Scalar]) -> pl.Series:
    """Make a column of correlation or external ids, where 0 and negative mean none."""
    column = ints(values)
    return column.set(column <= 0, None)


def indices(values: Sequence[Scalar]) -> pl.Series:
    """Make a column of device, stream, rank or sequence numbers, where negative means none."""
    column = ints(values)
    return column.set(column < 0, None)


def doubles(values: Sequence[Scalar]) -> pl.Series:
    """Make a Float64 column; what is no finite number is null."""
    return pl.Series([_as_double(v) for v in values], dtype=pl.Float64)


def _as_double(value: Scalar) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None
    return number if number is not None and math.isfinite(number) else None


def triples(values: Sequence[list[int | float] | None]) -> pl.Series:
    """Make a column of three small counts; any other shape or size is null."""
    none = (-1, -1, -1)
    whole = [v if _is_triple(v) else none for v in values]
    grid = np.array(whole, np.int64).reshape(-1, 3).astype(np.int32)
    column = pl.Series(grid, dtype=pl.Array(pl.Int32, 3))
    good = pl.Series(grid[:, 0] >= 0)
    return pl.select(pl.when(good).then(column)).to_series()


def _is_triple(value: list[int | float] | None) -> bool:
    return (
        value is not None
        and len(value) == 3  # noqa: PLR2004
        and all(type(x) is int and 0 <= x < 2**31 for x in value)
    )


def texts(raws: Iterable[Raw]) -> pl.Series:
    """Keep JSON values as their text; absent ones are null."""
    held = list(raws)
    try:
        return pl.Series([str(r, "utf-8") if r else None for r in held], dtype=pl.String)
    except UnicodeDecodeError:
        kept = [str(r, "utf-8", "replace") if r else None for r in held]
        return pl.Series(kept, dtype=pl.String)


def words(values: Sequence[Scalar]) -> pl.Series:
    """Make a text column; empty and absent are null."""
    return pl.Series([str(v) if v not in (None, "") else None for v in values], dtype=pl.String)


def names(events: Sequence[Event]) -> pl.Series:
    """Make the categorical column of event names; an absent name is empty."""
    return pl.Series([e.name or "" for e in events], dtype=pl.String).cast(pl.Categorical())


def rank_lists(raws: Iterable[Raw]) -> pl.Series:
    """Read lists of ranks, written as JSON or as text of JSON; cut or odd ones are null."""
    seen: dict[bytes, str | None] = {}
    out = []
    for raw in raws:
        key = bytes(raw)
        if key not in seen:
            seen[key] = _rank_list(key)
        out.append(seen[key])
    return pl.Series(out, dtype=pl.String)


def _rank_list(raw: bytes) -> str | None:
    try:
        value = msgspec.json.decode(raw) if raw else None
        if isinstance(value, str):
            value = msgspec.json.decode(value)
    except UNREADABLE:
        return None
    if not isinstance(value, list) or not all(type(x) is int for x in value) or not value:
        return None
    return msgspec.json.encode(value).decode()
