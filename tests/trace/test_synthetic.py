"""Generated traces: their answers by hand, by brute force from the file, and by the analyses."""

import gzip
import json
from collections import Counter
from dataclasses import asdict, replace
from decimal import Decimal

import numpy as np
import pytest

from workbench.analysis.kernels import kernels
from workbench.analysis.ops import ops
from workbench.analysis.summary import summary
from workbench.errors import UsageError
from workbench.trace.open import open_source
from workbench.trace.synthetic import Gaps, SyntheticSpec, generate
from workbench.trace.synthetic.spec import FAULTS
from workbench.trace.synthetic.writer import MARK

TINY = SyntheticSpec(ranks=1, steps=1, partial_step=False, layers=2, jitter=0, first_step=1)
WINDOWS = ("steps", "host", "all")


def load(path):
    return json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)


@pytest.fixture(scope="module")
def run():
    return generate()


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("synthetic")
    run.write(path, answers=True)
    return path


def test_one_step_worked_out_by_hand():
    # us after the rank's start. An operator opens in 2 and closes in 1, a launch call takes 5, work
    # reaches the device 4 later and follows what it waits for by 1.
    #   warm-up copy 13-33, synchronised until 36, 100 of nothing, 3 between steps: step from 139
    #   data 139-169; copies called 173-178 and 184-189 run 182-202 and 203-223: S(1) = 182
    #   forward, 2 x (10 + 30 + 40 + 50 + 10) with 1 between: 224-368, 369-513
    #   backward of layer 2, 15 + 2 x 50 + 100 + 2 x 30 + 20: 514-815
    #   its all-reduce, 16,777,216 B at 200 B/ns = 83.886: 816-899.886
    #   backward of layer 1: 816-831, 832-882, 883-933, 934-1034, 1035-1065, 1066-1096, 1097-1117
    #   its all-reduce 1118-1201.886; AdamW 1202.886-1262.886; memset 1263.886-1268.886
    #   all-gather, 2,097,152 B = 10.485: 1269.886-1280.371; loss to the host 1281.371-1283.371
    # then gap + kernel of 40, host gaps with 2 operator + 5 call + 4 latency each:
    #   first 15 (sync 2, operator 4, call 5, latency 4); sync 12 + 11; data 80 + 11; GC 50 + 11;
    #   operator 30 + 11; Python 20 + 11; unknown 15 + 11; slow call 40 + 4;
    #   a copy of 80, 48 of them alone, dependency 3; latency 6; 10 + 25; graph 1, 2, 2 (3 kernels)
    # gaps after the loss 381, before it 28, kernels there 14 x 40 = 560.
    # window 1283.371 - 182 + 381 + 560 + 48; compute 280 + 590 + 60 + 560
    # overlap of the first all-reduce 15 + 50 + 16.886; copy 20 + 20 + 5 + 2 + 80
    (rank,) = generate(TINY).answers.ranks
    answer = rank.windows["steps"]
    assert answer.window_ns == 2_090_371
    assert answer.compute_ns == 1_490_000
    assert answer.communication_ns == 178_257
    assert answer.overlap_ns == 81_886
    assert answer.exposed_communication_ns == 96_371
    assert answer.copy_ns == 127_000
    assert answer.exposed_copy_ns == 95_000
    assert answer.busy_ns == 1_681_371
    assert answer.idle_ns == 409_000
    assert (answer.kernels, answer.collectives, answer.copies) == (42, 3, 5)
    # dependency: 1 each before the first kernel, both all-reduces, AdamW, the all-gather and the
    # copy of the loss, and the planted 3; the other 22 of the first 28 are latency
    assert answer.idle == {
        "host_sync": 14_000,
        "host_data_loading": 80_000,
        "host_garbage_collection": 50_000,
        "host_operator": 46_000,
        "host_python": 20_000,
        "host_unknown": 15_000,
        "launch_call": 75_000,
        "dependency": 9_000,
        "launch_latency": 71_000,
        "unknown": 25_000,
        "edge": 0,
        "graph": 4_000,
    }
    (step,) = rank.steps
    assert (step.step, step.complete, step.tail, step.dur_ns) == (1, True, True, 2_090_371)
    assert step.start_ns - step.host_start_ns == 182_000 - 139_000
    # each aten::mm: 2 + 1 of its own around its call; forward 2 x (30 + 50), backward twice that
    mm = answer.operators["aten::mm"]
    assert (mm.count, mm.self_ns, mm.self_device_ns) == (12, 36_000, 480_000)
    linear = answer.operators["aten::linear"]
    assert (linear.count, linear.self_device_ns, linear.total_device_ns) == (4, 0, 160_000)


