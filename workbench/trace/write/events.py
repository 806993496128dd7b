"""Tables to the events of the profiler's dialect: for each table a frame and what to write of it.

Tables are written one after the other, each in its own order: readers number threads by their first
appearance, and settle ties by the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from workbench.trace import nesting, phases, schema
from workbench.trace.write import lanes
from workbench.trace.write.part import Part, device_work
from workbench.trace.write.text import embedded, event, number, quoted, triple, us

LEAD_NS = 1_000
"""Time zero of the file lies this much before the origin: readers take a time of 0 as missing."""
_FIRST_LANE = 1_000_000
"""Track number of the first sub-lane; larger than that of any stream that has a sub-lane."""
_CATEGORY = {"kernel": "kernel", "collective": "kernel", "copy": "gpu_memcpy", "set": "gpu_memset"}
_FLOW = "ac2g"
_MOST_THREADS = 64
_INPUTS = {
    "Input Dims": "input_dims",
    "Input type": "input_types",
    "Input Strides": "input_strides",
    "Concrete Inputs": "concrete_inputs",
}
_COMMUNICATION = {
    "Collective name": "requested",
    "Process Group Name": "group",
    "dtype": "dtype",
    "In msg nelems": "in_elements",
    "Out msg nelems": "out_elements",
    "Group size": "group_size",
    "Process Group Ranks": "members",
    "Seq": "seq",
}


class Block(NamedTuple):
    """Rows, and the expression that writes each of them as an event."""

    rows: pl.DataFrame
    event: pl.Expr


def blocks(part: Part) -> Iterator[Block]:
    """Return everything that a part holds, as events."""
    work = _with_lanes(part)
    yield from _metadata(part, work)
    yield _recording(part)
    yield _accelerator(part, work)
    yield _host_ranges(part)
    yield _device_ranges(part)
    launches = _launches(part, work)
    yield Block(launches, _launch_event())
    yield _ops(part)
    yield _frames(part)
    work = _linked(part, work, launches)
    yield _activities(part, work)
    yield from _flows(work)
    yield _memory(part)
    yield _counters(part)


# ---- pieces ---------------------------------------------------------------------------------


def _word(text: str) -> pl.Expr:
    return pl.lit(f'"{text}"')


def _whole(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.String)


def _at(column: str = "start_ns") -> pl.Expr:
    return us(pl.col(column) + LEAD_NS)


def _span(category: pl.Expr, name: str = "name") -> dict[str, pl.Expr]:
    """Return the fields that every complete event has."""
    return {
        "ph": _word("X"),
        "cat": category,
        "name": pl.col(name),
        "pid": pl.col("pid"),
        "tid": pl.col("tid"),
        "ts": _at(),
        "dur": us(pl.col("dur_ns")),
    }


def _on_threads(part: Part, rows: pl.DataFrame) -> pl.DataFrame:
    """Add `pid` and `tid` of host threads as text, and names as JSON strings."""
    threads = part.meta.threads
    pids = pl.Series([_plain(t.pid) for t in threads], dtype=pl.String)
    tids = pl.Series([_plain(t.tid) for t in threads], dtype=pl.String)
    return rows.with_columns(
        quoted(rows["name"]).alias("name"),
        pids.gather(rows["thread"]).alias("pid"),
        tids.gather(rows["thread"]).alias("tid"),
    )


def _plain(value: float | str) -> str:
    return quoted(pl.Series([value]))[0] if isinstance(value, str) else str(value)


def _on_tracks(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `pid` and `tid` of device tracks as text, and names as JSON strings."""
    return rows.with_columns(
        quoted(rows["name"]).alias("name"),
        pid=_whole("device").fill_null('"unknown device"'),
        tid=_whole("stream").fill_null('"unknown stream"'),
    )


# ---- the host -------------------------------------------------------------------------------


def _recording(part: Part) -> Block:
    begin, end = part.recording
    rows = pl.DataFrame({"start_ns": [begin], "dur_ns": [end - begin]}).with_columns(
        name=_word("PyTorch Profiler (0)"), pid=_word("Spans"), tid=_word("PyTorch Profiler")
    )
    return Block(rows.filter(pl.col("dur_ns") > 0), event(_span(_word("Trace"))))


def _accelerator(part: Part, work: pl.DataFrame) -> Block:
    """Keep a trace whose device activity is unknown from reading as one without a device."""
    silent = not work.height and not part.tables["launches"].height
    told = part.meta.device_kind != "cpu" and silent
    reason = _plain(part.meta.device_reason or "no device activity")
    rows = pl.DataFrame({"start_ns": [part.recording[0]], "dur_ns": [0]}).with_columns(
        name=pl.lit(reason), pid=_word("Spans"), tid=_word("accelerator")
    )
    return Block(rows.filter(pl.lit(told)), event(_span(_word("cuda_profiler_range"))))


