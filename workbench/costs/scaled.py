"""FLOPs and bytes of products of scaled, quantised and grouped matrices, from recorded shapes.

As plain products (`matmul`): 2 per multiply-add, in the precision of the first operand; scales are
read, and multiplying by them is an epilogue that is not counted. 4-bit numbers are stored two to a
byte along K, so K is twice the recorded extent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.costs import arguments
from workbench.costs.matmul import price, product
from workbench.costs.shapes import LIST, Call, ShapeError, Tensor

if TYPE_CHECKING:
    from workbench.costs.cost import Cost, Model


@dataclass(frozen=True, slots=True)
class _Form:
    """Positions of scales (tensors or lists of them), bias, output type, ends of groups."""

    scales: tuple[int, ...]
    bias: int
    out_type: int
    ends: int | None = None


_MM = _Form((2, 3), 4, 6)
# Until torch 2.4 the bias and the type came first, and the scales could be left out.
_OLD_MM = _Form((4, 5), 2, 3)
_MM_V2 = _Form((2, 5), 8, 9)
_GROUPED = _Form((), 3, 4, ends=2)
_SCALED_GROUPED = _Form((2, 3), 5, 7, ends=4)
_SCALED_GROUPED_V2 = _Form((2, 5), 9, 10, ends=8)


NO_SCALE_TYPE = "the type of the scales was not recorded"


def _extra(call: Call, form: _Form) -> tuple[Tensor, ...]:
    """Return the scales and the bias."""
    found = [call.tensors[p] if p < len(call.tensors) else None for p in (*form.scales, form.bias)]
    lists = [t if isinstance(t, tuple) else (t,) for t in found]
    return tuple(t for some in lists for t in some if t is not None)


def _scaled(form: _Form) -> Model:
    def model(call: Call) -> Cost:
        """Price 2 * M * N * K; reads both operands, scales and bias, writes the output type."""
        here = _OLD_MM if form is _MM and call.optional(3) is None else form
        left, right = call.tensor(0), call.tensor(1)
        out, inner = product(left.dims, right.dims)
        written = arguments.written_type(call, here.out_type, left)
        biased = call.optional(here.bias) is not None
        found = price(left, (right,), out, inner * left.dtype.packed, biased, written=written)
        return _with_scales(call, here, found)

    return model


def _with_scales(call: Call, form: _Form, found: Cost) -> Cost:
    """Add the bytes of scales and bias; a list of scales without a type leaves them unknown."""
    extra = _extra(call, form)
    if any(t.type_name == LIST for t in extra):
        return replace(found, read_bytes=None, unknown=NO_SCALE_TYPE)
    read = sum(t.distinct_bytes for t in extra) if found.write_bytes != 0 else 0
    return replace(found, read_bytes=(found.read_bytes or 0) + read)


def _grouped(form: _Form) -> Model:
    def model(call: Call) -> Cost:
        """Price groups that split rows (2D x 3D), columns (3D x 2D), K (2D x 2D) or are a batch.

        Every row, column or K element is taken to belong to a group. 2 * M * N * K over all.
        """
        left, right = call.tensor(0), call.tensor(1)
        a, b = left.dims, right.dims
        ranks = len(a), len(b)
        written = arguments.written_type(call, form.out_type, left)
        biased = call.optional(form.bias) is not None
        if ranks == (3, 3):
            out, inner = product(a, b)
            found = price(left, (right,), out, inner * left.dtype.packed, biased, written=written)
            return _with_scales(call, form, found)
        if not {*ranks} <= {2, 3} or a[-1] != b[-2]:
            raise ShapeError(f"{list(a)} and {list(b)} do not multiply by groups")
        groups = call.tensor(form.ends or 0).elements if ranks == (2, 2) else 1
        if groups == 0:
            raise ShapeError("no groups")
        out, inner = (groups, a[-2], b[-1]), a[-1] * left.dtype.packed
        cost = price(left, (right,), out, inner, biased, written=written)
        # With K split, each group's product contracts its own part: the parts add up to K once.
        cost = replace(cost, flops=2 * math.prod(out) // groups * inner)
        return _with_scales(call, form, cost)

    return model


def _int8_weight(call: Call) -> Cost:
    """_weight_int8pack_mm: (M, K) x (N, K) transposed of 8-bit weights, a scale for each column."""
    left, weight, scales = (call.tensor(i) for i in range(3))
    out, inner = product(left.dims, weight.dims[::-1])
    return price(left, (weight, scales), out, inner)


def _int4_weight(call: Call) -> Cost:
    """_weight_int4pack_mm: N is that of the scales and zeros (K / group, N, 2)."""
    left, weight, scales = call.tensor(0), call.tensor(1), call.tensor(3)
    if len(scales.dims) != 3 or len(left.dims) != 2:  # noqa: PLR2004 - groups, columns, pair
        raise ShapeError("the columns of the packed weight are not known")
    return price(left, (weight, scales), (left.dims[0], scales.dims[1]), left.dims[1])


MODELS: dict[str, Model] = {
    "aten::_scaled_mm": _scaled(_MM),
    "aten::_scaled_mm_v2": _scaled(_MM_V2),
    "aten::_grouped_mm": _grouped(_GROUPED),
    "aten::_scaled_grouped_mm": _grouped(_SCALED_GROUPED),
    "aten::_scaled_grouped_mm_v2": _grouped(_SCALED_GROUPED_V2),
    "aten::_weight_int8pack_mm": _int8_weight,
    "aten::_weight_int4pack_mm": _int4_weight,
    "aten::_weight_int4pack_mm_for_cpu": _int4_weight,
}
WRAPPERS = frozenset[str]()
