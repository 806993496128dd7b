"""The `flux1` workload as torch modules: a DiT with two streams, then one, on latents and text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn

from workbench.workloads.flux1 import LATENT_CHANNELS, MLP_RATIO, PATCH, TIME_WIDTH, Flux1Spec

_SLOWEST = 10_000.0
_TIME_SCALE = 1000.0
_EPS = 1e-6


class Rotation(NamedTuple):
    """Cosine and sine of each pair of a head at each token, (tokens, head width / 2)."""

    cos: Tensor
    sin: Tensor


class Linear(nn.Linear):
    """A linear layer whose weights begin as Xavier draws them, its bias at 0."""

    def reset_parameters(self) -> None:
        """Draw the weights."""
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)


class ZeroLinear(nn.Linear):
    """A linear layer that begins at 0: the block around it begins as if it were not there."""

    def reset_parameters(self) -> None:
        """Set weights and bias."""
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


class Positions(nn.Module):
    """Rotary angles: text stands at the origin, an image token at its row and column."""

    cos: Tensor
    sin: Tensor

    def __init__(self, spec: Flux1Spec) -> None:
        super().__init__()
        self.spec = spec
        shape = (spec.tokens_per_sample, spec.head_width // 2)
        for name in Rotation._fields:
            self.register_buffer(name, torch.empty(shape), persistent=False)

    def reset_parameters(self) -> None:
        """Set the tables."""
        angles = _angles(self.spec)
        self.cos.copy_(angles.cos())
        self.sin.copy_(angles.sin())

    def forward(self) -> Rotation:
        """Return the tables."""
        return Rotation(self.cos, self.sin)


class Embed(nn.Module):
    """Two linear layers that make a vector of the model's width."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.enter = Linear(inputs, hidden)
        self.leave = Linear(hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, inputs) to (batch, hidden)."""
        return cast("Tensor", self.leave(F.silu(self.enter(x))))


class Modulation(nn.Module):
    """Shifts, scales and gates for a block, from the vector of time and text."""

    def __init__(self, hidden: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.project = ZeroLinear(hidden, count * hidden)

    def forward(self, vector: Tensor) -> tuple[Tensor, ...]:
        """Map (batch, hidden) to `count` tensors (batch, 1, hidden)."""
        made = self.project(F.silu(vector)).unsqueeze(1)
        return cast("tuple[Tensor, ...]", made.chunk(self.count, dim=-1))


class Heads(nn.Module):
    """Queries, keys and values of one product as heads; queries and keys normalised."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.query_norm = nn.RMSNorm(width, eps=_EPS)
        self.key_norm = nn.RMSNorm(width, eps=_EPS)

    def forward(self, product: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map (batch, tokens, 3 x hidden) to three of (batch, heads, tokens, width)."""
        parts = product.view(*product.shape[:-1], 3, -1, self.width).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind()
        return self.query_norm(query), self.key_norm(key), value


class Stream(nn.Module):
    """One stream of a double block: what comes before and after the attention they share."""

    def __init__(self, hidden: int, head_width: int) -> None:
        super().__init__()
        self.modulation = Modulation(hidden, 6)
        self.norm = nn.LayerNorm(hidden, eps=_EPS, elementwise_affine=False)
        self.qkv = Linear(hidden, 3 * hidden)
        self.heads = Heads(head_width)
        self.project = Linear(hidden, hidden)
        self.mlp = nn.Sequential(
            Linear(hidden, MLP_RATIO * hidden),
            nn.GELU(approximate="tanh"),
            Linear(MLP_RATIO * hidden, hidden),
        )

    def ask(self, x: Tensor, shift: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of (batch, tokens, hidden)."""
        heads = self.heads(self.qkv(modulate(self.norm(x), shift, scale)))
        return cast("tuple[Tensor, Tensor, Tensor]", heads)

    def take(self, x: Tensor, attended: Tensor, *modulation: Tensor) -> Tensor:
        """Add what attention found, then what the MLP makes of it."""
        gate, shift, scale, mlp_gate = modulation
        x = x + gate * self.project(attended)
        return x + mlp_gate * cast("Tensor", self.mlp(modulate(self.norm(x), shift, scale)))


class DoubleBlock(nn.Module):
    """Text and image with weights of their own; attention over both together."""

    def __init__(self, hidden: int, head_width: int) -> None:
        super().__init__()
        self.text = Stream(hidden, head_width)
        self.image = Stream(hidden, head_width)

    def forward(
        self, text: Tensor, image: Tensor, vector: Tensor, rotation: Rotation
    ) -> tuple[Tensor, Tensor]:
        """Map text and image (batch, tokens, hidden) to the same shapes."""
        text_shift, text_scale, *text_rest = self.text.modulation(vector)
        image_shift, image_scale, *image_rest = self.image.modulation(vector)
        of_text = self.text.ask(text, text_shift, text_scale)
        of_image = self.image.ask(image, image_shift, image_scale)
        both = [torch.cat(pair, dim=2) for pair in zip(of_text, of_image, strict=True)]
        attended = attend(both, rotation)
        count = text.shape[1]
        text = self.text.take(text, attended[:, :count], *text_rest)
        return text, self.image.take(image, attended[:, count:], *image_rest)


class SingleBlock(nn.Module):
    """One stream; attention and MLP side by side, in one product before and one after."""

    def __init__(self, hidden: int, head_width: int) -> None:
        super().__init__()
        self.split = (3 * hidden, MLP_RATIO * hidden)
        self.modulation = Modulation(hidden, 3)
        self.norm = nn.LayerNorm(hidden, eps=_EPS, elementwise_affine=False)
        self.enter = Linear(hidden, sum(self.split))
        self.heads = Heads(head_width)
        self.leave = Linear(hidden + MLP_RATIO * hidden, hidden)

    def forward(self, x: Tensor, vector: Tensor, rotation: Rotation) -> Tensor:
        """Map (batch, tokens, hidden) to the same shape."""
        shift, scale, gate = self.modulation(vector)
        made = self.enter(modulate(self.norm(x), shift, scale))
        qkv, wide = made.split(self.split, dim=-1)
        attended = attend(self.heads(qkv), rotation)
        joined = torch.cat((attended, F.gelu(wide, approximate="tanh")), dim=-1)
        left: Tensor = x + gate * self.leave(joined)
        return left


class Flux(nn.Module):
    """Latents, time and text to the velocity of flow matching, and the loss."""

    def __init__(self, spec: Flux1Spec) -> None:
        super().__init__()
        hidden, width = spec.hidden, spec.head_width
        self.side = spec.side
        self.positions = Positions(spec)
        self.image_in = Linear(spec.channels, hidden)
        self.text_in = Linear(spec.text_width, hidden)
        self.time_in = Embed(TIME_WIDTH, hidden)
        self.pooled_in = Embed(spec.pooled_width, hidden)
        self.double_blocks = nn.ModuleList(
            DoubleBlock(hidden, width) for _ in range(spec.double_blocks)
        )
        self.single_blocks = nn.ModuleList(
            SingleBlock(hidden, width) for _ in range(spec.single_blocks)
        )
        self.modulation = Modulation(hidden, 2)
        self.norm = nn.LayerNorm(hidden, eps=_EPS, elementwise_affine=False)
        self.head = ZeroLinear(hidden, spec.channels)

    def forward(self, latents: Tensor, text: Tensor, pooled: Tensor) -> Tensor:
        """Return the mean squared error of the velocity, noise - latents, at a random time.

        latents (batch, 16, side, side), text (batch, tokens, text width), pooled (batch, width).
        Times are logistic-normal: Stable Diffusion 3 (2403.03206) section 3.1.
        """
        picture = patches(latents)
        noise = torch.randn_like(picture)
        time = torch.randn(len(picture), device=picture.device).sigmoid()
        blend = time.to(picture.dtype).view(-1, 1, 1)
        velocity = self.velocity((1 - blend) * picture + blend * noise, text, pooled, time)
        return F.mse_loss(velocity.float(), (noise - picture).float())

    def velocity(self, picture: Tensor, text: Tensor, pooled: Tensor, time: Tensor) -> Tensor:
        """Return the velocity (batch, tokens, channels) of a noisy picture of that shape."""
        rotation = self.positions()
        told = sinusoids(time).to(picture.dtype)
        vector = self.time_in(told) + self.pooled_in(pooled)
        text, picture = self.text_in(text), self.image_in(picture)
        for block in self.double_blocks:
            text, picture = block(text, picture, vector, rotation)
        both = torch.cat((text, picture), dim=1)
        for block in self.single_blocks:
            both = block(both, vector, rotation)
        shift, scale = self.modulation(vector)
        picture = both[:, text.shape[1] :]
        return cast("Tensor", self.head(modulate(self.norm(picture), shift, scale)))


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Return x scaled and shifted, the scale counted from 1."""
    return x * (1 + scale) + shift


def attend(heads: Sequence[Tensor], rotation: Rotation) -> Tensor:
    """Map queries, keys, values (batch, heads, tokens, width) to (batch, tokens, heads x width)."""
    query, key, value = heads
    query, key = (rotate(x, rotation).to(value.dtype) for x in (query, key))
    mixed = F.scaled_dot_product_attention(query, key, value)
    return mixed.transpose(1, 2).flatten(-2)


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn each pair (x[2i], x[2i + 1]) of the last dimension by its token's angle."""
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = rotation
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def sinusoids(time: Tensor) -> Tensor:
    """Return cosines and sines (batch, 256) of times (batch) from 0 to 1."""
    half = TIME_WIDTH // 2
    steps = torch.arange(half, dtype=torch.float32, device=time.device)
    angles = _TIME_SCALE * time.float()[:, None] * torch.exp(-math.log(_SLOWEST) / half * steps)
    return torch.cat((angles.cos(), angles.sin()), dim=1)


def patches(latents: Tensor) -> Tensor:
    """Map latents (batch, channels, rows, columns) to tokens (batch, tokens, channels x 4)."""
    count, channels, rows, columns = latents.shape
    squares = latents.reshape(count, channels, rows // PATCH, PATCH, columns // PATCH, PATCH)
    return squares.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def model(spec: Flux1Spec) -> nn.Module:
    """Build the network with its loss."""
    return Flux(spec)


def blocks(module: nn.Module) -> list[nn.Module]:
    """Return the blocks of both kinds."""
    flux = cast("Flux", module)
    return [*flux.double_blocks, *flux.single_blocks]


def batch(spec: Flux1Spec, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Return latents (batch, 16, side, side), text (batch, tokens, width), pooled (batch, width).

    The latents' channels follow the pooled text. Left-out text is zeros.
    """
    pooled = torch.randn(spec.batch, spec.pooled_width, generator=generator)
    text = torch.randn(spec.batch, spec.text, spec.text_width, generator=generator)
    side = spec.side * PATCH
    shape = (spec.batch, LATENT_CHANNELS, side, side)
    channels = pooled[:, torch.arange(LATENT_CHANNELS) % spec.pooled_width]
    latents = channels[:, :, None, None] + 0.1 * torch.randn(shape, generator=generator)
    has_text = torch.rand(spec.batch, generator=generator) >= spec.no_text
    return latents, text * has_text[:, None, None], pooled * has_text[:, None]


def _angles(spec: Flux1Spec) -> Tensor:
    """Return the angle of each pair at each token; RoFormer (2104.09864) eq. 34, in each axis."""
    rows, columns = torch.meshgrid(torch.arange(spec.side), torch.arange(spec.side), indexing="ij")
    image = torch.stack((torch.zeros_like(rows), rows, columns), dim=-1).flatten(0, 1)
    places = torch.cat((torch.zeros(spec.text, 3), image.float()))
    turned = []
    for place, width in zip(places.T, spec.axes, strict=True):
        frequency = spec.rope_theta ** (-torch.arange(0, width, 2) / width)
        turned.append(torch.outer(place, frequency))
    return torch.cat(turned, dim=1)
