"""The timeline without a browser: fake messages in, replies checked byte by byte."""

from __future__ import annotations

import io

import numpy as np
import polars as pl
import pytest
from PIL import Image
from views.generated import many_lanes, training_run
from views.traces import kernel, op, three_events, trace

from workbench.errors import UsageError
from workbench.views import theme
from workbench.views.timeline import Timeline

# 100   110   120   130   140   150   160   170
#  |gemm 100-140, step 3    |    |relu 4|          row 0, stream 7
#              |all_reduce 120-170, step 3   |     row 1, stream 20


class Recorded(Timeline):
    """Keeps what it would send."""

    def send(self, content, buffers=None):
        self.sent = (content, buffers)


@pytest.fixture
def timeline():
    return Recorded(three_events())


def ask(timeline, **message):
    timeline._on_message(timeline, message, [])
    return timeline.sent


def view(timeline, **changes):
    request = {"type": "view", "view": "v", "seq": 1, "base": "0", "a": 0, "b": 70, "width": 7}
    return ask(timeline, **request | {"first": 0, "last": 2} | changes)


def test_few_events_come_one_by_one(timeline):
    header, buffers = view(timeline)
    names = {"gemm": 0, "relu": 1, "all_reduce": 2}
    assert [header["texts"][k] for k in np.frombuffer(buffers[5], "<u2")] == list(names)
    assert header | {"texts": 0, "colours": 0} == {
        "type": "view",
        "kind": "rects",
        "view": "v",
        "seq": 1,
        "version": None,
        "n": 3,
        "base": "0",
        "a": 0,
        "b": 70,
        "width": 7,
        "first": 0,
        "last": 2,
        "texts": 0,
        "colours": 0,
    }
    assert np.frombuffer(buffers[0], "<i8").tolist() == [0, 50, 20]
    assert np.frombuffer(buffers[1], "<i8").tolist() == [40, 10, 50]
    assert np.frombuffer(buffers[2], "<u4").tolist() == [0, 1, 2]
    assert np.frombuffer(buffers[3], "<i4").tolist() == [3, 4, 3]
    assert np.frombuffer(buffers[4], "<u2").tolist() == [0, 0, 1]
    assert [len(b) for b in buffers] == [24, 24, 12, 12, 6, 6]


def test_a_window_leaves_out_what_it_does_not_touch(timeline):
    header, buffers = view(timeline, base="45", a=0.5, b=20)
    assert header["n"] == 2
    assert np.frombuffer(buffers[2], "<u4").tolist() == [1, 2]
    assert view(timeline, first=1)[0]["n"] == 1


def test_many_events_come_as_pixels(timeline, monkeypatch):
    monkeypatch.setattr("workbench.views.replies.MAX_RECTS", 2)
    header, (busy, colour) = view(timeline)
    assert (header["kind"], header["n"]) == ("bins", 3)
    # ten ns a pixel: gemm fills the first four, relu the sixth; all_reduce the last five
    assert list(busy) == [255, 255, 255, 255, 0, 255, 0] + [0, 0] + [255] * 5
    palette = [theme.index(None, None, "gemm"), theme.index(None, None, "relu"), 1]
    g, r, n = palette
    assert list(colour) == [g, g, g, g, 0, r, 0] + [0, 0] + [n] * 5


def test_a_pixel_half_busy_is_half_as_high(timeline, monkeypatch):
    monkeypatch.setattr("workbench.views.replies.MAX_RECTS", 0)
    # 35-55: gemm until 40, relu from 50: half of one pixel of 20 ns
    _, (busy, _) = view(timeline, base="35", a=0, b=20, width=1, last=1)
    assert list(busy) == [128]


def test_hover_describes_the_event_there(timeline):
    reply, buffers = ask(timeline, type="hover", view="v", row=1, t="33", slack="0")
    assert reply == {
        "type": "hover",
        "view": "v",
        "text": "all_reduce",
        "lane": "GPU 0 · stream 20",
        "row": 1,
        "start": "20",
        "dur": "50",
        "step": 3,
    }
    assert buffers == []
    reply, _ = ask(timeline, type="hover", view="v", row=0, t="45", slack="2")
    assert reply == {"type": "hover", "view": "v"}


