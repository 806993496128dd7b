"""What a stretch holds: by hand on two streams, and against instants counted one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from views.traces import kernel, op, three_events, trace

from workbench.trace.core import Job
from workbench.views.measure import measure
from workbench.views.timeline import Timeline
from workbench.views.trace_lanes import activity_lanes

# three_events: gemm 100-140 and relu 150-160 on stream 7, all_reduce 120-170 on stream 20


def test_parts_of_a_range():
    found = measure(activity_lanes(three_events()), 110, 180)
    # compute 110-140 and 150-160; communication 120-170, bare in 140-150 and 160-170; idle 170-180
    assert found.rows() == [
        ("compute", 2, 40, 40 / 70),
        ("communication", 1, 50, 50 / 70),
        ("exposed communication", None, 20, 20 / 70),
        ("copy", 0, 0, 0.0),
        ("idle", None, 10, 10 / 70),
    ]


def test_devices_add_up():
    ranks = tuple(trace(rank=r, activities=[kernel("k", 10 * r, 10)]) for r in (0, 1))
    found = measure(activity_lanes(Job(ranks)), 0, 20)
    assert found.rows()[0] == ("compute", 2, 20, 0.5)
    assert found.rows()[-1] == ("idle", None, 20, 0.5)


def test_without_a_device_there_is_nothing_to_say():
    assert measure(activity_lanes(trace(ops=[op("mm", 0, 9)])), 0, 9).is_empty()


def test_the_card_of_a_selection():
    timeline = Timeline(three_events())
    timeline.selection = [110, 180]
    card = timeline.measured
    assert (card["range"], card["events"]) == (["110", "180"], 3)
    assert [(p["part"], p["busy_ns"]) for p in card["parts"]] == [
        ("compute", "40"), ("communication", "50"), ("exposed communication", "20"), ("idle", "10"),
    ]  # fmt: skip
    assert timeline.measure().rows()[0] == ("compute", 2, 40, 40 / 70)
    timeline.filter = {"text": "relu"}
    assert timeline.measure().rows()[0] == ("compute", 2, 40, 40 / 70)
    timeline.selection = []
    assert timeline.measured == {}


KINDS = st.sampled_from(["kernel", "collective", "copy", "set"])
EVENTS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), KINDS, st.integers(0, 2)),
                  min_size=1, max_size=25)  # fmt: skip


@given(EVENTS, st.integers(0, 60), st.integers(0, 30))
def test_every_instant_counts_once(events, start, length):
    rows = [kernel("k", s, d, stream=stream, kind=k) for s, d, k, stream in events]
    lanes = activity_lanes(trace(activities=rows))
    found = {part: busy for part, _, busy, _ in measure(lanes, start, start + length).rows()}
    runs = {k: np.zeros(length, bool) for k in ("compute", "communication", "copy")}
    name = {"kernel": "compute", "collective": "communication", "copy": "copy", "set": "copy"}
    for s, d, k, _ in events:
        runs[name[k]][max(0, s - start) : max(0, s + d - start)] = True
    assert {k: found[k] for k in runs} == {k: v.sum() for k, v in runs.items()}
    bare = runs["communication"] & ~runs["compute"]
    assert found["exposed communication"] == bare.sum()
    assert found["idle"] == (~np.logical_or.reduce(list(runs.values()))).sum()
