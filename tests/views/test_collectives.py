"""Size against bandwidth: the frame that is drawn, worked out by hand, and the picture itself."""

import holoviews as hv
import polars as pl
import pytest

from workbench.analysis.collectives import SCHEMA
from workbench.views import collectives
from workbench.views.theme import DARK, LIGHT

ROW = {"rank": 0, "device": 1, "name": "all_reduce", "group": "3", "dimension": "tensor",
       "group_size": 4, "dtype": "Float", "bytes": 4_000_000, "start_ns": 0, "dur_ns": 20_000,
       "exposed_ns": 5_000, "wait_ns": None, "algorithm_bytes_per_s": 2e11,
       "bus_bytes_per_s": 3e11}  # fmt: skip


def frame(*rows):
    return pl.DataFrame([ROW | row for row in rows], schema=SCHEMA)


def test_points():
    # 4 MB in 20 us: 200 GB/s, times 2 x 3/4
    row = collectives.points(frame({})).row(0, named=True)
    assert row == {
        "name": "all_reduce",
        "bytes": 4_000_000,
        "gb_per_s": 300.0,
        "place": "rank 0 · GPU 1",
        "size": "4 MB",
        "dtype": "Float",
        "group": "tensor",
        "members": "4 ranks",
        "time": "20 us",
        "exposed": "5 us",
        "wait": "unknown time",
        "bus": "300 GB/s",
        "algorithm": "200 GB/s",
    }


def test_unknown_sizes_are_left_out_and_counted():
    known = frame({}, {"bytes": None, "bus_bytes_per_s": None}, {"group": None, "dimension": None})
    assert collectives.points(known)["group"].to_list() == ["tensor", "unknown"]
    assert collectives.caption(known) == (
        "2 collectives, decimal GB/s; 1 of unknown size or group left out"
    )


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_each_kind_is_drawn_on_log_axes(look):
    shown = frame({}, {"name": "all_gather", "bytes": 1000, "bus_bytes_per_s": 1e9})
    figure = hv.render(collectives.scatter(shown, theme=look.name, width=600), backend="bokeh")
    assert [r.glyph.marker for r in figure.renderers] == ["circle", "square"]
    assert [r.data_source.data["bytes"].tolist() for r in figure.renderers] == [[1000], [4_000_000]]
    assert figure.background_fill_color == look.background
    assert (figure.x_range.start, figure.y_range.end) == (1000 / 1.6, 300 * 1.6)
    assert figure.title.text == "2 collectives, decimal GB/s"


def test_nothing_to_draw_is_a_sentence():
    figure = hv.render(collectives.scatter(frame().clear()), backend="bokeh")
    assert [r.data_source.data["text"] for r in figure.renderers] == [[collectives.NOTHING]]
    assert all(g.grid_line_color is None for g in figure.grid)
