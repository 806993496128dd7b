"""The picture of the memory timeline: layers worked out by hand, and what is said of the peak."""

import holoviews as hv
import polars as pl
import pytest

from workbench.analysis.memory_timeline import EARLIER, SCHEMA
from workbench.views import memory
from workbench.views.theme import DARK, LIGHT

MB = 10**6


def frame(*moments, **more):
    """Rows of (ms, step, bytes from before, bytes of forward) on rank 0, GPU 0."""
    rows = []
    for ms, step, early, forward in moments:
        moment = {"rank": 0, "device": 0, "place": "device", "t_ns": ms * 10**6, "step": step,
                  "allocated_bytes": early + forward, "reserved_bytes": 8 * MB,
                  "above_start_bytes": early + forward - 2 * MB, "phase": "forward",
                  "op": "aten::mm"} | more  # fmt: skip
        for label, size in ((EARLIER, early), ("forward", forward)):
            rows.append(moment | {"category": label, "held_bytes": size})
    return pl.DataFrame(rows, schema=SCHEMA)


THREE = frame((0, 1, 2 * MB, 0), (5, 1, 2 * MB, 3 * MB), (20, 2, MB, MB))


def test_layers_lie_on_one_another():
    assert memory.layers(THREE).rows() == [
        (EARLIER, 0.0, 0, 2 * MB),
        ("forward", 0.0, 2 * MB, 2 * MB),
        (EARLIER, 5.0, 0, 2 * MB),
        ("forward", 5.0, 2 * MB, 5 * MB),
        (EARLIER, 20.0, 0, MB),
        ("forward", 20.0, MB, 2 * MB),
    ]


def test_the_caption_says_the_peak():
    said = "rank 0 · GPU 0: peak 5 MB of 8 MB reserved in step 1, forward, aten::mm"
    assert memory.caption(THREE) == said
    unsaid = frame((0, None, 0, MB), device=None, place=None, rank=None, reserved_bytes=None,
                   phase=None, op=None)  # fmt: skip
    assert memory.caption(unsaid) == "device not recorded: peak 1 MB"
    host = frame((0, None, 0, MB), device=None, place="host", reserved_bytes=None, op=None)
    assert memory.caption(host) == "rank 0 · CPU: peak 1 MB in forward"


def test_the_first_device_is_drawn():
    host = frame((0, 1, 0, 90 * MB), device=None, place="host")
    both = pl.concat([THREE, host])
    assert memory.layers(both).equals(memory.layers(THREE))


def test_without_totals_changes_are_drawn():
    old = THREE.filter(pl.col("category") == "forward").with_columns(
        allocated_bytes=None, held_bytes=None, category=None
    )
    assert memory.layers(old.cast(SCHEMA)).rows() == [
        ("allocated", 0.0, 0, 0), ("allocated", 5.0, 0, 3 * MB), ("allocated", 20.0, 0, 0),
    ]  # fmt: skip
    assert "peak 3 MB above the start" in memory.caption(old.cast(SCHEMA))


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_the_picture(look):
    figure = hv.render(memory.plot(THREE, theme=look.name, width=640), backend="bokeh")
    assert figure.width == 640
    assert figure.background_fill_color == look.background
    assert figure.title.text == memory.caption(THREE)
    polygons = [r.data_source.data for r in figure.renderers if type(r.glyph).__name__ == "Patch"]
    early, forward = (sorted(zip(d["x"], d["y"], strict=True)) for d in polygons)
    # each level is held until the next moment, the last one a little longer
    edges = [0, 5, 5, 20, 20, 20.1]
    assert early == corners(edges, [0] * 6, [2, 2, 2, 2, 1, 1])
    assert forward == corners(edges, [2, 2, 2, 2, 1, 1], [2, 2, 5, 5, 2, 2])
    assert figure.yaxis[0].axis_label == "allocated (MB)"
    assert [str(item.label.value) for item in figure.legend[0].items] == [
        EARLIER, "forward", "reserved",
    ]  # fmt: skip
    labels = [t for d in data(figure) for t in d.get("text", [])]
    assert labels == ["1", "2"]
    (box,) = [d for d in data(figure) if "left" in d]  # every other step is shaded
    assert (box["left"].tolist(), box["right"].tolist()) == ([0], [20])


def corners(edges, lower, upper):
    """Both ends of each edge, in order."""
    return sorted((x, y) for x, *ends in zip(edges, lower, upper, strict=True) for y in ends)


def data(figure):
    return [r.data_source.data for r in figure.renderers]


def test_the_peak_is_marked():
    figure = hv.render(memory.plot(THREE), backend="bokeh")
    marks = [d for d in data(figure) if "level" in d]
    assert [len(d["level"]) for d in marks] == [3, 1]
    peak = marks[1]
    assert (peak["ms"][0], peak["level"][0], peak["size"][0]) == (5.0, 5.0, "5 MB")


def test_reserved_memory_far_above_is_only_said():
    far = frame((0, 1, 2 * MB, 0), (5, 1, 2 * MB, MB), reserved_bytes=80 * MB)
    figure = hv.render(memory.plot(far), backend="bokeh")
    assert [str(item.label.value) for item in figure.legend[0].items] == [EARLIER, "forward"]
    assert "of 80 MB reserved" in figure.title.text
    assert figure.y_range.end < 4


def test_nothing_recorded_is_a_sentence():
    nothing = pl.DataFrame(schema=SCHEMA)
    figure = hv.render(memory.plot(nothing), backend="bokeh")
    (text,) = [r.data_source.data["text"][0] for r in figure.renderers]
    assert text == memory.caption(nothing) == memory.NOTHING
    flat = frame((0, None, 0, 0), reserved_bytes=0)
    assert hv.render(memory.plot(flat), backend="bokeh").y_range.end > 0
