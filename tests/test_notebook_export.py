"""A notebook as HTML: prose, code, outputs, and its views alive where that can be."""

import re
import shutil
from html import escape
from pathlib import Path

import nbformat
import polars as pl
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from typer.testing import CliRunner

import workbench as wb
from workbench import notebook
from workbench.cli import app
from workbench.errors import InputError, UsageError
from workbench.trace.synthetic import SyntheticSpec, generate

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
PLAIN = "busy 120 us, idle 80 us"


def shown(view):
    """Return the output that a cell keeps of a view."""
    data, metadata = view._repr_mimebundle_()
    data["image/png"] = "aWNv"
    data.setdefault(notebook.WIDGET, {"model_id": "m", "version_major": 2, "version_minor": 0})
    return new_output("display_data", data=data, metadata=metadata)


def book(folder, *outputs, source="x = 1", prose="# A study"):
    cells = [new_markdown_cell(prose), new_code_cell(source, outputs=list(outputs))]
    path = folder / "study.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generate(SyntheticSpec(layers=1, steps=2)).write(tmp_path / "run")
    return tmp_path / "run"


def exported(path, **options):
    out = path.with_suffix(".html")
    done = notebook.export(path, out, **options)
    return done, out.read_text()


def test_views_are_drawn_anew_from_their_recording(run, tmp_path):
    timeline = wb.Timeline(wb.open(run))
    timeline.search, timeline.selection = "gemm", [1_000, 2_000]
    explorer = wb.Explorer(run, state={"tab": "Idle", "rank": 1})
    done, page = exported(book(tmp_path, shown(timeline), shown(explorer)))
    assert (done.alive, done.still) == (2, [])
    assert page.count("application/workbench-timeline'>") == 2
    assert '"search": "gemm"' in page
    assert '"selection": ["1000", "2000"]' in page
    assert "All figures are of rank 1." in page
    assert '<section role="tabpanel" data-tab="Idle">' in page
    assert done.said() == "views: 2 alive"


def test_no_other_recording_is_shown(run, tmp_path):
    path = book(tmp_path, shown(wb.Timeline(wb.open(run))))
    shutil.rmtree(run)
    done, page = exported(path)
    assert done.still == ["its recording is not at run"]
    assert "application/workbench-timeline'>" not in page
    assert 'src="data:image/png;base64,aWNv"' in page
    generate(SyntheticSpec(layers=2, steps=2)).write(run)
    done, _ = exported(path)
    assert done.still == ["the recording at run is not the one that it shows"]
    assert "1 as stored (the recording at run is not" in done.said()


def test_a_view_that_is_of_no_file_is_as_stored(tmp_path):
    frame = pl.DataFrame({"start_ns": [0], "dur_ns": [9], "name": ["a<b"], "lane": [1]})
    done, page = exported(book(tmp_path, shown(wb.Timeline(frame, by=["lane"]))))
    assert done.alive == 0
    assert "Timeline(events)\nlane " in page
    # the one event of 9 ns fills the extent
    assert re.search(r"lane 1 +1 +9 ns +100.0 %", page)


def test_what_an_output_remembers_may_be_anything(run, tmp_path):
    good = shown(wb.Timeline(wb.open(run)))
    for broken in ({"view": "none"}, {"state": "{"}, {"state": '{"window": 7}'}, {"origin": 3}):
        output = new_output("display_data", data=dict(good.data), metadata={
            "workbench": good.metadata["workbench"] | broken
        })  # fmt: skip
        done, page = exported(book(tmp_path, output))
        assert (done.alive, len(done.still)) == (0, 1)
        assert "Timeline(steps" in page


def test_code_can_be_left_out(tmp_path):
    path = book(tmp_path, new_output("stream", text="printed"), source="secret = 1")
    _, page = exported(path)
    assert "secret" in page
    _, page = exported(path, code=False)
    assert "secret" not in page
    assert "printed" in page
    assert page.count("<h1") == 1
    assert 'id="A-study">A study' in page


