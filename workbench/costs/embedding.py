"""FLOPs and bytes of embeddings and bags of them, from recorded shapes.

A lookup moves rows: bytes, no arithmetic; a bag adds them up. Which rows are looked up is in the
values of the indices, which no recording holds: rows are taken to be different, up to the whole
table. Backwards add up the gradients of equal rows into a gradient of the whole table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.costs import arguments
from workbench.costs.cost import Cost
from workbench.costs.shapes import Call, ShapeError, Tensor

if TYPE_CHECKING:
    from workbench.costs.cost import Model

MEAN = 1
"""The bag mode that divides each sum by the number of its rows; 0 adds, 2 takes the largest."""


def _rows(weight: Tensor, lookups: int) -> tuple[int, int]:
    """Return the looked-up elements and the bytes to read them once."""
    if len(weight.dims) != 2:  # noqa: PLR2004 - rows and width
        raise ShapeError("an embedding needs a table of rows")
    elements = lookups * weight.dims[1]
    return elements, min(elements * weight.dtype.bytes, weight.distinct_bytes)


def _embedding(call: Call) -> Cost:
    """embedding: copies a row for each index; reads indices and rows, writes the rows. 0 FLOPs."""
    weight, indices = call.tensor(0), call.tensor(1)
    elements, read = _rows(weight, indices.elements)
    return _cost(weight, 0, indices.distinct_bytes + read, elements * weight.dtype.bytes)


def _bag(call: Call) -> Cost:
    """_embedding_bag: sums of rows; an add (or comparison) for each looked-up element.

    A mean divides each element of the output once; sample weights (argument 6) multiply each
    element. Reads indices, offsets, rows; writes a row for each bag (not the index tensors that
    it keeps for the backward). `include_last_offset` (7) makes the last offset an end.
    """
    weight, indices, offsets = call.tensor(0), call.tensor(1), call.tensor(2)
    elements, read = _rows(weight, indices.elements)
    samples = call.optional(6)
    written = (offsets.elements - call.flag(7)) * weight.dims[1]
    means = written if arguments.integer(call, 4) == MEAN else 0
    asked = [indices, offsets, *([samples] if samples else [])]
    return _cost(
        weight,
        elements * (2 if samples else 1) + means,
        read + sum(t.distinct_bytes for t in asked),
        written * weight.dtype.bytes,
    )


def _dense_backward(call: Call) -> Cost:
    """embedding_dense_backward: adds a gradient row for each index into a whole table of zeros.

    An add for each element of the gradient. The number of rows is argument 2.
    """
    grad, indices = call.tensor(0), call.tensor(1)
    return _scattered(call, grad, (indices,), indices.elements, rows_at=2)


def _bag_backward(call: Call) -> Cost:
    """_embedding_bag_dense_backward: adds a bag's gradient to the rows of each of its indices.

    An add for each looked-up element; reads the gradient, indices and the bag of each index
    (argument 2); number of rows: argument 5.
    """
    grad, indices, bag_of = call.tensor(0), call.tensor(1), call.tensor(2)
    return _scattered(call, grad, (indices, bag_of), indices.elements, rows_at=5)


def _scattered(
    call: Call, grad: Tensor, asked: tuple[Tensor, ...], lookups: int, *, rows_at: int
) -> Cost:
    if not grad.dims:
        raise ShapeError("a gradient of rows needs a width")
    width = grad.dims[-1]
    rows = None if call.concrete is None else arguments.integer(call, rows_at)
    return _cost(
        grad,
        lookups * width,
        grad.distinct_bytes + sum(t.distinct_bytes for t in asked),
        None if rows is None else rows * width * grad.dtype.bytes,
    )


def _cost(table: Tensor, flops: int, read: int, written: int | None) -> Cost:
    return Cost(
        flops=flops,
        read_bytes=read,
        write_bytes=written,
        precision=table.dtype.precision,
        unit="vector" if flops else "memory",
        model="embedding",
        unknown="the number of rows was not recorded" if written is None else None,
    )


MODELS: dict[str, Model] = {
    "aten::embedding": _embedding,
    "aten::_embedding_bag": _bag,
    "aten::_embedding_bag_forward_only": _bag,
    "aten::embedding_dense_backward": _dense_backward,
    "aten::_embedding_bag_dense_backward": _bag_backward,
}
WRAPPERS = frozenset[str]()
"""None: the `index_select` in an embedding, the zeroing in a backward are part of them."""
