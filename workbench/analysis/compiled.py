"""What torch.compile leaves in a recording: marks on host threads, and kernels of its making."""

from __future__ import annotations

import re

import polars as pl

from workbench.trace import nesting
from workbench.trace.core import Trace
from workbench.trace.names import matching
from workbench.trace.nesting import NONE

REGION = re.compile(r"^Torch-Compiled Region: (\d+)/(\d+)")
KERNEL, OVERHEAD = "kernel", "overhead"
_MARKS = (
    ("region", re.compile(r"^Torch-Compiled Region")),
    ("graph", re.compile(r"^(## Call )?CompiledFxGraph")),
    ("function", re.compile(r"^CompiledFunction(Backward)?$")),
    (OVERHEAD, re.compile(r"^(TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher )")),
)
"""By the names of torch/_dynamo/utils.py, convert_frame.py, torch/_functorch/_aot_autograd and
torch/_inductor/codecache.py."""
KINDS = (*(kind for kind, _ in _MARKS), KERNEL)
_INDUCTOR = re.compile(r"^triton_(poi|per|red|tem|unk|mm|bmm|for|foreach|spl)_")
"""Prefixes that Inductor gives its Triton kernels (torch/_inductor/codegen/triton.py)."""


def kind_of(name: str) -> str | None:
    """Return the kind of mark that an operator's or annotation's name is, if any."""
    return next((kind for kind, rule in _MARKS if rule.search(name)), None)


def present(trace: Trace) -> bool:
    """Say whether anything of torch.compile is recorded, overhead apart."""
    if trace.ops["kernel_backend"].count():
        return True
    names = [trace.ops["name"], trace.ranges["name"]]
    if any(matching(n, lambda x: kind_of(x) not in {None, OVERHEAD}).any() for n in names):
        return True
    return bool(matching(trace.activities["name"], is_inductor).any())


def is_inductor(kernel: str) -> bool:
    """Say whether a kernel's name is one that Inductor gives."""
    return bool(_INDUCTOR.match(kernel))


def marks(trace: Trace) -> pl.DataFrame:
    """Return `kind name thread start_ns dur_ns backend file` of every mark."""
    ops = trace.ops.select(
        "name", "thread", "start_ns", "dur_ns", backend="kernel_backend", file="kernel_file"
    )
    host = pl.col("thread").is_not_null() & (pl.col("form") == "nested")
    ranges = trace.ranges.filter(host).select("name", "thread", "start_ns", "dur_ns")
    both = pl.concat([ops, ranges], how="diagonal")
    distinct = both["name"].unique().drop_nulls()
    kinds = {n: k for n in distinct.cast(pl.String) if (k := kind_of(n))}
    named = both["name"].cast(pl.String)
    kind = named.replace_strict(kinds, default=None, return_dtype=pl.String)
    text = [pl.col(c).cast(pl.String) for c in ("backend", "file")]
    made = pl.when(pl.col("backend").is_not_null()).then(pl.lit(KERNEL)).otherwise(kind)
    return both.with_columns(*text, name=named, kind=made).drop_nulls("kind")


def generated(activities: pl.DataFrame, trace: Trace) -> pl.Series:
    """Return the name of each activity that is a generated kernel, null for others."""
    op = nesting.ids(activities["op"])
    backend = trace.ops["kernel_backend"].is_not_null().extend_constant(value=False, n=1)
    by_op = backend[[len(backend) - 1 if i == NONE else i for i in op.tolist()]]
    by_name = matching(activities["name"], is_inductor)
    is_kernel = activities["kind"] == "kernel"
    named = activities["name"].cast(pl.String)
    return pl.select(pl.when(is_kernel & (by_op | by_name)).then(named).alias("name")).to_series()
