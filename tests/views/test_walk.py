"""From event to event: along a row, and to the row above or below."""

from __future__ import annotations

import pytest
from views.traces import op, trace

from workbench.views import walk
from workbench.views.timeline import Timeline
from workbench.views.trace_lanes import activity_lanes

# row 0   |linear 0-100                 |   |relu 120-130|
# row 1        |mm 20-40|  |add 50-60|
# thread 1                    |other 55-58|


@pytest.fixture
def source():
    return trace(
        ops=[
            op("linear", 0, 100), op("mm", 20, 20, 1), op("add", 50, 10, 1), op("relu", 120, 10),
            op("other", 55, 3, thread=1),
        ]
    )  # fmt: skip


def names(lanes, *found):
    return [None if i < 0 else lanes.event(i).name for i in found]


def test_along_a_row(source):
    lanes = activity_lanes(source)
    linear, relu = lanes.find("ops", 0), lanes.find("ops", 3)
    assert names(lanes, walk.beside(lanes, linear, 1), walk.beside(lanes, relu, -1)) == [
        "relu",
        "linear",
    ]
    assert names(lanes, walk.beside(lanes, relu, 1), walk.beside(lanes, linear, -1)) == [None] * 2


def test_across_rows(source):
    lanes = activity_lanes(source)
    linear, add, relu, other = (lanes.find("ops", k) for k in (0, 2, 3, 4))
    assert names(lanes, walk.across(lanes, add, 0)) == ["linear"]  # the parent
    assert names(lanes, walk.across(lanes, linear, 1)) == ["mm"]  # the first child
    assert names(lanes, walk.across(lanes, relu, 1)) == ["add"]  # no child: the nearest
    assert names(lanes, walk.across(lanes, other, 1)) == ["add"]  # what runs on the other lane
    assert names(lanes, walk.across(lanes, other, 9)) == [None]


def test_the_widget_walks_and_says_where_a_row_ends(source):
    sent = []

    class Recorded(Timeline):
        def send(self, content, buffers=None):
            sent.append(content)

    timeline = Recorded(source)

    def press(**message):
        timeline._on_message(timeline, {"type": "move", "view": "v"} | message, [])
        return timeline.mark.get("text")

    assert press(by=1) is None  # nothing selected
    timeline.selected = {"table": "ops", "id": 1}
    assert press(by=1) == "add"
    assert press(by=1) == "add"
    assert sent[-1] == {"type": "end", "view": "v"}
    assert press(row=0) == "linear"
    timeline.filter = {"text": "relu"}
    assert press(row=1) == "linear"  # hidden: it has no neighbours
