"""FLOPs and bytes of normalisations and their backwards, counted from their definitions.

An element of y = (x - mean) * rstd * weight + bias: mean 1 (sum), variance 3 (difference, square,
sum), product with rstd 1, weight 1, bias 1. A group that shares statistics (a row of a layer norm,
a channel of a batch norm): two divisions by n, plus eps, rsqrt: 4. (Ba et al., arXiv 1607.06450,
equation 3; Ioffe and Szegedy, arXiv 1502.03167, algorithm 1; Wu and He, arXiv 1803.08494; Zhang and
Sennrich, arXiv 1910.07467, equation 4.)

Backward, with xhat = (x - mean) * rstd (2), h = g * weight (1), sums of h (1) and h * xhat (2) over
the group: dx = rstd * (h - (s1 + xhat * s2) / n) is 5 more. dweight = sum g * xhat is 2, dbias 1.
Which gradients are written says the output mask; without one all that have a parameter are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from workbench.costs import operands
from workbench.costs.cost import Cost
from workbench.costs.shapes import ShapeError, Tensor

if TYPE_CHECKING:
    from workbench.costs.cost import Model
    from workbench.costs.shapes import Call

STATISTICS, ROOT = 4, 4
"""FLOPs an element for mean and variance, and a group for their ends."""
EVALUATED_ROOT = 2
"""A group whose statistics are given: plus eps, rsqrt."""
RUNNING = 7
"""FLOPs a channel to update running statistics: 3 each, and n / (n - 1) once."""
XHAT, SCALED, SUM, SUM_XHAT, DX = 2, 1, 1, 2, 5
DWEIGHT, DBIAS = 2, 1


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a normalisation reads besides its input, and how many groups share statistics."""

    given: Tensor
    groups: int
    weight: Tensor | None
    bias: Tensor | None

    @property
    def affine(self) -> int:
        return (self.weight is not None) + (self.bias is not None)

    @property
    def channels(self) -> int:
        return max(t.elements if t else 0 for t in (self.weight, self.bias))


def _cost(parts: _Parts, flops: int | None, read: int, written: int | None) -> Cost:
    precision = parts.given.dtype.precision
    return Cost(flops, read, written, precision, "vector", "norm")


def _forward(parts: _Parts, *, kept: int = 2) -> Cost:
    """Statistics of each group, then each element; `kept` statistics a group are written too."""
    given = parts.given
    elements = given.elements
    flops = (STATISTICS + 1 + parts.affine) * elements + ROOT * parts.groups
    size = operands.accumulated(given.dtype).bytes
    read = operands.read_bytes((given, parts.weight, parts.bias))
    written = elements * given.dtype.bytes + kept * parts.groups * size
    return _cost(parts, flops, read, written)


def _row_length(call: Call, shape: int, weight: Tensor | None) -> int:
    """Return how many elements a row has: from the weight, or the recorded shape."""
    if weight is not None:
        return weight.elements
    named = operands.integers(call, shape)
    if not named:
        raise ShapeError("the normalised shape was not recorded, and there is no weight")
    return math.prod(named)


def _rows(given: Tensor, row: int) -> int:
    if row < 1 or given.elements % row:
        raise ShapeError(f"{list(given.dims)} has no rows of {row}")
    return given.elements // row


def _layer_norm(call: Call) -> Cost:
    """native_layer_norm(input, normalized_shape, weight, bias, eps): 5 + affine, and 4 a row."""
    given, weight, bias = call.tensor(0), call.optional(2), call.optional(3)
    row = _row_length(call, 1, weight or bias)
    return _forward(_Parts(given, _rows(given, row), weight, bias))


def _group_norm(call: Call) -> Cost:
    """native_group_norm(input, weight, bias, N, C, HxW, groups, eps): N * groups groups."""
    given, weight, bias = (call.optional(i) for i in range(3))
    return _forward(_Parts(call.tensor(0), _groups(call, 3, 6), weight, bias)) if given else _no()


def _groups(call: Call, batch: int, groups: int) -> int:
    return _count(call, batch) * _count(call, groups)


def _count(call: Call, position: int) -> int:
    found = operands.integers(call, position)
    if not found or found[0] < 0:
        raise ShapeError("the number of groups was not recorded")
    return found[0]


def _no() -> Cost:
    raise ShapeError("argument 0 has no recorded tensor")


def _aiter_group_norm(call: Call) -> Cost:
    """aiter::_groupnorm_run(input, groups, weight, bias, eps): no statistics are written."""
    given = call.tensor(0)
    batch = given.dims[0] if given.dims else 1
    parts = _Parts(given, batch * _count(call, 1), call.optional(2), call.optional(3))
    return _forward(parts, kept=0)


