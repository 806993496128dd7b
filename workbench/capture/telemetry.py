"""Power, clocks, temperature, utilisation and memory during a run, as telemetry.csv.

The parent samples, in a thread, so that the training process is left alone.
"""

from __future__ import annotations

import csv
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COLUMNS = (
    "t_unix_ns",
    "device",
    "utilisation_pct",
    "memory_used_bytes",
    "power_w",
    "temperature_c",
    "core_clock_mhz",
    "memory_clock_mhz",
    "uuid",
    "energy_j",
    "throttle_reasons",
    "other_pct",
)
"""`uuid` ties a GPU to the device of that number in the run, which may see only some of them.
`energy_j` counts from some moment on; `throttle_reasons` are the bits of NVML; `other_pct` is the
load that other programs put on the cores which the run may use."""
FAST_S = 0.02
"""While steps are timed: about as often as GPUs and processors renew their power."""
SLOW_S = 0.5
"""While the model is built and the trace is written."""
MEASURED = ("warmup", "untraced", "prepare", "traced")
"""Phases of a run in which it is sampled fast."""
MOST_FAST = 20_000
"""Samples after which a long run is sampled slowly, so that its file stays small."""
COST = 0.02
"""The share of a core that sampling may take."""
_JOIN_S = 5.0


class TelemetrySource(Protocol):
    """Something that can be sampled."""

    def sample(self) -> list[dict[str, Any]]:
        """Return one row a device, with the columns that it knows."""
        ...


class Telemetry:
    """A thread that samples its sources into a CSV file until it is stopped.

    It begins slowly; `pace` makes it fast, and takes a sample at once, so that there is one at
    the border of each phase. It never takes more than `COST` of a core.
    """

    def __init__(
        self,
        path: Path,
        sources: Sequence[TelemetrySource],
        *,
        fast_s: float = FAST_S,
        slow_s: float = SLOW_S,
    ) -> None:
        self.path, self.sources, self.fast_s, self.slow_s = path, sources, fast_s, slow_s
        self.error: str | None = None
        self.samples = 0
        self._fast = False
        self._ended = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="workbench-telemetry", daemon=True)

    def start(self) -> None:
        """Begin sampling."""
        self._thread.start()

    def pace(self, phase: str) -> None:
        """Sample as often as a phase of the run asks for, beginning now."""
        self._fast = phase in MEASURED
        self._wake.set()

    def stop(self) -> None:
        """Take a last sample and close the file."""
        self._ended = True
        self._wake.set()
        self._thread.join(_JOIN_S)

    def interval_s(self, spent_s: float) -> float:
        """Return the time to the next sample, when those so far took so much processor time."""
        fast = self._fast and self.samples < MOST_FAST
        mean_s = spent_s / max(self.samples, 1)
        return max(self.fast_s if fast else self.slow_s, mean_s / COST)

    def _run(self) -> None:
        try:
            with self.path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, COLUMNS, restval="")
                writer.writeheader()
                last = False
                while not last:
                    self._wake.wait(self.interval_s(time.thread_time()))
                    self._wake.clear()
                    last = self._ended
                    self._write(writer)
                    file.flush()
        except Exception as error:  # noqa: BLE001 - a run goes on without its telemetry
            self.error = f"telemetry stopped: {error}"

    def _write(self, writer: csv.DictWriter[str]) -> None:
        for source in self.sources:
            now = time.time_ns()
            writer.writerows({"t_unix_ns": now, **row} for row in source.sample())
        self.samples += 1
