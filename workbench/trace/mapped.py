"""Arrays in one file, mapped into memory when it is read.

What is looked at is paged in, and the system may drop it again; nothing of it counts as memory that
the process holds.

Layout: magic, length of the header, CRC-32 of the header and of all that follows it, the header as
JSON, then the arrays, each at a multiple of 64 bytes. The file is written under another name and
renamed. Reading trusts nothing: both checksums, the length of the file and the type, place and
length of each array must fit; the arrays can't be written to.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from workbench.trace import atomic

MAGIC = b"WBARRAY1"
ALIGNED = 64
TYPES = {"u1", "u2", "u4", "u8", "i4", "i8"}
_FIXED = struct.Struct("<8sQII")
_PIECE = 16 << 20
UNREADABLE = (OSError, ValueError, MemoryError, OverflowError, msgspec.MsgspecError, struct.error)
"""What reading raises on bytes that are not what they claim to be."""


class _Stored(msgspec.Struct, frozen=True):
    """One array: kind and bytes of its elements, how many, and where after the header."""

    dtype: str
    length: int
    at: int


class _Header(msgspec.Struct, frozen=True):
    key: str
    of: tuple[str, ...]
    about: msgspec.Raw
    arrays: dict[str, _Stored]


class Mapped(NamedTuple):
    """What a file holds."""

    about: bytes
    """JSON of whoever wrote it."""
    arrays: dict[str, NDArray[Any]]
    """One-dimensional, read-only, in the file's pages."""


def write(
    path: Path, key: str, of: tuple[str, ...], about: bytes, arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write arrays with JSON `about` them; `of` names the entries that they follow from.

    Raises OSError when it can't be written, ValueError for an array that it can't hold.
    """
    plain = {name: _plain(array) for name, array in arrays.items()}
    stored, crc, at = {}, 0, 0
    for name, array in plain.items():
        stored[name] = _Stored(_type(array), len(array), at)
        for piece in _pieces(array):
            crc = isal_zlib.crc32(piece, crc)
        at += _aligned(array.nbytes)
    header = msgspec.json.encode(_Header(key, of, msgspec.Raw(about), stored))
    header = header.ljust(_aligned(_FIXED.size + len(header)) - _FIXED.size)
    part = atomic.part_of(path)
    try:
        with part.open("xb") as file:
            file.write(_FIXED.pack(MAGIC, len(header), isal_zlib.crc32(header), crc) + header)
            for array in plain.values():
                file.writelines(_pieces(array))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read(path: Path, key: str) -> Mapped:
    """Map the arrays of a file that was written under this key; raises one of `UNREADABLE`."""
    with path.open("rb") as file:
        header, crc, begin = _header(file)
        if header.key != key:
            raise ValueError(f"{path} holds the arrays of something else")
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _check_places(header, len(pages) - begin)
    if _crc(pages, begin) != crc:
        raise ValueError(f"{path} fails its checksum")
    whole = np.frombuffer(pages, np.uint8, offset=begin)
    arrays = {
        name: whole[s.at : s.at + s.length * int(s.dtype[1:])].view(f"<{s.dtype}")
        for name, s in header.arrays.items()
    }
    return Mapped(bytes(header.about), arrays)


def entries_of(path: Path) -> tuple[str, ...]:
    """Return the names of the entries that a file's arrays follow from; none of a damaged file."""
    try:
        with path.open("rb") as file:
            return _header(file)[0].of
    except UNREADABLE:
        return ()


def _header(file: Any) -> tuple[_Header, int, int]:
    """Read and check the header; return it with the checksum and the begin of the arrays."""
    size = file.seek(0, 2)
    file.seek(0)
    magic, length, crc, crc_of_arrays = _FIXED.unpack(file.read(_FIXED.size))
    begin = _FIXED.size + length
    if magic != MAGIC or begin > size or begin % ALIGNED:
        raise ValueError("this is no file of arrays")
    text = file.read(length)
    if len(text) != length or isal_zlib.crc32(text) != crc:
        raise ValueError("its header fails its checksum")
    return msgspec.json.decode(text, type=_Header), crc_of_arrays, begin


def _check_places(header: _Header, room: int) -> None:
    """Refuse arrays of unknown types, or that do not fill the room one after another."""
    for stored in header.arrays.values():
        if stored.dtype not in TYPES or stored.length < 0:
            raise ValueError(f"it holds an array of {stored.length} {stored.dtype[:20]!r}")
    free = 0
    for stored in header.arrays.values():
        if stored.at != free:
            raise ValueError("its arrays do not follow one another")
        free += _aligned(stored.length * int(stored.dtype[1:]))
    if free != room:
        raise ValueError("its arrays do not fill it")


def _crc(pages: mmap.mmap, begin: int) -> int:
    crc, view = 0, memoryview(pages)
    for a, b in pairwise([*range(begin, len(pages), _PIECE), len(pages)]):
        crc = isal_zlib.crc32(view[a:b], crc)
    return crc


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array as the file holds it: one dimension, in a row, little-endian."""
    if array.ndim != 1 or _type(array) not in TYPES:
        raise ValueError(f"a file of arrays holds no {array.ndim}-dimensional {array.dtype}")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _pieces(array: NDArray[Any]) -> tuple[memoryview, bytes]:
    """Return the bytes of an array, and those that fill up to the next one's place."""
    return array.view(np.uint8).data, bytes(_aligned(array.nbytes) - array.nbytes)


def _type(array: NDArray[Any]) -> str:
    return f"{array.dtype.kind}{array.dtype.itemsize}"


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
