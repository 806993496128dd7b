"""How blocks run: computed again in the backward, compiled, replayed as a CUDA graph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from workbench.workloads.data import Batch
    from workbench.workloads.options import Options

_WARM_UP = 3
_PRODUCTS = (
    "addmm",
    "baddbmm",
    "bmm",
    "convolution",
    "mm",
    "_grouped_mm",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
)
"""Operators whose results `selective` keeps: products, which cost most to compute again."""


def prepare(blocks: Iterable[nn.Module], spec: Options) -> None:
    """Make each block compute its forward again in the backward and compile, by the options."""
    for block in blocks:
        if spec.recompute != "none":
            _recompute(block, is_selective=spec.recompute == "selective")
        if spec.compile != "off":
            block.compile(mode=spec.compile)


def _recompute(block: nn.Module, *, is_selective: bool) -> None:
    """Replace `forward`, not the module: names of parameters and of modules stay as they are."""
    options: dict[str, Any] = {"use_reentrant": False}
    # Restoring random numbers stops the host, so only where there are some.
    options["preserve_rng_state"] = any(
        isinstance(part, nn.Dropout) and part.p > 0 for part in block.modules()
    )
    if is_selective:
        options["context_fn"] = partial(create_selective_checkpoint_contexts, _policy)
    block.forward = partial(checkpoint, block.forward, **options)


def _policy(_context: Any, operator: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
    name = operator.name().removeprefix("aten::").partition(".")[0]
    keep = CheckpointPolicy.MUST_SAVE
    return keep if name in _PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


class Graph:
    """Forward and backward of one micro-batch, captured once and replayed; gradients add up.

    Parameters keep their gradient tensors, so they are zeroed in place and never dropped.
    """

    def __init__(self, run: Callable[[Batch], Tensor], example: Batch) -> None:
        self.inputs = tuple(tensor.clone() for tensor in example)
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                run(self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        # The loader's thread pins memory meanwhile, which may not void the capture.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.loss = run(self.inputs)

    def __call__(self, batch: Batch) -> Tensor:
        """Copy a micro-batch into the captured inputs, replay, and return its loss."""
        for held, new in zip(self.inputs, batch, strict=True):
            held.copy_(new, non_blocking=True)
        self.graph.replay()
        return self.loss
