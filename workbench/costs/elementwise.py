"""FLOPs and bytes of operators that work element by element, and their backwards.

FLOPs per output element are those of the formula beside each name: an addition, product, division,
comparison, selection, minimum or maximum is one, and so is a function (exp, log, erf, tanh, sqrt,
sigmoid, power). Unit `special` where functions and divisions are the point of the operator.
Integers and bools count alike; complex numbers 2 for an addition and 6 for a product (real parts).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.costs import operands
from workbench.costs.cost import Cost
from workbench.costs.shapes import ShapeError

if TYPE_CHECKING:
    from workbench.costs.cost import Model
    from workbench.costs.shapes import Call, DType, Tensor

ONES = {"1", "1.", "1.0"}


@dataclass(frozen=True, slots=True)
class Spec:
    """How an operator works on its elements."""

    flops: int
    operands: tuple[int, ...] = (0,)
    """Positions of the arguments that are read: tensors, or numbers in their place."""
    unit: str = "vector"
    result: str = "same"
    """Type of the result: `same` (by promotion), `float` (integers become fp32), `bool`, `self`
    (that of the first operand)."""
    out: int | None = None
    """Position of a tensor that takes the result (`out=`): written, not read."""
    scale: int | None = None
    """Position of a factor: when it is recorded and not 1, one product more."""
    complex_flops: int | None = None


def _special(flops: int = 1) -> Spec:
    return Spec(flops, unit="special", result="float", out=1)


def _binary(flops: int = 1, **more: object) -> Spec:
    return replace(Spec(flops, (0, 1), out=2), **more)  # type: ignore[arg-type]


SPECS: dict[str, Spec] = {
    # one operation
    **dict.fromkeys(
        ("neg", "sign", "sgn", "ceil", "floor", "round", "trunc", "relu"),
        Spec(1, out=1),
    ),
    "abs": Spec(1, out=1, complex_flops=4),  # of a complex number: two squares, a sum, a root
    **dict.fromkeys(
        ("logical_not", "isnan", "isinf", "isneginf", "isposinf"),
        Spec(1, result="bool", out=1),
    ),
    "bitwise_not": Spec(1, out=1),
    **dict.fromkeys(
        ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal",
         "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
         "atanh", "erf", "erfc", "erfinv", "sigmoid", "lgamma", "digamma", "sinc", "i0"),
        _special(),
    ),
    # activations
    "silu": _special(2),  # x * sigmoid(x)
    "mish": _special(5),  # x * tanh(log(1 + exp(x)))
    "log_sigmoid_forward": replace(_special(5), out=None),  # -log(1 + exp(-x))
    "logit": replace(_special(3), out=2),  # log(x / (1 - x))
    "elu": replace(_special(5), out=4),  # x > 0 ? x : alpha * (exp(x) - 1)
    "softplus": replace(_special(7), out=3),  # b*x > t ? x : log(1 + exp(b * x)) / b
    "hardtanh": Spec(2, out=3),  # min(max(x, low), high)
    "relu6": Spec(2),
    "hardsigmoid": Spec(4, out=1),  # min(max(x + 3, 0), 6) / 6
    "hardswish": Spec(5, out=1),  # x * min(max(x + 3, 0), 6) / 6
    "leaky_relu": Spec(3, out=2),  # x > 0 ? x : slope * x
    "threshold": Spec(2, out=3),  # x > t ? x : value
    "_prelu_kernel": _binary(3, out=None),
    "nan_to_num": Spec(3, out=4),  # three selections: nan, infinity, -infinity
    "clamp": Spec(2, (0, 1, 2), result="self", out=3),
    "clamp_min": _binary(result="self"),
    "clamp_max": _binary(result="self"),
    # two operands
    "add": _binary(out=3, scale=2, complex_flops=2),
    "sub": _binary(out=3, scale=2, complex_flops=2),
    "rsub": _binary(out=3, scale=2, complex_flops=2),
    "mul": _binary(complex_flops=6),
    "div": _binary(unit="special", result="float"),
    "floor_divide": _binary(2, unit="special"),  # floor(a / b)
    "remainder": _binary(4, unit="special"),  # a - b * floor(a / b)
    "fmod": _binary(4, unit="special"),
    "pow": _binary(unit="special"),
    "atan2": _binary(unit="special", result="float"),
    "hypot": _binary(4, unit="special"),
    "xlogy": _binary(2, unit="special", result="float"),
    **dict.fromkeys(
        ("maximum", "minimum", "fmax", "fmin", "copysign", "bitwise_and", "bitwise_or",
         "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "heaviside",
         "__and__", "__or__", "__xor__", "__lshift__", "__rshift__"),
        _binary(),
    ),
    **dict.fromkeys(
        ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"),
        _binary(result="bool"),
    ),
    # three operands
    "where": Spec(1, (1, 2), out=3),
    "lerp": Spec(3, (0, 1, 2), result="self", out=3),  # a + w * (b - a)
    "addcmul": Spec(2, (0, 1, 2), out=4, scale=3),  # a + value * b * c
    "addcdiv": Spec(2, (0, 1, 2), unit="special", out=4, scale=3),  # a + value * b / c
    # backwards: gradient first
    "sigmoid_backward": _binary(3),  # g * y * (1 - y)
    "tanh_backward": _binary(3),  # g * (1 - y * y)
    "silu_backward": _binary(6, unit="special"),  # s = sigmoid(x); g * s * (1 + x * (1 - s))
    "threshold_backward": _binary(2, out=3),  # x > t ? g : 0
    "leaky_relu_backward": _binary(3, out=4),
    "hardtanh_backward": _binary(3, out=4),
    "hardsigmoid_backward": _binary(4),  # two comparisons, a selection, g / 6
    "softplus_backward": _binary(7, unit="special", out=4),
    "hardswish_backward": _binary(7, out=None),  # 2 comparisons, 2 selections, g * (x / 3 + 1 / 2)
    "elu_backward": Spec(5, (0, 5), unit="special", out=6),
    "native_dropout_backward": Spec(2, (0, 1), result="self"),  # g * mask * scale
}  # fmt: skip
"""FLOPs per element and positions of arguments, by operator name without its namespace."""


def _pointwise(spec: Spec, *, in_place: bool) -> Model:
    def model(call: Call) -> Cost:
        return price(spec, call, in_place=in_place)

    return model


def price(spec: Spec, call: Call, *, in_place: bool) -> Cost:
    """Price a call: every operand read once (each distinct element), the result written once.

    Without a recorded factor (`alpha`, `value`) its product is not counted.
    """
    read = operands.tensors(call, spec.operands)
    if not read:
        raise ShapeError("no argument is a recorded tensor")
    dims = operands.extents(read)
    worked = operands.result_type(call, spec.operands)
    out = None if spec.out is None else call.optional(spec.out)
    written = _written(spec, read, worked, out, in_place=in_place)
    precision = (worked or read[0].dtype).precision
    scaled = 0 if spec.scale is None else (call.text(spec.scale) or "1") not in ONES
    elements = math.prod(dims)
    each = spec.flops + scaled
    is_complex = worked is not None and worked.is_complex
    if is_complex and spec.complex_flops is None:
        each = 0
    elif is_complex and spec.complex_flops:
        each = spec.complex_flops * each
    return Cost(
        flops=None if is_complex and not spec.complex_flops else each * elements,
        read_bytes=operands.read_bytes(read),
        write_bytes=None if written is None else elements * written.bytes,
        precision=precision,
        unit=spec.unit,
        model="elementwise",
    )


def _written(
    spec: Spec, read: list[Tensor], worked: DType | None, out: Tensor | None, *, in_place: bool
) -> DType | None:
    if out is not None:
        return out.dtype
    if in_place or spec.result == "self":
        return read[0].dtype
    if spec.result == "bool":
        return operands.BOOL_TYPE
    return operands.floating(worked) if spec.result == "float" else worked


def _where(call: Call) -> Cost:
    """where(condition, a, b): reads all three; the type is that of a and b taken together."""
    condition = call.tensor(0)
    both = operands.tensors(call, (1, 2))
    if not both:
        raise ShapeError("where of numbers, or of a mask alone, has no recorded result")
    elements = math.prod(operands.extents((condition, *both)))
    worked = operands.result_type(call, (1, 2))
    read = operands.read_bytes((condition, *both))
    written = None if worked is None else elements * worked.bytes
    precision = (worked or both[0].dtype).precision
    return Cost(elements, read, written, precision, "vector", "elementwise")


def _masked_fill(call: Call) -> Cost:
    """masked_fill(self, mask, value): one selection; reads self and mask, writes self's type."""
    found = price(Spec(1, (0, 1), result="self"), call, in_place=False)
    return replace(found, precision=call.tensor(0).dtype.precision)


