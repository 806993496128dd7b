"""The `resnet50` workload as torch modules, with images that show their class."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn

from workbench.workloads.residual_model import Body, bottlenecks
from workbench.workloads.resnet50 import Resnet50Spec

_NOISE = 0.5


class LastNorm(nn.BatchNorm2d):
    """The batch norm in front of an addition: its scale begins at 0 (1706.02677 section 5.1)."""

    def reset_parameters(self) -> None:
        """Set the scale to 0: the block begins as if it were not there."""
        super().reset_parameters()
        nn.init.zeros_(self.weight)


class Head(nn.Linear):
    """A linear layer with small first weights."""

    def reset_parameters(self) -> None:
        """Draw the weights with a deviation of 0.01 (the same section)."""
        nn.init.normal_(self.weight, std=0.01)
        nn.init.zeros_(self.bias)


class Classifier(nn.Module):
    """The body, its last stage averaged over the image, and a linear head."""

    def __init__(self, spec: Resnet50Spec) -> None:
        super().__init__()
        shape = spec.body()
        self.label_smoothing = spec.label_smoothing
        self.body = Body(shape, nn.BatchNorm2d, last_norm=LastNorm)
        self.head = Head(shape.widths[-1], spec.classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross entropy of images (batch, 3, side, side), labels (batch)."""
        pooled = self.body(images)[-1].mean(dim=(2, 3))
        logits = self.head(pooled).float()
        return F.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)


def model(spec: Resnet50Spec) -> nn.Module:
    """Build the network with its loss."""
    return Classifier(spec)


def blocks(module: nn.Module) -> list[nn.Module]:
    """Return the bottlenecks."""
    return bottlenecks(module)


def batch(spec: Resnet50Spec, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Return images (batch, 3, side, side) and labels (batch).

    The label is the pair of frequencies of a plane wave under noise.
    """
    labels = torch.randint(spec.classes, (spec.batch,), generator=generator)
    kinds = math.isqrt(spec.classes - 1) + 1
    turn = torch.arange(spec.image) * (2 * math.pi / spec.image)
    down = (1 + labels // kinds).view(-1, 1, 1) * turn.view(-1, 1)
    across = (labels % kinds).view(-1, 1, 1) * turn
    wave = torch.cos(down + across).unsqueeze(1)
    shape = (spec.batch, 3, spec.image, spec.image)
    return wave + _NOISE * torch.randn(shape, generator=generator), labels
