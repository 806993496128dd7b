"""Arithmetic that the specs share to state parameters and FLOPs; needs no torch.

The convention of FLOPs is the project's default: matrix products and convolutions alone, 2 FLOPs a
multiply-add, no biases; of causal attention the unmasked half, a pair on the diagonal half masked;
forward, gradients of inputs and of weights as far as they are needed; nothing that is computed
again, be it by recomputation or inside a fused attention's backward.
"""

from __future__ import annotations

TRAINING = 3
"""Training over forward of a product both of whose inputs have gradients."""
FROZEN = 2
"""The same, where the weights have none."""


def linear(inputs: int, outputs: int, *, bias: bool = False) -> int:
    """Return the parameters of a matrix, with one bias for each output."""
    return inputs * outputs + (outputs if bias else 0)


def attention(heads: int, widths: int, pairs_twice: int) -> int:
    """Return forward FLOPs of scores and values; `widths` is a key's width and a value's."""
    return heads * widths * pairs_twice


def causal_pairs_twice(length: int, window: int | None = None) -> int:
    """Return twice the query-key pairs of a causal mask over the last `window` keys, own included.

    4 tokens: 2 x (1 + 2 + 3 + 4 - 4 / 2) = 16; window 2: 2 x (1 + 2 + 2 + 2 - 2) = 10.
    """
    dropped = 0 if window is None else max(0, length - window)
    return length * length - dropped * (dropped + 1)
