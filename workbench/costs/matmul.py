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

from workbench.costs import arguments
from workbench.costs.cost import Cost
from workbench.costs.shapes import Call, DType, ShapeError, Tensor, broadcast

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
    return price(left, (right,), out, inner)


def _add_matmul(call: Call) -> Cost:
    """addmm, baddbmm, addmv: beta * self + mat1 @ mat2; FLOPs 2 * out * K, self is read.

    With beta 0 the BLAS does not read self.
    """
    left, right = call.tensor(1), call.tensor(2)
    out, inner = product(left.dims, right.dims)
    ignored = call.text(3) in {"0", "0."}
    if ignored:
        return price(left, (right,), out, inner)
    return price(left, (right, call.tensor(0)), out, inner, added=1)


def _add_reduced(call: Call) -> Cost:
    """addbmm: beta * self + sum over the batch of batch1 @ batch2; FLOPs 2 * B * M * N * K."""
    left, right = call.tensor(1), call.tensor(2)
    out, inner = product(left.dims, right.dims)
    if len(out) != 3:  # noqa: PLR2004 - batch, rows, columns
        raise ShapeError("addbmm needs two batches of matrices")
    return price(left, (right, call.tensor(0)), out[1:], inner * out[0], added=1)


def _linear(call: Call) -> Cost:
    """linear: (*, K) x (N, K) transposed, and the bias is read; FLOPs 2 * out * K."""
    left, weight = call.tensor(0), call.tensor(1)
    out, inner = product(left.dims, weight.dims[::-1])
    bias = call.optional(2)
    if bias is None:
        return price(left, (weight,), out, inner)
    return price(left, (weight, bias), out, inner, added=1)


def _packed_linear(call: Call) -> Cost:
    """_mkl_linear: input, packed weight, weight, bias; the packed weight holds the same numbers."""
    tensors = call.tensor(0), call.tensor(2), call.optional(3)
    return _linear(replace(call, tensors=tensors))


def _typed_linear(call: Call) -> Cost:
    """gemm_a16w16: a linear with the output type at argument 3."""
    cost = _linear(call)
    left = call.tensor(0)
    written = arguments.written_type(call, 3, left)
    size = None if written is None else (cost.write_bytes or 0) // left.dtype.bytes * written.bytes
    return replace(cost, write_bytes=size, unknown=None if written else NO_TYPE)


def _linear_backward(call: Call) -> Cost:
    """linear_backward: input, grad, weight, mask; 2 * M * N * K for each of two gradients.

    The bias gradient adds up the gradient (an epilogue), and reads its bytes.
    """
    data, grad, weight = (call.tensor(i) for i in range(3))
    to_data, to_weight, to_bias = (*arguments.mask(call, -1), False, False, False)[:3]
    out, inner = product(data.dims, weight.dims[::-1])
    if out != grad.dims:
        raise ShapeError("input, gradient and weight do not fit together")
    read = [grad, *[weight] * to_data, *[data] * to_weight]
    written = data.elements * to_data + weight.elements * to_weight + weight.dims[0] * to_bias
    return Cost(
        flops=2 * grad.elements * inner * (to_data + to_weight),
        read_bytes=sum(t.distinct_bytes for t in read),
        write_bytes=written * data.dtype.bytes,
        precision=data.dtype.precision,
        unit="matrix",
        model="matmul",
        epilogue_flops=grad.elements * to_bias,
    )


def _outer(call: Call, first: int = 0) -> Cost:
    """ger: the product of a column and a row, K = 1."""
    left, right = call.tensor(first), call.tensor(first + 1)
    if len(left.dims) != 1 or len(right.dims) != 1:
        raise ShapeError("an outer product needs two vectors")
    return price(left, (right,), (*left.dims, *right.dims), 1)


def _add_outer(call: Call) -> Cost:
    """addr: self + vec1 vec2^T; self is read."""
    base = call.tensor(0)
    cost = _outer(call, 1)
    read = (cost.read_bytes or 0) + base.distinct_bytes
    added = cost.flops // 2 if cost.flops else 0
    return replace(cost, read_bytes=read, epilogue_flops=added)


_SAME = DType("same", 0)
NO_TYPE = "the type of the output was not recorded"


def price(
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
        unknown=NO_TYPE if written is None else None,
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
    "aten::mkldnn_linear": _linear,
    "mkldnn::_linear_pointwise": _linear,
    "mkl::_mkl_linear": _packed_linear,
    "vllm::rocm_unquantized_gemm": _linear,
    "aiter::gemm_a16w16": _typed_linear,
    "aten::linear_backward": _linear_backward,
    "aten::mkldnn_linear_backward": _linear_backward,
    "aten::addr": _add_outer,
    "aten::ger": _outer,
}
"""Models by operator name; the in-place form (`addmm_`) has the model of the plain one."""
WRAPPERS = frozenset(
    {
        "aten::matmul",
        "aten::linear",
        "aten::ger",
        "aiter::gemm_a16w16",
        "vllm::rocm_unquantized_gemm",
    }
)
"""Those that hand the work to another operator where that one is recorded."""
