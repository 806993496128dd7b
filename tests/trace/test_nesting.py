"""Nesting against a stack, one event at a time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workbench.trace import nesting

events = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=25)


def arrays(items):
    thread = np.array([t for t, _, _ in items], np.int64)
    start = np.array([s for _, s, _ in items], np.int64)
    end = start + np.array([d for _, _, d in items], np.int64)
    o = nesting.order(thread, start, end)
    return thread[o], start[o], end[o]


def running(events, t, at, before):
    """The latest started event of the thread running at a time: the definition, read aloud."""
    thread, start, end = events
    hits = [i for i in range(before) if thread[i] == t and start[i] <= at < end[i]]
    return max(hits, default=-1)


def test_three_levels_and_a_sibling():
    # 0-100 holds 10-50, which holds 20-30; 60-70 is the second child of the first
    thread, start, end = arrays([(0, 60, 10), (0, 20, 10), (0, 10, 40), (0, 0, 100)])
    parent = nesting.parents(thread, start, end)
    assert start.tolist() == [0, 10, 20, 60]
    assert parent.tolist() == [-1, 0, 1, 0]
    assert nesting.depths(parent).tolist() == [0, 1, 2, 1]


def test_child_that_outlives_its_parent():
    # in half units: p 0-20, c 10-22 is its child though it ends later
    assert nesting.parents(*arrays([(0, 0, 20), (0, 10, 12)])).tolist() == [-1, 0]


def test_overlapping_siblings_stay_siblings():
    # K30 in half units: p 40-44 with children 40-43 and 42-45; the second lies mostly outside both
    assert nesting.parents(*arrays([(0, 40, 4), (0, 40, 3), (0, 42, 3)])).tolist() == [-1, 0, 0]


@given(events)
def test_parents(items):
    thread, start, end = arrays(items)
    middle = start + (end - start) // 2
    want = [running((thread, start, end), thread[i], middle[i], i) for i in range(len(start))]
    assert nesting.parents(thread, start, end).tolist() == want


@given(events, st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 45)), max_size=8))
def test_innermost(items, queries):
    thread, start, end = arrays(items)
    nested = nesting.nest(thread, start, end)
    at_thread = np.array([t for t, _ in queries], np.int64)
    at = np.array([x for _, x in queries], np.int64)
    want = [running((thread, start, end), t, x, len(start)) for t, x in queries]
    assert nesting.innermost(nested, at_thread, at).tolist() == want


@given(events)
def test_depths(items):
    parent = nesting.parents(*arrays(items))

    def depth(i):
        return 0 if parent[i] < 0 else 1 + depth(parent[i])

    assert nesting.depths(parent).tolist() == [depth(i) for i in range(len(parent))]


@given(
    events,
    st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 45), st.integers(0, 9)), max_size=8),
)
def test_innermost_that_still_runs_later(items, queries):
    thread, start, end = arrays(items)
    nested = nesting.nest(thread, start, end)
    at_thread, at, later = np.array(queries, np.int64).reshape(-1, 3).T
    want = [
        max(
            (i for i in range(len(start)) if thread[i] == t and start[i] <= a and a + d < end[i]),
            default=-1,
        )
        for t, a, d in queries
    ]
    assert nesting.innermost(nested, at_thread, at, at + later).tolist() == want


@given(events, st.lists(st.booleans(), min_size=25, max_size=25))
def test_nearest(items, wanted):
    parent = nesting.parents(*arrays(items))
    wanted = np.array(wanted[: len(parent)], np.bool_)

    def closest(i):
        return i if i < 0 or wanted[i] else closest(parent[i])

    assert nesting.nearest(parent, wanted).tolist() == [closest(i) for i in range(len(parent))]


@given(events)
def test_rows_are_in_depth_first_order(items):
    """What totals of subtrees rest on: a parent is the row before or an ancestor of it."""
    parent = nesting.parents(*arrays(items))
    for i in range(1, len(parent)):
        chain = [i - 1]
        while chain[-1] >= 0:
            chain.append(int(parent[chain[-1]]))
        assert parent[i] in chain
