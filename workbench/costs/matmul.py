"""FLOPs and bytes of the matrix-product family, from recorded shapes.

FLOPs are 2 per multiply-add on the broadcast output; bias, scaling and activation epilogues are not
counted (the usual 2MNK of LAPACK working note 41, appendix C).
Bytes are compulsory traffic: each distinct input element read once, each output element written
once. One tensor passed twice counts twice, since the recording does not tell.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.costs.cost import Cost
from workbench.costs.shapes import (
    DTYPES,
    SCALAR_TYPES,
    Call,
    DType,
    ShapeError,
    Tensor,
    broadcast,
)

if TYPE_CHECKING:
    from workbench.costs.cost import Model

COMPLEX_FACTOR = 4
"""A complex multiply-add is four real ones."""


def product(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Return output extents and contracted length of `left @ right` (NumPy's matmul rules).

    (2,1,4,8) @ (3,8,5): output (2,3,4,5), length 8. Raises `ShapeError` when they do not multiply.
    """
    if not left or not right:
        raise ShapeError("a scalar has no matrix product")
    inner = left[-1]
    if inner != (right[-2] if len(right) > 1 else right[0]):
        raise ShapeError(f"{list(left)} and {list(right)} do not multiply")
    batch = broadcast(left[:-2], right[:-2])
    rows = left[-2:-1] if len(left) > 1 else ()
    columns = right[-1:] if len(right) > 1 else ()
    return (*batch, *rows, *columns), inner


def _matmul(call: Call, first: int = 0) -> Cost:
    """mm, bmm, matmul, mv, dot: self @ other; FLOPs 2 * out * K."""
    left, right = call.tensor(first), call.tensor(first + 1)
    out, inner = product(left.dims, right.dims)
    return _cost(left, (right,), out, inner)


def _add_matmul(call: Call) -> Cost:
    """addmm, baddbmm, addmv: beta * self + mat1 @ mat2; FLOPs 2 * out * K, self is read.

    With beta 0 the BLAS does not read self.
    """
    left, right = call.tensor(1), call.tensor(2)
    out, inner = product(left.dims, right.dims)
    ignored = call.text(3) in {"0", "0."}
    if ignored:
        return _cost(left, (right,), out, inner)
    return _cost(left, (right, call.tensor(0)), out, inner, added=1)


def _add_reduced(call: Call) -> Cost:
    """addbmm: beta * self + sum over the batch of batch1 @ batch2; FLOPs 2 * B * M * N * K."""
    left, right = call.tensor(1), call.tensor(2)
    out, inner = product(left.dims, right.dims)
    if len(out) != 3:  # noqa: PLR2004 - batch, rows, columns
        raise ShapeError("addbmm needs two batches of matrices")
    return _cost(left, (right, call.tensor(0)), out[1:], inner * out[0], added=1)


def _linear(call: Call) -> Cost:
    """linear: (*, K) x (N, K) transposed, and the bias is read; FLOPs 2 * out * K."""
    left, weight = call.tensor(0), call.tensor(1)
    out, inner = product(left.dims, weight.dims[::-1])
    bias = call.optional(2)
    if bias is None:
        return _cost(left, (weight,), out, inner)
    return _cost(left, (weight, bias), out, inner, added=1)


def _scaled(call: Call) -> Cost:
    """_scaled_mm: a low-precision product with scales (arguments 2, 3), bias 4, output type 6.

    4-bit numbers are stored two to a byte along K, so K is twice the recorded extent.
    """
    left, right = call.tensor(0), call.tensor(1)
    out, inner = product(left.dims, right.dims)
    extra = [t for t in (call.optional(i) for i in (2, 3, 4)) if t is not None]
    written = _output_type(call, 6, left)
    biased = call.optional(4) is not None
    return _cost(left, (right, *extra), out, inner * left.dtype.packed, biased, written=written)


def _grouped(call: Call) -> Cost:
    """_grouped_mm: groups split rows (2D x 3D), columns (3D x 2D), K (2D x 2D) or are a batch.

    Every row, column or K element is taken to belong to a group. FLOPs 2 * M * N * K over all.
    """
    left, right = call.tensor(0), call.tensor(1)
    a, b = left.dims, right.dims
    if (len(a), len(b)) == (3, 3):
        return _matmul(call)
    groups = call.tensor(2).elements if (len(a), len(b)) == (2, 2) else 1
    if not {len(a), len(b)} <= {2, 3} or a[-1] != b[-2]:
        raise ShapeError(f"{list(a)} and {list(b)} do not multiply by groups")
    written = _output_type(call, 4, left)
    out = (groups, a[-2], b[-1])
    if groups == 0:
        raise ShapeError("no groups")
    cost = _cost(left, (right,), out, a[-1], written=written)
    # With K split, each group's product contracts its own part: the parts add up to K once.
    return replace(cost, flops=2 * math.prod(out) // groups * a[-1])


def _output_type(call: Call, position: int, left: Tensor) -> DType | None:
    """Return the written type: that of the first input unless `out_dtype` says; None: unknown."""
    text = call.text(position)
    if text is None:
        return None
    if not text:
        return left.dtype
    name = SCALAR_TYPES.get(int(text)) if text.isascii() and text.isdigit() else None
    return DTYPES[name] if name else None


_SAME = DType("same", 0)


def _cost(
    left: Tensor,
    others: tuple[Tensor, ...],
    out: tuple[int, ...],
    inner: int,
    added: int = 0,
    *,
    written: DType | None = _SAME,
) -> Cost:
    """Price a product; `added` is the number of epilogue adds for each output element."""
    dtype = left.dtype
    written = dtype if written is _SAME else written
    elements = math.prod(out)
    factor = COMPLEX_FACTOR if dtype.is_complex else 1
    matrices = len(left.dims) > 1 and len(others[0].dims) > 1
    return Cost(
        flops=2 * factor * elements * inner,
        read_bytes=sum(t.distinct_bytes for t in (left, *others)) if elements else 0,
        write_bytes=None if written is None else elements * written.bytes,
        precision=dtype.precision,
        unit="matrix" if matrices else "vector",
        model="matmul",
        epilogue_flops=added * elements,
    )


MODELS: dict[str, Model] = {
    "aten::mm": _matmul,
    "aten::bmm": _matmul,
    "aten::mv": _matmul,
    "aten::dot": _matmul,
    "aten::vdot": _matmul,
    "aten::matmul": _matmul,
    "aten::_int_mm": _matmul,
    "aten::addmm": _add_matmul,
    "aten::_addmm_activation": _add_matmul,
    "aten::baddbmm": _add_matmul,
    "aten::addmv": _add_matmul,
    "aten::addbmm": _add_reduced,
    "aten::linear": _linear,
    "aten::_scaled_mm": _scaled,
    "aten::_grouped_mm": _grouped,
}
"""Models by operator name; the in-place form (`addmm_`) has the model of the plain one."""
WRAPPERS = frozenset({"aten::matmul", "aten::linear"})
"""Those that hand the work to another operator where that one is recorded."""
