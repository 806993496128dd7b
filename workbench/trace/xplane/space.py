"""An XSpace message as frames: planes, lines, events, and the named values of events.

Field numbers are those of tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.trace import wire
from workbench.trace.wire import DELIMITED, FIXED64, VARINT, Field

INT, TEXT = "int", "text"
EVENT = 4 << 3 | DELIMITED
"""The byte that begins an event in a line."""
LONG = 128
"""A length of less is one byte."""


class Plane(NamedTuple):
    """One source of events: a device, or a host."""

    name: str
    stats: dict[str, int | str]


class Line(NamedTuple):
    """One timeline of a plane: a stream, or a thread."""

    plane: int
    id: int
    name: str
    timestamp_ns: int


@dataclass
class Space:
    """Everything in a file, by the position of planes, lines and events."""

    data: bytes
    planes: list[Plane] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    event_names: list[tuple[int, int, str]] = field(default_factory=list)
    stat_names: list[tuple[int, int, str]] = field(default_factory=list)
    line: array[int] = field(default_factory=lambda: array("q"))
    begin: array[int] = field(default_factory=lambda: array("q"))
    stop: array[int] = field(default_factory=lambda: array("q"))
    """Of each event: its line, and where its message lies."""

    def text(self, begin: int, stop: int) -> str:
        """Return text of the file."""
        return self.data[begin:stop].decode(errors="replace")

    def events(self) -> pl.DataFrame:
        """Return `plane line name offset_ps dur_ps aggregated`, a row an event."""
        line = np.array(self.line, np.int64)
        fields, count = self._fields, len(line)
        plane_of = np.array([x.plane for x in self.lines] or [0], np.int64)
        frame = pl.DataFrame(
            {
                "plane": plane_of[line],
                "line": line,
                "id": fields.last(1, VARINT, count),
                "offset_ps": fields.last(2, VARINT, count),
                "dur_ps": fields.last(3, VARINT, count),
                "aggregated": np.isin(np.arange(count), fields.of(5, VARINT).message),
            }
        )
        return _named(frame, self.event_names)

    def stats(self, wanted: dict[str, str]) -> dict[str, pl.Series]:
        """Return, for each wanted stat, its value of every event (null: not given)."""
        owned = self._fields.of(4, DELIMITED)
        fields = wire.scan(self.data, owned.begin, owned.stop)
        count = len(owned.message)
        line = np.array(self.line, np.int64)[owned.message]
        plane_of = np.array([x.plane for x in self.lines] or [0], np.int64)
        stats = pl.DataFrame(
            {
                "event": owned.message,
                "plane": plane_of[line],
                "id": fields.last(1, VARINT, count),
                "row": np.arange(count),
            }
        )
        stats = _named(stats, self.stat_names)
        values = _Values(self, fields, count)
        out = {}
        for name, kind in wanted.items():
            mine = stats.filter(pl.col("name") == name)
            value = values.ints(mine) if kind == INT else values.texts(mine)
            place = pl.Series(mine["event"], dtype=pl.UInt32)
            empty = pl.repeat(None, len(self.line), dtype=value.dtype, eager=True)
            out[name] = empty.scatter(place, value) if len(place) else empty
        return out

    @cached_property
    def _fields(self) -> wire.Fields:
        return wire.scan(self.data, np.array(self.begin, np.int64), np.array(self.stop, np.int64))


class _Values:
    """The value of each stat, of whatever type it is."""

    def __init__(self, space: Space, fields: wire.Fields, count: int) -> None:
        self._space = space
        self._int = fields.last(3, VARINT, count) | fields.last(4, VARINT, count)
        self._has_int = _given(count, fields.of(3, VARINT), fields.of(4, VARINT))
        self._ref = fields.last(7, VARINT, count, absent=-1)
        text = fields.of(5, DELIMITED)
        self._begin, self._stop = np.full(count, -1), np.full(count, -1)
        self._begin[text.message], self._stop[text.message] = text.begin, text.stop

    def ints(self, stats: pl.DataFrame) -> pl.Series:
        """Return whole numbers; null where the value is none."""
        row = stats["row"].to_numpy()
        value = pl.Series(self._int[row], dtype=pl.Int64)
        return value.set(pl.Series(~self._has_int[row], dtype=pl.Boolean), None)

    def texts(self, stats: pl.DataFrame) -> pl.Series:
        """Return texts, given themselves or as the name of another stat."""
        row = stats["row"].to_numpy()
        refs = pl.DataFrame({"plane": stats["plane"], "id": self._ref[row]})
        referred = _named(refs, self._space.stat_names)["name"].cast(pl.String)
        own = np.flatnonzero(self._begin[row] >= 0)
        data = self._space.data
        seen: dict[bytes, str] = {}
        texts = []
        for b, e in zip(self._begin[row[own]].tolist(), self._stop[row[own]].tolist(), strict=True):
            raw = data[b:e]
            if raw not in seen:
                seen[raw] = raw.decode(errors="replace")
            texts.append(seen[raw])
        place = pl.Series(own, dtype=pl.UInt32)
        return referred.scatter(place, pl.Series(texts, dtype=pl.String)) if texts else referred


def _given(count: int, *fields: wire.Fields) -> NDArray[np.bool_]:
    out = np.zeros(count, bool)
    for f in fields:
        out[f.message] = True
    return out


def _named(frame: pl.DataFrame, names: list[tuple[int, int, str]]) -> pl.DataFrame:
    """Add the name that each row's plane gives to its id; null where it gives none."""
    known = pl.DataFrame(
        {
            "plane": pl.Series([n[0] for n in names], dtype=pl.Int64),
            "id": pl.Series([n[1] for n in names], dtype=pl.Int64),
            "name": pl.Series([n[2] for n in names], dtype=pl.String),
        }
    ).unique(["plane", "id"], keep="last")
    return frame.join(known, on=["plane", "id"], how="left", maintain_order="left")


