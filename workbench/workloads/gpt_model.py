"""The `gpt` workload as torch modules, its synthetic data and its training step."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.workloads.gpt import GptSpec

_SEED_STRIDE = 1_000_003  # apart enough that ranks and loader processes never share a stream


def rope_table(spec: GptSpec) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the rotary angles, each (seq, head_dim); RoFormer (2104.09864) eq. 34."""
    pairs = torch.arange(0, spec.head_dim, 2, dtype=torch.float32)
    frequency = spec.rope_theta ** (-pairs / spec.head_dim)
    angles = torch.outer(torch.arange(spec.seq, dtype=torch.float32), frequency).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[i], x[i + d/2]) of the last dimension by its position's angle."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Causal grouped-query attention with rotary positions."""

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        self.head_dim = spec.head_dim
        self.grouped = spec.heads != spec.kv_heads
        kv_width = spec.kv_heads * spec.head_dim
        self.q = nn.Linear(spec.hidden, spec.hidden, bias=False)
        self.k = nn.Linear(spec.hidden, kv_width, bias=False)
        self.v = nn.Linear(spec.hidden, kv_width, bias=False)
        self.out = nn.Linear(spec.hidden, spec.hidden, bias=False)

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim).transpose(1, 2)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        q, k, v = (self._heads(project(x)) for project in (self.q, self.k, self.v))
        # The tables are fp32: cast back, or attention under autocast would run in fp32.
        q, k = (rotate(t, cos, sin).to(v.dtype) for t in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.grouped)
        projected: Tensor = self.out(mixed.transpose(1, 2).flatten(-2))
        return projected


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x)); GLU variants (2002.05202)."""

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        self.gate = nn.Linear(spec.hidden, spec.ffn, bias=False)
        self.up = nn.Linear(spec.hidden, spec.ffn, bias=False)
        self.down = nn.Linear(spec.ffn, spec.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        projected: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return projected


class Block(nn.Module):
    """One decoder layer: normalise, attend, add; normalise, feed forward, add."""

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(spec.hidden, eps=spec.norm_eps)
        self.attention = Attention(spec)
        self.ffn_norm = nn.RMSNorm(spec.hidden, eps=spec.norm_eps)
        self.ffn = FeedForward(spec)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        attended: Tensor = x + self.attention(self.attention_norm(x), cos, sin)
        return attended + cast("Tensor", self.ffn(self.ffn_norm(attended)))


class Gpt(nn.Module):
    """The decoder, from token ids to next-token logits."""

    cos: Tensor
    sin: Tensor

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        self.recompute = spec.recompute
        self.embedding = nn.Embedding(spec.vocab, spec.hidden)
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec.layers))
        self.norm = nn.RMSNorm(spec.hidden, eps=spec.norm_eps)
        self.head = nn.Linear(spec.hidden, spec.vocab, bias=False)
        self.apply(_init_weights)
        if spec.tied_embeddings:
            self.head.weight = self.embedding.weight
        for name, table in zip(("cos", "sin"), rope_table(spec), strict=True):
            self.register_buffer(name, table, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map token ids (batch, seq) to logits (batch, seq, vocab)."""
        x = self.embedding(tokens)
        for block in self.blocks:
            if self.recompute:
                x = checkpoint(block, x, self.cos, self.sin, use_reentrant=False)
            else:
                x = block(x, self.cos, self.sin)
        logits: Tensor = self.head(self.norm(x))
        return logits


class Tokens(IterableDataset[Tensor]):
    """Endless random sequences of seq + 1 token ids, the same for the same seed and rank."""

    def __init__(self, spec: GptSpec, rank: int) -> None:
        super().__init__()
        self.vocab, self.length = spec.vocab, spec.seq + 1
        self.seed = spec.seed + _SEED_STRIDE * rank

    def __iter__(self) -> Iterator[Tensor]:
        """Yield sequences; each loader process has a stream of its own."""
        worker = get_worker_info()
        stream = 0 if worker is None else 1 + worker.id
        generator = torch.Generator().manual_seed(self.seed + _SEED_STRIDE**2 * stream)
        while True:
            yield torch.randint(self.vocab, (self.length,), generator=generator)


class Training:
    """A model, its data and its optimiser; `step()` runs one training step."""

    def __init__(
        self,
        spec: GptSpec,
        *,
        device: torch.device,
        rank: int = 0,
        wrap: Callable[[nn.Module], nn.Module] = lambda module: module,
    ) -> None:
        torch.manual_seed(spec.seed)
        self.spec, self.device = spec, device
        with device:
            module = Gpt(spec)
        self.parameters = sum(p.numel() for p in module.parameters())
        self.model = wrap(module.to(device))
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=spec.learning_rate,
            weight_decay=spec.weight_decay,
            fused=spec.fused_optimizer or None,
        )
        self.batches = iter(_loader(spec, device, rank))

    def step(self) -> Tensor:
        """Run one optimiser step over `accumulate` micro-batches; return the last loss."""
        last = self.spec.accumulate - 1
        for micro in range(self.spec.accumulate):
            with self._gradients(synchronise=micro == last):
                loss = self.loss(next(self.batches))
                torch.autograd.backward(loss / self.spec.accumulate)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def loss(self, batch: Tensor) -> Tensor:
        """Mean next-token cross entropy of token ids (batch, seq + 1)."""
        tokens = batch.to(self.device, non_blocking=True)
        use_bf16 = self.spec.precision == "bf16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=use_bf16):
            logits = self.model(tokens[:, :-1])
            return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def facts(self) -> dict[str, Any]:
        """Return what the run folder should know: parameters, shape, and a step's work on a rank.

        A sample is one sequence. `transformer` has the fields of `costs.transformer`.
        """
        spec = self.spec
        samples = spec.batch * spec.accumulate
        return {
            "parameters": self.parameters,
            "samples_per_step_and_rank": samples,
            "tokens_per_step_and_rank": samples * spec.seq,
            "transformer": spec.transformer(),
        }

    def _gradients(self, *, synchronise: bool) -> AbstractContextManager[Any]:
        if isinstance(self.model, nn.parallel.DistributedDataParallel) and not synchronise:
            return self.model.no_sync()
        return nullcontext()


build = Training


def _loader(spec: GptSpec, device: torch.device, rank: int) -> DataLoader[Tensor]:
    return DataLoader(
        Tokens(spec, rank),
        batch_size=spec.batch,
        num_workers=spec.loader_workers,
        pin_memory=device.type == "cuda",
    )


def _init_weights(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
