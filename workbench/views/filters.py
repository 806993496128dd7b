"""Which events of a timeline are drawn: those of some families, streams, steps or names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import UsageError, unknown_name
from workbench.views import search

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from workbench.views.lanes import Lanes

MAX_NAMED = 4
"""Choices of a kind that the sentence names; of more it says how many."""
KEYS = {"families": "family", "streams": "stream", "steps": "step", "text": "text"}
PLURAL = {"family": "families", "stream": "streams", "step": "steps"}


def offered(lanes: Lanes) -> dict[str, list[Any]]:
    """Return what the lanes can be narrowed to: their families, streams and steps, in order."""
    return {
        "families": sorted({f for f in lanes.families if f is not None}),
        "streams": sorted({lane.stream for lane in lanes.lanes if lane.stream is not None}),
        "steps": lanes.steps.tolist(),
    }


def checked(
    lanes: Lanes, chosen: Mapping[str, Any], known: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """Return a filter without what is empty; raise UsageError on what is not `offered`."""
    for key in chosen:
        if key not in KEYS:
            raise unknown_name("filter", key, KEYS)
    out: dict[str, Any] = {
        key: _choices(KEYS[key], chosen[key], known[key]) for key in known if chosen.get(key)
    }
    if chosen.get("text"):
        search.hits(lanes, chosen["text"])
        out["text"] = chosen["text"]
    return out


def _choices(what: str, values: Any, known: Sequence[Any]) -> list[Any]:
    if isinstance(values, (str, int)):
        raise UsageError(f"The {PLURAL[what]} of a filter are a list, as in [{values!r}].")
    for value in values:
        if value in known and not isinstance(value, bool):
            continue
        if isinstance(value, str) and known and isinstance(known[0], str):
            raise unknown_name(what, value, known)
        shown = ", ".join(map(str, known[:20])) + (" …" if len(known) > 20 else "")  # noqa: PLR2004
        raise UsageError(f"No event has {what} {value!r}; there are: {shown or 'none'}.")
    return sorted(set(values))


def mask(lanes: Lanes, chosen: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Say of each event whether it is drawn: it fulfils all that is chosen."""
    texts = np.ones(len(lanes.names), bool)
    if "families" in chosen:
        texts &= np.array([f in set(chosen["families"]) for f in lanes.families], bool)
    if "text" in chosen:
        texts &= search.hits(lanes, chosen["text"])
    keep: NDArray[np.bool_] = texts[np.asarray(lanes.name)]
    if "streams" in chosen:
        of_lane = np.array([lane.stream in set(chosen["streams"]) for lane in lanes.lanes], bool)
        keep &= lanes.by_lane(of_lane)
    if "steps" in chosen:
        keep &= np.isin(np.asarray(lanes.step), chosen["steps"])
    return keep


def sentence(chosen: Mapping[str, Any], drawn: int, of: int) -> str:
    """Say what is drawn and how much is hidden; nothing without a filter."""
    if not chosen:
        return ""
    parts = [_named(KEYS[key], chosen[key]) for key in PLURAL.values() if key in chosen]
    if "text" in chosen:
        parts.append(f"name matching {chosen['text']}")
    return f"Only {', '.join(parts)}: {drawn:,} of {of:,} events; the others are hidden."


def _named(what: str, values: Sequence[Any]) -> str:
    if len(values) > MAX_NAMED:
        return f"{len(values)} {PLURAL[what]}"
    *most, last = map(str, values)
    return f"{PLURAL[what] if most else what} {', '.join(most) + ' and ' if most else ''}{last}"
