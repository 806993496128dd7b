"""What `workbench show` can print: every analysis and every table, by name.

Names of analyses come first; a table of the same name is reached as `table:NAME`.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.analysis import needs, summary
from workbench.errors import UsageError, unknown_name
from workbench.trace import schema
from workbench.trace.core import Job, Source

if TYPE_CHECKING:
    from collections.abc import Callable

ANALYSES = {
    "summary": "workbench.analysis.summary",
    "breakdown": "workbench.analysis.breakdown",
    "idle": "workbench.analysis.idle",
    "idle_causes": "workbench.analysis.idle",
    "waterfall": "workbench.analysis.waterfall",
    "waterfall_mean": "workbench.analysis.waterfall",
    "input": "workbench.analysis.data_wait",
    "gc": "workbench.analysis.garbage",
    "steps": "workbench.analysis.steps",
    "kernels": "workbench.analysis.kernels",
    "ops": "workbench.analysis.ops",
    "overlap": "workbench.analysis.overlap",
    "exposed": "workbench.analysis.overlap",
    "collectives": "workbench.analysis.collectives",
    "roofline": "workbench.analysis.roofline",
}
_FUNCTIONS = {"input": "input_wait"}
"""Analyses whose function can't have their name: `input` is a builtin."""
TABLE = "table:"
_FLAGS = {"window": "--window", "step": "--step", "rank": "--rank", "device": "--device"}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What part of a source to look at; None leaves it to the analysis."""

    window: str | None = None
    step: tuple[int, int] | None = None
    rank: int | None = None
    device: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the options that were given."""
        return {n: v for n in _FLAGS if (v := getattr(self, n)) is not None}


def names() -> list[str]:
    """Return every name that can be shown."""
    tables = [t if t not in ANALYSES else TABLE + t for t in schema.TABLES]
    return [*ANALYSES, *tables]


def frame(source: Source, name: str, choice: Choice) -> pl.DataFrame:
    """Return an analysis or a table of a source.

    Raises
    ------
    UsageError
        An unknown name, or an option that this name does not take.
    """
    if name in ANALYSES:
        return _analysis(source, name, choice)
    table = name.removeprefix(TABLE)
    if table not in schema.TABLES:
        raise unknown_name("table or analysis", name, names())
    return _table(source, table, choice)


def _analysis(source: Source, name: str, choice: Choice) -> pl.DataFrame:
    module = importlib.import_module(ANALYSES[name])
    question: Callable[..., pl.DataFrame] = getattr(module, _FUNCTIONS.get(name, name))
    taken = inspect.signature(question).parameters
    for option in choice.given():
        if option not in taken:
            raise UsageError(f"{name} does not take {_FLAGS[option]}; leave it out.")
    if "ceilings" not in taken:
        return question(source, **choice.given())
    from workbench.costs.ceilings import recorded_here

    return question(source, **choice.given(), ceilings=recorded_here(source))


def about(source: Source, name: str, choice: Choice) -> dict[str, Any]:
    """Return what stands beside a name's rows: the source, the window, coverage for a roofline."""
    options = choice.given()
    window = options.get("window", "steps")
    meta = summary.meta(source, window=window, rank=choice.rank, device=choice.device)
    if name == "roofline":
        covered = importlib.import_module(ANALYSES[name]).coverage(source, **options)
        meta["coverage"] = covered.to_dicts()
    if name in ANALYSES:
        lacking = needs.unmet(source, needs.of(ANALYSES[name]))
        meta["reason"] = "; ".join(str(r) for r in (meta["reason"], *lacking) if r) or None
    return meta


def brief(meta: dict[str, Any]) -> dict[str, Any]:
    """Return what of it a person needs beside a printed table."""
    notes = {"window": meta["window"], "reason": meta["reason"]}
    if "generated" in meta["producer"]:
        notes["generated"] = f"{meta['producer']['generated']}; no recording of a real device"
    if meta["truncated"]:
        notes["truncated"] = "yes: the recording was cut short, totals are partial"
    for row in meta.get("coverage", []):
        known = "no" if row["coverage_pct"] is None else f"{row['coverage_pct']:.1f} % of its"
        where = "" if row["rank"] is None else f" of rank {row['rank']}"
        notes[f"coverage{where}"] = f"{known} time with recorded shapes has a FLOP or byte model"
    return notes


def _table(source: Source, table: str, choice: Choice) -> pl.DataFrame:
    for option in ("window", "step"):
        if option in choice.given():
            raise UsageError(f"The table {table} does not take {_FLAGS[option]}; leave it out.")
    found = source.table(table) if isinstance(source, Job) else getattr(source.ranks[0], table)
    for column in ("rank", "device"):
        wanted = getattr(choice, column)
        if wanted is None:
            continue
        if column not in found.columns:
            raise UsageError(f"The table {table} has no {column}, so {_FLAGS[column]} is no use.")
        found = found.filter(pl.col(column) == wanted)
    return found


def arrange(
    found: pl.DataFrame, *, top: int | None, sort: str | None, columns: str | None
) -> pl.DataFrame:
    """Sort (numbers from the largest, text by the alphabet), cut to `top` rows, pick columns."""
    if sort is not None:
        _known(found, sort)
        found = found.sort(
            sort, descending=found.schema[sort].is_numeric(), nulls_last=True, maintain_order=True
        )
    if top is not None:
        if top < 0:
            raise UsageError(f"--top {top} is no count of rows; give 0 or more.")
        found = found.head(min(top, found.height))
    if columns is not None:
        wanted = list(dict.fromkeys(c.strip() for c in columns.split(",") if c.strip()))
        if not wanted:
            raise UsageError("--columns names no column; give some, as in --columns name,count.")
        for column in wanted:
            _known(found, column)
        found = found.select(wanted)
    return found


def _known(found: pl.DataFrame, column: str) -> None:
    if column not in found.columns:
        raise unknown_name("column", column, found.columns)


def step_range(text: str) -> tuple[int, int]:
    """Read `A:B` (both included) or `A`; anything else is a UsageError."""
    first, colon, last = text.partition(":")
    try:
        low, high = int(first), int(last if colon else first)
    except ValueError:
        raise UsageError(f"--step {text} is not A:B or A, as in --step 3:5.") from None
    if high < low:
        raise UsageError(f"--step {text} ends before it begins; did you mean {high}:{low}?")
    return low, high
