"""Llama 3.1 8B as the `gpt` decoder trains it: MLPerf's `llama31_8b` from v5.1 on."""

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

SUMMARY = "Llama 3.1 8B pretraining (MLPerf): 4 query heads share a key, stretched RoPE, SwiGLU"
SOURCE = (
    "config.json of meta-llama/Llama-3.1-8B (2024-07); sequence, rate and clipping as in "
    "mlcommons/training, small_llm_pretraining (2025-07)"
)
INCLUDED = "every weight; input embedding and output projection are two matrices"
DISTINCTIVE = (
    "grouped-query attention",
    "rotary positions, low frequencies slowed down",
    "SwiGLU",
    "RMSNorm",
    "untied embeddings",
)
PRESETS = {
    "tiny": GptSpec(
        layers=2,
        hidden=256,
        heads=8,
        kv_heads=2,
        ffn=896,
        vocab=2048,
        rope_theta=500_000.0,
        rope_factor=8.0,
        rope_context=128,
        seq=128,
        batch=2,
        learning_rate=1e-3,
        clip_norm=1.0,
    ),
    # Llama 3.2 1B, config.json of meta-llama/Llama-3.2-1B (2024-09), but for the tied embeddings.
    "small": GptSpec(
        layers=16,
        hidden=2048,
        heads=32,
        kv_heads=8,
        ffn=8192,
        vocab=128_256,
        rope_theta=500_000.0,
        rope_factor=8.0,
        seq=4096,
        batch=1,
        precision="bf16",
        fusion="fused",
        learning_rate=4e-4,
        clip_norm=1.0,
    ),
    "full": GptSpec(
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        ffn=14_336,
        vocab=128_256,
        rope_theta=500_000.0,
        rope_factor=8.0,
        seq=8192,
        batch=1,
        precision="bf16",
        recompute="selective",
        fusion="fused",
        parallel="fsdp",
        learning_rate=4e-4,
        clip_norm=1.0,
    ),
}
PRESET_HELP = {
    "tiny": "2.8 million parameters; a step takes a fraction of a second on a laptop's CPU",
    "small": "1.5 billion parameters, for one GPU of 48 GB",
    "full": "8.0 billion parameters; their fp32 state alone needs 128 GB, so several GPUs",
}
