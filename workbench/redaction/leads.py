"""Words to begin a pseudonym with, so that it tells analyses what the name told.

Only words that name a class of work that is known already: a family, an element type, a kind of
call. They come from the name's evidence, never from its text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from workbench.redaction.evidence import Annotation, Call, Kernel, Operator

KERNEL_FAMILIES: dict[str, tuple[str, ...]] = {
    "communication": ("", "nccl_", "ncclKernel_", "x_nccl_", "nvshmem_", "cross_device_reduce_"),
    "gemm": ("gemm_", "gemm_rs_nccl_"),
    "attention": ("attention_", "flash_fwd_"),
    "convolution": ("conv2d_",),
    "norm": ("layer_norm_", "rms_norm_"),
    "softmax": ("softmax_",),
    "loss": ("cross_entropy_", "nll_loss_"),
    "elementwise": ("elementwise_kernel_", "pointwise_", "sigmoid_"),
    "reduction": ("reduce_kernel_", "warp_all_reduce_", "argmax_", "LpNorm_"),
    "layout": ("transpose_", "cast_", "repeat_interleave_"),
    "copy": ("memcpy_", "Memcpy "),
    "set": ("Memset ", "memset_"),
    "indexing": ("index_select_", "scatter_", "gather_", "kv_cache_"),
    "embedding": ("embedding_kernel_", "embedding_backward_"),
    "sort": ("topk_", "DeviceRadixSort_"),
    "scan": ("cumsum_", "DeviceScan_"),
    "random": ("dropout_",),
    "optimizer": ("fused_adam_", "adamw_"),
    "pooling": ("max_pool_", "upsample_"),
    "fft": ("fft_", "fft2d_"),
    "moe": ("moe_align_", "moe_"),
    "quantization": ("quantize_", "quant_"),
    "ssm": ("selective_scan_", "mamba_"),
    "fused": ("cpp_fused_", "pointwise_fused_", "triton_poi_", "triton_red_"),
    "sync": ("spin_kernel_", "spin_kernel_Sync_"),
}
"""Words that make a kernel one of a family, the shortest first."""
OPERATOR_FAMILIES: dict[str, tuple[str, ...]] = {
    "communication": ("c10d::", "nccl:", "gloo:", "mpi:", "_c10d_functional::"),
    "optimizer": ("Optimizer.step#", "aten::_fused_adam_"),
    "attention": ("aten::_scaled_dot_product_",),
    "convolution": ("aten::conv2d_",),
    "gemm": ("aten::mm_",),
    "norm": ("aten::layer_norm_",),
    "softmax": ("aten::softmax_",),
    "loss": ("aten::nll_loss_",),
    "embedding": ("aten::embedding_", "fbgemm::embedding_codegen_"),
    "random": ("aten::dropout_",),
    "pooling": ("aten::max_pool_",),
    "fft": ("aten::fft_",),
    "sort": ("aten::topk_",),
    "scan": ("aten::cumsum_", "fbgemm::asynchronous_complete_cumsum_"),
    "indexing": ("aten::index_", "fbgemm::permute_"),
    "set": ("aten::_foreach_zero_",),
    "layout": ("aten::clone_",),
    "quantization": ("torchao::", "aten::fake_quantize_"),
    "reduction": ("aten::sum_",),
    "fused": ("cpp_fused_",),
    "elementwise": ("aten::add_",),
}
_DTYPES = {
    "fp64": "fp64_",
    "tf32": "tf32_",
    "fp32": "fp32_",
    "bf16": "bf16_",
    "fp16": "fp16_",
    "fp8": "fp8_",
    "fp4": "fp4_",
}
_SEVERAL = "fp64_fp8_"
"""Two types, which leave in doubt which one a kernel works in."""
_CALLS = {
    "launch": "LaunchKernel",
    "graph_launch": "GraphLaunch",
    "sync": "Synchronize",
    "copy": "Memcpy",
    "set": "Memset",
    "malloc": "Malloc",
}


def of_kernel(told: Kernel) -> Iterator[str]:
    """Return leads for a kernel: its family, then the rest of what it tells, in any part."""
    yield from _of_work(told, KERNEL_FAMILIES.get(told.family or "", ("",)))


def _of_work(told: Kernel, family: tuple[str, ...]) -> Iterator[str]:
    inductor = ("triton_poi_",) if told.is_inductor else ()
    given = [word for word in _more(told) if word]
    for count in range(len(given) + 1):
        for words in itertools.combinations(given, count):
            for begin in (*inductor, *family, ""):
                yield begin + "".join(words)


def _more(told: Kernel) -> Iterator[str]:
    """Return a word for each thing that a kernel's name tells besides its family."""
    first, second = told.types
    yield _DTYPES.get(told.dtype or "", "")
    if first is not None:
        yield f"Functor<{first}{f', {second}' if second else ''}>_"
        yield "" if told.dtype else _SEVERAL
    yield "" if told.collective == "unknown" else f"{told.collective}_"
    yield "s1688_" if told.is_tf32 and told.dtype != "tf32" else ""
    yield "simt_" * told.is_fp32
    yield "bn_fw_tr_" * told.trains
    yield "bn_fw_inf_" * told.evaluates
    if told.gather:
        size, index = told.gather
        yield f"vectorized_gather_kernel<{size}, {index}>_"
    if told.memory:
        side = told.memory.title()
        yield f"{told.direction} ({side} -> {side}) "
    elif told.direction:
        yield f"{told.direction}_"


def of_operator(told: Operator) -> Iterator[str]:
    """Return leads for an operator."""
    yield from of_annotation(told.annotation)
    yield "::_foreach_" * told.is_foreach


def of_executed(told: tuple[Operator, Kernel]) -> Iterator[str]:
    """Return leads for an operator that host threads execute."""
    operator, work = told
    family = OPERATOR_FAMILIES.get(work.family or "", ("",))
    for begin, word in itertools.product(of_operator(operator), _of_work(work, family)):
        yield begin + word


def of_annotation(told: Annotation) -> Iterator[str]:
    """Return leads for a range."""
    yield ""
    lock, collection = "GIL " * told.is_gil, "gc " * told.is_collection
    yield f"{collection}{lock}{'wait ' * told.waits}"
    if told.is_nccl:
        yield "nccl_"
    if told.is_step:
        yield "ProfilerStep "


def of_call(told: Call) -> Iterator[str]:
    """Return leads for a runtime call."""
    api = "hip" if told.is_hip else "cu" if told.is_driver else "cuda"
    word = "MemGetInfo" if told.queries else _CALLS.get(told.kind, "")
    for begin, lazy in itertools.product((api, ""), ("Async" * told.is_async, "")):
        yield f"{begin}{word or 'Call'}{lazy}_"


def of_domain(told: tuple[bool, bool]) -> Iterator[str]:
    """Return leads for a domain of annotations."""
    yield "GIL " * told[0]


def of_group(told: str | None) -> Iterator[str]:
    """Return leads for the description of a process group."""
    yield "" if told is None else f"{told}_".replace("+", "_")


def none(told: object) -> Iterator[str]:
    """Return the one lead of a name that tells nothing."""
    del told
    yield ""
