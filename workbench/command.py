"""What verbs of the command line share: options, and the one way to print a table.

A verb that prints a table takes `as_json: AsJson = False, as_csv: AsCsv = False,
out: OutFile = None` and ends in `print_table(...)`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    import polars as pl

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
OutFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write to FILE.parquet, .csv or .xlsx instead."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what was exported before.")]
RunsDir = Annotated[Path, typer.Option("--runs-dir", help="The folder that holds run folders.")]


class RecordCommand(TyperCommand):
    """Reads `--with ncu KERNEL`, an option of one word or of two, as `--with=ncu:KERNEL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Join the two words, where they stand before what belongs to a script."""
        end = args.index("--") if "--" in args else len(args)
        own = args[:end]
        for form in (["--with", "ncu"], ["--with=ncu"]):
            starts = [at for at in range(end) if own[at : at + len(form)] == form]
            for at in starts[:1]:
                kernel = at + len(form)
                if kernel < end and not own[kernel].startswith("-"):
                    joined = f"--with=ncu:{own[kernel]}"
                    return super().parse_args(ctx, [*args[:at], joined, *args[kernel + 1 :]])
        return super().parse_args(ctx, args)


def print_table(
    frame: pl.DataFrame,
    *,
    meta: dict[str, Any],
    problems: pl.DataFrame | None = None,
    as_json: bool = False,
    as_csv: bool = False,
    out: Path | None = None,
    title: str | None = None,
) -> None:
    """Print a verb's table; a reader that has gone away is no error."""
    from workbench.output import emit

    try:
        emit(frame, meta=meta, problems=problems, json=as_json, csv=as_csv, out=out, title=title)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None
