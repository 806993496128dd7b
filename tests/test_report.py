"""The one-file report and `workbench lab`'s notebooks."""

import re

import pytest
from panels.pages import carried
from tinytrace import call, kernel, op, step, write

from workbench import lab, report
from workbench.errors import InputError, UsageError
from workbench.noting.book import Book
from workbench.noting.targets import target
from workbench.trace.open import open_source

HOSTILE = "gemm<script>alert(1)</script>"


@pytest.fixture
def page(tmp_path):
    events = [step(1, 0, 50), op("aten::mm", 1, 9), call("cudaLaunchKernel", 2, 1, 1)]
    source = write(tmp_path, [*events, kernel(HOSTILE, 20, 10, 1)])
    return report.write(source, tmp_path / "out.html").read_text()


def test_the_numbers_are_on_the_page(page):
    # the one kernel runs 20-30 us and is all of the window
    assert "<b>10 us</b>" in page
    assert "<b>100.0 %</b>" in page
    tables = carried(page)["tables"]
    assert '<td class="wb-time" data-v="10000">10.000</td>' in tables["kernels"]
    for title in ("Kernels", "Operators", "Steps", "Launches", "Problems"):
        assert f'<section role="tabpanel" data-tab="{title}"' in page


def test_a_part_that_says_nothing_is_left_out(page):
    tables = carried(page)["tables"]
    assert "trust" in tables
    assert "groups" not in tables
    assert "memory_peak" not in tables


def test_a_page_asks_for_no_picture_that_it_does_not_carry(page, tmp_path):
    empty = report.write(write(tmp_path, []), tmp_path / "empty.html").read_text()
    for whole in (page, empty):
        asked = re.findall(r'data-figure="([a-z_]+)"', whole)
        assert set(asked) <= set(carried(whole)["pictures"])
    assert 'data-figure="breakdown"' in page
    assert 'data-figure="breakdown"' not in empty


def test_names_from_the_trace_are_escaped(page):
    assert HOSTILE not in page
    assert "gemm&lt;script&gt;" in carried(page)["tables"]["kernels"]


def test_generated_traces_say_so(tmp_path):
    source = write(tmp_path, [kernel("k", 0, 5)], generated="a generator")
    assert "not recorded on a device" in report.write(source, tmp_path / "o.html").read_text()


def test_only_html_is_written(tmp_path):
    with pytest.raises(UsageError, match=r"does not end in \.html"):
        report.write(write(tmp_path, [kernel("k", 0, 5)]), tmp_path / "out.pdf")


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(InputError, match="can't be written: No such file or directory"):
        report.write(write(tmp_path, [kernel("k", 0, 5)]), tmp_path / "none" / "out.html")


def test_notebooks_are_copied_once_and_never_overwritten(tmp_path, monkeypatch):
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    (shipped / lab.START).write_text("new")
    monkeypatch.setattr("workbench.resources.notebooks", lambda: shipped)
    mine = tmp_path / "mine"
    assert lab.prepare(mine) == mine / lab.START
    (mine / lab.START).write_text("my notes")
    lab.prepare(mine)
    assert (mine / lab.START).read_text() == "my notes"


def test_what_people_noted_is_on_the_page_as_text(tmp_path):
    source = write(tmp_path, [kernel("gemm", 0, 10), kernel("relu", 20, 5)])
    opened = open_source(source)
    before = carried(report.write(source, tmp_path / "a.html").read_text())["tables"]["notes"]
    assert "<table" not in before
    book = Book(opened)
    book.add("slow", HOSTILE, target(opened, span=[20_000, 25_000]), author="ann")
    book.add("gone", "", target(opened, kernel="conv"), author="ann")
    page = report.write(source, tmp_path / "o.html").read_text()
    body = carried(page)["tables"]["notes"]
    assert HOSTILE not in body
    assert "gemm&lt;script&gt;" in body
    assert "not in this recording" in body
    assert HOSTILE not in page


def test_of_a_recording_without_events_nothing_is_said_of_its_device(tmp_path):
    """It has no device time, so neither is its device always busy: idle time is only not there."""
    whole = report.write(write(tmp_path, []), tmp_path / "empty.html").read_text()
    idle = whole.split('data-tab="Idle"')[2]
    assert "No idle time lies in this window." in idle
    assert "never idle" not in whole
