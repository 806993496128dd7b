"""A `Trace` as a folder of Parquet, one file a table, and back; the cache and exports both use it.

`workbench-trace.json`, the manifest, names every file with its rows, size and CRC-32. The folder is
made under another name and renamed when whole, so a half-written one never carries its name; a
damaged one is told by its checksums. Loading reads the manifest alone; a table is read, and
checked, when it is asked for.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from isal import isal_zlib

from workbench.errors import InputError, SchemaError, UsageError
from workbench.trace import atomic, schema
from workbench.trace.core import HOST_STEPS, Trace, TraceMeta

STORE_VERSION = 1
MANIFEST = "workbench-trace.json"
HOST_STEPS_TABLE = "host_steps"
FRAMES = "frames"
_RANK_FILE = re.compile(r"rank\d+\.trace\.json\.gz")
"""An exported rank; a run folder holds more than these, so it is never replaced."""
_NAME = re.compile(r"[a-z][a-z_]{0,40}")
_MANIFEST_BYTES = 64 << 20
_FREE_ROWS = 10**7
_ROWS_A_BYTE = 16
"""A table of over ten million rows with more of them than this a byte is an attack."""
UNREADABLE = (
    OSError,
    ValueError,
    MemoryError,
    msgspec.DecodeError,
    SchemaError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)
"""What loading raises on bytes that are not what they claim to be."""
UNWRITABLE = (OSError, OverflowError, TypeError, ValueError, pl.exceptions.PolarsError)
"""What saving raises: a full or closed disk, or metadata that JSON can't hold."""
_TIMES = {"start_ns", "t_ns", "host_start_ns", "dur_ns", "host_dur_ns", "self_ns"}
_FAR_NS = 2**62


class StoredTable(msgspec.Struct, frozen=True):
    """One table's file as the manifest describes it."""

    rows: int
    bytes: int
    crc32: int


class Manifest(msgspec.Struct, frozen=True):
    """What a stored trace is, besides its tables."""

    store: int
    reader: str
    meta: TraceMeta
    tables: dict[str, StoredTable]

    @property
    def bytes(self) -> int:
        """Size of all tables on disk."""
        return sum(t.bytes for t in self.tables.values())


class Tables(Mapping[str, pl.DataFrame]):
    """The tables of a stored trace, each read when it is first asked for.

    `recover` is asked for a trace with the same tables when a file has gone or is damaged; without
    it that is an `InputError`. `loaded` are tables that are in memory already.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        recover: Callable[[], Trace] | None = None,
        loaded: Mapping[str, pl.DataFrame] | None = None,
    ) -> None:
        self.folder = folder
        self._manifest, self._recover = manifest, recover
        self._names = [*schema.TABLES]
        self._loaded = dict(loaded or {})

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._names or name == FRAMES:
            raise KeyError(name)
        return self.load(name)

    def __iter__(self) -> Iterator[str]:
        return (n for n in self._names if n != FRAMES)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def rows(self, name: str) -> int:
        """Return how many rows a table has, without reading it."""
        stored = self._manifest.tables.get(name)
        return stored.rows if stored else 0

    def load(self, name: str) -> pl.DataFrame:
        """Return one table, `frames` and `host_steps` included."""
        if name not in self._loaded:
            try:
                self._loaded[name] = read_table(self.folder, name, self._manifest)
            except UNREADABLE as error:
                if self._recover is None:
                    raise _damaged(self.folder, error) from None
                fresh = self._recover()
                self._loaded |= {**fresh.tables, HOST_STEPS_TABLE: fresh.host_steps}
        return self._loaded[name]


def save(
    trace: Trace, folder: Path, *, frames: bool = False, reader: str = "", force: bool = False
) -> Path:
    """Write a trace to a folder of Parquet; return the folder.

    Python frames are stored when asked for, or when they were built before. With `force` a stored
    trace at this place is replaced, and never anything else.

    Raises
    ------
    InputError
        The folder can't be written.
    UsageError
        Something lies there already.
    """
    check_free(folder, force=force)
    tables = whole(trace, frames=frames)
    try:
        with atomic.new_folder(folder, replace_old=force) as part:
            write_tables(part, replace(trace.meta, path=Path(trace.meta.path.name)), tables, reader)
    except UNWRITABLE as error:
        raise InputError(f"{folder} can't be written: {atomic.reason(error)}.") from None
    return folder


def whole(trace: Trace, *, frames: bool = True) -> dict[str, pl.DataFrame]:
    """Return every table that is stored, Python frames when asked for or built before."""
    tables = {**trace.tables, HOST_STEPS_TABLE: trace.host_steps}
    if frames or FRAMES in vars(trace):
        tables[FRAMES] = trace.frames
    return tables


def load(folder: Path) -> Trace:
    """Open a folder that `save` wrote; tables are read when they are asked for.

    Raises
    ------
    InputError
        The folder is not a stored trace, or is damaged; at first use for a damaged table.
    """
    try:
        manifest = read_manifest(folder)
    except UNREADABLE as error:
        raise _damaged(folder, error) from None
    tables = Tables(folder, manifest)
    return Trace(
        meta=replace(manifest.meta, path=folder),
        tables=tables,
        build_frames=lambda: _stored_frames(tables, folder, manifest),
        host_steps=tables.load(HOST_STEPS_TABLE),
    )


def is_stored(folder: Path) -> bool:
    """Say whether a folder holds a stored trace."""
    return (folder / MANIFEST).is_file()


def write_tables(
    folder: Path, meta: TraceMeta, tables: Mapping[str, pl.DataFrame], reader: str
) -> Manifest:
    """Write tables into a new folder, the manifest last."""
    stored = {name: _write_table(folder / _file(name), frame) for name, frame in tables.items()}
    manifest = Manifest(STORE_VERSION, reader, meta, stored)
    (folder / MANIFEST).write_bytes(msgspec.json.encode(manifest, enc_hook=_encode))
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Read and check a manifest; raises one of `UNREADABLE`."""
    path = folder / MANIFEST
    if path.stat().st_size > _MANIFEST_BYTES:
        raise ValueError(f"its {MANIFEST} is absurdly long")
    manifest = msgspec.json.decode(path.read_bytes(), type=Manifest, dec_hook=_decode)
    if manifest.store != STORE_VERSION:
        raise ValueError(
            f"it was written in form {manifest.store}, and this version reads {STORE_VERSION}"
        )
    return manifest


