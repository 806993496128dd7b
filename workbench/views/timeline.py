"""The timeline widget: a canvas in the browser, the level-of-detail engine in the kernel.

The front end (`timeline.js`) asks for windows and shows what comes back (`replies`); this class
holds what other panes may watch or set: `window`, `selection`, `selected`, `annotations`, `search`,
`filter`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import numpy as np
import polars as pl
import traitlets as t

from workbench.errors import UsageError
from workbench.views import (
    counter_tracks,
    filters,
    lane_table,
    origin,
    outputs,
    replies,
    theme,
    walk,
)
from workbench.views import timeline_traits as traits
from workbench.views.front_end import FRONT_END, HERE
from workbench.views.kept_lanes import lanes_of
from workbench.views.lanes import Lanes
from workbench.views.layers import from_frame
from workbench.views.lod import NONE
from workbench.views.overview import overview
from workbench.views.search import MAX_FOUND, Found, find, hits
from workbench.views.timeline_annotated import Annotated
from workbench.views.timeline_arranged import Arranged
from workbench.views.timeline_linked import Linked
from workbench.views.timeline_measured import Measured
from workbench.views.timeline_sought import Sought

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.trace.core import Source

MAX_OFFERS = 1_000
"""Choices of a filter that the front end lists; Python takes any."""


class Timeline(Arranged, Linked, Measured, Sought, Annotated, anywidget.AnyWidget):
    """A zoomable timeline of a `Trace`, a `Job`, `Lanes`, or a frame of events.

    Watch or set, all times in ns of the source: `window` and `selection` ([start, end], the latter
    empty without one), `selected` ({"table", "rank", "id"} of the event that was clicked, or {}),
    `annotations` ({"name", "start_ns", "end_ns"} each, `text` and `colour` if you like). A frame
    needs `by`, its lane columns. Notes kept with the source stand among the annotations, with an
    `id`; `annotate` adds one, `noted` changes and removes them. `order`, `folded` and `hidden`
    arrange lanes and counter `tracks`; `links` says what the selected event is tied to, `measure`
    and `counter_table` what a stretch holds.

    `search`, as `find` takes it, marks what matches and dims the rest; `matches` counts.
    `filter` hides what does not fulfil it: {"families": […], "streams": […], "steps": […],
    "text": …}, each optional, all at once; lanes stay, and `filtered` says it in words. Searches,
    `table` and `text` then look at what is drawn alone; `find` always looks at everything.
    """

    _esm = FRONT_END
    _css = HERE / "timeline.css"
    lanes = t.List(t.Dict()).tag(sync=True)
    palette = t.Dict().tag(sync=True)
    extent = traits.times(0, 1)
    window = traits.times(0, 1)
    selection = traits.times()
    max_height = t.Int(560).tag(sync=True)
    """Height of the lanes in CSS pixels; more of them scroll."""
    selected = t.Dict()
    search = t.Unicode().tag(sync=True)
    filter = traits.choices()
    matches = t.Dict().tag(sync=True)
    """Of a search or an emphasis: `text`, `total`, `within` (those that touch `window`, on any
    lane), `at` (the number of the selected one in order of time, from 1; 0 without), `problem`
    (what is wrong with a text typed in the browser)."""
    filtered = t.Unicode().tag(sync=True)
    """What `filter` leaves, as a sentence; empty without one."""
    offers = t.Dict().tag(sync=True)
    """Families, streams and steps that the front end lists to choose from."""
    version = t.Int().tag(sync=True)
    """Counts changes of what is drawn, so that the front end asks anew."""
    mark = t.Dict().tag(sync=True)
    """What the front end highlights: `replies.describe` of the selected event."""
    snapshot_rows = t.Int().tag(sync=True)
    snapshot_busy = t.Bytes().tag(sync=True)
    snapshot_colour = t.Bytes().tag(sync=True)
    """The overview, so that a notebook reopened without a kernel still shows something."""

    def __init__(
        self,
        source: Source | Lanes | pl.DataFrame,
        *,
        by: Sequence[str] = (),
        **given: Any,
    ) -> None:
        self.data = self.drawn = _lanes_of(source, by)
        self.source = None if isinstance(source, (Lanes, pl.DataFrame)) else source
        tracks = () if self.source is None else counter_tracks.tracks(self.source, self.data)
        arranged = self._arranged(self.data, tracks)
        self.origin = origin.origin(source)
        self.found: Found | None = None
        self._offered = filters.offered(self.data)
        end = self.data.origin_ns + self.data.engine.span_ns
        rows = np.bincount(self.data.row_lane, minlength=len(self.data.lanes)).tolist()
        looks = self._looks(is_lane=True)
        view = self.whole = overview(self.data)
        extent = [self.data.origin_ns, end]
        super().__init__(
            lanes=[
                {"label": replies.clip(lane.label), "rows": n, "hidden": lane.hidden}
                | {"table": lane.table, **looks}
                for lane, n, looks in zip(self.data.lanes, rows, looks, strict=True)
            ],
            palette={name: list(look.palette) for name, look in theme.THEMES.items()},
            extent=extent,
            offers=_listed(self._offered),
            snapshot_rows=len(view.busy),
            snapshot_busy=view.busy.tobytes(),
            snapshot_colour=view.colour.tobytes(),
            **{"window": extent} | arranged | given,
        )
        self._read_notes(source)
        self.on_msg(self._on_message)

    def __repr__(self) -> str:
        """Name the tables shown and nothing that changes between runs (notebook checks compare)."""
        tables = dict.fromkeys(lane.table for lane in self.data.lanes)
        return f"Timeline({', '.join(tables)})"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return outputs.mimebundle(self, super()._repr_mimebundle_(**kwargs))

    def table(self, top: int | None = None, window: tuple[int, int] | None = None) -> pl.DataFrame:
        """Break a stretch of time down by lane: the selection, else what is visible.

        Columns: `lane`; `events`, those that touch it; `busy_ns`, the union of their times in it;
        `share`, busy / length. `top` keeps the busiest lanes.
        """
        a, b = window or self.selection or self.window
        return lane_table.table(self.drawn, a, b, top)

    def text(self, top: int | None = None) -> str:
        """Return `table` as aligned text with units."""
        return outputs.text(self, top)

    def save(
        self, path: str | Path, *, theme: str = "light", width: int = 1_200, title: str = "Timeline"
    ) -> Path:
        """Write it as a file: .html is alive, offline; .svg and .png are still pictures.

        A picture shows the window and the events that are drawn, in `theme` (light or dark) and
        `width` pixels; `title` is that of a page. Raises UsageError on another suffix or theme,
        InputError where nothing can be written.
        """
        target = Path(path).expanduser()
        return outputs.save(self, target, theme=theme, width=width, title=title)

    def find(
        self,
        text: str,
        *,
        table: str | None = None,
        kind: str | None = None,
        limit: int | None = MAX_FOUND,
    ) -> pl.DataFrame:
        """Return the events whose name matches, in order of time, drawn or hidden.

        `text` is a part of a name, or a regular expression when given as `/…/`; the case of
        letters does not matter (in an expression, `(?-i)` makes it matter). `table` and `kind`
        keep the events of one table (`activities`, `ops`, …) or kind (`kernel`, `copy`, …); of
        more than `limit` events the first, None for all. Columns: `rank`, `table`, `id` (row of
        the table), `name`, `lane`, `start_ns` (time of the source), `dur_ns`. Raises UsageError
        on an expression that is none, and on an unknown table or kind.
        """
        return find(self.data, text, table=table, kind=kind, limit=limit)

    @t.validate("selection", "window")  # type: ignore[untyped-decorator]
    def _ordered(self, proposal: Mapping[str, Any]) -> list[int]:
        return traits.in_order(proposal["trait"].name, proposal["value"])

    @t.validate("selected")  # type: ignore[untyped-decorator]
    def _whole(self, proposal: Mapping[str, Any]) -> dict[str, Any]:
        return traits.event(proposal["value"])

    def check(self, search: str, filtered: Mapping[str, Any]) -> None:
        """Raise UsageError for a `search` or a `filter` that could not be set."""
        filters.checked(self.data, filtered, self._offered)
        if search:
            hits(self.data, search)

    @t.validate("search")  # type: ignore[untyped-decorator]
    def _readable(self, proposal: Mapping[str, Any]) -> str:
        text: str = proposal["value"]
        if text:
            hits(self.data, text)
        return text

    @t.validate("filter")  # type: ignore[untyped-decorator]
    def _known(self, proposal: Mapping[str, Any]) -> dict[str, Any]:
        return filters.checked(self.data, proposal["value"], self._offered)

    @t.observe("filter")  # type: ignore[untyped-decorator]
    def _narrow(self, _: object) -> None:
        keep = filters.mask(self.data, self.filter) if self.filter else None
        self.drawn = self.data if keep is None else self.data.part(keep)
        of = len(self.data.start)
        self.filtered = filters.sentence(self.filter, len(self.drawn.start), of)
        view = overview(self.drawn)
        self.snapshot_busy, self.snapshot_colour = view.busy.tobytes(), view.colour.tobytes()
        self._look(None)
        self.mark = self._described(self._marked())

    @t.observe("search")  # type: ignore[untyped-decorator]
    def _look(self, _: object) -> None:
        keep = self._kept()
        part = self.drawn.places
        self.found = (
            None if keep is None else Found(self.drawn, keep if part is None else keep[part])
        )
        self._count(None)
        self.version += 1

    @t.observe("window")  # type: ignore[untyped-decorator]
    def _count(self, _: object) -> None:
        if self.found is None:
            self.matches = {}
            return
        within = self.found.within(*self.window)
        at = self.found.number(self._marked())
        counts = {"total": self.found.total, "within": within, "at": at}
        text = self.search or (self._emphasis or ("",))[0]
        self.matches = {"text": text} | counts | {"problem": ""}

    @t.observe("selected")  # type: ignore[untyped-decorator]
    def _highlight(self, _: object) -> None:
        self._show_mark(self._marked())

    def _show_mark(self, i: int) -> None:
        self._clicked = i
        self._count(None)
        self._link(self.selected, i)
        self.mark = self._described(i)

    def _described(self, i: int) -> dict[str, Any]:
        hidden = i != NONE and self.drawn.position(i) == NONE
        known = {"event": i} if i != NONE else {}
        return replies.describe(self.data, i) | known | ({"hidden": True} if hidden else {})

    def _marked(self) -> int:
        """Return the place of the selected event; -1 without one."""
        i = self._clicked if self.selected else NONE
        if self.selected and self.selected != self._named(i):
            i = self.data.find(self.selected["table"], self.selected["id"], self.selected["rank"])
        return i

    def _select(self, i: int) -> None:
        # the mark first: another part of a row that is selected already leaves `selected` as it is
        self._clicked = i
        self.selected = self._named(i)
        self._show_mark(i)

    _clicked = NONE

    def _named(self, i: int) -> dict[str, Any]:
        if i == NONE:
            return {}
        event = self.data.event(i)
        return {"table": event.lane.table, "rank": event.lane.rank, "id": event.id}

    def _on_message(self, _: object, message: Mapping[str, Any], __: object = None) -> None:
        kind = message.get("type")
        if kind == "view":
            self.send(*replies.view(self.drawn, message, self.found))
        elif kind == "hover":
            found = replies.describe(self.data, self._pointed(message))
            self.send({"type": "hover", "view": message.get("view")} | found, [])
        elif kind == "pick":
            self._select(self._pointed(message))
        elif kind == "step":
            self._step(1 if int(message["by"]) > 0 else -1)
        elif kind == "search":
            self._typed(str(message["text"]))
        elif kind == "tracks":
            self.send(*counter_tracks.reply(self.all_tracks, message))
        elif kind == "map":
            self.send(*replies.strip(self.drawn, message, self.found))
        elif kind == "sight":
            self.send(*lane_table.reply(self.drawn, message))
        elif kind == "move":
            self._walk(walk.moved(self.drawn, self._marked(), message), message)
        elif kind == "note":
            self.send(self.noted.answer(message), [])

    def _pointed(self, message: Mapping[str, Any]) -> int:
        """Return the place of the event that is meant; numbers count the whole, as in replies."""
        if "event" in message:
            return replies.pick(self.data, message)
        return self.drawn.place(replies.pick(self.drawn, message))

    def _walk(self, to: int, message: Mapping[str, Any]) -> None:
        if to == NONE:
            self.send({"type": "end", "view": message.get("view")}, [])
        else:
            self._select(to)

    def _typed(self, text: str) -> None:
        try:
            self.search = text
        except UsageError as error:
            self.search = ""
            none = {"text": text, "total": 0, "within": 0, "at": 0}
            self.matches = none | {"problem": str(error)}
        else:
            self._count(None)  # also when a text that was wrong is what it was before


def _listed(offered: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    return {k: [str(v) for v in values[:MAX_OFFERS]] for k, values in offered.items()}


def _lanes_of(source: Source | Lanes | pl.DataFrame, by: Sequence[str]) -> Lanes:
    if isinstance(source, Lanes):
        return source
    if isinstance(source, pl.DataFrame):
        return from_frame(source, by=by)
    return lanes_of(source)
