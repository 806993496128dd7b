"""The one-file report and `workbench lab`'s notebooks."""

import polars as pl
import pytest
from tinytrace import call, kernel, op, step, write

from workbench import lab, report
from workbench.errors import UsageError
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
    assert "<td>10 us</td>" in page
    assert "<td>100.0 %</td>" in page
    for heading in ("Summary", "Where the window goes", "Steps", "Launches", "Operators"):
        assert f"<h2>{heading}</h2>" in page


def test_a_section_without_rows_is_left_out(page):
    assert "What this recording can answer" in page
    assert "Process groups" not in page
    assert "Memory at its peak" not in page


def test_the_mean_step_and_its_idle_time_are_on_the_page(tmp_path):
    # steps 1 and 2 are [10, 110) and [110, 210): gemm 60 and 70 us, idle 40 and 30; of these until
    # the calls at 101 and 201 31 + 21, in the calls 1 + 1, after them 8 + 8
    calls = [call("cudaLaunchKernel", t, 1, c) for t, c in ((1, 1), (101, 2), (201, 3))]
    gemms = [kernel("gemm", 10, 60, 1), kernel("gemm", 110, 70, 2), kernel("gemm", 210, 5, 3)]
    events = [step(1, 0, 100), step(2, 100, 100), step(3, 200, 50), *calls, *gemms]
    source = write(tmp_path, events)
    headings = [heading for heading, _ in report.sections(open_source(source))]
    assert headings[:5] == [
        "About this recording", "Summary", "Where the window goes", "The mean step, part by part",
        "Steps",
    ]  # fmt: skip
    body = dict(report.sections(open_source(source)))
    assert "<td>65 us</td>" in body["The mean step, part by part"]
    assert "<td>65.0 %</td>" in body["The mean step, part by part"]
    for time in ("52 us", "2 us", "16 us"):
        assert f"<td>{time}</td>" in body["Why the device was idle"]


def test_long_tables_keep_what_their_order_puts_first(tmp_path):
    # 30 all-reduces of 1, 2, ... us, all exposed: the first 25 are those of 30 us down to 6 us
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    source = write(tmp_path, [kernel(name, 100 * i, i + 1, i + 1) for i in range(30)])
    body = dict(report.sections(open_source(source)))
    shown = body["Most exposed collectives, the first 25"]
    assert shown.count("<tr>") == 1 + 25
    assert shown.index("<td>30 us</td>") < shown.index("<td>6 us</td>")
    assert "<td>5 us</td>" not in shown


def test_long_texts_take_several_lines():
    long = "a " * 40
    text = report.table(pl.DataFrame({"name": [long, "b"]}))
    assert text.count("white-space: normal; min-width") == 1
    assert '<td style="text-align: left">b</td>' in text


def test_names_from_the_trace_are_escaped(page):
    assert HOSTILE not in page
    assert "gemm&lt;script&gt;" in page


def test_generated_traces_say_so(tmp_path):
    source = write(tmp_path, [kernel("k", 0, 5)], generated="a generator")
    assert "no recording of a real device" in report.write(source, tmp_path / "o.html").read_text()


def test_only_html_is_written(tmp_path):
    with pytest.raises(UsageError, match=r"does not end in \.html"):
        report.write(write(tmp_path, [kernel("k", 0, 5)]), tmp_path / "out.pdf")


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
    assert "Notes" not in dict(report.sections(opened))
    book = Book(opened)
    book.add("slow", HOSTILE, target(opened, span=[20_000, 25_000]), author="ann")
    book.add("gone", "", target(opened, kernel="conv"), author="ann")
    body = dict(report.sections(opened))["Notes"]
    assert HOSTILE not in body
    assert "gemm&lt;script&gt;" in body
    assert "<td>20 us</td>" in body
    assert "not in this recording" in body
    page = report.write(source, tmp_path / "o.html").read_text()
    assert HOSTILE not in page
