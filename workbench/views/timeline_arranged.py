"""The part of the timeline widget that says which lanes stand where, and how it is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets as t

from workbench.views import counter_tracks
from workbench.views.arrange import Shelf, shelf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from workbench.views.counter_tracks import Track
    from workbench.views.lanes import Lanes


class Arranged(t.HasTraits):
    """Lanes and tracks in an order, some of them folded or hidden; all by their labels.

    A whole group of them, a device or a rank's host, is named by its heading: `GPU 0 · *`.
    """

    order = t.List(t.Unicode()).tag(sync=True)
    """Lanes and tracks from the top; those left out when it is set follow as they stand."""
    folded = t.List(t.Unicode()).tag(sync=True)
    """Lanes folded to their first row, and groups folded to their heading."""
    hidden = t.List(t.Unicode()).tag(sync=True)
    """Lanes and tracks that are not drawn."""
    curves = t.List(t.Dict()).tag(sync=True)
    """What the front end knows of the tracks."""

    data: Lanes
    window: list[int]
    selection: list[int]
    _shelf = Shelf(())
    all_tracks: tuple[Track, ...] = ()

    @property
    def tracks(self) -> tuple[str, ...]:
        """Return the names of all counter tracks, hidden ones too."""
        return tuple(item.key for item in self._shelf.items if not item.is_lane)

    def _arranged(self, lanes: Lanes, tracks: Sequence[Track]) -> dict[str, Any]:
        """Take the items; return the traits that follow from them."""
        self.all_tracks = tuple(tracks)
        self._shelf = shelf(lanes, self.all_tracks)
        drawn = counter_tracks.shown(self.all_tracks)
        hidden = [
            item.key
            for item in self._shelf.items
            if not item.is_lane and self.all_tracks[item.number].name not in drawn
        ]
        curves = [
            looks | {"unit": track.unit}
            for looks, track in zip(self._looks(is_lane=False), self.all_tracks, strict=True)
        ]
        return {"order": self._shelf.keys, "hidden": hidden, "curves": curves}

    def _looks(self, *, is_lane: bool) -> list[dict[str, Any]]:
        """Return what the front end knows of each lane or track: names, group, usual place."""
        mine = [(n, i) for n, i in enumerate(self._shelf.items) if i.is_lane == is_lane]
        mine.sort(key=lambda pair: pair[1].number)
        return [{"key": i.key, "short": i.short, "group": i.group, "place": n} for n, i in mine]

    def counter_table(self, window: tuple[int, int] | None = None) -> pl.DataFrame:
        """Return `track unit min mean max` of the tracks shown, over a stretch as `table` has it.

        Values of a track hold until its next sample; `mean` is weighted by time; null where
        nothing of the stretch is known.
        """
        a, b = window or self.selection or self.window
        origin = self.data.origin_ns
        shown = [i.number for i in self._shelf.items if not i.is_lane and i.key not in self.hidden]
        return counter_tracks.table([self.all_tracks[k] for k in shown], a - origin, b - origin)

    @t.validate("order")  # type: ignore[untyped-decorator]
    def _whole_order(self, proposal: Mapping[str, Any]) -> list[str]:
        return self._shelf.ordered(proposal["value"])

    @t.validate("folded")  # type: ignore[untyped-decorator]
    def _foldable(self, proposal: Mapping[str, Any]) -> list[str]:
        return self._shelf.foldable(proposal["value"])

    @t.validate("hidden")  # type: ignore[untyped-decorator]
    def _items(self, proposal: Mapping[str, Any]) -> list[str]:
        return self._shelf.members("hidden", proposal["value"])
