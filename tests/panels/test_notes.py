"""Notes in the explorer without a browser: the tab, its form, marks in tables, details, state."""

import html
import re
import shutil

import pytest

import workbench as wb
from workbench.errors import UsageError
from workbench.noting import places
from workbench.panels.table import NO_ROW
from workbench.resources import data

HTML = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def _users_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(places.FOLDER_SETTING, str(tmp_path / "user"))
    monkeypatch.setenv("WORKBENCH_AUTHOR", "ann")


@pytest.fixture
def explorer():
    return wb.Explorer(data() / "generated_gpu_2ranks")


def title(explorer):
    """Return what stands on the tab of notes."""
    return explorer.panes.tabs.titles[explorer.panes.titles.index("Notes")]


def gemm(explorer):
    """Return the longest kernel's row number and name in the table of kernels."""
    return 0, explorer.frames["kernels"]["name"].cast(str)[0]


def test_the_tab_lists_notes_and_its_title_counts_them(explorer):
    assert title(explorer) == "Notes"
    explorer.panes.open("Notes")
    assert "select a range or an event and press e" in explorer.panes.tables["notes"].html
    explorer.annotate("slow", HTML, start_ns=10_000, end_ns=50_000)
    assert title(explorer) == "Notes (1)"
    shown = explorer.panes.tables["notes"].html
    assert "slow" in shown
    assert HTML not in shown
    assert html.escape(HTML) in shown
    assert explorer.frames["notes"].equals(wb.notes(explorer.source))
    assert "notes = wb.notes(run)" in explorer.code()


def test_a_click_on_a_row_shows_the_note_and_the_form_changes_it(explorer):
    explorer.annotate("late", "", start_ns=900_000, end_ns=950_000)
    explorer.annotate("early", "why?", start_ns=300_000, end_ns=340_000)
    explorer.panes.open("Notes")
    form = explorer.note_form
    explorer.panes.tables["notes"].selected = 0
    assert explorer.timeline.window == [280_000, 360_000]
    assert (form.name.value, form.text.value) == ("early", "why?")
    assert "40 us, all ranks, by ann" in form.what.value
    form.text.value = "the loader"
    form.save()
    assert form.said == "Note early is kept."
    assert wb.notes(explorer.source)["text"].to_list() == ["the loader", ""]
    # moved behind the other one: its row follows it
    explorer.timeline.noted.edit(
        form.shown["id"], target=explorer.timeline.noted.target(span=[1_600_000, 1_700_000])
    )
    assert explorer.panes.rows == {"notes": 1}
    assert explorer.state["rows"] == {"notes": 1}
    form.remove()
    assert explorer.frames["notes"]["name"].to_list() == ["late"]
    assert explorer.panes.tables["notes"].selected == NO_ROW
    assert form.shown is None


def test_a_note_on_a_name_marks_its_rows_and_stands_in_the_details(explorer):
    row, name = gemm(explorer)
    explorer.panes.open("Kernels")
    assert 'data-name="noted"' not in explorer.panes.tables["kernels"].html
    explorer.annotate("tune this", "tiles too small", kernel=name)
    table = explorer.panes.tables["kernels"]
    marks = re.findall(r'<td class="wb-text"[^>]*>tune this</td>', table.html)
    same = explorer.frames["kernels"]["name"].cast(str).to_list().count(name)
    assert len(marks) == same
    assert "noted" not in explorer.frames["kernels"].columns
    table.selected = row
    assert ("note", "tune this: tiles too small") in explorer.details.rows()
    assert "tiles too small" in explorer._details.value
    explorer.panes.open("Notes")
    explorer.panes.tables["notes"].selected = 0
    number = explorer.timeline.selected["id"]
    rank = explorer.timeline.selected["rank"]
    assert explorer.source.ranks[rank].activities["name"][number] == name


def test_a_note_on_an_event_stands_in_its_details_alone(explorer):
    event = {"table": "activities", "rank": 1, "id": 7}
    explorer.timeline.selected = event
    explorer.annotate("odd one")
    assert explorer.details.rows()[-1] == ("note", "odd one")
    explorer.timeline.selected = event | {"id": 8}
    assert "note" not in explorer.details["field"].to_list()
    explorer.timeline.selected = event | {"rank": 0}
    assert "note" not in explorer.details["field"].to_list()


def test_the_form_offers_what_is_selected(explorer):
    form = explorer.note_form
    whole = explorer.timeline.window
    assert [about for _, about in form.about.options] == [
        {"start_ns": whole[0], "end_ns": whole[1]}
    ]
    explorer.timeline.selection = [10_000, 20_000]
    assert form.about.options[0] == (
        "the selected range, 10 us",
        {"start_ns": 10_000, "end_ns": 20_000},
    )
    trace = explorer.source.ranks[0]
    activity = trace.activities.filter(trace.activities["op"].is_not_null()).row(0, named=True)
    explorer.timeline.selected = {"table": "activities", "rank": 0, "id": activity["id"]}
    first, kernels, operators = (about for _, about in form.about.options[:3])
    assert first == {"event": explorer.timeline.selected}
    assert kernels == {"kernel": activity["name"]}
    assert operators == {"operator": trace.ops["name"][activity["op"]]}
    form.save()
    assert form.said == "A note needs a name."
    form.name.value = "all of them"
    form.about.value = operators
    form.save()
    assert explorer.frames["notes"]["kind"].to_list() == ["operator"]
    assert (form.name.value, form.shown) == ("", None)


def test_notes_of_one_rank_are_those_of_the_whole(explorer):
    explorer.annotate("rank 0's", at_ns=10_000, rank=0)
    explorer.choose(rank=1)
    assert title(explorer) == "Notes (1)"
    assert explorer.frames["notes"]["reason"].to_list() == ["rank 0 is not open"]
    explorer.annotate("both", start_ns=0, end_ns=10_000)
    explorer.choose(rank=None)
    assert set(explorer.frames["notes"]["name"]) == {"rank 0's", "both"}
    assert len(explorer.timeline.annotations) == 2


def test_another_notebooks_notes_come_with_refresh(explorer):
    wb.Explorer(data() / "generated_gpu_2ranks").annotate("theirs", at_ns=10_000)
    assert title(explorer) == "Notes"
    explorer.refresh()
    assert title(explorer) == "Notes (1)"


def test_what_was_noted_is_there_in_the_next_explorer_and_a_state_opens_its_row(explorer):
    explorer.annotate("slow", "why?", start_ns=10_000, end_ns=50_000)
    again = wb.Explorer(explorer.source, state={"tab": "Notes", "rows": {"notes": 0}})
    assert [a["name"] for a in again.timeline.annotations] == ["slow"]
    assert again.note_form.text.value == "why?"


def test_damaged_notes_are_a_sentence_in_their_tab_and_no_more(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(data() / "gpt_tiny_cpu", run)
    (run / "notes.json").write_text("{")
    explorer = wb.Explorer(run)
    assert explorer.error is None
    explorer.panes.open("Notes")
    shown = "".join(c.value for c in explorer.panes.contents("Notes"))
    assert "left as it is" in shown
    explorer.note_form.name.value = "x"
    explorer.note_form.save()
    assert "left as it is" in explorer.note_form.said
    explorer.panes.open("Kernels")
    assert explorer.panes.tables["kernels"].html


def test_without_a_run_there_is_nothing_to_note_on(tmp_path):
    with pytest.raises(UsageError, match="nothing to note on: There is no run"):
        wb.Explorer(runs_dir=tmp_path).annotate("x")
