"""What a saved notebook holds of each view: a picture, numbers, and little of both."""

import io
import json

import polars as pl
from PIL import Image
from tinytrace import kernel, step, write
from views.generated import many_lanes
from views.traces import three_events

import workbench as wb
from workbench.views import breakdown, origin
from workbench.views.figure import Figure
from workbench.views.timeline import Timeline


def test_the_message_of_a_hundred_thousand_kernels_is_small():
    """K65: a server drops what comes in too fast, so a display stays below a megabyte."""
    timeline = Timeline(many_lanes(100_000, lanes=40))
    data, metadata = timeline._repr_mimebundle_()
    shown = len(json.dumps([data | {"image/png": ""}, metadata])) + len(data["image/png"]) * 4 // 3
    opened = sum(
        len(value)
        if isinstance(value, (bytes, memoryview))
        else len(json.dumps(value, default=str))
        for name, value in timeline.get_state().items()
        if name not in {"_esm", "_css"}
    )
    assert shown < 200_000
    assert opened < 400_000


def test_a_timeline_leaves_its_numbers_and_a_picture():
    data, metadata = Timeline(three_events())._repr_mimebundle_()
    assert data["text/plain"].splitlines()[0] == "Timeline(activities)"
    # stream 7 is busy 40 + 10 of 70 ns
    assert "GPU 0 · stream 7           2       50 ns   71.4 %" in data["text/plain"]
    assert Image.open(io.BytesIO(data["image/png"])).width > 800
    assert metadata["workbench"]["view"] == "timeline"


def test_a_timeline_of_no_recording_remembers_none():
    frame = pl.DataFrame({"start_ns": [0], "dur_ns": [9], "name": ["a"], "lane": [1]})
    assert Timeline(frame, by=["lane"])._repr_mimebundle_()[1] == {}


def test_a_figure_leaves_the_rows_that_it_draws(tmp_path):
    run = wb.open(write(tmp_path, [step(1, 0, 50), kernel("gemm", 20, 10, 1)]))
    figure = Figure.of(breakdown.bars, wb.breakdown(run))
    text = figure._repr_mimebundle_()[0]["text/plain"]
    assert text.splitlines()[0] == "Figure(breakdown.bars)"
    assert "compute" in text
    assert "10 us" in text


def test_an_explorer_leaves_its_headline_and_a_picture(tmp_path):
    path = write(tmp_path, [step(1, 0, 50), kernel("gemm", 20, 10, 1)])
    explorer = wb.Explorer(path)
    data, metadata = explorer._repr_mimebundle_()
    assert data["text/plain"].startswith(f"Explorer()\n{explorer.headline}")
    assert Image.open(io.BytesIO(data["image/png"])).width == 1200
    kept = metadata["workbench"]
    assert kept["view"] == "explorer"
    assert json.loads(kept["state"])["tab"] == "Overview"
    again = origin.reopen(kept["origin"], tmp_path.cwd())
    assert again.meta.sha256 == explorer.source.meta.sha256


def test_an_explorer_without_a_named_run_says_nothing_that_differs_by_machine(tmp_path):
    data, metadata = wb.Explorer(runs_dir=tmp_path)._repr_mimebundle_()
    assert data["text/plain"] == "Explorer()"
    assert metadata == {}


def test_a_launcher_says_what_it_is(tmp_path):
    data = wb.Launcher(tmp_path)._repr_mimebundle_()[0]
    assert data["text/plain"].splitlines() == [
        "Launcher()",
        "A form that records a run; run the notebook to use it.",
    ]
