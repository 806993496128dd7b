import dataclasses

import numpy as np
import polars as pl
import pytest
from analysis.stepped import BF2, S, kernel, marked
from costs.made import op_row, trace_of

import workbench as wb
from workbench import show
from workbench.analysis.energy import HOLE, SCHEMA, energy, integral
from workbench.capture import power as telemetry
from workbench.capture.power import NO_POWER, Power
from workbench.costs.step_work import StepWork
from workbench.resources import data

SMALL = [[64, 128], [128, 256]]
"""2 x 64 x 128 x 256 = 4,194,304 FLOP."""
ORIGIN = 1_700_000_000 * S
"""Unix time of the trace's origin."""


def sampled(*rows, device=0):
    """Power at seconds after the origin."""
    known = [(ORIGIN + round(t * S), device, float(w)) for t, w in rows]
    return Power(pl.DataFrame(known, schema=telemetry.SCHEMA, orient="row"))


def made():
    """Two steps of 4 s and a tail: a product 0-2, another kernel 1-3, idle 3-4; alike from 4 on."""
    ops = [op_row(n, "aten::mm", dims=SMALL, types=BF2) for n in range(2)]
    ran = []
    for n, at in enumerate((0, 4 * S)):
        gemm = kernel(2 * n, n, n + 1, at, at + 2 * S) | {"family": "gemm"}
        norm = kernel(2 * n + 1, None, n + 1, at + S, at + 3 * S, name="norm") | {"family": "norm"}
        ran += [gemm, norm]
    trace = marked(trace_of(ops, ran), [4 * S, 4 * S, S])
    return dataclasses.replace(trace, meta=dataclasses.replace(trace.meta, origin_ns=ORIGIN))


RAMP = sampled((-1, 100), (0, 100), (4, 300), (8, 300), (9, 100))


def part(frame, name):
    assert frame.schema == pl.Schema(SCHEMA)
    (row,) = frame.filter(part=name).to_dicts()
    return row


def test_the_integral_between_samples_by_hand():
    # 100 W at 0 s, 200 W at 2 s, 0 W at 4 s: 0.5-1.5 s (125 + 175) / 2 x 1 s; 0-2 s 300 J
    at, watts = np.array([0, 2 * S, 4 * S]), np.array([100.0, 200.0, 0.0])
    start, end = np.array([S // 2, 0, S]), np.array([3 * S // 2, 2 * S, 3 * S])
    # 1-2 s: (150 + 200) / 2 = 175; 2-3 s: (200 + 100) / 2 = 150
    assert integral(at, watts, start, end).tolist() == [150.0, 300.0, 325.0]


def test_joules_of_a_step_by_hand():
    # step 1: 100 W to 300 W over 4 s: 800 J; step 2: 300 W over 4 s: 1200 J; mean 1000 J, 250 W
    work = StepWork(tokens=500, samples=8)
    row = part(energy(made(), power=RAMP, work=work), "step")
    assert (row["steps"], row["time_ns"], row["joules_per_step"]) == (2, 4 * S, 1000)
    assert (row["joules_per_sample"], row["joules_per_token"]) == (125, 2)
    assert (row["mean_power_w"], row["power_samples"], row["reason"]) == (250, 3, None)
    assert row["flops"] == 4_194_304
    assert row["flops_per_joule"] == pytest.approx(4194.304)


def test_families_share_a_step_by_their_device_time():
    # busy 3 of 4 s; gemm 2 s and norm 2 s of 4 s together: half of 3/4 each; idle 1/4
    frame = energy(made(), power=RAMP)
    assert set(frame["part"]) == {"step", "gemm", "norm", "idle"}
    gemm, idle = part(frame, "gemm"), part(frame, "idle")
    assert (gemm["share"], gemm["joules_per_step"], gemm["time_ns"]) == (0.375, 375, 1.5 * S)
    assert (idle["share"], idle["joules_per_step"]) == (0.25, 250)
    assert (gemm["flops"], part(frame, "norm")["flops"]) == (4_194_304, 0)
    parts = frame.filter(pl.col("part") != "step")
    assert parts["joules_per_step"].sum() == 1000


@pytest.mark.parametrize(
    ("power", "reason"),
    [
        (None, "no telemetry was given (a recorded run has it)"),
        (Power(sampled().samples, "it has none"), "it has none"),
        (sampled((-1, 100), (9, 100), device=1), "its telemetry holds no power of this device"),
        (sampled((1, 100), (2, 100), (9, 1)), "the samples of power do not reach over the steps"),
        (sampled((-1, 1), (2, 100), (7, 1)), "the samples of power do not reach over the steps"),
        (sampled((-1, 1), (2, 1), (9, 1)), "1 samples of power within the steps; it takes 2"),
    ],
)
def test_without_power_over_the_steps_joules_are_null_with_the_reason(power, reason):
    row = part(energy(made(), power=power), "step")
    assert (row["joules_per_step"], row["flops_per_joule"], row["mean_power_w"]) == (None,) * 3
    assert row["reason"] == reason
    assert row["time_ns"] == 4 * S


def test_a_trace_whose_clock_is_not_unix_time_is_not_covered():
    trace = made()
    meta = dataclasses.replace(trace.meta, origin_ns=5)
    row = part(energy(dataclasses.replace(trace, meta=meta), power=RAMP), "step")
    assert row["reason"] == "the samples of power do not reach over the steps"


def test_a_processor_whose_power_was_sampled_has_its_joules():
    # 60 W all along, so a step of t s takes 60 t J
    source = wb.open(data() / "gpt_tiny_cpu")
    first = source.origin_ns
    times = range(first - S // 10, first + 3 * S, S // 100)
    samples = pl.DataFrame(
        [(t, None, 60.0) for t in times],
        schema=telemetry.SCHEMA,
        orient="row",
    )
    row = part(energy(source, power=Power(samples)), "step")
    assert row["joules_per_step"] == pytest.approx(60 * row["time_ns"] / 1e9)
    gpu = part(energy(made(), power=Power(samples)), "step")
    assert gpu["reason"] == "its telemetry holds no power of this device"


def test_a_processor_has_no_power():
    source = wb.open(data() / "gpt_tiny_cpu")
    frame = show.frame(source, "energy", show.Choice())
    assert set(frame["reason"]) == {NO_POWER}
    assert frame["joules_per_step"].null_count() == frame.height
    assert part(frame, "step")["flops"] == 826_277_888
    notes = show.brief(show.about(source, "energy", show.Choice()))
    assert "integrated over each step" in notes["method"]


def test_no_complete_step_and_no_times():
    bare = trace_of([], [kernel(0, None, 1, 0, S)])
    row = part(energy(bare, power=RAMP), "step")
    assert row["reason"].startswith("no complete step")
    untimed = dataclasses.replace(trace_of([]).meta, timed=False)
    assert energy(dataclasses.replace(trace_of([]), meta=untimed)).is_empty()


def test_a_pause_in_the_samples_is_no_straight_line():
    # 0.1 s apart, then nothing for all of the second step
    paused = sampled((-1, 100), *((n / 10, 100) for n in range(9)), (9, 100))
    row = part(energy(made(), power=paused), "step")
    assert (row["joules_per_step"], row["power_samples"], row["reason"]) == (None, 9, HOLE)
    # before and after the steps it may pause
    steady = sampled((-50, 100), *((n / 2, 100) for n in range(-1, 18)), (60, 100))
    assert part(energy(made(), power=steady), "step")["joules_per_step"] == pytest.approx(400)
