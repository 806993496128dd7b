"""How recordings end, on a torch that starts at once (tests/capture/fake)."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from workbench.capture import CapturePlan, folder, record
from workbench.errors import CaptureError

FAKE = Path(__file__).parent / "fake"
NEVER = 100_000


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def manifest(run):
    return json.loads((run.path / "run.json").read_text())


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_a_script_is_recorded_until_its_trace_is_written(start):
    run = start("a b", "--token=x", untraced=2, steps=3)
    assert run.wait(30) == "done"
    assert names(run.path) == ["log.txt", "rank0.trace.json.gz", "run.json", "telemetry.csv"]
    content = manifest(run)
    assert content["status"] == "done"
    assert [s["phase"] for s in content["steps"]] == [
        "warmup",
        "untraced",
        "untraced",
        "prepare",
        "traced",
        "traced",
        "traced",
    ]
    assert all(step["dur_ns"] > 0 for step in content["steps"])
    assert content["command"][1:] == [str(FAKE / "loop.py"), "100000", "a b", "--token=***"]
    assert (run.path / "log.txt").read_text() == "stdin holds ''\n"
    assert run.error is None
    assert repr(run) == "Run(loop, done)"


def test_record_returns_at_once_and_a_run_in_progress_is_listed_as_running(start, tmp_path):
    run = start(untraced=NEVER)
    assert run.status == "running"
    assert run.path.name == ".run.partial"
    assert [(i.name, i.status) for i in folder.list_runs(tmp_path)] == [("run", "running")]
    assert run.wait(0.01) == "running"


@pytest.mark.parametrize("phase", ["setup", "warmup", "untraced", "traced", "export"])
def test_cancel_at_each_stage(start, monkeypatch, phase, gone):
    monkeypatch.setenv("FAKE_EXPORT_S", "60")
    seen, started = [], threading.Event()

    def cancel(progress):
        started.wait(20)
        if progress.rank:  # the phase of a run is that of its rank 0; the others may be ahead
            return
        seen.append(progress.phase)
        if progress.phase == phase and seen.count(phase) == 1:
            run.cancel()

    endless = {"untraced": NEVER} if phase in ("setup", "untraced") else {}
    endless |= {"steps": NEVER} if phase == "traced" else {}
    # Two ranks of a script take the limit of warm-up, whether times are stable or not.
    endless |= {"warmup": NEVER, "ranks": 2} if phase == "warmup" else {}
    run = start("helper", on_event=cancel, **endless)
    started.set()
    assert run.wait(30) == "cancelled"
    assert names(run.path) == ["log.txt", "run.json", "telemetry.csv"]
    assert manifest(run)["status"] == "cancelled"
    assert f"cancelled in phase {phase}" in run.error
    assert seen[-2:] == [phase, "cancelled"]
    assert all(gone(pid) for pid in run.pids)


def test_a_child_that_ignores_sigterm_is_killed_with_what_it_started(start, gone):
    run = start("ignore-sigterm", "helper", untraced=NEVER)
    assert until(lambda: run.progress.phase == "untraced")
    helper = int(run.log_tail().split()[1])
    assert not gone(helper)
    run.cancel()
    assert run.wait(20) == "cancelled"
    assert gone(helper)
    assert all(gone(pid) for pid in run.pids)


def test_what_a_finished_child_leaves_behind_is_ended(start, gone):
    run = start("helper")
    assert run.wait(20) == "done"
    assert gone(int(run.log_tail().split()[1]))


def test_a_script_that_raises_gives_the_last_line_of_its_traceback(start):
    run = start("raise", untraced=NEVER)
    assert run.wait(20) == "failed"
    assert run.error == "ValueError: loss is nan"
    assert manifest(run)["error"] == "ValueError: loss is nan"
    assert "Traceback" in (run.path / "log.txt").read_text()


@pytest.mark.parametrize(
    ("tricks", "loop", "words"),
    [
        (("exit",), 9, "SystemExit: 3"),
        (("vanish",), 9, "ended with exit code 0 before its trace was written"),
        (("dieNone",), 9, "killed by SIGKILL, perhaps by the system for want of memory"),
        ((), 0, "without a training step"),
        ((), 4, "ended after 4 optimiser steps, and this recording needs up to 5"),
    ],
)
def test_a_script_that_ends_early_says_how(start, tricks, loop, words):
    run = start(*tricks, loop=loop)
    assert run.wait(20) == "failed"
    assert words in run.error


def test_as_many_steps_as_the_message_asks_for_are_enough(start):
    # one to start with, 1 warm-up, 1 untraced, 1 for the profiler, 1 traced
    assert start(loop=5).wait(20) == "done"


def test_a_script_that_swallows_the_end_is_ended_all_the_same(start):
    assert start("stubborn").wait(20) == "done"


def test_a_trace_without_a_step_is_a_failure(start, monkeypatch):
    monkeypatch.setenv("FAKE_STEP", "nothing")
    run = start()
    assert run.wait(20) == "failed"
    assert "without a training step" in run.error
    assert "rank0.trace.json.gz" not in names(run.path)


def test_a_timeout_is_a_failure_that_names_the_phase(start, gone):
    run = start(untraced=NEVER, timeout_s=1.5)
    assert run.wait(20) == "failed"
    assert "its timeout of 1.5 s" in run.error
    assert all(gone(pid) for pid in run.pids)


@pytest.mark.parametrize(
    ("trick", "words"),
    [
        ("die1", ["Rank 1 was killed by SIGKILL", "about to die"]),
        ("raise1", ["Rank 1 failed: ValueError: loss is nan", "its output ends"]),
    ],
)
def test_a_rank_that_dies_brings_down_the_others_and_is_named(start, trick, words, gone):
    run = start(trick, ranks=2, untraced=NEVER)
    assert run.wait(20) == "failed"
    assert all(word in run.error for word in words)
    assert all(gone(pid) for pid in run.pids)
    assert "[rank0] stdin holds ''" in (run.path / "log.txt").read_text()


def test_traces_that_were_whole_when_a_rank_was_lost_are_kept_and_the_loss_is_told(start):
    run = start("late1", ranks=3)
    assert run.wait(30) == "failed"
    assert run.error.startswith("Rank 1 was killed by SIGKILL")
    assert run.error.endswith("; the traces of ranks 0, 2 are kept.")
    assert {"rank0.trace.json.gz", "rank2.trace.json.gz"} <= set(names(run.path))


def test_ranks_of_a_script_each_leave_a_trace(start):
    run = start(ranks=2)
    assert run.wait(20) == "done"
    assert {"rank0.trace.json.gz", "rank1.trace.json.gz"} <= set(names(run.path))
    content = manifest(run)
    assert {row["rank"] for row in content["processes"]} == {0, 1}
    assert content["warmup"]["detected"] is False


def test_a_killed_parent_leaves_no_orphan_and_the_run_reads_as_interrupted(tmp_path, gone):
    code = f"""
