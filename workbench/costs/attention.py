"""FLOPs and bytes of fused scaled dot-product attention, from recorded shapes.

Two products a head: scores Q K^T and output P V, 2 FLOPs per multiply-add; softmax, masking and
dropout are not counted. Backward runs five products (recomputed scores, dV, dP, dQ, dK: Dao,
FlashAttention-2, arXiv 2307.08691, section 3.1). Pairs that a causal mask or a sliding window
drops are kept apart; `score_pairs` counts the rest. Attention that is not fused is the products
and the softmax that it calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.costs import arguments
from workbench.costs.attention_calls import CACHED, LENGTH_FIRST, SIGNATURES, Signature
from workbench.costs.cost import Cost
from workbench.costs.shapes import Call, ShapeError, Tensor

if TYPE_CHECKING:
    from workbench.costs.cost import Model

DENSE_DIMS, PACKED_DIMS = 4, 3
NO_TYPE = "the type of the output was not recorded"
UNPACKED = "the lengths of the packed sequences are not recorded"


@dataclass(frozen=True, slots=True)
class _Mask:
    """Which pairs count: up to the diagonal, and a window around it (-1: no bound)."""

    causal: bool
    bottom_right: bool
    left: int = -1
    right: int = -1


@dataclass(frozen=True, slots=True)
class _Problem:
    """The sizes of one call; `sequences` of equal lengths, or None where lengths are unknown."""

    sequences: int
    heads: int
    lengths: tuple[int, int] | None
    width: int
    value_width: int


def score_pairs(
    queries: int,
    keys: int,
    *,
    causal: bool,
    bottom_right: bool = False,
    left: int = -1,
    right: int = -1,
) -> float:
    """Return how many query-key pairs are not masked; a pair on the diagonal is half masked.

    Query i stands at key i, or, with `bottom_right`, at i + keys - queries, and sees `left` keys
    before and `right` after it (-1: all); causal: none after. All `queries * keys` without bounds.
    4 x 4 causal: 1 + 2 + 3 + 4 less half of 4: 8. 2 x 6 causal: 3 - 1 = 2 from the top left, and
    5 + 6 - 1 = 10 to the bottom right. A window of 1 key before: 4 x 4 is 1 + 2 + 2 + 2 - 2 = 5.
    """
    right = 0 if causal else right
    offset = keys - queries if bottom_right else 0
    above = queries * keys if right < 0 else _clamped(queries, keys, offset + right + 1)
    below = 0 if left < 0 else _clamped(queries, keys, offset - left)
    diagonal = max(0, min(queries, keys - offset) - max(0, -offset)) if right == 0 else 0
    return above - below - diagonal / 2


def _clamped(queries: int, keys: int, first: int) -> int:
    """Return the sum over i < queries of i + first, each held between 0 and `keys`."""

    def up_to(end: int) -> int:
        inside = max(0, min(end, keys + 1))
        return inside * (inside - 1) // 2 + max(0, end - keys - 1) * keys

    return up_to(queries + first) - up_to(first)


def _problem(call: Call, form: Signature) -> tuple[_Problem, tuple[Tensor, Tensor, Tensor]]:
    query, key, value = (call.tensor(form.query + i) for i in range(3))
    if any(call.optional(p) is not None for p in form.cache):
        raise ShapeError("keys are in a cache, and how much of it is used is not recorded")
    packed = form.starts is not None and call.optional(form.starts[0]) is not None
    read = _packed if packed else _dense
    found = read(call, form, query, key, value)
    return found, (query, key, value)


def _dense(
    call: Call,  # noqa: ARG001 - as `_packed`
    form: Signature,
    query: Tensor,
    key: Tensor,
    value: Tensor,
) -> _Problem:
    dims = [t.dims for t in (query, key, value)]
    if any(len(d) != DENSE_DIMS for d in dims):
        raise ShapeError("attention needs query, key and value as batch, heads, length, width")
    if form.layout == LENGTH_FIRST:
        dims = [(d[0], d[2], d[1], d[3]) for d in dims]
    (batch, heads, queries, width), (k_batch, k_heads, keys, k_width), v = dims
    _check((batch, heads, width), (k_batch, k_heads, k_width), v[:2])
    if v[2] != keys:
        raise ShapeError("query, key and value do not fit together")
    return _Problem(batch, heads, (queries, keys), width, v[3])


def _packed(call: Call, form: Signature, query: Tensor, key: Tensor, value: Tensor) -> _Problem:
    """Read sequences packed behind each other: total length, heads, width."""
    dims = [t.dims[1:] if t.dims[:1] == (1,) and len(t.dims) == DENSE_DIMS else t.dims
            for t in (query, key, value)]  # fmt: skip
    if any(len(d) != PACKED_DIMS for d in dims) or form.starts is None:
        raise ShapeError("packed attention needs total length, heads, width")
    (queries, heads, width), (keys, k_heads, k_width), v = dims
    _check((1, heads, width), (1, k_heads, k_width), (1, v[1]))
    sequences = call.tensor(form.starts[0]).elements - 1
    lengths = _lengths(call, form, sequences, (queries, keys))
    return _Problem(sequences, heads, lengths, width, v[2])


def _lengths(
    call: Call, form: Signature, sequences: int, totals: tuple[int, int]
) -> tuple[int, int] | None:
    """Return the lengths when all sequences have the same: the longest fills the total."""
    if sequences == 1:
        return totals
    if sequences < 1 or form.longest is None:
        raise ShapeError("no sequences")
    try:
        longest = tuple(arguments.integer(call, p) for p in form.longest)
    except ShapeError:
        return None
    full = all(n * sequences == total for n, total in zip(longest, totals, strict=True))
    return (longest[0], longest[1]) if full else None


def _check(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...]) -> None:
    """Check (batch, heads, width) of query and key, and (batch, heads) of the value."""
    fits = (query[0], query[2]) == (key[0], key[2]) and value == key[:2]
    if not fits or not key[1] or query[1] % key[1]:
        raise ShapeError("query, key and value do not fit together")


def _mask(call: Call, form: Signature) -> _Mask:
    kind = 0 if form.kinds is None else arguments.integer(call, form.kinds)
    causal = call.flag(form.causal) if form.causal is not None else kind > 0
    if form.window is not None:
        before = _bound(call, form.window) - 1
        if before >= 0 and not causal:
            raise ShapeError("a window around the diagonal, of a form that is not known")
        return _Mask(causal, kind == 2, max(before, -1))  # noqa: PLR2004 - from the bottom right
    left, right = _bound(call, form.left), _bound(call, form.right)
    return _Mask(causal, form.bottom_right, left, right)


def _bound(call: Call, position: int | None) -> int:
    """Return a bound of a window; -1 where there is none (versions without it record nothing)."""
    if position is None or not call.text(position):
        return -1
    return max(arguments.integer(call, position), -1)


def _pairs(problem: _Problem, mask: _Mask) -> tuple[float, float] | None:
    """Return query-key pairs over all heads: those that count, and those that a mask drops."""
    if problem.lengths is None:
        return None
    each = problem.sequences * problem.heads
    kept = score_pairs(*problem.lengths, causal=mask.causal, bottom_right=mask.bottom_right,
                       left=mask.left, right=mask.right)  # fmt: skip
    whole = problem.lengths[0] * problem.lengths[1]
    return each * kept, each * (whole - kept)


def _model(form: Signature) -> Model:
    def model(call: Call) -> Cost:
        """Forward: 2 * B * H * pairs * (D + Dv); reads Q, K, V and a mask, writes O.

        Backward: 2 * B * H * pairs * (3 D + 2 Dv); reads dO and O too, writes dQ, dK, dV. Grouped
        queries (fewer K and V heads) need the products of all query heads, and the bytes of the K
        and V heads that exist. Row statistics are not counted.
        """
        problem, tensors = _problem(call, form)
        pairs = _pairs(problem, _mask(call, form))
        query = tensors[0]
        backward = form.out is not None
        scores, values = (3, 2) if backward else (1, 1)
        each = 2 * (scores * problem.width + values * problem.value_width)
        others = [] if form.mask is None else [call.optional(form.mask)]
        others += [call.tensor(0), call.tensor(form.out)] if form.out is not None else []
        written = sum(t.elements for t in tensors)
        if not backward:
            written = query.elements // (problem.width or 1) * problem.value_width
        # In 8 bits the output has a type of its own, which no argument tells.
        typed = query.dtype.bytes > 1
        return Cost(
            flops=None if pairs is None else round(each * pairs[0]),
            read_bytes=sum(t.distinct_bytes for t in (*tensors, *others) if t is not None),
            write_bytes=written * query.dtype.bytes if typed else None,
            precision=query.dtype.precision,
            unit="matrix",
            model="attention",
            masked_flops=round(each * pairs[1]) if pairs else 0,
            recomputed_flops=round(2 * pairs[0] * problem.width) if pairs and backward else 0,
            unknown=UNPACKED if pairs is None else None if typed else NO_TYPE,
        )

    return model


def _cached(call: Call) -> Cost:
    query = list(call.tensor(0).dims)
    raise ShapeError(f"how many cached keys the queries {query} see is not recorded")


MODELS = {
    **{name: _model(form) for name, form in SIGNATURES.items()},
    **dict.fromkeys(CACHED, _cached),
}
"""Models by operator name."""
WRAPPERS = frozenset({"aten::scaled_dot_product_attention"})
"""Those that hand the work to another operator where that one is recorded."""
