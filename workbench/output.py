"""One way to print a table: aligned text, one JSON object, CSV, or a file of it.

Standard output holds the table alone; what is said about it goes to standard error.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import polars as pl

from workbench import tablefile, units
from workbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

_WIDEST_CELL = 60
_EXAMPLE = 160
"""Characters of an example beside a printed table; the whole is in the problems table."""
_GAP = 2
_NARROWEST = 20
_UNITS = (
    ("flops_per_s", "FLOP/s"),
    ("bytes_per_s", "B/s"),
    ("bytes", "B"),
    ("flops", "FLOP"),
)
"""How a column's name ends, and the unit that its cells get; the longest first."""
_EXACT = 2**53


def emit(
    frame: pl.DataFrame,
    *,
    meta: Mapping[str, Any],
    problems: pl.DataFrame | None = None,
    json: bool = False,
    csv: bool = False,
    out: Path | None = None,
    title: str | None = None,
) -> None:
    """Print a table, or write it to a file (`tablefile.write`); UsageError for two forms at once.

    JSON is one object with `rows`, `meta` and `problems`; integers are exact, unknown is null.
    """
    if json + csv + (out is not None) > 1:
        raise UsageError("--json, --csv and -o exclude each other; give one of them.")
    if out is not None:
        tablefile.write(frame, out, meta, problems)
        print(f"{frame.height} rows in {out}", file=sys.stderr)  # noqa: T201
    elif json:
        sys.stdout.write(as_json(frame, meta, problems) + "\n")
    elif csv:
        sys.stdout.write(tablefile.flat(frame).write_csv())
    else:
        _print_text(frame, title)
    if not json:
        _print_notes(meta, problems)
    sys.stdout.flush()


def as_json(
    frame: pl.DataFrame, meta: Mapping[str, Any], problems: pl.DataFrame | None = None
) -> str:
    """Return one JSON object with `rows`, `meta` and `problems`."""
    rows = [] if problems is None else problems.to_dicts()
    whole = {"rows": frame.to_dicts(), "meta": dict(meta), "problems": rows}
    return json.dumps(tablefile.plain(whole), ensure_ascii=False, allow_nan=False)


def text_table(
    frame: pl.DataFrame, *, width: int, title: str | None = None, longest: int | None = None
) -> str:
    """Return the table as text of at most `width` columns; texts cut to `longest` characters.

    A table that is wider is cut into blocks, each with the first column again: no column is left
    out, and none is squeezed until it cannot be read.
    """
    from rich.console import Console

    if longest is not None:
        texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
        frame = frame.with_columns(_cut(name, longest) for name in texts)
    # In a notebook rich would show an empty output of its own beside the text.
    console = Console(
        width=width, highlight=False, markup=False, color_system=None, force_jupyter=False
    )
    with console.capture() as capture:
        _render(frame, console, title)
    return capture.get()


def _cut(column: str, longest: int) -> pl.Expr:
    text = pl.col(column)
    shorter = pl.concat_str(text.str.slice(0, longest - 1), pl.lit("…"))
    return pl.when(text.str.len_chars() > longest).then(shorter).otherwise(text).alias(column)


def cell(name: str, value: Any) -> str:
    """Return one value as text, with the unit that its column's name says; null is '-'."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(name, value)
    if isinstance(value, list | dict):
        value = json.dumps(tablefile.plain(value), ensure_ascii=False)
    text = str(value)
    # Names come from foreign files; an escape sequence in one must not reach the terminal.
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def header(name: str) -> str:
    """Return a column's heading: units that stand in the cells are left out."""
    for suffix in ("_ns", "_per_s", "_bytes"):
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name


def _number(name: str, value: float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "-"
    if name.endswith("_ns"):
        return units.duration(value)
    for ending, unit in _UNITS:
        if name == ending or name.endswith(f"_{ending}"):
            return units.decimal(value, unit)
    if "share" in name or "ratio" in name or name.startswith(("mfu", "hfu")):
        return units.share(value, 1)
    if isinstance(value, int) or (value.is_integer() and abs(value) < _EXACT):
        return str(int(value))
    return f"{value:.4g}"


def _print_text(frame: pl.DataFrame, title: str | None) -> None:
    from rich.console import Console

    console = Console(width=_width(sys.stdout), highlight=False, markup=False, force_jupyter=False)
    # Written by hand: rich answers a reader that has gone with an exit of its own.
    with console.capture() as capture:
        _render(frame, console, title)
    sys.stdout.write(capture.get())


def _width(stream: TextIO) -> int:
    """Width of the terminal, or of nothing in particular: a pipe has no edge to fold at."""
    if stream.isatty() or os.environ.get("COLUMNS"):
        return max(_NARROWEST, shutil.get_terminal_size().columns)
    return 1 << 16


def _render(frame: pl.DataFrame, console: Console, title: str | None) -> None:
    columns = {
        name: [cell(name, value) for value in frame[name].to_list()] for name in frame.columns
    }
    if title:
        console.print(title, style="bold", soft_wrap=True)
    for number, names in enumerate(_blocks(columns, console.width)):
        if number:
            console.print()
        _render_block({name: columns[name] for name in names}, frame.schema, console)
    if frame.is_empty():
        console.print("(no rows)")


def _render_block(columns: dict[str, list[str]], schema: pl.Schema, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name in columns:
        justify: Any = "right" if schema[name].is_numeric() else "left"
        table.add_column(
            Text(header(name)), justify=justify, overflow="fold", max_width=_WIDEST_CELL
        )
    for row in zip(*columns.values(), strict=True):
        table.add_row(*(Text(text) for text in row))
    console.print(table)


def _blocks(columns: dict[str, list[str]], width: int) -> list[list[str]]:
    """Cut columns into blocks that fit; each block after the first begins with column one."""
    blocks: list[list[str]] = []
    used = 0
    first = next(iter(columns), None)
    for name, cells in columns.items():
        wanted = _column_width(name, cells)
        if not blocks:
            blocks.append([name])
            used = wanted
        elif used + _GAP + wanted <= width:
            blocks[-1].append(name)
            used += _GAP + wanted
        elif first is not None and len(blocks[-1]) == 1:
            blocks[-1].append(name)  # nothing fits beside column one: fold rather than repeat it
            used = width
        else:
            blocks.append([str(first), name])
            used = _column_width(str(first), columns[str(first)]) + _GAP + wanted
    return blocks


def _column_width(name: str, cells: list[str]) -> int:
    from rich.cells import cell_len

    return min(_WIDEST_CELL, max(map(cell_len, [header(name), *cells])))


def _print_notes(meta: Mapping[str, Any], problems: pl.DataFrame | None) -> None:
    known = {key: value for key, value in meta.items() if value is not None}
    notes = [f"{key}: {cell(key, value)}" for key, value in known.items()]
    if notes:
        sys.stderr.write("; ".join(notes) + "\n")
    for row in [] if problems is None else problems.to_dicts():
        code, effect, example = (
            cell(key, row.get(key)) for key in ("code", "effect", "first_example")
        )
        example = textwrap.shorten(str(example), _EXAMPLE, placeholder=" …")
        sys.stderr.write(f"problem {code} ({row.get('count')}): {effect}; first: {example}\n")
