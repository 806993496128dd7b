"""Bytes of a trace file, whatever it is packed in: plain, gzip with any number of members, zip.

A file is read piece by piece, so that a reader needs no more memory than the piece it works on.
"""

from __future__ import annotations

import hashlib
import itertools
import lzma
import zipfile
import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from isal import isal_zlib

from workbench import progress
from workbench.errors import CutShortError, InputError

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

DAMAGED: tuple[type[Exception], ...] = (zlib.error, isal_zlib.IsalError)  # type: ignore[assignment]
"""What inflating raises on damage (isal's stubs call its class an instance)."""
ZIP_DAMAGED: tuple[type[Exception], ...] = (
    *DAMAGED,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    RuntimeError,
    NotImplementedError,
)
GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"
PIECE = 8 << 20
_PACKED_PIECE = 1 << 20
_GZIP_WINDOW = 31
"""zlib's window bits for a gzip member of any window."""
MAX_RATIO = 500
"""Text of traces packs 10 to 60 fold; what unpacks more than this, beyond 1 GiB, is an attack."""
UNPACKED_FREE = 1 << 30


def read(path: Path) -> bytes:
    """Return the unpacked bytes of a file.

    Raises
    ------
    InputError
        The file is missing, unreadable, cut short, or unpacks to an absurd size.
    """
    return b"".join(pieces(path))


def head(path: Path, size: int) -> bytes:
    """Return the first unpacked bytes of a file, fewer when it is short or cut.

    Raises
    ------
    InputError
        The file is missing, empty, unreadable or damaged in these bytes.
    """
    with closing(pieces(path, size)) as stream:
        first = next(stream, b"")
    if not first:
        raise InputError(f"{path} is empty; record it again or copy it whole.")
    return first


def pieces(path: Path, size: int | None = None, read: Position | None = None) -> Generator[bytes]:
    """Yield the unpacked bytes of a file in order, in pieces of at most `size`.

    `read` is kept up to date with how far the file has been read.

    Raises
    ------
    CutShortError
        After the last good piece: the packed stream ends early.
    InputError
        The file is missing, unreadable, damaged, or unpacks to an absurd size.
    """
    size = size or PIECE
    with _opened(path) as f:
        magic = f.read(4)
        f.seek(0)
        if magic == ZIP_MAGIC:
            yield from _unzip(path, f, size)
            return
        stream = _gunzip(f, size) if magic[:2] == GZIP_MAGIC else _plain(f, size)
        read = read or Position()
        read.of = path.stat().st_size
        limit = max(UNPACKED_FREE, MAX_RATIO * read.of)
        done = 0
        try:
            for piece in stream:
                done += len(piece)
                if done > limit:
                    raise _absurd(path, limit)
                read.at = f.tell()
                yield piece
        except EOFError:
            raise CutShortError(
                f"{path} is cut short: its gzip stream ends early; "
                "record it again or copy it whole."
            ) from None
        except DAMAGED as e:
            raise InputError(f"{path} is damaged: its gzip stream says {e}.") from None
        except OSError as e:
            raise InputError(f"{path} can't be read: {e.strerror}.") from None


@contextmanager
def ahead(path: Path) -> Iterator[tuple[Iterator[bytes], Future[str]]]:
    """Unpack a file on a second thread: its pieces, one ahead of their use, and its SHA-256."""
    with ThreadPoolExecutor(2) as pool:
        read = Position()
        stream = _one_ahead(pieces(path, read=read), pool, read)
        yield stream, pool.submit(sha256, path)


@dataclass
class Position:
    """How far a reading of a file has come, in bytes on disk."""

    at: int = 0
    of: int = 1


def _one_ahead(
    stream: Iterator[bytes], pool: ThreadPoolExecutor, read: Position
) -> Iterator[bytes]:
    coming = pool.submit(next, stream, b"")
    while piece := coming.result():
        coming = pool.submit(next, stream, b"")
        progress.at(read.at / max(read.of, 1))
        yield piece


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as it lies on disk."""
    with _opened(path) as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    try:
        f = path.open("rb")
    except FileNotFoundError:
        raise InputError(f"There is no file {path}; check the path.") from None
    except OSError as e:
        raise InputError(f"{path} can't be read: {e.strerror}.") from None
    with f:
        yield f


def _plain(f: BufferedReader, size: int) -> Iterator[bytes]:
    return iter(lambda: f.read(size), b"")


def _gunzip(f: BufferedReader, size: int) -> Iterator[bytes]:
    """Inflate member after member; EOFError when the last has no end."""
    packed = f.read(_PACKED_PIECE)
    while packed:
        member = isal_zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            packed = packed or f.read(_PACKED_PIECE)
            if piece := member.decompress(packed, size):
                yield piece
            elif not packed:
                raise EOFError
            packed = member.unconsumed_tail
        packed = member.unused_data or f.read(_PACKED_PIECE)
        packed = _without_padding(packed, f)


def _without_padding(packed: bytes, f: BufferedReader) -> bytes:
    """Skip the zero bytes that may follow a member."""
    while packed and not (rest := packed.lstrip(b"\0")):
        packed = f.read(_PACKED_PIECE)
    return rest if packed else b""


def _unzip(path: Path, f: BufferedReader, size: int) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(f) as z:
            files = [i for i in z.infolist() if not i.is_dir()]
            if len(files) != 1:
                raise InputError(
                    f"{path} is a zip of {len(files)} files; unpack it and open one of them."
                )
            limit = max(UNPACKED_FREE, MAX_RATIO * files[0].compress_size)
            if files[0].file_size > limit:
                raise _absurd(path, limit)
            with z.open(files[0]) as member:
                yield from itertools.takewhile(bool, iter(lambda: member.read(size), None))
    except ZIP_DAMAGED as e:
        raise InputError(f"{path} is a damaged or locked zip: {e}.") from None


def _absurd(path: Path, limit: int) -> InputError:
    return InputError(
        f"{path} unpacks to over {limit >> 20} MiB; no trace packs like that, so it isn't read."
    )
