"""Nodes and edges, of whatever format, to a `Trace` without times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from workbench.trace import container, nesting, phases, raw, schema, steps
from workbench.trace.assemble import Threads, assemble
from workbench.trace.core import ProcessGroup, Trace, TraceMeta
from workbench.trace.families import range_domain
from workbench.trace.nesting import NONE, Rows
from workbench.trace.problems import Problem

REASON = (
    "an execution graph has no times, only what ran and in which order: "
    "see `show … table:ops`, `dependencies` and `collectives`"
)
NODES: dict[str, pl.DataType] = {
    "id": pl.Int64(),
    "parent": pl.Int64(),
    "fw_tid": pl.Int64(),
    **{
        n: schema.TABLES["ops"][n].dtype
        for n in ("name", "thread", "start_ns", "dur_ns", "sequence", "external_id")
    },
    **{
        n: schema.TABLES["ops"][n].dtype
        for n in ("input_dims", "input_types", "input_strides", "concrete_inputs")
    },
}
"""Ids are the format's own; a thread of null is a device. `fw_tid` is the thread of the forward
partner of a backward operator."""
EDGES: dict[str, pl.DataType] = {
    "id": pl.Int64(),
    "depends_on": pl.Int64(),
    "kind": schema.DEPENDENCY_KIND,
}
COLLECTIVES: dict[str, pl.DataType] = {
    n: c.dtype for n, c in schema.TABLES["collectives"].items() if n not in ("id", "activity")
}
_MARKER = r"^\[pytorch\|profiler\|execution_"
"""Nodes that stand for the process and its threads."""


@dataclass
class Graph:
    """What a reader found."""

    nodes: pl.DataFrame
    edges: pl.DataFrame
    collectives: pl.DataFrame
    threads: Threads
    producer: dict[str, object] = field(default_factory=dict)
    groups: tuple[ProcessGroup, ...] = ()
    rank: int | None = None
    world_size: int | None = None
    device_kind: str = "cuda"
    problems: list[Problem] = field(default_factory=list)


def build(path: Path, form: str, graph: Graph, reader: str) -> Trace:
    """Make the trace; nodes stand in order of their ids, which is that in which they began.

    A parent has a smaller id than its child; one that hasn't is none. `phase` and `step` follow
    from the tree as they do from times elsewhere: logical time runs over the ids.
    """
    nodes = graph.nodes.drop_nulls("id").unique("id", keep="first").sort("id")
    problems = [*graph.problems, *_lost(graph.nodes.height - nodes.height)]
    parent = _parents(nodes)
    ops = nodes.with_columns(
        id=pl.int_range(nodes.height, dtype=schema.ID),
        parent=_ids(parent),
        depth=nesting.depths(parent),
        **_logical(nodes, parent),
    )
    edges, missing = _edges(graph.edges, nodes["id"])
    problems += _missing(missing)
    meta = TraceMeta(
        path=path,
        format=form,
        sha256=container.sha256(path),
        origin_ns=0,
        rank=graph.rank,
        world_size=graph.world_size,
        threads=graph.threads.list(),
        groups=graph.groups,
        producer=graph.producer,
        events=graph.nodes.height,
        device_kind=graph.device_kind,
        device_reason=REASON,
        timed=False,
    )
    tables = {
        "ops": ops.drop("fw_tid"),
        "dependencies": edges,
        "collectives": graph.collectives.with_row_index("id"),
    }
    return assemble(meta, tables, problems, reader)


def _ids(rows: Rows) -> pl.Series:
    column = pl.Series(rows, dtype=pl.Int64)
    return column.set(column == NONE, None).cast(schema.ID)


def _parents(nodes: pl.DataFrame) -> Rows:
    """Return each node's parent as a row, -1 for none."""
    rows = nodes.select(parent="id", row=pl.int_range(pl.len(), dtype=pl.Int64))
    found = nodes.select("id", "parent").join(rows, on="parent", how="left", maintain_order="left")
    earlier = pl.when(pl.col("parent") < pl.col("id")).then("row").fill_null(NONE)
    parents: Rows = found.select(earlier).to_series().to_numpy().copy()
    return parents


