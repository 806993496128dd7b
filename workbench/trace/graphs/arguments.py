"""Shapes and types of a node's inputs, in the words that the profiler uses for an operator's.

The execution trace says `Tensor(float)`, `GenericList[Tensor(float),…]`, `Int`; the profiler
`float`, `TensorList`, `Scalar`. Cost models read the profiler's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import polars as pl

from workbench.trace.jsontext import NOTHING, Raw, one

_TENSOR, _LIST = "Tensor(", "GenericList["
_SCALARS = {"Int", "Double", "Bool", "Complex", "SymInt", "SymFloat", "SymBool"}
_LONGEST = 512
"""Characters of a concrete input; a longer one is a list that no model reads."""
Given = tuple[Raw, Raw, Raw, Raw]
"""Values, shapes, types and strides, as JSON text."""


def texts(inputs: Sequence[Given]) -> dict[str, pl.Series]:
    """Return `input_dims input_types input_strides concrete_inputs` as JSON text."""
    seen: dict[tuple[bytes, bytes, bytes], tuple[str | None, str | None, str | None]] = {}
    rows = []
    for values, shapes, types, strides in inputs:
        key = bytes(shapes), bytes(types), bytes(strides)
        if key not in seen:
            seen[key] = _described(*key)
        rows.append((*seen[key], _concrete(values, types)))
    names = ("input_dims", "input_types", "input_strides", "concrete_inputs")
    return {n: pl.Series([r[i] for r in rows], dtype=pl.String) for i, n in enumerate(names)}


def element_type(types: Raw) -> str | None:
    """Return the element type of the first tensor among some values."""
    for name in one(types, list[str]) or []:
        if _TENSOR in name:
            return name.partition(_TENSOR)[2].partition(")")[0] or None
    return None


def elements(shapes: Raw, types: Raw) -> int | None:
    """Return the elements of all tensors among some values; null without one."""
    kinds = one(types, list[str])
    sizes = one(shapes, list[Any]) or []
    if kinds is not None:
        sizes = [s for s, k in zip(sizes, kinds, strict=False) if _TENSOR in k]
    counts = [_product(t) for s in sizes for t in _tensors(s)]
    known = [c for c in counts if c is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _tensors(shape: object) -> list[Any]:
    """Return the shapes in one input: its own, or those of a list of tensors."""
    if not isinstance(shape, list):
        return []
    return shape if shape and all(isinstance(x, list) for x in shape) else [shape]


def _product(shape: object) -> int | None:
    if not isinstance(shape, list) or not all(type(x) is int and 0 <= x < 2**40 for x in shape):
        return None
    count = 1
    for x in shape:
        count *= x
        if count >= 2**62:
            return None
    return count


def _described(
    shapes: bytes, types: bytes, strides: bytes
) -> tuple[str | None, str | None, str | None]:
    kinds = one(Raw(types), list[str])
    dims = one(Raw(shapes), list[Any])
    if kinds is None or dims is None or len(kinds) != len(dims):
        return None, None, None
    steps = one(Raw(strides), list[Any]) if strides else None
    held = [_TENSOR in k for k in kinds]
    kept = _text([d if h else [] for d, h in zip(dims, held, strict=True)])
    named = _text([_type(k) for k in kinds])
    if steps is None or len(steps) != len(kinds):
        return kept, named, None
    return kept, named, _text([s if h else [] for s, h in zip(steps, held, strict=True)])


def _type(name: str) -> str:
    if name.startswith(_TENSOR):
        return name.removeprefix(_TENSOR).partition(")")[0]
    if name.startswith(_LIST):
        inner = name.removeprefix(_LIST).partition(",")[0].rstrip("]")
        return "TensorList" if inner.startswith(_TENSOR) else "ScalarList"
    return "Scalar" if name in _SCALARS else ""


def _concrete(values: Raw, types: Raw) -> str | None:
    """Return the values that are no tensors, each as text; null when there are no types."""
    kinds = one(types, list[str])
    if kinds is None:
        return None
    if all(_TENSOR in k for k in kinds):
        return _text([""] * len(kinds))
    found = one(values, list[Any])
    if found is None or len(found) != len(kinds):
        return None
    plain = [("" if _TENSOR in k else _word(v)) for v, k in zip(found, kinds, strict=True)]
    return _text(plain)


def _word(value: object) -> str:
    text = "" if value == "<None>" else str(value)
    return text if len(text) <= _LONGEST else ""


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


ABSENT: Given = (NOTHING, NOTHING, NOTHING, NOTHING)
"""The inputs of a node that has none."""
