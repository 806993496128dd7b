"""FLOPs and bytes of convolutions and their backwards, from recorded shapes.

Every output element is a sum over `C_in / groups * prod(kernel)` products, 2 FLOPs each
(Dumoulin and Visin, A guide to convolution arithmetic, arXiv 1603.07285). A transposed convolution
multiplies every input element with the filter instead: it is the data gradient of a plain one.
Each gradient (data, weight) has as many multiply-adds as the forward. The library may do fewer
(Winograd, FFT): the direct form is counted. Adds of a bias are an epilogue.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workbench.costs import arguments
from workbench.costs.convolution_calls import (
    BACKWARDS,
    BIAS_GRADIENTS,
    DATA_GRADIENTS,
    FORWARDS,
    WEIGHT_GRADIENTS,
    Backward,
    Forward,
)
from workbench.costs.cost import Cost
from workbench.costs.shapes import Call, ShapeError, Tensor

if TYPE_CHECKING:
    from workbench.costs.cost import Model

COMPLEX_FACTOR = 4
"""A complex multiply-add is four real ones."""
_Steps = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def windows(extents: tuple[int, ...], kernel: tuple[int, ...], steps: _Steps) -> tuple[int, ...]:
    """Return the output extents of a plain convolution; `steps`: stride, padding, dilation.

    floor((n + 2 p - d (k - 1) - 1) / s) + 1; 7 wide, kernel 3, stride 2, padding 1: 4.
    """
    return tuple(
        max((n + 2 * p - d * (k - 1) - 1) // s + 1, 0)
        for n, k, s, p, d in zip(extents, kernel, *steps, strict=True)
    )


def spread(
    extents: tuple[int, ...], kernel: tuple[int, ...], steps: _Steps, extra: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the output extents of a transposed convolution; `extra`: output padding.

    (n - 1) s - 2 p + d (k - 1) + extra + 1; 2 wide, kernel 2, stride 2: 4.
    """
    return tuple(
        max((n - 1) * s - 2 * p + d * (k - 1) + e + 1, 0)
        for n, k, s, p, d, e in zip(extents, kernel, *steps, extra, strict=True)
    )


def _forward(form: Forward) -> Model:
    def model(call: Call) -> Cost:
        """Price 2 * out * C_in / groups * prod(kernel), transposed 2 * in * C_out / groups * it.

        Reads input, weight and bias, writes the output.
        """
        data, weight = call.tensor(0), call.tensor(1)
        transposed = form.transposes or _flag(call, form.transposed)
        out = _output(call, form, transposed=transposed)
        others = (None if p is None else call.optional(p) for p in (form.bias, form.added))
        extra = [t for t in others if t is not None]
        elements = math.prod(out)
        return _cost(
            weight,
            out if transposed else data.dims,
            _products(data.elements if transposed else elements, weight),
            sum(t.distinct_bytes for t in (data, weight, *extra)),
            elements * data.dtype.bytes,
            epilogue=len(extra) * elements,
        )

    return model


def _output(call: Call, form: Forward, *, transposed: bool) -> tuple[int, ...]:
    """Return the output extents: from the arguments, else those of its gradient."""
    data, weight = call.tensor(0).dims, call.tensor(1).dims
    at = _channels(data, weight)
    inner = weight[0] if transposed else weight[1]
    if not inner or data[at] % inner:
        raise ShapeError(f"{list(data)} and {list(weight)} are no convolution")
    gradient = _gradient(call)
    if call.concrete is None and gradient is not None and len(gradient) == len(data):
        return gradient
    steps, kernel = _steps(call, form, len(weight) - 2), weight[2:]
    if not transposed:
        return (*data[:at], weight[0], *windows(data[at + 1 :], kernel, steps))
    groups = 1 if form.groups is None else arguments.integer(call, form.groups)
    extra = arguments.integers(call, form.output_padding or 0, len(kernel))
    return (*data[:at], weight[1] * groups, *spread(data[at + 1 :], kernel, steps, extra))


def _channels(data: tuple[int, ...], weight: tuple[int, ...]) -> int:
    """Return where the channels stand in the data, counted from its end."""
    at = -len(weight) + 1
    if len(weight) < 3 or len(data) < -at:  # noqa: PLR2004 - two of channels and a window
        raise ShapeError(f"{list(data)} and {list(weight)} are no convolution")
    return at


def _steps(call: Call, form: Forward, spatial: int) -> _Steps:
    stride, padding = (arguments.integers(call, p, spatial) for p in (form.stride, form.padding))
    dilation = (1,) * spatial
    if form.dilation is not None:
        dilation = arguments.integers(call, form.dilation, spatial)
    if min(*stride, *dilation) < 1:
        raise ShapeError("strides and dilations are at least 1")
    return stride, padding, dilation


def _gradient(call: Call) -> tuple[int, ...] | None:
    """Return the extents of the gradient in the backward that the recording ties to this call."""
    name, other = call.partner or ("", None)
    form = BACKWARDS.get(name)
    found = None if form is None or other is None else other.optional(form.grad)
    return None if found is None else found.dims