def decode(data: bytes) -> Space:
    """Find everything in a file.

    Raises
    ------
    wire.WireError
        The bytes are no XSpace.
    """
    space = Space(data)
    for f in wire.walk(data, 0, len(data)):
        if (f.number, f.wire) == (1, DELIMITED):
            _plane(space, f)
    return space


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _plane(space: Space, at: Field) -> None:
    number = len(space.planes)
    name, stats = "", []
    own: dict[int, str] = {}
    for f in wire.walk(space.data, at.begin, at.stop):
        match f.number, f.wire:
            case 2, wire.DELIMITED:
                name = space.text(f.begin, f.stop)
            case 3, wire.DELIMITED:
                _line(space, number, f)
            case 4, wire.DELIMITED:
                space.event_names.append((number, *_entry(space, f)))
            case 5, wire.DELIMITED:
                key, said = _entry(space, f)
                own[key] = said
                space.stat_names.append((number, key, said))
            case 6, wire.DELIMITED:
                stats.append(f)
    space.planes.append(Plane(name, dict(_stat(space, s, own) for s in stats)))


def _line(space: Space, plane: int, line: Field) -> None:
    number, name, shown, timestamp = 0, "", "", 0
    at, index = line.begin, len(space.lines)
    while (at := _events(space, index, at, line.stop)) < line.stop:
        f = next(wire.walk(space.data, at, line.stop))
        at = f.stop
        match f.number, f.wire:
            case 1, wire.VARINT:
                number = _signed(f.value)
            case 2, wire.DELIMITED:
                name = space.text(f.begin, f.stop)
            case 3, wire.VARINT:
                timestamp = _signed(f.value)
            case 11, wire.DELIMITED:
                shown = space.text(f.begin, f.stop)
    space.lines.append(Line(plane, number, name or shown, timestamp))


def _events(space: Space, line: int, at: int, stop: int) -> int:
    """Note the events that follow one another from here on; return where they end.

    A file is events for the most part, so this loop does what `walk` does, for them alone.
    """
    data, lines, begins, stops = space.data, space.line, space.begin, space.stop
    while at < stop and data[at] == EVENT:
        size = data[at + 1] if at + 1 < stop else LONG
        if size < LONG:
            at += 2
        else:
            size, at = wire.varint(data, at + 1, stop)
        if at + size > stop:
            raise wire.WireError(f"the event at byte {at} does not fit its line")
        lines.append(line)
        begins.append(at)
        at += size
        stops.append(at)
    return at


def _entry(space: Space, at: Field) -> tuple[int, str]:
    """Return key and name of an entry of a map of metadata; a name for display goes first."""
    key, name, shown = 0, "", ""
    for f in wire.walk(space.data, at.begin, at.stop):
        if (f.number, f.wire) == (1, VARINT):
            key = _signed(f.value)
        elif (f.number, f.wire) == (2, DELIMITED):
            for inner in wire.walk(space.data, f.begin, f.stop):
                if (inner.number, inner.wire) == (2, DELIMITED):
                    name = space.text(inner.begin, inner.stop)
                elif (inner.number, inner.wire) == (4, DELIMITED):
                    shown = space.text(inner.begin, inner.stop)
    return key, shown or name


def _stat(space: Space, at: Field, names: dict[int, str]) -> tuple[str, int | str]:
    """Return name and value of a plane's own stat."""
    key, value = 0, 0
    text = None
    for f in wire.walk(space.data, at.begin, at.stop):
        if f.number == 1:
            key = _signed(f.value)
        elif f.wire == DELIMITED:
            text = space.text(f.begin, f.stop)
        elif f.wire == VARINT:
            value = _signed(f.value)
            text = names.get(value) if f.number == 7 else None  # noqa: PLR2004
        elif f.wire == FIXED64:
            text = repr(np.frombuffer(space.data[f.begin : f.stop], "<f8")[0].item())
    return names.get(key, str(key)), value if text is None else text
