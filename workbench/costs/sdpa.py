"""The roof of attention by precision: the forward of scaled dot-product attention.

FLOPs are those of its two products, 4 b h s^2 d; causal counts the unmasked half. It is held apart
from plain products: on most devices it reaches less of the peak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from workbench.costs.ceilings import Attention
from workbench.costs.products import DTYPES, FULL
from workbench.costs.timing import Bench, Candidate, race

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = {
    "cpu": {"fp32": 0.6, "bf16": 0.4},
    "cuda": {"fp32": 0.4, "bf16": 0.6, "fp16": 0.6},
}


class Shape(NamedTuple):
    """Batch, heads, length and head dimension of queries, keys and values."""

    batch: int
    heads: int
    length: int
    head_dim: int
    is_causal: bool = False


SHAPES = {
    "cpu": (Shape(1, 4, 256, 64), Shape(1, 8, 512, 64), Shape(1, 4, 512, 128)),
    "cuda": (Shape(4, 16, 2048, 64), Shape(4, 16, 2048, 128), Shape(2, 16, 4096, 128)),
}
MORE = {
    "cpu": (Shape(2, 8, 512, 64), Shape(1, 8, 1024, 64), Shape(1, 4, 1024, 128)),
    "cuda": (Shape(1, 32, 8192, 128), Shape(1, 32, 8192, 64), Shape(8, 32, 2048, 128)),
}


def measure(bench: Bench) -> tuple[Attention, ...]:
    """Return the fastest attention of each precision that the device can do."""
    found = (_fastest(bench, precision) for precision in SECONDS[bench.kind])
    return tuple(f for f in found if f is not None)


def flops(shape: Shape) -> float:
    """Return 4 b h s^2 d, half of it when causal."""
    whole = 4 * shape.batch * shape.heads * shape.length**2 * shape.head_dim
    return whole / 2 if shape.is_causal else whole


def _fastest(bench: Bench, precision: str) -> Attention | None:
    bench.torch.backends.cuda.matmul.allow_tf32 = False
    shapes = SHAPES[bench.kind] + (MORE[bench.kind] if bench.is_full else ())
    both = [s._replace(is_causal=c) for s in shapes for c in (False, True)]
    seconds = SECONDS[bench.kind][precision] * (FULL if bench.is_full else 1)
    found = race(bench, [_candidate(bench, precision, s) for s in both], seconds)
    return None if not found else _attention(precision, found[0])


def _candidate(bench: Bench, precision: str, shape: Shape) -> Candidate:
    def build() -> Callable[[], object]:
        torch = bench.torch
        dtype = getattr(torch, DTYPES[precision])
        size = (shape.batch, shape.heads, shape.length, shape.head_dim)
        query, key, value = (torch.randn(*size, device=bench.kind).to(dtype) for _ in range(3))
        attend = torch.nn.functional.scaled_dot_product_attention
        return lambda: attend(query, key, value, is_causal=shape.is_causal)

    return Candidate(precision, shape, flops(shape), build)


def _attention(precision: str, winner: Candidate) -> Attention:
    shape: Shape = winner.what
    return Attention(precision, winner.rate, winner.spread, len(winner.seconds), *shape)
