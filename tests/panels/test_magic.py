"""`%%record` in a notebook's shell: in the kernel with the real torch, in a child with the fake."""

import gzip
import json
import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from workbench.capture import folder, list_runs
from workbench.panels import magic
from workbench.panels.recording import Recording
from workbench.panels.watched import WITHOUT_KERNEL

FAKE = Path(__file__).parents[1] / "capture" / "fake"


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    made = InteractiveShell.instance(config=config)
    made.run_cell("%load_ext workbench")
    yield made
    InteractiveShell.clear_instance()


def only_run():
    (run,) = list_runs(Path("runs"))
    return run


def last(shell):
    return shell.find_line_magic("record_last").__self__.last


@pytest.mark.slow
def test_a_cell_is_the_body_of_a_step_and_the_run_is_shown(shell, capsys):
    shell.run_cell("import torch\nn, x = 0, torch.ones(8, 8)")
    done = shell.run_cell("%%record --name my-cell --steps 2\nn += 1\ny = x @ x\nprint('run', n)")
    assert done.success
    # once before anything is timed, 3 of warm-up, 3 untraced, 1 of the profiler's, 2 traced
    assert shell.user_ns["n"] == 1 + 3 + 3 + 1 + 2
    out = capsys.readouterr().out
    assert re.findall(r"^run.*$", out, re.MULTILINE) == ["run 1"]
    assert out.splitlines()[-2:] == ["Recorded 2 steps; the cell ran 10 times.", "Explorer()"]
    run = only_run()
    assert run.status == "done"
    assert run.name.startswith("my-cell-")
    assert sorted(p.name for p in run.path.iterdir()) == [
        "cell.py",
        "log.txt",
        "rank0.trace.json.gz",
        "run.json",
    ]
    assert "y = x @ x" in (run.path / "cell.py").read_text()
    phases = [step["phase"] for step in run.manifest["steps"]]
    assert phases == ["warmup"] * 3 + ["untraced"] * 3 + ["prepare"] + ["traced"] * 2
    trace = json.loads(gzip.decompress((run.path / "rank0.trace.json.gz").read_bytes()))
    assert sum(event["name"] == "aten::mm" for event in trace["traceEvents"]) == 2
    assert "USDT" not in (run.path / "log.txt").read_text()
    shell.run_cell("%record_last")
    assert capsys.readouterr().out.splitlines() == ["Explorer()"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "kind"), [(1, "1 / 0"), (9, "1 / 0"), (4, "raise KeyboardInterrupt")]
)
def test_what_a_cell_raises_is_its_own_traceback_and_an_ended_run(shell, capsys, at, kind):
    shell.run_cell("n = 0")
    done = shell.run_cell(f"%%record\nn += 1\nif n == {at}:\n    {kind}")
    assert not done.success
    assert shell.user_ns["n"] == at
    text = "".join(capsys.readouterr())
    assert f"The cell ended in run {at}," in text
    assert f"----> 4     {kind}" in text
    assert "here.py" not in text
    assert "magic.py" not in text
    run = only_run()
    assert run.status == ("failed" if "1 / 0" in kind else "cancelled")
    assert ("ZeroDivisionError" if "1 / 0" in kind else "Keyboard") in run.manifest["error"]
    assert not list(run.path.glob("*.gz"))
    # The profiler is free again.
    assert shell.run_cell("%%record --warmup 0 --untraced 0 --steps 1\nn += 1").success


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("%%record --steps -3\nx = 1", "steps=-3 is not a whole number of at least 1."),
        ("%%record --stepz 3\nx = 1", "unrecognized arguments: --stepz 3"),
        ("%%record --device gpu\nx = 1", "device='gpu' is not auto, cpu, cuda or cuda:N."),
        ("%%record\n\n", "needs a cell to record"),
        ("%record_last", magic.NOTHING_YET),
        ("%record_last 3", "takes nothing; '3' is too much"),
    ],
)
def test_a_wrong_line_is_a_sentence_and_no_run(shell, capsys, cell, sentence):
    shell.run_cell(cell)
    text = "".join(capsys.readouterr())
    assert sentence in text
    assert "Traceback" not in text
    assert not Path("runs").exists()


def test_a_cell_that_is_no_python_leaves_no_run(shell, capsys):
    assert not shell.run_cell("%%record\nx = = 1").success
    said = "".join(capsys.readouterr())
    assert re.search(r"line .*2\S*\n +\S*x = = .*\n.*SyntaxError: invalid syntax", said, re.DOTALL)
    assert said.splitlines()[-1].endswith("The cell is not Python, so nothing was recorded.")
    assert "magic.py" not in said
    assert not Path("runs").exists()


def test_a_cell_in_a_child_is_a_script_of_its_own(shell, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    cell = (FAKE / "loop.py").read_text().replace("*tricks = sys.argv[1:]", "*tricks = ['99']")
    shell.run_cell(f"%%record --child --name loop --warmup 1 --untraced 1 --steps 1\n{cell}")
    panel = last(shell)
    assert isinstance(panel, Recording)
    panel.run.wait(60)
    assert (panel.state, panel.run.status) == ("done", "done")
    assert panel.message.startswith("done: loop-")
    assert panel.children[-1] is panel.explorer
    assert capsys.readouterr().out.splitlines()[-2:] == ["Recording()", WITHOUT_KERNEL]
    assert (folder.read(panel.run.path).path / "cell.py").exists()


def test_a_run_in_a_child_can_be_cancelled_and_a_failed_one_says_why(shell, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    shell.run_cell("%%record --child\nimport time\nprint('here')\ntime.sleep(600)")
    panel = last(shell)
    panel.cancel()
    panel.run.wait(60)
    assert panel.state == "cancelled"
    assert "was cancelled in phase" in panel.message
    shell.run_cell("%%record --child\n1 / 0")
    last(shell).run.wait(60)
    assert last(shell).message == "failed: ZeroDivisionError: division by zero"
    assert last(shell).explorer is None
