"""The golden comparison must be able to fail."""

from __future__ import annotations

import json

import polars as pl
import pytest
from goldens import assert_golden, golden_text

FRAME = pl.DataFrame({"name": ["a", None], "dur_ns": [2**62, 7], "share": [0.25, None]})


def test_a_frame_equals_its_own_golden():
    assert_golden(json.loads(golden_text(FRAME)), FRAME)


@pytest.mark.parametrize(
    ("column", "value"),
    [("name", "b"), ("dur_ns", 2**62 + 1), ("share", 0.2500001), ("share", None)],
)
def test_one_changed_value_is_found(column, value):
    changed = FRAME.with_columns(
        pl.when(pl.col("dur_ns") > 7)
        .then(pl.lit(value, FRAME.schema[column]))
        .otherwise(pl.col(column))
        .alias(column)
    )
    with pytest.raises(AssertionError, match="row 0"):
        assert_golden(json.loads(golden_text(FRAME)), changed)


def test_floats_may_differ_in_the_last_digits():
    nearly = FRAME.with_columns(pl.col("share") * (1 + 1e-12))
    assert_golden(json.loads(golden_text(FRAME)), nearly)


def test_a_changed_type_is_found():
    with pytest.raises(AssertionError):
        assert_golden(json.loads(golden_text(FRAME)), FRAME.cast({"dur_ns": pl.UInt64}))
