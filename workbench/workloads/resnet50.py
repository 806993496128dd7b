"""The spec of the `resnet50` workload: ResNet-50 v1.5 on labelled images. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.workloads import products, residual
from workbench.workloads.fields import param
from workbench.workloads.options import ImageOptions
from workbench.workloads.products import Product, linear


@dataclass(frozen=True, kw_only=True)
class Resnet50Spec(ImageOptions):
    """Shape, images and optimiser; the defaults are the preset `tiny`."""

    depth: int = param(
        26, "layers; 26 has two bottlenecks in each stage", choices=tuple(residual.BLOCKS)
    )
    width: int = param(32, "channels of the stem; each stage after the first doubles", minimum=1)
    classes: int = param(16, "classes", minimum=2)
    image: int = param(64, "pixels a side", minimum=32)
    label_smoothing: float = param(
        0.1, "share of the label spread over all classes", minimum=0, maximum=1
    )

    def body(self) -> residual.Body:
        """Return the shape of the network in front of the pooling."""
        blocks = residual.BLOCKS[self.depth]
        return residual.Body(stem=self.width, inner=self.width, groups=1, blocks=blocks)


DISTINCTIVE = (
    "bottlenecks with the stride in the 3 x 3 convolution (v1.5), in four stages",
    "projection shortcuts and batch norm",
    "softmax over smoothed labels",
    "SGD with momentum, or LARS",
)
PRESETS = {
    "tiny": Resnet50Spec(batch=16, optimizer="sgd", learning_rate=0.03, weight_decay=5e-5),
    "small": Resnet50Spec(
        depth=50,
        width=64,
        classes=1000,
        image=160,
        batch=64,
        optimizer="sgd",
        learning_rate=0.1,
        weight_decay=5e-5,
        precision="bf16",
        channels_last=True,
    ),
    # ResNet-50 of 1512.03385 table 1; torchvision counts 25,557,032 parameters (2026-10).
    # The rate is our own: those of MLPerf are for several thousand images.
    "full": Resnet50Spec(
        depth=50,
        width=64,
        classes=1000,
        image=224,
        batch=256,
        optimizer="lars",
        learning_rate=2.0,
        weight_decay=5e-5,
        precision="bf16",
        channels_last=True,
    ),
}
SUMMARY = "ResNet-50 v1.5 on labelled images, SGD with momentum or LARS"
INCLUDED = "convolutions, batch norms and head"
SOURCE = "arXiv 1512.03385 table 1; torchvision ResNet50_Weights, num_params (2026-10)"
PRESET_HELP = {
    "tiny": "26 layers, half as wide, on images of 64 pixels",
    "small": "ResNet-50 on images of 160 pixels",
    "full": "ResNet-50 v1.5 on images of 224 pixels, 256 on each GPU",
}


def layers(spec: Resnet50Spec) -> Iterator[Product]:
    """Yield what an image passes; a batch norm has a scale and a shift for each channel."""
    body = spec.body()
    yield from residual.products(body, spec.image, norm=2)
    yield linear(body.widths[-1], spec.classes)


def parameters(spec: Resnet50Spec) -> int:
    """Count the parameters from the configuration."""
    return products.parameters(layers(spec))


def flops(spec: Resnet50Spec) -> int:
    """Count the matrix FLOPs of a step on a rank: forward, and backward without the images' own."""
    return spec.batch * spec.accumulate * products.flops(layers(spec))
