"""What the timeline's front end asks, and the answers: small headers and raw little-endian arrays.

No nanosecond is lost on the way. Times of events travel as int64 (BigInt64Array in the browser),
counted from the first event; a window is a `base`, decimal text of such an integer, and two offsets
from it, float64, which stay small because the front end moves the base along as it zooms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from workbench.views.lod import MAX_RECTS, NONE, Bins, Index, Window
from workbench.views.wide import wide

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from workbench.views.lanes import Lanes
    from workbench.views.search import Found

MAX_PIXELS = 8192
MAX_ROWS = 2**16
MAX_TEXT = 300
"""Characters of a name that travel; kernel names of ten thousand exist."""


class Reply(NamedTuple):
    """A JSON-ready header and binary buffers."""

    header: dict[str, Any]
    buffers: list[bytes]


def view(lanes: Lanes, request: Mapping[str, Any], found: Found | None = None) -> Reply:
    """Answer what to draw: every event while there are few, else what fills each pixel.

    Request: `base a b` (the window), `width` (pixels), `runs` (the rows, as pairs of first and last
    in ascending order; or `first last`, one such). Header: the same with `kind` and `n`, the number
    of visible events.

    - `rects`: int64 start, int64 dur, uint32 event, int32 step, uint16 row, uint16 text; `texts`
      and `colours` in the header are what the last one counts.
    - `bins`: uint8 busy share (255 is full, at least 1 where anything is), uint8 colour of what
      takes most of the pixel; rows x width each. Where events among them are wide enough for a
      name, `wide` in the header and six more buffers are as those of `rects`, of these alone.

    With a search, `hits` in the header says which of `texts` match, and `bins` carry the same two
    of the matches alone, behind the first two. `event` is the position in the whole, also where
    `lanes` are a part.
    """
    stretch = Stretch.of(lanes, request)
    lo, hi = stretch.visible(lanes)
    visible = int((hi - lo).sum())
    header: dict[str, Any] = {"type": "view", "n": visible, "base": str(stretch.base)}
    header |= {"a": stretch.a, "b": stretch.b, "width": stretch.width, "runs": stretch.runs}
    header |= {k: request.get(k) for k in ("view", "seq", "version")}
    few = visible <= MAX_RECTS or not stretch.b > stretch.a
    if few:
        return _rects(lanes, header, stretch, (lo, hi), found)
    return _bins(lanes, header | {"kind": "bins"}, stretch, found)


def strip(lanes: Lanes, request: Mapping[str, Any], found: Found | None = None) -> Reply:
    """Answer what the minimap shows: the whole extent of some rows, and where matches are.

    Request: `width`, `runs`. Buffers: busy share and colour as `view` has them; with a search, one
    uint8 a pixel that says whether any event in it matches, on whatever row.
    """
    whole = {"base": "0", "a": 0.0, "b": float(lanes.engine.span_ns)}
    stretch = Stretch.of(lanes, {**request, **whole})
    buffers = [b.tobytes() for b in stretch.filled(lanes)]
    if found is not None:
        every = Stretch.of(lanes, {**whole, "width": stretch.width, "first": 0, "last": MAX_ROWS})
        share, _ = every.filled(found.events)
        buffers.append(share.any(axis=0).astype(np.uint8).tobytes())
    header = {"type": "map", "width": stretch.width, "runs": stretch.runs}
    return Reply(header | {k: request.get(k) for k in ("view", "version")}, buffers)


class Stretch(NamedTuple):
    """The part of the picture that a request is about, whatever numbers it holds."""

    base: int
    a: float
    b: float
    width: int
    runs: list[list[int]]
    """Rows, as pairs [first, last)."""

    @classmethod
    def of(cls, lanes: Lanes, request: Mapping[str, Any]) -> Stretch:
        """Take a request, its rows cut to those that there are."""
        given = request["runs"] if "runs" in request else [[request["first"], request["last"]]]
        runs, reached = [], 0
        for pair in given[:MAX_ROWS]:
            first, last = (min(max(int(k), reached), lanes.engine.rows) for k in pair)
            runs.append([first, max(first, last)])
            reached = max(first, last)
        a, b = float(request["a"]), float(request["b"])
        width = min(max(int(request["width"]), 1), MAX_PIXELS)
        return cls(int(request["base"]), a, max(a, b), width, runs)

    def windows(self) -> list[Window]:
        """Return what the engine is asked for each run of rows."""
        return [Window(self.base, self.a, self.b, first, last) for first, last in self.runs]

    def visible(self, lanes: Lanes) -> tuple[Index, Index]:
        """Return the events [lo, hi) of each row that touch the stretch."""
        found = [lanes.engine.visible(window) for window in self.windows()]
        lo, hi = zip(*found, strict=True) if found else ((), ())
        nothing = np.empty(0, np.int64)
        return np.concatenate([nothing, *lo]), np.concatenate([nothing, *hi])

    def bins(self, lanes: Lanes) -> list[Bins]:
        """Return what the pixels of each run of rows hold."""
        return [lanes.engine.bins(window, self.width) for window in self.windows()]

    def filled(
        self, lanes: Lanes, pixels: list[Bins] | None = None
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the busy share and the colour of each pixel, rows x pixels."""
        share, colour = [np.empty((0, self.width), np.uint8)], [np.empty((0, self.width), np.uint8)]
        for window, bins in zip(self.windows(), pixels or self.bins(lanes), strict=True):
            share.append(shade(bins, window))
            colour.append(tint(lanes, bins))
        return np.concatenate(share), np.concatenate(colour)

    def wide(self, pixels: list[Bins]) -> tuple[Index, Index]:
        """Return row and number of the events that are wide enough for a name."""
        rows, events = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for window, bins in zip(self.windows(), pixels, strict=True):
            row, event = wide(bins)
            rows.append(window.first + row)
            events.append(event)
        return np.concatenate(rows), np.concatenate(events)

    def rows(self) -> Index:
        """Return the numbers of the rows."""
        every = [np.arange(first, last) for first, last in self.runs]
        return np.concatenate(every) if every else np.empty(0, np.int64)


