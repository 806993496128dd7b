"""Everything known about one event of a trace, as a frame of two columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench import units
from workbench.errors import UsageError
from workbench.views.trace_lanes import NO_STREAM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.trace.core import Source, Trace

SCHEMA = {"field": pl.String(), "value": pl.String()}
MOST_SHAPES = 400
"""Characters of shapes that are shown; some operators take thousands of tensors."""
_Row = dict[str, Any]


def find(source: Source, selected: Mapping[str, Any]) -> tuple[Trace, _Row] | None:
    """Return the trace and the row that a timeline's `selected` names; None when there is none."""
    if not selected:
        return None
    rank, number = selected.get("rank"), int(selected["id"])
    traces = [t for t in source.ranks if t.meta.rank == rank] or list(source.ranks[:1])
    table = traces[0].tables.get(selected["table"])
    if table is None or not 0 <= number < table.height:
        raise UsageError(f"There is no row {number} in the table {selected['table']!r}.")
    return traces[0], table.row(number, named=True)


def details(source: Source, selected: Mapping[str, Any]) -> pl.DataFrame:
    """Return `field value` of the selected event, times with units; no rows without a selection.

    `start` is in the source's time. Fields that the recording does not have are left out.
    """
    found = find(source, selected)
    if found is None:
        return pl.DataFrame(schema=SCHEMA)
    trace, row = found
    shift = trace.meta.origin_ns - source.origin_ns
    fields = {
        "name": row.get("name", f"step {row.get('step')}"),
        "what": row.get("kind") or selected["table"].removesuffix("s"),
        "rank": trace.meta.rank,
        "duration": units.duration(row["dur_ns"]),
        "start": units.duration(row["start_ns"] + shift),
        **(_SPECIFIC.get(selected["table"], _nothing)(trace, row)),
        "step": row.get("step"),
        "phase": row.get("phase"),
    }
    known = [(k, str(v)) for k, v in fields.items() if v is not None]
    return pl.DataFrame(known, schema=SCHEMA, orient="row")


def _activity(trace: Trace, row: _Row) -> _Row:
    is_host = row["source"] == "host"
    return {
        "device": row["device"],
        "host thread" if is_host else "stream": row["stream"],
        **_launch(trace, row),
        "bytes": None if row["bytes"] is None else units.decimal(row["bytes"], "B"),
        "grid": _size(row["grid"]),
        "block": _size(row["block"]),
        "registers per thread": row["registers"],
        "shared memory per block": _bytes(row["shared_bytes"]),
        "estimated occupancy": None if row["occupancy"] is None else f"{row['occupancy']:.0%}",
        **_collective(trace, row),
        **_operator(trace, row["op"]),
    }


def _launch(trace: Trace, row: _Row) -> _Row:
    if row["launch"] is None:
        return {}
    call = trace.launches.row(row["launch"], named=True)
    waited = row["start_ns"] - call["start_ns"] - call["dur_ns"]
    return {
        "launched by": f"{call['name']}, {units.duration(call['dur_ns'])}",
        "queued": units.duration(max(0, waited)) if row["start_ns"] >= call["start_ns"] else None,
    }


def _collective(trace: Trace, row: _Row) -> _Row:
    if row["kind"] != "collective":
        return {}
    known = trace.collectives.filter(pl.col("activity") == row["id"])
    if known.is_empty():
        return {}
    c = known.row(0, named=True)
    return {
        "collective": c["name"],
        "asked for as": c["requested"] if c["requested"] != c["name"] else None,
        "process group": c["group"],
        "ranks in the group": c["group_size"],
        "sequence number": c["seq"],
        "message": _bytes(c["bytes"]),
        "element type": c["dtype"],
    }


def _operator(trace: Trace, number: int | None) -> _Row:
    if number is None:
        return {}
    op = trace.ops.row(number, named=True)
    return {"operator": op["name"], **_inputs(op)}


def _op(_: Trace, row: _Row) -> _Row:
    return {"self": units.duration(row["self_ns"]), "host thread": row["thread"], **_inputs(row)}


def _inputs(op: _Row) -> _Row:
    return {"module": op["module"], "input shapes": _shapes(op), "sequence": op["sequence"]}


def _shapes(op: _Row) -> str | None:
    """Pair the recorded shapes with their types, scalars left out: 2x128 float, 128 float."""
    try:
        dims = json.loads(op["input_dims"] or "[]")
        types = json.loads(op["input_types"] or "[]")
    except ValueError:
        return None
    types = types if isinstance(types, list) else []
    types += [""] * max(0, len(dims) - len(types))
    texts = [
        f"{'x'.join(map(str, d))} {t}".strip()
        for d, t in zip(dims, types, strict=False)
        if isinstance(d, list) and d
    ]
    text = ", ".join(texts)
    return (text if len(text) <= MOST_SHAPES else text[:MOST_SHAPES] + "…") or None


def _range(_: Trace, row: _Row) -> _Row:
    keys = {"domain": "domain", "device": "device", "stream": "stream", "host thread": "thread"}
    told = {label: row[key] for label, key in keys.items()}
    return told | {"stream": None} if row["stream"] in NO_STREAM else told


def _step(_: Trace, row: _Row) -> _Row:
    return {
        "host range": units.duration(row["host_dur_ns"]),
        "complete": "yes" if row["complete"] else "no",
        "last": "yes, ends with its latest work" if row["tail"] else None,
    }


def _nothing(_: Trace, __: _Row) -> _Row:
    return {}


def _size(value: list[int] | None) -> str | None:
    return None if value is None else " x ".join(map(str, value))


def _bytes(value: int | None) -> str | None:
    return None if value is None else units.decimal(value, "B")


_SPECIFIC = {"activities": _activity, "ops": _op, "ranges": _range, "steps": _step}
