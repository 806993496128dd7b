import subprocess
import sys

import polars as pl
import pytest

from workbench.analysis.roofline import COLUMNS
from workbench.views import log_plane
from workbench.views import roofline as view
from workbench.views.theme import DARK, LIGHT

MM = {
    "rank": 0, "device": 0, "operator": "aten::mm", "kind": "matmul", "shapes": "[2,2] bf16",
    "precision": "bf16", "unit": "matrix", "calls": 3, "activities": 3, "time_ns": 4000,
    "share_of_device_time": 0.4, "flops": 1000, "bytes": 100, "flops_per_byte": 10.0,
    "achieved_flops_per_s": 2e12, "achieved_bytes_per_s": 2e11, "peak_flops_per_s": 100e12,
    "memory_level": "memory", "level_bytes_per_s": 1e12, "memory_bytes_per_s": 1e12,
    "bound": "memory", "roof_ns": 800, "attainable_flops_per_s": 10e12, "ratio_to_roof": 0.2,
    "ratio_to_memory_roof": 0.2, "roof_source": "data sheet: X", "reason": None,
}  # fmt: skip
ATTENTION = MM | {"operator": "aten::sdpa", "kind": "attention", "time_ns": 1000}
RELU = MM | {
    "operator": "aten::relu", "kind": "other", "time_ns": 5000, "flops_per_byte": None,
    "achieved_flops_per_s": None, "peak_flops_per_s": None, "level_bytes_per_s": None,
    "memory_level": None, "precision": None, "unit": None, "ratio_to_roof": None, "roof_ns": None,
    "reason": "no FLOP model",
}  # fmt: skip


def frame(*rows):
    return pl.DataFrame(list(rows), schema=COLUMNS)


def figure(shown, **options):
    import holoviews as hv

    return hv.renderer("bokeh").get_plot(view.plot(shown, **options)).state


def glyphs(fig):
    return [r for r in fig.renderers if type(r.glyph).__name__ in {"Scatter", "Circle"}]


def test_points_are_the_rows_with_flops_longest_first_by_area():
    shown = view.points(frame(RELU, ATTENTION, MM))
    assert shown["what"].to_list() == ["aten::mm", "aten::sdpa"]
    assert shown["gflops_per_s"].to_list() == pytest.approx([2000, 2000])
    # a quarter of the time is half the diameter above the smallest: 5 + 37 and 5 + 18.5
    assert shown["size"].to_list() == pytest.approx([42, 23.5])


def test_hover_texts_carry_units():
    text = view.points(frame(MM)).to_dicts()[0]
    assert (text["time"], text["share"], text["reached"]) == ("4 us", "40.0 %", "2 TFLOP/s")
    assert (text["ratio"], text["bound"]) == ("20.0 %", "bound by memory")
    assert (text["intensity"], text["moved"], text["place"]) == ("10 FLOP/byte", "100 B", "0, 0")


def test_a_point_without_a_roof_says_why():
    unknown = MM | {"ratio_to_roof": None, "bound": None, "reason": "no data sheet for 'Y'"}
    text = view.points(frame(unknown)).to_dicts()[0]
    assert (text["ratio"], text["bound"]) == ("no data sheet for 'Y'", "bound not known")


def test_roofs_are_drawn_once_and_name_their_source():
    drawn = view.roofs(frame(MM, ATTENTION, RELU))
    assert drawn.select("kind", "label").rows() == [
        ("bandwidth", "memory: 1 TB/s, data sheet: X"),
        ("peak", "bf16 matrix: 100 TFLOP/s, data sheet: X"),
    ]
    assert drawn["value"].to_list() == pytest.approx([1000, 100_000])


def test_units_that_share_a_peak_are_named_once():
    vector = MM | {"unit": "vector"}
    other = MM | {"precision": "fp32", "unit": "vector"}
    assert view.roofs(frame(MM, vector, other))["label"].to_list()[1:] == [
        "bf16, fp32 vector: 100 TFLOP/s, data sheet: X"
    ]