def read_table(folder: Path, name: str, manifest: Manifest) -> pl.DataFrame:
    """Read and check one table; raises one of `UNREADABLE`. One that was not stored is empty."""
    stored = manifest.tables.get(name)
    if stored is None and name in schema.TABLES and name != FRAMES:
        return schema.empty(name)
    if stored is None:
        raise ValueError(f"it has no table {name}")
    if stored.rows > max(_FREE_ROWS, _ROWS_A_BYTE * stored.bytes):
        raise ValueError(f"its table {name} claims {stored.rows} rows in {stored.bytes} bytes")
    path = folder / _file(name)
    if path.stat().st_size != stored.bytes:
        raise ValueError(f"the file of its table {name} has another length than was written")
    data = path.read_bytes()
    if isal_zlib.crc32(data) != stored.crc32:
        raise ValueError(f"the file of its table {name} fails its checksum")
    frame = pl.read_parquet(io.BytesIO(data), n_rows=stored.rows + 1)
    if frame.height != stored.rows:
        raise ValueError(f"its table {name} has another number of rows than was written")
    return _checked(name, frame, manifest)


def _checked(name: str, frame: pl.DataFrame, manifest: Manifest) -> pl.DataFrame:
    """Check columns, types, nulls, and that every reference points at a row that exists."""
    if name == HOST_STEPS_TABLE:
        return frame.cast(dict(HOST_STEPS)).select(*HOST_STEPS)  # type: ignore[arg-type]
    frame = schema.check(name, schema.conform(name, frame), "Parquet", timed=manifest.meta.timed)
    for column in frame.columns:
        low, high = _bounds(name, column, manifest)
        if high is not None and not frame[column].is_between(low, high, closed="left").all():
            raise ValueError(f"column {column} of its table {name} holds values beyond its bounds")
    if "id" in frame.columns and not (frame["id"] == pl.int_range(frame.height, eager=True)).all():
        raise ValueError(f"the ids of its table {name} are not its row numbers")
    return frame


def _bounds(table: str, column: str, manifest: Manifest) -> tuple[int, int | None]:
    """Return the least value of a column and the end of its range; None where any will do."""
    if column in schema.POINTS_TO and column != "id":
        target = manifest.tables.get(schema.POINTS_TO[column] or table)
        return 0, target.rows if target else None
    if column == "thread":
        return 0, len(manifest.meta.threads)
    if column in _TIMES:
        return (0 if "dur" in column else -_FAR_NS), _FAR_NS
    return 0, None


def _write_table(path: Path, frame: pl.DataFrame) -> StoredTable:
    """Write one table; lz4 was measured fastest to write and read, uncompressed only bigger."""
    packed = io.BytesIO()
    frame.write_parquet(packed, compression="lz4", statistics=False)
    data = packed.getbuffer()
    path.write_bytes(data)
    return StoredTable(frame.height, len(data), isal_zlib.crc32(data))


def _file(table: str) -> str:
    if not _NAME.fullmatch(table):
        raise ValueError(f"{table[:60]!r} is no name of a table")
    return f"{table}.parquet"


def _stored_frames(tables: Tables, folder: Path, manifest: Manifest) -> pl.DataFrame:
    if FRAMES in manifest.tables:
        return tables.load(FRAMES)
    raise InputError(
        f"{folder} was stored without Python frames; open the recording it was made from."
    )


def _encode(value: object) -> object:
    if isinstance(value, Path):  # a name need not be UTF-8
        return os.fsencode(value).decode("utf-8", "replace")
    raise TypeError(f"metadata holds a {type(value).__name__}")


def _decode(kind: type, value: Any) -> Any:
    return kind(value) if kind is Path else value


def _damaged(folder: Path, error: BaseException) -> InputError:
    return InputError(
        f"{folder} holds a stored trace that can't be read: {atomic.reason(error)}; "
        "export it again."
    )


def check_free(target: Path, *, force: bool) -> None:
    """Refuse to write over anything, unless `force` is given and a stored trace lies there."""
    if not os.path.lexists(target):
        return
    if not force:
        raise UsageError(f"{target} exists already; give --force to replace it.")
    if not target.is_dir() or target.is_symlink() or not _is_ours(target):
        raise UsageError(f"{target} is no exported trace, so it isn't replaced; give another name.")


def _is_ours(folder: Path) -> bool:
    """Say whether a folder holds exported traces and nothing else."""
    if is_stored(folder):
        return all(f.name == MANIFEST or f.suffix == ".parquet" for f in folder.iterdir())
    return all(
        _is_ours(f) if f.is_dir() and is_stored(f) else bool(_RANK_FILE.fullmatch(f.name))
        for f in folder.iterdir()
    )
