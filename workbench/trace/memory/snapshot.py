"""torch's memory snapshot (`torch.cuda.memory._dump_snapshot`): a pickle of plain data, or JSON.

The state at the end is `segments`; the history, when it was recorded, is `memory`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from workbench.errors import InputError, NotATraceError
from workbench.trace import container, schema
from workbench.trace.assemble import assemble, frame
from workbench.trace.core import Trace, TraceMeta
from workbench.trace.memory.pickles import MOST_BYTES, plain
from workbench.trace.problems import Problem
from workbench.units import NS_PER_US

READER = "torch memory snapshot"
NO_HISTORY = "recording was not enabled, so only the state at the end is known"
ALLOCATED = {"alloc": 1, "free_requested": -1, "free": -1}
"""free_requested and free_completed bracket one free; memory stops counting as allocated at the
first, and a free_completed alone is of memory that had stopped before the history begins."""
RESERVED = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_COLUMNS = {
    "device": pl.Int32(), "action": pl.String(), "address": pl.UInt64(), "size": pl.Int64(),
    "time_us": pl.Int64(), "site": pl.String(),
}  # fmt: skip
_OF_TORCH = re.compile(r"(?:^|/)torch/")
_LONGEST_NAME = 512
"""A file may name one long text in every event, and each would be another copy."""
_LATEST_US = 2**62 // NS_PER_US
_MOST_BYTES = 2**50
"""A larger allocation is damage."""
_RANGES = {n: c.dtype for n, c in schema.TABLES["ranges"].items()}


def read(path: Path) -> Trace:
    """Read one snapshot.

    `memory.bytes` and `total_allocated` count what the program asked for, as the history does;
    `segments.allocated` is what the allocator gave, in whole blocks. Totals are known backwards
    from the state at the end, so a history that begins late is right as well.

    Raises
    ------
    InputError
        The file is damaged, no memory snapshot, or holds more than plain data.
    """
    data = container.read(path)
    found = _json(data, path) if data[:1] == b"{" else plain(data, str(path))
    whole = {"segments": found} if isinstance(found, list) else found
    if not isinstance(whole, dict) or not isinstance(whole.get("segments"), list):
        raise NotATraceError(
            f"{path} holds plain data, but no torch memory snapshot: it has no segments."
        )
    segments = _segments(whole["segments"])
    events = _events(whole.get("device_traces"), most=len(data))
    memory = _memory(events, segments)
    timed = not memory.get_column("t_ns").null_count()
    first = int(memory["t_ns"].min() or 0) if timed else 0  # type: ignore[arg-type]
    meta = TraceMeta(
        path=path,
        format="torch-memory-snapshot",
        sha256=container.sha256(path),
        origin_ns=first,
        producer=_settings(whole.get("allocator_settings")),
        events=events.height,
        device_reason=_reason(events),
        timed=timed,
    )
    tables = {
        "segments": segments,
        "memory": memory.with_columns(pl.col("t_ns") - first),
        "ranges": _ranges(whole.get("external_annotations"), first),
    }
    return assemble(meta, tables, _problems(events), READER)


def _json(data: bytes, path: Path) -> Any:
    """Return what a recorded run's rank0.memory.json holds: the same as the pickle would."""
    if len(data) > MOST_BYTES:
        raise InputError(
            f"{path} holds {len(data) >> 20} MiB of memory history, more than is read."
        )
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path} is a damaged memory snapshot: {error}.") from None


def _reason(events: pl.DataFrame) -> str:
    kept = "a memory snapshot holds allocations, no device activity"
    if events.height:
        return f"{kept}: see `show … memory` and `show … segments`"
    return f"{kept}; {NO_HISTORY}: see `show … segments`"


def _dicts(items: object) -> list[dict[Any, Any]]:
    return [d for d in items if isinstance(d, dict)] if isinstance(items, list) else []


def _ints(dicts: Iterable[dict[Any, Any]], key: str) -> list[int | None]:
    """Return a whole number of each dict; anything else is None."""
    return [v if type(v := d.get(key)) is int else None for d in dicts]


