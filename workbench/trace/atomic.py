"""Files and folders that appear whole or not at all: written under another name, then renamed."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

PART = ".part"


def part_of(target: Path) -> Path:
    """Return a name beside `target` that nothing else has."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}{PART}")


@contextmanager
def new_folder(target: Path, *, replace_old: bool = False) -> Iterator[Path]:
    """Give a folder beside `target` to write into, and rename it to `target` at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(target)
    part.mkdir()
    try:
        yield part
        if replace_old:
            remove([target])
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def replace_file(path: Path, data: bytes) -> None:
    """Write a small file under another name and rename it, so that it is never seen half written.

    Raises
    ------
    OSError
        It can't be written.
    """
    part = part_of(path)
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def remove(folders: Iterable[Path]) -> None:
    """Remove folders, each out of sight first, so that none is ever seen half removed."""
    for folder in folders:
        gone = part_of(folder)
        try:
            folder.rename(gone)
        except FileNotFoundError:
            continue
        shutil.rmtree(gone, ignore_errors=True)


def reason(error: BaseException) -> str:
    """Say in half a sentence what an error was."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.splitlines()[0].rstrip(".")[:200] if text else type(error).__name__
