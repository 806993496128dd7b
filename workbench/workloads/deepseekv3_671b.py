"""DeepSeek-V3 671B: MLPerf's `deepseekv3_671b` from v6.0 on. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import UsageError
from workbench.workloads.counting import TRAINING, attention, causal_pairs_twice
from workbench.workloads.fields import param
from workbench.workloads.options import AttentionOptions, check_experts

EXPERT_KERNELS = ("loop", "grouped")


@dataclass(frozen=True, kw_only=True)
class DeepSeekSpec(AttentionOptions):
    """Shape of the decoder (DeepSeek-V3, 2412.19437); the defaults are the preset `tiny`."""

    layers: int = param(3, "decoder layers", minimum=1, maximum=1024)
    dense_layers: int = param(1, "first layers with one feed-forward and no experts", minimum=0)
    hidden: int = param(128, "width of the residual stream", minimum=2, maximum=65536)
    heads: int = param(4, "attention heads", minimum=1, maximum=1024)
    query_rank: int = param(64, "width of the latent that queries are made from", minimum=1)
    key_value_rank: int = param(32, "width of the latent of keys and values", minimum=1)
    nope_dim: int = param(16, "width of a head's key without positions", minimum=1)
    rope_dim: int = param(8, "width of the key with rotary positions, shared by heads", minimum=2)
    value_dim: int = param(16, "width of a head's value", minimum=1)
    ffn: int = param(384, "width inside the feed-forward of dense layers", minimum=1)
    experts: int = param(16, "routed experts in a layer", minimum=1)
    top_k: int = param(4, "routed experts that a token passes", minimum=1)
    expert_groups: int = param(4, "groups of experts; a token chooses groups first", minimum=1)
    top_groups: int = param(2, "groups that a token may choose from", minimum=1)
    expert_ffn: int = param(64, "width inside one expert", minimum=1)
    shared_experts: int = param(1, "experts that every token passes", minimum=0)
    routed_scale: float = param(2.5, "factor of the routed experts' result", minimum=0)
    bias_step: float = param(0.001, "step of the biases that even out the load", minimum=0)
    balance: float = param(0.0001, "weight of each sequence's own balance loss", minimum=0)
    expert_kernel: str = param(
        "loop", "experts one by one, or all in a grouped product", choices=EXPERT_KERNELS
    )
    predicted: int = param(1, "tokens predicted beyond the next one", minimum=0, maximum=8)
    predicted_weight: float = param(0.3, "weight of the loss of those", minimum=0)
    vocab: int = param(2048, "vocabulary size", minimum=2)
    rope_theta: float = param(10_000.0, "base of the rotary position frequencies", minimum=1)
    norm_eps: float = param(1e-6, "epsilon of RMSNorm", minimum=0)
    seq: int = param(128, "tokens in a sequence", minimum=1)
    batch: int = param(2, "sequences in a micro-batch, on each rank", minimum=1)

    def __post_init__(self) -> None:
        """Check each field, then the fields that depend on each other."""
        super().__post_init__()
        check_experts(self)
        if self.dense_layers > self.layers:
            raise UsageError(f"dense_layers={self.dense_layers} is above layers={self.layers}.")
        if self.rope_dim % 2:
            raise UsageError(f"rope_dim={self.rope_dim} is odd; rotary positions turn pairs.")
        if self.experts % self.expert_groups or self.experts == self.expert_groups:
            raise UsageError(
                f"experts={self.experts} in expert_groups={self.expert_groups}: each group needs "
                "the same number of experts, two or more."
            )
        allowed = self.top_groups * (self.experts // self.expert_groups)
        if self.top_groups > self.expert_groups or self.top_k > allowed:
            raise UsageError(
                f"top_k={self.top_k} of top_groups={self.top_groups} out of expert_groups="
                f"{self.expert_groups}: those groups hold {allowed} of experts={self.experts}."
            )

    @property
    def tokens_per_sample(self) -> int:
        """A sample is one sequence."""
        return self.seq


def parameters(spec: DeepSeekSpec) -> int:
    """Return how many parameters the model has.

    With the modules that predict further tokens, which share embedding and head; without the
    router's biases, which no gradient trains.
    """
    hidden = spec.hidden
    norms = 2 * hidden + spec.query_rank + spec.key_value_rank
    routed = spec.experts * _expert(spec)
    sparse = norms + _attention(spec) + _always(spec) + routed
    dense = norms + _attention(spec) + 3 * hidden * spec.ffn
    layers = spec.dense_layers * dense + (spec.layers - spec.dense_layers) * sparse
    predicted = spec.predicted * (2 * hidden * hidden + 3 * hidden + sparse)
    return 2 * spec.vocab * hidden + layers + hidden + predicted


def flops(spec: DeepSeekSpec) -> int:
    """Return the FLOPs of one training step on a rank, by the convention of `counting`."""
    head = spec.hidden * spec.vocab
    sparse = _attention(spec) + _always(spec) + spec.top_k * _expert(spec)
    dense = _attention(spec) + 3 * spec.hidden * spec.ffn
    matrices = spec.dense_layers * dense + (spec.layers - spec.dense_layers) * sparse + head
    matrices += spec.predicted * (2 * spec.hidden**2 + sparse + head)
    widths = spec.nope_dim + spec.rope_dim + spec.value_dim
    attended = attention(spec.heads, widths, causal_pairs_twice(spec.seq))
    whole = 2 * spec.seq * matrices + (spec.layers + spec.predicted) * attended
    return TRAINING * spec.samples_per_step * whole


def _attention(spec: DeepSeekSpec) -> int:
    """Return the elements of a layer's attention matrices."""
    query = spec.query_rank * (spec.hidden + spec.heads * (spec.nope_dim + spec.rope_dim))
    down = spec.hidden * (spec.key_value_rank + spec.rope_dim)
    up = spec.key_value_rank * spec.heads * (spec.nope_dim + spec.value_dim)
    return query + down + up + spec.heads * spec.value_dim * spec.hidden


