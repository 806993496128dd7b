"""One rank's schedule while it is being made: host threads, streams, and what ran on them.

Host time advances as operators open and close and as calls are made; an activity starts when its
call has returned and reached the device, its stream is free and what it waits on has ended.
All times are ns on one clock shared by the ranks.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.trace.synthetic.inputs import Sizes, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN_NS = 2_000
"""From the begin of an operator to what it does first."""
CLOSE_NS = 1_000
CALL_NS = 5_000
SIDE_CALL_NS = 1_500
LATENCY_NS = 4_000
"""From the end of a launch call to the start on an idle stream."""
FOLLOW_NS = 1_000
"""From the end of one activity, or of what it waits on, to the start of the next."""

MAIN, AUTOGRAD = 0, 1
LAUNCH_CALLS = frozenset(
    {
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cudaGraphLaunch",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
    }
)
CBIDS = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaGraphLaunch": 311,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
    "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165,
}


@dataclass(slots=True, eq=False)
class HostEvent:
    """An operator, an annotation or a Python frame."""

    category: str
    name: str
    thread: int
    start: int
    args: dict[str, Any]
    parent: HostEvent | None = None
    """The operator around it."""
    end: int = 0
    inside: list[tuple[int, int]] = field(default_factory=list)
    """Direct child operators and runtime calls; kept for operators."""


@dataclass(slots=True, eq=False)
class Call:
    """A CUDA runtime call."""

    name: str
    thread: int
    start: int
    end: int
    correlation: int
    op: HostEvent | None
    lost: bool = False
    """Left out of the file: the fault `missing_launch`."""


@dataclass(slots=True, eq=False)
class Activity:
    """A kernel, collective, copy or set."""

    kind: str
    name: str
    stream: int
    start: int
    end: int
    call: Call | None
    correlation: int
    args: dict[str, Any]
    graph_node: int | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A stream waits on an event of another; `resolved` is when the work before the event ends."""

    call: Call
    stream: int
    source: int
    record: int
    event: int
    resolved: int


@dataclass(slots=True)
class _Thread:
    now: int = 0
    stack: list[tuple[HostEvent, str | None]] = field(default_factory=list)
    segment_start: int = 0
    segments: list[tuple[int, int, str]] = field(default_factory=list)


