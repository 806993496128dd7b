"""FLOPs and bytes of discrete Fourier transforms.

5 n log2 n real operations for n complex numbers, half of that with real input or output: the usual
count of fast transforms, whatever the algorithm (FFTW, http://www.fftw.org/speed; Van Loan,
Computational Frameworks for the FFT, section 1.4).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workbench.costs import operands
from workbench.costs.cost import Cost
from workbench.costs.shapes import ShapeError

if TYPE_CHECKING:
    from workbench.costs.cost import Model
    from workbench.costs.shapes import Call, Tensor


def _lengths(call: Call, given: Tensor) -> list[int]:
    dims = operands.integers(call, 1)
    if not dims:
        raise ShapeError("the transformed dimensions were not recorded")
    return [operands.length(given, d) for d in dims]


def _flops(elements: int, lengths: list[int], *, real: bool) -> int:
    steps = sum(math.log2(n) for n in lengths if n > 1)
    return round((2.5 if real else 5) * elements * steps)


def _complex(call: Call) -> Cost:
    """_fft_c2c(self, dim, …): as many complex numbers come out."""
    given = call.tensor(0)
    flops = _flops(given.elements, _lengths(call, given), real=False)
    return _cost(flops, given, given.elements * given.dtype.bytes)


def _from_real(call: Call) -> Cost:
    """_fft_r2c(self, dim, normalization, onesided): n // 2 + 1 of the last dimension, or all n."""
    given = call.tensor(0)
    lengths = _lengths(call, given)
    last = lengths[-1] // 2 + 1 if call.flag(3) else lengths[-1]
    out = given.elements // max(lengths[-1], 1) * last
    flops = _flops(given.elements, lengths, real=True)
    return _cost(flops, given, out * 2 * given.dtype.bytes)


def _to_real(call: Call) -> Cost:
    """_fft_c2r(self, dim, normalization, last): `last` real numbers along the last dimension."""
    given = call.tensor(0)
    lengths, size = _lengths(call, given), operands.integers(call, 3)
    if not size:
        raise ShapeError("the output size was not recorded")
    out = given.elements // max(lengths[-1], 1) * size[0]
    flops = _flops(out, [*lengths[:-1], size[0]], real=True)
    return _cost(flops, given, out * given.dtype.bytes // 2)


def _cost(flops: int, given: Tensor, written: int) -> Cost:
    return Cost(flops, given.distinct_bytes, written, given.dtype.precision, "vector", "fourier")


MODELS: dict[str, Model] = {
    "aten::_fft_c2c": _complex,
    "aten::_fft_r2c": _from_real,
    "aten::_fft_c2r": _to_real,
}
WRAPPERS: frozenset[str] = frozenset()
