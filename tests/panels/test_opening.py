"""Sources that are typed, dropped, or compared; and what a timeline keeps when another comes."""

import contextlib
import importlib.util
import json

import ipywidgets as w
import partstrace
import pytest

import workbench as wb
from workbench import app, lab
from workbench.cli import app as commands
from workbench.errors import InputError, UsageError
from workbench.panels import dropped, opener
from workbench.panels.carried import carry
from workbench.panels.dropped import Drop, safe_name
from workbench.resources import data
from workbench.views.timeline import Timeline

RANKS = data() / "generated_gpu_2ranks"
CPU = data() / "gpt_tiny_cpu_2ranks"


class Sent(list):
    """Messages of a widget, and a way to answer them as the page does."""

    def __init__(self, widget, monkeypatch):
        super().__init__()
        self.widget = widget
        monkeypatch.setattr(type(widget), "send", lambda _, message, __=None: self.append(message))

    def take(self, message, *buffers):
        self.widget._on_message(None, message, [memoryview(b) for b in buffers])


# ---- paths ----------------------------------------------------------------------------------


def test_paths_are_completed(tmp_path, monkeypatch):
    for name in ("run-a", "run-b", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "run.json").write_text("{}")
    base = f"{tmp_path}/"
    assert opener.completions(base + "run") == [base + n for n in ("run-a/", "run-b/", "run.json")]
    assert opener.completions(base) == [base + n for n in ("run-a/", "run-b/", "run.json")]
    assert opener.completions(base + ".h") == [base + ".hidden/"]
    assert opener.completions(base + "none/x") == opener.completions("") == []
    monkeypatch.chdir(tmp_path)
    assert opener.completions("run-") == ["run-a/", "run-b/"]


def test_a_path_that_is_entered_opens_and_is_offered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # without the runs of whoever tests
    explorer = wb.Explorer(RANKS)
    page = Sent(explorer.opener, monkeypatch)
    page.take({"type": "open", "path": str(CPU)})
    assert explorer.state["source"] == str(CPU)
    assert [label for label, _ in explorer.run.options] == [CPU.name, RANKS.name]
    assert explorer.run.label == CPU.name
    explorer.run.value = "given"
    assert explorer.state["source"] == str(RANKS)


def test_a_path_that_does_not_open_leaves_what_is_shown(tmp_path, monkeypatch):
    explorer = wb.Explorer(RANKS)
    before = explorer.state
    Sent(explorer.opener, monkeypatch).take({"type": "open", "path": str(tmp_path / "no<where")})
    assert explorer.state == before
    assert "There is no file or folder" in explorer._notes.value
    assert "no&lt;where" in explorer._notes.value


# ---- drops ----------------------------------------------------------------------------------


def dropped_files(page, *files, name=None):
    """Send files as the page does: announced, in two pieces each, ended."""
    told = [{"name": name or path.name, "size": path.stat().st_size} for path in files]
    page.take({"type": "begin", "files": told})
    for number, path in enumerate(files):
        content = path.read_bytes()
        half = len(content) // 2
        for piece in (content[:half], content[half:]):
            page.take({"type": "piece", "file": number}, piece)
    page.take({"type": "end"})


def test_a_dropped_file_opens_under_a_safe_name(tmp_path, monkeypatch):
    explorer = wb.Explorer(RANKS)
    page = Sent(explorer.opener, monkeypatch)
    dropped_files(page, partstrace.made(tmp_path), name="../../evil name;$(x).json")
    assert all(m == {"type": "arrived", "ok": True} for m in page)
    path = explorer.source.ranks[0].meta.path
    assert path.name == "evil_name_x_.json"
    assert path.parent.parent == dropped.place()
    assert explorer.state["source"] == str(path)
    assert set(explorer.frames["kernels"]["name"]) == {"gemm", "vector", "lonely"}


