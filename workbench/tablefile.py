"""A table as a file: Parquet for programs, CSV and Excel for people, by the suffix.

All three hold every value exactly. Texts come from foreign files, so none may act as a formula: in
Excel each is stored as text, in CSV one that begins like a formula gets an apostrophe in front.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xlsxwriter.format import Format
    from xlsxwriter.worksheet import Worksheet

EXACT = 2**53
"""Excel's numbers are doubles: larger integers are written as text."""
MOST_ROWS, MOST_TEXT = 1_048_575, 32_767
"""Rows of a sheet below its heading, and characters of a cell."""
FORMULA = r"^[=+\-@\t\r]"
WIDEST = 60


def write(
    frame: pl.DataFrame, out: Path, meta: Mapping[str, Any], problems: pl.DataFrame | None = None
) -> None:
    """Write a table with what is said about it (not in CSV), whole or not at all.

    Raises
    ------
    UsageError
        Another suffix than .parquet, .csv and .xlsx, more rows than a sheet holds, or a place that
        cannot be written.
    """
    if out.suffix not in FORMS:
        raise UsageError(f"{out} does not end in {', '.join(FORMS)}, the forms that -o writes.")
    said = plain(dict(meta)), plain([] if problems is None else problems.to_dicts())
    part = out.with_name(f".{out.name}.part")
    try:
        FORMS[out.suffix](frame, part, *said)
        part.replace(out)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{out} cannot be written: {reason}.") from None
    finally:
        part.unlink(missing_ok=True)


def _parquet(frame: pl.DataFrame, part: Path, meta: Any, problems: Any) -> None:
    about = {"meta": json.dumps(meta), "problems": json.dumps(problems)}
    frame.write_parquet(part, metadata=about)


def _csv(frame: pl.DataFrame, part: Path, _: Any, __: Any) -> None:
    texts = [
        n for n, dtype in frame.schema.items() if dtype in (pl.String, pl.Categorical, pl.Enum)
    ]
    safe = (
        pl.when(pl.col(n).cast(pl.String).str.contains(FORMULA))
        .then(pl.lit("'") + pl.col(n).cast(pl.String))
        .otherwise(pl.col(n).cast(pl.String))
        .alias(n)
        for n in texts
    )
    flat(frame).with_columns(safe).write_csv(part)


def _excel(frame: pl.DataFrame, part: Path, meta: Any, problems: Any) -> None:
    if frame.height > MOST_ROWS:
        raise UsageError(
            f"The table has {frame.height:,} rows and a sheet holds {MOST_ROWS:,}; "
            "write .parquet or .csv, or keep some with --top."
        )
    from xlsxwriter import Workbook  # late: printing a table need not wait for it

    whole = io.BytesIO()
    with Workbook(whole, {"constant_memory": True}) as book:
        book.set_properties({"created": dt.datetime(2000, 1, 1)})  # noqa: DTZ001 - equal each time
        bold = book.add_format({"bold": True})
        _sheet(book.add_worksheet("table"), flat(frame), bold)
        _sheet(book.add_worksheet("about"), _about(meta, problems), bold)
    part.write_bytes(whole.getvalue())


def _about(meta: Any, problems: Any) -> pl.DataFrame:
    """Return what is said about a table, line by line."""
    rows = [("meta", key, value) for key, value in meta.items()]
    rows += [("problem", problem.get("code"), problem) for problem in problems]
    schema = {"what": pl.String, "name": pl.String, "value": pl.String}
    return pl.DataFrame([(a, b, _words(value)) for a, b, value in rows], schema, orient="row")


def _words(value: Any) -> str | None:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return None if value is None else str(value)


def _sheet(sheet: Worksheet, frame: pl.DataFrame, bold: Format) -> None:
    sheet.freeze_panes(1, 0)
    for column, name in enumerate(frame.columns):
        longest = max([len(name), *(len(str(v)) for v in frame[name].head(200).to_list())])
        sheet.set_column(column, column, min(longest, WIDEST) + 2)
    for column, name in enumerate(frame.columns):
        sheet.write_string(0, column, name, bold)
    for row, values in enumerate(frame.iter_rows(), start=1):
        for column, value in enumerate(values):
            _cell(sheet, row, column, value)
    if frame.height:
        sheet.autofilter(0, 0, frame.height, frame.width - 1)


def _cell(sheet: Worksheet, row: int, column: int, value: Any) -> None:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, float) or (isinstance(value, int) and abs(value) <= EXACT):
        sheet.write_number(row, column, value)
    else:
        text = str(value).encode("utf-8", "replace").decode("utf-8")
        cut = text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"
        sheet.write_string(row, column, cut)


FORMS: Mapping[str, Callable[[pl.DataFrame, Path, Any, Any], None]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".xlsx": _excel,
}


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with nested columns as JSON text, which CSV can hold."""
    flat = {
        name: [None if v is None else json.dumps(plain(v)) for v in frame[name].to_list()]
        for name, dtype in frame.schema.items()
        if dtype.is_nested()
    }
    return frame.with_columns(pl.Series(n, v, dtype=pl.String()) for n, v in flat.items())


def plain(value: Any) -> Any:
    """Return a value that JSON can hold; NaN and infinity are unknown, so null."""
    convert: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
        ((bool, int, str), lambda v: v),
        (float, lambda v: v if math.isfinite(v) else None),
        (dict, lambda v: {str(k): plain(x) for k, x in v.items()}),
        ((list, tuple, set, frozenset), lambda v: [plain(x) for x in v]),
        ((dt.datetime, dt.date, dt.time), lambda v: v.isoformat()),
    )
    if value is None:
        return None
    for kinds, function in convert:
        if isinstance(value, kinds):
            return function(value)
    if hasattr(value, "items"):
        return {str(k): plain(x) for k, x in value.items()}
    return str(value)
