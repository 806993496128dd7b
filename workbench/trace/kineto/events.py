"""JSON text to events: the fast, strict decode.

`args` stay raw here, because each category needs other fields of them and most events' are never
looked at; `arguments` decodes those of one category in a single call.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import numpy as np

from workbench.errors import InputError, NotATraceError
from workbench.intervals import Times
from workbench.trace import times

Raw = msgspec.Raw
Scalar = int | float | str | bool | None
NOTHING = Raw(b"")
NO_ARGS = Raw(b"{}")


class Event(msgspec.Struct, gc=False):
    """The fields of an event that do not depend on how its times are written."""

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    args: Raw = NOTHING


class NumberEvent(Event, gc=False):
    """An event whose times are doubles, exact only as `times.from_doubles` says."""

    ts: int | float | None = None
    dur: int | float | None = None


class TextEvent(Event, gc=False):
    """An event whose times are kept as text: large, long or quoted numbers."""

    ts: Raw = NOTHING
    dur: Raw = NOTHING


class Header(msgspec.Struct):
    """The fields beside the events that we use, each decoded later and alone."""

    schemaVersion: Raw = NOTHING  # noqa: N815 - the producer's name
    deviceProperties: Raw = NOTHING  # noqa: N815
    distributedInfo: Raw = NOTHING  # noqa: N815
    baseTimeNanoseconds: Raw = NOTHING  # noqa: N815
    displayTimeUnit: Raw = NOTHING  # noqa: N815
    traceName: Raw = NOTHING  # noqa: N815
    trace_id: Raw = NOTHING
    record_shapes: Raw = NOTHING
    profile_memory: Raw = NOTHING
    with_stack: Raw = NOTHING
    with_flops: Raw = NOTHING
    with_modules: Raw = NOTHING
    cuda_runtime_version: Raw = NOTHING
    cuda_driver_version: Raw = NOTHING
    cupti_version: Raw = NOTHING
    hip_runtime_version: Raw = NOTHING
    hip_driver_version: Raw = NOTHING
    roctracer_version: Raw = NOTHING
    generated: Raw = NOTHING


class NumberFile(Header):
    """A whole file with number times."""

    traceEvents: list[NumberEvent] | None = None  # noqa: N815


class TextFile(Header):
    """A whole file with text times."""

    traceEvents: list[TextEvent] | None = None  # noqa: N815


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a file by category, with the header."""

    header: Header
    by_category: dict[str | None, list[Event]]
    """Complete events (ph X)."""
    memory: list[Event]
    metadata: list[Event]
    unread: dict[str, int] = field(default_factory=dict)
    """Phases that are not read, with their counts."""
    count: int = 0


class InexactTimesError(Exception):
    """Number times have lost digits; decode again as text."""


_FIRST_TIME = re.compile(rb'"ts"\s*:\s*"?-?(\d+)')
_KNOWN_UNREAD = frozenset({"s", "f", "t", "i", "I", "M", "C"})


def decode(data: bytes, path: object, *, as_text: bool | None = None) -> Events:
    """Decode a file's text; with `as_text` None the kind of times is guessed from the first one.

    Raises
    ------
    InputError
        The text is no JSON, ends early, or holds no list of events.
    """
    start = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start not in (b"{", b"["):
        raise InputError(f"{path} is no profiler trace: it starts with neither {{ nor [.")
    if as_text is None:
        first = _FIRST_TIME.search(data, 0, 1 << 20)
        as_text = bool(first) and float(first[1]) >= times.EXACT_BELOW_US  # type: ignore[index]
    try:
        return _partition(_parse(data, bare=start == b"[", as_text=as_text), path)
    except msgspec.ValidationError as e:
        if not as_text:
            return decode(data, path, as_text=True)
        raise InputError(f"{path} is no profiler trace that can be read: {_plain(e)}.") from None
    except RecursionError:
        raise InputError(f"{path} nests too deeply to be a trace, so it isn't read.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        what = "ends early" if "truncated" in str(e) else f"is broken JSON ({_plain(e)})"
        raise InputError(f"{path} {what}; record it again or copy it whole.") from None


def _parse(data: bytes, *, bare: bool, as_text: bool) -> NumberFile | TextFile:
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not bare:
        return msgspec.json.decode(data, type=TextFile if as_text else NumberFile)
    if as_text:
        return TextFile(traceEvents=msgspec.json.decode(data, type=list[TextEvent]))
    return NumberFile(traceEvents=msgspec.json.decode(data, type=list[NumberEvent]))


def _plain(error: Exception) -> str:
    return str(error).rstrip(".").replace("`", "'")


def _partition(file: NumberFile | TextFile, path: object) -> Events:
    if file.traceEvents is None:
        raise NotATraceError(f"{path} is no profiler trace: it has no traceEvents.")
    complete: dict[str | None, list[Event]] = defaultdict(list)
    other: dict[str, list[Event]] = defaultdict(list)
    for e in file.traceEvents:
        if e.ph == "X":
            complete[e.cat].append(e)
        else:
            other[e.ph].append(e)
    count = len(file.traceEvents)
    file.traceEvents = None  # the lists above own the events now; flows go at once
    instants = other.get("i", [])
    return Events(
        header=file,
        by_category=dict(complete),
        memory=[e for e in instants if e.name == "[memory]"],
        metadata=other.get("M", []),
        unread={ph: len(es) for ph, es in other.items() if ph not in _KNOWN_UNREAD},
        count=count,
    )


def starts_and_durations(events: Sequence[Event]) -> tuple[Times, Times]:
    """Return exact start and duration in ns as recorded, `times.MISSING` where there is none.

    Raises
    ------
    InexactTimesError
        The events hold doubles that lost digits.
    """
    return _exact(events, "ts"), _exact(events, "dur")


def _exact(events: Sequence[Any], name: str) -> Times:
    if not events:
        return np.empty(0, np.int64)
    if isinstance(events[0], TextEvent):
        return times.from_texts([getattr(e, name) for e in events])
    try:
        doubles = np.array([getattr(e, name) for e in events], np.float64)
    except OverflowError:  # an integer beyond the doubles
        raise InexactTimesError from None
    ns = times.from_doubles(doubles)
    if ns is None:
        raise InexactTimesError
    return ns


UNREADABLE = (msgspec.DecodeError, RecursionError)
"""What a decode of one field raises: misfit, broken or bottomless."""
Args = TypeVar("Args", bound=msgspec.Struct)


def arguments(events: Sequence[Event], kind: type[Args]) -> tuple[list[Args], int]:
    """Decode the args of one category's events; also return how many did not fit the fields.

    Those get a `kind` with every field at its default.
    """
    raws = [e.args or NO_ARGS for e in events]
    try:
        return msgspec.json.decode(b"[" + b",".join(raws) + b"]", type=list[kind]), 0  # type: ignore[valid-type]
    except UNREADABLE:
        return _one_by_one(raws, kind)


def _one_by_one(raws: list[Raw], kind: type[Args]) -> tuple[list[Args], int]:
    decoder = msgspec.json.Decoder(kind)
    out, bad = [], 0
    for raw in raws:
        try:
            out.append(decoder.decode(raw))
        except UNREADABLE:
            out.append(kind())
            bad += 1
    return out, bad


def lenient(raw: Raw) -> object:
    """Decode one header field; a field that is absent or broken is None."""
    try:
        return msgspec.json.decode(raw) if bytes(raw) else None
    except UNREADABLE:
        return None
