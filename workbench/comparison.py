"""What `workbench compare A B` prints: the rows, and what is said beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from workbench import show
from workbench.analysis import compare
from workbench.errors import UsageError
from workbench.trace.open import open_source


def compared(
    a: Path, b: Path, *, step: str | None, rank: int | None, kind: str | None, top: int | None
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Open two recordings and return the rows of one kind, or of all, with what they are of.

    `step` is text as on the command line: `A:B`, both included, or `A`. `top` rows are kept of each
    kind, those that changed most.
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
    found = found if kind is None else compare.of_kind(found, kind)
    if top is not None:
        if top < 0:
            raise UsageError(f"--top {top} is no count of rows; give 0 or more.")
        found = found.filter(pl.int_range(pl.len()).over("rank", "device", "kind") < top)
    return found, meta


def brief(meta: dict[str, Any]) -> dict[str, Any]:
    """Return it as a person reads it beside a printed table."""
    return meta | {"verdict": "; ".join(meta["verdict"])}