def _words(dicts: Iterable[dict[Any, Any]], key: str) -> list[str | None]:
    return [v if isinstance(v := d.get(key), str) else None for d in dicts]


def _series(values: Sequence[int | None], dtype: pl.DataType) -> pl.Series:
    return pl.Series(values, dtype=dtype, strict=False)


def _segments(items: object) -> pl.DataFrame:
    """Return the `segments` table; a segment without a size is left out."""
    segments = _dicts(items)
    pools = [d.get("segment_pool_id") for d in segments]
    expandable = [v if isinstance(v := d.get("is_expandable"), bool) else None for d in segments]
    sizes = {
        "bytes": "total_size",
        "allocated": "allocated_size",
        "active": "active_size",
        "requested": "requested_size",
    }
    columns = {
        n: pl.Series(_ints(segments, k), dtype=pl.Int64, strict=False) for n, k in sizes.items()
    }
    made = frame(
        schema.polars_schema("segments"),
        device=_series(_ints(segments, "device"), pl.Int32()),
        address=_series(_ints(segments, "address"), pl.UInt64()),
        stream=_series(_ints(segments, "stream"), pl.Int64()),
        kind=pl.Series(_words(segments, "segment_type"), dtype=pl.String),
        largest_free=_series([_largest_free(d.get("blocks")) for d in segments], pl.Int64()),
        pool=pl.Series([_pool(p) for p in pools], dtype=pl.String),
        is_expandable=pl.Series(expandable, dtype=pl.Boolean),
        **columns,
    )
    return made.filter(pl.col("bytes").is_between(0, _MOST_BYTES))


def _largest_free(blocks: object) -> int | None:
    """Return the size of the largest inactive block; null without a list of blocks."""
    found = _dicts(blocks)
    sizes = _ints((b for b in found if b.get("state") == "inactive"), "size")
    return max((s for s in sizes if s is not None), default=0) if found else None


def _pool(value: object) -> str | None:
    whole = isinstance(value, tuple | list) and all(type(x) is int for x in value)
    return msgspec.json.encode(value).decode() if whole else None


def _events(traces: object, most: int) -> pl.DataFrame:
    """Return the history of all devices, each device's in recorded order.

    A list that is named many times over counts each time; more events than the file has bytes are
    an attack, and what is beyond is left out.
    """
    lists = [t for t in traces if isinstance(t, list)] if isinstance(traces, list) else []
    parts = []
    for device, items in enumerate(lists):
        most -= len(items)
        events = _dicts(items) if most >= 0 else []
        parts.append(
            frame(
                _COLUMNS,
                device=pl.repeat(device, len(events), dtype=pl.Int32, eager=True),
                action=pl.Series(_words(events, "action"), dtype=pl.String),
                address=_series(_ints(events, "addr"), pl.UInt64()),
                size=_series(_ints(events, "size"), pl.Int64()),
                time_us=_series(_ints(events, "time_us"), pl.Int64()),
                site=pl.Series(_sites(events), dtype=pl.String),
            )
        )
    return pl.concat([pl.DataFrame(schema=_COLUMNS), *parts])


def _sites(events: list[dict[Any, Any]]) -> list[str | None]:
    """Return the Python line that made each allocation, the program's own rather than torch's."""
    seen: dict[int, str | None] = {}
    sites = []
    for event in events:
        frames = event.get("frames") if event.get("action") == "alloc" else None
        # many events may name one list, which is then looked through once
        if id(frames) not in seen:
            seen[id(frames)] = _site(frames)
        sites.append(seen[id(frames)])
    return sites


def _site(frames: object) -> str | None:
    """Return the innermost Python frame outside torch, else the innermost; null without one."""
    first = None
    for place in _dicts(frames):
        file, line, name = place.get("filename"), place.get("line"), place.get("name")
        if isinstance(file, str) and file.endswith(".py") and type(line) is int:
            short = file[-_LONGEST_NAME:]
            text = f"{short}({line}): {name[:_LONGEST_NAME] if isinstance(name, str) else '?'}"
            if not _OF_TORCH.search(short):
                return text
            first = first or text
    return first


class _Deltas(NamedTuple):
    allocated: pl.Expr
    reserved: pl.Expr


