"""Which arithmetic a product of 32-bit floats ran in: the shapes do not tell, the kernels may.

On devices with TF32, a framework switch decides; the recording holds only the kernels' names. Names
that say neither leave the precision unknown, and so the ratio to a roof, which differs eightfold.
"""

from __future__ import annotations

import polars as pl

AMBIGUOUS = "fp32 or tf32"
# cuBLAS and CUTLASS name tensor-core products of 32-bit floats by the type or the 16x8x8 shape.
# Tensile writes _S_MX_ where 32-bit floats are multiplied in XF32 (F32XdlMathOp); else _SB_, _S_B.
TF32_NAME = r"(?i)tf32|xf32|s1688|Cijk_\w*?_S_MX_"
FP32_NAME = r"(?i)sgemm|simt|ffma|f32f32_f32f32|Cijk_\w*?_SB?_(?:[^M]|M[^X])"


def resolved(is_tf32: pl.Expr, is_fp32: pl.Expr) -> pl.Expr:
    """Return tf32 or fp32 by what the kernels of an operator are named; both or neither: unknown.

    `is_tf32` and `is_fp32` say whether one of its kernels has such a name.
    """
    return (
        pl.when(is_tf32 & ~is_fp32)
        .then(pl.lit("tf32"))
        .when(is_fp32 & ~is_tf32)
        .then(pl.lit("fp32"))
        .otherwise(pl.lit(AMBIGUOUS))
    )
