"""What the machine itself lends to a recording: energy, shared memory, disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from workbench.capture.doctor.row import IS_MAC, Row
from workbench.capture.rapl import ZONES, Rapl
from workbench.units import decimal

SHARED = Path("/dev/shm")  # noqa: S108 - its size is asked, nothing is written
_SHARED_WANTED = 10**9
_DISK_WANTED = 2 * 10**9


def energy(zones: Path = ZONES) -> Row:
    """Say whether the processor's joules can be read (RAPL)."""
    if Rapl(zones).joules() is not None:
        return Row("cpu energy", "ok", "the processor's counters can be read (RAPL)")
    packages = sorted(zones.glob("*:*/energy_uj")) if zones.is_dir() else []
    if packages:
        fix = f"as root: chmod a+r {zones}/*/energy_uj (until the next start)"
        return Row("cpu energy", "missing", f"{packages[0]} is for root alone", fix)
    if IS_MAC:
        return Row("cpu energy", "absent", "macOS tells no joules of the processor")
    found = f"this machine has no {zones}, as virtual machines and containers have none"
    return Row("cpu energy", "absent", found, "record on the host itself, if you want joules")


def shared_memory(place: Path = SHARED) -> Row:
    """Say whether loader processes and ranks find room for what they hand over."""
    if not place.is_dir():
        if IS_MAC:
            return Row("shared memory", "ok", "macOS has no limit of its own")
        return Row("shared memory", "missing", f"there is no {place}", "mount a tmpfs there")
    free = shutil.disk_usage(place).free
    found = f"{decimal(free, 'B')} free in {place}"
    if not os.access(place, os.W_OK):
        fix = f"as root: chmod 1777 {place}"
        return Row("shared memory", "missing", f"{place} cannot be written", fix)
    if free < _SHARED_WANTED:
        fix = "in a container: --shm-size=8g; else record without loader processes"
        return Row("shared memory", "missing", found, fix)
    return Row("shared memory", "ok", found)


def disk(runs_dir: Path) -> Row:
    """Say whether runs can be written, and how much of them."""
    where = runs_dir.absolute()
    while not where.exists():
        where = where.parent
    free = shutil.disk_usage(where).free
    found = f"{decimal(free, 'B')} free at {where}"
    if not where.is_dir():
        return Row("disk", "missing", f"{where} is no folder", "choose another with --runs-dir")
    if not os.access(where, os.W_OK):
        fix = "choose another with --runs-dir"
        return Row("disk", "missing", f"{where} cannot be written", fix)
    if free < _DISK_WANTED:
        return Row("disk", "missing", found, "delete runs: workbench runs --delete NAME")
    return Row("disk", "ok", found)
