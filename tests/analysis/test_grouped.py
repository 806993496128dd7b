"""Steps and exposed stretches, measured in one pass, against one look a step or a stretch."""

from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench import intervals
from workbench.analysis.overlap import _most_of
from workbench.trace import schema
from workbench.trace.core import Trace, TraceMeta

META = TraceMeta(path=Path("t.json"), format="test", sha256="", origin_ns=0)
KINDS = ("kernel", "collective", "copy", "set")
spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), max_size=12)
activities = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from([None, 0, 1]),
        st.integers(0, 40),
        st.integers(0, 15),
    ),
    max_size=14,
)
marks = st.lists(
    st.tuples(st.sampled_from([None, 0, 1]), st.integers(0, 40), st.integers(0, 15)), max_size=6
)


def conformed(table, frame):
    wanted = schema.polars_schema(table)
    return frame.select(
        pl.col(n).cast(t) if n in frame.columns else pl.lit(None, t).alias(n)
        for n, t in wanted.items()
    )


def traced(items, steps):
    """A trace with some activities and some steps, ordered as a reader leaves them."""
    columns = {"kind": pl.String, "device": pl.Int32, "start_ns": pl.Int64, "dur_ns": pl.Int64}
    acts = pl.DataFrame(items, schema=columns, orient="row").sort("start_ns")
    rows = [(k, *m, m[1], m[2], True, False) for k, m in enumerate(steps)]
    times = ("step", "device", "start_ns", "dur_ns", "host_start_ns", "host_dur_ns")
    named = dict.fromkeys(times, pl.Int64) | dict.fromkeys(("complete", "tail"), pl.Boolean)
    table = pl.DataFrame(rows, schema=named, orient="row").sort("device", "start_ns")
    tables = {n: schema.empty(n) for n in schema.TABLES}
    tables |= {"activities": conformed("activities", acts), "steps": conformed("steps", table)}
    return Trace(META, tables)


def points(rows, low, high):
    return {t for _, _, s, d in rows for t in range(max(s, low), min(s + d, high))}


@given(activities, marks)
def test_steps(items, steps):
    frame = wb.steps(traced(items, steps))
    assert frame.height == len(steps)
    for r in frame.iter_rows(named=True):
        here = [i for i in items if i[1] == r["device"]]
        window = r["start_ns"], r["start_ns"] + r["dur_ns"]
        compute, communication = (
            points([i for i in here if i[0] == kind], *window) for kind in ("kernel", "collective")
        )
        copy = points([i for i in here if i[0] in ("copy", "set")], *window)
        assert r["busy_ns"] == len(compute | communication | copy)
        assert r["idle_ns"] == r["dur_ns"] - r["busy_ns"]
        assert r["compute_ns"] == len(compute)
        assert r["exposed_communication_ns"] == len(communication - compute)
        assert r["exposed_copy_ns"] == len(copy - compute - communication)


@given(spans, spans)
def test_the_collective_that_fills_most_of_a_stretch(stretches, running):
    starts = sorted((s, s + d) for s, d in running)
    start, end = np.array(starts, np.int64).reshape(-1, 2).T
    given_bare = np.array([(s, s + d) for s, d in stretches], np.int64).reshape(-1, 2).T
    bare = intervals.intersection(intervals.union(*given_bare), intervals.union(start, end))
    stretch, row = _most_of(bare, start, end)
    assert stretch.tolist() == list(range(len(bare.start)))
    for i, chosen in zip(stretch, row, strict=True):
        shared = np.minimum(end, bare.end[i]) - np.maximum(start, bare.start[i])
        assert chosen == np.argmax(shared)


def test_the_longest_part_wins_not_the_first_or_the_last():
    # 0-30 bare; a covers 0-10, b 4-24 (20 of it), c 20-30
    bare = intervals.union(np.array([0]), np.array([30]))
    stretch, row = _most_of(bare, np.array([0, 4, 20]), np.array([10, 24, 30]))
    assert (stretch.tolist(), row.tolist()) == ([0], [1])
