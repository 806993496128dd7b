"""Routed experts: tokens sorted by expert, each expert's two matrices, results added up again.

Nothing is dropped and nothing padded, so how many tokens an expert gets is known only at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn

from workbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

_STD = 0.02


class Experts(nn.Module):
    """`count` feed-forwards of `width`, their matrices stacked; a token passes those chosen for it.

    `activation` maps (…, 2 width) to (…, width). `kernel`: `loop` multiplies expert by expert and
    reads the counts on the host; `grouped` is one kernel for all, in versions of torch
    that have `grouped_mm`.
    """

    def __init__(
        self,
        *,
        count: int,
        hidden: int,
        width: int,
        activation: Callable[[Tensor], Tensor],
        kernel: str,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if kernel == "grouped" and not hasattr(F, "grouped_mm"):
            raise UsageError(
                "expert_kernel=grouped needs torch.nn.functional.grouped_mm, which torch "
                f"{torch.__version__} does not have; use expert_kernel=loop."
            )
        self.count, self.activation, self.kernel = count, activation, kernel
        self.wide = nn.Parameter(torch.empty(count, hidden, 2 * width))
        self.narrow = nn.Parameter(torch.empty(count, width, hidden))
        self.wide_bias = nn.Parameter(torch.empty(count, 2 * width)) if bias else None
        self.narrow_bias = nn.Parameter(torch.empty(count, hidden)) if bias else None

    def reset_parameters(self) -> None:
        """Draw the first values."""
        for matrix in (self.wide, self.narrow):
            nn.init.normal_(matrix, std=_STD)
        for bias in (self.wide_bias, self.narrow_bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Map (tokens, hidden) to the same, by ids and weights of experts, (tokens, top_k) each."""
        expert, order = chosen.flatten().sort(stable=True)
        row = order // chosen.shape[-1]
        passed = self._sorted(x[row], expert)
        weighed = passed * weights.flatten()[order].unsqueeze(-1)
        return weighed.new_zeros(x.shape).index_add(0, row, weighed).to(x.dtype)

    def _sorted(self, x: Tensor, expert: Tensor) -> Tensor:
        """Map rows that are sorted by their expert."""
        counts = tokens_of(expert, self.count)
        inside = self._product(x, self.wide, counts)
        if self.wide_bias is not None:
            inside = inside + self.wide_bias[expert]
        outside = self._product(self.activation(inside), self.narrow, counts)
        return outside if self.narrow_bias is None else outside + self.narrow_bias[expert]

    def _product(self, x: Tensor, matrices: Tensor, counts: Tensor) -> Tensor:
        if self.kernel == "grouped":
            dtype = _dtype(x)
            ends = counts.cumsum(0, dtype=torch.int32)
            return F.grouped_mm(x.to(dtype), matrices.to(dtype), offs=ends)
        # Unbound at once: the gradient of each matrix[i] would be as large as all of them.
        pieces = zip(torch.split(x, counts.tolist()), matrices.unbind(), strict=True)
        return torch.cat([piece @ matrix for piece, matrix in pieces if len(piece)])


def tokens_of(expert: Tensor, count: int) -> Tensor:
    """Return how many times each of `count` experts occurs; unlike `bincount`, without waiting."""
    counts = torch.zeros(count, dtype=torch.int64, device=expert.device)
    return counts.scatter_add_(0, expert.flatten(), torch.ones_like(expert.flatten()))


def _dtype(x: Tensor) -> torch.dtype:
    """Return the type that autocast gives products; it does not know grouped ones."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
