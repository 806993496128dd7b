"""Lists of decoded values to polars columns, tolerant of numbers written as text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Raw
from numpy.typing import NDArray

from workbench.trace import schema
from workbench.trace.kineto.arguments import Scalar
from workbench.trace.kineto.events import UNREADABLE

_INT = re.compile(r"-?\d{1,19}")
_INT64 = range(-(2**63), 2**63)
CODE = pl.UInt32()


class Codes(dict[Any, int]):
    """Numbers for repeated values, in order of first use: memory for each distinct one only."""

    def __missing__(self, value: object) -> int:
        """Give a new value the next number."""
        code = self[value] = len(self)
        return code

    def column(self, values: Iterable[object]) -> pl.Series:
        """Return the numbers of some values."""
        return pl.Series([self[v] for v in values], dtype=CODE)

    def texts(self) -> pl.Series:
        """Return the categorical texts by number; bytes are JSON, kept without its white space."""
        texts = [_compact(t) if isinstance(t, bytes) else t for t in self]
        return pl.Series(texts, dtype=pl.String).cast(schema.NAME)


def _compact(text: bytes) -> str | None:
    """Return JSON without white space; empty text is null."""
    if not text:
        return None
    try:
        return bytes(msgspec.json.format(text, indent=-1)).decode()
    except UNREADABLE:
        return text.decode(errors="replace")


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
    try:
        column = pl.Series(values, dtype=pl.Float64)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        column = pl.Series([_as_double(v) for v in values], dtype=pl.Float64)
    return column.set(~column.is_finite(), None)


def _as_double(value: Scalar) -> float | None:
    try:
        return finite(float(value)) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def finite(number: float) -> float | None:
    """Return a number, or None for inf and nan."""
    return number if math.isfinite(number) else None


def triples(values: Sequence[list[int | float] | None]) -> pl.Series:
    """Make a column of three small counts; any other shape or size is null."""
    grid = _plain_triples(values)
    if grid is None:
        grid = np.array([v if _is_triple(v) else (-1, -1, -1) for v in values], np.int64)
    grid = grid.reshape(-1, 3).astype(np.int32)
    column = pl.Series(grid, dtype=pl.Array(pl.Int32, 3))
    good = pl.Series(grid[:, 0] >= 0)
    return pl.select(pl.when(good).then(column)).to_series()


def _plain_triples(values: Sequence[list[int | float] | None]) -> NDArray[np.int64] | None:
    """Return the counts when all are as they should be, at a fraction of the cost."""
    if None in values or set(map(len, values)) != {3}:  # type: ignore[arg-type]
        return None
    grid = np.array(list(chain.from_iterable(values)))  # type: ignore[arg-type]
    fits = grid.dtype.kind == "i" and grid.min() >= 0 and grid.max() < 2**31
    return grid if fits else None


def _is_triple(value: list[int | float] | None) -> bool:
    return (
        value is not None
        and len(value) == 3  # noqa: PLR2004
        and all(type(x) is int and 0 <= x < 2**31 for x in value)
    )


def words(values: Sequence[Scalar]) -> pl.Series:
    """Make a text column; empty and absent are null."""
    return pl.Series([str(v) if v not in (None, "") else None for v in values], dtype=pl.String)


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
