"""Bytes of operators that draw random numbers: what they fill is written, nothing else moves.

The generator's integer arithmetic and the transformation to a distribution count no FLOPs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.costs import operands
from workbench.costs.shapes import ShapeError

if TYPE_CHECKING:
    from workbench.costs.cost import Cost, Model
    from workbench.costs.shapes import Call


def _filled(call: Call) -> Cost:
    """Fill self (normal_, uniform_, …): it is written; parameters given as tensors are read."""
    target = call.tensor(0)
    read = operands.read_bytes(operands.tensors(call, range(1, len(call.tensors))))
    size = target.elements * target.dtype.bytes
    return operands.moved(read, size, "random", target.dtype.precision)


def _bernoulli(call: Call) -> Cost:
    """bernoulli(self): reads the probabilities, writes as many of the same type."""
    given = call.tensor(0)
    size = given.elements * given.dtype.bytes
    return operands.moved(given.distinct_bytes, size, "random", given.dtype.precision)


def _multinomial(call: Call) -> Cost:
    """multinomial(self, num_samples, …): int64 positions, num_samples a row."""
    given, samples = call.tensor(0), operands.integers(call, 1)
    if not samples or not given.dims:
        raise ShapeError("the number of samples was not recorded")
    rows = given.dims[0] if len(given.dims) > 1 else 1
    written = rows * samples[0] * operands.INT64.bytes
    return operands.moved(given.distinct_bytes, written, "random", given.dtype.precision)


def _permutation(call: Call) -> Cost:
    """randperm(n, …): n numbers of int64, or of the type recorded or of the tensor given."""
    count = operands.integers(call, 0)
    out = next((t for t in operands.tensors(call, range(len(call.tensors)))), None)
    if not count:
        raise ShapeError("the number of elements was not recorded")
    dtype = out.dtype if out else operands.typed(call, len(call.tensors) - 4) or operands.INT64
    return operands.moved(0, count[0] * dtype.bytes, "random", dtype.precision)


_FILLS = (
    "normal_", "uniform_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_",
    "bernoulli_",
)  # fmt: skip
MODELS: dict[str, Model] = {
    **{"aten::" + name: _filled for name in _FILLS},
    "aten::bernoulli": _bernoulli,
    "aten::poisson": _bernoulli,
    "aten::multinomial": _multinomial,
    "aten::randperm": _permutation,
}
WRAPPERS: frozenset[str] = frozenset()
