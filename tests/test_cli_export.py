"""`workbench export` and `workbench trim` as a user types them."""

import json

import pytest
from sametrace import differences
from tinytrace import call, kernel, step, write
from typer.testing import CliRunner

from workbench import cli
from workbench.errors import InputError, UsageError
from workbench.trace import store
from workbench.trace.open import open_source
from workbench.trace.synthetic import generate


def run(*args):
    result = CliRunner().invoke(cli.app, [*map(str, args)], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.stdout.strip()


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    generate().write(folder)
    return folder


@pytest.fixture
def one(tmp_path):
    events = [step(k, 100 * k, 100) for k in (1, 2, 3)]
    for k in (1, 2, 3):
        events += [call("cudaLaunchKernel", 100 * k + 5, 2, k), kernel("k", 100 * k + 9, 20, k)]
    return write(tmp_path, events)


def test_export_chooses_the_form_by_the_name(one, tmp_path):
    trace = open_source(one)
    for name in ("a.json", "b.json.gz", "parquet"):
        out = tmp_path / name
        assert run("export", one, "-o", out) == str(out)
        assert differences(trace, open_source(out)) == []
    assert (tmp_path / "parquet" / store.MANIFEST).exists()


@pytest.mark.parametrize("form", ["chrome", "parquet"])
def test_a_job_becomes_a_folder_of_ranks(job, tmp_path, form):
    out = tmp_path / "out"
    run("export", job, "-o", out, "--format", form)
    ends = {"chrome": ".trace.json.gz", "parquet": ""}[form]
    assert sorted(p.name for p in out.iterdir()) == [f"rank0{ends}", f"rank1{ends}"]
    again, source = open_source(out), open_source(job)
    assert [t.meta.rank for t in again.ranks] == [0, 1]
    for trace, other in zip(source.ranks, again.ranks, strict=True):
        assert differences(trace, other) == []
    run("export", job, "-o", out, "--format", form, "--force")
    with pytest.raises(UsageError, match="exists already"):
        run("export", job, "-o", out)


def test_a_job_does_not_fit_one_file_but_a_rank_does(job, tmp_path):
    with pytest.raises(UsageError, match=r"is one file, and there are 2 ranks; name a folder"):
        run("export", job, "-o", tmp_path / "x.json")
    run("export", job, "-o", tmp_path / "x.json", "--rank", 1)
    assert open_source(tmp_path / "x.json").meta.rank == 1
    with pytest.raises(UsageError, match=r"has no rank 7; it has 0, 1\."):
        run("export", job, "-o", tmp_path / "y.json", "--rank", 7)


def test_what_a_user_keeps_is_never_replaced(one, job, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("")
    for source in (one, job):
        with pytest.raises(UsageError, match="is no exported trace, so it isn't replaced"):
            run("export", source, "-o", mine, "--force")
    with pytest.raises(UsageError, match="isn't replaced"):
        run("export", job, "-o", tmp_path, "--force")  # a folder with a recording in it
    assert [p.name for p in mine.iterdir()] == ["thesis.txt"]


def test_forms_that_do_not_fit_are_named(one, tmp_path):
    with pytest.raises(UsageError, match="There is no form 'xml'; known: chrome and parquet"):
        run("export", one, "-o", tmp_path / "x", "--format", "xml")
    with pytest.raises(UsageError, match="written as Chrome JSON, not as Parquet"):
        run("export", one, "-o", tmp_path / "x.json", "--format", "parquet")
    with pytest.raises(UsageError, match=r"ends in neither \.json"):
        run("export", one, "-o", tmp_path / "x", "--format", "chrome")
    with pytest.raises(UsageError, match="A part of a trace is written as Chrome JSON"):
        run("export", one, "-o", tmp_path / "x", "--format", "parquet", "--range", "0:1")
    with pytest.raises(InputError, match="There is no file or folder"):
        run("export", tmp_path / "nowhere", "-o", tmp_path / "x")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("run.html", "run.html would be a folder of Parquet: `workbench report` writes a page"),
        ("run.csv", "`workbench show … -o` writes a table"),
        ("run.svg", "`wb.save_view` writes a picture"),
        ("run.gz", "a trace for Perfetto ends in .json or .json.gz"),
    ],
)
def test_a_folder_is_not_called_like_a_file_unless_asked_for(one, tmp_path, name, sentence):
    with pytest.raises(UsageError, match=sentence):
        run("export", one, "-o", tmp_path / name)
    assert not (tmp_path / name).exists()
    run("export", one, "-o", tmp_path / name, "--format", "parquet")
    assert (tmp_path / name / store.MANIFEST).exists()
    run("export", one, "-o", tmp_path / "gpt-2026.11")  # a dot alone says nothing


def test_export_of_a_stretch(one, tmp_path):
    run("export", one, "-o", tmp_path / "x.json", "--range", "0.1:0.2")  # step 2, from the origin
    assert open_source(tmp_path / "x.json").activities["start_ns"].to_list() == [109_000]


def test_trim_keeps_numbers_and_figures(one, tmp_path):
    out = tmp_path / "cut.json.gz"
    run("trim", one, "--steps", "2", "-o", out)
    shown = [
        json.loads(run("show", source, name, "--step", "2", "--json"))["rows"]
        for name in ("steps", "summary")
        for source in (one, out)
    ]
    assert shown[0] == shown[1]
    assert shown[0][0]["dur_ns"] == 100_000  # from S(2) = 209 us to S(3) = 309 us
    assert shown[2] == shown[3]
    with pytest.raises(UsageError, match="no step in 7-9; its steps are 1 to 3"):
        run("trim", one, "--steps", "7-9", "-o", tmp_path / "y.json")
    with pytest.raises(UsageError, match="neither A-B nor A"):
        run("trim", one, "--steps", "last", "-o", tmp_path / "y.json")


def test_trim_of_a_job_is_a_folder(job, tmp_path):
    run("trim", job, "--steps", "11", "-o", tmp_path / "cut")
    again = open_source(tmp_path / "cut")
    assert [t.steps["step"].to_list() for t in again.ranks] == [[11, 12], [11, 12]]
