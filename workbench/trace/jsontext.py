"""JSON in which any part may have another form than it should: it reads as absent, counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

Raw = msgspec.Raw
NOTHING = Raw(b"")
UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""What decoding raises on damage; msgspec's own errors for a wrong type are among them."""
Record = TypeVar("Record")


def one(raw: Raw, kind: type[Record]) -> Record | None:
    """Decode a value; absent ones and those of another form are None."""
    try:
        return msgspec.json.decode(raw, type=kind) if bytes(raw) else None
    except UNREADABLE:
        return None


def many(raw: Raw, kind: type[Record]) -> tuple[list[Record], int]:
    """Decode an array; return its records, and how many have another form and were left out."""
    if not bytes(raw):
        return [], 0
    try:
        return msgspec.json.decode(raw, type=list[kind]), 0  # type: ignore[valid-type]
    except UNREADABLE:
        found = list(_one_by_one(raw, kind))
    return [r for r in found if r is not None], sum(r is None for r in found)


def _one_by_one(raw: Raw, kind: type[Any]) -> Iterator[Any]:
    try:
        items = msgspec.json.decode(raw, type=list[Raw])
    except UNREADABLE:
        items = [raw]
    decode = msgspec.json.Decoder(kind).decode
    for item in items:
        try:
            yield decode(item)
        except UNREADABLE:
            yield None
