"""DeepSeek-V3 as torch modules: latent attention, routed experts, multi-token prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn

from workbench.workloads import data
from workbench.workloads.experts import Experts, tokens_of
from workbench.workloads.layers import Embedding, Linear, RMSNorm, Rotary, rotate

if TYPE_CHECKING:
    from workbench.workloads.deepseekv3_671b import DeepSeekSpec

Turn: TypeAlias = "tuple[Tensor, Tensor]"


class LatentAttention(nn.Module):
    """Causal attention whose queries, keys and values come from narrow latents (2405.04434, 2.1).

    Positions turn a part of each query and one key that all heads share.
    """

    def __init__(self, spec: DeepSeekSpec) -> None:
        super().__init__()
        self.heads, self.rank = spec.heads, spec.key_value_rank
        self.nope, self.rope, self.value = spec.nope_dim, spec.rope_dim, spec.value_dim
        self.query_down = Linear(spec.hidden, spec.query_rank, bias=False)
        self.query_norm = RMSNorm(spec.query_rank, eps=spec.norm_eps)
        self.query_up = Linear(spec.query_rank, self.heads * (self.nope + self.rope), bias=False)
        self.down = Linear(spec.hidden, self.rank + self.rope, bias=False)
        self.norm = RMSNorm(self.rank, eps=spec.norm_eps)
        self.up = Linear(self.rank, self.heads * (self.nope + self.value), bias=False)
        self.out = Linear(self.heads * self.value, spec.hidden, bias=False)

    def forward(self, x: Tensor, turn: Turn) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        query = self._heads(self.query_up(self.query_norm(self.query_down(x))))
        q_nope, q_rope = torch.split(query, [self.nope, self.rope], dim=-1)
        latent, k_rope = torch.split(self.down(x), [self.rank, self.rope], dim=-1)
        key_value = self._heads(self.up(self.norm(latent)))
        k_nope, value = torch.split(key_value, [self.nope, self.value], dim=-1)
        shared = rotate(k_rope.unsqueeze(1), *turn).expand(-1, self.heads, -1, -1)
        q = torch.cat((q_nope, rotate(q_rope, *turn)), dim=-1)
        k = torch.cat((k_nope, shared), dim=-1)
        mixed = F.scaled_dot_product_attention(q, k, value, is_causal=True)
        return cast("Tensor", self.out(mixed.transpose(1, 2).flatten(-2)))

    def _heads(self, x: Tensor) -> Tensor:
        return torch.unflatten(x, -1, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """SwiGLU of a given width: the dense layers' and the shared experts'."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.wide = Linear(hidden, 2 * width, bias=False)
        self.narrow = Linear(width, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, hidden) to the same shape."""
        return cast("Tensor", self.narrow(swiglu(self.wide(x))))


class Load(nn.Module):
    """How often each expert was chosen since the last step, and the bias that answers to it."""

    bias: Tensor
    chosen: Tensor

    def __init__(self, experts: int) -> None:
        super().__init__()
        for name in ("bias", "chosen"):
            self.register_buffer(name, torch.empty(experts))

    def reset_parameters(self) -> None:
        """Start even."""
        self.bias.zero_()
        self.chosen.zero_()


class Router(nn.Module):
    """Scores by a sigmoid; choice by score and bias, of the best groups; weights by score alone.

    DeepSeek-V3 (2412.19437), eqs. 12-20: a group counts by its two best experts.
    """

    def __init__(self, spec: DeepSeekSpec) -> None:
        super().__init__()
        self.top_k, self.groups, self.top_groups = spec.top_k, spec.expert_groups, spec.top_groups
        self.scale, self.balance = spec.routed_scale, spec.balance
        self.linear = Linear(spec.hidden, spec.experts, bias=False)
        self.load = Load(spec.experts)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids and weights (batch, seq, top_k) of the chosen, and the balance loss."""
        # In fp32: a rounded score changes who is chosen.
        with torch.autocast(x.device.type, enabled=False):
            scores = F.linear(x.float(), self.linear.weight.float()).sigmoid()
        chosen = self._choose((scores + self.load.bias).detach())
        kept = scores.gather(-1, chosen)
        weights = self.scale * kept / kept.sum(-1, keepdim=True)
        with torch.no_grad():
            self.load.chosen += tokens_of(chosen, scores.shape[-1])
        return chosen, weights, self._imbalance(scores, chosen)

    def _choose(self, biased: Tensor) -> Tensor:
        grouped = torch.unflatten(biased, -1, (self.groups, -1))
        best = grouped.topk(2, dim=-1).values.sum(-1).topk(self.top_groups, dim=-1).indices
        closed = torch.ones_like(grouped[..., 0], dtype=torch.bool).scatter(-1, best, value=False)
        opened = grouped.masked_fill(closed.unsqueeze(-1), float("-inf")).flatten(-2)
        return opened.topk(self.top_k, dim=-1, sorted=False).indices

    def _imbalance(self, scores: Tensor, chosen: Tensor) -> Tensor:
        """Return the sum over experts of share chosen x mean share of score, 1 where even."""
        picked = torch.zeros_like(scores).scatter(-1, chosen, 1.0).mean(-2)
        share = (scores / scores.sum(-1, keepdim=True)).mean(-2)
        return self.balance * (picked * share).sum(-1).mean() * scores.shape[-1] / self.top_k


