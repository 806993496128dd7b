"""BERT with both pretraining losses as torch modules, and its ragged synthetic texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from workbench.workloads import data
from workbench.workloads.bert_large import TYPES
from workbench.workloads.layers import Embedding, Linear

if TYPE_CHECKING:
    from workbench.workloads.bert_large import BertSpec

_IGNORED = -100
_MASK = 3
"""The id that stands for a masked token."""
_MASKED_SHARE, _KEPT_SHARE = 0.15, 0.2


class Attention(nn.Module):
    """Attention in both directions, over the tokens that are no padding."""

    def __init__(self, spec: BertSpec) -> None:
        super().__init__()
        self.head_dim, self.dropout = spec.hidden // spec.heads, spec.dropout
        self.q, self.k, self.v, self.out = (Linear(spec.hidden, spec.hidden) for _ in range(4))

    def forward(self, x: Tensor, is_text: Tensor) -> Tensor:
        """Map (batch, seq, hidden) to the same shape; is_text (batch, 1, 1, seq) is boolean."""
        q, k, v = (self._heads(project(x)) for project in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(
            q, k, v, attn_mask=is_text, dropout_p=self.dropout if self.training else 0.0
        )
        return cast("Tensor", self.out(mixed.transpose(1, 2).flatten(-2)))

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim).transpose(1, 2)


class FeedForward(nn.Module):
    """down(gelu(up(x)))."""

    def __init__(self, spec: BertSpec) -> None:
        super().__init__()
        self.up = Linear(spec.hidden, spec.ffn)
        self.down = Linear(spec.ffn, spec.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        return cast("Tensor", self.down(F.gelu(self.up(x))))


class Block(nn.Module):
    """One encoder layer: attend, drop, add, normalise; feed forward, drop, add, normalise."""

    def __init__(self, spec: BertSpec) -> None:
        super().__init__()
        self.attention, self.ffn = Attention(spec), FeedForward(spec)
        self.attention_norm = nn.LayerNorm(spec.hidden, eps=spec.norm_eps)
        self.ffn_norm = nn.LayerNorm(spec.hidden, eps=spec.norm_eps)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Tensor, is_text: Tensor) -> Tensor:
        """Map (batch, seq, hidden) to the same shape."""
        x = self.attention_norm(x + self.dropout(self.attention(x, is_text)))
        return cast("Tensor", self.ffn_norm(x + self.dropout(self.ffn(x))))


class Embedded(nn.Module):
    """Tokens, positions and which of both texts, added up and normalised."""

    def __init__(self, spec: BertSpec) -> None:
        super().__init__()
        self.word = Embedding(spec.vocab, spec.hidden)
        self.position = Embedding(spec.seq, spec.hidden)
        self.text = Embedding(TYPES, spec.hidden)
        self.norm = nn.LayerNorm(spec.hidden, eps=spec.norm_eps)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, tokens: Tensor, texts: Tensor) -> Tensor:
        """Map ids (batch, seq) to (batch, seq, hidden)."""
        x = self.word(tokens) + self.position.weight + self.text(texts)
        return cast("Tensor", self.dropout(self.norm(x)))


class MaskedTokens(nn.Module):
    """Predicts masked tokens from their states; its last matrix is the embedding."""

    def __init__(self, spec: BertSpec) -> None:
        super().__init__()
        self.transform = Linear(spec.hidden, spec.hidden)
        self.norm = nn.LayerNorm(spec.hidden, eps=spec.norm_eps)
        self.decoder = Linear(spec.hidden, spec.vocab)

    def forward(self, x: Tensor, places: Tensor, ids: Tensor) -> Tensor:
        """Return the mean loss of ids (batch, predictions) at places in x; -100 is no token."""
        states = x.gather(1, places.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
        logits = self.decoder(self.norm(F.gelu(self.transform(states))))
        return F.cross_entropy(logits.flatten(0, 1), ids.flatten(), ignore_index=_IGNORED)


class NextSentence(nn.Module):
    """Tells from the first token's state whether the second text follows the first."""

    def __init__(self, spec: BertSpec) -> None:
        super().__init__()
        self.pool = Linear(spec.hidden, spec.hidden)
        self.decide = Linear(spec.hidden, 2)

    def forward(self, x: Tensor, follows: Tensor) -> Tensor:
        """Return the mean loss of follows (batch)."""
        return F.cross_entropy(self.decide(torch.tanh(self.pool(x[:, 0]))), follows)


