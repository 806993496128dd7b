"""Data-sheet peaks by the name that a device reports. Facts are rows of data/hardware.csv.

All peaks are dense (no 2:4 sparsity), at the boost clock, 2 FLOPs per multiply-add. Names match
exactly: an SXM part, a PCIe card and an NVL card of one generation have different peaks, and a name
that is not in the table has no peak rather than a neighbour's.
"""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from workbench import resources
from workbench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GIGA, TERA, MEGA = 10**9, 10**12, 10**6
_RUNS_AS = {
    # Without tensor cores for it, a product runs on the ordinary units.
    ("fp32", "matrix"): ("fp32", "vector"),
    ("fp64", "matrix"): ("fp64", "vector"),
    # Products with a vector in 16 bits are accumulated in fp32 on the ordinary units.
    ("bf16", "vector"): ("fp32", "vector"),
    ("fp16", "vector"): ("fp32", "vector"),
    ("tf32", "vector"): ("fp32", "vector"),
}


@dataclass(frozen=True, slots=True)
class Hardware:
    """One row of the table: a part, the names it reports, dense peaks and memory."""

    part: str
    device_names: tuple[str, ...]
    vendor: str
    architecture: str
    form: str
    peaks_flops_per_s: Mapping[tuple[str, str], float]
    """By precision and unit; a pair that is missing is not in the data sheet."""
    memory_bytes: float | None
    memory_bytes_per_s: float | None
    cache_bytes: float | None
    boost_mhz: float | None
    multiprocessors: int | None
    """Streaming multiprocessors (NVIDIA) or compute units (AMD)."""
    source: str
    verified: str
    notes: str

    def peak(self, precision: str, unit: str) -> float | None:
        """Return the dense peak in FLOP/s of a precision on a unit; None when there is none."""
        key = (precision, unit)
        if key in self.peaks_flops_per_s:
            return self.peaks_flops_per_s[key]
        return self.peaks_flops_per_s.get(_RUNS_AS.get(key, key))


def table(path: Path | None = None) -> tuple[Hardware, ...]:
    """Return all parts of data/hardware.csv, or of another file of that form."""
    return _read(path or resources.data() / "hardware.csv")


def lookup(device_name: str | None) -> Hardware | None:
    """Return the part that reports exactly this name (case and spaces aside); None when unknown."""
    return None if device_name is None else _by_name().get(_plain(device_name))


def same(name: str, other: str) -> bool:
    """Say whether two device names are the same but for case and spaces."""
    return _plain(name) == _plain(other)


def unknown(device_name: str | None) -> str:
    """Say why there is no data sheet for a name, with the closest names that have one."""
    if not device_name:
        return "the recording does not name the device"
    names = [n for part in table() for n in part.device_names]
    near = difflib.get_close_matches(device_name, names, n=3, cutoff=0.4)
    hint = f"; closest: {', '.join(near)}" if near else ""
    return f"no data sheet for {device_name!r}{hint}"


@cache
def _by_name() -> dict[str, Hardware]:
    return {_plain(name): part for part in table() for name in part.device_names}


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())


@cache
def _read(path: Path) -> tuple[Hardware, ...]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return tuple(_part(row) for row in csv.DictReader(file))
    except (OSError, KeyError, ValueError) as error:
        raise InputError(
            f"The hardware table {path.name} cannot be used ({error}); restore it from the project."
        ) from error


def _part(row: dict[str, str]) -> Hardware:
    return Hardware(
        part=row["part"],
        device_names=tuple(row["device_names"].split(";")),
        vendor=row["vendor"],
        architecture=row["architecture"],
        form=row["form"],
        peaks_flops_per_s=_peaks(row),
        memory_bytes=_scaled(row["memory_gb"], GIGA),
        memory_bytes_per_s=_scaled(row["memory_gb_per_s"], GIGA),
        cache_bytes=_scaled(row["l2_mb"], MEGA),
        boost_mhz=_scaled(row["boost_mhz"], 1),
        multiprocessors=int(row["multiprocessors"]) if row["multiprocessors"] else None,
        source=row["source"],
        verified=row["verified"],
        notes=row["notes"],
    )


def _peaks(row: dict[str, str]) -> dict[tuple[str, str], float]:
    peaks = {}
    for column, text in row.items():
        precision, _, rest = column.partition("_")
        unit = rest.removesuffix("_tflops")
        value = _scaled(text, TERA) if rest != unit else None
        if value is not None:
            peaks[precision, unit] = value
    return peaks


def _scaled(text: str, factor: int) -> float | None:
    return float(text) * factor if text else None
