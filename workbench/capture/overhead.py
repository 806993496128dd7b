"""What the profiler costs: traced against untraced steps of the same run.

All untraced steps come before all traced ones, in the state that warm-up left. So the interval
holds how steps vary, and not a machine that changed in between; `remarks` tells of that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.capture import folder
from workbench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_RESAMPLES = 2000
_INTERVAL = (2.5, 97.5)
_FEWEST = 2
_USUAL = 5
NARROW = 0.05
"""Half the width of an interval that tells a cost of a tenth from none."""


@dataclass(frozen=True)
class Overhead:
    """The profiler's overhead with its 95 % bootstrap interval; null where it is unknown."""

    traced_ns: float | None
    """Median traced step."""
    untraced_ns: float | None
    """Median untraced step."""
    traced: int
    """Number of traced steps."""
    untraced: int
    ratio: float | None = None
    """median traced step / median untraced step - 1."""
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    """Why a value is null."""

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def steps_wanted(self) -> int | None:
        """Steps of each kind for an interval of +-5 points; null where it is as narrow already.

        The width goes with one over the square root of the steps: n (half width / 5 points)^2.
        """
        width = self.half_width
        if width is None:
            return _USUAL if self.reason else None
        n = min(self.traced, self.untraced)
        return max(n + 1, math.ceil(n * (width / NARROW) ** 2)) if width > NARROW else None


def overhead(manifest: Mapping[str, Any]) -> Overhead:
    """Compute median(traced) / median(untraced) - 1 from the step times of run.json.

    A step of several ranks takes as long as its slowest rank. The interval is a percentile
    bootstrap of both medians (2000 resamples of each side, fixed seed), from the 2.5th to the
    97.5th, and null below two steps on a side. Of steps that vary like a normal variable it holds
    the true ratio 96 times in 100 with 5 and 5 steps or more, 91 times with 3 and 3 (simulated).
    """
    traced, untraced = step_times(manifest, "traced"), step_times(manifest, "untraced")
    known = Overhead(
        traced_ns=_median(traced),
        untraced_ns=_median(untraced),
        traced=len(traced),
        untraced=len(untraced),
    )
    if known.traced_ns is None or not known.untraced_ns:
        missing = "traced" if known.traced_ns is None else "untraced"
        return replace(known, reason=f"the run has no {missing} steps")
    known = replace(known, ratio=known.traced_ns / known.untraced_ns - 1)
    if min(len(traced), len(untraced)) < _FEWEST:
        return replace(known, reason="the interval needs two steps of each kind")
    low, high = _bootstrap(traced, untraced)
    return replace(known, low=low, high=high)


def known(manifest: Mapping[str, Any]) -> Overhead | None:
    """Compute it from a manifest that others may have written; None where that is strange."""
    try:
        return overhead(manifest)
    except (KeyError, TypeError, ValueError):
        return None


def recorded(run: Path) -> Overhead | None:
    """Compute it for a run folder; None for any other."""
    try:
        return known(folder.read_manifest(run))
    except InputError:
        return None


def step_times(manifest: Mapping[str, Any], phase: str) -> NDArray[np.int64]:
    """Return the time of each step of a phase in ns, that of the slowest rank."""
    slowest: dict[int, int] = {}
    for step in manifest.get("steps", ()):
        if step["phase"] == phase and step["dur_ns"] is not None:
            index = step["index"]
            slowest[index] = max(step["dur_ns"], slowest.get(index, 0))
    return np.array([slowest[index] for index in sorted(slowest)], dtype=np.int64)


def _median(times: NDArray[np.int64]) -> float | None:
    return float(np.median(times)) if len(times) else None


def _bootstrap(traced: NDArray[np.int64], untraced: NDArray[np.int64]) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    medians = [
        np.median(rng.choice(side, (_RESAMPLES, len(side))), axis=1) for side in (traced, untraced)
    ]
    low, high = np.percentile(medians[0] / medians[1] - 1, _INTERVAL)
    return float(low), float(high)
