"""What one operator call needs, and the conventions by which its FLOPs are counted.

A multiply-add is 2 FLOPs. By default biases and elementwise epilogues of a product are not counted,
and causal attention counts the unmasked half. Other tools count otherwise: a call keeps the parts
in doubt apart, so that every convention is a choice of parts of one formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from workbench.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.costs.shapes import Call

    Model = Callable[[Call], "Cost"]

UNITS = ("matrix", "vector", "special", "memory")
"""Tensor cores and their like; ordinary arithmetic units; units for exp, erf, sqrt; none: it only
moves data."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Floating-point operations, compulsory bytes, and the unit that works; None: not known."""

    flops: int | None
    read_bytes: int | None
    write_bytes: int | None
    precision: str
    unit: str
    """One of `UNITS`."""
    model: str
    """The family of the formula: matmul, convolution, norm, …; `view` moves nothing."""
    epilogue_flops: int = 0
    """Adds of a bias and the like, not in `flops`."""
    masked_flops: int = 0
    """Work on query-key pairs that a causal mask drops, not in `flops`."""
    recomputed_flops: int = 0
    """The part of `flops` that computes again what the forward pass had (scores in a fused
    attention's backward)."""
    unknown: str | None = None
    """Why a count is None, where one is."""


SCHEMA = pl.Schema(
    {
        "op": pl.UInt32(),
        "flops": pl.Int64(),
        "read_bytes": pl.Int64(),
        "write_bytes": pl.Int64(),
        "precision": pl.String(),
        "unit": pl.String(),
        "model": pl.String(),
    }
)
"""Columns of a table of costs: an operator's id, and what it needs; null: not known."""


@dataclass(frozen=True, slots=True)
class Convention:
    """Which parts count as FLOPs, with the sentence that stands beside a figure."""

    says: str
    epilogue: bool = False
    masked: bool = False
    recomputed: bool = True

    def flops(self) -> pl.Expr:
        """Return FLOPs by this convention, from the columns of a table of costs."""
        parts = pl.col("flops")
        if self.epilogue:
            parts += pl.col("epilogue_flops")
        if self.masked:
            parts += pl.col("masked_flops")
        return parts if self.recomputed else parts - pl.col("recomputed_flops")


CONVENTIONS = {
    "default": Convention(
        "2 per multiply-add; no bias or epilogue; causal attention counts the unmasked half"
    ),
    "model": Convention(
        "as default, without the scores that a fused attention's backward computes again",
        recomputed=False,
    ),
    "epilogues": Convention("as default, with biases and epilogues", epilogue=True),
    "full_attention": Convention("as default, with masked query-key pairs", masked=True),
    "tracelens": Convention("as TraceLens counts: with biases; causal halved", epilogue=True),
}


def convention(name: str) -> Convention:
    """Return a convention by name; an unknown one raises with the closest names."""
    if name not in CONVENTIONS:
        raise unknown_name("convention", name, CONVENTIONS)
    return CONVENTIONS[name]
