"""Interval arithmetic against a brute-force sweep over single nanoseconds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workbench import intervals as iv

pairs = st.lists(st.tuples(st.integers(-20, 40), st.integers(-3, 15)), max_size=12)


def arrays(items):
    start = np.array([s for s, _ in items], np.int64)
    return start, start + np.array([d for _, d in items], np.int64)


def points(start, end):
    """Every single ns that the intervals hold: the slow truth."""
    return {t for s, e in zip(start, end, strict=True) for t in range(s, e)}


def is_normal(x):
    return bool(np.all(x.end > x.start) and np.all(x.start[1:] > x.end[:-1]))


def test_two_kernels_on_two_streams():
    # 0-10 and 6-16: busy 16, overlap 4, only in the first 6
    a, b = iv.union(*arrays([(0, 10)])), iv.union(*arrays([(6, 10)]))
    both = iv.union(*arrays([(0, 10), (6, 10)]))
    assert iv.length(both) == 16
    assert iv.length(iv.intersection(a, b)) == 4
    assert iv.length(iv.difference(a, b)) == 6


def test_touching_intervals_join_and_empty_ones_vanish():
    x = iv.union(*arrays([(5, 5), (0, 5), (7, 0), (20, -4)]))
    assert x.start.tolist() == [0]
    assert x.end.tolist() == [10]


@given(pairs)
def test_union(items):
    start, end = arrays(items)
    x = iv.union(start, end)
    assert points(*x) == points(start, end)
    assert is_normal(x)
    assert iv.length(x) == len(points(start, end))


@given(pairs, pairs)
def test_two_sets(left, right):
    a, b = iv.union(*arrays(left)), iv.union(*arrays(right))
    assert points(*iv.intersection(a, b)) == points(*a) & points(*b)
    assert points(*iv.difference(a, b)) == points(*a) - points(*b)
    assert is_normal(iv.intersection(a, b))
    assert is_normal(iv.difference(a, b))


@given(pairs, pairs, st.integers(-25, 45))
def test_queries(items, queries, t):
    x = iv.union(*arrays(items))
    truth = points(*x)
    start, end = arrays(queries)
    want = [len(truth & set(range(s, e))) for s, e in zip(start, end, strict=True)]
    assert iv.covered(x, start, end).tolist() == want
    assert iv.contains(x, np.array([t])).tolist() == [t in truth]
    assert points(*iv.clip(x, 0, t)) == truth & set(range(t))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 9)), max_size=20))
def test_grouped_length(items):
    group = np.array([g for g, _, _ in items], np.int64)
    start, end = arrays([(s, d) for _, s, d in items])
    want = [len(points(start[group == g], end[group == g])) for g in range(5)]
    assert iv.grouped_length(group, start, end, 5).tolist() == want


def test_times_near_the_end_of_int64_do_not_overflow():
    top = np.iinfo(np.int64).max
    start = np.array([top - 100, top - 50, 0], np.int64)
    end = np.array([top - 40, top, 7], np.int64)
    assert iv.grouped_length(np.array([9, 9, 3]), start, end, 10).tolist() == [
        0, 0, 0, 7, 0, 0, 0, 0, 0, 100,
    ]  # fmt: skip
