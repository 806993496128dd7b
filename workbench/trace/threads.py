"""Host threads in an order of their own, whatever a file happens to mention first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl

from workbench.trace.core import Thread
from workbench.trace.raw import RawTrace

_TABLES = ("launches", "ops", "ranges", "memory", "modules")
Renumber = Callable[[pl.DataFrame], pl.DataFrame]


def in_order(bare: RawTrace) -> tuple[RawTrace, Renumber]:
    """Return the tables with threads numbered by process and thread id, and what does it to others.

    So the same events give the same tables in whatever order they were written. Threads that no
    table keeps (some have Python frames or allocations alone) come last.
    """
    used = pl.concat([getattr(bare, n)["thread"] for n in _TABLES if n != "memory"]).unique()
    held = frozenset(used.drop_nulls().to_list())
    known = bare.meta.threads
    order = sorted(range(len(known)), key=lambda i: (i not in held, *_key(known[i])))
    number = {old: new for new, old in enumerate(order)}
    new = pl.Series([number[i] for i in range(len(order))], dtype=pl.Int32)

    def renumber(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(new.gather(frame["thread"]).alias("thread"))

    if order == list(range(len(order))):
        return bare, lambda frame: frame
    threads = tuple(known[i] for i in order)
    tables: dict[str, Any] = {n: renumber(getattr(bare, n)) for n in _TABLES}
    return replace(bare, meta=replace(bare.meta, threads=threads), **tables), renumber


def _key(thread: Thread) -> tuple[tuple[bool, int, str], ...]:
    """Sort numbers by value and before texts."""
    return tuple(
        (isinstance(x, str), 0 if isinstance(x, str) else x, str(x))
        for x in (thread.pid, thread.tid)
    )
