"""The `unet3d` workload as torch modules, with volumes of two kidneys and a tumour."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn

from workbench.workloads.unet3d import CLASSES, Unet3dSpec

_SMOOTH = 1e-6
_BRIGHTNESS = (0.0, 1.0, -1.0)
"""Of background, kidney and tumour, in standard deviations of the noise."""


def _convolve(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution and its norm; torch's instance norm puts channels outermost again."""
    return nn.Sequential(
        nn.Conv3d(inputs, outputs, 3, stride, padding=1, bias=False),
        nn.InstanceNorm3d(outputs, affine=True),
        nn.ReLU(inplace=True),
    )


class Down(nn.Sequential):
    """Two convolutions, the first with a stride."""

    def __init__(self, inputs: int, outputs: int, stride: int = 2) -> None:
        super().__init__(_convolve(inputs, outputs, stride), _convolve(outputs, outputs))


class Up(nn.Module):
    """Twice the resolution, joined with the same level of the way down, two convolutions."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.widen = nn.ConvTranspose3d(inputs, outputs, 2, 2)
        self.convolve = nn.Sequential(_convolve(2 * outputs, outputs), _convolve(outputs, outputs))

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Map (batch, inputs, side, …) and skip (batch, outputs, 2 side, …) to skip's shape."""
        joined = torch.cat((self.widen(x), skip), dim=1)
        return cast("Tensor", self.convolve(joined))


class Unet3d(nn.Module):
    """Down, up, a class for each voxel, and the loss."""

    def __init__(self, spec: Unet3dSpec) -> None:
        super().__init__()
        widths = spec.widths
        self.enter = Down(1, widths[0], stride=1)
        self.down = nn.ModuleList(Down(*pair) for pair in pairwise(widths))
        self.up = nn.ModuleList(Up(*pair) for pair in pairwise(reversed(widths)))
        self.head = nn.Conv3d(widths[0], CLASSES, 1)

    def forward(self, volumes: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of volumes (batch, 1, side, …) and labels (batch, side, …)."""
        x = self.enter(volumes)
        skips = [x]
        for down in self.down:
            x = down(x)
            skips.append(x)
        for up, skip in zip(self.up, skips[-2::-1], strict=True):
            x = up(x, skip)
        return dice_and_cross_entropy(self.head(x).float(), labels)


def dice_and_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean of both losses; Dice = 2 |A and B| / (|A| + |B|), without the background.

    logits (batch, classes, side, …), labels (batch, side, …); V-Net (1606.04797) eq. 1.
    """
    chances = logits.softmax(dim=1)[:, 1:]
    truth = F.one_hot(labels, CLASSES).movedim(-1, 1)[:, 1:].to(chances.dtype)
    space = (2, 3, 4)
    both = (chances * truth).sum(space)
    dice = (2 * both + _SMOOTH) / (chances.sum(space) + truth.sum(space) + _SMOOTH)
    return (F.cross_entropy(logits, labels) + (1 - dice).mean()) / 2


def model(spec: Unet3dSpec) -> nn.Module:
    """Build the network with its loss."""
    return Unet3d(spec)


def blocks(module: nn.Module) -> list[nn.Module]:
    """Return each level of the way down and up."""
    return [part for part in module.modules() if isinstance(part, Down | Up)]


def batch(spec: Unet3dSpec, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Return volumes (batch, 1, side, side, side) and labels (batch, side, side, side).

    Each volume holds two kidneys, and a tumour in one of them.
    """
    labels = torch.zeros(spec.batch, spec.crop, spec.crop, spec.crop, dtype=torch.int64)
    for volume in labels:
        for side in (-0.5, 0.5):
            centre = torch.tensor([0.0, 0.0, side]) + 0.2 * _uniform(3, generator)
            volume[_ellipsoid(spec.crop, centre, 0.3 + 0.1 * _uniform(3, generator))] = 1
        volume[_ellipsoid(spec.crop, centre, 0.15 + 0.05 * _uniform(3, generator))] = 2
    light = torch.tensor(_BRIGHTNESS)[labels].unsqueeze(1)
    return light + torch.randn(light.shape, generator=generator), labels


def _uniform(count: int, generator: torch.Generator) -> Tensor:
    return 2 * torch.rand(count, generator=generator) - 1


def _ellipsoid(side: int, centre: Tensor, radii: Tensor) -> Tensor:
    """Return which voxels lie inside; the cube reaches from -1 to 1 in each direction."""
    line = torch.linspace(-1, 1, side)
    squares = [((line - c) / r).square() for c, r in zip(centre, radii, strict=True)]
    deep, down, across = squares
    inside: Tensor = deep[:, None, None] + down[:, None] + across <= 1
    return inside
