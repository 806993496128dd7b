"""Still pictures of a timeline: what is drawn where, in both forms."""

import io
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest
from PIL import Image, ImageColor
from views.generated import frame_of, many_lanes, training_run
from views.traces import three_events, trace

import workbench as wb
from workbench.errors import InputError, UsageError
from workbench.views import still
from workbench.views.drawing import Box, Drawing, Label
from workbench.views.theme import DARK, LIGHT
from workbench.views.timeline import Timeline

SVG = "{http://www.w3.org/2000/svg}"


def lanes():
    """One lane: a 0-40 and b 50-60 ns."""
    start, dur = np.array([0, 50]), np.array([40, 10])
    return frame_of(np.zeros(2, np.int64), start, dur, pl.Series(["aaaa", "b"]))


def boxes_of(drawing, lanes, name):
    colour = LIGHT.palette[lanes.colours[lanes.names.index(name)]]
    return [b for b in drawing.boxes if b.fill == colour]


def test_events_lie_where_their_times_are():
    drawing = still.draw(lanes(), width=700)
    # the gutter takes 8 letters of 6.6 px and 18 more, the rest is 60 ns
    gutter = 8 * 6.6 + 18
    pixel = (700 - gutter) / 60
    (first,) = boxes_of(drawing, lanes(), "aaaa")
    assert first.x == pytest.approx(gutter)
    assert first.width == pytest.approx(40 * pixel - 0.6)
    (second,) = boxes_of(drawing, lanes(), "b")
    assert second.x == pytest.approx(gutter + 50 * pixel)
    texts = [label.text for label in drawing.labels]
    assert {"aaaa", "b", "stream 0", "60 ns from 0 ns"} <= set(texts)
    assert [t for t in texts if t.endswith(" ns") and t[0].isdigit() and len(t) < 6] == [
        "0 ns", "10 ns", "20 ns", "30 ns", "40 ns", "50 ns",
    ]  # fmt: skip


def test_a_window_cuts_events_at_its_edges():
    drawing = still.draw(lanes(), (20, 30), width=700)
    (first,) = boxes_of(drawing, lanes(), "aaaa")
    assert (first.x, first.x + first.width) == pytest.approx((70.8, 699.4))
    assert not boxes_of(drawing, lanes(), "b")


def test_ticks_stand_apart_down_to_single_nanoseconds():
    start = np.array([2**62 + 7 * k for k in range(15)])
    deep = frame_of(np.zeros(15, np.int64), start, np.full(15, 5), pl.Series(["k"] * 15))
    drawing = still.draw(deep, (2**62 + 40, 2**62 + 50))
    # 2^62 ns is 4611686018.427387904 s
    texts = [label.text for label in drawing.labels]
    assert "4611686018.427387 s" in texts
    assert "+946 ns" in texts
    ticks = [t for t in texts if t.startswith("+")]
    assert len(set(ticks)) == len(ticks) >= 3


