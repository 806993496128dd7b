"""Which part of the hardware table a recorded device is, and how much of that part.

A name that one part alone reports decides. A longer name says a partition of it (MIG, a virtual
function). A name that several parts report (`NVIDIA H100`, `AMD Radeon Graphics`), or none at all,
is settled by the recorded properties, and left open where they fit parts with different roofs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from workbench.costs import hardware
from workbench.costs.sheets import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.costs.hardware import Hardware
    from workbench.trace.core import Device

_Key = TypeVar("_Key")
_MULTIPROCESSORS = ("numSms", "smCount", "core_count")
"""How Kineto, Nsight Systems and XLA name the number of multiprocessors or compute units."""
_MEMORY = ("totalGlobalMem", "totalMemory", "memory_size")
_CAPABILITY = (
    ("computeMajor", "computeMinor"),
    ("compute_cap_major", "compute_cap_minor"),
)
_THREADS = ("warpSize", "threadsPerWarp")
_VENDORS = {32: "NVIDIA", 64: "AMD"}
"""By threads that run together; AMD's accelerators (CDNA) have 64, and none of 32 is listed."""
_ANY = {"": None, "amd radeon graphics": "AMD", "nvidia graphics device": "NVIDIA"}
"""Names that say no more than a vendor: what a driver calls a part that it does not know."""
_MIG = re.compile(r"(?i)^(.*?)[ :]+MIG +(?:([1-7])c\.)?([1-7])g\.(\d+)gb\b")
_FUNCTION = re.compile(r"(?i) +[VH]F$")
_FORM = re.compile(r"(?i)SXM|PCIe|NVL|OAM")
BY_NAME = "by its name"
SLICES = 7
"""Into how many compute slices MIG divides a part of the table; its memory comes in 8."""
MEMORY_SLICES = 8
LEAST_MEMORY = 0.92
"""A device reports at least this much of its part's memory (T4 with ECC: 0.922) …"""
MOST_MEMORY = 1.005
NEAR_MEMORY = 0.015
"""… and a part whose memory fits this much worse than another's is out."""
SAME = 0.01
"""Peaks and bandwidths that differ by less than this are the same roofs."""
WHOLE = 0.9
"""From this share of a part's multiprocessors on, a device has all of its memory."""
MOST = 2.0**63


@dataclass(frozen=True, slots=True)
class Matched:
    """The part that a device is, or belongs to, and how that was found."""

    part: Hardware
    """The whole part, as in the table."""
    how: str
    compute_share: float = 1.0
    """Of the part's multiprocessors, and so of its peaks."""
    memory_share: float = 1.0
    """Of the part's memory and its bandwidth."""

    @property
    def hardware(self) -> Hardware:
        """Return the data sheet of this share of the part."""
        part, units = self.part, self.part.multiprocessors
        return replace(
            part,
            peaks_flops_per_s=_scaled(part.peaks_flops_per_s, self.compute_share),
            achieved_flops_per_s=_scaled(part.achieved_flops_per_s, self.compute_share),
            multiprocessors=None if units is None else round(units * self.compute_share),
            memory_bytes=_times(part.memory_bytes, self.memory_share),
            memory_bytes_per_s=_times(part.memory_bytes_per_s, self.memory_share),
            cache_bytes=_times(part.cache_bytes, self.memory_share),
            last_cache_bytes=_times(part.last_cache_bytes, self.memory_share),
            devices=1,
        )


def match(device: Device) -> Matched | None:
    """Return the part that a device is, with its share of it; None when that is not known.

    Shares: a MIG profile `3g.20gb` has 3/7 of the multiprocessors, and of memory and bandwidth the
    eighths nearest to its size, 4/8 of 40 GB (profile tables of NVIDIA's MIG user guide); `1c.3g`
    has the 1/7 of its compute instance. One of two dies has a half. A recorded number of
    multiprocessors beats the name. Where it is under 0.9 of the part's, a recorded memory size
    says the eighths of the bandwidth: an AMD partition that sees all memory can use all of it.
    """
    found = _found(device)
    return found if isinstance(found, Matched) else None


def named(part: Hardware, device: Device | None) -> Matched:
    """Return a device's share of the part that a caller says it is.

    Its own share where it is found to be of that part; else one device of those that the part
    appears as: one die of an MI250X.
    """
    found = None if device is None else match(device)
    if found is not None and found.part == part:
        return found
    return Matched(part, BY_NAME, 1 / part.devices, 1 / part.devices)


def unknown(device: Device | None) -> str:
    """Say why a device's part is not known, with the candidates or the closest names."""
    found = hardware.unknown(None) if device is None else _found(device)
    if isinstance(found, Matched):
        raise TypeError(f"{device} is known: {found.part.part}")
    return found


def multiprocessors(device: Device) -> int | None:
    """Return how many multiprocessors (AMD: compute units) a device has; None when not known.

    As recorded, else its share of those of its part.
    """
    recorded = _recorded(device, _MULTIPROCESSORS)
    if recorded:
        return int(recorded)
    found = match(device)
    return found.hardware.multiprocessors if found else None


def _found(device: Device) -> Matched | str:
    name, profile = _split(device.name or "")
    part = hardware.lookup(name)
    if part is not None:
        return _shared(part, device, profile, BY_NAME)
    fits = _named(name)
    if not fits:
        return hardware.unknown(device.name)
    if profile:
        return f"no data sheet for {device.name!r}; closest: parts of {_list(fits)}"
    return _by_properties(device, fits)


