"""Nsight Systems exports, drawn by hand; each answer can be worked out on paper."""

import stat
import sys

import polars as pl
import pytest
from nsysfile import GRAPH, KERNEL, MEMSET, NVTX, PID, Export, global_id

import workbench as wb
from workbench.errors import InputError
from workbench.trace.nsys import report


def opened(export, folder):
    return wb.open(export.write(folder))


def texts(frame, column="name"):
    return frame[column].cast(pl.String).to_list()


def problem(trace, code):
    found = trace.problems.filter(pl.col("code") == code)
    return found.row(0, named=True) if found.height else None


def test_a_kernel_with_all_that_is_recorded_of_it(tmp_path):
    export = Export().call("cudaLaunchKernel_v7000", 100, 150, 3)
    export.kernel("gemm<4>(int)", 300, 700, 3, device=1, stream=9, registersPerThread=40,
                  gridX=10, gridY=2, gridZ=1, blockX=256, blockY=1, blockZ=1,
                  staticSharedMemory=100, dynamicSharedMemory=924, graphNodeId=6)  # fmt: skip
    trace = opened(export, tmp_path)
    (row,) = trace.activities.rows(named=True)
    assert (row["start_ns"], row["dur_ns"]) == (200, 400)  # the call at 100 is the origin
    assert (row["name"], row["kind"], row["device"], row["stream"]) == (
        "gemm<4>(int)", "kernel", 1, 9,
    )  # fmt: skip
    assert (row["grid"], row["block"]) == ([10, 2, 1], [256, 1, 1])
    assert (row["registers"], row["shared_bytes"], row["graph_node"]) == (40, 1024, 6)
    assert (row["occupancy"], row["bytes"]) == (None, None)
    (call,) = trace.launches.rows(named=True)
    assert (call["name"], call["kind"], call["dur_ns"]) == ("cudaLaunchKernel", "launch", 50)
    assert row["launch"] == call["id"]
    assert trace.meta.format == "nsight-systems"
    assert trace.meta.events == 2


def test_the_best_name_that_is_recorded(tmp_path):
    export = Export()
    for start, names in enumerate(([1, 2, 3], [None, 2, 3], [99, None, 3], [None, 98, 97])):
        columns = dict(zip(("demangledName", "shortName", "mangledName"), names, strict=True))
        export.add(KERNEL, start=start * 10, end=start * 10 + 5, deviceId=0, streamId=7, **columns)
    for name in ("f<int>(int)", "f", "_Z1fi"):
        export.text(name)
    assert texts(opened(export, tmp_path).activities) == ["f<int>(int)", "f", "_Z1fi", "(unnamed)"]


def test_copies_and_sets_are_named_by_what_they_join(tmp_path):
    export = Export()
    export.copy(1, 0, 5, bytes=4096, srcKind=0, dstKind=2)
    export.copy(2, 10, 15, bytes=0, srcKind=2, dstKind=1)
    export.copy(12, 20, 25, bytes=7, srcKind=4, dstKind=None)
    export.copy(99, 30, 35, bytes=-1, srcKind=88, dstKind=2)
    export.add(MEMSET, start=40, end=45, deviceId=0, streamId=7, bytes=64, memKind=2)
    export.add(MEMSET, start=50, end=55, deviceId=0, streamId=7, bytes=64, memKind=None)
    found = opened(export, tmp_path).activities
    assert texts(found) == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
        "Memcpy Unified DtoH",
        "Memcpy (Unknown -> Device)",
        "Memset (Device)",
        "Memset",
    ]
    assert texts(found, "kind") == ["copy"] * 4 + ["set"] * 2
    assert found["bytes"].to_list() == [4096, 0, 7, None, 64, 64]


