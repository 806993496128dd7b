"""What `workbench compare A B` prints: the rows, and what is said beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from workbench import show
from workbench.analysis import compare
from workbench.trace.open import open_source


def compared(
    a: Path, b: Path, *, step: str | None, rank: int | None, kind: str | None
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Open two recordings and return the rows of one kind, or of all, with what they are of.

    `step` is text as on the command line: `A:B`, both included, or `A`.
    """
    chosen = None if step is None else show.step_range(step)
    left, right = open_source(a), open_source(b)
    found = compare.compare(left, right, step=chosen, rank=rank)
    basis = compare.basis(left, right, chosen, rank)
    meta = {
        "a": f"{a.name}, {basis['a']}",
        "b": f"{b.name}, {basis['b']}",
        "verdict": compare.verdict(found),
    }
    return (found if kind is None else compare.of_kind(found, kind)), meta
