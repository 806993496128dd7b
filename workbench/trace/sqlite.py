"""Foreign SQLite files: opened so that nothing is written, run or trusted, and read by columns.

Only real tables and stored columns are read: views, virtual tables and computed columns are code
of whoever made the file. A value of another type than its column's reads as not recorded.
"""

from __future__ import annotations

import itertools
import sqlite3
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from workbench.errors import InputError
from workbench.trace import cells, collector, container
from workbench.trace.cells import Column, text
from workbench.trace.problems import Tally

MAGIC = b"SQLite format 3\x00"
MAX_ROWS = 20_000_000
"""Rows taken from one table; an honest export of minutes has a tenth. Raise it for larger ones."""
MAX_VALUE_BYTES = 64 << 20
"""SQLite refuses a longer text or blob."""
SECONDS_FREE = 120
SLOWEST_BYTES_PER_S = 1 << 20
"""A file gets `SECONDS_FREE` and its size at this pace to be read in; beyond, it is refused."""
_CHUNK = 8192
"""Rows taken at once."""
_CLOCK_STEPS = 20_000
"""Instructions of SQLite's machine between two looks at the clock."""
_IN_USE = ("-wal", "-journal")
_STORED = (0, 3)
"""`hidden` of plain columns and of computed ones whose value is stored."""
_PARTIAL = frozenset({"damaged_table", "too_many_rows", "still_written"})

FAILED = (sqlite3.Error, UnicodeDecodeError)
"""What a query raises; a damaged schema's error quotes its bytes, which may be no text."""

Types = Mapping[str, pl.DataType]


def plain(error: object) -> str:
    """Return an error's text on one line and short: SQLite quotes what it stumbled over."""
    if isinstance(error, UnicodeDecodeError):
        return "malformed text"
    return textwrap.shorten(str(error), 160, placeholder=" …")