@pytest.mark.parametrize(
    ("recorded", "name", "kind"),
    [
        ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC", "launch"),
        ("cuLaunchKernelEx", "cuLaunchKernelEx", "launch"),
        ("cudaGraphLaunch_v10000", "cudaGraphLaunch", "graph_launch"),
        ("cudaMemcpyAsync_ptsz_v7000", "cudaMemcpyAsync_ptsz", "copy"),
        ("cuMemsetD8Async", "cuMemsetD8Async", "set"),
        ("cudaStreamSynchronize_v3020", "cudaStreamSynchronize", "sync"),
        ("cudaGetDeviceProperties_v2_v12000", "cudaGetDeviceProperties_v2", "other"),
        ("cuGetProcAddress_v2", "cuGetProcAddress_v2", "other"),
    ],
)
def test_calls_lose_the_version_they_date_from_and_no_more(tmp_path, recorded, name, kind):
    (call,) = opened(Export().call(recorded, 0, 5), tmp_path).launches.rows(named=True)
    assert (call["name"], call["kind"]) == (name, kind)


def test_correlations_are_of_a_process(tmp_path):
    """Both processes count from 5: k1 is launched at 100 by process 1, k2 at 300 by process 2."""
    export = Export()
    export.call("cudaLaunchKernel", 100, 120, 5, pid=1).call("cudaLaunchKernel", 300, 320, 5, pid=2)
    export.kernel("k1", 500, 600, 5, pid=1).kernel("k2", 700, 800, 5, pid=2, device=1)
    export.kernel("k3", 900, 950, 5, pid=3)  # its process made no call that was recorded
    trace = opened(export, tmp_path)
    starts = dict(zip(trace.launches["id"], trace.launches["start_ns"], strict=True))
    launched = {r["name"]: starts.get(r["launch"]) for r in trace.activities.iter_rows(named=True)}
    assert launched == {"k1": 0, "k2": 200, "k3": None}
    assert [t.pid for t in trace.meta.threads] == [1, 2]


def test_a_kernel_without_a_process_belongs_to_the_only_one(tmp_path):
    export = Export().call("cudaLaunchKernel", 0, 10, 5)
    export.add(KERNEL, start=20, end=30, deviceId=0, streamId=7, correlationId=5, globalPid=None)
    assert opened(export, tmp_path).activities["launch"].to_list() == [0]


def test_device_numbers_of_processes_that_contradict_each_other(tmp_path):
    """Process 1 sees GPU 3 as its device 0, process 2 sees GPU 5 as its device 0."""
    export = Export().kernel("k1", 0, 10, pid=1).kernel("k2", 5, 25, pid=2)
    for gpu, pid in ((3, 1), (5, 2)):
        export.add("TARGET_INFO_GPU", id=gpu, name=f"GPU {gpu}", smCount=132)
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=pid)
    trace = opened(export, tmp_path)
    assert wb.summary(trace)["device"].to_list() == [3, 5]
    assert wb.summary(trace)["busy_ns"].to_list() == [10, 20]
    assert [(d.index, d.name) for d in trace.meta.devices] == [(3, "GPU 3"), (5, "GPU 5")]


def test_devices_are_listed_by_the_number_that_cuda_gives_them(tmp_path):
    export = Export().kernel("k", 0, 10, device=1)
    export.add("TARGET_INFO_GPU", id=0, name="far", cuDevice=1, smCount=108)
    export.add("TARGET_INFO_GPU", id=1, name="near", cuDevice=0, smCount=108)
    trace = opened(export, tmp_path)
    assert [(d.index, d.name) for d in trace.meta.devices] == [(0, "near"), (1, "far")]
    assert trace.meta.devices[1].properties["smCount"] == 108


def test_one_number_for_a_device_of_several_processes_may_be_several_gpus(tmp_path):
    export = Export().kernel("k1", 0, 10, pid=1).kernel("k2", 5, 25, pid=2)
    for gpu in (0, 1):
        export.add("TARGET_INFO_GPU", id=gpu, name="GPU")
    trace = opened(export, tmp_path)
    assert wb.summary(trace)["busy_ns"].to_list() == [25]
    assert problem(trace, "ambiguous_device")["first_example"] == "device 0"