def test_files_of_several_ranks_that_are_dropped_are_a_job(monkeypatch):
    explorer = wb.Explorer(CPU)
    page = Sent(explorer.opener, monkeypatch)
    dropped_files(page, *sorted(RANKS.glob("rank*.gz")))
    assert explorer.frames["summary"].equals(wb.summary(wb.open(RANKS)))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([], "A drop is of 1 to 1,000 files"),
        ([{"name": "a", "size": 60_000_000}], "at most 50 MB; type the path"),
        ([{"name": "a"}], "no name or no size"),
        ([{"name": "a", "size": -1}], "no name or no size"),
        ("a", "A drop is of"),
    ],
)
def test_a_drop_that_can_not_be_taken_is_one_sentence(files, said, monkeypatch):
    explorer = wb.Explorer(RANKS)
    page = Sent(explorer.opener, monkeypatch)
    page.take({"type": "begin", "files": files})
    assert page == [{"type": "arrived", "ok": False}]
    assert said in explorer._notes.value
    page.take({"type": "piece", "file": 0}, b"x")  # what still comes is not taken
    page.take({"type": "end"})
    assert explorer.state["source"] == str(RANKS)


def test_what_arrives_is_held_to_what_was_announced():
    drop = Drop([{"name": "a", "size": 3}, {"name": "a", "size": 1}])
    assert list(drop.sizes) == ["a", "2-a"]
    drop.add(0, [b"ab"])
    with pytest.raises(InputError, match="longer than was announced"):
        drop.add(0, [b"cd"])
    with pytest.raises(InputError, match="was not announced"):
        drop.add(2, [b"x"])
    with pytest.raises(InputError, match="did not arrive whole"):
        drop.kept()
    assert not drop.folder.exists()


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("rank0.trace.json.gz", "rank0.trace.json.gz"),
        ("..", "file-"),
        ("a/b\\c.json", "c.json"),
        (".bashrc", "bashrc"),
        ("x\0y\n.json", "x_y_.json"),
        ("é" * 300, "file-"),
    ],
)
def test_names_are_one_plain_part_of_a_path(name, safe):
    assert safe_name(name).startswith(safe)
    assert len(safe_name("a" * 500)) == 120


def test_the_oldest_drops_make_room():
    for name in "abc":
        drop = Drop([{"name": name, "size": 10}])
        drop.add(0, [b"0" * 10])
    dropped.make_room(25)
    left = sorted(f.name for d in dropped.place().iterdir() for f in d.iterdir())
    assert "c" in left
    assert "a" not in left
    dropped.make_room(0)
    assert list(dropped.place().iterdir()) == []


# ---- comparing ------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path):
    """The same step twice; in the second the first gemm takes 30 us and not 10."""
    import gzip  # noqa: F401

    before = partstrace.made(tmp_path, "before.json")
    text = before.read_text()
    after = tmp_path / "after.json"
    changed = json.loads(text)
    gemm = next(e for e in changed["traceEvents"] if e["name"] == "gemm")
    gemm["dur"] = 13
    after.write_text(json.dumps(changed))
    return before, after


def test_a_run_to_compare_with_fills_a_tab(pair):
    before, after = pair
    explorer = wb.Explorer(after)
    assert explorer.frames["compare"].is_empty()
    explorer.panes.open("Comparison")
    assert "Choose a run" in explorer.panes.contents("Comparison")[0].value
    explorer.compare_with(before)
    assert explorer.panes.tab == "Comparison"
    assert explorer.state["before"] == str(before)
    wanted = wb.compare(wb.open(before), wb.open(after))
    assert explorer.frames["compare"].equals(wanted)
    kernels = explorer.frames["compare_kernel"]
    # gemm 20-33 runs into vector 30-33, which then owns nothing of its own
    changes = {n: (a, b) for n, a, b in kernels.select("name", "a_ns", "b_ns").rows()}
    assert changes["lonely"] == (5000, 5000)
    said = explorer.panes.contents("Comparison")[0].value
    assert "the step went from 80 us to 80 us" in said.lower()
    explorer.panes.tables["compare_kernel"].selected = kernels["name"].to_list().index("gemm")
    assert explorer.state["only"] == {"kernel": "gemm"}
    known = {}
    exec(explorer.code().partition("wb.Explorer(")[0], known)
    assert known["compare_kernel"].equals(kernels)
    explorer.compare_with(None)
    assert explorer.state["before"] is None
    other = wb.Explorer(before)
    other.state = json.loads(json.dumps(explorer.state | {"before": str(before)}))
    assert other.frames["compare"].equals(wanted)


def test_what_can_not_be_compared_is_a_sentence_in_the_tab(pair):
    explorer = wb.Explorer(pair[0])
    explorer.compare_with(CPU)
    (said,) = (c.value for c in explorer.panes.contents("Comparison") if isinstance(c, w.HTML))
    assert "wb-error" in said


