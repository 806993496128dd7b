"""The measured roofs that belong to a run: those of the machine that recorded it.

They hold for that machine alone. A run folder can carry them (`ceilings.json`), so that they go
where it goes; else they are those measured here, when this machine is the one that recorded it.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import msgspec

from workbench.costs.ceilings import VERSION, Ceilings, cached
from workbench.costs.machine import cpu_name
from workbench.errors import UsageError
from workbench.trace.open import CEILINGS_FILE
from workbench.trace.runfile import RUN_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.trace.core import Source


class _Machine(msgspec.Struct):
    host: str | None = None
    cpu: str | None = None
    threads: int | None = None


class _Recorded(msgspec.Struct):
    machine: _Machine = msgspec.field(default_factory=_Machine)


def recorded(source: Source) -> Ceilings | None:
    """Return the measured roofs of the machine that recorded a source; None when not known.

    A trace does not name its processor; a run folder's run.json does. None for any other source,
    and when nothing was measured yet.
    """
    first = source.ranks[0].meta
    kept = _kept(first.path.parent)
    if kept is not None:
        return kept
    if not _is_from_here(first.path.parent):
        return None
    try:
        return cached("cpu" if first.device_kind == "cpu" else "cuda")
    except UsageError:
        return None


def check(run: Path) -> None:
    """Raise UsageError for a folder that this machine did not record."""
    if not _is_from_here(run):
        raise UsageError(
            f"{run} is no run folder that this machine recorded, so its roofs are not those of "
            "this machine; measure them where it was recorded."
        )


def keep(found: Ceilings, run: Path) -> None:
    """Put measured roofs into a run folder; one recorded on another machine is a UsageError."""
    check(run)
    part = run / f".{CEILINGS_FILE}.part"
    try:
        part.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
        part.replace(run / CEILINGS_FILE)
    except OSError as error:
        raise UsageError(
            f"{run / CEILINGS_FILE} cannot be written ({error.strerror}); make it writable."
        ) from error


def _kept(run: Path) -> Ceilings | None:
    try:
        found = msgspec.json.decode(_text(run / CEILINGS_FILE), type=Ceilings)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.version == VERSION else None


_LARGEST = 10**7
"""Bytes of a file beside a trace; a full sweep takes a hundred thousand."""


def _text(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST)


def _is_from_here(run: Path) -> bool:
    try:
        read = msgspec.json.decode(_text(run / RUN_FILE), type=_Recorded)
    except (OSError, msgspec.DecodeError):
        return False
    made = read.machine
    return (made.host, f"{made.cpu} ({made.threads} processors)") == (platform.node(), cpu_name())
