"""Tiny presets of the families beside the language models: counts, learning, options, ranks."""

import json
import math
import statistics
import subprocess
import sys
from importlib import import_module

import polars as pl
import pytest
import torch

import workbench as wb
from workbench.costs import models
from workbench.workloads import get
from workbench.workloads.training import Training

CPU = torch.device("cpu")
IMAGES = ("resnet50", "retinanet", "unet3d")
FAMILIES = ("flux1", "dlrm_dcnv2", "rgat", *IMAGES)
SHARDED = ("flux1", *IMAGES)
MILLION = 10**6


def training(name, **overrides):
    return Training(get(name), get(name).resolve("tiny", overrides), device=CPU)


def losses(name, steps, **overrides):
    made = training(name, **overrides)
    return [made.step().item() for _ in range(steps)]


@pytest.mark.parametrize("preset", ["tiny", "small", "full"])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_model_has_the_parameters_that_were_counted(name, preset):
    workload = get(name)
    spec = workload.preset(preset)
    with torch.device("meta"):
        module = import_module(workload.module).model(spec)
    assert sum(p.numel() for p in module.parameters()) == workload.parameters(spec)


@pytest.mark.parametrize("name", FAMILIES)
def test_tiny_keeps_a_million_parameters(name):
    assert get(name).parameters(get(name).preset("tiny")) >= MILLION


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "rgat"])
def test_a_step_has_the_flops_that_were_counted(name, tmp_path):
    # Those of `rgat` are an expectation: test_rgat compares their mean.
    made = training(name)
    with torch.profiler.profile(record_shapes=True) as profiler:
        made.step()
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    costs = models.operators(wb.open(path, cache=False), convention="model")
    products = costs.filter(pl.col("unit") == "matrix")["flops"]
    assert products.null_count() == 0
    assert products.sum() == get(name).flops(made.spec)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_loss_falls_within_twenty_steps(name):
    found = losses(name, 20)
    assert all(math.isfinite(loss) for loss in found)
    assert statistics.mean(found[-5:]) < 0.97 * statistics.mean(found[:5])


@pytest.mark.parametrize("recompute", ["selective", "full"])
@pytest.mark.parametrize("name", FAMILIES)
def test_recomputation_changes_no_number(name, recompute):
    assert losses(name, 2, recompute=recompute) == losses(name, 2)


@pytest.mark.parametrize("name", IMAGES)
def test_channels_innermost_change_no_number(name):
    assert losses(name, 2, channels_last=True) == pytest.approx(losses(name, 2), rel=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_short_types_stay_close(name):
    expected = losses(name, 2)
    for precision in ("bf16", "bf16-true"):
        assert losses(name, 2, precision=precision) == pytest.approx(expected, rel=0.02)


RANK = """
import json, sys
import torch
import torch.distributed as distributed
from workbench.workloads import get
from workbench.workloads.training import Training

rank, meeting, jobs = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
torch.set_num_threads(1)
distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
for name, overrides in jobs:
    spec = get(name).resolve("tiny", overrides)
    training = Training(get(name), spec, device=torch.device("cpu"), rank=rank, world=2)
    losses = [training.step().item() for _ in range(2)]
    whole = (p.full_tensor() if hasattr(p, "full_tensor") else p for p in training.module.parameters())
    weights = torch.stack([p.detach().double().sum() for p in whole]).tolist()
    print(json.dumps({"name": name, "losses": losses, "weights": weights}))
distributed.destroy_process_group()
"""


def on_two_ranks(jobs, folder):
    meeting = (folder / "meeting").as_uri()
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), meeting, json.dumps(jobs)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    printed = [rank.communicate(timeout=300)[0] for rank in ranks]
    return [[json.loads(line) for line in text.splitlines() if line[:1] == "{"] for text in printed]


@pytest.mark.slow
def test_two_ranks_learn_from_different_data_and_keep_equal_weights(tmp_path):
    jobs = [(name, {}) for name in FAMILIES] + [("dlrm_dcnv2", {"sparse_gradients": True})]
    first, second = on_two_ranks(jobs, tmp_path)
    assert [found["name"] for found in first] == [name for name, _ in jobs]
    for one, other in zip(first, second, strict=True):
        assert one["weights"] == other["weights"], one["name"]
        assert one["losses"] != other["losses"], one["name"]


@pytest.mark.slow
def test_sharding_trains_as_replicas_do(tmp_path):
    replicas = on_two_ranks([(name, {}) for name in SHARDED], tmp_path)
    (tmp_path / "sharded").mkdir()
    sharded = on_two_ranks([(name, {"parallel": "fsdp"}) for name in SHARDED], tmp_path / "sharded")
    for one, other in zip(replicas[0], sharded[0], strict=True):
        assert one["losses"] == pytest.approx(other["losses"], rel=1e-4), one["name"]
