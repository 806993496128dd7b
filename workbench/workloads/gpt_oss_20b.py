"""GPT-OSS 20B: MLPerf's `gpt_oss_20b` from v6.0 on. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import UsageError
from workbench.workloads.counting import TRAINING, attention, causal_pairs_twice, linear
from workbench.workloads.fields import param
from workbench.workloads.options import Options, check_experts


@dataclass(frozen=True, kw_only=True)
class GptOssSpec(Options):
    """Shape of the decoder (gpt-oss model card, 2508.10925); the defaults are the preset `tiny`.

    The first of every two layers attends in a window, the second to all that came before.
    """

    layers: int = param(2, "decoder layers", minimum=1, maximum=1024)
    hidden: int = param(192, "width of the residual stream", minimum=1, maximum=65536)
    heads: int = param(8, "query heads", minimum=1, maximum=1024)
    kv_heads: int = param(2, "key and value heads, shared by groups of query heads", minimum=1)
    head_dim: int = param(32, "width of one head", minimum=2)
    window: int = param(32, "keys that a layer with a window attends to, own included", minimum=1)
    experts: int = param(8, "experts in a layer", minimum=1)
    top_k: int = param(4, "experts that a token passes", minimum=1)
    expert_ffn: int = param(96, "width inside one expert", minimum=1)
    expert_kernel: str = param(
        "loop", "experts one by one, or all in a grouped product", choices=("loop", "grouped")
    )
    attention: str = param(
        "math", "written out, or flex_attention, which needs compilation", choices=("math", "flex")
    )
    vocab: int = param(2048, "vocabulary size", minimum=2)
    rope_theta: float = param(150_000.0, "base of the rotary position frequencies", minimum=2)
    rope_factor: float = param(32.0, "slow-down of low frequencies (YaRN)", minimum=1)
    rope_context: int = param(4096, "context before the slow-down", minimum=256)
    norm_eps: float = param(1e-5, "epsilon of RMSNorm", minimum=0)
    seq: int = param(128, "tokens in a sequence", minimum=1)
    batch: int = param(2, "sequences in a micro-batch, on each rank", minimum=1)

    def __post_init__(self) -> None:
        """Check each field, then the fields that depend on each other."""
        super().__post_init__()
        check_experts(self)
        if self.heads % self.kv_heads:
            raise UsageError(
                f"heads={self.heads} is not divisible by kv_heads={self.kv_heads}; "
                "each key and value head serves an equal group of query heads."
            )
        if self.head_dim % 2:
            raise UsageError(f"head_dim={self.head_dim} is odd; rotary positions turn pairs.")
        if self.attention == "flex" and self.compile == "off":
            raise UsageError(
                "attention=flex and compile=off exclude each other: without compilation it is "
                "written out as attention=math is, only slower."
            )

    @property
    def tokens_per_sample(self) -> int:
        """A sample is one sequence."""
        return self.seq

    def window_of(self, layer: int) -> int | None:
        """Return how many keys a layer attends to; None: all that came before."""
        return self.window if layer % 2 == 0 else None


def parameters(spec: GptOssSpec) -> int:
    """Return how many parameters the model has; each query head has a sink."""
    hidden, inside = spec.hidden, spec.heads * spec.head_dim
    projections = linear(hidden, inside + _narrow(spec), bias=True)
    attended = projections + linear(inside, hidden, bias=True) + spec.heads
    expert = linear(hidden, 2 * spec.expert_ffn, bias=True)
    expert += linear(spec.expert_ffn, hidden, bias=True)
    mixed = linear(hidden, spec.experts, bias=True) + spec.experts * expert
    return 2 * spec.vocab * hidden + spec.layers * (attended + mixed + 2 * hidden) + hidden


def flops(spec: GptOssSpec) -> int:
    """Return the FLOPs of one training step on a rank, by the convention of `counting`.

    Of attention in a window, the keys in the window.
    """
    hidden, inside = spec.hidden, spec.heads * spec.head_dim
    layer = hidden * (2 * inside + _narrow(spec)) + hidden * spec.experts
    layer += spec.top_k * 3 * hidden * spec.expert_ffn
    products = 2 * spec.seq * (spec.layers * layer + hidden * spec.vocab)
    pairs = sum(causal_pairs_twice(spec.seq, spec.window_of(n)) for n in range(spec.layers))
    attended = attention(spec.heads, 2 * spec.head_dim, pairs)
    return TRAINING * spec.samples_per_step * (products + attended)


def _narrow(spec: GptOssSpec) -> int:
    """Return the width of keys and values together."""
    return 2 * spec.kv_heads * spec.head_dim


SUMMARY = "GPT-OSS 20B pretraining (MLPerf): 32 experts, windows in turn, attention sinks, YaRN"
SOURCE = (
    "config.json of openai/gpt-oss-20b (2025-08); sequence, micro-batch and rate as in "
    "mlcommons/training, small_llm_moe_pretraining (2026), which has 128256 tokens and no YaRN"
)
INCLUDED = "every weight and bias, with one sink for each query head"
DISTINCTIVE = (
    "routed experts with biases, weighed by a softmax of the chosen",
    "attention in a window in every other layer",
    "attention sinks",
    "grouped-query attention with biases",
    "heads wider than hidden / heads",
    "YaRN positions",
    "clamped SwiGLU",
)
PRESETS = {
    "tiny": GptOssSpec(learning_rate=1e-3, clip_norm=1.0),
    # A quarter of the width, of the experts and of the layers.
    "small": GptOssSpec(
        layers=6,
        hidden=1440,
        heads=32,
        kv_heads=4,
        head_dim=64,
        window=128,
        experts=16,
        expert_ffn=1440,
        vocab=201_088,
        seq=2048,
        batch=1,
        precision="bf16",
        fusion="fused",
        learning_rate=4e-4,
        clip_norm=1.0,
    ),
    "full": GptOssSpec(
        layers=24,
        hidden=2880,
        heads=64,
        kv_heads=8,
        head_dim=64,
        window=128,
        experts=32,
        expert_ffn=2880,
        attention="flex",
        vocab=201_088,
        seq=8192,
        batch=2,
        precision="bf16",
        recompute="full",
        compile="default",
        fusion="fused",
        parallel="fsdp",
        learning_rate=4e-4,
        clip_norm=1.0,
    ),
}
PRESET_HELP = {
    "tiny": "1.9 million parameters; a step takes a fraction of a second on a laptop's CPU",
    "small": "1.2 billion parameters, for one GPU of 48 GB",
    "full": "20.9 billion parameters; their fp32 state alone needs 335 GB, so several GPUs",
}
