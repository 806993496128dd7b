import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from workbench.errors import UsageError
from workbench.workloads import get, igbh
from workbench.workloads.igbh import CITES, RELATIONS, Relation
from workbench.workloads.rgat import (
    LABELLED,
    PRESETS,
    expected_nodes,
    mean_taken,
    relations,
)
from workbench.workloads.rgat_model import RelationAttention, batch, edge_softmax
from workbench.workloads.rgat_sampling import Edges, features, sample
from workbench.workloads.training import Training

CPU = torch.device("cpu")
TINY = PRESETS["tiny"]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_rgat_of_mlperf_by_hand():
    # 11 relations; a matrix, attention of source and target, a bias.
    # first layer    11 x (1024 x 512 + 3 x 512)                               =  5,784,064
    # two more       22 x (512 x 512 + 3 x 512)                                =  5,800,960
    # head           512 x 2983 + 2983                                         =  1,530,279
    assert get("rgat").parameters(PRESETS["full"]) == 13_115_303


def test_weights_that_reach_no_paper_are_frozen():
    # The second layer does without author -> institute, the last without all but 5 that end in
    # papers: 7 x (192 x 192 + 3 x 192) = 262,080.
    training = Training(get("rgat"), TINY, device=CPU)
    assert training.parameters - training.trained == 262_080


def test_layers_use_the_relations_that_reach_a_paper():
    first, second, last = relations(3)
    assert (len(first), len(second), len(last)) == (11, 10, 5)
    assert {relation.target for relation in last} == {LABELLED}
    assert set(first) - set(second) == {Relation("author", "affiliated_to", "institute")}


def test_igbh_adds_up_to_its_published_sizes():
    # 547,306,935 nodes without venues, 5,812,005,639 edges without reverses and venues.
    counts = igbh.nodes("full")
    assert sum(counts[k] for k in ("paper", "author", "institute", "fos")) == 547_306_935
    degrees = igbh.degrees("full")
    edges = {r: degrees[r] * counts[r.target] for r in RELATIONS}
    named = ("written_by", "affiliated_to", "topic")
    total = edges[CITES] / 2 + sum(edges[r] for r in RELATIONS if r.name in named)
    assert round(total) == 5_812_005_639


def test_mean_of_a_capped_geometric_degree_by_hand():
    # Mean 1: P(d >= 1) = 1/2, P(d >= 2) = 1/4.
    assert mean_taken(1.0, 1) == pytest.approx(0.5)
    assert mean_taken(1.0, 2) == pytest.approx(0.75)


def test_samples_hold_as_many_nodes_as_expected():
    found = [sample(TINY, seeded(seed)) for seed in range(20)]
    for kind, count in expected_nodes(TINY)[-1].items():
        mean = statistics.mean(len(one.nodes[kind]) for one in found)
        assert mean == pytest.approx(count, rel=0.03), kind


def test_flops_are_those_of_a_sample_on_average():
    training = Training(get("rgat"), TINY, device=CPU)
    counted = []
    for _ in range(10):
        with FlopCounterMode(display=False) as counter:
            training.step()
        counted.append(counter.get_total_flops())
    assert statistics.mean(counted) == pytest.approx(get("rgat").flops(TINY), rel=0.03)
    assert len(set(counted)) > 1


def test_nodes_are_found_once_and_targets_come_first():
    one = sample(TINY, seeded())
    for nodes in one.nodes.values():
        assert len(nodes.unique()) == len(nodes)
    assert len(one.nodes[LABELLED][: TINY.batch].unique()) == TINY.batch
    for layer in one.layers:
        for relation, edges in layer.items():
            assert edges.offsets[-1] == len(edges.sources)
            if len(edges.sources):
                assert edges.sources.max() < len(one.nodes[relation.source])


def test_no_node_has_more_neighbours_than_the_fanout():
    one = sample(TINY, seeded())
    fanout = max(TINY.hops)
    for relation, edges in one.layers[0].items():
        extra = relation == CITES  # a paper is its own neighbour
        assert edges.offsets.diff().max() <= fanout + extra


def test_every_paper_is_among_its_neighbours():
    one = sample(TINY, seeded())
    edges = one.layers[0][CITES]
    for target, end in enumerate(edges.offsets[1:].tolist()):
        assert edges.sources[end - 1] == target


