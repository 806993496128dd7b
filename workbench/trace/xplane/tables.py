"""Events of an XSpace, parted into bare tables by what they are.

On a device: events of stream lines (of `XLA Ops` where there are none, as on TPUs) are
activities, those of the lines that XLA derives from them are ranges. On a host: calls with a
correlation id are launches, names that begin with `$` Python frames, steps and instants ranges,
and the rest (XLA's and JAX's own annotations) operators.
"""

from __future__ import annotations

import re

import polars as pl

from workbench.trace import raw, schema
from workbench.trace.assemble import Threads, frame
from workbench.trace.xplane.space import Space

_STREAM, _OPS_LINE = "Stream #", "XLA Ops"
_PYTHON = "$"
_DETAIL = re.compile(r"(\w+):([\d,]+)")
_NUMBER = re.compile(r"[0-9]{1,15}")
_TRIPLE = re.compile(r"([0-9]{1,9}),([0-9]{1,9}),([0-9]{1,9})")
_FRAMES = {n: schema.TABLES["frames"][n].dtype for n in ("name", "thread", "start_ns", "dur_ns")}


def split(events: pl.DataFrame, space: Space, threads: Threads) -> dict[str, pl.DataFrame]:
    """Return `activities launches ops ranges frames`, bare and with absolute times."""
    lines = pl.Series([x.name for x in space.lines] or [""], dtype=pl.String)
    events = events.filter(~pl.col("aggregated"))
    events = events.with_columns(line_name=lines.gather(events["line"]))
    on_device = events.filter(pl.col("device").is_not_null())
    on_host = _threaded(events.filter(pl.col("device").is_null()), space, threads)
    has_streams = pl.col("line_name").str.starts_with(_STREAM).any().over("plane")
    is_work = pl.col("line_name").str.starts_with(_STREAM) | (
        (pl.col("line_name") == _OPS_LINE) & ~has_streams
    )
    on_device = on_device.with_columns(
        work=is_work,
        stream=pl.Series([x.id for x in space.lines] or [0], dtype=pl.Int64).gather(
            on_device["line"]
        ),
    )
    is_call = pl.col("correlation_id").is_not_null()
    is_frame = pl.col("name").str.starts_with(_PYTHON) & ~is_call
    is_step = pl.col("step_num").is_not_null() & ~is_call & ~is_frame
    is_instant = (pl.col("dur_ns") == 0) & ~is_call & ~is_frame & ~is_step
    calls = on_host.filter(is_call)
    own = on_host.filter(~is_call & ~is_frame & ~is_step & ~is_instant)
    ranges = [
        _device_ranges(on_device.filter(~pl.col("work"))),
        _host_ranges(on_host.filter(is_instant), "instant"),
        _host_ranges(on_host.filter(is_step), "user"),
        _steps(on_host.filter(is_step)),
    ]
    return {
        "activities": _activities(on_device.filter("work")),
        "launches": _launches(calls),
        "ops": pl.concat([_ops(own), _xla_ops(calls)]),
        "ranges": pl.concat(ranges),
        "frames": _of(
            on_host.filter(is_frame), _FRAMES, name=pl.col("name").str.strip_prefix(_PYTHON)
        ),
    }


def _threaded(events: pl.DataFrame, space: Space, threads: Threads) -> pl.DataFrame:
    """Add the host thread of each event, one a line."""
    index = []
    for number in events["line"].unique(maintain_order=True):
        line = space.lines[number]
        plane = space.planes[line.plane].name
        index.append((number, int(threads.of(plane, [line.id])[0])))
        threads.names.setdefault((plane, line.id), line.name)
    known = pl.DataFrame(index, schema={"line": pl.Int64, "thread": pl.Int32}, orient="row")
    return events.join(known, on="line", how="left", maintain_order="left")


def _of(events: pl.DataFrame, columns: dict[str, pl.DataType], **given: pl.Expr) -> pl.DataFrame:
    """Make a bare table of some events; columns of one name are taken as they are."""
    same = {n: events[n] for n in columns if n in events.columns and n not in given}
    made = {n: events.select(e.alias(n)).to_series() for n, e in given.items()}
    return frame(columns, **(same | made))


def _activities(events: pl.DataFrame) -> pl.DataFrame:
    name = pl.col("name")
    is_copy = pl.col("memcpy_details").is_not_null() | name.str.contains(r"(?i)^memcpy")
    is_set = pl.col("memset_details").is_not_null() | name.str.contains(r"(?i)^memset")
    kind = pl.when(is_set).then(pl.lit("set")).when(is_copy).then(pl.lit("copy"))
    details = pl.coalesce("kernel_details", "memcpy_details", "memset_details")
    events = events.with_columns(details=details)
    told = _details(events["details"])
    events = events.join(told, on="details", how="left", maintain_order="left")
    return _of(
        events,
        raw.ACTIVITIES,
        kind=kind.otherwise(pl.lit("kernel")),
        correlation=pl.when(pl.col("correlation_id") > 0).then("correlation_id"),
    )


