"""BERT-large pretraining: MLPerf's `bert` of v0.7 to v5.0. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import UsageError
from workbench.workloads.counting import TRAINING, attention, linear
from workbench.workloads.fields import param
from workbench.workloads.options import TransformerOptions

TYPES = 2
"""A token stands in the first or the second text."""


@dataclass(frozen=True, kw_only=True)
class BertSpec(TransformerOptions):
    """Shape of the encoder (1810.04805) with both losses; the defaults are the preset `tiny`."""

    layers: int = param(2, "encoder layers", minimum=1, maximum=1024)
    hidden: int = param(256, "width of the residual stream", minimum=1, maximum=65536)
    heads: int = param(4, "attention heads", minimum=1, maximum=1024)
    ffn: int = param(1024, "width inside the feed-forward block", minimum=1)
    vocab: int = param(2048, "vocabulary size", minimum=8)
    dropout: float = param(0.1, "share of each sublayer's result that is dropped", minimum=0)
    norm_eps: float = param(1e-12, "epsilon of LayerNorm", minimum=0)
    seq: int = param(64, "tokens in a sequence, padding included", minimum=8)
    predictions: int = param(10, "most masked tokens in a sequence", minimum=1)
    batch: int = param(8, "sequences in a micro-batch, on each rank", minimum=1)
    # Kernels of flash attention take no mask, and sequences end before their padding.
    attention: str = param(
        "auto",
        "which kernels attention runs on",
        choices=("auto", "efficient", "cudnn", "math"),
    )
    optimizer: str = param("lamb", "what updates the weights", choices=("lamb", "adamw"))

    def __post_init__(self) -> None:
        """Check each field, then the fields that depend on each other."""
        super().__post_init__()
        if self.hidden % self.heads:
            raise UsageError(
                f"hidden={self.hidden} is not divisible by heads={self.heads}; "
                "each head needs an equal share."
            )
        if self.predictions > self.seq:
            raise UsageError(f"predictions={self.predictions} is above seq={self.seq}.")
        if self.cuda_graphs and self.dropout and self.recompute != "none":
            raise UsageError(
                f"cuda_graphs=true and recompute={self.recompute} exclude each other with "
                f"dropout={self.dropout:g}: random numbers are restored on the host."
            )

    @property
    def tokens_per_sample(self) -> int:
        """A sample is one sequence with its padding."""
        return self.seq

    def check_run(self, *, device: str, ranks: int) -> None:
        """Check that a split model has whole heads on each rank."""
        super().check_run(device=device, ranks=ranks)
        if self.parallel == "tensor" and self.heads % ranks:
            raise UsageError(
                f"parallel=tensor splits heads={self.heads} over ranks={ranks}, which does not "
                "divide them."
            )


def parameters(spec: BertSpec) -> int:
    """Return how many parameters the model has; the decoder of masked tokens is the embedding."""
    hidden = spec.hidden
    norm = 2 * hidden
    embedded = (spec.vocab + spec.seq + TYPES) * hidden + norm
    layer = 4 * linear(hidden, hidden, bias=True) + 2 * norm
    layer += linear(hidden, spec.ffn, bias=True) + linear(spec.ffn, hidden, bias=True)
    masked = linear(hidden, hidden, bias=True) + norm + spec.vocab
    following = linear(hidden, hidden, bias=True) + linear(hidden, 2, bias=True)
    return embedded + spec.layers * layer + masked + following


def flops(spec: BertSpec) -> int:
    """Return the FLOPs of one training step on a rank, by the convention of `counting`.

    Padding counts: it is computed. So do unused slots of masked tokens.
    """
    hidden = spec.hidden
    encoder = spec.seq * spec.layers * (4 * hidden**2 + 2 * hidden * spec.ffn)
    masked = spec.predictions * (hidden**2 + hidden * spec.vocab)
    following = hidden**2 + 2 * hidden
    attended = attention(spec.heads, 2 * (hidden // spec.heads), 2 * spec.seq**2)
    whole = 2 * (encoder + masked + following) + spec.layers * attended
    return TRAINING * spec.samples_per_step * whole


SUMMARY = "BERT-large pretraining (MLPerf): masked tokens and next sentence, ragged texts, LAMB"
SOURCE = (
    "bert_config.json of BERT-large uncased (google-research/bert, 2018-10); length, masked tokens "
    "and optimiser as in mlcommons/training, language_model (2020)"
)
INCLUDED = "encoder, pooler and both heads with biases; the embedding decodes masked tokens too"
DISTINCTIVE = (
    "attention in both directions over texts of unequal length",
    "LayerNorm after each sublayer",
    "GELU",
    "dropout",
    "masked tokens gathered before a tied decoder",
    "next-sentence loss",
    "LAMB",
)
PRESETS = {
    "tiny": BertSpec(learning_rate=1e-2, weight_decay=0.01),
    # BERT-base of the same source, in the first phase's length.
    "small": BertSpec(
        layers=12,
        hidden=768,
        heads=12,
        ffn=3072,
        vocab=30_522,
        seq=128,
        predictions=20,
        batch=32,
        precision="bf16",
        learning_rate=3.5e-4,
        weight_decay=0.01,
    ),
    "full": BertSpec(
        layers=24,
        hidden=1024,
        heads=16,
        ffn=4096,
        vocab=30_522,
        seq=512,
        predictions=76,
        batch=24,
        precision="bf16",
        learning_rate=3.5e-4,
        weight_decay=0.01,
    ),
}
PRESET_HELP = {
    "tiny": "2.3 million parameters; a step takes a fraction of a second on a laptop's CPU",
    "small": "0.1 billion parameters, for one GPU of 16 GB",
    "full": "0.34 billion parameters, for one GPU of 40 GB",
}
