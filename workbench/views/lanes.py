"""What a timeline draws: its lanes, and the events of each in drawing order.

`trace_lanes` makes them of a `Trace` or `Job`, `layers.from_frame` of any frame of events.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from workbench.views.lod import NONE, Engine, Index

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from workbench.views.lod_summary import Summary

NO_STEP = -(2**31)


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane: what it is called and which table its events are rows of."""

    label: str
    table: str
    rank: int | None = None
    hidden: int = 0
    """Events left out because they would need too many rows."""
    stream: int | None = None
    """Stream of a device; null on the host."""
    group: str = ""
    """What it stands under together with others, a device or a rank's host; empty: nothing."""


class Event(NamedTuple):
    """One event of a timeline; `id` is its row in the lane's table."""

    name: str
    lane: Lane
    row: int
    start_ns: int
    dur_ns: int
    id: int
    step: int | None


@dataclass(frozen=True)
class Some:
    """Some elements of an array, looked up when they are asked for: no copy of ten million."""

    whole: NDArray[Any]
    places: NDArray[np.uint32]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.places)

    def __getitem__(self, i: Any) -> Any:
        """Index as an array of these elements would."""
        return self.whole[self.places[i]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Copy the elements out."""
        return np.asarray(self.whole[self.places], dtype)


@dataclass(frozen=True)
class Lanes:
    """Events sorted by row and start; `start` to `step` have one entry an event."""

    lanes: tuple[Lane, ...]
    origin_ns: int
    """Time of the first event; `start` counts from it."""
    row_lane: Index
    """Lane of each row."""
    offset: Index
    """Row r holds the events [offset[r], offset[r + 1])."""
    start: Index
    dur: NDArray[np.integer]
    name: NDArray[np.unsignedinteger] | Some
    id: NDArray[np.uint32] | Some
    step: NDArray[np.int32] | Some
    names: tuple[str, ...]
    """Texts that `name` counts."""
    colours: NDArray[np.uint8]
    """Position in `theme.Theme.palette` of each text."""
    kinds: tuple[str | None, ...] = ()
    """Kind of each text, as in the trace's tables; the same name may stand under several."""
    families: tuple[str | None, ...] = ()
    """Family of each text."""
    places: NDArray[np.uint32] | None = None
    """Of a part: where its events stand in the whole."""
    whole_span_ns: int = 0
    """Of a part: the length of the whole."""
    summary: Summary | None = None
    """What the engine derives of these events, where it was kept."""
    steps: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """The distinct steps of the whole, ascending."""
    inner: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    """Of each row, whether all its events lie inside events of the row above, in the same lane.

    Empty where that was not looked at, as in parts.
    """

    @cached_property
    def engine(self) -> Engine:
        """Return the level-of-detail engine over these events."""
        return Engine(self.start, self.dur, self.offset, self.whole_span_ns, self.summary)

    def by_lane(self, of_lane: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each event what is said of its lane."""
        return np.repeat(of_lane[self.row_lane], np.diff(self.offset))

    def part(self, keep: NDArray[np.bool_]) -> Lanes:
        """Return some of the events on the same rows and the same extent."""
        kept = np.flatnonzero(keep)
        offset = np.searchsorted(kept, self.offset)
        at = kept.astype(np.uint32)
        places = at if self.places is None else self.places[at]
        return replace(
            self,
            offset=offset,
            start=self.start[at],
            dur=self.dur[at],
            name=_some(self.name, places),
            id=_some(self.id, places),
            step=_some(self.step, places),
            places=places,
            inner=self.inner[:0],
            whole_span_ns=self.engine.span_ns,
            summary=None,
        )

    def outer(self, lane: int) -> Index:
        """Return the rows of a lane that cover in time what all its rows do."""
        rows = np.flatnonzero(self.row_lane == lane)
        return rows[~self.inner[rows]] if len(self.inner) else rows

    def place(self, i: int) -> int:
        """Return where an event stands in the whole; -1 stays -1."""
        return i if self.places is None or i == NONE else int(self.places[i])

    def position(self, place: int) -> int:
        """Return where an event of the whole stands here; -1 if this part leaves it out."""
        if self.places is None or place == NONE:
            return place
        k = int(np.searchsorted(self.places, np.uint32(place)))
        return k if k < len(self.places) and self.places[k] == place else NONE

    def event(self, i: int) -> Event:
        """Return one event by its position."""
        row = int(np.searchsorted(self.offset, i, "right")) - 1
        step = int(self.step[i])
        return Event(
            self.names[self.name[i]],
            self.lanes[self.row_lane[row]],
            row,
            self.origin_ns + int(self.start[i]),
            int(self.dur[i]),
            int(self.id[i]),
            None if step == NO_STEP else step,
        )

    def find(self, table: str, row_id: int, rank: int | None = None) -> int:
        """Return the position of a table's row, its first part if it has several; -1 if none."""
        best = NONE
        for row, lane in enumerate(self.row_lane):
            if (self.lanes[lane].table, self.lanes[lane].rank) != (table, rank):
                continue
            lo, hi = int(self.offset[row]), int(self.offset[row + 1])
            hits = lo + np.flatnonzero(self.id[lo:hi] == row_id)
            best = min((best, *hits), key=self._start_or_never) if len(hits) else best
        return int(best)

    def places_of(
        self, wanted: Iterable[tuple[str, int | None, int]]
    ) -> dict[tuple[str, int | None, int], int]:
        """Return the positions of many (table, rank, row), as `find` does; none for what has none.

        One pass over the lanes of each table and rank, however many are wanted.
        """
        by_table: dict[tuple[str, int | None], list[int]] = {}
        for table, rank, row_id in wanted:
            by_table.setdefault((table, rank), []).append(row_id)
        out: dict[tuple[str, int | None, int], int] = {}
        for row, k in enumerate(self.row_lane):
            table, rank = self.lanes[k].table, self.lanes[k].rank
            lo, hi = int(self.offset[row]), int(self.offset[row + 1])
            if not (ids := by_table.get((table, rank))):
                continue
            for i in (lo + np.flatnonzero(np.isin(self.id[lo:hi], ids))).tolist():
                key = (table, rank, int(self.id[i]))
                out[key] = min(out.get(key, NONE), i, key=self._start_or_never)
        return out

    def _start_or_never(self, i: int) -> float:
        return float("inf") if i == NONE else int(self.start[i])


def _some(column: NDArray[Any] | Some, places: NDArray[np.uint32]) -> Some:
    return Some(column.whole if isinstance(column, Some) else column, places)
