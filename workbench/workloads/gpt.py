"""The spec of the `gpt` workload: a dense decoder on synthetic tokens. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import UsageError
from workbench.workloads.counting import TRAINING, attention, causal_pairs_twice, linear
from workbench.workloads.fields import param
from workbench.workloads.options import TransformerOptions


@dataclass(frozen=True, kw_only=True)
class GptSpec(TransformerOptions):
    """Shape of one decoder, Llama-like or GPT-like; the defaults are the preset `tiny`."""

    layers: int = param(2, "decoder layers", minimum=1, maximum=1024)
    hidden: int = param(128, "width of the residual stream", minimum=2, maximum=65536)
    heads: int = param(4, "query heads", minimum=1, maximum=1024)
    kv_heads: int = param(2, "key and value heads, shared by groups of query heads", minimum=1)
    ffn: int = param(352, "width inside the feed-forward block", minimum=1)
    activation: str = param("swiglu", "the feed-forward's kind", choices=("swiglu", "gelu"))
    vocab: int = param(1024, "vocabulary size", minimum=2)
    tied_embeddings: bool = param(False, "use the input embedding as output projection too")
    positions: str = param("rotary", "how positions enter", choices=("rotary", "learned"))
    rope_theta: float = param(10_000.0, "base of the rotary position frequencies", minimum=1)
    rope_factor: float = param(1.0, "slow-down of low frequencies, as in Llama 3.1", minimum=1)
    rope_context: int = param(8192, "context before the slow-down", minimum=1)
    norm: str = param("rms", "RMSNorm or LayerNorm", choices=("rms", "layer"))
    norm_eps: float = param(1e-5, "epsilon of the norms", minimum=0)
    bias: bool = param(False, "biases in the layers' matrices")
    seq: int = param(128, "tokens in a sequence", minimum=1)
    batch: int = param(2, "sequences in a micro-batch, on each rank", minimum=1)

    def __post_init__(self) -> None:
        """Check each field, then the fields that depend on each other."""
        super().__post_init__()
        if self.hidden % self.heads:
            raise UsageError(
                f"hidden={self.hidden} is not divisible by heads={self.heads}; "
                "each head needs an equal share."
            )
        if self.heads % self.kv_heads:
            raise UsageError(
                f"heads={self.heads} is not divisible by kv_heads={self.kv_heads}; "
                "each key and value head serves an equal group of query heads."
            )
        if self.positions == "rotary" and self.head_dim % 2:
            raise UsageError(
                f"hidden={self.hidden} over heads={self.heads} makes heads {self.head_dim} wide; "
                "rotary positions turn pairs, so the width must be even."
            )
        if self.positions == "learned" and self.rope_factor != 1:
            raise UsageError(
                f"positions=learned and rope_factor={self.rope_factor:g} exclude each other; "
                "only rotary positions have frequencies."
            )

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.hidden // self.heads

    @property
    def tokens_per_sample(self) -> int:
        """A sample is one sequence."""
        return self.seq

    def transformer(self) -> dict[str, int | bool] | None:
        """Return the shape by the field names of `costs.transformer.TransformerConfig`."""
        return {
            "layers": self.layers,
            "hidden": self.hidden,
            "ffn_hidden": self.ffn,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab": self.vocab,
            "seq_len": self.seq,
            "gated_mlp": self.activation == "swiglu",
            "tied_embeddings": self.tied_embeddings,
            "learned_positions": self.positions == "learned",
        }

    def check_run(self, *, device: str, ranks: int) -> None:
        """Check that a split model has whole heads on each rank."""
        super().check_run(device=device, ranks=ranks)
        if self.parallel == "tensor" and self.kv_heads % ranks:
            raise UsageError(
                f"parallel=tensor splits kv_heads={self.kv_heads} over ranks={ranks}, which does "
                "not divide them."
            )


def parameters(spec: GptSpec) -> int:
    """Return how many parameters the model has."""
    norm = spec.hidden * (2 if spec.norm == "layer" else 1)
    head = 0 if spec.tied_embeddings else spec.vocab * spec.hidden
    positions = spec.seq * spec.hidden if spec.positions == "learned" else 0
    layer = sum(linear(n, m, bias=spec.bias) for n, m in _matrices(spec)) + 2 * norm
    return spec.vocab * spec.hidden + positions + spec.layers * layer + norm + head


def flops(spec: GptSpec) -> int:
    """Return the FLOPs of one training step on a rank, by the convention of `counting`."""
    layer = sum(linear(n, m) for n, m in _matrices(spec))
    products = 2 * spec.seq * (spec.layers * layer + spec.hidden * spec.vocab)
    attended = attention(spec.heads, 2 * spec.head_dim, causal_pairs_twice(spec.seq))
    return TRAINING * spec.samples_per_step * (products + spec.layers * attended)


def _matrices(spec: GptSpec) -> list[tuple[int, int]]:
    """Return inputs and outputs of each matrix of a layer."""
    hidden, narrow = spec.hidden, spec.kv_heads * spec.head_dim
    widening = 2 if spec.activation == "swiglu" else 1
    return [
        (hidden, hidden),
        (hidden, narrow),
        (hidden, narrow),
        (hidden, hidden),
        *widening * [(hidden, spec.ffn)],
        (spec.ffn, hidden),
    ]


INCLUDED = "every weight; the output projection is a matrix of its own"
DISTINCTIVE = ("grouped-query attention", "rotary positions", "SwiGLU", "RMSNorm")
PRESETS = {
    "tiny": GptSpec(),
    "small": GptSpec(
        layers=12,
        hidden=1024,
        heads=16,
        kv_heads=4,
        ffn=2816,
        vocab=32_000,
        seq=2048,
        batch=4,
        precision="bf16",
        fusion="fused",
    ),
    # Llama 3.1 8B, config.json of meta-llama/Llama-3.1-8B (2024-07).
    "full": GptSpec(
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        ffn=14_336,
        vocab=128_256,
        rope_theta=500_000.0,
        seq=8192,
        batch=1,
        precision="bf16",
        recompute="full",
        fusion="fused",
    ),
}
PRESET_HELP = {
    "tiny": "a step takes milliseconds on a laptop's CPU",
    "small": "0.2 billion parameters, for one GPU",
    "full": "the shape of Llama 3.1 8B; its fp32 state alone needs 128 GB",
}
SUMMARY = "Llama-like decoder (RMSNorm, RoPE, grouped-query attention, SwiGLU), AdamW"
SOURCE = "config.json of meta-llama/Llama-3.1-8B (2024-07)"
