"""The profiler-JSON reader on traces small enough to work out by hand."""

import gzip
import json
import zipfile

import polars as pl
import pytest
from tinytrace import allocation, call, kernel, mark, op, step, write

from workbench.errors import InputError
from workbench.trace.open import open_source

US = 1000


def read(tmp_path, events, **header):
    return open_source(write(tmp_path, events, **header))


def test_times_are_exact_and_relative_to_the_earliest_event(tmp_path):
    # at 1.75e15 us a double steps by 0.25 us; the text says 49 ns between the two kernels
    text = """{"baseTimeNanoseconds": 5, "traceEvents": [
      {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":1750000000000000.100,"dur":10.251},
      {"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":1750000000000010.400,"dur":3}]}"""
    path = tmp_path / "t.json"
    path.write_text(text)
    trace = open_source(path)
    assert trace.meta.origin_ns == 1_750_000_000_000_000_100 + 5
    assert trace.activities["start_ns"].to_list() == [0, 10_300]
    assert trace.activities["dur_ns"].to_list() == [10_251, 3_000]


def test_kernel_to_launch_to_operator(tmp_path):
    # linear 10-50 holds mm 20-40, which launches k at 25 (correlation 5)
    trace = read(
        tmp_path,
        [
            op("aten::linear", 10, 40),
            op("aten::mm", 20, 20),
            call("cudaLaunchKernel", 25, 5, 5),
            kernel("k", 60, 7, 5),
            kernel("orphan", 80, 1, 0),
        ],
    )
    launch = trace.launches.row(0, named=True)
    assert trace.ops["name"][launch["op"]] == "aten::mm"
    assert launch["kind"] == "launch"
    assert trace.activities["launch"].to_list() == [0, None]
    assert trace.activities["op"].to_list() == [1, None]
    assert trace.ops["parent"].to_list() == [None, 0]
    # linear 40 less mm 20; mm 20 less its call 5
    assert trace.ops["self_ns"].to_list() == [20 * US, 15 * US]


def test_one_graph_launch_owns_all_its_kernels(tmp_path):
    trace = read(
        tmp_path,
        [call("cudaGraphLaunch", 0, 5, 500), *(kernel("k", 10 * i, 5, 500) for i in (1, 2, 3))],
    )
    assert trace.launches["kind"].to_list() == ["graph_launch"]
    assert trace.activities["launch"].to_list() == [0, 0, 0]


@pytest.mark.parametrize(("kind", "device"), [(0, None), (1, 0), (6, 0), (20, 0), ("x", None)])
def test_memory_of_any_accelerator_is_its_own(tmp_path, kind, device):
    # HIP's memory is of type 6: it counted as the host's, mixed with what the host allocates
    trace = read(tmp_path, [op("aten::mm", 0, 10), allocation(5, 512, 4096, 512, kind=kind)])
    assert trace.memory["device"].to_list() == [device]


def test_device_steps_follow_the_launches(tmp_path):
    # K31: launched at 10, 40 in step 1 and at 60 in step 2; kernels run 12-22, 60-90, 95-120
    trace = read(
        tmp_path,
        [
            step(1, 0, 50),
            step(2, 50, 50),
            *(call("cudaLaunchKernel", t, 1, c) for t, c in ((10, 1), (40, 2), (60, 3))),
            kernel("a", 12, 10, 1),
            kernel("b", 60, 30, 2),
            kernel("c", 95, 25, 3),
        ],
    )
    assert trace.activities["step"].to_list() == [1, 1, 2]
    rows = trace.steps.select("step", "start_ns", "dur_ns", "complete", "tail").rows()
    # S(1) = 12, S(2) = 95, the last ends with its latest activity at 120
    assert rows == [(1, 12 * US, 83 * US, True, False), (2, 95 * US, 25 * US, True, True)]


