"""Which boxes a page holds: what is joined, what stays alone, and that no time is lost."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views import unpacked
from views.generated import frame_of, many_lanes

from workbench.views import held, packed


def lanes_of(*events, step=None):
    """Make one lane of (start, dur) in ns; names a, b, c, ..."""
    start, dur = (np.array(c, np.int64) for c in zip(*events, strict=True))
    names = pl.Series([chr(97 + k) for k in range(len(events))])
    lanes = frame_of(np.zeros(len(events), np.int64), start, dur, names)
    return lanes if step is None else lanes.__class__(**vars(lanes) | {"step": step})


def test_short_neighbours_are_joined():
    # a 0-4 and b 6-9 lie inside ten ns, b and c (30-70) do not
    boxes = held.joined(lanes_of((0, 4), (6, 3), (30, 40)), 10)
    assert boxes.first.tolist() == [0, 2]
    assert boxes.count.tolist() == [2, 1]
    assert boxes.longest.tolist() == [0, 2]
    columns = {name: unpacked.numbers(c).tolist() for name, c in boxes.columns({}).items()}
    assert columns["gap"] == [0, 21]  # from 9 to 30
    assert columns["dur"] == [9, 40]
    assert columns["count"] == [1, 0]
    assert columns["idle"] == [2]  # from 4 to 6


def test_a_chain_is_cut_at_each_grain():
    # ten of 1 ns every 3 ns, grain 10: 0 3 6 9 begin in the first, 12 15 18 in the second, ...
    boxes = held.joined(lanes_of(*((3 * k, 1) for k in range(10))), 10)
    assert boxes.count.tolist() == [4, 3, 3]


def test_a_box_holds_one_step_and_what_must_stay_alone_does():
    lanes = lanes_of((0, 1), (2, 1), (4, 1), (6, 1))
    steps = np.array([1, 1, 2, 2], np.int32)
    assert held.joined(
        lanes_of(*[(2 * k, 1) for k in range(4)], step=steps), 50
    ).count.tolist() == [2, 2]
    assert held.joined(lanes, 50, np.array([1])).count.tolist() == [1, 1, 2]
    assert held.joined(lanes, 50, np.array([3])).count.tolist() == [3, 1]


def test_nothing_is_joined_without_a_grain_and_none_of_nothing():
    assert held.joined(lanes_of((0, 1), (2, 1)), 0).count.tolist() == [1, 1]
    empty = many_lanes(0, 1)
    assert len(held.joined(empty, 5).first) == 0
    assert held.fitted(empty, 100)[0].grain_ns == 0


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=60),
    st.integers(1, 60),
)
def test_no_time_is_lost_whatever_is_joined(steps, grain):
    # gaps and lengths, so that events of the lane do not overlap
    ends = np.cumsum([gap + dur for gap, dur in steps])
    events = [(int(e) - d, d) for e, (_, d) in zip(ends, steps, strict=True)]
    lanes = lanes_of(*events) if len(events) <= 26 else lanes_of(*events[:26])
    boxes = held.joined(lanes, grain)
    columns = {name: unpacked.numbers(c).astype(np.int64) for name, c in boxes.columns({}).items()}
    start = np.cumsum(columns["gap"] + columns["dur"]) - columns["dur"]
    assert start.tolist() == lanes.start[boxes.first].tolist()
    assert (columns["count"] + 1).sum() == len(lanes.start)
    assert columns["dur"].sum() - columns["idle"].sum() == lanes.dur.sum()
    joined = boxes.count > 1
    assert (columns["dur"][joined] < 2 * grain).all()
    # an event of a grain or longer is alone
    assert (np.maximum.reduceat(lanes.dur, boxes.first)[joined] < grain).all()


@pytest.mark.parametrize("room", [60_000, 120_000])
def test_the_smallest_grain_that_fits_is_taken(room):
    lanes = many_lanes(40_000, lanes=4)
    boxes, columns = held.fitted(lanes, room)
    size = sum(map(packed.size, columns.values()))
    assert 0.85 * room < size <= room
    finer = held.joined(lanes, int(boxes.grain_ns * 0.8)).columns({})
    assert sum(map(packed.size, finer.values())) > room


def test_all_events_stand_alone_where_they_fit():
    boxes, columns = held.fitted(many_lanes(4_000, lanes=4), 10**6)
    assert boxes.grain_ns == 0
    assert "count" not in columns


def test_other_columns_follow_the_longest_event():
    lanes = lanes_of((0, 1), (2, 5), (30, 40))
    columns = held.joined(lanes, 10).columns({"row": np.array([7, 8, 9])})
    assert unpacked.numbers(columns["row"]).tolist() == [8, 9]
