"""What recordings suffer: killed, starved of disk, hanging, printing without end.

How runs end that are cancelled, that raise, or lose their parent is in test_control.py.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from workbench.capture import CapturePlan, folder, record
from workbench.capture.child.tracing import TorchTracer
from workbench.capture.here import record_here
from workbench.capture.log import HEAD_BYTES, TAIL_BYTES, RunLog
from workbench.errors import CaptureError, UsageError

FAKE = Path(__file__).parent / "fake"
NEVER = 100_000


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@pytest.fixture
def small_disk(tmp_path):
    """Return a function that mounts a disk of some bytes; only root can."""
    mounted = []

    def mount(size):
        place = tmp_path / "disk"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("a small disk can only be mounted by root, on Linux")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


# ---- a full disk --------------------------------------------------------------------------


def test_a_log_that_fills_the_disk_ends_the_run_with_the_fix(start, small_disk, gone):
    disk = small_disk(8 << 20)
    run = start("lines", out=disk / "run")
    assert run.wait(60) == "failed"
    assert "No space left on device; free some space" in run.error
    assert all(gone(pid) for pid in run.pids)
    # Room was kept to write how it ended.
    (found,) = folder.list_runs(disk)
    assert (found.name, found.status) == ("run", "failed")
    assert found.manifest["error"] == run.error


def test_a_trace_without_room_is_no_trace(start, small_disk, monkeypatch):
    monkeypatch.setenv("FAKE_PADDING", str(4 << 20))
    run = start(out=small_disk(3 << 20) / "run")
    assert run.wait(30) == "failed"
    assert "No space left on device; free some space there" in run.error
    assert not list(run.path.glob("*.trace*"))
    assert not list(run.path.glob(".*"))
    assert folder.read(run.path).status == "failed"


def test_a_trace_that_the_profiler_could_not_write_names_the_free_space(start, monkeypatch):
    monkeypatch.setenv("FAKE_EXPORT", "nothing")
    run = start()
    assert run.wait(20) == "failed"
    assert re.search(
        r"The trace can't be written into .*: [\d,]+ MB are free; free some", run.error
    )


def test_a_disk_that_is_full_before_anything_starts(small_disk):
    disk = small_disk(64 << 10)
    (disk / "filler").write_bytes(bytes(64 << 10))
    with pytest.raises(CaptureError, match="No space left on device; free some space there"):
        record(CapturePlan(workload="gpt", out=disk / "new" / "run"))


def test_no_room_for_the_first_file_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "write_manifest", full)
    with pytest.raises(CaptureError, match="No space left on device; free some space"):
        record(CapturePlan(workload="gpt", out=tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []


# ---- folders ------------------------------------------------------------------------------


def test_an_unwritable_folder_is_refused_with_the_fix(tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    runs.mkdir(mode=0o500)
    was = os.geteuid()
    if was == 0:  # nothing is unwritable for root
        os.seteuid(65534)
    try:
        with pytest.raises(UsageError, match="Permission denied; record into another folder"):
            record(CapturePlan(workload="gpt", runs_dir=runs))
    finally:
        os.seteuid(was)
    assert list(runs.iterdir()) == []


def test_a_run_folder_that_is_taken_away_ends_the_run(start, tmp_path, gone):
    run = start(untraced=NEVER)
    assert until(lambda: run.progress.phase == "untraced")
    run.path.rename(tmp_path / "elsewhere")
    run.cancel()
    assert run.wait(20) == "failed"
    assert all(gone(pid) for pid in run.pids)
    assert "can't be written: No such file or directory" in run.error


def test_a_name_that_was_taken_meanwhile_is_not_overwritten(start, tmp_path):
    run = start(untraced=NEVER)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    run.cancel()
    assert run.wait(20) == "failed"
    assert "Directory not empty" in run.error
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["mine.txt"]
    assert folder.read(run.path).status == "interrupted"
    folder.delete(tmp_path, "run")
    assert (tmp_path / "run" / "mine.txt").exists()


def test_two_runs_at_once_keep_apart(start, tmp_path):
    one = start("first", untraced=200, out=tmp_path / "one")
    two = start("second", untraced=200, out=tmp_path / "two")
    with pytest.raises(UsageError, match="is being recorded already"):
        start(out=tmp_path / "one")
    assert {i.name: i.status for i in folder.list_runs(tmp_path)} == {
        "one": "running",
        "two": "running",
    }
    assert (one.wait(30), two.wait(30)) == ("done", "done")
    for run, word in ((one, "first"), (two, "second")):
        assert run.manifest["command"][-1] == word
        assert [row["pid"] for row in run.manifest["processes"]] == [*run.pids]
        assert (run.path / "rank0.trace.json.gz").exists()


# ---- killed and hanging -------------------------------------------------------------------


def test_a_rank_killed_from_outside_while_it_writes_leaves_no_trace_of_its_own(
    start, monkeypatch, gone
):
    monkeypatch.setenv("FAKE_EXPORT_S", "60")
    run = start(ranks=2)
    assert until((run.path / ".rank1.trace.json").exists)
    os.kill(run.pids[1], signal.SIGKILL)
    assert run.wait(20) == "failed"
    assert "Rank 1 was killed by SIGKILL" in run.error
    assert all(gone(pid) for pid in run.pids)
    assert sorted(p.name for p in run.path.iterdir()) == ["log.txt", "run.json", "telemetry.csv"]


def test_what_a_killed_kernel_leaves_can_be_deleted_and_recorded_again(start, tmp_path, gone):
    code = f"""