def test_queue_and_launch_of_planted_kernels_by_hand():
    # the kernel after garbage collection: call 5, 4 until it starts, 40 long. The slow call begins
    # 1 + 2 after the call before it, whose kernel ends 4 + 40 after, and returns 40 later: 81
    (rank,) = generate(TINY).answers.ranks
    delays = {d.kernel: d for d in rank.delays}
    gc = delays["planted_garbage_collection"]
    assert (gc.step, gc.call_ns, gc.queue_ns, gc.execution_ns) == (1, 5_000, 4_000, 40_000)
    assert delays["planted_launch_call"].call_ns == 81_000


def test_skewed_ranks_wait_for_each_other_by_hand():
    # without jitter rank 1 loads its data 7 us longer and starts 7 later; in an undisturbed first
    # step all its work is 14 later, rank 0's first all-reduce waits 14, the rest start together
    spec = SyntheticSpec(ranks=2, steps=1, partial_step=False, layers=2, jitter=0)
    zero, one = (rank.collectives for rank in generate(spec).answers.ranks)
    assert [c.name for c in zero] == ["all_reduce", "all_reduce", "all_gather"]
    assert (zero[0].wait_ns, one[0].wait_ns) == (14_000, 0)
    assert {c.transfer_ns for c in (zero[0], one[0])} == {83_886}
    assert zero[0].dur_ns == 97_886
    assert one[0].bytes == 16_777_216
    assert one[0].algorithm_gb_per_s == pytest.approx(16_777_216 / 83_886)
    assert one[0].bus_gb_per_s == pytest.approx(16_777_216 / 83_886)  # 2 (2 - 1) / 2 = 1
    assert one[2].bus_gb_per_s == pytest.approx(one[2].bytes / one[2].dur_ns / 2)


def test_the_last_rank_waits_for_nobody_whichever_it_is(run):
    pairs = list(zip(*(rank.collectives for rank in run.answers.ranks), strict=True))
    assert len(pairs) == 9
    assert {min(pair, key=lambda c: c.wait_ns).wait_ns for pair in pairs} == {0}
    assert {pair[0].wait_ns > pair[1].wait_ns for pair in pairs} == {True, False}
    for pair in pairs:
        assert pair[0].start_ns + pair[0].wait_ns == pair[1].start_ns + pair[1].wait_ns
        assert all(c.wait_ns + c.transfer_ns == c.dur_ns for c in pair)


def test_identities_hold(run):
    for rank in run.answers.ranks:
        for answer in rank.windows.values():
            exposed = answer.exposed_communication_ns
            assert answer.window_ns == answer.busy_ns + answer.idle_ns
            assert answer.busy_ns == answer.compute_ns + exposed + answer.exposed_copy_ns
            assert answer.communication_ns == answer.overlap_ns + exposed
            assert sum(answer.idle.values()) == answer.idle_ns
            assert 0 < answer.overlap_ns < answer.communication_ns
        assert all(rank.windows["steps"].idle.values()), "a cause of idle time is missing"


def test_planted_idle_is_found(run):
    exactly = {
        "host_sync",
        "host_data_loading",
        "host_garbage_collection",
        "host_python",
        "host_unknown",
        "unknown",
        "graph",
    }
    for rank in run.answers.ranks:
        found = rank.windows["all"].idle
        for cause, ns in rank.planted.items():
            assert found[cause] == ns if cause in exactly else found[cause] >= ns, cause


