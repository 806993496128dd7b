"""The colours that mean the same in every picture, for light and dark pages.

Classes have one colour each, from Okabe and Ito's palette, which stays apart under the common
colour-vision deficiencies. Kernel families and operators share blues, violets and sands, so that
communication (vermilion) and copies (green) stand out among them; which one is a stable hash of the
name, the same in every process. Source: https://jfly.uni-koeln.de/color/ and Paul Tol's notes
(SRON/EPS/TN/09-002).
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from workbench.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

CLASSES = ("compute", "communication", "copy", "idle", "host", "step", "range", "other")
CLASS_OF_KIND = {
    "kernel": "compute",
    "compute": "compute",
    "collective": "communication",
    "copy": "copy",
    "set": "copy",
    "step": "step",
    "range": "range",
    "launch": "host",
}
"""Kinds of the trace tables whose colour is that of a class; operators are coloured by name."""
_SHAPE_OF_NAME = re.compile(r"<.*|\d+|[^a-z]+")


@dataclass(frozen=True)
class Theme:
    """One page colouring: colours of the page, of the classes and of the families, as #rrggbb."""

    name: str
    background: str
    lane: str
    text: str
    muted: str
    classes: Mapping[str, str]
    families: tuple[str, ...]

    @cached_property
    def palette(self) -> tuple[str, ...]:
        """Return all colours in the order that `index` counts."""
        return tuple(self.classes[c] for c in CLASSES) + self.families

    def of(self, meaning: str) -> str:
        """Return the colour of a class; raise UsageError when there is none of that name."""
        if meaning not in self.classes:
            raise unknown_name("colour class", meaning, self.classes)
        return self.classes[meaning]

    def family(self, name: str) -> str:
        """Return the colour of a kernel family, or of a kernel or operator by its own name."""
        return self.families[family_index(name)]


LIGHT = Theme(
    name="light",
    background="#ffffff",
    lane="#f3f4f6",
    text="#1f2430",
    muted="#6b7280",
    classes={
        "compute": "#0072b2",
        "communication": "#d55e00",
        "copy": "#009e73",
        "idle": "#c4c7cc",
        "host": "#8a6d9e",
        "step": "#ead9a0",
        "range": "#9aa5b8",
        "other": "#7f7f7f",
    },
    families=(
        "#0072b2", "#56b4e9", "#3f51a3", "#88ccee", "#8f63b8",
        "#d9c66b", "#6699cc", "#cc79a7", "#b8a5d6", "#4477aa",
    ),
)  # fmt: skip
DARK = Theme(
    name="dark",
    background="#111418",
    lane="#1b2027",
    text="#e6e8eb",
    muted="#9aa3ae",
    classes={
        "compute": "#3d9bdc",
        "communication": "#f0803c",
        "copy": "#2fc79a",
        "idle": "#4a515b",
        "host": "#a98cc0",
        "step": "#6e5f33",
        "range": "#76839b",
        "other": "#9a9a9a",
    },
    families=(
        "#3d9bdc", "#7cc6f2", "#7385d6", "#a5daf5", "#ae86d3",
        "#e3d384", "#86b1de", "#dd96bd", "#cbbbe4", "#6a98cc",
    ),
)  # fmt: skip
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def family_index(name: str) -> int:
    """Return which family colour a name has.

    Template arguments, digits and punctuation do not count, so one kernel in two tile sizes keeps
    its colour; the hash is CRC-32, the same in every process and on every machine.
    """
    shape = _SHAPE_OF_NAME.sub("", name.lower()) or name
    return zlib.crc32(shape.encode("utf-8", "surrogatepass")) % len(LIGHT.families)


def index(kind: str | None, family: str | None, name: str) -> int:
    """Return the position in `Theme.palette` of an event by its kind, kernel family and name."""
    meaning = CLASS_OF_KIND.get(kind or "", "compute")
    if meaning != "compute":
        return CLASSES.index(meaning)
    return len(CLASSES) + family_index(family or name)


def blend(colour: str, other: str, rest: float = 0.5) -> str:
    """Mix two colours, all as #rrggbb: `rest` 1 is the first, 0 the other, rounded down."""
    pairs = ((int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{int(b + (a - b) * rest):02x}" for a, b in pairs)
