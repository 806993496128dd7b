"""The launcher without a browser: the form, a run told by a fake, and one real tiny recording."""

import asyncio
import threading
from pathlib import Path

import pytest

import workbench as wb
from workbench.capture import Progress
from workbench.errors import CaptureError, UsageError
from workbench.panels.inbox import Inbox
from workbench.panels.launcher import stage


class FakeRun:
    """A run that does what the test says."""

    def __init__(self, plan, on_event):
        self.plan, self.tell = plan, on_event
        self.path = Path(plan.runs_dir) / "gpt-run"
        self.cancelled = 0
        self.manifest = {"device": "cpu", "device_reason": None, "steps": steps(20, 10)}

    def log_tail(self, n):
        return "line <1>"

    def cancel(self):
        self.cancelled += 1


def steps(traced_ms, untraced_ms):
    rows = [("traced", traced_ms)] * 2 + [("untraced", untraced_ms)] * 2
    return [
        {"phase": phase, "dur_ns": ms * 10**6, "index": i} for i, (phase, ms) in enumerate(rows)
    ]


@pytest.fixture
def launcher(tmp_path):
    return wb.Launcher(tmp_path, recorder=FakeRun)


def test_the_form_is_the_spec(launcher):
    values = launcher.values
    assert (values["workload"], values["preset"], values["layers"]) == ("gpt", "tiny", 2)
    assert values["learning_rate"] == 3e-4
    assert launcher.plan().overrides == ()
    launcher.set(preset="small")
    assert launcher.values["hidden"] == 1024
    assert launcher.plan().overrides == ()
    launcher.set(layers=3, recompute="full", learning_rate=0.5, steps=7, ranks=2)
    plan = launcher.plan()
    assert dict(plan.overrides) == {"layers": 3, "recompute": "full", "learning_rate": 0.5}
    assert (plan.preset, plan.steps, plan.ranks) == ("small", 7, 2)


def test_a_wrong_form_is_one_sentence_at_once(launcher):
    assert (launcher.state, launcher.message) == ("idle", "ready")
    launcher.set(heads=3)
    assert launcher.state == "invalid"
    assert launcher.message.startswith("hidden=128 is not divisible by heads=3")
    assert launcher.record() is None
    launcher.set(heads="four")
    assert launcher.message == "heads='four' is not a whole number."
    launcher.set(heads=4, steps=0)
    assert launcher.message == "steps=0 is not a whole number of at least 1."
    launcher.set(steps=5)
    assert launcher.state == "idle"


def test_unknown_names_suggest_the_nearest(launcher):
    with pytest.raises(UsageError, match="did you mean layers"):
        launcher.set(layer=2)
    with pytest.raises(UsageError, match="no recompute named 'fully'; did you mean full"):
        launcher.set(recompute="fully")
    with pytest.raises(UsageError, match="did you mean tiny"):
        launcher.set(preset="tinny")


def test_progress_then_done(launcher):
    seen = []
    launcher.observe(lambda change: seen.append(change["new"]), "last_run")
    run = launcher.record()
    assert (launcher.state, launcher.message) == ("running", "starting")
    run.tell(Progress(0, "warmup", step=3, of=10, seconds=0.0452))
    assert launcher.message == "warm-up, step 3 of 10, 45.2 ms a step"
    assert "line &lt;1&gt;" in launcher._log.value
    assert launcher.record() is run  # a second press while it runs starts nothing
    run.tell(Progress(0, "done"))
    assert launcher.state == "done"
    assert launcher.message == (
        "gpt-run on cpu; 2 traced steps, median 20 ms, +100 % against untraced steps"
    )
    assert seen == [str(run.path)]


def test_what_makes_a_run_doubtful_is_named_as_it_ends(launcher, tmp_path):
    run = launcher.record()
    run.path = tmp_path
    (tmp_path / "run.json").write_text('{"schema_version": 1, "lost": {"buffers_full": 1}}')
    run.tell(Progress(0, "done"))
    assert launcher.message.endswith("; see the tab Problems: records lost")


