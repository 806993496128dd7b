"""A choice in one table narrows the others: worked out by hand on a tiny trace, see partstrace."""

import partstrace
import polars as pl
import pytest

import workbench as wb
from workbench.errors import UsageError
from workbench.panels.chips import Chips
from workbench.panels.choice import Chip, between
from workbench.resources import data

US = 1000
RANKS = data() / "generated_gpu_2ranks"


@pytest.fixture
def explorer(tmp_path):
    return wb.Explorer(partstrace.made(tmp_path), state={"step": 1})


def click(explorer, tab, table, **wanted):
    """Click the first row of a table that has these values."""
    explorer.panes.open(tab)
    frame = explorer.frames[table].with_row_index("row").filter(**wanted)
    explorer.panes.tables[table].selected = frame["row"][0]
    return frame["row"][0]


def times(explorer, table, column="total_ns"):
    return dict(explorer.frames[table].select("name", pl.col(column) // US).rows())


def test_a_kernel_narrows_operators_and_roofline_and_marks_its_events(explorer):
    row = click(explorer, "Kernels", "kernels", name="vector")
    assert explorer.selected_text == "kernel vector · step 1"
    assert times(explorer, "kernels") == {"gemm": 30, "vector": 10, "lonely": 5}
    assert explorer.panes.tables["kernels"].selected == row
    assert times(explorer, "ops", "total_device_ns") == {"aten::relu": 10, "aten::linear": 7}
    assert set(explorer.frames["roofline"]["operator"]) == {"aten::relu"}
    assert explorer.frames["launches"]["calls"].to_list() == [2]
    # the two vectors are marked, and n walks them; the longer one is selected
    assert explorer.timeline.matches["total"] == 2
    assert dict(explorer.details.iter_rows())["duration"] == "7 us"
    # 10 of the 45 us that the device is busy in [20, 100): gemm and vector overlap 55-60
    fact = next(f for f in explorer.answers.facts if f.label == "selected")
    assert (fact.value, fact.detail) == ("25.0 %", "10 us busy")


def test_choices_in_two_tables_hold_together_and_are_removed_one_by_one(explorer):
    click(explorer, "Operators", "ops", name="aten::linear")
    assert times(explorer, "kernels") == {"gemm": 30, "vector": 7}
    click(explorer, "Kernels", "kernels", name="vector")
    assert explorer.state["only"] == {"kernel": "vector", "operator": "aten::linear"}
    assert times(explorer, "ops", "total_device_ns") == {"aten::relu": 10, "aten::linear": 7}
    assert explorer.frames["selected"]["busy_ns"].to_list() == [7 * US]
    explorer.chips._on_message(None, {"type": "remove", "key": "operator"})
    assert explorer.selected_text == "kernel vector · step 1"
    assert explorer.frames["selected"]["busy_ns"].to_list() == [10 * US]
    explorer.chips._on_message(None, {"type": "remove", "key": ""})
    assert explorer.selected_text == ""
    assert explorer.state["step"] is None
    assert explorer.timeline.matches == {}
    assert explorer.timeline.selected == {}


def test_a_row_that_is_clicked_again_is_left(explorer):
    click(explorer, "Kernels", "kernels", name="gemm")
    explorer.panes.tables["kernels"].selected = -1
    assert explorer.selected_text == "step 1"
    assert explorer.panes.tables["kernels"].selected == -1


def test_a_point_of_the_roofline_narrows_kernels(explorer):
    click(explorer, "Roofline", "roofline", time_ns=20 * US)
    assert explorer.selected_text.startswith("operator aten::mm [16,16] fp32 x [16,16] fp32")
    assert times(explorer, "kernels") == {"gemm": 20}
    assert explorer.frames["roofline"].height == 4  # its own table keeps all points
    explorer.by.value = "kind"
    assert explorer.state["only"] == {}
    click(explorer, "Roofline", "roofline", group="matmul")
    assert times(explorer, "kernels") == {"gemm": 30}


def test_a_gap_narrows_to_its_time_and_its_own_table_keeps_all(explorer):
    # gaps of [20, 100): 33-40, 62-70, 75-100
    click(explorer, "Idle", "idle", start_ns=62 * US)
    assert explorer.selected_text == "gap of 8 us at 62 us"
    assert explorer.timeline.selection == [62 * US, 70 * US]
    assert explorer.timeline.window == [58 * US, 74 * US]
    assert explorer.frames["idle"].height == 3
    assert explorer.frames["summary"].select("window_ns", "busy_ns").rows() == [(8 * US, 0)]
    assert explorer.panes.tables["idle"].selected == 1
    explorer.timeline.selection = [62 * US, 72 * US]  # drawn by hand: no gap any more
    assert explorer.selected_text == "62.00 to 72.00 us"
    assert explorer.frames["idle"]["dur_ns"].to_list() == [8 * US]
    explorer.clear("within")
    assert explorer.selected_text == "step 1"


def test_a_step_narrows_all_but_its_own_table(explorer):
    explorer.clear()
    explorer.choose(window="all")
    click(explorer, "Steps", "steps", step=1)
    assert explorer.selected_text == "step 1"
    assert (explorer.window.value, explorer.state["step"]) == ("steps", 1)
    assert explorer.timeline.window == [20 * US, 100 * US]
    assert times(explorer, "kernels") == {"gemm": 30, "vector": 10, "lonely": 5}
    assert explorer.frames["steps"].height == 2


def test_what_can_not_be_narrowed_says_so_once_beside_its_table(explorer):
    click(explorer, "Kernels", "kernels", name="gemm")
    explorer.panes.open("Idle")
    said = [c.value for c in explorer.panes.contents("Idle") if hasattr(c, "value")]
    assert sum("Not narrowed to kernel gemm.</b>" in text for text in said) == 2  # two frames
    explorer.panes.open("Operators")
    said = [c.value for c in explorer.panes.contents("Operators") if hasattr(c, "value")]
    assert not any("Not narrowed" in text for text in said)
    assert explorer.answers.unheeded("memory_timeline") == "Not narrowed to kernel gemm."


def test_other_ranks_give_way_and_a_lead_shows_the_longest(tmp_path):
    explorer = wb.Explorer(RANKS)
    explorer.panes.tables["leads"].selected = 1
    longest = wb.exposed(explorer.source).row(0, named=True)
    assert explorer.timeline.selected == {
        "table": "activities", "rank": longest["rank"], "id": longest["activity"],
    }  # fmt: skip
    start, end = longest["start_ns"], longest["start_ns"] + longest["dur_ns"]
    assert explorer.timeline.window[0] < start < end < explorer.timeline.window[1]
    assert explorer.selected_text == ""
    names = explorer.frames["kernels"]
    click(explorer, "Kernels", "kernels", rank=0, name=names["name"][0])
    assert explorer.selected_text.endswith(" on rank 0")
    click(explorer, "Operators", "ops", rank=0, name="aten::mm")
    explorer.select(rank=None)
    assert set(explorer.frames["ops"]["rank"]) == {0, 1}
    click(explorer, "Operators", "ops", rank=1, name="aten::linear")
    assert explorer.state["only"]["rank"] == 1


def test_a_collective_shows_what_ran_meanwhile(tmp_path):
    explorer = wb.Explorer(RANKS)
    explorer.panes.open("Overlap")
    for table in ("exposed", "collectives"):
        explorer.panes.tables[table].selected = 3
        row = explorer.frames[table].row(3, named=True)
        assert explorer.timeline.selection == [row["start_ns"], row["start_ns"] + row["dur_ns"]]
        fields = dict(explorer.details.iter_rows())
        assert (fields["what"], fields["rank"]) == ("collective", str(row["rank"]))
        explorer.clear("within")


def test_the_state_holds_it_and_code_reproduces_it(explorer):
    click(explorer, "Operators", "ops", name="aten::linear")
    explorer.panes.open("Kernels")
    state = explorer.state
    assert "only=wb.Only(operator='aten::linear')" in explorer.code()
    known = {}
    exec(explorer.code().partition("wb.Explorer(")[0], known)
    assert known["kernels"].equals(explorer.frames["kernels"])
    explorer.clear()
    explorer.state = state
    assert explorer.state == state
    assert times(explorer, "kernels") == {"gemm": 30, "vector": 7}
    with pytest.raises(UsageError, match="only must be a dict of arguments"):
        explorer.state = state | {"only": {"kernle": "x"}}
    with pytest.raises(UsageError, match="stretch must be one of idle"):
        explorer.state = state | {"stretch": "kernels"}


def test_a_change_computes_each_question_once_and_a_closed_panel_none(tmp_path, monkeypatch):
    from panels.counting import counted

    path = partstrace.made(tmp_path)
    replaced, newest = wb.Explorer(path), wb.Explorer(path)
    asked = counted(monkeypatch)
    newest.window.value = "all"
    assert sorted(asked) == sorted(set(asked))
    assert asked.count("summary") == 1
    before = len(asked)
    newest.step.value = newest.step.value  # no change, no work
    assert len(asked) == before
    assert replaced.window.value == "steps"


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (12_300_000, 14_100_000, "12.30 to 14.10 ms"),
        (5, 900, "5 to 900 ns"),
        (1_000_000_001, 1_000_000_009, "1.000000001 to 1.000000009 s"),
        (0, 2_500, "0.00 to 2.50 us"),
    ],
)
def test_ends_of_a_range_differ_as_written(start, end, said):
    assert between(start, end) == said


def test_chips_are_told_as_text():
    chips = Chips(lambda _: None)
    chips.show([Chip("kernel", "kernel a"), Chip("step", "step 4")])
    assert chips.text == "kernel a · step 4"