def test_totals_of_the_file_by_brute_force(run, folder):
    """Mark every nanosecond of the recording, from the decimal text, and count."""
    for rank in run.answers.ranks:
        trace = load(folder / f"rank{rank.rank}.trace.json.gz")
        spans = {"C": [], "N": [], "M": []}
        for event in trace["traceEvents"]:
            kind = {"kernel": "C", "gpu_memcpy": "M", "gpu_memset": "M"}.get(event.get("cat"))
            if kind:
                start = trace["baseTimeNanoseconds"] + int(event["ts"] * 1000)
                which = "N" if event["name"].startswith("nccl") else kind
                spans[which].append((start, start + int(event["dur"] * 1000)))
        first = min(s for group in spans.values() for s, _ in group)
        length = max(e for group in spans.values() for _, e in group) - first
        marks = {}
        for which, group in spans.items():
            marks[which] = np.zeros(length, bool)
            for start, end in group:
                marks[which][start - first : end - first] = True
        compute, communication, copy = marks["C"], marks["N"], marks["M"]
        steps = np.zeros(length, bool)
        for step in rank.steps:
            if step.complete:
                begin = step.start_ns - first
                steps[begin : begin + step.dur_ns] = True
        for name, window in (("all", np.ones(length, bool)), ("steps", steps)):
            answer = rank.windows[name]
            assert answer.window_ns == window.sum()
            assert answer.busy_ns == ((compute | communication | copy) & window).sum()
            assert answer.compute_ns == (compute & window).sum()
            assert answer.overlap_ns == (compute & communication & window).sum()
            assert answer.exposed_communication_ns == (communication & ~compute & window).sum()
            assert answer.exposed_copy_ns == (copy & ~compute & ~communication & window).sum()


def test_summary_equals_the_answers(run, folder):
    job = open_source(folder)
    # the device records of the last, partial step are lost, those of its graph launch with them
    noted = job.problems.select("code", "count").rows()
    assert noted == [("graph_kernels_missing", 1)] * 2
    for window in WINDOWS:
        rows = summary(job, window=window).to_dicts()
        assert [row["rank"] for row in rows] == [0, 1]
        for row in rows:
            answer = asdict(run.answers.ranks[row["rank"]].windows[window])
            assert row.pop("device") == row.pop("rank")
            assert row.pop("device_kind") == "cuda"
            assert row == {name: answer[name] for name in row}


def test_steps_equal_the_answers(run, folder):
    job = open_source(folder)
    for trace, rank in zip(job.ranks, run.answers.ranks, strict=True):
        rows = [
            {**row, "start_ns": row["start_ns"] + trace.meta.origin_ns}
            | {"host_start_ns": row["host_start_ns"] + trace.meta.origin_ns}
            for row in trace.steps.drop("device").to_dicts()
        ]
        assert rows == [asdict(step) for step in rank.steps]
        assert [s.complete for s in rank.steps] == [True, True, True, False]
        assert [s.tail for s in rank.steps] == [False, False, False, True]


def test_operators_and_kernels_equal_the_answers(run, folder):
    job = open_source(folder)
    for window in WINDOWS:
        for rank in run.answers.ranks:
            expected = rank.windows[window]
            names = ("calls", "self_host_ns", "self_device_ns", "total_device_ns")
            rows = ops(job, window=window, rank=rank.rank).to_dicts()
            found = {row["name"]: tuple(row[n] for n in names) for row in rows}
            answers = {
                name: (o.count, o.self_ns, o.self_device_ns, o.total_device_ns)
                for name, o in expected.operators.items()
            }
            assert found == answers
            rows = kernels(job, window=window, rank=rank.rank).to_dicts()
            found = {row["name"]: (row["count"], row["total_ns"]) for row in rows}
            assert found == {n: (a.count, a.total_ns) for n, a in expected.activities.items()}


