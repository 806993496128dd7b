"""A timeline as a still picture, SVG or PNG: lanes, axis, and names in the boxes that hold them.

A pure function of lanes and a window; it looks as the widget does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from workbench import units
from workbench.views import replies
from workbench.views.drawing import Box, Drawing, Label
from workbench.views.lod import MAX_RECTS, Window
from workbench.views.theme import LIGHT, Theme, blend
from workbench.views.wide import wide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from workbench.views.lanes import Lanes
    from workbench.views.lod import Index

AXIS, SINGLE, NESTED, LANE_GAP, FOOT = 24, 18, 15, 5, 22
MAX_GUTTER, CHARACTER = 260, 6.6
"""Pixels of a lane's name, and of a character of any font at hand."""
TICK_EVERY = 90
MAX_ROWS = 400
"""Rows of a picture; the sentence below it says how many more there are."""
BRIGHT = 0.55
UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))
_BOILERPLATE = re.compile(
    r"^void |\(anonymous namespace\)::|^(void )?(at::native::|cutlass::Kernel2?<)+"
)


def draw(
    lanes: Lanes,
    window: tuple[int, int] | None = None,
    *,
    width: int = 1_200,
    theme: Theme = LIGHT,
    max_rows: int = MAX_ROWS,
) -> Drawing:
    """Draw a stretch of the source's time, in ns; without one, the whole.

    Up to `MAX_RECTS` events are boxes with their names; more are the busy share of each pixel, in
    the colour of what takes most of it, and boxes where an event is wide enough for its name.
    """
    return _Painter(lanes, window, width, theme, max_rows).paint()


