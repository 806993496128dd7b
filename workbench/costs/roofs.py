"""The roofs that operators are held against, whether measured or from a data sheet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.costs.ceilings import Ceilings
    from workbench.costs.hardware import Hardware


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


def from_hardware(part: Hardware) -> Roofs:
    """Return data-sheet roofs: dense peaks and main memory, the only level that sheets give."""
    speed = part.memory_bytes_per_s
    levels = () if speed is None else (Level("memory", speed),)
    return Roofs(f"data sheet: {part.part}", part.peak, levels)


def from_ceilings(measured: Ceilings) -> Roofs:
    """Return measured roofs: the best product by precision, the best stream by working-set size.

    A size's bandwidth is the best measured at that size or a larger one, so it never grows with
    the size. A working set between two measured sizes gets the next larger one's.
    """
    best = {c.precision: c.flops_per_s for c in measured.compute}

    def peak(precision: str, unit: str) -> float | None:
        # Products with a vector in 16 bits are accumulated in fp32 on the ordinary units.
        halves = unit == "vector" and precision in {"bf16", "fp16", "tf32"}
        return best.get("fp32" if halves else precision)

    return Roofs(f"measured here on {measured.date}", peak, _levels(measured))


def _levels(measured: Ceilings) -> tuple[Level, ...]:
    sizes = sorted({m.working_set_bytes for m in measured.memory})
    levels: list[Level] = []
    best = 0.0
    for size in reversed(sizes):
        here = max(m.bytes_per_s for m in measured.memory if m.working_set_bytes == size)
        best = max(best, here)
        last = not levels
        name = "memory" if last else f"working set up to {size / 1e6:.3g} MB"
        levels.append(Level(name, best, None if last else float(size)))
    return tuple(reversed(levels))