class Bert(nn.Module):
    """The encoder with both heads; its forward is the sum of both mean losses."""

    def __init__(self, spec: BertSpec) -> None:
        super().__init__()
        self.embedded = Embedded(spec)
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec.layers))
        self.masked, self.following = MaskedTokens(spec), NextSentence(spec)
        self.masked.decoder.weight = self.embedded.word.weight

    def forward(  # noqa: PLR0917 - the tensors of a batch
        self,
        tokens: Tensor,
        texts: Tensor,
        lengths: Tensor,
        places: Tensor,
        ids: Tensor,
        follows: Tensor,
    ) -> Tensor:
        """Return the loss of tokens (batch, seq) with the masked ones at places."""
        position = torch.arange(tokens.shape[1], device=tokens.device)
        is_text = (position < lengths.unsqueeze(-1))[:, None, None, :]
        x = self.embedded(tokens, texts)
        for block in self.blocks:
            x = block(x, is_text)
        return cast("Tensor", self.masked(x, places, ids) + self.following(x, follows))


def model(spec: BertSpec) -> Bert:
    """Return the encoder."""
    return Bert(spec)


def blocks(module: Bert) -> list[nn.Module]:
    """Return the layers."""
    return list(module.blocks)


def batch(spec: BertSpec, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Return tokens and texts (batch, seq), lengths, places and ids of masked tokens, follows.

    Lengths are even between an eighth and the whole, the second text is the latter half. 15 % of
    the tokens are to be predicted: four fifths are hidden, the others stand as they are. A second
    text that follows starts with the token after the first text's first.
    """
    tokens = data.tokens((spec.batch, spec.seq), spec.vocab, generator)
    lengths = torch.randint(spec.seq // 8, spec.seq + 1, (spec.batch,), generator=generator)
    follows = torch.randint(2, (spec.batch,), generator=generator)
    position = torch.arange(spec.seq)
    texts = (position >= lengths.unsqueeze(-1) // 2).long()
    row, second = torch.arange(spec.batch), lengths // 2
    tokens[row, second] = (tokens[:, 0] + follows) % spec.vocab
    chance = torch.rand(tokens.shape, generator=generator)
    chance[position >= lengths.unsqueeze(-1)] = 1.0
    ordered, places = chance.sort(dim=-1)
    places = places[:, : spec.predictions]
    wanted = ordered[:, : spec.predictions] < _MASKED_SHARE
    ids = tokens.gather(1, places).where(wanted, torch.tensor(_IGNORED))
    hidden = wanted & (torch.rand(places.shape, generator=generator) > _KEPT_SHARE)
    shown = tokens.scatter(1, places, tokens.gather(1, places).masked_fill(hidden, _MASK))
    return shown, texts, lengths, places, ids, follows


def tensor_plan(module: Bert) -> dict[str, Any]:
    """Split heads, feed-forwards and the vocabulary; what lies between is whole on each rank."""
    plan: dict[str, Any] = {
        "embedded.word": RowwiseParallel(input_layouts=Replicate()),
        "masked.decoder": ColwiseParallel(output_layouts=Replicate()),
    }
    for index in range(len(module.blocks)):
        for name in ("attention.q", "attention.k", "attention.v", "ffn.up"):
            plan[f"blocks.{index}.{name}"] = ColwiseParallel()
        for name in ("attention.out", "ffn.down"):
            plan[f"blocks.{index}.{name}"] = RowwiseParallel()
    return plan
