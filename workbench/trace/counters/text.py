"""Rows of a foreign CSV file, in bounded memory, and the numbers that stand in its cells."""

from __future__ import annotations

import codecs
import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import InputError
from workbench.trace import container

LONGEST_LINE = 1 << 24
"""Characters; a row of eight thousand counters has a hundred thousand."""
_WHOLE = re.compile(r"[+-]?\d{1,19}")
_NUMBER = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d*)(\.\d*)?([eE][+-]?\d{1,4})?")
_TRIPLE = re.compile(r"\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?")
_INT32 = range(2**31)


def rows(path: Path) -> Iterator[list[str]]:
    """Yield the cells of each line. A line stands for itself: what a program printed between them,
    with an odd quote, does not swallow the lines after it.

    Raises
    ------
    InputError
        The file can't be read, or holds a line too long for a table of counters.
    """  # noqa: D205
    for line in _lines(path):
        if line and not line.isspace():
            try:
                yield next(csv.reader((line,)), [])
            except csv.Error:
                yield [line]


def _lines(path: Path) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    rest = ""
    for piece in container.pieces(path):
        *whole, rest = (rest + decoder.decode(piece)).split("\n")
        if len(rest) > LONGEST_LINE:
            raise InputError(
                f"{path} has a line of more than {LONGEST_LINE >> 20} MiB, which is no table of "
                "counters; export it again."
            )
        yield from whole
    yield rest + decoder.decode(b"", final=True)


def number(text: str) -> float | None:
    """Read a number with or without commas between its thousands; anything else is None.

    A comma elsewhere is the decimal mark of another language: 0,55 must not be read as 55.
    """
    if not _NUMBER.fullmatch(text.strip()):
        return None
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def whole(text: str) -> int | None:
    """Read an integer that is written with all its digits; anything else is None."""
    return int(text) if _WHOLE.fullmatch(text) else None


def index(text: str) -> int | None:
    """Read the number of a device, or a count of registers; negative or absurd ones are None."""
    value = whole(text.replace(",", ""))
    return value if value is not None and value in _INT32 else None


def triple(text: str) -> tuple[int, int, int] | None:
    """Read the size of a grid or block, as in `(128, 1, 1)`; anything else is None."""
    found = _TRIPLE.fullmatch(text.strip())
    if found is None:
        return None
    x, y, z = (int(n) for n in found.groups())
    return (x, y, z) if max(x, y, z) in _INT32 else None
