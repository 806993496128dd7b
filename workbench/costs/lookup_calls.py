"""Which operators are table-batched embedding lookups (FBGEMM), and where their arguments stand.

The names are made from that of the optimiser, which runs fused with the backward. Positions are
those of FBGEMM's `embedding_backward_split_host_template.cpp` and of the dense form.
"""

from __future__ import annotations

from dataclasses import dataclass

_OPTIMISERS = (
    "adagrad", "adam", "approx_rowwise_adagrad", "approx_sgd", "lamb", "lars_sgd", "none",
    "partial_rowwise_adam", "partial_rowwise_lamb", "rowwise_adagrad",
    "rowwise_adagrad_with_weight_decay", "rowwise_weighted_adagrad", "sgd",
)  # fmt: skip
DENSE = "dense"
"""The kind that returns a gradient for the whole table instead of updating rows of it."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Positions of the arguments; the tables are one flat tensor of weights."""

    weights: tuple[int, ...]
    widths: int
    """Offsets of each table's columns in the output: tables + 1."""
    total_width: int
    max_width: int
    indices: int
    offsets: int
    """Where each bag begins: tables * batch + 1."""
    pooling: int
    sample_weights: int
    state: int | None = None
    """Where the tensors of the optimiser's state begin."""


SPLIT = Lookup((1, 2), 6, 7, 8, 11, 12, 13, 14, state=20)
WHOLE = Lookup((0,), 2, 3, 4, 7, 8, 9, 10)

FORWARDS: dict[str, str] = {
    **{
        f"{space}::split_embedding_codegen_lookup_{o}_function": o
        for o in _OPTIMISERS
        for space in ("fbgemm", "fb")
    },
    "fbgemm::dense_embedding_codegen_lookup_function": DENSE,
    "fb::dense_embedding_codegen_lookup_function": DENSE,
}
"""The kind (an optimiser, or `DENSE`) of each lookup."""
BACKWARDS: dict[str, str] = {
    **{f"torch::autograd::CppNode<SplitLookupFunction_{o}_Op>": o for o in _OPTIMISERS},
    "torch::autograd::CppNode<SplitLookupFunction_Dense_Op>": DENSE,
}
"""The kind of each backward node; its only recorded argument is the gradient."""


def signature(kind: str) -> Lookup:
    """Return where the arguments of a lookup of a kind stand."""
    return WHOLE if kind == DENSE else SPLIT