def test_a_click_selects_and_highlights(timeline):
    seen = []
    timeline.observe(lambda change: seen.append(change["new"]), "selected")
    timeline._on_message(timeline, {"type": "pick", "event": 1}, [])
    assert timeline.selected == {"table": "activities", "rank": None, "id": 2}
    assert (timeline.mark["text"], timeline.mark["start"], timeline.mark["row"]) == (
        "relu",
        "50",
        0,
    )
    timeline._on_message(timeline, {"type": "pick", "row": -1, "t": "0", "slack": "0"}, [])
    assert (timeline.selected, timeline.mark) == ({}, {})
    assert len(seen) == 2


def test_a_click_on_another_part_of_the_same_row_moves_the_mark():
    # host execution: an operator with a child has two segments that share its id
    frame = pl.DataFrame(
        {"start_ns": [0, 50], "dur_ns": [40, 50], "name": ["addmm"] * 2, "id": [4, 4], "t": [0, 0]}
    )
    timeline = Recorded(frame, by=["t"])
    for event, start in ((1, "50"), (0, "0")):
        timeline._on_message(timeline, {"type": "pick", "event": event}, [])
        assert (timeline.selected["id"], timeline.mark["start"]) == (4, start)


def test_selecting_from_python_highlights_and_back(timeline):
    timeline.selected = {"table": "activities", "id": 1}
    assert timeline.mark["text"] == "all_reduce"
    timeline.selected = {"table": "activities", "id": 99}
    assert timeline.mark == {}
    timeline.selected = {"table": "activities", "id": 0}
    timeline.selected = {}
    assert timeline.mark == {}
    with pytest.raises(UsageError, match="table, rank and id"):
        timeline.selected = {"row": 5}


def test_messages_out_of_range_do_no_harm(timeline):
    for wild in ({"event": 10**9}, {"event": -1}, {"row": 99, "t": "5", "slack": "0"}):
        timeline._on_message(timeline, {"type": "pick"} | wild, [])
        assert timeline.selected == {}
    header, _ = view(timeline, width=10**9, first=-5, last=10**6)
    assert (header["width"], header["first"], header["last"]) == (8192, 0, 2)
    assert view(timeline, a=5, b=5)[0]["kind"] == "rects"
    timeline._on_message(timeline, {"type": "unheard of"}, [])


def test_times_travel_as_text_and_keep_every_nanosecond():
    start = 2**62
    frame = pl.DataFrame(
        {"start_ns": [start, start + 1], "dur_ns": [1, 1], "name": ["a", "b"], "s": [0, 0]}
    )
    timeline = Recorded(frame, by=["s"])
    state = timeline.get_state()
    assert state["extent"] == [str(start), str(start + 2)]
    timeline.set_state({"selection": [str(start + 1), str(start + 2)]})
    assert timeline.selection == [start + 1, start + 2]
    assert timeline.table()["events"].to_list() == [1]
    assert ask(timeline, type="hover", row=0, t="1", slack="0")[0]["text"] == "b"


def test_a_range_out_of_order_is_refused(timeline):
    with pytest.raises(UsageError, match="selection must be"):
        timeline.selection = [5, 1]


def test_the_table_breaks_down_the_selection(timeline):
    timeline.selection = [130, 155]
    # stream 7: gemm 130-140 and relu 150-155; stream 20: all of it
    assert timeline.table().rows() == [
        ("GPU 0 · stream 7", 2, 15, 0.6),
        ("GPU 0 · stream 20", 1, 25, 1.0),
    ]
    assert timeline.table(top=1)["lane"].to_list() == ["GPU 0 · stream 20"]
    timeline.selection = []
    assert timeline.table()["busy_ns"].to_list() == [50, 50]
    assert timeline.table(window=(100, 110))["busy_ns"].to_list() == [10, 0]


