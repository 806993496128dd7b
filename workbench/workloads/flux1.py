"""The spec of the `flux1` workload: text to image by flow matching in a DiT. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from workbench.errors import UsageError
from workbench.workloads import products
from workbench.workloads.fields import param
from workbench.workloads.options import AttentionOptions
from workbench.workloads.products import Product, linear

LATENT_CHANNELS = 16
"""Channels of the VAE's latents."""
DOWNSCALE = 8
"""Pixels a side that one latent stands for."""
PATCH = 2
"""Latents a side that make one image token."""
TIME_WIDTH = 256
"""Width of the sinusoids that a time is told by."""
MLP_RATIO = 4
_AXES = (1 / 8, 7 / 16, 7 / 16)  # 16, 56 and 56 of 128: kind, row, column


@dataclass(frozen=True, kw_only=True)
class Flux1Spec(AttentionOptions):
    """Shape, encodings and optimiser; the defaults are the preset `tiny`."""

    double_blocks: int = param(2, "blocks with a stream for text and one for image", minimum=1)
    single_blocks: int = param(2, "blocks with one stream for both", minimum=1)
    hidden: int = param(128, "width of both streams", minimum=16)
    heads: int = param(4, "attention heads", minimum=1)
    rope_theta: float = param(10_000.0, "base of the rotary position frequencies", minimum=1)
    image: int = param(128, "pixels a side of the image that the latents stand for", minimum=16)
    text: int = param(32, "tokens of the text encoding", minimum=1)
    text_width: int = param(256, "width of the text encoding (T5-XXL: 4096)", minimum=1)
    pooled_width: int = param(64, "width of the pooled text encoding (CLIP: 768)", minimum=1)
    no_text: float = param(
        0.447, "share of samples whose text is left out, for guidance", minimum=0, maximum=1
    )

    def __post_init__(self) -> None:
        """Check each field, then those that make tokens and heads."""
        super().__post_init__()
        if self.image % (DOWNSCALE * PATCH):
            raise UsageError(
                f"image={self.image} is not a multiple of {DOWNSCALE * PATCH}, the pixels a side "
                "of one token."
            )
        if self.hidden % (16 * self.heads):
            raise UsageError(
                f"hidden={self.hidden} over heads={self.heads} does not make heads of a multiple "
                "of 16; rotary positions share a head between kind, row and column as 2:7:7."
            )

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.hidden // self.heads

    @property
    def axes(self) -> tuple[int, ...]:
        """Return the share of a head that turns by kind, row and column of a token."""
        return tuple(int(self.head_width * share) for share in _AXES)

    @property
    def side(self) -> int:
        """Return the image tokens of a row."""
        return self.image // (DOWNSCALE * PATCH)

    @property
    def tokens_per_sample(self) -> int:
        """Return the tokens of text and image together."""
        return self.text + self.side**2

    @property
    def channels(self) -> int:
        """Return the latent numbers of one image token."""
        return LATENT_CHANNELS * PATCH**2


DISTINCTIVE = (
    "double-stream blocks: text and image with weights of their own, attention over both",
    "single-stream blocks: attention and MLP side by side in two products",
    "modulation by time and pooled text, RMS norm of queries and keys, rotary positions in 2D",
    "flow matching on latents, text encodings and latents as inputs",
)
_spec = partial(Flux1Spec, optimizer="adamw", weight_decay=0.1)
PRESETS = {
    "tiny": _spec(batch=4, learning_rate=5e-3),
    "small": _spec(
        double_blocks=4,
        single_blocks=8,
        hidden=1536,
        heads=12,
        image=256,
        text=256,
        text_width=4096,
        pooled_width=768,
        batch=8,
        learning_rate=2e-4,
        clip_norm=1.0,
        precision="bf16",
    ),
    # FLUX.1-schnell as in mlcommons/training text_to_image/README (2025) and torchtitan's flux
    # model: 19 + 38 blocks, 3072 wide, 24 heads, 256 x 256 pixels, 256 T5 tokens; RCP at 512.
    "full": _spec(
        double_blocks=19,
        single_blocks=38,
        hidden=3072,
        heads=24,
        image=256,
        text=256,
        text_width=4096,
        pooled_width=768,
        batch=16,
        learning_rate=2e-4,
        clip_norm=1.0,
        precision="bf16",
        parallel="fsdp",
    ),
}
SUMMARY = "FLUX.1: DiT of double- and single-stream blocks, flow matching on latents, AdamW"
INCLUDED = "all blocks and embeddings; text encoders and VAE are inputs"
SOURCE = "mlcommons/training text_to_image, README (2025); torchtitan flux model (2025)"
PRESET_HELP = {
    "tiny": "two blocks of each kind, on latents of 128 pixels a side",
    "small": "half as wide, a fifth as deep, on latents of 256 pixels a side",
    "full": "FLUX.1-schnell of MLPerf Training, 11.9 billion parameters; needs sharding",
}


def layers(spec: Flux1Spec) -> Iterator[Product]:
    """Yield what a sample passes, without attention itself and the norms of queries and keys."""
    hidden, picture = spec.hidden, spec.side**2
    yield linear(spec.channels, hidden, rows=picture, passes=False)
    yield linear(spec.text_width, hidden, rows=spec.text, passes=False)
    for width in (TIME_WIDTH, spec.pooled_width):
        yield linear(width, hidden, passes=False)
        yield linear(hidden, hidden)
    for _ in range(spec.double_blocks):
        yield from _stream(hidden, picture)
        yield from _stream(hidden, spec.text)
    for _ in range(spec.single_blocks):
        yield linear(hidden, 3 * hidden)
        yield linear(hidden, (3 + MLP_RATIO) * hidden, rows=spec.tokens_per_sample)
        yield linear((1 + MLP_RATIO) * hidden, hidden, rows=spec.tokens_per_sample)
    yield linear(hidden, 2 * hidden)
    yield linear(hidden, spec.channels, rows=picture)


def _stream(hidden: int, rows: int) -> Iterator[Product]:
    """Yield one stream of a double block: modulation, queries to values, projection, MLP."""
    yield linear(hidden, 6 * hidden)
    yield linear(hidden, 3 * hidden, rows=rows)
    yield linear(hidden, hidden, rows=rows)
    yield linear(hidden, MLP_RATIO * hidden, rows=rows)
    yield linear(MLP_RATIO * hidden, hidden, rows=rows)


def parameters(spec: Flux1Spec) -> int:
    """Count the parameters from the configuration."""
    norms = 2 * spec.head_width * (2 * spec.double_blocks + spec.single_blocks)
    return products.parameters(layers(spec)) + norms


def flops(spec: Flux1Spec) -> int:
    """Count the matrix FLOPs of a step on a rank: forward, and backward without the data's own.

    Attention is two products forward and four backward, over all pairs of tokens.
    """
    blocks = spec.double_blocks + spec.single_blocks
    attention = 6 * 2 * spec.tokens_per_sample**2 * spec.hidden * blocks
    return spec.batch * spec.accumulate * (products.flops(layers(spec)) + attention)
