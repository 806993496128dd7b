"""What a text finds among the events of a timeline.

Each distinct name is looked at once; events follow by the number of their name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench.errors import UsageError, unknown_name
from workbench.views.lod import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from workbench.views.lanes import Lanes
    from workbench.views.lod import Index

MAX_TEXT = 1_000
"""Characters of a text to look for."""
MAX_FOUND = 10_000
"""Rows that `find` returns unless it is told otherwise."""
SCHEMA = {
    "rank": pl.Int32,
    "table": pl.String,
    "id": pl.UInt32,
    "name": pl.String,
    "lane": pl.String,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
}


def hits(lanes: Lanes, text: str) -> NDArray[np.bool_]:
    """Say of each distinct text of the lanes whether it matches, whatever the case of letters.

    `/…/` is a regular expression, in the syntax of Rust's crate `regex`, which takes time in
    proportion to the names whatever it is; anything else is looked for as it stands. Raises
    UsageError when the text is empty, too long, or no regular expression.
    """
    pattern = _pattern(text)
    try:
        found = pl.Series(lanes.names, dtype=pl.String).str.contains(pattern)
    except pl.exceptions.ComputeError as error:
        reason = str(error).split("error:")[-1].strip().splitlines()[0].rstrip(".")
        raise UsageError(
            f"{text} can't be read as a regular expression ({reason}); correct it, or leave out "
            "the slashes to look for the text itself."
        ) from None
    return found.to_numpy()


def matching(lanes: Lanes, text: str) -> NDArray[np.bool_]:
    """Say of each event whether its name matches, as `hits` does of the names."""
    return np.asarray(hits(lanes, text)[np.asarray(lanes.name)])


def _pattern(text: str) -> str:
    if not text:
        raise UsageError("There is nothing to look for: give a part of a name, or /…/.")
    if len(text) > MAX_TEXT:
        raise UsageError(
            f"A text to look for has at most {MAX_TEXT:,} characters, not {len(text):,}."
        )
    text = text.encode("utf-8", "replace").decode("utf-8")  # a browser may send half a character
    is_regex = len(text) > len("//") and text[0] == text[-1] == "/"
    return "(?i)" + (text[1:-1] if is_regex else pl.escape_regex(text))


def find(
    lanes: Lanes,
    text: str,
    *,
    table: str | None = None,
    kind: str | None = None,
    limit: int | None = MAX_FOUND,
) -> pl.DataFrame:
    """Return the events whose name matches, in order of time: see `Timeline.find`."""
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, or None for all events; not {limit}.")
    wanted = hits(lanes, text)
    if kind is not None:
        _check("kind", kind, lanes.kinds)
        wanted = wanted & np.array([k == kind for k in lanes.kinds], bool)
    keep = wanted[np.asarray(lanes.name)]
    if table is not None:
        tables = [lane.table for lane in lanes.lanes]
        _check("timeline table", table, tables)
        of_lane = np.array([t == table for t in tables], bool)
        keep &= lanes.by_lane(of_lane)
    return rows(lanes, in_time(lanes, np.flatnonzero(keep), limit))


def _check(what: str, name: str, known: Sequence[str | None]) -> None:
    if name not in known:
        raise unknown_name(what, name, {k for k in known if k is not None})


def in_time(lanes: Lanes, at: Index, limit: int | None = None) -> Index:
    """Put events in order of start, then of their row; keep the first `limit` of them."""
    start = lanes.start[at]
    if limit is not None and len(at) > limit:
        early = start <= np.partition(start, limit - 1)[limit - 1]
        at, start = at[early], start[early]
    return at[np.argsort(start, kind="stable")][:limit]


def rows(lanes: Lanes, at: Index) -> pl.DataFrame:
    """Return what is known of events by their position, as `SCHEMA` has it."""
    lane = lanes.row_lane[np.searchsorted(lanes.offset, at, "right") - 1]
    of_lane = pl.DataFrame(
        [(x.rank, x.table, x.label) for x in lanes.lanes],
        {"rank": pl.Int32, "table": pl.String, "lane": pl.String},
        orient="row",
    )[lane]
    columns: dict[str, Any] = {
        "id": lanes.id[at],
        "name": pl.Series(lanes.names, dtype=pl.String)[lanes.name[at].astype(np.int64)],
        "start_ns": lanes.start[at] + lanes.origin_ns,
        "dur_ns": lanes.dur[at],
    }
    frame = of_lane.with_columns(pl.Series(k, v) for k, v in columns.items())
    return frame.select(pl.col(c).cast(dtype) for c, dtype in SCHEMA.items())


@dataclass(frozen=True)
class Found:
    """The matches among the events that are drawn: of a search, or what is emphasised."""

    drawn: Lanes
    keep: NDArray[np.bool_]
    """Whether each of them is one."""

    @cached_property
    def events(self) -> Lanes:
        """Return the matches alone, on the rows that they are drawn on."""
        return self.drawn if self.keep.all() else self.drawn.part(self.keep)

    @cached_property
    def order(self) -> NDArray[np.uint32]:
        """Return the matches in order of time, as positions in `events`."""
        # positions ascend by row and start, and a stable sort keeps them so
        return np.argsort(self.events.start, kind="stable").astype(np.uint32)

    @property
    def total(self) -> int:
        """Return how many events match."""
        return len(self.events.start)

    def within(self, start_ns: int, end_ns: int) -> int:
        """Return how many matches touch a stretch, in the source's time."""
        origin = self.drawn.origin_ns
        touching, _ = self.events.engine.totals(start_ns - origin, max(start_ns, end_ns) - origin)
        return int(touching.sum())

    def number(self, place: int) -> int:
        """Return which match in order of time an event of the whole is, from 1; 0: none."""
        k = self.events.position(place)
        return 0 if k == NONE else int(np.flatnonzero(self.order == k)[0]) + 1

    def beside(self, place: int, time_ns: int, by: int) -> int:
        """Return the place of the next match (by 1) or the one before (-1), round at the ends.

        Counted from the event at `place`, if that is a match, else from a time of the source.
        """
        if (number := self.number(place)) > 0:
            k = number - 1 + by
        else:
            start = self.events.start[self.order]
            first = int(np.searchsorted(start, time_ns - self.drawn.origin_ns))
            k = first if by > 0 else first - 1
        return self.events.place(int(self.order[k % self.total]))
