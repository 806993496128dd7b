"""The still and the following picture of a timeline: their frames by hand, and how they compose."""

from __future__ import annotations

import holoviews as hv
import numpy as np
import polars as pl
import pytest
from views.traces import kernel, op, three_events, trace

from workbench.errors import UsageError
from workbench.views import theme, timeline_frames
from workbench.views.lane_table import EMPTY_TEXT
from workbench.views.layers import from_frame
from workbench.views.timeline_element import timeline
from workbench.views.timeline_frames import boxes, shares, stretch

STREAM_7, STREAM_20 = "GPU 0 · stream 7", "GPU 0 · stream 20"


@pytest.fixture
def few(monkeypatch):
    """Draw pixels where there are more than two events."""
    monkeypatch.setattr(timeline_frames, "MAX_BOXES", 2)


def parts(overlay):
    return [overlay.get(k) for k in range(3)]


def drawn(picture):
    return hv.render(picture, backend="bokeh")


# gemm 100-140 and relu 150-160 on stream 7, all_reduce 120-170 on stream 20


def test_boxes_are_the_events_that_touch_the_stretch():
    found = boxes(stretch(three_events(), window=(145, 155)))
    assert found.drop("colour").rows() == [
        (STREAM_7, 0, "relu", 150, 10, 4),
        (STREAM_20, 1, "all_reduce", 120, 50, 3),
    ]
    assert found["colour"][1] == theme.CLASSES.index("communication")


def test_rows_count_from_the_top_of_the_lanes_that_are_drawn():
    found = boxes(stretch(three_events(), lanes=[STREAM_20]))
    assert found.select("lane", "row", "name").rows() == [(STREAM_20, 0, "all_reduce")]


def test_shares_are_exact_and_of_the_lanes_that_are_drawn():
    # 100-180 in four pixels of 20 ns: gemm fills two; relu half the third; all_reduce 120-170
    found = shares(stretch(three_events(), window=(100, 180)), 4)
    assert found.select("row", "pixel", "busy_ns", "share", "name").rows() == [
        (0, 0, 20.0, 1.0, "gemm"),
        (0, 1, 20.0, 1.0, "gemm"),
        (0, 2, 10.0, 0.5, "relu"),
        (1, 1, 20.0, 1.0, "all_reduce"),
        (1, 2, 20.0, 1.0, "all_reduce"),
        (1, 3, 10.0, 0.5, "all_reduce"),
    ]
    only = shares(stretch(three_events(), window=(100, 180), lanes=[STREAM_20]), 4)
    assert only.select("lane", "row").unique().rows() == [(STREAM_20, 0)]


def test_many_events_are_no_boxes(few):
    assert boxes(stretch(three_events())) is None
    assert boxes(stretch(three_events(), window=(145, 155))).height == 2


def test_a_picture_of_few_events_has_boxes_with_names_in_ms_of_the_source():
    image, rectangles, names = parts(timeline(three_events(), width=924))
    assert rectangles.dframe()["event"].tolist() == ["gemm", "relu", "all_reduce"]
    assert rectangles.dframe().iloc[1, :4].tolist() == pytest.approx([150e-6, 1.1, 160e-6, 1.95])
    assert image.bounds.lbrt() == pytest.approx((100e-6, 0, 170e-6, 2))
    # the whole is 70 ns on 700 px, ten a ns: a name has six px a letter
    assert names.dframe()["text"].tolist() == ["gemm", "relu", "all_reduce"]


def test_a_name_that_does_not_fit_is_cut_or_left_out():
    events = trace(
        activities=[kernel("abcdefghij", 0, 30), kernel("b" * 50, 30, 60), kernel("c", 90, 10)]
    )
    _, rectangles, names = parts(timeline(events, width=324))  # 100 px: 1 a ns
    assert names.dframe()["text"].tolist() == ["abc…", "b" * 8 + "…"]
    assert rectangles.dframe()["event"].tolist() == ["abcdefghij", "b" * 50, "c"]


