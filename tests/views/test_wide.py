"""Among pixels, events that are wide enough for a name stand as boxes of their own.

A picture of 70 ns in 70 pixels:  row 0  gemm 0-40, relu 50-60;  row 1  all_reduce 20-70.
Of 24 pixels or more are gemm (40) and all_reduce (50), not relu (10).
"""

import numpy as np
import pytest
from views.test_still import LIGHT, boxes_of
from views.test_timeline import Recorded, view
from views.traces import three_events

from workbench.views import still
from workbench.views.lod import Bins, Engine, Window
from workbench.views.wide import LEAST, wide


@pytest.fixture(autouse=True)
def only_pixels(monkeypatch):
    monkeypatch.setattr("workbench.views.replies.MAX_RECTS", 0)
    monkeypatch.setattr("workbench.views.still.MAX_RECTS", 0)


def test_an_event_is_wide_from_the_least_number_of_pixels_on():
    # row 0: 3 for 23 pixels, then 4 for 24; row 1: 5 to the right edge; row 2: 6 from the left one
    rows = np.full((4, 60), -1)
    rows[0, :23], rows[0, 23:47], rows[1, 36:], rows[2, :24] = 3, 4, 5, 6
    row, event = wide(Bins(rows * 0.0, rows, rows))
    assert LEAST == 24
    assert list(zip(row.tolist(), event.tolist(), strict=True)) == [(0, 4), (1, 5), (2, 6)]
    assert [len(a) for a in wide(Bins(*[np.empty((0, 60))] * 3))] == [0, 0]


def test_it_is_wide_by_what_is_in_sight():
    engine = Engine(np.array([0]), np.array([1_000]), np.array([0, 1]))
    sizes = [len(wide(engine.bins(Window(0, a, a + 100.0, 0, 1), 100))[1]) for a in (976, 977)]
    assert sizes == [1, 0]  # 24 and 23 of its ns are in sight, each a pixel


def columns(buffers):
    types = ("<i8", "<i8", "<u4", "<i4", "<u2", "<u2")
    return [np.frombuffer(b, t).tolist() for b, t in zip(buffers[-6:], types, strict=True)]


def test_wide_events_come_with_the_pixels():
    header, buffers = view(Recorded(three_events()), width=70)
    assert (header["kind"], header["n"]) == ("bins", 3)
    assert header["wide"]["texts"] == ["gemm", "all_reduce"]
    assert [len(b) for b in buffers[:2]] == [140, 140]
    #                           start    dur       event   step    row     text
    assert columns(buffers) == [[0, 20], [40, 50], [0, 2], [3, 3], [0, 1], [0, 1]]
    header, buffers = view(Recorded(three_events()), width=7)
    assert "wide" not in header
    assert len(buffers) == 2


def test_only_rows_that_are_asked_for_have_any():
    header, buffers = view(Recorded(three_events()), width=70, runs=[[1, 2]])
    assert header["wide"]["texts"] == ["all_reduce"]
    assert columns(buffers)[4] == [1]


def test_a_search_says_which_of_them_match_and_a_filter_keeps_their_numbers():
    timeline = Recorded(three_events())
    timeline.search = "reduce"
    header, buffers = view(timeline, width=70)
    assert header["wide"]["hits"] == [False, True]
    assert len(buffers) == 2 + 2 + 6
    timeline.search, timeline.filter = "", {"text": "reduce"}
    header, buffers = view(timeline, width=70)
    assert header["wide"]["texts"] == ["all_reduce"]
    assert columns(buffers)[2] == [2]


def test_a_still_picture_names_them():
    lanes = Recorded(three_events()).data
    drawing = still.draw(lanes, width=700)
    assert {"gemm", "all_reduce"} <= {label.text for label in drawing.labels}
    box = max(boxes_of(drawing, lanes, "gemm"), key=lambda b: b.width)
    pixel = (700 - box.x) / 70
    assert box.width == pytest.approx(40 * pixel - 0.6)
    (apart,) = (
        b
        for b in drawing.boxes
        if b.fill == LIGHT.lane and b.x == pytest.approx(box.x + 40 * pixel - 1)
    )
    assert apart.width == 1
