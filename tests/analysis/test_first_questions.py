"""Summary, breakdown, steps, kernels and ops on traces small enough to work out by hand."""

import polars as pl
import pytest
from tinytrace import call, kernel, mark, op, step, write

import workbench as wb
from workbench.analysis.steps import typical_ns
from workbench.errors import UsageError

US = 1000


@pytest.fixture
def two_streams(tmp_path):
    """One device step of 100 us.

    compute    0....40        50..60
    nccl          30......55
    copy       0.....45
    W = 0-100 (step 2's first kernel starts at 100), A = 0-60
    """
    calls = [
        call("cudaLaunchKernel", t, 1, c) for t, c in ((0, 1), (2, 2), (4, 3), (6, 4), (95, 5))
    ]
    return wb.open(
        write(
            tmp_path,
            [
                step(1, 0, 90),
                step(2, 90, 60),
                *calls,
                kernel("gemm", 10, 40, 1),
                kernel("ncclDevKernel_AllReduce", 40, 25, 2, stream=20),
                kernel("gemm", 60, 10, 3),
                kernel("Memcpy HtoD", 10, 45, 4, stream=30, cat="gpu_memcpy", bytes=4096),
                kernel("gemm", 110, 5, 5),
            ],
        )
    )


def test_summary(two_streams):
    rows = (
        wb.summary(two_streams, step=(1, 1)).drop("rank", "device", "device_kind").rows(named=True)
    )
    assert rows == [
        {
            "window_ns": 100 * US,  # S(1) = 10 to S(2) = 110
            "busy_ns": 60 * US,  # 10-70
            "compute_ns": 50 * US,  # 10-50, 60-70
            "communication_ns": 25 * US,  # 40-65
            "overlap_ns": 15 * US,  # 40-50, 60-65
            "exposed_communication_ns": 10 * US,  # 50-60
            "copy_ns": 45 * US,  # 10-55
            "exposed_copy_ns": 0,  # all of it under compute or communication
            "idle_ns": 40 * US,
            "kernels": 3,
            "collectives": 1,
            "copies": 1,
            "steps": 1,
        }
    ]


def test_breakdown_adds_up(two_streams):
    frame = wb.breakdown(two_streams, step=(1, 1))
    assert dict(frame.select(pl.col("part").cast(pl.String), "time_ns").rows()) == {
        "compute": 50 * US, "exposed_communication": 10 * US, "exposed_copy": 0, "idle": 40 * US,
    }  # fmt: skip
    assert frame["share"].to_list() == [0.5, 0.1, 0.0, 0.4]


def test_windows(two_streams):
    lengths = {
        w: wb.summary(two_streams, window=w)["window_ns"][0] // US for w in ("steps", "host", "all")
    }
    # steps 10-110 and 110-115; host ranges 0-90 and 90-150; activity 10-115
    assert lengths == {"steps": 105, "host": 150, "all": 105}


def test_an_activity_counts_where_it_starts_and_lasts_where_it_runs(two_streams):
    # host window of step 1 is 0-90; make it 0-12 by hand: the first gemm starts in it, at 10
    rows = wb.kernels(two_streams, window="host", step=(2, 2))
    # host range 90-150 holds only the last gemm, 110-115
    assert rows.select("name", "count", "total_ns").rows() == [("gemm", 1, 5 * US)]


def test_kernels(two_streams):
    frame = wb.kernels(two_streams)
    assert frame.select("name", "count", "total_ns", "min_ns", "max_ns", "median_ns").rows() == [
        ("gemm", 3, 55 * US, 5 * US, 40 * US, 10 * US),
        ("Memcpy HtoD", 1, 45 * US, 45 * US, 45 * US, 45 * US),
        ("ncclDevKernel_AllReduce", 1, 25 * US, 25 * US, 25 * US, 25 * US),
    ]
    assert frame["share"].sum() == pytest.approx(1)


def test_steps_and_the_typical_one(two_streams):
    frame = wb.steps(two_streams)
    assert frame.select("step", "dur_ns", "busy_ns", "idle_ns", "tail").rows() == [
        (1, 100 * US, 60 * US, 40 * US, False),
        (2, 5 * US, 5 * US, 0, True),
    ]
    assert typical_ns(two_streams) == 100 * US  # the tail is left out


def test_device_time_goes_to_the_innermost_operator_once(tmp_path):
    # K28: four nested ops, one launch, one kernel of 500 us
    names = ("aten::conv2d", "aten::convolution", "aten::_convolution", "aten::cudnn_convolution")
    ops = [op(n, 10 * i, 100 - 20 * i) for i, n in enumerate(names)]
    trace = wb.open(
        write(tmp_path, [*ops, call("cudaLaunchKernel", 40, 10, 5), kernel("k", 200, 500, 5)])
    )
    frame = wb.ops(trace).select("name", "self_device_ns", "total_device_ns", "self_host_ns")
    assert sorted(frame.rows()) == sorted(
        [
            # each has 10 us before and 10 us after its child; the last 40 less the call's 10
            ("aten::conv2d", 0, 500 * US, 20 * US),
            ("aten::convolution", 0, 500 * US, 20 * US),
            ("aten::_convolution", 0, 500 * US, 20 * US),
            ("aten::cudnn_convolution", 500 * US, 500 * US, 30 * US),
        ]
    )


