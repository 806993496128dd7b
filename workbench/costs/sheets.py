"""One part's data sheet, and the files that hold such: a CSV table, or a JSON file of one part.

All peaks are dense (no 2:4 sparsity), at the boost clock, 2 FLOPs per multiply-add. A sheet speaks
of a whole part: one of two dies that appears as a device of its own has a share of it.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec

from workbench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GIGA, TERA, GIB, MIB = 10**9, 10**12, 2**30, 2**20
MAX_FILE_BYTES = 10**6
LEAST_RATE = 10**6
"""FLOPs or bytes a second, below which a roof is damage; times at it would have no end."""
_RUNS_AS = {
    # Without tensor cores for it, a product runs on the ordinary units.
    ("fp32", "matrix"): ("fp32", "vector"),
    ("fp64", "matrix"): ("fp64", "vector"),
    # Products with a vector in 16 bits are accumulated in fp32 on the ordinary units.
    ("bf16", "vector"): ("fp32", "vector"),
    ("fp16", "vector"): ("fp32", "vector"),
    ("tf32", "vector"): ("fp32", "vector"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One row of the table: a part, the names it reports, dense peaks, memory and links."""

    part: str
    device_names: tuple[str, ...]
    """Names that this part alone reports."""
    chips: tuple[str, ...]
    """Words that the names of its variants and partitions hold."""
    vendor: str
    architecture: str
    form: str
    capability: str | None
    """What devices record as their compute capability (AMD: of their gfx number), as in 9.0."""
    peaks_flops_per_s: Mapping[tuple[str, str], float]
    """By precision and unit; a pair that is missing is not in the data sheet."""
    memory_bytes: float | None
    """Capacity as sold: what sheets call GB is GiB, of which devices report a little less."""
    memory_bytes_per_s: float | None
    cache_bytes: float | None
    last_cache_bytes: float | None
    """Of the cache between L2 and memory, where there is one."""
    multiprocessors: int | None
    """Streaming multiprocessors (NVIDIA) or compute units (AMD)."""
    devices: int
    """As how many devices one part appears; each has an equal share."""
    boost_mhz: float | None
    link: str | None
    link_bytes_per_s: float | None
    """Of all links to the others of its domain, in one direction."""
    link_domain: int | None
    """How many parts those links join."""
    peer_bytes_per_s: float | None
    """Between two parts, in one direction."""
    pcie_generation: int | None
    tdp_w: float | None
    achieved_flops_per_s: Mapping[str, float]
    """The best published product by precision (MAMF of stas00/ml-engineering)."""
    public: str
    """yes, or how far it is announced."""
    source: str
    verified: str
    notes: str

    def peak(self, precision: str, unit: str) -> float | None:
        """Return the dense peak in FLOP/s of a precision on a unit; None when there is none."""
        key = (precision, unit)
        if key in self.peaks_flops_per_s:
            return self.peaks_flops_per_s[key]
        return self.peaks_flops_per_s.get(_RUNS_AS.get(key, key))


def rows(path: Path) -> tuple[Hardware, ...]:
    """Return the parts of a CSV file, a row each; columns other than `part` may be left out."""
    try:
        found = csv.DictReader(io.StringIO(_text(path), newline=""), strict=True)
        return tuple(_part(row) for row in found)
    except (csv.Error, ValueError) as error:
        raise _bad(path, error) from error


class _Memory(msgspec.Struct, forbid_unknown_fields=True):
    gb_per_s: Annotated[float, msgspec.Meta(gt=0)]
    gib: Annotated[float, msgspec.Meta(gt=0)] | None = None


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    peaks: dict[str, Annotated[float, msgspec.Meta(gt=0)]]
    memory: _Memory
    name: str | None = None


def from_json(path: Path) -> Hardware:
    """Return the part of a JSON file; its form stands at `workbench.costs.hardware.given`."""
    try:
        found = msgspec.json.decode(_text(path), type=_Given)
        _check(found.peaks)
        row = {
            "part": found.name or path.stem,
            "memory_gb_per_s": str(found.memory.gb_per_s),
            "memory_gib": str(found.memory.gib or ""),
            "source": path.name,
        }
        return _part(row | {n: str(v) for n, v in found.peaks.items()})
    except (msgspec.DecodeError, ValueError) as error:
        raise _bad(path, error) from error


