"""Bytes of operators that copy, fill or lay out elements anew: no FLOPs.

Each distinct input element is read once, each output element written once; what an operator does
not keep (the rest of a padded, cut or chosen tensor) is not read.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from workbench.costs import operands
from workbench.costs.shapes import DTYPES, ShapeError, Tensor

if TYPE_CHECKING:
    from workbench.costs.cost import Cost, Model
    from workbench.costs.shapes import Call


def _size(tensor: Tensor) -> int:
    return tensor.elements * tensor.dtype.bytes


def _copy(call: Call) -> Cost:
    """copy_(self, src): reads src (broadcast: each element once), writes self in its own type."""
    target, source = call.tensor(0), call.tensor(1)
    return operands.moved(source.distinct_bytes, _size(target), "copy", target.dtype.precision)


def _fill(call: Call) -> Cost:
    """fill_, zero_: writes self."""
    target = call.tensor(0)
    return operands.moved(0, _size(target), "copy", target.dtype.precision)


def _relaid(call: Call) -> Cost:
    """flip, roll, …: as many elements of the same type come out."""
    given = call.tensor(0)
    return operands.moved(given.distinct_bytes, _size(given), "copy", given.dtype.precision)


def _scalar(call: Call) -> Cost:
    """_local_scalar_dense: one element from the device to the host."""
    size = call.tensor(0).dtype.bytes
    return operands.moved(size, size, "copy", call.tensor(0).dtype.precision)


def _cat(call: Call) -> Cost:
    """cat(tensors, dim): reads all, writes as many, in the type of all taken together.

    Profilers name the type of a list `TensorList`, and older ones no extents: where nothing else
    told them (`costs.evidence`), bytes are not known.
    """
    found = call.tensors[0] if call.tensors else None
    parts = [] if found is None else list(found) if isinstance(found, tuple) else [found]
    read = operands.known_bytes(parts)
    if not parts or read is None:
        return operands.moved(None, None, "copy")
    types = {DTYPES[p.type_name] for p in parts if p.elements}
    dtype = functools.reduce(operands.joined, types) if types else parts[0].dtype
    written = sum(p.elements for p in parts) * dtype.bytes
    return operands.moved(read, written, "copy", dtype.precision)


def _pad(call: Call) -> Cost:
    """constant_pad_nd(self, pad, value): pad pairs from the last dimension on; negative cuts.

    2 x 3 with pad [1, 2]: 2 x 6.
    """
    given, pad = call.tensor(0), operands.integers(call, 1)
    if pad is None or len(pad) % 2 or len(pad) > 2 * len(given.dims):
        raise ShapeError("the padding was not recorded")
    dims, kept = list(given.dims), list(given.dims)
    for i in range(len(pad) // 2):
        before, after = pad[2 * i], pad[2 * i + 1]
        dims[-1 - i] += before + after
        kept[-1 - i] += min(before, 0) + min(after, 0)
    if min(dims, default=1) < 0:
        raise ShapeError("the padding cuts more than there is")
    cut = any(p < 0 for p in pad)
    read = max(math.prod(kept), 0) * given.dtype.bytes if cut else given.distinct_bytes
    written = math.prod(dims) * given.dtype.bytes
    return operands.moved(read, written, "copy", given.dtype.precision)


def _repeat(call: Call) -> Cost:
    """repeat(self, repeats): reads self once, writes elements * product(repeats)."""
    given, times = call.tensor(0), operands.integers(call, 1)
    if not times:
        raise ShapeError("the repeats were not recorded")
    written = _size(given) * math.prod(times)
    return operands.moved(given.distinct_bytes, written, "copy", given.dtype.precision)


def _arange(call: Call) -> Cost:
    """arange(end | start, end | start, end, step; …): ceil((end - start) / step) elements.

    Integers give int64, others fp32, unless a type or a tensor that takes them is recorded.
    """
    out = next((t for t in call.tensors if t is not None), None)
    if isinstance(out, Tensor) and out.elements:
        return operands.moved(0, _size(out), "copy", out.dtype.precision)
    given = len(call.tensors) - (4 if out is None else 1)
    start, end, step = _numbers(call, given)
    if not step or not math.isfinite(start + end + step):
        raise ShapeError("the step of a range is 0 or not a number")
    whole = all((call.text(i) or "").lstrip("-").isdigit() for i in range(given))
    dtype = operands.typed(call, given) or (operands.INT64 if whole else operands.FP32)
    dtype = out.dtype if isinstance(out, Tensor) else dtype
    count = max(math.ceil((end - start) / step), 0)
    return operands.moved(0, count * dtype.bytes, "copy", dtype.precision)


def _numbers(call: Call, given: int) -> tuple[float, float, float]:
    try:
        numbers = [float(call.text(i) or "none") for i in range(given)]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3:  # noqa: PLR2004 - start, end, step
        raise ShapeError("the number of elements was not recorded")
    start = numbers[0] if len(numbers) > 1 else 0.0
    end = numbers[1] if len(numbers) > 1 else numbers[0]
    return start, end, numbers[2] if len(numbers) > 2 else 1.0  # noqa: PLR2004


MODELS: dict[str, Model] = {
    "aten::copy_": _copy,
    "aten::fill_": _fill,
    "aten::zero_": _fill,
    "aten::arange": _arange,
    "aten::_local_scalar_dense": _scalar,
    "aten::cat": _cat,
    "aten::_cat": _cat,
    "aten::constant_pad_nd": _pad,
    "aten::repeat": _repeat,
    **dict.fromkeys(
        ("aten::flip", "aten::roll", "aten::rot90", "aten::pixel_shuffle", "aten::channel_shuffle",
         "aten::pixel_unshuffle", "aten::conj_physical", "aten::triu", "aten::tril",
         "aten::alias_copy", "aten::view_copy"),
        _relaid,
    ),
}  # fmt: skip
WRAPPERS = frozenset({
    "aten::zero_", "aten::pixel_shuffle", "aten::rot90", "aten::pixel_unshuffle",
    "aten::channel_shuffle",
})  # fmt: skip
"""Those that hand the work to another operator where that one is recorded."""
