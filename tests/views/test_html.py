"""The standalone page: everything in it, nothing that escapes, nothing asked of others."""

from __future__ import annotations

import base64
import gzip
import json
import re

import numpy as np
import pytest
from views.generated import many_lanes, training_run
from views.traces import kernel, three_events, trace

from workbench.views import html
from workbench.views.timeline import Timeline

NASTY = "</script><script>alert(1)</script><!--"
DTYPE = {"i8": "<i8", "u4": "<u4", "i4": "<i4", "u1": "u1"}


def carried(page):
    text = re.search(r"application/workbench-timeline'>(.*?)</script>", page, re.DOTALL)[1]
    data = json.loads(text)
    arrays = {
        name: np.frombuffer(gzip.decompress(base64.b64decode(packed)), DTYPE[kind])
        for name, (kind, packed) in data["arrays"].items()
    }
    return data, arrays


def test_the_page_carries_every_event(tmp_path):
    path = html.save(tmp_path / "t.html", Timeline(three_events()), "Three")
    data, arrays = carried(path.read_text("utf-8"))
    assert arrays["start"].tolist() == [0, 50, 20]
    assert arrays["dur"].tolist() == [40, 10, 50]
    assert arrays["offset"].tolist() == [0, 2, 3]
    assert [data["texts"][k] for k in arrays["name"]] == ["gemm", "relu", "all_reduce"]
    assert data["complete"]
    assert data["state"]["extent"] == ["100", "170"]


def test_names_headings_and_title_cannot_break_out(tmp_path):
    timeline = Timeline(trace(activities=[kernel(NASTY, 0, 9)]))
    timeline.annotations = [{"name": NASTY, "start_ns": 0, "end_ns": 1}]
    timeline.selected = {"table": "activities", "id": 0}
    page = html.save(tmp_path / "t.html", timeline, NASTY, [(NASTY, "<p>ours</p>")]).read_text()
    assert "alert(1)</script>" not in page
    assert "<p>ours</p>" in page
    data, _ = carried(page)
    assert data["texts"] == [NASTY]


def test_beyond_the_limit_the_longest_are_kept_and_the_page_says_so(tmp_path):
    timeline = Timeline(many_lanes(4_000, lanes=4))
    page = html.save(tmp_path / "t.html", timeline, "Large", max_events=100).read_text()
    assert "the longest 100 of 4,000 events" in page
    data, arrays = carried(page)
    assert not data["complete"]
    shortest_kept = arrays["dur"].min()
    assert (timeline.data.dur > shortest_kept).sum() < 100
    assert len(arrays["busy1200"]) == 4 * 1200


def test_rows_times_pixels_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(html, "MAX_CELLS", 50_000)
    timeline = Timeline(many_lanes(4_000, lanes=4))
    data, _ = carried(html.fragment(timeline, max_events=100))
    assert data["levels"] == [1200, 9600]


def test_the_same_trace_gives_the_same_page():
    assert html.fragment(Timeline(training_run(500, 2))) == html.fragment(
        Timeline(training_run(500, 2))
    )


def test_the_page_forbids_and_names_no_other_place(tmp_path):
    page = html.save(tmp_path / "t.html", Timeline(three_events()), "Three").read_text()
    assert "default-src 'none'" in page
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", page)
    assert not re.findall(r"https?://", page)


@pytest.mark.parametrize("source", [trace(), trace(activities=[kernel("k" * 10_000, 2**62, 0)])])
def test_odd_sources(source, tmp_path):
    page = html.save(tmp_path / "t.html", Timeline(source), "Odd").read_text()
    assert len(page) < 150_000
