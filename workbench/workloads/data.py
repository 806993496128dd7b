"""The input pipeline of all workloads: endless synthetic micro-batches through a `DataLoader`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.workloads.options import Options

Batch: TypeAlias = "tuple[Tensor, ...]"

_SEED_STRIDE = 1_000_003  # apart enough that ranks and loader processes never share a stream


class Batches(IterableDataset[Batch]):
    """Endless micro-batches, the same for a seed and rank; made slow by `loader_delay_ms`."""

    def __init__(
        self, spec: Options, make: Callable[[Options, torch.Generator], Batch], rank: int
    ) -> None:
        super().__init__()
        self.spec, self.make = spec, make
        self.seed = spec.seed + _SEED_STRIDE * rank

    def __iter__(self) -> Iterator[Batch]:
        """Yield micro-batches; each loader process has a stream of its own."""
        worker = get_worker_info()
        stream = 0 if worker is None else 1 + worker.id
        generator = torch.Generator().manual_seed(self.seed + _SEED_STRIDE**2 * stream)
        while True:
            if self.spec.loader_delay_ms:
                time.sleep(self.spec.loader_delay_ms / 1000)
            yield self.make(self.spec, generator)


def loader(batches: Batches, device: torch.device) -> DataLoader[Batch]:
    """Return the loader of a rank's micro-batches, with its processes and pinned memory."""
    workers = batches.spec.loader_workers
    return DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        # Not a fresh interpreter: it could not import this package by its name.
        multiprocessing_context="fork" if workers else None,
    )


def tokens(shape: tuple[int, ...], vocab: int, generator: torch.Generator) -> Tensor:
    """Return token ids (…, length) that follow Zipf's law; each odd one follows from the last.

    So there is something to learn: the frequencies within a few steps, the pairs later.
    """
    chance = torch.rand(shape, generator=generator)
    # The inverse of the distribution function of 1/(rank + 1), log(1 + rank) / log(1 + vocab).
    ids = ((vocab + 1.0) ** chance - 1.0).long().clamp_(max=vocab - 1)
    odd = ids[..., 1::2]
    ids[..., 1::2] = (ids[..., : 2 * odd.shape[-1] : 2] + 1) % vocab
    return ids
