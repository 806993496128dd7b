"""The roofs that operators are held against, whether measured or from a data sheet."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.costs import devices
from workbench.costs import hardware as sheets
from workbench.costs.precision import AMBIGUOUS
from workbench.costs.sheets import LEAST_RATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.costs.ceilings import Ceilings
    from workbench.costs.devices import Matched
    from workbench.costs.hardware import Hardware
    from workbench.trace.core import TraceMeta


@dataclass(frozen=True, slots=True)
class Level:
    """A bandwidth that holds for working sets up to a size; the last level has no bound."""

    name: str
    bytes_per_s: float
    up_to_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Roofs:
    """Peaks by precision and unit, memory levels from small to large, and where both come from."""

    source: str
    peak: Callable[[str, str], float | None]
    """Maps precision and unit to FLOP/s; None when that peak is not known."""
    levels: tuple[Level, ...]

    def level(self, working_set_bytes: float) -> Level | None:
        """Return the smallest memory level that holds a working set."""
        fits = (
            v for v in self.levels if v.up_to_bytes is None or working_set_bytes <= v.up_to_bytes
        )
        return next(fits, None)

    @property
    def memory(self) -> Level | None:
        """Return main memory, the last level."""
        return self.levels[-1] if self.levels else None


def choose(
    meta: TraceMeta, device: int | None, ceilings: Ceilings | None, hardware: Hardware | None
) -> Roofs | str:
    """Return the roofs that hold for one device of a recording, or why there are none.

    Measured roofs come first, when they are of a device of that name; a processor's recording does
    not name it, so measured roofs of a processor are taken at the caller's word. Then the data
    sheet that the caller names (see `devices.named`), then the one of the recorded device (see
    `devices.match`).
    """
    found = meta.described(device)
    name = found.name if found else None
    if ceilings is not None and _fits(ceilings, name, is_host=device is None):
        return from_ceilings(ceilings)
    if hardware is not None:
        return from_match(devices.named(hardware, found))
    if device is None:
        return "no data sheet for processors; measure this one's roofs (workbench ceilings)"
    matched = None if found is None else devices.match(found)
    if matched is not None:
        return from_match(matched)
    if ceilings is None:
        return devices.unknown(found)
    return f"{devices.unknown(found)}; the measured roofs are of {ceilings.device!r}"


def from_match(matched: Matched) -> Roofs:
    """Return the data-sheet roofs of a device's share of a part."""
    return replace(from_hardware(matched.hardware), source=_sheet(matched))


def _sheet(matched: Matched) -> str:
    """Name the part, and what is not plain about it: how it was found, that it is a share."""
    text = f"data sheet: {matched.part.part}"
    if matched.how != devices.BY_NAME:
        text += f" {matched.how}"
    if min(matched.compute_share, matched.memory_share) < 1:
        text += f", {matched.compute_share:.3g} of its peaks, {matched.memory_share:.3g} of memory"
    return text


def _fits(ceilings: Ceilings, name: str | None, *, is_host: bool) -> bool:
    if is_host:
        return ceilings.kind == "cpu"
    return name is not None and ceilings.kind != "cpu" and sheets.same(name, ceilings.device)


def from_hardware(part: Hardware) -> Roofs:
    """Return data-sheet roofs: dense peaks and main memory, the only level that sheets give."""
    speed = part.memory_bytes_per_s
    levels = () if speed is None else (Level("memory", speed),)
    return Roofs(f"data sheet: {part.part}", part.peak, levels)


def from_ceilings(measured: Ceilings) -> Roofs:
    """Return measured roofs: the best product by precision, the best stream by memory level.

    A level is a cache of the machine, its bandwidth the best stream whose working set fits no
    smaller cache; where the machine did not tell its caches, each working set is a level, and
    one between two of them gets the next larger one's. Bandwidth never grows with the level.
    Elementwise work and special functions are held against the products of 32 bits: no operator
    of torch keeps the ordinary units busy enough to measure them, and products use the same.
    """
    reached = [(c.precision, c.flops_per_s) for c in measured.compute]
    reached += [(a.precision, a.flops_per_s) for a in measured.attention]
    best: dict[str, float] = {}
    for precision, flops_per_s in reached:
        if flops_per_s >= LEAST_RATE:
            best[precision] = max(flops_per_s, best.get(precision, 0.0))

    def peak(precision: str, unit: str) -> float | None:
        # 16 bits are computed in fp32 on the ordinary units.
        halves = unit in {"vector", "special"} and precision in {"bf16", "fp16", "tf32"}
        return best.get("fp32" if halves else precision)

    busy = " on a busy machine" if measured.is_noisy else ""
    return Roofs(f"measured on {measured.date}{busy}", peak, _levels(measured))


def _levels(measured: Ceilings) -> tuple[Level, ...]:
    levels: list[Level] = []
    best = 0.0
    for name, above, upto in reversed(_bounds(measured)):
        within = [m.bytes_per_s for m in measured.memory if above < m.working_set_bytes <= upto]
        best = max([best, *within])
        if best >= LEAST_RATE:
            levels.append(Level(name, best, upto if levels else None))
    return tuple(reversed(levels))


