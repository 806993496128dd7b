"""PyTorch's execution trace (`torch.profiler.ExecutionTraceObserver`), schemas 1.0 to 1.1."""

from __future__ import annotations

import re
from array import array
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from workbench.errors import InputError, NotATraceError
from workbench.trace import container, raw
from workbench.trace.assemble import Threads, frame
from workbench.trace.core import ProcessGroup, Trace
from workbench.trace.graphs import arguments, comms
from workbench.trace.graphs.assembly import EDGES, NODES, Graph, build, last_descendants
from workbench.trace.jsontext import NOTHING, UNREADABLE, Raw, many, one
from workbench.trace.nesting import Rows
from workbench.trace.problems import Problem

READER = "PyTorch execution trace"
_TENSOR = re.compile(rb'\[(\d{1,18}),\s*\d+,\s*\d+,\s*\d+,\s*\d+,\s*"([a-z]+)[^"\\]*"')
"""[tensor id, storage id, offset, elements, bytes of one, device]; in text its quotes would be
behind a backslash, so it is not mistaken for a tensor."""


class Attribute(msgspec.Struct, gc=False):
    """A named value of a node (schema 1.1)."""

    name: str
    value: Any = None


class Node(msgspec.Struct, gc=False):
    """A node of either schema: 1.0 has flat fields, 1.1 keeps most of them in `attrs`."""

    id: int
    name: str = ""
    parent: int | None = None
    ctrl_deps: int | list[int] | None = None
    rf_id: int | None = None
    seq_id: int | None = None
    tid: int | None = None
    fw_tid: int | None = None
    inputs: Raw = NOTHING
    input_shapes: Raw = NOTHING
    input_types: Raw = NOTHING
    outputs: Raw = NOTHING
    output_shapes: Raw = NOTHING
    attrs: list[Attribute] = []


class Values(msgspec.Struct, gc=False):
    """Inputs or outputs of a node (schema 1.1)."""

    values: Raw = NOTHING
    shapes: Raw = NOTHING
    types: Raw = NOTHING
    strides: Raw = NOTHING


class Whole(msgspec.Struct, gc=False):
    """The file."""

    schema: str | None = None
    pid: int | None = None
    time: str | None = None
    nodes: Raw = NOTHING


def read(path: Path) -> Trace:
    """Read one execution trace: operators without times, and what each read from which.

    Raises
    ------
    InputError
        The file is missing, cut short, or isn't of this form; one sentence says which.
    """
    data = container.read(path)
    try:
        whole = msgspec.json.decode(data, type=Whole)
    except UNREADABLE as e:
        raise InputError(f"{path} is no whole PyTorch execution trace: {e}.") from None
    nodes, bad = many(whole.nodes, Node)
    if not nodes:
        raise NotATraceError(f"{path} holds no node of an execution trace.")
    nodes.sort(key=lambda n: n.id)
    return build(path, "pytorch-execution-trace", _graph(whole, nodes, bad), READER)


def _graph(whole: Whole, nodes: list[Node], bad: int) -> Graph:
    said = [_said(n) for n in nodes]
    inputs, outputs = [_inputs(n) for n in nodes], [_outputs(n) for n in nodes]
    threads = Threads()
    pid = whole.pid if whole.pid is not None else 0
    texts = arguments.texts([(v.values, v.shapes, v.types, v.strides) for v in inputs])
    parents = [_parent(n) for n in nodes]
    made = frame(
        NODES,
        id=_ints([n.id for n in nodes]),
        parent=_ints(parents),
        name=pl.Series([n.name for n in nodes], dtype=pl.String),
        thread=threads.of(pid, [_int(s.get("tid")) or 0 for s in said]),
        fw_tid=_ints([_int(s.get("fw_tid")) for s in said]),
        sequence=_positive([_int(s.get("seq_id")) for s in said], 0),
        external_id=_positive([_int(s.get("rf_id")) for s in said], 1),
        **texts,
    )
    groups = _groups(nodes, inputs)
    found = comms.collectives(
        [
            (s, i, o)
            for n, s, i, o in zip(nodes, said, inputs, outputs, strict=True)
            if n.name == comms.RECORD
        ]
    )
    kinds = {k.decode() for v in (*inputs, *outputs) for _, k in _TENSOR.findall(bytes(v.values))}
    problems = (
        [Problem("bad_record", bad, "nodes", "not of the usual form, so left out")] if bad else []
    )
    return Graph(
        nodes=made,
        edges=data_dependencies(nodes, parents, inputs, outputs),
        collectives=found.frame,
        threads=threads,
        producer={n: v for n in ("schema", "time") if (v := getattr(whole, n)) is not None},
        groups=groups,
        rank=found.rank,
        world_size=next((len(g.ranks) for g in groups if g.description == "default_pg"), None),
        device_kind=_device_kind(kinds),
        problems=problems,
    )


