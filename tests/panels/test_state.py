"""The explorer's state and code: set, read, carried over as JSON, executed."""

import json

import pytest
from panels.counting import counted
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.errors import InputError, UsageError
from workbench.panels import state as states
from workbench.panels.copy import CopyCode
from workbench.resources import data

RANKS = data() / "generated_gpu_2ranks"
CPU = data() / "gpt_tiny_cpu"
DEFAULT = {
    "source": str(RANKS),
    "before": None,
    "rank": None,
    "device": None,
    "window": "steps",
    "step": None,
    "only": {},
    "selection": None,
    "stretch": None,
    "view": None,
    "event": None,
    "search": "",
    "filter": {},
    "rows": {},
    "tab": "Overview",
    "sort": {},
    "roofline_by": "operator",
    "convention": "default",
}
SET = DEFAULT | {
    "rank": 1,
    "window": "all",
    "step": 11,
    "selection": [1_000_000, 5_000_000],
    "view": [900_000, 6_000_000],
    "event": {"table": "activities", "rank": 1, "id": 7},
    "search": "/gemm|nccl/",
    "filter": {"steps": [11]},
    "rows": {"kernels": 0, "ops": 3, "roofline": 1},
    "tab": "Roofline",
    "sort": {"ops": {"column": "calls", "down": True}},
    "roofline_by": "kind",
    "convention": "epilogues",
}


@pytest.fixture
def explorer():
    return wb.Explorer(RANKS)


def test_everything_that_was_done_by_hand_is_in_the_state(explorer):
    assert explorer.state == DEFAULT
    explorer.choose(rank=1, window="all", step=11)
    explorer.by.value, explorer.convention.value = "kind", "epilogues"
    explorer.timeline.selection = [1_000_000, 5_000_000]
    explorer.timeline.window = [900_000, 6_000_000]
    explorer.timeline.search, explorer.timeline.filter = "/gemm|nccl/", {"steps": [11]}
    explorer.panes.open("Roofline")
    explorer.panes.tables["roofline"].selected = 1
    explorer.panes.tables["ops"].order = {"column": "calls", "down": True}
    marked = {name: t.selected for name, t in explorer.panes.tables.items() if t.selected >= 0}
    event = explorer.timeline.selected
    row = explorer.frames["roofline"].row(1, named=True)
    chosen = {"point": ["kind", row["group"], None]}
    assert explorer.state == SET | {"event": event, "rows": marked, "only": chosen}
    assert marked["roofline"] == 1


def test_a_state_carries_the_pane_to_another_explorer(explorer):
    explorer.state = SET
    other = wb.Explorer(CPU)
    other.state = json.loads(json.dumps(explorer.state))
    assert other.state == SET == explorer.state
    assert other.headline == explorer.headline
    assert other.details.equals(explorer.details)
    assert other.timeline.selection == SET["selection"]
    for name in explorer.frames:
        assert other.frames[name].equals(explorer.frames[name]), name
    for title in explorer.panes.titles:
        explorer.panes.open(title)
        other.panes.open(title)
    for name, table in explorer.panes.tables.items():
        mine = other.panes.tables[name]
        assert (mine.html, mine.selected, mine.order) == (table.html, table.selected, table.order)
    assert other.run.label == "generated_gpu_2ranks"
    assert other.frames["summary"].equals(
        wb.summary(wb.Job((wb.open(RANKS).ranks[1],)), window="all", within=(1_000_000, 5_000_000))
    )


def test_what_is_left_out_goes_to_its_default(explorer):
    explorer.state = SET
    explorer.state = {"tab": "Idle"}
    assert explorer.state == DEFAULT | {"tab": "Idle"}
    assert explorer.panes.tables["idle"].html.count("data-row=") == explorer.frames["idle"].height
    explorer.state = explorer.state | {"rank": 0}
    assert explorer.state == DEFAULT | {"tab": "Idle", "rank": 0}


