"""Which operators are fused attention, and where their arguments stand.

Positions are those of torch's `native_functions.yaml`, of flash-attention's
`flash_attn_interface.py` (2.x) and `hopper/flash_api.cpp` (3), and of AITER's `ops/mha.py`.

Causal masks of blocks that are not square differ: torch's `is_causal` starts at the top left
corner (query i sees keys up to i), flash-attention since 2.1 at the bottom right (the last query
sees every key), and so does what torch calls it for.
"""

from __future__ import annotations

from dataclasses import dataclass

HEADS_FIRST = "BHLD"
LENGTH_FIRST = "BLHD"


@dataclass(frozen=True, slots=True)
class Signature:
    """Positions of the arguments; None: the operator has no such argument."""

    query: int
    """Key and value follow."""
    causal: int | None = None
    mask: int | None = None
    out: int | None = None
    """The forward output: a backward operator reads it and the incoming gradient (at 0)."""
    layout: str = HEADS_FIRST
    bottom_right: bool = False
    left: int | None = None
    """Keys before its own that a query sees, -1 for all; `right`: after its own."""
    right: int | None = None
    window: int | None = None
    """One number for a causal window: a query sees that many keys up to its own."""
    kinds: int | None = None
    """Position of a mask type instead of a flag: 0 none, 1 from the top left, 2 bottom right."""
    starts: tuple[int, int] | None = None
    """Cumulative lengths of queries and keys when sequences of several lengths are packed."""
    longest: tuple[int, int] | None = None
    cache: tuple[int, ...] = ()
    """Tensors that say which part of a cache is used: its length is in their values."""


_SDPA = "aten::_scaled_dot_product"
_FLASH = Signature(
    0, 8, layout=LENGTH_FIRST, bottom_right=True, left=11, right=12, starts=(3, 4), longest=(5, 6),
    cache=(13, 15),
)  # fmt: skip
_PACKAGE = {
    "_flash_attn_forward": Signature(
        0, 5, layout=LENGTH_FIRST, bottom_right=True, left=6, right=7
    ),
    "_flash_attn_backward": Signature(
        1, 11, out=4, layout=LENGTH_FIRST, bottom_right=True, left=12, right=13
    ),
    "_flash_attn_varlen_forward": Signature(
        0, 9, layout=LENGTH_FIRST, bottom_right=True, left=10, right=11, starts=(3, 4),
        longest=(5, 6), cache=(15, 16, 17),
    ),
    "_flash_attn_varlen_backward": Signature(
        1, 15, out=4, layout=LENGTH_FIRST, bottom_right=True, left=16, right=17, starts=(9, 10),
        longest=(11, 12),
    ),
}  # fmt: skip
_AITER_FORWARD = Signature(0, 5, layout=LENGTH_FIRST, bottom_right=True, left=6, right=7)

SIGNATURES = {
    "aten::scaled_dot_product_attention": Signature(0, 5, mask=3),
    f"{_SDPA}_flash_attention_for_cpu": Signature(0, 4, mask=5),
    f"{_SDPA}_flash_attention": Signature(0, 4, bottom_right=True),
    f"{_SDPA}_efficient_attention": Signature(0, 6, mask=3),
    f"{_SDPA}_cudnn_attention": Signature(0, 6, mask=3),
    f"{_SDPA}_fused_attention_overrideable": Signature(0, 5, mask=3),
    f"{_SDPA}_flash_attention_for_cpu_backward": Signature(1, 7, mask=8, out=4),
    f"{_SDPA}_flash_attention_backward": Signature(1, 11, out=4, bottom_right=True),
    f"{_SDPA}_efficient_attention_backward": Signature(1, 11, mask=4, out=5),
    f"{_SDPA}_cudnn_attention_backward": Signature(1, 14, mask=8, out=4),
    f"{_SDPA}_fused_attention_overrideable_backward": Signature(1, 13, mask=4, out=6),
    "aten::_flash_attention_forward": _FLASH,
    "aten::_flash_attention_backward": Signature(
        1, 11, out=4, layout=LENGTH_FIRST, bottom_right=True, left=15, right=16, starts=(6, 7),
        longest=(8, 9),
    ),
    "aten::_efficient_attention_forward": Signature(
        0, mask=3, layout=LENGTH_FIRST, kinds=9, window=13, starts=(4, 5), longest=(6, 7),
        cache=(12,),
    ),
    "aten::_efficient_attention_backward": Signature(
        1, mask=4, out=5, layout=LENGTH_FIRST, kinds=14, window=18, starts=(6, 7), longest=(8, 9)
    ),
    "aten::_cudnn_attention_forward": Signature(0, 10, mask=3, starts=(4, 5), longest=(6, 7)),
    "aten::_cudnn_attention_backward": Signature(
        1, 14, mask=8, out=4, starts=(9, 10), longest=(11, 12)
    ),
    **{
        f"{space}::{name}": signature
        for name, signature in _PACKAGE.items()
        for space in ("flash_attn", "flashattn")
    },
    "flash_attn_3::fwd": Signature(
        0, 24, layout=LENGTH_FIRST, bottom_right=True, left=25, right=26, starts=(7, 8),
        longest=(12, 13), cache=(3, 10, 11, 14, 16),
    ),
    **dict.fromkeys(
        ("aiter::_flash_attn_forward", "aiter::mha_fwd", "aiter::fmha_v3_fwd"), _AITER_FORWARD
    ),
    "aiter::_flash_attn_backward": Signature(
        1, 12, out=4, layout=LENGTH_FIRST, bottom_right=True, left=13, right=14
    ),
    "aiter::mha_bwd": Signature(
        1, 8, out=4, layout=LENGTH_FIRST, bottom_right=True, left=9, right=10
    ),
}  # fmt: skip
CACHED = (
    "vllm::unified_attention",
    "vllm::unified_attention_with_output",
    "sglang::unified_attention_with_output",
)
"""Operators that read a cache of keys and values through an object that is not recorded."""
