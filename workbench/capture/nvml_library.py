"""The functions of `pynvml` that sampling needs, by ctypes, for where that package is not there."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any

SHARED = "libnvidia-ml.so.1"
"""The driver brings it; the name without a number belongs to the toolkit's stub."""
_TEXT_BYTES = 96


class NvmlError(Exception):
    """A call that the library answered with a code."""


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class Library:
    """`pynvml` in small: the same names, the same values, an exception for each code but 0."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2

    def __init__(self, shared: Any = None) -> None:
        self._shared = shared

    def nvmlInit(self) -> None:
        """Load the driver's library and start it."""
        if self._shared is None:
            self._shared = ctypes.CDLL(SHARED)
        self._call("nvmlInit_v2")

    def nvmlShutdown(self) -> None:
        """Release it."""
        self._call("nvmlShutdown")

    def nvmlSystemGetDriverVersion(self) -> bytes:
        """Return the driver's version."""
        return self._text("nvmlSystemGetDriverVersion")

    def nvmlDeviceGetCount(self) -> int:
        """Return how many GPUs the machine has."""
        return self._number("nvmlDeviceGetCount_v2", of=c_uint)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> c_void_p:
        """Return the handle of one GPU."""
        handle = c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle))
        return handle

    def nvmlDeviceGetName(self, handle: c_void_p) -> bytes:
        """Return a GPU's name."""
        return self._text("nvmlDeviceGetName", handle)

    def nvmlDeviceGetUUID(self, handle: c_void_p) -> bytes:
        """Return a GPU's uuid."""
        return self._text("nvmlDeviceGetUUID", handle)

    def nvmlDeviceGetPowerUsage(self, handle: c_void_p) -> int:
        """Return the power that is drawn, mW."""
        return self._number("nvmlDeviceGetPowerUsage", handle, of=c_uint)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: c_void_p) -> int:
        """Return the energy since the driver was loaded, mJ."""
        return self._number("nvmlDeviceGetTotalEnergyConsumption", handle, of=c_ulonglong)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: c_void_p) -> int:
        """Return the bits of what holds the clocks down now."""
        return self._number("nvmlDeviceGetCurrentClocksThrottleReasons", handle, of=c_ulonglong)

    def nvmlDeviceGetTemperature(self, handle: c_void_p, sensor: int) -> int:
        """Return a temperature, degrees Celsius."""
        return self._number("nvmlDeviceGetTemperature", handle, c_int(sensor), of=c_uint)

    def nvmlDeviceGetClockInfo(self, handle: c_void_p, clock: int) -> int:
        """Return a clock, MHz."""
        return self._number("nvmlDeviceGetClockInfo", handle, c_int(clock), of=c_uint)

    def nvmlDeviceGetUtilizationRates(self, handle: c_void_p) -> _Utilisation:
        """Return the shares of time, percent, in which kernels ran and memory was used."""
        found = _Utilisation()
        self._call("nvmlDeviceGetUtilizationRates", handle, byref(found))
        return found

    def nvmlDeviceGetMemoryInfo(self, handle: c_void_p) -> _Memory:
        """Return a GPU's memory, bytes."""
        found = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", handle, byref(found))
        return found

    def _number(self, name: str, *arguments: Any, of: Any) -> int:
        found = of()
        self._call(name, *arguments, byref(found))
        return int(found.value)

    def _text(self, name: str, *arguments: Any) -> bytes:
        found = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call(name, *arguments, c_char_p(ctypes.addressof(found)), c_uint(_TEXT_BYTES))
        return found.value

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._shared, name)(*arguments)
        if code:
            raise NvmlError(f"{name} answered {code}")
