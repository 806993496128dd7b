"""A graph of any size that takes no memory, and neighbours sampled from it.

Degrees and neighbours are hashes of a node and a relation, so the graph is the same whenever it is
asked. A relation and its reverse are drawn apart. Half of a node's neighbours are of its class.
"""

from __future__ import annotations

import math
from functools import cache
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from workbench.workloads import igbh
from workbench.workloads.igbh import CITES, KINDS, RELATIONS, Relation
from workbench.workloads.rgat import LABELLED, RgatSpec, relations

_ODD = (0x7FB5D329728EA185, -0x7E25210B43D22BB3, 0x1F123BB5159A55E5)
_BITS = 40
_KIND, _SLOT = 36, 42  # bits of a hash's argument above those of a node: what is asked about it
_NOISE_ROWS = 4096


class Edges(NamedTuple):
    """Edges of one relation in compressed form: those of target t are sources[offsets[t]:...]."""

    offsets: Tensor
    """int64 (targets + 1)."""
    sources: Tensor
    """int64 (edges), indices of nodes."""


class Sample(NamedTuple):
    """Nodes around a few labelled ones, in the order in which they were found."""

    nodes: dict[str, Tensor]
    """Of each kind."""
    layers: list[dict[Relation, Edges]]
    """For each layer, the first first; targets are the first nodes of their kind."""


class _Found(NamedTuple):
    counts: list[Tensor]
    sources: list[Tensor]


def sample(spec: RgatSpec, generator: torch.Generator) -> Sample:
    """Draw a batch of papers and, hop by hop, neighbours of what the hop before has found."""
    papers = range(igbh.nodes(spec.graph)[LABELLED])
    chance = Random(int(torch.randint(2**62, (), generator=generator)))  # noqa: S311 - no secret
    seeds = torch.tensor(chance.sample(papers, spec.batch))
    nothing = torch.empty(0, dtype=torch.int64)
    nodes = {kind: seeds if kind == LABELLED else nothing for kind in KINDS}
    frontier = dict(nodes)
    found = {relation: _Found([], []) for relation in RELATIONS}
    for fanout in spec.hops:
        drawn: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
        for relation, edges in found.items():
            counts, sources = _neighbours(
                frontier[relation.target], relation, fanout, spec, generator
            )
            edges.counts.append(counts)
            edges.sources.append(sources)
            drawn[relation.source].append(sources)
        frontier = {kind: _new(nodes[kind], torch.cat(drawn[kind])) for kind in KINDS}
        nodes = {kind: torch.cat((nodes[kind], frontier[kind])) for kind in KINDS}
    depths = range(len(spec.hops), 0, -1)
    layers = [
        {relation: _edges(found[relation], depth, nodes[relation.source]) for relation in used}
        for depth, used in zip(depths, relations(len(depths)), strict=True)
    ]
    return Sample(nodes, layers)


def features(kind: str, nodes: Tensor, spec: RgatSpec) -> Tensor:
    """Return the features (nodes, width): the centre of a node's class, and one row of noise."""
    centres, noise = _tables(spec.seed, spec.classes, spec.features)
    row = _hash(nodes + (KINDS.index(kind) << _KIND)) % _NOISE_ROWS
    return centres[nodes % spec.classes] + noise[row]


def _neighbours(
    nodes: Tensor, relation: Relation, fanout: int, spec: RgatSpec, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return how many neighbours each node got, and those of all nodes in order."""
    key = nodes + (RELATIONS.index(relation) << _KIND)
    degree = igbh.degrees(spec.graph)[relation]
    degrees = (_share(key).log() / math.log(degree / (1 + degree))).long()
    counts = degrees.clamp(max=fanout)
    owner = torch.repeat_interleave(torch.arange(len(nodes)), counts)
    slot = torch.arange(len(owner)) - (counts.cumsum(0) - counts)[owner]
    first = (torch.rand(len(nodes), generator=generator) * degrees).long()
    slot = (first[owner] + slot) % degrees[owner]
    neighbours = _pick(_hash(key[owner] + (1 + slot << _SLOT)), nodes[owner], relation, spec)
    if relation != CITES:
        return counts, neighbours
    # Each paper is linked with itself, always: or its own features would seldom count.
    ends = counts.cumsum(0)
    return counts + 1, _interleave(neighbours, nodes, ends)


def _pick(number: Tensor, nodes: Tensor, relation: Relation, spec: RgatSpec) -> Tensor:
    """Return a neighbour for each hash, at its even values one of the class of the node."""
    count = igbh.nodes(spec.graph)[relation.source]
    anyone = (number >> 1) % count
    alike = anyone - anyone % spec.classes + nodes % spec.classes
    alike = torch.where(alike < count, alike, alike - spec.classes)
    return torch.where((number % 2 == 0) & (alike >= 0), alike, anyone)


def _interleave(neighbours: Tensor, nodes: Tensor, ends: Tensor) -> Tensor:
    """Put each node behind its neighbours, which end at `ends`."""
    behind = ends + torch.arange(len(nodes))
    made = torch.empty(len(neighbours) + len(nodes), dtype=torch.int64)
    is_node = torch.zeros(len(made), dtype=torch.bool)
    is_node[behind] = True
    made[is_node], made[~is_node] = nodes, neighbours
    return made


def _new(known: Tensor, drawn: Tensor) -> Tensor:
    """Return the drawn nodes that are not known, each once."""
    drawn = torch.unique(drawn)
    return drawn[~torch.isin(drawn, known)]


def _edges(found: _Found, depth: int, nodes: Tensor) -> Edges:
    """Join the edges of the first hops, and name their sources by place instead of number."""
    offsets = torch.cat(
        (torch.zeros(1, dtype=torch.int64), torch.cat(found.counts[:depth]).cumsum(0))
    )
    in_order, place = nodes.sort()
    return Edges(offsets, place[torch.searchsorted(in_order, torch.cat(found.sources[:depth]))])


def _hash(number: Tensor) -> Tensor:
    """Scramble int64 into numbers from 0 to 2^40; the products wrap round."""
    for odd in _ODD:
        number = (number ^ (number >> 29)) * odd
    return (number >> (64 - _BITS)) & ((1 << _BITS) - 1)


def _share(number: Tensor) -> Tensor:
    """Scramble int64 into numbers above 0 and below 1."""
    return (_hash(number).double() + 0.5) / (1 << _BITS)


@cache
def _tables(seed: int, classes: int, width: int) -> tuple[Tensor, Tensor]:
    """Return the centres of the classes (classes, width), and rows of noise."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, width, generator=generator)
    return centres, torch.randn(_NOISE_ROWS, width, generator=generator)