def test_the_timeline_stays_where_its_ranks_stay(explorer):
    before = explorer.timeline
    explorer.state = {"tab": "Idle", "selection": [1_000_000, 2_000_000]}
    assert explorer.timeline is before
    explorer.state = {"rank": 1}
    assert explorer.timeline is not before
    explorer.timeline.selection = [1_000_000, 2_000_000]  # the new one is watched
    assert explorer.state["selection"] == [1_000_000, 2_000_000]
    assert "the selected range" in explorer.headline


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"tabb": "Idle"}, "There is no part of the state named 'tabb'; did you mean tab?"),
        ({"tab": "Kernel"}, "There is no tab named 'Kernel'; did you mean Kernels?"),
        ({"tab": ["Idle"]}, "There is no tab named"),
        ({"window": "step"}, "There is no window named 'step'"),
        ({"roofline_by": "kinds"}, "did you mean kind?"),
        ({"convention": "mine"}, "There is no convention named 'mine'"),
        ({"rank": 7}, r"rank must be one of the source's \(0, 1\) or None, not 7"),
        ({"rank": True}, "rank must be a whole number or None, not True"),
        ({"step": 99}, r"step must be one of the source's \(10, 11, 12\) or None, not 99"),
        ({"selection": [5, 1]}, r"selection must be \[start, end\] in whole ns"),
        ({"view": [0.5, 1]}, r"view must be \[start, end\] in whole ns"),
        ({"event": {"table": "ops"}}, "event must be like"),
        ({"event": {"table": "ops", "rank": 0, "id": 10**9}}, "no row 1000000000 in the table"),
        ({"event": {"table": "ops", "rank": 5, "id": 0}}, "event must be of rank 0 or 1"),
        ({"rows": {"ops": 9999}}, r"rows must be rows that exist \(ops has"),
        ({"rows": {"opps": 1}}, "rows must be numbers of rows by table"),
        ({"sort": {"ops": {"column": "x", "down": True}}}, "sort must be like"),
        ({"source": 5}, "source must be a path or None, not 5"),
        (5, "A state is a dict with keys of source, before, rank"),
    ],
)
def test_a_state_that_does_not_fit_is_one_sentence_and_changes_nothing(explorer, state, said):
    explorer.state = SET
    with pytest.raises(UsageError, match=said) as caught:
        explorer.state = {"tab": "Idle"} | state if isinstance(state, dict) else state
    assert "\n" not in str(caught.value)
    assert explorer.state == SET


def test_a_source_that_does_not_open_leaves_the_pane(explorer, tmp_path):
    with pytest.raises(InputError, match="check the path"):
        explorer.state = {"source": str(tmp_path / "nowhere")}
    assert explorer.state == DEFAULT
    empty = wb.Explorer(runs_dir=tmp_path)
    with pytest.raises(UsageError, match="A state needs a source"):
        empty.state = {"tab": "Idle"}
    assert empty.state == states.default()
    empty.state = DEFAULT
    assert empty.state == DEFAULT
    assert empty.error is None


def frames_of(explorer, **known):
    """Run the explorer's cell but for its last expression; return its variables."""
    variables = dict(known)
    exec(explorer.code().partition("wb.Explorer(")[0], variables)
    return variables


def assert_code_gives(explorer, **known):
    variables = frames_of(explorer, **known)
    assert explorer.panes.in_sight
    for name in explorer.panes.in_sight:
        assert variables[name].equals(explorer.frames[name]), name
    again = eval("wb.Explorer(" + explorer.code().partition("wb.Explorer(")[2], variables)
    assert again.state == explorer.state


@pytest.mark.parametrize(
    ("source", "choice", "empty"),
    [
        (RANKS, {}, ["Comparison"]),
        (RANKS, {k: v for k, v in SET.items() if k not in ("source", "tab")}, ["Comparison"]),
        (
            CPU,
            {"window": "host", "step": 2, "convention": "tracelens"},
            ["Launches", "Overlap", "Comparison"],
        ),
    ],
)
def test_the_cell_gives_the_frames_in_sight_and_the_pane(source, choice, empty):
    explorer = wb.Explorer(source, state=choice)
    for tab in explorer.panes.titles:
        explorer.panes.open(tab)
        variables = frames_of(explorer)
        assert bool(explorer.panes.in_sight) is (tab not in empty)
        for name in explorer.panes.in_sight:
            assert variables[name].equals(explorer.frames[name]), name
    assert_code_gives(explorer)


def test_the_cell_is_short_where_nothing_was_chosen(explorer):
    explorer.panes.open("Kernels")
    assert explorer.code() == (
        "import workbench as wb\n\n"
        f"run = wb.open({str(RANKS)!r})\n"
        "kernels = wb.kernels(run)\n"
        "wb.Explorer(run, state={'tab': 'Kernels'})\n"
    )


def test_roofs_and_costs_of_profiling_are_those_of_the_run():
    explorer = wb.Explorer(CPU, state={"tab": "Roofline"})
    assert "ceilings=run_roofs.recorded(run)" in explorer.code()
    assert explorer.frames["roofline"]["ratio_to_roof"].count()
    explorer.panes.open("Problems")
    assert "overhead=overhead.recorded(" in explorer.code()
    assert "traced steps take" in explorer.panes.tables["trust"].html


def test_an_object_is_opened_by_its_path_or_else_asked_for():
    job = wb.open(RANKS)
    assert wb.Explorer(job).state["source"] == str(RANKS)
    assert_code_gives(wb.Explorer(job))
    alone = wb.Job((job.ranks[1],))
    explorer = wb.Explorer(alone)
    assert explorer.state["source"] is None
    assert "# run: the Trace or Job that the explorer was given\n" in explorer.code()
    explorer.state = explorer.state | {"tab": "Idle"}
    assert_code_gives(explorer, run=alone)


