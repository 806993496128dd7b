"""What several families of models need: result types, extents of lists of arguments, bytes.

Result types follow torch's rules (its documentation, "Tensor Attributes": type promotion): bool <
integer < float < complex; tensors with dimensions beat tensors without, and those beat numbers, as
long as they are of the same kind.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import msgspec

from workbench.costs.cost import Cost
from workbench.costs.shapes import DTYPES, ShapeError, Tensor, broadcast, coded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.costs.shapes import Call, DType

BOOL, INTEGER, FLOAT, COMPLEX = range(4)
BOOL_TYPE, INT64, FP32 = DTYPES["bool"], DTYPES["long"], DTYPES["float"]
UNKNOWN = "unknown"
"""The precision of operators whose element type was not recorded."""
_WIDER = {1: DTYPES["short"], 2: DTYPES["int"], 4: DTYPES["long"], 8: DTYPES["float"]}
_COMPLEX = {
    "fp16": DTYPES["c10::complex<c10::Half>"],
    "bf16": DTYPES["c10::complex<float>"],
    "fp32": DTYPES["c10::complex<float>"],
    "fp64": DTYPES["c10::complex<double>"],
}
"""The complex type of a real one; bf16 has none of its size."""
_NUMBERS = (DTYPES["double"], DTYPES["c10::complex<double>"])
_HALF_BYTES = 2


def kind(dtype: DType) -> int:
    """Return BOOL, INTEGER, FLOAT or COMPLEX."""
    if dtype.is_complex:
        return COMPLEX
    if dtype.precision == "bool":
        return BOOL
    return INTEGER if "int" in dtype.precision else FLOAT


@functools.cache
def joined(left: DType, right: DType) -> DType:
    """Return the type of two tensors taken together: fp32 of fp16 and bf16, int16 of two bytes."""
    low, high = sorted((left, right), key=lambda t: (kind(t), t.bytes))
    if kind(low) != kind(high):
        mixed = kind(high) == COMPLEX and kind(low) == FLOAT and low.bytes * 2 > high.bytes
        return _COMPLEX.get(low.precision, high) if mixed else high
    if left.precision == right.precision or low.bytes < high.bytes:
        return high
    if kind(high) == FLOAT:
        return FP32 if high.bytes == _HALF_BYTES else high
    return _WIDER[high.bytes] if kind(high) == INTEGER else high


def result_type(call: Call, positions: Sequence[int]) -> DType | None:
    """Return the type of the arguments taken together; None when a number in doubt decides it.

    A number that was not recorded decides nothing beside floats, and leaves integers unknown. So
    does a double without dimensions: profilers write Python's numbers so, which give fp32.
    """
    found = tensors(call, positions)
    if not found:
        raise ShapeError("no argument is a recorded tensor")
    with_dims = [t.dtype for t in found if t.dims]
    without = {t.dtype for t in found if not t.dims}
    if not with_dims:
        in_doubt = len(without) > 1 and not without.isdisjoint(_NUMBERS)
        return None if in_doubt else functools.reduce(joined, without)
    result = functools.reduce(joined, with_dims)
    stronger = [t for t in without if kind(t) > kind(result)]
    if stronger:
        single = functools.reduce(joined, stronger)
        if kind(result) == FLOAT:
            return _COMPLEX.get(result.precision)
        return None if single in _NUMBERS else single
    texts = (call.text(p) for p in positions if call.optional(p) is None)
    return _with_numbers(result, [_number_kind(text) for text in texts])


def _with_numbers(result: DType, numbers: list[int | None]) -> DType | None:
    if kind(result) >= FLOAT:
        return result
    if None in numbers:
        return None
    highest = max((n for n in numbers if n is not None), default=BOOL)
    if highest == FLOAT:
        return FP32
    return INT64 if highest > kind(result) else result


def _number_kind(text: str | None) -> int | None:
    """Return the kind of a recorded number; a recorded absence (`""`) is like a bool: no effect."""
    if text is None:
        return None
    if not text or text in {"True", "False"}:
        return BOOL
    return INTEGER if text.lstrip("-").isdigit() else FLOAT


def floating(dtype: DType | None) -> DType | None:
    """Return the type of a float function of it: integers and bools become fp32."""
    return FP32 if dtype is not None and kind(dtype) < FLOAT else dtype


def accumulated(dtype: DType) -> DType:
    """Return the type that statistics of a tensor are kept in: fp32 for 16 bits."""
    return FP32 if kind(dtype) == FLOAT and dtype.bytes <= _HALF_BYTES else dtype


def extents(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """Return the extents of several tensors taken together element by element."""
    return functools.reduce(broadcast, (t.dims for t in tensors))


def tensors(call: Call, positions: Iterable[int]) -> list[Tensor]:
    """Return the recorded tensors among some positions."""
    return [t for t in (call.optional(p) for p in positions) if t is not None]


def tensor_list(call: Call, position: int) -> tuple[Tensor, ...]:
    """Return the list of tensors at a position, or raise `ShapeError`; an empty one is `()`."""
    found = call.tensors[position] if position < len(call.tensors) else None
    if isinstance(found, Tensor) or found is None:
        raise ShapeError(f"argument {position} has no recorded list of tensors")
    return found


def read_bytes(read: Iterable[Tensor | None]) -> int:
    """Return the distinct bytes of the tensors that there are."""
    return sum(t.distinct_bytes for t in read if t is not None)


def known_bytes(read: Sequence[Tensor]) -> int | None:
    """Return the distinct bytes of tensors; None when the type of one was not recorded."""
    if any(t.type_name not in DTYPES for t in read):
        return None
    return read_bytes(read)


def typed(call: Call, position: int) -> DType | None:
    """Return the type that a `dtype=` argument names; None when it names none."""
    return coded(call.text(position))


def integers(call: Call, position: int) -> tuple[int, ...] | None:
    """Return a recorded list of integers (or one integer); None when it was not recorded.

    A recorded absence gives `()`, as for `dim=None`.
    """
    text = call.text(position)
    if text is None:
        return None
    try:
        value = msgspec.json.decode(text.encode()) if text else []
    except (msgspec.DecodeError, UnicodeError):
        return None
    values = value if isinstance(value, list) else [value]
    return tuple(values) if all(type(v) is int for v in values) else None


def length(tensor: Tensor, dim: int) -> int:
    """Return the extent along a dimension, counted from the end when negative."""
    if not tensor.dims:
        return 1
    if not -len(tensor.dims) <= dim < len(tensor.dims):
        raise ShapeError(f"{list(tensor.dims)} has no dimension {dim}")
    return tensor.dims[dim]


def reduced(tensor: Tensor, dims: tuple[int, ...]) -> int:
    """Return the number of results of a reduction over some dimensions; none named: over all."""
    if not dims:
        return 1
    for dim in dims:
        length(tensor, dim)
    gone = {d % max(len(tensor.dims), 1) for d in dims}
    return math.prod(n for i, n in enumerate(tensor.dims) if i not in gone)


def moved(read: int | None, written: int | None, model: str, precision: str = UNKNOWN) -> Cost:
    """Return the cost of moving data: no FLOPs."""
    return Cost(0, read, written, precision, "memory", model)