def test_without_launch_records_steps_go_by_time(tmp_path):
    trace = read(
        tmp_path, [step(1, 0, 50), step(2, 50, 50), kernel("a", 12, 10), kernel("b", 60, 30)]
    )
    assert trace.activities["step"].to_list() == [1, 2]
    assert trace.steps["start_ns"].to_list() == [0, 50 * US]
    assert trace.problems["code"].to_list() == ["steps_by_time"]


def test_a_step_whose_launches_have_no_record_is_incomplete(tmp_path):
    calls = [call("cudaLaunchKernel", 10 + i, 0.5, i + 1) for i in range(10)]
    trace = read(
        tmp_path, [step(1, 0, 50), *calls, *(kernel("k", 30 + i, 1, i + 1) for i in range(9))]
    )
    assert trace.steps["complete"].to_list() == [False]  # 9 of 10 is under 99 %


def test_a_host_function_has_no_record_and_leaves_its_step_complete(tmp_path):
    calls = [call("cudaLaunchHostFunc", 5, 1, 7), call("cudaLaunchKernel", 10, 1, 1)]
    trace = read(tmp_path, [step(1, 0, 50), *calls, kernel("k", 20, 5, 1)])
    assert trace.steps["complete"].to_list() == [True]


def test_mirrored_and_doubled_marks_are_no_steps(tmp_path):
    mirror = kernel("ProfilerStep#7", 5, 90, cat="gpu_user_annotation")
    trace = read(
        tmp_path,
        [step(7, 0, 100), mirror, call("cudaLaunchKernel", 1, 1, 4), kernel("k", 10, 5, 4)],
    )
    assert trace.steps["step"].to_list() == [7]
    assert trace.activities.height == 1
    assert sorted(trace.ranges["domain"].cast(pl.String)) == ["device", "step"]


def test_synchronisation_rows_are_no_activity(tmp_path):
    trace = read(tmp_path, [kernel("k", 0, 5), kernel("Stream Sync", 0, 90, cat="cuda_sync")])
    assert trace.activities.height == 1


def test_invalid_records_are_counted_and_in_no_total(tmp_path):
    good = 1_615_207_264_505_100
    trace = read(
        tmp_path,
        [
            kernel("k", good, 30),
            kernel("unfilled", 0, 0),
            kernel("late", 0, 5),
            kernel("neg", good, -1),
        ],
    )
    assert trace.activities["name"].to_list() == ["k"]
    assert trace.activities["start_ns"].to_list() == [0]
    assert trace.problems.select("code", "count").rows() == [("invalid_record", 3)]


def test_a_zero_duration_kernel_after_zero_counts(tmp_path):
    trace = read(tmp_path, [kernel("a", 10, 10), kernel("zero", 15, 0)])
    assert trace.activities.height == 2


@pytest.mark.parametrize(
    ("event", "phase"),
    [
        (op("enumerate(DataLoader)#_Single.__next__", 10, 5), "data"),
        (mark("Optimizer.step#AdamW.step", 10, 5), "optimizer"),
        (mark("Optimizer.zero_grad#AdamW.zero_grad", 10, 5), "optimizer"),
        (op("record_param_comms", 10, 5), "communication"),
        (op("autograd::engine::evaluate_function: MmBackward0", 10, 5), "backward"),
        (op("aten::mm", 10, 5), "forward"),
    ],
)
def test_phase_of_a_launch(tmp_path, event, phase):
    trace = read(
        tmp_path,
        [step(1, 0, 100), event, call("cudaLaunchKernel", 11, 1, 3), kernel("k", 50, 2, 3)],
    )
    assert trace.activities["phase"].to_list() == [phase]


def test_a_forward_operator_below_a_backward_node_is_recomputation(tmp_path):
    node = op("autograd::engine::evaluate_function: CheckpointBackward", 10, 50,
              **{"Sequence number": 8, "Fwd thread id": 1})  # fmt: skip
    again = op("aten::linear", 20, 20, **{"Sequence number": 30, "Fwd thread id": 0})
    trace = read(
        tmp_path,
        [step(1, 0, 100), node, again, op("aten::mm", 45, 5),
         call("cudaLaunchKernel", 21, 1, 3), call("cudaLaunchKernel", 46, 1, 4),
         kernel("k", 70, 2, 3), kernel("g", 80, 2, 4)],
    )  # fmt: skip
    assert trace.activities["phase"].to_list() == ["recomputation", "backward"]


