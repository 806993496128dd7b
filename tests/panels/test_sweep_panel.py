"""A sweep shown in a notebook, without a browser."""

from __future__ import annotations

import threading

import pytest

from workbench.capture import Progress, folder, sweeping
from workbench.capture.sweeping import sweep
from workbench.panels.sweep import SweepPanel

MS = {"1": 100, "2": 150}


class Held:
    """Stands in for a run: goes on until the test lets it end."""

    def __init__(self, plan, on_event):
        self.plan, self.tell, self.error = plan, on_event, None
        self.progress = Progress(0, "start")
        self.go, self.end = threading.Event(), "done"

    def wait(self):
        assert self.go.wait(20)
        if self.end == "done":
            self.plan.out.mkdir(parents=True)
            ns = MS[str(dict(self.plan.overrides)["batch"])] * 10**6
            steps = [{"rank": 0, "index": 0, "phase": "untraced", "dur_ns": ns}]
            told = {"schema_version": 1, "status": "done", "plan": {"ranks": 1}, "steps": steps}
            folder.write_manifest(self.plan.out, told)
        return self.end

    def cancel(self):
        self.end, self.error = "cancelled", "The recording was cancelled."
        self.go.set()

    def at(self, phase, step, of):
        self.progress = Progress(0, phase, step, of)
        self.tell(self.progress)


@pytest.fixture
def held(monkeypatch, tmp_path):
    """A sweep of two points whose runs wait; return its panel and a function for its run now."""
    runs, started = [], threading.Semaphore(0)

    def start(plan, on_event):
        runs.append(Held(plan, on_event))
        started.release()
        return runs[-1]

    monkeypatch.setattr(sweeping, "record", start)
    panel = SweepPanel(sweep("gpt", {"batch": ["1", "2"]}, path=tmp_path / "s"))

    def newest():
        assert started.acquire(timeout=20)
        while panel.sweep.current is not runs[-1]:
            pass
        return runs[-1]

    yield panel, newest
    for _ in range(2):
        panel.sweep.cancel()
    panel.sweep.wait(20)


def test_it_shows_each_point_as_it_ends(held):
    panel, newest = held
    first = newest()
    first.at("traced", 1, 2)
    # of 0 points and 0.825 of one, for recording goes from 0.75 to 0.9
    assert panel._bar.value == pytest.approx(0.825 / 2)
    assert panel.message == "0 of 2 combinations: gpt, recording, step 1 of 2"
    first.go.set()
    second = newest()
    second.at("setup", None, None)
    assert panel.message.startswith("1 of 2 combinations")
    assert panel.frame["step_ns"].to_list() == [100e6, None]
    assert "100" in panel.table.html
    second.go.set()
    assert panel.sweep.wait(20) == "done"
    panel.sweep.join(20)
    assert (panel.state, panel._bar.value) == ("done", 1.0)
    assert panel.message == "done: 2 of 2 combinations recorded"
    assert panel._stop.disabled
    assert panel.picture.item("light", 600)["doc"]
    data, _ = panel.sweep._repr_mimebundle_()
    lines = [line.split() for line in data["text/plain"].splitlines()]
    assert lines[1:] == [["batch", "status"], ["1", "done"], ["2", "done"]]
    assert data["text/plain"].startswith("Sweep(gpt, 2 of 2 points, done)\n")
    assert "application/vnd.jupyter.widget-view+json" in data


def test_what_is_shown_while_a_point_is_written_down_is_not_kept(held, monkeypatch):
    panel, newest = held
    write = sweeping.write

    def late(*args):
        panel._show()  # as by an event of the run that has just ended
        write(*args)

    monkeypatch.setattr(sweeping, "write", late)
    for _ in range(2):
        newest().go.set()
    assert panel.sweep.wait(20) == "done"
    panel.sweep.join(20)
    assert panel.frame["status"].to_list() == ["done", "done"]


def test_its_button_ends_the_run_and_the_sweep(held):
    panel, newest = held
    newest()
    panel._stop.click()
    assert panel.sweep.wait(20) == "cancelled"
    panel.sweep.join(20)
    assert panel.message == "cancelled: 0 of 2 combinations recorded"
    assert panel.frame["status"].to_list() == ["cancelled", "waiting"]
    assert "The recording was cancelled." in panel.table.html