def test_a_graph_launch_is_counted_once(tmp_path):
    """Launch 1 was recorded whole (100-400); of launch 2 there are nodes too, so only those."""
    export = Export().call("cudaGraphLaunch", 0, 10, 1).call("cudaGraphLaunch", 20, 30, 2)
    place = {"deviceId": 0, "streamId": 7, "globalPid": global_id(PID), "graphId": 4}
    export.add(GRAPH, start=100, end=400, correlationId=1, **place)
    export.add(GRAPH, start=500, end=900, correlationId=2, **place)
    export.kernel("a", 500, 600, 2, graphNodeId=11).kernel("b", 700, 900, 2, graphNodeId=12)
    trace = opened(export, tmp_path)
    assert texts(trace.activities) == ["CUDA graph 4", "a", "b"]
    assert trace.activities["launch"].to_list() == [0, 1, 1]
    assert wb.summary(trace)["busy_ns"].to_list() == [600]
    assert problem(trace, "graph_as_one")["count"] == 1


def test_emitted_operators(tmp_path):
    """mm (100-500) holds copy_ (200-300), which launches the kernel; range `mine` holds both."""
    export = Export().nvtx("mine", 50, 900)
    export.nvtx("aten::mm, seq = 12, op_id = 3, sizes = [[2, 3], [3, 4]]", 100, 500)
    export.nvtx("aten::copy_, op_id = 4", 200, 300).nvtx("aten::relu", 600, 700)
    export.nvtx("nccl:all_reduce, op_id = 5", 750, 800).nvtx("Fusion::copy", 810, 820)
    export.call("cudaLaunchKernel", 250, 260, 1).kernel("k", 1000, 1100, 1)
    trace = opened(export, tmp_path)
    mm, copy, relu = trace.ops.rows(named=True)
    assert (mm["name"], copy["name"], relu["name"]) == ("aten::mm", "aten::copy_", "aten::relu")
    assert (mm["sequence"], mm["external_id"], mm["input_dims"]) == (12, 3, "[[2, 3], [3, 4]]")
    assert (copy["sequence"], copy["external_id"], copy["input_dims"]) == (None, 4, None)
    assert (mm["parent"], copy["parent"], mm["self_ns"], copy["self_ns"]) == (None, 0, 300, 90)
    assert trace.activities["op"].to_list() == [copy["id"]]
    assert list(zip(texts(trace.ranges), texts(trace.ranges, "domain"), strict=True)) == [
        ("mine", "user"), ("nccl:all_reduce", "nccl"), ("Fusion::copy", "user"),
    ]  # fmt: skip
    assert trace.ranges["parent"].to_list() == [None, 0, 0]


def test_backward_operators_are_no_recomputation(tmp_path):
    """A node bears its forward partner's number; only aten::relu below it, numbered, is forward."""
    export = Export().nvtx("ProfilerStep#4", 0, 1000)
    export.nvtx("aten::mm, seq = 7, op_id = 1", 100, 200, tid=5)
    export.nvtx("autograd::engine::evaluate_function: MmBackward0, op_id = 2", 300, 900, tid=6)
    export.nvtx("MmBackward0, seq = 7, op_id = 3", 310, 890, tid=6)
    export.nvtx("aten::mm, op_id = 4", 320, 400, tid=6)
    export.nvtx("aten::relu, seq = 8, op_id = 5", 500, 600, tid=6)
    ops = opened(export, tmp_path).ops.sort("external_id")
    assert texts(ops, "phase") == ["forward", "backward", "backward", "backward", "recomputation"]
    assert ops["step"].to_list() == [4] * 5


def test_steps_are_marked_as_elsewhere(tmp_path):
    """Steps 1 (0-100) and 2 (100-200); their kernels run later, from 120 and from 300."""
    export = Export()
    for step, launch, start in ((1, 50, 120), (2, 150, 300)):
        export.nvtx(f"ProfilerStep#{step}, op_id = {step}", step * 100 - 100, step * 100)
        export.call("cudaLaunchKernel", launch, launch + 5, step)
        export.kernel("k", start, start + 80, step)
    steps = opened(export, tmp_path).steps.rows(named=True)
    assert [(s["step"], s["start_ns"], s["dur_ns"]) for s in steps] == [(1, 120, 180), (2, 300, 80)]


