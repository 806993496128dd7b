"""The user's own scripts, with the real torch: whose profiler, and what a step is."""

import gzip
import json
import os
import textwrap
from pathlib import Path

import pytest

from workbench.capture import CapturePlan, record

pytestmark = pytest.mark.slow

MODEL = """
import torch
layer = torch.nn.Linear(8, 8)
def train():
    layer(torch.ones(2, 8)).sum().backward()
"""


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Record a script in an environment that has torch alone; return its run."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    places = [str(Path(__file__).parent / "fake" / "blocked"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
    monkeypatch.chdir(tmp_path)

    def run(text, *, name="train.py", **options):
        script = tmp_path / name
        script.write_text(MODEL + textwrap.dedent(text))
        lengths = {"warmup": 1, "untraced": 1, "steps": 2, "device": "cpu"}
        made = record(CapturePlan(script=script, out=tmp_path / "run", **(lengths | options)))
        made.wait(120)
        return made

    return run


def steps(run, rank=0):
    rows = [row for row in run.manifest["steps"] if row["rank"] == rank]
    return [(row["phase"], row["profiler_step"]) for row in rows]


def ranges(path):
    with gzip.open(path) if path.suffix == ".gz" else path.open() as file:
        trace = json.load(file)["traceEvents"]
    return sorted(e["name"] for e in trace if e["name"].startswith("ProfilerStep#"))


OWN = """
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
from torch.profiler import profile, schedule, tensorboard_trace_handler
with profile(
    schedule=schedule(wait=2, warmup=1, active=2, repeat=1),
    on_trace_ready=tensorboard_trace_handler("logs", worker_name="mine"),
    record_shapes=True,
) as profiler:
    for step in range(STEPS):
        train()
        optimizer.step()
        profiler.step()
"""


def test_the_trace_of_a_script_that_profiles_itself_is_kept(recorded, tmp_path):
    run = recorded(OWN.replace("STEPS", "1000"), untraced=3)
    assert run.status == "done", run.error
    # Two waiting steps are too few to be even: warm-up. Untraced ones follow behind the trace.
    assert steps(run) == [
        ("warmup", None),
        ("warmup", None),
        ("prepare", None),
        ("traced", 3),
        ("traced", 4),
        ("untraced", None),
        ("untraced", None),
        ("untraced", None),
    ]
    trace = run.path / "rank0.trace.json.gz"
    assert ranges(trace) == ["ProfilerStep#3", "ProfilerStep#4"]
    (own,) = (tmp_path / "logs").iterdir()
    assert own.read_bytes() == gzip.decompress(trace.read_bytes())
    assert run.manifest["profiler"] == {
        "owner": "script",
        "shapes": True,
        "memory": False,
        "stacks": False,
    }
    assert "script's own profiler" in run.manifest["notes"][0]["message"]


def test_a_profiler_whose_block_ends_first_is_kept(recorded):
    run = recorded(OWN.replace("STEPS", "5"))
    assert run.status == "done", run.error
    assert [phase for phase, _ in steps(run)] == ["warmup"] * 2 + ["prepare"] + ["traced"] * 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (OWN.replace("STEPS", "4").replace("with profile", "profiler = profile").replace(
            ") as profiler:", ")\nprofiler.start()\nif True:"), "before the first cycle"),
        (OWN.replace("STEPS", "9").replace("        profiler.step()", ""), "without a call of its"),
        (OWN.replace("STEPS", "5").replace("train()", "1 / (step - 4)"), "ZeroDivisionError"),
        ("from workbench.capture import step\nstep()\nstep()", "ended after 2 marked steps"),
    ],
)  # fmt: skip
def test_what_is_no_recording_is_a_sentence(recorded, text, sentence):
    run = recorded(text)
    assert run.status == "failed"
    assert sentence in run.error
    assert not list(run.path.glob("*.trace.json.gz"))


MARKED = """
from workbench.capture import step
while True:
    for _ in range(3):
        train()
        optimizer.step()
    step()
"""


def test_marks_come_before_the_optimisers_steps(recorded):
    run = recorded("optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)" + MARKED, shapes=False)
    assert run.status == "done", run.error
    trace = run.path / "rank0.trace.json.gz"
    assert ranges(trace) == ["ProfilerStep#1", "ProfilerStep#2"]
    assert gzip.decompress(trace.read_bytes()).count(b"Optimizer.step#SGD.step") == 2 * 3


FUNCTIONS = """
from workbench.capture import workload
@workload
def once():
    train()
@workload
def turns():
    while True:
        train()
        yield
if __name__ == "__main__":
    print("main runs")
"""


@pytest.mark.parametrize("name", ["once", "turns", "train"])
def test_a_function_can_be_the_step(recorded, name):
    run = recorded(FUNCTIONS, function=name)
    assert run.status == "done", run.error
    assert ranges(run.path / "rank0.trace.json.gz") == ["ProfilerStep#1", "ProfilerStep#2"]
    assert "main runs" not in (run.path / "log.txt").read_text()


def test_a_marked_function_is_found_and_two_need_a_name(recorded, tmp_path):
    run = recorded(FUNCTIONS)
    assert "choose one with --function NAME" in run.error
    (tmp_path / "run").rename(tmp_path / "first")
    run = recorded(FUNCTIONS, function="onec")
    assert "has no function onec; it has train, once, turns" in run.error
    (tmp_path / "run").rename(tmp_path / "second")
    run = recorded(FUNCTIONS.replace("@workload\ndef once", "def once"))
    assert run.status == "done", run.error


ENVIRON = """
import os
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(layer)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
assert (dist.get_rank(), dist.get_world_size()) == (int(os.environ["LOCAL_RANK"]), 2)
def one():
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
"""
ALL_RANKS = """
from torch.profiler import profile, schedule
with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=1)) as profiler:
    while True:
        one()
        profiler.step()
"""
FIRST_RANK = """
import contextlib
from torch.profiler import profile, schedule
plan = schedule(wait=4, warmup=1, active=2, repeat=1)
with profile(schedule=plan) if dist.get_rank() == 0 else contextlib.nullcontext() as profiler:
    while True:
        one()
        if profiler:
            profiler.step()
"""


def test_ranks_meet_as_under_torchrun_and_each_keeps_its_trace(recorded):
    run = recorded(ENVIRON + ALL_RANKS, ranks=2)
    assert run.status == "done", run.error
    for rank in (0, 1):
        assert ranges(run.path / f"rank{rank}.trace.json.gz") == [
            "ProfilerStep#2",
            "ProfilerStep#3",
        ]
        assert [phase for phase, _ in steps(run, rank)].count("traced") == 2


def test_a_profiler_on_the_first_rank_alone_is_recorded_alone(recorded):
    run = recorded(ENVIRON + FIRST_RANK, ranks=2)
    assert run.status == "done", run.error
    assert [path.name for path in run.path.glob("*.gz")] == ["rank0.trace.json.gz"]
    notes = {row["rank"]: row["message"] for row in run.manifest["notes"]}
    assert "another rank has a profiler" in notes[1]


def test_marks_do_nothing_outside_of_a_recording():
    from workbench.capture import step, workload

    def function():
        return os.getpid()

    step()
    assert workload(function) is function
