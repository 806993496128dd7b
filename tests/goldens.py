"""Golden frames: what a frame looks like as text, and when one equals what is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import polars as pl

FLOAT_TOLERANCE = 1e-9


def golden_text(frame: pl.DataFrame) -> str:
    """One line a row, so that a change reads well in a diff."""
    columns = json.dumps({name: str(dtype) for name, dtype in frame.schema.items()})
    rows = ",\n".join(json.dumps(list(row), ensure_ascii=False) for row in frame.rows())
    return f'{{"columns": {columns},\n"rows": [\n{rows}\n]}}\n'


def assert_golden(stored: dict, frame: pl.DataFrame) -> None:
    assert {name: str(dtype) for name, dtype in frame.schema.items()} == stored["columns"]
    assert frame.height == len(stored["rows"])
    for number, (row, wanted) in enumerate(zip(frame.rows(), stored["rows"], strict=True)):
        for name, is_, should in zip(frame.columns, row, wanted, strict=True):
            near = isinstance(is_, float) and isinstance(should, float)
            expected = pytest.approx(should, rel=FLOAT_TOLERANCE, nan_ok=True) if near else should
            assert is_ == expected, f"row {number}, column {name}"
