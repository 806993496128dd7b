"""`idle` and `idle_causes`: each gap of a device, and what the device was idle for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from workbench.analysis import needs
from workbench.analysis.gaps import CAUSES, EDGE, HOST, LAUNCH_CALL, Idle, idle_time
from workbench.analysis.window import Range, Selection, select
from workbench.intervals import Times
from workbench.trace import nesting, schema
from workbench.trace.core import Source, Trace
from workbench.trace.nesting import NONE

NEEDS = ("causes of idle time",)
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "step": pl.Int32(),
    "start_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "cause": pl.String(),
    "host_ns": pl.Int64(),
    "launch_call_ns": pl.Int64(),
    "device_ns": pl.Int64(),
    "blocked_by": pl.String(),
    "call": pl.String(),
    "ended_by": pl.String(),
    "activity": schema.ID,
}
CAUSES_SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "cause": pl.String(),
    "time_ns": pl.Int64(),
    "share": pl.Float64(),
    "gaps": pl.Int64(),
    "longest_ns": pl.Int64(),
    "reason": pl.String(),
}
_HOST = [i for i, cause in enumerate(CAUSES) if cause.startswith("host")]
TELLING: Mapping[str, tuple[str, str]] = {
    "host_data_loading": ("ops", "host_unknown"),
    "host_garbage_collection": ("garbage collections", "host_unknown"),
    "host_operator": ("ops", "host_unknown"),
    "host_python": ("frames", "host_unknown"),
    "dependency": ("waits", "launch_latency"),
}
"""What a cause is told by, and the cause that its time falls to where that is not recorded."""


def idle(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    longer_than_ns: int = 0,
) -> pl.DataFrame:
    """Return a row for each gap between a device's activities inside the window, longest first.

    A gap [a, b) is ended by the activity `ended_by` (row `activity` in `activities`; of several
    that start at b the one that was launched first), whose launch `call` is [l0, l1). `step` is
    that of the launch. dur = host + launch call + device, exactly:
    `host_ns` [a, max(a, min(l0, b))), the host had not launched yet; `launch_call_ns` what overlaps
    [l0, l1); `device_ns` the rest, after the call, or where the call is not known. `cause` is the
    one that fills most of the gap, as `idle_causes` says it, and `blocked_by` the innermost
    operator, annotation, runtime or Python call on the launching thread that fills most of what
    the host's part was mostly for; null when that is unrecorded. A gap that reaches beyond the
    window is cut to it. Only gaps longer than `longer_than_ns` have rows, so a count and a total of
    rows are always of the same gaps.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = [
        _rows(s, idle_time(s, longer_than_ns=longer_than_ns), source.origin_ns) for s in chosen
    ]
    found = pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)
    return found.sort(
        "dur_ns", "start_ns", "rank", "device", descending=[True, False, False, False]
    )


