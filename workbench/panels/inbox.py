"""From a thread to the kernel's event loop: widgets are touched on the loop alone.

A run tells its progress from its own thread, hundreds of times a second. An `Inbox` calls one
function on the loop, at most so often, and always once more after the last call.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_S = 0.1


class Inbox:
    """Calls `deliver` on the event loop that was running when it was made.

    Without one (a plain script or a test) the caller's own thread delivers.
    """

    def __init__(self, deliver: Callable[[], None], every_s: float = EVERY_S) -> None:
        self._deliver, self._every_s = deliver, every_s
        self._lock = threading.Lock()
        self._waiting = False
        self._last = float("-inf")
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def call(self) -> None:
        """Ask for a delivery, from any thread; several that wait become one."""
        if self._loop is None:
            self._deliver()
            return
        with self._lock:
            if self._waiting:
                return
            self._waiting = True
        try:
            self._loop.call_soon_threadsafe(self._schedule)
        except RuntimeError:  # the loop is closed: nobody is left to look
            self._waiting = False

    def _schedule(self) -> None:
        assert self._loop is not None
        wait = self._last + self._every_s - time.monotonic()
        if wait > 0:
            self._loop.call_later(wait, self._now)
        else:
            self._now()

    def _now(self) -> None:
        with self._lock:
            self._waiting = False
        self._last = time.monotonic()
        self._deliver()
