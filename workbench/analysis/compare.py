"""`compare`: what changed between two recordings, in parts that add up to the change of the step.

The step is the mean device step over complete steps that are no tail, when both recordings have
such steps; else the whole window of each. Parts, families, operators and kernels each split it
once more: every instant belongs to one activity (`workbench.analysis.sides.exclusive`) or to idle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from workbench import units
from workbench.analysis import sides
from workbench.analysis.sides import Side
from workbench.errors import unknown_name
from workbench.intervals import Times
from workbench.trace.core import Source
from workbench.trace.schema import COMPUTE_KINDS

KINDS = ("total", "part", "family", "operator", "kernel", "host")
ADDITIVE = ("part", "family", "operator", "kernel")
"""Kinds of rows that each add up to the step."""
IDLE = "idle"
LAUNCH_CALLS = "launch_calls"
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "kind": pl.Enum(KINDS),
    "name": pl.String(),
    "a_ns": pl.Int64(),
    "b_ns": pl.Int64(),
    "difference_ns": pl.Int64(),
    "share_of_change": pl.Float64(),
    "a_count": pl.Float64(),
    "b_count": pl.Float64(),
}
_PARTS = dict.fromkeys(COMPUTE_KINDS, "compute") | {"collective": "exposed_communication"}


class _Totals(NamedTuple):
    """Rows of one kind: time and count per step by name."""

    ns: dict[str, int]
    counts: dict[str, float]


def compare(
    a: Source, b: Source, *, step: tuple[int, int] | None = None, rank: int | None = None
) -> pl.DataFrame:
    """Return what each thing takes of a step in A and in B, the largest change of its kind first.

    Kinds: `total` (the `step`, or `window` where no steps are compared; its `busy` time with the
    number of activities; `launch_calls` with their host time), `part` (compute, exposed
    communication, exposed copy, idle), `family`, `operator` (the innermost that launched it),
    `kernel` (by name), `host` (operators, calls and annotations by their host time). Within each
    of part, family, operator and kernel, `a_ns`, `b_ns` and `difference_ns` add up exactly to
    those of the step; totals and host rows do not.

    Times are means per step in whole ns: each is its exact mean rounded up or down, those with the
    largest remainders up, so that the sum is the rounded mean of the step. Counts are means per
    step (of the step itself: how many), of activities by start in the window and of host events by
    start in the host step. `share_of_change` is of the step's change, null when that is 0 and for
    host time.

    Parameters
    ----------
    step
        Compare only these steps (first and last number), also where they are incomplete or last.
    rank
        Only this rank of two jobs; otherwise jobs are compared rank by rank.

    Raises
    ------
    UsageError
        What can't be compared: an execution graph without times, a recording without activity,
        host execution and a device, different ranks or numbers of devices, no such step.
    """
    frames = [_of_pair(*pair) for pair in sides.pairs(a, b, step, rank)]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def of_kind(found: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Return the rows of one kind; UsageError for an unknown one."""
    if kind not in KINDS:
        raise unknown_name("kind of comparison", kind, KINDS)
    return found.filter(pl.col("kind") == kind)


def verdict(found: pl.DataFrame) -> list[str]:
    """Say in a few sentences what a comparison found, for each rank and device."""
    said = []
    for (rank, device), rows in found.group_by("rank", "device", maintain_order=True):
        where = "" if found.select("rank", "device").n_unique() == 1 else (
            f" (rank {rank}, device {device})"
        )  # fmt: skip
        said += [sentence + where for sentence in (_step(rows), _work(rows)) if sentence]
    return said


def basis(a: Source, b: Source, step: tuple[int, int] | None, rank: int | None) -> dict[str, str]:
    """Say over what time each side was compared."""
    first = sides.pairs(a, b, step, rank)[0]
    return {name: _basis(side) for name, side in zip(("a", "b"), first, strict=True)}


def _basis(side: Side) -> str:
    if side.chosen.window == "all":
        return "the whole window, since not both recordings have a complete step before the last"
    return f"mean of {side.steps} step{'s' if side.steps != 1 else ''}"


def _name(side: Side) -> str:
    """Name the whole: what is compared is a step, or else the window."""
    return "step" if side.chosen.steps is not None else "window"


def _of_pair(a: Side, b: Side) -> pl.DataFrame:
    left, right = _measured(a), _measured(b)
    whole = _name(a)
    change = right["total"].ns[whole] - left["total"].ns[whole]
    rows = [
        _row(kind, name, left[kind], right[kind], change)
        for kind in KINDS
        for name in left[kind].ns | right[kind].ns
    ]
    frame = pl.DataFrame(rows, schema={n: t for n, t in SCHEMA.items() if n in rows[0]})
    by_change = (
        pl.col("kind").to_physical(),
        pl.when(pl.col("kind") != "total").then(-pl.col("difference_ns").abs()),
        pl.when(pl.col("kind") != "total").then(-pl.max_horizontal("a_ns", "b_ns")),
        pl.when(pl.col("kind") != "total").then(pl.col("name")),
    )
    return (
        frame.sort(by_change, maintain_order=True)
        .with_columns(
            rank=pl.lit(b.trace.meta.rank, pl.Int32()), device=pl.lit(b.chosen.device, pl.Int32())
        )
        .select(*SCHEMA)
    )


