"""The inputs of each operator of a generated step, as the profiler records them with shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HEAD_WIDTH = 128
BF16, FP32, INT64 = "c10::BFloat16", "float", "long int"
NO_TENSOR: list[Any] = []


@dataclass(frozen=True, slots=True)
class Input:
    """One argument: a tensor, a list of tensors of one shape, or the text of anything else."""

    dims: tuple[int, ...] | None = None
    type_name: str = BF16
    text: str = ""
    transposed: bool = False
    count: int | None = None
    """How many tensors of this shape a list holds."""

    def recorded(self) -> tuple[Any, str, Any, str]:
        """Return dims, type, strides and concrete text as a trace has them."""
        if self.dims is None:
            return NO_TENSOR, self.type_name if self.text else "", NO_TENSOR, self.text
        dims, strides = list(self.dims), _strides(self.dims, transposed=self.transposed)
        if self.count is None:
            return dims, self.type_name, strides, ""
        return [dims] * self.count, "TensorList", [strides] * self.count, ""


def _strides(dims: Sequence[int], *, transposed: bool) -> list[int]:
    extents = [*dims[:-2], dims[-1], dims[-2]] if transposed else list(dims)
    strides = [math.prod(extents[i + 1 :]) for i in range(len(extents))]
    return [*strides[:-2], strides[-1], strides[-2]] if transposed else strides


def scalar(text: str, type_name: str = "Scalar") -> Input:
    """Return an argument that is no tensor."""
    return Input(None, type_name, text)


ABSENT = Input()


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the shapes of a step follow from."""

    tokens: int
    hidden: int
    layers: int

    @property
    def heads(self) -> tuple[int, ...]:
        """Return the extents of queries, keys and values."""
        width = min(HEAD_WIDTH, self.hidden)
        return (1, max(1, self.hidden // width), self.tokens, width)


def _activation(s: Sizes) -> Input:
    return Input((s.tokens, s.hidden))


def _weight(s: Sizes, *, transposed: bool = False) -> Input:
    return Input((s.hidden, s.hidden), transposed=transposed)


def _norm(s: Sizes) -> tuple[Input, ...]:
    width = scalar(f"[{s.hidden}]", "ScalarList")
    return _activation(s), width, Input((s.hidden,)), scalar("1e-06")


def _norm_backward(s: Sizes) -> tuple[Input, ...]:
    seen, width, weight, _ = _norm(s)
    scale = Input((s.tokens, 1), FP32)
    return seen, seen, width, scale, weight, scalar("[True, True]", "ScalarList")


def _attention(s: Sizes) -> tuple[Input, ...]:
    return (*(Input(s.heads),) * 3, scalar("0."), scalar("True"), scalar("False"), ABSENT)


def _attention_backward(s: Sizes) -> tuple[Input, ...]:
    rows = Input(s.heads[:3], FP32)
    longest = scalar(str(s.tokens))
    tensors = (Input(s.heads),) * 5
    rest = (scalar("0."), scalar("True"), Input((2,), INT64), Input((), INT64), ABSENT)
    return (*tensors, rows, ABSENT, ABSENT, longest, longest, *rest)


def _adamw(s: Sizes) -> tuple[Input, ...]:
    """Return two weights a layer: parameters, gradients, both moments, no largest, steps."""
    many = Input((s.hidden, s.hidden), FP32, count=2 * s.layers)
    rates = [scalar(v) for v in ("0.001", "0.9", "0.999", "0.01", "1e-08", "False", "False")]
    steps = Input((), FP32, count=2 * s.layers)
    return many, many, many, many, ABSENT, steps, *rates, ABSENT, ABSENT


def _batch(s: Sizes) -> Input:
    return Input((s.tokens,), INT64)


_ATTENTION = "aten::_scaled_dot_product_flash_attention"
_INPUTS: dict[str, Callable[[Sizes], tuple[Input, ...]]] = {
    "aten::rms_norm": _norm,
    "aten::_fused_rms_norm": _norm,
    "aten::_fused_rms_norm_backward": _norm_backward,
    "aten::linear": lambda s: (_activation(s), _weight(s), ABSENT),
    "aten::mm": lambda s: (_activation(s), _weight(s, transposed=True)),
    "aten::mm (input)": lambda s: (_activation(s), _weight(s)),
    "aten::mm (weight)": lambda s: (
        Input((s.hidden, s.tokens), transposed=True),
        _activation(s),
    ),
    "aten::scaled_dot_product_attention": lambda s: (
        *(Input(s.heads),) * 3, ABSENT, scalar("0."), scalar("True"), ABSENT, scalar("False"),
    ),
    _ATTENTION: _attention,
    f"{_ATTENTION}_backward": _attention_backward,
    "aten::silu": lambda s: (_activation(s),),
    "aten::silu_backward": lambda s: (_activation(s), _activation(s)),
    "aten::add_": lambda s: (_activation(s), _activation(s), scalar("1")),
    "aten::to": lambda s: (_batch(s), scalar("4"), scalar("False"), scalar("False"), ABSENT),
    "aten::copy_": lambda s: (_batch(s), _batch(s), scalar("True")),
    "aten::_fused_adamw_": _adamw,
    "aten::zero_": lambda s: (Input((8 * s.hidden, s.hidden)),),
    "aten::fill_": lambda s: (Input((8 * s.hidden, s.hidden)), scalar("0")),
    "aten::item": lambda _: (Input((), FP32),),
    "aten::_local_scalar_dense": lambda _: (Input((), FP32),),
}  # fmt: skip


@cache
def recorded(operator: str, sizes: Sizes) -> dict[str, Any]:
    """Return the profiler's arguments of an operator call; none for an operator without inputs.

    Both products of a linear layer's backward have the name `aten::mm`; which one it is stands in
    parentheses behind it.
    """
    if operator not in _INPUTS:
        return {}
    rows = [value.recorded() for value in _INPUTS[operator](sizes)]
    dims, types, strides, texts = (list(column) for column in zip(*rows, strict=True))
    return {
        "Concrete Inputs": texts,
        "Input type": types,
        "Input Strides": strides,
        "Input Dims": dims,
    }
