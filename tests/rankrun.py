"""Two ranks of a workload's `tiny` over gloo, each in a process of its own, and their losses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

STEPS = 3


def losses_of_ranks(name: str, meeting: Path, **overrides: str) -> list[list[float]]:
    """Return the losses of three steps on each of two ranks."""
    settings = [f"{key}={value}" for key, value in overrides.items()]
    command = [sys.executable, __file__, name, str(meeting)]
    running = [
        subprocess.Popen(
            [*command, str(rank), *settings],
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for rank in (0, 1)
    ]
    said = [process.communicate(timeout=900)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    return [json.loads(text.splitlines()[-1]) for text in said]


def main(name: str, meeting: str, rank: str, *settings: str) -> None:
    """Train on one rank and print its losses."""
    import torch

    from workbench.workloads import get, split_settings
    from workbench.workloads.training import Training

    torch.distributed.init_process_group(
        "gloo", init_method=Path(meeting).as_uri(), rank=int(rank), world_size=2
    )
    spec = get(name).resolve("tiny", split_settings(list(settings)))
    made = Training(get(name), spec, device=torch.device("cpu"), rank=int(rank), world=2)
    losses = [made.step().item() for _ in range(STEPS)]
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    print(json.dumps(losses))


if __name__ == "__main__":
    main(*sys.argv[1:])