def _batch(call: Call, weight: int = 1) -> _Parts:
    given = call.tensor(0)
    if len(given.dims) < 2:  # noqa: PLR2004 - a batch and channels
        raise ShapeError("batch normalisation needs a batch and channels")
    return _Parts(given, given.dims[1], call.optional(weight), call.optional(weight + 1))


def _batch_norm(training: int | None, *, always: bool = False, running: bool = True) -> Model:
    def model(call: Call) -> Cost:
        """(input, weight, bias, running_mean, running_var, training, …); `training` as recorded.

        Evaluation: (x - mean) * rstd * weight + bias, 2 + affine an element, 2 a channel; reads the
        running statistics, writes the result. Training: statistics too; updates them where given.
        """
        parts = _batch(call)
        kept = operands.tensors(call, (3, 4)) if running else []
        if not (always if training is None else call.flag(training)):
            return _evaluated(parts, kept)
        found = _forward(parts)
        size = sum(t.elements * t.dtype.bytes for t in kept)
        flops = (found.flops or 0) + (RUNNING * parts.groups if kept else 0)
        read, written = (found.read_bytes or 0) + size, (found.write_bytes or 0) + size
        return _cost(parts, flops, read, written)

    return model


def _evaluated(parts: _Parts, kept: list[Tensor]) -> Cost:
    given = parts.given
    flops = (2 + parts.affine) * given.elements + EVALUATED_ROOT * parts.groups
    read = operands.read_bytes((given, parts.weight, parts.bias, *kept))
    return _cost(parts, flops, read, given.elements * given.dtype.bytes)


@dataclass(frozen=True, slots=True)
class _Backward:
    """Positions of the arguments of a backward."""

    gradient: int
    given: int
    weight: int
    statistics: tuple[int, ...]
    mask: int | None = None
    bias: int | None = None
    """Position of the bias, where the operator takes it; None: it has one where it has a weight."""


def _backward(call: Call, at: _Backward, groups: int, *, shared: bool = True) -> Cost:
    """Price a backward; not `shared`: given statistics are constants (evaluation), and dx = h * r.

    Reads gradient, input, weight and statistics; writes the gradients that the mask asks for.
    """
    gradient, given, weight = (
        call.tensor(at.gradient),
        call.tensor(at.given),
        call.optional(at.weight),
    )
    bias = weight if at.bias is None else call.optional(at.bias)
    parts = _Parts(given, groups, weight, bias)
    dx, dweight, dbias = _mask(call, at.mask, parts)
    scaled = SCALED * (weight is not None)
    each = (scaled + (SUM + SUM_XHAT + DX if shared else 1)) * dx
    each += XHAT * ((dx and shared) or dweight) + DWEIGHT * dweight + DBIAS * dbias
    kept = operands.tensors(call, at.statistics)
    read = operands.read_bytes((gradient, given, weight, *kept))
    written = dx * given.elements * given.dtype.bytes
    size = (weight or given).dtype.bytes
    written += (dweight + dbias) * parts.channels * size
    return _cost(parts, each * given.elements, read, written)


def _mask(call: Call, position: int | None, parts: _Parts) -> tuple[bool, bool, bool]:
    has = True, parts.weight is not None, parts.bias is not None
    text = None if position is None else call.text(position)
    if not text:
        return has
    try:
        wanted = msgspec.json.decode(text.lower().encode(), type=tuple[bool, ...])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ShapeError("the output mask is not a list of true and false") from error
    padded = (*wanted, False, False, False)
    return padded[0], padded[1] and has[1], padded[2] and (has[2] or has[1])


def _layer_norm_backward(call: Call) -> Cost:
    """native_layer_norm_backward(grad, input, shape, mean, rstd, weight, bias, mask)."""
    at = _Backward(0, 1, 5, (3, 4), mask=7, bias=6)
    return _backward(call, at, call.tensor(3).elements)


def _group_norm_backward(call: Call) -> Cost:
    """native_group_norm_backward(grad, input, mean, rstd, weight, N, C, HxW, groups, mask)."""
    return _backward(call, _Backward(0, 1, 4, (2, 3), mask=9), call.tensor(2).elements)


def _native_batch_norm_backward(call: Call) -> Cost:
    """native_batch_norm_backward(grad, input, weight, running 2, saved 2, train, eps, mask)."""
    training = call.flag(7)
    at = _Backward(0, 1, 2, (5, 6) if training else (3, 4), mask=9)
    return _backward(call, at, _batch(call).groups, shared=training)


def _library_batch_norm_backward(call: Call) -> Cost:
    """cudnn_, miopen_batch_norm_backward(input, grad, weight, running 2, saved 2, eps, …).

    Training only, and all three gradients: they have no mask.
    """
    return _backward(call, _Backward(1, 0, 2, (5, 6)), _batch(call).groups)


