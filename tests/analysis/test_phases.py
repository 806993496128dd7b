"""Device, idle and host time by phase, worked out by hand and against generated answers."""

import polars as pl
import pytest
from tinytrace import call, kernel, mark, op, step, write

import workbench as wb
from workbench.trace.synthetic import SyntheticSpec, generate

US = 1000
NODE = "autograd::engine::evaluate_function: MmBackward0"


@pytest.fixture
def trace(tmp_path):
    """Two steps; forward and backward at the same time in the first.

    host 1     data 0-8  mm 10-14  Optimizer.step 40-50 with add 42-46   | step 2: mm 104-108
    host 2     node 20-30 with mm 22-26
    device     forward 12......32   optimizer 60..65   (copy without a launch 70..72)   120..125
               backward    30...40
    W = S(1) 12 to the latest end 125; A = 12-40, 60-65, 70-72, 120-125
    """
    back = {"Sequence number": 1, "Fwd thread id": 1}
    events = [
        step(1, 0, 100),
        step(2, 100, 50),
        mark("enumerate(DataLoader)#_Iter.__next__", 0, 8),
        op("aten::mm", 10, 4, **{"Sequence number": 1}),
        call("cudaLaunchKernel", 11, 1, 1),
        op(NODE, 20, 10, 2, **back),
        op("aten::mm", 22, 4, 2),
        call("cudaLaunchKernel", 23, 1, 2, 2),
        mark("Optimizer.step#SGD.step", 40, 10),
        op("aten::add_", 42, 4),
        call("cudaLaunchKernel", 43, 1, 3),
        op("aten::mm", 104, 4),
        call("cudaLaunchKernel", 105, 1, 4),
        kernel("k", 12, 20, 1),
        kernel("k", 30, 10, 2, stream=8),
        kernel("k", 60, 5, 3),
        kernel("Memcpy DtoH", 70, 2, 99, cat="gpu_memcpy"),
        kernel("k", 120, 5, 4),
    ]
    return wb.open(write(tmp_path, events))


def test_phases(trace):
    found = wb.phases(trace)
    columns = ("phase", "count", "busy_ns", "sum_ns", "idle_ns", "host_ns")
    assert found.select(columns).rows() == [
        ("data", 0, 0, 0, 0, 8 * US),
        ("optimizer", 1, 5 * US, 5 * US, 20 * US, 10 * US),  # the device waits 40-60 for it
        ("backward", 1, 10 * US, 10 * US, 0, 10 * US),
        ("forward", 2, 25 * US, 25 * US, 48 * US, 8 * US),  # waits 72-120
        (None, 1, 2 * US, 2 * US, 5 * US, 0),  # waits 65-70 for the copy
    ]
    assert found["busy_share"].to_list() == pytest.approx([0, 5 / 40, 10 / 40, 25 / 40, 2 / 40])
    assert found["idle_share"].sum() == pytest.approx(1)
    assert found["host_share"].to_list() == pytest.approx([8 / 36, 10 / 36, 10 / 36, 8 / 36, 0])


def test_phases_by_step(trace):
    found = wb.phases(trace, by_step=True)
    assert found.select("step", "phase", "count", "busy_ns", "idle_ns", "host_ns").rows() == [
        (1, "data", 0, 0, 0, 8 * US),
        (1, "optimizer", 1, 5 * US, 20 * US, 10 * US),
        (1, "backward", 1, 10 * US, 0, 10 * US),
        (1, "forward", 1, 20 * US, 0, 4 * US),
        (2, "forward", 1, 5 * US, 48 * US, 4 * US),
        (None, None, 1, 2 * US, 5 * US, 0),
    ]


def test_a_range_cuts_all_times(trace):
    found = wb.phases(trace, window="all", within=(35 * US, 63 * US))
    assert found.select("phase", "count", "busy_ns", "idle_ns", "host_ns").rows() == [
        ("optimizer", 1, 3 * US, 20 * US, 10 * US),
        ("backward", 0, 5 * US, 0, 0),
    ]


def test_idle_at_the_end_of_the_window_is_of_no_phase(trace):
    found = wb.phases(trace, window="host")  # 0-150: 12 before the first, 25 after the last
    idle = dict(found.select("phase", "idle_ns").rows())
    assert (idle["forward"], idle[None]) == (12 * US + 48 * US, 5 * US + 25 * US)


def test_without_operators_host_time_is_not_known(tmp_path):
    found = wb.phases(wb.open(write(tmp_path, [kernel("k", 0, 5, 1)])))
    assert found.select("phase", "count", "busy_ns", "host_ns").rows() == [(None, 1, 5 * US, None)]


def test_a_moment_of_a_thread_has_one_phase(tmp_path):
    # a collective inside a forward operator is communication's, and the operator's the rest
    events = [step(1, 0, 50), op("DDP", 10, 20), op("c10d::allreduce_", 15, 8),
              call("cudaLaunchKernel", 16, 1, 1), kernel("k", 20, 5, 1)]  # fmt: skip
    found = wb.phases(wb.open(write(tmp_path, events)))
    assert found.select("phase", "host_ns").rows() == [
        ("communication", 8 * US),
        ("forward", 12 * US),
    ]


