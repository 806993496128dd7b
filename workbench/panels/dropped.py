"""Files that were dropped on a panel, kept in the user's cache folder as long as there is room.

A drop is a folder of its own. It is never trusted: names are made safe, sizes are bounded by what
was announced, and nothing is written outside of the folder.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import InputError
from workbench.trace import cachefolder

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT_BYTES = 50 * 10**6
"""Of one drop, all of its files together."""
KEPT_BYTES = 500 * 10**6
"""Of all drops; the oldest go first."""
MOST_FILES = 1_000
FOLDER = "dropped"
_LONGEST_NAME = 120
_UNSAFE = re.compile(r"[^\w.+-]+", re.ASCII)


class Drop:
    """One or more files that arrive piece by piece.

    Raises
    ------
    InputError
        What was announced or what arrives is not what a drop can be.
    """

    def __init__(self, files: object) -> None:
        self.sizes = _sizes(files)
        if sum(self.sizes.values()) > LIMIT_BYTES:
            limit = f"{LIMIT_BYTES / 1e6:.0f} MB"
            raise InputError(
                f"A drop takes at most {limit}; type the path of larger files instead."
            )
        make_room(KEPT_BYTES - sum(self.sizes.values()))
        self.folder = Path(tempfile.mkdtemp(prefix="", dir=place()))

    def add(self, number: object, pieces: Sequence[memoryview]) -> None:
        """Append to one of the files."""
        names = list(self.sizes)
        if not isinstance(number, int) or not 0 <= number < len(names):
            raise InputError("A piece of a file arrived that was not announced; drop it again.")
        path = self.folder / names[number]
        with path.open("ab") as file:
            for piece in pieces:
                file.write(piece)
            if file.tell() > self.sizes[path.name]:
                raise InputError(f"{path.name} is longer than was announced; drop it again.")

    def kept(self) -> Path:
        """Return the file, or the folder of several; all must have arrived whole."""
        for name, size in self.sizes.items():
            path = self.folder / name
            if not path.exists() or path.stat().st_size != size:
                self.discard()
                raise InputError(f"{name} did not arrive whole; drop it again, or type its path.")
        return self.folder / next(iter(self.sizes)) if len(self.sizes) == 1 else self.folder

    def discard(self) -> None:
        """Remove what has arrived."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _sizes(files: object) -> dict[str, int]:
    """Return the size of each file by a safe name of its own."""
    if not isinstance(files, list) or not 0 < len(files) <= MOST_FILES:
        raise InputError(f"A drop is of 1 to {MOST_FILES:,} files.")
    found: dict[str, int] = {}
    for file in files:
        name, size = (file.get(k) if isinstance(file, dict) else None for k in ("name", "size"))
        if not isinstance(name, str) or not isinstance(size, int) or size < 0:
            raise InputError("A dropped file has no name or no size; type its path instead.")
        safe = safe_name(name)
        tried = (f"{n}-{safe}" for n in itertools.count(2))
        found[safe if safe not in found else next(x for x in tried if x not in found)] = size
    return found


def safe_name(name: str) -> str:
    """Return a name that is one part of a path, of plain letters, and not hidden."""
    last = name.replace("\\", "/").rpartition("/")[2]
    cleaned = _UNSAFE.sub("_", last).lstrip("._-")
    return cleaned[-_LONGEST_NAME:].lstrip("._-") or f"file-{secrets.token_hex(4)}"


def place() -> Path:
    """Return the folder of all drops, made when it was not there: the user's alone."""
    cache = cachefolder.usable()
    if cache is None:
        return _of_this_process()
    folder = cache.parent / FOLDER
    folder.mkdir(mode=cachefolder.PRIVATE, exist_ok=True)
    if hasattr(os, "getuid") and folder.lstat().st_uid != os.getuid():
        raise InputError(f"{folder} belongs to another user, so nothing is kept there.")
    return folder


@functools.cache
def _of_this_process() -> Path:
    return Path(tempfile.mkdtemp(prefix="workbench-dropped-"))


def make_room(limit: int) -> None:
    """Remove the oldest drops until the others take no more than some bytes."""
    drops = sorted((d for d in place().iterdir() if d.is_dir()), key=lambda d: d.stat().st_mtime)
    sizes = [sum(f.stat().st_size for f in d.iterdir() if f.is_file()) for d in drops]
    total = sum(sizes)
    for drop, size in zip(drops, sizes, strict=True):
        if total <= limit:
            return
        shutil.rmtree(drop, ignore_errors=True)
        total -= size
