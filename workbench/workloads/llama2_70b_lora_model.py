"""The decoder with low-rank adapters over frozen weights, as torch modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from workbench.workloads.gpt_model import Gpt, batch, blocks
from workbench.workloads.gpt_model import tensor_plan as decoder_plan
from workbench.workloads.layers import Linear, rotate

if TYPE_CHECKING:
    from workbench.workloads.llama2_70b_lora import LoraSpec

__all__ = ["batch", "blocks", "model", "tensor_plan"]


class Up(nn.Linear):
    """The second matrix of an adapter; it starts at 0, so training starts at the frozen model."""

    def reset_parameters(self) -> None:
        """Set the first values."""
        nn.init.zeros_(self.weight)


class Adapted(nn.Module):
    """A frozen matrix with an adapter beside it."""

    def __init__(self, spec: LoraSpec, inputs: int, outputs: int) -> None:
        super().__init__()
        self.scale = spec.alpha / spec.rank
        self.base = Linear(inputs, outputs, bias=spec.bias)
        self.dropout = nn.Dropout(spec.dropout)
        self.down = nn.Linear(inputs, spec.rank, bias=False)
        self.up = Up(spec.rank, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., inputs) to (..., outputs)."""
        low: Tensor = self.up(self.down(self.dropout(x)))
        return cast("Tensor", self.base(x)) + self.scale * low


class AdaptedAttention(nn.Module):
    """Causal grouped-query attention from one matrix, whose rows stand by groups of heads.

    A group is its query heads, then its key head, then its value head, so that ranks can split it.
    """

    def __init__(self, spec: LoraSpec) -> None:
        super().__init__()
        self.queries, self.head_dim = spec.heads // spec.kv_heads, spec.head_dim
        width = spec.hidden + 2 * spec.kv_heads * spec.head_dim
        self.qkv = Adapted(spec, spec.hidden, width)
        self.out = Adapted(spec, spec.hidden, spec.hidden)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        grouped = torch.unflatten(self.qkv(x), -1, (-1, self.queries + 2, self.head_dim))
        parts = torch.split(grouped, [self.queries, 1, 1], dim=-2)
        q, k, v = (part.flatten(2, 3).transpose(1, 2) for part in parts)
        if turn is not None:
            q, k = rotate(q, *turn), rotate(k, *turn)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.queries > 1)
        projected: Tensor = self.out(mixed.transpose(1, 2).flatten(-2))
        return projected


def model(spec: LoraSpec) -> Gpt:
    """Return the decoder, where only adapters have gradients."""
    made = Gpt(spec)
    for block in made.blocks:
        block.add_module("attention", AdaptedAttention(spec))
    made.requires_grad_(requires_grad=False)
    for part in made.modules():
        if isinstance(part, Adapted):
            part.down.requires_grad_()
            part.up.requires_grad_()
    return made


def tensor_plan(module: Gpt) -> dict[str, Any]:
    """Split groups of heads and what adapts them; an adapter's other matrix is whole on a rank."""
    plan = decoder_plan(module)
    for index in range(len(module.blocks)):
        attention = f"blocks.{index}.attention"
        for name in ("qkv.base", "qkv.up"):
            plan[f"{attention}.{name}"] = ColwiseParallel()
        for name in ("out.base", "out.down"):
            plan[f"{attention}.{name}"] = RowwiseParallel()
        plan.pop(f"{attention}.out", None)
    return plan
