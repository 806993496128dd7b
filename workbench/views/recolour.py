"""A picture of one theme in the colours of the other, without drawing it again.

Drawing takes HoloViews a third of a second a picture; what a page keeps for dark differs from what
it keeps for light in nothing but its colours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from workbench.views import causes, overlap, ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.views.theme import Theme

_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_BLENDED = (causes.colours, overlap.colours, ranks.colours)
"""What views mix of a theme's colours."""


def recoloured(item: str, of: Theme, to: Theme) -> str:
    """Return a Bokeh JSON item drawn in a theme as if it had been drawn in another."""
    others = pairs(of, to)
    return _COLOUR.sub(lambda found: others.get(found[0], found[0]), item)


def pairs(of: Theme, to: Theme) -> Mapping[str, str]:
    """Return the colours of a theme with those of another; ValueError where one has two."""
    found: dict[str, str] = {}
    for one, other in zip(_all(of), _all(to), strict=True):
        if found.setdefault(one, other) != other:
            raise ValueError(f"{one} of the theme {of.name} is {found[one]} and {other}.")
    return found


def _all(look: Theme) -> Iterator[str]:
    yield from (look.background, look.lane, look.text, look.muted, *look.palette)
    for mixed in _BLENDED:
        made = mixed(look)
        yield from made.values() if isinstance(made, Mapping) else made
