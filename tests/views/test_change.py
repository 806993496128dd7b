"""The waterfall of a change, worked out by hand."""

import polars as pl

from workbench.analysis import compare
from workbench.views import change

MS = 1_000_000


def rows(*values, rank=0):
    keys = ("kind", "name", "a_ns", "b_ns", "difference_ns", "a_count", "b_count")
    beside = {"rank": rank, "device": rank, "share_of_change": None}
    made = [dict(zip(keys, ("part", n, a * MS, b * MS, (b - a) * MS, 1, 1), strict=True)) | beside
            for n, a, b in values]  # fmt: skip
    return pl.DataFrame(made, schema=compare.SCHEMA)


def test_bars_lead_from_one_step_to_the_other():
    # 10 ms -> 9 ms: compute -3, communication +1, idle +1
    frame = rows(("idle", 1, 2), ("compute", 8, 5), ("exposed_communication", 1, 2))
    drawn = change.parts(frame)
    assert drawn.select("label", "begin_ms", "end_ms", "change").rows() == [
        ("before", 0.0, 10.0, "10 ms"),
        ("compute", 10.0, 7.0, "-3 ms"),
        ("exposed communication", 7.0, 8.0, "+1 ms"),
        ("idle", 8.0, 9.0, "+1 ms"),
        ("after", 0.0, 9.0, "9 ms"),
    ]
    assert change.caption(drawn) == "a step of 10 ms became one of 9 ms (-10.0 %)"


def test_several_ranks_are_their_mean():
    frame = pl.concat([rows(("compute", 8, 4)), rows(("compute", 4, 4), rank=1)])
    drawn = change.parts(frame)
    assert drawn["end_ms"].to_list() == [6.0, 4.0, 4.0]


def test_it_is_drawn_in_both_themes_and_without_rows():
    frame = rows(("compute", 8, 5), ("idle", 0, 0))
    for theme in ("light", "dark"):
        assert len(change.bars(frame, theme=theme)) == 2
    assert len(change.bars(frame.clear())) == 1