def _device_kind(kinds: set[str]) -> str:
    """Name the device of the tensors; ROCm calls itself cuda there as well."""
    others = sorted(kinds - {"cpu", "meta"})
    return others[0] if others else "cpu" if kinds else "cuda"


def _said(node: Node) -> dict[str, Any]:
    flat = {
        n: v for n in ("rf_id", "seq_id", "tid", "fw_tid") if (v := getattr(node, n)) is not None
    }
    return {a.name: a.value for a in node.attrs} | flat


def _parent(node: Node) -> int | None:
    link = node.parent if node.parent is not None else node.ctrl_deps
    return link if not isinstance(link, list) else link[0] if link else None


def _inputs(node: Node) -> Values:
    if bytes(node.inputs)[:1] == b"{":
        return one(node.inputs, Values) or Values()
    return Values(node.inputs, node.input_shapes, node.input_types)


def _outputs(node: Node) -> Values:
    if bytes(node.outputs)[:1] == b"{":
        return one(node.outputs, Values) or Values()
    return Values(node.outputs, node.output_shapes)


def _int(value: object) -> int | None:
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def _ints(values: list[int | None] | list[int]) -> pl.Series:
    return pl.Series(values, dtype=pl.Int64, strict=False)


def _positive(values: list[int | None], least: int) -> pl.Series:
    column = _ints(values)
    return column.set(column < least, None)


def _groups(nodes: list[Node], inputs: list[Values]) -> tuple[ProcessGroup, ...]:
    """Read the process groups that the program said it made."""
    for node, given in zip(nodes, inputs, strict=True):
        if node.name == comms.GROUPS:
            return comms.groups(given.values)
    return ()


def data_dependencies(
    nodes: list[Node], parents: list[int | None], inputs: list[Values], outputs: list[Values]
) -> pl.DataFrame:
    """Tie each node to those that made its inputs.

    For each tensor it takes, that is the last node to end, before it began, with the tensor among
    its outputs; of two that end together, the outer one. A node ends with the last one below it,
    so none depends on one that encloses it. Tensors are told apart by id, so a change through a
    view is not seen.
    """
    row = {n.id: i for i, n in enumerate(nodes)}
    parent = np.array(
        [row[p] if p in row and row[p] < i else -1 for i, p in enumerate(parents)], np.int64
    )
    end = last_descendants(parent)
    writer, written = _tensors(outputs)
    reader, wanted = _tensors(inputs)
    writes = pl.DataFrame({"tensor": written, "writer": writer, "at": end[writer]})
    reads = pl.DataFrame({"tensor": wanted, "reader": reader, "at": reader})
    ended = writes.sort("at", "writer", descending=[False, True])
    found = reads.sort("at").join_asof(
        ended, on="at", by="tensor", allow_exact_matches=False, check_sortedness=False
    )
    found = found.drop_nulls("writer")
    ids = pl.Series([n.id for n in nodes], dtype=pl.Int64, strict=False)
    if not found.height:
        return raw.empty(EDGES)
    return pl.DataFrame(
        {
            "id": ids.gather(found["reader"]),
            "depends_on": ids.gather(found["writer"]),
            "kind": pl.repeat("data", found.height, dtype=EDGES["kind"], eager=True),
        }
    ).drop_nulls()


def _tensors(values: list[Values]) -> tuple[Rows, Rows]:
    """Return node and id of every tensor among the values of the nodes."""
    node, tensor = array("q"), array("q")
    for i, given in enumerate(values):
        for number, _ in _TENSOR.findall(bytes(given.values)):
            node.append(i)
            tensor.append(int(number))
    return np.array(node, np.int64), np.array(tensor, np.int64)
