"""FLOPs and bytes of operators on lists of tensors: `foreach` arithmetic, optimisers, gradients.

A list's element type is recorded as `TensorList`; `costs.evidence` finds it in the kernels' names.
Where nothing tells it, FLOPs are known and bytes are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.costs import elementwise, operands, reduction
from workbench.costs.cost import Cost
from workbench.costs.shapes import DTYPES, ShapeError, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from workbench.costs.cost import Model
    from workbench.costs.shapes import Call

    Rate = Callable[[Call], int]

MOVES = {"copy": 0, "zero": 0, "clone": 0}
"""List operators that compute nothing."""
UNARY = (
    "abs", "neg", "sign", "ceil", "floor", "round", "trunc", "exp", "expm1", "log", "log2", "log10",
    "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "erf", "erfc", "lgamma", "sigmoid",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "clamp_max", "clamp_min", "pow")
TERNARY = ("addcmul", "addcdiv", "lerp")
# m = b1 m + (1 - b1) g: 3. v = b2 v + (1 - b2) g g: 4. sqrt(v) / c + eps: 3. p -= s * m / d: 3.
ADAM = 13
"""FLOPs an element of Adam's update, bias corrections folded into s and c (Kingma and Ba,
arXiv 1412.6980, algorithm 1 and the end of section 2)."""
ADAGRAD = 7
"""s += g * g 2; sqrt(s) + eps 2; p -= lr * g / that 3 (Duchi et al., JMLR 12, 2011)."""


def _lists(call: Call, positions: Iterable[int]) -> list[Tensor]:
    """Return the tensors of all lists (or single tensors) at some positions."""
    found: list[Tensor] = []
    for position in positions:
        entry = call.tensors[position] if position < len(call.tensors) else None
        found += [entry] if isinstance(entry, Tensor) else entry or ()
    return found


def _state(call: Call, positions: Iterable[int]) -> int | None:
    return operands.known_bytes(_lists(call, positions))


def _filled(call: Call, positions: Iterable[int]) -> list[Tensor]:
    """Return the tensors of lists; an empty one with a known type looks like a single number."""
    lists = (p for p in positions if p < len(call.tensors) and call.optional(p) is None)
    return _lists(call, lists)


def _written(tensors: Iterable[Tensor]) -> int | None:
    every = list(tensors)
    if any(t.type_name not in DTYPES for t in every):
        return None
    return sum(t.elements * t.dtype.bytes for t in every)


def _precision(first: tuple[Tensor, ...]) -> str:
    known = first and first[0].type_name in DTYPES
    return first[0].dtype.precision if known else operands.UNKNOWN


def _first(call: Call) -> tuple[Tensor, ...]:
    first = operands.tensor_list(call, 0)
    if not first:
        raise ShapeError("the list of tensors was not recorded")
    return first


def _foreach(name: str, operand_count: int, *, in_place: bool) -> Model:
    spec = elementwise.SPECS.get(name)
    flops = spec.flops if spec else MOVES[name]
    unit = spec.unit if spec else "memory"
    factor = {"add": 2, "sub": 2, "addcmul": 3, "addcdiv": 3}.get(name)
    reads = range(operand_count) if name != "copy" else (1,)

    def model(call: Call) -> Cost:
        """Do as the operator of one tensor does, for each tensor of the first list."""
        first = _first(call)
        elements = sum(t.elements for t in first)
        # A list of numbers has one for each tensor, most often not 1: its product counts.
        scaled = factor is not None and _is_scaled(call, factor)
        read = 0 if name == "zero" else _state(call, reads)
        return Cost(
            (flops + scaled) * elements,
            read,
            _written(first),
            _precision(first),
            unit if in_place or flops else "memory",
            "optimizer",
        )

    return model


def _is_scaled(call: Call, position: int) -> bool:
    text = call.text(position)
    return bool(text) and text not in elementwise.ONES


def _norm(call: Call) -> Cost:
    """_foreach_norm(self, ord): square and sum 2 an element, a root a tensor; one result each."""
    first = _first(call)
    roots = len(first) if reduction.has_root(call, 1) else 0
    flops = 2 * sum(t.elements for t in first) + roots
    precision = _precision(first)
    size = first[0].dtype.bytes if precision != operands.UNKNOWN else None
    written = None if size is None else len(first) * size
    return Cost(flops, _state(call, (0,)), written, precision, "vector", "optimizer")


def _update(rate: Rate, lists: tuple[int, ...], *, writes: tuple[int, ...], scale: int) -> Model:
    def model(call: Call) -> Cost:
        """Price one step: all lists are read, parameters and state are written.

        With a gradient scale (of mixed precision) the gradients are divided, and written back.
        """
        first = _first(call)
        elements = sum(t.elements for t in first)
        scaled = call.optional(scale) is not None
        written = _filled(call, writes + ((1,) if scaled else ()))
        return Cost(
            (rate(call) + scaled) * elements,
            operands.known_bytes(_filled(call, lists)),
            _written(written),
            _precision(first),
            "vector",
            "optimizer",
        )

    return model


def _number(call: Call, position: int) -> float:
    try:
        return float(call.text(position) or "")
    except ValueError as error:
        raise ShapeError(f"argument {position} (a number) was not recorded") from error


def _adam(decay: int) -> Rate:
    def rate(call: Call) -> int:
        """13; weight decay adds `decay` (Adam: g + wd * p; AdamW: p * (1 - lr * wd)), amsgrad 1."""
        decays = decay if _number(call, 9) else 0
        return ADAM + decays + call.flag(11) + call.flag(12)

    return rate


def _sgd(call: Call) -> int:
    """P - lr * g 2; decay g + wd * p 2; momentum b = mu * b + (1 - d) * g 2, 3 with dampening d.

    Nesterov g + mu * b 2; maximize negates. In the first step the momentum is the gradient.
    """
    momentum = bool(_number(call, 4))
    started = momentum and not call.flag(9)
    buffer = (2 + bool(_number(call, 6))) * started
    nesterov = 2 * (momentum and call.flag(7))
    return 2 + 2 * bool(_number(call, 3)) + buffer + nesterov + call.flag(8)


def _adagrad(call: Call) -> int:
    return ADAGRAD + 2 * bool(_number(call, 6)) + call.flag(8)


def _unscale(call: Call) -> Cost:
    """Multiply all gradients by 1 / scale and look for what is not finite: 2 an element."""
    first = _first(call)
    read, written = _state(call, (0, 1, 2)), _written(first)
    flops = 2 * sum(t.elements for t in first)
    return Cost(flops, read, written, _precision(first), "vector", "optimizer")


def _scale(call: Call) -> Cost:
    """_amp_update_scale_: a few numbers: read three, write scale and tracker."""
    read = operands.read_bytes(operands.tensors(call, (0, 1, 2)))
    written = operands.read_bytes(operands.tensors(call, (0, 1)))
    return operands.moved(read, written, "optimizer", call.tensor(0).dtype.precision)


def _foreach_models() -> dict[str, Model]:
    counts = {
        **dict.fromkeys((*UNARY, "zero", "clone"), 1),
        **dict.fromkeys((*BINARY, "copy"), 2),
        **dict.fromkeys(TERNARY, 3),
    }
    return {
        f"aten::_foreach_{name}{end}": _foreach(name, count, in_place=bool(end))
        for name, count in counts.items()
        for end in ("", "_")
    }


MODELS: dict[str, Model] = {
    **_foreach_models(),
    "aten::_foreach_norm": _norm,
    "aten::_fused_adam_": _update(_adam(2), (0, 1, 2, 3, 4, 5), writes=(0, 2, 3, 4), scale=13),
    "aten::_fused_adamw_": _update(_adam(1), (0, 1, 2, 3, 4, 5), writes=(0, 2, 3, 4), scale=13),
    "aten::_fused_sgd_": _update(_sgd, (0, 1, 2), writes=(0, 2), scale=10),
    "aten::_fused_adagrad_": _update(_adagrad, (0, 1, 2, 3), writes=(0, 2), scale=9),
    "aten::_amp_foreach_non_finite_check_and_unscale_": _unscale,
    "aten::_amp_update_scale_": _scale,
}
WRAPPERS: frozenset[str] = frozenset()
