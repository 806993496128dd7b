"""What rows of an export refer to: texts, and processes and threads by serialised ids.

A global id packs hardware, machine, process and thread: `globalTid = … | pid << 24 | tid`, and
a `globalPid` is the same with tid 0. Source: Nsight Systems user guide, "Common SQLite examples".
"""

from __future__ import annotations

import polars as pl

from workbench.trace.core import Thread
from workbench.trace.sqlite import Database

_TEXTS = {"id": pl.Int64(), "value": pl.String()}
_LIST = 20_000
"""Ids looked up at once; beyond a few such lists the whole table is read."""
_LISTS = 5
TID_BITS = 24
_PID_MASK = (1 << 24) - 1
UNNAMED = "(unnamed)"


class Texts:
    """The table `StringIds` of one export, read as far as it is referred to."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, ids: pl.Series) -> pl.Series:
        """Return the text of each id, null where there is none."""
        wanted = ids.drop_nulls().unique().sort()
        known = self._lookup(wanted).unique("id", keep="first")
        found = pl.DataFrame({"id": ids}).join(known, on="id", how="left", maintain_order="left")
        return found["value"]

    def _lookup(self, wanted: pl.Series) -> pl.DataFrame:
        if len(wanted) > _LIST * _LISTS:
            every = self._database.read("StringIds", _TEXTS)
            return every.filter(pl.col("id").is_in(wanted.implode()))
        parts = [
            self._database.read("StringIds", _TEXTS, f"WHERE id IN ({', '.join(map(str, part))})")
            for part in (wanted[i : i + _LIST].to_list() for i in range(0, len(wanted), _LIST))
        ]
        return pl.concat(parts) if parts else pl.DataFrame(schema=_TEXTS)


class Hosts:
    """The threads and processes of one export, numbered as they are met."""

    def __init__(self, global_tids: pl.Series) -> None:
        self.tids = global_tids.fill_null(0).unique().sort()
        pids = process_of(self.tids)
        self.pids = pids.unique().sort()

    def thread(self, global_tids: pl.Series) -> pl.Series:
        """Return each id's index into `list`; a row without an id is on a thread of its own."""
        return global_tids.fill_null(0).replace_strict(
            self.tids, pl.int_range(len(self.tids), dtype=pl.Int32, eager=True), default=None
        )

    def process(self, global_ids: pl.Series) -> pl.Series:
        """Return each id's process, numbered from 1; where there is only one, that.

        A process without calls or ranges gets a number beyond, so that it is tied to none.
        """
        pids = process_of(global_ids)
        if len(self.pids) == 1:
            pids = pids.fill_null(self.pids[0])
        others = pids.drop_nulls().unique()
        every = pl.concat([self.pids, others.filter(~others.is_in(self.pids.implode())).sort()])
        numbers = pl.int_range(1, len(every) + 1, dtype=pl.Int32, eager=True)
        return pids.replace_strict(every, numbers, default=None)

    def list(self, names: dict[int, str]) -> tuple[Thread, ...]:
        """Return the threads in the order of their indices."""
        return tuple(
            Thread(
                pid=(tid >> TID_BITS) & _PID_MASK,
                tid=tid & ((1 << TID_BITS) - 1),
                name=names.get(tid),
            )
            for tid in self.tids.to_list()
        )


def process_of(global_ids: pl.Series) -> pl.Series:
    """Return the part of global ids that all threads of a process share."""
    return global_ids // (1 << TID_BITS)


def thread_names(database: Database, texts: Texts) -> dict[int, str]:
    """Return the names of threads by global id; the last name that a thread bore."""
    rows = database.read("ThreadNames", {"nameId": pl.Int64(), "globalTid": pl.Int64()})
    rows = rows.with_columns(texts.of(rows["nameId"]).alias("name")).drop_nulls()
    return dict(zip(rows["globalTid"], rows["name"], strict=True))
