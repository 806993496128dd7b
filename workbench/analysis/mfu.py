"""`mfu`: model and hardware FLOPs utilisation, from operators and from the model's configuration.

MFU = model FLOPs of a step / (median complete step time x dense peak of the precision that ran x
devices) (Chowdhery et al., PaLM, arXiv 2204.02311, appendix B); HFU counts recomputation as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from workbench.analysis.coverage import coverage
from workbench.analysis.matrix_work import is_linked, matrix_work, prices, whole_steps
from workbench.analysis.step_times import NONE_WHOLE
from workbench.analysis.window import Selection, select
from workbench.costs.model_conventions import ModelConvention, model_convention
from workbench.costs.peaks import Peak, peak_of
from workbench.costs.roofs import choose
from workbench.costs.step_work import NOT_TOLD, StepWork
from workbench.costs.transformer import model_flops_per_token

if TYPE_CHECKING:
    from workbench.costs.ceilings import Ceilings
    from workbench.costs.hardware import Hardware
    from workbench.trace.core import Source

NEEDS = ("steps", "shapes")
SCHEMA: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "devices": pl.Int64(),
    "steps": pl.Int64(),
    "step_ns": pl.Float64(),
    "model_flops": pl.Float64(),
    "hardware_flops": pl.Float64(),
    "coverage_pct": pl.Float64(),
    "linked_pct": pl.Float64(),
    "config_flops": pl.Float64(),
    "operators_to_config": pl.Float64(),
    "precision": pl.String(),
    "peak_flops_per_s": pl.Float64(),
    "peak_rule": pl.String(),
    "peak_source": pl.String(),
    "mfu": pl.Float64(),
    "hfu": pl.Float64(),
    "mfu_by_config": pl.Float64(),
    "tokens_per_s": pl.Float64(),
    "samples_per_s": pl.Float64(),
    "convention": pl.String(),
    "reason": pl.String(),
}
NUMERATOR = (
    "FLOPs of matrix products by recorded shapes, without recomputation (hfu: with it); "
    "2 per multiply-add, no biases, causal attention by its unmasked half"
)
PEAK = "dense; of the data sheet at its boost clock, unless peak_source says that it was measured"
UNPRICED = "no operator with recorded shapes has a FLOP model"
UNLINKED = "no activity of the steps is tied to the operator that launched it"
NONE_SHARED = "no step is complete on all devices"
SHARED = "its rank works on several devices, and how a step is divided is not known"


def mfu(
    source: Source,
    *,
    convention: str | ModelConvention = "default",
    work: StepWork | None = None,
    ceilings: Ceilings | None = None,
    hardware: Hardware | None = None,
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, device), and one for all of a job: `devices` above 1.

    Parameters
    ----------
    convention
        How a configuration's FLOPs count (`costs.model_conventions`); operators always count every
        matrix product that ran.
    work
        Tokens, samples and shape of a step on one rank; `show` takes them from run.json.
    ceilings, hardware
        Measured roofs, or a data sheet, as for `roofline`. Without: the data sheet of the recorded
        device, dense and at its boost clock.

    Of complete steps but the tail: `step_ns` is the median duration, and the FLOPs are medians over
    steps of the work that they launched. mfu = model_flops / (step_ns x peak); hfu the same with
    hardware_flops (`matrix_work`); mfu_by_config with config_flops = tokens x FLOPs per token.
    `operators_to_config` = model_flops / config_flops. `peak_rule` says how a mix of precisions is
    held (`costs.peaks`). For all of a job: FLOPs, tokens and peaks are sums, and a step takes as
    long as on its slowest device. What is not known is null, and `reason` says why; with coverage
    below 100 %, model_flops and all that follows from it are lower bounds.
    """
    rules = model_convention(convention)
    parts = []
    for chosen in select(source, step=step, rank=rank, device=device):
        peaks = choose(chosen.trace.meta, chosen.device, ceilings, hardware)
        durations = whole_steps(chosen).select("step", "dur_ns")
        priced = prices(chosen.trace)
        done = matrix_work(chosen, priced, durations["step"], peaks)
        peak = peak_of(_shares(done), peaks)
        parts.append(_measured(chosen, durations, done, peak, is_priced=priced.height > 0))
    known = coverage(source, step=step, rank=rank, device=device)
    rows = [_row([p], known.slice(n, 1), rules, work) for n, p in enumerate(parts)]
    if len(parts) > 1:
        rows.append(_row(parts, known, rules, work))
    return pl.DataFrame(rows, schema=SCHEMA)


def beside(_: Source, *, convention: str = "default", **_options: object) -> dict[str, str]:
    """Return what stands beside the rows: numerator, convention of `mfu_by_config`, and peak."""
    return {
        "numerator": NUMERATOR,
        "convention": str(model_convention(convention)),
        "peak": PEAK,
    }


@dataclass(frozen=True)
class _Part:
    """What is known of one device."""

    rank: int | None
    device: int | None
    durations: pl.DataFrame
    model_flops: float | None
    hardware_flops: float | None
    peak: Peak
    siblings: int
    """Other devices of its rank."""
    reason: str | None


