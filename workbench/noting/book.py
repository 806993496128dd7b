"""`Book`: the notes of one recording, read from where they lie and written there at each change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from workbench.errors import InputError, UsageError
from workbench.noting import file, note, places
from workbench.noting.merge import Notes, alike, live, merge
from workbench.trace import atomic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from workbench.noting.file import Kept, Recording
    from workbench.noting.note import Note, Target
    from workbench.trace.core import Source

NOWHERE = "they last as long as this session: what is shown comes from no file"
SHORTEST_ID = 4
"""Fewer digits name no note: a slip of the finger must not."""


class Book:
    """The notes of a source; of none, or of one without a file, they are kept in memory alone.

    `trouble` is the sentence that says why notes can't be changed, and `said` what a reader of them
    must know.
    """

    def __init__(self, source: Source | None = None) -> None:
        self.places = places.Places(None, None) if source is None else places.of(source)
        self._traces = frozenset() if source is None else places.recordings(source)
        self.notes: Notes = ()
        self._fallen: str | None = None
        self.reread()

    def reread(self) -> None:
        """Read the files again: another notebook, or another person, may have changed them."""
        found: dict[Path, Kept] = {}
        broken: list[str] = []
        for path in self.places.read:
            try:
                found[path] = file.load(path)
            except InputError as error:
                broken.append(str(error))
        later = [file.newer(p, k) for p, k in found.items() if k.version > file.SCHEMA_VERSION]
        self._found, self.broken = found, " ".join(broken) or None
        self.trouble = " ".join([*broken, *later]) or None
        if self.places.read:
            self.notes = merge(*(kept.notes for kept in found.values()))

    def check(self) -> None:
        """Raise InputError where a file could not be read."""
        if self.broken:
            raise InputError(self.broken)

    @property
    def path(self) -> Path | None:
        """The file that changes go to; None where they are kept in memory."""
        return self.places.user if self._fallen else (self.places.own or self.places.user)

    @property
    def said(self) -> tuple[str, ...]:
        """Sentences on where notes are kept, and on what they were made."""
        told = [self.trouble, self._fallen, *map(self._on_another, self._found.items())]
        return tuple(s for s in told if s)

    def _on_another(self, item: tuple[Path, Kept]) -> str | None:
        path, kept = item
        other = [r for r in self._traces if _differs(r, kept.traces)]
        if not other or not kept.notes:
            return None
        ranks = ", ".join(str(r.rank) for r in sorted(other, key=lambda r: (r.rank or 0, r.sha256)))
        which = "" if any(r.rank is None for r in other) else f" of rank {ranks}"
        return (
            f"The notes in {path} were made on another recording{which}: the file has changed "
            "since. Notes that are not found in this one say so."
        )

    # ---- changing ---------------------------------------------------------------------------

    def add(self, name: str, text: str, target: Target, **options: Any) -> Note:
        """Add a note, and write it; see `note.new`.

        Raises
        ------
        UsageError
            Name, text or another value is out of bounds.
        InputError
            The file can't be read or written.
        """
        return self._put(_checked(note.new, name, text, target, **options))

    def edit(self, number: str, revision: str | None = None, **changes: Any) -> Note:
        """Change name, text, target, colour or tag of a note; see `add`.

        `number` is its id or the beginning of one; `revision` tells which of two states is meant,
        and that nothing newer has been seen.
        """
        old = self._known(number, revision)
        return self._put(_checked(note.change, old, seen=alike(self.notes, old), **changes))

    def remove(self, number: str, revision: str | None = None, **options: Any) -> None:
        """Remove a note, also from what others merge with it; see `edit`."""
        old = self._known(number, revision)
        self._put(note.remove(old, seen=alike(self.notes, old), **options))

    def take(self, path: Path) -> int:
        """Merge another file of notes into these; return how many notes that changed or added."""
        if not path.exists():
            raise InputError(f"There is no file {path}; check the path.")
        other = file.load(path)
        before = self.notes
        self._write(other.notes, self._traces)
        return sum(n not in before for n in self.notes)

    def _known(self, number: str, revision: str | None) -> Note:
        """Return the state that is meant."""
        is_told = len(number) >= SHORTEST_ID
        states = [n for n, _ in live(self.notes) if is_told and n.id.startswith(number)]
        if len({n.id for n in states}) > 1:
            raise UsageError(
                f"Several notes have an id that begins with {number}; give more of it."
            )
        meant = [n for n in states if revision is None or n.revision == revision]
        if not states or (not meant and not revision):
            raise UsageError(f"There is no note {number!r}; it may have been removed meanwhile.")
        if len(meant) > 1:
            told = " or ".join(n.revision for n in meant)
            raise UsageError(f"Note {number} has been changed on two sides; say which: {told}.")
        if not meant:
            raise UsageError(
                f"Note {states[0].name!r} has been changed meanwhile; look at it again, then edit."
            )
        return meant[0]

    def _put(self, changed: Note) -> Note:
        self._write([changed], self._traces)
        return changed

    def _write(self, notes: Iterable[Note], traces: Iterable[Recording]) -> None:
        if self.trouble:
            raise InputError(self.trouble)
        added = tuple(notes)
        if self.path is None:
            self.notes = merge(self.notes, added)
            return
        try:
            file.add(self.path, added, traces)
        except OSError as error:
            self._fall_back(error)
            self._write(added, traces)
            return
        self.reread()

    def _fall_back(self, error: OSError) -> None:
        """Keep notes in the user's folder from now on, if that is not what has failed."""
        if self.path == self.places.user or self.places.user is None:
            raise InputError(
                f"{self.path} can't be written ({atomic.reason(error)}); make its folder writable, "
                f"or name another in {places.FOLDER_SETTING}."
            ) from None
        self._fallen = (
            f"{self.path} can't be written ({atomic.reason(error)}), so new notes are kept in "
            f"{self.places.user}."
        )


def _differs(recording: Recording, known: Iterable[Recording]) -> bool:
    """Say whether notes were made on this rank, but on another file of it."""
    same_rank = [k for k in known if k.rank == recording.rank or None in (k.rank, recording.rank)]
    return bool(same_rank) and all(k.sha256 != recording.sha256 for k in known)


def _checked(make: Any, *arguments: Any, **options: Any) -> Note:
    try:
        made: Note = make(*arguments, **options)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise UsageError(f"The note can't be kept: {atomic.reason(error)}.") from None
    return made
