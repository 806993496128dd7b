"""Tiny presets of the families beside the language models: counts, learning, options, ranks."""

import math
import statistics
from functools import cache
from importlib import import_module

import pytest
import torch
from families import losses, recorded_flops, training
from rankrun import losses_of_ranks

from workbench.workloads import get

IMAGES = ("resnet50", "retinanet", "unet3d")
FAMILIES = ("flux1", "dlrm_dcnv2", "rgat", *IMAGES)
KEPT = {
    "flux1": (
        lambda s: s.double_blocks >= 2,
        lambda s: s.single_blocks >= 2,
        lambda s: min(s.axes) >= 2,
        lambda s: s.side**2 > 1 < s.text,
    ),
    "dlrm_dcnv2": (
        lambda s: len(s.rows) == 26,
        lambda s: s.dense_hidden > s.embedding,
        lambda s: s.cross_layers == 3 and s.cross_rank < s.crossed,
        lambda s: s.optimizer == "adagrad",
    ),
    "rgat": (
        lambda s: s.heads == 4,
        lambda s: min(s.hops) > 1,
        lambda s: s.classes > 2,
        lambda s: len(s.hops) == 3,
    ),
    "retinanet": (
        lambda s: s.groups > 1,
        lambda s: len(s.sizes()) == 5,
        lambda s: s.pyramid > 1,
        lambda s: s.boxes > 1,
    ),
    "resnet50": (
        lambda s: len(s.body().blocks) == 4,
        lambda s: min(s.body().blocks) >= 2,
        lambda s: s.label_smoothing == 0.1,
        lambda s: s.optimizer in ("sgd", "lars"),
    ),
    "unet3d": (
        lambda s: s.crop >> (s.levels - 1) >= 2,
        lambda s: s.levels >= 5,
        lambda s: s.widths[1] == 2 * s.widths[0],
        lambda s: s.optimizer == "nesterov",
    ),
}
"""What holds of `tiny` and of `full`, in the order of the family's distinctive parts."""


@cache
def plain(name):
    return losses(name, 2)


@pytest.mark.parametrize("preset", ["tiny", "small", "full"])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_model_has_the_parameters_that_were_counted(name, preset):
    workload = get(name)
    spec = workload.preset(preset)
    with torch.device("meta"):
        module = import_module(workload.module).model(spec)
    assert sum(p.numel() for p in module.parameters()) == workload.parameters(spec)


@pytest.mark.parametrize("preset", ["tiny", "full"])
@pytest.mark.parametrize("name", FAMILIES)
def test_tiny_keeps_what_makes_the_family(name, preset):
    spec, parts = get(name).preset(preset), get(name).distinctive
    wrong = [part for part, holds in zip(parts, KEPT[name], strict=True) if not holds(spec)]
    assert wrong == []


@pytest.mark.parametrize("name", FAMILIES)
def test_tiny_has_a_million_parameters(name):
    assert get(name).parameters(get(name).preset("tiny")) >= 10**6


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "rgat"])
def test_stated_flops_are_those_of_the_recorded_operators(name, tmp_path):
    # Those of `rgat` are an expectation: test_rgat compares their mean.
    made = training(name)
    assert recorded_flops(made, tmp_path) == made.facts()["flops_per_step_and_rank"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_loss_falls_over_twenty_steps(name):
    found = losses(name, 20)
    assert all(math.isfinite(loss) for loss in found)
    assert statistics.mean(found[-5:]) < 0.97 * statistics.mean(found[:5])


@pytest.mark.parametrize("recompute", ["selective", "full"])
@pytest.mark.parametrize("name", FAMILIES)
def test_recomputation_changes_no_number(name, recompute):
    assert losses(name, 2, recompute=recompute) == plain(name)


@pytest.mark.parametrize("name", IMAGES)
def test_channels_innermost_change_no_number(name):
    assert losses(name, 2, channels_last=True) == pytest.approx(plain(name), rel=1e-4)


@pytest.mark.parametrize("precision", ["bf16", "bf16-true"])
@pytest.mark.parametrize("name", FAMILIES)
def test_short_types_stay_close(name, precision, thorough):
    if precision == "bf16-true" and name in IMAGES[1:] and not thorough:
        pytest.skip("one convolution does, unless WORKBENCH_THOROUGH is set")
    assert losses(name, 2, precision=precision) == pytest.approx(plain(name), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rgat", "dlrm_dcnv2"])
def test_replicas_learn_from_data_of_their_own(name, tmp_path):
    one, other = losses_of_ranks(name, tmp_path / "meet")
    assert one[0] != other[0]


@pytest.mark.slow
def test_sparse_gradients_are_averaged_as_dense_ones_are(tmp_path):
    dense = losses_of_ranks("dlrm_dcnv2", tmp_path / "dense")
    sparse = losses_of_ranks("dlrm_dcnv2", tmp_path / "sparse", sparse_gradients="true")
    for one, other in zip(dense, sparse, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flux1", *IMAGES])
def test_sharded_replicas_learn_what_replicas_learn(name, tmp_path, thorough):
    if name not in ("flux1", "resnet50") and not thorough:
        pytest.skip("a transformer and a convolution do, unless WORKBENCH_THOROUGH is set")
    replicas = losses_of_ranks(name, tmp_path / "ddp", parallel="ddp")
    sharded = losses_of_ranks(name, tmp_path / "fsdp", parallel="fsdp")
    assert replicas[0] != replicas[1]
    for one, other in zip(replicas, sharded, strict=True):
        assert one == pytest.approx(other, rel=1e-4)
