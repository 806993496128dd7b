"""The notes on a timeline: which are drawn where, and what is asked of them in Python or a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import UsageError, WorkbenchError
from workbench.noting import frame, targets
from workbench.noting.book import NOWHERE, Book
from workbench.noting.merge import live
from workbench.noting.note import Event, Note, Span
from workbench.noting.resolve import Place, place
from workbench.views.lod import NONE
from workbench.views.replies import clip

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from workbench.noting.note import Target
    from workbench.trace.core import Source
    from workbench.views.lanes import Lanes
    from workbench.views.timeline import Timeline

ROOM = 0.5
"""Free time on each side of what is brought into sight, as a share of its length."""


class Noted:
    """What a timeline knows of notes: those of its source's `book`; without one, its own alone."""

    def __init__(self, timeline: Timeline, source: Source | None) -> None:
        self.timeline, self.source = timeline, source
        self.book = Book(source)
        self.show()

    def show(self) -> None:
        """Put the notes on the timeline; spans that were set in Python alone stay."""
        own = [a for a in self.timeline.annotations if "id" not in a]
        with self.timeline.hold_sync():
            self.timeline.annotations = [*own, *self._drawn()]
            self.timeline.keeping = self._keeping()

    def reread(self) -> None:
        """Read the file again: another notebook may have changed it."""
        self.book.reread()
        self.show()

    # ---- changes ------------------------------------------------------------------------------

    def add(self, name: str, text: str, target: Target | None = None, **options: Any) -> str:
        """Add a note and return its id; by default on the selected event, else the selection."""
        made = self.book.add(name, text, target or self._selected(), **options)
        self.show()
        return made.id

    def edit(self, number: str, revision: str | None = None, **changes: Any) -> None:
        """Change name, text, colour, tag or target of a note; see `Book.edit`."""
        self.book.edit(number, revision, **changes)
        self.show()

    def remove(self, number: str, revision: str | None = None) -> None:
        """Remove a note."""
        self.book.remove(number, revision)
        self.show()

    def target(self, **about: Any) -> Target:
        """Return what is meant as a note's target; see `targets.target`."""
        event = about.get("event")
        if self.source is not None:
            return targets.target(self.source, **about)
        if event is not None:
            return self._drawn_event(event)
        stretch = about.get("span") or [about.get("at")] * 2
        if None in stretch:
            raise UsageError(
                "This timeline shows no trace: a note on it is about start_ns and end_ns, at_ns, "
                "or an event."
            )
        return targets.of_span(stretch, 0)

    def _selected(self) -> Target:
        if self.timeline.selected:
            return self.target(event=self.timeline.selected)
        if self.timeline.selection:
            return self.target(span=self.timeline.selection)
        raise UsageError("Select an event or a range first, or say what the note is about.")

    def _drawn_event(self, event: Mapping[str, Any]) -> Event:
        """Return an event of lanes that come from no trace."""
        i = self.timeline.data.find(event["table"], event["id"], event.get("rank"))
        if i == NONE:
            raise UsageError(f"There is no event {dict(event)} on this timeline.")
        found = self.timeline.data.event(i)
        lane = found.lane
        return Event(
            lane.table, found.name, found.start_ns, found.dur_ns, lane.rank, None, lane.stream,
            None, found.id,
        )  # fmt: skip

    # ---- what the page asks -------------------------------------------------------------------

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Do what the page asks of a note; `problem` in the reply says why it was not done.

        `do`: add (`name`, `text`, and `span` [start, end] or the selected event), edit (`name`,
        `text`), move (`span`), remove, show; all but the first with `id` and `revision`. Times are
        decimal text of ns.
        """
        reply = {"type": "note", "view": message.get("view"), "asked": message.get("asked")}
        try:
            return reply | {"problem": "", "id": self._done(message)}
        except WorkbenchError as error:
            return reply | {"problem": str(error), "id": message.get("id")}

    def _done(self, message: Mapping[str, Any]) -> str:
        do = message["do"]
        if do == "add":
            span = message.get("span")
            about = {"span": list(map(int, span))} if span else {"event": self.timeline.selected}
            return self.add(str(message["name"]), str(message["text"]), self.target(**about))
        number, revision = str(message["id"]), message.get("revision")
        if do == "edit":
            self.edit(number, revision, **{k: str(message[k]) for k in ("name", "text")})
        elif do == "move":
            self._move(number, revision, [int(t) for t in message["span"]])
        elif do == "remove":
            self.remove(number, revision)
        elif do == "show":
            self.bring(number)
        return number

    def _move(self, number: str, revision: str | None, stretch: list[int]) -> None:
        """Give a span other ends; it stays on its rank."""
        old = next((n for n, _ in live(self.book.notes) if n.id == number), None)
        rank = old.target.rank if old is not None and isinstance(old.target, Span) else None
        self.edit(number, revision, target=targets.of_span(stretch, self._origin, rank))

    @property
    def _origin(self) -> int:
        return 0 if self.source is None else self.source.origin_ns

    def bring(self, number: str) -> None:
        """Bring what a note is about into sight, and select it if it is an event."""
        spot = next((a for a in self.timeline.annotations if a.get("id") == number), None)
        if spot is None:
            return
        start, end = int(spot["start_ns"]), int(spot["end_ns"])
        with self.timeline.hold_sync():
            a, b = self.timeline.window
            if not a <= start <= end <= b:
                self.timeline.window = self._around(start, end)
            if spot["kind"] == "event":
                self.timeline.selected = spot["event"]
            elif start < end:
                self.timeline.window = self._around(start, end)

    def _around(self, start: int, end: int) -> list[int]:
        first, last = self.timeline.extent
        a, b = self.timeline.window
        room = int((end - start) * ROOM) if end > start else (b - a) // 2
        low, high = max(first, start - room), min(last, end + room)
        return [low, high] if low < high else [a, b]

    # ---- what is drawn ------------------------------------------------------------------------

    def _keeping(self) -> dict[str, Any]:
        before = self.timeline.keeping.get("changes", 0)
        where = NOWHERE if self.book.path is None else "they are kept with the recording"
        return {
            "editable": self.book.trouble is None,
            "said": " ".join(self.book.said) or f"Notes: {where}.",
            "changes": before + 1,
        }

    def _drawn(self) -> Iterator[dict[str, Any]]:
        """Return what the front end draws of each note that has a place in time here."""
        for note, others in live(self.book.notes):
            spot = self._place(note)
            if spot.reason is not None or spot.start_ns is None:
                continue
            row = self._row(note, spot)
            if isinstance(note.target, Event) and row is None:
                continue
            yield {
                **{k: getattr(note, k) for k in ("id", "revision", "name", "text", "author")},
                "changed": note.changed.isoformat(timespec="minutes"),
                "kind": frame.kind(note),
                "target": clip(frame.words(note)),
                "start_ns": spot.start_ns,
                "end_ns": spot.end_ns,
                "colour": note.colour,
                "row": row,
                "rows": self._rows(note),
                "event": self._event(note, spot),
                "conflict": bool(others),
            }

    def _place(self, note: Note) -> Place:
        if self.source is not None:
            return place(self.source, note)
        target = note.target
        if isinstance(target, Span):
            return Place(target.start_ns, target.end_ns)
        assert isinstance(target, Event)
        end = target.start_ns + target.dur_ns
        return Place(target.start_ns, end, target.rank, target.id)

    @staticmethod
    def _event(note: Note, spot: Place) -> dict[str, Any] | None:
        if not isinstance(note.target, Event):
            return None
        return {"table": note.target.table, "rank": spot.rank, "id": spot.event}

    def _row(self, note: Note, spot: Place) -> int | None:
        """Return the row that an event is drawn on."""
        if not isinstance(note.target, Event) or spot.event is None or spot.start_ns is None:
            return None
        lanes = self.timeline.data
        return _row_of(lanes, (note.target.table, spot.rank), spot.event, spot.start_ns)

    def _rows(self, note: Note) -> list[int] | None:
        """Return the rows that a span of one rank is drawn on, where there are several ranks."""
        rank = getattr(note.target, "rank", None)
        lanes = self.timeline.data
        if rank is None or len({lane.rank for lane in lanes.lanes}) < 2:  # noqa: PLR2004
            return None
        return [r for r, k in enumerate(lanes.row_lane) if lanes.lanes[k].rank == rank]


def _row_of(lanes: Lanes, of: tuple[str, int | None], number: int, start_ns: int) -> int | None:
    """Return the row of an event by its table, rank, number and begin."""
    at = start_ns - lanes.origin_ns
    for row, k in enumerate(lanes.row_lane):
        if (lanes.lanes[k].table, lanes.lanes[k].rank) != of:
            continue
        lo, hi = int(lanes.offset[row]), int(lanes.offset[row + 1])
        start = lanes.start[lo:hi]
        first, last = np.searchsorted(start, at), np.searchsorted(start, at, "right")
        if (lanes.id[lo + first : lo + last] == number).any():
            return row
    return None
