"""FLOPs and bytes of activations whose formula or arguments need more than a line of a table.

GELU in both forms, dropout, gated units, and rotary position embeddings.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.costs import operands
from workbench.costs.cost import Cost
from workbench.costs.elementwise import Spec, price
from workbench.costs.shapes import ShapeError

if TYPE_CHECKING:
    from workbench.costs.cost import Model
    from workbench.costs.shapes import Call

GELU = {"none": (5, 11), "tanh": (9, 18)}
"""Forward and backward FLOPs per element (Hendrycks and Gimpel, arXiv 1606.08415).

none: x * 0.5 * (1 + erf(x * c)); its derivative is the CDF plus x times the density: CDF 4,
density 4, their sum 2, times g. tanh: 0.5 * x * (1 + tanh(k * (x + a * x^3))): x^3 2, a * and + 2,
k * 1, tanh 1, 1 + 1, * x 1, * 0.5 1; backward: tanh of the inside 6, 0.5 * x, 1 + t, 0.5 * (1 + t)
3, 1 - t^2 2, derivative of the inside 3, products 2, sum 1, times g 1.
"""


def _gelu(*, backward: bool) -> Model:
    position = 2 if backward else 1
    base = Spec(0, (0, 1) if backward else (0,), unit="special")

    def model(call: Call) -> Cost:
        """Count the exact form, unless the trace says `tanh`: older profilers write no strings."""
        form = GELU["tanh" if call.text(position) == "tanh" else "none"]
        return price(replace(base, flops=form[backward]), call, in_place=False)

    return model


def _dropout(call: Call) -> Cost:
    """native_dropout: x * (u < keep) * scale, 3 FLOPs; writes the result and a mask of bools."""
    given = call.tensor(0)
    flops = 0 if call.text(2) == "False" else 3 * given.elements
    written = given.elements * (given.dtype.bytes + 1)
    return Cost(flops, given.distinct_bytes, written, given.dtype.precision, "vector", "random")


def _gate(call: Call) -> Cost:
    """glu(self): a * sigmoid(b) of the halves of self: 2 FLOPs an element of the result."""
    given = call.tensor(0)
    half = given.elements // 2
    size = given.dtype.bytes
    precision = given.dtype.precision
    return Cost(2 * half, given.distinct_bytes, half * size, precision, "special", "elementwise")


def _gate_backward(call: Call) -> Cost:
    """glu_backward(grad, self): s = sigmoid(b), g * s, and g * s * a * (1 - s): 5 a gradient."""
    gradient, given = call.tensor(0), call.tensor(1)
    read = operands.read_bytes((gradient, given))
    written = given.elements * given.dtype.bytes
    precision = given.dtype.precision
    return Cost(5 * gradient.elements, read, written, precision, "special", "elementwise")


def _gated(call: Call) -> Cost:
    """silu_and_mul(out, x): the halves a, b of x give silu(a) * b, 3 FLOPs an element of out."""
    out, given = call.tensor(0), call.tensor(1)
    return Cost(
        3 * out.elements,
        given.distinct_bytes,
        out.elements * out.dtype.bytes,
        given.dtype.precision,
        "special",
        "elementwise",
    )


def _rotary(call: Call) -> Cost:
    """Rotary embedding in place of query and key (arguments 1, 2) with a cache of sines, cosines.

    Each rotated pair is 4 products and 2 sums: 3 FLOPs an element (Su et al., arXiv 2104.09864,
    equation 34). The rotated width is that of the cache (argument 4); of a wider head the rest
    stays. One row of the cache is read for each position.
    """
    positions, query, cache = call.tensor(0), call.tensor(1), call.tensor(4)
    head = operands.integers(call, 3)
    if not head or head[0] < 1 or not cache.dims:
        raise ShapeError("the width of a head was not recorded")
    states = operands.tensors(call, (1, 2))
    share = min(cache.dims[-1], head[0])
    turned = sum(t.elements // head[0] * share for t in states)
    rows = min(positions.elements, math.prod(cache.dims[:-1])) * cache.dims[-1]
    size = query.dtype.bytes
    read = positions.distinct_bytes + turned * size + rows * cache.dtype.bytes
    return Cost(3 * turned, read, turned * size, query.dtype.precision, "vector", "elementwise")


MODELS: dict[str, Model] = {
    "aten::gelu": _gelu(backward=False),
    "aten::gelu_backward": _gelu(backward=True),
    "aten::native_dropout": _dropout,
    "aten::_fused_dropout": _dropout,
    "aten::glu": _gate,
    "aten::glu_backward": _gate_backward,
    "_C::silu_and_mul": _gated,
    "sgl_kernel::silu_and_mul": _gated,
    "_C::rotary_embedding": _rotary,
    "sgl_kernel::rotary_embedding": _rotary,
}
WRAPPERS: frozenset[str] = frozenset()
