"""Which kernel of a recording a counted launch is: the same name and sizes, in order of launch.

Counters and timeline come from two runs of one program. A launch is told by the kernel's name, by
the number of threads and of threads a block where both files have them, and by how many such
launches came before it. Names are compared whole; a name that the recording has nowhere (Nsight
Compute can leave parameters and namespaces out) by its function alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable

_SPACE = re.compile(r"\s+")
_LOADER = re.compile(r" ?(\[clone [^\]]*\]|\(\.kd\)|\.kd)$")
_ANONYMOUS = ("(anonymous namespace)", "<unnamed>", "{anonymous}")
LONGEST = 8192
"""Characters of a name that are looked at for its function."""


def sized(frame: pl.DataFrame) -> pl.DataFrame:
    """Add `blocks` and `threads_per_block` of a table with `grid` and `block`; null: unknown."""

    def product(column: str) -> pl.Expr:
        parts = [pl.col(column).arr.get(i).cast(pl.Int64) for i in range(3)]
        return parts[0] * parts[1] * parts[2]

    return frame.with_columns(blocks=product("grid"), threads_per_block=product("block"))


def matched(launches: pl.DataFrame, kernels: pl.DataFrame) -> pl.Series:
    """Return, for each counted launch, the row number of its kernel in `kernels`; null for none.

    Both have `name blocks threads_per_block` and stand in order of launch.
    """
    sizes = ["blocks", "threads_per_block"]
    known = [s for s in sizes if not (launches[s].null_count() or kernels[s].null_count())]
    left = _named(launches, whole).select("key", *known)
    right = _named(kernels, whole).select("key", *known)
    short = ~left["key"].is_in(right["key"].implode())
    by_name = _paired(left.filter(~short), right, known)
    functions = _named(launches.filter(short), function).select("key", *known)
    by_function = _paired(functions, _named(kernels, function).select("key", *known), known)
    found = pl.repeat(None, launches.height, dtype=pl.Int64, eager=True)
    return found.scatter((~short).arg_true(), by_name).scatter(short.arg_true(), by_function)


def _named(frame: pl.DataFrame, form: Callable[[str], str]) -> pl.DataFrame:
    names = frame["name"].cast(pl.String)
    forms = {n: form(n) for n in names.unique() if n is not None}
    return frame.with_columns(key=names.replace_strict(forms, default=None, return_dtype=pl.String))


def _paired(left: pl.DataFrame, right: pl.DataFrame, sizes: list[str]) -> pl.Series:
    """Pair the n-th row of each key on the left with the n-th on the right: its row number."""
    keys = ["key", *sizes]
    nth = pl.int_range(pl.len()).over(keys).alias("nth")
    rows = right.with_columns(nth).with_row_index("row").cast({"row": pl.Int64})
    joined = left.with_columns(nth).join(rows, on=[*keys, "nth"], how="left", maintain_order="left")
    return joined["row"]


def whole(name: str) -> str:
    """Return a name without what a loader added and without a difference in its spaces."""
    return _SPACE.sub(" ", _LOADER.sub("", name)).strip()


def function(name: str) -> str:
    """Return the function of a demangled name: no result type, namespaces, templates, parameters.

    `void at::native::reduce<512, 1, F<float> >(int)` becomes `reduce`.
    """
    text = whole(name)[:LONGEST]
    for anonymous in _ANONYMOUS:
        text = text.replace(anonymous, "anonymous")
    kept, depth = [], 0
    for character in text:
        if character == "(" and not depth:
            break
        depth += (character == "<") - (character == ">" and depth > 0)
        kept.append("" if depth or character == ">" else character)
    bare = "".join(kept).strip().rpartition(" ")[2]
    return bare.rpartition("::")[2] or text
