"""Steps from marks of every crookedness; when they are complete; when they go by time."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rawtables import attributed, call, kernel, op, problems, step, table

from workbench.trace import steps


def one_launch(at, correlation):
    return call("cudaLaunchKernel", at, 1, correlation), kernel("k", at + 1, 1, correlation)


def with_launches(marks, at):
    pairs = [one_launch(t, n + 1) for n, t in enumerate(at)]
    return attributed(
        ranges=marks, launches=[c for c, _ in pairs], activities=[k for _, k in pairs]
    )


def launching_steps(trace):
    return trace.activities["step"].to_list()


def test_work_in_nested_steps_belongs_to_the_inner_one_and_none_is_lost():
    # 1 is 0-100 and holds 2, 20-40: what is launched at 50 is back in 1
    trace = with_launches([step(1, 0, 100), step(2, 20, 20)], [10, 30, 50, 150])
    assert launching_steps(trace) == [1, 2, 1, None]
    assert problems(trace) == [("steps_overlap", 1)]
    assert "ProfilerStep#2" in trace.problems["first_example"][0]


def test_work_where_steps_overlap_belongs_to_the_later_one():
    trace = with_launches([step(1, 0, 100), step(2, 90, 100)], [10, 95, 150])
    assert launching_steps(trace) == [1, 2, 2]
    assert problems(trace) == [("steps_overlap", 1)]


def test_steps_that_touch_do_not_overlap():
    trace = with_launches([step(1, 0, 100), step(2, 100, 100)], [99, 100])
    assert launching_steps(trace) == [1, 2]
    assert problems(trace) == []


def test_marks_of_one_number_on_two_threads_are_one_step():
    # 3 from 0 to 100 on thread 0 and from 10 to 120 on thread 1
    trace = with_launches([step(3, 0, 100), step(3, 10, 110, thread=1)], [50, 110])
    assert launching_steps(trace) == [3, 3]
    assert trace.host_steps.rows() == [(3, 0, 120, True)]
    assert problems(trace) == []


def test_a_number_marked_again_later_is_noted():
    trace = with_launches([step(3, 0, 50), step(4, 50, 50), step(3, 200, 50)], [10, 60, 210])
    assert launching_steps(trace) == [3, 4, None]
    assert problems(trace) == [("steps_repeated", 1)]


def test_a_number_marked_again_at_once_is_another_mark():
    trace = with_launches([step(3, 0, 50), step(3, 50, 50)], [10, 60])
    assert launching_steps(trace) == [3, None]
    assert problems(trace) == [("steps_repeated", 1)]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 15)), max_size=8),
    st.lists(st.integers(-1, 50), max_size=10),
)
def test_the_step_that_holds_a_time(marks, at):
    ranges = table("ranges", [step(n, *m) for n, m in enumerate(marks)])
    host = steps.host_steps(ranges, [])
    rows = host.rows()
    holding = [[n for n, s, d in rows if s <= t < s + d] for t in at]
    want = [h[-1] if h else None for h in holding]
    assert steps.containing(host, np.array(at, np.int64)).to_list() == want


@pytest.mark.parametrize(("recorded", "complete"), [(198, True), (197, False)])
def test_a_step_is_complete_with_99_of_100_launches_recorded(recorded, complete):
    # 200 launches, of which 198 is 99 %
    calls = [call("cudaLaunchKernel", t, 1, t + 1) for t in range(200)]
    kernels = [kernel("k", t + 1, 1, t + 1) for t in range(recorded)]
    trace = attributed(ranges=[step(1, 0, 500)], launches=calls, activities=kernels)
    assert trace.steps["complete"].to_list() == [complete]


def test_calls_that_put_nothing_on_a_device_need_no_record():
    calls = [call("cudaLaunchKernel", 1, 1, 1), call("cudaDeviceSynchronize", 5, 9, 2)]
    trace = attributed(ranges=[step(1, 0, 100)], launches=calls, activities=[kernel("k", 2, 1, 1)])
    assert trace.steps["complete"].to_list() == [True]


def test_a_driver_call_below_a_runtime_call_is_recorded_with_it():
    calls = [call("cudaLaunchKernel", 1, 5, 1), call("cuLaunchKernel", 2, 2, 1)]
    trace = attributed(ranges=[step(1, 0, 100)], launches=calls, activities=[kernel("k", 9, 1, 1)])
    assert trace.steps["complete"].to_list() == [True]


@pytest.mark.parametrize(("recording", "complete"), [((0, 100), True), ((0, 99), False),
                                                     ((1, 200), False)])  # fmt: skip
def test_a_step_is_complete_when_it_begins_and_ends_in_the_recording(recording, complete):
    launch, ran = one_launch(10, 1)
    trace = attributed(
        ranges=[step(1, 0, 100)], launches=[launch], activities=[ran], recording=recording
    )
    assert trace.steps["complete"].to_list() == [complete]


@pytest.mark.parametrize(("linked", "by_time"), [(5, False), (4, True)])
def test_steps_go_by_time_below_half_of_the_links(linked, by_time):
    # ten activities of the first step that all run in the second; 5 are half of them
    calls = [call("cudaLaunchKernel", t, 1, t + 1) for t in range(linked)]
    kernels = [kernel("k", 100 + t, 1, t + 1 if t < linked else None) for t in range(10)]
    trace = attributed(
        ranges=[step(1, 0, 100), step(2, 100, 100)], launches=calls, activities=kernels
    )
    codes = [code for code, _ in problems(trace)]
    assert ("steps_by_time" in codes) == by_time
    found = set(trace.activities["step"].drop_nulls())
    assert found == ({2} if by_time else {1})


def test_host_execution_goes_by_time():
    trace = attributed(
        ops=[op("aten::mm", 10, 5), op("aten::mm", 30, 5)],
        ranges=[step(1, 0, 20), step(2, 20, 20)],
        accelerator=False,
    )
    assert trace.activities["step"].to_list() == [1, 2]
    assert trace.steps.select("step", "start_ns", "dur_ns").rows() == [(1, 0, 20), (2, 20, 20)]
    assert trace.activities.schema["step"] == pl.Int32
