"""Files of notes: kept whole, read with suspicion, never written over what could not be read."""

import json
import multiprocessing
import os

import pytest

from workbench.errors import InputError, UsageError
from workbench.noting import file, note
from workbench.noting.file import Recording
from workbench.noting.note import Event, Named, Span

ONE = Recording("a" * 64, 0)


def span_note(name="slow", **options):
    return note.new(name, "why?", Span(2**62, 2**62 + 1), author="ann", **options)


def test_what_is_written_is_read_again_to_the_ns(tmp_path):
    path = tmp_path / "notes.json"
    event = Event("activities", "gemm<1>", 2**61 + 1, 5, rank=1, stream=-(2**40), thread="1/2")
    kept = [
        span_note(colour="#ff8800", tag="todo"),
        note.new("é\n<b>", "", event, author=""),
        note.new("k", "x" * note.MAX_TEXT, Named("kernel", "gemm"), author="bob"),
    ]
    file.add(path, kept, [ONE])
    found = file.load(path)
    assert sorted(found.notes, key=lambda n: n.id) == sorted(kept, key=lambda n: n.id)
    assert found.traces == {ONE}
    assert json.loads(path.read_text())["schema_version"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["notes.json"]


def test_what_a_later_version_adds_is_carried_along(tmp_path):
    path = tmp_path / "notes.json"
    file.add(path, [span_note()])
    told = json.loads(path.read_text())
    told["mood"] = {"deep": [1]}
    told["notes"][0] |= {"pinned": True, "extra": 3}
    path.write_text(json.dumps(told))
    file.add(path, [span_note("other")])
    again = json.loads(path.read_text())
    assert again["mood"] == {"deep": [1]}
    (old,) = (n for n in again["notes"] if n["name"] == "slow")
    assert (old["pinned"], old["extra"]) == (True, 3)
    changed = note.change(note.read(old), text="because", author="bob")
    assert note.plain(changed)["pinned"] is True


def test_of_a_later_schema_the_known_is_read_and_nothing_written(tmp_path):
    path = tmp_path / "notes.json"
    file.add(path, [span_note()])
    told = json.loads(path.read_text()) | {"schema_version": 2}
    told["notes"].append(told["notes"][0] | {"id": "b" * 16, "target": {"kind": "region"}})
    path.write_text(json.dumps(told))
    before = path.read_bytes()
    found = file.load(path)
    assert ([n.name for n in found.notes], found.unread) == (["slow"], 1)
    with pytest.raises(InputError, match=r"schema version 2.*only read.*1 of its notes.*update"):
        file.add(path, [span_note()])
    assert path.read_bytes() == before


WHOLE = {"schema_version": 1, "notes": []}
ROW = note.plain(span_note())
HOSTILE = {
    "no JSON": b"{",
    "no object": b"[]",
    "no version": b"{}",
    "version 0": json.dumps(WHOLE | {"schema_version": 0}).encode(),
    "notes of another form": json.dumps(WHOLE | {"notes": {}}).encode(),
    "a number as text": json.dumps(WHOLE | {"notes": [ROW | {"text": 5}]}, default=str).encode(),
    "an endless text": json.dumps(
        WHOLE | {"notes": [ROW | {"text": "x" * (note.MAX_TEXT + 1)}]}, default=str
    ).encode(),
    "a colour that is none": json.dumps(
        WHOLE | {"notes": [ROW | {"colour": "red;background:url(x)"}]}, default=str
    ).encode(),
    "a time beyond int64": json.dumps(
        WHOLE | {"notes": [ROW | {"target": {"kind": "span", "start_ns": 0, "end_ns": 2**63}}]},
        default=str,
    ).encode(),
    "a span backwards": json.dumps(
        WHOLE | {"notes": [ROW | {"target": {"kind": "span", "start_ns": 2, "end_ns": 1}}]},
        default=str,
    ).encode(),
    "about nothing": json.dumps(WHOLE | {"notes": [ROW | {"target": None}]}, default=str).encode(),
    "bottomless": b'{"schema_version": 1, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "half a character": b'{"schema_version": 1, "notes": [{"name": "\xff"}]}',
    "a pickle": b"\x80\x04\x95",
    "an odd trace": json.dumps(WHOLE | {"traces": [{"sha256": "../x"}]}).encode(),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_file_of_notes_is_left_as_it_is(tmp_path, what):
    path = tmp_path / "notes.json"
    path.write_bytes(HOSTILE[what])
    with pytest.raises(InputError, match="left as it is: mend it, or move it away"):
        file.load(path)
    with pytest.raises(InputError):
        file.add(path, [span_note()])
    assert path.read_bytes() == HOSTILE[what]
    assert file.traces(path) == [] or what != "an odd trace"


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "notes.json"
    file.add(path, [span_note()])
    monkeypatch.setattr(file, "MAX_BYTES", 100)
    with pytest.raises(InputError, match="it has more than"):
        file.load(path)
    path.unlink()
    with pytest.raises(InputError, match="shorten or remove"):
        file.add(path, [span_note()])
    assert not path.exists()


def _write_ten(path, name):
    for k in range(10):
        file.add(path, [span_note(f"{name} {k}")])


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "notes.json"
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_write_ten, args=(path, who)) for who in ("ann", "bob")]
    for process in both:
        process.start()
    for process in both:
        process.join()
    wanted = {f"{who} {k}" for who in ("ann", "bob") for k in range(10)}
    assert {n.name for n in file.load(path).notes} == wanted


def test_a_value_out_of_bounds_never_becomes_a_note():
    from workbench.noting.book import Book

    book = Book()
    with pytest.raises(UsageError, match="The note can't be kept"):
        book.add("n" * 201, "", Span(0, 1))
    with pytest.raises(UsageError, match="The note can't be kept"):
        book.add("n", "", Span(0, 1), colour="red")
    assert book.notes == ()


def test_what_is_no_plain_file_is_not_read(tmp_path):
    """A device has no size and no end, a pipe waits for a writer: both would hang the reader."""
    path = tmp_path / "notes.json"
    for make in (lambda: path.symlink_to("/dev/zero"), lambda: os.mkfifo(path), path.mkdir):
        make()
        with pytest.raises(InputError, match=r"notes.json can't be read \(.+\); make it a"):
            file.load(path)
        assert file.traces(path) == []
        path.rmdir() if path.is_dir() else path.unlink()
