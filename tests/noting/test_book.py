"""Notes of real files: where they lie, and that they find what they are about again.

The trace, in us from its first event:  gemm 0-10, relu 20-25, relu 40-45, all on stream 7.
"""

import json
import shutil

import polars as pl
import pytest
from tinytrace import kernel, op, write

import workbench as wb
from workbench.errors import InputError, UsageError
from workbench.noting import file, places
from workbench.noting.book import Book
from workbench.noting.note import LEAST, MOST, Event, Span
from workbench.noting.targets import target

US = 1_000
KERNELS = [kernel("gemm", 100, 10), kernel("relu", 120, 5), kernel("relu", 140, 5)]


@pytest.fixture(autouse=True)
def users_folder(tmp_path, monkeypatch):
    folder = tmp_path / "user"
    monkeypatch.setenv(places.FOLDER_SETTING, str(folder))
    monkeypatch.setenv("WORKBENCH_AUTHOR", "ann")
    return folder


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text('{"schema_version": 1, "status": "done"}')
    write(folder, KERNELS, "rank0.trace.json")
    return folder


def noted(source):
    """Return name, begin, length, row and reason of each note."""
    frame = wb.notes(source)
    length = (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns")
    return frame.select("name", "start_ns", length, "event", "reason").rows()


def add(source, name, **about):
    return Book(source).add(name, f"text of {name}", target(source, **about))


def test_notes_of_a_run_lie_in_its_folder(run, users_folder):
    source = wb.open(run)
    add(source, "slow", span=[20 * US, 45 * US])
    add(source, "here", at=5 * US, rank=0)
    add(source, "this relu", event={"table": "activities", "rank": 0, "id": 2})
    add(source, "gemms", kernel="gemm")
    add(source, "mm", operator="aten::mm")
    assert (run / "notes.json").exists()
    assert not users_folder.exists()
    assert noted(wb.open(run)) == [
        ("here", 5 * US, 0, None, None),
        ("slow", 20 * US, 25 * US, None, None),
        ("this relu", 40 * US, 5 * US, 2, None),
        ("gemms", None, None, None, None),
        ("mm", None, None, None, "not in this recording"),
    ]
    frame = wb.notes(source)
    assert frame["kind"].to_list() == ["point", "span", "event", "kernel", "operator"]
    assert frame["target"].to_list() == [
        "a moment, rank 0", "25 us, all ranks", "relu (rank 0, stream 7)",
        "every kernel gemm", "every operator aten::mm",
    ]  # fmt: skip
    assert frame["author"].unique().to_list() == ["ann"]
    assert wb.open(run).ranks[0].activities.height == 3  # no trace is taken from notes.json


def test_a_note_finds_its_event_however_the_file_is_sorted(run):
    add(wb.open(run), "second relu", event={"table": "activities", "rank": 0, "id": 2})
    more = [kernel("early", 50, 1), kernel("relu", 140, 6, stream=9), *reversed(KERNELS)]
    write(run, more, "rank0.trace.json")
    source = wb.open(run)
    names = source.activities.select("name", "dur_ns", "stream").rows()
    ((_, start, _, row, reason),) = noted(source)
    # 90 us after the event that now is the first; not the one of 6 us, nor that on stream 9
    assert (start, names[row], reason) == (90 * US, ("relu", 5 * US, 7), None)
    (said,) = Book(source).said
    assert "made on another recording of rank 0: the file has changed since" in said
    write(run, [*more[:2], kernel("relu", 140, 5, stream=8)], "rank0.trace.json")
    assert noted(wb.open(run))[0][3:] == (None, "not in this recording")


def test_of_events_that_are_alike_it_is_the_row_that_it_was(tmp_path):
    twins = [op("aten::empty", 10, 0), op("aten::empty", 10, 0), op("aten::empty", 10, 0)]
    source = wb.open(write(tmp_path, twins))
    add(source, "the second", event={"table": "ops", "id": 1})
    assert noted(source)[0][3] == 1


def test_threads_tell_operators_apart(tmp_path):
    pair = [op("aten::mm", 10, 5, tid=1), op("aten::mm", 10, 5, tid=2)]
    source = wb.open(write(tmp_path, pair))
    by_thread = {source.meta.threads[t].tid: k for k, t in enumerate(source.ops["thread"])}
    add(source, "of thread 2", event={"table": "ops", "id": by_thread[2]})
    write(tmp_path, [op("aten::relu", 0, 1, tid=3), *pair[::-1]])
    again = wb.open(tmp_path / "t.json")
    book = Book(again)
    book.take(next(places.users_folder().glob("*.json")))  # a new file has no notes yet
    row = noted(again)[0][3]
    assert again.meta.threads[again.ops["thread"][row]].tid == 2


def test_a_recording_from_elsewhere_is_known_by_its_content(tmp_path, users_folder):
    path = write(tmp_path, KERNELS)
    add(wb.open(path), "slow", span=[0, 10 * US])
    assert [f.name for f in tmp_path.iterdir() if f.is_file()] == ["t.json"]
    copy = tmp_path / "elsewhere" / "other.json"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    assert [name for name, *_ in noted(wb.open(copy))] == ["slow"]
    assert len(list(users_folder.iterdir())) == 1
    other = write(tmp_path / "elsewhere", KERNELS[:2], "less.json")
    assert noted(wb.open(other)) == []


def test_one_rank_and_all_of_them_share_their_notes(tmp_path):
    for rank, at in ((0, 100), (1, 150)):
        header = {"distributedInfo": {"rank": rank, "world_size": 2}}
        write(tmp_path, [kernel(f"k{rank}", at, 10)], f"rank{rank}.json", **header)
    job = wb.open(tmp_path)
    add(job, "both", span=[0, 60 * US])
    add(job, "rank 0's", span=[0, 10 * US], rank=0)
    add(job, "k1", event={"table": "activities", "rank": 1, "id": 0})
    one = wb.open(tmp_path / "rank1.json")
    # rank 1 begins 50 us after rank 0
    assert noted(one) == [
        ("both", -50 * US, 60 * US, None, None),
        ("rank 0's", -50 * US, 10 * US, None, "rank 0 is not open"),
        ("k1", 0, 10 * US, 0, None),
    ]
    add(one, "late", at=5 * US)
    assert {name for name, *_ in noted(wb.open(tmp_path))} == {"both", "rank 0's", "k1", "late"}
    assert noted(wb.Job((job.ranks[1],)))[2] == ("k1", 0, 10 * US, 0, None)


def test_a_span_outside_the_recording_is_kept_and_says_so(run):
    source = wb.open(run)
    add(source, "before", span=[-9 * US, -1])
    add(source, "across", span=[-9 * US, 1])
    assert [(n, reason) for n, *_, reason in noted(source)] == [
        ("before", "not in this recording"),
        ("across", None),
    ]


def test_two_notebooks_on_one_run_lose_nothing(run):
    source = wb.open(run)
    mine, other = Book(source), Book(source)
    made = mine.add("slow", "why?", target(source, at=0))
    other.add("also", "", target(source, at=1))
    mine.edit(made.id, text="the loader")
    assert {n.name for n in mine.notes} == {"slow", "also"}
    late = Book(source)
    mine.edit(made.id, text="the network")
    late.edit(made.id, text="the disk")  # without having seen the network
    texts = wb.notes(source).filter(pl.col("id") == made.id)
    assert set(texts["text"]) == {"the network", "the disk"}
    assert all(said.startswith("also changed by ann (") for said in texts["conflict"])
    book = Book(source)
    with pytest.raises(UsageError, match="changed on two sides; say which"):
        book.edit(made.id, text="x")
    loser = texts.filter(pl.col("text") == "the disk")["revision"][0]
    book.remove(made.id, loser)
    assert wb.notes(source)["conflict"].to_list() == [None, None]
    with pytest.raises(UsageError, match="'slow' has been changed meanwhile"):
        book.edit(made.id, loser, text="x")
    book.remove(made.id[:6])
    with pytest.raises(UsageError, match="There is no note"):
        book.remove(made.id)


def test_another_persons_file_is_taken_in(run, tmp_path):
    source = wb.open(run)
    made = add(source, "slow", at=0)
    shutil.copy(run / "notes.json", tmp_path / "bobs.json")
    file.add(tmp_path / "bobs.json", [made])
    book = Book(source)
    book.remove(made.id)
    assert book.take(tmp_path / "bobs.json") == 0  # what was removed does not come back
    assert noted(source) == []
    with pytest.raises(InputError, match="There is no file"):
        book.take(tmp_path / "none.json")


def test_a_run_that_cannot_be_written_keeps_notes_with_the_user(run, users_folder, monkeypatch):
    source = wb.open(run)
    made = add(source, "shared", at=0)
    real = file.atomic.replace_file

    def refuse(path, data):
        if path.parent == run:
            raise PermissionError(13, "Permission denied", str(path))
        real(path, data)

    monkeypatch.setattr(file.atomic, "replace_file", refuse)
    book = Book(source)
    book.add("mine", "", target(source, at=1))
    book.edit(made.id, text="better")
    (said,) = book.said
    assert "can't be written (Permission denied), so new notes are kept in" in said
    assert str(users_folder) in said
    assert dict(wb.notes(source).select("name", "text").rows()) == {"shared": "better", "mine": ""}
    monkeypatch.setattr(file.atomic, "replace_file", lambda *_: refuse(run / "x", b""))
    with pytest.raises(InputError, match="can't be written"):
        book.add("nowhere", "", target(source, at=2))


def test_a_damaged_file_is_named_and_never_written(run):
    source = wb.open(run)
    (run / "notes.json").write_text("{")
    with pytest.raises(InputError, match="left as it is: mend it, or move it away"):
        wb.notes(source)
    book = Book(source)
    assert "left as it is" in book.trouble
    with pytest.raises(InputError, match="left as it is"):
        book.add("x", "", target(source, at=0))
    assert (run / "notes.json").read_text() == "{"


def test_a_later_version_is_read_and_the_sentence_says_that_it_is_only_read(run):
    source = wb.open(run)
    add(source, "slow", at=0)
    told = json.loads((run / "notes.json").read_text())
    (run / "notes.json").write_text(json.dumps(told | {"schema_version": 2}))
    assert [name for name, *_ in noted(source)] == ["slow"]
    assert "is only read; update Workbench" in Book(source).said[0]


def test_samples_that_come_with_workbench_stay_as_they_are(users_folder):
    from workbench.resources import data

    source = wb.open(data() / "gpt_tiny_cpu")
    add(source, "sample", at=0)
    assert not (data() / "gpt_tiny_cpu" / "notes.json").exists()
    assert [name for name, *_ in noted(source)] == ["sample"]


def test_what_comes_from_no_file_is_noted_in_memory():
    from views.traces import three_events

    source = three_events()
    book = Book(source)
    book.add("x", "", target(source, at=0))
    assert (book.path, [n.name for n in book.notes]) == (None, ["x"])
    assert wb.notes(source).is_empty()


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        ({}, "only one of them .0 were given"),
        ({"at": 1, "kernel": "k"}, "2 were given"),
        ({"span": [2, 1]}, "in order, not"),
        ({"span": [1]}, "in order, not"),
        ({"event": {"table": "activities", "rank": 0, "id": 99}}, "no row 99"),
        ({"event": {"table": "kernels", "rank": 0, "id": 0}}, "no table of events"),
        ({"at": 1, "rank": 4}, "no rank 4; the recording's ranks: 0"),
    ],
)
def test_what_a_note_cannot_be_about(run, about, sentence):
    with pytest.raises(UsageError, match=sentence):
        target(wb.open(run), **about)


def test_times_that_no_recording_can_have_are_bounded(run):
    """A file of notes may say any int64; less the recording's begin that is beyond int64."""
    source = wb.open(run)
    origin = source.origin_ns
    assert origin > 0
    book = Book(source)
    book.add("all time", "", Span(LEAST, MOST))
    book.add("long ago", "", Event("activities", "gemm", LEAST, MOST, 0))
    frame = wb.notes(source).sort("name")
    assert frame["start_ns"].to_list() == [LEAST, LEAST]  # LEAST - origin, cut
    assert frame["end_ns"].to_list() == [MOST - origin, LEAST + MOST - origin]
    assert frame["reason"].to_list() == [None, "not in this recording"]
    drawn = wb.Timeline(source).annotations
    assert [(a["name"], a["start_ns"]) for a in drawn] == [("all time", str(LEAST))]
