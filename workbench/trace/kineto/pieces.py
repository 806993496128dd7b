"""A file's text as lists of events, piece by piece: memory for one piece, whatever the file's size.

The list of events is cut where one event may end and the next begin. A cut is proven by decoding:
text that decodes as a list is balanced, so its end lies between two events of the outer list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple

import msgspec

from workbench.errors import CutShortError, InputError
from workbench.trace.kineto import beginning, repair
from workbench.trace.kineto.beginning import ANY_BOUNDARY, HEADER_LIMIT, SPACE
from workbench.trace.kineto.events import UNREADABLE, Event, Fields, Reader
from workbench.trace.problems import Problem

EVENT_LIMIT = 64 << 20
"""Bytes of one event's text; more is no event."""
PATIENCE = 16 << 20
"""Bytes that are waited for when no cut can be found, before the text is taken for damaged."""
_CUTS = 4
_JOINED = 4
_WINDOW = 1 << 16
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_LIST_END = re.compile(rb'\}\s*\](?=\s*(?:\}|,\s*"))')


class Piece(NamedTuple, Generic[Fields]):
    """Some events in file order, with the text that they came from."""

    text: bytes
    events: list[Event[Fields]]


class EventLists(Generic[Fields]):
    """Iterates over the events of a file; `header` and `problems` are known when it has ended."""

    def __init__(self, stream: Iterator[bytes], reader: Reader[Fields], path: Path) -> None:
        self._stream, self._reader, self._path = stream, reader, path
        self._prefix: bytes | None = None
        self._tail = b""
        self._boundary = re.compile(ANY_BOUNDARY)
        self._ended = False
        self._cut: str | None = None
        self._repairs: Counter[str] = Counter()
        self._dropped = 0
        self._dropped_example = ""

    def __iter__(self) -> Iterator[Piece[Fields]]:
        """Yield the events in pieces."""
        rest, chunk = b"", self._begin()
        while not self._ended and (following := self._more()):
            piece, rest = self._clean(rest, chunk) or self._careful(rest + chunk)
            chunk = following
            if piece:
                yield piece
        if not self._ended:
            piece, rest = self._last(rest + chunk)
            chunk = b""
            yield piece
        self._tail = self._rest(rest + chunk)

    @property
    def truncated(self) -> bool:
        """Whether the file ends in the middle."""
        return self._cut is not None

    @property
    def header(self) -> bytes:
        """Return the object around the events, with an empty list in their place."""
        if self._prefix is None:
            return b"{}"
        return self._prefix + b"[]" + (b"}" if self.truncated else self._tail)

    @property
    def header_before(self) -> bytes:
        """Return the same without what stands after the events."""
        return b"{}" if self._prefix is None else self._prefix + b"[]}"

    @property
    def lost(self) -> int:
        """How many members of the list could not be read as events."""
        return self._dropped + self._reader.unreadable

    def check_not_empty(self, events: int) -> None:
        """Refuse a file of which damage has left no event at all."""
        if events or not (self.lost or self._cut):
            return
        what = "ends early, before its first whole event" if self._cut else "holds no whole event"
        raise InputError(f"{self._path} {what}; record it again or copy it whole.")

    def problems(self) -> Iterator[Problem]:
        """Return what was met while cutting and decoding."""
        if self._cut is not None:
            effect = "the file ends early; what came before is read, and totals are partial"
            yield Problem("cut_short", 1, self._cut, effect)
        for code, count in self._repairs.items():
            example = f"{self._path.name}: {count} found"
            yield Problem(code, count, example, repair.REPAIRS[code])
        if self.lost:
            example = self._dropped_example or "a member of traceEvents that is no object"
            effect = "these events can't be read and are in no total"
            yield Problem("unreadable_event", self.lost, example, effect)
        if self._prefix is None and self._tail.strip(SPACE):
            example = self._tail[:40].decode(errors="replace")
            effect = "text after the end of the events isn't read"
            yield Problem("trailing_text", 1, example, effect)

    # -- the stream --------------------------------------------------------------------------

    def _more(self) -> bytes:
        if self._cut is not None:
            return b""
        try:
            return next(self._stream, b"")
        except CutShortError as error:
            self._cut = str(error)
            return b""

    def _begin(self) -> bytes:
        """Read up to the first event; return the text from there on."""
        self._prefix, self._boundary, text = beginning.begin(self._more, self._path)
        return text

    def _rest(self, text: bytes) -> bytes:
        parts, size = [text], len(text)
        while size < HEADER_LIMIT and (chunk := self._more()):
            parts.append(chunk)
            size += len(chunk)
        return b"".join(parts)

    def _check_length(self, text: bytes) -> None:
        if len(text) > EVENT_LIMIT:
            raise InputError(
                f"{self._path} holds an event of over {EVENT_LIMIT >> 20} MiB, so it isn't read."
            )

    # -- cutting and decoding ----------------------------------------------------------------

    def _last_boundary(self, text: bytes, end: int) -> int:
        """Return where the last event before `end` stops that another one follows; 0 if none."""
        window = _WINDOW
        while True:
            begin = max(0, end - window)
            last = None
            for last in self._boundary.finditer(text, begin, end):  # noqa: B007
                pass
            if last is not None:
                return last.end()
            if begin == 0:
                return 0
            window *= 8

    def _clean(self, rest: bytes, chunk: bytes) -> tuple[Piece[Fields], bytes] | None:
        """Decode up to the last boundary in a chunk, copying its text once; None if that fails."""
        cut = self._last_boundary(chunk, len(chunk))
        wrapped = b"".join((b"[", rest.lstrip(b"," + SPACE), memoryview(chunk)[:cut], b"]"))
        try:
            return (Piece(wrapped, self._reader.decode(wrapped)), chunk[cut:]) if cut else None
        except UNREADABLE:
            return None

    def _careful(self, text: bytes) -> tuple[Piece[Fields] | None, bytes]:
        """Decode up to the last boundary of a text, whatever stands in the way."""
        cut = self._last_boundary(text, len(text))
        if not cut:
            self._check_length(text)
            return None, text
        return self._decode(text[:cut], text[cut:])

    def _decode(self, body: bytes, after: bytes) -> tuple[Piece[Fields] | None, bytes]:
        """Decode a body of events; return them and the text that follows.

        A cut at a wrong place leaves something open, so the decode says that text is missing: then
        an earlier cut may do, or more text is waited for. Any other failure is damage.
        """
        body = body.lstrip(b"," + SPACE)
        cut = len(body)
        for _ in range(_CUTS):
            wrapped = b"[" + body[:cut] + b"]"
            try:
                return Piece(wrapped, self._reader.decode(wrapped)), body[cut:] + after
            except UNREADABLE as error:
                if end := self._end_of_list(error, wrapped, body[cut:] + after):
                    self._ended = True
                    return self._piece(wrapped[:end]), wrapped[end:-1] + body[cut:] + after
                if "truncated" not in str(error):
                    break
            cut = self._last_boundary(body, cut - 1)
            if not cut:
                break
        else:
            cut = 0
        if not cut and len(body) < PATIENCE:
            return None, body + after
        return self._salvage(body, after)

    def _last(self, text: bytes) -> tuple[Piece[Fields], bytes]:
        """Decode what is left at the end of the file."""
        text = text.lstrip(b"," + SPACE)
        if found := self._closed(text):
            self._ended = True
            return found
        body = text.rstrip(b"," + SPACE)
        try:
            piece, rest = self._piece(b"[" + body + b"]"), b""
        except UNREADABLE:
            piece, rest = self._salvage(body, b"")
        if not self._ended:
            self._note_open_end()
        return piece, rest

    def _closed(self, text: bytes) -> tuple[Piece[Fields], bytes] | None:
        """Decode a list that is closed somewhere in a text; also return what follows it."""
        end = text.rfind(b"]") + 1
        if not end:
            return None
        wrapped, tail = b"[" + text[:end], text[end:]
        try:
            piece = self._piece(wrapped)
        except UNREADABLE as error:
            stop = self._end_of_list(error, wrapped + b"]", tail)
            return (self._piece(wrapped[:stop]), wrapped[stop:] + tail) if stop else None
        return (piece, tail) if self._is_tail(tail) else None

    def _piece(self, wrapped: bytes) -> Piece[Fields]:
        return Piece(wrapped, self._reader.decode(wrapped))

    def _note_open_end(self) -> None:
        """Note a cut when an object stands around the list; a bare one may legally stay open."""
        if self._prefix is not None and self._cut is None:
            self._cut = f"{self._path.name} ends without closing its list of events"

    def _salvage(self, body: bytes, after: bytes) -> tuple[Piece[Fields], bytes]:
        """Mend a damaged body, and read its events one by one when that is not enough."""
        mended, counts = repair.mend(body)
        wrapped = b"[" + mended + b"]"
        try:
            piece = self._piece(wrapped)
        except UNREADABLE as error:
            if end := self._end_of_list(error, wrapped, after):
                self._ended = True
                self._repairs += counts
                return self._piece(wrapped[:end]), wrapped[end:-1] + after
        else:
            self._repairs += counts
            return piece, after
        # a lost quote turns strings inside out up to the end, so each event is mended by itself
        kept, rest = self._one_by_one(body, after)
        wrapped = b"[" + b",".join(kept) + b"]"
        return self._piece(wrapped), rest + after

    def _one_by_one(self, text: bytes, after: bytes) -> tuple[list[bytes], bytes]:
        """Find the events that can be read; one that can't, alone or joined to others, is lost.

        Joining undoes a cut between objects nested in an event.
        """
        ends = [m.start() + 1 for m in re.finditer(ANY_BOUNDARY, text)] + [len(text)]
        starts = [0, *ends[:-1]]
        kept: list[bytes] = []
        i = 0
        while i < len(starts):
            for j in range(i, min(i + _JOINED, len(ends))):
                member = text[starts[i] : ends[j]].lstrip(b"," + SPACE)
                event, rest = self._one(member, partial(_joined, text, ends[j], after))
                if event:
                    kept.append(event)
                if rest is not None:
                    self._ended = True
                    return kept, rest + text[ends[j] :]
                if event:
                    i = j
                    break
            else:
                member = text[starts[i] : ends[i]]
                if end := _LIST_END.search(member):
                    tail = member[end.end() :] + text[ends[i] :]
                    if self._is_tail(tail + after):  # the last event is damaged, not cut
                        self._drop(member, is_last=False)
                        self._ended = True
                        return kept, tail
                self._drop(member, is_last=not after and i + 1 == len(starts))
            i += 1
        return kept, b""

    def _one(
        self, member: bytes, following: Callable[[], bytes] = bytes
    ) -> tuple[bytes, bytes | None]:
        """Return a member that is an event; also what follows the list when it ends here."""
        try:
            self._reader.try_one(member)
        except UNREADABLE as error:
            found = _TRAILING.search(str(error))
        else:
            return member, None
        at = int(found[1]) - 1 if found else 0
        rest = member[at:].lstrip(SPACE)
        if found and rest[:1] == b"]" and self._is_tail(rest[1:] + following()):
            return self._one(member[:at])[0], rest[1:]
        mended, counts = repair.mend(member)
        if counts and self._can_be_read(mended):
            self._repairs += counts
            return mended, None
        return b"", None

    def _can_be_read(self, member: bytes) -> bool:
        try:
            self._reader.try_one(member)
        except UNREADABLE:
            return False
        return True

    def _is_tail(self, text: bytes) -> bool:
        """Say whether text can stand after the list of events, rather than inside of it."""
        if self._prefix is None:
            return text.lstrip(SPACE)[:1] not in {b",", b"}", b"]"}
        try:
            msgspec.json.decode(b'{"":0' + text, type=dict[str, msgspec.Raw])
        except UNREADABLE as error:
            return "truncated" in str(error)
        return True

    def _end_of_list(self, error: BaseException, wrapped: bytes, after: bytes) -> int:
        """Return where the list ends, when a decode failed for the text that follows it."""
        found = _TRAILING.search(str(error))
        if not found:
            return 0
        end = wrapped.rfind(b"]", 0, int(found[1]) - 1) + 1
        return end if self._is_tail(wrapped[end:-1] + after) else 0

    def _drop(self, member: bytes, *, is_last: bool) -> None:
        member = member.lstrip(b"," + SPACE)
        if is_last and not member:
            self._note_open_end()
        elif is_last:
            self._cut = self._cut or f"{self._path.name} ends inside an event"
        else:
            self._dropped += 1
            self._dropped_example = (
                self._dropped_example or member[:60].decode(errors="replace").strip()
            )


def _joined(text: bytes, begin: int, after: bytes) -> bytes:
    return text[begin:] + after
