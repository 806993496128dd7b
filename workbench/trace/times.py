"""Decimal microseconds to integer nanoseconds, whole columns at a time and exactly.

A double that stands for a text of any number of decimals rounds to the right nanosecond below 2^42
us when it is the double nearest to a number of three decimals: neighbours are then less than 0.5 ns
apart, so the text lay less than half a nanosecond off. Beyond, or where it isn't, the text itself
is read and rounded half to even.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench.units import NS_PER_US, us_text_to_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.intervals import Times

MISSING = np.iinfo(np.int64).min
"""Stands for a time that is absent, no number or beyond int64; callers drop such records."""
EXACT_BELOW_US = float(2**42)
_DECIMALS = 3
_MOST_DIGITS = 18
"""Any number of so many digits fits int64."""
_MOST_US = (2**63 - 1) // NS_PER_US
_LONGEST = 200
"""More characters than any honest number has."""
_NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?")


def from_doubles(us: NDArray[np.float64]) -> Times | None:
    """Convert doubles that came from decimal text; None when the doubles may have lost digits.

    NaN stands for a missing time. v * 1000 is below 2^53, and r / 1000 is the double nearest to
    the decimal with three places: equality proves that the text had no other digits that matter.
    """
    missing = np.isnan(us)
    us = np.where(missing, 0.0, us)
    ns = np.rint(us * NS_PER_US)
    if bool(np.any(np.abs(us) >= EXACT_BELOW_US)) or bool(np.any(ns / NS_PER_US != us)):
        return None
    return np.where(missing, MISSING, ns.astype(np.int64))


def from_numbers(us: Sequence[float | None]) -> Times | None:
    """Convert decoded numbers; None when some may have lost digits on the way.

    Integers are exact up to the range of int64, doubles as `from_doubles` says.
    """
    values = np.array(us)
    if values.dtype.kind == "i":
        fits = len(values) == 0 or max(-int(values.min()), int(values.max())) <= _MOST_US
        return values.astype(np.int64) * NS_PER_US if fits else None
    if values.dtype.kind == "f":
        return from_doubles(values)
    try:
        return from_doubles(np.array(us, np.float64))  # None among them, as NaN
    except (OverflowError, TypeError):
        return None


def from_texts(texts: Sequence[bytes]) -> Times:
    """Convert decimal texts, quoted or not; empty, null and non-numbers become `MISSING`."""
    if not texts:
        return np.empty(0, np.int64)
    flat = b"\n".join(texts).replace(b'"', b"") + b"\n"
    chars = np.frombuffer(flat, np.uint8)
    ends = np.flatnonzero(chars == ord("\n"))
    if len(ends) != len(texts):  # a line break inside a value: no number
        return np.array([_one(bytes(t)) for t in texts], np.int64)
    starts = np.concatenate(([0], ends[:-1] + 1))
    points = _first_point(chars, starts, ends)
    out = np.full(len(texts), MISSING, np.int64)
    shape = (ends - starts) << 32 | (ends - points)
    for key in np.unique(shape):
        rows = np.flatnonzero(shape == key)
        out[rows] = _same_shape(chars, starts[rows], int(key) >> 32, int(key) & 0xFFFFFFFF)
    return out


def _first_point(chars: NDArray[np.uint8], starts: Times, ends: Times) -> Times:
    """Return the position of each value's decimal point, or its end when it has none."""
    points = np.append(np.flatnonzero(chars == ord(".")), len(chars))
    point: Times = np.minimum(points[np.searchsorted(points, starts)], ends)
    return point


def _same_shape(chars: NDArray[np.uint8], starts: Times, width: int, tail: int) -> Times:
    """Convert values of one width whose point stands `tail` characters before the end."""
    grid = chars[starts[:, None] + np.arange(width)]
    whole = width - tail
    digits = np.delete(grid, whole, axis=1) if tail else grid
    plain = bool(np.all((digits >= ord("0")) & (digits <= ord("9")))) and whole > 0
    decimals = max(tail - 1, 0)
    short = digits.shape[1] <= _MOST_DIGITS
    if not plain or not short or decimals > _DECIMALS or tail == 1:
        return np.array([_one(row.tobytes()) for row in grid], np.int64)
    weights = 10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
    value = (digits - ord("0")).astype(np.int64) @ weights
    scale = 10 ** (_DECIMALS - decimals)
    if len(value) and int(value.max()) > (2**63 - 1) // scale:
        return np.array([_one(row.tobytes()) for row in grid], np.int64)
    return np.asarray(value * scale, np.int64)


def _one(text: bytes) -> int:
    """Convert one value the slow way: signs, exponents, more than three decimals."""
    text = text.strip().strip(b'"')
    if not _NUMBER.fullmatch(text):
        return int(MISSING)
    ns = us_text_to_ns(text.decode()) if len(text) < _LONGEST else None
    return ns if ns is not None and -(2**63) < ns < 2**63 else int(MISSING)
