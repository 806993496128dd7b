"""The cache: what it may never do is give another trace than the file's, or keep one from opening.

Files are small here, so the size below which nothing is cached is taken away.
"""

import multiprocessing
import os
import shutil
import time
from pathlib import Path

import pytest
from tinytrace import kernel, op, write

from workbench.errors import InputError, UsageError
from workbench.trace import cache, cachefolder, fingerprint, store
from workbench.trace.open import open_source

LONG_AGO = time.time_ns() - 3600 * 10**9
FRAME = {"ph": "X", "cat": "python_function", "name": "loop", "pid": 9, "tid": 1, "ts": 1,
         "dur": 5, "args": {"Python id": 1}}  # fmt: skip


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Where entries go in this test."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SMALLEST", 0)
    monkeypatch.setattr(cache, "_in_use", set())
    return tmp_path / "cache" / "traces" / "entries"


@pytest.fixture
def reads(monkeypatch):
    """The files that a reader was asked to read."""
    from workbench.trace import formats

    asked, read = [], formats.read

    def counted(path):
        asked.append(path.name)
        return read(path)

    monkeypatch.setattr(formats, "read", counted)
    return asked


def trace_file(folder, *durations, name="t.json", settled=True):
    folder.mkdir(exist_ok=True)
    events = [kernel("gemm", 10 * k, dur) for k, dur in enumerate(durations, 1)]
    path = write(folder, [*events, op("aten::mm", 1, 2), FRAME], name=name)
    if settled:
        os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return path


def durations(trace):
    return trace.activities["dur_ns"].to_list()


def test_the_second_open_reads_no_source_and_gives_the_same(tmp_path, reads):
    path = trace_file(tmp_path / "in", 5, 7)
    fresh, kept = open_source(path), open_source(path)
    assert reads == ["t.json"]
    assert durations(fresh) == durations(kept) == [5000, 7000]
    assert kept.meta == fresh.meta
    assert kept.host_steps.equals(fresh.host_steps)
    for name in fresh.tables:
        assert kept.tables[name].equals(fresh.tables[name]), name
        assert kept.tables[name].schema == fresh.tables[name].schema, name
    assert [f.name for f in path.parent.iterdir()] == ["t.json"]  # nothing beside the file


def test_a_copy_elsewhere_is_the_same_content_under_its_own_name(tmp_path, reads):
    path = trace_file(tmp_path / "in", 5)
    open_source(path)
    other = tmp_path / "other.json"
    shutil.copy(path, other)
    assert open_source(other).meta.path == other
    assert reads == ["t.json"]


def test_cache_false_and_off_leave_no_trace(tmp_path, reads, place, monkeypatch):
    path = trace_file(tmp_path / "in", 5)
    open_source(path, cache=False)
    assert not place.exists()
    monkeypatch.setenv("WORKBENCH_CACHE", "off")
    open_source(path)
    open_source(path)
    assert reads == ["t.json"] * 3
    assert not Path("off").exists()


def test_small_files_are_not_kept(tmp_path, reads, place, monkeypatch):
    path = trace_file(tmp_path / "in", 5)
    monkeypatch.setattr(cache, "SMALLEST", path.stat().st_size + 1)
    open_source(path)
    open_source(path)
    assert len(reads) == 2
    assert list(place.iterdir()) == []


def test_a_changed_file_is_read_anew_even_with_its_old_size_and_time(tmp_path, reads):
    path = trace_file(tmp_path / "in", 5)
    assert durations(open_source(path)) == [5000]
    trace_file(tmp_path / "in", 7)
    assert path.stat().st_mtime_ns == LONG_AGO
    assert durations(open_source(path)) == [7000]
    assert len(reads) == 2


def test_a_file_that_changes_while_it_is_read_is_not_kept(tmp_path, place, monkeypatch):
    from workbench.trace import formats

    path, read = trace_file(tmp_path / "in", 5), formats.read

    def slowly(path):
        trace_file(tmp_path / "in", 7)  # after the cache has hashed it
        return read(path)

    monkeypatch.setattr(formats, "read", slowly)
    assert durations(open_source(path)) == [7000]
    assert list(place.iterdir()) == []


