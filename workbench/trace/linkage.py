"""Ties activities to the calls that launched them, by ids of one kind within one process.

A correlation is only ever compared with a correlation and an external id with an external id, and
both only within a process: their numbers collide otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.trace import schema
from workbench.trace.nesting import NONE, Axis, Rows

Ids = NDArray[np.int64]


class Keys(NamedTuple):
    """Ids of events, the processes that gave them, and which events have one."""

    process: Ids
    id: Ids
    known: NDArray[np.bool_]


class Links(NamedTuple):
    """What `link` found."""

    launch: Rows
    """Each activity's row in `launches`, or -1."""
    recorded: NDArray[np.bool_]
    """Of each call: some activity carries its correlation."""


def link(activities: pl.DataFrame, launches: pl.DataFrame) -> Links:
    """Find each activity's launch by correlation; a graph launch owns many activities.

    Where calls share a correlation (a runtime call and the driver call below it), the one that
    puts work on the device wins, the earliest first. Some recordings of ROCm carry no correlations
    and give a call and its activities one external id instead: there that of a single call links.
    """
    calls = _keys(launches["process"], launches["correlation"])
    mine = _keys(activities["process"], activities["correlation"])
    works = launches["kind"].is_in(schema.LAUNCH_TYPE_KINDS).to_numpy()
    index = _Index(calls, mine, prefer=(launches["start_ns"].to_numpy(), ~works))
    launch = index.first(mine)
    if _has_external_ids(activities) and not mine.known.all():
        named = _keys(launches["process"], launches["external_id"])
        single = _single(named._replace(known=named.known & works), _external(activities))
        launch = np.where(mine.known, launch, single)
    recorded = np.zeros(launches.height, np.bool_)
    recorded[launch[launch != NONE]] = True
    sharing = index.first(calls)
    return Links(launch, recorded | ((sharing != NONE) & recorded[sharing]))


def waits(ranges: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Add to ranges that record a wait their calls: `launch`, and `waits_on_launch` of the event.

    Where calls share a correlation, the earliest is meant.
    """
    calls = _keys(launches["process"], launches["correlation"])
    found = {}
    for column, name in (("correlation", "launch"), ("waits_on_correlation", "waits_on_launch")):
        rows = np.full(ranges.height, NONE, np.int64)
        if ranges[column].null_count() < ranges.height:
            asked = _keys(ranges["process"], ranges[column])
            rows = _Index(calls, asked, prefer=(launches["start_ns"].to_numpy(),)).first(asked)
        found[name] = pl.Series(rows).replace(NONE, None).cast(schema.ID)
    return ranges.with_columns(**found)


def by_external_id(activities: pl.DataFrame, ops: pl.DataFrame, process: Ids) -> Rows:
    """Return the operator that an activity itself names as the one that launched it, or -1.

    `process` is that of each host thread. An id that several operators carry names none.
    """
    if not (_has_external_ids(activities) and ops.height):
        return np.full(activities.height, NONE, np.int64)
    of_op = pl.Series(process[ops["thread"].to_numpy()])
    return _single(_keys(of_op, ops["external_id"]), _external(activities))


def _has_external_ids(activities: pl.DataFrame) -> bool:
    return "external_id" in activities.columns and bool(activities["external_id"].count())


def _external(activities: pl.DataFrame) -> Keys:
    return _keys(activities["process"], activities["external_id"])


def _single(rows: Keys, asked: Keys) -> Rows:
    """Return the one row with each key; -1 for none and for several."""
    index = _Index(rows, asked)
    row = index.first(asked)
    return np.where(row == index.last(asked), row, NONE)


def of_threads(launches: pl.DataFrame, threads: int) -> Ids:
    """Return the process of each host thread, as far as its calls tell; 0 for the others."""
    out = np.zeros(threads, np.int64)
    told = launches.filter(pl.col("process").is_not_null())
    out[told["thread"].to_numpy()] = told["process"].to_numpy()
    return out


def _keys(process: pl.Series, number: pl.Series) -> Keys:
    """Make keys of a table's id column; one process where the recording names none."""
    return Keys(
        process.cast(pl.Int64).fill_null(0).to_numpy(),
        number.fill_null(0).to_numpy(),
        number.is_not_null().to_numpy(),
    )


class _Index:
    """Rows by key; rows that share one stand in the order of `prefer`, its last key first."""

    def __init__(
        self, rows: Keys, asked: Keys, prefer: tuple[NDArray[np.generic], ...] = ()
    ) -> None:
        self._processes = np.unique(np.concatenate((rows.process, asked.process)))
        self._axis = Axis(self._place(rows), self._place(asked))
        known = np.flatnonzero(rows.known)
        key = self._axis(*self._place(rows))[known]
        order = np.lexsort((*(p[known] for p in prefer), key))
        self._key, self._row = key[order], known[order]

    def first(self, asked: Keys) -> Rows:
        """Return the first row of each key, or -1."""
        return self._at(asked, np.searchsorted(self._key, self._axis(*self._place(asked)), "left"))

    def last(self, asked: Keys) -> Rows:
        """Return the last row of each key, or -1."""
        after = np.searchsorted(self._key, self._axis(*self._place(asked)), "right")
        return self._at(asked, after - 1)

    def _at(self, asked: Keys, place: Rows) -> Rows:
        if not len(self._key):
            return np.full(len(place), NONE, np.int64)
        place = np.clip(place, 0, len(self._key) - 1)
        same = asked.known & (self._key[place] == self._axis(*self._place(asked)))
        return np.where(same, self._row[place], NONE)

    def _place(self, keys: Keys) -> tuple[Ids, Ids]:
        return np.searchsorted(self._processes, keys.process), keys.id
