"""The shape of a residual network of bottlenecks (ResNet, ResNeXt) and its counts, without torch.

Deep Residual Learning (1512.03385) table 1, with the stride in the 3 x 3 convolution (v1.5);
Aggregated Residual Transformations (1611.05431) table 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from workbench.workloads.products import Product, convolution, reduced

EXPANSION = 4
STEM_KERNEL = 7
BLOCKS = {26: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Bottlenecks in each stage, by the number of layers that the network is named after."""


@dataclass(frozen=True, kw_only=True)
class Bottleneck:
    """1 x 1 convolution to `inner` channels, 3 x 3 with stride and groups, 1 x 1 to `outputs`."""

    inputs: int
    inner: int
    outputs: int
    stride: int
    groups: int

    @property
    def projects(self) -> bool:
        """Say whether the shortcut needs a convolution: the shape changes."""
        return self.stride > 1 or self.inputs != self.outputs


@dataclass(frozen=True, kw_only=True)
class Body:
    """A stem, then stages of bottlenecks; each stage after the first doubles all widths."""

    stem: int
    """Channels of the stem."""
    inner: int
    """Channels inside the bottlenecks of the first stage."""
    groups: int
    blocks: tuple[int, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Return the output channels of each stage."""
        return tuple(EXPANSION * self.stem * 2**stage for stage in range(len(self.blocks)))

    def stages(self) -> Iterator[list[Bottleneck]]:
        """Yield the bottlenecks of each stage."""
        inputs = self.stem
        for stage, (count, outputs) in enumerate(zip(self.blocks, self.widths, strict=True)):
            made = []
            for block in range(count):
                made.append(
                    Bottleneck(
                        inputs=inputs,
                        inner=self.inner * 2**stage,
                        outputs=outputs,
                        stride=2 if stage and not block else 1,
                        groups=self.groups,
                    )
                )
                inputs = outputs
            yield made

    def sizes(self, image: int) -> tuple[int, ...]:
        """Return the side of each stage's output; the stem has made the image four times less."""
        side = reduced(reduced(image, 2), 2)
        return tuple(reduced(side, 2**stage) for stage in range(len(self.blocks)))


def products(body: Body, image: int, *, norm: int, frozen: int = 0) -> Iterator[Product]:
    """Yield the convolutions of a body for an image with three channels, `image` pixels a side.

    `norm`: trained elements of the norm behind each convolution, a channel. `frozen`: how many
    stages, the stem with them, have neither gradient nor anything in front that has one.
    """
    yield convolution(
        3,
        body.stem,
        STEM_KERNEL,
        positions=reduced(image, 2) ** 2,
        others=norm,
        trains=not frozen,
        passes=False,
    )
    side = reduced(reduced(image, 2), 2)
    for stage, blocks in enumerate(body.stages(), start=1):
        for number, block in enumerate(blocks):
            is_first = stage == frozen + 1 and number == 0
            yield from _bottleneck(
                block,
                side,
                norm=norm,
                trains=stage > frozen,
                # A body that trains from the stem on has gradients at its first bottleneck.
                enters=stage > frozen and not (frozen and is_first),
            )
            side = reduced(side, block.stride)


def _bottleneck(
    block: Bottleneck, side: int, *, norm: int, trains: bool, enters: bool
) -> Iterator[Product]:
    """Yield a bottleneck's convolutions; `enters`: its input has a gradient."""
    after = reduced(side, block.stride) ** 2
    convolve = partial(convolution, others=norm, trains=trains)
    yield convolve(block.inputs, block.inner, 1, positions=side**2, passes=enters)
    yield convolve(
        block.inner,
        block.inner,
        3,
        positions=after,
        groups=block.groups,
        passes=trains,
    )
    yield convolve(block.inner, block.outputs, 1, positions=after, passes=trains)
    if block.projects:
        yield convolve(block.inputs, block.outputs, 1, positions=after, passes=enters)
