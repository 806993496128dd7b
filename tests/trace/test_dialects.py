"""Events of other vendors and of no category: what occupies a device, and what only tells of it."""

import gzip
import json

import polars as pl
import pytest
from tinytrace import kernel, op, write

import workbench as wb

HARDWARE, HCCL, CANN, PYTHON, OVERLAP = 10, 11, 12, 13, 14


def title(pid, name):
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}


def task(name, ts, dur, connection=None, *, kind=None, tid=2, pid=HARDWARE):
    args = {"Task Type": kind, "connection_id": connection}
    return {
        "ph": "X",
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": str(ts),
        "dur": dur,
        "args": args,
    }


ASCEND = [
    title(HARDWARE, "Ascend Hardware"),
    title(HCCL, "HCCL"),
    title(CANN, "CANN"),
    title(OVERLAP, "Overlap Analysis"),
    task("Node@launch", 0, 2, 1, tid=5, pid=CANN),
    task("MatMul", 10, 20, 1, kind="AI_CORE"),  # 10-30 on stream 2
    task("EVENT_WAIT", 30, 50, 2, kind="EVENT_WAIT_SQE"),  # occupies nothing
    task("MEMCPY_ASYNC", 90, 5, 3, kind="SDMA_SQE"),  # 90-95
    task("hcom_allReduce__1", 20, 60, 9, tid=0, pid=HCCL),  # 20-80
    task("SDMA", 25, 10, 9, kind="SDMA", tid=4),  # part of the collective
    task("Notify Wait", 35, 30, 9, kind="Notify Wait", tid=4),
    task("Memcpy", 25, 10, tid=1, pid=HCCL),  # a plane's detail
    task("Computing", 10, 20, tid=0, pid=OVERLAP),
]


def test_ascend_hardware_counts_once(tmp_path):
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps(ASCEND))
    trace = wb.open(path)
    row = wb.summary(trace, window="all").row(0, named=True)
    want = {"compute_ns": 20_000, "communication_ns": 60_000, "overlap_ns": 10_000,
            "copy_ns": 5_000, "busy_ns": 75_000, "window_ns": 85_000, "kernels": 2}  # fmt: skip
    assert {k: row[k] for k in want} == want
    assert trace.meta.device_kind == "npu"
    collective = trace.activities.filter(pl.col("kind") == "collective").row(0, named=True)
    assert collective["stream"] == 4  # where its tasks ran
    matmul = trace.activities.filter(pl.col("name").cast(pl.String) == "MatMul")
    assert matmul["launch"].to_list() == [0]
    assert trace.launches["kind"].to_list() == ["launch"]


def test_mtia_hardware_rows(tmp_path):
    def row(name, ts, dur, **args):
        return kernel(name, ts, dur, cat="mtia_ccp_events") | {"pid": 17, "args": args}

    events = [
        row("remote", 0, 10, stream=101, correlation=5),
        row("dma_request", 20, 4, stream=101, size=1024),
        row("event_wait", 30, 100, stream=101),
        op("runFunction - x", 0, 1, correlation=5) | {"cat": "mtia_runtime"},
    ]
    trace = wb.open(write(tmp_path, events))
    assert trace.meta.device_kind == "mtia"
    rows = trace.activities.select("kind", "device", "stream", "bytes", "launch").rows()
    assert rows == [("kernel", 17, 101, None, 0), ("copy", 17, 101, 1024, None)]
    assert trace.ranges["name"].to_list() == ["event_wait"]


def test_processes_named_after_gpus(tmp_path):
    def event(name, pid, ts, dur):
        return {"ph": "X", "name": name, "pid": pid, "tid": 1, "ts": ts, "dur": dur}

    events = [
        {},
        title("2", "GPU2"),
        event("Cijk_Ailk", "2", 10, 5),
        event("CopyHostToDevice", "2", 20, 5),
        event("hipLaunchKernel", "77", 1, 2),
        event("my phase", "77", 0, 50),
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(events))
    trace = wb.open(path)
    assert trace.activities.select("kind", "device").rows() == [("kernel", 2), ("copy", 2)]
    assert trace.launches["name"].to_list() == ["hipLaunchKernel"]
    assert trace.ranges["name"].to_list() == ["my phase"]
    assert trace.problems["code"].to_list() == ["launch_missing"]  # the rows name no call


def test_counters(tmp_path):
    events = [
        kernel("k", 10, 5),
        {"ph": "C", "name": "GPU 0 Utilization", "pid": 0, "ts": 10, "args": {"u": 0.5}},
        {"ph": "C", "name": "HBM 0/Read", "pid": 900, "ts": 11, "args": {"Read(MB/s)": 7}},
        {"ph": "C", "name": "ost", "pid": 900, "ts": 12, "args": {"read": 1, "write": "x"}},
    ]
    trace = wb.open(write(tmp_path, events))
    rows = trace.counters.rows()
    assert rows == [
        (0, 0, "GPU 0 Utilization", 0.5, None),
        (1000, None, "HBM 0/Read", 7.0, "MB/s"),
        (2000, None, "ost/read", 1.0, None),
    ]
    assert trace.problems.select("code", "count").rows() == [("bad_args", 1)]


@pytest.mark.corpus
@pytest.mark.parametrize("rank", [0, 1])
def test_ascend_agrees_with_its_own_summary(corpus, rank):
    path = corpus / "traces" / "ascend_npu" / f"pytorch_level1_rank{rank}_trace_view.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))
    pid = next(e["pid"] for e in events if e.get("args", {}).get("name") == "Overlap Analysis")
    said = {}
    for e in events:
        if e["ph"] == "X" and e["pid"] == pid:
            said[e["name"]] = said.get(e["name"], 0) + float(e["dur"]) * 1000
    row = wb.summary(wb.open(path), window="all").row(0, named=True)
    # its rows are rounded to the nanosecond one by one
    assert row["compute_ns"] == pytest.approx(said["Computing"], abs=100)
    assert row["communication_ns"] == pytest.approx(said["Communication"], abs=10)
    exposed = said["Communication(Not Overlapped)"]
    assert row["exposed_communication_ns"] == pytest.approx(exposed, abs=100)


@pytest.mark.corpus
def test_cupti_counters(corpus):
    trace = wb.open(corpus / "traces" / "hta" / "cupti_profiler_counters_a100.json.gz")
    ranges = trace.ranges.filter(pl.col("domain") == "cuda_profiler_range").sort("start_ns")
    assert ranges.height == 77
    fifth = ranges.row(5, named=True)
    assert fifth["name"].startswith("void fft2d_r2c_32x32")
    adds = trace.counters.filter(
        pl.col("name").cast(pl.String) == "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
        pl.col("t_ns") == fifth["start_ns"],
    )
    assert adds["value"].to_list() == [86114304]
