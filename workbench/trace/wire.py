"""The wire format of protocol buffers, without the protobuf package.

`walk` goes through the fields of one message, one at a time; `scan` through those of many small
messages at once, a field of each in a round, with numpy. Nothing recurses and every length is
checked against what holds it (https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
MOST_FIELDS = 1 << 14
"""Of a message that is scanned with others. Raise it to read stranger files, more slowly."""
_MOST_VARINT = 10
_MORE = 128
_FIXED = {FIXED64: 8, FIXED32: 4}
Places = NDArray[np.int64]


class WireError(Exception):
    """Bytes that are no message."""


class Field(NamedTuple):
    """One field; `value` is that of a varint, `begin` and `stop` hold what is delimited."""

    number: int
    wire: int
    value: int
    begin: int
    stop: int


def varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """Return the varint at a place and where the next byte stands."""
    value = shift = 0
    while at < stop and shift < 7 * _MOST_VARINT:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < _MORE:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise WireError(f"a number at byte {at} does not end")


def walk(data: bytes, at: int, stop: int) -> Iterator[Field]:
    """Yield the fields of the message that lies in [at, stop)."""
    while at < stop:
        key, begin = varint(data, at, stop)
        wire = key & 7
        value = 0
        if wire == VARINT:
            value, end = varint(data, begin, stop)
        elif wire == DELIMITED:
            length, begin = varint(data, begin, stop)
            end = begin + length
        elif wire in _FIXED:
            end = begin + _FIXED[wire]
        else:
            raise WireError(f"byte {at} begins no field")
        if end > stop or key < 8:  # noqa: PLR2004  # field numbers begin with 1
            raise WireError(f"the field at byte {at} does not fit its message")
        yield Field(key >> 3, wire, value, begin, end)
        at = end


class Fields(NamedTuple):
    """The fields of many messages, a row each; of one number and message, the last counts."""

    message: Places
    number: NDArray[np.uint64]
    wire: NDArray[np.uint8]
    value: NDArray[np.uint64]
    """Of varints and of fixed64."""
    begin: Places
    stop: Places

    def of(self, number: int, wire: int) -> Fields:
        """Return the fields of one number, as far as they have the type that they should."""
        return self.where((self.number == number) & (self.wire == wire))

    def where(self, chosen: NDArray[np.bool_]) -> Fields:
        """Return some of the fields."""
        return Fields(
            self.message[chosen],
            self.number[chosen],
            self.wire[chosen],
            self.value[chosen],
            self.begin[chosen],
            self.stop[chosen],
        )

    def last(self, number: int, wire: int, messages: int, absent: int = 0) -> NDArray[np.int64]:
        """Return a field's value for each message, as int64; unsigned ones beyond wrap."""
        found = self.of(number, wire)
        out = np.full(messages, absent, np.int64)
        out[found.message] = found.value.view(np.int64)
        return out


def scan(data: bytes, begin: Places, stop: Places) -> Fields:
    """Return all fields of the messages that lie in [begin, stop)."""
    chars = np.frombuffer(data + bytes(_MOST_VARINT), np.uint8)  # reading past the end meets zeros
    message = np.flatnonzero(begin < stop)
    at = begin[message]
    rounds: list[Fields] = []
    while len(message):
        if len(rounds) == MOST_FIELDS:
            raise WireError(f"a message at byte {begin[message[0]]} has over {MOST_FIELDS} fields")
        found, at = _round(chars, message, at)
        inside = (at <= stop[message]) & (found.number > 0)
        if not inside.all():
            raise WireError(f"the message at byte {begin[message[~inside][0]]} is broken")
        rounds.append(found)
        more = at < stop[message]
        message, at = message[more], at[more]
    return Fields(
        _joined([r.message for r in rounds], np.int64),
        _joined([r.number for r in rounds], np.uint64),
        _joined([r.wire for r in rounds], np.uint8),
        _joined([r.value for r in rounds], np.uint64),
        _joined([r.begin for r in rounds], np.int64),
        _joined([r.stop for r in rounds], np.int64),
    )


def _joined(columns: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *columns])


def _round(chars: NDArray[np.uint8], message: Places, at: Places) -> tuple[Fields, Places]:
    """Read one field of each message; return them and where the next ones begin."""
    key, begin = _varints(chars, at)
    wire = (key & np.uint64(7)).astype(np.uint8)
    size = len(chars)
    value = np.zeros(len(at), np.uint64)
    end = np.full(len(at), size, np.int64)  # out of every message, unless a type below is met
    for kind in np.unique(wire):
        rows = np.flatnonzero(wire == kind)
        if kind == VARINT:
            value[rows], end[rows] = _varints(chars, begin[rows])
        elif kind == DELIMITED:
            length, begin[rows] = _varints(chars, begin[rows])
            end[rows] = begin[rows] + np.minimum(length, size).astype(np.int64)
        elif kind in _FIXED:
            end[rows] = begin[rows] + _FIXED[int(kind)]
            if kind == FIXED64:
                value[rows] = _doubles(chars, begin[rows])
    end = np.minimum(end, size)
    return Fields(message, key >> np.uint64(3), wire, value, begin, end), end


def _doubles(chars: NDArray[np.uint8], at: Places) -> NDArray[np.uint64]:
    """Read eight bytes each, the lowest first."""
    places = np.minimum(at[:, None] + np.arange(8), len(chars) - 1)
    return np.ascontiguousarray(chars[places]).view(np.dtype("<u8")).ravel()


def _varints(chars: NDArray[np.uint8], at: Places) -> tuple[NDArray[np.uint64], Places]:
    """Read a varint at each place; one without an end reaches past the last byte."""
    value = np.zeros(len(at), np.uint64)
    end = at.copy()
    live = np.arange(len(at))
    for i in range(_MOST_VARINT):
        byte = chars[np.minimum(end[live], len(chars) - 1)]
        value[live] |= (byte & np.uint8(127)).astype(np.uint64) << np.uint64(7 * i)
        end[live] += 1
        live = live[byte >= _MORE]
        if not len(live):
            return value, end
    end[live] = len(chars)
    return value, end


def packed(data: bytes, begin: Places, stop: Places) -> tuple[Places, NDArray[np.uint64]]:
    """Read packed varints out of many fields; return the field of each, and its value."""
    pieces = [np.frombuffer(data, np.uint8)[b:e] for b, e in zip(begin, stop, strict=True)]
    chars = np.concatenate([np.empty(0, np.uint8), *pieces])
    field = np.repeat(np.arange(len(begin)), stop - begin)
    ends = np.flatnonzero(chars < _MORE)
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    whole = len(chars) == (ends[-1] + 1 if len(ends) else 0)
    if not whole or not np.array_equal(field[starts], field[ends]):
        raise WireError("a list of numbers does not end")
    value, after = _varints(np.append(chars, np.zeros(_MOST_VARINT, np.uint8)), starts)
    if not np.array_equal(after, ends + 1):
        raise WireError("a number in a list is too long")
    return field[starts], value