def test_a_cache_level_has_its_own_line():
    cached = MM | {"memory_level": "working set up to 1 MB", "level_bytes_per_s": 3e12}
    assert view.roofs(frame(MM, cached))["label"].to_list() == [
        "memory: 1 TB/s, data sheet: X",
        "working set up to 1 MB: 3 TB/s",
        "bf16 matrix: 100 TFLOP/s, data sheet: X",
    ]


def test_labels_of_close_roofs_stand_apart():
    assert log_plane.spread([1, 2, 1000], (1, 1e24)) == pytest.approx([1, 10, 1000])
    assert log_plane.spread([], (1, 10)) == []


def test_the_picture_holds_every_point_and_both_axes_are_logarithmic():
    fig = figure(frame(MM, ATTENTION, RELU))
    drawn = glyphs(fig)
    assert [len(g.data_source.data["what"]) for g in drawn] == [1, 1]
    assert {type(a).__name__ for a in fig.axis} == {"LogAxis"}
    assert [a.axis_label for a in fig.axis] == [
        "arithmetic intensity (FLOP per byte)", "reached (GFLOP/s)",
    ]  # fmt: skip
    # 5000 of 10000 ns have a point
    # MM and ATTENTION allow 800 + 800 ns of 4000 + 1000; RELU has no roof
    assert fig.title.text == (
        "Roofline: 2 operator shapes, 50.0 % of the time; what has a roof runs at 32.0 % of it"
    )
    assert [i.label.value for i in fig.legend[0].items] == ["matmul", "attention"]


def test_roof_lines_meet_at_the_ridge():
    # 1 TB/s meets 100 TFLOP/s at 100 FLOP/byte
    fig = figure(frame(MM))
    lines = [r.data_source.data for r in fig.renderers if type(r.glyph).__name__ == "Line"]
    peak = next(d for d in lines if d["gflops_per_s"][0] == d["gflops_per_s"][1])
    slope = next(d for d in lines if d["gflops_per_s"][0] != d["gflops_per_s"][1])
    assert peak["flops_per_byte"][0] == pytest.approx(100)
    assert slope["flops_per_byte"][1] == pytest.approx(100)
    assert peak["gflops_per_s"][0] == slope["gflops_per_s"][1] == pytest.approx(100_000)


def test_three_thousand_points_are_drawn_fainter():
    many = frame(*[MM | {"flops_per_byte": 1.0 + i} for i in range(3000)])
    (points,) = glyphs(figure(many))
    (few,) = glyphs(figure(frame(MM)))
    assert len(points.data_source.data["what"]) == 3000
    assert points.glyph.fill_alpha < few.glyph.fill_alpha


def test_without_roofs_the_points_still_stand():
    bare = dict.fromkeys(("peak_flops_per_s", "level_bytes_per_s", "memory_bytes_per_s"))
    fig = figure(frame(MM | bare))
    assert len(glyphs(fig)) == 1
    assert not [r for r in fig.renderers if type(r.glyph).__name__ == "Line"]


@pytest.mark.parametrize("rows", [(), (RELU,)])
def test_nothing_to_draw_is_a_sentence(rows):
    fig = figure(frame(*rows))
    texts = [r.data_source.data["text"][0] for r in fig.renderers]
    assert texts == [view.NOTHING]


@pytest.mark.parametrize(("name", "look"), [("light", LIGHT), ("dark", DARK)])
def test_both_themes(name, look):
    fig = figure(frame(MM), theme=name)
    assert fig.background_fill_color == fig.border_fill_color == look.background
    assert glyphs(fig)[0].glyph.fill_color == look.of("compute")
    assert fig.axis[0].major_label_text_color == look.text


def test_analysis_loads_no_plotting():
    code = (
        "import sys, workbench.analysis.roofline;"
        "print(sorted({'holoviews', 'bokeh', 'torch', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
