"""Overlapping events find rows without overlap."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workbench import intervals
from workbench.views import packing


def pack(lane, start, dur, lanes):
    return packing.pack(np.array(lane), np.array(start), np.array(dur), lanes)


def rows(p):
    return [p.order[a:b].tolist() for a, b in zip(p.offset[:-1], p.offset[1:], strict=True)]


def test_a_lane_without_overlap_is_one_row():
    p = pack([0, 1, 0], [0, 0, 10], [10, 50, 5], 2)
    assert rows(p) == [[0, 2], [1]]
    assert p.lane.tolist() == [0, 1]


def test_children_go_below_their_parents():
    # addmm 0-100 holds expand 10-30 and mm 40-90; mm holds a copy 50-60
    p = pack([0, 0, 0, 0, 0], [0, 10, 40, 50, 100], [100, 20, 50, 10, 20], 1)
    assert rows(p) == [[0, 4], [1, 2], [3]]


def test_crossing_events_take_the_first_free_row():
    # A 0-10, B 5-20, C 12-25: C fits after A; by counting alone B and C would collide
    p = pack([0, 0, 0], [0, 5, 12], [10, 15, 13], 1)
    assert rows(p) == [[0, 2], [1]]


def test_an_instant_inside_an_event_goes_below_and_one_at_its_edge_does_not():
    # event 10-20 with instants at 10, 15 and 20
    p = pack([0, 0, 0, 0], [10, 10, 15, 20], [10, 0, 0, 0], 1)
    assert rows(p) == [[1, 0, 3], [2]]


def test_an_empty_lane_keeps_a_row():
    p = pack([1], [5], [1], 3)
    assert rows(p) == [[], [0], []]


def test_what_needs_too_many_rows_is_counted():
    n = packing.MAX_ROWS + 7
    p = pack([0] * n, list(range(n)), [1000] * n, 1)
    assert len(rows(p)) == packing.MAX_ROWS
    assert p.hidden.tolist() == [7]


def test_many_crossing_events_that_need_too_many_rows_are_counted():
    n = 60  # each starts and ends one later than the one before it
    p = pack([0] * n, list(range(n)), [100] * n, 1)
    assert p.hidden.tolist() == [n - packing.MAX_ROWS]


events = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), min_size=0, max_size=40
)


@given(events)
def test_rows_hold_every_event_once_and_no_overlap(drawn):
    lane, start, dur = (
        (np.array(c, np.int64) for c in zip(*drawn, strict=True))
        if drawn
        else (np.empty(0, np.int64),) * 3
    )
    p = packing.pack(lane, start, dur, 3)
    assert sorted(p.order.tolist()) == list(range(len(drawn)))
    for r, mine in enumerate(rows(p)):
        assert {int(lane[i]) for i in mine} <= {int(p.lane[r])}
        for i, j in pairwise(mine):
            assert start[i] + dur[i] <= start[j]


@given(events)
def test_nested_events_lie_one_row_below_the_innermost_that_runs(drawn):
    # make it nested: clip every event to the one that runs when it starts
    stack, nested = [], []
    for s, d in sorted((s, d) for _, s, d in drawn):
        stack = [e for e in stack if e > s]
        end = min([s + d, *stack])
        if end > s:
            nested.append((s, end, len(stack)))
            stack.append(end)
    same_start = len({s for s, _, _ in nested}) < len(nested)
    if not nested or same_start:
        return
    start = np.array([s for s, _, _ in nested])
    end = np.array([e for _, e, _ in nested])
    p = packing.pack(np.zeros(len(start), np.int64), start, end - start, 1)
    row = {i: r for r, mine in enumerate(rows(p)) for i in mine}
    assert [row[i] for i in range(len(nested))] == [depth for _, _, depth in nested]


def inner(p, start, dur):
    start, dur = np.array(start)[p.order], np.array(dur)[p.order]
    return packing.inner(p, start, start + dur).tolist()


def test_a_row_whose_events_lie_inside_those_above_is_inner():
    # lane 0: addmm 0-100 holds mm 40-90, which holds a copy 50-60; lane 1: B 5-20 crosses A 0-10
    lane, start, dur = [0, 0, 0, 1, 1], [0, 40, 50, 0, 5], [100, 50, 10, 10, 15]
    p = pack(lane, start, dur, 2)
    assert rows(p) == [[0], [1], [2], [3], [4]]
    assert inner(p, start, dur) == [False, True, True, False, False]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=25))
def test_rows_that_are_not_inner_cover_all_that_is_busy(events):
    start, dur = (np.array(x) for x in zip(*events, strict=True))
    p = pack([0] * len(start), start, dur, 1)
    shown = [
        i for r, hidden in zip(rows(p), inner(p, start, dur), strict=True) if not hidden for i in r
    ]

    def busy(i):
        return intervals.union(start[i], start[i] + dur[i])

    for a, b in zip(busy(shown), busy(slice(None)), strict=True):
        assert a.tolist() == b.tolist()
