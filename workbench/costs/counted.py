"""FLOPs and bytes that hardware counters measured, a row a kernel launch.

Formulas are rows of data/counters.toml, each with its source. NVIDIA: FLOPs = add + mul + 2 fma of
the predicated-on thread instructions by type, and `sm__ops_path_tensor_src_*` for the tensor cores;
bytes of DRAM `dram__bytes`, L2 `lts__t_bytes`, L1 `l1tex__t_bytes`. AMD: 64 x (add + mul + 2 fma +
trans) and 512 x `SQ_INSTS_VALU_MFMA_MOPS_*`; bytes by the number and size of requests. A formula
with a counter that was not collected gives null, never a part of the sum.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench import resources
from workbench.costs import devices as parts
from workbench.costs import roofs as sheets
from workbench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.costs.devices import Matched
    from workbench.costs.hardware import Hardware
    from workbench.trace.core import Device, Trace

GIGA = 1e9
LEVELS = ("l1", "l2", "memory")
_CHANNEL = r"^(.+)\[\d+\]$"
_TENSOR = re.compile(
    r"sm__ops_path_tensor_(?:(op_\w+?)_)?src_([a-z]+\d+)(?:_\w+?)?(_sparsity_(?:on|off))?\.sum"
)
_RATES = (".per_second", ".per_cycle_elapsed")
_CYCLES = ("{}__cycles_elapsed.avg", "{}__cycles_elapsed.max")
_CLOCK = "{}__cycles_elapsed.avg.per_second"
_SM_CLOCK = ("sm", "smsp", "l1tex", "gpc")
"""Units that run at one clock, so that the cycles of one are those of another."""
_DURATION = "gpu__time_duration.sum"
_ARCHITECTURES = ("gpu_arch", "compute_capability")


class Formula(NamedTuple):
    """A sum of counter x factor, and the architectures that it is true of (none named: all)."""

    terms: Mapping[str, float]
    on: tuple[str, ...]
    source: str


class Quantity(NamedTuple):
    """Something that counters measure: the column that it makes, and the formulas in order."""

    column: str
    formulas: tuple[Formula, ...]
    tensor: str | None = None
    """The source type by which Nsight Compute names operations of this precision."""


@dataclass(frozen=True, slots=True)
class Table:
    """data/counters.toml: what is measured, and what a benchmark's columns mean."""

    flops: tuple[Quantity, ...]
    bytes: tuple[Quantity, ...]
    speeds: Mapping[str, str]
    peaks: Mapping[str, tuple[str, str]]

    @property
    def columns(self) -> list[str]:
        """Return the columns of `measured` besides the activity."""
        made = [q.column for q in (*self.flops, *self.bytes)]
        return list(dict.fromkeys([*made, "memory_bytes"]))


@cache
def table(path: Path | None = None) -> Table:
    """Return the formulas of data/counters.toml, or of another file of that form."""
    place = path or resources.data() / "counters.toml"
    try:
        held = tomllib.loads(place.read_text(encoding="utf-8"))
        sources: Mapping[str, str] = held["sources"]
        benchmark = held["benchmark"]
        peaks = {n: tuple(text.split()) for n, text in benchmark["flops_per_s"].items()}
        return Table(
            flops=tuple(
                _quantity(q, f"{q['precision']}_{q['unit']}_flops", sources) for q in held["flops"]
            ),
            bytes=tuple(_quantity(q, _bytes(q), sources) for q in held["bytes"]),
            speeds=benchmark["bytes_per_s"],
            peaks=peaks,
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"The table of counters {place.name} cannot be used ({error}); restore it from the "
            "project."
        ) from error


def _bytes(entry: Mapping[str, str]) -> str:
    way = entry.get("way")
    return f"{entry['level']}_{way}_bytes" if way else f"{entry['level']}_bytes"


def _quantity(entry: Mapping[str, Any], column: str, sources: Mapping[str, str]) -> Quantity:
    formulas = tuple(
        Formula(f["terms"], tuple(f.get("on", ())), sources[f["source"]])
        for f in entry.get("formula", ())
    )
    return Quantity(column, formulas, entry.get("tensor"))


def measured(trace: Trace) -> pl.DataFrame:
    """Return a row for each counted launch: `activity`, and FLOPs and bytes by `Table.columns`.

    `memory_bytes` is reads and writes together where both are known apart. Values are doubles:
    some counters are given as rates. Null: not all counters of any formula were collected.
    """
    known = table()
    wide = _wide(trace, _wanted(known))
    devices = trace.activities.select(activity="id", device="device")
    wide = wide.join(devices, on="activity", how="left", maintain_order="left")
    parts = [
        part.with_columns(**_values(known, part.columns, _architectures(trace, device)))
        for (device,), part in wide.group_by("device", maintain_order=True)
    ]
    made = [p.select(pl.col("activity"), pl.col(known.columns).cast(pl.Float64)) for p in parts]
    types = {"activity": pl.UInt32()} | dict.fromkeys(known.columns, pl.Float64())
    return pl.concat([pl.DataFrame(schema=types), *made]).sort("activity")


def _architectures(trace: Trace, device: int | None) -> set[str]:
    described = trace.meta.described(device)
    about = described.properties if described else {}
    return {str(about[n]) for n in _ARCHITECTURES if n in about}


def _wanted(known: Table) -> set[str]:
    terms = {t for q in (*known.flops, *known.bytes) for f in q.formulas for t in f.terms}
    rates = {f"{t}{rate}" for t in terms for rate in _RATES}
    units = {t.partition("__")[0] for t in terms if "__" in t}.union(_SM_CLOCK)
    cycles = {c.format(u) for u in units for c in (*_CYCLES, _CLOCK)}
    return terms | rates | cycles | {_DURATION}


