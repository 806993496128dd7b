"""`workbench notes` as a user types it. The trace: gemm 0-10 us, relu 20-25 us."""

import json
import shutil

import pytest
from tinytrace import kernel, write
from typer.testing import CliRunner

from workbench import cli
from workbench.errors import UsageError
from workbench.noting import places


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.setenv(places.FOLDER_SETTING, str(tmp_path / "notes"))
    return write(tmp_path, [kernel("gemm", 100, 10), kernel("relu", 120, 5)])


def run(*args):
    result = CliRunner().invoke(cli.app, ["notes", *map(str, args)], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result


def rows(trace, *args):
    return json.loads(run(trace, *args, "--json").stdout)["rows"]


def test_notes_are_added_listed_changed_and_removed(trace):
    assert rows(trace) == []
    run(trace, "--add", "slow", "--text", "why?", "--span", "0.001:0.0125", "--tag", "todo")
    run(trace, "--add", "here", "--at", "0.02")
    run(trace, "--add", "this one", "--event", "activities:1")
    run(trace, "--add", "all gemms", "--kernel", "gemm")
    keys = ("name", "text", "kind", "start_ns", "end_ns", "event", "tag", "found")
    assert [tuple(r[k] for k in keys) for r in rows(trace)] == [
        ("slow", "why?", "span", 1_000, 12_500, None, "todo", True),
        ("here", "", "point", 20_000, 20_000, None, None, True),
        ("this one", "", "event", 20_000, 25_000, 1, None, True),
        ("all gemms", "", "kernel", None, None, None, None, True),
    ]
    slow = rows(trace)[0]["id"]
    run(trace, "--edit", slow[:8], "--text", "the loader", "--span", "-0.5:0.01")
    changed = rows(trace)[0]
    assert (changed["text"], changed["start_ns"], changed["tag"]) == (
        "the loader", -500_000, "todo",
    )  # fmt: skip
    printed = run(trace)
    assert "the loader" in printed.stdout
    assert "kept_in: " in printed.stderr
    assert "revision" not in printed.stdout
    assert len(rows(trace, "--remove", slow)) == 3


def test_another_persons_notes_are_taken_in(trace, tmp_path):
    run(trace, "--add", "mine", "--at", "0")
    (kept,) = (tmp_path / "notes").glob("*.json")
    shutil.copy(kept, tmp_path / "bobs.notes")
    run(trace, "--add", "later", "--at", "0.001")
    (mine, _) = rows(trace)
    run(trace, "--edit", mine["id"], "--text", "changed here")
    kept.unlink()
    merged = run(trace, "--merge", tmp_path / "bobs.notes")
    assert "1 note added or changed" in merged.stderr
    assert [r["name"] for r in rows(trace)] == ["mine"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--add", "x"], "A note is about one thing"),
        (["--add", "x", "--remove", "y"], "exclude each other"),
        (["--text", "x"], "Say what to do with it: --add NAME"),
        (["--add", "x", "--span", "3"], "not A:B in ms"),
        (["--add", "x", "--at", "soon"], "takes ms after the start"),
        (["--add", "x", "--event", "ops"], "not TABLE:ID, as in"),
        (["--add", "x", "--event", "activities:9"], "no row 9"),
        (["--remove", "abcd1234"], "There is no note 'abcd1234'"),
        (["--edit", "abcd1234"], "Say what to change"),
    ],
)
def test_wrong_wishes_get_one_sentence(trace, args, sentence):
    with pytest.raises(UsageError, match=sentence):
        run(trace, *args)
