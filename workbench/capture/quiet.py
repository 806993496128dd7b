"""Whether a machine was quiet while steps were timed: load of others, clocks, throttling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from workbench.capture.nvml import THROTTLES
from workbench.capture.samples import placed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MEASURED = ("untraced", "traced")
FEWEST = 3
"""Samples within the timed steps below which nothing is said."""
MOST_LOAD_PCT = {"cpu": 10.0, "cuda": 50.0}
"""Mean load of others on the run's cores from which on it is disturbed: where the processor does
the work itself a tenth shows in every step, where it launches it half of it may be given away."""
LOWEST = 0.9
"""A clock that falls below so much of its largest value is told."""
TENTH = 0.1
LEAST_SHARE = 0.05
"""Of samples that say why clocks are held down."""


class Unquiet(NamedTuple):
    """One thing that was not as it should be."""

    aspect: str
    detail: str
    advice: str


def unquiet(run: Path, manifest: Mapping[str, Any]) -> list[Unquiet]:
    """Return what disturbed the timed steps of a run folder; nothing where that is not known.

    Of the samples of telemetry.csv between the first and the last step that was timed, untraced or
    traced: the mean load of other programs on the run's cores; for each GPU its core clock (the
    10th percentile below 90 % of the largest), and the reasons for which the driver held its clocks
    down, with the share of samples that named each.
    """
    window = _window(manifest)
    found = placed(run)
    if window is None or found.is_empty():
        return []
    within = found.filter(pl.col("t_unix_ns").is_between(*window))
    devices = within["device"].unique().drop_nulls().sort()
    on_gpus = [told for d in devices for told in _gpu(d, within.filter(pl.col("device") == d))]
    kind = str(manifest.get("device") or "cpu").partition(":")[0]
    return [*_load(within.filter(pl.col("device").is_null()), kind), *on_gpus]


def _window(manifest: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return from when to when steps were timed, Unix ns."""
    steps = manifest.get("steps")
    spans = [
        (s["start_unix_ns"], s["start_unix_ns"] + s["dur_ns"])
        for s in (steps if isinstance(steps, list) else ())
        if isinstance(s, dict)
        and s.get("phase") in MEASURED
        and all(isinstance(s.get(name), int) for name in ("start_unix_ns", "dur_ns"))
    ]
    return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None


def _load(host: pl.DataFrame, kind: str) -> Iterator[Unquiet]:
    load = _numbers(host, "other_pct")
    if len(load) < FEWEST or load.mean() < MOST_LOAD_PCT.get(kind, MOST_LOAD_PCT["cuda"]):
        return
    yield Unquiet(
        "quiet machine",
        f"other programs took {load.mean():.0f} % of the run's cores while steps were timed",
        "times vary with it: record again when nothing else runs",
    )


def _gpu(device: int, samples: pl.DataFrame) -> Iterator[Unquiet]:
    clock = _numbers(samples, "core_clock_mhz")
    if len(clock) >= FEWEST and np.quantile(clock, TENTH) < LOWEST * clock.max():
        yield Unquiet(
            "steady clocks",
            f"device {device}: the core clock fell from {clock.max():.0f} to "
            f"{np.quantile(clock, TENTH):.0f} MHz while steps were timed",
            "steps of unlike clocks do not compare; more warm-up (--warmup), or fixed clocks "
            "(nvidia-smi --lock-gpu-clocks)",
        )
    bits = _numbers(samples, "throttle_reasons").astype(np.int64)
    shares = {
        name: share
        for bit, name in THROTTLES.items()
        if len(bits) >= FEWEST and (share := float(((bits & bit) != 0).mean())) >= LEAST_SHARE
    }
    if shares:
        named = ", ".join(f"{name} in {100 * share:.0f} %" for name, share in shares.items())
        yield Unquiet(
            "throttling",
            f"device {device}: clocks were held down by {named} of the samples",
            "what the device can reach at other clocks is not what was measured here",
        )


def _numbers(samples: pl.DataFrame, column: str) -> Any:
    """Return the finite, non-negative numbers of a column of text."""
    if column not in samples.columns:
        return np.array([])
    values = samples[column].cast(pl.Float64, strict=False).drop_nulls().to_numpy()
    return values[np.isfinite(values) & (values >= 0) & (values < 2**53)]