import sys, time
sys.path.insert(0, {str(FAKE.parent)!r})
from pathlib import Path
from workbench.capture import CapturePlan, record
run = record(CapturePlan(script=Path({str(FAKE / "loop.py")!r}), ranks=2, untraced={NEVER},
                         arguments=("{NEVER}", "helper", "ignore-sigterm"),
                         out=Path({str(tmp_path / "run")!r})))
while run.log_tail().count("stdin") < 2:
    time.sleep(0.02)
print(*run.pids, *(line.split()[2] for line in run.log_tail().splitlines() if "helper" in line))
sys.stdout.flush()
time.sleep(600)
"""
    env = {**os.environ, "PYTHONPATH": str(FAKE)}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=env, text=True
    )
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 4
    assert not any(gone(pid) for pid in pids)
    assert folder.read(tmp_path / ".run.partial").status == "running"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert until(lambda: all(gone(pid) for pid in pids))
    assert folder.read(tmp_path / ".run.partial").status == "interrupted"
    assert not (tmp_path / "run").exists()


def test_a_parent_that_just_ends_cancels_its_runs(tmp_path):
    code = f"""
from pathlib import Path
from workbench.capture import CapturePlan, record
record(CapturePlan(script=Path({str(FAKE / "loop.py")!r}), untraced={NEVER},
                   arguments=("{NEVER}",), out=Path({str(tmp_path / "run")!r})))
"""
    env = {**os.environ, "PYTHONPATH": str(FAKE)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, timeout=30)
    assert folder.read(tmp_path / "run").status == "cancelled"


def test_a_listener_that_raises_does_not_end_the_run(start, capsys):
    def listen(progress):
        raise RuntimeError("listener")

    assert start(on_event=listen).wait(20) == "done"
    assert "listener" in capsys.readouterr().err


def test_a_python_that_is_none_leaves_nothing_behind(tmp_path):
    fake = tmp_path / "python"
    fake.write_text("no program")
    fake.chmod(0o755)
    plan = CapturePlan(workload="gpt", python=fake, runs_dir=tmp_path / "runs")
    with pytest.raises(CaptureError, match="cannot be started"):
        record(plan)
    assert names(tmp_path / "runs") == []


def test_auto_takes_the_gpu_that_torch_sees(start, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA", "12.8")
    run = start(device="auto", steps=2)
    assert run.wait(20) == "done"
    content = manifest(run)
    assert (content["device"], content["device_reason"]) == ("cuda:0", None)
    assert content["devices"][1] == {"index": 1, "name": "Fake 1", "total_memory": 7, "uuid": 1}
    # An event of the fake is 1 ms after the one before it.
    assert {step["dur_ns"] for step in content["steps"]} == {1_000_000}


def test_a_gpu_that_is_not_there_is_one_sentence(start, monkeypatch):
    run = start(device="cuda")
    assert run.wait(20) == "failed"
    assert "torch sees 0 GPUs, and rank 0 of 1 needs cuda:0" in run.error
    monkeypatch.setenv("FAKE_CUDA", "12.8")
    run = start(device="cuda:2", out=run.path.with_name("again"))
    assert run.wait(20) == "failed"
    assert "torch sees 2 GPUs" in run.error


def test_a_python_without_torch_is_one_sentence(start, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(FAKE / "no_torch"))
    run = start()
    assert run.wait(20) == "failed"
    assert run.error.startswith(f"torch cannot be imported by {sys.executable}")
    assert "--python" in run.error