def test_cancel_and_failure(launcher):
    run = launcher.record()
    launcher.cancel()
    launcher.cancel()
    assert run.cancelled == 2
    run.tell(Progress(0, "cancelled", message="The recording was cancelled in phase setup."))
    assert (launcher.state, launcher.last_run) == ("cancelled", str(run.path))
    again = launcher.record()
    assert launcher.state == "running"
    again.tell(Progress(0, "failed", message="Rank 0 ended with <code> 1."))
    assert (launcher.state, launcher.message) == ("failed", "Rank 0 ended with <code> 1.")
    assert "&lt;code&gt;" in launcher._status.value
    launcher.cancel()  # nothing runs: nothing happens
    assert again.cancelled == 0


def test_a_run_that_cannot_start_says_why(tmp_path):
    def refuse(plan, on_event):
        raise CaptureError("No process can be started.")

    launcher = wb.Launcher(tmp_path, recorder=refuse)
    assert launcher.record() is None
    assert (launcher.state, launcher.message) == ("invalid", "No process can be started.")


def test_a_run_that_ends_before_record_returns(tmp_path):
    def at_once(plan, on_event):
        run = FakeRun(plan, on_event)
        on_event(Progress(0, "failed", message="gone"))
        return run

    launcher = wb.Launcher(tmp_path, recorder=at_once)
    launcher.record()
    assert launcher.state == "failed"


def test_stage_moves_forward_through_the_phases():
    order = [("start", None), ("setup", None), ("warmup", 1), ("warmup", 10), ("untraced", 1),
             ("prepare", None), ("traced", 1), ("traced", 5), ("export", None)]  # fmt: skip
    shares = [stage(Progress(0, name, step=k, of=k and 10))[1] for name, k in order]
    assert shares == sorted(shares)
    assert stage(Progress(0, "traced", step=5, of=10))[1] == pytest.approx(0.825)  # 0.75..0.9
    now = Progress(0, "warmup", step=5, of=10, seconds=0.05, loss=2.3456)
    assert stage(now)[0] == "warm-up, step 5 of 10, 50 ms a step, loss 2.346"


def test_the_text_form_says_nothing_that_changes(launcher):
    launcher.record()
    assert repr(launcher) == "Launcher()"


def test_inbox_delivers_on_the_loop_throttled_and_never_loses_the_last():
    told, delivered, threads = [], [], set()

    async def main():
        def deliver():
            delivered.append(len(told))
            threads.add(threading.current_thread())

        inbox = Inbox(deliver, every_s=0.05)

        def talk():
            for i in range(200):
                told.append(i)
                inbox.call()

        thread = threading.Thread(target=talk)
        thread.start()
        await asyncio.to_thread(thread.join)
        await asyncio.sleep(0.2)

    asyncio.run(main())
    assert threads == {threading.main_thread()}
    assert delivered[-1] == 200
    assert len(delivered) < 100


@pytest.mark.slow
def test_a_real_recording_opens_in_the_explorer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    launcher = wb.Launcher("runs")
    explorer = wb.Explorer(runs_dir="runs", launcher=launcher)
    assert explorer.notes == (
        "There is no run to show yet: record one, or open a trace with Explorer(path).",
    )
    launcher.set(seq=16, warmup=1, untraced=1, steps=2, device="cpu")
    assert launcher.record().wait(120) == "done"
    assert launcher.state == "done"
    assert explorer.headline.startswith("window ")
    assert explorer.frames["steps"].height == 2
    assert explorer.answers.source.ranks[0].meta.path.parent == Path(launcher.last_run)


@pytest.mark.slow
def test_a_real_recording_under_a_loop_is_cancelled(tmp_path):
    async def main():
        launcher = wb.Launcher(tmp_path)
        launcher.set(steps=1000, device="cpu")
        launcher.record()
        ended, stepping = asyncio.Event(), asyncio.Event()
        launcher.observe(lambda _: ended.set(), "last_run")
        launcher._bar.observe(lambda _: stepping.set(), "value")
        await stepping.wait()
        launcher.cancel()
        await ended.wait()
        return launcher

    launcher = asyncio.run(asyncio.wait_for(main(), 120))
    assert launcher.state == "cancelled"
    assert "was cancelled in phase" in launcher.message
