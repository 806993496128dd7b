"""Bare tables written by hand in tests: dicts for rows, what is left out is null; times in ns."""

from pathlib import Path

import polars as pl

from workbench.trace import raw, schema
from workbench.trace.attribution import attribute
from workbench.trace.core import Thread, Trace, TraceMeta

TABLES = {
    "activities": raw.ACTIVITIES,
    "launches": raw.LAUNCHES,
    "ops": raw.OPS,
    "ranges": raw.RANGES,
    "memory": raw.MEMORY,
    "modules": raw.MODULES,
}
META = TraceMeta(
    path=Path("t.json"),
    format="test",
    sha256="",
    origin_ns=0,
    threads=tuple(Thread(9, n) for n in range(8)),
)


def table(name, rows):
    """A bare table; rows may leave columns out."""
    columns = TABLES[name]
    return pl.DataFrame(
        {c: pl.Series([r.get(c) for r in rows], dtype=t) for c, t in columns.items()}
    )


def attributed(*, meta=META, recording=(0, 10**6), accelerator=True, **rows) -> Trace:
    """Attribute tables of which each is given as a list of rows."""
    tables = {name: table(name, rows.pop(name, [])) for name in TABLES}
    bare = raw.RawTrace(meta=meta, **tables, recording=recording, accelerator=accelerator, **rows)
    return attribute(bare, lambda: schema.empty("frames"), reader="test")


def op(name, start, dur, thread=0, **more):
    return {"name": name, "thread": thread, "start_ns": start, "dur_ns": dur, **more}


def call(name, start, dur, correlation=None, thread=0, **more):
    return op(name, start, dur, thread, correlation=correlation, **more)


def kernel(name, start, dur, correlation=None, **more):
    usual = {"kind": "kernel", "device": 0, "stream": 7}
    own = {"name": name, "start_ns": start, "dur_ns": dur, "correlation": correlation}
    return usual | own | more


def mark(name, start, dur, thread=0, domain="step", **more):
    return op(name, start, dur, thread, domain=domain, **more)


def step(number, start, dur, thread=0):
    return mark(f"ProfilerStep#{number}", start, dur, thread)


def names(frame, column="name"):
    return frame[column].cast(pl.String).to_list()


def problems(trace):
    """Codes and counts of what was noted."""
    return trace.problems.select("code", "count").rows()
