"""The bars of a breakdown: the frame that is drawn, worked out by hand, and the picture itself."""

import holoviews as hv
import polars as pl
import pytest

from workbench.analysis.breakdown import SCHEMA
from workbench.analysis.steps import SCHEMA as STEPS
from workbench.views import breakdown
from workbench.views.theme import DARK, LIGHT


def frame(rows):
    """Rows of (rank, device, times of the four parts in ns)."""
    out = []
    for rank, device, *times in rows:
        whole = sum(times)
        out += [
            {"rank": rank, "device": device, "part": part, "time_ns": ns}
            | {"share": ns / whole if whole else None}
            for part, ns in zip(breakdown.PARTS, times, strict=True)
        ]
    return pl.DataFrame(out, schema=SCHEMA)


def test_parts_of_a_window():
    # 200 us: compute 150, exposed communication 30, no copy, idle 20
    drawn = breakdown.parts(frame([(1, 0, 150_000, 30_000, 0, 20_000)]))
    assert drawn.rows() == [
        ("rank 1 · GPU 0", "compute", 75.0, "150 us", "75.0 %"),
        ("rank 1 · GPU 0", "exposed communication", 15.0, "30 us", "15.0 %"),
        ("rank 1 · GPU 0", "exposed copy", 0.0, "0 ns", "0.0 %"),
        ("rank 1 · GPU 0", "idle", 10.0, "20 us", "10.0 %"),
    ]


def test_host_execution_has_no_device_number():
    assert breakdown.parts(frame([(None, None, 1, 0, 0, 1)]))["place"].unique().to_list() == ["CPU"]


def test_an_empty_window_is_a_sentence():
    nothing = frame([(0, 0, 0, 0, 0, 0)])
    assert breakdown.parts(nothing).is_empty()
    figure = hv.render(breakdown.bars(nothing), backend="bokeh")
    assert texts(figure) == [breakdown.NOTHING]


def texts(figure):
    found = [r.data_source.data.get("text") for r in figure.renderers]
    return [str(t) for column in found if column is not None for t in column]


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_the_picture_has_a_bar_for_each_place_in_the_colours_of_the_page(look):
    rows = [(0, 0, 3, 1, 0, 0), (1, 0, 1, 0, 1, 2)]
    figure = hv.render(breakdown.bars(frame(rows), theme=look.name, width=700), backend="bokeh")
    assert figure.width == 700
    from_top = [str(f) for f in reversed(figure.y_range.factors)]
    assert from_top == ["rank 0 · GPU 0", "rank 1 · GPU 0"]
    assert figure.background_fill_color == look.background
    data = figure.renderers[0].data_source.data
    bars = zip(data["place"], data["label"], data["bottom"], data["top"], strict=True)
    assert {(place[:6], label): (a, b) for place, label, a, b in bars if b > a} == {
        ("rank 0", "compute"): (0, 75),
        ("rank 0", "exposed communication"): (75, 100),
        ("rank 1", "compute"): (0, 25),
        ("rank 1", "exposed copy"): (25, 50),
        ("rank 1", "idle"): (50, 100),
    }
    mapper = figure.renderers[0].glyph.fill_color.transform
    colours = dict(zip(mapper.factors, mapper.palette, strict=True))
    assert colours["exposed communication"] == look.of("communication")


def test_steps_are_as_high_as_they_are_long():
    row = {"rank": 0, "device": 0, "start_ns": 0, "host_dur_ns": 1, "complete": True, "tail": False}
    parts = {"compute_ns": 2_000_000, "exposed_communication_ns": 500_000, "exposed_copy_ns": 0}
    steps = pl.DataFrame(
        [
            row
            | parts
            | {"step": 7, "dur_ns": 4_000_000, "busy_ns": 2_500_000, "idle_ns": 1_500_000}
        ],
        schema=STEPS,
    )
    drawn = breakdown.step_parts(steps)
    assert drawn.rows() == [
        ("7", "compute", 2.0, "2 ms", "50.0 %"),
        ("7", "exposed communication", 0.5, "500 us", "12.5 %"),
        ("7", "exposed copy", 0.0, "0 ns", "0.0 %"),
        ("7", "idle", 1.5, "1.5 ms", "37.5 %"),
    ]
    assert drawn["ms"].sum() == 4.0
    assert hv.render(breakdown.by_step(steps), backend="bokeh").height == breakdown.STEP_HEIGHT
    both = pl.concat([steps, steps.with_columns(rank=pl.lit(1, pl.Int32))])
    assert breakdown.step_parts(both)["place"].unique(maintain_order=True).to_list() == [
        "7 · rank 0 · GPU 0",
        "7 · rank 1 · GPU 0",
    ]
    assert texts(hv.render(breakdown.by_step(steps.clear()), backend="bokeh")) == [
        "No step is marked in this recording."
    ]
