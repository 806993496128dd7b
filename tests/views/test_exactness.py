"""What a pixel says is what the events say: random traces against sums over all their events.

Events overlap, nest, touch and take no time, are a few ns or hours long, near the origin or
centuries after it; pixels span the whole or are smaller than a nanosecond. Lanes come from frames,
and from the arrays of a file. The sums are exact fractions.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workbench.trace import mapped
from workbench.views import kept_lanes, lane_table, replies
from workbench.views.layers import from_frame
from workbench.views.lod import NONE, Window

FAR = 2**61
event = st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 25))
long_event = st.tuples(st.integers(0, 2), st.integers(0, 2**40), st.integers(0, 2**41))
origin = st.sampled_from([0, 17, FAR])
traces = st.one_of(
    st.lists(event, min_size=1, max_size=40),
    st.lists(st.one_of(event, long_event), min_size=1, max_size=20),
)


@st.composite
def windows(draw):
    """A base and two offsets, of eighths of a ns, around where events are."""
    base = draw(st.one_of(st.integers(0, 80), st.integers(0, 2**41)))
    a = draw(st.integers(-200, 200)) / 8
    width = draw(st.one_of(st.integers(1, 16), st.integers(1, 700), st.integers(1, 2**44))) / 8
    return base, a, width


def lanes_of(events, begin):
    """Return lanes of made-up events, and the same from a file."""
    lane, start, dur = (np.array(column, np.int64) for column in zip(*events, strict=True))
    frame = pl.DataFrame({"lane": lane, "start_ns": start + begin, "dur_ns": dur})
    made = from_frame(frame.with_columns(name=pl.lit("k"), kind=pl.lit("kernel")), by=["lane"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lanes.arrays"
        mapped.write(path, "k", (), kept_lanes._about(made), kept_lanes._arrays(made))
        kept = kept_lanes._checked(mapped.read(path, "k"))
    return made, kept


def in_rows(lanes, events):
    """Return the events of each row, by their ids."""
    ids = [lanes.id[a:b] for a, b in zip(lanes.offset[:-1], lanes.offset[1:], strict=True)]
    return [[events[i] for i in row] for row in ids]


def time_in(events, a, b):
    """Sum the time of events in [a, b), exactly."""
    return sum((max(min(Fraction(s + d), b) - max(Fraction(s), a), Fraction(0))
                for _, s, d in events), Fraction(0))  # fmt: skip


def seen(events, a, b):
    """Say whether any event has a time in [a, b), or is an instant there."""
    return any((s < b and s + d > a) or (d == 0 and a <= s < b) for _, s, d in events)


@given(traces, origin, windows(), st.sampled_from([1, 3, 8]))
@example([(0, 0, 10), (0, 5, 10), (0, 5, 0)], 0, (0, 0.0, 16.0), 8)
@example([(0, 0, 2**41), (0, 2**40, 1)], FAR, (2**40, -0.125, 0.25), 2)
@example([(0, 0, 1025)], 0, (0, 0.0, 0.125), 3)
def test_every_pixel_is_as_busy_as_its_events(events, begin, window, pixels):
    base, a, width = window
    for lanes in lanes_of(events, begin):
        base_here = base + begin - lanes.origin_ns
        left = Fraction(base + begin) + Fraction(a)
        rows = in_rows(lanes, [(k, s + begin, d) for k, s, d in events])
        assert sum(map(len, rows)) == len(events)
        found = lanes.engine.bins(Window(base_here, a, a + width, 0, len(rows)), pixels)
        for r, mine in enumerate(rows):
            for x in range(pixels):
                ends = [left + Fraction(width) * Fraction(k, pixels) for k in (x, x + 1)]
                busy = time_in(mine, *ends)
                # doubles hold 53 bits: of window and event, not of the time since the epoch
                longest = max((d for _, _, d in mine), default=0)
                assert found.busy_ns[r, x] == pytest.approx(
                    float(busy), rel=1e-12, abs=width * 1e-12 + longest * 2**-52
                )
                assert (found.dominant[r, x] != NONE) == seen(mine, *ends)


@given(traces, origin, windows(), st.sampled_from([1, 3, 8]))
@example([(0, 0, 1)], 0, (0, 0.0, 2**41 / 8), 1)
def test_what_is_sent_is_the_share_in_255_parts(events, begin, window, pixels):
    base, a, width = window
    made, kept = lanes_of(events, begin)
    rows = in_rows(kept, [(k, s + begin, d) for k, s, d in events])
    view = Window(base + begin - kept.origin_ns, a, a + width, 0, len(rows))
    got = replies.shade(kept.engine.bins(view, pixels), view)
    assert (got == replies.shade(made.engine.bins(view, pixels), view)).all()
    left = Fraction(base + begin) + Fraction(a)
    for r, mine in enumerate(rows):
        for x in range(pixels):
            ends = [left + Fraction(width) * Fraction(k, pixels) for k in (x, x + 1)]
            share = time_in(mine, *ends) / (ends[1] - ends[0])
            if seen(mine, *ends):
                assert abs(max(int(got[r, x]), 1) - max(255 * share, 1)) <= Fraction(501, 1000)
            else:
                assert got[r, x] == 0


def union(events, a, b):
    """Count the integer times of [a, b) in which any event runs, by the ends of all."""
    clipped = sorted((max(s, a), min(s + d, b)) for _, s, d in events)
    total, reached = 0, a
    for s, e in clipped:
        total += max(e - max(s, reached), 0)
        reached = max(reached, e)
    return total


@given(traces, origin, st.integers(0, 80), st.one_of(st.integers(0, 90), st.integers(0, 2**42)))
@example([(0, 0, 10), (0, 5, 10)], FAR, 4, 8)
def test_the_table_of_a_stretch_is_exact(events, begin, at, length):
    a, b = begin + at, begin + at + length
    placed = [(k, s + begin, d) for k, s, d in events]
    for lanes in lanes_of(events, begin):
        found = lane_table.table(lanes, a, b)
        for lane, row in zip(sorted({k for k, *_ in placed}), found.rows(named=True), strict=True):
            mine = [e for e in placed if e[0] == lane]
            assert row["busy_ns"] == union(mine, a, b)
            assert row["events"] == sum((s >= a or s + d > a) and s < b for _, s, d in mine)


@given(traces, origin, st.data())
def test_a_part_is_as_exact_as_the_whole(events, begin, data):
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(events), max_size=len(events))))
    for lanes in lanes_of(events, begin):
        part = lanes.part(keep[lanes.id])
        assert np.asarray(part.id).tolist() == [i for i in lanes.id if keep[i]]
        _, busy = part.engine.totals(0, lanes.engine.span_ns)
        assert int(busy.sum()) == sum(d for (_, _, d), k in zip(events, keep, strict=True) if k)
        for i in range(len(part.start)):
            assert part.event(i) == lanes.event(part.place(i))
            assert part.position(part.place(i)) == i
        again = part.part(np.ones(len(part.start), bool))
        assert np.asarray(again.name).tolist() == np.asarray(part.name).tolist()
