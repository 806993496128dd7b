"""What a timeline does with matches: those of a search, or of rows that are emphasised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.views import chosen
from workbench.views.lod import NONE
from workbench.views.search import matching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from workbench.views.lanes import Lanes
    from workbench.views.search import Found

WELL_SEEN = 200
"""A match is looked at closer when it takes less than one part in this many of the window."""


class Sought:
    """The part of a `Timeline` that walks from match to match."""

    data: Lanes
    found: Found | None
    search: str
    window: list[int]
    extent: list[int]
    selected: dict[str, Any]
    hold_sync: Callable[[], Any]
    _look: Callable[[object], None]
    _marked: Callable[[], int]
    _select: Callable[[int], None]
    _emphasis: tuple[str, NDArray[np.bool_]] | None = None

    def next_match(self) -> dict[str, Any]:
        """Select the match of `search` after the selected event, else in or after the window.

        After the last comes the first. `window` moves so that it is well seen. Returns
        `selected`; nothing changes, and {} is returned, where nothing matches.
        """
        return self._step(1)

    def previous_match(self) -> dict[str, Any]:
        """Select the match before, as `next_match` does the one after."""
        return self._step(-1)

    def emphasise(self, what: str, rows: Iterable[chosen.Rows] = ()) -> None:
        """Mark the events of some rows and dim the rest; `what` names them, "" marks none.

        `matches` and the keys of a search then count and walk these; a search stands in their
        place as long as it lasts.
        """
        self._emphasis = (what, chosen.mask(self.data, rows)) if what else None
        if not self.search:
            self._look(None)

    def _kept(self) -> NDArray[np.bool_] | None:
        """Say of each event whether it is searched for, or else emphasised."""
        if self.search:
            return matching(self.data, self.search)
        return self._emphasis[1] if self._emphasis is not None else None

    def _step(self, by: int) -> dict[str, Any]:
        if self.found is None or not self.found.total:
            return {}
        at = self._marked()
        start = self.window[0] if at == NONE else self.data.event(at).start_ns
        i = self.found.beside(at, start, by)
        with self.hold_sync():
            self.window = self._around(i)
            self._select(i)
        return dict(self.selected)

    def _around(self, i: int) -> list[int]:
        """Return a window in which an event is well seen: the present one if it is that."""
        (a, b), (first, last) = self.window, self.extent
        event = self.data.event(i)
        start, dur = event.start_ns, event.dur_ns
        span = b - a
        if 0 < dur < span / WELL_SEEN or dur > span:
            span = 2 * dur if dur > span else 50 * dur
        elif a <= start and start + dur <= b:
            return [a, b]
        span = min(max(span, 1), last - first)
        left = min(max(start + dur // 2 - span // 2, first), last - span)
        return [left, left + span]
