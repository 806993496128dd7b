"""Chakra's execution trace (MLCommons): a stream of protobuf messages, each behind its length.

The first is the metadata, every other a node. Field numbers are those of
schema/protobuf/et_def.proto; metadata have their attributes in field 1 (early) or 2.
"""

from __future__ import annotations

import struct
from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from workbench.errors import InputError
from workbench.trace import container, wire
from workbench.trace.assemble import Threads
from workbench.trace.core import Trace
from workbench.trace.graphs import chakra_nodes
from workbench.trace.graphs.assembly import EDGES, Graph, build
from workbench.trace.graphs.chakra_nodes import Attributes, Node
from workbench.trace.jsontext import NOTHING, Raw
from workbench.trace.wire import DELIMITED, FIXED32, FIXED64, VARINT

READER = "Chakra execution trace"
_NUMBERS = {7, 9, 11, 13, 27}
"""Fields of an attribute that hold a number as a varint; signed ones are two's complement."""
_ZIGZAG = {15, 17}
_TEXTS = {29, 31}
_DOUBLE, _FLOAT = 3, 5
_DEPENDENCIES = {4: "control", 5: "data"}


def read(path: Path) -> Trace:
    """Read one trace: nodes with their durations, and which depends on which.

    Raises
    ------
    InputError
        The file is missing, cut short or isn't of this form; one sentence says which.
    """
    data = container.read(path)
    try:
        messages = _messages(data)
        graph = _graph(data, messages)
    except wire.WireError as e:
        raise InputError(
            f"{path} is a damaged Chakra file: {e}; write it again or copy it whole."
        ) from None
    return build(path, "chakra", graph, READER)


class _Messages(NamedTuple):
    begin: wire.Places
    stop: wire.Places


def _messages(data: bytes) -> _Messages:
    """Find the messages of the stream."""
    begins, stops = array("q"), array("q")
    at, size = 0, len(data)
    while at < size:
        length, at = wire.varint(data, at, size)
        if at + length > size:
            raise wire.WireError(f"the message at byte {at} does not fit the file")
        begins.append(at)
        at += length
        stops.append(at)
    return _Messages(np.array(begins, np.int64), np.array(stops, np.int64))


def _graph(data: bytes, messages: _Messages) -> Graph:
    fields = wire.scan(data, messages.begin[1:], messages.stop[1:])
    count = len(messages.begin) - 1
    own = _attributes(data, fields.of(10, DELIMITED), count)
    inputs = _shapes(data, fields.of(8, DELIMITED), count)
    ids = fields.last(1, VARINT, count)
    kind = fields.last(3, VARINT, count)
    start, duration = fields.last(6, VARINT, count), fields.last(7, VARINT, count)
    names = _texts(data, fields.of(2, DELIMITED), count)
    nodes = [
        Node(*row)
        for row in zip(
            ids.tolist(), names, kind.tolist(), start.tolist(), duration.tolist(), inputs, own,
            strict=True,
        )
    ]  # fmt: skip
    about = _metadata(data, messages)
    pid = about.get("pid", 0)
    return chakra_nodes.graph(
        nodes,
        _edges(data, fields, ids),
        Threads(),
        pid=pid if isinstance(pid, int) else 0,
        producer={n: about[n] for n in ("schema", "version", "time") if n in about},
    )


def _metadata(data: bytes, messages: _Messages) -> Attributes:
    """Read the first message: named attributes, and a version that may stand beside them."""
    if not len(messages.begin):
        return {}
    found: Attributes = {}
    for f in wire.walk(data, int(messages.begin[0]), int(messages.stop[0])):
        if f.wire == DELIMITED:
            try:
                found |= [_attribute(data, f.begin, f.stop)]
            except wire.WireError:  # field 1 is a text in later versions
                found["version"] = data[f.begin : f.stop].decode(errors="replace")
    return found


def _attribute(data: bytes, begin: int, stop: int) -> tuple[str, int | float | str | None]:
    name, value = "", None
    for f in wire.walk(data, begin, stop):
        if f.number == 1 and f.wire == DELIMITED:
            name = data[f.begin : f.stop].decode(errors="replace")
        else:
            value = _value(data, f) if value is None else value
    return name, value


def _value(data: bytes, f: wire.Field) -> int | float | str | None:
    if f.wire == VARINT and f.number in _NUMBERS:
        return f.value - (1 << 64) if f.value >> 63 else f.value
    if f.wire == VARINT and f.number in _ZIGZAG:
        return (f.value >> 1) ^ -(f.value & 1)
    if f.wire == DELIMITED and f.number in _TEXTS:
        return data[f.begin : f.stop].decode(errors="replace")
    if f.wire == FIXED64 and f.number == _DOUBLE:
        return float(struct.unpack_from("<d", data, f.begin)[0])
    if f.wire == FIXED32 and f.number == _FLOAT:
        return float(struct.unpack_from("<f", data, f.begin)[0])
    return None


def _attributes(data: bytes, fields: wire.Fields, count: int) -> list[Attributes]:
    """Read the attributes of all nodes; equal ones are read once."""
    own: list[Attributes] = [{} for _ in range(count)]
    seen: dict[bytes, tuple[str, int | float | str | None]] = {}
    for node, begin, stop in zip(
        fields.message.tolist(), fields.begin.tolist(), fields.stop.tolist(), strict=True
    ):
        text = data[begin:stop]
        if text not in seen:
            seen[text] = _attribute(text, 0, len(text))
        name, value = seen[text]
        own[node][name] = value
    return own


def _texts(data: bytes, fields: wire.Fields, count: int) -> list[str]:
    out = [""] * count
    for i, b, e in zip(
        fields.message.tolist(), fields.begin.tolist(), fields.stop.tolist(), strict=True
    ):
        out[i] = data[b:e].decode(errors="replace")
    return out


def _shapes(data: bytes, fields: wire.Fields, count: int) -> list[tuple[Raw, Raw]]:
    """Read shapes and types of the inputs: lists written as Python writes them."""
    inner = wire.scan(data, fields.begin, fields.stop)
    parts = [_texts(data, inner.of(number, DELIMITED), len(fields.begin)) for number in (2, 3)]
    out = [(NOTHING, NOTHING)] * count
    for node, shapes, types in zip(fields.message.tolist(), *parts, strict=True):
        out[node] = chakra_nodes.as_json(shapes), chakra_nodes.as_json(types)
    return out


def _edges(data: bytes, fields: wire.Fields, ids: wire.Places) -> pl.DataFrame:
    """Read the dependencies: packed lists of ids, or an id a field."""
    parts = []
    for number, kind in _DEPENDENCIES.items():
        lists = fields.of(number, DELIMITED)
        which, targets = wire.packed(data, lists.begin, lists.stop)
        alone = fields.of(number, VARINT)
        node = np.concatenate((lists.message[which], alone.message))
        target = np.concatenate((targets, alone.value)).view(np.int64)
        edge = {
            "id": pl.Series(ids[node], dtype=pl.Int64),
            "depends_on": pl.Series(target, dtype=pl.Int64),
            "kind": pl.repeat(kind, len(node), dtype=EDGES["kind"], eager=True),
        }
        parts.append(pl.DataFrame(edge))
    return pl.concat(parts)