def _row(kind: str, name: str, a: _Totals, b: _Totals, change: int) -> dict[str, object]:
    a_ns, b_ns = a.ns.get(name, 0), b.ns.get(name, 0)
    is_device = kind != "host" and (kind, name) != ("total", LAUNCH_CALLS)
    return {
        "kind": kind,
        "name": name,
        "a_ns": a_ns,
        "b_ns": b_ns,
        "difference_ns": b_ns - a_ns,
        "share_of_change": (b_ns - a_ns) / change + 0.0 if change and is_device else None,
        "a_count": a.counts.get(name, 0),
        "b_count": b.counts.get(name, 0),
    }


def _measured(side: Side) -> dict[str, _Totals]:
    activities, host = side.activities(), side.host_events()
    activities = activities.with_columns(
        part=pl.col("kind").replace_strict(_PARTS, default="exposed_copy")
    )
    window, n = side.chosen.length_ns, side.steps
    busy = int(activities["own_ns"].sum())
    columns = {"part": "part", "family": "family", "operator": "operator", "kernel": "name"}
    found = {k: _split(activities, c, window - busy, n) for k, c in columns.items()}
    launches = host.filter("is_launch")
    found["total"] = _Totals(
        {
            _name(side): _rounded(window, n),
            "busy": _rounded(window, n) - found["part"].ns[IDLE],
            LAUNCH_CALLS: _rounded(int(launches["dur_ns"].sum()), n),
        },
        {
            _name(side): n,
            "busy": int(activities["counts"].sum()) / n,
            LAUNCH_CALLS: launches.height / n,
        },
    )
    by_name = host.group_by("name").agg(pl.col("dur_ns").sum(), count=pl.len())
    found["host"] = _Totals(
        {r["name"]: _rounded(r["dur_ns"], n) for r in by_name.iter_rows(named=True)},
        {r["name"]: r["count"] / n for r in by_name.iter_rows(named=True)},
    )
    return found


def _split(activities: pl.DataFrame, column: str, idle: int, steps: int) -> _Totals:
    """Add up exclusive time by a column, with idle time beside it, per step."""
    found = (
        activities.group_by(column)
        .agg(pl.col("own_ns").sum(), count=pl.col("counts").sum())
        .sort(column)
    )
    names = [*found[column], IDLE]
    shares = per_step(np.array([*found["own_ns"], idle], np.int64), steps)
    counts = [c / steps for c in found["count"]]
    return _Totals(
        dict(zip(names, shares.tolist(), strict=True)),
        dict(zip(found[column], counts, strict=True)) | {IDLE: 0.0},
    )


def per_step(totals: Times, steps: int) -> Times:
    """Divide totals by a number of steps into whole ns that add up to the rounded mean of all.

    Every share is its exact mean rounded down or up; those with the largest remainders go up, the
    first of equals.
    """
    share, rest = totals // steps, totals % steps
    missing = _rounded(int(totals.sum()), steps) - int(share.sum())
    share[np.argsort(-rest, kind="stable")[:missing]] += 1
    return share


def _rounded(total: int, steps: int) -> int:
    """Divide and round half to even, exactly."""
    whole, rest = divmod(total, steps)
    return whole + (2 * rest > steps or (2 * rest == steps and whole % 2 == 1))


def _step(rows: pl.DataFrame) -> str:
    """Say how long the step takes, and which part changed most."""
    step = rows.row(0, named=True)
    change = step["difference_ns"]
    before, after = units.duration(step["a_ns"]), units.duration(step["b_ns"])
    head = f"the {step['name']} went from {before} to {after}"
    if step["a_ns"]:
        head += f" ({100 * change / step['a_ns']:+.2f} %)"
    part = rows.filter(pl.col("kind") == "part").row(0, named=True)
    if not part["difference_ns"]:
        return f"{head}; no part of it changed"
    told = part["name"].replace("_", " ")
    sign = "+" if part["difference_ns"] > 0 else ""
    return f"{head}; the largest change is {told}, {sign}{units.duration(part['difference_ns'])}"


def _work(rows: pl.DataFrame) -> str | None:
    """Say when the same kernels ran, but were launched by another number of calls."""
    total = {r["name"]: r for r in rows.filter(pl.col("kind") == "total").iter_rows(named=True)}
    kernels = rows.filter(pl.col("kind") == "kernel")
    calls, busy = total[LAUNCH_CALLS], total["busy"]
    if calls["a_count"] == calls["b_count"] or (kernels["a_count"] != kernels["b_count"]).any():
        return None
    fewer = "fewer" if calls["b_count"] < calls["a_count"] else "more"
    same = "the same device work" if not busy["difference_ns"] else "the same kernels"
    return (
        f"{fewer} launches, {same}: {calls['a_count']:g} calls became {calls['b_count']:g} for the "
        f"same {busy['b_count']:g} activities, {units.duration(busy['a_ns'])} and "
        f"{units.duration(busy['b_ns'])} of device time"
    )
