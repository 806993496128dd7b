"""Events that are wide enough to be told by name, where the rest of a picture is pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workbench.views.lod import NONE

if TYPE_CHECKING:
    from workbench.views.lod import Bins, Index

LEAST = 24
"""Pixels, all but the outer two filled by the event alone: room for a few letters."""


def wide(bins: Bins) -> tuple[Index, Index]:
    """Return row and number of each event that takes `LEAST` pixels of a row on end.

    An event is one stretch of time, so the pixels that it has the most of lie side by side.
    """
    last, first = bins.dominant[:, LEAST - 1 :], bins.dominant[:, : 1 - LEAST]
    row, at = np.nonzero((last == first) & (last != NONE))
    event = last[row, at]
    begins = np.diff(event, prepend=NONE) != 0
    return row[begins], event[begins]
