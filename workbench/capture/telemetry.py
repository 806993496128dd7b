"""Power, clocks, temperature, utilisation and memory during a run, as telemetry.csv.

The parent samples, in a thread, so that the training process is left alone.
"""

from __future__ import annotations

import csv
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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
)
"""`uuid` ties a GPU to the device of that number in the run, which may see only some of them."""
_INTERVAL_S = 0.5
_JOIN_S = 5.0
_W_PER_MW = 1e-3


class TelemetrySource(Protocol):
    """Something that can be sampled."""

    def sample(self) -> list[dict[str, Any]]:
        """Return one row a device, with the columns that it knows."""
        ...


class Host:
    """Utilisation of all processor cores together, and memory in use on this machine."""

    def __init__(self) -> None:
        psutil.cpu_percent()  # the first call has nothing to compare with and returns 0

    def sample(self) -> list[dict[str, Any]]:
        """Return one row for the host."""
        return [
            {
                "device": "cpu",
                "utilisation_pct": psutil.cpu_percent(),
                "memory_used_bytes": psutil.virtual_memory().used,
            }
        ]


class Nvml:
    """NVIDIA GPUs through the management library; the one place that knows its functions."""

    def __init__(self, library: Any) -> None:
        self.library = library
        library.nvmlInit()
        count = library.nvmlDeviceGetCount()
        self.handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self.uuids = [self._uuid(handle) for handle in self.handles]

    @classmethod
    def open(cls) -> Nvml | None:
        """Return the GPUs of this machine, or None where there is no NVIDIA driver."""
        try:
            import pynvml

            return cls(pynvml)
        except Exception:  # noqa: BLE001 - the library has an error class for each code
            return None

    @property
    def driver(self) -> str | None:
        """Version of the driver."""
        version = self._ask(self.library.nvmlSystemGetDriverVersion)
        return None if version is None else _text(version)

    @property
    def names(self) -> list[str]:
        """Name of each GPU."""
        return [_text(self.library.nvmlDeviceGetName(handle)) for handle in self.handles]

    def sample(self) -> list[dict[str, Any]]:
        """Return one row a GPU; what a GPU does not report is None."""
        return [self._row(index, handle) for index, handle in enumerate(self.handles)]

    def close(self) -> None:
        """Release the library."""
        self._ask(self.library.nvmlShutdown)

    def _row(self, index: int, handle: Any) -> dict[str, Any]:
        lib, ask = self.library, self._ask
        power_mw = ask(lambda: lib.nvmlDeviceGetPowerUsage(handle))
        return {
            "device": f"gpu{index}",
            "utilisation_pct": ask(lambda: lib.nvmlDeviceGetUtilizationRates(handle).gpu),
            "memory_used_bytes": ask(lambda: lib.nvmlDeviceGetMemoryInfo(handle).used),
            "power_w": None if power_mw is None else power_mw * _W_PER_MW,
            "temperature_c": ask(
                lambda: lib.nvmlDeviceGetTemperature(handle, lib.NVML_TEMPERATURE_GPU)
            ),
            "core_clock_mhz": ask(lambda: lib.nvmlDeviceGetClockInfo(handle, lib.NVML_CLOCK_SM)),
            "memory_clock_mhz": ask(lambda: lib.nvmlDeviceGetClockInfo(handle, lib.NVML_CLOCK_MEM)),
            "uuid": self.uuids[index],
        }

    def _uuid(self, handle: Any) -> str | None:
        found = self._ask(lambda: self.library.nvmlDeviceGetUUID(handle))
        return None if found is None else _text(found)

    @staticmethod
    def _ask(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except Exception:  # noqa: BLE001 - a GPU that lacks one sensor still has the others
            return None


class Telemetry:
    """A thread that samples its sources into a CSV file until it is stopped."""

    def __init__(
        self, path: Path, sources: Sequence[TelemetrySource], interval_s: float = _INTERVAL_S
    ) -> None:
        self.path, self.sources, self.interval_s = path, sources, interval_s
        self.error: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="workbench-telemetry", daemon=True)

    def start(self) -> None:
        """Begin sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample and close the file."""
        self._stop.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            with self.path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, COLUMNS, restval="")
                writer.writeheader()
                last = False
                while not last:
                    last = self._stop.wait(self.interval_s)
                    self._write(writer)
                    file.flush()
        except Exception as error:  # noqa: BLE001 - a run goes on without its telemetry
            self.error = f"telemetry stopped: {error}"

    def _write(self, writer: csv.DictWriter[str]) -> None:
        for source in self.sources:
            now = time.time_ns()
            writer.writerows({"t_unix_ns": now, **row} for row in source.sample())


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
