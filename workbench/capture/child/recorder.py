"""The course of a recording, step by step: warm-up, untraced steps, traced steps, export.

Warm-up comes first, so that untraced and traced steps are measured in the same state and the
profiler's overhead is not mixed with the cost of first calls.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .clock import Clock
    from .events import Events

WINDOW = 3
TOLERANCE = 0.1
NS_PER_S = 1e9


class Tracer(Protocol):
    """The profiler as the recorder sees it."""

    running: bool
    """Whether it was started."""

    def start(self) -> None:
        """Begin with one step of the profiler's own warm-up."""
        ...

    def advance(self) -> int | None:
        """Go on to the next step; return its number in the trace, None once exported."""
        ...


@dataclass
class Step:
    """One step as the run folder stores it."""

    index: int
    phase: str
    """warmup, untraced, prepare (the profiler's own warm-up) or traced."""
    profiler_step: int | None
    start_unix_ns: int
    dur_ns: int | None = None


@dataclass(frozen=True)
class Lengths:
    """How many steps each phase has."""

    warmup: int
    """At most."""
    untraced: int
    traced: int
    detect: bool = True
    """Whether warm-up may end early, once the step time is stable."""

    @property
    def needed(self) -> int:
        """Return the number of steps that are enough for certain."""
        return self.warmup + self.untraced + 1 + self.traced


def spread(durations: list[int]) -> float | None:
    """Return (largest - smallest) / median of the last three steps; None before there are three."""
    last = durations[-WINDOW:]
    if len(last) < WINDOW:
        return None
    return (max(last) - min(last)) / max(1, statistics.median(last))


class Recorder:
    """A state machine driven from outside: `begin`, then `end_step` after each training step."""

    def __init__(
        self,
        lengths: Lengths,
        *,
        clock: Clock,
        tracer: Tracer,
        events: Events,
        agree: Callable[[bool], bool] = lambda ready: ready,
    ) -> None:
        self.lengths, self.clock, self.tracer = lengths, clock, tracer
        self.events, self.agree = events, agree
        self.finished = False
        self.steps = 0
        self._course = self._phases()
        self._pending: list[tuple[Step, Any, Any]] = []
        self._loss: Any = None

    def begin(self) -> None:
        """Start the first step."""
        self._next()

    def end_step(self, loss: Any = None) -> None:
        """End the running step and start the next one, or finish after the last.

        `loss` is what the step ended with, a number or a tensor of one, for those who watch.
        """
        step, start = self._current
        self._pending.append((step, start, self.clock.mark()))
        self._loss = loss
        self.steps += 1
        self._next()

    def _next(self) -> None:
        following = next(self._course, None)
        if following is None:
            self.finished = True
            return
        phase, profiler_step = following
        step = Step(self.steps, phase, profiler_step, time.time_ns())
        self._current = (step, self.clock.mark())

    def _phases(self) -> Iterator[tuple[str, int | None]]:
        yield from self._warm_up()
        yield from self._measure("untraced", self.lengths.untraced, lambda: None)
        self.events.send("prepare", message="starting the profiler")
        self.clock.synchronise()
        self.tracer.start()
        yield "prepare", None
        self._settle()
        yield from self._measure("traced", self.lengths.traced, self._advance)
        self.events.send("export", message="writing the trace")
        # The range of the last step must end after its last kernel.
        self.clock.synchronise()
        self.tracer.advance()

    def _advance(self) -> int | None:
        return self.tracer.advance()

    def _warm_up(self) -> Iterator[tuple[str, None]]:
        times: list[int] = []
        limit = self.lengths.warmup
        stable = False
        while len(times) < limit and not stable:
            yield "warmup", None
            times += self._settle()
            seconds, loss = times[-1] / NS_PER_S, self._read_loss()
            self.events.send("warmup", step=len(times), of=limit, seconds=seconds, loss=loss)
            width = spread(times)
            settled = self.lengths.detect and width is not None and width <= TOLERANCE
            stable = self.agree(settled)
        self._report_warm_up(times, stable=stable)

    def _report_warm_up(self, times: list[int], *, stable: bool) -> None:
        facts = {
            "limit": self.lengths.warmup,
            "steps": len(times),
            "detected": self.lengths.detect,
            "stable": stable,
            "spread": spread(times),
            "tolerance": TOLERANCE,
        }
        ended = "step time is stable" if stable else "ended at its limit"
        self.events.send("warmup", message=ended, facts={"warmup": facts})

    def _measure(
        self, phase: str, count: int, before: Callable[[], int | None]
    ) -> Iterator[tuple[str, int | None]]:
        for number in range(1, count + 1):
            yield phase, before()
            # Facts wait for the end of the phase: writing them would show up in the trace.
            _, start, end = self._pending[-1]
            seconds = self.clock.dur_ns(start, end) / NS_PER_S if self.clock.live else None
            loss = self._read_loss() if self.clock.live else None
            self.events.send(phase, step=number, of=count, seconds=seconds, loss=loss)
        if times := self._settle():
            median = statistics.median(times) / NS_PER_S
            said = f"median step {1e3 * median:.4g} ms"
            self.events.send(phase, message=said, loss=self._read_loss())

    def _read_loss(self) -> float | None:
        """Return the loss as a number; None in a trace, where reading it would stand as work."""
        if self._loss is None or self.tracer.running:
            return None
        try:
            return float(self._loss)
        except (TypeError, ValueError, RuntimeError):
            return None

    def _settle(self) -> list[int]:
        """Turn the marks so far into times, send them, and return them."""
        for step, start, end in self._pending:
            step.dur_ns = self.clock.dur_ns(start, end)
        steps = [step for step, _, _ in self._pending]
        self._pending.clear()
        if steps:
            facts = {"steps": [asdict(step) for step in steps]}
            self.events.send(steps[0].phase, facts=facts)
        return [step.dur_ns for step in steps if step.dur_ns is not None]