def test_a_picture_of_many_events_is_filled_as_high_as_they_are_busy(few):
    # 80 ns on 4 px, each row 14 px high and 2 px apart; a half is 128 of 255, which begins its 8th
    image, rectangles, names = parts(timeline(three_events(), window=(100, 180), width=228))
    assert (len(rectangles), len(names)) == (0, 0)
    cells = np.dstack([image.dimension_values(k, flat=False) for k in (2, 3, 4)])[::-1]
    assert cells.shape == (2 * 16, 4, 3)
    bare = [int(theme.LIGHT.lane[k : k + 2], 16) for k in (1, 3, 5)]
    empty = (cells == bare).all(axis=2).reshape(2, 16, 4).sum(axis=1)
    assert empty.tolist() == [[0, 0, 6, 14], [14, 0, 0, 6]]


def test_the_picture_has_lanes_at_their_rows_and_the_page_s_colours():
    figure = drawn(timeline(three_events(), theme="dark", width=900))
    ticks = figure.yaxis[0]
    assert {ticks.major_label_overrides[t] for t in ticks.ticker.ticks} == {STREAM_7, STREAM_20}
    assert ticks.ticker.ticks == [1.5, 0.5]
    assert figure.background_fill_color == theme.DARK.background
    assert (figure.frame_width, figure.min_border_left) == (676, 210)


def test_it_composes_with_spans_and_curves_and_keeps_its_size_and_lanes():
    picture = timeline(three_events(), window=(100, 180)) * hv.VSpan(110e-6, 120e-6)
    figure = drawn(picture)
    assert figure.frame_width == 676
    assert figure.yaxis[0].ticker.ticks == [1.5, 0.5]
    assert (figure.x_range.start, figure.x_range.end) == pytest.approx((100e-6, 180e-6))
    counter = hv.Curve(([100e-6, 180e-6], [1, 5]), "ms", "queue")
    other = timeline(trace(activities=[kernel("k", 100, 80)]), window=(100, 180))
    figures = [f for f, *_ in drawn((picture + counter + other).cols(1)).children]
    assert len({f.x_range.id for f in figures}) == 1  # one axis of time
    assert [f.y_range.end for f in figures[::2]] == [2, 1]  # and rows of its own for each


def test_empty_and_full_pictures_stand_side_by_side(few):
    both = timeline(three_events()) + timeline(three_events(), window=(145, 155))
    assert drawn(both)


def test_a_live_picture_draws_what_the_axis_shows(few):
    live = timeline(three_events(), live=True)
    assert isinstance(live, hv.DynamicMap)
    assert len(parts(live[()])[1]) == 0
    (stream,) = live.streams
    plot = hv.renderer("bokeh").get_plot(live)
    assert plot.state.lod_timeout == 20
    stream.event(x_range=(145e-6, 155e-6))
    (shown,) = [p for p in plot.traverse(lambda p: p) if "RectanglesPlot" in repr(p)]
    assert list(shown.handles["source"].data["event"]) == ["relu", "all_reduce"]
    assert parts(live[()])[1].dframe()["event"].tolist() == ["relu", "all_reduce"]
    stream.event(x_range=(150e-6, 150e-6))  # no length: a ns
    assert parts(live[()])[1].dframe()["event"].tolist() == ["relu", "all_reduce"]
    stream.event(x_range=(-1.0, -0.5))  # before everything
    assert [len(p) for p in parts(live[()])[1:]] == [0, 0]


def test_times_beyond_the_digits_of_a_double_keep_their_length():
    frame = pl.DataFrame({"start_ns": [2**60, 2**60 + 7], "dur_ns": [7, 3], "name": ["a", "b"]})
    lanes = from_frame(frame.with_columns(lane=0), by=["lane"])
    found = shares(stretch(lanes, window=(2**60, 2**60 + 10)), 2)
    assert found.select("busy_ns", "name").rows() == [(5.0, "a"), (5.0, "b")]


def test_nothing_to_draw_is_said():
    (text,) = drawn(timeline(trace())).renderers[0].data_source.data["text"]
    assert text == EMPTY_TEXT


def test_wrong_choices_are_said_in_a_sentence():
    with pytest.raises(UsageError, match="stream 7"):
        timeline(three_events(), lanes=["GPU 0 · stream 8"])
    with pytest.raises(UsageError, match="window must be"):
        timeline(three_events(), window=(5, 5))


def test_nested_operators_stand_below_their_parents():
    found = boxes(stretch(trace(ops=[op("aten::addmm", 0, 100), op("aten::mm", 40, 10, 1)])))
    assert found.select("row", "name").rows() == [(0, "aten::addmm"), (1, "aten::mm")]
