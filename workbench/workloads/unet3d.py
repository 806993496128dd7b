"""The spec of the `unet3d` workload: 3D U-Net on crops of CT volumes. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from workbench.errors import UsageError
from workbench.workloads import products
from workbench.workloads.fields import param
from workbench.workloads.options import ImageOptions
from workbench.workloads.products import Product, convolution

_WIDEST = 10  # times the first level's channels: 32 to 320
CLASSES = 3
"""Background, kidney, tumour."""


@dataclass(frozen=True, kw_only=True)
class Unet3dSpec(ImageOptions):
    """Shape, crops and optimiser; the defaults are the preset `tiny`."""

    width: int = param(8, "channels of the first level; they double up to ten times", minimum=1)
    levels: int = param(6, "resolutions, each half the one before", minimum=2, maximum=8)
    crop: int = param(32, "voxels a side of the crop", minimum=2)

    def __post_init__(self) -> None:
        """Check each field, then that the crop can be halved at each level."""
        super().__post_init__()
        if self.crop % 2 ** (self.levels - 1):
            raise UsageError(
                f"crop={self.crop} cannot be halved {self.levels - 1} times, as levels="
                f"{self.levels} does; choose a multiple of {2 ** (self.levels - 1)}."
            )
        if self.crop == 2 ** (self.levels - 1):
            raise UsageError(
                f"crop={self.crop} leaves one voxel at the last of levels={self.levels}, and "
                "instance norm needs more; choose a larger crop or fewer levels."
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """Return the channels of each level, from the finest."""
        return tuple(self.width * min(2**level, _WIDEST) for level in range(self.levels))


DISTINCTIVE = (
    "3 x 3 x 3 convolutions with instance norm, strided on the way down",
    "transposed convolutions on the way up, joined with what came down",
    "Dice and cross-entropy loss over background, kidney and tumour",
    "SGD with Nesterov momentum",
)
_spec = partial(Unet3dSpec, optimizer="nesterov", learning_rate=0.8, weight_decay=0.0)
PRESETS = {
    "tiny": _spec(width=8, levels=5, crop=32, batch=2),
    "small": _spec(width=16, levels=6, crop=64, batch=2, precision="bf16"),
    # mlcommons/training image_segmentation/pytorch: model/unet3d.py, runtime/arguments.py (2022).
    "full": _spec(width=32, levels=6, crop=128, batch=2, precision="bf16"),
}
SUMMARY = "3D U-Net on crops of CT volumes (KiTS19), Dice and cross-entropy, SGD"
INCLUDED = "convolutions, instance norms and head"
SOURCE = "mlcommons/training image_segmentation/pytorch, model/unet3d.py (2022)"
PRESET_HELP = {
    "tiny": "a quarter as wide, on crops of 32 voxels a side",
    "small": "half as wide, on crops of 64 voxels a side",
    "full": "3D U-Net of MLPerf Training (KiTS19), two crops of 128 voxels a side",
}


def layers(spec: Unet3dSpec) -> Iterator[Product]:
    """Yield what a crop passes; an instance norm has a scale and a shift for each channel."""
    widths = spec.widths
    side = spec.crop
    yield from _pair(1, widths[0], side, passes=False)
    for inputs, outputs in pairwise(widths):
        side //= 2
        yield from _pair(inputs, outputs, side)
    for inputs, outputs in pairwise(reversed(widths)):
        yield convolution(inputs, outputs, 2, positions=side**3, dims=3, others=1)
        side *= 2
        yield from _pair(2 * outputs, outputs, side)
    yield convolution(widths[0], CLASSES, 1, positions=side**3, dims=3, others=1)


def _pair(inputs: int, outputs: int, side: int, *, passes: bool = True) -> Iterator[Product]:
    convolve = partial(convolution, positions=side**3, dims=3, others=2)
    yield convolve(inputs, outputs, 3, passes=passes)
    yield convolve(outputs, outputs, 3)


def parameters(spec: Unet3dSpec) -> int:
    """Count the parameters from the configuration."""
    return products.parameters(layers(spec))


def flops(spec: Unet3dSpec) -> int:
    """Count the matrix FLOPs of a step on a rank: forward, and backward without the crops' own."""
    return spec.batch * spec.accumulate * products.flops(layers(spec))
