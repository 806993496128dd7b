"""What an event is tied to: its launch and operator, the other pass, the other ranks.

The links are in the trace's tables already. `activities.launch` and `.op` and `launches.op` say
what started what; `ops.forward` (`trace.partners`, by autograd's sequence numbers; `modules` and
`op_tree` rest on it too) ties a backward node to the operator whose gradient it computes; members
and sequence number of `collectives` make records of several ranks one collective.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.trace import clocks

if TYPE_CHECKING:
    from workbench.trace.core import Source, Trace

MOST_WORK = 50
"""Activities of an operator that are linked; it may launch thousands."""
NOBODY = 2**32 - 1
"""No row's number."""
RELATIONS = ("operator", "launch", "work", "forward", "backward", "other rank")
SCHEMA = {
    "relation": pl.String,
    "table": pl.String,
    "rank": pl.Int32,
    "id": pl.UInt32,
    "name": pl.String,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
}
Place = tuple[str, int | None, int]
"""Table, rank and row of an event."""


class Link(NamedTuple):
    """One event, how it is tied to the first one, and the event that the line to it begins at."""

    relation: str
    place: Place
    beside: Place


def links(source: Source, selected: Mapping[str, Any]) -> list[Link]:
    """Return what an event is tied to, the closest first; nothing for {}.

    Of an activity: its launch, the innermost operator that launched it, that operator's `forward`
    or `backward` partner (its own, else that of the closest operator around it), and of a
    collective the same one on each `other rank`. Of an operator: the `work` that it and what it
    called put on the device, the first 50, and its partner. Of a launch: its operator and its work.
    Nothing of a row that is not there.
    """
    if not selected:
        return []
    trace = _trace_of(source, selected.get("rank"))
    table, row = str(selected["table"]), int(selected["id"])
    if table not in trace.tables or not 0 <= row < trace.tables[table].height:
        return []
    makers = {"activities": _of_activity, "launches": _of_launch, "ops": _of_op}
    own = makers[table](trace, row) if table in makers else []
    return own + (_other_ranks(source, trace, row) if table == "activities" else [])


def frame(source: Source, found: Iterable[Link]) -> pl.DataFrame:
    """Return links as a frame: `relation table rank id name start_ns dur_ns`, source's time."""
    rows = []
    for relation, (table, rank, row), _ in found:
        trace = _trace_of(source, rank)
        event = trace.tables[table].row(row, named=True)
        shift = trace.meta.origin_ns - source.origin_ns
        start = None if event["start_ns"] is None else event["start_ns"] + shift
        rows.append((relation, table, rank, row, str(event["name"]), start, event["dur_ns"]))
    return pl.DataFrame(rows, SCHEMA, orient="row")


def _trace_of(source: Source, rank: int | None) -> Trace:
    return next((t for t in source.ranks if t.meta.rank == rank), source.ranks[0])


def _place(trace: Trace, table: str, row: int) -> Place:
    return table, trace.meta.rank, row


def _of_activity(trace: Trace, row: int) -> list[Link]:
    launch, op, source, kind = trace.activities.select("launch", "op", "source", "kind").row(row)
    me, out = _place(trace, "activities", row), []
    if launch is not None:
        call = _place(trace, "launches", launch)
        out.append(Link("launch", call, me))
        me = call
    if op is None:
        return out
    operator = _place(trace, "ops", op)
    # on the host an activity is a piece of its operator, which lies right above it
    apart = source != "host" or kind == "collective"
    out.append(Link("operator", operator, me if apart else operator))
    return out + _partners(trace, op)


def _of_launch(trace: Trace, row: int) -> list[Link]:
    me, op = _place(trace, "launches", row), trace.launches["op"][row]
    ran = trace.activities.filter(pl.col("launch") == row)["id"].head(MOST_WORK)
    work = [Link("work", _place(trace, "activities", k), me) for k in ran]
    if op is None:
        return work
    return [Link("operator", _place(trace, "ops", op), me), *work, *_partners(trace, op)]


def _of_op(trace: Trace, row: int) -> list[Link]:
    me = _place(trace, "ops", row)
    ran = trace.activities.filter(
        pl.col("op").is_in(_inside(trace, row).implode()),
        pl.col("source").cast(pl.String) != "host",
    )
    ran = ran.sort("start_ns").head(MOST_WORK)
    work = [Link("work", _place(trace, "activities", k), me) for k in ran["id"]]
    return _partners(trace, row) + work


def _inside(trace: Trace, row: int) -> pl.Series:
    """Return an operator and all that it called, as rows of `ops`."""
    thread, start, dur, depth = trace.ops.select("thread", "start_ns", "dur_ns", "depth").row(row)
    if start is None or thread is None:
        return pl.Series([row], dtype=pl.UInt32)
    begin = pl.col("start_ns")
    below = (pl.col("thread") == thread) & (pl.col("depth") > depth)
    below &= begin.is_between(start, start + dur) & (begin + pl.col("dur_ns") <= start + dur)
    return trace.ops.filter(below | (pl.col("id") == row))["id"]


def _partners(trace: Trace, op: int) -> list[Link]:
    """Return the other pass of the operator, or of the closest one around it that has one."""
    at: int | None = op
    while at is not None:
        me = _place(trace, "ops", at)
        forward = trace.ops["forward"][at]
        if forward is not None:
            return [Link("forward", _place(trace, "ops", forward), me)]
        back = trace.ops.filter(pl.col("forward") == at)
        # the engine's call around a node says the same of the same forward operator
        outer = back.filter(~pl.col("parent").fill_null(NOBODY).is_in(back["id"].implode()))["id"]
        if len(outer):
            return [Link("backward", _place(trace, "ops", k), me) for k in outer.head(MOST_WORK)]
        at = trace.ops["parent"][at]
    return []


def _other_ranks(source: Source, trace: Trace, row: int) -> list[Link]:
    """Return the same collective on the other ranks: by members and number, else by group too."""
    if len(source.ranks) == 1 or trace.activities["kind"][row] != "collective":
        return []
    mine = clocks.identified(trace, 0)
    mine = mine.filter(pl.Series(trace.collectives["activity"] == row).fill_null(value=False))
    mine = mine.drop_nulls(["member_list", "seq"]).head(1)
    me = _place(trace, "activities", row)
    others = [t for t in source.ranks if t is not trace] if mine.height else []
    found = [(other, _same(other, mine)) for other in others]
    return [
        Link("other rank", _place(other, "activities", k), me)
        for other, k in found
        if k is not None
    ]


def _same(other: Trace, mine: pl.DataFrame) -> int | None:
    keys = ["member_list", "seq", "name"]
    every = clocks.identified(other, 0).with_columns(activity=other.collectives["activity"])
    alike = every.join(mine.select(*keys, "same_group"), on=keys, how="inner", suffix="_mine")
    if alike.height > 1:
        alike = alike.filter(pl.col("same_group") == pl.col("same_group_mine"))
    found = alike["activity"].drop_nulls()
    return int(found[0]) if len(found) == 1 else None
