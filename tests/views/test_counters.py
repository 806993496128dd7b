"""The hierarchical roofline: what is drawn, what is said, what is left out."""

import countersfile
import polars as pl
import pytest

import workbench as wb
from workbench.analysis.counter_roofline import SCHEMA
from workbench.views import counters as view
from workbench.views.theme import DARK, LIGHT
from workbench.views.trace_lanes import activity_lanes

POINT = {
    "rank": 0, "device": 0, "kernel": "gemm", "blocks": 4, "threads_per_block": 128,
    "operator": "aten::mm", "shapes": "[2,2]", "launches": 3, "time_ns": 4000,
    "time_source": "counters", "precision": "bf16", "unit": "matrix", "flops": 8000, "bytes": 100,
    "share_of_time": 0.5, "achieved_flops_per_s": 2e12, "achieved_bytes_per_s": 2.5e10,
    "peak_flops_per_s": 100e12, "bound": "memory", "ratio_to_roof": 0.2,
    "roof_source": "data sheet: X", "reason": None,
}  # fmt: skip
L1 = POINT | {"level": "l1", "flops_per_byte": 5.0, "level_bytes_per_s": None,
              "ratio_to_roof": None, "reason": "no bandwidth of l1"}  # fmt: skip
L2 = POINT | {"level": "l2", "flops_per_byte": 20.0, "level_bytes_per_s": 4e12}
MEMORY = POINT | {"level": "memory", "flops_per_byte": 80.0, "level_bytes_per_s": 1e12}
COPY = MEMORY | {"kernel": "copy", "flops": 0, "flops_per_byte": 0.0, "achieved_flops_per_s": 0.0,
                 "precision": None, "unit": None, "peak_flops_per_s": None}  # fmt: skip


def frame(*rows):
    return pl.DataFrame(list(rows), schema=SCHEMA)


def figure(shown, **options):
    import holoviews as hv

    return hv.renderer("bokeh").get_plot(view.plot(shown, **options)).state


def glyphs(fig, *kinds):
    return [r for r in fig.renderers if type(r.glyph).__name__ in kinds]


def test_a_point_for_each_level_at_one_height():
    shown = view.points(frame(L1, L2, MEMORY, COPY))
    assert shown["level"].to_list() == ["l1", "l2", "memory"]
    assert shown["flops_per_byte"].to_list() == [5, 20, 80]
    assert shown["gflops_per_s"].to_list() == pytest.approx([2000] * 3)
    assert shown["ratio"].to_list() == ["no bandwidth of l1", "20.0 %", "20.0 %"]


def test_roofs_are_those_that_the_frame_names():
    lines = view.roofs(frame(L1, L2, MEMORY))
    assert lines.select("kind", "level", "value").rows() == [
        ("bandwidth", "memory", 1000), ("bandwidth", "l2", 4000), ("peak", None, 100_000),
    ]  # fmt: skip
    assert lines["label"].to_list() == ["memory: 1 TB/s", "L2: 4 TB/s",
                                        "bf16 matrix: 100 TFLOP/s"]  # fmt: skip


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_the_picture_has_a_colour_a_level_and_says_what_it_leaves_out(look):
    fig = figure(frame(L1, L2, MEMORY, COPY), theme=look.name, width=600)
    points = glyphs(fig, "Scatter", "Circle")
    assert [p.glyph.fill_color for p in points] == [
        look.families[view.FAMILY[level]] for level in ("l1", "l2", "memory")
    ]
    # three roofs and the line that joins the points of the kernel
    assert len(glyphs(fig, "Line")) == 4
    assert fig.title.text == "Counted kernels by memory level: 1 of 2; roofs: data sheet: X"
    assert fig.width == 600


@pytest.mark.parametrize("rows", [[], [COPY]])
def test_nothing_to_draw_is_a_sentence(rows):
    texts = glyphs(figure(frame(*rows)), "Text")
    assert [t.data_source.data["text"][0] for t in texts] == [view.NOTHING]


def test_counters_of_kernels_are_no_events_of_a_timeline(tmp_path):
    page = countersfile.raw([("k", {countersfile.DURATION: "9"})])
    trace = wb.open(countersfile.write(tmp_path, page))
    assert len(activity_lanes(trace).start) == 0
    assert repr(wb.Timeline(trace)) == "Timeline()"


def test_a_figure_takes_it():
    from workbench.views.figure import Figure

    shown = Figure.of(view.plot, frame(L1, L2, MEMORY))
    assert shown.item("dark", 700)["root_id"]