def test_an_unchanged_file_is_hashed_once_but_never_while_it_is_fresh(tmp_path, monkeypatch):
    hashed, whole = [], fingerprint.container.sha256
    monkeypatch.setattr(
        fingerprint.container, "sha256", lambda p: hashed.append(p.name) or whole(p)
    )
    fresh = trace_file(tmp_path / "in", 5, name="fresh.json", settled=False)
    index = tmp_path / "index"
    index.mkdir()
    for _ in range(2):
        fingerprint.sha256(fresh, index)
    assert hashed == ["fresh.json"] * 2  # it may change again within a tick of the clock
    monkeypatch.setattr(fingerprint, "SETTLED_NS", -(10**15))
    for _ in range(2):
        fingerprint.sha256(fresh, index)
    assert hashed == ["fresh.json"] * 3
    other = shutil.copy2(fresh, tmp_path / "new")
    other.replace(fresh)  # the same size and mtime, another inode
    fingerprint.sha256(fresh, index)
    assert hashed == ["fresh.json"] * 4


@pytest.mark.parametrize("note", [b"", b"{", b'{"path": 3}', b"\xff"])
def test_a_broken_note_is_no_note(tmp_path, note, monkeypatch):
    path = trace_file(tmp_path / "in", 5)
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setattr(fingerprint, "SETTLED_NS", -(10**15))
    sha = fingerprint.sha256(path, index)
    (file,) = index.iterdir()
    file.write_bytes(note)
    assert fingerprint.sha256(path, index) == sha


def test_another_reader_finds_nothing(tmp_path, reads, monkeypatch):
    path = trace_file(tmp_path / "in", 5)
    open_source(path)
    monkeypatch.setattr(cachefolder, "reader_version", lambda: "0.1.0-other")
    monkeypatch.setattr(fingerprint, "reader_version", lambda: "0.1.0-other")
    open_source(path)
    assert len(reads) == 2
    assert cachefolder.listing()["current"].to_list() == [True, False]


def test_the_reader_s_name_follows_its_sources(tmp_path, monkeypatch):
    sources = tmp_path / "workbench" / "trace"
    (sources / "kineto").mkdir(parents=True)
    (sources / "synthetic").mkdir()
    (sources / "kineto" / "read.py").write_text("1")
    data = tmp_path / "data"
    data.mkdir()
    (data / "families.toml").write_text("1")
    monkeypatch.setattr(fingerprint, "_READERS", sources)
    monkeypatch.setattr(fingerprint.resources, "data", lambda: data)
    name = fingerprint.reader_version.__wrapped__
    first = name()
    (sources / "synthetic" / "spec.py").write_text("no reader")
    assert name() == first
    (sources / "kineto" / "read.py").write_text("2")
    assert name() != first
    second = name()
    (data / "families.toml").write_text("2")
    assert name() != second


# ---- damage --------------------------------------------------------------------------------


def entry_of(place):
    (entry,) = [p for p in place.iterdir() if p.suffix != ".frames"]
    return entry


def garble(path):
    path.write_bytes(bytes(b ^ 0x55 for b in path.read_bytes()))


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def swap(path):
    """Put a whole, well-formed table of something else there."""
    shutil.copy(path.with_name("steps.parquet"), path)