def _rms(given: Tensor, weight: Tensor | None, *, row: int, kept: int, added: int = 0) -> Cost:
    """X * rsqrt(mean(x^2) + eps) * weight: square and sum 2, product 1, weight 1; 3 a row.

    `added`: a residual is added first (1 an element) and the sum is written too.
    """
    rows = _rows(given, row)
    each = 3 + (weight is not None) + added
    elements, size = given.elements, given.dtype.bytes
    read = operands.read_bytes((given, weight)) + added * elements * size
    written = (1 + added) * elements * size
    written += kept * rows * operands.accumulated(given.dtype).bytes
    parts = _Parts(given, rows, weight, None)
    return _cost(parts, each * elements + 3 * rows, read, written)


def _rms_norm(call: Call) -> Cost:
    """_fused_rms_norm(input, normalized_shape, weight, eps): writes 1 / rms of each row too."""
    given, weight = call.tensor(0), call.optional(2)
    return _rms(given, weight, row=_row_length(call, 1, weight), kept=1)


def _rms_norm_backward(call: Call) -> Cost:
    """_fused_rms_norm_backward(grad, input, shape, rstd, weight, mask).

    xhat = x * rstd 1, h = g * weight 1, sum of h * xhat 2, dx = rstd * (h - xhat * s / n) 4;
    dweight 2.
    """
    gradient, given, rstd, weight = (call.optional(i) for i in (0, 1, 3, 4))
    if gradient is None or given is None or rstd is None:
        raise ShapeError("gradient, input and statistics were not recorded")
    parts = _Parts(given, rstd.elements, weight, None)
    dx, dweight, _ = _mask(call, 5, parts)
    each = 1 + ((weight is not None) + 6) * dx + DWEIGHT * dweight
    read = operands.read_bytes((gradient, given, rstd, weight))
    written = dx * given.elements * given.dtype.bytes
    written += dweight * parts.channels * (weight or given).dtype.bytes
    return _cost(parts, each * given.elements, read, written)


def _library_rms(given: int, weight: int, *, added: bool = False) -> Model:
    def model(call: Call) -> Cost:
        """Inference libraries' RMS norm over the last dimension, with a weight."""
        scale = call.tensor(weight)
        return _rms(call.tensor(given), scale, row=scale.elements, kept=0, added=added)

    return model


_TRAINED = _batch_norm(5)
MODELS: dict[str, Model] = {
    "aten::native_layer_norm": _layer_norm,
    "aten::native_layer_norm_backward": _layer_norm_backward,
    "aten::native_group_norm": _group_norm,
    "aten::native_group_norm_backward": _group_norm_backward,
    "aiter::_groupnorm_run": _aiter_group_norm,
    "aten::native_batch_norm": _TRAINED,
    "aten::_native_batch_norm_legit": _TRAINED,
    "aten::_native_batch_norm_legit_no_training": _batch_norm(None),
    "aten::_batch_norm_with_update": _batch_norm(None, always=True),
    "aten::cudnn_batch_norm": _TRAINED,
    "aten::miopen_batch_norm": _TRAINED,
    "aten::native_batch_norm_backward": _native_batch_norm_backward,
    "aten::cudnn_batch_norm_backward": _library_batch_norm_backward,
    "aten::miopen_batch_norm_backward": _library_batch_norm_backward,
    "aten::_fused_rms_norm": _rms_norm,
    "aten::_fused_rms_norm_backward": _rms_norm_backward,
    "aiter::rms_norm": _library_rms(0, 1),
    "vllm::rocm_aiter_rms_norm": _library_rms(0, 1),
    "aiter::rmsnorm": _library_rms(1, 2),
    "sglang_profiler::rmsnorm_rmsnorm2d_fwd_109": _library_rms(0, 1),
    "_C::rms_norm": _library_rms(1, 2),
    "_C::fused_add_rms_norm": _library_rms(0, 2, added=True),
    "aiter::add_rmsnorm": _library_rms(1, 4, added=True),
    "aiter::rmsnorm2d_fwd_with_add_ck": _library_rms(1, 4, added=True),
    "vllm::rocm_aiter_rmsnorm2d_fwd_with_add": _library_rms(0, 2, added=True),
}
"""Models by operator name."""
WRAPPERS = frozenset({
    "aten::_fused_rms_norm", "vllm::rocm_aiter_rms_norm", "aiter::rms_norm",
    "vllm::rocm_aiter_rmsnorm2d_fwd_with_add", "sglang_profiler::rmsnorm_rmsnorm2d_fwd_109",
})  # fmt: skip
"""Those that hand the work to another operator where that one is recorded."""