def _measured(
    chosen: Selection, durations: pl.DataFrame, done: pl.DataFrame, peak: Peak, *, is_priced: bool
) -> _Part:
    reason = None
    if not durations.height:
        reason = NONE_WHOLE
    elif not is_linked(chosen, durations["step"]):
        reason = UNLINKED
    elif not is_priced:
        reason = UNPRICED
    by_step = durations.select("step").join(
        done.group_by("step").agg(pl.col("model_flops", "hardware_flops").sum()),
        on="step",
        how="left",
    )
    model, hardware = (
        _median(by_step[n].fill_null(0)) if reason is None else None
        for n in ("model_flops", "hardware_flops")
    )
    siblings = chosen.trace.activities["device"].n_unique() - 1
    return _Part(chosen.rank, chosen.device, durations, model, hardware, peak, siblings, reason)


def _shares(done: pl.DataFrame) -> dict[str, float]:
    return dict(done.group_by("precision").agg(pl.col("hardware_flops").sum()).rows())


def _median(values: pl.Series) -> float | None:
    found = values.median()
    return None if found is None else float(found)  # type: ignore[arg-type]


def _row(
    parts: Sequence[_Part], known: pl.DataFrame, rules: ModelConvention, work: StepWork | None
) -> dict[str, object]:
    """Put the figures of one device, or of all together, in a row."""
    is_all = len(parts) > 1
    ranks = len({p.rank for p in parts})
    step_ns, steps = _step(parts)
    model, hardware = (_sum([getattr(p, n) for p in parts]) for n in _FLOPS)
    peak = _sum([p.peak.flops_per_s for p in parts])
    told = _told(parts, work)
    config = _config_flops(told, rules, ranks)
    return {
        "rank": None if is_all else parts[0].rank,
        "device": None if is_all else parts[0].device,
        "devices": len(parts),
        "steps": steps,
        "step_ns": step_ns,
        "model_flops": model,
        "hardware_flops": hardware,
        "coverage_pct": _percent(known, "modelled_ns", "shaped_ns"),
        "linked_pct": _percent(known, "linked_ns", "device_ns"),
        "config_flops": config,
        "operators_to_config": _over(model, config),
        "precision": _one([p.peak.precision for p in parts]),
        "peak_flops_per_s": peak,
        "peak_rule": _one([p.peak.rule for p in parts]),
        "peak_source": _one([p.peak.source for p in parts]),
        "mfu": _utilised(model, step_ns, peak),
        "hfu": _utilised(hardware, step_ns, peak),
        "mfu_by_config": _utilised(config, step_ns, peak),
        "tokens_per_s": _per_s(told.tokens, ranks, step_ns),
        "samples_per_s": _per_s(told.samples, ranks, step_ns),
        "convention": str(rules),
        "reason": _reason(parts, told, steps),
    }


_FLOPS = ("model_flops", "hardware_flops")


def _step(parts: Sequence[_Part]) -> tuple[float | None, int]:
    """Return the median over steps that all devices have of the longest duration, and how many."""
    both = pl.concat(p.durations for p in parts)
    whole = both.group_by("step").agg(pl.col("dur_ns").max(), pl.len())
    whole = whole.filter(pl.col("len") == len(parts))
    return _median(whole["dur_ns"]), whole.height


def _told(parts: Sequence[_Part], work: StepWork | None) -> StepWork:
    """Return the work of a step; of one device among several of its rank, it is not known."""
    is_share = len(parts) == 1 and parts[0].siblings
    return StepWork() if work is None or is_share else work


def _config_flops(work: StepWork, rules: ModelConvention, ranks: int) -> float | None:
    if work.config is None or work.tokens is None:
        return None
    return ranks * work.tokens * model_flops_per_token(work.config, rules)


def _reason(parts: Sequence[_Part], work: StepWork, steps: int) -> str | None:
    found = [r for p in parts for r in (p.reason or p.peak.reason,) if r]
    if not steps and NONE_WHOLE not in found:
        found.append(NONE_SHARED)
    if work.config is None or work.tokens is None:
        is_share = len(parts) == 1 and parts[0].siblings
        found.append(f"by configuration: {SHARED if is_share else NOT_TOLD}")
    return "; ".join(dict.fromkeys(found)) or None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if len(known) == len(values) else None


def _one(texts: Sequence[str | None]) -> str | None:
    return "; ".join(dict.fromkeys(t for t in texts if t is not None)) or None


def _percent(known: pl.DataFrame, part: str, whole: str) -> float | None:
    return _over(100 * float(known[part].sum()), float(known[whole].sum()))


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _utilised(flops: float | None, step_ns: float | None, peak: float | None) -> float | None:
    if flops is None or not step_ns or not peak:
        return None
    return flops / (step_ns / 1e9 * peak)


def _per_s(count: int | None, ranks: int, step_ns: float | None) -> float | None:
    return None if count is None or not step_ns else ranks * count / (step_ns / 1e9)
