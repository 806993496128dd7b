"""Recordings with the real torch, made once for all tests (tests/capture/conftest.py)."""

import gzip
import json
from types import SimpleNamespace

import pytest
import torch

from workbench.capture import CapturePlan, record
from workbench.capture.child.stepping import Leaving, StepWatch
from workbench.capture.overhead import overhead

pytestmark = pytest.mark.slow


def events(run, rank=0):
    with gzip.open(run.path / f"rank{rank}.trace.json.gz") as file:
        return json.load(file)["traceEvents"]


def manifest(run):
    return json.loads((run.path / "run.json").read_text())


def test_a_recording_by_a_python_with_torch_alone_is_whole(real_run):
    assert real_run.status == "done", real_run.error
    assert sorted(entry.name for entry in real_run.path.iterdir()) == [
        "log.txt",
        "rank0.trace.json.gz",
        "run.json",
        "telemetry.csv",
    ]


def test_each_traced_step_has_its_range_and_its_time(real_run):
    ranges = [e["name"] for e in events(real_run) if e["name"].startswith("ProfilerStep#")]
    assert sorted(ranges) == ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"]
    steps = manifest(real_run)["steps"]
    assert [s["phase"] for s in steps] == (
        ["warmup"] * 3 + ["untraced"] * 2 + ["prepare"] + ["traced"] * 3
    )
    assert [s["profiler_step"] for s in steps if s["phase"] == "traced"] == [1, 2, 3]


def test_the_stored_time_of_a_step_is_that_of_its_range(real_run):
    # The range also holds the profiler's own bookkeeping behind the step, so it is the longer.
    ranges = {e["name"]: e["dur"] * 1000 for e in events(real_run) if "ProfilerStep#" in e["name"]}
    for step in manifest(real_run)["steps"]:
        if step["phase"] == "traced":
            dur_ns = ranges[f"ProfilerStep#{step['profiler_step']}"]
            assert 0 < step["dur_ns"] <= 1.001 * dur_ns  # two clocks


def test_shapes_memory_and_parts_of_a_step_are_in_the_trace(real_run):
    trace = events(real_run)
    mm = next(e for e in trace if e["name"] == "aten::mm" and "args" in e)
    assert mm["args"]["Input Dims"]
    names = {event["name"] for event in trace}
    assert "[memory]" in names
    assert "Optimizer.step#AdamW.step" in names
    assert any(name.startswith("enumerate(DataLoader)") for name in names)
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in names


def test_the_manifest_says_what_ran_and_where(real_run):
    content = manifest(real_run)
    assert content["workload"] == "gpt"
    assert content["preset"] == "tiny"
    assert content["spec"]["layers"] == 2
    assert content["seeds"] == {"seed": 0}
    # 2 x 1024 x 128 + 2 x (2 x 128 x 128 + 2 x 128 x 64 + 3 x 128 x 352 + 2 x 128) + 128
    assert content["parameters"] == 631_424
    assert content["versions"]["torch"] == torch.__version__
    assert content["machine"]["memory_bytes"] > 0
    assert content["processes"][0]["pid"] == real_run.pids[0]
    assert content["started"] < content["ended"]
    assert "environ" not in json.dumps(content)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here, so auto takes it")
def test_auto_without_a_gpu_says_that_it_is_the_cpu(real_run):
    assert manifest(real_run)["device"] == "cpu"
    assert "recording on the CPU, since torch" in manifest(real_run)["device_reason"]
    assert any("recording on the CPU" in (e.message or "") for e in real_run.events)


def test_progress_runs_through_the_phases_and_ends_with_the_status(real_run):
    phases = list(dict.fromkeys(event.phase for event in real_run.events))
    assert phases == ["setup", "warmup", "untraced", "prepare", "traced", "export", "done"]
    traced = [e for e in real_run.events if e.phase == "traced" and e.step]
    assert [(e.step, e.of) for e in traced] == [(1, 3), (2, 3), (3, 3)]
    assert all(e.seconds > 0 for e in traced)
    told = [(e.phase, e.loss) for e in real_run.events if e.loss is not None]
    assert {phase for phase, _ in told} == {"warmup", "untraced"}
    # random tokens: the loss begins near ln of the vocabulary
    assert all(0 < loss < 12 for _, loss in told)


