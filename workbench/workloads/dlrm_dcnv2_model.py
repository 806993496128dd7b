"""The `dlrm_dcnv2` workload as torch modules, with clicks that follow from the features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn

from workbench.workloads.dlrm_dcnv2 import (
    BAGS,
    DENSE_FEATURES,
    DlrmSpec,
    dense_widths,
    over_widths,
)


class Table(nn.EmbeddingBag):
    """An embedding table that returns the sum of the rows looked up."""

    def __init__(self, rows: int, width: int, *, sparse: bool) -> None:
        super().__init__(rows, width, mode="sum", sparse=sparse)

    def reset_parameters(self) -> None:
        """Draw uniformly within 1 / sqrt(rows), as the reference does."""
        bound = self.num_embeddings**-0.5
        nn.init.uniform_(self.weight, -bound, bound)


class Cross(nn.Module):
    """Low-rank cross layers: x + x0 * (W V x + b); DCN V2 (2008.13535) eq. 2."""

    def __init__(self, width: int, rank: int, layers: int) -> None:
        super().__init__()
        self.narrow = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(layers))
        self.widen = nn.ModuleList(nn.Linear(rank, width) for _ in range(layers))

    def forward(self, first: Tensor) -> Tensor:
        """Map (batch, width) to the same shape."""
        x = first
        for narrow, widen in zip(self.narrow, self.widen, strict=True):
            x = x + first * widen(narrow(x))
        return x


class Dlrm(nn.Module):
    """Tables and dense features, crossed, then a chance of a click and the loss."""

    def __init__(self, spec: DlrmSpec) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            Table(rows, spec.embedding, sparse=spec.sparse_gradients) for rows in spec.rows
        )
        self.dense = _layers(dense_widths(spec))
        self.cross = Cross(spec.crossed, spec.cross_rank, spec.cross_layers)
        self.over = _layers(over_widths(spec))[:-1]

    def forward(self, features: Tensor, rows: Tensor, clicks: Tensor) -> Tensor:
        """Return the mean binary cross-entropy.

        features (batch, 13); rows (batch, sum of the bags), table by table; clicks (batch).
        """
        dense = self.dense(features)
        bags = torch.split(rows, list(BAGS), dim=1)
        sums = [table(bag) for table, bag in zip(self.tables, bags, strict=True)]
        crossed = self.cross(torch.cat((dense, *sums), dim=1))
        logits = cast("Tensor", self.over(crossed)).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits.float(), clicks.float())


def model(spec: DlrmSpec) -> nn.Module:
    """Build the network with its loss."""
    return Dlrm(spec)


def blocks(module: nn.Module) -> list[nn.Module]:
    """Return the dense parts; looking up is not worth doing twice."""
    dlrm = cast("Dlrm", module)
    return [dlrm.dense, dlrm.cross, dlrm.over]


def batch(spec: DlrmSpec, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Return features (batch, 13), rows (batch, 214) drawn uniformly, and clicks (batch).

    A click is likely where the first features are large and the first table's row is even.
    """
    features = torch.randn(spec.batch, DENSE_FEATURES, generator=generator)
    rows = [
        torch.randint(count, (spec.batch, bag), generator=generator)
        for count, bag in zip(spec.rows, BAGS, strict=True)
    ]
    taste = 2 * features[:, :4].sum(dim=1) + 2.0 * (rows[0][:, 0] % 2) - 1
    clicks = torch.rand(spec.batch, generator=generator) < taste.sigmoid()
    return features, torch.cat(rows, dim=1), clicks.float()


def _layers(widths: Iterable[tuple[int, int]]) -> nn.Sequential:
    made: list[nn.Module] = []
    for inputs, outputs in widths:
        # In place it would spoil what selective recomputation keeps.
        made += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*made)
