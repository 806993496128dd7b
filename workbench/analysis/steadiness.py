"""Which steps of a recording are unlike the others, and whether steps get slower: by tests.

No step is left out by its number and none by a fixed ratio: what counts as unlike follows from how
much the other steps vary and from how many there are.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.intervals import Times

SIGNIFICANCE = 0.01
"""How often steps that vary by chance alone give an outlier or a trend, per recording."""
RESOLUTION_NS = 1000
"""Steps that differ by less than a tick of old profilers' clocks are alike."""
FEWEST = 3
ALL_PAIRS = 1000
MANY = 200
_SERIES = (
    (4, (1, 1)),
    (96, (3, 16, 5)),
    (384, (-15, 17, 19, 3)),
    (92160, (-945, -1920, 1482, 776, 79)),
)
"""Divisors and coefficients of Student's quantile in powers of 1 / freedom."""
FEWEST_FOR_TREND = 8
"""The normal approximation of Mann and Kendall's statistic holds from here on."""


def outliers(durations: Times) -> NDArray[np.bool_]:
    """Say of each duration whether it is unlike the others; never of fewer than three.

    The generalised extreme Studentised deviate test (Rosner 1983, Technometrics 25) on the
    logarithms, at 1 % for the whole, for at most a third of them: again and again the value
    furthest from the mean is taken out while R = |x - mean| / s is compared with
    (m - 1) t / sqrt((m - 2 + t^2) m), t the Student quantile of 1 - 0.01 / (2m) with m - 2 degrees
    of freedom. 1 us is added to s in quadrature: below it clocks of 2021 do not tell steps apart.
    """
    left = np.arange(len(durations))
    logs = np.log(np.maximum(durations, 1))
    taken, last = [], 0
    for count in range(1, max(1, len(durations) // 3) + 1):
        if len(left) < FEWEST:
            break
        value, typical = logs[left], np.median(durations[left])
        spread = math.hypot(value.std(ddof=1), RESOLUTION_NS / max(typical, 1))
        away = np.abs(value - value.mean())
        worst = int(away.argmax())
        if away[worst] / spread > _critical(len(left)):
            last = count
        taken.append(left[worst])
        left = np.delete(left, worst)
    found = np.zeros(len(durations), np.bool_)
    found[taken[:last]] = True
    return found


class Trend(NamedTuple):
    """How a step's duration changes from one to the next."""

    ns_per_step: float
    """The median of all pairs' slopes (Theil and Sen)."""
    is_significant: bool


def trend(step: Times, durations: Times) -> Trend | None:
    """Return the change per step; null for fewer than eight steps.

    Slope: the median over all pairs of (d_j - d_i) / (j - i) (Sen 1968); of more than `ALL_PAIRS`
    steps over the pairs half of them apart (Theil 1950, incomplete). It is significant when
    Mann and Kendall's S, the pairs that grow less those that shrink, is unlikely to be chance: two
    sided at 1 %, with the normal approximation, its variance corrected for ties.
    """
    n = len(durations)
    if n < FEWEST_FOR_TREND:
        return None
    score = sum(int(np.sign(durations[k + 1 :] - durations[k]).sum()) for k in range(n - 1))
    ties = np.unique(durations, return_counts=True)[1]
    pairs = n * (n - 1) * (2 * n + 5) - (ties * (ties - 1) * (2 * ties + 5)).sum()
    z = max(abs(score) - 1, 0) / math.sqrt(pairs / 18) if pairs else 0.0
    limit = NormalDist().inv_cdf(1 - SIGNIFICANCE / 2)
    i, j = (
        np.triu_indices(n, 1) if n <= ALL_PAIRS else (np.arange(n // 2), np.arange(n - n // 2, n))
    )
    return Trend(float(np.median((durations[j] - durations[i]) / (step[j] - step[i]))), z > limit)


def _critical(m: int) -> float:
    t = _student(SIGNIFICANCE / m, m - 2)
    return (m - 1) * t / math.sqrt((m - 2 + t * t) * m)


def _student(outside: float, freedom: int) -> float:
    """Return the t that a Student variable exceeds in absolute value with this probability.

    Above `MANY` degrees of freedom by Abramowitz and Stegun 26.7.5, which is right to 1e-6 there
    and takes no longer for thousands of steps.
    """
    if freedom > MANY:
        x = NormalDist().inv_cdf(1 - outside / 2)
        series = enumerate(_SERIES, 1)
        return x + sum(_polynomial(x, c) / (d * math.pow(freedom, n)) for n, (d, c) in series)
    low, high = 0.0, math.pi / 2
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, freedom) < 1 - outside else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _polynomial(x: float, coefficients: tuple[int, ...]) -> float:
    """Return the sum of the coefficients times x, x^3, x^5 and so on."""
    return sum(c * math.pow(x, 2 * n + 1) for n, c in enumerate(coefficients))


def _inside(angle: float, freedom: int) -> float:
    """Return P(|T| < sqrt(freedom) tan(angle)): Abramowitz and Stegun 26.7.3 and 26.7.4."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
