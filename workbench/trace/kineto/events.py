"""Text of events to records: a strict decode, and a lenient one for values of odd types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec
import numpy as np
from msgspec import Raw, field

from workbench.intervals import Times
from workbench.trace import times
from workbench.trace.kineto.arguments import NOTHING, Scalar

Fields = TypeVar("Fields", bound=msgspec.Struct)


class Event(msgspec.Struct, Generic[Fields], gc=False):
    """The fields of an event that do not depend on how its times are written."""

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    pid: Scalar = None
    tid: Scalar = None
    args: Fields | None = None


class NumberEvent(Event[Fields], gc=False):
    """An event whose times are numbers, exact only as `times.from_numbers` says."""

    ts: int | float | None = None
    dur: int | float | None = None


class TextEvent(Event[Fields], gc=False):
    """An event whose times are kept as text: quoted, or of more digits than a double holds."""

    ts: Raw = NOTHING
    dur: Raw = NOTHING


class AnyArgs(msgspec.Struct, gc=False):
    """The part of a counter event that has no fixed names."""

    ph: str = ""
    name: str | None = None
    cat: str | None = None
    pid: Scalar = None
    ts: Raw = NOTHING
    args: dict[str, Raw] = field(default_factory=dict)


class InexactTimesError(Exception):
    """Number times have lost digits; decode again as text."""


UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""What a decode raises: misfit, broken or bottomless."""


def check_encoding(text: bytes) -> None:
    """Raise UnicodeDecodeError unless a text is UTF-8."""
    if not text.isascii():
        text.decode()


class Reader(Generic[Fields]):
    """Decodes texts of event lists into records whose args are of one type."""

    def __init__(self, fields: type[Fields]) -> None:
        self.fields = fields
        self.as_text = False
        """Times are kept as text, from the first piece on that needs it."""
        self.misfits: Counter[str] = Counter()
        """Values of a type that their field never has, by field; read as absent."""
        self.unreadable = 0
        """Members of the list that are no events at all."""
        self._decoders: dict[bool, msgspec.json.Decoder[list[Event[Fields]]]] = {
            False: msgspec.json.Decoder(list[NumberEvent[fields]]),  # type: ignore[valid-type]
            True: msgspec.json.Decoder(list[TextEvent[fields]]),  # type: ignore[valid-type]
        }
        self._one: msgspec.json.Decoder[Event[Fields]] = msgspec.json.Decoder(TextEvent[fields])  # type: ignore[valid-type]

    def decode(self, text: bytes) -> list[Event[Fields]]:
        """Decode `[{…},{…}]`.

        Raises
        ------
        msgspec.DecodeError, UnicodeDecodeError, RecursionError
            The text is no JSON, no UTF-8 (which the decoder checks only where it looks), or nests
            without end.
        """
        check_encoding(text)
        try:
            return self._decoders[self.as_text].decode(text)
        except msgspec.ValidationError:
            if not self.as_text:
                self.as_text = True
                return self.decode(text)
            return self._lenient(text)

    def try_one(self, text: bytes) -> None:
        """Raise what a decode of one event's text would raise, but for values of odd types."""
        check_encoding(text)
        try:
            self._one.decode(text)
        except msgspec.ValidationError:
            msgspec.json.decode(text)

    def _event(self, text: bytes) -> Event[Fields]:
        try:
            return self._one.decode(text)
        except msgspec.ValidationError:
            return self._field_by_field(msgspec.json.decode(text, type=dict[str, Raw]))

    def _lenient(self, text: bytes) -> list[Event[Fields]]:
        out = []
        for raw in msgspec.json.decode(text, type=list[Raw]):
            try:
                out.append(self._event(bytes(raw)))
            except UNREADABLE:
                self.unreadable += 1
        return out

    def _field_by_field(self, values: dict[str, Raw]) -> Event[Fields]:
        args = values.pop("args", None)
        event: Event[Fields] = self._record(TextEvent, values)
        if args is not None and (kept := self._members(args)) is not None:
            event.args = self._record(self.fields, kept)
        return event

    def _members(self, raw: Raw) -> dict[str, Raw] | None:
        try:
            return msgspec.json.decode(raw, type=dict[str, Raw] | None)
        except UNREADABLE:
            self.misfits["args"] += 1
            return None

    def _record(self, kind: type[Any], values: dict[str, Raw]) -> Any:
        """Build a record from the members that fit; the others are counted and left at default."""
        hints = get_type_hints(kind) if kind is not TextEvent else _EVENT_HINTS
        record = kind()
        for f in msgspec.structs.fields(kind):
            raw = values.get(f.encode_name)
            if raw is None:
                continue
            if hints[f.name] is Raw:
                setattr(record, f.name, raw)
                continue
            try:
                setattr(record, f.name, msgspec.json.decode(raw, type=hints[f.name]))
            except UNREADABLE:
                self.misfits[f.encode_name] += 1
        return record


_EVENT_HINTS = {
    "ph": str,
    "cat": str | None,
    "name": str | None,
    "pid": Scalar,
    "tid": Scalar,
    "args": type(None),
    "ts": Raw,
    "dur": Raw,
}


def starts_and_durations(events: Sequence[Event[Any]]) -> tuple[Times, Times]:
    """Return exact start and duration in ns as recorded, `times.MISSING` where there is none.

    Raises
    ------
    InexactTimesError
        The events hold doubles that lost digits.
    """
    return exact_ns(events, "ts"), exact_ns(events, "dur")


def exact_ns(events: Sequence[Any], name: str) -> Times:
    """Return one of the times of events that all came from one decode."""
    if not events:
        return np.empty(0, np.int64)
    values = list(map(attrgetter(name), events))
    if isinstance(events[0], TextEvent):
        return times.from_texts(values)
    ns = times.from_numbers(values)
    if ns is None:
        raise InexactTimesError
    return ns
