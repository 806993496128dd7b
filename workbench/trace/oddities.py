"""What is odd about device activities and the calls that launched them, as problems."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from workbench.trace import nesting, schema
from workbench.trace.problems import Problem


def oddities(activities: pl.DataFrame, launches: pl.DataFrame) -> Iterator[Problem]:
    """Describe device activities that were read but have something wrong with them.

    `activities` are ordered by start and linked; `launches` have `recorded`, whether an activity
    carries their correlation. Nothing is taken out: each problem says what it means.
    """
    yield from _without_device(activities)
    yield from _without_launch(activities, launches)
    yield from _inverted(activities, launches)
    yield from _overlapping(activities)
    if (launches["kind"] == "graph_launch").any():
        yield from _graphs_without_kernels(launches)
        yield from _graphs_with_fewer_kernels(activities, launches)


def _without_device(activities: pl.DataFrame) -> Iterator[Problem]:
    if activities["device"].null_count():
        lost = activities.filter(pl.col("device").is_null())
        yield Problem(
            code="device_unknown",
            count=lost.height,
            first_example=_name(lost),
            effect="their device number cannot be read; they stand by themselves, as a device "
            "without a number",
        )


def _without_launch(activities: pl.DataFrame, launches: pl.DataFrame) -> Iterator[Problem]:
    """Only where launches were recorded at all: without any, nobody expects a link."""
    any_expected = launches["kind"].is_in(schema.LAUNCH_TYPE_KINDS).any()
    if any_expected and activities["launch"].null_count():
        lost = activities.filter(pl.col("launch").is_null())
        milliseconds = lost["dur_ns"].sum() / 10**6
        yield Problem(
            code="launch_missing",
            count=lost.height,
            first_example=_name(lost),
            effect=f"the calls that launched them were not recorded; their step and phase are "
            f"unknown ({milliseconds:.3f} ms)",
        )


def _inverted(activities: pl.DataFrame, launches: pl.DataFrame) -> Iterator[Problem]:
    row = nesting.ids(activities["launch"])
    early_ns = nesting.gathered(launches["start_ns"], row) - activities["start_ns"]
    early = (early_ns > 0).fill_null(value=False)
    if early.any():
        first = int(early.arg_max() or 0)
        yield Problem(
            code="clock_inversion",
            count=int(early.sum()),
            first_example=f"{activities['name'][first]} begins {early_ns[first]} ns before "
            f"{launches['name'][int(row[first])]}",
            effect="the clocks of host and device differ; the queue time of these is unknown",
        )


def _overlapping(activities: pl.DataFrame) -> Iterator[Problem]:
    """Find records that begin before another of their stream ends; one of no length does not."""
    end = pl.col("start_ns") + pl.col("dur_ns")
    reach = end.cum_max().shift(1).over("device", "stream")
    found = activities.select(
        "name", "stream", "dur_ns", too_early_ns=reach - pl.col("start_ns")
    ).filter((pl.col("too_early_ns") > 0) & (pl.col("dur_ns") > 0) & pl.col("stream").is_not_null())
    if found.height:
        first = found.row(0, named=True)
        yield Problem(
            code="same_stream_overlap",
            count=found.height,
            first_example=f"{first['name']} begins {first['too_early_ns']} ns before another "
            f"record of stream {first['stream']} ends",
            effect="all are kept; busy time is a union, so nothing counts twice",
        )


def _graphs_without_kernels(launches: pl.DataFrame) -> Iterator[Problem]:
    empty = launches.filter((pl.col("kind") == "graph_launch") & ~pl.col("recorded"))
    if empty.height:
        all_of_them = launches.filter(pl.col("kind") == "graph_launch").height
        yield Problem(
            code="graph_kernels_missing",
            count=empty.height,
            first_example=f"{_name(empty)} at {empty['start_ns'][0]} ns",
            effect=f"no activity of {empty.height} of {all_of_them} graph launches was recorded, "
            "so device times are too low; run the profiler once before graphs are captured",
        )


def _graphs_with_fewer_kernels(
    activities: pl.DataFrame, launches: pl.DataFrame
) -> Iterator[Problem]:
    """Compare launches that share a node, which are replays of one graph."""
    graphs = launches.filter(pl.col("kind") == "graph_launch").select(launch="id", call="name")
    nodes = activities.select("launch", "graph_node").drop_nulls().unique(maintain_order=True)
    nodes = nodes.join(graphs, on="launch", maintain_order="left")
    size = pl.len().over("launch")
    nodes = nodes.with_columns(size=size).with_columns(full=pl.col("size").max().over("graph_node"))
    fewer = nodes.filter(pl.col("full") > pl.col("size")).unique(
        "launch", keep="first", maintain_order=True
    )
    if fewer.height:
        first = fewer.row(0, named=True)
        yield Problem(
            code="graph_kernels_partial",
            count=fewer.height,
            first_example=f"{first['call']}: {first['size']} of {first['full']} nodes",
            effect="some activities of these graph launches were not recorded, or their branches "
            "did not run; device times may be too low",
        )


def _name(frame: pl.DataFrame) -> str:
    return str(frame["name"][0])
