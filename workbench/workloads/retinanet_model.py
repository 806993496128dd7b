"""The `retinanet` workload as torch modules, with images of coloured rectangles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn

from workbench.workloads import retinanet_loss as losses
from workbench.workloads.residual_model import Body, bottlenecks
from workbench.workloads.retinanet import ANCHORS, BOX, FROZEN_STAGES, TOWER, RetinanetSpec

_NOISE = 0.5
_LAST_SCALE = 0.5


class FrozenBatchNorm(nn.Module):
    """Batch norm that stays as pretraining left it: a scale and a shift.

    Without a checkpoint they are constants, which keep the sum of many bottlenecks in bounds.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, channels: int, first: float = 1.0) -> None:
        super().__init__()
        self.first = first
        self.register_buffer("scale", torch.empty(channels, 1, 1))
        self.register_buffer("shift", torch.empty(channels, 1, 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the constants."""
        nn.init.constant_(self.scale, self.first)
        nn.init.zeros_(self.shift)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to the same shape."""
        return x * self.scale.to(x.dtype) + self.shift.to(x.dtype)


class Pyramid(nn.Module):
    """Five levels from three: what is coarse is enlarged and added to what is fine.

    Feature Pyramid Networks (1612.03144), with P6 and P7 from strided convolutions of P5.
    """

    def __init__(self, widths: tuple[int, ...], channels: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(width, channels, 1) for width in widths)
        self.smooth = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in widths)
        self.sixth = nn.Conv2d(channels, channels, 3, 2, padding=1)
        self.seventh = nn.Conv2d(channels, channels, 3, 2, padding=1)

    def forward(self, stages: list[Tensor]) -> list[Tensor]:
        """Map the tapped stages to P3 ... P7, each (batch, channels, side, side)."""
        sums = [self.lateral[-1](stages[-1])]
        for lateral, stage in zip(self.lateral[-2::-1], stages[-2::-1], strict=True):
            fine = lateral(stage)
            sums.append(fine + F.interpolate(sums[-1], size=fine.shape[-2:]))
        levels = [smooth(x) for smooth, x in zip(self.smooth, reversed(sums), strict=True)]
        sixth = self.sixth(levels[-1])
        return [*levels, sixth, self.seventh(sixth.relu())]


class HeadConv(nn.Conv2d):
    """A 3 x 3 convolution of a head: small weights, one value as bias."""

    def __init__(self, inputs: int, outputs: int, first_bias: float = 0.0) -> None:
        self.first_bias = first_bias
        super().__init__(inputs, outputs, 3, padding=1)

    def reset_parameters(self) -> None:
        """Draw weights with a deviation of 0.01 (1708.02002 section 4.1) at 256 channels.

        It is larger for fewer, so that a tower of them weakens the signal no more.
        """
        nn.init.normal_(self.weight, std=0.01 * (256 / self.in_channels) ** 0.5)
        if self.bias is not None:
            nn.init.constant_(self.bias, self.first_bias)


class Head(nn.Module):
    """Four convolutions, and one that makes `outputs` numbers for each anchor."""

    def __init__(self, channels: int, outputs: int, first_bias: float = 0.0) -> None:
        super().__init__()
        self.outputs = outputs
        tower: list[nn.Module] = []
        for _ in range(TOWER):
            # In place it would spoil what selective recomputation keeps.
            tower += [HeadConv(channels, channels), nn.ReLU()]
        self.tower = nn.Sequential(*tower, HeadConv(channels, ANCHORS * outputs, first_bias))

    def forward(self, level: Tensor) -> Tensor:
        """Map a level (batch, channels, side, side) to (batch, anchors of the level, outputs)."""
        made: Tensor = self.tower(level)
        return made.permute(0, 2, 3, 1).reshape(made.shape[0], -1, self.outputs)


class Detector(nn.Module):
    """Body, pyramid, heads and losses."""

    anchors: Tensor

    def __init__(self, spec: RetinanetSpec) -> None:
        super().__init__()
        self.sizes, self.image = spec.sizes(), spec.image
        shape = spec.body()
        last_norm = partial(FrozenBatchNorm, first=_LAST_SCALE)
        self.body = Body(shape, FrozenBatchNorm, last_norm=last_norm)
        for part in _frozen(self.body):
            part.requires_grad_(False)
        self.pyramid = Pyramid(shape.widths[FROZEN_STAGES:], spec.pyramid)
        self.classes = Head(spec.pyramid, spec.classes, losses.prior())
        self.offsets = Head(spec.pyramid, BOX)
        count = ANCHORS * sum(side**2 for side in self.sizes)
        self.register_buffer("anchors", torch.empty(count, BOX), persistent=False)

    def reset_parameters(self) -> None:
        """Set the anchors."""
        self.anchors.copy_(losses.anchors(self.sizes, self.image))

    def forward(self, images: Tensor, *targets: Tensor) -> Tensor:
        """Return the mean loss of images (batch, 3, side, side).

        `targets`: the boxes (boxes, 4) of each image, then the classes (boxes) of each.
        """
        levels = self.pyramid(self.body(images)[FROZEN_STAGES:])
        logits = torch.cat([self.classes(level) for level in levels], dim=1).float()
        offsets = torch.cat([self.offsets(level) for level in levels], dim=1).float()
        boxes, classes = targets[: len(images)], targets[len(images) :]
        each = [self._loss(*image) for image in zip(logits, offsets, boxes, classes, strict=True)]
        return torch.stack(each).mean()

    def _loss(self, logits: Tensor, offsets: Tensor, boxes: Tensor, classes: Tensor) -> Tensor:
        """Return the loss of one image."""
        boxes = boxes.float()  # whole pixels, so that no precision of the data rounds them
        index, is_hit, counts = losses.match(boxes, self.anchors)
        return losses.class_loss(logits, classes[index], is_hit, counts) + losses.box_loss(
            offsets, boxes[index], self.anchors, is_hit
        )


def model(spec: RetinanetSpec) -> nn.Module:
    """Build the network with its losses."""
    return Detector(spec)


def blocks(module: nn.Module) -> list[nn.Module]:
    """Return the bottlenecks that train."""
    trained = [part for part in bottlenecks(module) if next(part.parameters()).requires_grad]
    heads = [part for part in module.modules() if isinstance(part, Head)]
    return [*trained, *heads]


def batch(spec: RetinanetSpec, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Return images (batch, 3, side, side), boxes (boxes, 4) of each, classes (boxes) of each.

    A box is a rectangle in the colour of its class, under noise.
    """
    shape = (spec.batch, 3, spec.image, spec.image)
    images = _NOISE * torch.randn(shape, generator=generator)
    counts = torch.randint(1, spec.boxes + 1, (spec.batch,), generator=generator).tolist()
    boxes = [_boxes(count, spec.image, generator) for count in counts]
    classes = [torch.randint(spec.classes, (count,), generator=generator) for count in counts]
    for image, its_boxes, its_classes in zip(images, boxes, classes, strict=True):
        for box, kind in zip(its_boxes.tolist(), its_classes.tolist(), strict=True):
            image[:, box[1] : box[3], box[0] : box[2]] += _colour(kind)
    return images, *boxes, *classes


def _boxes(count: int, image: int, generator: torch.Generator) -> Tensor:
    """Return boxes of a twelfth to a half of the image, at whole pixels."""
    size = image / 12 + image * 5 / 12 * torch.rand(count, 2, generator=generator)
    corner = (image - size) * torch.rand(count, 2, generator=generator)
    return torch.cat((corner, corner + size), dim=1).round().long()


def _colour(kind: int) -> Tensor:
    """Return one of 27 colours, with a brightness that tells further classes apart."""
    digits = torch.tensor([kind % 3, kind // 3 % 3, kind // 9 % 3], dtype=torch.float32)
    return (digits - 1 + 0.5 * (1 + kind // 27)).view(3, 1, 1)


def _frozen(body: Body) -> Iterator[nn.Module]:
    yield body.stem
    yield from body.stages[:FROZEN_STAGES]
