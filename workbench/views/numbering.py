"""Numbers for the distinct values of some columns: by the codes of the values, without a join."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_TABLE = 1 << 22
"""Combinations of codes up to so many are told apart in a table with an entry each."""


def numbered(frame: pl.DataFrame, on: Sequence[str]) -> tuple[NDArray[np.uint32], pl.DataFrame]:
    """Give each combination of values of the columns `on` a number, in order of their first rows.

    Returns the number of each row, and the combinations, null being a value like others.
    """
    key, bound = np.zeros(frame.height, np.uint32), 1
    for name in on:
        codes, values = _codes(frame[name])
        if values == 1:
            continue
        if bound * values > MAX_TABLE:
            (key, bound), (codes, values) = _dense(key, bound), _dense(codes, values)
        if bound * values > MAX_TABLE:
            key, bound = _squeezed(key, codes, values)
        else:
            key, bound = key * np.uint32(values) + codes, bound * values
    return _by_first_row(key, bound, frame.select(on))


def _codes(values: pl.Series) -> tuple[NDArray[np.uint32], int]:
    """Return a code for each value, and how many codes there may be."""
    if values.dtype == pl.String:
        values = values.cast(pl.Categorical)
    if isinstance(values.dtype, (pl.Categorical, pl.Enum)):
        values = values.to_physical()
    if values.null_count() == len(values):
        return np.zeros(len(values), np.uint32), 1
    if values.dtype.is_integer():
        least, most = int(values.min()), int(values.max())  # type: ignore[arg-type]
        least -= values.null_count() > 0
        if most - least < MAX_TABLE and least >= -(2**63) and most < 2**63:
            whole = values.cast(pl.Int64).fill_null(least) if values.null_count() else values
            codes = np.subtract(whole.to_numpy(), least, dtype=np.int64).astype(np.uint32)
            return codes, most - least + 1
    known = values.unique().to_frame().with_row_index("code")
    left = values.to_frame()
    joined = left.join(known, on=values.name, how="left", nulls_equal=True, maintain_order="left")
    return joined["code"].to_numpy(), known.height


def _dense(key: NDArray[np.uint32], bound: int) -> tuple[NDArray[np.uint32], int]:
    """Leave out the numbers that do not occur."""
    used = np.zeros(bound, np.bool_)
    used[key] = True
    number = (np.cumsum(used) - 1).astype(np.uint32)
    return number[key], int(used.sum())


def _squeezed(
    key: NDArray[np.uint32], codes: NDArray[np.uint32], values: int
) -> tuple[NDArray[np.uint32], int]:
    """Give the pairs that occur a number, where there might be very many."""
    pairs, number = np.unique(
        key.astype(np.uint64) * np.uint64(values) + codes, return_inverse=True
    )
    return number.astype(np.uint32), len(pairs)


def _by_first_row(
    key: NDArray[np.uint32], bound: int, frame: pl.DataFrame
) -> tuple[NDArray[np.uint32], pl.DataFrame]:
    rows = len(key)
    first = np.full(bound, rows, np.uint32)
    # of several values for one place the last one stays, which is the first row
    first[key[::-1]] = np.arange(rows, dtype=np.uint32)[::-1]
    order = np.argsort(first, kind="stable")[: int((first < rows).sum())]
    number = np.empty(bound, np.uint32)
    number[order] = np.arange(len(order), dtype=np.uint32)
    return number[key], frame[first[order]]
