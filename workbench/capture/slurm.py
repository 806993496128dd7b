"""A batch script of SLURM that records a plan: one task a node, each started as `record` is."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.capture.plan import CapturePlan

if TYPE_CHECKING:
    from collections.abc import Iterator

_VALUES = {
    "preset": "--preset",
    "precision": "--precision",
    "function": "--function",
    "device": "--device",
    "ranks": "--ranks",
    "warmup": "--warmup",
    "untraced": "--untraced",
    "steps": "--steps",
    "profiler": "--with",
    "python": "--python",
    "timeout_s": "--timeout",
}
_SWITCHES = {
    "shapes": "--no-shapes",
    "memory": "--no-memory",
    "stacks": "--stacks",
    "memory_history": "--memory-history",
    "execution_trace": "--execution-trace",
    "early_profiler": "--early-profiler",
}
_SCRIPT = """\
#!/bin/bash
# Records {what} on {nodes}: sbatch THIS_FILE. Lines that begin with #SBATCH are yours to
# change; partition, account and time limit are those of the cluster.
#SBATCH --job-name=workbench-{name}
#SBATCH --nodes={nnodes}
#SBATCH --ntasks-per-node=1
{gpus}#SBATCH --time=00:30:00
#SBATCH --output=workbench-{name}-%j.out

set -euo pipefail

# The ranks of all nodes meet at the first one; another job there has another port.
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((29500 + SLURM_JOB_ID % 1000))
# On a file system that every node sees.
run={run}

# A node that fails tells the others by itself, and the first closes the folder: srun lets them.
srun --kill-on-bad-exit=0 bash -c \\
  'exec "$0" -m workbench record --node-rank "$SLURM_NODEID" "$@"' \\
  {words}
"""


def script(plan: CapturePlan) -> str:
    """Return the script; where the plan names no folder, the job's number is part of its name."""
    if plan.out is not None:
        run = shlex.quote(str(plan.out.expanduser().absolute()))
    else:
        runs = plan.runs_dir.expanduser().absolute() / plan.name
        run = f'{shlex.quote(str(runs))}-"$SLURM_JOB_ID"'
    gpus = "" if plan.device == "cpu" else f"#SBATCH --gpus-per-node={plan.ranks}\n"
    return _SCRIPT.format(
        what=f"{plan.world} ranks of {plan.name}" if plan.world > 1 else plan.name,
        nodes="one node" if plan.nnodes == 1 else f"{plan.nnodes} nodes",
        name=plan.name,
        nnodes=plan.nnodes,
        gpus=gpus,
        run=run,
        words=" \\\n  ".join(_words(plan)),
    )


def _words(plan: CapturePlan) -> Iterator[str]:
    """Write the command line behind `record`, quoted for a shell, in words that go together."""
    yield shlex.quote(sys.executable)
    yield from (shlex.join(words) for words in _options(plan))
    if plan.nnodes > 1:
        yield '--nnodes "$SLURM_NNODES" --rdzv-endpoint "$first:$port"'
    yield '-o "$run"'
    if plan.script is not None and plan.arguments:
        yield shlex.join(["--", *plan.arguments])


def _options(plan: CapturePlan) -> Iterator[list[str]]:
    usual = CapturePlan.__dataclass_fields__
    if plan.workload is not None:
        yield [plan.workload]
    if plan.script is not None:
        yield ["--script", _absolute(plan.script)]
    for name, option in _VALUES.items():
        value = getattr(plan, name)
        if name == "profiler" and plan.kernel is not None:
            value = f"{value}:{plan.kernel}"
        if value != usual[name].default:
            yield [option, _absolute(value) if isinstance(value, Path) else str(value)]
    for name, option in _SWITCHES.items():
        if getattr(plan, name) != usual[name].default:
            yield [option]
    for key, value in dict(plan.overrides).items():
        yield ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]


def _absolute(path: Path) -> str:
    # Links are kept, since a venv's interpreter is one.
    return os.path.abspath(path.expanduser())  # noqa: PTH100
