"""`breakdown`: where the window goes; the parts of each (rank, device) add up to it exactly."""

from __future__ import annotations

import polars as pl

from workbench.analysis.gaps import CAUSES, idle_time
from workbench.analysis.summary import times
from workbench.analysis.window import Range, Selection, select
from workbench.trace.core import Source

PARTS = ("compute", "exposed_communication", "exposed_copy", "idle")
"""Disjoint, in the order in which they are painted: window = their sum."""
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "part": pl.Enum(PARTS),
    "cause": pl.String(),
    "time_ns": pl.Int64(),
    "share": pl.Float64(),
}


def breakdown(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return `rank device part cause time_ns share`; the rows of a (rank, device) add up.

    compute |C|; exposed communication |N - C|; exposed copy |M - C - N|; idle |W| - |A|.
    `share` is of the window, null when that is empty. Idle time has a row for each cause that it
    has (one, without a cause, where there is none): `host` until the launch call, `launch_call`,
    `dependency`, `launch_latency`, `unknown`, `edge`, `graph`, by the rules of `idle_causes`, which
    also divides the host's by what it was doing. Here that stays whole: no table of host events is
    needed for it.
    """
    rows = [
        {"rank": s.rank, "device": s.device, **row}
        for s in select(source, window=window, step=step, rank=rank, device=device, within=within)
        for row in _parts(s)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def _parts(chosen: Selection) -> list[dict[str, object]]:
    measured = times(chosen)._asdict()
    found = [(part, None, measured[f"{part}_ns"]) for part in PARTS[:-1]]
    whole = measured["window_ns"]
    return [
        {"part": part, "cause": cause, "time_ns": ns, "share": ns / whole if whole else None}
        for part, cause, ns in [*found, *(("idle", *row) for row in _idle(chosen))]
    ]


def _idle(chosen: Selection) -> list[tuple[str | None, int]]:
    """Return (cause, time) of each cause of idle time that there is, in the rules' order."""
    found = idle_time(chosen, divide=False)
    total = found.parts.per_gap(len(found.gaps.start)).sum(axis=0).tolist()
    by_cause = dict(zip(CAUSES, total, strict=True))
    order = ("host", *(c for c in CAUSES if c != "host"))
    return [(c, by_cause[c]) for c in order if by_cause[c]] or [(None, 0)]
