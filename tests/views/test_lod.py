"""The level-of-detail engine against sweeps over all events, in exact fractions."""

from __future__ import annotations

import os
import signal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workbench.errors import UsageError
from workbench.views import lod, lod_summary
from workbench.views.lod import BLOCK, Engine, Window


def engine(rows, dtype=np.uint32):
    """Build from lists of (start, dur), one list a row."""
    flat = [event for row in rows for event in row]
    start = np.array([s for s, _ in flat], np.int64)
    dur = np.array([d for _, d in flat], dtype)
    return Engine(start, dur, np.concatenate(([0], np.cumsum([len(r) for r in rows]))))


def whole(e, pixels, base=0):
    return e.bins(Window(base, -base, e.span_ns - base, 0, e.rows), pixels)


# 0         10        20        30        40
# |AAAAAAAA           |BBBBBBBBBBBBBBBBBB|     row 0: A 0-8, B 20-40
#      |C|                                     row 1: C 5-6
THREE = [[(0, 8), (20, 20)], [(5, 1)]]


def test_busy_time_of_each_quarter():
    got = whole(engine(THREE), 4)
    assert got.busy_ns.tolist() == [[8, 0, 10, 10], [1, 0, 0, 0]]
    assert got.begun.tolist() == [[1, 0, 1, 0], [1, 0, 0, 0]]
    assert got.dominant.tolist() == [[0, -1, 1, 1], [2, -1, -1, -1]]


def test_rows_that_threads_share_are_those_of_one(monkeypatch):
    rows = [[(7 * i + r, 5) for i in range(50)] for r in range(5)]
    e = engine(rows)
    alone = whole(e, 8)
    monkeypatch.setattr(lod, "PIXELS_AT_ONCE", 1)
    for processors in (2, 3, 4):
        monkeypatch.setattr(lod, "PROCESSORS", processors)
        for mine, shared in zip(alone, whole(e, 8), strict=True):
            assert mine.tolist() == shared.tolist()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(lod, "PIXELS_AT_ONCE", 1)
    monkeypatch.setattr(lod, "PROCESSORS", 2)
    e = engine(THREE)
    whole(e, 4)
    child = os.fork()
    if not child:
        signal.alarm(20)  # a child that waits for its parent's threads ends by this
        os._exit(0 if whole(e, 4).busy_ns.sum() == 29 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_window_smaller_than_a_nanosecond_is_cut_exactly():
    # 0.25 ns around the end of A: busy for the first half only
    got = engine(THREE).bins(Window(8, -0.125, 0.125, 0, 1), 2)
    assert got.busy_ns.tolist() == [[0.125, 0.0]]


def test_visible_events_touch_the_window():
    e = engine(THREE)
    assert [x.tolist() for x in e.visible(Window(0, 7.5, 20.5, 0, 2))] == [[0, 3], [2, 3]]
    assert [x.tolist() for x in e.visible(Window(8, 0, 12, 0, 2))] == [[1, 3], [1, 3]]


def test_pick_by_row_time_and_slack():
    e = engine(THREE)
    assert [e.pick(0, t, 0) for t in (0, 7, 8, 19, 20, 39, 40)] == [0, 0, -1, -1, 1, 1, -1]
    assert [e.pick(0, t, 3) for t in (9, 10, 11, 17, 18)] == [0, 0, -1, 1, 1]
    assert [e.pick(1, t, 0) for t in (4, 5, 6)] == [-1, 2, -1]


def test_an_instant_can_be_picked_beside_and_between_events():
    e = engine([[(0, 10), (10, 0), (10, 10)]])
    assert [e.pick(0, t, 1) for t in (8, 9, 10, 11, 12)] == [0, 1, 1, 1, 2]


def test_an_instant_is_seen_though_it_takes_no_time():
    got = whole(engine([[(0, 0), (7, 0)]]), 8)
    assert got.begun.tolist() == [[1, 0, 0, 0, 0, 0, 0, 1]]
    assert got.dominant.tolist() == [[0, -1, -1, -1, -1, -1, -1, 1]]
    assert got.busy_ns.sum() == 0


def test_nothing_at_all():
    e = engine([[], []])
    assert whole(e, 3).busy_ns.tolist() == [[0, 0, 0]] * 2
    assert whole(e, 3).dominant.tolist() == [[-1, -1, -1]] * 2
    assert e.pick(0, 0, 5) == -1
    assert [x.tolist() for x in e.visible(Window(0, 0, 1, 0, 2))] == [[0, 0], [0, 0]]


def test_overlap_is_refused():
    with pytest.raises(UsageError, match="row 1 overlap"):
        engine([[(0, 10)], [(0, 10), (9, 1)]])


def test_rows_may_overlap_each_other():
    assert engine([[(0, 10)], [], [(0, 10)]]).rows == 3


def test_half_the_range_of_int64_keeps_single_nanoseconds():
    far = 2**62
    e = engine([[(0, 1), (far, 3), (far + 3, 5)]] * 3, np.int64)
    got = e.bins(Window(far, -2, 8, 2, 3), 5)
    assert got.busy_ns.tolist() == [[0, 2, 2, 2, 2]]
    assert e.pick(1, far + 3, 0) == 5


def test_long_events_of_one_row_do_not_spoil_sums_of_another():
    e = engine([[(0, 2**62)], [(0, 2**62)], [(0, 2**62)], [(5, 1)]], np.int64)
    assert e.bins(Window(0, 0, 10, 3, 4), 2).busy_ns.tolist() == [[0, 1]]


@st.composite
def tracks(draw):
    """Rows of events that do not overlap, some dense enough for the block index."""
    gaps = st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=draw(st.sampled_from([3, 90]))
    )
    rows = []
    for row in draw(st.lists(gaps, min_size=1, max_size=3)):
        t, events = 0, []
        for gap, dur in row:
            events.append((t + gap, dur))
            t += gap + dur
        rows.append(events)
    return rows