def test_the_thread_that_calls_backward_is_not_autograds_own(tmp_path):
    # no step is marked; forward and backward run on one thread, as on the CPU
    node = op("autograd::engine::evaluate_function: X", 10, 20)
    trace = read(tmp_path, [node, op("aten::mm", 12, 3), op("aten::fwd", 40, 5)])
    phases = dict(trace.ops.select(pl.col("name").cast(pl.String), "phase").rows())
    assert phases["aten::mm"] == "backward"
    assert phases["aten::fwd"] == "other"


def test_outside_steps_the_phase_is_other(tmp_path):
    trace = read(tmp_path, [call("cudaLaunchKernel", 11, 1, 3), kernel("k", 50, 2, 3)])
    assert trace.activities["phase"].to_list() == ["other"]


def test_collective_from_its_own_record(tmp_path):
    args = {
        "Collective name": "_allgather_base", "In msg nelems": 100, "Out msg nelems": 200,
        "Group size": 2, "dtype": "BFloat16", "Process Group Name": "dp",
        "Process Group Ranks": "[0, 3]", "Seq": 0,
    }  # fmt: skip
    trace = read(tmp_path, [kernel("ncclDevKernel_AllGather_RING_LL", 0, 5, **args)])
    row = trace.collectives.row(0, named=True)
    # the message of an all-gather is its output: 200 elements of 2 bytes
    assert (row["name"], row["bytes"], row["group"], row["members"], row["seq"]) == (
        "all_gather", 400, "dp", "[0,3]", 0,
    )  # fmt: skip
    assert trace.activities["kind"].to_list() == ["collective"]


def test_numbers_written_as_text_and_misfit_args(tmp_path):
    events = [
        kernel("a", "1.5", "2.25", "12", stream="7"),
        call("cudaLaunchKernel", "0.5", "0.1", "12"),
        kernel("b", "9", "1") | {"args": [1, 2]},
    ]
    trace = read(tmp_path, events)
    assert trace.activities["launch"].to_list() == [0, None]
    assert trace.activities["stream"].to_list() == [7, 7]
    assert trace.activities["start_ns"].to_list() == [1000, 8500]
    assert trace.problems["code"].to_list() == ["bad_args", "launch_missing"]


def test_old_category_names(tmp_path):
    trace = read(
        tmp_path,
        [op("ProfilerStep#3", 0, 50) | {"cat": "Operator"},
         call("cudaLaunchKernel", 1, 1, 4) | {"cat": "Runtime"},
         kernel("k", 5, 5, 4, cat="Kernel"), kernel("Memcpy HtoD", 11, 2, 0, cat="Memcpy"),
         kernel("Memset", 14, 1, 0, cat="Memset")],
    )  # fmt: skip
    assert trace.activities["kind"].to_list() == ["kernel", "copy", "set"]
    assert trace.steps["step"].to_list() == [3]
    assert trace.ops.height == 0


def test_python_frames_come_when_asked_for(tmp_path):
    def frame(name, ts, dur, number, parent):
        args = {"Python id": number, "Python parent id": parent}
        return op(name, ts, dur, **args) | {"cat": "python_function"}

    trace = read(tmp_path, [frame("main", 0, 90, 1, None), frame("nn.Module: Net", 10, 50, 2, 1)])
    frames = trace.frames
    assert frames["parent"].to_list() == [None, 0]
    assert frames["start_ns"].to_list() == [0, 10 * US]


# -- containers and broken files ----------------------------------------------------------------

ONE = json.dumps({"traceEvents": [kernel("k", 1, 2)]}).encode()


