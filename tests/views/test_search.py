"""What a text finds, and what a filter leaves: by hand and against loops over all events."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views.generated import many_lanes
from views.traces import host, kernel, op, three_events, trace

from workbench.errors import UsageError
from workbench.trace.core import Job
from workbench.views import filters, replies, search
from workbench.views.layers import from_frame
from workbench.views.lod import Window
from workbench.views.timeline import Timeline
from workbench.views.trace_lanes import activity_lanes

# 0        100       200       300       400       500
# |Gemm_1  |         |gemm_2   |         |relu     |      stream 7, steps 3, 3, 4
#      |copy_gemm |                                        stream 20, step 3, 50-150
# |addmm        |                                          host thread 0, step 3, 0-140
#  |mm|                                                    below it, 10-40
RUN = trace(
    activities=[
        kernel("Gemm_1", 0, 100, family="matmul", step=3),
        kernel("copy_gemm", 50, 100, stream=20, kind="copy", step=3),
        kernel("gemm_2", 200, 100, family="matmul", step=3),
        kernel("relu", 400, 100, family="elementwise", step=4),
    ],
    ops=[op("addmm", 0, 140, step=3), op("mm", 10, 30, 1, step=3)],
)


class Silent(Timeline):
    """Keeps what it would send."""

    def send(self, content, buffers=None):
        self.sent = (content, buffers)


@pytest.fixture
def timeline():
    return Silent(RUN)


def names(frame):
    return frame["name"].to_list()


def test_a_part_of_a_name_finds_in_order_of_time_whatever_the_case(timeline):
    found = timeline.find("GEMM")
    assert dict(found.schema) == search.SCHEMA
    assert found.rows() == [
        (None, "activities", 0, "Gemm_1", "GPU 0 · stream 7", 0, 100),
        (None, "activities", 1, "copy_gemm", "GPU 0 · stream 20", 50, 100),
        (None, "activities", 2, "gemm_2", "GPU 0 · stream 7", 200, 100),
    ]


def test_an_expression_stands_between_slashes(timeline):
    assert names(timeline.find("/^gemm_[12]$/")) == ["Gemm_1", "gemm_2"]
    assert names(timeline.find("/(?-i)^gemm/")) == ["gemm_2"]
    assert names(timeline.find("/relu|^mm/")) == ["mm", "relu"]
    # outside slashes nothing is special
    assert names(timeline.find("gemm_[12]")) == []
    assert names(timeline.find("/gemm")) == names(timeline.find("//")) == []


def test_a_find_can_be_narrowed_and_is_bounded(timeline):
    assert names(timeline.find("mm", table="ops")) == ["addmm", "mm"]
    assert names(timeline.find("gemm", kind="copy")) == ["copy_gemm"]
    assert names(timeline.find("m", limit=2)) == ["Gemm_1", "addmm"]
    assert timeline.find("m", limit=None).height == 5


def test_what_cannot_be_looked_for_is_said(timeline):
    cases = {
        "": "nothing to look for",
        "/(/": r"/\(/ can't be read as a regular expression \(unclosed group\)",
        "/(a{1000}){1000}/": "regular expression",
        "x" * 1001: "at most 1,000 characters, not 1,001",
    }
    for text, message in cases.items():
        with pytest.raises(UsageError, match=message):
            timeline.find(text)
    with pytest.raises(UsageError, match=r"timeline table named 'op'.*ops"):
        timeline.find("mm", table="op")
    with pytest.raises(UsageError, match=r"kind named 'kernels'.*kernel"):
        timeline.find("mm", kind="kernels")
    with pytest.raises(UsageError, match="limit must be at least 1"):
        timeline.find("mm", limit=0)
    with pytest.raises(UsageError, match="regular expression"):
        timeline.search = "/[/"
    assert timeline.search == ""


def test_odd_names_and_texts_do_no_harm():
    wild = ["", "k" * 10_000, "</script>", "ß", "a\nb", "(x"]
    timeline = Silent(trace(activities=[kernel(n, 10 * i, 5) for i, n in enumerate(wild)]))
    for name in wild[1:]:
        assert name in names(timeline.find(name[:50]))
    assert timeline.find("\ud800").height == 0
    nothing = Silent(trace())
    nothing.search = "x"
    assert nothing.find("x").height == nothing.matches["total"] == 0
    assert nothing.next_match() == {}


def test_times_and_ranks_are_those_of_the_source():
    ranks = [trace(rank=r, origin_ns=1000 * r, activities=[kernel("gemm", 5, 10)]) for r in (0, 1)]
    found = Silent(Job(tuple(ranks))).find("gemm")
    assert found.select("rank", "id", "start_ns").rows() == [(0, 0, 5), (1, 0, 1005)]


def test_a_search_counts_and_walks_in_order_of_time(timeline):
    seen = []
    timeline.observe(lambda change: seen.append(change["new"]), "mark")
    timeline.search = "gemm"
    counts = {"text": "gemm", "total": 3, "within": 3, "at": 0, "problem": ""}
    assert timeline.matches == counts
    timeline.window = [120, 210]  # copy_gemm runs into it, gemm_2 begins in it
    assert timeline.matches == counts | {"within": 2}

    timeline.window = [0, 500]
    order = [timeline.next_match()["id"] for _ in range(4)]
    assert order == [0, 1, 2, 0]  # round at the end
    assert timeline.matches["at"] == 1
    assert [timeline.previous_match()["id"] for _ in range(2)] == [2, 1]
    assert [m["text"] for m in seen] == [
        "Gemm_1", "copy_gemm", "gemm_2", "Gemm_1", "gemm_2", "copy_gemm",
    ]  # fmt: skip
    timeline.search = ""
    assert timeline.matches == {}
    assert timeline.next_match() == {}


def test_the_walk_begins_at_the_selected_event_or_at_the_window(timeline):
    timeline.search = "gemm"
    timeline.window = [160, 350]
    assert timeline.next_match()["id"] == 2
    timeline.selected = {"table": "activities", "id": 3}  # relu at 400: none after it
    assert timeline.matches["at"] == 0
    assert timeline.next_match()["id"] == 0
    timeline.selected = {"table": "activities", "id": 3}
    assert timeline.previous_match()["id"] == 2


def test_a_match_comes_into_sight():
    rows = [kernel("long", 0, 600_000), kernel("tiny", 900_000, 100), kernel("end", 999_000, 1_000)]
    timeline = Silent(trace(activities=rows))
    timeline.search = "tiny"
    timeline.next_match()
    assert timeline.window == [897_550, 902_550]  # 50 times as long as the event, it in the middle
    timeline.search = "long"
    timeline.next_match()
    assert timeline.window == [0, 1_000_000]  # twice as long is more than there is
    timeline.window = [990_000, 1_000_000]
    timeline.search = "end"
    timeline.next_match()
    assert timeline.window == [990_000, 1_000_000]  # it is well seen already


def test_the_parts_of_a_host_operator_are_matches_of_their_own():
    rows = [host("addmm", 0, 40, id=4), host("addmm", 50, 50, id=4)]
    timeline = Silent(trace(activities=rows, device_kind="cpu"))
    timeline.search = "addmm"
    starts = []
    for _ in range(3):
        timeline.next_match()
        starts.append(timeline.mark["start"])
    assert starts == ["0", "50", "0"]


def test_the_front_end_asks_for_all_of_it_by_messages(timeline):
    def say(**message):
        timeline._on_message(timeline, message, [])

    say(type="search", text="gemm")
    assert (timeline.search, timeline.matches["total"]) == ("gemm", 3)
    say(type="step", by=1)
    assert timeline.selected == {"table": "activities", "rank": None, "id": 0}
    say(type="search", text="/(/")
    assert (timeline.search, timeline.matches["text"]) == ("", "/(/")
    assert "unclosed group" in timeline.matches["problem"]
    say(type="search", text="")
    assert timeline.matches == {}


def view(timeline, *, pixels=7):
    engine = timeline.data.engine
    request = {"type": "view", "base": "0", "a": 0, "b": engine.span_ns, "width": pixels}
    timeline._on_message(timeline, request | {"first": 0, "last": engine.rows, "version": 9}, [])
    return timeline.sent


def test_a_picture_of_few_events_says_which_names_match(timeline):
    assert "hits" not in view(timeline)[0]
    timeline.search = "gemm"
    header, _ = view(timeline)
    assert header["version"] == 9
    by_name = dict(zip(header["texts"], header["hits"], strict=True))
    assert {k for k, hit in by_name.items() if hit} == {"Gemm_1", "copy_gemm", "gemm_2"}
    assert len(by_name) == 6


def test_a_picture_of_pixels_carries_the_matches_alone(timeline, monkeypatch):
    monkeypatch.setattr(replies, "MAX_RECTS", 0)
    timeline.search = "relu"
    _, (busy, _, match, _) = view(timeline, pixels=5)
    # stream 7, a pixel 100 ns: Gemm_1, nothing, gemm_2, nothing, relu
    assert list(busy[:5]) == [255, 0, 255, 0, 255]
    assert list(match[:5]) == [0, 0, 0, 0, 255]
    assert not any(match[5:])


def test_each_change_of_the_picture_is_counted(timeline):
    counted = [timeline.version]
    for name, value in (("search", "gemm"), ("filter", {"steps": [3]}), ("filter", {})):
        setattr(timeline, name, value)
        counted.append(timeline.version)
    assert counted == sorted(set(counted))


def test_a_filter_hides_events_and_keeps_lanes(timeline):
    lanes = timeline.table()["lane"].to_list()
    timeline.filter = {"families": ["matmul"]}
    assert timeline.filtered == "Only family matmul: 2 of 6 events; the others are hidden."
    assert timeline.table().select("lane", "events", "busy_ns").rows() == [
        ("GPU 0 · stream 7", 2, 200),
        ("GPU 0 · stream 20", 0, 0),
        ("CPU thread 0 · operators", 0, 0),
    ]
    assert timeline.table()["lane"].to_list() == lanes
    assert timeline.text().splitlines()[-1] == timeline.filtered
    header, buffers = view(timeline)
    assert (header["n"], header["texts"]) == (2, ["Gemm_1", "gemm_2"])
    assert np.frombuffer(buffers[2], "<u4").tolist() == [0, 1]
    timeline.filter = {}
    assert timeline.filtered == ""
    assert view(timeline)[0]["n"] == 6


@pytest.mark.parametrize(
    ("chosen", "drawn", "words"),
    [
        ({"streams": [20]}, ["copy_gemm"], "Only stream 20: 1 of 6"),
        ({"streams": [20, 7], "steps": [4]}, ["relu"], "Only streams 7 and 20, step 4: 1 of 6"),
        ({"text": "/^mm/"}, ["mm"], "Only name matching /^mm/: 1 of 6"),
        ({"steps": [3], "text": "mm", "families": []}, ["Gemm_1", "addmm", "mm", "copy_gemm",
         "gemm_2"], "Only step 3, name matching mm: 5 of 6"),
        ({"families": ["matmul"], "steps": [4]}, [], "Only family matmul, step 4: 0 of 6"),
    ],
)  # fmt: skip
def test_what_is_chosen_holds_all_at_once(timeline, chosen, drawn, words):
    timeline.filter = chosen
    assert timeline.filtered.startswith(words)
    shown = search.rows(timeline.drawn, search.in_time(timeline.drawn, np.arange(len(drawn))))
    assert sorted(names(shown)) == sorted(drawn)


def test_a_filter_of_what_is_not_there_is_refused(timeline):
    for chosen, message in (
        ({"family": ["matmul"]}, "filter named 'family'; did you mean families"),
        ({"families": ["matmull"]}, "family named 'matmull'; did you mean matmul"),
        ({"streams": [8]}, "No event has stream 8; there are: 7, 20"),
        ({"steps": [True]}, "No event has step True; there are: 3, 4"),
        ({"steps": 3}, r"steps of a filter are a list, as in \[3\]"),
        ({"text": "/(/"}, "regular expression"),
    ):
        with pytest.raises(UsageError, match=message):
            timeline.filter = chosen
    assert timeline.filter == {}


def test_searches_look_at_what_is_drawn_and_find_at_everything(timeline):
    timeline.filter = {"streams": [7]}
    timeline.search = "gemm"
    assert timeline.matches["total"] == 2
    assert [timeline.next_match()["id"] for _ in range(2)] == [0, 2]
    assert timeline.find("gemm").height == 3
    # in the whole relu is event 2 and copy_gemm 3; a click names an event by that
    timeline._on_message(timeline, {"type": "pick", "event": 2}, [])
    assert timeline.mark["text"] == "relu"
    timeline._on_message(timeline, {"type": "pick", "row": 1, "t": "60", "slack": "0"}, [])
    assert timeline.selected == {}


def test_a_selected_event_that_is_hidden_says_so(timeline):
    timeline.selected = {"table": "activities", "id": 1}
    timeline.filter = {"streams": [7]}
    assert timeline.mark["hidden"] is True
    assert timeline.selected["id"] == 1
    timeline.filter = {}
    assert "hidden" not in timeline.mark


def test_a_filter_travels_as_text():
    # a stream may be a pointer, above what JSON numbers hold in a browser
    far = 2**60 + 1
    timeline = Silent(trace(activities=[kernel("k", 0, 5, stream=far), kernel("j", 9, 5)]))
    timeline.set_state({"filter": {"streams": [str(far)]}})
    assert timeline.filter == {"streams": [far]}
    assert timeline.get_state(["filter"]) == {"filter": {"streams": [str(far)]}}
    assert timeline.offers["streams"] == ["7", str(far)]
    assert names(search.rows(timeline.drawn, np.arange(1))) == ["k"]


def test_a_host_thread_is_no_stream():
    lanes = activity_lanes(trace(activities=[host("k", 0, 5, thread=7)], device_kind="cpu"))
    assert filters.offered(lanes)["streams"] == []


def test_both_can_be_given_at_the_start():
    timeline = Silent(three_events(), search="gemm", filter={"steps": [3]})
    assert timeline.filtered.startswith("Only step 3: 2 of 3")
    assert timeline.matches["total"] == 1


EVENTS = st.lists(
    st.tuples(
        st.sampled_from([7, 20, 21]),
        st.integers(0, 40),
        st.integers(0, 12),
        st.sampled_from(["gemm", "GEMM_x", "relu", "copy"]),
        st.sampled_from([None, "matmul", "elementwise"]),
        st.sampled_from([None, 3, 4]),
    ),
    min_size=1,
    max_size=30,
)
FILTER = st.fixed_dictionaries(
    {},
    optional={
        "families": st.sets(st.sampled_from(["matmul", "elementwise"])),
        "streams": st.sets(st.sampled_from([7, 20, 21])),
        "steps": st.sets(st.sampled_from([3, 4])),
        "text": st.sampled_from(["gemm", "/^g|y$/"]),
    },
)
COLUMNS = ("stream", "start_ns", "dur_ns", "name", "family", "step")


def passes(event, chosen):
    stream, _, _, name, family, step = event
    fits = {"families": family, "streams": stream, "steps": step}
    if any(chosen.get(k) and v not in chosen[k] for k, v in fits.items()):
        return False
    pattern = chosen.get("text", "").strip("/")
    return re.search(pattern, name, re.IGNORECASE) is not None


@settings(max_examples=150, deadline=None)
@given(EVENTS, FILTER, st.integers(0, 30), st.integers(1, 40), st.sampled_from([1, 3, 8]))
def test_a_filtered_picture_is_exact(events, chosen, start, width, pixels):
    frame = pl.DataFrame(events, dict(zip(COLUMNS, (pl.Int64,) * 3 + (pl.String,) * 2
                                          + (pl.Int32,), strict=True)), orient="row")  # fmt: skip
    lanes = from_frame(frame, by=["stream"])
    known = filters.offered(lanes)
    # only what these events have can be chosen
    chosen = {k: v if k == "text" else sorted(set(v) & set(known[k])) for k, v in chosen.items()}
    drawn = lanes.part(filters.mask(lanes, filters.checked(lanes, chosen, known)))
    kept = [e for e in events if passes(e, chosen)]
    assert len(drawn.start) == len(kept)
    assert drawn.engine.span_ns == lanes.engine.span_ns
    streams = sorted({e[0] for e in events})
    bins = drawn.engine.bins(Window(start, 0, width, 0, drawn.engine.rows), pixels)
    lo, hi = drawn.engine.visible(Window(start, 0, width, 0, drawn.engine.rows))
    for k, stream in enumerate(streams):
        of_lane = drawn.row_lane == k
        mine = [(s + 0.0 - lanes.origin_ns, d) for x, s, d, *_ in kept if x == stream]
        inside = [(s, d) for s, d in mine if s < start + width and (s >= start or s + d > start)]
        assert int((hi - lo)[of_lane].sum()) == len(inside)
        for x in range(pixels):
            a, b = start + width * x / pixels, start + width * (x + 1) / pixels
            busy = sum(max(0.0, min(s + d, b) - max(s, a)) for s, d in mine)
            assert bins.busy_ns[of_lane, x].sum() == pytest.approx(busy, abs=1e-6)
            begun = sum(a <= s < b for s, _ in mine)
            assert int(bins.begun[of_lane, x].sum()) == begun


@settings(max_examples=100, deadline=None)
@given(EVENTS, st.sampled_from(["gemm", "/^g|y$/", "u"]), st.integers(0, 60), st.integers(0, 40))
def test_a_search_equals_a_loop(events, text, start, width):
    frame = pl.DataFrame(events, dict(zip(COLUMNS, (pl.Int64,) * 3 + (pl.String,) * 2
                                          + (pl.Int32,), strict=True)), orient="row")  # fmt: skip
    lanes = from_frame(frame, by=["stream"])
    found = search.Found(lanes, search.matching(lanes, text))
    matching = [e for e in events if passes(e, {"text": text})]
    got = search.find(lanes, text)
    assert sorted(got["name"].to_list()) == sorted(e[3] for e in matching)
    assert got["start_ns"].to_list() == sorted(e[1] for e in matching)
    end = start + width
    touching = [e for e in matching if e[1] < end and (e[1] >= start or e[1] + e[2] > start)]
    assert found.total == len(matching)
    assert found.within(start, end) == len(touching)
    # a whole round of steps meets each match once
    at, met = -1, []
    for _ in matching:
        at = found.beside(at, 0, 1)
        met.append(at)
    assert len(set(met)) == len(matching)
    assert [found.number(i) for i in met] == list(range(1, len(met) + 1))


def test_a_million_events_are_searched_without_a_loop():
    timeline = Silent(many_lanes(1_000_000))
    timeline.search = "/kernel_[ab]_/"
    # forty names, two letters of ten: a fifth of the events
    assert timeline.matches["total"] == pytest.approx(200_000, rel=0.01)
    assert timeline.find("kernel").height == search.MAX_FOUND
