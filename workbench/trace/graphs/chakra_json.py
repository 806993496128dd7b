"""A Chakra workload graph as JSON, as its feeder reads it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl

from workbench.errors import InputError, NotATraceError
from workbench.trace import container
from workbench.trace.assemble import Threads
from workbench.trace.core import Trace
from workbench.trace.graphs import chakra_nodes
from workbench.trace.graphs.assembly import build, edges_of
from workbench.trace.jsontext import NOTHING, UNREADABLE, Raw, many
from workbench.trace.problems import Problem

READER = "Chakra graph as JSON"


class Node(msgspec.Struct, gc=False):
    """A node; the names of its fields are the feeder's."""

    id: int = msgspec.field(name="Id")
    name: str = msgspec.field(name="Name", default="")
    kind: int = msgspec.field(name="NodeType", default=0)
    control: list[int] = msgspec.field(name="ctrlDeps", default_factory=list)
    data: list[int] = msgspec.field(name="data_deps", default_factory=list)
    runtime: int = 0
    is_cpu_op: bool = True
    comm_type: int | None = None
    comm_size: int | None = None
    pg_name: str | None = None


class Whole(msgspec.Struct, gc=False):
    """The file."""

    workload_graph: Raw = NOTHING
    workload_name: str | None = None
    ngpus: int | None = None
    soc: str | None = None


def read(path: Path) -> Trace:
    """Read one graph; `runtime` is a duration in us.

    Raises
    ------
    InputError
        The file is missing, cut short, or isn't of this form; one sentence says which.
    """
    try:
        whole = msgspec.json.decode(container.read(path), type=Whole)
    except UNREADABLE as e:
        raise InputError(f"{path} is no whole Chakra graph: {e}.") from None
    found, bad = many(whole.workload_graph, Node)
    if not found:
        raise NotATraceError(f"{path} holds no node of a Chakra graph.")
    ids = [n.id for n in found]
    edges = [edges_of(ids, [n.control for n in found], "control")]
    edges.append(edges_of(ids, [n.data for n in found], "data"))
    said = {n: v for n in ("workload_name", "ngpus", "soc") if (v := getattr(whole, n)) is not None}
    graph = chakra_nodes.graph(
        [_node(n) for n in found], pl.concat(edges), Threads(), pid=0, producer=said
    )
    if bad:
        graph.problems.append(
            Problem("bad_record", bad, "nodes", "not of the usual form; left out")
        )
    return build(path, "chakra-json", graph, READER)


def _node(node: Node) -> chakra_nodes.Node:
    names = ("is_cpu_op", "comm_type", "comm_size", "pg_name")
    own = {n: v for n in names if (v := getattr(node, n)) is not None}
    shapes = (NOTHING, NOTHING)
    return chakra_nodes.Node(node.id, node.name, node.kind, 0, node.runtime, shapes, own)
