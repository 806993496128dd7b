"""GPT-3 175B as the `gpt` decoder trains it: MLPerf's `gpt3` of v3.0 to v4.1."""

from __future__ import annotations

from workbench.workloads.gpt import GptSpec, flops, parameters

__all__ = [
    "DISTINCTIVE",
    "INCLUDED",
    "PRESETS",
    "PRESET_HELP",
    "SOURCE",
    "SUMMARY",
    "flops",
    "parameters",
]

SUMMARY = "GPT-3 175B pretraining (MLPerf): learned positions, LayerNorm, GELU, biases, tied head"
SOURCE = (
    "Brown et al., arXiv 2005.14165, table 2.1; run_gpt3.sh of mlcommons/training, "
    "large_language_model (2023): 50257 tokens padded to 51200 for 8 ranks, no dropout"
)
INCLUDED = (
    "weights, biases, 2048 positions, 51200 padded tokens; the embedding is the output "
    "projection too"
)
DISTINCTIVE = (
    "learned positions",
    "LayerNorm with bias",
    "GELU",
    "biases in every matrix",
    "as many key heads as query heads",
    "tied embeddings",
)
PRESETS = {
    "tiny": GptSpec(
        layers=2,
        hidden=256,
        heads=4,
        kv_heads=4,
        ffn=1024,
        activation="gelu",
        vocab=2048,
        tied_embeddings=True,
        positions="learned",
        norm="layer",
        bias=True,
        seq=128,
        batch=2,
        learning_rate=1e-3,
        clip_norm=1.0,
    ),
    # GPT-3 XL of the same table, with 16 heads of 128: its 24 of 128 are not 2048.
    "small": GptSpec(
        layers=24,
        hidden=2048,
        heads=16,
        kv_heads=16,
        ffn=8192,
        activation="gelu",
        vocab=51_200,
        tied_embeddings=True,
        positions="learned",
        norm="layer",
        bias=True,
        seq=2048,
        batch=2,
        precision="bf16",
        fusion="fused",
        learning_rate=2e-4,
        clip_norm=1.0,
    ),
    "full": GptSpec(
        layers=96,
        hidden=12_288,
        heads=96,
        kv_heads=96,
        ffn=49_152,
        activation="gelu",
        vocab=51_200,
        tied_embeddings=True,
        positions="learned",
        norm="layer",
        bias=True,
        seq=2048,
        batch=1,
        precision="bf16",
        recompute="selective",
        fusion="fused",
        parallel="fsdp",
        learning_rate=2e-5,
        clip_norm=1.0,
    ),
}
PRESET_HELP = {
    "tiny": "2.1 million parameters; a step takes a fraction of a second on a laptop's CPU",
    "small": "1.3 billion parameters, for one GPU of 40 GB",
    "full": "174.6 billion parameters; their fp32 state alone needs 2.8 TB, so some dozens of GPUs",
}
