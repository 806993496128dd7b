"""Numbers and lists among the recorded arguments of a call: strides, paddings, masks, sizes.

Old recordings have no such text; an argument that a cost needs and that is missing raises
`ShapeError`, so that nothing is taken for a default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from workbench.costs.shapes import MAX_DIMS, MAX_EXTENT, DType, ShapeError, coded

if TYPE_CHECKING:
    from workbench.costs.shapes import Call, Tensor


def integer(call: Call, position: int) -> int:
    """Return an integer argument, or raise `ShapeError` when it was not recorded."""
    value = _decoded(call, position)
    if type(value) is not int or abs(value) >= MAX_EXTENT:
        raise ShapeError(f"argument {position} (a whole number) was not recorded")
    return value


def integers(call: Call, position: int, length: int) -> tuple[int, ...]:
    """Return a list of integers; one number stands for all, as torch expands a stride of `2`."""
    value = _decoded(call, position)
    values = value if isinstance(value, list) else [value]
    good = [v for v in values if type(v) is int and abs(v) < MAX_EXTENT]
    if len(good) != len(values) or len(values) not in {1, length}:
        raise ShapeError(f"argument {position} (a list of numbers) was not recorded")
    return tuple(good) if len(good) == length else tuple(good) * length


def sizes(call: Call, position: int) -> tuple[int, ...] | None:
    """Return the extents in a size argument, of any length; None when it was not recorded."""
    value = _decoded(call, position)
    if not isinstance(value, list) or not 0 < len(value) <= MAX_DIMS:
        return None
    good = tuple(v for v in value if type(v) is int and 0 <= v < MAX_EXTENT)
    return good if len(good) == len(value) else None


def mask(call: Call, position: int) -> tuple[bool, ...]:
    """Return an output mask, as in `[True, False, True]`; position -1 is the last argument."""
    value = _decoded(call, position)
    if not (isinstance(value, list) and value and all(type(v) is bool for v in value)):
        raise ShapeError("which gradients it computes (the output mask) was not recorded")
    return tuple(value)


def written_type(call: Call, position: int, like: Tensor) -> DType | None:
    """Return the type that is written: that of `like` unless `dtype=` says; None: not recorded."""
    text = call.text(position)
    if text is None:
        return None
    return coded(text) if text else like.dtype


def _decoded(call: Call, position: int) -> object:
    length = len(call.concrete or ())
    text = call.text(position if position >= 0 else length + position) if length else None
    if not text:
        return None
    try:
        # Python's names of the truth values, which JSON writes small.
        return msgspec.json.decode(text.replace("True", "true").replace("False", "false"))
    except (msgspec.DecodeError, RecursionError):
        return None