def test_many_events_are_the_busy_share_of_each_pixel():
    many = many_lanes(40_000, lanes=2)
    drawing = still.draw(many, width=1000)
    row, palette = 17, set(LIGHT.palette)
    x = 500.5
    inside = [b for b in drawing.boxes if b.fill in palette and b.x <= x < b.x + b.width]
    for box, lane in zip(sorted(inside, key=lambda b: b.y), range(2), strict=True):
        gutter = 1000 - round(1000 - (8 * 6.6 + 18))
        pixel = (1000 - (8 * 6.6 + 18)) / round(1000 - (8 * 6.6 + 18))
        k = int((x - (8 * 6.6 + 18)) // 1)
        span = many.engine.span_ns / round(1000 - gutter)
        _, busy = many.engine.totals(round(k * span), round((k + 1) * span))
        assert pixel == pytest.approx(1, abs=0.01)
        assert box.height == pytest.approx(busy[lane] / span * row, abs=1.1)


def test_both_forms_show_the_same():
    drawing = Drawing(
        20, 10, "#ffffff", [Box(2, 3, 5, 4, "#0072b2")], [Label(1, 5, "a<b", "#000000")]
    )
    root = ET.fromstring(drawing.svg())
    assert root.get("viewBox") == "0 0 20 10"
    assert root.find(f"{SVG}path").get("d") == "M2 3h5v4h-5z"
    assert root.find(f"{SVG}text").text == "a<b"
    image = Image.open(io.BytesIO(Drawing(20, 10, "#ffffff", drawing.boxes).png(2)))
    assert image.size == (40, 20)
    blue = np.argwhere((np.array(image) == ImageColor.getrgb("#0072b2")).all(axis=2))
    assert (blue.min(axis=0).tolist(), blue.max(axis=0).tolist()) == ([6, 4], [13, 13])


def test_no_name_breaks_the_document():
    nasty = 'a\x00\x0b</text><script>&"' + "\ud800"
    labels = [Label(0, 0, nasty, "#000000")]
    root = ET.fromstring(Drawing(20, 10, "#ffffff", [], labels).svg())
    assert "</text><script>&" in root.find(f"{SVG}text").text


@pytest.mark.parametrize("source", [trace(), three_events(), training_run(6000)])
@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_a_timeline_saves_itself(source, suffix, tmp_path):
    path = Timeline(source).save(tmp_path / f"t.{suffix}", theme="dark")
    if suffix == "svg":
        assert f'fill="{DARK.background}"' in path.read_text()
        assert ET.parse(path).getroot().get("width") == "1200"
    elif suffix == "png":
        image = Image.open(path)
        assert image.width == 2400
        assert image.getpixel((2399, 0)) == ImageColor.getrgb(DARK.background)
    else:
        assert "application/workbench-timeline" in path.read_text()


def test_a_filter_leaves_out_of_the_picture_what_it_hides(tmp_path):
    timeline = Timeline(three_events())
    timeline.filter = {"text": "gemm"}
    text = timeline.save(tmp_path / "t.svg").read_text()
    assert ">gemm<" in text
    assert ">relu<" not in text


def test_what_cannot_be_saved_is_told(tmp_path):
    timeline = Timeline(three_events())
    with pytest.raises(UsageError, match=r"does not end in \.svg or \.png"):
        timeline.save(tmp_path / "t.pdf")
    with pytest.raises(UsageError, match="light or dark, not 'blue'"):
        timeline.save(tmp_path / "t.svg", theme="blue")
    with pytest.raises(InputError, match="can't be written"):
        timeline.save(tmp_path / "none" / "t.svg")
    with pytest.raises(UsageError, match="A DataFrame is no view"):
        wb.save_view(pl.DataFrame(), tmp_path / "t.svg")


def test_without_a_browser_the_error_says_what_to_do(tmp_path, monkeypatch):
    import holoviews as hv

    hv.extension("bokeh")
    monkeypatch.delenv("WORKBENCH_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="install one, or name it in WORKBENCH_CHROMIUM"):
        wb.save_view(hv.Curve([1, 2]), tmp_path / "t.svg")


@pytest.mark.browser
@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_holoviews_picture_is_drawn_by_a_browser(chromium, suffix, tmp_path, monkeypatch):
    import holoviews as hv

    from workbench.views import overlap

    monkeypatch.setenv("WORKBENCH_CHROMIUM", chromium or "chromium")
    hv.extension("bokeh")
    plot = overlap.bars(wb.overlap(training_run(200)), width=600)
    path = wb.save_view(plot, tmp_path / f"p.{suffix}")
    if suffix == "svg":
        root = ET.parse(path).getroot()
        assert root.get("width") == "600"
        assert any("overlap" in (t.text or "") for t in root.iter(f"{SVG}text"))
    else:
        image = Image.open(path).convert("RGB")
        assert image.width == 1200
        assert len(image.getcolors(1 << 24)) > 20
