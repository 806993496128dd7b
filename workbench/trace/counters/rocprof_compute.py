"""rocprofiler-compute's folder: `pmc_perf.csv`, a row a launch, with what stands beside it.

Each group of counters was collected in a run of its own, so counters of one row come from several
runs of the same launch; columns that every run wrote again (`Wave_Size_3`) are read once.
`sysinfo.csv` describes the device, `roofline.csv` holds the bandwidths and peaks that the tool's
own benchmark reached on it. Source: ROCm/rocprofiler-compute, `src/utils/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from workbench.errors import InputError, NotATraceError
from workbench.trace.assemble import LATEST_NS
from workbench.trace.core import Device, Trace
from workbench.trace.counters import COUNTERS, assembly, text
from workbench.trace.counters.assembly import Found, Launch

SYSTEM, BENCHMARK = "sysinfo.csv", "roofline.csv"
KERNEL = "Kernel_Name"
_KNOWN = {
    "Dispatch_ID", KERNEL, "GPU_ID", "Queue_ID", "PID", "TID", "LDS_Per_Workgroup",
    "Arch_VGPR", "Start_Timestamp", "End_Timestamp", "Correlation_ID", "Kernel_ID",
}  # fmt: skip
_LAUNCH = {
    "Grid_Size": "thread", "Workgroup_Size": "thread", "Scratch_Per_Workitem": "byte",
    "Accum_VGPR": None, "SGPR": None, "Wave_Size": "thread", "wave_size": "thread",
}  # fmt: skip
"""What describes the launch and has no column in `activities`; kept among the counters."""
_AGAIN = re.compile(
    r"(?i)(wave_size|correlation_id|kernel_id|xcc_index|obj|sig|dispatch_id|gpu_id|queue-?_?id|"
    r"queue-index|pid|tid)(_\d+)?"
)
_SUFFIX = re.compile(r" ?(\[clone [^\]]*\]|\(\.kd\)|\.kd)$")
"""What the loader adds to a kernel's name."""
_DESCRIBES = ("gpu_model", "gpu_arch", "wave_size", "cu_per_gpu", "max_sclk", "max_mclk", "hbm_bw",
              "total_l2_chan", "num_xcd", "compute_partition", "memory_partition")  # fmt: skip
_PRODUCED = ("version", "rocm_version", "ip_blocks", "command")
_ROUNDED = "timestamps are written with too few digits (in powers of ten), so durations are unknown"


def read(path: Path) -> Trace:
    """Read `pmc_perf.csv` and the files beside it: launches, counters, device, measured roofs.

    Raises
    ------
    InputError
        The file can't be read, or holds no counter.
    """
    found = Found()
    header: list[str] = []
    for cells in text.rows(path):
        if not header:
            header = cells
        elif found.values.full:
            found.stop(path)
            break
        elif len(cells) == len(header):
            _take(found, dict(zip(header, cells, strict=True)))
        else:
            found.tally.add(
                "bad_record", 1, ",".join(cells)[:80],
                "these lines have another form than the header says, and are left out",
            )  # fmt: skip
    if KERNEL not in header or not any(_is_counter(n) for n in header):
        raise NotATraceError(
            f"{path} holds no counters of rocprofiler-compute; open the folder, or its {COUNTERS}."
        )
    if not found.launches:
        raise InputError(f"{path} holds no kernel; collect the counters again.")
    beside = [p for n in (SYSTEM, BENCHMARK) if (p := path.with_name(n)).is_file()]
    _describe(found, path)
    return assembly.build(
        path,
        "rocprofiler-compute",
        found,
        kind="rocm",
        reader="rocprofiler-compute",
        # what is read depends on its neighbours, so never the hash of this file alone
        sha256=assembly.sha256_of(path, *beside),
    )


def _is_counter(name: str) -> bool:
    return name not in _KNOWN and name not in _LAUNCH and not _AGAIN.fullmatch(name)


def _take(found: Found, row: Mapping[str, str]) -> None:
    start, end = (text.whole(row.get(n, "")) for n in ("Start_Timestamp", "End_Timestamp"))
    if start is None or end is None or not 0 <= start <= end < LATEST_NS:
        if row.get("Start_Timestamp"):
            found.tally.add("rounded_times", 1, row["Start_Timestamp"], _ROUNDED)
        start = end = None
    number = len(found.launches)
    found.launches.append(
        Launch(
            name=_SUFFIX.sub("", row[KERNEL]),
            device=text.index(row.get("GPU_ID", "")),
            stream=text.index(row.get("Queue_ID", row.get("queue-id", ""))),
            start_ns=start,
            dur_ns=None if start is None or end is None else end - start,
            registers=text.index(row.get("Arch_VGPR", "")),
            shared_bytes=text.index(row.get("LDS_Per_Workgroup", "")),
        )
    )
    for name, cell in row.items():
        if name in _LAUNCH or _is_counter(name):
            value = text.number(cell)
            if value is not None:
                unit = _LAUNCH.get(name)
                found.values.add(number, name, unit, COUNTERS, value)


def _describe(found: Found, path: Path) -> None:
    """Add what the files beside it say of the devices and of the tool."""
    system = next(iter(_beside(path, SYSTEM)), {})
    found.producer |= {n: system[n] for n in _PRODUCED if system.get(n)}
    roofs = {text.index(r.get("device", "")): r for r in _beside(path, BENCHMARK)}
    for number in {n.device for n in found.launches if n.device is not None}:
        measured = {n: text.number(v) for n, v in roofs.get(number, {}).items() if n != "device"}
        about: dict[str, object] = {n: system[n] for n in _DESCRIBES if system.get(n)}
        about |= {n: v for n, v in measured.items() if v is not None}
        found.devices[number] = Device(number, system.get("gpu_model") or None, about)


def _beside(path: Path, name: str) -> list[dict[str, str]]:
    """Return the rows of a small table beside the counters; none when there is no such file."""
    place = path.with_name(name)
    if not place.is_file():
        return []
    header: list[str] = []
    found: list[dict[str, str]] = []
    for cells in text.rows(place):
        if not header:
            header = cells
        elif len(cells) == len(header) and len(found) < _MOST_DEVICES:
            found.append(dict(zip(header, cells, strict=True)))
    return found


_MOST_DEVICES = 1024
