"""Small traces for the tests of costs: the tables by hand, without a reader."""

import json
from pathlib import Path

import polars as pl

from workbench.trace import schema
from workbench.trace.core import Device, Trace, TraceMeta


def op_row(  # noqa: PLR0917
    number, name, parent=None, depth=0, dims=None, types=None, strides=None, concrete=None
):
    def text(value):
        return value if value is None or isinstance(value, str) else json.dumps(value)

    return {
        "id": number, "name": name, "thread": 0, "start_ns": number, "dur_ns": 1, "self_ns": 1,
        "parent": parent, "depth": depth, "phase": "other",
        "input_dims": text(dims), "input_types": text(types),
        "input_strides": text(strides), "concrete_inputs": text(concrete),
    }  # fmt: skip


def trace_of(ops, activities=(), collectives=(), *, kind="cuda", device="NVIDIA H200"):
    def table(name, rows):
        wanted = schema.polars_schema(name)
        names = [c for c in wanted if any(c in r for r in rows)]
        part = {c: wanted[c] for c in names}
        return schema.conform(name, pl.DataFrame(list(rows), schema=part, orient="row"))

    tables = {name: schema.empty(name) for name in schema.TABLES}
    given = {"ops": ops, "activities": activities, "collectives": collectives}
    tables |= {name: table(name, rows) for name, rows in given.items() if rows}
    devices = () if device is None else (Device(0, device),)
    meta = TraceMeta(Path("made.json"), "made", "0" * 64, 0, devices=devices, device_kind=kind)
    return Trace(meta, tables)


def ops_of_profile(path):
    """Operators of a profiler file with one thread, nested by time: slow and obviously right."""
    events = [e for e in json.loads(path.read_bytes())["traceEvents"] if e.get("cat") == "cpu_op"]
    events.sort(key=lambda e: (e["ts"], -e["dur"]))
    rows, open_ = [], []
    for number, e in enumerate(events):
        while open_ and e["ts"] >= open_[-1][1]:
            open_.pop()
        args = e["args"]
        parent = open_[-1][0] if open_ else None
        rows.append(
            op_row(
                number,
                e["name"],
                parent,
                len(open_),
                args.get("Input Dims"),
                args.get("Input type"),
                args.get("Input Strides"),
                args.get("Concrete Inputs"),
            )
        )
        open_.append((number, e["ts"] + e["dur"]))
    return rows
