"""Events of a timeline that are meant by rows of a trace's tables, as a mask over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from workbench.views.lanes import Lanes


class Rows(NamedTuple):
    """Rows of one table of one rank."""

    table: str
    rank: int | None
    wanted: NDArray[np.bool_]
    """Whether each row of the table is meant."""


def mask(lanes: Lanes, chosen: Iterable[Rows]) -> NDArray[np.bool_]:
    """Say of each event whether it is one of the rows."""
    keep = np.zeros(len(lanes.start), np.bool_)
    for table, rank, wanted in chosen:
        for row, lane in enumerate(lanes.row_lane):
            if (lanes.lanes[lane].table, lanes.lanes[lane].rank) == (table, rank):
                part = slice(int(lanes.offset[row]), int(lanes.offset[row + 1]))
                keep[part] |= wanted[lanes.id[part]]
    return keep
