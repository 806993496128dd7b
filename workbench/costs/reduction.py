"""FLOPs and bytes of reductions, scans, softmax and their backwards.

A reduction adds (or compares) each input element to a running value: 1 FLOP an element. What the
formula does to an element before, and to a result after, is beside each name. Written bytes need
the reduced dimensions; where the recording lacks them they are unknown. FLOPs of complex numbers
are not counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.costs import elementwise, operands
from workbench.costs.cost import Cost
from workbench.costs.shapes import ShapeError

if TYPE_CHECKING:
    from workbench.costs.cost import Model
    from workbench.costs.shapes import Call, DType, Tensor

_EUCLIDEAN = 2.0


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction: FLOPs for each input element, and for each result."""

    each: int = 1
    result: int = 0
    dims: int = 1
    """Position of the reduced dimensions; calls with fewer arguments reduce over all of them."""
    short: int = 1
    """Arguments (one of which is a type, a correction, …) up to which a call reduces over all."""
    written: str = "same"
    """`same`, `sum` (integers give int64), `float`, `real` (of complex numbers too), `bool`,
    `int64`, `indices` (values and their int64 positions), `pair` (a `real` and a `float`)."""
    dtype: int | None = None
    out: int | None = None
    unit: str = "vector"


REDUCTIONS = {
    "sum": Reduction(written="sum", short=2, dtype=3, out=4),
    "nansum": Reduction(2, written="sum", dtype=3),
    "prod": Reduction(written="sum", short=2, dtype=3),
    "mean": Reduction(1, 1, short=2, written="float", dtype=3, out=4),  # sum / n
    "amax": Reduction(short=0),
    "amin": Reduction(short=0),
    "max": Reduction(written="indices"),
    "min": Reduction(written="indices"),
    "median": Reduction(0, written="indices"),
    "argmax": Reduction(written="int64", short=0),
    "argmin": Reduction(written="int64", short=0),
    "any": Reduction(written="bool"),
    "all": Reduction(written="bool"),
    "count_nonzero": Reduction(2, written="int64", short=0),
    # mean 1; difference, square, sum 3; divided by n twice
    "var": Reduction(4, 2, written="real", short=2),
    "std": Reduction(4, 3, written="real", short=2),
    "var_mean": Reduction(4, 2, written="pair", short=2),
    "std_mean": Reduction(4, 3, written="pair", short=2),
    # square and sum (absolute value and sum, or maximum); a root
    "linalg_vector_norm": Reduction(2, 1, dims=2, short=0, written="real", dtype=4),
    "norm": Reduction(2, 1, dims=2, short=2, written="real"),
}
"""By operator name without its namespace."""


def _reduction(spec: Reduction) -> Model:
    def model(call: Call) -> Cost:
        given = call.tensor(0)
        results = _results(spec, call, given)
        flops = (
            None
            if (results is None and spec.result) or given.dtype.is_complex
            else (spec.each * given.elements + spec.result * (results or 0))
        )
        size = _size(spec, call, given.dtype)
        return Cost(
            flops=flops,
            read_bytes=given.distinct_bytes,
            write_bytes=None if results is None or size is None else results * size,
            precision=given.dtype.precision,
            unit=spec.unit,
            model="reduction",
        )

    return model


def _results(spec: Reduction, call: Call, given: Tensor) -> int | None:
    """Return how many elements come out; None when the reduced dimensions are not known."""
    out = None if spec.out is None else call.optional(spec.out)
    if out is not None and out.dims != (0,):
        return out.elements
    if len(call.tensors) <= spec.short:
        return 1
    dims = operands.integers(call, spec.dims)
    return None if dims is None else operands.reduced(given, dims)


def _size(spec: Reduction, call: Call, dtype: DType) -> int | None:
    """Return bytes written for each result."""
    named = None if spec.dtype is None else operands.typed(call, spec.dtype)
    if spec.dtype is not None and len(call.tensors) <= spec.short:
        named = operands.typed(call, 1)
    if named is not None:
        return named.bytes
    floats = operands.floating(dtype) or dtype
    integers = operands.INT64 if operands.kind(dtype) < operands.FLOAT else dtype
    real = floats.bytes // 2 if floats.is_complex else floats.bytes
    with_index = dtype.bytes + (operands.INT64.bytes if len(call.tensors) > spec.short else 0)
    return {
        "same": dtype.bytes,
        "sum": integers.bytes,
        "float": floats.bytes,
        "real": real,
        "bool": 1,
        "int64": operands.INT64.bytes,
        "indices": with_index,
        "pair": real + floats.bytes,
    }[spec.written]


