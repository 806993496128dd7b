"""What a run folder says of how its recording went, as far as it makes figures doubtful.

`workbench show RUN trust` holds these beside what the trace itself tells, and `workbench record`
prints both at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench import units
from workbench.capture import folder
from workbench.capture.lost import KINDS
from workbench.capture.overhead import known
from workbench.capture.quiet import unquiet
from workbench.capture.slowdown import profiler_slowdown
from workbench.errors import InputError

SLOWDOWN, FEW, UNEVEN, LOST = "traced steps change", "enough steps", "warm-up", "records lost"
SHORT = "traced steps"
LIGHTER = "record fewer steps (--steps {}), or less of each: --no-shapes, --no-memory, no --stacks"
MOST = 100
"""More steps than this are no advice."""


@dataclass(frozen=True)
class Remark:
    """One thing to know; the fields are columns of `trust`."""

    aspect: str
    state: str
    detail: str
    advice: str | None = None


@dataclass(frozen=True)
class Remarks:
    """All remarks on one run, in the order in which they are told; none for other sources."""

    rows: tuple[Remark, ...] = ()


def recorded(run: Path) -> Remarks:
    """Return the remarks on a run folder; none where a folder is none, or is strange."""
    try:
        manifest = folder.read_manifest(run)
    except InputError:
        return Remarks()
    found = [_warm_up(manifest), _short(manifest), _enough(manifest), _change(manifest)]
    found += [Remark(u.aspect, "partly", u.detail, u.advice) for u in unquiet(run, manifest)]
    found += _lost(manifest)
    return Remarks(tuple(remark for remark in found if remark is not None))


def _warm_up(manifest: Mapping[str, Any]) -> Remark | None:
    """Say when steps were still uneven as warm-up ended."""
    told = manifest.get("warmup")
    if not isinstance(told, dict) or told.get("stable") is not False or not told.get("detected"):
        return None
    if _is_scheduled_by_script(manifest):
        return None
    width, steps = told.get("spread"), told.get("steps")
    if not isinstance(width, int | float):
        detail = f"{steps} steps, too few to tell whether they were steady"
    else:
        detail = f"the last of {steps} steps still differed by {100 * width:.0f} %"
    advice = "allow more with --warmup; if that does not help, the steps differ by themselves"
    return Remark(UNEVEN, "partly", detail, advice)


def _is_scheduled_by_script(manifest: Mapping[str, Any]) -> bool:
    """Say whether a profiler of the script's own said how many steps there are."""
    told = manifest.get("warmup")
    return isinstance(told, dict) and told.get("limit", 0) is None


def _short(manifest: Mapping[str, Any]) -> Remark | None:
    """Say when fewer steps were traced than asked for."""
    plan, steps = manifest.get("plan"), manifest.get("steps")
    asked = plan.get("steps") if isinstance(plan, dict) else None
    if manifest.get("status") != "done" or not isinstance(asked, int) or not steps:
        return None
    if _is_scheduled_by_script(manifest):
        return None
    cost = known(manifest)
    if cost is None or cost.traced >= asked:
        return None
    advice = "the training ended before that: train longer, or ask for fewer (--steps)"
    return Remark(SHORT, "partly", f"{cost.traced} of the {asked} that were asked for", advice)


def _enough(manifest: Mapping[str, Any]) -> Remark | None:
    """Say when too few steps were timed for the cost of profiling to be told closely."""
    cost = known(manifest)
    if cost is None or cost.ratio is None or (wanted := cost.steps_wanted) is None:
        return None
    if cost.half_width is None:
        detail = f"{cost.untraced} untraced and {cost.traced} traced: no interval"
    else:
        detail = (
            f"{cost.untraced} untraced and {cost.traced} traced: the cost of profiling is known "
            f"to {100 * cost.half_width:.0f} points"
        )
    if wanted > MOST:
        advice = "steps differ too much to tell it by more of them: see that nothing else runs"
    else:
        advice = f"for 5 points record {wanted} of each (--untraced {wanted} --steps {wanted})"
    return Remark(FEW, "partly", detail, advice)


def _change(manifest: Mapping[str, Any]) -> Remark | None:
    """Say when traced steps take another time from some step on."""
    try:
        found = profiler_slowdown(manifest)
    except (KeyError, TypeError, ValueError):
        return None
    if found.ratio is None or found.before_ns is None or found.behind_ns is None:
        return None
    detail = (
        f"behind the first {found.after} of {found.steps} a step takes "
        f"{units.duration(found.behind_ns)} instead of {units.duration(found.before_ns)} "
        f"({100 * found.ratio:+.0f} %)"
    )
    slower = f"the profiler slows down as it fills: {LIGHTER.format(found.after)}"
    advice = slower if found.ratio > 0 else "look at later steps, or allow more warm-up (--warmup)"
    return Remark(SLOWDOWN, "partly", detail, advice)


def _lost(manifest: Mapping[str, Any]) -> list[Remark]:
    """Say what the profiler said that it lost."""
    counts = manifest.get("lost")
    if not isinstance(counts, dict):
        return []
    return [
        Remark(LOST, "fault", f"{counts[name]} times: {kind.text}", kind.advice)
        for name, kind in KINDS.items()
        if isinstance(counts.get(name), int)
    ]
