"""FLOPs and bytes of operators that pick, place and order elements.

An indexed read fetches one element (or row) for each index, at most the tensor itself; an indexed
write touches as many. Sums into places are 1 FLOP an element. Sorting, ranking and searching count
no FLOPs (their comparisons depend on the algorithm), and their bytes are those of one pass.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workbench.costs import operands
from workbench.costs.cost import Cost
from workbench.costs.shapes import DTYPES, ShapeError, Tensor

if TYPE_CHECKING:
    from workbench.costs.cost import Model
    from workbench.costs.shapes import Call

INDEX = operands.INT64.bytes


def _moved(read: int | None, written: int | None, given: Tensor, model: str = "indexing") -> Cost:
    return operands.moved(read, written, model, given.dtype.precision)


def _picked(given: Tensor, elements: int) -> int:
    """Return bytes to read that many elements: repeated ones at most once."""
    return min(elements, given.distinct_elements) * given.dtype.bytes


def _gather(call: Call) -> Cost:
    """gather(self, dim, index): an element for each index."""
    given, index = call.tensor(0), call.tensor(2)
    read = index.distinct_bytes + _picked(given, index.elements)
    return _moved(read, index.elements * given.dtype.bytes, given)


def _take(call: Call) -> Cost:
    """take(self, index): an element for each index of the flat tensor."""
    given, index = call.tensor(0), call.tensor(1)
    read = index.distinct_bytes + _picked(given, index.elements)
    return _moved(read, index.elements * given.dtype.bytes, given)


def _index_select(call: Call) -> Cost:
    """index_select(self, dim, index): a slice for each index."""
    given, index = call.tensor(0), call.tensor(2)
    out = index.elements * _slice(given, _dimension(call, given))
    return _moved(index.distinct_bytes + _picked(given, out), out * given.dtype.bytes, given)


def _dimension(call: Call, given: Tensor) -> tuple[int, ...] | None:
    dim = operands.integers(call, 1)
    # Of one dimension a slice is an element; of more, which one decides.
    if not dim and len(given.dims) > 1:
        raise ShapeError("the dimension was not recorded")
    return dim


def _slice(given: Tensor, dim: tuple[int, ...] | None) -> int:
    if not dim:
        return 1
    operands.length(given, dim[0])
    return operands.reduced(given, dim[:1])


def _scattered(*, adds: bool) -> Model:
    def model(call: Call) -> Cost:
        """Price self[index along dim] = (+=) source: an element for each index, or a number.

        A source may be larger than the index: the rest is not read. Writes an element of self for
        each one placed; a sum reads them too: 1 FLOP each.
        """
        given, index, source = call.tensor(0), call.tensor(2), call.optional(3)
        read = index.distinct_bytes + (_picked(source, index.elements) if source else 0)
        return _placed_cost(index.elements, read, given, adds=adds)

    return model


def _sliced(*, adds: bool) -> Model:
    def model(call: Call) -> Cost:
        """index_copy, index_add: a slice of the source for each index; as many as it has."""
        given, index, source = (call.tensor(i) for i in (0, 2, 3))
        read = operands.read_bytes((index, source))
        return _placed_cost(source.elements, read, given, adds=adds)

    return model


def _filled(call: Call) -> Cost:
    """index_fill_(self, dim, index, value): a slice of self for each index becomes the value."""
    given, index = call.tensor(0), call.tensor(2)
    placed = index.elements * _slice(given, _dimension(call, given))
    return _placed_cost(placed, operands.read_bytes((index, call.optional(3))), given, adds=False)


def _functional(in_place: Model, *, adds: bool = False) -> Model:

    def model(call: Call) -> Cost:
        """Do as in place on a copy: reads and writes all of self."""
        given, found = call.tensor(0), in_place(call)
        size = given.elements * given.dtype.bytes
        placed = (found.write_bytes or 0) if adds else 0
        read = (found.read_bytes or 0) - placed + given.distinct_bytes
        return Cost(found.flops, read, size, found.precision, found.unit, "indexing")

    return model


def _index(call: Call) -> Cost:
    """index(self, indices): leading dimensions are replaced by those of the indices.

    [9, 4] at one [3]: 3 x 4. Indices of an unrecorded type count as int64. Many profilers do not
    record the indices: then bytes are not known, nor are they for masks (bools).
    """
    given = call.tensor(0)
    at = call.tensors[1] if len(call.tensors) > 1 else None
    if not isinstance(at, tuple) or _is_mask(given, at):
        return _moved(None, None, given)
    out = math.prod((*operands.extents(at), *_rest(given, at)))
    read = _list_bytes(at) + _picked(given, out)
    return _moved(read, out * given.dtype.bytes, given)


def _list_bytes(at: tuple[Tensor, ...]) -> int:
    known = operands.known_bytes(at)
    return sum(i.distinct_elements for i in at) * INDEX if known is None else known


def _is_mask(given: Tensor, at: tuple[Tensor, ...]) -> bool:
    """Say whether the indices are bools, or may be: one of unknown type with self's own extents."""
    if any(i.type_name == "bool" for i in at):
        return True
    return any(i.type_name not in DTYPES and _fits(given, i) for i in at)


def _fits(given: Tensor, index: Tensor) -> bool:
    return bool(index.dims) and index.dims == given.dims[: len(index.dims)]


