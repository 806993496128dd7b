"""What the first bytes of a file say about its format; nothing here trusts a name or a suffix."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

_BLANK = b"\xef\xbb\xbf \t\r\n"
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]', re.DOTALL)
_TIMELINE = re.compile(rb"\[\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*[0-7]\s*\]")
_NCU = re.compile(
    rb'^(?:\xef\xbb\xbf)?,?"?(?:ID"?,"?)?Process ID"?,"?[^\n]*\bKernel Name\b', re.MULTILINE
)
_LEN, _VARINT = 2, 0
_PLANE_FIELDS = {1: _VARINT, 2: _LEN, 3: _LEN, 4: _LEN, 5: _LEN, 6: _LEN}
_PLANE_NAME = 2
_LONGEST_NAME = 256
_MOST_VARINT = 10


def is_sqlite(head: bytes) -> bool:
    """Say whether it is an SQLite database."""
    return head.startswith(b"SQLite format 3\x00")


def is_nsys_report(head: bytes) -> bool:
    """Say whether it is a report of Nsight Systems, before any export."""
    return head.startswith(b"NVIDIA Tegra Profiler Report ")


def is_ncu(head: bytes) -> bool:
    """Say whether a line is a header of Nsight Compute's CSV; messages may stand before it."""
    return bool(_NCU.search(head))


def is_rocprof_compute(head: bytes) -> bool:
    """Say whether the first line names the columns of rocprofiler-compute's tables of launches."""
    first = head.lstrip(_BLANK).partition(b"\n")[0].rstrip(b"\r").split(b",")
    return {b"Dispatch_ID", b"Kernel_Name", b"GPU_ID"} <= set(first)


def is_json(head: bytes) -> bool:
    """Say whether text starts as a JSON object or array."""
    return head.lstrip(_BLANK)[:1] in (b"{", b"[")


@functools.lru_cache(maxsize=1)
def top_keys(head: bytes) -> frozenset[bytes]:
    """Return the keys of the outermost JSON object, as far as the first bytes show them.

    Nesting is counted, so a key of an inner object is never taken for one of the outermost.
    """
    keys: set[bytes] = set()
    depth, last = 0, b""
    if head.lstrip(_BLANK)[:1] != b"{":
        return frozenset()
    for token in _TOKEN.finditer(head):
        text = token[0]
        if text in b"{[":
            depth += 1
        elif text in b"}]":
            depth -= 1
        elif text == b":" and depth == 1 and last[:1] == b'"':
            keys.add(last[1:-1])
        last = text
    return frozenset(keys)


def is_rocprof(head: bytes) -> bool:
    """Say whether it is what rocprofv3 writes as JSON."""
    return b"rocprofiler-sdk-tool" in top_keys(head)


def is_execution_trace(head: bytes) -> bool:
    """Say whether it is a PyTorch execution trace: nodes, and no events."""
    keys = top_keys(head)
    return b"nodes" in keys and b"traceEvents" not in keys


def is_chakra_json(head: bytes) -> bool:
    """Say whether it is a Chakra workload graph as JSON."""
    return b"workload_graph" in top_keys(head)


def is_memory_timeline(head: bytes) -> bool:
    """Say whether it is torch's memory timeline in raw form: rows of four integers."""
    return bool(_TIMELINE.match(head.lstrip(_BLANK)))


def is_memory_snapshot(head: bytes) -> bool:
    """Say whether it is torch's memory snapshot as JSON, as a recorded run has it."""
    keys = top_keys(head)
    return b"segments" in keys and b"traceEvents" not in keys


def is_pickle(head: bytes) -> bool:
    """Say whether it is a pickle of protocol 2 to 5; older ones have no mark to tell them by."""
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


class _Field(NamedTuple):
    number: int
    wire: int
    value: int
    """Of a varint, or the length of what is delimited by one."""
    begin: int


def is_xplane(head: bytes) -> bool:
    """Say whether it is an XSpace: a plane with a readable name comes first."""
    first = _field(head, 0)
    if first is None or (first.number, first.wire) != (1, _LEN):
        return False
    at, stop = first.begin, min(first.begin + first.value, len(head))
    named = False
    while at < stop and not named:
        inner = _field(head, at)
        if inner is None or _PLANE_FIELDS.get(inner.number) != inner.wire:
            return False
        at = inner.begin + (inner.value if inner.wire == _LEN else 0)
        named = inner.number == _PLANE_NAME and _is_name(head[inner.begin : at])
    return named


def is_chakra(head: bytes) -> bool:
    """Say whether it is a Chakra stream: metadata, then nodes that start with their ids.

    Each message stands behind its length; metadata are a version and named attributes.
    """
    size = _varint(head, 0)
    if size is None:
        return False
    at, stop = size[1], size[1] + size[0]
    while at < min(stop, len(head)):
        inner = _field(head, at)
        if inner is None or inner.wire != _LEN or inner.number not in (1, 2):
            return False
        at = inner.begin + inner.value
    node = _varint(head, stop) if at == stop and stop < len(head) else None
    if node is None:
        return at == stop == len(head) and size[0] > 0
    first = _field(head, node[1])
    return first is not None and (first.number, first.wire) in ((1, _VARINT), (2, _LEN))


def _is_name(raw: bytes) -> bool:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    return 0 < len(text) <= _LONGEST_NAME and text.isprintable()


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """Return a varint and where it ends, or nothing."""
    value = 0
    for i, byte in enumerate(data[at : at + _MOST_VARINT]):
        value |= (byte & 127) << (7 * i)
        if byte < 128:  # noqa: PLR2004
            return value, at + i + 1
    return None


def _field(data: bytes, at: int) -> _Field | None:
    """Return a field whose value is a varint or delimited by one, or nothing."""
    key = _varint(data, at)
    value = _varint(data, key[1]) if key and key[0] & 7 in (_VARINT, _LEN) else None
    if key is None or value is None:
        return None
    return _Field(key[0] >> 3, key[0] & 7, value[0], value[1])
