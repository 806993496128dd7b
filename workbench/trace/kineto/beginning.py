"""Where the list of events begins in a file's text, and what stands before it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from workbench.errors import InputError, NotATraceError
from workbench.trace.kineto import repair
from workbench.trace.kineto.events import UNREADABLE

HEADER_LIMIT = 16 << 20
"""Bytes of text before the events, and after them."""
SPACE = b" \t\r\n"
ANY_BOUNDARY = rb"\}(?=\s*,\s*\{)"
"""The end of an event, or of an object in one, that another object follows."""
_WINDOW = 1 << 16
_LIST = re.compile(rb'"traceEvents"\s*:\s*(\[?)')
_FIRST_KEY = re.compile(rb'\s*\{\s*"([A-Za-z_]{1,20})"')


class Beginning(NamedTuple):
    """What is known once the first event is reached."""

    prefix: bytes | None
    """The object's text before the list; None for a bare list."""
    boundary: re.Pattern[bytes]
    """The end of an event that another one follows, by the key that the first begins with."""
    text: bytes
    """What was read from the first event on."""


def begin(more: Callable[[], bytes], path: Path) -> Beginning:
    """Read up to the first event; `more` returns the next text, empty at the end of the file.

    Raises
    ------
    InputError
        The text is no trace, or is damaged before its first event.
    """
    text = more().removeprefix(b"\xef\xbb\xbf").lstrip(SPACE)
    while not text and (chunk := more()):
        text = chunk.lstrip(SPACE)
    if text[:1] == b"[":
        return _from_first_event(None, text[1:], more)
    if text[:1] != b"{":
        raise InputError(f"{path} is no profiler trace: it starts with neither {{ nor [.")
    at = 0
    while True:
        for found in _LIST.finditer(text, at):
            if found[1] and _is_outermost(text[: found.end()]):
                return _from_first_event(text[: found.end() - 1], text[found.end() :], more)
        at = max(0, len(text) - _WINDOW)
        chunk = more() if len(text) < HEADER_LIMIT else b""
        if not chunk:
            raise _no_events(text, path)
        text += chunk


def _is_outermost(prefix: bytes) -> bool:
    """Say whether a list of `traceEvents` that begins here belongs to the outermost object."""
    for text in (prefix, repair.mend(prefix)[0]):
        try:
            msgspec.json.decode(text + b"]}", type=dict[str, msgspec.Raw])
        except UNREADABLE:
            continue
        return True
    return False


def _no_events(text: bytes, path: Path) -> InputError:
    if len(text) >= HEADER_LIMIT:
        limit = HEADER_LIMIT >> 20
        return NotATraceError(f"{path} has no traceEvents in its first {limit} MiB.")
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except RecursionError:
        return InputError(f"{path} nests too deeply to be a trace, so it isn't read.")
    except UNREADABLE as e:
        what = "ends early" if "truncated" in str(e) else f"is broken JSON ({_plain(e)})"
        return InputError(f"{path} {what}; record it again or copy it whole.")
    if fields.get("traceEvents", b"null") == b"null":
        return NotATraceError(f"{path} is no profiler trace: it has no traceEvents.")
    return InputError(f"{path} is no profiler trace: its traceEvents is no array.")


def _from_first_event(prefix: bytes | None, text: bytes, more: Callable[[], bytes]) -> Beginning:
    while not text.lstrip(SPACE) and (chunk := more()):
        text += chunk
    key = _FIRST_KEY.match(text)
    same = rb"\}(?=\s*,\s*\{\s*\"" + key[1] + rb'")' if key else ANY_BOUNDARY
    return Beginning(prefix, re.compile(same), text)


def _plain(error: BaseException) -> str:
    return str(error).rstrip(".").replace("`", "'")
