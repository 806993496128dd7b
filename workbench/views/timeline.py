"""The timeline widget: a canvas in the browser, the level-of-detail engine in the kernel.

The front end (`timeline.js`) asks for windows and shows what comes back (`replies`); this class
holds what other panes may watch or set: `window`, `selection`, `selected`, `annotations`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import numpy as np
import polars as pl
import traitlets as t

from workbench import intervals, units
from workbench.errors import UsageError
from workbench.views import replies, theme
from workbench.views.lanes import Lanes, activity_lanes, from_frame
from workbench.views.lod import NONE
from workbench.views.overview import overview, png

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.trace.core import Source

HERE = Path(__file__).parent
FRONT_END = "\n".join((HERE / f).read_text("utf-8") for f in ("timeline_draw.js", "timeline.js"))
EMPTY_TEXT = "Nothing to draw: the source has no events."


def _to_text(value: Sequence[int], _: object) -> list[str]:
    """Write ns as decimal text: JSON numbers lose them above 2^53 in a browser."""
    return [str(v) for v in value]


def _from_text(value: Sequence[str], _: object) -> list[int]:
    return [int(v) for v in value]


def _times(*default: int) -> t.List:
    trait = t.List(t.Int(), list(default), maxlen=2)
    return trait.tag(sync=True, to_json=_to_text, from_json=_from_text)


class Timeline(anywidget.AnyWidget):
    """A zoomable timeline of a `Trace`, a `Job`, `Lanes`, or a frame of events.

    Watch or set, all times in ns of the source: `window` and `selection` ([start, end], the latter
    empty without one), `selected` ({"table", "rank", "id"} of the event that was clicked, or {}),
    `annotations` ({"name", "start_ns", "end_ns"} each). A frame needs `by`, its lane columns.
    """

    _esm = FRONT_END
    _css = HERE / "timeline.css"
    lanes = t.List(t.Dict()).tag(sync=True)
    palette = t.Dict().tag(sync=True)
    extent = _times(0, 1)
    window = _times(0, 1)
    selection = _times()
    annotations = t.List(t.Dict()).tag(sync=True)
    max_height = t.Int(560).tag(sync=True)
    """Height of the lanes in CSS pixels; more of them scroll."""
    selected = t.Dict()
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
        **traits: Any,
    ) -> None:
        self.data = _lanes_of(source, by)
        end = self.data.origin_ns + self.data.engine.span_ns
        rows = np.bincount(self.data.row_lane, minlength=len(self.data.lanes)).tolist()
        view = overview(self.data)
        extent = [self.data.origin_ns, end]
        super().__init__(
            lanes=[
                {"label": replies.clip(lane.label), "rows": n, "hidden": lane.hidden}
                for lane, n in zip(self.data.lanes, rows, strict=True)
            ],
            palette={name: list(look.palette) for name, look in theme.THEMES.items()},
            extent=extent,
            snapshot_rows=len(view.busy),
            snapshot_busy=view.busy.tobytes(),
            snapshot_colour=view.colour.tobytes(),
            **{"window": extent} | traits,
        )
        self.on_msg(self._on_message)

    def __repr__(self) -> str:
        """Name the tables shown and nothing that changes between runs (notebook checks compare)."""
        tables = dict.fromkeys(lane.table for lane in self.data.lanes)
        return f"Timeline({', '.join(tables)})"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        out = super()._repr_mimebundle_(**kwargs)
        data, meta = out if isinstance(out, tuple) else (out or {}, {})
        return data | {"image/png": png(self.data)}, meta

    def table(self, top: int | None = None, window: tuple[int, int] | None = None) -> pl.DataFrame:
        """Break a stretch of time down by lane: the selection, else what is visible.

        Columns: `lane`; `events`, those that touch it; `busy_ns`, the union of their times in it;
        `share`, busy / length. `top` keeps the busiest lanes.
        """
        a, b = window or self.selection or self.window
        rows = self._lane_totals(a - self.data.origin_ns, b - self.data.origin_ns)
        schema = {"lane": pl.String, "events": pl.Int64, "busy_ns": pl.Int64}
        frame = pl.DataFrame(rows, schema, orient="row")
        share = pl.col("busy_ns") / (b - a) if b > a else pl.lit(None, pl.Float64)
        frame = frame.with_columns(share.alias("share"))
        return frame if top is None else frame.sort("busy_ns", descending=True).head(top)

    def text(self, top: int | None = None) -> str:
        """Return `table` as aligned text with units."""
        a, b = self.selection or self.window
        frame = self.table(top)
        if not frame.height:
            return EMPTY_TEXT
        wide = max(map(len, frame["lane"]))
        lines = [f"{'lane':{wide}}  {'events':>9}  {'busy':>10}  {'share':>7}"]
        lines += [
            f"{lane:{wide}}  {events:9,}  {units.duration(busy):>10}  {units.share(busy, b - a):>7}"
            for lane, events, busy, _ in frame.iter_rows()
        ]
        return "\n".join(lines)

    def _lane_totals(self, a: int, b: int) -> list[tuple[str, int, int]]:
        events, busy = self.data.engine.totals(a, max(a, b))
        out = []
        for k, lane in enumerate(self.data.lanes):
            rows = np.flatnonzero(self.data.row_lane == k)
            one = len(rows) == 1
            union = int(busy[rows[0]]) if one else self._union(rows, a, b)
            out.append((lane.label, int(events[rows].sum()), union))
        return out

    def _union(self, rows: np.ndarray[Any, Any], a: int, b: int) -> int:
        lo, hi = self.data.offset[rows[0]], self.data.offset[rows[-1] + 1]
        start, dur = self.data.start[lo:hi], self.data.dur[lo:hi]
        return intervals.length(intervals.union(np.maximum(start, a), np.minimum(start + dur, b)))

    @t.validate("selection", "window")  # type: ignore[untyped-decorator]
    def _ordered(self, proposal: Mapping[str, Any]) -> list[int]:
        value: list[int] = list(proposal["value"])
        if value and (len(value) != 2 or value[1] < value[0]):  # noqa: PLR2004
            raise UsageError(
                f"{proposal['trait'].name} must be [start_ns, end_ns] in order, not {value}."
            )
        return value

    @t.validate("selected")  # type: ignore[untyped-decorator]
    def _whole(self, proposal: Mapping[str, Any]) -> dict[str, Any]:
        value: dict[str, Any] = dict(proposal["value"])
        if value and not {"table", "id"} <= set(value):
            raise UsageError(f"selected needs table, rank and id, or nothing at all; not {value}.")
        return {"rank": None} | value if value else {}

    @t.validate("annotations")  # type: ignore[untyped-decorator]
    def _exact(self, proposal: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Keep times as decimal text, for the same reason as `window`."""
        times = ("start_ns", "end_ns")
        return [a | {k: str(int(a[k])) for k in times} for a in proposal["value"]]

    @t.observe("selected")  # type: ignore[untyped-decorator]
    def _highlight(self, _: object) -> None:
        i = self._clicked if self.selected else NONE
        if self.selected and self.selected != self._named(i):
            i = self.data.find(self.selected["table"], self.selected["id"], self.selected["rank"])
        self.mark = replies.describe(self.data, i)

    _clicked = NONE

    def _named(self, i: int) -> dict[str, Any]:
        if i == NONE:
            return {}
        event = self.data.event(i)
        return {"table": event.lane.table, "rank": event.lane.rank, "id": event.id}

    def _on_message(self, _: object, message: Mapping[str, Any], __: object = None) -> None:
        kind = message.get("type")
        if kind == "view":
            self.send(*replies.view(self.data, message))
        elif kind == "hover":
            found = replies.describe(self.data, replies.pick(self.data, message))
            self.send({"type": "hover", "view": message.get("view")} | found, [])
        elif kind == "pick":
            self._clicked = replies.pick(self.data, message)
            self.mark = replies.describe(self.data, self._clicked)
            self.selected = self._named(self._clicked)


def _lanes_of(source: Source | Lanes | pl.DataFrame, by: Sequence[str]) -> Lanes:
    if isinstance(source, Lanes):
        return source
    if isinstance(source, pl.DataFrame):
        return from_frame(source, by=by)
    return activity_lanes(source)
