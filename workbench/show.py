"""What `workbench show` can print: every analysis and every table, by name.

Names of analyses come first; a table of the same name is reached as `table:NAME`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from workbench.analysis import needs, summary
from workbench.analysis.names import ANALYSES, FUNCTIONS
from workbench.analysis.only import Only
from workbench.errors import UsageError, unknown_name
from workbench.trace import schema
from workbench.trace.core import Job, Source, Trace

TABLE = "table:"
_FLAGS = {
    "window": "--window",
    "step": "--step",
    "rank": "--rank",
    "device": "--device",
    "by": "--by",
    "convention": "--convention",
    "counters": "--counters",
    "hardware": "--hardware",
    "only": "--only",
}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What part of a source to look at; None leaves it to the analysis."""

    window: str | None = None
    step: tuple[int, int] | None = None
    rank: int | None = None
    device: int | None = None
    by: tuple[str, ...] | None = None
    """Columns to group by."""
    convention: str | None = None
    """Name of a way to count FLOPs."""
    counters: Trace | None = None
    """Hardware counters to lay beside the source."""
    hardware: str | None = None
    """A part of the hardware table, or a file that describes one, to hold rates against."""
    only: Only | None = None
    """Part of the work to look at alone."""

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
    question = _question(name)
    taken = inspect.signature(question).parameters
    options = choice.given()
    for option in options:
        if option not in taken:
            raise UsageError(f"{name} does not take {_FLAGS[option]}; leave it out.")
    if "by" in options and str(taken["by"].annotation).startswith("str"):
        if len(options["by"]) != 1:
            raise UsageError(f"{name} is grouped by one thing; give --by one name.")
        (options["by"],) = options["by"]
    beside = {n: find(source) for n, find in _BESIDE.items() if n in taken}
    if "hardware" in options:
        # Roofs that are asked for by name are not to give way to those measured here.
        beside |= {"hardware": _hardware(options.pop("hardware")), "ceilings": None}
    return question(source, **options, **{n: v for n, v in beside.items() if n in taken})


def _hardware(text: str) -> object:
    from workbench.costs.hardware import given

    return given(text)


def _ceilings(source: Source) -> object:
    from workbench.costs.run_roofs import recorded

    return recorded(source)


def _overhead(source: Source) -> object:
    from workbench.capture.overhead import recorded

    return recorded(source.ranks[0].meta.path.parent)


def _remarks(source: Source) -> object:
    from workbench.capture.remarks import recorded

    return recorded(source.ranks[0].meta.path.parent)


def _work(source: Source) -> object:
    from workbench.costs.step_work import recorded

    return recorded(source)


def _power(source: Source) -> object:
    from workbench.capture.power import recorded

    return recorded(source.ranks[0].meta.path.parent)


_NOTED = ("convention", "numerator", "peak", "method", "clock")
"""Sentences that an analysis puts beside its rows, by name."""
_BESIDE: dict[str, Callable[[Source], object]] = {
    "ceilings": _ceilings,
    "overhead": _overhead,
    "remarks": _remarks,
    "work": _work,
    "power": _power,
}
"""What some analyses take besides the source, and where it is found."""


def _question(name: str) -> Callable[..., pl.DataFrame]:
    module = importlib.import_module(ANALYSES[name])
    question: Callable[..., pl.DataFrame] = getattr(module, FUNCTIONS.get(name, name))
    return question


def _window(name: str) -> str:
    """Return the window that a name looks at when none is given."""
    taken = inspect.signature(_question(name)).parameters if name in ANALYSES else {}
    return str(taken["window"].default) if "window" in taken else "steps"


def about(source: Source, name: str, choice: Choice) -> dict[str, Any]:
    """Return what stands beside a name's rows: the source, the window, what its module adds."""
    options = choice.given()
    window = options.get("window", _window(name))
    meta: dict[str, Any] = summary.meta(
        source, window=window, rank=choice.rank, device=choice.device
    )
    if name in ANALYSES:
        beside = getattr(importlib.import_module(ANALYSES[name]), "beside", None)
        meta |= beside(source, **options) if beside else {}
        wanted = tuple(n for n in needs.of(ANALYSES[name]) if n not in options)
        lacking = needs.unmet(source, wanted)
        meta["reason"] = "; ".join(str(r) for r in (meta["reason"], *lacking) if r) or None
    return meta


def brief(meta: dict[str, Any]) -> dict[str, Any]:
    """Return what of it a person needs beside a printed table."""
    notes = {"window": meta["window"], "reason": meta["reason"]}
    notes |= {n: meta[n] for n in _NOTED if n in meta}
    if "generated" in meta["producer"]:
        notes["generated"] = f"{meta['producer']['generated']}; no recording of a real device"
    if meta["truncated"]:
        notes["truncated"] = "yes: the recording was cut short, totals are partial"
    for row in meta.get("matches", []):
        lost = f"; not found: {row['unmatched_names']}" if row["unmatched_names"] else ""
        notes["counters"] = (
            f"{row['matched']} of {row['launches']} counted launches are among the "
            f"{row['kernels']} kernels of the recording{lost}"
        )
    for row in meta.get("coverage", []):
        known = "no" if row["coverage_pct"] is None else f"{row['coverage_pct']:.1f} % of its"
        where = "" if row["rank"] is None else f" of rank {row['rank']}"
        notes[f"coverage{where}"] = f"{known} time with recorded shapes has a FLOP or byte model"
    if "flops" in meta:
        notes["FLOPs"] = meta["flops"]
    return notes


def _table(source: Source, table: str, choice: Choice) -> pl.DataFrame:
    for option in ("window", "step", "by", "convention", "counters", "hardware", "only"):
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
        wanted = list(names_in(columns))
        if not wanted:
            raise UsageError("--columns names no column; give some, as in --columns name,count.")
        for column in wanted:
            _known(found, column)
        found = found.select(wanted)
    return found


def names_in(text: str) -> tuple[str, ...]:
    """Read `A,B`; a name that comes again counts once."""
    return tuple(dict.fromkeys(c.strip() for c in text.split(",") if c.strip()))


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