def times_in(events, a, b):
    return [max(min(Fraction(s + d), b) - max(Fraction(s), a), Fraction(0)) for s, d in events]


@settings(max_examples=150, deadline=None)
@given(
    tracks(),
    st.integers(-10, 300).map(lambda n: n / 8),
    st.integers(1, 4000).map(lambda n: n / 8),
    st.sampled_from([1, 4, 7]),
    st.integers(0, 50),
    st.sampled_from([np.uint32, np.int64]),
)
@example([[(i, 1) for i in range(40 * BLOCK)]], 0.0, 320.0, 1, 0, np.uint32)
def test_bins_equal_a_sweep(rows, a, width, pixels, base, dtype):  # noqa: PLR0917
    e = engine(rows, dtype)
    got = e.bins(Window(base, a - base, a + width - base, 0, e.rows), pixels)
    for r, events in enumerate(rows):
        for x in range(pixels):
            left = Fraction(a) + Fraction(width) * x / pixels
            right = Fraction(a) + Fraction(width) * (x + 1) / pixels
            times = times_in(events, left, right)
            assert got.busy_ns[r, x] == pytest.approx(float(sum(times)), abs=1e-9)
            winner = int(got.dominant[r, x]) - int(e.offset[r])
            if any(times):
                assert float(times[winner]) == pytest.approx(float(max(times)), abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(tracks(), st.integers(-20, 400), st.integers(0, 12))
def test_pick_equals_a_search_over_all_events(rows, t, slack):
    e = engine(rows)
    for r, events in enumerate(rows):
        got = e.pick(r, t, slack)
        got = None if got < 0 else events[got - int(e.offset[r])]
        instants = [(abs(s - t), s) for s, d in events if d == 0 and abs(s - t) <= slack]
        lasting = [(max(s - t, t - (s + d - 1), 0), (s, d)) for s, d in events if d]
        near = [(gap, event) for gap, event in lasting if gap <= slack]
        if instants:
            assert got is not None
            assert (got[1], abs(got[0] - t)) == (0, min(instants)[0])
        elif near:
            assert got is not None
            assert max(got[0] - t, t - (got[0] + got[1] - 1), 0) == min(near)[0]
        else:
            assert got is None


@settings(max_examples=100, deadline=None)
@given(tracks(), st.integers(0, 300).map(lambda n: n / 4), st.integers(1, 200).map(lambda n: n / 4))
def test_visible_equals_a_filter(rows, a, width):
    e = engine(rows)
    lo, hi = e.visible(Window(3, a - 3, a + width - 3, 0, e.rows))
    for r, events in enumerate(rows):
        want = [
            i
            for i, (s, d) in enumerate(events, int(e.offset[r]))
            if s < a + width and (s >= a or s + d > a)
        ]
        assert list(range(lo[r], hi[r])) == want


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=7 * BLOCK), st.data(), st.sampled_from([8, 40])
)
def test_the_longest_of_any_range_is_found(durations, data, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lod_summary, "CHUNK", chunk)  # derived piece by piece
        e = engine([[(10 * k, d) for k, d in enumerate(durations)]])
    lo = data.draw(st.integers(0, len(durations) - 1))
    hi = data.draw(st.integers(lo + 1, len(durations)))
    (found,) = e._range_longest(np.array([lo]), np.array([hi])).tolist()
    assert lo <= found < hi
    assert durations[found] == max(durations[lo:hi])
