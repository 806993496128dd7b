"""Which dimension of parallelism a process group serves, by the description its program gave it."""

from __future__ import annotations

import re

import polars as pl

from workbench.trace.core import Trace

DIMENSIONS = {
    "tensor": ("tp", "tensor"),
    "sequence": ("sp", "sequence", "ulysses"),
    "context": ("cp", "context"),
    "pipeline": ("pp", "pipeline", "pipe"),
    "expert": ("ep", "expert", "moe"),
    "data": ("dp", "ddp", "fsdp", "data", "replicate", "shard"),
}
"""Words of a description that name a dimension.

Sources: PyTorch's DeviceMesh describes its groups as `mesh_` and the dimension's name, of which
torchtitan uses pp, dp_replicate, dp_shard, cp, tp, ep; Megatron-Core's parallel_state.py describes
them as TENSOR_MODEL_PARALLEL_GROUP, PIPELINE_…, DATA_…, CONTEXT_…, EXPERT_….
"""
WORLD = "world"
"""The group of all ranks, as far as its description says nothing else."""
_DEFAULT = "default_pg"
_WORD = re.compile(r"[a-z]+")


def dimension(description: str | None) -> str | None:
    """Return the dimensions that a description names, joined by `+`; null when it names none."""
    if description is None:
        return None
    if description == _DEFAULT:
        return WORLD
    words = set(_WORD.findall(description.lower()))
    found = [name for name, known in DIMENSIONS.items() if words & set(known)]
    return "+".join(found) or None


def dimensions(trace: Trace) -> pl.DataFrame:
    """Return `group dimension` of a trace's process groups; those without a known one are left out.

    A group that holds every rank and says nothing of its purpose is the `world`.
    """
    world = trace.meta.world_size
    rows = {}
    for group in trace.meta.groups:
        whole = WORLD if world and len(group.ranks) == world > 1 else None
        rows[group.name] = dimension(group.description) or whole
    known = [{"group": g, "dimension": d} for g, d in rows.items() if d]
    return pl.DataFrame(known, schema={"group": pl.String(), "dimension": pl.String()})