def _split(name: str) -> tuple[str, re.Match[str] | None]:
    """Take a partition off a name."""
    profile = _MIG.match(name)
    whole = profile[1] if profile else name
    return _FUNCTION.sub("", " ".join(whole.split())), profile


def _named(name: str) -> list[Hardware]:
    """Return the parts that a name fits: all of a vendor's when it says no more than that."""
    plain = name.casefold()
    if plain in _ANY:
        vendor = _ANY[plain]
        return [p for p in hardware.table() if vendor in {None, p.vendor} and p.multiprocessors]
    fits = [p for p in hardware.table() if any(_is_word(c, name) for c in p.chips)]
    forms = {f.casefold() for f in _FORM.findall(name)}
    if not forms:
        return fits
    return [p for p in fits if any(p.form.casefold().startswith(f) for f in forms)]


def _is_word(chip: str, name: str) -> bool:
    return bool(re.search(rf"(?i)(?<![a-z0-9]){re.escape(chip)}(?![a-z0-9])", name))


def _by_properties(device: Device, fits: list[Hardware]) -> Matched | str:
    name = f"no data sheet for {device.name!r}" if device.name else "the device has no name"
    units, memory = _recorded(device, _MULTIPROCESSORS), _recorded(device, _MEMORY)
    if not ((units and memory) or device.name):
        return hardware.unknown(None)
    if not (units and memory):
        does = "tells which" if len(fits) > 1 else "confirms it"
        return f"{name}; closest: {_list(fits)}, and no recorded property {does}"
    seen = f"{units:g} multiprocessors and {memory / GIB:.1f} GiB"
    told = [p for p in fits if _could_be(p, device, units)]
    near = max((_memory_ratio(p, memory) for p in told), default=0.0) - NEAR_MEMORY
    told = [p for p in told if _memory_ratio(p, memory) >= near]
    if not told:
        return f"{name}; closest: {_list(fits)}, of which none has {seen}"
    first, *others = (_shared(p, device, None, f"by its {seen}") for p in told)
    if any(not _same_roofs(first.hardware, o.hardware) for o in others):
        return f"{name}; closest: {_list(told)}, which all have {seen}, and other roofs"
    if others:
        alike = ", ".join(o.part.part for o in others)
        return replace(first, how=f"{first.how}, which {alike} has with the same roofs")
    return first


def _could_be(part: Hardware, device: Device, units: float) -> bool:
    """Say whether everything that was recorded speaks for a part."""
    threads = _recorded(device, _THREADS)
    if threads and _VENDORS.get(int(threads), part.vendor) != part.vendor:
        return False
    if part.capability and _capability(device) not in {None, part.capability}:
        return False
    memory = _recorded(device, _MEMORY) or 0.0
    fits = LEAST_MEMORY <= _memory_ratio(part, memory) <= MOST_MEMORY
    return fits and units * part.devices == part.multiprocessors


def _memory_ratio(part: Hardware, memory: float) -> float:
    return memory * part.devices / part.memory_bytes if part.memory_bytes else 0.0


def _same_roofs(a: Hardware, b: Hardware) -> bool:
    speeds = (a.memory_bytes_per_s, b.memory_bytes_per_s)
    if a.peaks_flops_per_s.keys() != b.peaks_flops_per_s.keys() or None in speeds:
        return False
    pairs = [(v, b.peaks_flops_per_s[k]) for k, v in a.peaks_flops_per_s.items()]
    pairs.append((speeds[0] or 0.0, speeds[1] or 0.0))
    return all(math.isclose(x, y, rel_tol=SAME) for x, y in pairs)


def _shared(part: Hardware, device: Device, profile: re.Match[str] | None, how: str) -> Matched:
    """Return how much of a part a device is."""
    compute = memory = 1 / part.devices
    if profile:
        compute = int(profile[2] or profile[3]) / SLICES
        memory = _eighths(float(profile[4]) * GIB, part)
        how = f"{how} with its MIG profile"
    units = _recorded(device, _MULTIPROCESSORS)
    if units and part.multiprocessors:
        compute = min(1.0, units / part.multiprocessors)
    recorded = _recorded(device, _MEMORY)
    if recorded and not profile and compute < WHOLE:
        memory = _eighths(recorded, part)
    return Matched(part, how, compute, memory)


def _eighths(memory_bytes: float, part: Hardware) -> float:
    if not part.memory_bytes:
        return 1.0
    slices = round(MEMORY_SLICES * memory_bytes / part.memory_bytes)
    return min(max(slices, 1), MEMORY_SLICES) / MEMORY_SLICES


def _capability(device: Device) -> str | None:
    for major, minor in _CAPABILITY:
        first, second = (device.properties.get(n) for n in (major, minor))
        if isinstance(first, int) and isinstance(second, int):
            return f"{first}.{second}"
    return None


def _recorded(device: Device, names: Sequence[str]) -> float | None:
    """Return the first sensible number that a device records by one of these names."""
    for name in names:
        value = device.properties.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < MOST:
            return value
    return None


def _list(parts: Sequence[Hardware], most: int = 6) -> str:
    names = [p.part for p in parts[:most]]
    more = len(parts) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _scaled(values: Mapping[_Key, float], share: float) -> dict[_Key, float]:
    return {key: value * share for key, value in values.items()}


def _times(value: float | None, share: float) -> float | None:
    return None if value is None else value * share