def _flag(call: Call, position: int | None) -> bool:
    return position is not None and call.flag(position)


def _backward(form: Backward) -> Model:
    def model(call: Call) -> Cost:
        """Price the forward's products once for each of the data and the weight gradient.

        Reads grad_output, the weight for the data gradient, the input for the weight gradient.
        The bias gradient adds up grad_output: an epilogue.
        """
        grad, data, weight = (call.tensor(p) for p in (form.grad, form.data, form.weight))
        to_data, to_weight, to_bias = (*arguments.mask(call, -1), False, False, False)[:3]
        transposed = form.transposes or _flag(call, form.transposed)
        if len(grad.dims) != len(data.dims):
            raise ShapeError("gradient, input and weight do not fit together")
        positions = data.elements if transposed else grad.elements
        read = [grad, *[weight] * to_data, *[data] * to_weight]
        channels = grad.dims[_channels(grad.dims, weight.dims)]
        written = data.elements * to_data + weight.elements * to_weight + channels * to_bias
        return _cost(
            weight,
            grad.dims if transposed else data.dims,
            _products(positions, weight) * (to_data + to_weight),
            sum(t.distinct_bytes for t in read),
            written * data.dtype.bytes,
            epilogue=grad.elements * to_bias,
        )

    return model


def _around(call: Call) -> tuple[Tensor | None, Tensor | None]:
    """Return input and weight of the backward around one of its parts."""
    name, other = call.partner or ("", None)
    form = BACKWARDS.get(name)
    if form is None or other is None:
        return None, None
    return other.optional(form.data), other.optional(form.weight)


def _data_gradient(call: Call) -> Cost:
    """Price (input's size, grad, weight): 2 * grad * C_in / groups * prod(kernel)."""
    grad, weight = call.tensor(1), call.tensor(2)
    data, _ = _around(call)
    extents = arguments.sizes(call, 0) or (data.dims if data else None)
    return _cost(
        weight,
        extents or grad.dims,
        _products(grad.elements, weight),
        grad.distinct_bytes + weight.distinct_bytes,
        None if extents is None else math.prod(extents) * grad.dtype.bytes,
    )


def _weight_gradient(call: Call) -> Cost:
    """Price (weight's size, grad, input): 2 * grad * C_in / groups * prod(kernel)."""
    grad, data = call.tensor(1), call.tensor(2)
    _, weight = _around(call)
    extents = arguments.sizes(call, 0) or (weight.dims if weight else None)
    if extents is None or len(extents) != len(data.dims):
        raise ShapeError("the extents of the filter were not recorded")
    weight = Tensor(extents, grad.type_name)
    return _cost(
        weight,
        data.dims,
        _products(grad.elements, weight),
        grad.distinct_bytes + data.distinct_bytes,
        weight.distinct_bytes,
    )


def _bias_gradient(call: Call) -> Cost:
    """Price the sum of grad_output over all but the channels: an add an element."""
    grad = call.tensor(0)
    if len(grad.dims) < 2:  # noqa: PLR2004 - batch and channels
        raise ShapeError("a gradient has at least a batch and channels")
    return Cost(
        flops=0,
        read_bytes=grad.distinct_bytes,
        write_bytes=grad.dims[1] * grad.dtype.bytes,
        precision=grad.dtype.precision,
        unit="vector",
        model="convolution",
        epilogue_flops=grad.elements,
    )


def _products(positions: int, weight: Tensor) -> int:
    factor = COMPLEX_FACTOR if weight.dtype.is_complex else 1
    return 2 * factor * positions * math.prod(weight.dims[1:])


def _cost(
    weight: Tensor,
    grouped: tuple[int, ...],
    flops: int,
    read: int,
    written: int | None,
    *,
    epilogue: int = 0,
) -> Cost:
    """Price it; `grouped` are the extents of the side whose channels the weight has by groups.

    A group of one channel has no matrix product for tensor cores.
    """
    depthwise = grouped[_channels(grouped, weight.dims)] > 1 == weight.dims[1]
    return Cost(
        flops=flops,
        read_bytes=read,
        write_bytes=written,
        precision=weight.dtype.precision,
        unit="vector" if depthwise else "matrix",
        model="convolution",
        epilogue_flops=epilogue,
        unknown="the extents of the gradient were not recorded" if written is None else None,
    )


MODELS: dict[str, Model] = {
    **{name: _forward(form) for name, form in FORWARDS.items()},
    **{name: _backward(form) for name, form in BACKWARDS.items()},
    **dict.fromkeys(DATA_GRADIENTS, _data_gradient),
    **dict.fromkeys(WEIGHT_GRADIENTS, _weight_gradient),
    **dict.fromkeys(BIAS_GRADIENTS, _bias_gradient),
}
WRAPPERS = frozenset(
    {"aten::thnn_conv2d"}
    | {f"aten::conv{n}d" for n in (1, 2, 3)}
    | {f"aten::conv_transpose{n}d" for n in (1, 2, 3)}
)
"""`convolution` and its backward work themselves: the kernels that add a bias belong to them."""
