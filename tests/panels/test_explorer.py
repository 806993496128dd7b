"""The explorer without a browser: set values, read frames."""

import html
import json
import re
import shutil

import ipywidgets as w
import pytest
from panels.counting import counted
from tinytrace import op, write

import workbench as wb
from workbench.errors import UsageError
from workbench.panels.questions import QUESTIONS, Question
from workbench.panels.table import NO_ROW, Table
from workbench.resources import data
from workbench.trace.synthetic import SyntheticSpec, generate

MANIFEST = {"schema_version": 1, "status": "done", "preset": "tiny", "device": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("generated")
    generate(SyntheticSpec(layers=1, steps=2)).write(path)
    return path


@pytest.fixture
def explorer(folder):
    return wb.Explorer(folder)


def test_the_frames_are_those_of_the_analyses(explorer, folder):
    job = wb.open(folder)
    assert explorer.frames["summary"].equals(wb.summary(job))
    assert explorer.frames["kernels"].equals(wb.kernels(job))
    explorer.choose(rank=1)
    assert explorer.frames["summary"].equals(wb.summary(job, rank=1))
    explorer.choose(window="all")
    assert explorer.frames["breakdown"].equals(wb.breakdown(job, window="all"))
    first = explorer.step.options[1][1]
    explorer.choose(step=first)
    assert explorer.frames["summary"].equals(wb.summary(job, step=(first, first)))
    with pytest.raises(UsageError, match="no rank"):
        explorer.choose(rank=9)


def test_a_click_on_the_timeline_shows_details_and_rows(explorer):
    trace = explorer.source.ranks[0]
    event = trace.activities.filter(trace.activities["op"].is_not_null()).row(5, named=True)
    explorer.timeline.selected = {"table": "activities", "rank": 0, "id": event["id"]}
    fields = dict(explorer.details.iter_rows())
    assert fields["name"] == event["name"]
    explorer.panes.open("Kernels")
    row = explorer.panes.tables["kernels"].selected
    shown = explorer.frames["kernels"].row(row, named=True)
    assert (shown["rank"], shown["name"], shown["kind"]) == (0, event["name"], event["kind"])
    explorer.panes.open("Operators")
    operator = explorer.frames["ops"].row(explorer.panes.tables["ops"].selected, named=True)
    assert operator["name"] == trace.ops["name"][event["op"]] == fields["operator"]
    explorer.timeline.selected = {}
    explorer.panes.open("Kernels")
    assert explorer.panes.tables["kernels"].selected == NO_ROW
    assert explorer.details.is_empty()


def test_a_click_on_a_row_selects_the_longest_event(explorer):
    explorer.panes.open("Kernels")
    explorer.panes.tables["kernels"].selected = 2
    row = explorer.frames["kernels"].row(2, named=True)
    assert explorer.timeline.selected["rank"] == row["rank"]
    trace = explorer.source.ranks[row["rank"]]
    event = trace.activities.row(explorer.timeline.selected["id"], named=True)
    assert (event["name"], event["dur_ns"]) == (row["name"], row["max_ns"])
    assert explorer.panes.tables["kernels"].selected == 2


def test_a_click_on_a_step_shows_it(explorer):
    explorer.panes.open("Steps")
    explorer.panes.tables["steps"].selected = 1
    start, length = explorer.frames["steps"].select("start_ns", "dur_ns").row(1)
    assert explorer.timeline.window == [start, start + length]


def test_a_selection_narrows_every_figure_and_leaves_again(explorer, folder):
    before = explorer.headline
    row = explorer.frames["steps"].row(0, named=True)
    within = [row["start_ns"], row["start_ns"] + row["dur_ns"] // 2]
    explorer.timeline.selection = within
    job = wb.open(folder)
    narrowed = wb.kernels(job, window="all", within=tuple(within))
    assert explorer.frames["kernels"].equals(narrowed)
    assert "the selected range" in explorer.headline
    assert explorer.frames["summary"]["window_ns"][0] == row["dur_ns"] // 2
    explorer.timeline.selection = []
    assert explorer.headline == before


def test_tabs_are_filled_when_they_are_opened(explorer, monkeypatch):
    asked = counted(monkeypatch)
    explorer.panes.open("Kernels")
    assert asked == ["kernels"]
    asked.clear()
    explorer.choose(window="all")
    assert set(asked) == {"summary", "kernels"}  # the headline and the tab in sight
    assert explorer.panes.contents("Idle") == ()
    explorer.panes.open("Steps")
    assert asked[2:] == ["steps"]
    assert explorer.panes.tables["steps"].html.count("data-row=") == (
        explorer.frames["steps"].height
    )
    for title in explorer.panes.titles:
        explorer.panes.open(title)
    assert len(asked) == len(set(asked)), "each frame is computed once"


def shown(explorer, title):
    """Return what a tab shows: sentences, and the names of its pictures and tables."""
    explorer.panes.open(title)
    found = []
    for widget in explorer.panes.contents(title):
        if isinstance(widget, w.HTML):
            found += [html.unescape(t) for t in re.findall(r"<p[^>]*>(.*?)</p>", widget.value)]
        elif not isinstance(widget, w.HBox):  # which holds controls
            assert not isinstance(widget, Table) or widget.html
            found.append(widget.name)
    return found


def names(explorer, title):
    return [x for x in shown(explorer, title) if " " not in x]


def test_what_each_tab_shows_of_two_ranks(explorer):
    assert names(explorer, "Modules") == ["phases", "phases"]
    assert shown(explorer, "Modules")[0].startswith("Modules are not recorded; record with")
    assert names(explorer, "Overview") == ["leads", "waterfall"]
    assert names(explorer, "Steps") == ["steps", "steps"]
    assert names(explorer, "Idle") == ["idle_causes", "gaps", "idle"]
    assert names(explorer, "Launches") == ["queue", "launches"]
    assert names(explorer, "Overlap") == [
        "overlap", "groups", "collectives", "ranks", "exposed", "collectives",
    ]  # fmt: skip
    assert names(explorer, "Memory") == ["memory", "memory_peak"]
    assert "choose another above" in shown(explorer, "Memory")[0]
    explorer.choose(rank=1)  # one rank can't be compared
    assert names(explorer, "Overlap") == [
        "overlap",
        "groups",
        "collectives",
        "exposed",
        "collectives",
    ]
    assert "choose another above" not in shown(explorer, "Memory")[0]


def test_no_tab_is_empty_when_the_recording_lacks_everything(tmp_path):
    explorer = wb.Explorer(write(tmp_path, [op("aten::mm", 0, 10)]))
    assert shown(explorer, "Launches") == [
        "No accelerator is in the trace; record on a machine with an accelerator.",
    ]
    assert shown(explorer, "Memory") == [
        "No memory events are recorded; record with profile_memory=True."
    ]
    assert shown(explorer, "Overlap") == ["No collective is recorded; record a distributed run."]
    assert shown(explorer, "Overview")[0] == (
        "No complete step is marked; call profiler.step() once a step and record at least two "
        "steps."
    )
    for title in explorer.panes.titles:
        assert shown(explorer, title)


def test_a_range_narrows_what_it_can_and_the_rest_says_so(explorer, folder):
    row = explorer.frames["steps"].row(0, named=True)
    within = (row["start_ns"], row["start_ns"] + row["dur_ns"] // 2)
    explorer.timeline.selection = list(within)
    job = wb.open(folder)
    for name in ("idle", "idle_causes", "launches", "queue_depth", "modules", "phases", "groups"):
        wanted = getattr(wb, name)(job, window="all", within=within)
        assert explorer.frames[name].equals(wanted), name
    assert explorer.frames["waterfall_mean"].equals(wb.waterfall_mean(job, within=within))
    said = shown(explorer, "Steps")
    first, last = (t / 1e6 for t in within)
    assert f"<b>Not narrowed to {first:.2f} to {last:.2f} ms.</b>" in said[0]
    assert sum("Not narrowed" in text for text in said) == 1
    assert not any("Not narrowed" in text for text in shown(explorer, "Kernels"))
    wanted = wb.roofline(job, window="all", within=within)
    assert explorer.frames["roofline"].equals(wanted)
    before = explorer.frames["steps"]["start_ns"].min()
    explorer.timeline.selection = [before - 2, before - 1]
    assert shown(explorer, "Overview")[-1] == (
        "No part of a complete step lies in what is selected."
    )


@pytest.mark.parametrize("table", ["roofline", "recoverable"])
def test_a_row_of_the_roofline_shows_its_longest_activity(explorer, table):
    explorer.panes.open("Roofline")
    frame = explorer.frames[table]
    row = frame["calls"].to_list().index(frame["calls"].max())
    explorer.panes.tables[table].selected = row
    assert explorer.timeline.selected["table"] == "activities"
    shown_event = dict(explorer.details.select("field", "value").rows())
    assert frame["operator"][row] in shown_event["operator"]


def test_a_click_on_a_point_picks_its_row(explorer):
    explorer.panes.open("Roofline")
    explorer.panes.figures["roofline"].picked = 2
    assert explorer.panes.tables["roofline"].selected == 2
    assert explorer.timeline.selected["table"] == "activities"


def test_a_click_on_a_gap_shows_it_and_what_ended_it(explorer):
    explorer.panes.open("Idle")
    gaps = explorer.frames["idle"]
    row = gaps["rank"].to_list().index(1)
    explorer.panes.tables["idle"].selected = row
    gap = gaps.row(row, named=True)
    start, end = explorer.timeline.window
    assert start < gap["start_ns"]
    assert gap["start_ns"] + gap["dur_ns"] < end
    fields = dict(explorer.details.iter_rows())
    assert (fields["name"], fields["rank"]) == (gap["ended_by"], "1")
    assert explorer.panes.tables["idle"].selected == row


def test_a_choice_that_a_pane_cannot_take_is_a_sentence_in_it(explorer, monkeypatch):
    def refuse(_, **__):
        raise UsageError("There is no such step.")

    monkeypatch.setitem(QUESTIONS, "idle_causes", Question(refuse))
    assert shown(explorer, "Idle") == ["There is no such step."]


def test_every_picture_can_be_drawn(explorer):
    for figure in (explorer.panes.breakdown, *explorer.panes.figures.values()):
        item = figure.item("dark", 700)
        assert json.loads(json.dumps(item))["doc"]["roots"]


def test_what_is_broken_is_one_sentence(explorer, tmp_path):
    explorer.load(tmp_path / "nowhere")
    assert explorer.notes == (
        f"There is no file or folder {tmp_path / 'nowhere'}; check the path.",
    )
    assert (dict(explorer.frames), explorer.headline, explorer.timeline) == ({}, "", None)
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    explorer.load(bad)
    assert len(explorer.notes) == 1
    assert "Traceback" not in explorer.notes[0]


def test_runs_are_offered_newest_first_with_what_is_wrong(tmp_path):
    for name, status, started, error in (
        ("old", "done", "2026-01-01", None),
        ("new", "done", "2026-02-01", None),
        ("broken", "failed", "2026-03-01", "Rank 0 ended with code 1."),
    ):
        shutil.copytree(data() / "gpt_tiny_cpu", tmp_path / name)
        content = MANIFEST | {"status": status, "started": started, "error": error}
        (tmp_path / name / "run.json").write_text(json.dumps(content))
    partial = tmp_path / ".cut.partial"
    partial.mkdir()
    content = MANIFEST | {"status": "running", "started": "2025-01-01"}
    (partial / "run.json").write_text(json.dumps(content))
    (tmp_path / "broken" / "rank0.trace.json.gz").unlink()

    explorer = wb.Explorer(runs_dir=tmp_path)
    labels = [label for label, _ in explorer.run.options]
    assert labels == [
        "broken · tiny · cpu · failed",
        "new · tiny · cpu",
        "old · tiny · cpu",
        "cut · tiny · cpu · interrupted",
    ]
    assert explorer.answers.source.ranks[0].meta.path.parent.name == "new"
    explorer.run.value = str(tmp_path / "broken")
    assert explorer.notes == ("broken: Rank 0 ended with code 1.",)
    explorer.run.value = str(partial)
    assert explorer.notes == (
        "cut was interrupted: the process that recorded it is gone. Record it again.",
    )
    explorer.run.value = str(tmp_path / "old")
    assert explorer.headline.startswith("window ")
    explorer.refresh()
    assert explorer.run.value == str(tmp_path / "old")


def test_without_a_run_it_says_what_to_do(tmp_path):
    assert "record one" in wb.Explorer(runs_dir=tmp_path / "none").notes[0]


def test_the_text_forms_say_nothing_that_changes(explorer):
    widgets = [explorer, explorer.panes.breakdown, *explorer.panes.tables.values()]
    assert [repr(x) for x in widgets[:3]] == ["Explorer()", "Figure(breakdown)", "Table(leads)"]
