"""How roofs are timed: many short samples of each candidate, spread over time, of which the best.

A roof is what a device reaches undisturbed. On a machine that does other things too, a short sample
has a chance to be undisturbed and a long one has none; and a candidate that is looked at again and
again meets a quiet moment sooner than one that is looked at once. Nothing is flushed in between:
warm caches make a roof higher, never lower, and a stream's working set alone decides from which
memory level it comes.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

BATCH_S = {"cpu": 1e-4, "cuda": 2e-3}
"""Work timed at once: long against the clock's own cost, and on a GPU against a launch."""
VISIT_S = 0.01
"""Time for one look at one candidate: short, as a disturbance may last as long as a look."""
LONGEST_S = 0.05
"""Once a call of a group takes longer, its candidates of more work are not tried."""
LONGER = 10
"""How much longer it may take in the full sweep."""
LAPS_OF_ALL = 4
CONTENDER = 0.6
"""After those laps, candidates below this share of their group's best sit out every other lap: to
drop them would be to trust that they were not disturbed each time."""


class Timer(Protocol):
    """Runs work a number of times and says how long it took, in seconds."""

    def __call__(self, work: Callable[[], object], times: int) -> float:
        """Run `work` `times` times; return seconds for all."""
        ...


def host_timer(work: Callable[[], object], times: int) -> float:
    """Time work that is done when the call returns."""
    start = time.perf_counter_ns()
    for _ in range(times):
        work()
    return (time.perf_counter_ns() - start) / 1e9


class EventTimer:
    """Time work on a CUDA stream between two events, so that launch calls do not count."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda

    def __call__(self, work: Callable[[], object], times: int) -> float:
        """Run `work` `times` times; return seconds on the device for all."""
        start, end = (self.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(times):
            work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3


class Bench(NamedTuple):
    """Where to measure: torch, the kind of device, its timer, and whether there is time for all."""

    torch: Any
    kind: str
    timer: Timer
    is_full: bool = False


@dataclass(eq=False)
class Candidate:
    """Something to time: what it is, the work of one call, and how to build and run it."""

    group: Hashable
    what: Any
    amount: float
    """FLOPs or bytes of one call."""
    build: Callable[[], Callable[[], object]]
    """Sets up the operands, and returns the call."""
    seconds: list[float] = field(default_factory=list)
    """Seconds a call, of each sample so far."""

    @property
    def least_s(self) -> float:
        """Return the shortest time of a call so far; 0 before the first sample."""
        return min(self.seconds, default=0.0)

    @property
    def rate(self) -> float:
        """Return the best rate so far; 0 before the first sample."""
        return self.amount / self.least_s if self.seconds else 0.0

    @property
    def spread(self) -> float:
        """Return 1 - median rate / best rate (0.1, 0.125 and 0.2 s: 0.2)."""
        return round(1 - self.least_s / statistics.median(self.seconds), 4)


def samples(
    timer: Timer,
    work: Callable[[], object],
    batch_s: float,
    *,
    call_s: float = 0.0,
    visit_s: float = VISIT_S,
) -> list[float]:
    """Return seconds a call, of as many samples as fit a visit, one at least.

    Without `call_s`, what a call takes as far as is known, it warms up and finds that out.
    """
    if not call_s:
        timer(work, 1)
        call_s = timer(work, 1)
    batch = max(1, round(batch_s / max(call_s, 1e-7)))
    spent: list[float] = []
    while sum(spent) < visit_s:
        spent.append(timer(work, batch))
    return [seconds / batch for seconds in spent]


def race(
    bench: Bench,
    candidates: Sequence[Candidate],
    seconds: float,
    *,
    every: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> list[Candidate]:
    """Visit candidates lap by lap until the time is up; return the best of each group.

    Those that the time did not suffice for are left out, unless `every` one is to be visited once;
    so are those that the device cannot do.
    """
    end, lap, running = clock() + seconds, 0, list(candidates)
    while running and (lap == 0 or clock() < end):
        for candidate in running:
            if clock() < end or (every and lap == 0):
                _visit(bench, candidate, candidates)
        lap += 1
        running = [c for c in candidates if c.seconds]
        if lap >= LAPS_OF_ALL and lap % 2 == 0:
            running = [c for c in running if c.rate >= CONTENDER * _best(running, c.group)]
    groups = dict.fromkeys(c.group for c in candidates if c.seconds)
    return [max((c for c in candidates if c.group == g), key=lambda c: c.rate) for g in groups]


def _best(candidates: Sequence[Candidate], group: Hashable) -> float:
    return max(c.rate for c in candidates if c.group == group)


def _visit(bench: Bench, candidate: Candidate, candidates: Sequence[Candidate]) -> None:
    longest_s = LONGEST_S * (LONGER if bench.is_full else 1)
    slow = (c.amount for c in candidates if c.group == candidate.group and c.least_s > longest_s)
    if candidate.amount > min(slow, default=math.inf):
        return
    # What torch raises where a device has no kernel for a type, or no memory for a size.
    with contextlib.suppress(RuntimeError, ValueError, AttributeError):
        work, batch_s = candidate.build(), BATCH_S[bench.kind]
        candidate.seconds += samples(bench.timer, work, batch_s, call_s=candidate.least_s)