class Recorder:
    """Collects the schedule of one rank."""

    def __init__(self, start: int, allocated: int, sizes: Sizes) -> None:
        self.sizes = sizes
        self.host: list[HostEvent] = []
        self.calls: list[Call] = []
        self.activities: list[Activity] = []
        self.waits: list[Wait] = []
        self.syncs: list[tuple[str, Call, int | None]] = []
        self.mirrors: dict[tuple[int, int], tuple[HostEvent, int, int, int]] = {}
        self.flows: list[tuple[HostEvent, HostEvent]] = []
        self.memory: list[tuple[int, int, int, int]] = []
        self.allocated = allocated
        self.threads = {t: _Thread(now=start, segment_start=start) for t in (MAIN, AUTOGRAD)}
        self.current = MAIN
        self.stream_end: dict[int, int] = {}
        self.device_end = start
        self.lost = False
        """True once device records are no longer kept (the partial step)."""
        self.planted: dict[str, int] = {}
        self._external = 0
        self._correlation = 1_000
        self._event = 0

    @property
    def now(self) -> int:
        """Host time of the current thread."""
        return self.threads[self.current].now

    def advance(self, ns: int) -> None:
        """Let host time pass."""
        self.threads[self.current].now += ns

    def advance_to(self, time: int) -> None:
        """Let host time pass up to a point, unless it is there already."""
        self.threads[self.current].now = max(self.now, time)

    def switch(self, thread: int, delay_ns: int) -> None:
        """Go on with another host thread, a little later."""
        time = self.now + delay_ns
        self.current = thread
        self.advance_to(time)

    @contextmanager
    def event(
        self, category: str, name: str, host_class: str | None = None, **args: Any
    ) -> Iterator[HostEvent]:
        """Hold a host event open; `host_class` is how idle time under it counts (None: see below).

        An event without a class is transparent: what encloses it decides.
        """
        self._external += 1
        if category != "python_function":
            args = {"External id": self._external, "Record function id": 0, **args}
        outer = self.operator()
        event = HostEvent(category, name, self.current, self.now, args, outer)
        self._cut()
        self.threads[self.current].stack.append((event, host_class))
        self.host.append(event)
        yield event
        self._cut()
        self.threads[event.thread].stack.pop()
        event.end = self.now
        if outer is not None and category == "cpu_op":
            outer.inside.append((event.start, event.end))

    @contextmanager
    def op(self, name: str, **args: Any) -> Iterator[HostEvent]:
        """Hold an operator open, with its inputs and the host time that it costs.

        What stands in parentheses behind a name tells calls of one operator apart.
        """
        args |= recorded(name, self.sizes)
        with self.event("cpu_op", name.partition(" (")[0], "operator", **args) as event:
            self.advance(OPEN_NS)
            yield event
            self.advance(CLOSE_NS)

    def operator(self) -> HostEvent | None:
        """Return the innermost operator of the current thread."""
        stack = self.threads[self.current].stack
        return next((e for e, _ in reversed(stack) if e.category == "cpu_op"), None)

    def call(self, name: str, ns: int) -> Call:
        """Make a runtime call that lasts `ns`."""
        self._correlation += 1
        op = self.operator()
        host_class = "sync" if name.endswith("Synchronize") else None
        stack = self.threads[self.current].stack
        self._cut()
        start = self.now
        call = Call(name, self.current, start, start + ns, self._correlation, op)
        stack.append((HostEvent("cuda_runtime", name, self.current, start, {}), host_class))
        self.advance(ns)
        self._cut()
        stack.pop()
        if op is not None:
            op.inside.append((call.start, call.end))
        self.calls.append(call)
        return call

    def ready(self, call: Call, stream: int) -> int:
        """Return when work launched by the call can start on the stream."""
        free = self.stream_end.get(stream)
        reached = call.end + LATENCY_NS
        return reached if free is None else max(reached, free + FOLLOW_NS)

    def run(
        self, call: Call, kind: str, name: str, stream: int, *, start: int, ns: int, **args: Any
    ) -> Activity:
        """Put an activity on a stream, and remember which annotations it ran under."""
        activity = Activity(kind, name, stream, start, start + ns, call, call.correlation, args)
        self.stream_end[stream] = max(self.stream_end.get(stream, 0), activity.end)
        self.device_end = max(self.device_end, activity.end)
        if not self.lost:
            self.activities.append(activity)
            self._mirror(activity)
        return activity

    def launch(self, name: str, stream: int, ns: int, call: str = "cudaLaunchKernel") -> Activity:
        """Launch a compute kernel at the usual cost."""
        made = self.call(call, CALL_NS)
        return self.run(made, "kernel", name, stream, start=self.ready(made, stream), ns=ns)

    def wait(self, stream: int, source: int) -> Wait:
        """Let a stream wait on what another has been given so far."""
        record = self.call("cudaEventRecord", SIDE_CALL_NS)
        call = self.call("cudaStreamWaitEvent", SIDE_CALL_NS)
        self._event += 1
        resolved = self.stream_end.get(source, 0)
        wait = Wait(call, stream, source, record.correlation, self._event, resolved)
        self.stream_end[stream] = max(self.stream_end.get(stream, 0), resolved)
        if not self.lost:
            self.waits.append(wait)
        return wait

    def synchronize(self, stream: int | None, end: int) -> None:
        """Block the host until `end`, at least for the usual cost of such a call."""
        name = "cudaDeviceSynchronize" if stream is None else "cudaStreamSynchronize"
        start = self.now
        call = self.call(name, max(end - start, SIDE_CALL_NS))
        self.plant("host_sync", start)
        if not self.lost:
            self.syncs.append(("Context Sync" if stream is None else "Stream Sync", call, stream))

    def plant(self, cause: str, start: int) -> None:
        """Note that the host spent [start, now) on a cause, as far as the device was idle."""
        idle = self.now - max(start, self.device_end)
        self.note(cause, max(0, idle))

    def note(self, cause: str, ns: int) -> None:
        """Add planted idle time, while device records are kept."""
        if not self.lost:
            self.planted[cause] = self.planted.get(cause, 0) + ns

    def allocate(self, size: int) -> None:
        """Note an allocation, or a free when the size is negative."""
        self.allocated += size
        self.memory.append((self.now, self.current, size, self.allocated))

    def _cut(self) -> None:
        """End the segment of host time that the innermost classed event has held."""
        thread = self.threads[self.current]
        if thread.now > thread.segment_start:
            held = next((c for _, c in reversed(thread.stack) if c is not None), "unknown")
            thread.segments.append((thread.segment_start, thread.now, f"host_{held}"))
        thread.segment_start = thread.now

    def _mirror(self, activity: Activity) -> None:
        """Stretch the device-side copies of the annotations that the launch happened under."""
        for event, _ in self.threads[self.current].stack:
            if event.category == "user_annotation":
                key = (id(event), activity.stream)
                _, _, first, last = self.mirrors.get(key, (event, 0, activity.start, activity.end))
                first, last = min(first, activity.start), max(last, activity.end)
                self.mirrors[key] = (event, activity.stream, first, last)
