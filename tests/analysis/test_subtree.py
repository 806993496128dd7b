"""Totals of subtrees against sets of points, whichever way neighbours are found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis import subtree
from workbench.analysis.subtree import Owned
from workbench.trace import nesting

ops = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 20)), max_size=15)
stretches = st.lists(
    st.tuples(st.integers(0, 14), st.integers(0, 20), st.integers(0, 9)), max_size=15
)


def columns(items, width=3):
    return tuple(np.array(items, np.int64).reshape(-1, width).T)


@pytest.fixture(params=[8, -1], ids=["pairs", "followed"])
def way(request, monkeypatch):
    monkeypatch.setattr(subtree, "CONCURRENT", request.param)


def test_overlap_counts_once_where_branches_meet(way):
    # 0 holds 1 and 3, 1 holds 2; 2 owns 0-10 and 20-30, 1 owns 8-12, 3 owns 5-15
    parent = np.array([-1, 0, 1, 0])
    owner, start, end = columns([(2, 0, 10), (2, 20, 30), (1, 8, 12), (3, 5, 15)])
    assert subtree.totals(parent, Owned(owner, start, end)).tolist() == [25, 22, 20, 10]


def test_nothing_owned():
    empty = np.empty(0, np.int64)
    assert subtree.totals(np.array([-1, 0]), Owned(empty, empty, empty)).tolist() == [0, 0]
    assert subtree.totals(empty, Owned(empty, empty, empty)).tolist() == []


def test_a_chain_as_deep_as_it_is_long(way):
    # row i owns [i, i + 1): its subtree owns [i, n)
    n = 3000
    row = np.arange(n)
    assert subtree.totals(row - 1, Owned(row, row, row + 1)).tolist() == list(range(n, 0, -1))


@pytest.mark.parametrize("concurrent", [8, -1])
@given(ops, stretches)
def test_totals(concurrent, events, owned):
    thread, start, dur = columns(events)
    order = nesting.order(thread, start, start + dur)
    parent = nesting.parents(thread[order], start[order], (start + dur)[order])
    n = len(parent)
    owned = [(o, s, s + d) for o, s, d in owned if o < n]

    def below(i, top):
        return i == top or (parent[i] >= 0 and below(parent[i], top))

    want = [len({t for o, s, e in owned if below(o, top) for t in range(s, e)}) for top in range(n)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subtree, "CONCURRENT", concurrent)
        assert subtree.totals(parent, Owned(*columns(owned))).tolist() == want
