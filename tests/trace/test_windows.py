"""Several files of one rank as one trace, worked out by hand."""

import polars as pl
import pytest
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.errors import UsageError
from workbench.trace import schema, windows

US = 1000
BASE = 1_700_000_000_000_000_000
GPU = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
RANK = {"distributedInfo": {"rank": 0, "world_size": 1}}


def window(folder, name, number, *, busy=10, tid=1, **header):
    """A step of 100 us: an operator 10-40 inside another, a call at 20, a kernel from 50."""
    events = [
        step(number, 0, 100) | {"tid": tid},
        op("outer", 5, 80, tid),
        op("inner", 10, 30, tid),
        call("cudaLaunchKernel", 20, 5, 1, tid),
        kernel("k", 50, busy, 1),
    ]
    return write(folder, events, name, **GPU, **header)


def names(frame, rows):
    return frame["name"].cast(pl.String).gather(rows).to_list()


def codes(source):
    return source.problems["code"].to_list()


def test_every_id_column_is_declared_to_point_somewhere():
    no_ids = {("ops", "depth")}
    for table, columns in schema.TABLES.items():
        for name, column in columns.items():
            is_id = column.dtype == schema.ID and (table, name) not in no_ids
            assert is_id == (name in schema.POINTS_TO), f"{table}.{name}"
            if is_id:
                assert "id" in schema.TABLES[schema.POINTS_TO[name] or table]


def test_every_moment_is_moved():
    for table, columns in schema.TABLES.items():
        times = {n for n in columns if n.endswith("start_ns") or n == "t_ns"}
        others = {n for n in columns if n.endswith("_ns")} - times
        assert times <= set(schema.TIME_COLUMNS), table
        assert all(n.endswith(("dur_ns", "self_ns")) for n in others), table


def test_files_with_a_clock_keep_their_times(tmp_path):
    # the second begins 1 ms later; its name sorts first
    window(tmp_path, "b.json", 3, busy=10, baseTimeNanoseconds=BASE, **RANK)
    window(tmp_path, "a.json", 9, busy=20, tid=2, baseTimeNanoseconds=BASE + 1000 * US, **RANK)
    (trace,) = wb.open(tmp_path).ranks
    assert trace.activities.select("start_ns", "dur_ns", "step").rows() == [
        (50 * US, 10 * US, 3),
        (1050 * US, 20 * US, 9),
    ]
    assert trace.steps["step"].to_list() == [3, 9]
    assert trace.host_steps["host_start_ns"].to_list() == [0, 1000 * US]
    assert [w.path.name for w in trace.meta.windows] == ["b.json", "a.json"]
    assert [(w.start_ns, w.end_ns) for w in trace.meta.windows] == [
        (0, 100 * US),
        (1000 * US, 1100 * US),
    ]
    assert trace.meta.events == 10
    assert codes(trace) == []
    row = wb.summary(trace, window="all").row(0, named=True)
    assert (row["window_ns"], row["busy_ns"], row["idle_ns"]) == (30 * US, 30 * US, 0)


def test_rows_point_at_each_other_in_the_whole(tmp_path):
    window(tmp_path, "a.json", 3, baseTimeNanoseconds=BASE, **RANK)
    window(tmp_path, "b.json", 9, tid=2, baseTimeNanoseconds=BASE + 1000 * US, **RANK)
    (trace,) = wb.open(tmp_path).ranks
    for name in ("activities", "launches", "ops", "ranges"):
        ids = trace.tables[name]["id"]
        assert ids.to_list() == list(range(len(ids)))
    assert trace.activities["launch"].to_list() == [0, 1]
    assert trace.ops["parent"].to_list() == [None, 0, None, 2]
    assert names(trace.ops, trace.activities["op"]) == ["inner", "inner"]
    assert trace.activities["op"].to_list() == [1, 3]
    assert trace.launches["op"].to_list() == [1, 3]
    threads = [trace.meta.threads[i].tid for i in trace.ops["thread"]]
    assert threads == [1, 1, 2, 2]
    assert wb.ops(trace).height == 2


def test_frames_of_all_files_are_built_when_asked_for(tmp_path):
    def python(name, parent, number, ts):
        args = {"Python id": number, "Python parent id": parent}
        return op(name, ts, 50 - number, **args) | {"cat": "python_function"}

    for name, number, base in (("a.json", 1, BASE), ("b.json", 2, BASE + 1000 * US)):
        frames = [python("a.py(1): f", None, 1, 1), python("a.py(2): g", 1, 2, 2)]
        write(tmp_path, [step(number, 0, 100), kernel("k", 0, 5), *frames], name,
              baseTimeNanoseconds=base, **RANK)  # fmt: skip
    (trace,) = wb.open(tmp_path).ranks
    assert trace.frames.select("id", "parent", "start_ns").rows() == [
        (0, None, 1 * US),
        (1, 0, 2 * US),
        (2, None, 1001 * US),
        (3, 2, 1002 * US),
    ]


