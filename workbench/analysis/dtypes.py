"""The element type that a kernel works in, where its name or its operator leaves no doubt."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import polars as pl

from workbench.costs.shapes import DTYPES
from workbench.trace import nesting

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.trace.core import Trace

_PATTERNS = {
    "fp64": r"\bdouble\b|(?<![a-z0-9])(fp64|f64|dgemm)|(?<=[_ ])f64f64",
    "tf32": r"tf32",
    "fp32": r"\bfloat\b|(?<![a-z])(fp32|f32|sgemm)",
    "bf16": r"bfloat16|bf16|bfloat(?![a-z])",
    "fp16": r"(?<![a-z])half(?![a-z])|(?<![a-z])(fp16|f16|hgemm)",
    "fp8": r"fp8|e4m3|e5m2|float8",
    "fp4": r"fp4|e2m1|float4_e2m1",
}
"""Floating point types in the names of kernels of PyTorch (C++ types), cuBLAS and CUTLASS
(`bf16gemm`, `f16f16`, `sgemm`), hipBLASLt and Triton. Integers are most often indices."""
_RULES = {dtype: re.compile(pattern, re.IGNORECASE) for dtype, pattern in _PATTERNS.items()}


def of_activities(trace: Trace, activities: pl.DataFrame) -> pl.Series:
    """Return the type of each activity by its name, else by its operator's inputs, else null.

    By name: when it states one floating point type alone (tf32 is one although it reads fp32). By
    inputs: when all tensors that the operator was called with are of one type.
    """
    by_name = _once_each(activities["name"], of_name)
    op = nesting.ids(activities["op"])
    types = nesting.gathered(trace.ops["input_types"], op)
    both = pl.DataFrame({"name": by_name, "inputs": _once_each(types, of_inputs)})
    return both.select(pl.coalesce("name", "inputs")).to_series()


def of_name(name: str) -> str | None:
    """Return the one floating point type that a kernel's name states."""
    found = {dtype for dtype, rule in _RULES.items() if rule.search(name)}
    if "tf32" in found:
        found.discard("fp32")
    return found.pop() if len(found) == 1 else None


def of_inputs(types: str) -> str | None:
    """Return the one type of all tensors in a text of input types."""
    try:
        named = json.loads(types)
    except ValueError:
        return None
    if not isinstance(named, list) or not all(isinstance(n, str) for n in named):
        return None
    tensors = [n for n in named if n not in {"", "Scalar", "ScalarList", "TensorList"}]
    found = {DTYPES[n].precision if n in DTYPES else None for n in tensors}
    return found.pop() if len(found) == 1 and "TensorList" not in named else None


def _once_each(names: pl.Series, rule: Callable[[str], str | None]) -> pl.Series:
    """Apply a rule to each distinct name of a categorical column."""
    distinct = names.unique().drop_nulls()
    said = pl.Series([rule(n) for n in distinct.cast(pl.String)], dtype=pl.String)
    return names.to_physical().replace_strict(
        distinct.to_physical(), said, default=None, return_dtype=pl.String
    )
