"""Chakra's nodes, of either form of file, to a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from workbench.trace.assemble import Threads, frame
from workbench.trace.graphs import arguments
from workbench.trace.graphs.assembly import NODES, Graph, collectives_frame
from workbench.trace.jsontext import NOTHING, Raw
from workbench.units import NS_PER_US

Attributes = dict[str, int | float | str | None]
_COMM_KINDS = {5: "send", 6: "recv", 7: None}
"""Node types COMM_SEND_NODE, COMM_RECV_NODE, COMM_COLL_NODE."""
_COLLECTIVES = (
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
    "broadcast",
    "all_to_all",
    "reduce_scatter",
    "reduce_scatter",
    "barrier",
)
"""By number of CollectiveCommType; REDUCE_SCATTER_BLOCK is MPI's name for a kind of the one."""
_LATEST_US = 2**62 // NS_PER_US
_MOST_BYTES = 2**59


class Node(NamedTuple):
    """One node; 0 stands for an unknown time, as protobuf leaves zeros out."""

    id: int
    name: str
    kind: int
    start_us: int
    duration_us: int
    inputs: tuple[Raw, Raw]
    """Shapes and types, as JSON text."""
    attributes: Attributes


def as_json(text: str) -> Raw:
    """Turn a list as Python prints it into JSON, as far as it holds numbers and plain texts."""
    return Raw(text.replace("'", '"').encode()) if text else NOTHING


def graph(
    nodes: Sequence[Node],
    edges: pl.DataFrame,
    threads: Threads,
    *,
    pid: int,
    producer: Mapping[str, object],
) -> Graph:
    """Build the graph. A node that isn't marked as one of the CPU ran on a device.

    Starts are kept when every node has one; where some have none, order says more.
    """
    own = [n.attributes for n in nodes]
    on_host = [bool(a.get("is_cpu_op", 1)) for a in own]
    tids = [t if isinstance(t := a.get("tid"), int) else 0 for a in own]
    thread = threads.of(pid, [t for t, host in zip(tids, on_host, strict=True) if host])
    rows = pl.Series([i for i, host in enumerate(on_host) if host], dtype=pl.UInt32)
    every_thread = pl.repeat(None, len(nodes), dtype=pl.Int32, eager=True)
    start = _ns([n.start_us for n in nodes])
    texts = arguments.texts([(NOTHING, *n.inputs, NOTHING) for n in nodes])
    made = frame(
        NODES,
        id=pl.Series([n.id for n in nodes], dtype=pl.Int64, strict=False),
        name=pl.Series([n.name for n in nodes], dtype=pl.String),
        thread=every_thread.scatter(rows, thread) if len(rows) else every_thread,
        start_ns=start if not start.null_count() else start.clear(len(start)),
        dur_ns=_ns([n.duration_us for n in nodes]),
        sequence=_numbers(own, "seq_id", least=0),
        external_id=_numbers(own, "rf_id", least=1),
        **{n: texts[n] for n in ("input_dims", "input_types")},
    )
    return Graph(
        nodes=made,
        edges=edges,
        collectives=collectives_frame([r for n in nodes if (r := _collective(n)) is not None]),
        threads=threads,
        producer=dict(producer),
    )


def _ns(us: Sequence[int]) -> pl.Series:
    column = pl.Series(us, dtype=pl.Int64, strict=False)
    known = column.is_between(1, _LATEST_US)
    return column.set(~known, None) * NS_PER_US


def _numbers(own: Sequence[Attributes], name: str, *, least: int) -> pl.Series:
    values = [v if isinstance(v := a.get(name), int) else None for a in own]
    column = pl.Series(values, dtype=pl.Int64, strict=False)
    return column.set(column < least, None)


def _collective(node: Node) -> dict[str, object] | None:
    """Describe a node that communicates; one that gives no size only launches another."""
    own = node.attributes
    size, kind = own.get("comm_size"), own.get("comm_type", 0)
    if node.kind not in _COMM_KINDS or not isinstance(size, int) or not isinstance(kind, int):
        return None
    name = _COMM_KINDS[node.kind] or (_COLLECTIVES[kind] if 0 <= kind < len(_COLLECTIVES) else None)
    group = own.get("pg_name")
    duration = node.duration_us
    return {
        "name": name or "unknown",
        "requested": name,
        "group": group if isinstance(group, str) and group else None,
        "bytes": size if 0 <= size < _MOST_BYTES else None,
        "dur_ns": duration * NS_PER_US if 0 < duration <= _LATEST_US else None,
    }
