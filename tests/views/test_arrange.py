"""Lanes in their order, folded and hidden."""

from __future__ import annotations

import pytest
from views.generated import many_lanes, training_run
from views.traces import kernel, op, trace

from workbench.errors import UsageError
from workbench.trace.core import Job
from workbench.views.arrange import short, unique
from workbench.views.timeline import Timeline


def rank(number):
    return trace(
        rank=number,
        activities=[kernel("k", 0, 5), kernel("c", 0, 5, stream=20)],
        ops=[op("mm", 0, 9)],
    )


@pytest.fixture
def timeline():
    return Timeline(Job((rank(0), rank(1))))


DEFAULT = [
    "rank 0 · GPU 0 · stream 7", "rank 0 · GPU 0 · stream 20",
    "rank 1 · GPU 0 · stream 7", "rank 1 · GPU 0 · stream 20",
    "rank 0 · CPU thread 0 · operators", "rank 1 · CPU thread 0 · operators",
]  # fmt: skip


def test_devices_of_all_ranks_come_before_hosts(timeline):
    assert timeline.order == DEFAULT
    assert [(lane["short"], lane["group"]) for lane in timeline.lanes[:3]] == [
        ("stream 7", "rank 0 · GPU 0"),
        ("stream 20", "rank 0 · GPU 0"),
        ("thread 0 · operators", "rank 0 · CPU"),
    ]


def test_what_is_not_named_follows_as_it_stands(timeline):
    timeline.order = ["rank 1 · GPU 0 · stream 20", "rank 0 · CPU · *"]
    assert timeline.order[:3] == [DEFAULT[3], DEFAULT[4], DEFAULT[0]]
    timeline.order = []
    assert timeline.order == DEFAULT


def test_folding_and_hiding_by_lane_and_by_group(timeline):
    timeline.folded = ["rank 0 · GPU 0 · *", DEFAULT[4]]
    assert timeline.folded == ["rank 0 · GPU 0 · *", DEFAULT[4]]
    timeline.hidden = ["rank 1 · GPU 0 · *"]
    assert timeline.hidden == DEFAULT[2:4]


@pytest.mark.parametrize("name", ["order", "folded", "hidden"])
def test_an_unknown_lane_names_the_nearest(timeline, name):
    with pytest.raises(UsageError, match="rank 0 · GPU 0 · stream 7"):
        setattr(timeline, name, ["rank 0 · GPU 0 · stream 8"])


def test_the_arrangement_is_saved_with_the_notebook(timeline):
    timeline.folded = [DEFAULT[4]]
    state = timeline.get_state()
    assert {"order", "folded", "hidden", "curves"} <= set(state)
    again = Timeline(Job((rank(0), rank(1))))
    again.set_state({k: state[k] for k in ("order", "folded", "hidden")})
    assert again.folded == [DEFAULT[4]]


def test_annotations_of_a_device_stand_below_its_tracks():
    marks = [
        {"name": "m", "domain": "device", "device": 0, "stream": 7, "start_ns": 0, "dur_ns": 5}
    ]
    found = Timeline(trace(activities=[kernel("k", 0, 5, occupancy=0.5)], ranges=marks)).order
    assert found == ["GPU 0 · stream 7", "GPU 0 · occupancy", "GPU 0 · stream 7 · device ranges"]


def test_steps_stand_with_their_device():
    lanes = Timeline(training_run(kernels=50, steps=2)).lanes
    assert (lanes[0]["label"], lanes[0]["group"]) == ("steps", "GPU 0")


def test_lanes_of_a_frame_have_no_group():
    assert {lane["group"] for lane in Timeline(many_lanes(100, lanes=3)).lanes} == {""}


def test_equal_labels_are_told_apart():
    assert unique(["a", "b", "a", "a"]) == ["a", "b", "a (2)", "a (3)"]


@pytest.mark.parametrize(
    ("label", "group", "wanted"),
    [
        ("GPU 0 · stream 7", "GPU 0", "stream 7"),
        ("rank 1 · steps", "rank 1 · GPU 0", "steps"),
        ("CPU thread 3 (python) · operators", "CPU", "thread 3 (python) · operators"),
        ("steps", "GPU 0", "steps"),
        ("GPU 0", "GPU 0", "GPU 0"),
        ("stream 0", "", "stream 0"),
    ],
)
def test_a_label_below_its_heading(label, group, wanted):
    assert short(label, group) == wanted
