"""The whole timeline at once: kept in saved notebooks, and as a PNG for viewers without widgets."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

from workbench import units
from workbench.views import replies, theme
from workbench.views.lod import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workbench.views.lanes import Lanes

MAX_ROWS = 60
"""Rows that an overview holds; a saved notebook stays small."""
WIDTH = 800
GUTTER, ROW, GAP, FOOT = 230, 14, 2, 18
SHADES = 16
"""Between the page's colour and the text's, for letters with smooth edges."""


class Overview(NamedTuple):
    """Busy share and palette position, uint8, rows x pixels."""

    busy: NDArray[np.uint8]
    colour: NDArray[np.uint8]


def overview(lanes: Lanes, width: int = WIDTH) -> Overview:
    """Cut the whole extent into pixels, for the first rows."""
    engine = lanes.engine
    window = Window(0, 0.0, float(engine.span_ns), 0, min(engine.rows, MAX_ROWS))
    bins = engine.bins(window, width)
    return Overview(replies.shade(bins, window), replies.tint(lanes, bins))


def png(lanes: Lanes, view: Overview | None = None, look: theme.Theme = theme.LIGHT) -> bytes:
    """Draw the overview with its lanes named and the extent below, as a PNG of few colours."""
    view = view or overview(lanes)
    rows, width = view.busy.shape
    body = rows * (ROW + GAP)
    words = Image.new("L", (GUTTER + width + 4, body + FOOT))
    draw = ImageDraw.Draw(words)
    font = ImageFont.load_default(11)
    for row, lane in _first_rows(lanes, rows):
        label = _shortened(draw, lanes.lanes[lane].label, font)
        draw.text((4, row * (ROW + GAP)), label, fill=255, font=font)
    more = "" if rows == lanes.engine.rows else f"; {lanes.engine.rows - rows} more rows not shown"
    extent = f"whole extent {units.duration(lanes.engine.span_ns)}{more}"
    draw.text((GUTTER, body + 2), extent, fill=255, font=font)
    colours = _colours(look)
    cells = len(colours) - SHADES + (np.asarray(words) // (256 // SHADES))
    cells[:body, GUTTER : GUTTER + width] = _filled(view, look)
    image = Image.fromarray(cells)
    image.putpalette(colours.tobytes())
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=3)  # more: three times as long for a few kilobytes
    return out.getvalue()


def pixels(view: Overview, look: theme.Theme) -> NDArray[np.uint8]:
    """Return the overview as red, green and blue, rows * (ROW + GAP) lines."""
    return _colours(look)[_filled(view, look)]


def _colours(look: theme.Theme) -> NDArray[np.uint8]:
    """Return the palette, the lane's colour, and shades from the page's colour to the text's."""
    shades = [theme.blend(look.text, look.background, k / (SHADES - 1)) for k in range(SHADES)]
    return np.array([ImageColor.getrgb(c) for c in (*look.palette, look.lane, *shades)], np.uint8)


def _filled(view: Overview, look: theme.Theme) -> NDArray[np.uint8]:
    """Fill each pixel from the bottom of its row as high as it is busy; places in `_colours`."""
    lane = len(look.palette)
    rows, width = view.busy.shape
    cells = np.full((rows, ROW + GAP, width), lane + 1, np.uint8)
    height = np.ceil(view.busy * (ROW / 255)).astype(np.uint8)
    level = np.arange(ROW, 0, -1, dtype=np.uint8)
    filled = height[:, None, :] >= level[None, :, None]
    cells[:, :ROW] = np.where(filled, view.colour[:, None], np.uint8(lane))
    return cells.reshape(rows * (ROW + GAP), width)


def _first_rows(lanes: Lanes, rows: int) -> list[tuple[int, int]]:
    """Return the first row of each lane, and the lane."""
    lane = lanes.row_lane[:rows]
    first = np.flatnonzero(np.diff(lane, prepend=-1))
    return [(int(r), int(lane[r])) for r in first]


def _shortened(
    draw: ImageDraw.ImageDraw, label: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont
) -> str:
    label = replies.clip(label)
    while draw.textlength(label, font=font) > GUTTER - 10:
        label = label[:-2] + "…"
    return label
