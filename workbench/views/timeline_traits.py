"""How the traits of a timeline travel: times, streams and steps as decimal text.

JSON numbers lose ns above 2^53 in a browser, and a stream may be a pointer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets as t

from workbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def times(*default: int) -> t.List:
    """Make a synced trait of [start, end] in ns, or of nothing."""
    trait = t.List(t.Int(), list(default), maxlen=2)
    return trait.tag(sync=True, to_json=_to_text, from_json=_from_text)


def choices() -> t.Dict:
    """Make a synced trait that holds a filter."""
    return t.Dict().tag(sync=True, to_json=_filter_to_text, from_json=_filter_from_text)


def in_order(name: str, value: Sequence[int]) -> list[int]:
    """Return a stretch of time, [start_ns, end_ns] or []; else UsageError."""
    found = list(value)
    if found and (len(found) != 2 or found[1] < found[0]):  # noqa: PLR2004
        raise UsageError(f"{name} must be [start_ns, end_ns] in order, not {found}.")
    return found


def event(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what names an event, table, rank and id, or {}; else UsageError."""
    found = dict(value)
    if found and not {"table", "id"} <= set(found):
        raise UsageError(f"selected needs table, rank and id, or nothing at all; not {found}.")
    return {"rank": None} | found if found else {}


def spans(value: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return annotations with their times as decimal text."""
    return [dict(a) | {k: str(int(a[k])) for k in ("start_ns", "end_ns")} for a in value]


def _to_text(value: Sequence[int], _: object) -> list[str]:
    return [str(v) for v in value]


def _from_text(value: Sequence[str], _: object) -> list[int]:
    return [int(v) for v in value]


def _filter_to_text(value: Mapping[str, Any], _: object) -> dict[str, Any]:
    return {k: v if k == "text" else [str(x) for x in v] for k, v in value.items()}


def _filter_from_text(value: Mapping[str, Any], _: object) -> dict[str, Any]:
    return {k: [int(x) for x in v] if k in {"streams", "steps"} else v for k, v in value.items()}
