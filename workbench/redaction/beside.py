"""The files beside the traces of a run folder: which go along, and what of them.

A file that is not named in `FILES` is left out, and said so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from workbench.capture import folder
from workbench.capture.power import FILE as TELEMETRY_FILE
from workbench.capture.telemetry import COLUMNS
from workbench.costs import ceilings, run_roofs
from workbench.costs.transformer import TransformerConfig
from workbench.errors import InputError
from workbench.redaction import pseudonyms as kinds
from workbench.redaction.pseudonyms import Names
from workbench.trace.core import Source
from workbench.trace.open import CEILINGS_FILE
from workbench.trace.runfile import RUN_FILE

_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:.+Z-]{5,20})?")
_WHERE = re.compile(r"cpu|gpu\d{1,4}")
_RUN_TEXT = """
schema_version status workload preset spec plan seeds seed started ended machine device
device_reason devices driver versions warmup steps threads parameters
samples_per_step_and_rank tokens_per_step_and_rank transformer
layers hidden heads kv_heads ffn vocab tied_embeddings rope_theta norm_eps seq batch accumulate
precision recompute fused_optimizer learning_rate weight_decay loader_workers
ranks untraced shapes memory stacks timeout_s
system cpu cores memory_bytes
index name uuid total_memory multi_processor_count major minor
limit detected stable spread tolerance
lost buffers_full stopped_early dropped_records profiler_errors
rank phase profiler_step start_unix_ns dur_ns
workbench python cuda hip torch numpy triton torchvision transformers accelerate deepspeed
flash-attn lightning pytorch-lightning transformer-engine nvidia-cublas-cu12 nvidia-cudnn-cu12
nvidia-nccl-cu12
"""
_RUN_FIELDS = frozenset(_RUN_TEXT.split()).union(f.name for f in fields(TransformerConfig))
"""What of run.json goes along, at any depth: not the command, script, arguments, paths, host, user,
process ids, git revision, messages."""
_ROOF_FIELDS = frozenset(
    name
    for kind in (
        ceilings.Ceilings, ceilings.Compute, ceilings.Memory, ceilings.Attention, ceilings.Cache
    )
    for name in kind.__struct_fields__
)  # fmt: skip
_DEEPEST = 20


def manifest(path: Path, names: Names) -> bytes:
    """Return run.json with the fields of the list alone, texts renamed."""
    held = folder.read_manifest(path.parent)
    return json.dumps(_listed(held, _RUN_FIELDS, names), indent=1).encode() + b"\n"


def telemetry(path: Path, names: Names) -> bytes:
    """Return telemetry.csv with the columns of the list alone, numbers as they stand."""
    try:
        text = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path} can't be read: {error}.") from None
    kept = [c for c in COLUMNS if c in text.columns]
    return text.select(_telemetry(text[c], names) for c in kept).write_csv().encode()


def roofs(path: Path, names: Names) -> bytes:
    """Return ceilings.json with the fields that a measurement has."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=ceilings.Ceilings)
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path} holds no measured roofs: {error}.") from None
    return roofs_of(found, names)


def roofs_of(found: ceilings.Ceilings, names: Names) -> bytes:
    """Return the text of ceilings.json for measured roofs."""
    kept = _listed(msgspec.to_builtins(found), _ROOF_FIELDS, names)
    return msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n"


FILES: dict[str, Callable[[Path, Names], bytes]] = {
    RUN_FILE: manifest,
    TELEMETRY_FILE: telemetry,
    CEILINGS_FILE: roofs,
}
"""The files that go along, by name, and what makes their content."""


def copied(source: Source, names: Names) -> dict[str, bytes]:
    """Return the files beside a source's traces as they go along.

    Roofs that hold for a run because this machine recorded it are written down for it, since the
    copy does not name the machine.
    """
    here = source.ranks[0].meta.path.parent
    found = {n: make(here / n, names) for n, make in FILES.items() if (here / n).is_file()}
    measured = None if CEILINGS_FILE in found else run_roofs.recorded(source)
    if measured is not None:
        found[CEILINGS_FILE] = roofs_of(measured, names)
    return found


def belongs_to_run(file: Path) -> bool:
    """Say whether a file beside a trace tells analyses more about it."""
    return any((file.parent / name).is_file() for name in FILES)


def _listed(value: Any, keys: frozenset[str], names: Names, depth: int = 0) -> Any:
    """Return a JSON value with the known keys alone, and its texts public or renamed."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        return {
            k: _uuid(v, names) if k == "uuid" and isinstance(v, str)
            else _listed(v, keys, names, depth + 1)
            for k, v in value.items() if k in keys
        }  # fmt: skip
    if isinstance(value, list | tuple):
        return [_listed(v, keys, names, depth + 1) for v in value]
    if isinstance(value, str):
        return value if _TIME.fullmatch(value) else names.one(kinds.NOTE, value)
    return value if isinstance(value, int | float) else None


def _telemetry(column: pl.Series, names: Names) -> pl.Series:
    if column.name == "uuid":
        new = {t: _uuid(t, names) for t in column.unique().drop_nulls()}
        return column.replace(new)
    if column.name == "device":
        known = column.str.contains(f"^(?:{_WHERE.pattern})$")
        return column.set(~known.fill_null(value=False), None)
    numbers = column.cast(pl.Float64, strict=False)
    return column.set(numbers.is_null(), None)


def _uuid(text: str, names: Names) -> str:
    """Rename a device's uuid, with or without its prefix, to what run.json has for it."""
    bare = text.removeprefix("GPU-")
    return text[: len(text) - len(bare)] + names.one(kinds.UUID, bare.casefold())
