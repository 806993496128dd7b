"""FLOPs and bytes of fused scaled dot-product attention, from recorded shapes.

Two products a head: scores Q K^T and output P V, 2 FLOPs per multiply-add; softmax, masking and
dropout are not counted. Backward runs five products (recomputed scores, dV, dP, dQ, dK: Dao,
FlashAttention-2, arXiv 2307.08691, section 3.1). Causal attention counts the unmasked half: the
area below the diagonal from the top-left corner, as torch defines `is_causal`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.costs.cost import Cost
from workbench.costs.shapes import Call, ShapeError, Tensor

if TYPE_CHECKING:
    from workbench.costs.cost import Model

ATTENTION_DIMS = 4


@dataclass(frozen=True, slots=True)
class _Signature:
    """Positions of the arguments in an operator's schema (torch `native_functions.yaml`)."""

    query: int
    causal: int
    mask: int | None = None
    out: int | None = None
    """Position of the forward output: a backward operator reads it and the incoming gradient."""


_SIGNATURES = {
    "aten::scaled_dot_product_attention": _Signature(0, 5, mask=3),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _Signature(0, 4, mask=5),
    "aten::_scaled_dot_product_flash_attention": _Signature(0, 4),
    "aten::_scaled_dot_product_efficient_attention": _Signature(0, 6, mask=3),
    "aten::_scaled_dot_product_cudnn_attention": _Signature(0, 6, mask=3),
    "aten::_scaled_dot_product_fused_attention_overrideable": _Signature(0, 5, mask=3),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _Signature(1, 7, mask=8, out=4),
    "aten::_scaled_dot_product_flash_attention_backward": _Signature(1, 11, out=4),
    "aten::_scaled_dot_product_efficient_attention_backward": _Signature(1, 11, mask=4, out=5),
    "aten::_scaled_dot_product_cudnn_attention_backward": _Signature(1, 14, mask=8, out=4),
}


def score_pairs(queries: int, keys: int, *, causal: bool) -> float:
    """Return how many query-key pairs are not masked.

    All `queries * keys`; causal: the area below the diagonal, n^2 / 2 with n = min(queries, keys),
    and `keys` for every query past the last key. 4 x 4: 8 (half of 16). 4 x 6: 8. 6 x 4: 8 + 2 * 4.
    """
    if not causal:
        return float(queries * keys)
    square = min(queries, keys)
    return square * square / 2 + (queries - square) * keys


def _operands(call: Call, signature: _Signature) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (call.tensor(signature.query + i) for i in range(3))
    dims = query.dims, key.dims, value.dims
    if any(len(d) != ATTENTION_DIMS for d in dims):
        raise ShapeError("attention needs query, key and value as batch, heads, length, width")
    (batch, heads, _, width), (k_batch, k_heads, keys, k_width), v = dims
    fits = (batch, width) == (k_batch, k_width) and v[:3] == (batch, k_heads, keys)
    if not fits or not k_heads or heads % k_heads:
        raise ShapeError("query, key and value do not fit together")
    return query, key, value


def _pairs(call: Call, signature: _Signature, query: Tensor, key: Tensor) -> tuple[float, float]:
    """Return query-key pairs over all heads: those that count, and those that a mask drops."""
    batch, heads, queries, _ = query.dims
    whole = batch * heads * score_pairs(queries, key.dims[2], causal=False)
    if not call.flag(signature.causal):
        return whole, 0.0
    kept = batch * heads * score_pairs(queries, key.dims[2], causal=True)
    return kept, whole - kept


def _read(call: Call, signature: _Signature, tensors: tuple[Tensor, ...]) -> int:
    mask = None if signature.mask is None else call.optional(signature.mask)
    return sum(t.distinct_bytes for t in tensors) + (mask.distinct_bytes if mask else 0)


def _forward(call: Call, signature: _Signature) -> Cost:
    """Forward: 2 * B * H * pairs * (D + Dv); reads Q, K, V and a mask, writes O.

    Grouped queries (fewer K and V heads) need the products of all query heads, and the bytes of
    the K and V heads that exist. Row statistics are not counted.
    """
    query, key, value = _operands(call, signature)
    width, value_width = query.dims[3], value.dims[3]
    kept, masked = (2 * p * (width + value_width) for p in _pairs(call, signature, query, key))
    out = math.prod(query.dims[:3]) * value_width * query.dtype.bytes
    read = _read(call, signature, (query, key, value))
    return Cost(
        flops=round(kept),
        read_bytes=read,
        write_bytes=out,
        precision=query.dtype.precision,
        unit="matrix",
        model="attention",
        masked_flops=round(masked),
    )


def _backward(call: Call, signature: _Signature, out: int) -> Cost:
    """Backward: 2 * B * H * pairs * (3 D + 2 Dv); reads dO, Q, K, V, O, writes dQ, dK, dV."""
    query, key, value = _operands(call, signature)
    width, value_width = query.dims[3], value.dims[3]
    pairs = _pairs(call, signature, query, key)
    kept, masked = (2 * p * (3 * width + 2 * value_width) for p in pairs)
    read = _read(call, signature, (query, key, value, call.tensor(0), call.tensor(out)))
    written = sum(t.elements * t.dtype.bytes for t in (query, key, value))
    return Cost(
        flops=round(kept),
        read_bytes=read,
        write_bytes=written,
        precision=query.dtype.precision,
        unit="matrix",
        model="attention",
        masked_flops=round(masked),
        recomputed_flops=round(2 * pairs[0] * width),
    )


def _model(signature: _Signature) -> Model:
    def model(call: Call) -> Cost:
        if signature.out is None:
            return _forward(call, signature)
        return _backward(call, signature, signature.out)

    return model


MODELS = {name: _model(signature) for name, signature in _SIGNATURES.items()}
"""Models by operator name. The outer operators only: what they call inside carries no model."""
WRAPPERS = frozenset({"aten::scaled_dot_product_attention"})
"""Those that hand the work to another operator where that one is recorded."""
