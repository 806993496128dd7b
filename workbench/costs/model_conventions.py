"""What counts as a model's FLOPs: named conventions, since tools and papers differ by up to 2 x.

MFU and TFLOPS of two sources compare only under one convention; tokens a second always do. Those of
operators, from recorded shapes, are `costs.cost.CONVENTIONS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workbench.errors import unknown_name

Weights = Literal["products", "parameters", "parameters without embeddings"]
Attention = Literal["causal", "full", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConvention:
    """Which parts of a transformer count, and how."""

    name: str
    weights: Weights
    """Matrices that multiply; or 2 FLOPs for each parameter, with or without those looked up."""
    attention: Attention
    """The unmasked half of the scores, all of them, or none."""
    vocabulary: bool = True
    """The output projection counts; by parameters it is among them."""
    router: bool = True
    """The product that scores the experts counts."""
    source: str = "given by the caller"

    def __str__(self) -> str:
        """Say it in words, as it is printed beside each figure."""
        attention = {"causal": "causal half", "full": "not halved", "none": "not counted"}
        parts = [f"weights by {self.weights}", f"attention {attention[self.attention]}"]
        if self.weights == "products":
            parts.append(f"vocabulary {'counted' if self.vocabulary else 'not counted'}")
        return f"{self.name}: {', '.join(parts)}"


MODEL_CONVENTIONS: dict[str, ModelConvention] = {
    c.name: c
    for c in (
        ModelConvention(
            name="default",
            weights="products",
            attention="causal",
            source="every matrix product that training needs, once",
        ),
        ModelConvention(
            name="full_attention",
            weights="products",
            attention="full",
            source="the default, with the masked half of the scores",
        ),
        ModelConvention(
            name="without_vocabulary",
            weights="products",
            attention="causal",
            vocabulary=False,
            source="the default, with the layers alone",
        ),
        ModelConvention(
            name="6P",
            weights="parameters",
            attention="none",
            source="Kaplan et al., arXiv 2001.08361, section 2.1, with all parameters",
        ),
        ModelConvention(
            name="llm-foundry",
            weights="parameters",
            attention="full",
            source="mosaicml/llm-foundry scripts/train/benchmarking: 3 (2 P s + 4 L h s^2)",
        ),
        ModelConvention(
            name="ml-engineering",
            weights="parameters",
            attention="causal",
            source="stas00/ml-engineering, training performance: 6 P and causal attention",
        ),
        ModelConvention(
            name="torchtitan",
            weights="parameters without embeddings",
            attention="full",
            source="pytorch/torchtitan: 6 (P - embeddings, unless tied) + 6 L a (d_qk + d_v) s",
        ),
        ModelConvention(
            name="megatron",
            weights="products",
            attention="causal",
            router=False,
            source="NVIDIA/Megatron-LM num_floating_point_operations, from 2025 on",
        ),
        ModelConvention(
            name="megatron_full",
            weights="products",
            attention="full",
            router=False,
            source="Narayanan et al., arXiv 2104.04473, appendix; Megatron-LM and NeMo before 2025",
        ),
    )
}


def model_convention(wanted: ModelConvention | str) -> ModelConvention:
    """Return a convention by name, or the one given; an unknown name raises with the nearest."""
    if isinstance(wanted, ModelConvention):
        return wanted
    if wanted not in MODEL_CONVENTIONS:
        raise unknown_name("convention", wanted, MODEL_CONVENTIONS)
    return MODEL_CONVENTIONS[wanted]