class _Painter:
    def __init__(
        self,
        lanes: Lanes,
        window: tuple[int, int] | None,
        width: int,
        theme: Theme,
        max_rows: int,
    ) -> None:
        self.lanes, self.theme = lanes, theme
        start = lanes.origin_ns
        self.start, self.end = window or (start, start + lanes.engine.span_ns)
        self.rows = min(lanes.engine.rows, max_rows)
        names = [lane.label for lane in lanes.lanes]
        widest = max((len(name) for name in names), default=0) * CHARACTER + 18
        self.gutter = min(widest, MAX_GUTTER, width * 0.3)
        self.plot = width - self.gutter
        self.y, self.height, bottom = self._layout()
        self.drawing = Drawing(width, round(bottom + FOOT), theme.background)

    def _layout(self) -> tuple[list[float], list[int], float]:
        """Return where each row is, how high, and where the last lane ends."""
        per_lane = np.bincount(self.lanes.row_lane, minlength=len(self.lanes.lanes))
        y, tops, heights, before = AXIS + 3.0, [], [], -1
        for row in range(self.rows):
            lane = int(self.lanes.row_lane[row])
            y += LANE_GAP if before not in (-1, lane) else 0
            height = NESTED if per_lane[lane] > 1 else SINGLE
            tops.append(y)
            heights.append(height)
            y, before = y + height, lane
        return tops, heights, y + LANE_GAP

    def paint(self) -> Drawing:
        ticks = list(self._ticks())
        self._paint_lanes(ticks)
        window = Window(
            self.start - self.lanes.origin_ns, 0.0, float(self.end - self.start), 0, self.rows
        )
        lo, hi = self.lanes.engine.visible(window)
        if int((hi - lo).sum()) <= MAX_RECTS:
            self._paint_events(lo, hi)
        else:
            self._paint_pixels(window)
        self._paint_words(ticks)
        return self.drawing

    def _x(self, time: int) -> float:
        return self.gutter + (time - self.start) / max(self.end - self.start, 1) * self.plot

    def _paint_lanes(self, ticks: list[tuple[float, str]]) -> None:
        theme, boxes = self.theme, self.drawing.boxes
        for y, height in zip(self.y, self.height, strict=True):
            boxes.append(Box(self.gutter, y, self.plot, height, theme.lane))
        line = blend(theme.text, theme.background, 0.15)
        bottom = self.drawing.height - FOOT
        boxes.extend(Box(round(x), AXIS, 1, bottom - AXIS, line) for x, _ in ticks)
        boxes.append(Box(0, AXIS - 1, self.drawing.width, 1, line))

    def _paint_events(self, lo: Index, hi: Index) -> None:
        for row in range(self.rows):
            for i in range(int(lo[row]), int(hi[row])):
                self._paint_event(row, i)

    def _paint_event(self, row: int, i: int) -> None:
        lanes = self.lanes
        start = lanes.origin_ns + int(lanes.start[i])
        x0 = max(self._x(start), self.gutter)
        x1 = min(max(self._x(start + int(lanes.dur[i])), x0 + 1), self.gutter + self.plot)
        broad = x1 - x0 - (0.6 if x1 - x0 > 3 else 0)  # noqa: PLR2004
        fill = self.theme.palette[lanes.colours[lanes.name[i]]]
        self.drawing.boxes.append(Box(x0, self.y[row], broad, self.height[row] - 1, fill))
        name = _BOILERPLATE.sub("", _BOILERPLATE.sub("", lanes.names[lanes.name[i]]))
        if fits := _fitted(name, x1 - x0 - 7):
            middle = self.y[row] + (self.height[row] - 1) / 2
            self.drawing.labels.append(Label(x0 + 4, middle, fits, _onto(fill)))

    def _paint_pixels(self, window: Window) -> None:
        pixels = round(self.plot)
        bins = self.lanes.engine.bins(window, pixels)
        shade, tint = replies.shade(bins, window), replies.tint(self.lanes, bins)
        for row in range(self.rows):
            for colour in np.unique(tint[row][shade[row] > 0]).tolist():
                share = np.where(tint[row] == colour, shade[row], 0)
                self._paint_row(row, share, self.theme.palette[colour])
        self._paint_wide(*wide(bins))

    def _paint_wide(self, rows: Index, events: Index) -> None:
        """Paint events that are wide enough for a name one by one, their edges clear of others."""
        for row, i in zip(rows.tolist(), events.tolist(), strict=True):
            start = self.lanes.origin_ns + int(self.lanes.start[i])
            x1 = self._x(start + int(self.lanes.dur[i]))
            if x1 < self.gutter + self.plot:
                ground = Box(x1 - 1, self.y[row], 1, self.height[row] - 1, self.theme.lane)
                self.drawing.boxes.append(ground)
            self._paint_event(row, i)

    def _paint_row(self, row: int, share: NDArray[np.uint8], fill: str) -> None:
        """Paint runs of equal busy share as one box each, rising from the bottom of the row."""
        rise = self.height[row] - 1
        tall = np.where(share > 0, np.maximum(np.ceil(share * (rise / 255)), 2), 0).astype(int)
        edges = np.flatnonzero(np.diff(tall, prepend=-1, append=-1))
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if high := min(int(tall[a]), rise):
                y = self.y[row] + rise - high
                self.drawing.boxes.append(Box(self.gutter + a, y, b - a, high, fill))

    def _paint_words(self, ticks: list[tuple[float, str]]) -> None:
        theme, labels = self.theme, self.drawing.labels
        before = -1
        for row in range(self.rows):
            lane = int(self.lanes.row_lane[row])
            if lane != before:
                middle = self.y[row] + self.height[row] / 2
                name = self.lanes.lanes[lane].label
                labels.append(Label(4, middle, _ends(name, self.gutter - 12), theme.text))
            before = lane
        labels.extend(Label(x + 3, AXIS - 12, text, theme.muted) for x, text in ticks)
        more = self.lanes.engine.rows - self.rows
        said = f"{units.duration(self.end - self.start)} from {units.exact(self.start)}" + (
            f"; {more:,} more rows not shown" if more else ""
        )
        labels.append(Label(self.gutter, self.drawing.height - FOOT / 2, said, theme.muted))

    def _ticks(self) -> Iterator[tuple[float, str]]:
        """Yield where ticks are and what they say: all digits that tell them apart, down to 1 ns.

        Deep in a recording they count from a time that stands left of the first.
        """
        step = _nice((self.end - self.start) * TICK_EVERY / max(self.plot, 1))
        scale, unit = next((s, u) for s, u in UNITS if step >= s)
        group = scale * 1_000
        base = self.start // group * group if scale < UNITS[0][0] and self.start >= group else 0
        if base:
            self.drawing.labels.append(Label(4, AXIS - 12, units.exact(base), self.theme.muted))
        for t in range(-(-self.start // step) * step, self.end + 1, step):
            x, text = self._x(t), f"{'+' if base else ''}{(t - base) // scale} {unit}"
            if x + 3 + len(text) * CHARACTER < self.drawing.width:
                yield x, text


def _nice(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, … that is at least this."""
    step, k = 1, 0
    while step < least:
        step = (1, 2, 5)[k % 3] * 10 ** (k // 3)
        k += 1
    return step


def _fitted(text: str, room: float) -> str:
    most = int(room / CHARACTER)
    if len(text) <= most:
        return text
    return text[: most - 1] + "…" if most > 3 else ""  # noqa: PLR2004 - two letters say nothing


def _ends(text: str, room: float) -> str:
    """Cut a lane's name in its middle: both ends tell lanes apart."""
    most = max(int(room / CHARACTER), 4)
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[len(text) - (most - 1 - most // 2) :]}"


def _onto(fill: str) -> str:
    red, green, blue = (int(fill[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return "#14181f" if 0.299 * red + 0.587 * green + 0.114 * blue > BRIGHT else "#ffffff"
