"""Options that workloads have in common: batch, numerics, execution, optimiser, ranks, input.

A spec extends one of these classes by the shape of its model. Combinations that mean nothing are
refused here, once, by the names of both fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError
from workbench.workloads.fields import check, param

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.workloads.fields import Value

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "bf16-true")
COMPILE_MODES = ("off", "default", "reduce-overhead", "max-autotune")
ATTENTION = ("auto", "flash", "efficient", "cudnn", "math")
OPTIMIZERS = ("adamw", "sgd", "nesterov", "lars", "adagrad", "adafactor", "lamb")
FUSIONS = ("auto", "foreach", "fused", "off")
GRAPHED_MODES = ("reduce-overhead", "max-autotune")
"""Modes of compilation that replay CUDA graphs, whose results live until the next replay."""

_FUSIONS_OF = {
    "adafactor": ("auto", "foreach", "off"),
    "lamb": ("auto", "off"),
    "lars": ("auto", "off"),
}
_GPU_ONLY: dict[str, tuple[Value, ...]] = {
    "precision": ("tf32",),
    "cuda_graphs": (True,),
    "compile": GRAPHED_MODES,
    "attention": ("efficient", "cudnn", "flex"),
}
"""Values that mean nothing on a CPU."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What every workload lets one choose, beside the shape of its model."""

    batch: int = param(2, "samples in a micro-batch, on each rank", minimum=1)
    accumulate: int = param(1, "micro-batches in a step", minimum=1)
    precision: str = param(
        "fp32",
        "fp32; tf32 products; bf16 or fp16 by autocast over fp32 weights; bf16-true: bf16 weights",
        choices=PRECISIONS,
    )
    recompute: str = param(
        "none",
        "what the backward computes again: nothing; all but the products; each whole block",
        choices=("none", "selective", "full"),
    )
    compile: str = param("off", "torch.compile of each block, by its mode", choices=COMPILE_MODES)
    cuda_graphs: bool = param(False, "forward and backward replayed as one CUDA graph")
    optimizer: str = param("adamw", "what updates the weights", choices=OPTIMIZERS)
    fusion: str = param("auto", "the optimiser's kernels: torch's choice, or one", choices=FUSIONS)
    learning_rate: float = param(3e-4, "the optimiser's learning rate, constant", minimum=0)
    weight_decay: float = param(0.1, "the optimiser's weight decay", minimum=0)
    clip_norm: float = param(0.0, "greatest norm of all gradients; 0 leaves them", minimum=0)
    parallel: str = param("ddp", "how several ranks share the work", choices=("ddp", "fsdp"))
    loader_workers: int = param(0, "data-loader processes; 0 loads in line", minimum=0, maximum=64)
    loader_delay_ms: float = param(
        0.0, "wait before each micro-batch, to see a slow input", minimum=0, maximum=60_000
    )
    seed: int = param(0, "seed of weights and data", minimum=0, maximum=2**31 - 1)

    def __post_init__(self) -> None:
        """Check each field, then the fields that depend on each other."""
        check(self)
        if self.cuda_graphs and self.compile in GRAPHED_MODES:
            raise UsageError(
                f"cuda_graphs=true and compile={self.compile} exclude each other: that mode makes "
                "CUDA graphs of its own; keep one of them, or compile=default."
            )
        if self.accumulate > 1 and self.compile in GRAPHED_MODES:
            raise UsageError(
                f"accumulate={self.accumulate} and compile={self.compile} exclude each other: the "
                "graphs of the next micro-batch would write over the gradients; use "
                "compile=default."
            )
        allowed = _FUSIONS_OF.get(self.optimizer, FUSIONS)
        if self.fusion not in allowed:
            raise UsageError(
                f"fusion={self.fusion} and optimizer={self.optimizer} exclude each other; "
                f"{self.optimizer} has {', '.join(allowed)}."
            )

    @property
    def tokens_per_sample(self) -> int | None:
        """Tokens in one sample, padding included; None where samples are no sequences."""
        return None

    @property
    def samples_per_step(self) -> int:
        """Samples that one rank loads in a step."""
        return self.batch * self.accumulate

    def transformer(self) -> dict[str, int | bool] | None:
        """Return the shape by the fields of `costs.transformer`; None where they do not fit."""
        return None

    def check_run(self, *, device: str, ranks: int) -> None:
        """Raise UsageError where these options cannot run on a device (cpu, cuda…) or ranks."""
        if device == "cpu":
            self._check_cpu()
        if self.cuda_graphs and ranks > 1:
            raise UsageError(
                f"cuda_graphs=true and ranks={ranks} exclude each other: the collectives of "
                "several ranks are not captured here; use one of them."
            )

    def _check_cpu(self) -> None:
        for name, values in _GPU_ONLY.items():
            value = getattr(self, name, None)
            if value in values:
                text = str(value).lower() if isinstance(value, bool) else value
                raise UsageError(
                    f"{name}={text} and device=cpu exclude each other; it needs a GPU."
                )


@dataclass(frozen=True, kw_only=True)
class ImageOptions(Options):
    """Options of workloads made of convolutions."""

    channels_last: bool = param(False, "images and weights with channels innermost")


@dataclass(frozen=True, kw_only=True)
class AttentionOptions(Options):
    """Options of workloads that call `scaled_dot_product_attention`."""

    attention: str = param("auto", "which kernels attention runs on", choices=ATTENTION)


@dataclass(frozen=True, kw_only=True)
class TransformerOptions(AttentionOptions):
    """Options of transformers whose matrices can be split over ranks."""

    parallel: str = param(
        "ddp",
        "how several ranks share the work: replicas, sharded replicas, or one split model",
        choices=("ddp", "fsdp", "tensor"),
    )


def current(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return stored values by the names of today: run folders outlive versions of a spec."""
    found = dict(values)
    if isinstance(found.get("recompute"), bool):
        found["recompute"] = "full" if found["recompute"] else "none"
    if "fused_optimizer" in found:
        found["fusion"] = "fused" if found.pop("fused_optimizer") else "auto"
    return found


def check_experts(spec: Any) -> None:
    """Raise UsageError for options that do not go with a spec's experts."""
    if spec.top_k > spec.experts:
        raise UsageError(f"top_k={spec.top_k} is above experts={spec.experts}.")
    if spec.cuda_graphs and spec.expert_kernel == "loop":
        raise UsageError(
            "cuda_graphs=true and expert_kernel=loop exclude each other: the loop reads on the "
            "host how many tokens each expert got; use expert_kernel=grouped."
        )