def test_overhead_can_be_told_from_the_manifest(real_run):
    result = overhead(manifest(real_run))
    assert (result.traced, result.untraced) == (3, 2)
    assert result.low <= result.ratio <= result.high


def test_the_profilers_own_noise_is_not_in_the_log(real_run):
    assert "USDT" not in (real_run.path / "log.txt").read_text()


def test_two_ranks_leave_two_traces_with_their_collectives(two_ranks):
    assert two_ranks.status == "done", two_ranks.error
    for rank in (0, 1):
        names = [event["name"] for event in events(two_ranks, rank)]
        # DDP reduces in a first bucket of 1 MB and one with the rest (2.5 MB of gradients).
        assert names.count("gloo:all_reduce") == 2 * 2
        assert "c10d::allreduce_" in names
        assert sum(name.startswith("ProfilerStep#") for name in names) == 2
    content = manifest(two_ranks)
    assert [row["rank"] for row in content["processes"]] == [0, 1]
    assert {step["rank"] for step in content["steps"]} == {0, 1}


def test_the_gradients_of_two_ranks_are_reduced_whole(two_ranks):
    shapes = [
        event["args"]["Input Dims"]
        for event in events(two_ranks, 0)
        if event["name"] == "gloo:all_reduce"
    ]
    elements = sum(dims[0][0] for dims in shapes)
    assert elements == 2 * 631_424  # two steps, each parameter once


def test_a_step_of_a_real_script_ends_behind_its_optimisers_range(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\n"
        "layer = torch.nn.Linear(8, 8)\n"
        "optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)\n"
        "while True:\n"
        "    layer(torch.ones(2, 8)).sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    plan = CapturePlan(script=script, warmup=1, untraced=0, steps=2, out=tmp_path / "run")
    run = record(plan)
    assert run.wait(120) == "done", run.error
    trace = [e for e in events(run) if e.get("ph") == "X" and e.get("cat") == "user_annotation"]
    steps = [e for e in trace if e["name"].startswith("ProfilerStep#")]
    optimizers = [e for e in trace if e["name"] == "Optimizer.step#SGD.step"]
    assert len(steps) == len(optimizers) == 2
    for step, optimizer in zip(steps, optimizers, strict=True):
        assert step["ts"] <= optimizer["ts"]
        assert optimizer["ts"] + optimizer["dur"] <= step["ts"] + step["dur"]


@pytest.fixture
def watched(monkeypatch):
    """A step watch on real optimiser classes, with a recorder that counts."""

    class Parent(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    class Child(Parent):
        def step(self, closure=None):
            return super().step(closure)

    recorder = SimpleNamespace(finished=False, began=0, ended=0)
    recorder.begin = lambda: setattr(recorder, "began", recorder.began + 1)
    recorder.end_step = lambda _loss: setattr(recorder, "ended", recorder.ended + 1)
    original = torch.optim.Optimizer.profile_hook_step
    monkeypatch.setattr(torch.optim.Optimizer, "profile_hook_step", staticmethod(original))
    StepWatch(recorder, Leaving(events=None)).install(torch.optim.Optimizer)
    return recorder, Parent, Child


def weights():
    return [torch.nn.Parameter(torch.ones(1))]


def test_a_step_that_calls_its_parents_step_counts_once(watched):
    recorder, parent, child = watched
    parent(weights(), lr=0.1)  # torch wraps a class's step when the first instance is made
    optimizer = child(weights(), lr=0.1)
    for _ in range(3):
        optimizer.step()
    assert (recorder.began, recorder.ended) == (1, 2)


def test_the_first_optimiser_that_steps_defines_the_steps(watched):
    recorder, parent, child = watched
    first, second = parent(weights(), lr=0.1), child(weights(), lr=0.1)
    for _ in range(3):
        first.step()
        second.step()
        second.step()
    assert (recorder.began, recorder.ended) == (1, 2)
