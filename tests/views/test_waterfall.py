"""The step as a waterfall: where each part begins and ends, worked out by hand."""

import holoviews as hv
import polars as pl
import pytest

from workbench.views import waterfall
from workbench.views.theme import DARK

MS = 1_000_000
SCHEMA = {"rank": pl.Int32(), "device": pl.Int32(), "steps": pl.Int64(), "part": pl.String(),
          "cause": pl.String(), "mean_ns": pl.Float64(), "share": pl.Float64(),
          "min_ns": pl.Int64(), "max_ns": pl.Int64()}  # fmt: skip


def frame(*rows):
    """Rows of (rank, part, cause, mean, least and most in ms)."""
    return pl.DataFrame(
        [
            {"rank": rank, "device": 0, "steps": 3, "part": part, "cause": cause,
             "mean_ns": mean * MS, "share": None, "min_ns": low * MS, "max_ns": high * MS}
            for rank, part, cause, mean, low, high in rows
        ],
        schema=SCHEMA,
    )  # fmt: skip


ONE = frame((0, "idle", "unknown", 1, 0, 2), (0, "compute", None, 6, 5, 7),
            (0, "idle", "host_python", 3, 3, 3))  # fmt: skip


def test_each_part_begins_where_the_one_before_ends():
    found = waterfall.parts(ONE).select("label", "begin_ms", "end_ms", "time", "share")
    assert found.rows() == [
        ("compute", 0, 6, "6 ms", "60.0 %"),
        ("host: in Python", 6, 9, "3 ms", "30.0 %"),
        ("unknown", 9, 10, "1 ms", "10.0 %"),
    ]
    assert waterfall.caption(ONE) == "a step of 10 ms, mean of 3 steps"


def test_several_ranks_are_their_mean():
    # rank 1 has 10 ms of compute and nothing else: 8 of 10 compute, 2 of idle halves
    both = pl.concat([ONE, frame((1, "compute", None, 10, 9, 11))])
    found = waterfall.parts(both)
    assert found["end_ms"].to_list() == [8, 9.5, 10]
    assert found.select("least", "most").row(0) == ("5 ms", "11 ms")
    assert found["least"].to_list()[1] == "0 ns"
    assert waterfall.caption(both) == "a step of 10 ms, mean of 3 steps on 2 devices"


def test_the_picture_runs_from_top_to_bottom():
    figure = hv.render(waterfall.bars(ONE, theme="dark"), backend="bokeh")
    assert figure.background_fill_color == DARK.background
    boxes = figure.renderers[1].data_source.data
    assert list(boxes["begin_ms"]) == [0, 6, 9]
    assert list(boxes["top"]) == pytest.approx([0.42, -0.58, -1.58])
    labels = figure.yaxis[0].major_label_overrides
    assert [labels[t] for t in (0, -1, -2)] == ["compute", "host: in Python", "unknown"]


def test_without_steps_it_is_a_sentence():
    figure = hv.render(waterfall.bars(ONE.clear()), backend="bokeh")
    assert [r.data_source.data["text"] for r in figure.renderers] == [[waterfall.NOTHING]]