def _rest(given: Tensor, at: tuple[Tensor, ...]) -> tuple[int, ...]:
    if len(at) > len(given.dims):
        raise ShapeError("there are more indices than dimensions")
    return given.dims[len(at) :]


def _index_put(call: Call) -> Cost:
    """index_put_(self, indices, values, accumulate): writes an element for each one placed.

    Where the indices were not recorded the values say how many are placed, unless one value goes
    to many; their own bytes (one int64 for each row of values, at least) are then not known.
    """
    given, values = call.tensor(0), call.tensor(2)
    at = call.tensors[1] if isinstance(call.tensors[1], tuple) else None
    adds = call.flag(3)
    if at is None or _is_mask(given, at):
        return _placed_cost(
            values.elements if values.elements > 1 else None, None, given, adds=adds
        )
    placed = math.prod((*operands.extents(at), *_rest(given, at)))
    return _placed_cost(placed, values.distinct_bytes + _list_bytes(at), given, adds=adds)


def _placed_cost(placed: int | None, read: int | None, given: Tensor, *, adds: bool) -> Cost:
    written = None if placed is None else placed * given.dtype.bytes
    if not adds:
        return _moved(read, written, given)
    both = None if read is None or written is None else read + written
    return Cost(placed, both, written, given.dtype.precision, "vector", "indexing")


def _masked_select(call: Call) -> Cost:
    """masked_select, nonzero, unique: how many come out is not recorded; they read all."""
    given = call.tensor(0)
    read = operands.read_bytes((given, call.optional(1)))
    return _moved(read, None, given)


def _masked_scatter(call: Call) -> Cost:
    """masked_scatter_(self, mask, source): how many elements the mask places is not recorded."""
    given, mask = call.tensor(0), call.tensor(1)
    return _moved(mask.distinct_bytes, None, given)


def _sort(call: Call) -> Cost:
    """sort, argsort: values and their int64 positions, as many as given."""
    given = call.tensor(0)
    written = given.elements * (given.dtype.bytes + INDEX)
    return _moved(given.distinct_bytes, written, given, "sort")


def _topk(call: Call) -> Cost:
    """topk(self, k, dim): k values and int64 positions of each row; no FLOPs are counted."""
    given, k = call.tensor(0), operands.integers(call, 1)
    dim = operands.integers(call, 2)
    if not k or dim is None:
        raise ShapeError("k and the dimension were not recorded")
    rows = operands.reduced(given, dim or (-1,))
    written = rows * k[0] * (given.dtype.bytes + INDEX)
    return _moved(given.distinct_bytes, written, given, "sort")


def _kth(call: Call) -> Cost:
    """kthvalue(self, k, dim): one value and position of each row."""
    given, dim = call.tensor(0), operands.integers(call, 2)
    if dim is None:
        raise ShapeError("the dimension was not recorded")
    rows = operands.reduced(given, dim or (-1,))
    return _moved(given.distinct_bytes, rows * (given.dtype.bytes + INDEX), given, "sort")


def _search(values: int, sorted_at: int) -> Model:
    def model(call: Call) -> Cost:
        """bucketize, searchsorted: reads values and boundaries, writes a position for each value.

        A binary search's log2(n) comparisons are not FLOPs here. int32 positions with out_int32.
        """
        given, bounds = call.tensor(values), call.tensor(sorted_at)
        size = {"True": 4, "False": INDEX, None: INDEX}.get(call.text(2), INDEX)
        read = given.distinct_bytes + bounds.distinct_bytes
        return _moved(read, given.elements * size, given, "sort")

    return model


MODELS: dict[str, Model] = {
    "aten::gather": _gather,
    "aten::index_select": _index_select,
    "aten::take": _take,
    "aten::index": _index,
    "aten::_unsafe_index": _index,
    "aten::index_put_": _index_put,
    "aten::_index_put_impl_": _index_put,
    "aten::scatter_": _scattered(adds=False),
    "aten::scatter": _functional(_scattered(adds=False)),
    "aten::index_copy_": _sliced(adds=False),
    "aten::index_copy": _functional(_sliced(adds=False)),
    "aten::index_fill_": _filled,
    "aten::index_fill": _functional(_filled),
    **{f"aten::{n}_": _scattered(adds=True) for n in ("scatter_add", "scatter_reduce")},
    **{
        f"aten::{n}": _functional(_scattered(adds=True), adds=True)
        for n in ("scatter_add", "scatter_reduce")
    },
    "aten::index_add_": _sliced(adds=True),
    "aten::index_add": _functional(_sliced(adds=True), adds=True),
    "aten::masked_select": _masked_select,
    "aten::nonzero": _masked_select,
    "aten::masked_scatter_": _masked_scatter,
    **dict.fromkeys(("aten::_unique2", "aten::unique_dim", "aten::_unique",
                     "aten::unique_consecutive", "aten::repeat_interleave"), _masked_select),
    "aten::sort": _sort,
    "aten::topk": _topk,
    "aten::kthvalue": _kth,
    "aten::bucketize": _search(0, 1),
    "aten::searchsorted": _search(1, 0),
}  # fmt: skip
"""Models by operator name."""
WRAPPERS: frozenset[str] = frozenset()