class Database:
    """A foreign file that is open; what is lost on the way is counted in `tally`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.path = path
        self.tally = Tally()
        self._connection = connection
        self.tables, self._views = self._contents()

    @property
    def partial(self) -> bool:
        """Say whether rows are missing, so that totals are partial."""
        return any(p.code in _PARTIAL for p in self.tally.problems())

    def has(self, table: str) -> bool:
        """Say whether there is such a table; a view of that name is none, and is noted."""
        if table in self._views:
            self.tally.add(
                "not_a_table",
                1,
                f"view {table}",
                "views of a foreign file are not run, so not read",
            )
        return table in self.tables

    def read(self, table: str, columns: Types, where: str = "") -> pl.DataFrame:
        """Return some columns of a table, or of its rows WHERE some condition holds.

        A column that the table lacks is null, and a table that the file lacks has no rows. Where a
        page is damaged, the rows before it are returned and `damaged_table` is noted.

        Raises
        ------
        InputError
            Reading takes longer than this file may take.
        """
        if not self.has(table):
            return pl.DataFrame(schema=dict(columns))
        stored = self._stored(table)
        found = [c for c in columns if c.lower() in stored]
        names = [_quoted(stored[c.lower()]) for c in found]
        row = self._row_number(table, stored)
        query = (
            f"SELECT {', '.join([row or 'NULL', *names])} "  # noqa: S608 - names are quoted
            f"FROM {_quoted(table)} NOT INDEXED {where} LIMIT {MAX_ROWS + 1}"
        )
        read, height = self._fetch(table, query, {c: columns[c] for c in found})
        if height > MAX_ROWS:
            self.tally.add(
                "too_many_rows",
                1,
                f"{table}: only its first {MAX_ROWS:,} rows are read",
                "totals are partial (workbench.trace.sqlite.MAX_ROWS)",
            )
        absent = {c: t for c, t in columns.items() if c not in found}
        read |= {c: pl.repeat(None, height, dtype=t, eager=True) for c, t in absent.items()}
        return pl.DataFrame({c: read[c] for c in columns}).head(MAX_ROWS)

    def _contents(self) -> tuple[set[str], set[str]]:
        try:
            rows = self._connection.execute(
                "SELECT type, name, rootpage FROM sqlite_master"
            ).fetchall()
        except FAILED as e:
            self._refuse_slow("its table of contents", e)
            raise InputError(
                f"{self.path} is damaged or no SQLite file: its table of contents says {plain(e)}; "
                "export it again or copy it whole."
            ) from None
        names = [(k, text(n), page) for k, n, page in rows if isinstance(n, bytes)]
        tables = {n for k, n, page in names if k == b"table" and page}
        return tables, {n for k, n, page in names if not page and k in {b"table", b"view"}}

    def _stored(self, table: str) -> dict[str, str]:
        """Return the columns that a table stores, by their names in lower case."""
        try:
            rows = self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchall()
        except FAILED as e:
            self._damaged(table, e, 0)
            return {}
        return {text(r[1]).lower(): text(r[1]) for r in rows if r[-1] in _STORED}

    def _row_number(self, table: str, stored: Mapping[str, str]) -> str | None:
        """Return SQLite's name of the row number; a table may be made without one."""
        name = next((n for n in ("rowid", "_rowid_", "oid") if n not in stored), None)
        try:
            query = f"SELECT {name} FROM {_quoted(table)} LIMIT 0"  # noqa: S608 - name is quoted
            self._connection.execute(query).close()
        except FAILED:
            return None
        return name

    def _fetch(self, table: str, query: str, types: Types) -> tuple[dict[str, pl.Series], int]:
        """Turn the rows of a query, but for their numbers, into columns; count the rows."""
        pieces: list[list[pl.Series]] = [[] for _ in types]
        height = 0
        for rows in self._rows(table, query):
            height += len(rows)
            cells_of = itertools.islice(zip(*rows, strict=True), 1, None)
            for (name, dtype), piece, values in zip(types.items(), pieces, cells_of, strict=True):
                column = cells.MAKERS[dtype](values)
                self._lost(f"{table}.{name}", column)
                piece.append(column.values)
        joined = (_joined(p, t) for t, p in zip(types.values(), pieces, strict=True))
        return dict(zip(types, joined, strict=True)), height

    def _rows(self, table: str, query: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield pieces of rows that begin with their number; damage ends them.

        Numbers that stop growing are damage too: pages that lead to one page twice would count its
        rows twice, or without end.
        """
        count, last, error = 0, None, None
        try:
            cursor = self._connection.execute(query)
        except FAILED as e:
            self._damaged(table, e, 0)
            return
        while error is None:
            rows: list[tuple[Any, ...]] = []
            try:
                rows.extend(itertools.islice(cursor, _CHUNK))  # keeps those before an error
            except FAILED as e:
                error = str(e)
            good = _growing([r[0] for r in rows], last)
            if good < len(rows):
                error = "its rows repeat"
            if not good:
                break
            yield rows[:good]
            count, last = count + good, rows[good - 1][0]
        if error is not None:
            self._damaged(table, error, count)

    def _lost(self, where: str, column: Column) -> None:
        if column.lost:
            self.tally.add(
                "bad_value",
                column.lost,
                f"{where}: {str(column.example)[:40]}",
                "values of another type than their column's read as not recorded",
            )

    def _refuse_slow(self, where: str, error: object) -> None:
        if "interrupted" in str(error):
            raise InputError(
                f"{self.path} takes too long to read ({where}); "
                "copy it to a faster disk or export fewer tables."
            )

    def _damaged(self, table: str, error: object, rows: int) -> None:
        self._refuse_slow(table, error)
        self.tally.add(
            "damaged_table",
            1,
            f"{table}: {plain(error)}, {rows:,} rows read",
            "the rest of the table is lost, so totals are partial",
        )


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """Open a foreign file for reading alone: no journal beside it, no code of its own, no waiting.

    Raises
    ------
    InputError
        The file can't be opened, is packed, or its table of contents is damaged.
    """
    _refuse_packed(path)
    connection = _connect(path)
    try:
        database = Database(connection, path)
        _note_writer(database)
        with collector.paused():
            yield database
    finally:
        connection.close()


def _refuse_packed(path: Path) -> None:
    try:
        with path.open("rb") as f:
            packed = f.read(len(container.GZIP_MAGIC)) != MAGIC[: len(container.GZIP_MAGIC)]
    except OSError as e:
        raise InputError(f"{path} can't be read: {e.strerror}.") from None
    if packed:
        raise InputError(f"{path} is a packed SQLite file; unpack it and open what is inside.")


def _connect(path: Path) -> sqlite3.Connection:
    try:
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        connection.text_factory = bytes  # texts need not be UTF-8
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        deadline = time.monotonic() + SECONDS_FREE + path.stat().st_size / SLOWEST_BYTES_PER_S
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _CLOCK_STEPS)
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"):
            connection.execute(f"PRAGMA {pragma}")
    except (*FAILED, OSError) as e:
        raise InputError(f"{path} can't be opened as an SQLite file: {plain(e)}.") from None
    return connection


def _note_writer(database: Database) -> None:
    beside = [Path(f"{database.path}{suffix}") for suffix in _IN_USE]
    used = [b.name for b in beside if b.exists() and b.stat().st_size]
    database.tally.add(
        "still_written",
        len(used),
        next(iter(used), ""),
        "a program still writes the file or did not end well, and what stands in this journal "
        "is not read: totals are partial",
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _growing(numbers: list[int | None], last: int | None) -> int:
    """Return how many row numbers grow, from the last of the piece before on."""
    if not numbers or numbers[0] is None:
        return len(numbers)
    column = np.array(numbers if last is None else [last, *numbers], dtype=np.int64)
    wrong = np.flatnonzero(column[1:] <= column[:-1])
    return int(wrong[0]) + (last is None) if len(wrong) else len(numbers)


def _joined(pieces: list[pl.Series], dtype: pl.DataType) -> pl.Series:
    return pl.concat(pieces) if pieces else pl.Series(dtype=dtype)