def pick(lanes: Lanes, request: Mapping[str, Any]) -> int:
    """Return the event a request points at, or -1: by its number, or by `row`, `t` and `slack`."""
    if "event" in request:
        i = int(request["event"])
        return i if 0 <= i < len(lanes.start) else NONE
    row = int(request["row"])
    if not 0 <= row < lanes.engine.rows:
        return NONE
    return lanes.engine.pick(row, int(request["t"]), int(request["slack"]))


def describe(lanes: Lanes, i: int) -> dict[str, Any]:
    """Return what the front end shows of one event; nothing for -1."""
    if i == NONE:
        return {}
    event = lanes.event(i)
    return {
        "text": clip(event.name),
        "lane": event.lane.label,
        "row": event.row,
        "start": str(int(lanes.start[i])),
        "dur": str(event.dur_ns),
        "step": event.step,
    }


def clip(text: str) -> str:
    """Cut a name to what a tooltip can hold."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def shade(bins: Bins, window: Window) -> NDArray[np.uint8]:
    """Return the busy share of each pixel as 0 … 255, at least 1 where there is anything."""
    pixel = (window.b - window.a) / max(bins.busy_ns.shape[1], 1)
    share = np.minimum(np.rint(bins.busy_ns * (255 / pixel)), 255)
    return np.where(bins.dominant != NONE, np.maximum(share, 1), 0).astype(np.uint8)


def tint(lanes: Lanes, bins: Bins) -> NDArray[np.uint8]:
    """Return the palette position of each pixel's dominant event; 0 where there is none."""
    if not len(lanes.name):
        return np.zeros(bins.dominant.shape, np.uint8)
    colour = lanes.colours[lanes.name[np.maximum(bins.dominant, 0)]]
    return np.where(bins.dominant != NONE, colour, 0).astype(np.uint8)


def _bins(lanes: Lanes, header: dict[str, Any], stretch: Stretch, found: Found | None) -> Reply:
    pixels = stretch.bins(lanes)
    filled = [*stretch.filled(lanes, pixels)]
    filled += [] if found is None else stretch.filled(found.events)
    buffers = [b.tobytes() for b in filled]
    row, i = stretch.wide(pixels)
    if len(i):
        header["wide"], columns = _boxes(lanes, row, i, found)
        buffers += columns
    return Reply(header, buffers)


def _rects(
    lanes: Lanes,
    header: dict[str, Any],
    stretch: Stretch,
    visible: tuple[Index, Index],
    found: Found | None,
) -> Reply:
    lo, hi = visible
    i = np.concatenate([np.arange(x, y) for x, y in zip(lo, hi, strict=True)] or [lo])
    told, columns = _boxes(lanes, np.repeat(stretch.rows(), hi - lo), i, found)
    return Reply(header | {"kind": "rects"} | told, columns)


def _boxes(
    lanes: Lanes, row: Index, i: Index, found: Found | None
) -> tuple[dict[str, Any], list[bytes]]:
    """Return texts, colours and hits of events, and their columns as `view` has them."""
    # a name stands twice where it names both what is found and what is not
    marked = np.ones(len(i), bool) if found is None else found.keep[i]
    used, text = np.unique(2 * lanes.name[i].astype(np.int64) + marked, return_inverse=True)
    used, hit = used >> 1, (used & 1).astype(bool)
    columns = (
        lanes.start[i].astype("<i8"),
        lanes.dur[i].astype("<i8"),
        (i if lanes.places is None else lanes.places[i]).astype("<u4"),
        lanes.step[i].astype("<i4"),
        row.astype("<u2"),
        text.astype("<u2"),
    )
    told: dict[str, Any] = {"texts": [clip(lanes.names[k]) for k in used]}
    told["colours"] = lanes.colours[used].tolist()
    if found is not None:
        told["hits"] = hit.tolist()
    return told, [c.tobytes() for c in columns]
