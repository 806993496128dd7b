"""Idle time by the length of gaps: bins worked out by hand, and the picture itself."""

import holoviews as hv
import polars as pl
import pytest

from workbench.views import causes, gaps
from workbench.views.theme import DARK, LIGHT

# bins of [1, 2.15), [2.15, 4.64), … us
IDLE = pl.DataFrame(
    {
        "dur_ns": [1000, 2000, 2100, 1500, 10_000, 99_000, 0],
        "cause": ["launch_latency"] * 3 + ["graph", "host_python", "host_sync", "edge"],
    }
)


def test_bins():
    found = gaps.bins(IDLE)
    assert found.select("from", "below", "label", "count", "time").rows() == [
        ("1 us", "2.15 us", "launch latency", 3, "5.1 us"),
        ("1 us", "2.15 us", "between kernels of a graph", 1, "1.5 us"),
        ("10 us", "21.5 us", "host: in Python", 1, "10 us"),
        ("46.4 us", "100 us", "host: waiting for the device", 1, "99 us"),
    ]
    assert found["ms"].sum() * 1e6 == pytest.approx(IDLE["dur_ns"].sum())


def test_caption():
    # of 7 gaps the longest one is the longest tenth: 99 of 115.6 us
    assert gaps.caption(IDLE) == "7 gaps, 115.6 us idle; the longest 1 hold 85.6 %"


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_the_picture(look):
    figure = hv.render(gaps.histogram(IDLE, theme=look.name, width=700), backend="bokeh")
    assert [str(f) for f in figure.x_range.factors] == ["1 us", "10 us", "46.4 us"]
    data = figure.renderers[0].data_source.data
    heights = {label: b - a for label, a, b in zip(data["label"], data["bottom"], data["top"],
                                                   strict=True)}  # fmt: skip
    assert heights["launch latency"] == pytest.approx(0.0051)
    assert figure.legend[0].orientation == "vertical"


def test_never_idle_is_a_sentence():
    figure = hv.render(gaps.histogram(IDLE.clear()), backend="bokeh")
    assert [r.data_source.data["text"] for r in figure.renderers] == [[gaps.NOTHING]]


def test_every_cause_has_a_colour_of_its_own():
    for look in (LIGHT, DARK):
        found = causes.colours(look)
        assert len(found) == len(causes.EVERY)
        alike = {causes.label("host"): causes.label("host_operator")}
        unlike = {label: colour for label, colour in found.items() if label not in alike}
        assert len(set(unlike.values())) == len(unlike)
