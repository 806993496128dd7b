"""On a real GPU: what is recorded there is whole, and its figures agree with each other."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import workbench as wb
from workbench.capture import record
from workbench.capture.samples import sampled
from workbench.costs import ceilings, devices

pytestmark = pytest.mark.gpu


def recorded(folder, **overrides):
    """Record a tiny decoder in bf16 on the GPU."""
    overrides = {"precision": "bf16"} | overrides
    run = record(
        "gpt", preset="tiny", device="cuda", steps=4, out=folder / "run", overrides=overrides
    )
    assert run.wait(120) == "done", run.error
    return run.path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("plain"))


def test_kernels_are_there_and_tied_to_their_launches(run):
    trace = wb.open(run)
    assert trace.meta.device_kind == "cuda"
    kernels = trace.activities.filter(pl.col("kind") == "kernel")
    assert kernels.height > 100
    assert kernels["launch"].null_count() == 0
    assert trace.steps["step"].n_unique() == 4
    # nothing starts before it was launched: the clocks of host and device agree
    launched = trace.launches["start_ns"].gather(kernels["launch"])
    assert int((kernels["start_ns"] - launched).min()) >= 0


def test_flops_of_the_operators_are_those_of_the_configuration(run):
    row = wb.mfu(wb.open(run)).row(0, named=True)
    assert row["operators_to_config"] == pytest.approx(1, abs=0.01)
    assert 0 < row["mfu"] < 1


def test_the_device_is_in_the_hardware_table_and_its_roofs_are_plausible(run):
    (device,) = wb.open(run).meta.devices
    part = devices.match(device)
    assert part is not None, devices.unknown(device)
    found = ceilings.ceilings("cuda", refresh=True)
    best = max(c.flops_per_s for c in found.compute if c.precision == "bf16")
    assert 0.3 < best / part.hardware.peaks_flops_per_s["bf16", "matrix"] < 1.05
    moved = max(m.bytes_per_s for m in found.memory if found.level(m.working_set_bytes) == "memory")
    assert 0.5 < moved / part.hardware.memory_bytes_per_s < 1.05


def test_power_and_clocks_were_sampled_beside_the_run(run):
    names = sampled(run).filter(pl.col("device").is_not_null())
    power = names.filter(pl.col("name") == "power")["value"]
    assert power.len() >= 1
    assert 20 < float(power.max()) < 1500


def test_a_graph_that_is_replayed_shows_its_kernels(tmp_path):
    trace = wb.open(recorded(tmp_path, cuda_graphs=True))
    names = trace.launches["name"].cast(pl.String)
    assert names.str.contains("GraphLaunch").any()
    assert trace.activities.filter(pl.col("kind") == "kernel").height > 100


def test_two_streams_overlap(tmp_path):
    import torch
    from torch.profiler import ProfilerActivity, profile

    a = torch.randn(256, 4096, device="cuda")
    b = torch.randn(4096, 256, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        for _ in range(50):
            for stream in streams:
                with torch.cuda.stream(stream):
                    torch.mm(a, b)
        torch.cuda.synchronize()
    path = tmp_path / "streams.json"
    found.export_chrome_trace(str(path))
    kernels = wb.open(path).activities.filter(pl.col("kind") == "kernel").sort("start_ns")
    assert kernels["stream"].n_unique() == 2
    end = np.maximum.accumulate((kernels["start_ns"] + kernels["dur_ns"]).to_numpy())
    assert (kernels["start_ns"].to_numpy()[1:] < end[:-1]).any()
