"""What devices did, as events: work on its tracks, mirrored ranges, arrows, counters."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from workbench.trace.write import lanes
from workbench.trace.write.part import Part, device_work
from workbench.trace.write.shared import Block, at, digits, largest, span, word
from workbench.trace.write.text import embedded, event, number, quoted, triple

_FIRST_LANE = 1_000_000
"""Track number of the first sub-lane; larger than that of any stream that has a sub-lane."""
_CATEGORY = {"kernel": "kernel", "collective": "kernel", "copy": "gpu_memcpy", "set": "gpu_memset"}
_FLOW = "ac2g"
_DEVICE_DOMAINS = ("cuda_sync", "cuda_profiler_range", "mtia_ccp_events")
"""Domains of device ranges that are the category they were read from."""
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


def with_lanes(part: Part) -> pl.DataFrame:
    """Return the device's work with `track`, the number of the track that shows it."""
    work = device_work(part)
    marks = part.tables["ranges"].filter(pl.col("thread").is_null())
    work = work.with_columns(lanes.pack(work, marks))
    sub = work.filter(pl.col("lane") > 0).select("device", "stream", "lane").unique()
    sub = sub.sort("device", "stream", "lane").with_columns(
        track=pl.int_range(pl.len()) + max(_FIRST_LANE, 1 + largest(work["stream"]))
    )
    work = work.join(
        sub, on=["device", "stream", "lane"], how="left", maintain_order="left", nulls_equal=True
    )
    return work.with_columns(pl.coalesce("track", "stream"))


def _on_tracks(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `pid` and `tid` of device tracks as text, and names as JSON strings."""
    return rows.with_columns(
        quoted(rows["name"]).alias("name"),
        pid=digits("device").fill_null('"unknown device"'),
        tid=digits("stream").fill_null('"unknown stream"'),
    )


def linked(part: Part, work: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
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
    return _on_tracks(work).with_columns(tid=digits("track").fill_null('"unknown stream"'))


def activities(work: pl.DataFrame) -> Block:
    """Write kernels, copies and sets; a sub-lane is a track, and the true stream stays in args."""
    category = pl.col("kind").cast(pl.String).replace_strict(_CATEGORY, default="kernel")
    percent = pl.col("occupancy").cast(pl.Float64) * 100
    args = {
        "device": digits("device"),
        "stream": digits("stream"),
        "correlation": digits("correlation"),
        "External id": digits("external_id"),
        "graph node id": digits("graph_node"),
        "grid": triple(pl.col("grid")),
        "block": triple(pl.col("block")),
        "registers per thread": digits("registers"),
        "shared memory": digits("shared_bytes"),
        "est. achieved occupancy %": number(_short(percent)),
        "bytes": digits("bytes"),
        **{name: digits(column) for name, column in _COMMUNICATION.items()},
    }
    return Block(work, event(span(_word_of(category)), args))


def _word_of(column: pl.Expr) -> pl.Expr:
    return pl.concat_str(pl.lit('"'), column, pl.lit('"'))


def _short(percent: pl.Expr) -> pl.Expr:
    """Round to four decimals where a reader still gets the very same 32-bit share."""
    rounded = percent.round(4)
    same = (rounded / 100).cast(pl.Float32) == (percent / 100).cast(pl.Float32)
    return pl.when(same).then(rounded).otherwise(percent)


def ranges(part: Part, launches: pl.DataFrame) -> Block:
    """Write annotations that the profiler mirrored onto streams, and recorded waits."""
    rows = _on_tracks(part.tables["ranges"].filter(pl.col("thread").is_null()))
    for column, name in (("launch", "correlation"), ("waits_on_launch", "waits_on_correlation")):
        calls = launches.select(pl.col("id").alias(column), pl.col("correlation").alias(name))
        rows = rows.join(calls, on=column, how="left", maintain_order="left")
    domain = pl.col("domain").cast(pl.String)
    own = pl.when(domain.is_in(_DEVICE_DOMAINS)).then(domain)
    args = {
        "correlation": digits("correlation"),
        "wait_on_stream": digits("waits_on_stream"),
        "wait_on_cuda_event_record_corr_id": digits("waits_on_correlation"),
    }
    return Block(rows, event(span(_word_of(own.fill_null("gpu_user_annotation"))), args))


def flows(work: pl.DataFrame) -> Iterator[Block]:
    """Draw an arrow from each launch to each of its activities."""
    called = work.filter(pl.col("call_ns").is_not_null())
    arrow = {
        "cat": word(_FLOW),
        "name": word(_FLOW),
        "id": (pl.col("id").cast(pl.Int64) + 1).cast(pl.String),
    }
    at_call = {"pid": pl.col("call_pid"), "tid": pl.col("call_tid"), "ts": at("call_ns")}
    at_work = {"pid": pl.col("pid"), "tid": pl.col("tid"), "ts": at(), "bp": word("e")}
    yield Block(called, event({"ph": word("s"), **arrow, **at_call}))
    yield Block(called, event({"ph": word("f"), **arrow, **at_work}))


def counters(part: Part) -> Block:
    """Write samples of counters."""
    table = part.tables["counters"]
    rows = table.with_columns(
        quoted(table["name"]).alias("name"),
        quoted(table.select(pl.format("value ({})", "unit")).to_series()).alias("unit"),
        pid=digits("device").fill_null("-1"),
    )
    field = pl.concat_str(pl.lit("{"), pl.col("unit").fill_null('"value"'), pl.lit(":"))
    args = pl.concat_str(field, number(pl.col("value")).fill_null("null"), pl.lit("}"))
    place = {"name": pl.col("name"), "pid": pl.col("pid"), "ts": at("t_ns")}
    return Block(rows, event({"ph": word("C"), **place, "args": args}))