def test_collectives_equal_the_answers(run, folder):
    job = open_source(folder)
    for trace, rank in zip(job.ranks, run.answers.ranks, strict=True):
        rows = trace.collectives.filter(trace.collectives["activity"].is_not_null()).to_dicts()
        found = [(r["name"], r["seq"], r["bytes"], r["dur_ns"]) for r in rows]
        assert found == [(c.name, c.seq, c.bytes, c.dur_ns) for c in rank.collectives]
        assert {row["members"].replace(" ", "") for row in rows} == {"[0,1]"}


def test_graph_kernels_share_a_launch(folder):
    trace = open_source(folder).ranks[0]
    graph = trace.activities.filter(trace.activities["graph_node"].is_not_null())
    assert graph.group_by("launch").len()["len"].to_list() == [3, 3, 3]
    assert graph["name"].cast(str).unique().to_list() == ["planted_graph"]


def test_file_has_the_profiler_s_names(run, folder):
    trace = load(folder / "rank1.trace.json.gz")
    assert trace["generated"] == MARK
    assert trace["distributedInfo"]["rank"] == 1
    assert trace["distributedInfo"]["pg_config"][0]["ranks"] == [0, 1]
    assert trace["deviceProperties"][1]["name"] == "NVIDIA H100 80GB HBM3"
    events = trace["traceEvents"]
    categories = Counter(e.get("cat") for e in events)
    assert set(categories) == {
        "cpu_op",
        "user_annotation",
        "python_function",
        "cuda_runtime",
        "kernel",
        "gpu_memcpy",
        "gpu_memset",
        "gpu_user_annotation",
        "cuda_sync",
        "cpu_instant_event",
        "ac2g",
        "fwdbwd",
        "Trace",
        None,
    }
    flows = Counter((e["cat"], e["ph"]) for e in events if e["ph"] in "sf")
    assert flows["fwdbwd", "s"] == flows["fwdbwd", "f"] == 2 * 5 * 4
    graphs = 2 * 3  # three kernels share one launch
    assert flows["ac2g", "f"] == flows["ac2g", "s"] + graphs
    reduce = next(e for e in events if e["cat"] == "kernel" and "AllReduce" in e["name"])
    assert reduce["args"]["Collective name"] == "allreduce"
    assert reduce["args"]["Process Group Ranks"] == "[0, 1]"
    assert reduce["pid"] == reduce["args"]["device"] == 1


def test_times_are_text_of_three_decimals(folder):
    text = gzip.decompress((folder / "rank0.trace.json.gz").read_bytes()).decode()
    times = [line.split('"ts": ')[1].split(",")[0] for line in text.splitlines() if '"ts":' in line]
    assert len(times) > 1000
    assert all(len(t.strip().split(".")[1]) == 3 for t in times)
    assert {len(t.strip().split(".")[0]) for t in times} == {13}


def test_same_seed_same_bytes(tmp_path):
    spec = SyntheticSpec(steps=1, layers=1)
    one, two = (generate(spec).write(tmp_path / name) for name in ("one", "two"))
    other = generate(replace(spec, seed=1)).write(tmp_path / "other")
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]
    assert one[0].read_bytes() != other[0].read_bytes()


def test_answers_are_saved_as_json(run, folder):
    saved = json.loads((folder / "answers.json").read_text())
    assert saved["ranks"][1]["windows"]["all"]["idle"] == run.answers.ranks[1].windows["all"].idle


def test_work_that_runs_over_a_step_is_clipped_by_hand(tmp_path):
    # the second step ends with a kernel of 200 that starts 4 after its call; the next step's first
    # copy starts after 1 + 3 + data 30 + opening 4 + call 5 + 4 = 47, and the window ends there
    run = generate(SyntheticSpec(ranks=1, steps=2, jitter=0))
    answer = run.answers.ranks[0].windows["steps"]
    assert answer.activities["overrun_kernel"].total_ns == 43_000
    assert answer.idle["edge"] == 0
    run.write(tmp_path)
    (row,) = summary(open_source(tmp_path)).to_dicts()
    assert (row["window_ns"], row["busy_ns"]) == (answer.window_ns, answer.busy_ns)


