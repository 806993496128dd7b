"""Counts by hand: the weights and the multiply-adds of linear layers and convolutions.

A workload's spec lists its products; the sums are its parameters and the matrix FLOPs of a step, by
the convention of `counting`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Product:
    """A layer with one weight matrix or kernel, as one sample passes it."""

    weights: int
    """Elements of the weight."""
    others: int = 0
    """Elements of its bias, or of the scale and shift of the norm behind it."""
    macs: int
    """Multiply-adds of a sample's forward; one is two FLOPs."""
    trains: bool = True
    """Whether the weight has a gradient: a product of the forward's size."""
    passes: bool = True
    """Whether the input has one: data has none, nor has what frozen layers made of it."""

    @property
    def parameters(self) -> int:
        """Return the number of elements in all."""
        return self.weights + self.others

    @property
    def flops(self) -> int:
        """Return the FLOPs of a sample's forward and backward."""
        return 2 * self.macs * (1 + self.trains + self.passes)


def linear(
    inputs: int, outputs: int, *, rows: int = 1, bias: bool = True, passes: bool = True
) -> Product:
    """Count a linear layer that each sample passes with a number of rows."""
    weights = inputs * outputs
    others = outputs if bias else 0
    return Product(weights=weights, others=others, macs=rows * weights, passes=passes)


def convolution(
    inputs: int,
    outputs: int,
    kernel: int,
    *,
    positions: int,
    dims: int = 2,
    groups: int = 1,
    others: int = 0,
    trains: bool = True,
    passes: bool = True,
) -> Product:
    """Count a convolution; `positions`: of its output, or of its input where it is transposed.

    `others`: elements for each output channel, 1 of a bias or 2 of a norm.
    """
    weights = outputs * (inputs // groups) * kernel**dims
    return Product(
        weights=weights,
        others=others * outputs,
        macs=positions * weights,
        trains=trains,
        passes=passes,
    )


def reduced(size: int, stride: int) -> int:
    """Return how long a dimension is after an odd kernel that is padded by half its width."""
    return -(-size // stride)


def parameters(products: Iterable[Product]) -> int:
    """Return the elements of all layers."""
    return sum(product.parameters for product in products)


def flops(products: Iterable[Product]) -> int:
    """Return the FLOPs of one sample through all layers, forward and backward."""
    return sum(product.flops for product in products)
