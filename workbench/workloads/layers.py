"""Modules that several transformers use, with the first values that transformers take."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

_STD = 0.02


class Linear(nn.Linear):
    """A matrix of normal values of deviation 0.02; its bias starts at 0."""

    def reset_parameters(self) -> None:
        """Draw the first values."""
        nn.init.normal_(self.weight, std=_STD)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Embedding(nn.Embedding):
    """A table of normal values of deviation 0.02."""

    def reset_parameters(self) -> None:
        """Draw the first values."""
        nn.init.normal_(self.weight, std=_STD)


class RMSNorm(nn.RMSNorm):
    """RMSNorm in the type of its input: torch fuses it only where both types are the same."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, width) to the same shape."""
        assert self.weight is not None
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class Rotary(nn.Module):
    """Tables of cosines and sines of the rotary angles, each (length, width), always fp32.

    RoFormer (2104.09864) eq. 34, with pairs half a width apart. `stretch` maps the frequencies;
    `scale` multiplies both tables (YaRN).
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self,
        length: int,
        width: int,
        theta: float,
        *,
        stretch: Callable[[Tensor], Tensor] = lambda frequency: frequency,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.theta, self.stretch, self.scale = theta, stretch, scale
        for name in ("cos", "sin"):
            self.register_buffer(name, torch.empty(length, width), persistent=False)

    def reset_parameters(self) -> None:
        """Fill the tables."""
        length, width = self.cos.shape
        exponent = torch.arange(0, width, 2, dtype=torch.float32, device=self.cos.device) / width
        frequency = self.stretch(self.theta**-exponent)
        position = torch.arange(length, dtype=torch.float32, device=self.cos.device)
        angles = torch.outer(position, frequency).repeat(1, 2)
        self.cos.copy_(self.scale * angles.cos())
        self.sin.copy_(self.scale * angles.sin())

    def forward(self) -> tuple[Tensor, Tensor]:
        """Return both tables."""
        return self.cos, self.sin


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[i], x[i + d/2]) of the last dimension by its position's angle.

    The tables are fp32; the result has the type of x, or attention would run in fp32.
    """
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)


def stretch_llama(factor: float, original: int) -> Callable[[Tensor], Tensor]:
    """Return how Llama 3.1 slows frequencies down: those that turn less than once in `original`.

    Turns a context below 1: divided by `factor`; above 4: kept; between: both mixed.
    """
    low, high = 1.0, 4.0

    def stretched(frequency: Tensor) -> Tensor:
        turns = original * frequency / (2 * math.pi)
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        return frequency * (kept + (1 - kept) / factor)

    return stretched


def stretch_yarn(
    factor: float, original: int, *, theta: float, width: int
) -> Callable[[Tensor], Tensor]:
    """Return how YaRN (2309.00071, 3.2) slows frequencies down, by their place among all.

    Those that turn more than 32 times in `original` are kept, less than once divided by `factor`,
    and mixed by their index in between.
    """

    def place(turns: float) -> float:
        return width / 2 * math.log(original / (turns * 2 * math.pi)) / math.log(theta)

    fast, slow = place(32.0), place(1.0)

    def stretched(frequency: Tensor) -> Tensor:
        index = torch.arange(len(frequency), device=frequency.device, dtype=frequency.dtype)
        slowed = ((index - fast) / (slow - fast)).clamp(0, 1)
        return frequency * (1 - slowed + slowed / factor)

    return stretched


def sharpen_yarn(factor: float) -> float:
    """Return by what YaRN multiplies the tables, and so queries and keys (2309.00071, 3.3)."""
    return 0.1 * math.log(factor) + 1.0
