"""How long calls take, how long their work queues and runs, by hand and against the generator."""

import polars as pl
import pytest
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.trace.synthetic import SyntheticSpec, generate

US = 1000


@pytest.fixture
def trace(tmp_path):
    """Four launches, one of them of a graph, and a kernel nobody launched.

    call      0.3   10....16    20.......30            40.45
    stream 7    2..6        17..20     31-33 35-39  38.....
    """
    return wb.open(
        write(
            tmp_path,
            [
                op("aten::mm", 0, 8),
                call("cudaLaunchKernel", 0, 3, 1),
                call("cudaLaunchKernel", 10, 6, 2),
                call("cudaGraphLaunch", 20, 10, 3),
                call("cudaMemcpyAsync", 40, 5, 4),
                kernel("early", 2, 4, 1),  # starts inside its call: no queue
                kernel("late", 17, 3, 2),  # 1 after its call; runs 3, the call took 6
                kernel("node", 31, 2, 3),  # 1 after the graph's call
                kernel("node", 35, 4, 3),  # 5 after
                kernel("Memcpy HtoD", 38, 9, 4, cat="gpu_memcpy", stream=8),  # 2 before its call
                kernel("orphan", 50, 1, 99),
            ],
        )
    )


def test_launches_by_call(trace):
    names = ("name", "calls", "activities", "short", "inverted")
    frame = wb.launches(trace)
    assert frame.select(names).rows() == [
        ("cudaGraphLaunch", 1, 2, 1, 0),  # 2 + 4 run, the call took 10
        ("cudaLaunchKernel", 2, 2, 1, 0),  # of 3 and 4, and 6 and 3
        ("cudaMemcpyAsync", 1, 1, 0, 1),
        (None, None, 1, None, None),
    ]
    assert frame["kind"].cast(pl.String).to_list() == ["graph_launch", "launch", "copy", None]


def test_statistics_of_call_queue_and_execution(trace):
    frame = wb.launches(trace)
    kernels = frame.row(by_predicate=pl.col("name") == "cudaLaunchKernel", named=True)
    measured = {n: v for n, v in kernels.items() if n.endswith("_ns")}
    assert measured == {
        "call_total_ns": 9 * US, "call_mean_ns": 4500, "call_median_ns": 4500,
        "call_p95_ns": pytest.approx(3000 + 0.95 * 3000), "call_max_ns": 6 * US,
        "queue_total_ns": 1 * US, "queue_mean_ns": 500, "queue_median_ns": 500,
        "queue_p95_ns": pytest.approx(950), "queue_max_ns": 1 * US,
        "execution_total_ns": 7 * US, "execution_mean_ns": 3500, "execution_median_ns": 3500,
        "execution_p95_ns": pytest.approx(3950), "execution_max_ns": 4 * US,
    }  # fmt: skip
    copy = frame.row(by_predicate=pl.col("name") == "cudaMemcpyAsync", named=True)
    # its clock is off: the call and the execution are known, the queue is not
    assert [copy[f"queue_{s}_ns"] for s in ("total", "mean", "p95", "max")] == [None] * 4
    assert (copy["call_total_ns"], copy["execution_total_ns"]) == (5 * US, 9 * US)
    orphan = frame.row(by_predicate=pl.col("name").is_null(), named=True)
    assert (orphan["call_total_ns"], orphan["execution_total_ns"]) == (None, 1 * US)


def test_delays_of_each_activity(trace):
    frame = wb.delays(trace)
    assert frame.select("name", "launch", "call_ns", "queue_ns", "call_to_start_ns").rows() == [
        ("early", "cudaLaunchKernel", 3 * US, 0, 2 * US),
        ("late", "cudaLaunchKernel", 6 * US, 1 * US, 7 * US),
        ("node", "cudaGraphLaunch", 10 * US, 1 * US, 11 * US),
        ("node", "cudaGraphLaunch", 10 * US, 5 * US, 15 * US),
        ("Memcpy HtoD", "cudaMemcpyAsync", 5 * US, None, None),
        ("orphan", None, None, None, None),
    ]
    assert frame["reason"].to_list() == [None] * 4 + ["clock_inversion", "launch_missing"]
    assert frame["execution_ns"].to_list() == [us * US for us in (4, 3, 2, 4, 9, 1)]


def test_only_what_starts_in_the_window_counts(trace):
    # 15-37: late, the graph's two nodes; the copy starts at 38
    within = (15 * US, 37 * US)
    assert wb.delays(trace, window="all", within=within)["name"].to_list() == [
        "late", "node", "node",
    ]  # fmt: skip
    frame = wb.launches(trace, window="all", within=within)
    assert frame.select("name", "calls", "activities").rows() == [
        ("cudaGraphLaunch", 1, 2),
        ("cudaLaunchKernel", 1, 1),
    ]


def test_ranks_of_a_job_have_one_clock(tmp_path):
    events = [step(1, 0, 50), call("cudaLaunchKernel", 1, 1, 1), kernel("k", 10, 5, 1)]
    write(tmp_path, events, "rank0.json", baseTimeNanoseconds=1000)
    write(tmp_path, events, "rank1.json", baseTimeNanoseconds=3500)
    frame = wb.delays(wb.open(tmp_path))
    assert frame.select("rank", "step", "start_ns", "queue_ns").rows() == [
        (0, 1, 10 * US, 8 * US),
        (1, 1, 10 * US + 2500, 8 * US),
    ]


FAULTS = ("clock_inversion", "missing_launch")


@pytest.mark.parametrize("faults", [(), FAULTS])
def test_planted_kernels_equal_the_generator_s_answers(faults, tmp_path):
    run = generate(SyntheticSpec(faults=faults))
    run.write(tmp_path)
    job = wb.open(tmp_path)
    for trace, rank in zip(job.ranks, run.answers.ranks, strict=True):
        frame = wb.delays(trace, window="all")
        planted = frame.filter(pl.col("name").str.starts_with("planted_"))
        found = planted.select(
            "name",
            "step",
            pl.col("start_ns") + trace.meta.origin_ns,
            "call_ns",
            "queue_ns",
            "execution_ns",
        )
        answers = [
            (d.kernel, d.step, d.start_ns, d.call_ns, d.queue_ns, d.execution_ns)
            for d in rank.delays
        ]
        assert sorted(found.rows(), key=lambda r: r[2]) == sorted(answers, key=lambda r: r[2])
    reasons = wb.delays(job, window="all")["reason"].drop_nulls().to_list()
    assert sorted(reasons) == (["clock_inversion", "launch_missing"] if faults else [])


def test_host_execution_launches_nothing(tmp_path):
    trace = wb.open(write(tmp_path, [op("aten::mm", 0, 10)]))
    for question in (wb.launches, wb.delays):
        assert question(trace).height == 0


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path",
    [
        "hta/nccl_args_resnet_a100_rank0_of_2.json.gz",
        "hta/mtia_inference_rank0.json.gz",
        "tracelens/mi300_qwen1.5_0.5b_inference.json.gz",
        "nsys/cloverleaf_a100_schema3.13.sqlite",
        "rocm/rpd_matmul_result.rpd",
    ],
)
def test_every_maker_s_calls_are_found(corpus, path):
    trace = wb.open(corpus / "traces" / path)
    frame = wb.launches(trace, window="all")
    assert frame["calls"].sum() > 0
    assert frame["activities"].sum() == trace.activities.height
    assert wb.delays(trace, window="all")["queue_ns"].min() >= 0
