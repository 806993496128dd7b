"""Where the notes of a recording lie: in its run folder, else in the user's data folder.

`WORKBENCH_NOTES` names another folder than that of the user's data.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from workbench import resources
from workbench.noting import file
from workbench.noting.file import Recording
from workbench.trace.runfile import RUN_FILE

if TYPE_CHECKING:
    from workbench.trace.core import Source, Trace

FOLDER_SETTING = "WORKBENCH_NOTES"
NAME = "notes.json"
MOST_FILES = 1_000
"""Files of the user's folder that are looked through, the newest first."""
_DIGITS = 32
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Places:
    """The files that hold notes of a source."""

    own: Path | None
    """Beside the run; None for a recording from elsewhere."""
    user: Path | None
    """In the user's folder; None for a source that lies in no file."""
    others: tuple[Path, ...] = ()
    """In the user's folder, made when more or fewer ranks of it were open."""

    @property
    def read(self) -> tuple[Path, ...]:
        """All of them."""
        return tuple(p for p in (self.own, self.user, *self.others) if p is not None)


def of(source: Source) -> Places:
    """Find the files; none of them need exist."""
    if not all(t.meta.path.exists() for t in source.ranks):
        return Places(None, None)
    hashes = {r.sha256 for r in recordings(source)}
    if not hashes:
        return Places(_run_file(source), None)
    mine, *others = _in_users_folder(hashes)
    return Places(_run_file(source), mine, tuple(others))


def recordings(source: Source) -> frozenset[Recording]:
    """Return what tells the traces of a source from others."""
    return frozenset(r for trace in source.ranks for r in of_trace(trace))


def of_trace(trace: Trace) -> list[Recording]:
    """Return the files that one rank recorded."""
    meta = trace.meta
    known = [f.sha256 for f in meta.windows or (meta,) if _HASH.fullmatch(f.sha256)]
    return [Recording(sha, meta.rank) for sha in known]


def users_folder() -> Path:
    """Return the folder for notes on recordings from elsewhere."""
    setting = os.environ.get(FOLDER_SETTING, "").strip()
    base = Path(setting).expanduser() if setting else None
    return base or Path(platformdirs.user_data_dir("training-workbench")) / "notes"


def _run_file(source: Source) -> Path | None:
    """Return the run folder's file; samples that come with Workbench stay as they are."""
    folders = {t.meta.path.parent for t in source.ranks}
    if len(folders) != 1:
        return None
    (folder,) = folders
    is_sample = folder.resolve().is_relative_to(resources.data().resolve())
    return folder / NAME if (folder / RUN_FILE).is_file() and not is_sample else None


def _in_users_folder(hashes: set[str]) -> list[Path]:
    """Return the file to write to, then others that hold notes on some of the traces.

    Written is the one that was made with the most of the source's ranks open, if with all of them.
    """
    folder = users_folder()
    key = hashlib.sha256(" ".join(sorted(hashes)).encode()).hexdigest()
    own = folder / f"{(min(hashes) if len(hashes) == 1 else key)[:_DIGITS]}.json"
    found = {path: known for path in _files(folder) if (known := _traces(path)) & hashes}
    whole = [p for p, known in found.items() if known >= hashes]
    first = max(whole, key=lambda p: (len(found[p]), p.name), default=own)
    return [first, *sorted(p for p in found if p != first)]


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.json"), key=_age)[:MOST_FILES]
    except OSError:
        return []


def _age(path: Path) -> float:
    with contextlib.suppress(OSError):
        return -path.stat().st_mtime
    return 0.0


def _traces(path: Path) -> set[str]:
    """Return the traces that a file has notes on; a damaged one is no one's."""
    return {t.sha256 for t in file.traces(path)}