@pytest.mark.parametrize("damage", [garble, cut, swap, Path.unlink], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", ["activities.parquet", "host_steps.parquet", store.MANIFEST])
def test_a_damaged_entry_is_made_again_never_trusted(tmp_path, reads, place, damage, name):
    path = trace_file(tmp_path / "in", 5, 7)
    open_source(path)
    damage(entry_of(place) / name)
    again = open_source(path)
    assert durations(again) == [5000, 7000]
    assert len(reads) == 2
    assert durations(open_source(path)) == [5000, 7000]
    assert len(reads) == 2  # the entry is whole once more


def test_an_entry_under_another_s_name_is_not_taken(tmp_path, reads, place):
    one, other = (trace_file(tmp_path / n, d) for n, d in (("a", 5), ("b", 7)))
    open_source(one)
    first = entry_of(place)
    first.rename(tmp_path / "kept")
    open_source(other)
    (tmp_path / "kept").rename(first)
    second = next(p for p in place.iterdir() if p != first)
    shutil.rmtree(second)
    shutil.copytree(first, second)
    assert durations(open_source(other)) == [7000]


def test_an_open_trace_outlives_its_entry(tmp_path, reads, place):
    path = trace_file(tmp_path / "in", 5)
    open_source(path)
    lazy = open_source(path)
    shutil.rmtree(entry_of(place))
    assert durations(lazy) == [5000]
    assert lazy.ops.height == 1
    assert len(reads) == 2
    assert durations(open_source(path)) == [5000]
    assert len(reads) == 2


def test_an_open_trace_whose_entry_and_source_are_gone_says_so(tmp_path, place):
    path = trace_file(tmp_path / "in", 5)
    open_source(path)
    lazy, other = open_source(path), open_source(path)
    shutil.rmtree(entry_of(place))
    trace_file(tmp_path / "in", 7)
    with pytest.raises(InputError, match=r"has changed since it was opened.*open it again\.$"):
        _ = lazy.activities
    path.unlink()
    with pytest.raises(InputError, match=r"More of .* is needed than the cache holds. There is no"):
        _ = other.activities


# ---- frames --------------------------------------------------------------------------------


def test_frames_are_stored_when_they_are_first_built(tmp_path, reads, place):
    path = trace_file(tmp_path / "in", 5)
    assert open_source(path).frames.height == 1
    assert open_source(path).frames.height == 1
    assert len(reads) == 1
    garble(next(place.glob("*.frames")) / "frames.parquet")
    assert open_source(path).frames.height == 1
    assert len(reads) == 2
    assert open_source(path).frames.height == 1
    assert len(reads) == 2


def test_frames_that_were_not_stored_come_from_the_source(tmp_path, reads):
    path = trace_file(tmp_path / "in", 5)
    open_source(path)
    assert open_source(path).frames["name"].to_list() == ["loop"]
    assert len(reads) == 2
    assert open_source(path).frames["name"].to_list() == ["loop"]
    assert len(reads) == 2


def test_asking_for_frames_leaves_whole_tables_alone(tmp_path, place):
    path = trace_file(tmp_path / "in", 5)
    open_source(path)
    table = entry_of(place) / "ops.parquet"
    os.utime(table, ns=(LONG_AGO, LONG_AGO))
    assert open_source(path).frames.height == 1
    assert table.stat().st_mtime_ns == LONG_AGO


def test_frames_of_a_source_that_is_gone_or_changed_are_missed_in_a_sentence(tmp_path):
    path = trace_file(tmp_path / "in", 5)
    open_source(path)
    gone = open_source(path)
    path.unlink()
    with pytest.raises(InputError, match=r"More of \S*t.json is needed than the cache holds\."):
        _ = gone.frames


# ---- the folder ----------------------------------------------------------------------------


def test_the_folder_is_private(tmp_path, place):
    open_source(trace_file(tmp_path / "in", 5))
    for folder in (place.parent, place, entry_of(place)):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_can_not_be_made_keeps_nothing_from_opening(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "file"))
    assert durations(open_source(trace_file(tmp_path / "in", 5))) == [5000]
    assert "can't be written" in cachefolder.trouble()


