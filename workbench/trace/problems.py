"""Faults met while reading: each kind once, with its count and what it means for the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import polars as pl

from workbench.trace import schema


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of fault; the fields are the columns of the `problems` table."""

    code: str
    count: int
    first_example: str
    effect: str


def table(problems: Sequence[Problem]) -> pl.DataFrame:
    """Return the `problems` table."""
    return pl.DataFrame([asdict(p) for p in problems], schema=schema.polars_schema("problems"))