def _host_ranges(part: Part) -> Block:
    ranges = part.tables["ranges"].filter(pl.col("thread").is_not_null())
    rows = _on_threads(part, _with_gloo_inputs(part, ranges))
    args = {"Input Dims": _dims(), "Input type": _types()}
    return Block(rows, event(_span(_word("user_annotation")), args))


def _with_gloo_inputs(part: Part, ranges: pl.DataFrame) -> pl.DataFrame:
    """Add element count and type of host collectives, which readers take from a gloo range."""
    host = part.tables["activities"].filter(pl.col("source") == "host")
    known = (
        part.tables["collectives"]
        .select("in_elements", "dtype", id="activity")
        .join(host.select("id", "start_ns", thread="stream"), on="id")
        .unique(["thread", "start_ns"], keep="first")
        .select("in_elements", "dtype", "start_ns", pl.col("thread").cast(pl.Int32))
    )
    is_gloo = pl.col("domain") == "gloo"
    rows = ranges.join(known, on=["thread", "start_ns"], how="left", maintain_order="left")
    return rows.with_columns(
        in_elements=pl.when(is_gloo).then("in_elements"),
        dtype=quoted(rows.select(pl.when(is_gloo).then("dtype")).to_series()),
    )


def _dims() -> pl.Expr:
    return pl.lit("[[") + _whole("in_elements") + pl.lit("]]")


def _types() -> pl.Expr:
    return pl.lit("[") + pl.col("dtype") + pl.lit("]")


def _launches(part: Part, work: pl.DataFrame) -> pl.DataFrame:
    """Return calls with the correlation to write: that of a call whose link it would break is new.

    A reader gives an activity to one call of its correlation: to one that puts work on a device
    before others, and among those to the earliest.
    """
    calls = part.tables["launches"]
    winner = (
        calls.drop_nulls("correlation")
        .select(
            "id",
            "correlation",
            "start_ns",
            other=~pl.col("kind").is_in(schema.LAUNCH_TYPE_KINDS),
        )
        .sort("other", "start_ns", maintain_order=True)
        .unique("correlation", keep="first")["id"]
    )
    used = pl.col("id").is_in(work["launch"].drop_nulls().unique().implode())
    lost = used & ~pl.col("id").is_in(winner.implode())
    free = 1 + int(calls["correlation"].max() or 0)  # type: ignore[call-overload]
    fresh = free + lost.cum_sum().cast(pl.Int64)
    ops = part.tables["ops"].select("external_id", op="id")
    return _on_threads(part, calls).join(ops, on="op", how="left", maintain_order="left").with_columns(
        correlation=pl.when(lost).then(fresh).otherwise("correlation")
    )


def _launch_event() -> pl.Expr:
    driver = pl.col("name").str.contains(r'^"cu[A-Z]')
    category = pl.when(driver).then(_word("cuda_driver")).otherwise(_word("cuda_runtime"))
    args = {"correlation": _whole("correlation"), "External id": _whole("external_id")}
    return event(_span(category), args)


def _ops(part: Part) -> Block:
    ops = part.tables["ops"]
    rows = _on_threads(part, ops).with_columns(
        *(embedded(ops[c]).alias(c) for c in _INPUTS.values()),
        forward=_forward_thread(ops),
    )
    args = {
        "External id": _whole("external_id"),
        "Sequence number": _whole("sequence"),
        "Fwd thread id": _whole("forward"),
        **{name: pl.col(c) for name, c in _INPUTS.items()},
    }
    return Block(rows, event(_span(_word("cpu_op")), args))


def _forward_thread(ops: pl.DataFrame) -> pl.Series:
    """Number the forward thread of backward operators, which tells them from recomputed ones.

    Which thread it was is not in the tables: 1 is the profiler's first.
    """
    is_node = ops["name"].cast(pl.String).str.starts_with(phases.BACKWARD_NODE)
    backward = phases.Cover(ops.filter(is_node))
    inside = backward.holds(ops["thread"].to_numpy(), ops["start_ns"].to_numpy())
    own = ops["sequence"].is_not_null() & (ops["phase"] != "recomputation")
    return pl.select(pl.when(own & pl.Series(inside, dtype=pl.Boolean)).then(1)).to_series()


