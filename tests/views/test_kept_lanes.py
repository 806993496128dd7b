"""Lanes in the cache: the same lanes, from the trace they claim to be of, or made anew."""

import multiprocessing
import os
import shutil
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tinytrace import kernel, op, write
from views import traces

from workbench.trace import cache, cached_arrays, cachefolder, container, mapped, store
from workbench.trace.core import Job
from workbench.trace.open import open_source
from workbench.views import kept_lanes
from workbench.views.kept_lanes import lanes_of
from workbench.views.lanes import Lanes
from workbench.views.timeline import Timeline
from workbench.views.trace_lanes import activity_lanes

LONG_AGO = time.time_ns() - 3600 * 10**9


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SMALLEST", 0)
    monkeypatch.setattr(cache, "_in_use", set())
    monkeypatch.setattr(kept_lanes, "SMALLEST", 1)
    return tmp_path / "cache" / "traces" / "entries"


@pytest.fixture
def made(monkeypatch):
    """The sources whose lanes were made of tables."""
    asked = []
    monkeypatch.setattr(
        kept_lanes, "activity_lanes", lambda s, t: asked.append(s) or activity_lanes(s, t)
    )
    return asked


def trace_file(folder, *durations, name="t.json"):
    folder.mkdir(exist_ok=True)
    events = [kernel("gemm", 10 * k, dur, corr=k) for k, dur in enumerate(durations, 1)]
    path = write(folder, [*events, op("aten::addmm", 1, 9), op("aten::mm", 2, 3)], name=name)
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return path


def files(place):
    return sorted(place.glob("*/*.arrays"))


def same(a: Lanes, b: Lanes):
    for field in fields(Lanes):
        if field.name != "summary":
            x, y = getattr(a, field.name), getattr(b, field.name)
            assert np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y, field.name
    for x, y in zip(a.engine.summary, b.engine.summary, strict=True):
        assert np.array_equal(x, y)
    return True


def test_kept_lanes_are_those_of_the_tables_mapped_and_without_reading_one(
    tmp_path, made, monkeypatch
):
    path = trace_file(tmp_path / "in", 5, 7)
    fresh = activity_lanes(open_source(path))
    lanes_of(open_source(path))
    read, real = [], store.read_table
    monkeypatch.setattr(store, "read_table", lambda f, n, m: read.append(n) or real(f, n, m))
    found = lanes_of(open_source(path))
    assert same(found, fresh)
    assert read == [store.HOST_STEPS_TABLE]
    assert len(made) == 1
    for array in (found.start, found.dur, found.name, found.id, found.step, *found.summary):
        assert not array.flags.writeable
    assert [e.name for e in map(found.event, range(4))] == [
        "gemm",
        "gemm",
        "aten::addmm",
        "aten::mm",
    ]


def test_a_timeline_from_the_cache_answers_as_one_from_tables(tmp_path):
    path = trace_file(tmp_path / "in", 5, 7)
    trace = open_source(path)
    plain, kept = Timeline(activity_lanes(trace)), Timeline(trace)
    assert kept.data.summary is not None
    for w in (plain, kept):
        w.filter = {"text": "gemm"}
        w.search = "gemm"
        w.next_match()
    assert plain.text() == kept.text()
    assert (plain.selected, plain.matches) == (kept.selected, kept.matches)
    assert plain.find("m").equals(kept.find("m"))


def test_long_durations_and_many_names_survive(place):
    n = 70_000
    rows = pl.DataFrame({"start_ns": np.arange(n) * 2**33, "dur_ns": np.full(n, 2**33 - 1)})
    rows = rows.with_columns(name=pl.format("kernel {}", pl.int_range(n)), kind=pl.lit("kernel"))
    rows = rows.with_columns(source=pl.lit("device"), device=0, stream=7).with_row_index("id")
    trace = traces.trace(activities=rows)
    entry = _as_cached(trace, place)
    first, found = lanes_of(entry), lanes_of(entry)
    assert found.summary is not None
    assert (found.dur.dtype, found.name.dtype) == (np.int64, np.uint32)
    assert same(found, activity_lanes(trace))
    event = first.event(69_999)
    assert (event.name, event.start_ns, event.dur_ns) == (
        "kernel 69999", 69_999 * 2**33, 2**33 - 1
    )  # fmt: skip


def _as_cached(trace, place):
    """Put a made-up trace into the cache, as `fetch` does with one that was read."""
    path = place.parents[2] / "stands-for-it"
    path.write_bytes(b"x")
    meta = replace(trace.meta, sha256=container.sha256(path))
    return cache.fetch(path, lambda _: replace(trace, meta=meta))


def test_what_does_not_stand_in_the_cache_is_never_kept(tmp_path, place):
    path = trace_file(tmp_path / "in", 5)
    from_cache = open_source(path)
    shorter = {**from_cache.tables, "activities": from_cache.activities.clear()}
    for trace in (
        open_source(path, cache=False),
        replace(from_cache, tables=shorter),  # the same hash, other tables
        traces.three_events(),
    ):
        assert lanes_of(trace).summary is None
    assert files(place) == []
    assert len(lanes_of(replace(from_cache, tables=shorter)).start) == 2