def test_nested_operators_count_once():
    timeline = Timeline(trace(ops=[op("linear", 0, 100), op("mm", 20, 30, 1), op("add", 200, 10)]))
    assert timeline.table().rows() == [("CPU thread 0 · operators", 3, 110, 110 / 210)]


def test_the_text_twin_has_units():
    timeline = Timeline(three_events())
    timeline.selection = [130, 155]
    assert timeline.text().splitlines() == [
        "lane                  events        busy    share",
        "GPU 0 · stream 7           2       15 ns   60.0 %",
        "GPU 0 · stream 20          1       25 ns  100.0 %",
    ]


def test_the_plain_form_is_stable_and_a_picture_stands_beside_it(timeline):
    data, _ = timeline._repr_mimebundle_()
    assert repr(timeline) == "Timeline(activities)"
    assert data["text/plain"] == f"Timeline(activities)\n{timeline.text(12)}"
    picture = Image.open(io.BytesIO(data["image/png"]))
    assert len(picture.convert("RGB").getcolors(1 << 20)) > 10


def test_the_saved_state_holds_an_overview(timeline):
    busy = np.frombuffer(timeline.snapshot_busy, np.uint8).reshape(timeline.snapshot_rows, -1)
    colour = np.frombuffer(timeline.snapshot_colour, np.uint8).reshape(busy.shape)
    assert busy[0].tolist() != busy[1].tolist()
    assert (busy[1] > 0).mean() == pytest.approx(50 / 70, abs=0.01)
    assert set(colour[1][busy[1] > 0]) == {theme.CLASSES.index("communication")}


def test_annotations_keep_their_times(timeline):
    timeline.annotations = [{"name": "slow", "start_ns": 2**60 + 1, "end_ns": 2**60 + 3}]
    assert timeline.annotations[0]["start_ns"] == str(2**60 + 1)


HOSTILE = {
    "no events": trace(),
    "one event": trace(activities=[kernel("k", 5, 1)]),
    "instants alone": trace(activities=[kernel("k", t, 0) for t in (5, 5, 9)]),
    "a name of 10 kB": trace(activities=[kernel("k" * 10_000, 0, 9)]),
    "markup for a name": trace(activities=[kernel("</script><img onerror=alert(1)>", 0, 9)]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_odd_sources_can_be_shown(case):
    timeline = Recorded(HOSTILE[case])
    rows = timeline.data.engine.rows
    span = timeline.data.engine.span_ns
    header, buffers = view(timeline, b=span, last=rows)
    assert header["kind"] == "rects"
    assert len(buffers) == 6
    assert all(len(t) <= 300 for t in header["texts"])
    for t in range(-1, span + 1):
        ask(timeline, type="hover", row=0, t=str(t), slack="1")
    data, _ = timeline._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG")
    assert timeline.text()


def test_no_events_are_said():
    assert Timeline(trace()).text().startswith("Nothing to draw")


def test_a_million_events_in_one_lane():
    timeline = Recorded(many_lanes(1_000_000, lanes=1))
    span = timeline.data.engine.span_ns
    header, buffers = view(timeline, b=float(span), width=1000, last=1)
    assert (header["kind"], header["n"]) == ("bins", 1_000_000)
    assert [len(b) for b in buffers] == [1000, 1000]


def test_a_frame_needs_lane_columns():
    with pytest.raises(UsageError, match="at least one"):
        Timeline(pl.DataFrame({"start_ns": [0], "dur_ns": [1], "name": ["a"]}))


def test_a_run_of_thousands_has_every_lane():
    timeline = Timeline(training_run(kernels=2000, steps=2))
    assert [lane["label"] for lane in timeline.lanes] == [
        "steps",
        "GPU 0 · stream 7",
        "GPU 0 · stream 20",
        "GPU 0 · stream 21",
        "CPU thread 0 (python) · operators",
        "CPU thread 1 (autograd) · operators",
    ]
