"""The decoder of `gpt`, `llama31_8b`, `llama31_405b` and `gpt3_175b` as torch modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from workbench.workloads import data
from workbench.workloads.layers import Embedding, Linear, RMSNorm, Rotary, rotate, stretch_llama

if TYPE_CHECKING:
    from torch import Generator

    from workbench.workloads.gpt import GptSpec


class Attention(nn.Module):
    """Causal grouped-query attention, with rotary positions where there are tables."""

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        self.head_dim = spec.head_dim
        self.grouped = spec.heads != spec.kv_heads
        kv_width = spec.kv_heads * spec.head_dim
        self.q = Linear(spec.hidden, spec.hidden, bias=spec.bias)
        self.k = Linear(spec.hidden, kv_width, bias=spec.bias)
        self.v = Linear(spec.hidden, kv_width, bias=spec.bias)
        self.out = Linear(spec.hidden, spec.hidden, bias=spec.bias)

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim).transpose(1, 2)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        q, k, v = (self._heads(project(x)) for project in (self.q, self.k, self.v))
        if turn is not None:
            q, k = rotate(q, *turn), rotate(k, *turn)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.grouped)
        projected: Tensor = self.out(mixed.transpose(1, 2).flatten(-2))
        return projected


class SwiGlu(nn.Module):
    """down(silu(gate(x)) * up(x)); GLU variants (2002.05202)."""

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        self.gate = Linear(spec.hidden, spec.ffn, bias=spec.bias)
        self.up = Linear(spec.hidden, spec.ffn, bias=spec.bias)
        self.down = Linear(spec.ffn, spec.hidden, bias=spec.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        projected: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return projected


class Gelu(nn.Module):
    """down(gelu(up(x)))."""

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        self.up = Linear(spec.hidden, spec.ffn, bias=spec.bias)
        self.down = Linear(spec.ffn, spec.hidden, bias=spec.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        projected: Tensor = self.down(F.gelu(self.up(x), approximate="tanh"))
        return projected


class Block(nn.Module):
    """One decoder layer: normalise, attend, add; normalise, feed forward, add."""

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        self.attention_norm = _norm(spec)
        self.attention = Attention(spec)
        self.ffn_norm = _norm(spec)
        self.ffn = SwiGlu(spec) if spec.activation == "swiglu" else Gelu(spec)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        attended: Tensor = x + self.attention(self.attention_norm(x), turn)
        return attended + cast("Tensor", self.ffn(self.ffn_norm(attended)))


class Gpt(nn.Module):
    """The decoder; its forward is the mean next-token cross entropy of token ids."""

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        self.embedding = Embedding(spec.vocab, spec.hidden)
        self.positions, self.rotary = _positions(spec)
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec.layers))
        self.norm = _norm(spec)
        self.head = Linear(spec.hidden, spec.vocab, bias=False)
        if spec.tied_embeddings:
            self.head.weight = self.embedding.weight

    def logits(self, tokens: Tensor) -> Tensor:
        """Map token ids (batch, seq) to logits (batch, seq, vocab)."""
        x: Tensor = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions.weight
        turn = None if self.rotary is None else self.rotary()
        for block in self.blocks:
            x = block(x, turn)
        return cast("Tensor", self.head(self.norm(x)))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean loss of token ids (batch, seq + 1)."""
        logits = self.logits(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def model(spec: GptSpec) -> Gpt:
    """Return the decoder."""
    return Gpt(spec)


def blocks(module: Gpt) -> list[nn.Module]:
    """Return the layers."""
    return list(module.blocks)


def batch(spec: GptSpec, generator: Generator) -> tuple[Tensor]:
    """Return token ids (batch, seq + 1)."""
    return (data.tokens((spec.batch, spec.seq + 1), spec.vocab, generator),)


def tensor_plan(module: Gpt) -> dict[str, Any]:
    """Split heads, feed-forwards and the vocabulary; what lies between is whole on each rank."""
    layer: dict[str, Any] = {f"attention.{name}": ColwiseParallel() for name in ("q", "k", "v")} | {
        "attention.out": RowwiseParallel()
    }
    layer |= {f"ffn.{name}": ColwiseParallel() for name in ("gate", "up")}
    layer["ffn.down"] = RowwiseParallel()
    plan: dict[str, Any] = {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    known = dict(module.named_modules())
    for index in range(len(module.blocks)):
        named = {f"blocks.{index}.{name}": style for name, style in layer.items()}
        plan |= {name: style for name, style in named.items() if name in known}
    return plan


def _norm(spec: GptSpec) -> nn.Module:
    kind = RMSNorm if spec.norm == "rms" else nn.LayerNorm
    return kind(spec.hidden, eps=spec.norm_eps)


def _positions(spec: GptSpec) -> tuple[Embedding | None, Rotary | None]:
    """Return learned positions or rotary tables, and None for the other."""
    if spec.positions == "learned":
        return Embedding(spec.seq, spec.hidden), None
    stretch = stretch_llama(spec.rope_factor, spec.rope_context)
    return None, Rotary(spec.seq, spec.head_dim, spec.rope_theta, stretch=stretch)
