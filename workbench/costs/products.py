"""The roof of matrix products by precision: a sweep over shapes, 2 m n k FLOPs each.

Square products, and the shapes of training: tall (many rows of activations), wide (a vocabulary),
short inner lengths (weight gradients of few samples). Layouts name which operand is a transposed
view: none, the second (as in a linear layer), the first (as in its weight's gradient); libraries
differ tenfold between them for a type that a processor only emulates.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.costs.ceilings import Compute
from workbench.costs.timing import Bench, Candidate, race
from workbench.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LAYOUTS = ("nn", "nt", "tn")
DTYPES = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8": "float8_e4m3fn",
}
SECONDS = {
    "cpu": {"fp32": 4.5, "fp64": 0.6, "bf16": 0.6, "fp16": 0.5},
    "cuda": dict.fromkeys(("fp64", "fp32", "tf32", "bf16", "fp16", "fp8"), 0.6),
}
NEAR = 0.8
"""A layout that is this near to the best at the smallest shape is tried at the others."""
FULL = 6
"""How many times as long the full sweep takes."""
Shape = tuple[int, int, int]
SHAPES: dict[str, tuple[Shape, ...]] = {
    "cpu": (
        (128, 128, 128), (256, 256, 256), (384, 384, 384), (512, 512, 512), (768, 768, 768),
        (1024, 1024, 1024), (2048, 256, 256), (256, 1024, 256), (512, 512, 64), (128, 512, 1024),
    ),
    "cuda": (
        (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
        (8192, 2048, 8192), (16384, 4096, 4096), (4096, 16384, 4096), (4096, 4096, 1024),
    ),
}  # fmt: skip
"""m, n and k of m x k times k x n."""
MORE: dict[str, tuple[Shape, ...]] = {
    "cpu": (
        (320, 320, 320), (640, 640, 640), (896, 896, 896), (1280, 1280, 1280), (1536, 1536, 1536),
        (2048, 2048, 2048), (2048, 512, 512), (512, 2048, 512), (512, 512, 2048),
        (8192, 256, 256), (256, 8192, 256), (256, 256, 8192), (64, 2048, 2048), (2048, 2048, 64),
        (1024, 4096, 1024), (4096, 1024, 1024),
    ),
    "cuda": (
        (3072, 3072, 3072), (6144, 6144, 6144), (12288, 12288, 12288), (16384, 16384, 16384),
        (8192, 28672, 4096), (8192, 4096, 14336), (16384, 8192, 8192), (8192, 8192, 16384),
        (64, 8192, 8192), (8192, 8192, 64), (32768, 1024, 1024), (2048, 131072, 4096),
    ),
}  # fmt: skip
"""What the full sweep tries besides."""


def measure(bench: Bench, free: int) -> tuple[Compute, ...]:
    """Return the fastest product of each precision that the device can do, in `free` bytes.

    Raises CaptureError when there is no room for any.
    """
    if not _fitting(SHAPES[bench.kind], free):
        raise CaptureError(
            f"only {free / 2**20:.0f} MiB of its memory are free, too little for a product; end "
            "what fills it."
        )
    found = (_fastest(bench, precision, free) for precision in SECONDS[bench.kind])
    return tuple(f for f in found if f is not None)


def _fastest(bench: Bench, precision: str, free: int) -> Compute | None:
    """Race every layout of the smallest shape, then every shape in its best layouts.

    The full sweep races its further shapes after that, against all of the short one.
    """
    bench.torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    seconds = SECONDS[bench.kind][precision]
    small, *larger = _fitting(SHAPES[bench.kind], free)
    more = _fitting(MORE[bench.kind], free) if bench.is_full else []
    with contextlib.suppress(RuntimeError, AttributeError):
        operands = _operands(bench, precision, [small, *larger, *more])
        first = [_candidate(bench, operands, small, v) for v in _layouts(precision)]
        race(bench, first, seconds / 5, every=True)
        layouts = _best_layouts(first)
        tried = first + [_candidate(bench, operands, s, v) for s in larger for v in layouts]
        winners = race(bench, tried, seconds * 4 / 5)
        if more:
            tried += [_candidate(bench, operands, s, v) for s in more for v in layouts]
            winners = race(bench, tried, seconds * (FULL - 1))
        for winner in winners:
            return _compute(precision, winner)
    return None


def _fitting(shapes: Sequence[Shape], free: int) -> list[Shape]:
    """Return the shapes that memory has room for, from little work to much."""
    return sorted((s for s in shapes if _elements(s) * 8 < free / 4), key=_work)


def _best_layouts(first: Sequence[Candidate]) -> list[str]:
    best = max(c.rate for c in first)
    return [c.what[1] for c in first if c.rate > NEAR * best]


def _layouts(precision: str) -> tuple[str, ...]:
    # torch's scaled product takes its second operand in columns, and no other way.
    return ("nt",) if precision == "fp8" else LAYOUTS


def _work(shape: Shape) -> int:
    m, n, k = shape
    return 2 * m * n * k


def _elements(shape: Shape) -> int:
    m, n, k = shape
    return m * k + k * n + m * n


class Operands(NamedTuple):
    """Memory for the operands of any shape: numbers to multiply, and room for the result."""

    precision: str
    left: Any
    right: Any
    out: Any


def _operands(bench: Bench, precision: str, shapes: Sequence[Shape]) -> Operands:
    torch = bench.torch
    dtype = getattr(torch, DTYPES[precision])
    left, right, out = (max(s[i] * s[j] for s in shapes) for i, j in ((0, 2), (2, 1), (0, 1)))
    # Random and not constant numbers: on a GPU they draw the power that training draws.
    return Operands(
        precision,
        torch.randn(left, device=bench.kind).to(dtype),
        torch.randn(right, device=bench.kind).to(dtype),
        None if precision == "fp8" else torch.empty(out, device=bench.kind, dtype=dtype),
    )


def _candidate(bench: Bench, operands: Operands, shape: Shape, layout: str) -> Candidate:
    def build() -> Callable[[], object]:
        return _product(bench, operands, shape, layout)

    return Candidate(operands.precision, (shape, layout), float(_work(shape)), build)


def _product(bench: Bench, operands: Operands, shape: Shape, layout: str) -> Callable[[], object]:
    torch, (m, n, k) = bench.torch, shape
    left = _matrix(operands.left, m, k, transposed=layout == "tn")
    right = _matrix(operands.right, k, n, transposed=layout == "nt")
    if operands.precision == "fp8":
        one = torch.ones((), device=bench.kind)
        return lambda: torch._scaled_mm(  # noqa: SLF001 - torch has no other product of 8 bits
            left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16
        )
    out = _matrix(operands.out, m, n, transposed=False)
    return lambda: torch.mm(left, right, out=out)


def _matrix(pool: Any, rows: int, columns: int, *, transposed: bool) -> Any:
    size = (columns, rows) if transposed else (rows, columns)
    made = pool[: rows * columns].view(*size)
    return made.t() if transposed else made


def _compute(precision: str, winner: Candidate) -> Compute:
    (m, n, k), layout = winner.what
    return Compute(precision, winner.rate, winner.spread, n, layout, len(winner.seconds), m=m, k=k)
