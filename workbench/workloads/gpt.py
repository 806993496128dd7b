"""The spec of the `gpt` workload: a Llama-like decoder on synthetic tokens. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import UsageError
from workbench.workloads.fields import check, param


@dataclass(frozen=True, kw_only=True)
class GptSpec:
    """Shape, data and optimiser of one decoder; the defaults are the preset `tiny`."""

    layers: int = param(2, "decoder layers", minimum=1, maximum=1024)
    hidden: int = param(128, "width of the residual stream", minimum=2, maximum=65536)
    heads: int = param(4, "query heads", minimum=1, maximum=1024)
    kv_heads: int = param(2, "key and value heads, shared by groups of query heads", minimum=1)
    ffn: int = param(352, "width inside the SwiGLU feed-forward block", minimum=1)
    vocab: int = param(1024, "vocabulary size", minimum=2)
    tied_embeddings: bool = param(False, "use the input embedding as output projection too")
    rope_theta: float = param(10_000.0, "base of the rotary position frequencies", minimum=1)
    norm_eps: float = param(1e-5, "epsilon of RMSNorm", minimum=0)
    seq: int = param(128, "tokens in a sequence", minimum=1)
    batch: int = param(2, "sequences in a micro-batch, on each rank", minimum=1)
    accumulate: int = param(1, "micro-batches in a step", minimum=1)
    precision: str = param(
        "fp32", "fp32, or bf16 by autocast over fp32 weights", choices=("fp32", "bf16")
    )
    recompute: bool = param(False, "run each layer's forward again in the backward pass")
    fused_optimizer: bool = param(False, "AdamW as one fused kernel")
    learning_rate: float = param(3e-4, "AdamW learning rate", minimum=0)
    weight_decay: float = param(0.1, "AdamW weight decay", minimum=0)
    loader_workers: int = param(0, "data-loader processes; 0 loads in line", minimum=0, maximum=64)
    seed: int = param(0, "seed of weights and tokens", minimum=0, maximum=2**31 - 1)

    def __post_init__(self) -> None:
        """Check each field, then the fields that depend on each other."""
        check(self)
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
        if self.head_dim % 2:
            raise UsageError(
                f"hidden={self.hidden} over heads={self.heads} makes heads {self.head_dim} wide; "
                "rotary positions turn pairs, so the width must be even."
            )

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.hidden // self.heads

    def transformer(self) -> dict[str, int | bool]:
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
            "gated_mlp": True,
            "tied_embeddings": self.tied_embeddings,
        }


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
        fused_optimizer=True,
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
        recompute=True,
        fused_optimizer=True,
    ),
}
PRESET_HELP = {
    "tiny": "a step takes milliseconds on a laptop's CPU",
    "small": "0.2 billion parameters, for one GPU",
    "full": "the shape of Llama 3.1 8B; its fp32 state alone needs 128 GB",
}