def test_the_graph_is_the_same_whoever_asks():
    # With a fanout that takes all neighbours, a paper has the same ones in every sample. Two times
    # 3,000 papers of 100,000 share about 90.
    spec = get("rgat").resolve("tiny", {"fanouts": "10000", "batch": 3000})
    topics = Relation("fos", "rev_topic", "paper")

    def neighbours(seed):
        one = sample(spec, seeded(seed))
        edges, fields = one.layers[0][topics], one.nodes["fos"]
        bounds = edges.offsets.tolist()
        return {
            paper: sorted(fields[edges.sources[low:high]].tolist())
            for paper, low, high in zip(
                one.nodes[LABELLED].tolist(), bounds, bounds[1:], strict=False
            )
        }

    first, second = neighbours(1), neighbours(2)
    shared = first.keys() & second.keys()
    assert 50 < len(shared) < 150
    assert any(first[paper] for paper in shared)
    assert {p: first[p] for p in shared} == {p: second[p] for p in shared}


def test_features_show_the_class():
    nodes = torch.arange(0, 1900)
    found = features(LABELLED, nodes, TINY)
    centres = torch.stack([found[nodes % 19 == c].mean(0) for c in range(19)])
    nearest = torch.cdist(found, centres).argmin(1)
    assert (nearest == nodes % 19).float().mean() > 0.99


def test_half_of_the_neighbours_are_of_the_same_class():
    # And a nineteenth of the other half by chance: 0.5 + 0.5 / 19 = 0.526.
    one = sample(get("rgat").resolve("tiny", {"fanouts": "20", "batch": 2000}), seeded())
    edges = one.layers[0][Relation("author", "rev_written_by", "paper")]
    target = torch.repeat_interleave(torch.arange(2000), edges.offsets.diff())
    kinds = one.nodes["author"][edges.sources] % 19
    same = (kinds == one.nodes[LABELLED][target] % 19).float().mean().item()
    assert same == pytest.approx(0.526, abs=0.02)


def test_edge_softmax_by_hand():
    # Target 0 has scores ln 1 and ln 3, target 2 has one edge, target 1 none.
    scores = torch.tensor([[1.0], [3.0], [9.0]]).log()
    weights = edge_softmax(scores, torch.tensor([0, 0, 2]), 3)
    assert weights.flatten().tolist() == pytest.approx([0.25, 0.75, 1.0])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=4))
def test_attention_is_a_weighted_sum_over_the_edges_of_each_target(neighbours):
    torch.manual_seed(0)
    attention = RelationAttention(3, 4, 2)
    sources, targets = torch.randn(5, 3), torch.randn(len(neighbours), 3)
    lengths = torch.tensor([0, *map(len, neighbours)])
    edges = Edges(
        lengths.cumsum(0), torch.tensor([s for one in neighbours for s in one], dtype=torch.int64)
    )
    own, asking = (attention.project(x).view(len(x), 2, 2) for x in (sources, targets))
    expected = torch.zeros(len(neighbours), 2, 2)
    for target, found in enumerate(neighbours):
        for head in range(2):
            scores = [
                torch.nn.functional.leaky_relu(
                    own[s, head] @ attention.of_source[head]
                    + asking[target, head] @ attention.of_target[head],
                    0.2,
                )
                for s in found
            ]
            if found:
                weights = torch.stack(scores).softmax(0)
                expected[target, head] = sum(
                    w * own[s, head] for w, s in zip(weights, found, strict=True)
                )
    torch.testing.assert_close(attention(sources, targets, edges), expected.flatten(1))


def test_batches_are_ragged():
    shapes = {tuple(map(len, batch(TINY, seeded(seed)))) for seed in range(3)}
    assert len(shapes) == 3


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"hidden": 30}, ("hidden=30", "heads=4")),
        ({"fanouts": "4,x"}, ("fanouts='4,x'",)),
        ({"fanouts": "4,0"}, ("fanouts='4,0'",)),
        ({"cuda_graphs": True}, ("cuda_graphs=true", "fanouts=4,3,2")),
        ({"batch": 100_001}, ("batch=100001", "graph=tiny")),
    ],
)
def test_what_cannot_be_is_refused(values, words):
    with pytest.raises(UsageError) as caught:
        get("rgat").resolve("tiny", values)
    assert all(word in str(caught.value) for word in words)
