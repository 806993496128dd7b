"""Hot spots of Python, worked out by hand and against sets of points in time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycalls import function
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.analysis import needs
from workbench.trace.synthetic import SyntheticSpec, generate

US = 1000
FACT = "m.py(2): fact"


@pytest.fixture
def trace(tmp_path):
    """main calls fact, which calls itself; the inner one calls a C function that launches.

    main        0....................................100
      fact        10...................60
        fact          20.........50
          size          25.....40
    ops             (mm 12-16 in the outer fact)  linear 28-38 with addmm 30-36 and its launch 31-33
    device      addmm's 40-70, mm's 60-80;  thread 2: wait 0-90
    """
    main = function("m.py(1): main", 0, 100)
    outer = function(FACT, 10, 50, parent=main)
    inner = function(FACT, 20, 30, parent=outer)
    size = function("<built-in method size of Tensor object at 0x7f01>", 25, 15, parent=inner)
    other = function("<built-in method size of Tensor object at 0x7f02>", 70, 5, parent=main)
    events = [
        main,
        outer,
        inner,
        size,
        other,
        function("threading.py(359): wait", 0, 90, tid=2),
        op("aten::mm", 12, 4),
        call("cudaLaunchKernel", 13, 1, 2),
        op("aten::linear", 28, 10),
        op("aten::addmm", 30, 6),
        call("cudaLaunchKernel", 31, 2, 1),
        kernel("k", 40, 30, 1),
        kernel("k", 60, 20, 2, stream=8),
    ]
    return wb.open(write(tmp_path, events))


def test_frames(trace):
    found = wb.frames(trace)
    columns = ("thread", "name", "calls", "self_host_ns", "python_ns", "total_host_ns", "device_ns")
    assert found.select(columns).rows() == [
        (1, "threading.py(359): wait", 1, 90 * US, 90 * US, 90 * US, 0),
        (0, "m.py(1): main", 1, 45 * US, 45 * US, 100 * US, 40 * US),  # 100 - 50 - 5; 40-80
        # self 50 - 30 and 30 - 15; python less mm's 4; total the outer one alone; 40-80
        (0, FACT, 2, 35 * US, 31 * US, 50 * US, 40 * US),
        # 15 + 5, less linear's 10 which holds addmm; 40-70
        (0, "<built-in method size of Tensor object>", 2, 20 * US, 10 * US, 20 * US, 30 * US),
    ]
    assert found["host_share"].to_list() == [1.0, 0.45, 0.35, 0.2]


def test_a_call_begun_in_an_operator_is_not_less_for_it(tmp_path):
    # autograd's node wraps the Python of a custom backward: that is Python's time all the same
    events = [op("node", 0, 50), function("f.py(1): backward", 10, 30), op("aten::mul", 20, 5)]
    (row,) = wb.frames(wb.open(write(tmp_path, events))).rows(named=True)
    assert (row["self_host_ns"], row["python_ns"]) == (30 * US, 25 * US)


def test_calls_of_the_steps_alone(tmp_path):
    events = [step(1, 0, 50), step(2, 50, 50)]
    events += [function("f.py(1): f", ts, 10) for ts in (5, 55, 155)]
    events += [call("cudaLaunchKernel", t, 1, c) for t, c in ((6, 1), (56, 2), (156, 3))]
    events += [kernel("k", t, 4, c) for t, c in ((20, 1), (70, 2), (170, 3))]
    trace = wb.open(write(tmp_path, events))
    columns = ("calls", "total_host_ns", "device_ns")
    assert wb.frames(trace).select(columns).rows() == [(2, 20 * US, 8 * US)]
    assert wb.frames(trace, step=(2, 2)).select(columns).rows() == [(1, 10 * US, 4 * US)]
    assert wb.frames(trace, window="all").select(columns).rows() == [(3, 30 * US, 12 * US)]
    within = (50 * US, 72 * US)
    assert wb.frames(trace, window="all", within=within).select(columns).rows() == [
        (1, 10 * US, 2 * US)
    ]


def test_overlapping_siblings_count_once(tmp_path):
    # by clock jitter b runs on while c has begun: 10-30 and 25-60 are 50 of a's 100
    events = [function("a", 0, 100), function("b", 10, 20), function("c", 25, 35)]
    for event in events:
        event["args"] = {}
    found = wb.frames(wb.open(write(tmp_path, events)))
    own = dict(found.select("name", "self_host_ns").rows())
    assert own == {"a": 50 * US, "b": 20 * US, "c": 35 * US}


def test_without_stacks_there_is_a_reason_and_no_row(tmp_path):
    trace = wb.open(write(tmp_path, [op("aten::mm", 0, 4)]))
    assert wb.frames(trace).is_empty()
    (why,) = needs.unmet(trace, needs.of("workbench.analysis.frames"))
    assert "with_stack=True" in why


def test_generated_python(tmp_path):
    made = generate(SyntheticSpec())
    made.write(tmp_path)
    job = wb.open(tmp_path)
    for rank in (0, 1):
        found = wb.frames(job, rank=rank)
        assert set(found["calls"]) == {made.spec.steps}
        # the generated program's functions call no others
        assert found["self_host_ns"].to_list() == found["total_host_ns"].to_list()
        own = dict(found.select("name", "self_host_ns").rows())
        planted = made.answers.ranks[rank].windows["steps"].idle["host_python"]
        assert own["train.py(58): log_metrics"] >= planted == made.spec.steps * 20_000


# a stack: how long each call runs before, between and after the calls in it
nested = st.recursive(
    st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.just([])),
    lambda inner: st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.lists(inner, max_size=3)),
    max_leaves=12,
)


def laid_out(tree, at, above, out):
    name, pause, inner = tree
    row = len(out)
    out.append([name, at, 0, above])
    at += pause
    for child in inner:
        at = laid_out(child, at, row, out) + pause
    out[row][2] = at
    return at


@given(
    st.lists(nested, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9), st.integers(0, 1)), max_size=6),
)
def test_frames_against_points(tmp_path_factory, trees, work):
    calls, at = [], 0
    for tree in trees:
        at = laid_out(tree, at, None, calls) + 1
    events = []
    for name, start, end, above in calls:
        parent = None if above is None else events[above]
        events.append(function(name, start, end - start, parent=parent))
    ops = [(t, d) for t, d, _ in work]
    events += [op(f"op{i}", t, d) for i, (t, d) in enumerate(ops)]
    events += [call("cudaLaunchKernel", t, 0, i + 1) for i, (t, _) in enumerate(ops)]
    device = [(100 + 3 * i, 100 + 3 * i + d) for i, (_, d) in enumerate(ops)]
    events += [kernel("k", s, e - s, i + 1, stream=i) for i, (s, e) in enumerate(device)]
    found = wb.frames(wb.open(write(tmp_path_factory.mktemp("f"), events), cache=False))
    assert found.height == len({c[0] for c in calls})
    for row in found.rows(named=True):
        want = np.zeros(5, np.int64)
        for i, (name, start, end, above) in enumerate(calls):
            if name != row["name"]:
                continue
            below = points((c[1], c[2]) for c in calls if c[3] == i)
            own = set(range(start, end)) - below
            mine = [(t, min(t + d, end)) for t, d in ops if innermost(calls, t) == i]
            outermost = not any(calls[j][0] == name for j in ancestors(calls, above))
            seen = points(device[j] for j, (t, _) in enumerate(ops) if start <= t < end)
            want += [1, len(own), len(own - points(mine)), (end - start) * outermost,
                     len(seen) * outermost if ops else 0]  # fmt: skip
        got = [row["calls"], *(row[c] // US for c in ("self_host_ns", "python_ns",
                                                      "total_host_ns"))]  # fmt: skip
        assert [*got, (row["device_ns"] or 0) // US] == want.tolist()


def test_an_operator_that_outlives_the_one_it_began_in_is_not_python(tmp_path):
    # f 0-10, in it op0 2-5 and op1 3-6: python is 0-2 and 6-10
    events = [function("f", 0, 10), op("op0", 2, 3), op("op1", 3, 3)]
    found = wb.frames(wb.open(write(tmp_path, events), cache=False))
    assert found["python_ns"].to_list() == [6 * US]


def points(stretches):
    return {t for start, end in stretches for t in range(start, end)}


def ancestors(calls, row):
    return [] if row is None else [row, *ancestors(calls, calls[row][3])]


def innermost(calls, t):
    return max((i for i, c in enumerate(calls) if c[1] <= t < c[2]), default=None)


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("file", "top"),
    [
        ("tracelens/h100_bert_small_inference.json.gz", "threading.py(359): wait"),
        ("tracelens/mi300_vllm_piecewise_graph_execution.json.gz", "triton/runtime/jit.py(574)"),
        ("ascend_npu/pytorch_level1_rank0_trace_view.json.gz", "<string>(1): <module>"),
    ],
)
def test_recorded_frames(corpus, file, top):
    found = wb.frames(wb.open(corpus / "traces" / file))
    assert found["name"][0].startswith(top)
    assert (found["python_ns"] <= found["self_host_ns"]).all()
    assert (found["self_host_ns"] <= found["total_host_ns"]).all()
    assert not found["name"].str.contains(" at 0x").any()