def _extreme(spec: Reduction) -> Model:
    reduction = _reduction(spec)
    pairwise = elementwise.MODELS["aten::maximum"]

    def model(call: Call) -> Cost:
        """Of two tensors, element by element; of one, a reduction."""
        return reduction(call) if call.optional(1) is None else pairwise(call)

    return model


def has_root(call: Call, position: int) -> bool:
    """Say whether a norm of the recorded order ends in a root: 2 does, 0, 1 and infinity do not.

    Raises `ShapeError` for other orders: each element takes a power more, and they are rare.
    """
    order = _float(call.text(position))
    if order not in {0.0, 1.0, 2.0, math.inf, -math.inf}:
        raise ShapeError("the order of the norm was not recorded, or is not 0, 1, 2 or infinity")
    return order == _EUCLIDEAN


def _float(text: str | None) -> float | None:
    try:
        return float(text or "none")
    except ValueError:
        return None


def _norm(call: Call) -> Cost:
    """Price vector norms: absolute value or square, and sum or maximum: 2 an element."""
    spec = REDUCTIONS["linalg_vector_norm"]
    return _reduction(spec if has_root(call, 1) else replace(spec, result=0))(call)


def _scan(outputs: int) -> Model:
    def model(call: Call) -> Cost:
        """Cumsum and the like: 1 an element; as many results; sums of integers are int64."""
        given = call.tensor(0)
        dtype = operands.typed(call, 2) or given.dtype
        if operands.kind(dtype) < operands.FLOAT and outputs == 1:
            dtype = operands.typed(call, 2) or operands.INT64
        size = dtype.bytes + (operands.INT64.bytes if outputs > 1 else 0)
        return Cost(
            given.elements,
            given.distinct_bytes,
            given.elements * size,
            given.dtype.precision,
            "vector",
            "reduction",
        )

    return model


def _softmax(each: int, row: int) -> Model:
    def model(call: Call) -> Cost:
        """Price _softmax(self, dim, half_to_float) and _log_softmax.

        softmax: maximum, difference, exp, sum, division: 5 an element. log_softmax: maximum,
        difference, exp, sum, difference 5, and a log a row.
        """
        given = call.tensor(0)
        rows = _rows(call, given, 1) if row else 0
        dtype = operands.FP32 if call.text(2) == "True" else given.dtype
        return Cost(
            None if rows is None else each * given.elements + row * rows,
            given.distinct_bytes,
            given.elements * dtype.bytes,
            given.dtype.precision,
            "special",
            "softmax",
        )

    return model


def _rows(call: Call, given: Tensor, position: int) -> int | None:
    dims = operands.integers(call, position)
    return operands.reduced(given, dims) if dims else None


def _softmax_backward(call: Call) -> Cost:
    """(g - sum(g * y)) * y, and of log_softmax g - exp(y) * sum(g): 4 an element.

    Arguments: gradient, output, dimension, type of the input (position 3 or 4), which is written.
    """
    gradient, output = call.tensor(0), call.tensor(1)
    dtype = operands.typed(call, 3) or output.dtype
    return Cost(
        4 * output.elements,
        operands.read_bytes((gradient, output)),
        output.elements * dtype.bytes,
        output.dtype.precision,
        "vector",
        "softmax",
    )


MODELS: dict[str, Model] = {
    **{"aten::" + name: _reduction(spec) for name, spec in REDUCTIONS.items()},
    "aten::max": _extreme(REDUCTIONS["max"]),
    "aten::min": _extreme(REDUCTIONS["min"]),
    "aten::linalg_vector_norm": _norm,
    "aten::norm": _norm,
    **dict.fromkeys(("aten::cumsum", "aten::cumprod", "aten::logcumsumexp"), _scan(1)),
    **dict.fromkeys(("aten::cummax", "aten::cummin"), _scan(2)),
    "aten::_softmax": _softmax(5, 0),
    "aten::_safe_softmax": _softmax(5, 0),
    "aten::_log_softmax": _softmax(5, 1),
    "aten::_softmax_backward_data": _softmax_backward,
    "aten::_log_softmax_backward_data": _softmax_backward,
}
WRAPPERS = frozenset({"aten::_safe_softmax"})
"""Those that hand the work to another operator where that one is recorded."""