def test_the_button_sends_the_cell_or_the_sentence(explorer, tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(CopyCode, "send", lambda _, message: sent.append(message))
    for shown in (explorer, wb.Explorer(runs_dir=tmp_path)):
        (button,) = (x for x in shown.controls.children[1].children if isinstance(x, CopyCode))
        button._on_message(None, {"type": "code"})
    assert sent[0] == {"type": "code", "code": explorer.code()}
    assert sent[1]["said"].startswith("There is nothing to write code for: There is no run")


def problems_tab(explorer):
    panes = explorer.panes
    return panes.tabs.titles[panes.titles.index("Problems")]


def test_problems_are_counted_in_the_title_of_their_tab(explorer):
    assert explorer.source.problems.height == 2  # a graph launch without its kernels, on each rank
    assert problems_tab(explorer) == "Problems (2)"
    explorer.panes.open("Problems")
    html = explorer.panes.tables["problems"].html
    assert html.count('data-v="graph_kernels_missing"') == 2
    assert "run the profiler once before graphs are captured" in html
    assert explorer.frames["trust"].equals(wb.trust(explorer.source))
    explorer.choose(rank=1)
    assert problems_tab(explorer) == "Problems (1)"
    explorer.load(CPU)
    assert problems_tab(explorer) == "Problems"
    assert "Reading met no fault." in explorer.panes.tables["problems"].html


@pytest.fixture
def grouped(tmp_path):
    """One step [10, 100) of five kernels; times in us.

    matmul       mm [8, 8]   gemm_a 10-15, mm [16, 16]   gemm_b 20-30
    elementwise  relu        vector 40-43
    other        no operator: lonely 50-57 and copy: 60-62
    """
    names = {1: ("mm", 8), 2: ("mm", 16), 3: ("relu", 4)}
    events = [step(1, 0, 90), step(2, 90, 40)]
    for at, (name, size) in names.items():
        inputs = 2 if name == "mm" else 1
        shape = {"Input Dims": [[size, size]] * inputs, "Input type": ["float"] * inputs}
        events.append(op(f"aten::{name}", at, 0.9, **shape))
        events.append(call("cudaLaunchKernel", at + 0.2, 0.2, at))
    events += [call("cudaLaunchKernel", t, 0.5, c) for t, c in ((5, 4), (6, 5), (95, 6))]
    events += [
        kernel("gemm_a", 10, 5, 1),
        kernel("gemm_b", 20, 10, 2),
        kernel("vector", 40, 3, 3),
        kernel("lonely", 50, 7, 4),
        kernel("Memcpy HtoD (Pageable -> Device)", 60, 2, 5, cat="gpu_memcpy"),
        kernel("lonely", 100, 1, 6),
    ]
    return wb.Explorer(write(tmp_path, events), state={"tab": "Roofline", "step": 1})


def test_a_row_of_a_group_shows_its_longest_activity(grouped):
    def longest(by):
        grouped.by.value = by
        frame = grouped.frames["roofline"]
        found = {}
        for row, group in enumerate(frame["group"]):
            grouped.panes.tables["roofline"].selected = row
            found[group] = dict(grouped.details.iter_rows())["name"]
        return found

    copy = "Memcpy HtoD (Pageable -> Device)"
    kinds = {"matmul": "gemm_b", "elementwise": "vector", "other": "lonely", "copy": copy}
    assert longest("kind") == kinds
    assert longest("name") == {"aten::mm": "gemm_b", "aten::relu": "vector", None: "lonely"}
    assert longest("device") == {"all": "gemm_b"}


def test_other_points_leave_all_other_frames_known(grouped, monkeypatch):
    asked = counted(monkeypatch)
    by_shape = grouped.frames["roofline"]
    grouped.by.value = "kind"
    assert sorted(asked) == ["recoverable", "roofline"]
    assert grouped.frames["roofline"].equals(wb.roofline(grouped.source, by="kind", step=(1, 1)))
    html = grouped.panes.tables["roofline"].html
    assert ('data-name="group"' in html, 'data-name="operator"' in html) == (True, False)
    grouped.convention.value = "full_attention"
    caption = [c.value for c in grouped.panes.contents("Roofline") if hasattr(c, "value")]
    assert any("with masked query-key pairs" in said for said in caption)
    grouped.by.value, grouped.convention.value = "operator", "default"
    assert grouped.frames["roofline"].equals(by_shape)


def test_a_search_or_filter_that_does_not_fit_changes_nothing(explorer):
    before = explorer.state
    for wrong in ({"search": "/(/"}, {"filter": {"steps": [99]}}, {"filter": {"stops": [1]}}):
        with pytest.raises(UsageError):
            explorer.state = before | {"rank": 1} | wrong
        assert explorer.state == before
