"""Device records without a usable time: dur < 0, or ts 0 with dur 0 or a day before all others."""

import pytest
from tinytrace import kernel, write

import workbench as wb

DAY_US = 86_400 * 10**6


@pytest.mark.parametrize(
    ("odd", "others_at", "kept"),
    [
        ((0, 0), 10, False),  # never filled in, though other events are near
        ((0, 5), 10, True),  # a recording that begins at 0
        ((0, 5), DAY_US, True),
        ((0, 5), DAY_US + 1, False),
        ((3, 0), 10, True),  # below the clock's resolution
        ((3, -1), 10, False),
    ],
)
def test_what_counts(tmp_path, odd, others_at, kept):
    events = [kernel("odd", *odd), kernel("k", others_at, 7)]
    trace = wb.open(write(tmp_path, events))
    assert ("odd" in trace.activities["name"].to_list()) == kept
    assert trace.problems["count"].to_list() == ([] if kept else [1])
