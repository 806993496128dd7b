"""The peak that a step's matrix products are held against, when they ran in one precision or more.

Where one precision did at least 99 % of the FLOPs, its peak holds for all. Else each precision is
held against its own: the time at peak is sum(FLOPs_p / peak_p), so the peak of the mix is the
harmonic mean, weighted by FLOPs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from workbench.costs.precision import AMBIGUOUS
from workbench.costs.roofs import Roofs

ONE = 0.99
"""Share of the FLOPs from which one precision stands for all."""
SINGLE = "one precision"
MIXED = "each precision at its own peak"


@dataclass(frozen=True, slots=True)
class Peak:
    """A dense peak in FLOP/s with what it is of; null with the reason."""

    flops_per_s: float | None = None
    precision: str | None = None
    rule: str | None = None
    source: str | None = None
    reason: str | None = None


def peak_of(flops: Mapping[str, float], roofs: Roofs | str) -> Peak:
    """Return the peak of matrix products whose FLOPs are given by precision.

    3/4 of the FLOPs in bf16 at 100 FLOP/s and 1/4 in fp32 at 50: 1 / (0.75/100 + 0.25/50) = 80.
    Null when the precision of more than 1 % is not known, or has no peak; less is left out.
    """
    whole = sum(flops.values())
    if not whole:
        return Peak(reason="no matrix product ran in the steps")
    ordered = sorted(flops.items(), key=lambda item: (-item[1], item[0]))
    first, most = ordered[0]
    is_single = most >= ONE * whole
    held = {first: whole} if is_single else dict(ordered)
    rule = SINGLE if is_single else MIXED
    label = first if is_single else ", ".join(f"{p} {n / whole:.1%}" for p, n in ordered)
    if isinstance(roofs, str):
        return Peak(precision=label, rule=rule, reason=roofs)
    peaks = {p: None if p == AMBIGUOUS else roofs.peak(p, "matrix") for p in held}
    found = Peak(precision=label, rule=rule, source=roofs.source)
    missing = [p for p, peak in peaks.items() if not peak]
    if sum(held[p] for p in missing) > (1 - ONE) * whole:
        return replace(found, reason=_why(missing[0], roofs))
    at_peak = {p: n / peak for p, n in held.items() if (peak := peaks[p])}
    done = sum(held[p] for p in at_peak)
    return replace(found, flops_per_s=done / sum(at_peak.values()))


def _why(precision: str, roofs: Roofs) -> str:
    if precision == AMBIGUOUS:
        return "the kernels' names do not tell fp32 from TF32"
    return f"no peak of {precision} (matrix) in {roofs.source}"