def test_an_exported_folder_is_never_kept(tmp_path, place):
    folder = store.save(open_source(trace_file(tmp_path / "in", 5)), tmp_path / "out")
    assert lanes_of(open_source(folder)).summary is None
    assert files(place) == []
    assert not list(folder.glob("*.arrays"))


def test_problems_noted_on_opening_do_not_hide_the_entry_but_other_events_do(tmp_path):
    trace_file(tmp_path / "in", 5, name="rank3.json")
    (trace,) = open_source(tmp_path / "in").ranks
    assert trace.problems["code"].to_list() == ["rank_from_name"]  # laid over the others
    assert cached_arrays.entries(trace, ["activities"])
    assert not cached_arrays.entries(trace, ["problems"])


def test_a_job_has_its_own(tmp_path, place, made):
    files_of = [trace_file(tmp_path / "in", 5 + k, name=f"rank{k}.json") for k in (0, 1)]
    job = open_source(tmp_path / "in")
    assert isinstance(job, Job)
    lanes_of(job)
    found = lanes_of(open_source(tmp_path / "in"))
    assert len(made) == 1
    assert same(found, activity_lanes(job))
    assert {lane.rank for lane in found.lanes} == {0, 1}
    alone = lanes_of(open_source(files_of[0]))
    assert len(made) == 2
    assert {lane.label for lane in alone.lanes}.isdisjoint({lane.label for lane in found.lanes})
    cachefolder.clear(files_of[1])  # what follows from it goes too, wherever it lies
    assert [mapped.entries_of(f) for f in files(place)] == [(files(place)[0].parent.name,)]


def test_the_tables_asked_for_tell_them_apart(tmp_path, place):
    trace = open_source(trace_file(tmp_path / "in", 5))
    for tables in (("activities",), ("ops",), ("activities", "ops")):
        lanes_of(trace, tables)
        assert same(lanes_of(trace, tables), activity_lanes(trace, tables))
    assert len(files(place)) == 3


def test_few_events_are_not_kept(tmp_path, place, monkeypatch):
    trace = open_source(trace_file(tmp_path / "in", 5, 7))
    monkeypatch.setattr(kept_lanes, "SMALLEST", 5)
    assert lanes_of(trace).summary is None
    assert files(place) == []


# ---- damage --------------------------------------------------------------------------------


def garble(path):
    data = bytearray(path.read_bytes())
    data[-100] ^= 0x55
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-64])


def empty(path):
    path.write_bytes(b"")


def folder_instead(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [garble, cut, empty, Path.unlink], ids=lambda f: f.__name__)
def test_a_damaged_file_is_made_again(tmp_path, place, made, damage):
    path = trace_file(tmp_path / "in", 5, 7)
    lanes_of(open_source(path))
    damage(*files(place))
    assert same(lanes_of(open_source(path)), activity_lanes(open_source(path)))
    assert len(made) == 2
    lanes_of(open_source(path))
    assert len(made) == 2  # whole once more


def test_what_can_not_be_replaced_costs_time_only(tmp_path, place):
    path = trace_file(tmp_path / "in", 5, 7)
    lanes_of(open_source(path))
    folder_instead(*files(place))
    assert lanes_of(open_source(path)).start.tolist() == [9000, 19000, 0, 1000]


def test_another_trace_s_file_under_this_name_is_not_taken(tmp_path, place):
    one, other = (trace_file(tmp_path / n, d) for n, d in (("a", 5), ("b", 7)))
    lanes_of(open_source(one))
    (first,) = files(place)
    lanes_of(open_source(other))
    (second,) = {*files(place)} - {first}
    shutil.copy(first, second)
    assert lanes_of(open_source(other)).dur.tolist()[0] == 7000


def forge(path, **changes):
    """Write a file with right checksums and other arrays under the same key."""
    header = path.read_bytes().split(b'"key":"', 1)[1]
    key = header[:64].decode()
    about, arrays = mapped.read(path, key)
    mapped.write(path, key, (), about, arrays | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"start": np.arange(3)},
        {"dur": np.zeros(4, np.uint16)},
        {"dur": np.zeros(4, np.uint64)},
        {"name": np.full(4, 9, np.uint16)},
        {"colours": np.zeros(1, np.uint8)},
        {"colours": np.full(3, 200, np.uint8)},
        {"offset": np.array([0, 3, 2, 4])},
        {"offset": np.array([0, 2, 3])},
        {"offset": np.array([0, 2, 3, 5])},
        {"offset": np.empty(0, np.int64)},
        {"row_lane": np.array([0, 1, 2])},
        {"row_lane": np.array([1, 0, 1])},
        {"row_lane": np.array([-1, 0, 1])},
        {"before": np.zeros(4, np.int64)},
        {"longest": np.zeros(2, np.uint64)},
        {"instants": np.array([4])},
        {"instants": np.array([-1])},
        {"sample": np.zeros(2, np.int64)},
        {"sampled": np.array([0, 1, 2, 4])},
        {"surplus": np.zeros(1, np.int64)},
    ],
    ids="-".join,
)
def test_arrays_that_do_not_fit_each_other_are_not_taken(tmp_path, place, made, changes):
    path = trace_file(tmp_path / "in", 5, 7)
    lanes_of(open_source(path))
    (file,) = files(place)
    forge(file)
    lanes_of(open_source(path))
    assert len(made) == 1  # the forgery itself passes
    forge(file, **changes)
    assert lanes_of(open_source(path)).start.tolist() == [9000, 19000, 0, 1000]
    assert len(made) == 2


