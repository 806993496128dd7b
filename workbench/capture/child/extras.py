"""What may be recorded beside the profiler's trace: the allocator's history, execution traces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

MOST_EVENTS = 100_000
"""Allocations and frees of which the history keeps the last."""
MOST_FRAMES = 24
"""Innermost frames of each: in JSON every event spells its own."""
NO_ALLOCATOR = (
    "memory history is kept by the allocator of GPUs; on the CPU it is left out, and memory events "
    "of the trace tell what was allocated"
)


class Extras:
    """Begins with the profiler and is written when its trace is; each file whole or not at all."""

    def __init__(
        self, torch: Any, folder: Path, rank: int, *, memory_history: bool, execution_trace: bool
    ) -> None:
        self.torch, self.folder, self.rank = torch, folder, rank
        self.memory_history, self.execution_trace = memory_history, execution_trace
        self._observer: Any = None
        self._snapshot: Any = None

    def begin(self) -> dict[str, Any]:
        """Start the history; return what the profiler must be given to go along with it."""
        if self.memory_history:
            # torch documents these for everybody, under names that begin with an underscore.
            memory = self.torch.cuda.memory
            memory._record_memory_history(stacks="python", max_entries=MOST_EVENTS)  # noqa: SLF001
        if not self.execution_trace:
            return {}
        self._observer = self.torch.profiler.ExecutionTraceObserver()
        self._observer.register_callback(str(self._part("et")))
        return {"execution_trace_observer": self._observer}

    def end(self) -> None:
        """Take the state at the end of the last step, before anything else is allocated."""
        if self.memory_history:
            memory = self.torch.cuda.memory
            self._snapshot = memory._snapshot()  # noqa: SLF001
            memory._record_memory_history(enabled=None)  # noqa: SLF001

    def write(self) -> None:
        """Write the files: what torch would pickle as plain JSON, which readers need not trust."""
        if self._snapshot is not None:
            with self._part("memory").open("w", encoding="utf-8") as file:
                json.dump(_shortened(self._snapshot), file, default=str)
            self._keep("memory")
        if self._observer is not None:
            self._observer.unregister_callback()
            self._keep("et")

    def _keep(self, kind: str) -> None:
        part = self._part(kind)
        if part.is_file():
            part.replace(self.folder / f"rank{self.rank}.{kind}.json")

    def _part(self, kind: str) -> Path:
        return self.folder / f".rank{self.rank}.{kind}.json"


def _shortened(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return a snapshot with its segments first, by which readers know it, and fewer frames."""
    traces = [[_fewer(event) for event in trace] for trace in snapshot.get("device_traces", ())]
    return {"segments": snapshot["segments"], **snapshot, "device_traces": traces}


def _fewer(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "frames": event["frames"][:MOST_FRAMES]} if "frames" in event else event
