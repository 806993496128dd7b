"""Which content a file holds and which reader would read it: together the name of a cache entry."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import time
from pathlib import Path

import msgspec
import polars as pl

from workbench import resources
from workbench.trace import atomic, container, store
from workbench.version import __version__

SETTLED_NS = 3 * 10**9
"""A file that changed more recently may change again within one tick of its clock."""
_DIGITS = 32
_READERS = Path(__file__).resolve().parent
_BESIDE = ("intervals.py", "units.py", "resources.py")
_DATA = ("families.toml",)
_NOT_READING = {"synthetic", "write", "__pycache__"}


class _Seen(msgspec.Struct, frozen=True):
    """A file as it was when it was hashed."""

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    sha256: str = ""


def sha256(path: Path, index: Path) -> str:
    """Return the SHA-256 of a file as it lies on disk.

    A folder of notes holds what each path had: while size, times and inode are those that were
    seen, the file isn't read. A file that changed in the last seconds gets no note, since a second
    change within the same tick of the file system's clock would go unseen.

    Raises
    ------
    InputError
        The file can't be read.
    OSError
        The same, at a look for its size.
    """
    now = _look(path)
    note = index / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:_DIGITS]}.json"
    with contextlib.suppress(OSError, ValueError, msgspec.DecodeError):
        seen = msgspec.json.decode(note.read_bytes(), type=_Seen)
        if seen == msgspec.structs.replace(now, sha256=seen.sha256):
            return seen.sha256
    settled = max(now.mtime_ns, now.ctime_ns) < time.time_ns() - SETTLED_NS
    sha = container.sha256(path)
    if settled and _look(path) == now:
        with contextlib.suppress(OSError):
            seen = msgspec.structs.replace(now, sha256=sha)
            atomic.replace_file(note, msgspec.json.encode(seen))
    return sha


def _look(path: Path) -> _Seen:
    s = path.stat()
    name = os.fsencode(path.resolve()).decode("utf-8", "replace")
    return _Seen(name, s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)


@functools.cache
def reader_version() -> str:
    """Name the reader: this version and a digest of every source that reading depends on."""
    digest = hashlib.sha256(f"{pl.__version__} {store.STORE_VERSION}".encode())
    sources = [_READERS.parent / name for name in _BESIDE]
    sources += [resources.data() / name for name in _DATA]
    sources += sorted(f for f in _READERS.rglob("*") if not _NOT_READING & {*f.parts})
    for file in sources:
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return f"{__version__}-{digest.hexdigest()[:12]}"
