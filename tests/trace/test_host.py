"""Host execution: activities of a trace without an accelerator, worked out by hand."""

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tinytrace import call, mark, op, step, write

from workbench.trace.open import open_source

US = 1000


def read(tmp_path, events):
    return open_source(write(tmp_path, events))


def segments(trace):
    a = trace.activities
    return [
        (n, s // US, (s + d) // US)
        for n, s, d in a.select("name", "start_ns", "dur_ns").iter_rows()
    ]


def test_segments_of_the_innermost_operator(tmp_path):
    # addmm 0-100 with a child 40-50 gives 0-40, 40-50, 50-100; addmm self 90
    trace = read(tmp_path, [op("aten::addmm", 0, 100), op("aten::expand", 40, 10)])
    assert segments(trace) == [
        ("aten::addmm", 0, 40), ("aten::expand", 40, 50), ("aten::addmm", 50, 100),
    ]  # fmt: skip
    assert trace.ops["self_ns"].to_list() == [90 * US, 10 * US]
    assert trace.activities["op"].to_list() == [0, 1, 0]
    assert trace.meta.device_kind == "cpu"
    assert trace.meta.device_reason.startswith("host execution")


def test_child_that_outlives_its_parent(tmp_path):
    trace = read(tmp_path, [op("p", 0, 10), op("c", 5, 6)])
    assert segments(trace) == [("p", 0, 5), ("c", 5, 11)]


def test_kinds(tmp_path):
    trace = read(
        tmp_path,
        [op("aten::mm", 0, 5), op("aten::copy_", 6, 1), mark("gloo:all_reduce", 8, 4, tid=2)],
    )
    assert trace.activities["kind"].to_list() == ["compute", "copy", "collective"]


def test_gloo_swallows_what_runs_inside_it_and_c10d_is_only_its_launch(tmp_path):
    reduce = mark(
        "gloo:all_reduce", 10, 50, tid=2, **{"Input Dims": [[8, 4], [2]], "Input type": ["float"]}
    )
    trace = read(
        tmp_path,
        [
            op("c10d::allreduce_", 0, 8),
            reduce,
            op("aten::add_", 20, 5, tid=2),
            op("aten::mm", 30, 10),
        ],
    )
    assert segments(trace) == [
        ("c10d::allreduce_", 0, 8), ("gloo:all_reduce", 10, 60), ("aten::mm", 30, 40),
    ]  # fmt: skip
    row = trace.collectives.row(0, named=True)
    # 8*4 + 2 elements of 4 bytes
    assert (row["name"], row["in_elements"], row["bytes"], row["group"]) == (
        "all_reduce",
        34,
        136,
        None,
    )


def test_gloo_recorded_as_an_operator_counts_once_and_cuts_its_parent(tmp_path):
    trace = read(tmp_path, [op("outer", 0, 100), op("gloo:broadcast", 40, 20)])
    assert segments(trace) == [("outer", 0, 40), ("gloo:broadcast", 40, 60), ("outer", 60, 100)]
    assert trace.collectives.height == 1


def test_steps_are_the_host_ranges(tmp_path):
    trace = read(tmp_path, [step(4, 0, 50), step(5, 50, 50), op("aten::mm", 10, 50)])
    assert trace.steps.select("step", "start_ns", "dur_ns", "tail").rows() == [
        (4, 0, 50 * US, False)
    ]
    assert trace.activities["step"].to_list() == [4]


def test_launches_without_activity_are_no_host_execution(tmp_path):
    trace = read(tmp_path, [op("aten::mm", 0, 50), call("cudaLaunchKernel", 5, 2, 3)])
    assert trace.activities.height == 0
    assert trace.problems["code"].to_list() == ["device_activity_missing"]
    assert "launched" in trace.meta.device_reason


def test_gloo_collectives_are_tied_to_their_requests_in_order(tmp_path):
    # gloo runs the reduce-scatter as an all-reduce: requests 1 and 3 are its two all-reduces
    requests = [
        op("c10d::allreduce_", 0, 2),
        op("c10d::allgather_", 3, 2),
        op("c10d::_reduce_scatter_base_", 6, 2),
    ]
    ran = [mark(n, t, 4, tid=2) for n, t in (
        ("gloo:all_reduce", 1 ), ("gloo:all_gather", 10), ("gloo:all_reduce", 20))]  # fmt: skip
    trace = read(tmp_path, requests + ran)
    rows = trace.collectives.select("name", "requested", "activity").rows()
    assert [r[:2] for r in rows] == [
        ("all_reduce", "all_reduce"),
        ("all_gather", "all_gather"),
        ("all_reduce", "reduce_scatter"),
    ]
    names = trace.ops["name"].cast(str).gather(trace.activities["op"].gather([r[2] for r in rows]))
    assert names.to_list() == [r["name"] for r in requests]


def test_a_request_without_its_collective_leaves_that_kind_unpaired(tmp_path):
    events = [op("c10d::allreduce_", 0, 2), op("c10d::allreduce_", 9, 2)]
    trace = read(tmp_path, [*events, mark("gloo:all_reduce", 1, 4, tid=2)])
    assert trace.collectives["requested"].to_list() == [None]


ops_strategy = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 20), st.integers(0, 12)), min_size=1, max_size=12
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops_strategy)
def test_each_instant_belongs_to_the_latest_started_operator_that_runs(tmp_path, items):
    events = [op(f"o{i}", start, dur, tid) for i, (tid, start, dur) in enumerate(items)]
    trace = read(tmp_path, [*events, op("zero", 0, 0, 3)])
    a = trace.activities
    got = {}
    for name, thread, start, dur in a.select("name", "stream", "start_ns", "dur_ns").iter_rows():
        for t in range(start // US, (start + dur) // US):
            assert (thread, t) not in got
            got[thread, t] = name
    want = {}
    threads = {t.tid: i for i, t in enumerate(trace.meta.threads)}
    inside = sorted(range(len(items)), key=lambda i: (items[i][1], -items[i][2], i))
    for tid in (1, 2):
        for t in range(40):
            running = [
                i for i in inside if items[i][0] == tid and items[i][1] <= t < sum(items[i][1:])
            ]
            if running:
                want[threads[tid], t] = f"o{running[-1]}"
    assert got == want
    # maximal: no two neighbouring segments of one thread are of the same operator
    by_thread = a.sort("stream", "start_ns").select("op", "stream", "start_ns", "dur_ns").rows()
    for (o1, s1, t1, d1), (o2, s2, t2, _) in itertools.pairwise(by_thread):
        assert (o1, s1, t1 + d1) != (o2, s2, t2)