def test_concurrent_kernels_of_one_operator_count_once(tmp_path):
    trace = wb.open(
        write(
            tmp_path,
            [op("f", 0, 50), call("cudaLaunchKernel", 1, 1, 1), call("cudaLaunchKernel", 3, 1, 2),
             kernel("a", 60, 10, 1), kernel("b", 65, 10, 2, stream=8)],
        )
    )  # fmt: skip
    assert wb.ops(trace)["self_device_ns"].to_list() == [15 * US]


def test_same_stream_number_on_two_devices_is_two_rows(tmp_path):
    # K16: device 0 computes 0-100, device 1 communicates 50-150: nothing overlaps
    trace = wb.open(
        write(tmp_path, [kernel("gemm", 0, 100), kernel("ncclKernel", 50, 100, device=1)])
    )
    frame = wb.summary(trace)
    assert frame["busy_ns"].to_list() == [100 * US, 100 * US]
    assert frame["overlap_ns"].to_list() == [0, 0]


def test_host_execution_counts_operators_not_segments(tmp_path):
    trace = wb.open(write(tmp_path, [op("aten::addmm", 0, 100), op("aten::expand", 40, 10)]))
    frame = wb.kernels(trace)
    assert frame.select("name", "count", "total_ns").rows() == [
        ("aten::addmm", 1, 90 * US),
        ("aten::expand", 1, 10 * US),
    ]
    row = wb.summary(trace).row(0, named=True)
    assert (row["device_kind"], row["kernels"], row["busy_ns"]) == ("cpu", None, 100 * US)


def test_unknown_device_activity_is_null_not_zero(tmp_path):
    trace = wb.open(write(tmp_path, [call("cudaLaunchKernel", 0, 5, 1)]))
    assert wb.summary(trace).row(0, named=True)["busy_ns"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window": "step"}, "did you mean steps"),
        ({"window": "all", "step": (1, 1)}, "narrows"),
        ({"device": 7}, "devices with activity: 0"),
        ({"step": (8, 9)}, "No complete step lies in 8:9"),
    ],
)
def test_wrong_options_get_a_sentence(two_streams, options, words):
    with pytest.raises(UsageError, match=words):
        wb.summary(two_streams, **options)


def test_an_empty_trace_is_no_error(tmp_path):
    trace = wb.open(write(tmp_path, [mark("note", 0, 1)]))
    for question in (wb.breakdown, wb.steps, wb.kernels, wb.ops):
        assert question(trace).height == 0
    assert wb.summary(trace).height == 1


def test_times_of_a_job_share_one_axis(tmp_path):
    events = [step(1, 0, 50), call("cudaLaunchKernel", 1, 1, 1), kernel("k", 10, 5, 1)]
    write(tmp_path, events, "rank0.json", baseTimeNanoseconds=1000)
    write(tmp_path, events, "rank1.json", baseTimeNanoseconds=3500)
    frame = wb.steps(wb.open(tmp_path))
    assert frame.select("rank", "start_ns").rows() == [(0, 10 * US), (1, 10 * US + 2500)]


def test_a_device_without_the_chosen_step_is_left_out(tmp_path):
    # step 2 is on rank 0 alone; rank 1 has step 1 only
    def one(number, ts):
        return [
            step(number, ts, 50),
            op("aten::mm", ts, 9),
            call("cudaLaunchKernel", ts + 1, 1, number),
            kernel("k", ts + 10, 5, number),
        ]

    write(tmp_path, [*one(1, 0), *one(2, 50)], "rank0.json")
    write(tmp_path, one(1, 0), "rank1.json")
    job = wb.open(tmp_path)
    for question in (wb.summary, wb.kernels, wb.ops, wb.breakdown):
        assert set(question(job, step=(2, 2))["rank"]) == {0}


def test_the_host_window_holds_steps_without_activity(tmp_path):
    # three steps of 100 us; work is launched in the first and the last only, 10 us each
    events = [step(n, 100 * n, 100) for n in (1, 2, 3)]
    for n in (1, 3):
        events += [call("cudaLaunchKernel", 100 * n + 5, 1, n), kernel("k", 100 * n + 20, 10, n)]
    row = wb.summary(wb.open(write(tmp_path, events)), window="host").row(0, named=True)
    assert (row["window_ns"], row["busy_ns"], row["steps"]) == (300 * US, 20 * US, 3)
