"""What a recording keeps beside its trace, and what it writes down of where it ran."""

import json
import subprocess

import pytest

from workbench.capture import CapturePlan, manifest
from workbench.capture.child.extras import MOST_FRAMES, NO_ALLOCATOR
from workbench.capture.child.job import packages
from workbench.capture.variables import LONGEST, NAMES, relevant
from workbench.errors import UsageError


def names(run):
    return {path.name for path in run.path.iterdir()}


def read(run, name):
    return json.loads((run.path / name).read_text())


def test_a_run_keeps_only_its_trace_unless_told(start):
    run = start()
    assert run.wait(20) == "done", run.error
    assert names(run) == {"log.txt", "rank0.trace.json.gz", "run.json", "telemetry.csv"}


def test_an_execution_trace_and_the_history_of_a_gpus_allocator(start, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA", "12.4")
    run = start(memory_history=True, execution_trace=True, device="cuda")
    assert run.wait(20) == "done", run.error
    assert {"rank0.et.json", "rank0.memory.json"} <= names(run)
    assert read(run, "rank0.et.json")["nodes"] == []
    text = (run.path / "rank0.memory.json").read_text()
    assert text.startswith('{"segments": []')
    kept = json.loads(text)
    assert kept["history"] == "all"  # the snapshot came before the history ended
    assert [f["line"] for f in kept["device_traces"][0][0]["frames"]] == list(range(MOST_FRAMES))


def test_without_a_gpu_the_history_is_left_out_with_a_note(start):
    run = start(memory_history=True)
    assert run.wait(20) == "done", run.error
    assert "rank0.memory.json" not in names(run)
    assert NO_ALLOCATOR in [note["message"] for note in run.manifest["notes"]]


def test_a_history_of_the_cpu_is_refused_with_both_names():
    with pytest.raises(UsageError, match="memory_history=True and device=cpu"):
        CapturePlan(workload="gpt", device="cpu", memory_history=True)


def test_variables_are_those_of_the_list_alone():
    here = {
        "OMP_NUM_THREADS": "2",
        "HF_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HOME": "/h",
    }
    assert relevant(here | {"NCCL_DEBUG": "y" * 999}) == {
        "NCCL_DEBUG": "y" * LONGEST,
        "OMP_NUM_THREADS": "2",
    }


def test_no_name_on_the_list_sounds_like_a_secret_a_path_or_a_host():
    words = ("TOKEN", "SECRET", "KEY", "PASS", "HOME", "PATH", "DIR", "ADDR", "HOST", "USER", "URL")
    assert not [n for n in NAMES for word in words if word in n and n != "TOKENIZERS_PARALLELISM"]


def test_a_run_writes_variables_and_packages_down(start, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MY_TOKEN", "abc-secret")
    run = start()
    assert run.wait(20) == "done", run.error
    content = read(run, "run.json")
    assert content["variables"]["OMP_NUM_THREADS"] == "3"
    assert content["packages"]["polars"].count(".") >= 1
    assert "abc-secret" not in json.dumps(content)


def test_packages_by_the_folders_that_name_them(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first / "My_Tool-1.0.dist-info", second / "my_tool-0.9.dist-info",
                   second / "old-2.1-py3.11.egg-info", second / "nothing"):  # fmt: skip
        folder.mkdir(parents=True)
    assert packages([str(first), str(second), "/nowhere"]) == {"my-tool": "1.0", "old": "2.1"}


def test_git_is_that_of_the_script(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=b"]
    (tmp_path / "train.py").write_text("x = 1\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "train.py").write_text("x = 2\n")
    found = manifest.begin(CapturePlan(script=tmp_path / "train.py"))["git"]
    told = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert found == {"revision": told.stdout.strip(), "dirty": True}