def idle_causes(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    longer_than_ns: int = 0,
) -> pl.DataFrame:
    """Return a row for each (rank, device, cause): idle time by cause, which adds up to all idle.

    Of a gap [a, b), ended by activity k with the launch call [l0, l1):

    - [a, max(a, min(l0, b))) is the host's, divided by the innermost event of the launching
      thread: `host_sync` (a synchronising call, or a copy that blocks), `host_data_loading`
      (torch's `enumerate(DataLoader)`), `host_garbage_collection`, `host_operator`,
      `host_python`, else `host_unknown`. Annotations and other runtime calls count as what is
      around them; so does a Python call within data loading or a collection;
    - `launch_call` is what overlaps [l0, l1);
    - the rest is `dependency` when a recorded wait of k's stream on an event, asked for before k
      was launched, ended within 5 us before b; else up to 10 us is `launch_latency`, and what is
      beyond `unknown`. A wait ends when all work that the event's stream had been given before
      the event has ended. A collective that waits for another rank occupies its device meanwhile,
      so it is in no gap;
    - k without a launch record: `unknown`; between two activities of one graph launch: `graph`;
      before the first and after the last activity of the window: `edge`; host execution: `host`.

    `gaps` counts those that hold some of a cause, `longest_ns` is the most of it in one. `share`
    is of the device's idle time. A cause that the recording can't tell from another is null, with
    the `reason`; its time, if any, is in the other. With `longer_than_ns` time, count and share
    are of the gaps longer than that.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = [_causes(s, idle_time(s, longer_than_ns=longer_than_ns)) for s in chosen]
    return pl.concat(frames) if frames else pl.DataFrame(schema=CAUSES_SCHEMA)


def _rows(chosen: Selection, found: Idle, origin_ns: int) -> pl.DataFrame:
    gaps = found.gaps
    per_gap = found.parts.per_gap(len(gaps.start))
    host, called = per_gap[:, _HOST].sum(axis=1), per_gap[:, LAUNCH_CALL]
    total = gaps.end - gaps.start
    causes = pl.Series(CAUSES, dtype=pl.String)
    ended = {
        n: nesting.gathered(found.activities[n], gaps.ender)
        for n in ("id", "name", "step", "launch")
    }
    launch = nesting.ids(ended["launch"])
    return pl.DataFrame(
        {
            "rank": pl.repeat(chosen.rank, len(total), dtype=pl.Int32, eager=True),
            "device": pl.repeat(chosen.device, len(total), dtype=pl.Int32, eager=True),
            "step": ended["step"],
            "start_ns": gaps.start + (chosen.trace.meta.origin_ns - origin_ns),
            "dur_ns": total,
            "cause": causes.gather(per_gap.argmax(axis=1)),
            "host_ns": host,
            "launch_call_ns": called,
            "device_ns": total - host - called,
            "blocked_by": _blocking(found, per_gap),
            "call": nesting.gathered(chosen.trace.launches["name"], launch),
            "ended_by": ended["name"],
            "activity": ended["id"],
        }
    ).select(pl.col(n).cast(t) for n, t in SCHEMA.items())


def _blocking(found: Idle, per_gap: Times) -> pl.Series:
    """Name the event that fills most of what each gap's host time was mostly for.

    The earliest of equals; null where most of that is unrecorded.
    """
    parts = found.parts
    host = np.array(_HOST)
    chief = host[per_gap[:, host].argmax(axis=1)]
    at = np.flatnonzero(parts.cause == chief[parts.gap])
    gap, event = parts.gap[at], parts.event[at]
    key = gap * (len(found.names) + 1) + event
    order = np.argsort(key, kind="stable")  # the first of each pair is the earliest
    gap, event = gap[order], event[order]
    first = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    if not len(gap):
        return pl.repeat(None, len(per_gap), dtype=pl.String, eager=True)
    ns = np.add.reduceat((parts.end - parts.start)[at][order], first)
    gap, event, seen = gap[first], event[first], order[first]
    best = np.lexsort((seen, -ns, gap))
    best = best[np.append(True, np.diff(gap[best]) != 0)]
    most = np.full(len(per_gap), NONE)
    most[gap[best]] = event[best]
    return nesting.gathered(found.names, most).cast(pl.String)


def _causes(chosen: Selection, found: Idle) -> pl.DataFrame:
    per_gap = found.parts.per_gap(len(found.gaps.start))
    total = per_gap.sum(axis=0).tolist()
    whole = sum(total)
    untold = _untold(chosen, dict(zip(CAUSES, total, strict=True)))
    rows = [
        {
            "rank": chosen.rank,
            "device": chosen.device,
            "cause": cause,
            "time_ns": None if reason else total[i],
            "share": None if reason or not whole else total[i] / whole,
            "gaps": None if reason else int((per_gap[:, i] > 0).sum()),
            "longest_ns": None if reason else int(per_gap[:, i].max(initial=0)),
            "reason": reason,
        }
        for i, cause in enumerate(CAUSES)
        if (i == HOST) == chosen.is_host
        for reason in [untold.get(cause)]
    ]
    frame = pl.DataFrame(rows, schema=CAUSES_SCHEMA)
    return frame.sort("time_ns", descending=True, nulls_last=True, maintain_order=True)


def _untold(chosen: Selection, total: Mapping[str, int]) -> dict[str, str]:
    """Return the causes without time that this recording can't tell from others, with why."""
    trace = chosen.trace
    if chosen.is_host:
        return {}
    if lacks := _lacks(trace, "launches"):
        known = ("unknown", CAUSES[EDGE])
        return {c: f"{lacks}, so all is unknown" for c in CAUSES if c not in known}
    found = {}
    for cause, (need, other) in TELLING.items():
        shared = other == "host_unknown" and any(total[CAUSES[i]] for i in _HOST)
        shared |= other == "launch_latency" and total[other] + total["unknown"] > 0
        if not total[cause] and shared and (lacks := _lacks(trace, need)):
            found[cause] = f"{lacks}, so it would count as {other}"
    return found


def _lacks(trace: Trace, need: str) -> str | None:
    return None if needs.NEEDS[need].present(trace) else needs.NEEDS[need].missing
