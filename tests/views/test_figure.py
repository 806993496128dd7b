"""The widget that shows Bokeh pictures: draws only when asked, for the page's theme and width."""

import holoviews as hv
import polars as pl
import pytest

from workbench.analysis import overlap
from workbench.views import figure
from workbench.views.figure import Figure
from workbench.views.overlap import bars


@pytest.fixture
def asked():
    """A figure, what it was asked to draw, and what it sent."""
    drawn, sent = [], []

    def draw(theme, width):
        drawn.append((theme, width))
        return hv.Curve([1, 2]).opts(width=width, backend="bokeh")

    made = Figure(draw, height=100, name="curve")
    made.send = lambda content, buffers=None: sent.append((content, buffers))
    return made, drawn, sent


def test_nothing_is_drawn_before_a_page_asks(asked):
    made, drawn, sent = asked
    made.redraw()
    assert (drawn, sent, made.version) == ([], [], 1)


def test_it_answers_with_the_picture_of_that_theme_and_width(asked):
    made, drawn, sent = asked
    made._on_message(None, {"type": "draw", "view": "v", "seq": 3, "theme": "dark", "width": 777.6})
    made._on_message(None, {"type": "draw", "view": "v", "seq": 4, "theme": "<odd>", "width": 1e9})
    assert drawn == [("dark", 777), ("light", figure.MAX_WIDTH)]
    (answer, _), _ = sent
    assert (answer["type"], answer["view"], answer["seq"]) == ("item", "v", 3)
    root = answer["item"]["doc"]["roots"][0]["attributes"]
    assert root["width"] == 777
    assert root["background_fill_color"] is root["border_fill_color"] is None


def test_of_a_view_and_a_frame():
    frame = pl.DataFrame(schema=overlap.OVERLAP_SCHEMA)
    made = Figure.of(bars, frame)
    assert (repr(made), made.height) == ("Figure(overlap.bars)", 90)
    root = made.item("dark", 500)["doc"]["roots"][0]["attributes"]
    assert (root["width"], root["height"]) == (500, 90)


def test_bokehjs_is_that_of_the_installed_bokeh(asked):
    import bokeh

    made, _, sent = asked
    made._on_message(None, {"type": "bokehjs"})
    ((content, (script,)),) = sent
    assert content == {"type": "bokehjs"}
    assert bokeh.__version__.encode() in script


def test_the_text_form_says_nothing_that_changes(asked):
    assert repr(asked[0]) == "Figure(curve)"
