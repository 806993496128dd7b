"""The operators of one layer: names, kernels and durations as a trace of a real one shows them."""

from __future__ import annotations

from dataclasses import dataclass

GEMM = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"
ADAMW = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
    "at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, "
    "at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (adam_mode)1, false>>"
)
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{0}, "
    "std::array<char*, 2ul> >(int, at::native::{0}, std::array<char*, 2ul>)"
)
NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<"
    "c10::BFloat16, float, true>(int, float, c10::BFloat16 const*)"
)
FLASH = "void pytorch_flash::flash_{0}_kernel<Flash_{0}_kernel_traits<128, 64, 128, 8> >"


@dataclass(frozen=True, slots=True)
class Operation:
    """A forward operator, its kernel, and the kernels of its backward node with their operators."""

    outer: str | None
    """Operator that the program calls, where it is not the one that launches."""
    inner: str
    kernel: str
    ns: int
    node: str
    backward: tuple[tuple[str, str, int], ...]
    """Operator (with which of several calls it is, in parentheses), kernel and duration."""
    matrix: bool = False


def _linear(ns: int) -> Operation:
    """Return a matrix multiplication whose backward is two more of the same length."""
    backward = (("aten::mm (input)", GEMM, ns), ("aten::mm (weight)", GEMM, ns))
    return Operation("aten::linear", "aten::mm", GEMM, ns, "MmBackward0", backward, matrix=True)


_ATTENTION = "aten::_scaled_dot_product_flash_attention"

LAYER = (
    Operation(
        "aten::rms_norm",
        "aten::_fused_rms_norm",
        NORM,
        10_000,
        "FusedRmsNormBackward0",
        (("aten::_fused_rms_norm_backward", NORM, 20_000),),
    ),
    _linear(30_000),
    Operation(
        "aten::scaled_dot_product_attention",
        _ATTENTION,
        FLASH.format("fwd"),
        40_000,
        "ScaledDotProductFlashAttentionBackward0",
        ((f"{_ATTENTION}_backward", FLASH.format("bwd"), 100_000),),
    ),
    _linear(50_000),
    Operation(
        None,
        "aten::silu",
        ELEMENTWISE.format("silu_kernel"),
        10_000,
        "SiluBackward0",
        (("aten::silu_backward", ELEMENTWISE.format("silu_backward_kernel"), 15_000),),
    ),
)
"""Forward 140 us, backward 295 us, before jitter."""
MATRICES = sum(operation.matrix for operation in LAYER)
