"""The parts whose data sheets are known, by the name that a device reports.

Facts are rows of data/hardware.csv. Names match exactly: an SXM part, a PCIe card and an NVL card
of one generation have different peaks, and a name that is not in the table has no peak rather than
a neighbour's. `workbench.costs.devices` says which part, or share of a part, a device is.
"""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path

from workbench import resources
from workbench.costs import sheets
from workbench.costs.sheets import TERA, Hardware
from workbench.errors import InputError, unknown_name

__all__ = ["TERA", "Hardware", "given", "lookup", "same", "table", "unknown"]


def table(path: Path | None = None) -> tuple[Hardware, ...]:
    """Return all parts of data/hardware.csv, or of another file of that form."""
    if path is not None:
        return sheets.rows(path)
    try:
        return _shipped()
    except InputError as error:
        raise InputError(f"{error} Restore it from the project.") from error


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


def given(text: str) -> Hardware:
    """Return the part that a user names: of the table, or of a file of the user's own.

    `text` is a part (`H100-SXM-80GB`), a device name, or the path of a file: a CSV of the form of
    data/hardware.csv with one row (columns may be left out), or JSON of the form
    `{"name": "board", "peaks": {"bf16_matrix_tflops": 300, "fp32_vector_tflops": 20},
    "memory": {"gb_per_s": 2000, "gib": 80}}`, of which `name` and `gib` may be left out.

    Raises
    ------
    UsageError
        A name that is not in the table; the closest that are follow.
    InputError
        A file that cannot be read or is not of either form.
    """
    path = Path(text)
    if path.suffix.lower() in {".csv", ".json"}:
        return sheets.from_json(path) if path.suffix.lower() == ".json" else _one(path)
    parts = {_plain(p.part): p for p in table()}
    found = parts.get(_plain(text)) or lookup(text)
    if found is None:
        known = [*(p.part for p in table()), *(n for p in table() for n in p.device_names)]
        raise unknown_name("part of the hardware table (nor file .csv or .json)", text, known)
    return found


def _one(path: Path) -> Hardware:
    rows = sheets.rows(path)
    if len(rows) != 1:
        raise InputError(f"The file {path} describes {len(rows)} parts; leave one row in it.")
    return rows[0]


@cache
def _shipped() -> tuple[Hardware, ...]:
    return sheets.rows(resources.data() / "hardware.csv")


@cache
def _by_name() -> dict[str, Hardware]:
    return {_plain(name): part for part in table() for name in part.device_names}


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())