def test_annotations_of_every_form_and_domain(tmp_path):
    export = Export()
    export.add(NVTX, start=0, end=None, eventType=75, textId=export.text("mylib"), domainId=3,
               globalTid=global_id(PID, 5), text=None)  # fmt: skip
    export.nvtx(None, 10, 90, textId=export.text("load"), domain=3)
    export.nvtx("lap", 20, 60, kind=60, endGlobalTid=global_id(PID, 6))
    export.nvtx("lap 2", 30, 50, kind=60).nvtx("here", 40, None, kind=34)
    export.nvtx("cut", 70, None).nvtx("other", 75, 80, domain=9).nvtx("new", 80, 85, kind=88)
    trace = opened(export, tmp_path)
    columns = ("name", "domain", "form", "start_ns", "dur_ns", "parent")
    assert trace.ranges.select(columns).rows() == [
        ("load", "mylib", "nested", 0, 80, None),
        ("here", "user", "mark", 30, 0, 0),
        ("other", "domain 9", "nested", 65, 5, 0),
        ("lap", "user", "free", 10, 40, None),
        ("lap 2", "user", "free", 20, 20, None),
    ]
    assert problem(trace, "open_range")["first_example"] == "NVTX_EVENTS: cut"
    assert problem(trace, "unread_annotation")["first_example"] == "NVTX_EVENTS: eventType 88"


def test_payloads_are_said_to_be_unread(tmp_path):
    export = Export().nvtx("ncclSend", 0, 10, domain=1).nvtx("mine", 20, 30)
    export.add("NVTX_PAYLOAD_SCHEMAS", domainId=1, schemaId=2)
    assert problem(opened(export, tmp_path), "payloads_unread")["count"] == 1


def test_absolute_time_comes_from_the_session(tmp_path):
    export = Export().kernel("k", 500, 900)
    export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000_000_000_000)
    assert opened(export, tmp_path).meta.origin_ns == 1_700_000_000_000_000_500


def test_times_that_the_export_already_made_absolute(tmp_path):
    start = 1_700_000_000_000_000_000
    export = Export().kernel("k", start + 500, start + 900)
    export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=start)
    export.add("META_DATA_EXPORT", name="EXPORT_PARAM_TIME_NORMALIZE", value="true")
    export.add("META_DATA_EXPORT", name="EXPORT_PARAM_TIME_SHIFT", value="-100")
    trace = opened(export, tmp_path)
    assert trace.meta.origin_ns == start + 600  # all times were shifted by -100


def test_threads_bear_their_names(tmp_path):
    export = Export().call("cudaMalloc", 0, 5, tid=5).call("cudaFree", 10, 15, tid=6)
    export.add("ThreadNames", nameId=export.text("python3"), globalTid=global_id(PID, 5))
    threads = opened(export, tmp_path).meta.threads
    assert [(t.pid, t.tid, t.name) for t in threads] == [(PID, 5, "python3"), (PID, 6, None)]


def test_gpu_metrics_are_counters(tmp_path):
    """The lowest byte of a sample's type is its GPU: here 1."""
    export = Export().kernel("k", 100, 200)
    gpu = 0x1234_0001
    export.add("TARGET_INFO_GPU_METRICS", typeId=gpu, metricId=2, metricName="SM Active [%]")
    export.add("GPU_METRICS", timestamp=150, typeId=gpu, metricId=2, value=75)
    export.add("GPU_METRICS", timestamp=160, typeId=gpu, metricId=9, value=3)
    rows = opened(export, tmp_path).counters.rows()
    assert rows == [(50, 1, "SM Active [%]", 75.0, "%"), (60, 1, "metric 9", 3.0, None)]


