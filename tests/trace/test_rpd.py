"""rocm RPD files: a hand-drawn one, and a recorded one beside its own conversion."""

import gzip
import json
import sqlite3
from contextlib import closing

import polars as pl
import pytest

import workbench as wb

SCHEMA = """
CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);
CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid, tid, start, end, apiName_id, args_id);
CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId, queueId, sequenceId, start, end,
                       description_id, opType_id);
CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id, op_id);
CREATE TABLE rocpd_kernelapi (api_ptr_id INTEGER PRIMARY KEY, gridX, gridY, gridZ,
                              workgroupX, workgroupY, workgroupZ, groupSegmentSize);
CREATE TABLE rocpd_copyapi (api_ptr_id INTEGER PRIMARY KEY, size);
CREATE TABLE rocpd_monitor (id INTEGER PRIMARY KEY, deviceType, deviceId, monitorType, start, end,
                            value);
"""
TEXTS = ("", "UserMarker", "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemcpyAsync",
         "KernelExecution", "CopyHostToDevice", "gemm", "ncclDevKernel_AllReduce", "Barrier",
         "aten::mm, seq = 4, op_id = 2", "train", "here", "ProfilerStep#3")  # fmt: skip


@pytest.fixture
def recorded(tmp_path):
    """Three launches in one operator (100-400), a copy, a mark, a step (0-1000); times + 10^6."""
    path = tmp_path / "t.rpd"
    of = {t: i + 1 for i, t in enumerate(TEXTS)}
    calls = [
        (1, 9, 5, 0, 1000, "UserMarker", "ProfilerStep#3"),
        (2, 9, 5, 100, 400, "UserMarker", "aten::mm, seq = 4, op_id = 2"),
        (3, 9, 5, 150, 170, "hipLaunchKernel", ""),
        (4, 9, 5, 200, 220, "hipExtModuleLaunchKernel", ""),
        (5, 9, 5, 250, 270, "hipLaunchKernel", ""),
        (6, 9, 6, 500, 560, "hipMemcpyAsync", ""),
        (7, 9, 6, 700, 700, "UserMarker", "here"),
    ]
    ops = [
        (1, 2, 0, 0, 2000, 2100, "gemm", "KernelExecution"),
        (2, 2, 0, 0, 2200, 2500, "gemm", "KernelExecution"),
        (3, 2, 1, 0, 2300, 2700, "ncclDevKernel_AllReduce", "KernelExecution"),
        (4, 2, 0, 0, 3000, 3040, "", "CopyHostToDevice"),
        (5, 2, 0, 0, 3050, 3060, "", "Barrier"),
    ]
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(SCHEMA)
        db.executemany("INSERT INTO rocpd_string VALUES (?, ?)", ((i, t) for t, i in of.items()))
        for i, pid, tid, start, end, name, args in calls:
            at = (start + 10**6, end + 10**6)
            db.execute("INSERT INTO rocpd_api VALUES (?, ?, ?, ?, ?, ?, ?)",
                       (i, pid, tid, *at, of[name], of[args]))  # fmt: skip
        for i, gpu, queue, seq, start, end, name, sort in ops:
            at = (start + 10**6, end + 10**6)
            db.execute("INSERT INTO rocpd_op VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                       (i, gpu, queue, seq, *at, of[name], of[sort]))  # fmt: skip
        pairs = ((1, 3, 1), (2, 4, 2), (3, 5, 3), (4, 6, 4))
        db.executemany("INSERT INTO rocpd_api_ops VALUES (?, ?, ?)", pairs)
        for call, grid in ((3, 10), (4, 1000), (5, 24)):
            db.execute(
                "INSERT INTO rocpd_kernelapi VALUES (?, ?, 2, 1, 256, 1, 1, 64)", (call, grid)
            )
        db.execute("INSERT INTO rocpd_copyapi VALUES (6, 4096)")
        monitored = ("gpu", 2, "sclk", 10**6 + 50, 10**6 + 90, "1700")
        db.execute("INSERT INTO rocpd_monitor VALUES (1, ?, ?, ?, ?, ?, ?)", monitored)
    return wb.open(path)


def test_operations_become_activities_of_their_calls(recorded):
    found = recorded.activities
    columns = ("name", "kind", "device", "stream", "start_ns", "dur_ns", "bytes", "grid")
    assert found.select(columns).rows() == [
        ("gemm", "kernel", 2, 0, 2000, 100, None, [10, 2, 1]),
        ("gemm", "kernel", 2, 0, 2200, 300, None, [4, 2, 1]),  # 1000 threads in blocks of 256
        ("ncclDevKernel_AllReduce", "collective", 2, 1, 2300, 400, None, [24, 2, 1]),
        ("CopyHostToDevice", "copy", 2, 0, 3000, 40, 4096, None),
    ]
    assert found["shared_bytes"].to_list() == [64, 64, 64, None]
    calls = recorded.launches
    names = dict(zip(calls["id"], calls["name"].cast(pl.String), strict=True))
    assert [names[i] for i in found["launch"]] == [
        "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipLaunchKernel", "hipMemcpyAsync",
    ]  # fmt: skip
    assert [recorded.ops["name"][i] for i in found["op"].drop_nulls()] == ["aten::mm"] * 3
    assert recorded.problems["code"].to_list() == ["unread_operation"]


def test_figures_by_hand(recorded):
    """Busy 100 + 500 (2200-2700) + 40; compute 400; communication 400, 200 of it under compute."""
    (row,) = wb.summary(recorded, window="all").rows(named=True)
    assert row["device_kind"] == "rocm"
    assert (row["busy_ns"], row["compute_ns"], row["copy_ns"]) == (640, 400, 40)
    assert (row["communication_ns"], row["overlap_ns"]) == (400, 200)


def test_markers_are_operators_steps_and_annotations(recorded):
    columns = ("name", "domain", "form", "start_ns", "dur_ns")
    assert recorded.ranges.select(columns).rows() == [
        ("ProfilerStep#3", "step", "nested", 0, 1000),
        ("here", "user", "mark", 700, 0),
    ]
    assert recorded.ops.select("name", "sequence", "external_id", "step").rows() == [
        ("aten::mm", 4, 2, 3)
    ]
    assert recorded.steps["step"].to_list() == [3]
    assert "UserMarker" not in recorded.launches["name"].cast(pl.String).to_list()


def test_what_was_monitored(recorded):
    assert recorded.counters.rows() == [(50, 2, "sclk", 1700.0, None)]
    assert recorded.meta.origin_ns == 10**6


@pytest.mark.corpus
def test_a_recorded_file_is_what_its_own_conversion_says(corpus):
    """The conversion holds whole microseconds, cut; every operation is there with its kind."""
    folder = corpus / "traces" / "rocm"
    trace = wb.open(folder / "rpd_matmul_result.rpd")
    with gzip.open(folder / "rpd_matmul_result_chrome.json.gz", "rt") as f:
        events = json.load(f)
    on_gpu = [e for e in events if e.get("ph") == "X" and e["pid"] == "2"]
    converted = sorted((e["name"], int(e["ts"]), int(e["dur"])) for e in on_gpu)
    found = trace.activities
    ours = sorted(
        (name, (start + trace.origin_ns) // 1000, (start + trace.origin_ns + dur) // 1000
         - (start + trace.origin_ns) // 1000)
        for name, start, dur in found.select("name", "start_ns", "dur_ns").rows()
    )  # fmt: skip
    assert [(n, t) for n, t, _ in ours] == [(n, t) for n, t, _ in converted]
    assert all(abs(a[2] - b[2]) <= 1 for a, b in zip(ours, converted, strict=True))
    counts = found.group_by(pl.col("kind").cast(pl.String)).len().sort("kind").rows()
    assert counts == [("copy", 55), ("kernel", 29), ("set", 1)]
    assert found["launch"].null_count() == 0
    (row,) = wb.summary(trace, window="all").rows(named=True)
    assert row["busy_ns"] == 183_918_056  # no two operations overlap: the file's own view `busy`
