"""The spec of the `retinanet` workload: dense detection on ResNeXt-50 and a pyramid. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from workbench.errors import UsageError
from workbench.workloads import products, residual
from workbench.workloads.fields import param
from workbench.workloads.options import ImageOptions
from workbench.workloads.products import Product, convolution, reduced

FROZEN_STAGES = 1
"""The stem and the first stage keep their pretrained weights."""
ANCHORS = 9
"""At each position: three sizes by three shapes."""
BOX = 4
"""Numbers of a box."""
TOWER = 4
"""Convolutions of each head in front of its last."""
_TAPPED = 3  # the last stages of the body, which the pyramid is built on


@dataclass(frozen=True, kw_only=True)
class RetinanetSpec(ImageOptions):
    """Shape, images and optimiser; the defaults are the preset `tiny`."""

    depth: int = param(
        26, "layers of the body; 26 has two bottlenecks a stage", choices=tuple(residual.BLOCKS)
    )
    width: int = param(16, "channels of the stem; each stage after the first doubles", minimum=1)
    groups: int = param(4, "groups of the 3 x 3 convolutions (ResNeXt's cardinality)", minimum=1)
    group_width: int = param(8, "channels of a group in the first stage", minimum=1)
    pyramid: int = param(64, "channels of the pyramid and the heads", minimum=1)
    classes: int = param(8, "classes", minimum=1)
    image: int = param(128, "pixels a side", minimum=32)
    boxes: int = param(
        8, "most boxes in an image; each image has 1 or more", minimum=1, maximum=1000
    )

    def __post_init__(self) -> None:
        """Check each field, then that graphs are not asked for where shapes change."""
        super().__post_init__()
        if self.cuda_graphs and self.boxes > 1:
            raise UsageError(
                f"cuda_graphs=true needs batches of one shape, and boxes={self.boxes} makes them "
                "ragged; leave it off, or set boxes=1."
            )

    def body(self) -> residual.Body:
        """Return the shape of the network under the pyramid."""
        return residual.Body(
            stem=self.width,
            inner=self.groups * self.group_width,
            groups=self.groups,
            blocks=residual.BLOCKS[self.depth],
        )

    def sizes(self) -> tuple[int, ...]:
        """Return the side of each level of the pyramid, from the finest."""
        tapped = self.body().sizes(self.image)[-_TAPPED:]
        sixth = reduced(tapped[-1], 2)
        return (*tapped, sixth, reduced(sixth, 2))


DISTINCTIVE = (
    "ResNeXt bottlenecks, 3 x 3 convolutions in groups, norms and first stage frozen",
    "feature pyramid of five levels, P3 to P7",
    "two heads shared by all levels, nine anchors at each position",
    "focal loss and box loss on anchors matched by overlap, ragged targets",
)
# Adam without decay is AdamW with a decay of 0.
_spec = partial(RetinanetSpec, optimizer="adamw", weight_decay=0.0)
PRESETS = {
    "tiny": _spec(batch=4, learning_rate=3e-4),
    "small": _spec(
        depth=50,
        width=64,
        groups=32,
        group_width=4,
        pyramid=256,
        classes=80,
        image=512,
        boxes=24,
        batch=8,
        learning_rate=1e-4,
        precision="bf16",
        channels_last=True,
    ),
    # mlcommons/training single_stage_detector/ssd (2023): model/retinanet.py, backbone_utils.py,
    # train.py: ResNeXt-50 32x4d, 264 classes of OpenImages, 800 x 800; rate of its RCP at 256.
    "full": _spec(
        depth=50,
        width=64,
        groups=32,
        group_width=4,
        pyramid=256,
        classes=264,
        image=800,
        boxes=24,
        batch=32,
        learning_rate=1e-4,
        precision="bf16",
        channels_last=True,
    ),
}
SUMMARY = "RetinaNet: ResNeXt-50 and a feature pyramid, focal and box loss on anchors, Adam"
INCLUDED = "body, pyramid and heads, the frozen weights too; frozen batch norms hold none"
SOURCE = "mlcommons/training single_stage_detector/ssd, model/retinanet.py (2023)"
PRESET_HELP = {
    "tiny": "26 layers, a quarter as wide, on images of 128 pixels",
    "small": "the network of full on images of 512 pixels, 80 classes",
    "full": "RetinaNet of MLPerf Training (OpenImages), 32 images of 800 pixels on each GPU",
}


def layers(spec: RetinanetSpec) -> Iterator[Product]:
    """Yield what an image passes; frozen batch norm holds no parameter."""
    yield from residual.products(spec.body(), spec.image, norm=0, frozen=FROZEN_STAGES)
    yield from _pyramid(spec)
    cells = sum(side**2 for side in spec.sizes())
    for outputs in (spec.classes, BOX):
        for _ in range(TOWER):
            yield convolution(spec.pyramid, spec.pyramid, 3, positions=cells, others=1)
        yield convolution(spec.pyramid, ANCHORS * outputs, 3, positions=cells, others=1)


def _pyramid(spec: RetinanetSpec) -> Iterator[Product]:
    """Yield a lateral and a smoothing convolution a tapped stage, then those of P6 and P7."""
    sizes = spec.sizes()
    for inputs, side in zip(spec.body().widths[-_TAPPED:], sizes[:_TAPPED], strict=True):
        yield convolution(inputs, spec.pyramid, 1, positions=side**2, others=1)
        yield convolution(spec.pyramid, spec.pyramid, 3, positions=side**2, others=1)
    for side in sizes[_TAPPED:]:
        yield convolution(spec.pyramid, spec.pyramid, 3, positions=side**2, others=1)


def parameters(spec: RetinanetSpec) -> int:
    """Count the parameters from the configuration, the frozen ones too."""
    return products.parameters(layers(spec))


def flops(spec: RetinanetSpec) -> int:
    """Count the matrix FLOPs of a step on a rank: forward, and backward as far as weights train."""
    return spec.batch * spec.accumulate * products.flops(layers(spec))