def test_other_sources_of_lanes_find_nothing_and_sweep_up(tmp_path, place, made, monkeypatch):
    path = trace_file(tmp_path / "in", 5)
    lanes_of(open_source(path))
    before = files(place)
    (before[0].parent / ".x.arrays.1234.part").write_bytes(b"crashed")
    os.utime(before[0].parent / ".x.arrays.1234.part", (1, 1))
    monkeypatch.setattr(kept_lanes, "version", lambda: "other")
    lanes_of(open_source(path))
    assert len(made) == 2
    assert len(files(place)) == 1
    assert files(place) != before
    assert not list(place.glob("*/.*.part"))


def test_the_version_follows_the_sources(monkeypatch, tmp_path):
    for file in Path(kept_lanes.__file__).parent.glob("*.py"):
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(kept_lanes, "__file__", str(tmp_path / "kept_lanes.py"))
    version = kept_lanes.version.__wrapped__
    assert version() == kept_lanes.version()
    for name in ("packing", "theme", "lod_summary"):
        before = version()
        (tmp_path / f"{name}.py").write_text("another")
        assert version() != before


# ---- the cache as a whole ------------------------------------------------------------------


def test_the_cache_counts_and_clears_them(tmp_path, place):
    path = trace_file(tmp_path / "in", 5)
    trace = open_source(path)
    before = cachefolder.listing()["size_bytes"].item()
    lanes_of(trace)
    (file,) = files(place)
    assert cachefolder.listing()["size_bytes"].item() == before + file.stat().st_size
    assert file.stat().st_mode & 0o077 == 0 or file.parent.stat().st_mode & 0o077 == 0
    cachefolder.clear(path)
    assert files(place) == []


def test_lanes_larger_than_the_cache_may_be_are_not_kept(tmp_path, place, monkeypatch):
    trace = open_source(trace_file(tmp_path / "in", 5))
    monkeypatch.setenv("WORKBENCH_CACHE_MAX_GB", "1e-7")
    assert len(lanes_of(trace).start) == 3
    assert files(place) == []


def test_the_least_recently_used_makes_room_for_lanes(tmp_path, monkeypatch):
    old, new = (trace_file(tmp_path / n, d, name=f"{n}.json") for n, d in (("a", 5), ("b", 7)))
    open_source(old)
    entry = cachefolder.entry(cachefolder.folder(), cachefolder.listing()["sha256"].item())
    os.utime(entry / store.MANIFEST, (1, 1))
    monkeypatch.setattr(cache, "_in_use", set())
    trace = open_source(new)
    monkeypatch.setenv("WORKBENCH_CACHE_MAX_GB", str((cachefolder.total_bytes() + 1) / 1e9))
    lanes_of(trace)
    assert cachefolder.listing()["name"].to_list() == ["b.json"]


def test_a_full_disk_costs_time_only(tmp_path, monkeypatch, place):
    trace = open_source(trace_file(tmp_path / "in", 5))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mapped, "write", full)
    assert lanes_of(trace).start.tolist() == [9000, 0, 1000]
    assert files(place) == []


def test_mapped_lanes_outlive_their_entry(tmp_path, place):
    path = trace_file(tmp_path / "in", 5)
    lanes_of(open_source(path))
    found = lanes_of(open_source(path))
    cachefolder.clear()
    assert not place.exists()
    assert found.dur.tolist() == [5000, 9000, 3000]
    assert found.engine.totals(0, found.engine.span_ns)[1].tolist() == [5000, 9000, 3000]


def in_a_process(path, barrier, answers):
    cache.SMALLEST = 0
    kept_lanes.SMALLEST = 1
    barrier.wait()
    answers.put(lanes_of(open_source(path)).dur.tolist())


def test_processes_that_show_one_new_trace_at_once_all_get_it(tmp_path, place):
    path = trace_file(tmp_path / "in", *range(1, 200))
    many = multiprocessing.get_context("spawn")
    barrier, answers = many.Barrier(4), many.Queue()
    started = [many.Process(target=in_a_process, args=(path, barrier, answers)) for _ in range(4)]
    for process in started:
        process.start()
    got = [answers.get(timeout=90) for _ in started]
    for process in started:
        process.join(60)
    assert len({tuple(g) for g in got}) == 1
    assert len(files(place)) == 1
    assert not list(place.glob("*/.*.part"))
    trace = open_source(path)
    assert same(lanes_of(trace), activity_lanes(trace))
