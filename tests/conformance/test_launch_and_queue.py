"""Where other tools were seen to go wrong on launches, queues and kernel tables.

Each trace is written with its answer. What HTA said of such a trace is in the comment of each test.
Only the file that a test writes and the values that it compares belong to the case, so another tool
can be held to it.
"""

import pytest
from tinytrace import call, kernel, op, write

import workbench as wb

US = 1000


def test_200_kernels_of_a_microsecond_and_a_half_fill_half_the_time(tmp_path):
    # HTA's temporal breakdown says 0 % compute: it rounds starts and durations to microseconds
    events = []
    for i in range(200):
        events += [
            call("cudaLaunchKernel", 3 * i, 0.5, i + 1),
            kernel("tiny", 3 * i + 1.25, 1.5, i + 1),
        ]
    trace = wb.open(write(tmp_path, events))
    row = wb.summary(trace).row(0, named=True)
    # 1.25 to 1.25 + 199 x 3 + 1.5
    assert (row["compute_ns"], row["window_ns"], row["kernels"]) == (300_000, 598_500, 200)
    compute = wb.breakdown(trace).row(0, named=True)
    assert compute["share"] == pytest.approx(300 / 598.5)
    (one,) = wb.kernels(trace).rows(named=True)
    statistics = [one[f"{s}_ns"] for s in ("mean", "median", "p95", "min", "max")]
    assert statistics == [1_500] * 5
    launched = wb.launches(trace).row(0, named=True)
    # each starts 0.75 us after its call of 0.5 us has returned
    assert (launched["call_mean_ns"], launched["queue_mean_ns"]) == (500, 750)
    assert launched["queue_total_ns"] == 200 * 750


def test_statistics_of_12_names_are_of_calls(tmp_path):
    # HTA's kernel table with its default of 10 names: mean = max = min = total for all of them
    events = [
        kernel(f"kernel_{n:02}", 2_000 * n + 150 * i, 100 + n, 0, stream=7)
        for n in range(12)
        for i in range(10)
    ]
    events += [kernel("longest", 30_000, 1, 0)]
    frame = wb.kernels(wb.open(write(tmp_path, events)))
    rows = {r["name"]: r for r in frame.rows(named=True)}
    for n in range(12):
        row = rows[f"kernel_{n:02}"]
        assert (row["count"], row["total_ns"]) == (10, 10 * (100 + n) * US)
        statistics = [row[f"{s}_ns"] for s in ("mean", "median", "p95", "min", "max")]
        assert statistics == [(100 + n) * US] * 5
    assert sum(r["total_ns"] for r in rows.values()) == (10 * sum(range(100, 112)) + 1) * US


def test_two_saturated_streams_are_both_reported(tmp_path):
    # HTA names the last stream alone
    events, correlation = [], 0
    # 3 calls of 1 us each per stream from 0 on; the kernels run one after the other from 10 on
    for stream, dur in ((7, 10), (20, 20)):
        for i in range(3):
            correlation += 1
            events += [
                call("cudaLaunchKernel", 2 * i, 1, correlation, tid=stream),
                kernel("k", 10 + dur * i, dur, correlation, stream=stream),
            ]
    trace = wb.open(write(tmp_path, events))
    frame = wb.queue(trace, full=2)
    rows = {r["stream"]: r for r in frame.rows(named=True)}
    # each holds 1 from 0, 2 from 2, 3 from 4, 2 from its first kernel, 1 from its second, at
    # 20 and at 30: at least 2 from 2 on until then
    assert {s: rows[s]["full_ns"] for s in (7, 20)} == {7: 18 * US, 20: 28 * US}
    assert rows[None]["full_ns"] == 28 * US
    assert {s: rows[s]["max_depth"] for s in (None, 7, 20)} == {None: 6, 7: 3, 20: 3}


def test_a_full_queue_by_the_default_of_1020(tmp_path):
    # 1,030 launches 1 us apart, then the kernels: at least 1,020 wait from 1,019 until 2,010
    events = []
    for i in range(1_030):
        events += [
            call("cudaLaunchKernel", i, 0.5, i + 1),
            kernel("k", 2_000 + i, 1, i + 1),
        ]
    row = wb.queue(wb.open(write(tmp_path, events))).row(0, named=True)
    assert (row["max_depth"], row["full_ns"]) == (1_030, (2_010 - 1_019) * US)


def test_a_graph_of_50_kernels_beside_one_eager_kernel(tmp_path):
    # HTA's launch statistics know 1 kernel, and its queue has 2 rows
    events = [
        op("graph_replay", 0, 20),
        call("cudaGraphLaunch", 2, 10, 1),
        *(kernel("node", 20 + 3 * i, 2, 1, **{"graph node id": i + 1}) for i in range(50)),
        op("aten::add", 30, 10),
        call("cudaLaunchKernel", 32, 4, 2),
        kernel("add", 200, 5, 2),
    ]
    trace = wb.open(write(tmp_path, events))
    by_call = {r["name"]: r for r in wb.launches(trace).rows(named=True)}
    graph, eager = by_call["cudaGraphLaunch"], by_call["cudaLaunchKernel"]
    assert (graph["calls"], graph["activities"]) == (1, 50)
    assert (eager["calls"], eager["activities"]) == (1, 1)
    assert graph["call_total_ns"] == 10 * US  # once, not 50 times
    assert graph["execution_total_ns"] == 100 * US
    # the call ends at 12: 8 us to the first, 8 + 3 x 49 to the last
    assert (graph["queue_total_ns"], graph["queue_max_ns"]) == (
        sum(8 + 3 * i for i in range(50)) * US,
        155 * US,
    )
    assert wb.delays(trace).height == 51
    series = wb.queue_depth(trace)
    device = series.filter(series["stream"].is_null()).select("t_ns", "depth").rows()
    # 50 at 2; one leaves each 3 us from 20 to 167; at 32 the fifth leaves and the eager one joins
    left = [(20 + 3 * i, 49 - i + (i >= 4)) for i in range(50)]
    assert device == [(t * US, depth) for t, depth in [(2, 50), *left, (200, 0)]]
    assert wb.queue(trace)["max_depth"].to_list() == [50, 50]