def test_a_newer_schema_is_read_with_a_warning(tmp_path):
    trace = opened(Export("4.0.0").kernel("k", 0, 5), tmp_path)
    assert problem(trace, "newer_schema")["first_example"] == "schema 4.0.0"
    assert trace.activities.height == 1
    (tmp_path / "known").mkdir()
    known = opened(Export("3.99.0").kernel("k", 0, 5), tmp_path / "known")
    assert problem(known, "newer_schema") is None


def test_records_without_a_usable_time_are_in_no_total(tmp_path):
    """Backwards, unfilled, absurd and missing times; one good kernel of 50 ns."""
    export = Export().kernel("good", 100, 150).kernel("backwards", 300, 200).kernel("zero", 0, 0)
    export.kernel("far", 2**62 + 1, 2**62 + 9).kernel("missing", None, 400)
    trace = opened(export, tmp_path)
    assert wb.summary(trace)["busy_ns"].to_list() == [50]
    assert problem(trace, "invalid_record")["count"] == 4


def test_an_export_that_only_lists_a_gpu(tmp_path):
    trace = opened(Export().add("TARGET_INFO_GPU", id=0, name="NVIDIA RTX A2000 12GB"), tmp_path)
    (row,) = wb.summary(trace).rows(named=True)
    assert (row["device_kind"], row["busy_ns"]) == ("cuda", None)
    assert trace.meta.device_reason == "the trace has no device activity"
    assert problem(trace, "no_kernels")["effect"] == "no GPU kernels in this export"


def test_operators_alone_are_host_execution(tmp_path):
    trace = opened(Export().nvtx("aten::mm, op_id = 3", 100, 500), tmp_path)
    (row,) = wb.summary(trace).rows(named=True)
    assert (row["device_kind"], row["busy_ns"]) == ("cpu", 400)


REPORT = b"NVIDIA Tegra Profiler Report 2024@6@2@25-246235244400v0.\n\x0bLocal (CLI)"


@pytest.fixture
def fake_nsys(tmp_path, monkeypatch):
    """Put an `nsys` on the PATH that runs some Python; `out` is where it should write."""

    def install(body):
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "nsys"
        program.write_text(
            f"#!{sys.executable}\nimport sys\n"
            "assert sys.argv[1:4] == ['export', '--type', 'sqlite']\n"
            f"out = sys.argv[sys.argv.index('--output') + 1]\n{body}\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(folder))

    (tmp_path / "a b.nsys-rep").write_bytes(REPORT)
    return install


def test_a_report_is_converted(tmp_path, fake_nsys):
    export = Export().kernel("k", 0, 50).write(tmp_path)
    fake_nsys(f"import shutil; shutil.copy({str(export)!r}, out)")
    trace = wb.open(tmp_path / "a b.nsys-rep")
    assert wb.summary(trace)["busy_ns"].to_list() == [50]
    assert trace.meta.path == tmp_path / "a b.nsys-rep"
    assert {p.name for p in tmp_path.iterdir()} == {"a b.nsys-rep", "bin", "t.sqlite"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit('report is newer than nsys')", "nsys export failed (report is newer than nsys)"),
        ("pass", "nsys export failed (it said nothing)"),
        ("import time; time.sleep(60)", "took longer than"),
        ("open(out, 'w').write('no database')", "was converted by nsys, but the result"),
    ],
)
def test_a_report_that_can_not_be_converted(tmp_path, fake_nsys, monkeypatch, body, said):
    monkeypatch.setattr(report, "TIMEOUT_S", 2)
    fake_nsys(body)
    with pytest.raises(InputError) as refusal:
        wb.open(tmp_path / "a b.nsys-rep")
    assert said in str(refusal.value)
    assert "workbench-nsys" not in str(refusal.value)


def test_a_report_without_nsys_says_how_to_convert_it(tmp_path, monkeypatch):
    (tmp_path / "r.nsys-rep").write_bytes(REPORT)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=r"nsys export --type sqlite r\.nsys-rep"):
        wb.open(tmp_path / "r.nsys-rep")
