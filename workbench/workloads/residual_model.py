"""Residual networks of bottlenecks as torch modules; `residual` describes their shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn

from workbench.workloads import residual

Norm = Callable[[int], nn.Module]


class Conv(nn.Conv2d):
    """A convolution without bias, padded by half its kernel; weights as Kaiming He draws them."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)

    def reset_parameters(self) -> None:
        """Draw the weights so that a ReLU keeps the variance (1502.01852 eq. 10)."""
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")


class Bottleneck(nn.Module):
    """Three convolutions, the middle one with stride and groups, added to their input."""

    def __init__(self, shape: residual.Bottleneck, norm: Norm, last_norm: Norm) -> None:
        super().__init__()
        inputs, inner, outputs = shape.inputs, shape.inner, shape.outputs
        self.reduce = Conv(inputs, inner, 1)
        self.reduce_norm = norm(inner)
        self.spatial = Conv(inner, inner, 3, stride=shape.stride, groups=shape.groups)
        self.spatial_norm = norm(inner)
        self.expand = Conv(inner, outputs, 1)
        self.expand_norm = last_norm(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if shape.projects:
            self.shortcut = nn.Sequential(
                Conv(inputs, outputs, 1, stride=shape.stride), norm(outputs)
            )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, inputs, height, width) to outputs channels, `stride` times smaller."""
        made = self.relu(self.reduce_norm(self.reduce(x)))
        made = self.relu(self.spatial_norm(self.spatial(made)))
        made = self.expand_norm(self.expand(made))
        return cast("Tensor", self.relu(made + self.shortcut(x)))


class Body(nn.Module):
    """Stem and stages; returns what each stage makes.

    `last_norm` makes the norm in front of each addition, where it is not like the others.
    """

    def __init__(self, shape: residual.Body, norm: Norm, *, last_norm: Norm | None = None) -> None:
        super().__init__()
        last_norm = last_norm or norm
        self.stem = nn.Sequential(
            Conv(3, shape.stem, residual.STEM_KERNEL, stride=2),
            norm(shape.stem),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, padding=1),
        )
        self.stages = nn.ModuleList(
            nn.Sequential(*(Bottleneck(block, norm, last_norm) for block in blocks))
            for blocks in shape.stages()
        )

    def forward(self, images: Tensor) -> list[Tensor]:
        """Map images (batch, 3, height, width) to the outputs of the stages, coarser by two."""
        x = self.stem(images)
        made = []
        for stage in self.stages:
            x = stage(x)
            made.append(x)
        return made


def bottlenecks(module: nn.Module) -> list[nn.Module]:
    """Return all bottlenecks of a network, in order."""
    return [part for part in module.modules() if isinstance(part, Bottleneck)]
