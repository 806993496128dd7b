"""Groups of columns that only some events have, and single values, for `tables`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import polars as pl

from workbench.intervals import Times
from workbench.trace.kineto import columns as col
from workbench.trace.kineto.arguments import Args


def any_text(args: Sequence[Args], field: str) -> bool:
    """Say whether any text of a field is not empty."""
    return any(map(attrgetter(field), args))


def given(args: Sequence[Args], field: str) -> bool:
    """Say whether any value of a field was recorded, be it zero."""
    return any(v is not None for v in map(attrgetter(field), args))


def plain(value: object) -> int | str:
    """Keep what a thread or process id may be; anything else as its text."""
    return value if isinstance(value, int | str) else str(value)


def address(value: object) -> int | None:
    """Return an address that fits 64 bits."""
    return value if isinstance(value, int) and 0 <= value < 2**64 else None


def bounds(start: Times, duration: Times) -> pl.DataFrame:
    """Keep one row for the earliest and one for the latest of many frames."""
    keep = [] if not len(start) else [int(start.argmin()), int((start + duration).argmax())]
    return pl.DataFrame({"start_ns": start[keep], "dur_ns": duration[keep]})


def shape(args: Sequence[Args]) -> dict[str, pl.Series]:
    """Build what only kernels have."""
    if not any(given(args, f) for f in ("grid", "block", "registers", "shared", "graph_node")):
        return {}
    return {
        "graph_node": col.ids([a.graph_node for a in args]),
        "grid": col.triples([a.grid for a in args]),
        "block": col.triples([a.block for a in args]),
        "registers": col.indices([a.registers for a in args]),
        "shared_bytes": col.indices([a.shared for a in args]),
        "occupancy": col.doubles([a.occupancy for a in args]) / 100,
    }


def kernel_source(args: Sequence[Args]) -> dict[str, pl.Series]:
    """Build what Inductor says of the kernels it made."""
    if not any(given(args, f) for f in ("kernel_file", "kernel_backend")):
        return {}
    return {
        "kernel_backend": col.words([a.kernel_backend for a in args]),
        "kernel_file": col.words([a.kernel_file for a in args]),
        "kernel_hash": col.words([a.kernel_hash for a in args]),
    }


def waits(args: Sequence[Args]) -> dict[str, pl.Series]:
    """Build what a recorded wait says of its call, and of the event that it waits for."""
    return {
        "correlation": col.ids([a.correlation for a in args]),
        "waits_on_stream": col.indices([a.wait_stream for a in args]),
        "waits_on_correlation": col.ids([a.wait_record for a in args]),
    }


def communication(args: Sequence[Args]) -> dict[str, pl.Series]:
    """Build what the profiler adds to a collective."""
    if not any(given(args, f) for f in ("comm_name", "comm_group", "comm_in")):
        return {}
    return {
        "comm_name": col.words([a.comm_name for a in args]),
        "comm_group": col.words([a.comm_group for a in args]),
        "comm_group_size": col.ids([a.comm_size for a in args]),
        "comm_members": col.rank_lists(a.comm_members for a in args),
        "comm_seq": col.indices([a.comm_seq for a in args]),
        "comm_dtype": col.words([a.comm_dtype for a in args]),
        "comm_in": col.indices([a.comm_in for a in args]),
        "comm_out": col.indices([a.comm_out for a in args]),
    }