def test_files_without_a_clock_follow_each_other_by_the_number_in_the_name(tmp_path):
    # 9 comes before 10; each takes 100 us
    window(tmp_path, "w.10.json", 30, busy=20, **RANK)
    window(tmp_path, "w.9.json", 20, busy=10, **RANK)
    (trace,) = wb.open(tmp_path).ranks
    assert trace.activities.select("start_ns", "step").rows() == [(50 * US, 20), (150 * US, 30)]
    (note,) = trace.problems.rows(named=True)
    assert (note["code"], note["count"]) == ("windows_without_clock", 1)
    assert note["first_example"] == "w.10.json"


def test_faults_add_up_by_kind(tmp_path):
    bad = {"ph": "X", "cat": "kernel", "name": "bad", "pid": 0, "tid": 7, "ts": 1, "dur": -5}
    for name, number, base, count in (("a.json", 1, BASE, 1), ("b.json", 2, BASE + 10**9, 2)):
        events = [step(number, 0, 100), kernel("k", 0, 5), *[bad] * count]
        write(tmp_path, events, name, baseTimeNanoseconds=base, **RANK)
    (trace,) = wb.open(tmp_path).ranks
    faults = dict(trace.problems.select("code", "count").rows())
    assert faults == {"invalid_record": 3, "steps_by_time": 2}


def refused(folder):
    with pytest.raises(UsageError, match="one trace of each rank"):
        wb.open(folder)


def test_the_same_steps_at_the_same_time_are_two_runs(tmp_path):
    for name in ("host_1.1.pt.trace.json", "host_1.2.pt.trace.json"):
        window(tmp_path, name, 3, baseTimeNanoseconds=BASE, **RANK)
    refused(tmp_path)


def test_the_same_steps_later_are_another_run_unless_one_process_wrote_them(tmp_path):
    for sub, first, second in (
        ("two", "before.json", "after.json"),
        ("one", "host_1.1.pt.trace.json", "host_1.2.pt.trace.json"),
    ):
        (tmp_path / sub).mkdir()
        window(tmp_path / sub, first, 3, baseTimeNanoseconds=BASE, **RANK)
        window(tmp_path / sub, second, 3, baseTimeNanoseconds=BASE + 1000 * US, **RANK)
    refused(tmp_path / "two")
    (trace,) = wb.open(tmp_path / "one").ranks
    assert trace.steps["step"].to_list() == [3, 3]
    assert codes(trace) == ["step_numbers_repeat"]


def test_files_of_unknown_rank_are_windows_only_by_their_names(tmp_path):
    for sub, first, second in (
        ("two", "a.json", "b.json"),
        ("other", "host_1.1.pt.trace.json", "host_2.2.pt.trace.json"),
        ("one", "host_1.1.pt.trace.json", "host_1.2.pt.trace.json"),
    ):
        (tmp_path / sub).mkdir()
        window(tmp_path / sub, first, 3, baseTimeNanoseconds=BASE)
        window(tmp_path / sub, second, 9, baseTimeNanoseconds=BASE + 1000 * US)
    refused(tmp_path / "two")
    refused(tmp_path / "other")
    assert wb.open(tmp_path / "one").steps["step"].to_list() == [3, 9]


def test_another_device_is_another_run(tmp_path):
    window(tmp_path, "a.json", 3, baseTimeNanoseconds=BASE, **RANK)
    events = [step(9, 0, 100), kernel("k", 0, 5)]
    other = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100"}]}
    write(tmp_path, events, "b.json", baseTimeNanoseconds=BASE + 10**9, **other, **RANK)
    refused(tmp_path)


def test_years_between_are_no_pause(tmp_path):
    window(tmp_path, "host_1.1.pt.trace.json", 3, **RANK)
    window(tmp_path, "host_1.2.pt.trace.json", 9, baseTimeNanoseconds=BASE, **RANK)
    refused(tmp_path)


def test_a_rank_with_fewer_files_is_named(tmp_path):
    for rank, number, base in ((0, 3, BASE), (0, 9, BASE + 1000 * US), (1, 3, BASE)):
        info = {"distributedInfo": {"rank": rank, "world_size": 2}}
        window(tmp_path, f"r{rank}.{number}.json", number, baseTimeNanoseconds=base, **info)
    job = wb.open(tmp_path)
    assert job.problems.select("rank", "code", "count", "first_example").rows() == [
        (1, "fewer_windows", 1, "rank 1 has 1 of 2 files")
    ]
    assert wb.steps(job).select("rank", "step").rows() == [(0, 3), (0, 9), (1, 3)]


def test_a_rank_that_the_recording_says_is_not_noted(tmp_path):
    window(tmp_path, "rank5.json", 3, **RANK)
    job = wb.open(tmp_path)
    assert [t.meta.rank for t in job.ranks] == [0]
    assert codes(job) == []


def test_merging_needs_no_threads(tmp_path):
    paths = [write(tmp_path, [kernel("k", at, 5)], f"{at}.json") for at in (0, 10)]
    whole = windows.merge([wb.open(p) for p in paths])
    assert whole.activities["start_ns"].to_list() == [0, 10 * US]