def last_descendants(parent: Rows) -> Rows:
    """Return the last row of each node's subtree, its own when it has none below it."""
    last = np.arange(len(parent))
    depth = nesting.depths(parent)
    order = np.argsort(-depth, kind="stable")
    bounds = np.flatnonzero(np.diff(depth[order])) + 1
    for level in np.split(order, bounds):
        inner = level[parent[level] != NONE]
        np.maximum.at(last, parent[inner], last[inner])
    return last


def _logical(nodes: pl.DataFrame, parent: Rows) -> dict[str, pl.Series]:
    """Return phase and step of each node, told by its place in the tree."""
    start = np.arange(len(parent))
    marker = nodes["name"].cast(pl.String).str.contains(_MARKER)
    thread = nodes["thread"].fill_null(len(parent)).to_numpy()
    timed = nodes.select(
        "name",
        "sequence",
        thread=pl.Series(thread, dtype=pl.Int32),
        parent=_ids(np.where(marker.to_numpy()[parent] | (parent == NONE), NONE, parent)),
        forward_thread=pl.when(pl.col("fw_tid") > 0).then("fw_tid"),
        start_ns=pl.Series(start),
        dur_ns=pl.Series(last_descendants(parent) + 1 - start),
        device=pl.lit(None, pl.Int32),
    ).filter(~marker)
    domains = {n: range_domain(n) for n in timed["name"].unique().cast(pl.String)}
    ranges = timed.with_columns(
        domain=pl.col("name").cast(pl.String).replace_strict(domains, return_dtype=pl.String)
    )
    host_steps = steps.host_steps(ranges)
    classify = phases.classifier(timed, ranges.clear(), host_steps)
    return {
        "phase": classify(thread, start).rename("phase"),
        "step": steps.containing(host_steps, start).rename("step"),
    }


def _edges(edges: pl.DataFrame, ids: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Resolve ids to rows; return the edges, and those that name a node that isn't there."""
    rows = pl.DataFrame({"id": ids, "row": pl.int_range(len(ids), dtype=schema.ID, eager=True)})
    found = (
        edges.filter(pl.col("id") != pl.col("depends_on"))
        .join(rows.rename({"row": "op"}), on="id", how="left", maintain_order="left")
        .join(
            rows.rename({"id": "depends_on", "row": "on"}),
            on="depends_on",
            how="left",
            maintain_order="left",
        )
    )
    whole = pl.col("op").is_not_null() & pl.col("on").is_not_null()
    kept = found.filter(whole).select("op", "kind", depends_on="on")
    kept = kept.unique(maintain_order=True).sort("op", "depends_on", maintain_order=True)
    return kept, found.filter(~whole)


def _missing(edges: pl.DataFrame) -> list[Problem]:
    if not edges.height:
        return []
    first = edges.row(0, named=True)
    return [
        Problem(
            code="missing_node",
            count=edges.height,
            first_example=f"node {first['id']} depends on node {first['depends_on']}",
            effect="the file leaves these nodes out, so the dependencies on them are unknown",
        )
    ]


def _lost(count: int) -> list[Problem]:
    if not count:
        return []
    effect = "a node with this id is there already, or the id is no whole number; left out"
    return [Problem("duplicate_node", count, "a node", effect)]


def edges_of(ids: Sequence[int], lists: Sequence[Sequence[int]], kind: str) -> pl.DataFrame:
    """Return an edge for each entry of each node's list."""
    counts = [len(x) for x in lists]
    return pl.DataFrame(
        {
            "id": pl.Series(
                np.repeat(np.array(ids, object), counts).tolist(), dtype=pl.Int64, strict=False
            ),
            "depends_on": pl.Series([d for x in lists for d in x], dtype=pl.Int64, strict=False),
            "kind": pl.repeat(kind, sum(counts), dtype=schema.DEPENDENCY_KIND, eager=True),
        }
    ).drop_nulls()


def collectives_frame(rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    """Make the collectives of a graph; what a row does not name is null."""
    columns = {
        n: pl.String() if isinstance(t, pl.Categorical) else t for n, t in COLLECTIVES.items()
    }
    made = pl.DataFrame(list(rows), schema=columns, strict=False)
    return made.with_columns(pl.col(n).cast(t) for n, t in COLLECTIVES.items())


def empty_edges() -> pl.DataFrame:
    """Return no edges."""
    return raw.empty(EDGES)
