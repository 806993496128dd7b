"""What one training step of a run works on: tokens, samples and the model's shape.

A trace does not say; run.json of our run folders does, for the project's own workloads.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from workbench import workloads
from workbench.capture import folder
from workbench.costs.transformer import TransformerConfig
from workbench.errors import InputError, UsageError
from workbench.trace.core import Source

NOT_TOLD = "the run does not say what a step works on (run.json of a recorded workload does)"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """A step's work on one rank; None: not known."""

    config: TransformerConfig | None = None
    tokens: int | None = None
    samples: int | None = None
    """Sequences, images, …: what a batch is made of."""


def recorded(source: Source) -> StepWork | None:
    """Return what run.json beside a source tells; None without one, or one that cannot be used.

    Runs recorded before the shape was written there are read by their workload's spec.
    """
    try:
        told = folder.read_manifest(source.ranks[0].meta.path.parent)
    except InputError:
        return None
    config = _config(told)
    tokens = _count(told.get("tokens_per_step_and_rank"))
    samples = _count(told.get("samples_per_step_and_rank"))
    if samples is None and config is not None and tokens is not None:
        samples = tokens // config.seq_len
    return StepWork(config=config, tokens=tokens, samples=samples)


def _config(told: dict[str, Any]) -> TransformerConfig | None:
    """Build the shape from fields of plain numbers; anything else in them makes it unknown."""
    shape = told.get("transformer") or _of_spec(told)
    if not isinstance(shape, dict) or not all(_fits(n, v) for n, v in shape.items()):
        return None
    try:
        return TransformerConfig(**shape)
    except (TypeError, UsageError):
        return None


_TYPES = {"int": int, "int | None": int, "bool": bool}
_FIELDS = {f.name: _TYPES.get(str(f.type)) for f in fields(TransformerConfig)}
"""What a manifest may say: counts, and whether there is something; nothing that has parts."""
MOST = 10**12
"""More layers, heads or tokens than this are damage."""


def _fits(name: str, value: object) -> bool:
    return type(value) is _FIELDS.get(name) and int(value) <= MOST  # type: ignore[call-overload]


def _of_spec(told: dict[str, Any]) -> object:
    try:
        spec = workloads.get(told["workload"]).spec(told["spec"])
    except (KeyError, TypeError, ValueError, UsageError):
        return None
    shape = getattr(spec, "transformer", None)
    return None if shape is None else shape()


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 < value <= MOST else None
