"""`summary`: one row a (rank, device) with the headline figures; the identities hold exactly."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from workbench import intervals, units
from workbench.analysis.only import Only, narrowed
from workbench.analysis.window import Range, Selection, judged, select
from workbench.trace.core import Source
from workbench.trace.schema import COMPUTE_KINDS, COPY_KINDS

COLUMNS: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "device_kind": pl.String(),
    **dict.fromkeys(
        (
            "window_ns",
            "busy_ns",
            "compute_ns",
            "communication_ns",
            "overlap_ns",
            "exposed_communication_ns",
            "copy_ns",
            "exposed_copy_ns",
            "idle_ns",
            "kernels",
            "collectives",
            "copies",
            "steps",
        ),
        pl.Int64(),
    ),
}


class Times(NamedTuple):
    """Lengths of unions inside a window, in ns."""

    window_ns: int
    busy_ns: int
    compute_ns: int
    communication_ns: int
    overlap_ns: int
    exposed_communication_ns: int
    copy_ns: int
    exposed_copy_ns: int
    idle_ns: int


def times(chosen: Selection) -> Times:
    """Measure one selection.

    busy |A|, compute |C|, communication |N|, overlap |C ∩ N|, exposed communication |N - C|,
    copy |M|, exposed copy |M - C - N|, idle |W| - |A|. Identities: window = busy + idle;
    busy = compute + exposed communication + exposed copy; communication = overlap + exposed.
    """
    compute = chosen.times(*COMPUTE_KINDS)
    communication = chosen.times("collective")
    copy = chosen.times(*COPY_KINDS)
    exposed = intervals.difference(communication, compute)
    exposed_copy = intervals.difference(intervals.difference(copy, compute), communication)
    busy = intervals.length(chosen.times())
    return Times(
        window_ns=chosen.length_ns,
        busy_ns=busy,
        compute_ns=intervals.length(compute),
        communication_ns=intervals.length(communication),
        overlap_ns=intervals.length(intervals.intersection(compute, communication)),
        exposed_communication_ns=intervals.length(exposed),
        copy_ns=intervals.length(copy),
        exposed_copy_ns=intervals.length(exposed_copy),
        idle_ns=chosen.length_ns - busy,
    )


def summary(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    only: Only | None = None,
) -> pl.DataFrame:
    """Return the headline figures of each (rank, device); columns as in `COLUMNS`.

    A rank whose device activity is unknown has one row of nulls; `meta(source)["reason"]` says why.
    Under host execution the device is null, and so is the count of kernels. With `only`, busy time
    and its parts are of that part of the work, and idle is the rest of the window.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    rows = [_row(s) for s in narrowed(chosen, only)]
    rows += [
        {"rank": t.meta.rank, "device_kind": t.meta.device_kind}
        for t in source.ranks
        if not t.activities.height and device is None and rank in {None, t.meta.rank}
    ]
    return pl.DataFrame(rows, schema=COLUMNS)


def _row(chosen: Selection) -> dict[str, object]:
    counted = chosen.counted()
    kind = counted["kind"]
    copies = counted.filter(kind.is_in(COPY_KINDS))
    return {
        "rank": chosen.rank,
        "device": chosen.device,
        "device_kind": chosen.trace.meta.device_kind,
        **times(chosen)._asdict(),
        "kernels": None if chosen.is_host else int(kind.is_in(["kernel", "collective"]).sum()),
        "collectives": int((kind == "collective").sum()),
        "copies": copies["op"].n_unique() if chosen.is_host else copies.height,
        "steps": _steps(chosen),
    }


def _steps(chosen: Selection) -> int:
    if chosen.steps is not None:
        return len(chosen.steps)
    steps = chosen.trace.steps
    return steps.filter(pl.col("device").eq_missing(chosen.device)).height


def _unsteady(chosen: Selection) -> list[str]:
    """Say which steps of a window are unlike the device's others."""
    on_device = pl.col("device").eq_missing(chosen.device)
    steps = judged(chosen.trace.steps.filter(on_device))
    typical = float(steps.filter(pl.col("outlier").not_())["dur_ns"].median() or 0)  # type: ignore[arg-type]
    where = "" if chosen.rank is None else f" of rank {chosen.rank}"
    return [
        f"step {row['step']}{where} took {units.duration(row['dur_ns'])} where "
        f"{units.duration(typical)} is usual, and --window steady leaves it out"
        for row in steps.filter("outlier").rows(named=True)
        if row["step"] in (chosen.steps or ())
    ]


def meta(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> dict[str, object]:
    """Return what stands beside the rows: format, ranks, the window that was used, reasons."""
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    traces = source.ranks
    used = sorted({s.window for s in chosen}) or [window]
    reasons = {t.meta.device_reason for t in traces if t.meta.device_reason}
    if window != "all" and used == ["all"] and chosen:
        reasons.add("no complete step is marked, so the window is the whole trace")
    if used == ["steps"]:
        reasons.update(told for s in chosen for told in _unsteady(s))
    first = traces[0].meta
    return {
        "format": first.format,
        "ranks": [t.meta.rank for t in traces],
        "world_size": first.world_size,
        "window": used[0] if len(used) == 1 else used,
        "truncated": any(t.meta.truncated for t in traces),
        "producer": dict(first.producer),
        "events": sum(t.meta.events for t in traces),
        "reason": "; ".join(sorted(reasons)) or None,
    }
