"""What to generate: the size of the training step, its planted idle gaps and its faults."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from workbench.errors import UsageError, unknown_name

FAULTS = ("clock_inversion", "missing_launch", "invalid_record", "same_stream_overlap")
"""Faults that can be asked for; each is put once, into the first step of rank 0.

`clock_inversion`: a kernel starts before its launch call. `missing_launch`: a kernel without its
runtime call. `invalid_record`: a kernel at time 0 with duration 0. `same_stream_overlap`: a kernel
that ends after the next one on its stream has begun.
"""
FAULTY_GAPS = {
    "clock_inversion": "python_ns",
    "missing_launch": "garbage_collection_ns",
    "same_stream_overlap": "operator_ns",
}
"""The planted gap whose kernel carries the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Idle time planted in each complete step, by cause, in ns; 0 plants none of that cause.

    The first seven are host time or a slow launch call, the rest device time: `unknown_ns` comes
    after 10 us of launch latency, `graph_ns` between each two of the three kernels of a graph.
    """

    sync_ns: int = 12_000
    data_loading_ns: int = 80_000
    garbage_collection_ns: int = 50_000
    operator_ns: int = 30_000
    python_ns: int = 20_000
    host_unknown_ns: int = 15_000
    launch_call_ns: int = 40_000
    launch_latency_ns: int = 6_000
    unknown_ns: int = 25_000
    dependency_ns: int = 3_000
    graph_ns: int = 2_000


EVENTS_PER_LAYER = 101
"""In one step, flow and memory events included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSpec:
    """A small data-parallel training step on GPUs, described by its size."""

    ranks: int = 2
    steps: int = 3
    """Complete steps."""
    partial_step: bool = True
    """One more step, of which the device records are lost from the backward pass on."""
    first_step: int = 10
    layers: int = 2
    tokens: int = 2048
    hidden: int = 1024
    jitter: float = 0.1
    """Largest relative change of a kernel's duration, drawn from the seed; 0 for round numbers."""
    rank_skew_ns: int = 7_000
    """How much longer each rank loads its data than the one before it."""
    stacks: bool = True
    """Python frames; without them planted Python time is host time of unknown cause."""
    memory: bool = True
    sync_events: bool = True
    """`cuda_sync` records; without them no dependency can be known."""
    gaps: Gaps = field(default_factory=Gaps)
    faults: tuple[str, ...] = ()
    seed: int = 0

    @classmethod
    def sized(cls, events: int, *, ranks: int = 1, steps: int = 3) -> SyntheticSpec:
        """Return the specification of about so many events in each rank's file."""
        layers = round(events / EVENTS_PER_LAYER / (steps + 1))
        return cls(ranks=ranks, steps=steps, layers=max(1, layers))

    def __post_init__(self) -> None:
        """Refuse sizes out of range, unknown faults, and faults whose gap is not planted."""
        for name in ("ranks", "steps", "layers", "tokens", "hidden"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, and {getattr(self, name)} was given.")
        if not 0 <= self.jitter < 1:
            raise UsageError(f"jitter must lie in [0, 1), and {self.jitter} was given.")
        for gap in fields(self.gaps):
            _check_gap(gap.name, getattr(self.gaps, gap.name))
        for fault in self.faults:
            if fault not in FAULTS:
                raise unknown_name("fault", fault, FAULTS)
            needed = FAULTY_GAPS.get(fault)
            if needed and not getattr(self.gaps, needed):
                raise UsageError(f"The fault {fault!r} needs gaps.{needed} above 0.")


LONGEST_NS = {"launch_latency_ns": 10_000, "dependency_ns": 5_000}
"""Above these a gap would fall under another cause."""


def _check_gap(name: str, value: int) -> None:
    """Refuse a negative gap and one too long for its cause."""
    longest = LONGEST_NS.get(name)
    if value < 0 or (longest is not None and value > longest):
        limit = "at least 0" if longest is None else f"from 0 to {longest}"
        raise UsageError(f"gaps.{name} must be {limit}, and {value} was given.")