def test_markup_of_others_is_cleaned(tmp_path):
    nasty = (
        "# T\n<script>steal()</script><img src=x onerror=go()><meta http-equiv=refresh>"
        '<iframe src="file:///etc/passwd"></iframe>\n\n`a<b` [x](javascript:go())'
    )
    html = {"text/html": "<script>draw()</script>", "text/plain": "its text"}
    table = {"text/html": "<style>td { color: red }</style><table><tr><td>7</td></tr></table>"}
    outputs = [new_output("display_data", data=d) for d in (html, table)]
    _, page = exported(book(tmp_path, *outputs, prose=nasty))
    body = page[page.index('<div class="wb-notebook">') : page.index("<script type='module'>")]
    for gone in ("<script>", "<meta", "<iframe", "onerror", "javascript:", "src=", "td { color"):
        assert gone not in body
    assert "<code>a&lt;b</code>" in body
    assert "its text" in body
    assert "<td>7</td>" in body


def test_an_output_of_scripts_alone_is_told(tmp_path):
    output = new_output("display_data", data={"application/javascript": "draw()"})
    _, page = exported(book(tmp_path, output))
    assert "made of scripts, which an exported page does not run" in page


@pytest.mark.corpus
def test_widgets_without_state_export_with_their_text(corpus, tmp_path):
    """K60: metadata lists widgets and holds no state of them."""
    path = shutil.copy(corpus / "cases" / "K60_widget_no_state.ipynb", tmp_path)
    done, page = exported(tmp_path / path)
    assert PLAIN in page
    assert done.still == ["what they show is in the kernel alone"]
    assert "model not found" not in page


@pytest.mark.slow
@pytest.mark.parametrize("name", [p.name for p in sorted(NOTEBOOKS.glob("*.ipynb"))])
def test_shipped_notebooks_export_with_something_in_place_of_each_view(name, tmp_path):
    """K64: without a kernel each view is alive, or a picture or the figures of it stand there."""
    out = tmp_path / "page.html"
    done = notebook.export(NOTEBOOKS / name, out)
    page = out.read_text()
    views = [o for o in notebook._outputs(nbformat.read(NOTEBOOKS / name, 4)) if notebook._model(o)]
    assert done.alive + len(done.still) == len(views)
    for view in views:
        lines = view["data"]["text/plain"].splitlines()
        assert len(lines) > 1 or lines == ["Explorer()"]
        if lines[0].startswith("Figure("):
            assert escape(lines[1]) in page
    assert page.count('class="wb-panel wb-page"') == done.alive


@pytest.mark.slow
def test_a_notebook_is_run_first_when_asked(run, tmp_path):
    source = """import polars as pl, workbench as wb
from workbench.views import overlap
from workbench.views.figure import Figure
frame = pl.DataFrame({"start_ns": [0], "dur_ns": [9], "name": ["of_the_run"], "lane": [1]})
t = wb.Timeline(frame, by=["lane"])
display(t, Figure.of(overlap.bars, wb.overlap(wb.open("run"))))
t.search = "set later" """
    path = book(tmp_path, source=source)
    before = path.read_bytes()
    done, page = exported(path, execute=True)
    assert (done.alive, done.still) == (2, [])
    assert '"search": "set later"' in page
    assert "application/workbench-picture" in page
    assert path.read_bytes() == before
    failing = book(tmp_path, source="1 / 0")
    with pytest.raises(InputError, match=r"Cell 2 of .* failed, so nothing was written: ZeroDiv"):
        exported(failing, execute=True)


def test_what_is_no_notebook_is_told(tmp_path):
    path = tmp_path / "x.ipynb"
    for text in ("", "[]", '{"cells": 3}', "\x00"):
        path.write_text(text)
        with pytest.raises(InputError, match="is not a notebook that can be read"):
            notebook.export(path, tmp_path / "x.html")
    with pytest.raises(InputError, match="can't be read: No such file"):
        notebook.export(tmp_path / "none.ipynb", tmp_path / "x.html")
    with pytest.raises(UsageError, match=r"does not end in \.html"):
        notebook.export(path, tmp_path / "x.pdf")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["x.ipynb", "-o", "x.html", "--rank", "0"],
            "--rank: for recordings; x.ipynb is a notebook",
        ),
        (["run", "-o", "x.json", "--execute"], "--execute and --no-code are for notebooks"),
        (["run", "-o", "x.json", "--no-code"], "--execute and --no-code are for notebooks"),
    ],
)
def test_options_of_the_other_kind_are_refused(arguments, said):
    result = CliRunner().invoke(app, ["export", *arguments])
    assert said in str(result.exception)
