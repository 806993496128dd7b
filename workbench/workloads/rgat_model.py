"""The `rgat` workload as torch modules: attention in each relation, summed at each node."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn

from workbench.workloads.igbh import KINDS, RELATIONS, Relation
from workbench.workloads.rgat import LABELLED, RgatSpec, relations
from workbench.workloads.rgat_sampling import Edges, features, sample

_SLOPE = 0.2


class RelationAttention(nn.Module):
    """Attention of the nodes at one end of a relation to those at the other.

    Graph Attention Networks (1710.10903) with weights for each relation (1904.05811).
    """

    def __init__(self, inputs: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.shape = (heads, hidden // heads)
        self.project = nn.Linear(inputs, hidden, bias=False)
        self.of_source = nn.Parameter(torch.empty(self.shape))
        self.of_target = nn.Parameter(torch.empty(self.shape))
        self.bias = nn.Parameter(torch.empty(hidden))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the attention as Xavier does; the bias begins at 0."""
        nn.init.xavier_uniform_(self.of_source)
        nn.init.xavier_uniform_(self.of_target)
        nn.init.zeros_(self.bias)

    def forward(self, sources: Tensor, targets: Tensor | None, edges: Edges) -> Tensor:
        """Map sources (nodes, inputs) to what each target (targets, hidden) sums up.

        `targets` (targets, inputs); None: they are the first of the sources.
        """
        count = len(edges.offsets) - 1
        own = self._heads(sources)
        asking = own[:count] if targets is None else self._heads(targets)
        target = torch.repeat_interleave(
            torch.arange(count, device=own.device),
            edges.offsets.diff(),
            output_size=len(edges.sources),
        )
        # Not x[indices]: the backward of that sorts them.
        by_source = (own * self.of_source).sum(dim=2).index_select(0, edges.sources)
        by_target = (asking * self.of_target).sum(dim=2).index_select(0, target)
        weight = edge_softmax(F.leaky_relu(by_source + by_target, _SLOPE).float(), target, count)
        message = own.index_select(0, edges.sources) * weight.to(own.dtype).unsqueeze(2)
        summed = message.new_zeros(count, *message.shape[1:]).index_add(0, target, message)
        return summed.flatten(1) + self.bias

    def _heads(self, x: Tensor) -> Tensor:
        projected: Tensor = self.project(x)
        return projected.view(len(x), *self.shape)


class Layer(nn.Module):
    """All relations; a node sums what it gets from each of them."""

    def __init__(self, spec: RgatSpec, used: tuple[Relation, ...], *, is_first: bool) -> None:
        super().__init__()
        self.is_first = is_first
        inputs = spec.features if is_first else spec.hidden
        self.relations = nn.ModuleDict(
            {_name(r): RelationAttention(inputs, spec.hidden, spec.heads) for r in RELATIONS}
        )
        # Weights that reach no labelled node: in the reference too, they get no gradient.
        for relation in set(RELATIONS) - set(used):
            self.relations[_name(relation)].requires_grad_(False)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, nodes: dict[str, Tensor], edges: dict[Relation, Edges]) -> dict[str, Tensor]:
        """Map each kind's nodes (nodes, inputs) to its targets (targets, hidden)."""
        if not self.is_first:
            nodes = {kind: self.dropout(F.leaky_relu(x)) for kind, x in nodes.items()}
        sums: dict[str, Tensor] = {}
        for relation, its_edges in edges.items():
            attention = self.relations[_name(relation)]
            targets = None
            if relation.source != relation.target:
                targets = nodes[relation.target][: len(its_edges.offsets) - 1]
            got = attention(nodes[relation.source], targets, its_edges)
            sums[relation.target] = sums.get(relation.target, 0) + got
        return sums


class Rgat(nn.Module):
    """Layers, a class for each labelled node, and the loss."""

    def __init__(self, spec: RgatSpec) -> None:
        super().__init__()
        self.used = relations(len(spec.hops))
        self.layers = nn.ModuleList(
            Layer(spec, used, is_first=not number) for number, used in enumerate(self.used)
        )
        self.head = nn.Linear(spec.hidden, spec.classes)

    def forward(self, *tensors: Tensor) -> Tensor:
        """Return the mean cross entropy of the labelled nodes.

        `tensors`: features of each kind; offsets and sources of each relation of each layer;
        labels (batch).
        """
        nodes = dict(zip(KINDS, tensors, strict=False))
        labels = tensors[-1]
        rest = iter(tensors[len(KINDS) : -1])
        for layer, used in zip(self.layers, self.used, strict=True):
            edges = {relation: Edges(next(rest), next(rest)) for relation in used}
            nodes = layer(nodes, edges)
        return F.cross_entropy(self.head(nodes[LABELLED]).float(), labels)


def edge_softmax(scores: Tensor, target: Tensor, count: int) -> Tensor:
    """Return weights (edges, heads) whose sum is 1 over the edges of each of `count` targets."""
    place = target.unsqueeze(1).expand_as(scores)
    lowest = scores.new_full((count, scores.shape[1]), -torch.inf)
    highest = lowest.scatter_reduce(0, place, scores.detach(), "amax")
    weight = (scores - highest.index_select(0, target)).exp()
    total = torch.zeros_like(lowest).index_add(0, target, weight)
    return weight / total.index_select(0, target)


def model(spec: RgatSpec) -> nn.Module:
    """Build the network with its loss."""
    return Rgat(spec)


def blocks(module: nn.Module) -> list[nn.Module]:
    """Return the layers."""
    return list(cast("Rgat", module).layers)


def batch(spec: RgatSpec, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Sample a graph; see `Rgat.forward`. A paper's class is in its features and its neighbours."""
    found = sample(spec, generator)
    edges = [tensor for layer in found.layers for pair in layer.values() for tensor in pair]
    labels = found.nodes[LABELLED][: spec.batch] % spec.classes
    return *(features(kind, found.nodes[kind], spec) for kind in KINDS), *edges, labels


def _name(relation: Relation) -> str:
    return f"{relation.source}_{relation.name}_{relation.target}"
