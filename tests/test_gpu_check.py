"""The check of a GPU node: parts that fail stop nothing, and what comes back is bounded."""

from __future__ import annotations

import importlib.util
import json
import sys
import tarfile
import time
from pathlib import Path

import pytest

from workbench import workloads

ROOT = Path(__file__).parent.parent


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


check, kit = script("gpu_check"), script("gpu_kit")


def part(name, code, limit_s=20.0):
    return check.Part(name, [sys.executable, "-c", code], limit_s)


def run(out, parts, seconds=60.0):
    deadline = time.monotonic() + seconds
    env = check.prepare(out / "no kit", out)
    for each in parts:
        check.run(each, deadline, out, env)
    return {p.name: p.status for p in parts}


def test_parts_that_fail_hang_or_cannot_start_stop_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "GRACE_S", 0.5)
    hung = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    parts = [
        part("fails", "print('why'); raise SystemExit(3)"),
        part("hangs", hung, 1.5),
        check.Part("absent", ["/nowhere/nvidia-smi"], 5),
        check.Part("asks", [sys.executable, "-c", "print(1)"], 5, asks="no such run"),
        part("works", "import workbench; print(workbench.__name__)"),
    ]
    ended = run(tmp_path, parts)
    assert ended == {
        "fails": "exit 3",
        "hangs": "ended after its limit of 2 s",
        "absent": "could not start: No such file or directory",
        "asks": "not run: its recording failed",
        "works": "done",
    }
    assert [p.tail.strip() for p in parts] == ["why", "", "", "", "workbench"]


def test_when_the_time_is_up_the_rest_is_told_not_run(tmp_path):
    late = [part("late", "print(1)")]
    assert run(tmp_path, late, seconds=1) == {"late": "not run: the time was up"}
    check.write_index(tmp_path, late, ["big/rank0.trace.json.gz (90 MB)"])
    index = json.loads((tmp_path / "index.json").read_text())
    assert index["parts"][0]["status"] == "not run: the time was up"
    assert index["left_out"] == ["big/rank0.trace.json.gz (90 MB)"]
    page = (tmp_path / "index.md").read_text()
    assert "| late | not run: the time was up | 0.0 |" in page
    assert "Left out: big/rank0.trace.json.gz (90 MB)." in page


def test_run_folders_are_packed_the_largest_files_left_out_first(tmp_path, monkeypatch):
    # archives of 100 bytes, 200 in all: 150 fits none, 90 + 80 + 40 + 10 = 220 are too many
    monkeypatch.setattr(check, "ARCHIVE_BYTES", 100)
    for name, size in {"a/huge": 150, "a/90": 90, "b/80": 80, "b/40": 40, "c/10": 10}.items():
        file = tmp_path / "runs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    assert check.pack(tmp_path, most=200) == ["a/huge (0 MB)", "a/90 (0 MB)"]
    held = []
    for archive in sorted(tmp_path.glob("runs-*.tar")):
        with tarfile.open(archive) as opened:
            held.append(sorted(opened.getnames()))
    assert held == [["runs/b/80", "runs/c/10"], ["runs/b/40"]]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_every_recording_asks_for_options_that_its_workload_has(tmp_path, device):
    recorded = [p for p in check.parts(tmp_path, device) if p.name.startswith("record")]
    assert len({p.command[4] for p in recorded}) >= 6
    for p in recorded:
        words = p.command[4:]
        given = dict(w.split("=") for w in words if "=" in w)
        preset = words[words.index("--preset") + 1]
        values = {"true": True, "false": False}
        overrides = {k: values.get(v, v) for k, v in given.items()}
        spec = workloads.get(words[0]).resolve(preset, overrides)
        spec.check_run(device=device, ranks=1)


def test_the_kit_names_what_is_pinned_and_neither_torch_nor_a_notebook():
    names = {line.partition("==")[0].lower() for line in kit.pinned()}
    assert {"polars", "polars-runtime-32", "pytest", "typer"} <= names
    assert not names & {"torch", "numba", "jupyterlab", "bokeh", "holoviews"}


def test_a_kit_is_unpacked_and_found_by_the_parts(tmp_path):
    wheels, out = tmp_path / "wheels", tmp_path / "kit"
    wheels.mkdir()
    import zipfile

    with zipfile.ZipFile(wheels / "only_here-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("only_here.py", "answer = 42")
    env = check.prepare(kit.pack(wheels, out), tmp_path / "site")
    found = part("found", "import only_here; print(only_here.answer)")
    check.run(found, time.monotonic() + 60, tmp_path, env)
    assert (found.status, found.tail.strip()) == ("done", "42")
