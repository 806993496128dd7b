"""The standalone page: everything in it, nothing that escapes, nothing asked of others."""

from __future__ import annotations

import json
import re

import pytest
from views import unpacked
from views.generated import many_lanes, training_run
from views.traces import kernel, three_events, trace

from workbench.views import html
from workbench.views.timeline import Timeline

NASTY = "</script><script>alert(1)</script><!--"


def carried(page):
    text = re.search(r"application/workbench-timeline'>(.*?)</script>", page, re.DOTALL)[1]
    data = json.loads(text)
    columns = {name: unpacked.numbers(column) for name, column in data["columns"].items()}
    return data | json.loads(unpacked.text(data["words"])), columns


def test_the_page_carries_every_event(tmp_path):
    path = html.save(tmp_path / "t.html", Timeline(three_events()), "Three")
    data, columns = carried(path.read_text("utf-8"))
    # stream 7: 0-40 and 50-60 after the first event, so gaps of 0 and 10; stream 20: 20-70
    assert columns["gap"].tolist() == [0, 10, 20]
    assert columns["dur"].tolist() == [40, 10, 50]
    assert data["offset"] == [0, 2, 3]
    assert [data["texts"][k] for k in columns["name"]] == ["gemm", "relu", "all_reduce"]
    assert [data["steps"][k] for k in columns["step"]] == [3, 4, 3]
    assert data["grain"] == 0
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


def test_a_page_keeps_to_its_size_and_says_what_it_joins(tmp_path):
    timeline = Timeline(many_lanes(200_000, lanes=4))
    small = html.save(tmp_path / "t.html", timeline, "Large", max_bytes=800_000)
    assert 700_000 < small.stat().st_size <= 800_000
    data, columns = carried(small.read_text())
    alone = (columns["count"] == 0).sum()
    assert data["alone"] == alone < 200_000
    assert f"This page holds {alone:,} of 200,000 events one by one" in small.read_text()


def test_other_parts_leave_less_room_for_the_timeline(tmp_path):
    timeline = Timeline(many_lanes(200_000, lanes=4))
    path = tmp_path / "t.html"
    rest = [("Rest", "x" * 200_000)]
    assert html.save(path, timeline, "Large", rest, max_bytes=900_000).stat().st_size <= 900_000


def test_the_same_trace_gives_the_same_page():
    assert html.fragment(Timeline(training_run(500, 2))) == html.fragment(
        Timeline(training_run(500, 2))
    )


def test_the_page_forbids_and_names_no_other_place(tmp_path):
    page = html.save(tmp_path / "t.html", Timeline(three_events()), "Three").read_text()
    assert "default-src 'none'" in page
    assert "unsafe-eval" not in page
    assert "script-src 'sha256-" in page
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", page)
    assert not re.findall(r"https?://", page)


@pytest.mark.parametrize("source", [trace(), trace(activities=[kernel("k" * 10_000, 2**62, 0)])])
def test_odd_sources(source, tmp_path):
    page = html.save(tmp_path / "t.html", Timeline(source), "Odd").read_text()
    assert len(page) < 150_000
