"""A trace as Chrome JSON in the PyTorch profiler's dialect, which Perfetto and `wb.open` read.

Reading it back gives the same tables. What the tables don't hold is not made up, except where a
reader needs it to tell the same story: an allocation outside operators is on a thread of its own,
since its thread isn't known; backward operators carry a forward thread, which tells them from
recomputed ones; and calls that share a correlation id get new ones where links would break.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
import polars as pl
from isal import igzip

from workbench.errors import InputError, UsageError
from workbench.trace import atomic
from workbench.trace.core import Trace, TraceMeta
from workbench.trace.write.events import blocks
from workbench.trace.write.part import Part, whole
from workbench.trace.write.shared import LEAD_NS, Block
from workbench.version import __version__

SUFFIXES = (".json", ".json.gz")
_ROWS = 100_000
_LEVEL = 2
_OURS = frozenset(
    {"traceEvents", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "workbench"}
)


def write(
    trace: Trace,
    path: Path,
    *,
    part: Part | None = None,
    with_problems: bool = False,
    force: bool = False,
) -> Path:
    """Write a trace, or a part of one, to FILE.json or FILE.json.gz; return the file.

    Times are decimal microseconds with three decimals, exact; the header's baseTimeNanoseconds
    keeps them small. `with_problems`: what reading the recording met goes along, so that who reads
    the file is told the same.

    Raises
    ------
    UsageError
        The name ends otherwise, or the file exists and `force` is not given.
    InputError
        The file can't be written.
    """
    if not path.name.endswith(SUFFIXES):
        raise UsageError(f"{path} ends in neither .json nor .json.gz, the forms of a trace.")
    if path.is_dir() or (path.exists() and not force):
        fix = "give another name" if path.is_dir() else "give --force to replace it"
        raise UsageError(f"{path} exists already; {fix}.")
    try:
        with _whole_file(path) as file:
            told = trace.problems if with_problems else None
            for text in _texts(part or whole(trace), told):
                file.write(text)
    except OSError as error:
        raise InputError(f"{path} can't be written: {atomic.reason(error)}.") from None
    return path


@contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    part = atomic.part_of(path)
    try:
        with part.open("wb") as raw:
            if path.suffix == ".gz":
                with igzip.IGzipFile("", "wb", _LEVEL, raw, mtime=0) as packed:
                    yield packed
            else:
                yield raw
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _texts(part: Part, problems: pl.DataFrame | None) -> Iterator[bytes]:
    base_ns = part.meta.origin_ns - (0 if part.is_empty else LEAD_NS)
    yield _header(part.meta, base_ns, problems)
    first = True
    for block in blocks(part):
        for lines in _lines(block):
            yield (lines if first else ",\n" + lines).encode()
            first = False
    yield b"\n]}\n"


def _lines(block: Block) -> Iterator[str]:
    for rows in block.rows.iter_slices(_ROWS):
        if rows.height:
            yield rows.select(block.event.alias("line"))["line"].str.join(",\n").item()


def _header(meta: TraceMeta, base_ns: int, problems: pl.DataFrame | None) -> bytes:
    """Return everything before the events."""
    fields: dict[str, object] = {k: v for k, v in meta.producer.items() if k not in _OURS}
    ours: dict[str, object] = {"version": __version__, "exported_from": meta.path.name}
    if problems is not None:
        ours |= {"truncated": meta.truncated, "device_kind": meta.device_kind}
        ours["problems"] = problems.to_dicts()
    elif meta.truncated:
        ours["partial"] = True
    fields["workbench"] = ours
    if meta.devices:
        fields["deviceProperties"] = [
            {**d.properties, "id": d.index} | ({"name": d.name} if d.name else {})
            for d in meta.devices
        ]
    if info := _distributed(meta):
        fields["distributedInfo"] = info
    fields["baseTimeNanoseconds"] = base_ns
    return msgspec.json.encode(fields)[:-1] + b',"traceEvents":[\n'


def _distributed(meta: TraceMeta) -> dict[str, object]:
    info: dict[str, object] = {}
    if meta.rank is not None:
        info["rank"] = meta.rank
    if meta.world_size is not None:
        info["world_size"] = meta.world_size
    if meta.groups:
        info["pg_count"] = len(meta.groups)
        info["pg_config"] = [
            {"pg_name": g.name, "pg_desc": g.description or "", "ranks": g.ranks}
            for g in meta.groups
        ]
    return info
