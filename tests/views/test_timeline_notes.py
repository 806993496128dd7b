"""Notes on the timeline without a browser: what is drawn where, what the page asks, what is kept.

The trace, in us from its first event:  gemm 0-10, relu 20-25, relu 40-45, all on stream 7.
"""

import json
import re

import polars as pl
import pytest
from tinytrace import kernel, write

import workbench as wb
from workbench.errors import InputError, UsageError
from workbench.noting import places
from workbench.views import html
from workbench.views.timeline import Timeline

US = 1_000
KERNELS = [kernel("gemm", 100, 10), kernel("relu", 120, 5), kernel("relu", 140, 5)]
HTML = "<img src=x onerror=alert(1)></script>"


class Recorded(Timeline):
    """Keeps what it would send."""

    def send(self, content, buffers=None):
        self.sent = content


@pytest.fixture(autouse=True)
def _users_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(places.FOLDER_SETTING, str(tmp_path / "user"))
    monkeypatch.setenv("WORKBENCH_AUTHOR", "ann")


@pytest.fixture
def path(tmp_path):
    return write(tmp_path, KERNELS)


def opened(path):
    return Recorded(wb.open(path))


@pytest.fixture
def timeline(path):
    return opened(path)


def ask(timeline, **message):
    timeline._on_message(timeline, {"type": "note", "view": "v", "asked": 1} | message, [])
    return timeline.sent


def drawn(timeline):
    keys = ("name", "kind", "start_ns", "end_ns", "row")
    return [tuple(a.get(k) for k in keys) for a in timeline.annotations]


def test_a_note_of_each_kind_is_drawn_where_it_is(timeline, path):
    timeline.annotate("slow", "why?", start_ns=20 * US, end_ns=45 * US)
    timeline.annotate("here", at_ns=5 * US, colour="#00ff00", tag="todo")
    timeline.annotate("second", event={"table": "activities", "rank": None, "id": 2})
    timeline.annotate("gemms", kernel="gemm")  # of a name: in the tables, not in time
    lane = [r for r, k in enumerate(timeline.data.row_lane)
            if timeline.data.lanes[k].table == "activities"]  # fmt: skip
    wanted = {
        ("slow", "span", "20000", "45000", None),
        ("here", "point", "5000", "5000", None),
        ("second", "event", "40000", "45000", lane[0]),
    }
    assert set(drawn(timeline)) == wanted
    assert timeline.keeping["editable"] is True
    again = opened(path)
    assert set(drawn(again)) == wanted
    assert wb.notes(wb.open(path))["name"].to_list() == ["here", "slow", "second", "gemms"]


def test_without_a_target_it_is_the_selected_event_else_the_range(timeline):
    with pytest.raises(UsageError, match="Select an event or a range first"):
        timeline.annotate("x")
    timeline.selection = [1, 7]
    timeline.annotate("range")
    timeline.selected = {"table": "activities", "rank": None, "id": 1}
    timeline.annotate("event")
    kinds = {a["name"]: a["kind"] for a in timeline.annotations}
    assert kinds == {"range": "span", "event": "event"}


def test_spans_set_in_python_stay_as_they_were(timeline):
    plain = {"name": "mine", "start_ns": 2**60 + 1, "end_ns": 2**60 + 3}
    timeline.annotations = [plain]
    timeline.annotate("kept", at_ns=0)
    assert timeline.annotations[0] == plain | {"start_ns": str(2**60 + 1), "end_ns": str(2**60 + 3)}
    assert [a["name"] for a in timeline.annotations] == ["mine", "kept"]


def test_the_page_adds_edits_moves_and_removes(timeline, path):
    reply = ask(timeline, do="add", name="slow", text="why?", span=["1000", "9000"])
    assert reply | {"id": 0} == {"type": "note", "view": "v", "asked": 1, "problem": "", "id": 0}
    (note,) = timeline.annotations
    key = {"id": note["id"], "revision": note["revision"]}
    assert ask(timeline, do="edit", **key, name="slow", text="the loader")["problem"] == ""
    changed = timeline.keeping["changes"]
    (note,) = timeline.annotations
    key = {"id": note["id"], "revision": note["revision"]}
    assert ask(timeline, do="move", **key, span=["2000", "8000"])["problem"] == ""
    assert timeline.keeping["changes"] == changed + 1
    row = wb.notes(wb.open(path)).row(0, named=True)
    assert (row["text"], row["start_ns"], row["end_ns"]) == ("the loader", 2000, 8000)
    old = ask(timeline, do="edit", **key, name="x", text="")
    assert "has been changed meanwhile" in old["problem"]
    backwards = ask(timeline, do="move", id=row["id"], span=["8", "2"])
    assert "in order, not [8, 2]" in backwards["problem"]
    timeline.selected = {"table": "activities", "rank": None, "id": 1}
    assert ask(timeline, do="add", name="this", text="", span=None)["problem"] == ""
    assert ask(timeline, do="remove", id=row["id"])["problem"] == ""
    assert [a["name"] for a in timeline.annotations] == ["this"]


