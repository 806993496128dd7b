"""A grid of options, one run each: what is recorded, refused, continued and cancelled."""

from __future__ import annotations

import errno
import json
from types import SimpleNamespace

import pytest

from workbench.capture import folder, sweeping
from workbench.capture.sweep_folder import FILE, frame, read
from workbench.capture.sweeping import sweep
from workbench.errors import InputError, UsageError
from workbench.views import sweep as view

TIMES = {"1": (100, 110, 120), "2": (150, 160, 200)}


class Fake:
    """Stands in for a run: leaves the folder that one of these step times would."""

    def __init__(self, plan, end="done"):
        self.plan, self.end, self.error = plan, end, None if end == "done" else "it broke"

    def wait(self):
        if self.end == "done":
            self.plan.out.mkdir(parents=True)
            ms = TIMES[str(dict(self.plan.overrides)["batch"])]
            steps = [
                {"rank": 0, "index": k, "phase": "untraced", "dur_ns": t * 10**6}
                for k, t in enumerate(ms)
            ]
            told = {"schema_version": 1, "status": "done", "plan": {"ranks": 2}, "steps": steps}
            told |= {"samples_per_step_and_rank": 4, "tokens_per_step_and_rank": None}
            folder.write_manifest(self.plan.out, told)
        return self.end

    def cancel(self):
        self.end, self.error = "cancelled", "Cancelled."


@pytest.fixture
def runs(monkeypatch):
    """The names of what was recorded; `ends` says of points how they end that do not end well."""
    asked = SimpleNamespace(names=[], ends={})

    def start(plan, on_event):
        asked.names.append(plan.out.name)
        return Fake(plan, asked.ends.get(plan.out.name, "done"))

    monkeypatch.setattr(sweeping, "record", start)
    return asked


GRID = {"batch": ["1", "2"], "recompute": ["none", "full"]}
NAMES = [
    "000-batch-1-recompute-none",
    "001-batch-1-recompute-full",
    "002-batch-2-recompute-none",
    "003-batch-2-recompute-full",
]


def test_each_combination_is_recorded_and_measured(runs, tmp_path):
    made = sweep("gpt", GRID, path=f"{tmp_path}/s", ranks=2)
    assert made.wait(20) == "done"
    assert runs.names == NAMES
    found = made.frame()
    assert found.columns[:3] == ["batch", "recompute", "status"]
    row = found.row(2, named=True)
    # 150, 160 and 200 ms; 4 samples on each of 2 ranks in 160 ms are 50 a second
    assert (row["batch"], row["recompute"], row["steps"]) == ("2", "none", 3)
    assert (row["step_ns"], row["least_ns"], row["most_ns"]) == (160e6, 150e6, 200e6)
    assert (row["samples_per_s"], row["tokens_per_s"]) == (50.0, None)
    assert repr(made) == "Sweep(gpt, 4 of 4 points, done)"


def test_what_a_workload_refuses_and_what_fails_is_kept_with_its_reason(runs, tmp_path):
    runs.ends["000-batch-1-device-cpu-cuda_graphs-false"] = "failed"
    grid = {"batch": ["1"], "device": ["cpu"], "cuda_graphs": ["false", "true"]}
    told = []
    made = sweep("gpt", grid, path=tmp_path, on_point=lambda *now: told.append(now))
    assert made.wait(20) == "failed"
    first, second = made.frame().iter_rows(named=True)
    assert (first["status"], first["error"]) == ("failed", "it broke")
    assert second["status"] == "refused"
    assert "cuda_graphs=true and device=cpu exclude each other" in second["error"]
    assert len(runs.names) == 1
    assert [(point.status, k, n) for point, k, n in told] == [("failed", 1, 2)]


def test_a_sweep_that_was_cancelled_goes_on_where_it_was(runs, tmp_path):
    runs.ends[NAMES[1]] = "cancelled"
    assert sweep("gpt", GRID, path=tmp_path).wait(20) == "cancelled"
    assert runs.names == NAMES[:2]
    assert [p.status for p in read(tmp_path)[1]] == ["done", "cancelled", "waiting", "waiting"]
    runs.ends.clear()
    # what the cancelled run left is no obstacle
    (tmp_path / f".{NAMES[1]}.partial").mkdir()
    made = sweep("gpt", GRID, path=tmp_path)
    assert made.wait(20) == "done"
    assert runs.names == [*NAMES[:2], *NAMES[1:]]
    assert frame(tmp_path)["status"].to_list() == ["done"] * 4


def test_a_folder_that_fills_up_ends_the_sweep_with_the_fix(runs, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sweeping, "write", full)
    made = sweep("gpt", GRID, path=tmp_path)
    assert made.wait(20) == "failed"
    assert runs.names == NAMES[:1]
    assert "No space left on device; free some space there" in made.error


def test_a_done_run_that_was_deleted_is_recorded_again(runs, tmp_path):
    sweep("gpt", GRID, path=tmp_path).wait(20)
    (tmp_path / NAMES[3] / folder.MANIFEST).unlink()
    sweep("gpt", GRID, path=tmp_path).wait(20)
    assert runs.names == [*NAMES, NAMES[3]]


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({}, "Name values to try"),
        ({"batch": []}, "for batch"),
        ({"bach": ["1"]}, "did you mean batch"),
        ({"batch": [*range(1, 40)], "seq": [*range(1, 40)]}, "1,521 combinations"),
    ],
)
def test_a_grid_that_can_not_run_is_one_sentence_and_leaves_nothing(runs, tmp_path, grid, words):
    with pytest.raises(UsageError, match=words):
        sweep("gpt", grid, path=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_folder_of_something_else_stays_as_it_is(runs, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds no sweep"):
        sweep("gpt", GRID, path=tmp_path)
    sweep("gpt", GRID, path=tmp_path / "s").wait(20)
    with pytest.raises(UsageError, match="another sweep"):
        sweep("gpt", {"batch": ["1"]}, path=tmp_path / "s")
    (tmp_path / "s" / FILE).write_text("{")
    with pytest.raises(InputError, match="is not of a sweep"):
        frame(tmp_path / "s")
    with pytest.raises(InputError, match="holds no sweep"):
        frame(tmp_path / "nowhere")


def test_a_later_version_is_not_read(runs, tmp_path):
    sweep("gpt", GRID, path=tmp_path).wait(20)
    told = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps(told | {"version": 99}))
    with pytest.raises(InputError, match="later version"):
        read(tmp_path)


def test_the_picture_has_the_quickest_first_and_names_what_varies(runs, tmp_path):
    sweep("gpt", {"batch": ["2", "1"], "seq": ["64"]}, path=tmp_path).wait(20)
    drawn = view.points(frame(tmp_path))
    assert drawn.rows() == [("batch=1", 110.0, 100.0, 120.0), ("batch=2", 160.0, 150.0, 200.0)]
    spans, medians = view.times(frame(tmp_path))
    assert medians.dimension_values("ms").tolist() == [110.0, 160.0]
    assert spans.dimension_values("most").tolist() == [120.0, 200.0]


@pytest.mark.slow
def test_a_sweep_of_the_command_line(tmp_path):
    made = sweep("gpt", {"batch": [1, 2]}, path=tmp_path / "s", device="cpu", steps=1, untraced=2)
    assert made.wait(120) == "done"
    assert made.frame()["step_ns"].null_count() == 0
