"""The page that an explorer writes: its state, its tables, and what a click in it will do."""

import numpy as np
import pytest
from panels.pages import carried, element
from tinytrace import call, kernel, op, step, write
from views import unpacked

import workbench as wb
from workbench.errors import UsageError
from workbench.panels import links, static_links
from workbench.panels.answers import Answers
from workbench.panels.choice import Choice
from workbench.trace.synthetic import SyntheticSpec, generate
from workbench.views import html
from workbench.views.timeline import Timeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("generated")
    generate(SyntheticSpec(layers=1, steps=2)).write(path)
    return path


@pytest.fixture(scope="module")
def saved(folder, tmp_path_factory):
    """A page of an explorer with everything set."""
    explorer = wb.Explorer(folder)
    first = explorer.source.ranks[0]
    longest = first.activities.sort("dur_ns", descending=True)["id"][0]
    explorer.state = {
        "rank": 0, "tab": "Idle", "search": "gemm", "filter": {"streams": [7]},
        "sort": {"kernels": {"column": "count", "down": True}},
        "event": {"table": "activities", "rank": 0, "id": longest},
    }  # fmt: skip
    path = explorer.save(tmp_path_factory.mktemp("page") / "explorer.html")
    return explorer, path.read_text()


def test_the_page_has_the_state_of_the_explorer(saved):
    explorer, page = saved
    traits = element(page, "timeline")["state"]
    assert traits["search"] == "gemm"
    assert traits["filter"] == {"streams": ["7"]}
    assert traits["mark"] == explorer.timeline.mark
    assert '<button role="tab" data-tab="Idle" aria-selected="true">' in page
    assert '<section role="tabpanel" data-tab="Idle">' in page
    assert '<section role="tabpanel" data-tab="Kernels" hidden>' in page
    assert "All figures are of rank 0." in page
    found = carried(page)
    assert found["links"]["sort"] == {"kernels": {"column": "count", "down": True}}
    assert found["rows"]["kernels"] == explorer.panes.row_of("kernels") >= 0
    for field, value in explorer.details.rows()[1:]:
        assert f"<i>{field}</i>{value}" in page


def test_every_table_and_picture_of_the_explorer_is_in_the_page(saved):
    explorer, page = saved
    found = carried(page)
    for title in explorer.panes.titles:
        explorer.panes.open(title)
        for child in explorer.panes.contents(title):
            if type(child).__name__ == "Table":
                assert child.name in found["tables"]
                assert found["tables"][child.name].count("<tr") == child.html.count("<tr")
    assert {"breakdown", "waterfall", "gaps", "roofline"} <= set(found["pictures"])
    light, dark = (found["pictures"]["breakdown"][look]["doc"] for look in ("light", "dark"))
    assert light["roots"][0]["attributes"]["width"] == 1200
    assert light != dark


def test_a_click_in_the_page_does_what_it_does_in_the_explorer(folder):
    job = wb.open(folder)
    answers, timeline = Answers(job, Choice()), Timeline(job)
    found = static_links.Links(answers, timeline.data)
    targets = found.targets()
    for table, row in (("kernels", 0), ("kernels", 7), ("roofline", 1), ("exposed", 0)):
        number, window = targets[table][row]
        event = timeline.data.event(found.places[number])
        act = links.act(answers, table, row)
        wanted = act.event
        assert window == (act.window and list(map(str, act.window)))
        assert (event.lane.table, event.lane.rank) == (wanted["table"], wanted["rank"])
        trace = job.ranks[event.lane.rank]
        assert event.dur_ns == trace.tables[event.lane.table]["dur_ns"][wanted["id"]]
    number, window = targets["steps"][1]
    assert (number, list(map(int, window))) == (-1, links.act(answers, "steps", 1).window)


@pytest.mark.parametrize("by", ["operator", "kind"])
def test_points_are_answered_alike_one_by_one_and_all_at_once(folder, by):
    answers = Answers(wb.open(folder), Choice(by=by))
    many = static_links.longest_of_points(answers, "roofline", answers["roofline"].height)
    for row, found in enumerate(many):
        one = links.act(answers, "roofline", row).event
        trace = answers.source.ranks[one["rank"]]
        assert found["rank"] == one["rank"]
        assert trace.activities["dur_ns"][found["id"]] == trace.activities["dur_ns"][one["id"]]


def test_an_event_knows_its_rows(tmp_path):
    # gemm is launched by aten::mm, copy by nothing known
    source = wb.open(write(tmp_path, [
        step(1, 0, 50), op("aten::mm", 1, 9), call("cudaLaunchKernel", 2, 1, 1),
        kernel("gemm", 20, 10, 1), kernel("alone", 35, 4, 9),
    ]))  # fmt: skip
    answers, lanes = Answers(source, Choice(window="all")), Timeline(source).data
    found = static_links.Links(answers, lanes)
    belongs, operators = found.belongs(), found.operators()
    names = [lanes.event(i).name for i in range(len(lanes.start))]
    lane = np.repeat(lanes.row_lane, np.diff(lanes.offset))
    for name, row in (("gemm", 1), ("alone", 0)):
        i = names.index(name)
        kernel_row = belongs["kernels"][f"{lane[i]} {lanes.name[i]}"]
        assert answers["kernels"]["name"][kernel_row] == name
        assert operators[i] == row
    mm = names.index("aten::mm")
    assert belongs["ops"][f"{lane[mm]} {lanes.name[mm]}"] == 0


def test_rows_of_a_range_stand_for_its_longest_event(tmp_path):
    # of one kernel 10 us at 0 and 4 us at 50: in the range around 50 it is the second
    source = wb.open(write(tmp_path, [kernel("k", 0, 10, 1), kernel("k", 50, 4, 2)]))
    lanes = Timeline(source).data
    for within, at in ((None, 0), ((45_000, 60_000), 50_000)):
        found = static_links.Links(Answers(source, Choice(within=within)), lanes)
        number, _ = found.targets()["kernels"][0]
        assert lanes.start[found.places[number]] == at


def test_an_event_that_a_row_stands_for_keeps_its_own_box(folder):
    job = wb.open(folder)
    answers, timeline = Answers(job, Choice()), Timeline(job)
    found = static_links.Links(answers, timeline.data)
    found.targets()
    page = html.payload(timeline, alone=found.places, max_boxes=400)
    assert page["grain"] > 0
    count = unpacked.numbers(page["columns"]["count"])
    assert not count[page["places"]].any()


def test_notes_on_the_timeline_are_listed(folder, tmp_path):
    explorer = wb.Explorer(folder)
    note = {"name": "<slow>", "start_ns": 1_000, "end_ns": 3_500, "text": "ask & see"}
    explorer.timeline.annotations = [note]
    page = explorer.save(tmp_path / "page.html").read_text()
    assert "<td class='wb-text'>&lt;slow&gt;</td><td>1 us</td><td>2.5 us</td>" in page
    assert "ask &amp; see" in page


def test_nothing_to_save_is_told(tmp_path):
    with pytest.raises(UsageError, match="nothing to save: There is no run"):
        wb.Explorer(runs_dir=tmp_path).save(tmp_path / "page.html")
