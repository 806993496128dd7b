"""Counter events (ph C) and the profiler's counter ranges: a row for each value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import polars as pl

from workbench.trace import raw, times
from workbench.trace.kineto import columns as col
from workbench.trace.kineto.events import UNREADABLE, AnyArgs

PROFILER_RANGE = "cuda_profiler_range"
_UNIT = re.compile(r"\(([^()]{1,12})\)\s*$")


class Counters:
    """Collects counters; their args have no fixed names, so their pieces are decoded again."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, Any, str, str | None, float]] = []
        self.misfits = 0
        self._decoder = msgspec.json.Decoder(list[AnyArgs])
        self._one = msgspec.json.Decoder(AnyArgs)

    def add(self, text: bytes) -> None:
        """Take the counters of one piece's text."""
        chosen = [
            e for e in self._events(text) if e.args and (e.ph == "C" or e.cat == PROFILER_RANGE)
        ]
        at = times.from_texts([e.ts for e in chosen])
        for e, t in zip(chosen, at.tolist(), strict=True):
            self._values(e, t)

    def _events(self, text: bytes) -> Iterable[AnyArgs]:
        try:
            return self._decoder.decode(text)
        except UNREADABLE:
            return self._one_by_one(text)

    def _one_by_one(self, text: bytes) -> list[AnyArgs]:
        out = []
        for member in msgspec.json.decode(text, type=list[msgspec.Raw]):
            try:
                out.append(self._one.decode(member))
            except UNREADABLE:
                self.misfits += 1
        return out

    def _values(self, event: AnyArgs, at: int) -> None:
        for key, value in event.args.items():
            number = _number(value)
            if number is None:
                self.misfits += 1
                continue
            unit = _UNIT.search(key)
            name = _UNIT.sub("", key).strip()
            if event.ph == "C":  # the event names the counter, and its args the parts of it
                name = str(event.name) if len(event.args) == 1 else f"{event.name}/{name}"
            self.rows.append((at, event.pid, name, unit[1] if unit else None, number))

    def table(self, devices: Iterable[int]) -> pl.DataFrame:
        """Return the counters table, times still absolute; host counters have no device."""
        if not self.rows:
            return raw.empty(raw.COUNTERS)
        at, pids, names, units, values = zip(*self.rows, strict=True)
        known = set(devices)
        device = [n if (n := col.as_int(p)) in known else None for p in pids]
        return pl.DataFrame(
            {
                "t_ns": at,
                "device": pl.Series(device, dtype=pl.Int32),
                "name": pl.Series(names, dtype=pl.String).cast(raw.COUNTERS["name"]),
                "value": pl.Series(values, dtype=pl.Float64),
                "unit": pl.Series(units, dtype=pl.String).cast(raw.COUNTERS["unit"]),
            }
        )


def _number(value: msgspec.Raw) -> float | None:
    try:
        number = msgspec.json.decode(value, type=int | float | str)
        return col.finite(float(number))
    except (*UNREADABLE, ValueError, OverflowError):
        return None
