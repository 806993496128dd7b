"""Bytes of kernels that a compiler made of several operators (Inductor's Triton kernels).

The recording has the pointer arguments (inputs, then outputs; one that is both comes first) and,
last, the numbers of iterations. What the kernel computes is only in its source: FLOPs are not
known. An argument larger than the iterations is used in part (a slice): it counts with as many
elements as there are iterations, the least that fits a kernel that uses each of them once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workbench.costs import operands
from workbench.costs.cost import Cost
from workbench.costs.shapes import ShapeError

if TYPE_CHECKING:
    from workbench.costs.cost import Model
    from workbench.costs.shapes import Call


def _fused(call: Call) -> Cost:
    """Each argument counts once; the last is the output when it has an element an iteration.

    Otherwise the first is input and output in one, and counts twice. [2,4096,9728] and a bias
    [9728] with 79,691,776 iterations: the first is read and written.
    """
    given = operands.tensors(call, range(len(call.tensors)))
    if not given:
        raise ShapeError("no argument is a recorded tensor")
    iterations = _iterations(call)
    used = [min(t.distinct_elements, iterations[-1]) * t.dtype.bytes for t in given]
    if len(given) > 1 and given[-1].elements in iterations:
        read, written = sum(used[:-1]), used[-1]
    else:
        read, written = sum(used), used[0]
    return Cost(None, read, written, given[0].dtype.precision, "vector", "fused")


def _iterations(call: Call) -> list[int]:
    """Return the iterations of the outermost loop, of it and the next, … of all together."""
    counts = [operands.integers(call, i) for i in range(len(call.tensors))]
    numbers = [c[0] for c in counts if c]
    if not numbers:
        raise ShapeError("the number of iterations was not recorded")
    return [math.prod(numbers[:i]) for i in range(1, len(numbers) + 1)]


PREFIXES: dict[str, Model] = dict.fromkeys(
    ("triton_poi_", "triton_red_", "triton_per_", "triton_mix_", "triton_for_"), _fused
)
"""Models by the beginning of an operator's name."""
MODELS: dict[str, Model] = {}
WRAPPERS: frozenset[str] = frozenset()
