"""rocprofv3 JSON: a small program by hand, and what the corpus's collector counted.

Thread 7 calls hipLaunchKernel (10-14), hipMemcpyAsync (20-22) and runs inside the marker `step`
(5-40); on GPU 0 `gemm` runs 16-26 and the copy 30-33, on GPU 1 an RCCL kernel runs 12-20.
"""

import json

import polars as pl
import pytest
from mutations import assert_opens_or_is_refused

import workbench as wb
from workbench.errors import InputError

CPU, GPU0, GPU1 = 100, 101, 102


def agent(handle, kind, number, name):
    return {"id": {"handle": handle}, "type": kind, "logical_node_type_id": number,
            "product_name": name, "name": "gfx942", "node_id": handle}  # fmt: skip


def timed(start, end, correlation, kind, operation, **more):
    return {"size": 8, "kind": kind, "operation": operation, "thread_id": 7,
            "correlation_id": {"internal": correlation, "external": 0},
            "start_timestamp": start, "end_timestamp": end, **more}  # fmt: skip


def dispatch(start, end, correlation, kernel, gpu, *, queue=3, stream=0, grid=(1000, 2, 1)):
    info = {"agent_id": {"handle": gpu}, "queue_id": {"handle": queue}, "kernel_id": kernel,
            "group_segment_size": 512, "private_segment_size": 0,
            "workgroup_size": {"x": 256, "y": 1, "z": 1},
            "grid_size": dict(zip("xyz", grid, strict=True))}  # fmt: skip
    return timed(start, end, correlation, 2, 2, dispatch_info=info, stream_id={"handle": stream})


def symbol(number, name, vgpr=0):
    return {"kernel_id": number, "demangled_kernel_name": name, "kernel_name": "_Z",
            "arch_vgpr_count": vgpr, "accum_vgpr_count": 4}  # fmt: skip


