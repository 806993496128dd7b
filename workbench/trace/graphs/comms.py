"""Collectives of a PyTorch execution trace: its `record_param_comms` nodes.

Their inputs are, in order, [tensors,] sequence number, process group, rank, name, split sizes, …;
newer recordings say the same in attributes (torch/csrc/distributed/c10d/ParamCommsUtils.hpp).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import polars as pl

from workbench.trace.collectives import MOST_ELEMENTS, collective_name, dtype_bytes
from workbench.trace.core import ProcessGroup
from workbench.trace.graphs import arguments
from workbench.trace.graphs.assembly import collectives_frame
from workbench.trace.jsontext import Raw, one

RECORD = "record_param_comms"
GROUPS = "## process_group:init ##"
_WAIT = "wait"
"""Not a collective: the program waits for one that is recorded on its own."""
_MOST_RANKS = 1 << 20


class Group(msgspec.Struct, gc=False):
    """A process group as the program describes it; an empty list of ranks is all of them."""

    pg_name: str = ""
    pg_desc: str | None = None
    ranks: list[int] = []
    group_size: int = 0


class Given(Protocol):
    """Inputs or outputs of a node."""

    values: Raw
    shapes: Raw
    types: Raw


class Found(NamedTuple):
    """The collectives, and the rank that all of them name."""

    frame: pl.DataFrame
    rank: int | None


def groups(values: Raw) -> tuple[ProcessGroup, ...]:
    """Read the groups out of the text that the program gave."""
    text = (one(values, list[str]) or [""])[0]
    found = one(Raw(text.encode()), list[Group]) or []
    return tuple(
        ProcessGroup(g.pg_name, g.pg_desc, tuple(g.ranks or range(min(g.group_size, _MOST_RANKS))))
        for g in found
    )


def collectives(nodes: Sequence[tuple[Mapping[str, Any], Given, Given]]) -> Found:
    """Build the collectives of some `record_param_comms` nodes: attributes, inputs, outputs."""
    rows, ranks = [], set()
    for said, given, out in nodes:
        positional = _positional(one(given.values, list[Any]) or [])
        name = said.get("collective_name") or positional.get("name")
        if not isinstance(name, str):
            continue
        own = _rank(said, positional.get("rank"))
        ranks.add(own)
        if name != _WAIT:
            rows.append(_row(name, said, positional, given, out))
    return Found(collectives_frame(rows), ranks.pop() if len(ranks) == 1 else None)


def _positional(values: Sequence[Any]) -> dict[str, Any]:
    """Find the fields by their distance from the name, the first text that stands alone."""
    at = next((i for i, v in enumerate(values) if isinstance(v, str)), None)
    if at is None or at < 3:  # noqa: PLR2004  # sequence number, group and rank come before it
        return {}
    return {
        "name": values[at],
        "rank": values[at - 1],
        "group": values[at - 2],
        "seq": values[at - 3],
    }


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else None


def _rank(said: Mapping[str, Any], own: object) -> int | None:
    """Return the global rank: that in the group, placed by its first member and stride."""
    start, stride = said.get("global_rank_start", 0), said.get("global_rank_stride", 1)
    if any(type(x) is not int or not 0 <= x < 2**31 for x in (own, start, stride)):
        return None
    rank: int = start + stride * own
    return rank if rank < 2**31 else None


def _row(
    name: str, said: Mapping[str, Any], positional: Mapping[str, Any], given: Given, out: Given
) -> dict[str, object]:
    dtype = said.get("dtype") or arguments.element_type(given.types)
    sent = _count(said.get("in_msg_nelems"))
    received = _count(said.get("out_msg_nelems"))
    sent = arguments.elements(given.shapes, given.types) if sent is None else sent
    received = arguments.elements(out.shapes, out.types) if received is None else received
    most = max((n for n in (sent, received) if n is not None), default=None)
    width = dtype_bytes(dtype) if isinstance(dtype, str) else None
    group = positional.get("group")
    named = said.get("pg_name") or (group[0] if isinstance(group, list) and group else None)
    return {
        "name": collective_name(name),
        "requested": collective_name(name),
        "group": named if isinstance(named, str) else None,
        "group_size": size if (size := _count(said.get("pg_size"))) and size < 2**31 else None,
        "members": _members(said),
        "seq": _count(positional.get("seq")),
        "dtype": dtype if isinstance(dtype, str) else None,
        "in_elements": sent,
        "out_elements": received,
        "bytes": most * width if most is not None and width and most < MOST_ELEMENTS else None,
    }


def _members(said: Mapping[str, Any]) -> str | None:
    start, stride, size = (
        _count(said.get(n)) for n in ("global_rank_start", "global_rank_stride", "pg_size")
    )
    if start is None or not stride or not size or max(start, stride, size) > _MOST_RANKS:
        return None
    return msgspec.json.encode([start + stride * i for i in range(size)]).decode()
