"""A step function cut into pixels: worked out by hand, and against a brute-force sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import UsageError
from workbench.views.curve import BLOCK, Curve
from workbench.views.lod import Window

NAN = float("nan")

#  value 10 from 0, 30 from 40, unknown from 60, 20 from 80, end 100


@pytest.fixture
def curve():
    return Curve(np.array([0, 40, 60, 80, 100]), np.array([10.0, 30.0, NAN, 20.0, NAN]))


def whole(a, b, base=0):
    return Window(base, float(a), float(b), 0, 0)


def listed(bands):
    return [tuple(None if np.isnan(v) else v for v in pixel) for pixel in zip(*bands, strict=True)]


def test_pixels_of_a_step_function(curve):
    # 0-50: 10 for 40 ns and 30 for 10 ns; 50-100: 30 for 10 ns and 20 for 20 ns, the rest unknown
    assert listed(curve.bands(whole(0, 100), 2)) == [(10, 14, 30), (20, 700 / 30, 30)]


def test_what_is_unknown_is_not_zero(curve):
    assert listed(curve.bands(whole(-20, 140), 8)) == [
        (None, None, None), (10, 10, 10), (10, 10, 10), (30, 30, 30),
        (None, None, None), (20, 20, 20), (None, None, None), (None, None, None),
    ]  # fmt: skip


def test_a_sample_at_an_edge_belongs_to_the_pixel_that_it_begins(curve):
    assert listed(curve.bands(whole(20, 60), 2)) == [(10, 10, 10), (30, 30, 30)]


def test_a_sample_that_holds_for_no_time_counts_among_the_extremes():
    curve = Curve(np.array([0, 10, 10, 20]), np.array([1.0, 9.0, 2.0, NAN]))
    assert curve.stretch(0, 20) == (1, 1.5, 9)
    assert curve.stretch(10, 20) == (2, 2, 9)


def test_limits_and_the_stretch_of_a_curve_without_samples(curve):
    assert curve.limits == (10, 30)
    empty = Curve(np.array([], np.int64), np.array([]))
    assert empty.limits is None
    assert listed(empty.bands(whole(0, 10), 2)) == [(None, None, None)] * 2
    assert Curve(np.array([0, 5]), np.array([NAN, NAN])).limits is None


def test_nothing_is_lost_far_from_the_origin():
    start = 2**62
    curve = Curve(np.array([start, start + 1, start + 2]), np.array([4.0, 6.0, NAN]))
    assert listed(curve.bands(whole(0.5, 1.5, start), 1)) == [(4, 5, 6)]


def test_samples_out_of_order_are_refused():
    with pytest.raises(UsageError, match="order"):
        Curve(np.array([1, 0]), np.array([1.0, 2.0]))


def brute(t, value, a, b):
    """Go over every sample: which count, for how long each holds inside."""
    seen, area, known = [], 0.0, 0.0
    for k in range(len(t)):
        end = t[k + 1] if k + 1 < len(t) else t[k]
        held = max(0.0, min(end, b) - max(t[k], a))
        if np.isnan(value[k]) or not (held > 0 or a <= t[k] < b):
            continue
        seen.append(value[k])
        area, known = area + held * value[k], known + held
    if not seen:
        return None
    return min(seen), area / known if known else (min(seen) + max(seen)) / 2, max(seen)


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=4 * BLOCK),
    st.integers(1, 9),
    st.integers(-20, 200),
    st.integers(1, 500),
    st.randoms(use_true_random=False),
)
def test_every_pixel_equals_brute_force(steps, pixels, a, length, random):
    t = np.cumsum(steps)
    value = np.array([random.choice([NAN, 0.0, 1.0, 5.0, -3.0, 7.5]) for _ in steps])
    found = Curve(t, value).bands(whole(a, a + length), pixels)
    for k in range(pixels):
        lo, hi = a + length * (k / pixels), a + length * ((k + 1) / pixels)
        wanted = brute(t, value, lo, hi)
        got = (found.low[k], found.mean[k], found.high[k])
        assert np.isnan(got).all() if wanted is None else got == pytest.approx(wanted)


def test_a_million_samples_in_a_thousand_pixels():
    rng = np.random.default_rng(0)
    t, value = np.arange(1_000_000), rng.random(1_000_000)
    found = Curve(t, value).bands(whole(0, 1_000_000), 1000)
    parts = value.reshape(1000, 1000)
    assert np.array_equal(found.low[:-1], parts.min(1)[:-1])
    assert np.array_equal(found.high[:-1], parts.max(1)[:-1])
    assert found.mean[:-1] == pytest.approx(parts.mean(1)[:-1])
