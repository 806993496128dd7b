"""Queue depth over time: the lines that are drawn, worked out by hand, and the picture itself."""

import holoviews as hv
import polars as pl
import pytest

from workbench.views import queue

SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "stream": pl.Int64(),
    "t_ns": pl.Int64(),
    "depth": pl.Int64(),
}


def frame(*rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


TWO = frame((0, 0, None, 5_000_000, 1), (0, 0, None, 6_000_000, 0), (0, 0, 7, 5_000_000, 1),
            (0, 0, 7, 5_500_000, 0), (0, 0, 9, 6_500_000, 1))  # fmt: skip


def test_lines_begin_at_the_earliest_time():
    assert queue.lines(TWO).rows() == [
        ("rank 0 · GPU 0", 0.0, 1),
        ("rank 0 · GPU 0", 1.0, 0),
        ("rank 0 · GPU 0 · stream 7", 0.0, 1),
        ("rank 0 · GPU 0 · stream 7", 0.5, 0),
        ("rank 0 · GPU 0 · stream 9", 1.5, 1),
    ]


def test_an_only_stream_has_no_line_of_its_own():
    one = TWO.filter(pl.col("stream").is_null() | (pl.col("stream") == 7))
    assert queue.lines(one)["line"].unique().to_list() == ["rank 0 · GPU 0"]


def test_many_points_keep_the_extremes():
    rows = 10_000
    many = pl.DataFrame({"t_ns": range(rows), "depth": [i % 7 for i in range(rows)]})
    many[5000, "depth"] = 99
    thin = queue.thinned(many, points=100)
    assert thin.height <= 100
    assert (thin["depth"].max(), thin["depth"].min()) == (99, 0)
    assert thin["t_ns"].is_sorted()
    assert queue.thinned(many, points=rows).equals(many)


def test_the_picture():
    figure = hv.render(queue.depth(TWO, width=600), backend="bokeh")
    names = queue.lines(TWO)["line"].unique(maintain_order=True)
    assert [item.label.value for item in figure.legend[0].items] == names.to_list()
    assert figure.y_range.start == 0


@pytest.mark.parametrize("look", ["light", "dark"])
def test_unknown_is_a_sentence(look):
    figure = hv.render(queue.depth(frame(), theme=look), backend="bokeh")
    assert [r.data_source.data["text"] for r in figure.renderers] == [[queue.NOTHING]]
