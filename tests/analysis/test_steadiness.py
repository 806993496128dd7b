"""Which steps are unlike the others, worked out by hand and against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tinytrace import call, kernel, step, write

import workbench as wb
from workbench.analysis import steadiness

US = 1000


def test_one_of_five_stands_out():
    # R of one value among four equal ones is (n - 1) / sqrt(n) = 1.789, and 1.764 is critical
    assert steadiness.outliers(np.array([9, 1, 1, 1, 1]) * 10**8).tolist() == [True] + [False] * 4


def test_a_tick_of_an_old_clock_is_no_outlier():
    assert not steadiness.outliers(np.array([200_400] + [200_000] * 9)).any()


def test_three_steps_that_vary_say_nothing():
    assert not steadiness.outliers(np.array([300, 100, 101]) * US).any()
    assert not steadiness.outliers(np.array([300, 100]) * US).any()


def test_two_outliers_do_not_hide_each_other():
    usual = [100_000, 101_000, 99_000, 100_500, 99_500, 100_200, 99_800, 100_100]
    found = steadiness.outliers(np.array([900_000, *usual, 890_000]))
    assert found.tolist() == [True] + [False] * 8 + [True]


@given(st.integers(3, 60))
def test_critical_value_is_that_of_the_student_distribution(m):
    t = stats.t.ppf(1 - steadiness.SIGNIFICANCE / (2 * m), m - 2)
    known = (m - 1) * t / np.sqrt((m - 2 + t * t) * m)
    assert steadiness._critical(m) == pytest.approx(known, rel=1e-9)


@given(st.integers(0, 1000))
def test_chance_alone_seldom_gives_an_outlier(seed):
    # 40 recordings of 12 alike steps: 0.4 expected; 8 would be a fault of the test
    noise = np.random.default_rng(seed).lognormal(0, 0.03, (40, 12))
    found = [steadiness.outliers((row * 10**7).astype(np.int64)).any() for row in noise]
    assert sum(found) < 8


def test_a_drift_of_two_microseconds_a_step():
    step, noise = np.arange(10, 20), np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    found = steadiness.trend(step, 500 * US + 2 * US * step + noise)
    assert found.is_significant
    assert found.ns_per_step == pytest.approx(2 * US, abs=1)


def test_noise_without_drift():
    durations = np.array([5, 3, 6, 2, 5, 3, 4, 4, 6, 2]) * US
    assert not steadiness.trend(np.arange(10), durations).is_significant
    assert not steadiness.trend(np.arange(10), np.full(10, 5 * US)).is_significant
    assert steadiness.trend(np.arange(7), np.arange(7) * US) is None


@given(st.lists(st.integers(1, 9), min_size=8, max_size=30))
def test_trend_is_that_of_mann_kendall_and_theil_sen(durations):
    step = np.arange(len(durations))
    found = steadiness.trend(step, np.array(durations))
    assert found.ns_per_step == pytest.approx(stats.theilslopes(durations, step).slope)


@pytest.fixture
def run(tmp_path):
    """Steps 0-5, a kernel in each at its begin: device steps of 900, 100, 100, 100, 100, tail."""
    starts = [0, 900, 1000, 1100, 1200, 1300]
    events = []
    for k, (at, end) in enumerate(zip(starts, [*starts[1:], 1400], strict=True)):
        events += [
            step(k, at, end - at),
            call("cudaLaunchKernel", at, 1, k + 1),
        ]
        events.append(kernel("gemm", at + 2, 50, k + 1))
    return wb.open(write(tmp_path, events))


def test_steps_say_which_is_unlike_the_others(run):
    assert wb.steps(run)["outlier"].to_list() == [True, False, False, False, False, None]


def test_step_times(run):
    row = wb.step_times(run).row(0, named=True)
    assert (row["steps"], row["outliers"]) == (5, [0])
    assert (row["median_ns"], row["mean_ns"], row["mad_ns"]) == (100 * US, 260 * US, 0)
    assert (row["min_ns"], row["max_ns"], row["steady_mean_ns"]) == (100 * US, 900 * US, 100 * US)
    assert row["first_ratio"] == 9
    assert row["drift_ns"] is None
    assert "8 steps" in row["reason"]


def test_the_steady_window_leaves_outliers_out(run):
    # steps 1-5; the tail ends with its kernel, 50 us after it began
    row = wb.summary(run, window="steady").row(0, named=True)
    assert (row["window_ns"], row["busy_ns"], row["steps"]) == (450 * US, 250 * US, 5)
    assert wb.summary(run)["steps"][0] == 6


def test_no_steps_no_rows(tmp_path):
    assert wb.step_times(wb.open(write(tmp_path, [kernel("k", 0, 5)]))).is_empty()


@pytest.mark.parametrize("freedom", [steadiness.MANY, steadiness.MANY + 1, 5000])
@pytest.mark.parametrize("outside", [0.01, 1e-6])
def test_quantiles_of_many_steps(freedom, outside):
    wanted = stats.t.ppf(1 - outside / 2, freedom)
    assert steadiness._student(outside, freedom) == pytest.approx(wanted, rel=1e-6)


def test_outliers_of_thousands_of_steps():
    durations = 10**8 + np.arange(6000) % 7 * 10**5
    durations[[17, 4000]] = 2 * 10**8
    assert np.flatnonzero(steadiness.outliers(durations)).tolist() == [17, 4000]


def test_the_drift_of_thousands_of_steps():
    step = np.arange(4000)
    found = steadiness.trend(step, 10**8 + 20 * step + step % 5 * 1000)
    assert found.ns_per_step == pytest.approx(20, rel=0.01)
    assert found.is_significant
    flat = steadiness.trend(step, 10**8 + step % 5 * 1000)
    assert not flat.is_significant
