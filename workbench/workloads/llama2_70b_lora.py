"""Llama 2 70B with low-rank adapters over frozen weights: MLPerf's `llama2_70b_lora`."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.workloads.counting import FROZEN, TRAINING, attention, causal_pairs_twice
from workbench.workloads.fields import param
from workbench.workloads.gpt import GptSpec
from workbench.workloads.gpt import parameters as decoder_parameters


@dataclass(frozen=True, kw_only=True)
class LoraSpec(GptSpec):
    """The decoder, with adapters of `rank` beside the fused query-key-value matrix and the output.

    y = W x + (alpha / rank) B A dropout(x); LoRA (2106.09685), section 4.1. W is frozen.
    """

    rank: int = param(4, "width inside an adapter", minimum=1)
    alpha: float = param(8.0, "an adapter's output is scaled by alpha / rank", minimum=0)
    dropout: float = param(
        0.1, "share of an adapter's inputs that is dropped", minimum=0, maximum=1
    )

    def transformer(self) -> None:
        """`costs.transformer` counts the gradients of every weight, and these are frozen."""


def parameters(spec: LoraSpec) -> int:
    """Return how many parameters the model has, frozen and trained."""
    return decoder_parameters(spec) + trained(spec)


def trained(spec: LoraSpec) -> int:
    """Return how many of the parameters are trained: A and B of two adapters a layer."""
    return spec.layers * sum(n * spec.rank + spec.rank * m for n, m in _adapted(spec))


def flops(spec: LoraSpec) -> int:
    """Return the FLOPs of one training step on a rank, by the convention of `counting`.

    Frozen matrices have no gradient of weights; what enters the first layer needs none of inputs.
    """
    (hidden, qkv), (_, out) = _adapted(spec)
    halves = 3 if spec.activation == "swiglu" else 2
    frozen = spec.layers * (hidden * qkv + hidden * out + halves * hidden * spec.ffn)
    frozen += hidden * spec.vocab
    unneeded = hidden * qkv + hidden * spec.rank
    weighed = FROZEN * frozen + TRAINING * trained(spec) - unneeded
    attended = attention(spec.heads, 2 * spec.head_dim, causal_pairs_twice(spec.seq))
    whole = 2 * spec.seq * weighed + TRAINING * spec.layers * attended
    return spec.samples_per_step * whole


def _adapted(spec: LoraSpec) -> list[tuple[int, int]]:
    """Return inputs and outputs of the two matrices that have adapters."""
    return [
        (spec.hidden, spec.hidden + 2 * spec.kv_heads * spec.head_dim),
        (spec.hidden, spec.hidden),
    ]


SUMMARY = (
    "Llama 2 70B fine-tuning (MLPerf): low-rank adapters on attention, frozen base, packed text"
)
SOURCE = (
    "config.json of meta-llama/Llama-2-70b-hf (2023-07); adapters, dropout, rate and clipping as "
    "in mlcommons/training, llama2_70b_lora (2024-02)"
)
INCLUDED = "the frozen base (68,976,648,192) and the adapters (44,564,480 trained)"
DISTINCTIVE = (
    "frozen base",
    "adapters on the fused query-key-value matrix and on the output",
    "dropout in the adapters",
    "grouped-query attention",
    "SwiGLU",
)
PRESETS = {
    "tiny": LoraSpec(
        layers=2,
        hidden=256,
        heads=8,
        kv_heads=2,
        ffn=896,
        vocab=1024,
        seq=128,
        batch=2,
        learning_rate=1e-2,
        weight_decay=1e-4,
        clip_norm=0.3,
    ),
    # Llama 2 7B, config.json of meta-llama/Llama-2-7b-hf (2023-07).
    "small": LoraSpec(
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=32,
        ffn=11_008,
        vocab=32_000,
        seq=4096,
        batch=1,
        rank=16,
        alpha=32.0,
        precision="bf16-true",
        recompute="full",
        fusion="fused",
        learning_rate=4e-4,
        weight_decay=1e-4,
        clip_norm=0.3,
    ),
    "full": LoraSpec(
        layers=80,
        hidden=8192,
        heads=64,
        kv_heads=8,
        ffn=28_672,
        vocab=32_000,
        seq=8192,
        batch=1,
        rank=16,
        alpha=32.0,
        precision="bf16-true",
        recompute="full",
        fusion="fused",
        parallel="fsdp",
        learning_rate=4e-4,
        weight_decay=1e-4,
        clip_norm=0.3,
    ),
}
PRESET_HELP = {
    "tiny": "2.2 million parameters, 0.02 million trained; a fraction of a second on a CPU",
    "small": "the shape of Llama 2 7B, for one GPU of 40 GB",
    "full": "69.0 billion parameters, 45 million trained; the bf16 weights alone need 138 GB",
}