def _bounds(measured: Ceilings) -> list[tuple[str, float, float]]:
    """Return name, lower and upper bound of each level from small to large."""
    sizes = [(c.name, float(c.bytes)) for c in measured.caches]
    if not sizes:
        found = sorted({float(m.working_set_bytes) for m in measured.memory})
        sizes = [(f"working set up to {s / 1e6:.3g} MB", s) for s in found[:-1]]
    uppers = [*sizes, ("memory", math.inf)]
    lowers = [0.0, *(upto for _, upto in sizes)]
    return [(name, low, upto) for low, (name, upto) in zip(lowers, uppers, strict=True)]


@dataclass(frozen=True, slots=True)
class Held:
    """Work held against its roofs; what is not known is null, and `reason` says why."""

    peak_flops_per_s: float | None = None
    memory_level: str | None = None
    level_bytes_per_s: float | None = None
    memory_bytes_per_s: float | None = None
    bound: str | None = None
    """`compute` or `memory`: the roof that takes longer."""
    roof_ns: float | None = None
    """The shortest time that the roofs allow for one call."""
    attainable_flops_per_s: float | None = None
    ratio_to_roof: float | None = None
    ratio_to_memory_roof: float | None = None
    roof_source: str | None = None
    reason: str | None = None


def unheld(roofs: Roofs | str, reason: str | None) -> Held:
    """Return what is known of the roofs for work that cannot be held against them."""
    if isinstance(roofs, str):
        return Held(reason=reason or roofs)
    memory = roofs.memory
    return Held(
        memory_bytes_per_s=memory.bytes_per_s if memory else None,
        roof_source=roofs.source,
        reason=reason,
    )


def hold(
    roofs: Roofs,
    *,
    precision: str,
    unit: str,
    call_flops: int | None,
    call_bytes: int | None,
    call_ns: float,
) -> Held:
    """Hold a call against the time that its roofs allow: max(FLOPs / peak, bytes / bandwidth).

    The roofline of Williams, Waterman and Patterson (CACM 52(4), 2009) as a time, so that work
    without FLOPs has one too. The bandwidth is that of the smallest memory level that holds the
    bytes of one call; `ratio_to_memory_roof` is to main memory instead. 100 FLOP on 10 bytes with a
    peak of 50 FLOP/s and 4 bytes/s take at least max(2, 2.5) s: bound by memory, attainable
    40 FLOP/s. What runs on ordinary units and has no known peak (integers), or no known FLOPs, is
    held against memory alone.
    """
    level = None if call_bytes is None else roofs.level(call_bytes)
    held = replace(
        unheld(roofs, None),
        peak_flops_per_s=_peak(roofs, precision, unit) if call_flops else None,
        memory_level=level.name if level else None,
        level_bytes_per_s=level.bytes_per_s if level else None,
    )
    reason = _missing(roofs, held, precision, unit, call_flops)
    if reason is None and not (call_ns > 0 and (call_flops or call_bytes)):
        reason = "it took no time, or has no work to do"
    if reason is not None:
        return replace(held, reason=reason)
    return _ratios(held, call_flops or 0, call_bytes or 0, call_ns)


def _peak(roofs: Roofs, precision: str, unit: str) -> float | None:
    """Return the peak; special functions are held to that of ordinary arithmetic, which is more."""
    return roofs.peak(precision, "vector" if unit == "special" else unit)


def _missing(
    roofs: Roofs, held: Held, precision: str, unit: str, call_flops: int | None
) -> str | None:
    if call_flops and precision == AMBIGUOUS:
        return "the kernels' names do not tell fp32 from TF32"
    if call_flops and unit == "matrix" and held.peak_flops_per_s is None:
        return f"no peak of {precision} ({unit}) in {roofs.source}"
    if call_flops is None and unit == "matrix":
        return "its FLOPs are not known"
    if roofs.memory is None:
        return f"no memory bandwidth in {roofs.source}"
    return "the bytes that it moves are not known" if held.memory_level is None else None


def _ratios(held: Held, flops: int, moved: int, call_ns: float) -> Held:
    compute_ns = 1e9 * flops / held.peak_flops_per_s if held.peak_flops_per_s else 0.0
    level_ns = 1e9 * moved / (held.level_bytes_per_s or 1.0)
    memory_ns = 1e9 * moved / (held.memory_bytes_per_s or 1.0)
    roof_ns = max(compute_ns, level_ns)
    return replace(
        held,
        bound="compute" if compute_ns >= level_ns else "memory",
        roof_ns=roof_ns,
        attainable_flops_per_s=1e9 * flops / roof_ns if flops else None,
        ratio_to_roof=roof_ns / call_ns,
        ratio_to_memory_roof=max(compute_ns, memory_ns) / call_ns,
    )
