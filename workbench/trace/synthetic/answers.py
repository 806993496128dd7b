"""The exact answers of a generated run: what each analysis must return, to the nanosecond."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

IDLE_CAUSES = (
    "host_sync",
    "host_data_loading",
    "host_garbage_collection",
    "host_operator",
    "host_python",
    "host_unknown",
    "launch_call",
    "dependency",
    "launch_latency",
    "unknown",
    "edge",
    "graph",
)


@dataclass(frozen=True, slots=True)
class OperatorAnswer:
    """All operators of one name: own host time, and device time, not clipped to a window.

    Device time is the union of what one instance launched itself (self) or within it (total),
    added up over the instances.
    """

    count: int
    self_ns: int
    self_device_ns: int
    total_device_ns: int


@dataclass(frozen=True, slots=True)
class ActivityAnswer:
    """All activities of one name: how many start in the window, and their time clipped to it."""

    count: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class WindowAnswer:
    """One window of one device; the names are those of `summary`."""

    window_ns: int
    busy_ns: int
    compute_ns: int
    communication_ns: int
    overlap_ns: int
    exposed_communication_ns: int
    copy_ns: int
    exposed_copy_ns: int
    idle_ns: int
    kernels: int
    """All kernels, those of collectives among them."""
    collectives: int
    copies: int
    """Copies and sets."""
    steps: int
    """Complete steps; in the window `all` every step with activity on the device."""
    idle: Mapping[str, int]
    """Idle time by cause (`IDLE_CAUSES`)."""
    operators: Mapping[str, OperatorAnswer]
    """By name, the operators that start in complete host steps; in the window `all` all."""
    activities: Mapping[str, ActivityAnswer]
    """Kernels, collectives, copies and sets by name."""


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """One step on one device; starts are absolute ns."""

    step: int
    host_start_ns: int
    host_dur_ns: int
    start_ns: int
    dur_ns: int
    complete: bool
    tail: bool


@dataclass(frozen=True, slots=True)
class CollectiveAnswer:
    """One collective on one rank; its start is absolute ns, bandwidths are in GB/s (10^9)."""

    name: str
    seq: int
    bytes: int
    start_ns: int
    dur_ns: int
    algorithm_gb_per_s: float
    bus_gb_per_s: float
    wait_ns: int
    transfer_ns: int


@dataclass(frozen=True, slots=True)
class DelayAnswer:
    """One planted kernel: how long its call took, how long it queued, how long it ran."""

    kernel: str
    step: int | None
    start_ns: int
    call_ns: int | None
    queue_ns: int | None
    execution_ns: int


@dataclass(frozen=True, slots=True)
class RankAnswer:
    """Everything known about one rank and its one device."""

    rank: int
    device: int
    windows: Mapping[str, WindowAnswer]
    steps: tuple[StepAnswer, ...]
    collectives: tuple[CollectiveAnswer, ...]
    delays: tuple[DelayAnswer, ...]
    queue_depth: Mapping[str, int]
    """Largest queue depth by stream, and of the device under `device`."""
    planted: Mapping[str, int]
    """Idle time that the program planted, by cause, over the whole recording, before faults."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of all ranks, and how often each fault was put in."""

    ranks: tuple[RankAnswer, ...]
    faults: Mapping[str, int]

    def to_json(self) -> str:
        """Write them as JSON text."""
        return json.dumps(asdict(self), indent=1)
