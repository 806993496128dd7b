"""Bytes of helpers around sparse features and caches: FBGEMM's, and key-value caches of servers.

They move data; their few integer operations are not counted. Signatures: FBGEMM,
`fbgemm_gpu/src/sparse_ops`; vLLM, `csrc/cache.h`. Lists of one number a feature count where they
are recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.costs import operands
from workbench.costs.shapes import ShapeError

if TYPE_CHECKING:
    from workbench.costs.cost import Cost, Model
    from workbench.costs.shapes import Call, Tensor


def _size(tensor: Tensor) -> int:
    return tensor.elements * tensor.dtype.bytes


def _permute_data(call: Call) -> Cost:
    """permute_2D_sparse_data(permute, lengths, values, weights, sum), permute_sparse_features.

    Reads all; writes lengths in the new order and the values that they select: `sum` of them where
    it is recorded, all of them when there are as many features as before, else not known.
    """
    order, lengths, values = (call.tensor(i) for i in range(3))
    weights = call.optional(3)
    if not lengths.dims or not lengths.dims[0]:
        raise ShapeError("the lengths have no features")
    total = operands.integers(call, 4)
    kept = total[0] if total else None
    if kept is None and order.elements == lengths.dims[0]:
        kept = values.elements
    read = operands.read_bytes((order, lengths, values, weights))
    written = None
    if kept is not None:
        each = values.dtype.bytes + (weights.dtype.bytes if weights else 0)
        rows = order.elements * (lengths.elements // lengths.dims[0])
        written = rows * lengths.dtype.bytes + kept * each
    return operands.moved(read, written, "copy", values.dtype.precision)


def _permute_pooled(call: Call) -> Cost:
    """permute_pooled_embs(embeddings, offsets, order, offsets back, …): columns reordered."""
    given = call.tensor(0)
    read = operands.read_bytes(operands.tensors(call, range(4)))
    return operands.moved(read, _size(given), "copy", given.dtype.precision)


def _rearranged(call: Call) -> Cost:
    """recat_embedding_grad_output_mixed_D_batch(gradient, dims, their sums): rows by rank."""
    given = call.tensor(0)
    read = operands.read_bytes(operands.tensors(call, range(3)))
    return operands.moved(read, _size(given), "copy", given.dtype.precision)


def _complete_cumsum(call: Call) -> Cost:
    """asynchronous_complete_cumsum(t): from 0 to the whole sum, one more than given a row."""
    given = call.tensor(0)
    if not given.dims:
        raise ShapeError("a sum needs a dimension")
    rows = given.elements // given.dims[-1] if given.dims[-1] else 1
    written = (given.elements + rows) * given.dtype.bytes
    return operands.moved(given.distinct_bytes, written, "reduction", given.dtype.precision)


def _bounds_check(call: Call) -> Cost:
    """bounds_check_indices(rows, indices, offsets, …): reads them; writes only what is wrong."""
    read = operands.read_bytes(call.tensor(i) for i in range(3))
    return operands.moved(read, 0, "indexing", call.tensor(1).dtype.precision)


def _offsets_range(call: Call) -> Cost:
    """offsets_range(offsets, values | n): 0, 1, … in each segment, as many as there are values."""
    offsets, values = call.tensor(0), call.optional(1)
    count = operands.integers(call, 1) if values is None else (values.elements,)
    if not count:
        raise ShapeError("the number of values was not recorded")
    written = count[0] * offsets.dtype.bytes
    return operands.moved(offsets.distinct_bytes, written, "copy", offsets.dtype.precision)


def _cached(call: Call) -> Cost:
    """Keys and values (arguments 0, 1) into their caches (2, 3) at slots (4), in the cache's type.

    Tokens without a slot are not recorded and count.
    """
    key, value, slots = call.tensor(0), call.tensor(1), call.tensor(4)
    read = operands.read_bytes((key, value, slots))
    written = (
        key.elements * call.tensor(2).dtype.bytes + value.elements * call.tensor(3).dtype.bytes
    )
    return operands.moved(read, written, "copy", key.dtype.precision)


_PERMUTED = "torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction"
MODELS: dict[str, Model] = {
    "fbgemm::permute_sparse_features": _permute_data,
    "fbgemm::permute_2D_sparse_data": _permute_data,
    "fbgemm::permute_pooled_embs_auto_grad": _permute_pooled,
    "fbgemm::permute_pooled_embs": _permute_pooled,
    "fbgemm::recat_embedding_grad_output_mixed_D_batch": _rearranged,
    "fbgemm::asynchronous_complete_cumsum": _complete_cumsum,
    "fb::asynchronous_complete_cumsum": _complete_cumsum,
    "fbgemm::bounds_check_indices": _bounds_check,
    "fbgemm::offsets_range": _offsets_range,
    "fb::offsets_range": _offsets_range,
    "_C_cache_ops::reshape_and_cache_flash": _cached,
    "_C_cache_ops::reshape_and_cache": _cached,
    "sglang::store_cache": _cached,
}
PREFIXES: dict[str, Model] = {_PERMUTED: _permute_pooled}
"""Models by the beginning of an operator's name."""
WRAPPERS = frozenset({"fbgemm::permute_pooled_embs_auto_grad"})
"""Those that hand the work to another operator where that one is recorded."""
