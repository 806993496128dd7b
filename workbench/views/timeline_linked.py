"""The part of the timeline widget that ties the selected event to others, and walks to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import traitlets as t

from workbench.views import replies
from workbench.views.flow import SCHEMA, Link, Place, frame, links
from workbench.views.lod import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.trace.core import Source
    from workbench.views.lanes import Lanes


class Linked(t.HasTraits):
    """Links of the selected event: to its launch, operator, other pass, and other ranks."""

    flow = t.Dict().tag(sync=True)
    """What the front end draws: `nodes`, events as `replies.describe` has them; `stops`, numbers of
    those that a walk visits, the first one that which the links are of; `lines`, pairs of numbers,
    from what came first to what followed."""

    data: Lanes
    source: Source | None = None
    """The trace or job shown; None for other events."""
    _links: tuple[Link, ...] = ()

    @property
    def links(self) -> pl.DataFrame:
        """Return what the selected event is tied to: `relation table rank id name start_ns dur_ns`.

        `relation` is `launch`, `operator`, `forward` or `backward` (the other pass of that
        operator), `work` (what an operator put on the device), or `other rank` (the same
        collective there); `id` is a row of `table`. After a walk along the links they stay those of
        the event where it began. Times are of the source; no rows without a selection, or where
        the timeline was not made of a trace.
        """
        if self.source is None:
            return pl.DataFrame(schema=SCHEMA)
        return frame(self.source, self._links)

    def _link(self, selected: dict[str, Any], place: int) -> None:
        """Find the links of an event; they stay while it is one of their stops."""
        stops = [self.flow["nodes"][k]["event"] for k in self.flow.get("stops", ())]
        if selected and place in stops:
            return
        known = self.source is not None and place != NONE
        self._links = tuple(links(self.source, selected)) if known else ()  # type: ignore[arg-type]
        self.flow = _drawn(self.data, selected, place, self._links) if self._links else {}


def _drawn(
    lanes: Lanes, selected: dict[str, Any], place: int, links: Sequence[Link]
) -> dict[str, Any]:
    """Return what has a place on the timeline of an event's links."""
    start: Place = (selected["table"], selected["rank"], selected["id"])
    ends = {event for link in links for event in (link.place, link.beside)}
    at = lanes.places_of(ends) | {start: place}
    pairs = [_line(link, _shown(link.beside, links, at)) for link in links if link.place in at]
    nodes = list(dict.fromkeys([start, *(e for pair in pairs for e in pair)]))
    number = {event: k for k, event in enumerate(nodes)}
    relation = {link.place: link.relation for link in links if link.place in at}
    return {
        "nodes": [
            replies.describe(lanes, at[e]) | {"event": at[e], "relation": relation.get(e, "")}
            for e in nodes
        ],
        "stops": [0, *(number[e] for e in relation if e in number and e != start)],
        "lines": [[number[a], number[b]] for a, b in pairs if a != b],
    }


def _shown(event: Place, links: Sequence[Link], at: Mapping[Place, int]) -> Place:
    """Return an event that is on the timeline; else the one that it was reached from."""
    while event not in at:
        event = next(link.beside for link in links if link.place == event)
    return event


def _line(link: Link, beside: Place) -> tuple[Place, Place]:
    """Order the ends of a line: what came first, then what followed."""
    caused = link.relation in {"work", "backward", "other rank"}
    return (beside, link.place) if caused else (link.place, beside)