# ---- what is kept ---------------------------------------------------------------------------


def test_search_filter_and_window_stay_when_the_rank_changes():
    explorer = wb.Explorer(RANKS)
    origin = explorer.source.origin_ns
    timeline = explorer.timeline
    timeline.search, timeline.filter = "/nccl/", {"steps": [11], "streams": [7]}
    timeline.window, timeline.selection = [2_000_000, 4_000_000], [2_500_000, 3_500_000]
    explorer.rank.value = 1
    new = explorer.timeline
    assert new is not timeline
    shift = explorer.answers.source.origin_ns - origin
    assert (new.search, new.filter) == ("/nccl/", {"steps": [11], "streams": [7]})
    assert new.window == [2_000_000 - shift, 4_000_000 - shift]
    assert new.selection == [2_500_000 - shift, 3_500_000 - shift]
    assert "the selected range" in explorer.headline
    explorer.load(CPU)  # other times, no such stream; its steps are 1 to 4
    assert explorer.timeline.search == "/nccl/"
    assert explorer.timeline.filter == {}
    assert explorer.timeline.window == explorer.timeline.extent
    assert explorer.state["selection"] is None


def test_lanes_stay_folded_under_their_name_with_or_without_a_rank():
    import traitlets as t

    class Folding(Timeline):
        folded = t.List()

        @t.validate("folded")
        def _known(self, proposal):
            known = [lane["label"] for lane in self.lanes]
            if not set(proposal["value"]) <= set(known):
                raise UsageError("There is no such lane.")
            return proposal["value"]

    job = wb.open(RANKS)
    old, new = Folding(job), Folding(wb.Job((job.ranks[1],)))
    old.folded = ["rank 1 · GPU 1 · stream 7"]
    carry(old, new, 0)
    assert new.folded == ["GPU 1 · stream 7"]
    back = Folding(job)
    carry(new, back, 0)
    assert back.folded == ["rank 1 · GPU 1 · stream 7"]


# ---- a cell that is run again, and a bridge that is missing (cases K61, K62) ----------------


def test_a_panel_that_was_replaced_no_longer_follows_the_launcher(tmp_path):
    launcher = wb.Launcher(tmp_path)
    shown = []

    class Counting(wb.Explorer):
        def _recorded(self, path):
            shown.append(self)
            super()._recorded(path)

    Counting(runs_dir=tmp_path, launcher=launcher)
    newest = Counting(runs_dir=tmp_path, launcher=launcher)
    launcher.last_run = str(tmp_path / "run")
    assert shown == [newest]


# ---- the app --------------------------------------------------------------------------------


def test_the_app_is_one_cell_with_absolute_paths(tmp_path):
    made = app.notebook(tmp_path / "a 'run'", tmp_path / "runs")
    (cell,) = made["cells"]
    assert "import workbench as wb" in cell["source"]
    called = {}
    fake = type("wb", (), {"Explorer": lambda *a, **k: called.update(a=a, k=k)})
    exec(cell["source"].replace("import workbench as wb", ""), {"wb": fake})
    assert called == {"a": (str(tmp_path / "a 'run'"),), "k": {"runs_dir": str(tmp_path / "runs")}}
    assert app.notebook(None, tmp_path)["cells"][0]["source"].endswith(f"runs_dir='{tmp_path}')")


def test_the_app_listens_where_it_is_told(tmp_path):
    asked = app.command(tmp_path / "x.ipynb", lab.Serving("127.0.0.1", 8123, browser=False))
    assert {"--Voila.ip=127.0.0.1", "--port=8123", "--no-browser"} <= set(asked)
    assert "--Voila.auto_token=True" in asked
    usual = app.command(tmp_path / "x.ipynb", lab.Serving())
    assert not any(a.startswith(("--port", "--no-browser")) for a in usual)


def test_without_voila_the_app_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'training-workbench\[app\]'"):
        app.start(None, lab.Serving())


def test_lab_hands_over_its_options(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    ran = []
    monkeypatch.setattr("os.execve", lambda _, command, env: ran.append((command, env)))
    with contextlib.suppress(SystemExit):
        CliRunner().invoke(commands, ["lab", str(tmp_path), "--port", "9001", "--no-browser"])
    ((command, env),) = ran
    assert {"--port=9001", "--no-browser", "--ip=localhost"} <= set(command)
    assert "server_config" in env["JUPYTER_CONFIG_PATH"]
