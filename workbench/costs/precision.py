"""Which arithmetic a product of 32-bit floats ran in: the shapes do not tell, the kernels may.

On devices with TF32, a framework switch decides; the recording holds only the kernels' names. Names
that say neither leave the precision unknown, and so the ratio to a roof, which differs eightfold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from workbench.costs.roofs import Roofs

AMBIGUOUS = "fp32 or tf32"
# cuBLAS and CUTLASS name tensor-core products of 32-bit floats by the type or the 16x8x8 shape.
# Tensile writes _S_MX_ where 32-bit floats are multiplied in XF32 (F32XdlMathOp); else _SB_, _S_B.
TF32_NAME = r"(?i)tf32|xf32|s1688|Cijk_\w*?_S_MX_"
FP32_NAME = r"(?i)sgemm|simt|ffma|f32f32_f32f32|Cijk_\w*?_SB?_(?:[^M]|M[^X])"


def may_be_tf32(roofs: Roofs | str, *, is_host: bool) -> bool:
    """Say whether fp32 may mean TF32 on a device; where the device is unknown, it may."""
    if is_host:
        return False
    return isinstance(roofs, str) or roofs.peak("tf32", "matrix") is not None


def hints() -> dict[str, pl.Expr]:
    """Return aggregates over the kernels of an operator: whether a `name` says tf32, or fp32."""
    name = pl.col("name").cast(pl.String)
    return {
        "is_tf32": name.str.contains(TF32_NAME).any(),
        "is_fp32": name.str.contains(FP32_NAME).any(),
    }


def told() -> pl.Expr:
    """Return `precision`, where it is fp32 as the `hints` tell; both or neither: ambiguous.

    Without hints (null) it stays.
    """
    is_tf32, is_fp32 = pl.col("is_tf32"), pl.col("is_fp32")
    found = (
        pl.when(is_tf32 & ~is_fp32)
        .then(pl.lit("tf32"))
        .when(is_fp32 & ~is_tf32)
        .then(pl.lit("fp32"))
        .otherwise(pl.lit(AMBIGUOUS))
    )
    in_doubt = (pl.col("precision") == "fp32") & is_tf32.is_not_null()
    return pl.when(in_doubt).then(found).otherwise("precision")
