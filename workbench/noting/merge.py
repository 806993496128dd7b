"""Two people's notes made one: nothing that was written without knowing of the other is lost.

A set of notes holds the latest states: what a later one `replaces` is gone, what was changed on two
sides stands there twice until a person settles it. The union of two sets, less what is replaced,
is the same in whatever order and however often sets are merged.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from workbench.noting.note import Note, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Notes = tuple[Note, ...]
_CONTENT = ("name", "text", "target", "colour", "tag")


def merge(*sides: Iterable[Note]) -> Notes:
    """Return the latest states of all sides' notes, by when a note was made."""
    distinct = {_canonical(note): note for side in sides for note in side}
    of_id: dict[str, list[Note]] = defaultdict(list)
    for note in distinct.values():
        of_id[note.id].append(note)
    left = (note for states in of_id.values() for note in _latest(states))
    return tuple(sorted(left, key=lambda note: (note.created, note.id, _canonical(note))))


def _canonical(note: Note) -> bytes:
    return msgspec.json.encode(plain(note), order="deterministic")


def _latest(states: list[Note]) -> list[Note]:
    """Drop what another state replaces; of a ring, which nobody can have written, drop nothing."""
    if len(states) == 1:
        return states
    replaced = {r for state in states for r in state.replaces}
    return [s for s in states if s.revision not in replaced] or states


def live(notes: Iterable[Note]) -> Iterator[tuple[Note, Notes]]:
    """Yield each note that is not removed, and its other states that say something else.

    States that say the same are one, the last changed; a removal does not hide a change that was
    made without knowing of it.
    """
    of_id: dict[str, list[Note]] = defaultdict(list)
    for note in notes:
        if not note.removed:
            of_id[note.id].append(note)
    for states in of_id.values():
        said = {_content(s): s for s in sorted(states, key=lambda s: (s.changed, s.revision))}
        for note in said.values():
            yield note, tuple(s for s in said.values() if s is not note)


def alike(notes: Iterable[Note], note: Note) -> Notes:
    """Return the states of a note that say the same as it."""
    content = _content(note)
    return tuple(n for n in notes if n.id == note.id and not n.removed and _content(n) == content)


def _content(note: Note) -> tuple[object, ...]:
    return tuple(getattr(note, name) for name in _CONTENT)