def zipped(path, *names):
    with zipfile.ZipFile(path, "w") as z:
        for name in names:
            z.writestr(name, ONE)
    return path


def test_gzip_of_several_members_by_content(tmp_path):
    path = tmp_path / "no_suffix"
    path.write_bytes(gzip.compress(ONE[:20]) + gzip.compress(ONE[20:]))
    assert open_source(path).activities.height == 1


def test_zip_and_bare_array(tmp_path):
    assert open_source(zipped(tmp_path / "t.zip", "a.json")).activities.height == 1
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps([kernel("k", 1, 2)]))
    assert open_source(bare).activities.height == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"hello", "none of the formats"),
        (ONE[:60], "ends early"),
        (b"\xff\xfe{}", "none of the formats"),
        (b'{"traceEvents": 3}', "array"),
        (b'{"a": 1}', "no traceEvents"),
        (b'{"traceEvents": [{"ph": "X",}]}', "no whole event"),
        (b'{"traceEvents": [17]}', "no whole event"),
        (gzip.compress(ONE, mtime=0)[:40], "cut short"),
        (gzip.compress(ONE, mtime=0)[:-9] + b"garbage!!", "damaged"),
        (b"PK\x03\x04rest", "zip"),
        (b"SQLite format 3\x00", "SQLite"),
        (b"\x80\x04pickle", "pickle"),
    ],
)
def test_a_broken_file_gets_one_sentence_with_its_path(tmp_path, content, words):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as e:
        open_source(path)
    assert str(path) in str(e.value)
    assert "\n" not in str(e.value)


def test_a_zip_of_two_files_is_refused(tmp_path):
    with pytest.raises(InputError, match="zip of 2 files"):
        open_source(zipped(tmp_path / "t.zip", "a.json", "../b.json"))


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.trace.container.UNPACKED_FREE", 1 << 20)
    monkeypatch.setattr("workbench.trace.container.PIECE", 1 << 18)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * (4 << 20)))
    with pytest.raises(InputError, match="no trace packs like that"):
        open_source(path)


# -- folders ------------------------------------------------------------------------------------


def test_a_folder_of_ranks_is_a_job_on_one_time_axis(tmp_path):
    write(tmp_path, [kernel("a", 100, 5)], "rank0.json", baseTimeNanoseconds=1000)
    write(tmp_path, [kernel("b", 100, 5)], "rank1.json", baseTimeNanoseconds=3500)
    job = open_source(tmp_path)
    assert job.activities.select("rank", "start_ns").rows() == [(0, 0), (1, 2500)]


def test_two_traces_of_one_rank_are_refused(tmp_path):
    info = {"distributedInfo": {"rank": 3, "world_size": 8}}
    write(tmp_path, [kernel("a", 1, 5)], "a.json", **info)
    write(tmp_path, [kernel("a", 1, 5)], "b.json", **info)
    with pytest.raises(Exception, match=r"read as \[3, 3\]"):
        open_source(tmp_path)


def test_an_empty_folder_and_a_missing_path(tmp_path):
    with pytest.raises(InputError, match="holds no trace"):
        open_source(tmp_path)
    with pytest.raises(InputError, match="no file or folder"):
        open_source(tmp_path / "nowhere")


def test_other_files_of_a_folder_are_passed_over_and_named(tmp_path):
    write(tmp_path, [kernel("a", 1, 5)], "kineto_rank0.json")
    write(tmp_path, [kernel("a", 1, 5)], "kineto_rank1.json")
    (tmp_path / "execution_trace_rank0.json").write_text('{"schema": "1.0", "nodes": []}')
    job = open_source(tmp_path)
    assert [t.meta.rank for t in job.ranks] == [0, 1]
    why = "holds no node of an execution trace"
    assert job.problems.select("code", "count", "first_example").rows() == [
        ("rank_from_name", 1, "kineto_rank0.json"),
        ("other_files", 1, f"execution_trace_rank0.json ({why})"),
        ("rank_from_name", 1, "kineto_rank1.json"),
    ]
