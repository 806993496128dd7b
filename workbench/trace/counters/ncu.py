"""Nsight Compute's CSV: `ncu --csv --page raw` (a row a launch) or `details` (a row a metric).

A raw page has a row of units under its header. Where the tool scaled values (`Mbyte`, `usecond`;
`--print-units base` leaves them as they are) the prefix is taken off, and what was rounded away is
gone. Source: Nsight Compute CLI, sections Output Pages and Metrics and Units
(https://docs.nvidia.com/nsight-compute/NsightComputeCli/).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workbench.errors import InputError, NotATraceError
from workbench.trace import container
from workbench.trace.core import Device, Trace
from workbench.trace.counters import assembly, text
from workbench.trace.counters.assembly import Found, Launch

KERNEL, METRIC, VALUE = "Kernel Name", "Metric Name", "Metric Value"
_IDENTITY = (
    "ID", "Process ID", "Process Name", "Host Name", KERNEL, "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC",
)  # fmt: skip
_LONG = ("Section Name", METRIC, "Metric Unit", VALUE)
_NONE = {"", "n/a", "N/A", "nan", "NaN", "-nan", "inf"}
"""What stands for a counter without a value: not collected on this device, or divided by 0."""
_INSTANCES = re.compile(r" \([^()]*\)$")
"""The values of single units after their sum (`--print-metric-instances values`)."""
_ODD = re.compile(r"[+-]?\d[\d.,'\u00a0\u202f ]*")
_TOOL = re.compile(r"==[A-Z]+==")
_TIMES = {"nsecond": 1e0, "ns": 1e0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6,
          "second": 1e9, "s": 1e9}  # fmt: skip
_PREFIX = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SCALED = re.compile(
    r"([KMGTP])(byte|hz|inst|sector|request|warp|thread|cycle|block|op)", re.IGNORECASE
)
DURATION = ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration")
_REGISTERS = ("launch__registers_per_thread", "Registers Per Thread")
_SHARED = (
    ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"),
    ("Static Shared Memory Per Block", "Dynamic Shared Memory Per Block"),
)
_DEVICE_NAME = "device__attribute_display_name"


def read(path: Path) -> Trace:
    """Read one CSV file: its launches as activities without a timeline, and their counters.

    Raises
    ------
    InputError
        The file can't be read, or holds no launch.
    """
    page = Page()
    for cells in text.rows(path):
        if page.found.values.full:
            page.found.stop(path)
            break
        page.take(cells)
    if not page.header:
        raise NotATraceError(f"{path} has no header of Nsight Compute; export it with ncu --csv.")
    if METRIC in page.header and VALUE not in page.header:
        raise InputError(
            f"{path} is a summary over launches; export them one by one (without --print-summary)."
        )
    if not page.found.launches:
        raise InputError(
            f"{path} holds no kernel: Nsight Compute counted none; see its messages in the file."
        )
    page.close()
    return assembly.build(
        path, "ncu", page.found, kind="cuda", reader="Nsight Compute", sha256=container.sha256(path)
    )


@dataclass
class Page:
    """What stands in the file so far, line by line."""

    header: list[str] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=dict)
    found: Found = field(default_factory=Found)
    known: dict[tuple[str, ...], int] = field(default_factory=dict)
    seen: set[tuple[int, str, str]] = field(default_factory=set)
    facts: dict[int, dict[str, float]] = field(default_factory=dict)
    """Of each launch, the counters that are columns of its activity."""

    def take(self, cells: list[str]) -> None:
        """Take one line; lines before the header and messages of the tool say nothing."""
        if KERNEL in cells and ("ID" in cells or "Process ID" in cells):
            self.header, self.units = cells, {}
            return
        if not self.header or _TOOL.match(cells[0] if cells else ""):
            return
        row = dict(zip(self.header, cells, strict=False))
        if len(cells) != len(self.header):
            self._bad(cells)
        elif METRIC in self.header:
            self._one(row)
        elif not row[KERNEL]:
            self.units = row
        else:
            self._whole(row)

    def _bad(self, cells: list[str]) -> None:
        self.found.tally.add(
            "bad_record", 1, ",".join(cells)[:80],
            "these lines have another form than the header says, and are left out",
        )  # fmt: skip

    def _whole(self, row: dict[str, str]) -> None:
        """Take a row of a raw page: one launch with all its counters."""
        launch = self._launch(row)
        for name, cell in row.items():
            if name and name not in _IDENTITY:
                self._value(launch, name, self.units.get(name, ""), "raw page", cell)
        if row.get(_DEVICE_NAME):
            self._device(row, row[_DEVICE_NAME])

    def _one(self, row: dict[str, str]) -> None:
        """Take a row of a details page: one counter of a launch; advice of rules has no metric."""
        section, name, unit, cell = (row.get(n, "") for n in _LONG)
        if not name:
            return
        key = tuple(row.get(n, "") for n in _IDENTITY)
        launch = self.known.get(key)
        again = launch is not None and (launch, section, name) in self.seen
        if launch is None or (again and "ID" not in self.header):
            launch = self.known[key] = self._launch(row)
        self.seen.add((launch, section, name))
        if name == _DEVICE_NAME:
            self._device(row, cell)
        else:
            self._value(launch, name, unit, section, cell)

    def _launch(self, row: Mapping[str, str]) -> int:
        device = text.index(row.get("Device", ""))
        self.found.launches.append(
            Launch(
                name=row[KERNEL],
                device=device,
                stream=text.index(row.get("Stream", "")),
                grid=text.triple(row.get("Grid Size", "")),
                block=text.triple(row.get("Block Size", "")),
            )
        )
        if device is not None and device not in self.found.devices:
            self._device(row, None)
        return len(self.found.launches) - 1

    def _device(self, row: Mapping[str, str], name: str | None) -> None:
        number = text.index(row.get("Device", ""))
        if number is not None:
            capability = {"compute_capability": row["CC"]} if row.get("CC") else {}
            self.found.devices[number] = Device(number, name, capability)

    def _value(self, launch: int, name: str, unit: str, source: str, cell: str) -> None:
        value = text.number(_INSTANCES.sub("", cell))
        if value is None:
            self._unread(name, cell)
            return
        factor, base = unit_of(unit)
        self.found.values.add(launch, name, base or None, source, value * factor)
        if name in _FACTS:
            self.facts.setdefault(launch, {}).setdefault(name, value * factor)

    def _unread(self, name: str, cell: str) -> None:
        """Report a value that is none; texts, as the name of a function, are as they should be."""
        if cell in _NONE and cell:
            self.found.tally.add(
                "counter_unavailable", 1, f"{name}: {cell}",
                "the tool could not collect these counters here; their values are unknown",
            )  # fmt: skip
        elif _ODD.fullmatch(cell):
            self.found.tally.add(
                "odd_number", 1, f"{name}: {cell[:80]}",
                "numbers that are not written as 1,234.5 are left out; export with LC_ALL=C",
            )  # fmt: skip

    def close(self) -> None:
        """Fill in what stands among the counters of each launch: duration, registers, shared."""
        for number, launch in enumerate(self.found.launches):
            facts = self.facts.get(number, {})
            launch.dur_ns = _first(facts, DURATION)
            launch.registers = _first(facts, _REGISTERS)
            launch.shared_bytes = next(_sums(facts), None)


_FACTS = {*DURATION, *_REGISTERS, *(n for names in _SHARED for n in names)}


def _first(facts: Mapping[str, float], names: tuple[str, ...]) -> int | None:
    found = next((facts[n] for n in names if n in facts), None)
    return None if found is None or not 0 <= found < _FAR else round(found)


_FAR = 10**15


def _sums(facts: Mapping[str, float]) -> Iterator[int]:
    for names in _SHARED:
        if all(0 <= facts.get(n, -1) < _FAR for n in names):
            yield round(sum(facts[n] for n in names))


def unit_of(unit: str) -> tuple[float, str]:
    """Return what a value in this unit is multiplied by, and the unit that it then has.

    `Mbyte` is 10^6 byte, `usecond` 10^3 ns, `Gbyte/second` 10^9 byte/s, `cycle/nsecond` 10^9
    cycle/s. A unit without a prefix stays as it is.
    """
    above, slash, below = unit.strip().partition("/")
    factor, base = _scaled(above)
    if not slash:
        return factor, base
    if below in _TIMES:
        return factor / (_TIMES[below] / _TIMES["s"]), f"{base}/s"
    return factor, f"{base}/{below}"


def _scaled(unit: str) -> tuple[float, str]:
    if unit in _TIMES:
        return _TIMES[unit], "ns"
    found = _SCALED.fullmatch(unit)
    if found is None:
        return 1.0, unit
    return _PREFIX[found[1].upper()], found[2].lower()
