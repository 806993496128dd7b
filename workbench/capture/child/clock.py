"""Timing of steps: marks on the host, or events on the device's stream."""

from __future__ import annotations

import time
from typing import Any, Protocol


class Clock(Protocol):
    """Marks points in time; the time between two marks is asked for later."""

    live: bool
    """Whether asking for a time is free of waiting."""

    def mark(self) -> Any:
        """Mark now."""
        ...

    def dur_ns(self, start: Any, end: Any) -> int:
        """Return the time between two marks in ns."""
        ...

    def synchronise(self) -> None:
        """Wait for all work that has been started."""
        ...


class HostClock:
    """The monotonic clock; right when the host does the work itself."""

    live = True

    def mark(self) -> int:
        """Return the time now in ns."""
        return time.perf_counter_ns()

    def dur_ns(self, start: int, end: int) -> int:
        """Return the difference in ns."""
        return end - start

    def synchronise(self) -> None:
        """Nothing is outstanding on the host."""


class CudaClock:
    """Events on the current stream, so that timing a step does not stop the host's run-ahead.

    A synchronisation after each step would put an idle gap at every step boundary of the trace.
    """

    live = False

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda

    def mark(self) -> Any:
        """Record an event behind the work queued so far."""
        event = self.cuda.Event(enable_timing=True)
        event.record()
        return event

    def dur_ns(self, start: Any, end: Any) -> int:
        """Wait for the second event; the device reports ms with about 0.5 us resolution."""
        end.synchronize()
        elapsed_ms: float = start.elapsed_time(end)
        return round(elapsed_ms * 1e6)

    def synchronise(self) -> None:
        """Wait for the device."""
        self.cuda.synchronize()
