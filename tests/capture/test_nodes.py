"""Several machines, each played by a run of its own in this process; they share a folder."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.capture import CapturePlan, launch, nodes, record, supervisor
from workbench.errors import CaptureError, UsageError

FAKE = Path(__file__).parent / "fake"


@pytest.fixture
def both(tmp_path, monkeypatch):
    """Start the loop on two nodes of two ranks each."""
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    runs = []

    def begin(*tricks, loop=100_000, **options):
        fields = {"warmup": 1, "untraced": 1, "steps": 1, "out": tmp_path / "run", "ranks": 2}
        fields |= {"nnodes": 2, "rdzv_endpoint": "127.0.0.1:29511", **options}
        for node in (0, 1):
            plan = CapturePlan(
                script=FAKE / "loop.py", arguments=(str(loop), *tricks), node_rank=node, **fields
            )
            runs.append(record(plan))
        return runs

    yield begin
    for run in runs:
        run.cancel()
        run.wait(15)


def test_all_ranks_arrive_in_one_folder(both, tmp_path):
    first, second = both()
    assert (first.wait(30), second.wait(30)) == ("done", "done")
    assert first.path == second.path == tmp_path / "run"
    assert sorted(path.name for path in first.path.iterdir()) == [
        "log.node1.txt", "log.txt", "rank0.trace.json.gz", "rank1.trace.json.gz",
        "rank2.trace.json.gz", "rank3.trace.json.gz", "run.json", "telemetry.csv",
        "telemetry.node1.csv",
    ]  # fmt: skip
    content = json.loads((first.path / "run.json").read_text())
    assert sorted(row["rank"] for row in content["processes"]) == [0, 1, 2, 3]
    assert {row["rank"] for row in content["steps"]} == {0, 1, 2, 3}
    (other,) = content["nodes"]
    assert (other["node"], other["status"], other["error"]) == (1, "done", None)


def test_a_rank_that_is_killed_ends_the_run_on_every_node(both, gone):
    first, second = both("die3", untraced=100_000)
    assert (first.wait(30), second.wait(30)) == ("failed", "failed")
    assert second.error.startswith("Rank 3 was killed by SIGKILL")
    assert first.error.startswith("Node 1 (")
    assert "Rank 3 was killed by SIGKILL" in first.error
    assert "about to die" in first.error
    assert all(gone(pid) for pid in first.pids + second.pids)
    assert json.loads((first.path / "run.json").read_text())["nodes"][0]["status"] == "failed"


def test_a_cancelled_node_ends_the_others(both):
    first, second = both(untraced=100_000)
    first.cancel()
    assert first.wait(30) == "cancelled"
    assert second.wait(30) == "failed"
    assert "Node 0" in second.error
    assert "cancelled" in second.error


def test_a_node_that_falls_silent_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(nodes, "_BEAT_S", 0.0)
    now = [0.0]
    monkeypatch.setattr(nodes, "time", SimpleNamespace(monotonic=lambda: now[0]))
    plan = CapturePlan(workload="gpt", nnodes=2)
    me, other = (nodes.Nodes(p, tmp_path, "h") for p in (plan, other_of(plan)))
    assert other.look() is None
    assert me.look() is None
    now[0] = 59.0
    assert me.look() is None
    now[0] = 61.0
    assert me.look().startswith("Node 1 was lost: it gives no sign of life; see log.node1.txt")
    other.look()
    assert me.look() is None  # it was only late


def other_of(plan):
    return CapturePlan(workload=plan.workload, nnodes=plan.nnodes, node_rank=1)


def test_a_node_that_is_killed_is_named_before_the_connection_that_broke(
    both, tmp_path, monkeypatch
):
    monkeypatch.setattr(nodes, "QUIET_S", 1.5)
    monkeypatch.setattr(nodes, "ENDING_S", 3.0)
    monkeypatch.setattr(supervisor, "_NODES_SETTLE_S", 0.5)
    said = nodes.Nodes._say
    monkeypatch.setattr(nodes.Nodes, "_say", lambda me, what: me.is_first and said(me, what))
    first, _ = both("raise0", untraced=100_000)
    assert first.wait(30) == "failed"
    assert first.error.startswith("Node 1 was lost: it gives no sign of life; ")
    assert " Here: Rank 0 failed: ValueError: loss is nan" in first.error
    told = json.loads((first.path / "run.json").read_text())["nodes"]
    assert [(row["node"], row["status"]) for row in told] == [(1, None)]


def test_a_node_that_comes_late_is_waited_for(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(nodes, "time", SimpleNamespace(monotonic=lambda: now[0]))
    me = nodes.Nodes(CapturePlan(workload="gpt", nnodes=2), tmp_path, "h")
    for second in (2, 100, 290):
        now[0] = second
        assert me.look() is None
    now[0] = 303
    assert me.look().startswith("Node 1 was lost")


def test_a_folder_that_the_first_node_never_makes_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(nodes, "JOIN_S", 0.0)
    plan = CapturePlan(
        workload="gpt", nnodes=2, node_rank=1, rdzv_endpoint="h:1", out=tmp_path / "run"
    )
    with pytest.raises(CaptureError, match="Node 0 did not make"):
        record(plan)


def test_ranks_are_numbered_over_all_nodes_as_torchrun_does(tmp_path):
    plan = CapturePlan(
        workload="gpt", nnodes=3, node_rank=2, ranks=2, rdzv_endpoint="host7:29500", device="cuda"
    )
    env = launch.environment(plan, 5, None)
    wanted = {"RANK": "5", "LOCAL_RANK": "1", "GROUP_RANK": "2", "WORLD_SIZE": "6",
              "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "host7", "MASTER_PORT": "29500"}  # fmt: skip
    assert {name: env[name] for name in wanted} == wanted
    told = launch.job(plan, tmp_path, 5)
    assert (told["local_rank"], told["world"]) == (1, 6)
    assert told["meeting"] == "tcp://host7:29500"
    # The loopback interface reaches no other machine.
    assert env.get("NCCL_SOCKET_IFNAME") == os.environ.get("NCCL_SOCKET_IFNAME")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nnodes": 2, "node_rank": 2}, "node_rank=2 and nnodes=2 exclude each other"),
        ({"nnodes": 0}, "nnodes=0 is not a whole number of at least 1"),
        ({"nnodes": 2, "rdzv_endpoint": "host"}, "rdzv_endpoint='host' is not HOST:PORT"),
        ({"nnodes": 2}, "nnodes=2 needs rdzv_endpoint"),
        ({"nnodes": 2, "rdzv_endpoint": "h:1"}, "nnodes=2 needs out"),
    ],
)
def test_what_several_nodes_need_is_named(options, words):
    with pytest.raises(UsageError) as caught:
        record(CapturePlan(workload="gpt", **options))
    assert words in str(caught.value)


def test_a_node_that_cannot_start_leaves_the_folder_to_the_others(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    partial = tmp_path / ".run.partial"
    partial.mkdir()
    (partial / "run.json").write_text("{}")
    monkeypatch.setattr("workbench.capture.run.start_ranks", full)
    with pytest.raises(CaptureError, match="No space left on device"):
        record("gpt", nnodes=2, node_rank=1, rdzv_endpoint="h:29511", out=tmp_path / "run")
    assert (partial / "run.json").exists()