def _wide(trace: Trace, wanted: set[str]) -> pl.DataFrame:
    """Return a row for each launch and a column for each wanted counter that was collected."""
    names = trace.kernel_counters["name"].unique().cast(pl.String)
    channels = {n: f"{b[1]}_sum" for n in names if (b := re.fullmatch(_CHANNEL, n))}
    meant = {n: n for n in names if n in wanted or _TENSOR.fullmatch(_counter(n))}
    meant |= {n: s for n, s in channels.items() if s in wanted and s not in meant}
    name = pl.col("name").cast(pl.String)
    kept = trace.kernel_counters.filter(name.is_in(list(meant)))
    alone = kept.unique(["activity", "name"], keep="first", maintain_order=True)
    counts = alone.select("activity", name.replace(meant), "value")
    wide = counts.pivot("name", index="activity", values="value", aggregate_function="sum")
    every = trace.kernel_counters.select("activity").unique(maintain_order=True)
    return every.join(wide, on="activity", how="left", maintain_order="left")


def _counter(name: str) -> str:
    """Return the counter that a rate is of; a counter's own name as it is."""
    return next((name.removesuffix(r) for r in _RATES if name.endswith(r)), name)


def _values(known: Table, columns: Iterable[str], architectures: set[str]) -> dict[str, pl.Expr]:
    held = set(columns)
    made = {}
    for quantity in (*known.flops, *known.bytes):
        choices = [
            _sum(f.terms, held) for f in quantity.formulas if not f.on or architectures & set(f.on)
        ]
        choices += _tensor(quantity.tensor, held)
        made[quantity.column] = pl.coalesce(*choices, pl.lit(None, pl.Float64))
    both = made["memory_read_bytes"] + made["memory_write_bytes"]
    made["memory_bytes"] = pl.coalesce(both, made["memory_bytes"])
    return made


def _sum(terms: Mapping[str, float], held: set[str]) -> pl.Expr:
    return reduce(add, (_total(name, held) * factor for name, factor in terms.items()))


def _total(name: str, held: set[str]) -> pl.Expr:
    """Return a counter's total of the launch, from its rate where that alone was collected."""
    seconds = _first([_DURATION], held) / GIGA
    return pl.coalesce(
        _first([name], held),
        _first([f"{name}.per_second"], held) * seconds,
        _first([f"{name}.per_cycle_elapsed"], held) * _cycles(name, held, seconds),
    )


def _cycles(name: str, held: set[str], seconds: pl.Expr) -> pl.Expr:
    """Return the cycles of a counter's unit, from its clock where they were not collected."""
    unit = name.partition("__")[0]
    alike = dict.fromkeys((unit, *_SM_CLOCK)) if unit in _SM_CLOCK else (unit,)
    counts = [c.format(u) for u in alike for c in _CYCLES]
    clocks = [_CLOCK.format(u) for u in alike]
    return pl.coalesce(_first(counts, held), _first(clocks, held) * seconds)


def _first(names: Sequence[str], held: set[str]) -> pl.Expr:
    found = [pl.col(n) for n in names if n in held]
    return pl.coalesce(*found, pl.lit(None, pl.Float64))


def _tensor(source_type: str | None, held: set[str]) -> list[pl.Expr]:
    """Return the sum over accumulator types of a source type's operations in the tensor cores.

    Dense and sparse products, and kinds of instruction (`op_hmma`), are given together or apart;
    apart counts where together is absent.
    """
    names = {m[0]: m for n in sorted(held) if (m := _TENSOR.fullmatch(_counter(n)))}
    apart: dict[tuple[bool, bool], list[pl.Expr]] = {}
    for name, told in names.items():
        if told[2] == source_type:
            kind = (bool(told[1]), bool(told[3]))
            apart.setdefault(kind, []).append(_total(name, held))
    return [reduce(add, apart[kind]) for kind in sorted(apart)]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The roofs of one device: peaks by precision and unit, bandwidths by memory level."""

    source: str
    peak: Callable[[str, str], float | None]
    bytes_per_s: Mapping[str, float]


def ceiling(devices: Sequence[Device], hardware: Hardware | None) -> Ceiling | str:
    """Return the roofs that hold for a device, or why there are none.

    The data sheet that the caller names comes first; then what the tool's own benchmark reached,
    then the data sheet of the first device that has one (`workbench.costs.devices`).
    """
    known = [d for d in devices if parts.match(d) is not None]
    if hardware is not None:
        return _sheet(parts.named(hardware, next(iter(known), None)))
    for device in devices:
        if found := _benchmark(device):
            return found
    if known and (matched := parts.match(known[0])) is not None:
        return _sheet(matched)
    return parts.unknown(next((d for d in devices if d.name), None))


def _sheet(matched: Matched) -> Ceiling:
    found = sheets.from_match(matched)
    levels = {"memory": found.memory.bytes_per_s} if found.memory else {}
    return Ceiling(found.source, found.peak, levels)


def _benchmark(device: Device) -> Ceiling | None:
    known, about = table(), device.properties
    speeds = {level: rate for n, level in known.speeds.items() if (rate := _rate(about.get(n)))}
    peaks = {kind: rate for n, kind in known.peaks.items() if (rate := _rate(about.get(n)))}
    if not speeds:
        return None
    return Ceiling(
        f"benchmark of rocprofiler-compute on device {device.index}",
        lambda precision, unit: peaks.get((precision, unit)),
        speeds,
    )


def _rate(value: object) -> float | None:
    """Return what a benchmark reached; none for nothing, and for a rate that no device has."""
    return value * GIGA if isinstance(value, int | float) and 0 < value < _MOST else None


_MOST = 1e9
"""GB/s or GFLOP/s: an exabyte, or an exaflop, a second."""
