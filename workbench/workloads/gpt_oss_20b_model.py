"""GPT-OSS as torch modules: windows in turn, attention sinks, routed experts with biases."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn
from torch.nn.attention import flex_attention as flex

from workbench.workloads import data
from workbench.workloads.experts import Experts
from workbench.workloads.layers import (
    Embedding,
    Linear,
    RMSNorm,
    Rotary,
    rotate,
    sharpen_yarn,
    stretch_yarn,
)

if TYPE_CHECKING:
    from workbench.workloads.gpt_oss_20b import GptOssSpec

Turn: TypeAlias = "tuple[Tensor, Tensor]"
_SLOPE, _LIMIT = 1.702, 7.0


class Attention(nn.Module):
    """Causal grouped-query attention over a window or all, with a sink beside each head's keys.

    A sink is a score without a key: it takes its share of the softmax and gives no value.
    """

    def __init__(self, spec: GptOssSpec, window: int | None) -> None:
        super().__init__()
        self.widths = [n * spec.head_dim for n in (spec.heads, spec.kv_heads, spec.kv_heads)]
        self.head_dim, self.window, self.is_flex = spec.head_dim, window, spec.attention == "flex"
        self.qkv = Linear(spec.hidden, sum(self.widths))
        self.sinks = nn.Parameter(torch.empty(spec.heads))
        self.out = Linear(self.widths[0], spec.hidden)

    def reset_parameters(self) -> None:
        """Start with sinks that weigh as much as a key of score 0."""
        nn.init.zeros_(self.sinks)

    def forward(self, x: Tensor, turn: Turn) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        parts = torch.split(self.qkv(x), self.widths, dim=-1)
        q, k, v = (torch.unflatten(p, -1, (-1, self.head_dim)).transpose(1, 2) for p in parts)
        q, k = rotate(q, *turn), rotate(k, *turn)
        attend = attend_flex if self.is_flex else attend_written
        mixed = attend(q, k, v, self.sinks, self.window)
        return cast("Tensor", self.out(mixed.transpose(1, 2).flatten(-2)))


class Mixture(nn.Module):
    """Routed experts; the chosen ones are weighed by a softmax among them."""

    def __init__(self, spec: GptOssSpec) -> None:
        super().__init__()
        self.top_k = spec.top_k
        self.router = Linear(spec.hidden, spec.experts)
        self.experts = Experts(
            count=spec.experts,
            hidden=spec.hidden,
            width=spec.expert_ffn,
            activation=clamped_swiglu,
            kernel=spec.expert_kernel,
            bias=True,
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        flat = x.flatten(0, 1)
        best, chosen = self.router(flat).topk(self.top_k, dim=-1)
        mixed: Tensor = self.experts(flat, chosen, best.softmax(dim=-1))
        return mixed.view_as(x)


class Block(nn.Module):
    """One decoder layer: normalise, attend, add; normalise, mix experts, add."""

    def __init__(self, spec: GptOssSpec, layer: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(spec.hidden, eps=spec.norm_eps)
        self.attention = Attention(spec, spec.window_of(layer))
        self.mixture_norm = RMSNorm(spec.hidden, eps=spec.norm_eps)
        self.mixture = Mixture(spec)

    def forward(self, x: Tensor, turn: Turn) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        attended: Tensor = x + self.attention(self.attention_norm(x), turn)
        return attended + cast("Tensor", self.mixture(self.mixture_norm(attended)))


class GptOss(nn.Module):
    """The decoder; its forward is the mean next-token cross entropy of token ids."""

    def __init__(self, spec: GptOssSpec) -> None:
        super().__init__()
        self.embedding = Embedding(spec.vocab, spec.hidden)
        self.rotary = Rotary(
            spec.seq,
            spec.head_dim,
            spec.rope_theta,
            stretch=stretch_yarn(
                spec.rope_factor, spec.rope_context, theta=spec.rope_theta, width=spec.head_dim
            ),
            scale=sharpen_yarn(spec.rope_factor),
        )
        self.blocks = nn.ModuleList(Block(spec, layer) for layer in range(spec.layers))
        self.norm = RMSNorm(spec.hidden, eps=spec.norm_eps)
        self.head = Linear(spec.hidden, spec.vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean loss of token ids (batch, seq + 1)."""
        turn, x = self.rotary(), self.embedding(tokens[:, :-1])
        for block in self.blocks:
            x = block(x, turn)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), tokens[:, 1:].flatten())


def attend_written(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, window: int | None) -> Tensor:
    """Attend with every score written out; q (batch, heads, seq, width), k and v fewer heads."""
    kv_heads, seq = k.shape[1:3]
    grouped = torch.unflatten(q, 1, (kv_heads, -1))
    scores = grouped @ k.unsqueeze(2).transpose(-1, -2) / q.shape[-1] ** 0.5
    distance = torch.arange(seq, device=q.device).unsqueeze(-1) - torch.arange(seq, device=q.device)
    hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
    scores = scores.masked_fill(hidden, float("-inf")).float()
    beside = sinks.float().view(kv_heads, -1, 1, 1).expand(*scores.shape[:-1], 1)
    shares = torch.cat((scores, beside), dim=-1).softmax(dim=-1)[..., :-1]
    return (shares.to(v.dtype) @ v.unsqueeze(2)).flatten(1, 2)


def attend_flex(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, window: int | None) -> Tensor:
    """Attend as `attend_written` does, in one kernel once compiled.

    A sink s beside scores of log-sum-exp l scales the result by e^l / (e^l + e^s).
    """
    mask = _block_mask(q.shape[2], window, q.device)
    mixed, total = _flex(q, k, v, mask)
    share = torch.sigmoid(total - sinks.float().view(-1, 1))
    return mixed * share.unsqueeze(-1).to(mixed.dtype)


def _flex(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> tuple[Tensor, Tensor]:
    """Return the result and its log-sum-exp, for which newer torch asks in another way."""
    options: dict[str, Any] = {"block_mask": mask, "enable_gqa": q.shape[1] != k.shape[1]}
    if (request := getattr(flex, "AuxRequest", None)) is None:
        return cast(
            "tuple[Tensor, Tensor]", flex.flex_attention(q, k, v, return_lse=True, **options)
        )
    mixed, beside = flex.flex_attention(q, k, v, return_aux=request(lse=True), **options)
    return mixed, beside.lse


@lru_cache(maxsize=8)
def _block_mask(seq: int, window: int | None, device: torch.device) -> Any:
    """Return which blocks of scores are needed; the same for all layers of a kind."""

    def seen(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        before = query >= key
        return before if window is None else before & (query - key < window)

    return flex.create_block_mask(seen, None, None, seq, seq, device=device)


def clamped_swiglu(x: Tensor) -> Tensor:
    """Map (…, 2 width) to (…, width): x sigmoid(1.702 x) of one half, times the other plus 1.

    The halves alternate, as the published weights have them, and are clamped at 7.
    """
    gate, up = x[..., ::2].clamp(max=_LIMIT), x[..., 1::2].clamp(-_LIMIT, _LIMIT)
    return gate * torch.sigmoid(_SLOPE * gate) * (up + 1)


def model(spec: GptOssSpec) -> GptOss:
    """Return the decoder."""
    return GptOss(spec)


def blocks(module: GptOss) -> list[nn.Module]:
    """Return the layers."""
    return list(module.blocks)


def batch(spec: GptOssSpec, generator: torch.Generator) -> tuple[Tensor]:
    """Return token ids (batch, seq + 1)."""
    return (data.tokens((spec.batch, spec.seq + 1), spec.vocab, generator),)
