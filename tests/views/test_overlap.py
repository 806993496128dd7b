"""The overlap bars: what is drawn and what is said, worked out by hand."""

import holoviews as hv
import polars as pl

from workbench.analysis.overlap import OVERLAP_SCHEMA
from workbench.views import overlap


def frame(*rows):
    """Rows of (rank, overlap, exposed) in us on device 0."""
    return pl.DataFrame(
        [
            {"rank": rank, "device": 0, "communication_ns": (hidden + bare) * 1000}
            | {"overlap_ns": hidden * 1000, "exposed_communication_ns": bare * 1000}
            | {"overlap_share": hidden / (hidden + bare) if hidden + bare else None}
            for rank, hidden, bare in rows
        ],
        schema=OVERLAP_SCHEMA,
    )


def test_parts_and_caption():
    two = frame((0, 30, 10), (1, 0, 60), (2, 0, 0))
    assert overlap.parts(two).rows() == [
        ("rank 0 · GPU 0", "overlapped with compute", 0.03, "30 us", "75.0 %"),
        ("rank 0 · GPU 0", "exposed", 0.01, "10 us", "25.0 %"),
        ("rank 1 · GPU 0", "overlapped with compute", 0.0, "0 ns", "0.0 %"),
        ("rank 1 · GPU 0", "exposed", 0.06, "60 us", "100.0 %"),
    ]
    # the ratio of sums, 30 / 100, not the mean of 75 % and 0 %
    assert overlap.caption(two) == (
        "30.0 % of the communication time overlaps with compute "
        "(from 0.0 % to 75.0 % by rank and device); 1 without communication left out"
    )
    assert overlap.caption(frame((0, 30, 10))) == (
        "75.0 % of the communication time overlaps with compute"
    )


def test_pictures():
    figure = hv.render(overlap.bars(frame((0, 30, 10), (1, 0, 60)), width=640), backend="bokeh")
    assert figure.width == 640
    from_top = [str(f) for f in reversed(figure.y_range.factors)]
    assert from_top == ["rank 0 · GPU 0", "rank 1 · GPU 0"]
    assert figure.title.text.startswith("30.0 %")
    silent = hv.render(overlap.bars(frame((0, 0, 0)), theme="dark"), backend="bokeh")
    assert silent.title.text == ""
    (text,) = [r.data_source.data["text"][0] for r in silent.renderers]
    assert text == "No communication in this window."
