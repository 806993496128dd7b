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


def png(lanes: Lanes, look: theme.Theme = theme.LIGHT) -> bytes:
    """Draw the overview with its lanes named and the extent below, as a PNG."""
    view = overview(lanes)
    rows, width = view.busy.shape
    body = rows * (ROW + GAP)
    image = Image.new("RGB", (GUTTER + width + 4, body + FOOT), look.background)
    image.paste(Image.fromarray(pixels(view, look)), (GUTTER, 0))
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(11)
    for row, lane in _first_rows(lanes, rows):
        label = _shortened(draw, lanes.lanes[lane].label, font)
        draw.text((4, row * (ROW + GAP)), label, fill=look.text, font=font)
    more = "" if rows == lanes.engine.rows else f"; {lanes.engine.rows - rows} more rows not shown"
    extent = f"whole extent {units.duration(lanes.engine.span_ns)}{more}"
    draw.text((GUTTER, body + 2), extent, fill=look.muted, font=font)
    out = io.BytesIO()
    image.save(out, "PNG")  # optimize=True: three times as long for two percent
    return out.getvalue()


def pixels(view: Overview, look: theme.Theme) -> NDArray[np.uint8]:
    """Fill each pixel from the bottom of its row as high as it is busy."""
    palette = np.array([ImageColor.getrgb(c) for c in look.palette], np.uint8)
    height = np.ceil(view.busy * (ROW / 255)).astype(np.int64)
    level = ROW - np.arange(ROW)
    filled = (height[:, None, :] >= level[None, :, None])[..., None]
    lane = np.array(ImageColor.getrgb(look.lane), np.uint8)
    cells = np.where(filled, palette[view.colour][:, None], lane)
    page = np.array(ImageColor.getrgb(look.background), np.uint8)
    gaps = np.broadcast_to(page, (len(cells), GAP, cells.shape[2], 3))
    whole = np.concatenate((cells, gaps), axis=1)
    return whole.reshape(-1, cells.shape[2], 3).astype(np.uint8)


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