def _frames(part: Part) -> Block:
    rows = _on_threads(part, part.tables["frames"])
    module = pl.when(pl.col("module").is_not_null()).then(pl.lit("0"))
    args = {
        "Python id": (pl.col("id").cast(pl.Int64) + 1).cast(pl.String),
        "Python parent id": (pl.col("parent").cast(pl.Int64) + 1).cast(pl.String),
        "Python module id": module,
    }
    return Block(rows, event(_span(_word("python_function")), args))


def _memory(part: Part) -> Block:
    """Write allocations on the thread of their operator, the rest where no operator was running."""
    rows = part.tables["memory"].with_columns(
        name=pl.lit("[memory]"), thread=_memory_threads(part.tables, len(part.meta.threads))
    )
    rows = _on_threads(part, rows).with_columns(
        pl.col("pid").fill_null("0"), pl.col("tid").fill_null(_word("thread not recorded"))
    )
    args = {
        "Device Type": pl.when(pl.col("device").is_null()).then(_lit(0)).otherwise(_lit(1)),
        "Device Id": _whole("device").fill_null("-1"),
        "Addr": _whole("address"),
        "Bytes": _whole("bytes"),
        "Total Allocated": _whole("total_allocated"),
        "Total Reserved": _whole("total_reserved"),
    }
    place = {n: pl.col(n) for n in ("name", "pid", "tid")}
    kind = {"ph": _word("i"), "cat": _word("cpu_instant_event"), "s": _word("t")}
    return Block(rows, event({**kind, **place, "ts": _at("t_ns")}, args))


def _memory_threads(tables: dict[str, pl.DataFrame], threads: int) -> pl.Series:
    """Return a thread for each allocation that gives it its operator, or none, when read back."""
    ops = tables["ops"]
    memory = tables["memory"].join(
        ops.select("thread", op="id"), on="op", how="left", maintain_order="left"
    )
    at, thread = memory["t_ns"].to_numpy(), memory["thread"].fill_null(-1).to_numpy().copy()
    start = ops["start_ns"].to_numpy()
    nested = nesting.nest(ops["thread"].to_numpy(), start, start + ops["dur_ns"].to_numpy())
    for k in range(min(threads, _MOST_THREADS)):
        open_ = np.flatnonzero(thread < 0)
        if not len(open_):
            break
        running = nesting.innermost(nested, np.full(len(open_), k), at[open_])
        thread[open_[running == nesting.NONE]] = k
    return pl.select(pl.when(pl.Series(thread) >= 0).then(pl.Series(thread))).to_series()


def _lit(value: int) -> pl.Expr:
    return pl.lit(str(value))


def _counters(part: Part) -> Block:
    counters = part.tables["counters"]
    rows = counters.with_columns(
        quoted(counters["name"]).alias("name"),
        quoted(counters["unit"]).alias("unit"),
        pid=_whole("device").fill_null("0"),
    )
    field = pl.concat_str(pl.lit("{"), pl.col("unit").fill_null('"value"'), pl.lit(":"))
    args = pl.concat_str(field, number(pl.col("value")).fill_null("null"), pl.lit("}"))
    place = {"name": pl.col("name"), "pid": pl.col("pid"), "ts": _at("t_ns")}
    return Block(rows, event({"ph": _word("C"), **place, "args": args}))


# ---- the device -----------------------------------------------------------------------------


def _with_lanes(part: Part) -> pl.DataFrame:
    """Return the device's work with `track`, the number of the track that shows it."""
    work = device_work(part)
    marks = part.tables["ranges"].filter(pl.col("thread").is_null())
    work = work.with_columns(lanes.pack(work, marks))
    sub = work.filter(pl.col("lane") > 0).select("device", "stream", "lane").unique()
    sub = sub.sort("device", "stream", "lane").with_columns(
        track=pl.int_range(pl.len(), dtype=pl.Int64)
        + max(_FIRST_LANE, 1 + int(work["stream"].max() or 0))  # type: ignore[call-overload]
    )
    work = work.join(
        sub, on=["device", "stream", "lane"], how="left", maintain_order="left", nulls_equal=True
    )
    return work.with_columns(pl.coalesce("track", "stream"))


