"""FLOPs of a decoder transformer from its configuration alone, under a named convention.

Symbols: L layers, h hidden, a heads, k key-value heads, d head width, f feed-forward width, V
vocabulary, s tokens in a sequence, g = 3 with a gated feed-forward, else 2. 2 FLOPs a multiply-add.
Forward, a token: projections 2h(ad) + 4h(kd) + 2(ad)h; scores and values 4sad, half of it causal;
feed-forward 2ghf; output projection 2hV; looking up embeddings costs nothing. Training is three
times the forward: the gradients of inputs and of weights cost one forward each (Narayanan et al.,
arXiv 2104.04473, appendix; Korthikanti et al., arXiv 2205.05198, appendix A).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from workbench.costs.model_conventions import ModelConvention, model_convention
from workbench.errors import UsageError

TRAINING = 3
"""Training over forward: forward once, backward twice."""
FLASH_BACKWARD = 2.5
"""Of a fused attention's backward over its forward: five products against two."""
Recompute = Literal["none", "selective", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts in place of the feed-forward."""

    routed: int
    """Experts that the router chooses from, in a layer."""
    top_k: int
    ffn_hidden: int
    """Width inside one expert."""
    shared: int = 0
    """Experts that every token passes, beside the chosen."""
    dense_layers: int = 0
    """First layers that keep a feed-forward of `TransformerConfig.ffn_hidden`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""

    query_rank: int
    key_value_rank: int
    nope_dim: int
    """Width of a head's query and key without rotary positions."""
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """The shape of a decoder; widths and counts, never sizes in bytes.

    Raises UsageError for a count below one, or heads that key-value heads do not divide.
    """

    layers: int
    hidden: int
    ffn_hidden: int | None
    """Null when every layer has experts."""
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    seq_len: int
    gated_mlp: bool
    tied_embeddings: bool = False
    learned_positions: bool = False
    """One embedding for each of `seq_len` positions, as GPT and MPT have and Llama has not."""
    experts: Experts | None = None
    latent: Latent | None = None
    predicted_tokens: int = 0
    """Modules of multi-token prediction: a layer, a 2h to h projection and a head each."""

    def __post_init__(self) -> None:
        """Check counts and heads."""
        counts = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in counts.items():
            least = 0 if name == "predicted_tokens" else 1
            if type(value) is int and value < least:
                raise UsageError(f"{name}={value} of a transformer is below {least}.")
        if self.heads % self.kv_heads:
            raise UsageError(f"heads={self.heads} is not divisible by kv_heads={self.kv_heads}.")
        dense = self.experts.dense_layers if self.experts else 0
        if not 0 <= dense <= self.layers:
            raise UsageError(f"dense_layers={dense} of {self.layers} layers.")
        if self.ffn_hidden is None and (self.experts is None or self.experts.dense_layers):
            raise UsageError("ffn_hidden is missing; only layers with experts do without it.")


@dataclass(frozen=True, slots=True)
class _Weights:
    """Elements of the matrices of one part that one token multiplies with."""

    projections: int
    feed_forward: int
    router: int = 0

    @property
    def total(self) -> int:
        return self.projections + self.feed_forward + self.router


def forward(
    config: TransformerConfig, rules: ModelConvention | str = "default"
) -> dict[str, float]:
    """Return FLOPs of the forward for one token, by part; the parts depend on the convention.

    By products: `projections`, `feed_forward`, `router`, `output` (2hV), `prediction` (multi-token
    prediction) and `attention`; by parameters: `parameters` (2P, those that a token uses) and
    `attention`. What a convention leaves out is 0.
    """
    rules = model_convention(rules)
    parts = {"attention": _attention(config, rules)}
    if rules.weights != "products":
        counted = parameters(config, active=True)
        if rules.weights == "parameters without embeddings":
            counted -= _embeddings(config)
        return {"parameters": 2.0 * counted} | parts
    dense, sparse = _layer(config, is_sparse=False), _layer(config, is_sparse=True)
    n_sparse = _sparse_layers(config)
    n_dense = config.layers - n_sparse
    router = sparse.router * n_sparse if rules.router else 0
    head = config.hidden * config.vocab if rules.vocabulary else 0
    extra = sparse if n_sparse else dense
    extra_router = extra.router if rules.router else 0
    predicted = extra.projections + extra.feed_forward + extra_router + 2 * config.hidden**2 + head
    return {
        "projections": 2.0 * dense.projections * config.layers,
        "feed_forward": 2.0 * (dense.feed_forward * n_dense + sparse.feed_forward * n_sparse),
        "router": 2.0 * router,
        "output": 2.0 * head,
        "prediction": 2.0 * predicted * config.predicted_tokens,
    } | parts


def model_flops_per_token(
    config: TransformerConfig, rules: ModelConvention | str = "default"
) -> float:
    """Return the model FLOPs of training for one token: 3 x the forward, no recomputation.

    Llama-3 8B at 8192 tokens, default: 45.0 GFLOP of products and 6.4 of causal attention.
    """
    return TRAINING * sum(forward(config, rules).values())


def hardware_flops_per_token(
    config: TransformerConfig,
    rules: ModelConvention | str = "default",
    *,
    recompute: Recompute = "none",
    flash: bool = True,
) -> float:
    """Return the FLOPs that the hardware does in training for one token.

    recompute: `full` adds the forward of the layers, not of the output projection (of everything,
    where the convention counts parameters); `selective` adds the attention's forward. flash: a
    fused attention's backward runs five products where the model has four, 2.5 forwards and not 2.
    """
    parts = forward(config, rules)
    again = {"none": 0.0, "selective": parts["attention"], "full": sum(parts.values())}[recompute]
    if recompute == "full":
        again -= parts.get("output", 0.0)
    rescored = (FLASH_BACKWARD - 2) * parts["attention"] if flash else 0.0
    return TRAINING * sum(parts.values()) + again + rescored


def parameters(config: TransformerConfig, *, active: bool = False) -> int:
    """Return how many parameters it has: matrices, embeddings, one scale for each norm; no biases.

    active: of the experts only those that one token passes. Without modules of multi-token
    prediction. GPT tiny: 2 x 1024 x 128 + 2 x (49,152 + 135,168 + 256) + 128 = 631,424.
    """
    dense, sparse = _layer(config, is_sparse=False), _layer(config, is_sparse=True)
    if config.experts is not None and not active:
        each = _width(config) * config.hidden * config.experts.ffn_hidden
        every = each * (config.experts.routed + config.experts.shared)
        sparse = _Weights(sparse.projections, every, sparse.router)
    n_sparse = _sparse_layers(config)
    layers = dense.total * (config.layers - n_sparse) + sparse.total * n_sparse
    norms = (2 * config.layers + 1) * config.hidden
    head = config.hidden * config.vocab
    positions = config.seq_len * config.hidden if config.learned_positions else 0
    return layers + norms + head + positions + (0 if config.tied_embeddings else head)


def _embeddings(config: TransformerConfig) -> int:
    """Return the parameters that are only looked up: tied embeddings multiply as well."""
    positions = config.seq_len * config.hidden if config.learned_positions else 0
    return positions + (0 if config.tied_embeddings else config.hidden * config.vocab)


def _attention(config: TransformerConfig, rules: ModelConvention) -> float:
    """Return 2 a (d_qk + d_v) for each key that a token is held against, over all layers."""
    keys = {"full": config.seq_len, "causal": config.seq_len / 2, "none": 0}[rules.attention]
    latent = config.latent
    widths = 2 * config.head_dim
    if latent is not None:
        widths = latent.nope_dim + latent.rope_dim + latent.value_dim
    return 2.0 * config.heads * widths * keys * (config.layers + config.predicted_tokens)


def _layer(config: TransformerConfig, *, is_sparse: bool) -> _Weights:
    experts = config.experts
    wide = _width(config) * config.hidden
    if not is_sparse or experts is None:
        return _Weights(_projections(config), wide * (config.ffn_hidden or 0))
    passed = wide * experts.ffn_hidden * (experts.top_k + experts.shared)
    return _Weights(_projections(config), passed, config.hidden * experts.routed)


def _projections(config: TransformerConfig) -> int:
    hidden, heads, latent = config.hidden, config.heads, config.latent
    if latent is None:
        return 2 * hidden * config.head_dim * (heads + config.kv_heads)
    query = latent.query_rank * (hidden + heads * (latent.nope_dim + latent.rope_dim))
    down = hidden * (latent.key_value_rank + latent.rope_dim)
    up = latent.key_value_rank * heads * (latent.nope_dim + latent.value_dim)
    return query + down + up + heads * latent.value_dim * hidden


def _width(config: TransformerConfig) -> int:
    return 3 if config.gated_mlp else 2


def _sparse_layers(config: TransformerConfig) -> int:
    return 0 if config.experts is None else config.layers - config.experts.dense_layers
