"""What precision and attention options mean in torch: autocast, TF32, loss scaling, back ends."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torch import Tensor

    from workbench.workloads.options import Options

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
WEIGHTS = {"bf16-true": torch.bfloat16}
"""Type of the weights, where it is not fp32."""
_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


def set_products(spec: Options) -> None:
    """Let products and convolutions of 32-bit floats run in TF32, or forbid it; process-wide."""
    allowed = spec.precision == "tf32"
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cudnn.allow_tf32 = allowed


def autocast(spec: Options, device: torch.device) -> AbstractContextManager[object]:
    """Return the context of the forward."""
    dtype = AUTOCAST.get(spec.precision)
    return torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)


def attention(spec: Options) -> AbstractContextManager[object]:
    """Return the context of a whole step: recomputation attends once more in the backward."""
    stack = ExitStack()
    backend = _BACKENDS.get(getattr(spec, "attention", "auto"))
    if backend is not None:
        stack.enter_context(sdpa_kernel(backend))
    return stack


def innermost_channels(tensor: Tensor) -> Tensor:
    """Return images (4 dimensions) and volumes (5) with channels innermost, others as they are."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    found = formats.get(tensor.dim())
    return tensor if found is None else tensor.contiguous(memory_format=found)


def scaler(spec: Options, device: torch.device) -> torch.amp.GradScaler:
    """Return the scaler of the loss; it does nothing but for fp16."""
    return torch.amp.GradScaler(device.type, enabled=spec.precision == "fp16")