def _linked(part: Part, work: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Add what an activity's launch, operator and collective say of it."""
    calls = launches.select(
        "correlation", launch="id", call_pid="pid", call_tid="tid", call_ns="start_ns"
    )
    ops = part.tables["ops"].select("external_id", op="id")
    held = part.tables["collectives"].drop_nulls("activity").unique("activity", keep="first")
    held = held.select(*_COMMUNICATION.values(), id="activity")
    texts = [quoted(held[c]).alias(c) for c in ("requested", "group", "dtype")]
    held = held.with_columns(*texts, embedded(held["members"]).alias("members"))
    for other, key in ((calls, "launch"), (ops, "op"), (held, "id")):
        work = work.join(other, on=key, how="left", maintain_order="left")
    return _on_tracks(work).with_columns(tid=_whole("track").fill_null('"unknown stream"'))


def _activities(part: Part, work: pl.DataFrame) -> Block:
    category = pl.col("kind").cast(pl.String).replace_strict(_CATEGORY, default="kernel")
    percent = pl.col("occupancy").cast(pl.Float64) * 100
    args = {
        "device": _whole("device"),
        "stream": _whole("stream"),
        "correlation": _whole("correlation"),
        "External id": _whole("external_id"),
        "graph node id": _whole("graph_node"),
        "grid": triple(pl.col("grid")),
        "block": triple(pl.col("block")),
        "registers per thread": _whole("registers"),
        "shared memory": _whole("shared_bytes"),
        "est. achieved occupancy %": number(_short(percent)),
        "bytes": _whole("bytes"),
        **{name: _whole(column) for name, column in _COMMUNICATION.items()},
    }
    return Block(work, event(_span(_word_of(category)), args))


def _word_of(column: pl.Expr) -> pl.Expr:
    return pl.concat_str(pl.lit('"'), column, pl.lit('"'))


def _short(percent: pl.Expr) -> pl.Expr:
    """Round to four decimals where a reader still gets the very same 32-bit share."""
    rounded = percent.round(4)
    same = (rounded / 100).cast(pl.Float32) == (percent / 100).cast(pl.Float32)
    return pl.when(same).then(rounded).otherwise(percent)


def _device_ranges(part: Part) -> Block:
    rows = _on_tracks(part.tables["ranges"].filter(pl.col("thread").is_null()))
    return Block(rows, event(_span(_word("gpu_user_annotation"))))


def _flows(work: pl.DataFrame) -> Iterator[Block]:
    """Draw an arrow from each launch to each of its activities."""
    linked = work.filter(pl.col("call_ns").is_not_null())
    arrow = {
        "cat": _word(_FLOW),
        "name": _word(_FLOW),
        "id": (pl.col("id").cast(pl.Int64) + 1).cast(pl.String),
    }
    at_call = {"pid": pl.col("call_pid"), "tid": pl.col("call_tid"), "ts": _at("call_ns")}
    at_work = {"pid": pl.col("pid"), "tid": pl.col("tid"), "ts": _at(), "bp": _word("e")}
    yield Block(linked, event({"ph": _word("s"), **arrow, **at_call}))
    yield Block(linked, event({"ph": _word("f"), **arrow, **at_work}))


# ---- names ----------------------------------------------------------------------------------


def _metadata(part: Part, work: pl.DataFrame) -> Iterator[Block]:
    """Name processes and tracks, and put the host before the devices."""
    rows = [*_host_names(part), *_device_names(part, work)]
    frame = pl.DataFrame(rows, schema=["kind", "pid", "tid", "field", "value"], orient="row")
    args = pl.concat_str(pl.lit("{"), "field", pl.lit(":"), "value", pl.lit("}"))
    place = {"name": pl.col("kind"), "pid": pl.col("pid"), "tid": pl.col("tid")}
    if rows:
        yield Block(frame, event({"ph": _word("M"), **place, "args": args}))


def _names(pid: str, tid: str, what: str, name: str | None, place: int) -> Iterator[tuple[str, ...]]:
    if name is not None:
        yield f'"{what}_name"', pid, tid, '"name"', _plain(name)
    yield f'"{what}_sort_index"', pid, tid, '"sort_index"', str(place)


def _host_names(part: Part) -> Iterator[tuple[str, ...]]:
    threads = part.meta.threads
    for place, pid in enumerate(dict.fromkeys(t.pid for t in threads)):
        yield from _names(_plain(pid), "0", "process", f"host process {pid}", place)
    for place, thread in enumerate(threads):
        yield from _names(_plain(thread.pid), _plain(thread.tid), "thread", thread.name, place)


def _device_names(part: Part, work: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    known = {d.index: d.name for d in part.meta.devices}
    kind = part.meta.device_kind
    for device in work["device"].drop_nulls().unique().sort().to_list():
        name = f"{kind} device {device}" + (f": {known[device]}" if known.get(device) else "")
        yield from _names(str(device), "0", "process", name, 1000 + device)
    tracks = work.select("device", "stream", "lane", "track").unique().drop_nulls()
    for place, row in enumerate(tracks.sort("device", "stream", "lane").iter_rows()):
        device, stream, lane, track = row
        name = f"stream {stream}" + (f" ({lane + 1})" if lane else "")
        yield from _names(str(device), str(track), "thread", name, place)
