"""Ranks side by side: the frame that is drawn, worked out by hand, and the picture itself."""

import holoviews as hv
import polars as pl
import pytest

from workbench.analysis.steps import SCHEMA
from workbench.errors import UsageError
from workbench.views import ranks
from workbench.views.theme import LIGHT

MS = 1_000_000


def frame(*rows):
    """Rows of (rank, step, ms, idle ms, complete)."""
    return pl.DataFrame(
        [
            {"rank": rank, "device": 0, "step": step, "start_ns": 0, "dur_ns": dur * MS,
             "idle_ns": idle * MS, "complete": complete, "tail": False}
            for rank, step, dur, idle, complete in rows
        ],
        schema=SCHEMA,
    )  # fmt: skip


THREE = frame((0, 5, 100, 10, True), (1, 5, 130, 40, True), (2, 5, 101, 10, True),
              (0, 6, 100, 10, True), (1, 6, 100, 10, False))  # fmt: skip


def test_cells_differ_from_the_median_of_the_ranks():
    # step 5: 100, 130, 101: median 101. Step 6 is complete on one rank only
    assert ranks.cells(THREE).rows() == [
        ("5", "rank 0 · GPU 0", -1.0, "100 ms", "-1 ms"),
        ("5", "rank 1 · GPU 0", 29.0, "130 ms", "+29 ms"),
        ("5", "rank 2 · GPU 0", 0.0, "101 ms", "0 ns"),
    ]
    assert ranks.cells(THREE, "idle_ns")["ms_away"].to_list() == [0.0, 30.0, 0.0]


def test_an_unknown_column_is_refused():
    with pytest.raises(UsageError, match="idle_ns"):
        ranks.cells(THREE, "idel_ns")


def test_the_colours_reach_as_far_as_the_largest_difference():
    figure = hv.render(ranks.heat(THREE), backend="bokeh")
    mapper = figure.renderers[0].glyph.fill_color.transform
    assert (mapper.low, mapper.high) == (-29, 29)
    assert (mapper.palette[0], mapper.palette[-1]) == (
        LIGHT.of("compute"),
        LIGHT.of("communication"),
    )
    assert len(figure.renderers[0].data_source.data["ms_away"]) == 3


def test_jitter_has_no_full_colour():
    # 0.01 ms of 100: one per cent, 1 ms, would be full
    quiet = frame((0, 5, 100, 0, True), (1, 5, 100, 0, True)).with_columns(
        dur_ns=pl.Series([100 * MS, 100 * MS + 20_000])
    )
    figure = hv.render(ranks.heat(quiet), backend="bokeh")
    assert figure.renderers[0].glyph.fill_color.transform.high == pytest.approx(1, rel=1e-3)


def test_one_rank_is_a_sentence():
    figure = hv.render(ranks.heat(THREE.filter(rank=0)), backend="bokeh")
    assert [r.data_source.data["text"] for r in figure.renderers] == [[ranks.NOTHING]]
