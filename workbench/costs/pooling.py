"""FLOPs and bytes of pooling and resizing, forward and backward.

Maximum over a window of k elements: k - 1 comparisons would do; a running maximum is k. Average: k
additions and a division. Output extents (torch documentation, MaxPool2d):
floor((n + 2 p - d (k - 1) - 1) / s + 1), rounded up with `ceil_mode`, where a last window that
starts in the right padding is left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workbench.costs import operands
from workbench.costs.cost import Cost
from workbench.costs.shapes import ShapeError, Tensor

if TYPE_CHECKING:
    from workbench.costs.cost import Model
    from workbench.costs.shapes import Call


def extent(  # noqa: PLR0917 - the formula's own letters
    n: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool
) -> int:
    """Return how many windows fit along one dimension. n 5, kernel 2, stride 2: 2; ceil: 3."""
    if kernel < 1 or stride < 1:
        raise ShapeError("a window or a stride is less than 1")
    free = n + 2 * padding - dilation * (kernel - 1) - 1
    out = (free + (stride - 1 if ceil else 0)) // stride + 1
    return out - 1 if ceil and (out - 1) * stride >= n + padding else max(out, 0)


def _wide(values: tuple[int, ...] | None, dims: int, what: str) -> tuple[int, ...]:
    if not values:
        raise ShapeError(f"the {what} of the windows was not recorded")
    return values * dims if len(values) == 1 else values


def _windows(
    call: Call, given: Tensor, dims: int, *, dilation: int | None, ceil: int
) -> tuple[int, int]:
    """Return outputs and window size of a pooling (self, kernel, stride, padding, …)."""
    kernel = _wide(operands.integers(call, 1), dims, "size")
    stride = _wide(operands.integers(call, 2) or kernel, dims, "stride")
    padding = _wide(operands.integers(call, 3) or (0,), dims, "padding")
    spread = (1,) if dilation is None else operands.integers(call, dilation) or (1,)
    spread = _wide(spread, dims, "dilation")
    if {len(kernel), len(stride), len(padding), len(spread)} != {dims} or len(given.dims) <= dims:
        raise ShapeError("the windows do not fit the input")
    rounded = call.text(ceil) == "True"
    sizes = zip(given.dims[-dims:], kernel, stride, padding, spread, strict=True)
    outer = math.prod(given.dims[:-dims])
    return outer * math.prod(extent(*s, rounded) for s in sizes), math.prod(kernel)


def _cost(flops: int, read: int, written: int, given: Tensor) -> Cost:
    return Cost(flops, read, written, given.dtype.precision, "vector", "pooling")


def _maximum(dims: int) -> Model:
    def model(call: Call) -> Cost:
        """max_pool with indices (self, kernel, stride, padding, dilation, ceil): k comparisons."""
        given = call.tensor(0)
        out, window = _windows(call, given, dims, dilation=4, ceil=5)
        index = operands.INT64.bytes
        return _cost(window * out, given.distinct_bytes, out * (given.dtype.bytes + index), given)

    return model


def _maximum_alone(call: Call) -> Cost:
    """max_pool1d(self, kernel, stride, padding, dilation, ceil): k comparisons, no indices."""
    given = call.tensor(0)
    out, window = _windows(call, given, 1, dilation=4, ceil=5)
    return _cost(window * out, given.distinct_bytes, out * given.dtype.bytes, given)


def _average(dims: int) -> Model:
    def model(call: Call) -> Cost:
        """avg_pool(self, kernel, stride, padding, ceil, …): k additions and a division."""
        given = call.tensor(0)
        out, window = _windows(call, given, dims, dilation=None, ceil=4)
        size = given.dtype.bytes
        return _cost((window + 1) * out, given.distinct_bytes, out * size, given)

    return model


def _maximum_backward(indices: int) -> Model:
    def model(call: Call) -> Cost:
        """Add each gradient to the element that was the maximum; the input itself is not read."""
        gradient, given, at = call.tensor(0), call.tensor(1), call.tensor(indices)
        read = operands.read_bytes((gradient, at))
        return _cost(gradient.elements, read, given.elements * given.dtype.bytes, given)

    return model


def _average_backward(dims: int) -> Model:
    def model(call: Call) -> Cost:
        """avg_pool_backward(grad, self, kernel, …): a division, then k additions, a gradient."""
        gradient, given = call.tensor(0), call.tensor(1)
        window = math.prod(_wide(operands.integers(call, 2), dims, "size"))
        flops = (window + 1) * gradient.elements
        return _cost(flops, gradient.distinct_bytes, given.elements * given.dtype.bytes, given)

    return model


def _adaptive(dims: int) -> Model:
    def model(call: Call) -> Cost:
        """_adaptive_avg_pool(self, output_size): windows tile the input: an addition an element.

        Where the output size does not divide the input, windows overlap by an element: not counted.
        """
        given = call.tensor(0)
        size = _wide(operands.integers(call, 1), dims, "number")
        out = math.prod(given.dims[:-dims]) * math.prod(size)
        return _cost(given.elements + out, given.distinct_bytes, out * given.dtype.bytes, given)

    return model


def _adaptive_backward(call: Call) -> Cost:
    """_adaptive_avg_pool_backward(grad, self): a division a gradient, an addition an element."""
    gradient, given = call.tensor(0), call.tensor(1)
    flops = gradient.elements + given.elements
    return _cost(flops, gradient.distinct_bytes, given.elements * given.dtype.bytes, given)


def _upsample(taps: int, dims: int, each: int) -> Model:
    def model(call: Call) -> Cost:
        """Resize: `taps` inputs an output, weighted (`each` FLOPs an output); nearest copies."""
        given = call.tensor(0)
        out = math.prod(given.dims[:-dims]) * math.prod(_size(call, given, dims))
        unit = "vector" if each else "memory"
        read = given.distinct_bytes if out * taps >= given.elements else out * given.dtype.bytes
        written = out * given.dtype.bytes
        return Cost(each * out, read, written, given.dtype.precision, unit, "pooling")

    return model


def _size(call: Call, given: Tensor, dims: int) -> tuple[int, ...]:
    size = operands.integers(call, 1)
    if not size or len(size) != dims or len(given.dims) <= dims:
        raise ShapeError("the output size was not recorded")
    return size


def _upsample_backward(call: Call) -> Cost:
    """upsample_backward(grad, output_size, input_size, …): each gradient is added once a tap.

    Priced for nearest: one addition a gradient.
    """
    gradient, size = call.tensor(0), operands.integers(call, 2)
    if not size:
        raise ShapeError("the input size was not recorded")
    written = math.prod(size) * gradient.dtype.bytes
    return _cost(gradient.elements, gradient.distinct_bytes, written, gradient)


MODELS: dict[str, Model] = {
    "aten::max_pool1d": _maximum_alone,
    "aten::max_pool2d_with_indices": _maximum(2),
    "aten::max_pool3d_with_indices": _maximum(3),
    "aten::max_pool2d_with_indices_backward": _maximum_backward(7),
    "aten::max_pool3d_with_indices_backward": _maximum_backward(7),
    "aten::avg_pool2d": _average(2),
    "aten::avg_pool3d": _average(3),
    "aten::avg_pool2d_backward": _average_backward(2),
    "aten::avg_pool3d_backward": _average_backward(3),
    "aten::_adaptive_avg_pool2d": _adaptive(2),
    "aten::_adaptive_avg_pool3d": _adaptive(3),
    "aten::adaptive_avg_pool2d": _adaptive(2),
    "aten::adaptive_avg_pool3d": _adaptive(3),
    "aten::_adaptive_avg_pool2d_backward": _adaptive_backward,
    "aten::_adaptive_avg_pool3d_backward": _adaptive_backward,
    "aten::upsample_nearest1d": _upsample(1, 1, 0),
    "aten::upsample_nearest2d": _upsample(1, 2, 0),
    "aten::upsample_nearest3d": _upsample(1, 3, 0),
    # d linear interpolations a * (1 - t) + b * t are 3 FLOPs each: 1, 3 or 7 of them
    "aten::upsample_linear1d": _upsample(2, 1, 3),
    "aten::upsample_bilinear2d": _upsample(4, 2, 9),
    "aten::upsample_trilinear3d": _upsample(8, 3, 21),
    "aten::upsample_nearest1d_backward": _upsample_backward,
    "aten::upsample_nearest2d_backward": _upsample_backward,
    "aten::upsample_nearest3d_backward": _upsample_backward,
}
_RESIZES = ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d")
WRAPPERS = frozenset(
    {"aten::max_pool1d", "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d"}
    | {f"aten::upsample_{form}" for form in _RESIZES}
)
"""Those that hand the work to another operator where that one is recorded; a resize by a factor
calls the one by a size, of the same name."""