class Mixture(nn.Module):
    """Routed experts beside those that every token passes."""

    def __init__(self, spec: DeepSeekSpec) -> None:
        super().__init__()
        self.router = Router(spec)
        self.experts = Experts(
            count=spec.experts,
            hidden=spec.hidden,
            width=spec.expert_ffn,
            activation=swiglu,
            kernel=spec.expert_kernel,
        )
        width = spec.shared_experts * spec.expert_ffn
        self.shared = FeedForward(spec.hidden, width) if width else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map (batch, seq, hidden) to the same shape, and return the balance loss."""
        chosen, weights, loss = self.router(x)
        routed = self.experts(x.flatten(0, 1), chosen.flatten(0, 1), weights.flatten(0, 1))
        mixed = routed.view_as(x)
        return (mixed if self.shared is None else mixed + self.shared(x)), loss


class Block(nn.Module):
    """One decoder layer, dense or with experts."""

    def __init__(self, spec: DeepSeekSpec, *, is_sparse: bool) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(spec.hidden, eps=spec.norm_eps)
        self.attention = LatentAttention(spec)
        self.ffn_norm = RMSNorm(spec.hidden, eps=spec.norm_eps)
        self.ffn = Mixture(spec) if is_sparse else FeedForward(spec.hidden, spec.ffn)

    def forward(self, x: Tensor, turn: Turn, balance: Tensor) -> tuple[Tensor, Tensor]:
        """Map (batch, seq, hidden) to the same shape, and add to the balance loss."""
        x = x + self.attention(self.attention_norm(x), turn)
        found = self.ffn(self.ffn_norm(x))
        if isinstance(found, tuple):
            return x + found[0], balance + found[1]
        return x + found, balance


class Predictor(nn.Module):
    """Predicts one token further, from the last state and the token in between (2412.19437, 2.2).

    Embedding and head are the decoder's own.
    """

    def __init__(self, spec: DeepSeekSpec) -> None:
        super().__init__()
        self.state_norm = RMSNorm(spec.hidden, eps=spec.norm_eps)
        self.token_norm = RMSNorm(spec.hidden, eps=spec.norm_eps)
        self.join = Linear(2 * spec.hidden, spec.hidden, bias=False)
        self.block = Block(spec, is_sparse=True)
        self.norm = RMSNorm(spec.hidden, eps=spec.norm_eps)

    def forward(
        self, state: Tensor, token: Tensor, turn: Turn, balance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Map states and embedded tokens (batch, seq, hidden) to states, and add to the loss."""
        joined = self.join(torch.cat((self.token_norm(token), self.state_norm(state)), dim=-1))
        found: tuple[Tensor, Tensor] = self.block(joined, turn, balance)
        return found


class DeepSeek(nn.Module):
    """The decoder; its forward is the mean loss of token ids."""

    def __init__(self, spec: DeepSeekSpec) -> None:
        super().__init__()
        self.seq, self.predicted_weight, self.bias_step = (
            spec.seq,
            spec.predicted_weight,
            spec.bias_step,
        )
        self.embedding = Embedding(spec.vocab, spec.hidden)
        self.rotary = Rotary(spec.seq, spec.rope_dim, spec.rope_theta)
        self.blocks = nn.ModuleList(
            Block(spec, is_sparse=index >= spec.dense_layers) for index in range(spec.layers)
        )
        self.norm = RMSNorm(spec.hidden, eps=spec.norm_eps)
        self.head = Linear(spec.hidden, spec.vocab, bias=False)
        self.predictors = nn.ModuleList(Predictor(spec) for _ in range(spec.predicted))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean loss of token ids (batch, seq + 1 + predicted)."""
        turn = self.rotary()
        x, balance = self.embedding(self._from(tokens, 0)), tokens.new_zeros((), dtype=torch.float)
        for block in self.blocks:
            x, balance = block(x, turn, balance)
        loss = self._loss(self.norm(x), self._from(tokens, 1))
        for depth, predictor in enumerate(self.predictors, start=1):
            token = self.embedding(self._from(tokens, depth))
            x, balance = predictor(x, token, turn, balance)
            further = self._loss(
                cast("Predictor", predictor).norm(x), self._from(tokens, depth + 1)
            )
            loss = loss + self.predicted_weight / len(self.predictors) * further
        return loss + balance

    def _from(self, tokens: Tensor, start: int) -> Tensor:
        return tokens[:, start : start + self.seq]

    def _loss(self, x: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


def swiglu(x: Tensor) -> Tensor:
    """Map (…, 2 width) to (…, width): silu of the first half, times the second."""
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


def model(spec: DeepSeekSpec) -> DeepSeek:
    """Return the decoder."""
    return DeepSeek(spec)


def blocks(module: DeepSeek) -> list[nn.Module]:
    """Return the layers, with those of the predictors."""
    return [*module.blocks, *(cast("Predictor", part).block for part in module.predictors)]


def batch(spec: DeepSeekSpec, generator: torch.Generator) -> tuple[Tensor]:
    """Return token ids (batch, seq + 1 + predicted)."""
    shape = (spec.batch, spec.seq + 1 + spec.predicted)
    return (data.tokens(shape, spec.vocab, generator),)


@torch.no_grad()
def after_step(module: DeepSeek) -> None:
    """Raise the bias of experts that got less than their share on all ranks, lower the others'."""
    loads = [part for part in module.modules() if isinstance(part, Load)]
    if not loads:
        return
    chosen = torch.stack([load.chosen for load in loads])
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(chosen)
    steps = module.bias_step * torch.sign(chosen.mean(-1, keepdim=True) - chosen)
    for load, step in zip(loads, steps, strict=True):
        load.bias += step
        load.chosen.zero_()
