"""Kernel → launch → operator by typed ids, and what is said about kernels that do not fit."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rawtables import attributed, call, kernel, names, op, problems, table

from workbench.trace import linkage

CALLS = ("cudaLaunchKernel", "cudaDeviceSynchronize", "cudaMemcpyAsync", "cudaGetDevice")
keys = st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, 1, 2, 3]))


def test_a_correlation_belongs_to_its_process():
    trace = attributed(
        ops=[op("a", 0, 10), op("b", 0, 10, thread=1)],
        launches=[
            call("cudaLaunchKernel", 1, 1, 5, process=1),
            call("cudaLaunchKernel", 1, 1, 5, thread=1, process=2),
        ],
        activities=[kernel("k", 20, 1, 5, process=2), kernel("l", 30, 1, 5, process=1)],
    )
    assert [trace.ops["name"][i] for i in trace.activities["op"]] == ["b", "a"]


def test_an_external_id_is_no_correlation():
    # the kernel's own external id 7 names the operator; a launch of correlation 7 is another one
    trace = attributed(
        ops=[op("a", 0, 10, external_id=7), op("b", 20, 10, external_id=1)],
        launches=[
            call("cudaLaunchKernel", 21, 1, 7, external_id=7),
            call("cudaLaunchKernel", 22, 1, 8, external_id=1),
        ],
        activities=[kernel("k", 40, 1, 99, external_id=7), kernel("l", 50, 1, 8, external_id=7)],
    )
    first, second = trace.activities.rows(named=True)
    assert (first["launch"], trace.ops["name"][first["op"]]) == (None, "a")
    assert (first["step"], first["phase"]) == (None, None)
    assert (second["launch"], trace.ops["name"][second["op"]]) == (1, "b")
    assert problems(trace) == [("launch_missing", 1)]


def test_an_external_id_of_two_operators_names_none():
    trace = attributed(
        ops=[op("a", 0, 10, external_id=7), op("b", 20, 10, external_id=7)],
        activities=[kernel("k", 40, 1, external_id=7)],
    )
    assert trace.activities["op"].to_list() == [None]


def test_an_external_id_belongs_to_its_process():
    trace = attributed(
        ops=[op("a", 0, 10, external_id=7), op("b", 0, 10, thread=1, external_id=7)],
        launches=[
            call("cudaLaunchKernel", 1, 1, 1, process=10),
            call("cudaLaunchKernel", 1, 1, 1, thread=1, process=20),
        ],
        activities=[kernel("k", 40, 1, 9, process=20, external_id=7)],
    )
    assert trace.ops["name"][trace.activities["op"][0]] == "b"


def test_calls_without_correlations_link_by_a_shared_external_id():
    # as some recordings of ROCm: each call has its own; a second call with the id would be a guess
    launches = [
        call("hipGetDevice", 0, 1, external_id=25),
        call("hipExtModuleLaunchKernel", 1, 1, external_id=25),
        call("hipExtModuleLaunchKernel", 5, 1, external_id=26),
        call("hipExtModuleLaunchKernel", 6, 1, external_id=27),
        call("hipExtModuleLaunchKernel", 7, 1, external_id=27),
    ]
    ids = [(26, None), (25, None), (27, None), (26, 99)]
    trace = attributed(
        ops=[op("aten::mm", 4, 4, external_id=513)],
        launches=launches,
        activities=[kernel("k", 20 + i, 1, c, external_id=x) for i, (x, c) in enumerate(ids)],
    )
    assert trace.activities["launch"].to_list() == [2, 1, None, None]
    assert trace.activities["op"].to_list() == [0, None, None, None]


def test_of_calls_that_share_a_correlation_the_one_that_launches_wins():
    # the query comes first and lies in another operator
    trace = attributed(
        ops=[op("query", 0, 5), op("launch", 10, 5)],
        launches=[call("cudaGetDevice", 1, 1, 5), call("cudaLaunchKernel", 11, 1, 5)],
        activities=[kernel("k", 20, 1, 5)],
    )
    assert names(trace.launches)[trace.activities["launch"][0]] == "cudaLaunchKernel"
    assert names(trace.ops)[trace.activities["op"][0]] == "launch"


@given(
    st.lists(keys, max_size=8),
    st.lists(st.tuples(keys, st.sampled_from(CALLS), st.integers(0, 9)), max_size=8),
)
def test_link(activities, calls):
    rows = [
        call(name, at, 1, correlation, process=process)
        for (process, correlation), name, at in calls
    ]
    kinds = {"cudaLaunchKernel": "launch", "cudaMemcpyAsync": "copy"}
    kind = pl.Series([kinds.get(r["name"], "other") for r in rows], dtype=pl.String)
    launches = table("launches", rows).with_columns(kind=kind)
    found = linkage.link(
        table("activities", [kernel("k", 0, 1, c, process=p) for p, c in activities]), launches
    )

    def best(process, correlation):
        same = [
            (r["name"] not in kinds, r["start_ns"], i)
            for i, r in enumerate(rows)
            if correlation is not None
            and r["correlation"] == correlation
            and (r["process"] or 0) == (process or 0)
        ]
        return min(same)[2] if same else -1

    assert found.launch.tolist() == [best(*a) for a in activities]
    carried = {((p or 0), c) for p, c in activities if c is not None}
    assert found.recorded.tolist() == [((r["process"] or 0), r["correlation"]) in carried
                                       for r in rows]  # fmt: skip


def test_a_graph_launch_owns_all_its_kernels_and_an_empty_one_is_noted():
    kernels = [kernel("k", 10 * i, 5, 500, graph_node=i) for i in range(1, 5)]
    trace = attributed(
        ops=[op("replay", 0, 9)],
        launches=[call("cudaGraphLaunch", 1, 2, 500), call("cudaGraphLaunch", 4, 2, 501)],
        activities=kernels,
    )
    assert trace.activities["op"].to_list() == [0] * 4
    assert problems(trace) == [("graph_kernels_missing", 1)]
    assert "1 of 2 graph launches" in trace.problems["effect"][0]


def test_a_replay_with_fewer_kernels_than_another_one_of_its_graph_is_noted():
    # nodes 1-3 are one graph, replayed twice, the second time without node 3; node 9 is another
    nodes = [(500, 1), (500, 2), (500, 3), (501, 1), (501, 2), (502, 9)]
    trace = attributed(
        launches=[call("cudaGraphLaunch", i, 1, 500 + i) for i in range(3)],
        activities=[kernel("k", 10 * i, 5, c, graph_node=n) for i, (c, n) in enumerate(nodes)],
    )
    assert problems(trace) == [("graph_kernels_partial", 1)]
    assert trace.problems["first_example"].to_list() == ["cudaGraphLaunch: 2 of 3 nodes"]


def test_a_kernel_before_its_launch_is_noted():
    trace = attributed(
        launches=[call("cudaLaunchKernel", 100, 8, 1), call("cudaLaunchKernel", 200, 5, 2)],
        activities=[kernel("early", 97, 20, 1), kernel("same", 200, 20, 2)],
    )
    assert problems(trace) == [("clock_inversion", 1)]
    said = trace.problems["first_example"].to_list()
    assert said == ["early begins 3 ns before cudaLaunchKernel"]


@pytest.mark.parametrize(
    ("second", "noted"),
    [
        (kernel("b", 9, 5), [("same_stream_overlap", 1)]),
        (kernel("b", 10, 5), []),
        (kernel("b", 5, 0), []),
        (kernel("b", 9, 5, stream=8), []),
        (kernel("b", 9, 5, device=1), []),
    ],
    ids=["overlaps", "touches", "no length", "other stream", "other device"],
)
def test_records_that_overlap_on_a_stream(second, noted):
    assert problems(attributed(activities=[kernel("a", 0, 10), second])) == noted


def test_an_unreadable_device_is_told_from_host_execution():
    trace = attributed(activities=[kernel("a", 0, 10, device=None), kernel("b", 0, 10)])
    assert problems(trace) == [("device_unknown", 1)]
    assert trace.meta.device_kind == "cuda"
    assert trace.activities["source"].to_list() == ["device", "device"]


def test_without_any_launch_recorded_no_link_is_missed():
    assert problems(attributed(activities=[kernel("a", 0, 10, 5)])) == []


def test_a_recorded_wait_knows_its_call_and_the_event_that_it_waits_for():
    # the calls stand in order of thread and start: the event on thread 0, the wait on thread 1
    calls = [
        call("cudaStreamWaitEvent", 30, 1, 8, thread=1, process=1),
        call("cudaEventRecord", 10, 1, 7, process=1),
        call("cudaEventRecord", 20, 1, 7, process=2),
    ]
    wait = {"name": "Stream Wait Event", "domain": "cuda_sync", "device": 0, "stream": 9}
    rows = [
        wait | {"start_ns": 30, "dur_ns": 1, "correlation": 8, "process": 1}
        | {"waits_on_correlation": 7, "waits_on_stream": 20},
        wait | {"start_ns": 40, "dur_ns": 1, "correlation": 5, "process": 1},
    ]  # fmt: skip
    ranges = attributed(launches=calls, ranges=rows).ranges
    columns = ("launch", "waits_on_stream", "waits_on_launch")
    assert ranges.select(columns).rows() == [(2, 20, 0), (None, None, None)]
