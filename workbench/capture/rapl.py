"""Energy of the processor packages of this machine, where Linux lets it be read (powercap)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ZONES = Path("/sys/class/powercap")
_J_PER_UJ = 1e-6


@dataclass
class _Zone:
    """One package's counter, which begins anew at its range."""

    path: Path
    range_uj: int
    last_uj: int
    total_uj: int = 0

    def advance(self) -> None:
        now = _number(self.path / "energy_uj")
        if now is not None:
            self.total_uj += (now - self.last_uj) % self.range_uj
            self.last_uj = now


class Rapl:
    """The packages' energy since this object was made; most systems let only root read it.

    Zones within a package (cores, memory) and the whole platform are left out: they would count
    twice.
    """

    def __init__(self, zones: Path = ZONES) -> None:
        found = [_zone(path) for path in sorted(zones.glob("*:*"))] if zones.is_dir() else []
        self._zones = [zone for zone in found if zone is not None]

    def joules(self) -> float | None:
        """Return the energy so far; None where no package can be read."""
        for zone in self._zones:
            zone.advance()
        return _J_PER_UJ * sum(zone.total_uj for zone in self._zones) if self._zones else None


def _zone(path: Path) -> _Zone | None:
    try:
        is_package = (path / "name").read_text(encoding="utf-8").startswith("package")
    except (OSError, UnicodeDecodeError):
        return None
    now, most = _number(path / "energy_uj"), _number(path / "max_energy_range_uj")
    # The counter's largest value is its range, so that it holds one more value than that.
    return _Zone(path, most + 1, now) if is_package and now is not None and most else None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
