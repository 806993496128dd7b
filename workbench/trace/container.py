"""Bytes of a trace file, whatever it is packed in: plain, gzip with any number of members, zip."""

from __future__ import annotations

import hashlib
import lzma
import zipfile
import zlib
from typing import TYPE_CHECKING

from isal import igzip, isal_zlib

from workbench.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

DAMAGED: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, isal_zlib.IsalError)  # type: ignore[assignment]
"""What unpacking raises on damage (isal's stubs call its class an instance)."""
ZIP_DAMAGED: tuple[type[Exception], ...] = (
    *DAMAGED,
    zipfile.BadZipFile,
    lzma.LZMAError,
    RuntimeError,
    NotImplementedError,
)
GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"
CHUNK = 16 << 20
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
    packed = read_packed(path)
    if packed[:2] == GZIP_MAGIC:
        return _gunzip(path, len(packed))
    if packed[:4] == ZIP_MAGIC:
        return _unzip(path)
    return packed


def read_packed(path: Path) -> bytes:
    """Return the bytes of a file as they lie on disk."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"There is no file {path}; check the path.") from None
    except OSError as e:
        raise InputError(f"{path} can't be read: {e.strerror}.") from None


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as it lies on disk."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def _gunzip(path: Path, packed_size: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    limit = max(UNPACKED_FREE, MAX_RATIO * packed_size)
    try:
        with igzip.open(path, "rb") as f:
            while part := f.read(CHUNK):
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise InputError(
                        f"{path} unpacks to over {limit >> 20} MiB from {packed_size >> 20} MiB; "
                        "no trace packs like that, so it isn't read."
                    )
    except EOFError:
        raise InputError(
            f"{path} is cut short: its gzip stream ends early; record it again or copy it whole."
        ) from None
    except DAMAGED as e:
        raise InputError(f"{path} is damaged: its gzip stream says {e}.") from None
    return b"".join(parts)


def _unzip(path: Path) -> bytes:
    try:
        with zipfile.ZipFile(path) as z:
            files = [i for i in z.infolist() if not i.is_dir()]
            if len(files) != 1:
                raise InputError(
                    f"{path} is a zip of {len(files)} files; unpack it and open one of them."
                )
            limit = max(UNPACKED_FREE, MAX_RATIO * files[0].compress_size)
            if files[0].file_size > limit:
                raise InputError(f"{path} unpacks to over {limit >> 20} MiB; it isn't read.")
            with z.open(files[0]) as f:
                return f.read(limit)
    except ZIP_DAMAGED as e:
        raise InputError(f"{path} is a damaged or locked zip: {e}.") from None
