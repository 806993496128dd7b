"""Operators that PyTorch marks as NVTX or roctx ranges (`torch.autograd.profiler.emit_nvtx`).

A range is named after the operator, with what is known of it: `aten::mm, seq = 12, op_id = 3,
sizes = [[2, 3], [3, 4]], input_op_ids = [(1, 0)]`. Source: `getNvtxStr` of torch's profiler.
"""

from __future__ import annotations

import polars as pl

from workbench.trace import raw
from workbench.trace.families import range_domain
from workbench.trace.phases import BACKWARD_NODE
from workbench.trace.records import shaped

_MARKED = r", (seq|op_id|sizes) = "
_PARTS = (
    r"(?s)^(?P<op>.*?)(?:, seq = (?P<sequence>\d{1,18}))?(?:, op_id = (?P<external_id>\d{1,18}))?"
    r"(?:, sizes = (?P<input_dims>\[.*?\]))?(?:, input_op_ids = .*)?$"
)
_PLAIN = r"^(aten|c10d|autograd::engine)::"
"""Operators that bear no number: only namespaces that a program doesn't name its own ranges by."""


def split(ranges: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Part ranges into operators and the rest, both as bare tables.

    Takes `name domain form thread process start_ns dur_ns`, texts not yet categories and the domain
    null where the program named none; that is then told by the name, as elsewhere. Marks,
    start/end ranges, ranges of named domains and what the profiler counts as annotations (steps,
    `nccl:*`) are no operators.
    """
    text = pl.col("name")
    own = pl.col("form").eq("nested") & pl.col("domain").is_null()
    marked = own & text.str.contains(_MARKED)
    parts = ranges.filter(marked).with_columns(text.str.extract_groups(_PARTS).alias("parts"))
    parts = parts.unnest("parts").with_columns(name="op")
    rest = ranges.filter(~marked)
    both = pl.concat(
        [parts.with_columns(numbered=True), rest.with_columns(numbered=False)], how="diagonal"
    )
    domains = {n: range_domain(n) for n in both.filter(pl.col("domain").is_null())["name"].unique()}
    by_name = text.replace_strict(domains, default=None, return_dtype=pl.String)
    both = both.with_columns(
        pl.col("domain").fill_null(by_name),
        operator=own & (by_name == "user") & (pl.col("numbered") | text.str.contains(_PLAIN)),
    )
    ops = _with_backward(both.filter("operator"))
    return shaped(raw.OPS, ops), shaped(raw.RANGES, both.filter(~pl.col("operator")))


def _with_backward(ops: pl.DataFrame) -> pl.DataFrame:
    """Mark backward operators by the thread of their forward partner, as the profiler does.

    A backward node runs inside `autograd::engine::evaluate_function: NODE` under its own name and
    bears its partner's sequence number, which counts by thread. Where not just one thread used that
    number its thread is unknown: a negative one of its own, so that it is no other operator's.
    """
    node = pl.col("name").str.strip_prefix(f"{BACKWARD_NODE}: ")
    evaluated = pl.col("name").str.starts_with(BACKWARD_NODE)
    nodes = ops.filter(evaluated).select(node.unique()).to_series()
    backward = evaluated | pl.col("name").is_in(nodes.implode())
    ops = ops.with_columns(
        pl.col("sequence", "external_id").cast(pl.Int64), backward.alias("backward")
    )
    partner = (
        ops.filter(~pl.col("backward"), pl.col("sequence").is_not_null())
        .group_by("process", "sequence")
        .agg(partner=pl.col("thread").unique())
        .filter(pl.col("partner").list.len() == 1)
        .with_columns(pl.col("partner").list.first().cast(pl.Int64) + 1)
    )
    ops = ops.join(
        partner,
        on=["process", "sequence"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    unknown = -1 - pl.int_range(pl.len())
    return ops.with_columns(
        forward_thread=pl.when("backward").then(pl.col("partner").fill_null(unknown))
    )
