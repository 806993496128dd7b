"""`energy`: joules of a step, of a sample, and of each family of work, from sampled power.

Power between two samples is taken as the straight line between them, and energy as its integral
over a step (the trapezoid rule). Samples carry Unix time; the trace's times plus its origin are
Unix time too, when the profiler wrote an absolute base. Management libraries report power averaged
over up to a second, so that only steps of many samples together can be told, not one short step;
where a device counts its energy, `capture.power` takes that instead. The power of a processor is
that of its whole package, other programs and other ranks on it included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.analysis.matrix_work import is_linked, matrix_work, prices, whole_steps
from workbench.analysis.step_times import NONE_WHOLE
from workbench.analysis.window import Selection, select, spans
from workbench.costs.step_work import StepWork

Watts = NDArray[np.float64]
"""Or joules."""
if TYPE_CHECKING:
    from workbench.capture.power import Power
    from workbench.intervals import Times
    from workbench.trace.core import Source

NEEDS = ("steps",)
SCHEMA: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "part": pl.String(),
    "steps": pl.Int64(),
    "time_ns": pl.Float64(),
    "share": pl.Float64(),
    "joules_per_step": pl.Float64(),
    "joules_per_sample": pl.Float64(),
    "joules_per_token": pl.Float64(),
    "flops": pl.Float64(),
    "flops_per_joule": pl.Float64(),
    "mean_power_w": pl.Float64(),
    "power_samples": pl.Int64(),
    "reason": pl.String(),
}
WHOLE, IDLE, OTHER = "step", "idle", "other"
"""Parts beside the families: all of a step, no activity, activities in no family."""
FEWEST = 2
"""Samples within the steps, below which power there is not known."""
LONGEST = 5
"""How many times their median distance two samples may be apart within the steps."""
METHOD = (
    "power interpolated between samples and integrated over each step; divided among families by "
    "their share of device time, idle time at the step's mean power"
)
CLOCK = "samples carry Unix time, as the trace does when its profiler wrote an absolute base"


def energy(
    source: Source,
    *,
    power: Power | None = None,
    work: StepWork | None = None,
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
) -> pl.DataFrame:
    """Return, for each (rank, device), a row for the whole step and one for each part of it.

    Parameters
    ----------
    power, work
        Sampled power, and tokens and samples of a step on one rank; `show` takes both from the run
        folder.

    Over complete steps but the tail: `joules_per_step` of the part `step` is the mean over steps of
    the integral of power over the step, mean_power_w = joules / time. Each step's energy is divided
    by time: a part's `share` is its union of activities in the steps, over the sum of those of all
    families, times the busy share; idle has the rest. So a part that draws more power than the mean
    is given too little. `flops`: of the matrix products of a step, recomputation included;
    flops_per_joule = flops / joules_per_step. Joules are null, with the reason, without
    samples of power before, after and at least twice within the steps, or where they pause there.
    """
    chosen = select(source, step=step, rank=rank, device=device)
    rows = [row for part in chosen for row in _device(part, power, work)]
    return pl.DataFrame(rows, schema=SCHEMA)


def beside(_: Source, **_options: object) -> dict[str, str]:
    """Return what stands beside the rows: the method, and how the clocks are held together."""
    return {"method": METHOD, "clock": CLOCK}


def _device(
    chosen: Selection, power: Power | None, work: StepWork | None
) -> list[dict[str, object]]:
    steps = whole_steps(chosen)
    place = {"rank": chosen.rank, "device": chosen.device, "steps": steps.height}
    if not steps["dur_ns"].sum():
        return [place | {"part": WHOLE, "reason": NONE_WHOLE}]
    time_ns = float(steps["dur_ns"].sum()) / steps.height
    joules, sampled, reason = _joules(chosen, steps, power)
    drawn = None if joules is None else joules / time_ns * 1e9
    beside = {"mean_power_w": drawn, "power_samples": sampled, "reason": reason}
    flops = _flops(chosen, steps["step"])
    alone = chosen.trace.activities["device"].n_unique() == 1
    told = work if work is not None and alone else StepWork()
    return [
        place | _part(part, share, time_ns, joules, flops, told) | beside
        for part, share in _shares(chosen, steps).items()
    ]


def _part(  # noqa: PLR0917 - the parts of one row
    part: str,
    share: float,
    time_ns: float,
    joules: float | None,
    flops: Mapping[str, float] | None,
    told: StepWork,
) -> dict[str, object]:
    mine = None if joules is None else joules * share
    done = None if flops is None else flops.get(part, 0.0)
    return {
        "part": part,
        "time_ns": share * time_ns,
        "share": share,
        "joules_per_step": mine,
        "joules_per_sample": _over(mine, told.samples),
        "joules_per_token": _over(mine, told.tokens),
        "flops": done,
        "flops_per_joule": _over(done, mine),
    }


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _joules(
    chosen: Selection, steps: pl.DataFrame, power: Power | None
) -> tuple[float | None, int | None, str | None]:
    """Return the mean energy of a step, the samples within the steps, or why it is not known."""
    if power is None or power.reason is not None:
        return None, None, power.reason if power else NO_POWER
    on_host = pl.col("device").is_null()
    mine = power.samples.filter(on_host if chosen.is_host else pl.col("device") == chosen.device)
    if not mine.height:
        return None, None, "its telemetry holds no power of this device"
    at = mine["t_unix_ns"].to_numpy() - chosen.trace.meta.origin_ns
    start, end = spans(steps)
    first, last = start.min(), end.max()
    within = int(((at >= first) & (at <= last)).sum())
    if reason := _too_few(at, first, last, within):
        return None, within, reason
    return float(integral(at, mine["power_w"].to_numpy(), start, end).mean()), within, None


def _too_few(at_ns: Times, first: int, last: int, within: int) -> str | None:
    """Say why samples do not tell the power in the steps: where they pause, a line is a guess."""
    if at_ns[0] > first or at_ns[-1] < last:
        return "the samples of power do not reach over the steps"
    if within < FEWEST:
        return f"{within} samples of power within the steps; it takes {FEWEST}"
    apart = np.diff(at_ns)
    inside = (at_ns[1:] > first) & (at_ns[:-1] < last)
    return HOLE if apart[inside].max() > LONGEST * np.median(apart[inside]) else None


HOLE = "the samples of power have a hole in the steps"
NO_POWER = "no telemetry was given (a recorded run has it)"


def integral(at_ns: Times, power_w: Watts, start: Times, end: Times) -> Watts:
    """Return joules of each [start, end) under the straight lines between samples.

    100 W at 0 s and 200 W at 2 s: 0.5 s to 1.5 s holds (125 + 175) / 2 x 1 s = 150 J.
    """
    seconds = np.diff(at_ns) / 1e9
    summed = np.append(0.0, np.cumsum(seconds * (power_w[1:] + power_w[:-1]) / 2))

    def until(t: Times) -> Watts:
        before = np.clip(np.searchsorted(at_ns, t, "right") - 1, 0, len(at_ns) - 1)
        here = np.interp(t, at_ns, power_w)
        since = (t - at_ns[before]) / 1e9 * (power_w[before] + here) / 2
        return np.asarray(summed[before] + since, np.float64)

    return np.asarray(until(end) - until(start), np.float64)


def _shares(chosen: Selection, steps: pl.DataFrame) -> dict[str, float]:
    """Divide the steps' time: all, each family from the largest, idle."""
    inside = intervals.union(*spans(steps))
    whole = intervals.length(inside)
    lengths: dict[str, int] = {}
    named = chosen.activities.with_columns(pl.col("family").cast(pl.String).fill_null(OTHER))
    for (family,), frame in named.group_by("family", maintain_order=True):
        held = intervals.intersection(intervals.union(*spans(frame)), inside)
        lengths[str(family)] = intervals.length(held)
    busy = intervals.length(intervals.intersection(intervals.union(*spans(named)), inside))
    every = sum(lengths.values())
    if not whole:
        return {}
    shares = {f: n / every * busy / whole for f, n in lengths.items() if n}
    ordered = dict(sorted(shares.items(), key=lambda item: -item[1]))
    return {WHOLE: 1.0, **ordered, IDLE: 1 - busy / whole}


def _flops(chosen: Selection, steps: pl.Series) -> dict[str, float] | None:
    """Return FLOPs a step, in all and by family; null when no operator's FLOPs are known."""
    priced = prices(chosen.trace)
    if not priced.height or not is_linked(chosen, steps):
        return None
    done = matrix_work(chosen, priced, steps, "precisions play no part here")
    by_family = done.group_by(pl.col("family").fill_null(OTHER)).agg(
        pl.col("hardware_flops").sum() / len(steps)
    )
    return {WHOLE: float(by_family["hardware_flops"].sum()), **dict(by_family.rows())}
