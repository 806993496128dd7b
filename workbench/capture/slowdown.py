"""`profiler_slowdown`: whether traced steps take another time from some step on.

A profiler keeps what it records in memory until the end, so that a recording of many steps may slow
down as it goes: the steps before tell of the program, those behind it of the profiler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.capture.overhead import step_times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

SIGNIFICANCE = 0.01
"""How often steps that vary by chance alone are said to change."""
SHUFFLES = 2000
FEWEST = 10
"""Of fewer steps no order is rarer than `SIGNIFICANCE`: 5 slow behind 5 fast come in 1 of 252."""
LEAST = 0.05
"""A change by less than this is not worth a word, however sure it is."""


@dataclass(frozen=True)
class Slowdown:
    """The typical traced step before and behind the largest change; null where there is none."""

    steps: int
    """Traced steps of which the time is known."""
    after: int | None = None
    """How many of them come before the change."""
    before_ns: float | None = None
    """Median before."""
    behind_ns: float | None = None
    """Median behind."""
    ratio: float | None = None
    """behind / before - 1."""
    reason: str | None = None
    """Why there is no change to tell of."""


def profiler_slowdown(manifest: Mapping[str, Any]) -> Slowdown:
    """Tell from the step times of run.json whether traced steps get slower, or faster.

    With x the logarithms of n times less their mean, the change lies behind the k steps for which
    |x_1 + … + x_k| / sqrt(k (n - k) / n) is largest: there two levels fit best. It counts when at
    most 1 % of 2000 shuffles (fixed seed) have as large a value, and when the medians of both sides
    differ by 5 % or more. A slow climb is found as well, and told as its two halves.
    """
    times = step_times(manifest, "traced")
    n = len(times)
    if n < FEWEST:
        return Slowdown(n, reason=f"{n} traced steps; it takes {FEWEST} to tell a change")
    after, is_significant = change(np.log(np.maximum(times, 1)))
    before, behind = float(np.median(times[:after])), float(np.median(times[after:]))
    ratio = behind / before - 1 if before else 0.0
    if not is_significant or abs(ratio) < LEAST:
        return Slowdown(n, reason="traced steps are alike from the first to the last")
    return Slowdown(n, after, before, behind, ratio)


def change(values: NDArray[np.float64]) -> tuple[int, bool]:
    """Return behind how many values their level changes most, and whether that is no chance."""
    centred = values - values.mean()
    found = _contrast(centred)
    after = int(found.argmax()) + 1
    rng = np.random.default_rng(0)
    # A shuffle adds in another order: what is equal in truth must not count as smaller.
    level = float(found[after - 1]) * (1 - 1e-9)
    reached = sum(_contrast(rng.permutation(centred)).max() >= level for _ in range(SHUFFLES))
    return after, (1 + reached) / (1 + SHUFFLES) <= SIGNIFICANCE


def _contrast(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each k from 1 to n - 1, how far the sum of the first k lies from chance."""
    n = len(centred)
    k = np.arange(1, n)
    return np.asarray(np.abs(np.cumsum(centred)[:-1]) / np.sqrt(k * (n - k) / n), np.float64)
