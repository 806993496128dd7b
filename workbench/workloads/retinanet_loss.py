"""RetinaNet's anchors, how they are matched with boxes, and the two losses.

Focal Loss for Dense Object Detection (1708.02002). Boxes are (x1, y1, x2, y2) in pixels. Anchors
that count are chosen by masks, never gathered: how many there are stays on the device.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor

_OCTAVE = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
_SHAPES = (0.5, 1.0, 2.0)
_SMALLEST = 32  # pixels of the smallest anchor of the finest level; each level doubles
_FOREGROUND, _BACKGROUND = 0.5, 0.4
_ALPHA, _GAMMA = 0.25, 2.0


def anchors(sizes: tuple[int, ...], image: int) -> Tensor:
    """Return all anchors (anchors, 4), by level, row, column, size and shape.

    An anchor's shape is its height over its width.
    """
    made = []
    for level, side in enumerate(sizes):
        smallest = _SMALLEST * 2**level
        scales = torch.tensor([int(smallest * octave) for octave in _OCTAVE]).view(-1, 1)
        root = torch.tensor(_SHAPES).sqrt()
        width, height = (scales / root).flatten(), (scales * root).flatten()
        around = (torch.stack((-width, -height, width, height), dim=1) / 2).round()
        steps = torch.arange(side) * (image // side)
        y, x = torch.meshgrid(steps, steps, indexing="ij")
        corners = torch.stack((x, y, x, y), dim=-1).view(-1, 1, 4)
        made.append((corners + around).view(-1, 4))
    return torch.cat(made)


def overlap(boxes: Tensor, others: Tensor) -> Tensor:
    """Return intersection over union of each box with each other one (boxes, others)."""
    low = torch.maximum(boxes[:, None, :2], others[:, :2])
    high = torch.minimum(boxes[:, None, 2:], others[:, 2:])
    shared = (high - low).clamp(min=0).prod(dim=2)
    return shared / (_area(boxes)[:, None] + _area(others) - shared)


def match(boxes: Tensor, against: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return for each anchor in `against` the index of its box, and masks: a hit, counted.

    A hit overlaps by half or more, or is the best that a box has; anchors between background and
    hit do not count.
    """
    ratio = overlap(boxes, against)
    best, index = ratio.max(dim=0)
    closest = ((ratio == ratio.amax(dim=1, keepdim=True)) & (ratio > 0)).any(dim=0)
    is_hit = (best >= _FOREGROUND) | closest
    return index, is_hit, is_hit | (best < _BACKGROUND)


def class_loss(logits: Tensor, classes: Tensor, is_hit: Tensor, counts: Tensor) -> Tensor:
    """Return the focal loss over (anchors, classes), a hit; `classes` (anchors) holds of hits.

    -alpha_t (1 - p_t)^gamma log(p_t), eq. 5.
    """
    truth = F.one_hot(classes, logits.shape[1]).to(logits.dtype) * is_hit[:, None]
    cross_entropy = F.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    chance = logits.sigmoid()
    miss = chance * (1 - truth) + (1 - chance) * truth
    weight = _ALPHA * truth + (1 - _ALPHA) * (1 - truth)
    focal = weight * miss**_GAMMA * cross_entropy * counts[:, None]
    return focal.sum() / is_hit.sum().clamp(min=1)


def box_loss(offsets: Tensor, boxes: Tensor, against: Tensor, is_hit: Tensor) -> Tensor:
    """Return the mean L1 distance of predicted offsets (anchors, 4) from the matched boxes, a hit.

    Offsets are of the centre in sizes of the anchor, and of the logarithm of the size.
    """
    distance = (offsets - encode(boxes, against)).abs() * is_hit[:, None]
    return distance.sum() / is_hit.sum().clamp(min=1)


def encode(boxes: Tensor, against: Tensor) -> Tensor:
    """Return boxes (anchors, 4) as offsets from anchors; Fast R-CNN (1311.2524) eq. 6-9."""
    centre, size = _middle(boxes)
    anchor_centre, anchor_size = _middle(against)
    return torch.cat(((centre - anchor_centre) / anchor_size, (size / anchor_size).log()), dim=1)


def prior(chance: float = 0.01) -> float:
    """Return the bias with which each class begins at a small chance (section 4.1)."""
    return -math.log((1 - chance) / chance)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[:, 2:] - boxes[:, :2]).prod(dim=1)


def _middle(boxes: Tensor) -> tuple[Tensor, Tensor]:
    size = boxes[:, 2:] - boxes[:, :2]
    return boxes[:, :2] + size / 2, size
