"""What a timeline keeps when another takes its place: what fits there."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.views.timeline import Timeline

ARRANGED = ("folded", "hidden", "order")
"""Traits of a timeline that name lanes by their labels, where it has them."""
_RANK = re.compile(r"^rank \d+ · ")
"""How a lane's label begins where several ranks are shown."""


def carry(old: Timeline, new: Timeline, shift_ns: int | None) -> None:
    """Set search and filter of a timeline to those of another, as far as they fit.

    `shift_ns` is what a time of the old one is more than the same moment of the new one; None when
    they are of other recordings: then window and selection stay those of the new one.
    """
    new.search = old.search  # fits everywhere: at worst nothing matches
    new.filter = _fitting(new, old.filter)
    for name in ARRANGED:
        if old.has_trait(name) and new.has_trait(name):
            _arrange(old, new, name)
    if shift_ns is None:
        return
    first, last = new.extent
    if old.window != old.extent:
        a, b = (min(max(t - shift_ns, first), last) for t in old.window)
        new.window = [a, b] if b > a else list(new.extent)
    if old.selection:
        new.selection = [t - shift_ns for t in old.selection]


def _arrange(old: Timeline, new: Timeline, name: str) -> None:
    """Set a list of lanes to those that the new timeline has, with or without their rank."""
    known = [lane["label"] for lane in new.lanes]
    bare = {_RANK.sub("", label): label for label in reversed(known)}
    kept = [k if k in known else bare.get(_RANK.sub("", k), k) for k in getattr(old, name)]
    with contextlib.suppress(UsageError):  # a lane that is not there
        setattr(new, name, list(dict.fromkeys(kept)))


def _fitting(new: Timeline, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a filter that another timeline has something for."""
    found: dict[str, Any] = {}
    for key, values in chosen.items():
        kept = [v for v in values if _fits(new, key, [v])] if key != "text" else values
        if kept:
            found[key] = kept
    return found


def _fits(new: Timeline, key: str, values: Any) -> bool:
    try:
        new.check("", {key: values})
    except UsageError:
        return False
    return True
