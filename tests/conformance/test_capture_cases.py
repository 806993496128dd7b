"""Ways in which recordings went wrong in silence, as recipes: K68 to K70."""

import gzip
import json
import re
from pathlib import Path

import pytest
from tinytrace import call, kernel, op, step

from workbench import lint
from workbench.capture import CapturePlan, record
from workbench.capture.launch import job
from workbench.errors import UsageError

FAKE = Path(__file__).parents[1] / "capture" / "fake"
EARLY = "an empty profile"


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Record a loop of so many steps on the fake torch; one that goes on too long is ended."""
    monkeypatch.setenv("PYTHONPATH", str(FAKE))

    def run(steps, **options):
        plan = CapturePlan(
            script=FAKE / "loop.py",
            arguments=(str(steps),),
            timeout_s=60,
            **{"warmup": 1, "untraced": 1, "steps": 3, "out": tmp_path / "run"} | options,
        )
        run = record(plan)
        run.wait(90)
        return run

    return run


def traces(run):
    return sorted(path.name for path in run.path.glob("*.trace.json.gz"))


@pytest.mark.parametrize("steps", [0, 4])
def test_k68_a_schedule_longer_than_the_loop_is_told(recorded, steps):
    # 1 warm-up, 1 untraced, 1 in which the profiler starts, 3 traced, after a first one: 7
    run = recorded(steps)
    assert run.status == "failed"
    assert traces(run) == []
    if steps:
        assert f"after {steps} " in run.error
        assert " 7;" in run.error
        assert "--steps" in run.error
    else:
        assert "without a training step" in run.error


def test_k68_a_short_window_is_labelled(tmp_path):
    # two of the five steps that were asked for
    with gzip.open(tmp_path / "rank0.trace.json.gz", "wt") as file:
        events = [step(0, 0, 100), step(1, 100, 100), op("aten::mm", 10, 190)]
        json.dump({"traceEvents": events}, file)
    steps = [{"rank": 0, "index": n, "phase": "traced", "dur_ns": 100_000} for n in range(2)]
    content = {"schema_version": 1, "status": "done", "plan": {"steps": 5}, "steps": steps}
    (tmp_path / "run.json").write_text(json.dumps(content))
    (row,) = lint.lint(tmp_path).filter(aspect="traced steps").rows(named=True)
    assert row["detail"] == "2 of the 5 that were asked for"
    assert "--steps" in row["fix"]


def test_k69_ranks_never_write_over_one_another(recorded, tmp_path):
    run = recorded(1000, ranks=4)
    assert run.status == "done", run.error
    assert traces(run) == [f"rank{rank}.trace.json.gz" for rank in range(4)]
    rows = run.manifest["processes"]
    assert [row["rank"] for row in rows] == [0, 1, 2, 3]
    assert len({row["pid"] for row in rows}) == 4
    assert all(row["host"] for row in rows)
    # nothing is left under the names that files have while they are written
    assert not [path for path in run.path.iterdir() if path.name.startswith(".")]
    before = {path.name: path.stat().st_mtime_ns for path in run.path.iterdir()}
    with pytest.raises(UsageError, match="exists already"):
        recorded(1000)
    assert {path.name: path.stat().st_mtime_ns for path in run.path.iterdir()} == before


def test_k69_recordings_of_one_folder_at_once_have_folders_of_their_own(recorded, tmp_path):
    runs = [recorded(1000, out=None, runs_dir=tmp_path / "runs") for _ in range(3)]
    assert {run.status for run in runs} == {"done"}
    assert len({run.path for run in runs}) == 3


def test_k70_the_profiler_can_run_once_before_graphs_are_captured(recorded, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA", "12.4")
    run = recorded(1000, device="cuda", early_profiler=True)
    assert run.status == "done", run.error
    lines = (run.path / "log.txt").read_text().splitlines()
    assert lines.index(EARLY) < lines.index("stdin holds ''")  # before the script's first line


def test_k70_workloads_that_replay_graphs_need_not_be_told(tmp_path):
    def early(**options):
        plan = CapturePlan(workload="gpt", device="cuda", **options)
        return job(plan, tmp_path, 0)["early_profiler"]

    assert early(overrides={"cuda_graphs": True})
    assert early(overrides={"compile": "reduce-overhead"})
    assert not early()
    assert not early(overrides={"compile": "default"})
    assert early(early_profiler=True)


def test_k70_graph_launches_without_kernels_are_told_with_the_fix(tmp_path):
    events = [step(0, 0, 100), step(1, 100, 100), call("cudaGraphLaunch", 10, 5, 1),
              call("cudaLaunchKernel", 20, 5, 2), kernel("gemm", 30, 10, 2),
              op("aten::mm", 19, 7)]  # fmt: skip
    with gzip.open(tmp_path / "rank0.trace.json.gz", "wt") as file:
        json.dump({"traceEvents": events}, file)
    (tmp_path / "run.json").write_text(json.dumps({"schema_version": 1, "device": "cuda:0"}))
    told = {row["aspect"]: row["fix"] for row in lint.lint(tmp_path).iter_rows(named=True)}
    assert told["graph_kernels_missing"].startswith("add --early-profiler")


@pytest.mark.corpus
def test_every_case_of_flops_is_tried_where_costs_are_tested(corpus):
    costs = Path(__file__).parents[1] / "costs"
    tried = set(re.findall(r"K\d\d", "".join(p.read_text() for p in costs.glob("test_*.py"))))
    areas = re.findall(
        r"^### (K\d\d) · (\w+)$", (corpus / "cases/known_cases.md").read_text(), re.MULTILINE
    )
    wanted = {case for case, area in areas if area == "flops"}
    assert wanted == {"K44", "K45", "K46", "K47"}
    assert wanted <= tried
    here = set(re.findall(r"k(\d\d)_", Path(__file__).read_text()))
    assert {case for case, area in areas if area == "capture"} == {f"K{number}" for number in here}
