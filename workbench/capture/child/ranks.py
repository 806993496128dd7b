"""Several ranks: the process group, and decisions that all ranks share."""

from __future__ import annotations

from typing import Any


class Ranks:
    """The ranks of one run; with a single rank everything here does nothing."""

    def __init__(self, torch: Any, *, rank: int, world: int, device: Any, meeting: str) -> None:
        self.torch, self.rank, self.world, self.device = torch, rank, world, device
        if world > 1:
            torch.distributed.init_process_group(
                backend="nccl" if device.type == "cuda" else "gloo",
                init_method=meeting,
                rank=rank,
                world_size=world,
            )

    def agree(self, ready: bool) -> bool:
        """Return whether every rank is ready: ranks that take different turns would deadlock."""
        if self.world == 1:
            return ready
        vote = self.torch.tensor([int(ready)], device=self.device)
        distributed = self.torch.distributed
        distributed.all_reduce(vote, op=distributed.ReduceOp.MIN)
        return bool(vote.item())

    def close(self) -> None:
        """Wait for all ranks to have written their traces, then leave the group."""
        if self.world > 1:
            self.torch.distributed.barrier()
            self.torch.distributed.destroy_process_group()