def _details(texts: pl.Series) -> pl.DataFrame:
    """Read what each distinct text says of a kernel or copy; 0 stands for unknown there.

    NVIDIA: `regs:32 static_shared:0 dynamic_shared:512 grid:8,1,1 block:256,1,1 occ_pct:50`;
    AMD: `grid:8,1,1 block:256,1,1 private_mem:0 group_mem:512 occ_pct:0`;
    copies: `kind:HtoD size:4096 dest:0 async:1`. Grids are in blocks in all of them.
    """
    known = [t for t in texts.unique() if t is not None]
    rows = [{"details": t, **_told(dict(_DETAIL.findall(t)))} for t in known]
    columns = {
        n: raw.ACTIVITIES[n]
        for n in ("grid", "block", "registers", "shared_bytes", "occupancy", "bytes")
    }
    return pl.DataFrame(rows, schema={"details": pl.String(), **columns}, strict=False)


def _told(said: dict[str, str]) -> dict[str, object]:
    def number(*keys: str) -> int | None:
        found = [int(said[k]) for k in keys if _NUMBER.fullmatch(said.get(k, ""))]
        return sum(found) if found else None

    def triple(key: str) -> list[int] | None:
        whole = _TRIPLE.fullmatch(said.get(key, ""))
        return [int(x) for x in whole.groups()] if whole else None

    occupancy = number("occ_pct")
    return {
        "grid": triple("grid"),
        "block": triple("block"),
        "registers": number("regs") or None,
        "shared_bytes": number("static_shared", "dynamic_shared", "group_mem"),
        "occupancy": occupancy / 100 if occupancy else None,
        "bytes": number("size", "num_bytes") or None,
    }


def _launches(calls: pl.DataFrame) -> pl.DataFrame:
    correlation = pl.when(pl.col("correlation_id") > 0).then("correlation_id")
    return _of(calls, raw.LAUNCHES, correlation=correlation)


def _ops(events: pl.DataFrame) -> pl.DataFrame:
    return _of(events, raw.OPS)


def _xla_ops(calls: pl.DataFrame) -> pl.DataFrame:
    """Return XLA modules and their operators, from the calls that say whose work they launch.

    An operator is a run of calls on one thread for it, from the begin of the first to the end of
    the last; a module is a run of operators in which none comes twice. Nesting then ties calls to
    operators and these to modules.
    """
    runs = _runs(calls.sort("thread", "start_ns", maintain_order=True), "hlo_op")
    again = pl.int_range(pl.len()).over("thread", "hlo_module", "hlo_op")
    turn = again.cum_max().over("thread", "hlo_module")
    modules = _runs(runs.with_columns(turn=turn), "turn")
    return pl.concat(
        [
            # of two with equal times the first encloses the other
            _of(modules.drop_nulls("hlo_module"), raw.OPS, name=pl.col("hlo_module")),
            _of(runs.drop_nulls("hlo_op"), raw.OPS, name=pl.col("hlo_op")),
        ]
    )


def _runs(events: pl.DataFrame, key: str) -> pl.DataFrame:
    """Join neighbours of one thread, module and `key` into one row each."""
    end = pl.col("start_ns") + pl.col("dur_ns")
    run = pl.struct("thread", "hlo_module", key).rle_id().alias("run")
    return events.group_by(run, maintain_order=True).agg(
        pl.col("thread", "hlo_module", "hlo_op").first(),
        pl.col("start_ns").min(),
        dur_ns=end.max() - pl.col("start_ns").min(),
    )


def _device_ranges(events: pl.DataFrame) -> pl.DataFrame:
    return _of(events, raw.RANGES, domain=pl.col("line_name"))


def _host_ranges(events: pl.DataFrame, domain: str) -> pl.DataFrame:
    return _of(events.with_columns(domain=pl.lit(domain)).drop("device"), raw.RANGES)


def _steps(events: pl.DataFrame) -> pl.DataFrame:
    """Return steps that the program numbered, under the name that steps have here."""
    name = pl.concat_str(pl.lit("ProfilerStep#"), pl.col("step_num"))
    marked = events.filter(pl.col("step_num") >= 0).with_columns(name=name, domain=pl.lit("step"))
    return _of(marked.drop("device"), raw.RANGES)
