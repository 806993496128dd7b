"""Llama 3.1 405B as the `gpt` decoder trains it: MLPerf's `llama31_405b` of v5.0 to v6.0."""

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

SUMMARY = "Llama 3.1 405B pretraining (MLPerf): 16 query heads share a key, stretched RoPE, SwiGLU"
SOURCE = (
    "config.json of meta-llama/Llama-3.1-405B (2024-07); sequence, rate and clipping as in "
    "mlcommons/training, large_language_model_pretraining (2025-02)"
)
INCLUDED = "every weight; input embedding and output projection are two matrices"
DISTINCTIVE = (
    "sixteen query heads a key head",
    "rotary positions, low frequencies slowed down",
    "SwiGLU",
    "RMSNorm",
    "untied embeddings",
)
PRESETS = {
    "tiny": GptSpec(
        layers=2,
        hidden=512,
        heads=32,
        kv_heads=2,
        ffn=1664,
        vocab=2048,
        rope_theta=500_000.0,
        rope_factor=8.0,
        rope_context=128,
        seq=128,
        batch=1,
        learning_rate=1e-3,
        clip_norm=1.0,
    ),
    # Four layers of a quarter of the width.
    "small": GptSpec(
        layers=4,
        hidden=4096,
        heads=32,
        kv_heads=2,
        ffn=13_312,
        vocab=128_256,
        rope_theta=500_000.0,
        rope_factor=8.0,
        seq=4096,
        batch=1,
        precision="bf16",
        fusion="fused",
        learning_rate=8e-5,
        clip_norm=1.0,
    ),
    "full": GptSpec(
        layers=126,
        hidden=16_384,
        heads=128,
        kv_heads=8,
        ffn=53_248,
        vocab=128_256,
        rope_theta=500_000.0,
        rope_factor=8.0,
        seq=8192,
        batch=1,
        precision="bf16",
        recompute="full",
        fusion="fused",
        parallel="fsdp",
        learning_rate=8e-5,
        clip_norm=1.0,
    ),
}
PRESET_HELP = {
    "tiny": "8.3 million parameters; a step takes a fraction of a second on a laptop's CPU",
    "small": "1.8 billion parameters, for one GPU of 80 GB",
    "full": "405.9 billion parameters; their fp32 state alone needs 6.5 TB, so some hundred GPUs",
}