def test_without_stacks_python_time_is_unknown():
    (rank,) = generate(replace(TINY, stacks=False)).answers.ranks
    idle = rank.windows["steps"].idle
    assert (idle["host_python"], idle["host_unknown"]) == (0, 35_000)


def test_without_sync_events_no_dependency_is_known():
    (rank,) = generate(replace(TINY, sync_events=False)).answers.ranks
    idle = rank.windows["steps"].idle
    assert (idle["dependency"], idle["launch_latency"]) == (0, 80_000)


def test_no_gap_planted_leaves_none():
    nothing = Gaps(**dict.fromkeys(asdict(Gaps()), 0))
    (rank,) = generate(replace(TINY, gaps=nothing)).answers.ranks
    assert [d.kernel for d in rank.delays] == ["planted_first"]
    assert rank.windows["steps"].idle["host_data_loading"] == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_in_the_file_and_in_the_answers(fault, tmp_path):
    spec = replace(TINY, faults=(fault,))
    run = generate(spec)
    trace = load(run.write(tmp_path)[0])
    named = {e["name"]: e for e in trace["traceEvents"] if e.get("cat") == "kernel"}
    calls = {
        e["args"]["correlation"]: e for e in trace["traceEvents"] if e.get("cat") == "cuda_runtime"
    }
    delays = {d.kernel: d for d in run.answers.ranks[0].delays}
    if fault == "clock_inversion":
        kernel = named["planted_python"]
        launch = calls[kernel["args"]["correlation"]]
        assert launch["ts"] - kernel["ts"] == Decimal("0.700")
        assert delays["planted_python"].queue_ns is None
    elif fault == "missing_launch":
        assert named["planted_garbage_collection"]["args"]["correlation"] not in calls
        delay = delays["planted_garbage_collection"]
        assert (delay.step, delay.call_ns, delay.queue_ns) == (None, None, None)
        # its gap of 61 us has no cause now: 25 + 61
        assert run.answers.ranks[0].windows["steps"].idle["unknown"] == 86_000
    elif fault == "invalid_record":
        assert (named["planted_invalid"]["ts"], named["planted_invalid"]["dur"]) == (0, 0)
        assert run.answers.ranks == generate(TINY).answers.ranks
    else:
        kernel, following = named["planted_operator"], named["planted_python"]
        assert kernel["ts"] + kernel["dur"] - following["ts"] == 1
    assert run.answers.faults == {fault: 1}
    rows = summary(open_source(tmp_path), window="steps").to_dicts()
    answer = asdict(run.answers.ranks[0].windows["steps"])
    assert [rows[0][n] for n in ("window_ns", "busy_ns", "compute_ns", "kernels")] == [
        answer[n] for n in ("window_ns", "busy_ns", "compute_ns", "kernels")
    ]


def test_size_follows_what_was_asked_for(tmp_path):
    run = generate(SyntheticSpec.sized(20_000))
    events = len(load(run.write(tmp_path)[0])["traceEvents"])
    assert 18_000 < events < 22_000


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"layers": 0}, "layers must be at least 1"),
        ({"jitter": 1.0}, "jitter must lie in"),
        ({"faults": ("clock_inversoin",)}, "did you mean clock_inversion"),
        ({"gaps": Gaps(dependency_ns=6_000)}, "from 0 to 5000"),
        ({"gaps": Gaps(sync_ns=-1)}, "at least 0"),
        ({"gaps": Gaps(python_ns=0), "faults": ("clock_inversion",)}, "python_ns above 0"),
    ],
)
def test_wrong_specifications_are_refused(wrong, says):
    with pytest.raises(UsageError, match=says):
        SyntheticSpec(**wrong)