def test_a_full_disk_keeps_nothing_from_opening(tmp_path, place, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    path = trace_file(tmp_path / "in", 5)
    monkeypatch.setattr(Path, "write_bytes", full)
    for _ in range(2):
        trace = open_source(path)
        assert durations(trace) == [5000]
        assert trace.frames.height == 1
    assert list(place.iterdir()) == []
    assert "No space left" in cachefolder.trouble()


def test_a_folder_that_may_not_be_written_is_still_read(tmp_path, reads, place):
    path = trace_file(tmp_path / "in", 5)
    open_source(path)
    other = trace_file(tmp_path / "other", 7)
    folders = [place, place.parent, place.parent / "index"]
    try:
        for folder in folders:
            folder.chmod(0o500)
        assert durations(open_source(path)) == [5000]
        assert len(reads) == 1
        assert durations(open_source(other)) == [7000]
        if os.geteuid():  # root may write anywhere
            assert "can't be written" in cachefolder.trouble()
    finally:
        for folder in folders:
            folder.chmod(0o700)


def test_another_user_s_folder_is_not_used(tmp_path, reads, place, monkeypatch):
    path = trace_file(tmp_path / "in", 5)
    open_source(path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    open_source(path)
    assert len(reads) == 2
    assert cachefolder.trouble().endswith("belongs to another user")


def test_a_setting_that_is_no_number_is_named(tmp_path, monkeypatch):
    path = trace_file(tmp_path / "in", 5)
    monkeypatch.setenv("WORKBENCH_CACHE_MAX_GB", "lots")
    with pytest.raises(UsageError, match="WORKBENCH_CACHE_MAX_GB is 'lots', which is no number"):
        open_source(path)


def test_the_least_recently_used_goes_first_and_never_what_is_in_use(tmp_path, place, monkeypatch):
    files = [trace_file(tmp_path / "in", k, name=f"{k}.json") for k in range(1, 5)]
    for file in files[:3]:
        open_source(file)
    one = cachefolder.total_bytes() // 3
    names = cachefolder.listing().select("name", "sha256")
    entries = {n: place / f"{s[:32]}-{fingerprint.reader_version()}" for n, s in names.rows()}
    for age, name in enumerate(["2.json", "1.json", "3.json"]):  # 3 was used longest ago
        then = time.time() - 100 * (age + 1)
        os.utime(entries[name] / store.MANIFEST, (then, then))
    monkeypatch.setattr(cache, "_in_use", set())  # as in another process
    monkeypatch.setenv("WORKBENCH_CACHE_MAX_GB", str(3.5 * one / 1e9))
    open_source(files[3])
    assert cachefolder.listing()["name"].to_list() == ["4.json", "2.json", "1.json"]
    open_source(files[0])  # in use now
    monkeypatch.setenv("WORKBENCH_CACHE_MAX_GB", str(1.5 * one / 1e9))
    open_source(files[2])
    assert {*cachefolder.listing()["name"]} == {"1.json", "3.json", "4.json"}  # opened here


def test_a_trace_larger_than_the_cache_may_be_is_not_kept(tmp_path, place, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE_MAX_GB", "1e-6")
    assert durations(open_source(trace_file(tmp_path / "in", 5))) == [5000]
    assert list(place.iterdir()) == []


def test_what_a_crashed_writer_left_is_swept_up_after_an_hour(tmp_path, place):
    open_source(trace_file(tmp_path / "a", 5))
    old, new = place / ".x.1234.part", place / ".y.1234.part"
    for part in (old, new):
        part.mkdir()
    os.utime(old, (1, 1))
    open_source(trace_file(tmp_path / "b", 7))
    assert [p.name for p in place.iterdir() if p.suffix == ".part"] == [new.name]
    assert cachefolder.listing().height == 2


def test_clear_takes_one_file_or_all(tmp_path, place):
    one, other = (trace_file(tmp_path / n, d) for n, d in (("a", 5), ("b", 7)))
    for path in (one, other):
        assert open_source(path).frames.height == 1
    with pytest.raises(UsageError, match=r"holds nothing of .*c\.json"):
        cachefolder.clear(tmp_path / "c.json")
    assert cachefolder.clear(one) == 1
    assert cachefolder.listing()["source"].to_list() == [str(other)]
    assert len(list(place.iterdir())) == 2  # tables and frames of the other
    (place.parent.parent / "mine.txt").write_text("not the cache's")
    assert cachefolder.clear() == 1
    assert cachefolder.listing().height == 0
    assert sorted(p.name for p in place.parents[1].iterdir()) == ["mine.txt", "traces"]
    assert list(place.parent.iterdir()) == []
    assert durations(open_source(one)) == [5000]


# ---- many at once --------------------------------------------------------------------------


def open_in_a_process(path, barrier, answers):
    cache.SMALLEST = 0
    barrier.wait()
    trace = open_source(path)
    answers.put((durations(trace), trace.frames.height))


def test_processes_that_open_one_new_file_at_once_all_get_it(tmp_path, place):
    path = trace_file(tmp_path / "in", *range(1, 200))
    many = multiprocessing.get_context("spawn")
    barrier, answers = many.Barrier(4), many.Queue()
    started = [
        many.Process(target=open_in_a_process, args=(path, barrier, answers)) for _ in range(4)
    ]
    for process in started:
        process.start()
    got = [answers.get(timeout=60) for _ in started]
    for process in started:
        process.join(60)
    assert got == [([1000 * k for k in range(1, 200)], 1)] * 4
    assert sorted(p.suffix for p in place.iterdir()) == sorted([entry_of(place).suffix, ".frames"])
    assert cache._whole(entry_of(place))
