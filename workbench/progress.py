"""How far a long reading has come: a line in a terminal, a line in a notebook, else nothing.

Only what takes over a second is shown, so short work, and work that nobody watches, prints nothing.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Report = Callable[[float], None]
"""Takes the share that is done, 0 to 1; called on the thread that reads."""
SHOWN_AFTER_S = 1.0
NOTEBOOK_BYTES = 4 << 20
"""Files below this open in well under a second, and a notebook's stored output stays the same."""
_BETWEEN_S = 0.1
_current: ContextVar[Report | None] = ContextVar("progress", default=None)


def at(share: float) -> None:
    """Say how much is done, if anyone listens."""
    report = _current.get()
    if report is not None:
        report(share)


@contextmanager
def told_to(report: Report | None) -> Iterator[None]:
    """Send what `at` says in the body to a listener; None keeps the one that listens now."""
    if report is None:
        yield
        return
    token = _current.set(report)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def shown(what: str, size: int) -> Iterator[None]:
    """Show the progress of the body where someone may be watching and nobody listens yet."""
    line = None if _current.get() else _line(what, size)
    if line is None:
        yield
        return
    try:
        with told_to(line):
            yield
    finally:
        line.close()


def _line(what: str, size: int) -> _Line | None:
    if sys.stderr is not None and sys.stderr.isatty():
        return _Line(what, _Terminal())
    if size >= NOTEBOOK_BYTES and "ipykernel" in sys.modules:
        return _Line(what, _Notebook())
    return None


class _Line:
    """Draws at most ten times a second, and not in the first."""

    def __init__(self, what: str, face: _Terminal | _Notebook) -> None:
        self._what, self._face = what, face
        self._begin = self._last = time.monotonic()
        self._drawn = False

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        if now - self._begin < SHOWN_AFTER_S or now - self._last < _BETWEEN_S:
            return
        self._last, self._drawn = now, True
        self._face.draw(f"Reading {self._what}: {min(max(share, 0), 1):.0%}")

    def close(self) -> None:
        """Take the line away, or leave what it came to."""
        if self._drawn:
            self._face.end(f"Read {self._what} in {time.monotonic() - self._begin:.1f} s.")


class _Terminal:
    def draw(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()

    def end(self, _: str) -> None:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


class _Notebook:
    def __init__(self) -> None:
        self._shown: Any = None

    def draw(self, text: str) -> None:
        ipython: Any = importlib.import_module("IPython.display")  # there is one in a notebook
        if self._shown is None:
            self._shown = ipython.DisplayHandle()
            self._shown.display(ipython.Pretty(text))
        else:
            self._shown.update(ipython.Pretty(text))

    def end(self, text: str) -> None:
        self.draw(text)