def _always(spec: DeepSeekSpec) -> int:
    """Return the elements that every token passes beside attention: router and shared experts."""
    return spec.experts * spec.hidden + spec.shared_experts * _expert(spec)


def _expert(spec: DeepSeekSpec) -> int:
    return 3 * spec.hidden * spec.expert_ffn


SUMMARY = "DeepSeek-V3 671B pretraining (MLPerf): latent attention, 256 experts, multi-token loss"
SOURCE = (
    "config.json of deepseek-ai/DeepSeek-V3-Base (2024-12); sequence and micro-batch as in "
    "mlcommons/training, llm_moe_pretraining (2026), which has the 128000 tokens of Llama 3.1"
)
INCLUDED = (
    "the decoder (671,026,404,352) and one prediction module (11,610,067,968) that shares "
    "embedding and head; not the 15,104 router biases, which no gradient trains"
)
DISTINCTIVE = (
    "multi-head latent attention",
    "first layers dense",
    "routed experts, chosen by groups from sigmoid scores",
    "biases that even out the load without a loss",
    "a shared expert",
    "multi-token prediction",
)
PRESETS = {
    "tiny": DeepSeekSpec(learning_rate=1e-3, clip_norm=1.0),
    # A quarter of the width and of the experts, an eighth of the layers.
    "small": DeepSeekSpec(
        layers=8,
        hidden=1792,
        heads=32,
        query_rank=384,
        key_value_rank=512,
        nope_dim=128,
        rope_dim=64,
        value_dim=128,
        ffn=4608,
        experts=64,
        top_k=8,
        expert_groups=8,
        top_groups=4,
        expert_ffn=512,
        vocab=129_280,
        seq=4096,
        batch=1,
        precision="bf16",
        fusion="fused",
        learning_rate=2.4e-5,
        clip_norm=1.0,
    ),
    "full": DeepSeekSpec(
        layers=61,
        dense_layers=3,
        hidden=7168,
        heads=128,
        query_rank=1536,
        key_value_rank=512,
        nope_dim=128,
        rope_dim=64,
        value_dim=128,
        ffn=18_432,
        experts=256,
        top_k=8,
        expert_groups=8,
        top_groups=4,
        expert_ffn=2048,
        vocab=129_280,
        seq=4096,
        batch=1,
        precision="bf16",
        recompute="full",
        fusion="fused",
        parallel="fsdp",
        learning_rate=2.4e-5,
        clip_norm=1.0,
    ),
}
PRESET_HELP = {
    "tiny": "2.1 million parameters; a step takes a fraction of a second on a laptop's CPU",
    "small": "2.1 billion parameters, for one GPU of 80 GB",
    "full": "671 billion parameters, and 11.6 of the prediction module; hundreds of GPUs",
}