def _power(*, in_place: bool) -> Model:
    spec = SPECS["pow"]

    def model(call: Call) -> Cost:
        """Count one function; a square is one product on the ordinary units."""
        squared = call.text(1) in {"2", "2.", "2.0"}
        return price(replace(spec, unit="vector") if squared else spec, call, in_place=in_place)

    return model


def _absolute(call: Call) -> Cost:
    """Price abs, which gives the real magnitude of a complex number: half its bytes."""
    found = price(SPECS["abs"], call, in_place=False)
    real = call.tensor(0).dtype.is_complex and call.optional(1) is None
    return replace(found, write_bytes=found.write_bytes // 2) if real else found  # type: ignore[operator]


def _clamp(*, in_place: bool) -> Model:
    spec = SPECS["clamp"]

    def model(call: Call) -> Cost:
        """Count one minimum or maximum a bound; both when the bounds were not recorded."""
        texts = [call.text(1), call.text(2)]
        tensors = operands.tensors(call, (1, 2))
        known = None not in texts
        bounds = sum(bool(t) for t in texts) + len(tensors) if known else 2
        return price(replace(spec, flops=bounds), call, in_place=in_place)

    return model


def _models() -> dict[str, Model]:
    made: dict[str, Model] = {}
    for name, spec in SPECS.items():
        made["aten::" + name] = _pointwise(spec, in_place=False)
        made[f"aten::{name}_"] = _pointwise(spec, in_place=True)
    for name in ("clamp", "pow"):
        factory = {"clamp": _clamp, "pow": _power}[name]
        made["aten::" + name] = factory(in_place=False)
        made[f"aten::{name}_"] = factory(in_place=True)
    return made


MODELS: dict[str, Model] = {
    **_models(),
    "aten::abs": _absolute,
    "aten::where": _where,
    "aten::masked_fill": _masked_fill,
}
WRAPPERS: frozenset[str] = frozenset()