def process(**more):
    copy = timed(30, 33, 2, 1, 2, src_agent_id={"handle": CPU}, dst_agent_id={"handle": GPU0},
                 bytes=4096, stream_id={"handle": 0})  # fmt: skip
    records = {
        "kernel_dispatch": [dispatch(16, 26, 1, 8, GPU0), dispatch(12, 20, 0, 9, GPU1, queue=4)],
        "hip_api": [timed(10, 14, 1, 0, 0), timed(20, 22, 2, 0, 1)],
        "hsa_api": [],
        "marker_api": [timed(5, 40, 50, 3, 0), timed(41, 41, 51, 3, 0)],
        "memory_copy": [copy],
    }
    return {
        "metadata": {"pid": 4, "init_time": 1, "fini_time": 99, "node": {}},
        "agents": [
            agent(CPU, 1, 0, "CPU"), agent(GPU0, 2, 0, "MI300X"), agent(GPU1, 2, 1, "MI300X"),
        ],
        "strings": {
            "buffer_records": [
                {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel", "hipMemcpyAsync"]},
                {"kind": "MEMORY_COPY",
                 "operations": ["NONE", "H2H", "MEMORY_COPY_HOST_TO_DEVICE"]},
                {"kind": "KERNEL_DISPATCH", "operations": []},
                {"kind": "MARKER_CORE_API", "operations": ["roctxRangePushA"]},
            ],
            "marker_api": [{"key": 50, "value": "step"}],
        },
        "kernel_symbols": [
            symbol(8, "gemm(float*) [clone .kd]", 28), symbol(9, "ncclDevKernel.kd"),
        ],
        "buffer_records": {**records, **more},
    }  # fmt: skip


def write(folder, *processes):
    path = folder / "results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(processes)}))
    return path


@pytest.fixture
def trace(tmp_path):
    return wb.open(write(tmp_path, process()))


def test_kernels_and_copies(trace):
    columns = ["kind", "name", "device", "stream", "start_ns", "dur_ns", "bytes"]
    rows = trace.activities.select(pl.col(columns)).rows()
    assert rows == [
        ("collective", "ncclDevKernel", 1, 4, 7, 8, None),
        ("kernel", "gemm(float*)", 0, 3, 11, 10, None),
        ("copy", "MEMORY_COPY_HOST_TO_DEVICE", 0, 0, 25, 3, 4096),
    ]
    assert trace.origin_ns == 5


def test_grid_is_in_blocks_and_registers_count_both_sorts(trace):
    gemm = trace.activities.row(1, named=True)
    # 1000 work-items in blocks of 256 are 4 blocks
    assert (gemm["grid"], gemm["block"]) == ([4, 2, 1], [256, 1, 1])
    assert (gemm["registers"], gemm["shared_bytes"]) == (32, 512)


def test_calls_are_tied_to_their_work_and_markers_are_ranges(trace):
    launch = dict(zip(trace.activities["name"], trace.activities["launch"], strict=True))
    calls = trace.launches["name"].to_list()
    assert calls[launch["gemm(float*)"]] == "hipLaunchKernel"
    assert calls[launch["MEMORY_COPY_HOST_TO_DEVICE"]] == "hipMemcpyAsync"
    assert launch["ncclDevKernel"] is None
    spans = trace.ranges.select("name", "domain", "start_ns", "dur_ns").rows()
    assert spans == [("step", "roctx", 0, 35)]  # the marker without a text steers the tool only


def test_devices(trace):
    assert [(d.index, d.name) for d in trace.meta.devices] == [(0, "MI300X"), (1, "MI300X")]
    assert trace.meta.device_kind == "rocm"
    assert trace.problems["code"].to_list() == ["launch_missing"]  # of the collective


def test_streams_are_used_when_any_is_named(tmp_path):
    both = [dispatch(1, 2, 1, 8, GPU0, stream=0), dispatch(3, 4, 2, 8, GPU0, stream=5)]
    trace = wb.open(write(tmp_path, process(kernel_dispatch=both, memory_copy=[])))
    assert trace.activities["stream"].to_list() == [0, 5]


def test_two_processes_with_equal_correlations_stay_apart(tmp_path):
    # both launch correlation 1; each kernel belongs to the call of its own process
    trace = wb.open(write(tmp_path, process(), process()))
    gemms = trace.activities.filter(pl.col("name") == "gemm(float*)")
    assert gemms["launch"].n_unique() == 2


def test_odd_records_are_named_and_left_out(tmp_path):
    odd = [dispatch(1, 2, 1, 8, GPU0), {"kind": 2}, dispatch(9, 4, 2, 8, GPU0),
           dispatch(3, 4, 2, 8, 77), dispatch(5, 6, 3, 12, GPU0)]  # fmt: skip
    source = write(tmp_path, process(kernel_dispatch=odd, scratch_memory=[timed(1, 2, 0, 0, 0)]))
    trace = wb.open(source)
    kernels = trace.activities.filter(pl.col("kind") == "kernel")
    assert kernels["name"].to_list() == ["gemm(float*)", "kernel 12"]
    found = dict(trace.problems.select("code", "count").rows())
    assert found == {"bad_record": 1, "unknown_agent": 1, "invalid_record": 1, "unread_records": 1,
                     "clock_inversion": 1, "launch_missing": 1}  # fmt: skip


def test_a_cut_file_is_refused(tmp_path):
    path = write(tmp_path, process())
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match="no whole rocprofv3 JSON file"):
        wb.open(path)


def test_any_damage_opens_or_is_refused(tmp_path):
    data = write(tmp_path, process()).read_bytes()
    assert assert_opens_or_is_refused(tmp_path / "results.json", data, is_json=True) > 10


@pytest.mark.corpus
def test_the_recorded_file_is_what_its_collector_counted(corpus):
    trace = wb.open(corpus / "traces/tracelens/rocprofv3_mi350x_results.json.gz")
    activities = trace.activities
    assert activities.height == 43_915
    assert activities["dur_ns"].sum() == 4_441_741_378
    end = activities.select((pl.col("start_ns") + pl.col("dur_ns")).max()).item()
    assert end - activities["start_ns"].min() == 15_122_023_494
    assert activities["device"].unique().to_list() == [0]
    assert [d.name for d in trace.meta.devices] == ["AMD Instinct MI350X"] * 8
    assert trace.problems["code"].to_list() == ["same_stream_overlap"]
    assert activities["grid"].null_count() == activities["registers"].null_count() == 0
