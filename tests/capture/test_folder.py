import json
from pathlib import Path

import pytest

from workbench.capture import CapturePlan, folder
from workbench.errors import InputError, UsageError


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def make(path, status="done", **content):
    path.mkdir()
    manifest = {"schema_version": 1, "status": status, **content}
    (path / "run.json").write_text(json.dumps(manifest))
    return path


def test_a_new_run_is_worked_in_beside_its_final_name(tmp_path):
    partial, final = folder.create(CapturePlan(workload="gpt", runs_dir=tmp_path / "runs"))
    assert partial.name == f".{final.name}.partial"
    assert final.parent == tmp_path / "runs"
    assert final.name.startswith("gpt-20")
    assert partial.is_dir()
    assert not final.exists()


def test_a_name_in_use_is_refused_and_an_empty_folder_is_not(tmp_path):
    make(tmp_path / "full")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        folder.create(CapturePlan(workload="gpt", out=tmp_path / "full"))
    plan = CapturePlan(workload="gpt", out=tmp_path / "empty")
    folder.create(plan)
    with pytest.raises(UsageError, match="is being recorded already, or was interrupted"):
        folder.create(plan)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be made: Not a directory"):
        folder.create(CapturePlan(workload="gpt", out=tmp_path / "file" / "run"))
    with pytest.raises(UsageError, match="cannot be made: File name too long"):
        folder.create(CapturePlan(workload="gpt", out=tmp_path / ("x" * 300)))


def test_status_of_a_partial_follows_its_process(tmp_path):
    me = folder.owner()
    mine = make(tmp_path / ".a.partial", "running", owner=me)
    assert folder.read(mine).status == "running"
    assert folder.read(mine).name == "a"
    reused = make(tmp_path / ".b.partial", "running", owner=me | {"created": 1.0})
    assert folder.read(reused).status == "interrupted"
    dead = make(tmp_path / ".c.partial", "done", owner=me | {"pid": 2**22 + 1})
    assert folder.read(dead).status == "interrupted"
    elsewhere = make(tmp_path / ".d.partial", "running", owner=me | {"host": "elsewhere"})
    assert folder.read(elsewhere).status == "unknown"
    nameless = make(tmp_path / ".e.partial", "running")
    assert folder.read(nameless).status == "interrupted"
    assert folder.read(make(tmp_path / "f", "cancelled")).status == "cancelled"
    assert folder.read(make(tmp_path / "g", "running", owner=me)).status == "running"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        ("{", "is not a manifest"),
        ("[]", "has no schema_version"),
        ('{"schema_version": "1"}', "has no schema_version"),
        ('{"schema_version": 2}', "update Workbench"),
    ],
)
def test_a_bad_manifest_is_one_sentence(tmp_path, content, words):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=words):
        folder.read(tmp_path)


def test_listing_passes_over_strangers_and_shows_damage(tmp_path):
    make(tmp_path / "b", started="2026-01-02")
    make(tmp_path / "a", started="2026-01-03")
    make(tmp_path / "damaged")
    (tmp_path / "damaged" / "run.json").write_text("{")
    (tmp_path / "stranger").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    runs = folder.list_runs(tmp_path)
    assert [(run.name, run.status) for run in runs] == [
        ("damaged", "unknown"),
        ("b", "done"),
        ("a", "done"),
    ]
    assert folder.list_runs(tmp_path / "missing") == []
    with pytest.raises(InputError):
        folder.list_runs(tmp_path / "file")


def test_rename_stays_inside_and_never_overwrites(tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    make(runs / "a")
    make(runs / "b")
    make(runs / ".c.partial", "running")
    assert folder.rename(runs, "a", "better-name").name == "better-name"
    for new in ("../up", "x/y", "", ".hidden", "-flag", "a\nb", "b"):
        with pytest.raises(UsageError):
            folder.rename(runs, "better-name", new)
    with pytest.raises(UsageError, match="interrupted"):
        folder.rename(runs, "c", "whole")
    assert names(runs) == [".c.partial", "b", "better-name"]
    assert names(tmp_path) == ["runs"]


def test_delete_takes_only_runs_of_the_folder(tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    outside = make(tmp_path / "outside")
    make(runs / "a")
    make(runs / ".i.partial", "running")
    make(runs / ".r.partial", "running", owner=folder.owner())
    (runs / "link").symlink_to(outside)
    (runs / "stranger").mkdir()
    for name in ("../outside", str(outside), "link", "stranger", ".", "..", ""):
        with pytest.raises(UsageError):
            folder.delete(runs, name)
    with pytest.raises(UsageError, match="is running; cancel it first"):
        folder.delete(runs, "r")
    folder.delete(runs, "a")
    folder.delete(runs, "i")
    assert names(runs) == [".r.partial", "link", "stranger"]
    assert (outside / "run.json").is_file()
    with pytest.raises(UsageError, match="no runs in"):
        folder.delete(Path(tmp_path / "nothing"), "a")