def test_host_execution_counts_operators(tmp_path):
    events = [step(1, 0, 100), op("aten::mm", 10, 30), op("aten::t", 20, 5)]
    (row,) = (
        wb.phases(wb.open(write(tmp_path, events))).filter(pl.col("count") > 0).rows(named=True)
    )
    # mm runs 10-20 and 25-40: two stretches of one operator
    assert (row["phase"], row["count"], row["busy_ns"]) == ("forward", 2, 30 * US)


@pytest.mark.parametrize("window", ["steps", "host", "all"])
def test_generated_parts_add_up(tmp_path, window):
    made = generate(SyntheticSpec())
    made.write(tmp_path)
    job = wb.open(tmp_path)
    for answer in made.answers.ranks:
        want = answer.windows[window]
        found = wb.phases(job, window=window, rank=answer.rank)
        assert found["idle_ns"].sum() == want.idle_ns
        assert found["sum_ns"].sum() == sum(a.total_ns for a in want.activities.values())
        assert found["count"].sum() == want.kernels + want.copies
        counts = dict(found.select("phase", "count").rows())
        assert counts["communication"] == want.collectives
        by_step = wb.phases(job, window=window, rank=answer.rank, by_step=True)
        for column in ("count", "sum_ns", "idle_ns"):
            assert by_step[column].sum() == found[column].sum()


@pytest.mark.corpus
@pytest.mark.parametrize(
    "file",
    [
        "tracelens/mi300_resnet_ddp_act_checkpoint_rank0_of_8.json.gz",
        "hta/df_index_resolver_v100_rank1_of_2.json.gz",
        "nsys/nsys_ai_mfu_2gpu_before.sqlite",
    ],
)
def test_recorded_phases_add_up_to_the_breakdown(corpus, file):
    source = wb.open(corpus / "traces" / file)
    found = wb.phases(source)
    for summary in wb.summary(source).rows(named=True):
        mine = found.filter(pl.col("device") == summary["device"])
        assert mine["idle_ns"].sum() == summary["idle_ns"]
        assert mine["busy_ns"].max() <= summary["busy_ns"] <= mine["busy_ns"].sum()


def test_a_gap_that_two_kernels_end_counts_to_the_one_whose_launch_is_known(tmp_path):
    # both start at 20; one was launched (at 15, in an operator), nothing is known of the other
    events = [
        op("aten::mm", 0, 18),
        call("cudaLaunchKernel", 1, 1, 1),
        call("cudaLaunchKernel", 15, 1, 2),
        kernel("k", 2, 8, 1),
        kernel("stray", 20, 5, 99, stream=8),
        kernel("k", 20, 5, 2),
    ]
    found = wb.phases(wb.open(write(tmp_path, events)), window="all")
    phase = dict(found.select("phase", "idle_ns").rows())
    assert phase == {"other": 10 * US, None: 0}


def test_a_kernel_without_length_ends_a_gap(tmp_path):
    # 10-20 waits for the empty backward kernel, 20-30 for the forward one
    back = {"Sequence number": 1, "Fwd thread id": 1}
    events = [
        op("aten::mm", 0, 5, **{"Sequence number": 1}),
        call("cudaLaunchKernel", 1, 1, 1),
        op(NODE, 6, 8, 2, **back),
        op("aten::mm", 7, 5, 2),
        call("cudaLaunchKernel", 8, 1, 2, 2),
        op("aten::mm", 15, 5),
        call("cudaLaunchKernel", 16, 1, 3),
        kernel("k", 2, 8, 1),
        kernel("empty", 20, 0, 2),
        kernel("k", 30, 5, 3),
    ]
    found = wb.phases(wb.open(write(tmp_path, events)), window="all")
    assert dict(found.select("phase", "idle_ns").rows()) == {"backward": 10 * US, "other": 10 * US}


def test_by_step_host_time_outside_of_steps_has_a_row_without_a_step(tmp_path):
    # the operators take 5 us before the step, 4 in it and 3 after it; no work runs in step 1
    events = [
        op("aten::mm", 0, 5),
        call("cudaLaunchKernel", 1, 1, 1),
        kernel("k", 2, 8, 1),
        step(1, 20, 10),
        op("aten::mm", 21, 4),
        op("aten::mm", 40, 3),
    ]
    trace = wb.open(write(tmp_path, events))
    assert wb.phases(trace, window="all")["host_ns"].sum() == 12 * US
    found = wb.phases(trace, window="all", by_step=True)
    by_step = found.group_by("step").agg(pl.col("host_ns").sum()).sort("step", nulls_last=True)
    assert by_step.rows() == [(1, 4 * US), (None, 8 * US)]


def test_threads_that_work_at_once_count_each(tmp_path):
    # forward on threads 1 and 2 at once, 10 us each, though the data mark holds 4 of thread 2
    events = [
        op("aten::mm", 0, 10, 1),
        op("aten::mm", 0, 10, 2),
        mark("enumerate(DataLoader)#_Iter.__next__", 6, 4, 2),
        call("cudaLaunchKernel", 1, 1, 1),
        kernel("k", 5, 5, 1),
    ]
    found = wb.phases(wb.open(write(tmp_path, events)), window="all")
    assert dict(found.select("phase", "host_ns").rows()) == {"data": 4 * US, "other": 16 * US}
