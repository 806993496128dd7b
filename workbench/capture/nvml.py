"""NVIDIA GPUs through their management library; the one place that knows its functions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.capture.nvml_library import Library

if TYPE_CHECKING:
    from collections.abc import Callable

THROTTLES = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
"""Bits of the throttle reasons that hold clocks below what the work asks for (nvml.h). Not among
them: idle (1), clocks set by the user (2) and by the display (0x100)."""
_W_PER_MW = 1e-3
_J_PER_MJ = 1e-3


class Nvml:
    """The GPUs of this machine; `library` has the functions of `pynvml` by their names."""

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

            library = pynvml
        except ImportError:
            library = Library()
        try:
            return cls(library)
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
        return {
            "device": f"gpu{index}",
            "utilisation_pct": ask(lambda: lib.nvmlDeviceGetUtilizationRates(handle).gpu),
            "memory_used_bytes": ask(lambda: lib.nvmlDeviceGetMemoryInfo(handle).used),
            "power_w": ask(lambda: lib.nvmlDeviceGetPowerUsage(handle) * _W_PER_MW),
            "temperature_c": ask(
                lambda: lib.nvmlDeviceGetTemperature(handle, lib.NVML_TEMPERATURE_GPU)
            ),
            "core_clock_mhz": ask(lambda: lib.nvmlDeviceGetClockInfo(handle, lib.NVML_CLOCK_SM)),
            "memory_clock_mhz": ask(lambda: lib.nvmlDeviceGetClockInfo(handle, lib.NVML_CLOCK_MEM)),
            "uuid": self.uuids[index],
            "energy_j": ask(lambda: lib.nvmlDeviceGetTotalEnergyConsumption(handle) * _J_PER_MJ),
            "throttle_reasons": self._throttles(handle),
        }

    def _throttles(self, handle: Any) -> int | None:
        """Return the bits; newer versions of the library call them events."""
        for kind in ("Throttle", "Event"):
            ask = getattr(self.library, f"nvmlDeviceGetCurrentClocks{kind}Reasons", None)
            if ask is not None and (found := self._ask(partial(ask, handle))) is not None:
                return int(found)
        return None

    def _uuid(self, handle: Any) -> str | None:
        found = self._ask(lambda: self.library.nvmlDeviceGetUUID(handle))
        return None if found is None else _text(found)

    @staticmethod
    def _ask(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except Exception:  # noqa: BLE001 - a GPU that lacks one sensor still has the others
            return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
