"""Numbers of combinations, by codes: the same as counting them one by one."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workbench.views import numbering
from workbench.views.numbering import numbered

KINDS = pl.Enum(["copy", "kernel", "set"])
COLUMNS = {
    "kind": (KINDS, st.sampled_from(["set", "copy", None])),
    "family": (pl.Categorical, st.sampled_from(["gemm", "", "norm", None])),
    "name": (pl.String, st.sampled_from(["a", "b", "kernel", None])),
    "device": (pl.Int32, st.sampled_from([-5, 0, 3, None])),
    "stream": (pl.Int64, st.sampled_from([7, -(2**63), 2**63 - 1, None])),
    "pointer": (pl.UInt64, st.sampled_from([3, 2**64 - 1, 2**64 - 2, None])),
    "share": (pl.Float64, st.sampled_from([0.5, 1.5, None])),
    "is_last": (pl.Boolean, st.sampled_from([True, False, None])),
}
SCHEMA = {name: dtype for name, (dtype, _) in COLUMNS.items()}
rows = st.lists(st.tuples(*(values for _, values in COLUMNS.values())), max_size=12)


def test_a_combination_has_the_number_of_its_first_row():
    frame = pl.DataFrame({"a": [5, 5, None, 5], "b": ["x", "y", "x", "x"]})
    number, found = numbered(frame, ["a", "b"])
    assert number.tolist() == [0, 1, 2, 0]
    assert found.rows() == [(5, "x"), (5, "y"), (None, "x")]


@pytest.mark.parametrize("table", [1, 6, numbering.MAX_TABLE])
@given(rows, st.permutations(list(COLUMNS)), st.integers(1, len(COLUMNS)))
@example([("set", None, "a", 0, 7, 2**64 - 1, 0.5, True)] * 2, list(COLUMNS), len(COLUMNS))
def test_numbers_equal_a_count(table, rows, names, width):
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    on = names[:width]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "MAX_TABLE", table)  # both ways of telling many apart
        number, found = numbered(frame, on)
    seen: dict[tuple, int] = {}
    expected = [seen.setdefault(row, len(seen)) for row in frame.select(on).rows()]
    assert number.tolist() == expected
    assert found.rows() == list(seen)
    assert found.schema == frame.select(on).schema
