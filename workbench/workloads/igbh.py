"""The Illinois Graph Benchmark, heterogeneous (IGBH): its kinds of nodes, relations and sizes.

Khatua et al., KDD 2023 (2302.13522). Counts of nodes and of the first four relations are those of
the published files, for example 5,812,005,639 edges of `full` in all.
"""

from __future__ import annotations

from typing import NamedTuple

KINDS = ("paper", "author", "institute", "fos", "journal", "conference")
"""Kinds of nodes; fos: field of study."""
FEATURES = 1024
"""Width of a node's features."""
SIZES = ("tiny", "small", "medium", "large", "full")
NODES = {
    "tiny": (100_000, 357_041, 8_738, 84_220, 8_101, 398),
    "small": (1_000_000, 1_926_066, 14_751, 190_449, 15_277, 1_215),
    "medium": (10_000_000, 15_544_654, 23_256, 415_054, 37_565, 4_189),
    "large": (100_000_000, 116_959_896, 26_524, 649_707, 48_820, 4_490),
    "full": (269_346_174, 277_220_883, 26_918, 712_960, 49_052, 4_547),
}
"""Nodes of each kind, by size."""
_EDGES = {
    "tiny": (447_416, 471_443, 325_410, 718_445),
    "small": (12_070_502, 4_553_516, 1_630_476, 7_234_122),
    "medium": (120_077_694, 39_854_592, 11_049_412, 68_510_495),
    "large": (1_223_571_364, 289_502_107, 34_099_660, 457_577_294),
    "full": (3_996_442_004, 716_761_549, 48_521_486, 1_050_280_600),
}
"""Edges of cites, written_by, affiliated_to and topic, by size."""
# The numbers of edges to journals and conferences are not published: half of the papers each.
_VENUE_SHARE = 0.5


class Relation(NamedTuple):
    """A kind of edges; messages go from `source` to `target`."""

    source: str
    name: str
    target: str

    @property
    def reverse(self) -> Relation:
        """Return the edges the other way round."""
        return Relation(self.target, f"rev_{self.name}", self.source)


_FORWARD = (
    Relation("paper", "written_by", "author"),
    Relation("author", "affiliated_to", "institute"),
    Relation("paper", "topic", "fos"),
    Relation("paper", "published", "journal"),
    Relation("paper", "venue", "conference"),
)
CITES = Relation("paper", "cites", "paper")
"""Both ways, and each paper with itself."""
RELATIONS = (CITES, *_FORWARD, *(relation.reverse for relation in _FORWARD))


def nodes(size: str) -> dict[str, int]:
    """Return the number of nodes of each kind."""
    return dict(zip(KINDS, NODES[size], strict=True))


def degrees(size: str) -> dict[Relation, float]:
    """Return how many edges of each relation end in a target node on average.

    `cites` counts both ways, and not a paper's edge with itself.
    """
    counts = nodes(size)
    cites, *others = _EDGES[size]
    venues = [int(_VENUE_SHARE * counts["paper"])] * 2
    edges = {CITES: 2 * cites}
    for relation, count in zip(_FORWARD, (*others, *venues), strict=True):
        edges[relation] = edges[relation.reverse] = count
    return {relation: edges[relation] / counts[relation.target] for relation in RELATIONS}