import time
from pathlib import Path
from workbench.capture import CapturePlan, record
run = record(CapturePlan(script=Path({str(FAKE / "loop.py")!r}), arguments=("9",), steps=1,
                         warmup=1, untraced=1, out=Path({str(tmp_path / "run")!r})))
while not (run.path / ".rank0.trace.json").exists():
    time.sleep(0.02)
print(*run.pids, flush=True)
time.sleep(600)
"""
    env = {**os.environ, "PYTHONPATH": f"{FAKE}:{Path.cwd()}", "FAKE_EXPORT_S": "60"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=env, text=True
    ) as kernel:
        (pid,) = (int(word) for word in kernel.stdout.readline().split())
        kernel.kill()
    assert until(lambda: gone(pid))
    (left,) = folder.list_runs(tmp_path)
    assert (left.name, left.status) == ("run", "interrupted")
    with pytest.raises(UsageError, match=r"was interrupted: .* delete that folder first"):
        start()
    folder.delete(tmp_path, "run")
    assert start().wait(20) == "done"


def test_a_script_that_hangs_before_its_first_step_and_hears_nothing(start, gone):
    run = start("ignore-sigterm", "deaf", timeout_s=1.5)
    assert run.wait(30) == "failed"
    assert "longer than its timeout of 1.5 s" in run.error
    assert "its output ends: waiting for a lock" in run.error
    assert all(gone(pid) for pid in run.pids)


# ---- output -------------------------------------------------------------------------------


def test_output_that_is_no_utf8_is_kept_readable(start):
    run = start("bytes", "odd", untraced=NEVER)
    assert run.wait(20) == "failed"
    assert (run.path / "log.txt").read_text("utf-8").startswith("caf\ufffd \ufffd\0 \ufffd\n")
    assert run.error == "ValueError: no file caf\udce9"
    assert folder.read(run.path).manifest["error"] == run.error


def test_a_million_lines_take_bounded_room(start):
    before = psutil.Process().memory_info().rss
    run = start("lines")
    assert run.wait(120) == "done"
    text = (run.path / "log.txt").read_bytes()
    # a million lines of 42 to 47 bytes are 46 MB
    assert len(text) <= HEAD_BYTES + TAIL_BYTES + 100
    lines = text.split(b"\n")
    assert lines[0] == b"line 0 of a script that prints very much"
    assert lines[-3] == b"line 999999 of a script that prints very much"
    assert lines[-2] == b"stdin holds ''"
    assert sum(line.endswith(b"lines left out]") for line in lines) == 1
    assert psutil.Process().memory_info().rss - before < 64 << 20


def test_a_log_keeps_its_first_and_last_lines(tmp_path):
    # Each line is 2 bytes: a and b fill the head, the last 4 bytes are y and z.
    with RunLog(tmp_path / "log.txt", head=5, tail=4) as log:
        log.write(["a", "b", "c", "d"])
        log.write(["y", "z"])
    assert (tmp_path / "log.txt").read_text() == "a\nb\n[2 lines left out]\ny\nz\n"


def test_a_log_that_fits_is_as_it_was_printed(tmp_path):
    with RunLog(tmp_path / "log.txt", head=5, tail=4) as log:
        log.write(["a", "b", "\udce9", "d"])
    assert (tmp_path / "log.txt").read_text() == "a\nb\n?\nd\n"


# ---- in the process of a notebook ----------------------------------------------------------


def full(*_args, **_options):
    raise OSError(28, "No space left on device")


def here(out):
    return record_here(CapturePlan(code="x", steps=1, out=out), lambda: None, lambda _: None)


def test_a_cell_without_room_for_the_first_file_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "write_manifest", full)
    with pytest.raises(CaptureError, match="No space left on device; free some space"):
        here(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_cell_whose_trace_has_no_room_leaves_a_failed_run(tmp_path, monkeypatch):
    monkeypatch.setattr(TorchTracer, "advance", full)
    with pytest.raises(CaptureError, match="No space left on device; free some space") as error:
        here(tmp_path / "run")
    found = folder.read(tmp_path / "run")
    assert (found.status, found.manifest["error"]) == ("failed", str(error.value))


def test_a_cell_whose_folder_can_not_be_closed_is_told(tmp_path, monkeypatch):
    kept, writes = folder.write_manifest, []

    def once(*args):
        writes.append(args)
        return kept(*args) if len(writes) == 1 else full()

    monkeypatch.setattr(folder, "write_manifest", once)
    with pytest.raises(CaptureError, match="No space left on device; free some space"):
        here(tmp_path / "run")
    assert [p.name for p in tmp_path.iterdir()] == [".run.partial"]


def test_an_error_of_the_cell_itself_is_the_cells(tmp_path):
    def body():
        raise FileNotFoundError(2, "No such file or directory", "data.csv")

    plan = CapturePlan(code="x", steps=1, out=tmp_path / "run")
    with pytest.raises(FileNotFoundError, match=r"data\.csv"):
        record_here(plan, body, lambda _: None)
    assert "FileNotFoundError" in folder.read(tmp_path / "run").manifest["error"]
