"""The spec of the `rgat` workload: relational graph attention on sampled graphs. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from workbench.errors import UsageError
from workbench.workloads import igbh
from workbench.workloads.fields import param
from workbench.workloads.igbh import KINDS, RELATIONS, Relation
from workbench.workloads.options import Options

LABELLED = "paper"
"""The kind of nodes that have a class."""


@dataclass(frozen=True, kw_only=True)
class RgatSpec(Options):
    """Graph, sampling, shape and optimiser; the defaults are the preset `tiny`."""

    graph: str = param("tiny", "size of the graph, by IGBH's name", choices=igbh.SIZES)
    fanouts: str = param("4,3,2", "neighbours sampled in each relation: first hop, second, …")
    hidden: int = param(192, "width of a node inside the model", minimum=1)
    heads: int = param(4, "attention heads", minimum=1)
    features: int = param(128, "width of a node's features", minimum=1)
    classes: int = param(19, "classes of papers", minimum=2, maximum=100_000)
    dropout: float = param(0.2, "share of values dropped between layers", minimum=0, maximum=0.99)
    parallel: str = param("ddp", "how several ranks share the work", choices=("ddp",))

    def __post_init__(self) -> None:
        """Check each field, then those that depend on each other."""
        super().__post_init__()
        if self.hidden % self.heads:
            raise UsageError(
                f"hidden={self.hidden} is not divisible by heads={self.heads}; "
                "each head needs an equal share."
            )
        if self.batch > igbh.nodes(self.graph)[LABELLED]:
            raise UsageError(f"batch={self.batch} is more than graph={self.graph} has papers.")
        if self.cuda_graphs:
            raise UsageError(
                "cuda_graphs=true needs batches of one shape, and those that fanouts="
                f"{self.fanouts} samples are ragged; leave it off."
            )
        _ = self.hops

    @property
    def hops(self) -> tuple[int, ...]:
        """Return the fanout of each hop; the model has as many layers."""
        try:
            hops = tuple(int(text) for text in self.fanouts.split(","))
        except ValueError:
            hops = (0,)
        if min(hops) < 1:
            raise UsageError(
                f"fanouts={self.fanouts!r} is not a list of whole numbers above 0, as in 15,10,5."
            )
        return hops


DISTINCTIVE = (
    "six kinds of nodes, eleven relations, each with weights of its own in each layer",
    "neighbours sampled by fanout, nodes found twice kept once: ragged batches",
    "edge softmax in each relation, sums over relations",
    "three layers, each computing what the next one needs",
)
# Adam without decay is AdamW with a decay of 0.
_spec = partial(RgatSpec, optimizer="adamw", weight_decay=0.0)
PRESETS = {
    "tiny": _spec(batch=64, learning_rate=3e-3),
    "small": _spec(
        graph="medium",
        fanouts="15,10,5",
        hidden=512,
        features=igbh.FEATURES,
        batch=64,
        learning_rate=1e-3,
    ),
    # mlcommons/training graph_neural_network/dist_train_rgnn.py (2024), with examples/igbh/rgnn.py
    # of graphlearn-for-pytorch: three layers, 512 wide, 4 heads, 15-10-5, 512 seeds a rank.
    "full": _spec(
        graph="full",
        fanouts="15,10,5",
        hidden=512,
        features=igbh.FEATURES,
        classes=2983,
        batch=512,
        learning_rate=1e-3,
    ),
}
PRESET_HELP = {
    "tiny": "three layers on IGBH's smallest graph, few neighbours",
    "small": "the layers of full on a graph of ten million papers, 19 classes",
    "full": "R-GAT of MLPerf Training on a graph of IGBH-Full's size, 512 papers on each GPU",
}
SUMMARY = "Relational graph attention on neighbours sampled from a graph like IGBH, Adam"
INCLUDED = "eleven relations in each of three layers, also the 1,845,760 that no gradient reaches"
SOURCE = "mlcommons/training graph_neural_network; graphlearn-for-pytorch examples/igbh (2024)"


def relations(layers: int) -> list[tuple[Relation, ...]]:
    """Return the relations that reach a labelled node from each layer, the first layer first.

    The last layer needs those that end in papers, the one before those that end one step away.
    """
    reached = {LABELLED}
    found = []
    for _ in range(layers):
        used = tuple(r for r in RELATIONS if r.target in reached)
        found.append(used)
        reached |= {r.source for r in used}
    return found[::-1]


def parameters(spec: RgatSpec) -> int:
    """Count the parameters from the configuration, those that no gradient reaches too."""
    inputs, count = spec.features, 0
    for _ in spec.hops:
        # A matrix, attention of source and target, and a bias.
        count += len(RELATIONS) * (inputs * spec.hidden + 3 * spec.hidden)
        inputs = spec.hidden
    return count + (spec.hidden + 1) * spec.classes


def flops(spec: RgatSpec) -> int:
    """Return the matrix FLOPs to expect of a step on a rank; samples differ by a few per cent.

    A relation projects its sources, and its targets where they are of another kind; the first
    layer's inputs are data and have no gradient.
    """
    found = expected_nodes(spec)
    layers = relations(len(spec.hops))
    total = 6.0 * spec.batch * spec.hidden * spec.classes
    inputs, products = spec.features, 2
    for number, used in enumerate(layers, start=1):
        sources, targets = found[-number], found[-number - 1]
        rows = sum(
            sources[r.source] + (targets[r.target] if r.source != r.target else 0) for r in used
        )
        total += 2 * products * rows * inputs * spec.hidden
        inputs, products = spec.hidden, 3
    return round(spec.accumulate * total)


def expected_nodes(spec: RgatSpec) -> list[dict[str, float]]:
    """Return how many different nodes of each kind a batch holds on average after 0, 1, … hops.

    n draws among c nodes find c (1 - (1 - 1/c)^n) different ones.
    """
    counts, degrees = igbh.nodes(spec.graph), igbh.degrees(spec.graph)
    known = dict.fromkeys(KINDS, 0.0)
    frontier = {**known, LABELLED: float(spec.batch)}
    known[LABELLED] = float(spec.batch)
    found = [dict(known)]
    for fanout in spec.hops:
        draws = dict.fromkeys(KINDS, 0.0)
        for relation in RELATIONS:
            draws[relation.source] += frontier[relation.target] * mean_taken(
                degrees[relation], fanout
            )
        for kind in KINDS:
            hit = 1 - (1 - 1 / counts[kind]) ** draws[kind]
            frontier[kind] = (counts[kind] - known[kind]) * hit
            known[kind] += frontier[kind]
        found.append(dict(known))
    return found


def mean_taken(degree: float, fanout: int) -> float:
    """Return the mean of min(d, fanout) for degrees d that are geometric with a mean.

    P(d >= k) = q^k with q = degree / (1 + degree); the mean is the sum of that over k to `fanout`.
    """
    q = degree / (1 + degree)
    return q * (1 - q**fanout) / (1 - q)
