"""Rectangles and texts as a picture: listed once, written as SVG or as PNG."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZE, LINE = 11, 16
"""Pixels of the font, and from a line to the next."""


class Box(NamedTuple):
    """A filled rectangle, in pixels."""

    x: float
    y: float
    width: float
    height: float
    fill: str


class Label(NamedTuple):
    """A line of text; `y` is its middle."""

    x: float
    y: float
    text: str
    fill: str


@dataclass
class Drawing:
    """Rectangles and texts, in the order in which they are painted."""

    width: int
    height: int
    background: str
    boxes: list[Box] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)

    def below(self, lines: Sequence[str], fill: str) -> Drawing:
        """Return the same below some lines of text."""
        down = LINE * len(lines) + LINE // 2 if lines else 0
        said = [Label(4, LINE * (k + 0.6), line, fill) for k, line in enumerate(lines)]
        boxes = [b._replace(y=b.y + down) for b in self.boxes]
        labels = [label._replace(y=label.y + down) for label in self.labels]
        return Drawing(self.width, self.height + down, self.background, boxes, said + labels)

    def svg(self) -> str:
        """Return it as an SVG document."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" font-size="{SIZE}" '
            'font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif">'
            f'<rect width="100%" height="100%" fill="{self.background}"/>'
        )
        return "\n".join(
            [head, *map(_svg_path, *_by_fill(self.boxes)), *map(_svg_text, self.labels), "</svg>\n"]
        )

    def png(self, scale: float = 2) -> bytes:
        """Return it as a PNG of `scale` dots a pixel, sharp on screens of that many."""
        size = (round(self.width * scale), round(self.height * scale))
        image = Image.new("RGB", size, self.background)
        draw, font = ImageDraw.Draw(image), ImageFont.load_default(SIZE * scale)
        for x, y, width, height, fill in self.boxes:
            left, top = round(x * scale), round(y * scale)
            right, bottom = round((x + width) * scale) - 1, round((y + height) * scale) - 1
            draw.rectangle((left, top, max(right, left), max(bottom, top)), fill=fill)
        for x, y, text, fill in self.labels:
            draw.text((x * scale, y * scale), text, fill=fill, font=font, anchor="lm")
        out = io.BytesIO()
        image.save(out, "PNG", optimize=True)
        return out.getvalue()


def _by_fill(boxes: list[Box]) -> tuple[list[str], list[list[Box]]]:
    """Join boxes of one colour that follow each other: one path is far smaller than many."""
    fills: list[str] = []
    groups: list[list[Box]] = []
    for box in boxes:
        if not fills or fills[-1] != box.fill:
            fills.append(box.fill)
            groups.append([])
        groups[-1].append(box)
    return fills, groups


def _svg_path(fill: str, boxes: list[Box]) -> str:
    parts = (f"M{b.x:.6g} {b.y:.6g}h{b.width:.5g}v{b.height:.5g}h{-b.width:.5g}z" for b in boxes)
    return f'<path fill="{fill}" d="{"".join(parts)}"/>'


def _svg_text(label: Label) -> str:
    # control characters of a foreign name are none of XML's
    text = escape("".join(c if c.isprintable() else "\ufffd" for c in label.text))
    return (
        f'<text x="{label.x:.6g}" y="{label.y:.6g}" dominant-baseline="central" '
        f'fill="{label.fill}">{text}</text>'
    )
