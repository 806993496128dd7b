"""FLOPs and bytes of losses and their backwards, from recorded shapes.

FLOPs per element from the formula beside each name; a mean or a sum adds one an element, and a
mean divides once. `reduction` is 0 (none), 1 (mean) or 2 (sum), torch's own numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.costs import operands
from workbench.costs.cost import Cost
from workbench.costs.shapes import ShapeError

if TYPE_CHECKING:
    from workbench.costs.cost import Model
    from workbench.costs.shapes import Call

NONE, MEAN, _SUM = "0", "1", "2"


@dataclass(frozen=True, slots=True)
class Loss:
    """FLOPs an element of the loss, and of its backward."""

    forward: int
    backward: int
    unit: str = "vector"
    reduction: int = 2
    """Position of `reduction` in the forward; the backward has one argument more before it."""
    weights: tuple[int, ...] = ()
    """Positions of weights that are read beside input and target."""


LOSSES = {
    # squared difference; twice the difference, times the gradient
    "mse_loss": Loss(2, 3),
    # d = |x - y|; d < b ? d * d * (1 / 2) / b : d - b / 2: difference, absolute value, comparison,
    # selection, and 3 of the quadratic branch; backward x - y, two comparisons, selection, / b, * g
    "smooth_l1_loss": Loss(7, 6),
    "huber_loss": Loss(6, 5),  # as before, without the division by b
    # y log(x) + (1 - y) log(1 - x), negated: 8; backward g (x - y) / ((1 - x) x): 5
    "binary_cross_entropy": Loss(8, 5, "special", reduction=3, weights=(2,)),
    # (1 - y) * x + max(-x, 0) + log(1 + exp(-|x|)): 1 - y, *, -, max, ||, -, exp, 1 +, log, +, +
    "binary_cross_entropy_with_logits": Loss(11, 3, "special", reduction=4, weights=(2, 3)),
}


def _reduces(call: Call, position: int) -> str:
    text = call.text(position)
    if text not in {NONE, MEAN, _SUM}:
        raise ShapeError("whether the loss is averaged was not recorded")
    return text


def _forward(loss: Loss) -> Model:
    def model(call: Call) -> Cost:
        """Read input, target and weights; write a number, or an element each."""
        given, target = call.tensor(0), call.tensor(1)
        weights = operands.tensors(call, loss.weights)
        elements = math.prod(operands.extents((given, target)))
        how = _reduces(call, loss.reduction)
        each = loss.forward + len(weights) + (how != NONE)
        results = elements if how == NONE else 1
        return Cost(
            each * elements + (how == MEAN),
            operands.read_bytes((given, target, *weights)),
            results * given.dtype.bytes,
            given.dtype.precision,
            loss.unit,
            "loss",
        )

    return model


def _backward(loss: Loss) -> Model:
    def model(call: Call) -> Cost:
        """Read gradient, input, target and weights; write the input's gradient (1 / n once)."""
        gradient, given, target = (call.tensor(i) for i in range(3))
        weights = operands.tensors(call, (p + 1 for p in loss.weights))
        elements = math.prod(operands.extents((given, target)))
        return Cost(
            (loss.backward + len(weights)) * elements,
            operands.read_bytes((gradient, given, target, *weights)),
            given.elements * given.dtype.bytes,
            given.dtype.precision,
            "vector",
            "loss",
        )

    return model


def _nll(call: Call) -> Cost:
    """nll_loss_forward(self, target, weight, reduction, ignore_index): -w * x at each target.

    One element of self is read for each target. With a mean: product with the weight, sums of
    both, one division; targets that are ignored are not recorded and count.
    """
    given, target, weight = call.tensor(0), call.tensor(1), call.optional(2)
    rows, how = target.elements, _reduces(call, 3)
    picked = rows * given.dtype.bytes
    results = (rows if how == NONE else 1) + 1
    each = 1 + (weight is not None) + (how != NONE) + (how != NONE and weight is not None)
    read = picked + operands.read_bytes((target, weight))
    written = results * given.dtype.bytes
    return Cost(each * rows + (how == MEAN), read, written, given.dtype.precision, "vector", "loss")


def _nll_backward(call: Call) -> Cost:
    """nll_loss_backward(grad, self, target, weight, …, total_weight): zeros but at the targets.

    Writes all of self's gradient and does not read self; -g (divided by the total weight when it
    is a mean) at each target: 2 a row.
    """
    gradient, given, target = (call.tensor(i) for i in range(3))
    read = operands.read_bytes((gradient, target, call.optional(3), call.optional(6)))
    each = 2 + (call.optional(3) is not None)
    written = given.elements * given.dtype.bytes
    return Cost(each * target.elements, read, written, given.dtype.precision, "vector", "loss")


MODELS: dict[str, Model] = {
    **{"aten::" + name: _forward(loss) for name, loss in LOSSES.items()},
    **{f"aten::{name}_backward": _backward(loss) for name, loss in LOSSES.items()},
    "aten::nll_loss_forward": _nll,
    "aten::nll_loss2d_forward": _nll,
    "aten::nll_loss_backward": _nll_backward,
    "aten::nll_loss2d_backward": _nll_backward,
}
WRAPPERS = frozenset({"aten::binary_cross_entropy_with_logits"})
"""Written in other operators: where those are recorded, they carry the work."""