def test_two_ranks_show_a_span_on_the_rows_of_its_rank():
    from workbench.resources import data

    job = wb.open(data() / "generated_gpu_2ranks")
    timeline = Recorded(job)
    number = timeline.annotate("x", start_ns=9000, end_ns=12_000, rank=1)
    (note,) = timeline.annotations
    of_rank = [timeline.data.lanes[timeline.data.row_lane[r]].rank for r in note["rows"]]
    assert set(of_rank) == {1}
    ask(timeline, do="move", id=number, revision=note["revision"], span=["9500", "12000"])
    assert timeline.annotations[0]["rows"] == note["rows"]
    timeline.annotate("all", start_ns=0, end_ns=1)
    assert {a["name"]: a["rows"] is None for a in timeline.annotations} == {"x": False, "all": True}


def test_showing_a_note_brings_it_into_sight(timeline):
    span = timeline.annotate("slow", start_ns=20 * US, end_ns=24 * US)
    event = timeline.annotate("second", event={"table": "activities", "id": 2})
    ask(timeline, do="show", id=span)
    assert timeline.window == [18 * US, 26 * US]
    ask(timeline, do="show", id=event)
    a, b = timeline.window
    assert a <= 40 * US <= 45 * US <= b
    assert timeline.selected == {"table": "activities", "rank": None, "id": 2}
    ask(timeline, do="show", id="f" * 16)  # gone meanwhile


def test_events_of_a_frame_are_noted_for_the_session():
    frame = pl.DataFrame(
        {"start_ns": [5, 20], "dur_ns": [10, 7], "name": ["a", "b"], "lane": [0, 0]}
    )
    timeline = Recorded(frame, by=["lane"])
    timeline.annotate("span", start_ns=6, end_ns=9)
    timeline.annotate("b", event={"table": "events", "rank": None, "id": 1})
    assert set(drawn(timeline)) == {
        ("span", "span", "6", "9", None),
        ("b", "event", "20", "27", 0),
    }
    assert "last as long as this session" in timeline.keeping["said"]
    with pytest.raises(UsageError, match="no event"):
        timeline.annotate("c", event={"table": "events", "rank": None, "id": 9})
    with pytest.raises(UsageError, match="shows no trace"):
        timeline.annotate("c", kernel="a")


def test_what_cannot_be_read_is_said_and_nothing_is_written(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text('{"schema_version": 1}')
    write(run, KERNELS, "rank0.trace.json")
    (run / "notes.json").write_text("{")
    timeline = opened(run)
    assert timeline.annotations == []
    assert timeline.keeping["editable"] is False
    assert "left as it is" in timeline.keeping["said"]
    with pytest.raises(InputError):
        timeline.annotate("x", at_ns=0)
    assert "left as it is" in ask(timeline, do="add", name="x", text="", span=["0", "1"])["problem"]


def test_a_page_carries_notes_as_text_and_says_that_they_are_only_read(timeline, tmp_path):
    timeline.annotate(HTML, HTML, at_ns=0)
    page = html.save(tmp_path / "p.html", timeline, "t").read_text()
    assert HTML not in page
    assert str(tmp_path) not in page
    data = re.search(r"application/workbench-timeline'>(.*?)</script>", page)[1]
    state = json.loads(data)["state"]
    assert (state["annotations"][0]["name"], state["annotations"][0]["text"]) == (HTML, HTML)
    assert state["keeping"]["editable"] is False
    assert "Notes can't be changed in a page" in state["keeping"]["said"]


def test_another_notebooks_note_comes_with_a_fresh_look(timeline, path):
    opened(path).annotate("theirs", at_ns=1)
    assert timeline.annotations == []
    timeline.noted.reread()
    assert [a["name"] for a in timeline.annotations] == ["theirs"]
