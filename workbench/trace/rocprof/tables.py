"""Records of one kind to a bare table; times still absolute as recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.trace import raw
from workbench.trace.assemble import frame
from workbench.trace.rocprof.records import Copy, Dim3, Dispatch, Kind, Symbol, Timed

_CLONE = re.compile(r" \[clone \.kd\]$|\.kd$")
"""How a kernel descriptor's name ends; the function's own name is what stands before."""
_MOST_REGISTERS = 2**16
Item = TypeVar("Item")
ThreadOf = Callable[[Sequence[int]], pl.Series]
Agents = dict[int, int]
"""Device index of each agent's handle."""


class Names:
    """The texts that records name by number."""

    def __init__(
        self, kinds: Sequence[Kind], symbols: Sequence[Symbol], messages: dict[int, str]
    ) -> None:
        self._kinds = kinds
        self.symbols = {s.kernel_id: s for s in symbols}
        self._kernels = {s.kernel_id: _kernel_name(s) for s in symbols}
        self.messages = messages

    def kernel(self, number: int) -> str:
        """Return a kernel's name, demangled; a number when the file has no symbol for it."""
        return self._kernels.get(number) or f"kernel {number}"

    def registers(self, number: int) -> int | None:
        """Return a kernel's vector registers for each work-item, architectural and accumulation."""
        symbol = self.symbols.get(number)
        count = symbol.arch_vgpr_count + symbol.accum_vgpr_count if symbol else 0
        return count if 0 < count < _MOST_REGISTERS else None

    def operation(self, record: Timed) -> str:
        """Return the name of a record's operation."""
        kind = _at(self._kinds, record.kind)
        name = _at(kind.operations, record.operation) if kind else None
        return name or f"operation {record.kind}.{record.operation}"


def _at(items: Sequence[Item], index: int) -> Item | None:
    return items[index] if 0 <= index < len(items) else None


def _kernel_name(symbol: Symbol) -> str:
    name = symbol.demangled_kernel_name or symbol.formatted_kernel_name or symbol.kernel_name
    return _CLONE.sub("", name)


def kernels(records: Sequence[Dispatch], names: Names, agents: Agents) -> pl.DataFrame:
    """Build kernels. The grid is recorded in work-items and kept in blocks, rounded up."""
    info = [r.dispatch_info for r in records]
    ids = sorted({i.kernel_id for i in info})
    number = {k: n for n, k in enumerate(ids)}
    which = pl.Series([number[i.kernel_id] for i in info], dtype=pl.UInt32)
    block = _triples([i.workgroup_size for i in info])
    items = _triples([i.grid_size for i in info])
    whole = np.all((block > 0) & (items > 0), axis=1)
    grid = -(-items // np.where(block > 0, block, 1))
    streams = [r.stream_id.handle for r in records]
    if not any(streams):  # no call said which stream: the hardware queue is what is known
        streams = [i.queue_id.handle for i in info]
    return _timed(
        raw.ACTIVITIES,
        records,
        kind=pl.repeat("kernel", len(records), dtype=pl.String, eager=True),
        name=pl.Series([names.kernel(k) for k in ids], dtype=pl.String).gather(which),
        device=_ints([agents.get(i.agent_id.handle) for i in info]),
        stream=_ints(streams),
        correlation=_correlations(records),
        grid=_column(grid, whole),
        block=_column(block, whole),
        registers=_ints([names.registers(k) for k in ids]).gather(which),
        shared_bytes=_ints([i.group_segment_size for i in info]),
    )


def copies(records: Sequence[Copy], names: Names, agents: Agents) -> pl.DataFrame:
    """Build copies; one with a host counts to the GPU, one between two GPUs to its source."""
    device = [agents.get(r.src_agent_id.handle, agents.get(r.dst_agent_id.handle)) for r in records]
    return _timed(
        raw.ACTIVITIES,
        records,
        kind=pl.repeat("copy", len(records), dtype=pl.String, eager=True),
        name=pl.Series([names.operation(r) for r in records], dtype=pl.String),
        device=_ints(device),
        stream=_ints([r.stream_id.handle for r in records]),
        correlation=_correlations(records),
        bytes=_ints([r.bytes for r in records]),
    )


def calls(records: Sequence[Timed], names: Names, thread: ThreadOf) -> pl.DataFrame:
    """Build calls of an API."""
    return _timed(
        raw.LAUNCHES,
        records,
        name=pl.Series([names.operation(r) for r in records], dtype=pl.String),
        thread=thread([r.thread_id for r in records]),
        correlation=_correlations(records),
    )


def markers(records: Sequence[Timed], names: Names, thread: ThreadOf) -> pl.DataFrame:
    """Build ranges of the markers that carry a text; the others only steer the tool."""
    said = [r for r in records if r.correlation_id.internal in names.messages]
    return _timed(
        raw.RANGES,
        said,
        name=pl.Series([names.messages[r.correlation_id.internal] for r in said], dtype=pl.String),
        domain=pl.repeat("roctx", len(said), dtype=pl.String, eager=True),
        thread=thread([r.thread_id for r in said]),
    )


def _timed(
    columns: dict[str, pl.DataType], records: Sequence[Timed], **given: pl.Series
) -> pl.DataFrame:
    start = _ints([r.start_timestamp for r in records])
    end = _ints([r.end_timestamp for r in records])
    return frame(columns, start_ns=start, dur_ns=end - start, **given)


def _ints(values: Sequence[int | None]) -> pl.Series:
    return pl.Series(values, dtype=pl.Int64, strict=False)


def _correlations(records: Sequence[Timed]) -> pl.Series:
    column = _ints([r.correlation_id.internal for r in records])
    return column.set(column <= 0, None)


def _triples(sizes: Sequence[Dim3]) -> NDArray[np.int64]:
    """Return x, y, z as rows; a size that fits no grid is 0."""
    flat = [(s.x, s.y, s.z) for s in sizes]
    try:
        whole = np.array(flat, np.int64).reshape(-1, 3)
    except OverflowError:
        small = [t if all(0 <= v < 2**31 for v in t) else (0, 0, 0) for t in flat]
        whole = np.array(small, np.int64).reshape(-1, 3)
    fits: NDArray[np.int64] = np.where((whole < 0) | (whole >= 2**31), 0, whole)
    return fits


def _column(triples: NDArray[np.int64], good: Any) -> pl.Series:
    column = pl.Series(triples.astype(np.int32), dtype=pl.Array(pl.Int32, 3))
    return pl.select(pl.when(pl.Series(good)).then(column)).to_series()
