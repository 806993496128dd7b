"""A range of time cuts the window: durations are clipped to it, starts in it are counted."""

import pytest
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.errors import UsageError

US = 1000


@pytest.fixture
def trace(tmp_path):
    """Four activities and a range [45, 75).

    compute    10......50        60..70   110-115
    nccl            40......65
    copy       10.......55
    range             45 .......... 75
    """
    calls = [call("cudaLaunchKernel", t, 1, c) for t, c in ((1, 1), (2, 2), (50, 3), (6, 4))]
    ops = [op("aten::mm", 0, 4), op("aten::add", 49, 5), op("aten::item", 80, 9)]
    return wb.open(
        write(
            tmp_path,
            [
                step(1, 0, 90),
                *calls,
                *ops,
                kernel("gemm", 10, 40, 1),
                kernel("ncclDevKernel_AllReduce", 40, 25, 2, stream=20),
                kernel("gemm", 60, 10, 3),
                kernel("Memcpy HtoD", 10, 45, 4, stream=30, cat="gpu_memcpy", bytes=4096),
            ],
        )
    )


def test_summary_of_a_range(trace):
    (row,) = wb.summary(trace, window="all", within=(45 * US, 75 * US)).rows(named=True)
    wanted = {
        "window_ns": 25 * US,  # activity ends at 70
        "busy_ns": 25 * US,
        "compute_ns": 15 * US,  # 45-50, 60-70
        "communication_ns": 20 * US,  # 45-65
        "overlap_ns": 10 * US,  # 45-50, 60-65
        "exposed_communication_ns": 10 * US,
        "copy_ns": 10 * US,  # 45-55
        "exposed_copy_ns": 0,
        "idle_ns": 0,
        "kernels": 1,  # only the second gemm starts in it
        "collectives": 0,
        "copies": 0,
    }
    assert {name: row[name] for name in wanted} == wanted


def test_a_range_cuts_the_steps_too(trace):
    # the only step is its own tail: S(1) = 10 to its latest activity, 70
    (row,) = wb.summary(trace, within=(0, 30 * US)).rows(named=True)
    assert (row["window_ns"], row["busy_ns"]) == (20 * US, 20 * US)


def test_kernels_and_operators_of_a_range(trace):
    within = (45 * US, 75 * US)
    kernels = wb.kernels(trace, window="all", within=within)
    assert sorted(kernels.select("name", "count", "total_ns").rows()) == [
        ("Memcpy HtoD", 0, 10 * US),
        ("gemm", 1, 15 * US),
        ("ncclDevKernel_AllReduce", 0, 20 * US),
    ]
    ops = wb.ops(trace, window="all", within=within)
    # mm launched the first gemm and the collective, 45-65 together; add starts in the range
    assert ops.select("name", "calls", "self_device_ns").rows() == [
        ("aten::mm", 1, 20 * US),
        ("aten::add", 1, 10 * US),
    ]


def test_an_empty_range_and_a_reversed_one(trace):
    (row,) = wb.summary(trace, within=(500 * US, 500 * US)).rows(named=True)
    assert (row["window_ns"], row["idle_ns"], row["kernels"]) == (0, 0, 0)
    assert wb.breakdown(trace, within=(1, 1))["share"].to_list() == [None] * 4
    assert wb.overlap(trace, within=(1, 1))["overlap_share"].to_list() == [None]
    assert wb.ops(trace, within=(500 * US, 500 * US)).is_empty()
    with pytest.raises(UsageError, match="in order"):
        wb.summary(trace, within=(2, 1))


def test_ranks_of_a_job_share_the_range(tmp_path):
    # rank 1 starts 100 us later: in the job's time its kernel runs 110-120
    for rank, base in ((0, 0), (1, 100)):
        events = [call("cudaLaunchKernel", 0, 1, 1), kernel("k", 10, 10, 1)]
        info = {"rank": rank, "world_size": 2, "backend": "nccl"}
        write(tmp_path, events, f"rank{rank}.json", baseTimeNanoseconds=base * US,
              distributedInfo=info)  # fmt: skip
    job = wb.open(tmp_path)
    rows = wb.summary(job, window="all", within=(15 * US, 115 * US))
    assert rows.select("rank", "busy_ns", "kernels").rows() == [(0, 5 * US, 0), (1, 5 * US, 1)]
