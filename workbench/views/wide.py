"""Events that are wide enough to be told by name, where the rest of a picture is pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from workbench.views.lod import Bins, Index

LEAST = 24
"""Pixels, all but the outer two filled by the event alone: room for a few letters."""


def wide(bins: Bins) -> tuple[Index, Index]:
    """Return row and number of each event that takes `LEAST` pixels of a row on end.

    An event is one stretch of time, so the pixels that it has the most of lie side by side.
    """
    edge = np.diff(bins.dominant, axis=1, prepend=-2, append=-2) != 0
    row, at = np.nonzero(edge)
    if not len(row):
        return row, at
    length = np.where(row[1:] == row[:-1], np.diff(at), 0)
    first = np.flatnonzero(length >= LEAST)
    event = bins.dominant[row[first], at[first]]
    there = event >= 0
    return row[first][there], event[there]
