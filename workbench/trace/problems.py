"""Faults met while reading: each kind once, with its count and what it means for the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

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


def redacted() -> Problem:
    """Return what a copy without the user's own names says of itself."""
    return Problem(
        code="redacted",
        count=1,
        first_example="workbench redact",
        effect="names that no public list has are pseudonyms, and of Python stacks only the calls "
        "of modules are left",
    )


class Tally:
    """Counts kinds of fault while a file is read; each kind becomes one problem."""

    def __init__(self) -> None:
        self._met: dict[str, Problem] = {}

    def add(self, code: str, count: int, example: str, effect: str) -> None:
        """Count some faults of one kind; the first example and effect of a kind stay."""
        if count:
            before = self._met.get(code)
            self._met[code] = (
                replace(before, count=before.count + count)
                if before
                else Problem(code=code, count=count, first_example=example, effect=effect)
            )

    def problems(self) -> list[Problem]:
        """Return a problem for each kind, in the order of first meeting."""
        return list(self._met.values())
