"""The arithmetic behind the answers: plain sweeps over sorted boundaries, no interval code.

Slow and obvious on purpose: what the project's vectorised analyses return is compared with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from workbench.trace.synthetic.answers import IDLE_CAUSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.trace.synthetic.recorder import Activity, Call, Wait

Span = tuple[int, int]
Part = tuple[int, int, str]
CLASSES = {"kernel": "C", "collective": "N", "copy": "M", "set": "M"}
NEAR_NS = 5_000
LATENCY_LIMIT_NS = 10_000


def totals(activities: Iterable[Activity], window: Sequence[Span]) -> Counter[str]:
    """Return the length inside the window by what runs, such as '', 'C' or 'CMN'."""
    edges = [(t, CLASSES[a.kind], d) for a in activities for t, d in ((a.start, 1), (a.end, -1))]
    edges += [(t, "W", d) for begin, end in window for t, d in ((begin, 1), (end, -1))]
    edges.sort()
    running: Counter[str] = Counter()
    lengths: Counter[str] = Counter()
    before = 0
    for time, which, delta in edges:
        if running["W"]:
            lengths["".join(c for c in "CMN" if running[c])] += time - before
        running[which] += delta
        before = time
    return lengths


def covered(spans: Iterable[Span]) -> int:
    """Return the length of the union of spans."""
    total, reached = 0, None
    for begin, end in sorted(spans):
        first = begin if reached is None else max(begin, reached)
        total += max(0, end - first)
        reached = end if reached is None else max(reached, end)
    return total


def clipped(span: Span, window: Sequence[Span]) -> list[Span]:
    """Return what of a span lies in the window."""
    pieces = [(max(span[0], begin), min(span[1], end)) for begin, end in window]
    return [(begin, end) for begin, end in pieces if begin < end]


def inside(time: int, window: Sequence[Span]) -> bool:
    """Say whether a time lies in the window; its ends do not belong to it."""
    return any(begin <= time < end for begin, end in window)


class IdleCauses:
    """Every gap of one device between its first and last activity, cut into parts with a cause."""

    def __init__(
        self,
        activities: Sequence[Activity],
        host: dict[int, list[Part]],
        waits: Sequence[Wait],
    ) -> None:
        self._host = host
        self._starts = {thread: [s for s, _, _ in parts] for thread, parts in host.items()}
        self._waits: dict[int, list[Wait]] = {}
        for wait in sorted(waits, key=_resolved):
            self._waits.setdefault(wait.stream, []).append(wait)
        self._order = sorted(activities, key=_start_and_launch)
        self.parts = self._all_parts()

    def by_cause(self, window: Sequence[Span]) -> dict[str, int]:
        """Return the idle time of the window by cause."""
        result = dict.fromkeys(IDLE_CAUSES, 0)
        here = [s for a in self._order for s in clipped((a.start, a.end), window)]
        if not here:
            result["edge"] = sum(end - begin for begin, end in window)
            return result
        ends = [(min(begin for begin, _ in here), max(end for _, end in here))]
        core = [piece for span in window for piece in clipped(span, ends)]
        result["edge"] = sum(end - begin for begin, end in window)
        result["edge"] -= sum(end - begin for begin, end in core)
        for begin, end, cause in self.parts:
            result[cause] += sum(e - b for b, e in clipped((begin, end), core))
        return result

    def _all_parts(self) -> list[Part]:
        parts: list[Part] = []
        reached: Activity | None = None
        for activity in self._order:
            if reached is not None and activity.start > reached.end:
                parts += self._gap(reached, activity)
            if reached is None or activity.end > reached.end:
                reached = activity
        return parts

    def _gap(self, before: Activity, activity: Activity) -> list[Part]:
        """Cut one gap by the rules, first the host, then the call, then the rest."""
        begin, end, call = before.end, activity.start, activity.call
        if call is None:
            return [(begin, end, "unknown")]
        if call.name == "cudaGraphLaunch" and before.call is call:
            return [(begin, end, "graph")]
        host_end = max(begin, min(call.start, end))
        call_end = max(host_end, min(call.end, end))
        parts = self._host_parts(call, begin, host_end)
        parts.append((host_end, call_end, "launch_call"))
        return parts + self._device_parts(activity, call, call_end, end)

    def _host_parts(self, call: Call, begin: int, end: int) -> list[Part]:
        """Divide host time by what the launching thread was doing; unrecorded time is unknown."""
        segments = self._host[call.thread]
        index = max(0, bisect_right(self._starts[call.thread], begin) - 1)
        parts: list[Part] = []
        reached = begin
        while reached < end and index < len(segments):
            first, last, cause = segments[index]
            if first > reached:
                parts.append((reached, min(first, end), "host_unknown"))
                reached = min(first, end)
            if last > reached:
                parts.append((reached, min(last, end), cause))
                reached = min(last, end)
            index += 1
        if reached < end:
            parts.append((reached, end, "host_unknown"))
        return parts

    def _device_parts(self, activity: Activity, call: Call, begin: int, end: int) -> list[Part]:
        """Blame a wait that ended just before, else latency, else nothing known."""
        waits = self._waits.get(activity.stream, [])
        first = bisect_left(waits, end - NEAR_NS, key=_resolved)
        last = bisect_right(waits, end, key=_resolved)
        if any(wait.call.start < call.start for wait in waits[first:last]):
            return [(begin, end, "dependency")]
        limit = min(end, begin + LATENCY_LIMIT_NS)
        return [(begin, limit, "launch_latency"), (limit, end, "unknown")]


def _start_and_launch(activity: Activity) -> tuple[int, float]:
    """Order by start; of those that start together the earliest launch comes first."""
    return activity.start, float("inf") if activity.call is None else activity.call.start


def _resolved(wait: Wait) -> int:
    """Return when a wait ends."""
    return wait.resolved


def deepest(activities: Iterable[Activity]) -> int:
    """Return the largest number of launched activities that have not begun."""
    edges = []
    for activity in activities:
        if activity.call is not None and activity.call.start <= activity.start:
            edges += [(activity.call.start, 1), (activity.start, -1)]
    depth = largest = 0
    for _, delta in sorted(edges):
        depth += delta
        largest = max(largest, depth)
    return largest
