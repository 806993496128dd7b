"""Traced steps that change as the recording goes, and slow-downs that are planted."""

import itertools

import numpy as np
import pytest

from workbench.capture.overhead import NARROW, Overhead, overhead
from workbench.capture.slowdown import FEWEST, change, profiler_slowdown


def run(untraced, traced):
    steps = [
        {"rank": 0, "index": i, "phase": phase, "dur_ns": round(time)}
        for i, (phase, time) in enumerate(
            [*(("untraced", t) for t in untraced), *(("traced", t) for t in traced)]
        )
    ]
    return {"steps": steps}


def noisy(rng, median_ns, count):
    """Times that vary by 3 % around a median."""
    return median_ns * np.exp(rng.normal(0, 0.03, count))


@pytest.mark.parametrize("seed", range(20))
def test_a_planted_slow_down_of_a_fifth_is_told_as_20_points_within_5(seed):
    rng = np.random.default_rng(seed)
    found = overhead(run(noisy(rng, 100e6, 20), noisy(rng, 120e6, 20)))
    assert abs(100 * found.ratio - 20) <= 5
    assert found.low <= found.ratio <= found.high
    assert found.half_width < NARROW


def test_the_interval_holds_the_planted_slow_down_as_often_as_it_says():
    # 95 % of 200 are 190; of 5 and 5 steps a percentile bootstrap of medians may fall short a bit.
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        found = overhead(run(noisy(rng, 100e6, 9), noisy(rng, 120e6, 9)))
        held += found.low <= 0.2 <= found.high
    assert 180 <= held < 200


def test_how_many_steps_narrow_the_interval():
    # 4 steps give +-10 points; half of that takes 2^2 times as many.
    assert Overhead(1, 1, 4, 9, ratio=0.1, low=0.0, high=0.2).steps_wanted == 16
    assert Overhead(1, 1, 4, 9, ratio=0.1, low=0.06, high=0.14).steps_wanted is None
    assert Overhead(1, 1, 1, 1, ratio=0.1, reason="two").steps_wanted == 5


def test_steps_that_take_105_ms_and_from_the_17th_on_240_ms():
    # the medians of both parts: 105 and 240, so +128.6 %
    found = profiler_slowdown(run([], [104e6, 105e6, 106e6, 105e6] * 4 + [239e6, 240e6, 241e6] * 2))
    assert (found.steps, found.after) == (22, 16)
    assert (found.before_ns, found.behind_ns) == (105e6, 240e6)
    assert found.ratio == pytest.approx(240 / 105 - 1)


@pytest.mark.parametrize("seed", range(10))
def test_a_planted_fifth_within_the_traced_steps_is_found_where_it_begins(seed):
    rng = np.random.default_rng(seed)
    times = [*noisy(rng, 100e6, 16), *noisy(rng, 120e6, 12)]
    found = profiler_slowdown(run([], times))
    assert abs(found.after - 16) <= 1
    assert abs(100 * found.ratio - 20) <= 5


def test_steps_that_vary_by_chance_do_not_change():
    # at 1 % each, more than 6 of 100 come less often than once in 10,000 such tests
    rng = np.random.default_rng(3)
    told = [profiler_slowdown(run([], noisy(rng, 100e6, 24))).ratio for _ in range(100)]
    assert sum(ratio is not None for ratio in told) <= 6


@pytest.mark.parametrize("at", [0, 7, 19])
def test_one_long_step_is_no_change(at):
    rng = np.random.default_rng(at)
    times = noisy(rng, 100e6, 20)
    times[at] *= 5
    assert profiler_slowdown(run([], times)).ratio is None


def test_a_sure_change_by_a_hundredth_is_not_told():
    found = profiler_slowdown(run([], [100_000_000] * 12 + [101_000_000] * 12))
    assert (found.ratio, found.reason) == (
        None,
        "traced steps are alike from the first to the last",
    )


def test_few_steps_and_equal_ones():
    assert "it takes 10" in profiler_slowdown(run([], [1, 2, 3])).reason
    assert profiler_slowdown(run([], [5] * 30)).ratio is None
    assert profiler_slowdown(run([], [0] * 30)).ratio is None


def test_the_fewest_steps_are_those_of_which_some_order_is_rare_enough():
    # Of n values, half 0 and half 1, 2 of all C(n, n / 2) orders part them: 2 of 252 and 2 of 70.
    # There |x_1 + … + x_k| is n / 4 behind half of them, and sqrt(k (n - k) / n) is sqrt(n / 4).
    def rarest(n):
        k = np.arange(1, n)
        orders = list(itertools.combinations(range(n), n // 2))
        reached = 0
        for low in orders:
            x = np.full(n, 0.5)
            x[list(low)] = -0.5
            contrast = np.abs(np.cumsum(x)[:-1]) / np.sqrt(k * (n - k) / n)
            reached += contrast.max() >= np.sqrt(n / 4) - 1e-9
        return reached / len(orders)

    assert (rarest(10), rarest(8)) == (2 / 252, 2 / 70)
    assert FEWEST == 10
    assert change(np.array([0.0] * 5 + [1.0] * 5)) == (5, True)
    assert change(np.array([0.0] * 4 + [1.0] * 4)) == (4, False)