def _deltas() -> _Deltas:
    def change(signs: dict[str, int]) -> pl.Expr:
        sign = pl.col("action").replace_strict(signs, default=0, return_dtype=pl.Int64)
        return sign * pl.col("size")

    return _Deltas(change(ALLOCATED), change(RESERVED))


def _memory(events: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """Return the `memory` table: allocations and frees, and segments that came or went."""
    known = events.filter(
        pl.col("action").is_in([*ALLOCATED, *RESERVED]) & pl.col("size").is_between(0, _MOST_BYTES)
    )
    delta = _deltas()
    end = segments.group_by("device").agg(
        end_allocated=pl.coalesce("requested", "allocated").sum(),
        end_reserved=pl.col("bytes").sum(),
    )
    changes = known.with_columns(bytes=delta.allocated, reserved=delta.reserved)
    ended = changes.join(end, on="device", how="left", maintain_order="left").with_columns(
        pl.col("end_allocated", "end_reserved").fill_null(0)
    )
    later = {n: pl.col(n).sum().over("device") - pl.col(n).cum_sum().over("device")
             for n in ("bytes", "reserved")}  # fmt: skip
    usable = pl.col("time_us").is_between(0, _LATEST_US).all()
    made = ended.select(
        "device",
        "address",
        "bytes",
        "site",
        t_ns=pl.when(usable).then(pl.col("time_us") * NS_PER_US),
        total_allocated=pl.col("end_allocated") - later["bytes"],
        total_reserved=pl.col("end_reserved") - later["reserved"],
    )
    return made.sort("t_ns", maintain_order=True)


def _problems(events: pl.DataFrame) -> list[Problem]:
    if not events.height:
        return [
            Problem(
                code="history_not_enabled",
                count=1,
                first_example="device_traces is empty",
                effect=f"{NO_HISTORY}; call torch.cuda.memory._record_memory_history() "
                "before what is to be seen",
            )
        ]
    actions = [*ALLOCATED, *RESERVED, "free_completed", "snapshot"]
    notes = {
        "out_of_memory": (pl.col("action") == "oom", "the allocator could not serve a request"),
        "unread_action": (
            ~pl.col("action").is_in([*actions, "oom"]).fill_null(value=False),
            "these events are in no total",
        ),
        "invalid_record": (
            pl.col("action").is_in(actions)
            & ~pl.col("size").is_between(0, _MOST_BYTES).fill_null(value=False),
            "no usable size, so left out of every total",
        ),
    }
    problems = []
    for code, (which, effect) in notes.items():
        found = events.filter(which)
        if found.height:
            example = f"device {found['device'][0]}: {found['action'][0]}"
            problems.append(Problem(code, found.height, example, effect))
    return problems


def _ranges(items: object, first: int) -> pl.DataFrame:
    """Pair the begins and ends of annotations by name and device, in order."""
    open_: dict[tuple[object, object], list[int]] = {}
    rows = []
    for mark in _dicts(items):
        name, device, at = mark.get("name"), mark.get("device"), mark.get("time_us")
        if not isinstance(name, str) or type(at) is not int or not 0 <= at < _LATEST_US:
            continue
        device = device if type(device) is int and 0 <= device < 2**31 else None
        begins = open_.setdefault((name, device), [])
        if mark.get("stage") == "START":
            begins.append(at)
        elif begins and begins[-1] <= at:
            begin = begins.pop()
            span = {"start_ns": begin * NS_PER_US - first, "dur_ns": (at - begin) * NS_PER_US}
            rows.append({"name": name, "domain": "user", "device": device, "form": "free", **span})
    columns = ("name", "domain", "device", "form", "start_ns", "dur_ns")
    part = pl.DataFrame(rows, schema={n: _RANGES[n] for n in columns})
    return part.sort("start_ns", maintain_order=True).with_row_index("id")


def _settings(settings: object) -> dict[str, object]:
    """Keep what the snapshot says of the allocator's settings, as far as it is plain."""
    items = settings.items() if isinstance(settings, dict) else ()
    return {str(k): v for k, v in items if isinstance(v, str | int | float | bool)}
