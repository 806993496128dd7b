"""Starts the child processes of a plan: the job that each is given, and its environment."""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.capture import profilers
from workbench.capture.manifest import usable_threads
from workbench.capture.plan import CELL
from workbench.capture.process import RankProcess
from workbench.workloads.options import GRAPHED_MODES

if TYPE_CHECKING:
    from workbench.capture.plan import CapturePlan

LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


def start_ranks(plan: CapturePlan, folder: Path) -> list[RankProcess]:
    """Start one child a rank; when one cannot be started, end those before it and raise."""
    write_code(plan, folder)
    processes: list[RankProcess] = []
    port = _free_port() if plan.world > 1 and plan.nnodes == 1 else None
    first = plan.node_rank * plan.ranks
    try:
        for rank in range(first, first + plan.ranks):
            env = environment(plan, rank, port)
            told = job(plan, folder, rank)
            around = profilers.around(plan, folder, rank)
            processes.append(RankProcess(rank, plan.interpreter, told, env, around))
    except BaseException:
        for process in processes:
            process.signal(signal.SIGKILL)
            process.close()
        raise
    return processes


def write_code(plan: CapturePlan, folder: Path) -> None:
    """Keep the text of a cell in the run folder."""
    if plan.code is not None:
        (folder / CELL).write_text(plan.code, encoding="utf-8")


def job(plan: CapturePlan, folder: Path, rank: int) -> dict[str, Any]:
    """Return what the child is told, as plain values."""
    script = folder / CELL if plan.code is not None else plan.script and plan.script.expanduser()
    limit_threads = plan.ranks > 1 and "OMP_NUM_THREADS" not in os.environ
    return {
        "rank": rank,
        "local_rank": rank - plan.node_rank * plan.ranks,
        "world": plan.world,
        "meeting": _meeting(plan, folder),
        "folder": str(folder),
        "workload": plan.workload,
        "spec": None if plan.spec is None else asdict(plan.spec),
        "script": None if script is None else str(script),
        "path": None if plan.code is None else str(Path.cwd()),
        "function": plan.function,
        "arguments": list(plan.arguments),
        "device": plan.device,
        "threads": max(1, usable_threads() // plan.ranks) if limit_threads else None,
        "warmup": plan.warmup,
        # Ranks of a script cannot vote on when warm-up ends, so they all take its limit.
        "detect": script is None or plan.world == 1,
        "untraced": plan.untraced,
        "steps": plan.steps,
        "shapes": plan.shapes,
        "memory": plan.memory,
        "stacks": plan.stacks,
        "memory_history": plan.memory_history,
        "execution_trace": plan.execution_trace,
        "early_profiler": plan.early_profiler
        or (plan.profiler is None and _replays_graphs(plan.spec)),
        "profiler": plan.profiler,
    }


def _replays_graphs(spec: Any) -> bool:
    return bool(getattr(spec, "cuda_graphs", False)) or (
        getattr(spec, "compile", None) in GRAPHED_MODES
    )


def environment(plan: CapturePlan, rank: int, port: int | None) -> dict[str, str]:
    """Return the child's environment: the user's own, and what torchrun would set for a rank."""
    env = dict(os.environ) | {"PYTHONUNBUFFERED": "1"}
    if env.get("MPLBACKEND", "").startswith("module://"):
        del env["MPLBACKEND"]  # a notebook kernel's own, unknown outside of it
    # From this level on the profiler says that its buffers were full; by default it does not.
    env.setdefault("KINETO_LOG_LEVEL", "2")
    if plan.workload is None and plan.device == "cpu":
        env["CUDA_VISIBLE_DEVICES"] = ""
    if plan.world > 1:
        host, at = plan.endpoint or ("127.0.0.1", port)
        env |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank - plan.node_rank * plan.ranks),
            "GROUP_RANK": str(plan.node_rank),
            "WORLD_SIZE": str(plan.world),
            "LOCAL_WORLD_SIZE": str(plan.ranks),
            "MASTER_ADDR": host,
            "MASTER_PORT": str(at),
        }
    if plan.world > 1 and plan.nnodes == 1:
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            env.setdefault(variable, LOOPBACK)
    return env


def _meeting(plan: CapturePlan, folder: Path) -> str:
    """Return where the ranks of a workload meet, as a URL of torch's."""
    if plan.nnodes > 1:
        return f"tcp://{plan.rdzv_endpoint}"
    # A file to meet at, not a port: nobody else can take it between two runs.
    return (folder / ".meeting").resolve().as_uri()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
