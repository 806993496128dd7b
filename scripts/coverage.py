"""Write docs/coverage.md: how much of each recording of the corpus has a FLOP and byte model.

Run it as `WORKBENCH_CORPUS=FOLDER python scripts/coverage.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from workbench.analysis import work
from workbench.analysis.coverage import coverage
from workbench.analysis.roofline import roofline
from workbench.errors import WorkbenchError
from workbench.trace.open import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
HALF = 50
WANTED = 95
NAMES = 4
"""How many operators without a model a line names."""
HEAD = """# Coverage of the cost models

Of each recording of the corpus with device time: how much of it is linked to an operator, how much
to one with recorded shapes, and how much of the latter has a model of its FLOPs or bytes
(`coverage`, whole file). What is left is named with its share of the time that has shapes.
`scripts/coverage.py` makes this page; a test holds the two together where the corpus is.

"""
LINE = "| {} | {} | {} | {} | {} | {} |\n"


def main() -> None:
    """Write the page."""
    corpus = Path(os.environ.get("WORKBENCH_CORPUS", Path(__file__).parents[2] / "shared"))
    if not (corpus / "traces").is_dir():
        sys.exit(f"There is no folder traces in {corpus}; set WORKBENCH_CORPUS to the corpus.")
    PAGE.write_text(page(corpus / "traces"), encoding="utf-8")
    print(PAGE.name)


def page(traces: Path) -> str:
    """Return the text of the page for the recordings below a folder."""
    rows = [row for path in _files(traces) for row in _rows(path, traces)]
    said = [r for r in rows if r[3] >= HALF]
    low = sorted({r[0] for r in said if r[4] < WANTED})
    counts = (
        f"{len(said)} devices of recordings have shapes for at least {HALF} % of their time; "
        f"{len(said) - sum(r[4] < WANTED for r in said)} of them have a model for at least "
        f"{WANTED} % of that.\n"
    )
    less = f"Less: {', '.join(f'`{n}`' for n in low)}.\n" if low else ""
    head = LINE.format("recording", "device", "linked %", "with shapes %", "modelled %", "left")
    body = "".join(
        LINE.format(n, d, f"{linked:.1f}", f"{shaped:.1f}", f"{modelled:.1f}", left)
        for n, d, linked, shaped, modelled, left in rows
    )
    rule = LINE.format("---", "--:", "--:", "--:", "--:", "---")
    return HEAD + counts + less + "\n" + head + rule + body


def _files(traces: Path) -> list[Path]:
    return sorted(p for p in traces.rglob("*") if p.is_file() and "LICENSES" not in p.parts)


def _rows(path: Path, traces: Path) -> Iterator[tuple[str, str, float, float, float, str]]:
    try:
        source = open_source(path, cache=False)
    except WorkbenchError:
        return
    for row in coverage(source, window="all").filter(pl.col("shaped_ns") > 0).to_dicts():
        device = "host" if row["device"] is None else str(row["device"])
        found = roofline(source, window="all", rank=row["rank"], device=row["device"])
        known = (pl.col("flops") > 0) | pl.col("bytes").is_not_null()
        left = found.filter(~known.fill_null(value=False) & pl.col("shapes").is_not_null())
        left = left.filter(~pl.col("reason").str.contains(work.DELEGATED).fill_null(value=False))
        yield (
            path.relative_to(traces).as_posix(),
            device,
            row["linked_pct"],
            100 * row["shaped_ns"] / row["device_ns"],
            row["coverage_pct"],
            _named(left, row["shaped_ns"]),
        )


def _named(left: pl.DataFrame, whole: int) -> str:
    by_name = left.group_by("operator").agg(pl.col("time_ns").sum()).sort("time_ns", "operator")
    rows = by_name.reverse().rows()
    texts = [f"`{n}` {100 * t / whole:.1f}" for n, t in rows[:NAMES] if 1000 * t >= whole]
    return ", ".join(texts) or "-"


if __name__ == "__main__":
    main()