def _check(peaks: Mapping[str, float]) -> None:
    for name in peaks.keys() - _PEAKS.keys():
        raise ValueError(f"{name!r} is no peak; those are {', '.join(_PEAKS)}")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            found = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"The file {path} cannot be read: {error.strerror}.") from error
    if len(found) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
    return found.decode("utf-8-sig")


def _bad(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path} is no hardware table ({error}); its form is that of data/hardware.csv, or of "
        "workbench.costs.hardware.given for JSON."
    )


def _part(row: dict[str, str]) -> Hardware:
    _known(row)
    return Hardware(
        part=row["part"],
        device_names=_names(row, "device_names"),
        chips=_names(row, "chips"),
        vendor=row.get("vendor", ""),
        architecture=row.get("architecture", ""),
        form=row.get("form", ""),
        capability=row.get("capability") or None,
        peaks_flops_per_s=_peaks(row),
        memory_bytes=_number(row, "memory_gib", GIB),
        memory_bytes_per_s=_rate(row, "memory_gb_per_s", GIGA),
        cache_bytes=_number(row, "l2_mib", MIB),
        last_cache_bytes=_number(row, "llc_mib", MIB),
        multiprocessors=_count(row, "multiprocessors"),
        devices=_count(row, "devices") or 1,
        boost_mhz=_number(row, "boost_mhz"),
        link=row.get("link") or None,
        link_bytes_per_s=_number(row, "link_gb_per_s", GIGA),
        link_domain=_count(row, "link_domain"),
        peer_bytes_per_s=_number(row, "p2p_gb_per_s", GIGA),
        pcie_generation=_count(row, "pcie_generation"),
        tdp_w=_number(row, "tdp_w"),
        achieved_flops_per_s=_achieved(row),
        public=row.get("public", ""),
        source=row.get("source", ""),
        verified=row.get("verified") or "no",
        notes=row.get("notes", ""),
    )


_PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8")
_PEAKS = {f"{p}_{u}_tflops": (p, u) for p in _PRECISIONS for u in ("matrix", "vector")}
_ACHIEVED = {f"achieved_{p}_tflops": p for p in _PRECISIONS}
_COLUMNS = {
    "part", "device_names", "chips", "vendor", "architecture", "form", "capability",
    "memory_gib", "memory_gb_per_s", "l2_mib", "llc_mib", "multiprocessors", "devices",
    "boost_mhz", "link", "link_gb_per_s", "link_domain", "p2p_gb_per_s", "pcie_generation",
    "tdp_w", "public", "source", "verified", "notes", *_PEAKS, *_ACHIEVED,
}  # fmt: skip


def _known(row: dict[str, str]) -> None:
    """Refuse a row without a part, with cells too many or few, or with a column of another name."""
    if None in row or None in row.values():
        raise ValueError("a row has more or fewer cells than the header")
    if not row.get("part"):
        raise ValueError("a row does not name its part")
    for column in row:
        if column not in _COLUMNS:
            raise ValueError(f"there is no column {column!r}")


def _names(row: dict[str, str], column: str) -> tuple[str, ...]:
    return tuple(n for n in row.get(column, "").split(";") if n)


def _peaks(row: dict[str, str]) -> dict[tuple[str, str], float]:
    found = {key: _rate(row, column, TERA) for column, key in _PEAKS.items()}
    return {key: value for key, value in found.items() if value is not None}


def _achieved(row: dict[str, str]) -> dict[str, float]:
    found = {key: _number(row, column, TERA) for column, key in _ACHIEVED.items()}
    return {key: value for key, value in found.items() if value is not None}


def _number(row: dict[str, str], column: str, factor: int = 1) -> float | None:
    text = row.get(column, "")
    if not text:
        return None
    value = float(text) * factor
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{column} is {text}")
    return value


def _rate(row: dict[str, str], column: str, factor: int) -> float | None:
    value = _number(row, column, factor)
    if value is not None and value < LEAST_RATE:
        raise ValueError(f"{column} is {row[column]}; leave empty what is not known")
    return value


def _count(row: dict[str, str], column: str) -> int | None:
    value = _number(row, column)
    return None if value is None else int(value)
