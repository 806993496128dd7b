"""Backward operators, their forward partners and the modules of both."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rawtables import META, attributed, mark, names, op, problems, table

import workbench as wb
from workbench.trace.core import Thread, TraceMeta
from workbench.trace.partners import forward

NODE = "autograd::engine::evaluate_function: "


def back(name, start, dur, sequence, **more):
    usual = {"thread": 1, "forward_thread": 1}
    return op(name, start, dur, sequence=sequence, **(usual | more))


def partners(trace):
    """Backward operator to forward partner, by name."""
    called = names(trace.ops)
    pairs = zip(called, trace.ops["forward"], strict=True)
    return {n: called[f] for n, f in pairs if f is not None}


def test_the_operator_that_makes_the_node_is_the_partner():
    # linear (next number 7) calls t, which makes node 7, and addmm, which makes node 8; before
    # them an operator without gradient saw the same next number
    ops = [
        op("aten::ones", 0, 5, sequence=7),
        op("aten::linear", 10, 50, sequence=7),
        op("aten::t", 12, 8, sequence=7),
        op("aten::transpose", 14, 2),
        op("aten::addmm", 25, 20, sequence=8),
        back(NODE + "AddmmBackward0", 100, 30, 8),
        back("AddmmBackward0", 102, 20, 8),
        op("aten::mm", 104, 5, 1),
        back(NODE + "TBackward0", 140, 30, 7),
    ]
    assert partners(attributed(ops=ops)) == {
        NODE + "AddmmBackward0": "aten::addmm",
        "AddmmBackward0": "aten::addmm",
        NODE + "TBackward0": "aten::t",
    }


def test_of_two_that_begin_at_once_the_inner_one_made_the_node():
    ops = [op("aten::linear", 10, 50, sequence=7), op("aten::t", 10, 8, sequence=7),
           back("TBackward0", 100, 5, 7)]  # fmt: skip
    assert partners(attributed(ops=ops)) == {"TBackward0": "aten::t"}


def test_backward_on_the_thread_of_forward():
    ops = [op("aten::mm", 0, 5, sequence=5), back("MmBackward0", 10, 5, 5, thread=0)]
    assert partners(attributed(ops=ops)) == {"MmBackward0": "aten::mm"}


def test_the_forward_thread_is_the_one_that_holds_the_numbers():
    # thread 0 made nodes 1-3, thread 2 (recomputation) others and by chance number 2
    ops = [op(f"aten::f{n}", n, 1, sequence=n) for n in (1, 2, 3)]
    ops += [op("aten::g", 5, 1, 2, sequence=2)]
    ops += [back(f"F{n}Backward", 10 + n, 1, n, forward_thread=4) for n in (1, 2, 3)]
    found = partners(attributed(ops=ops))
    assert found == {f"F{n}Backward": f"aten::f{n}" for n in (1, 2, 3)}


def test_threads_that_cannot_be_told_apart_give_no_partner():
    # two replicas on two threads number their nodes alike
    ops = [op("aten::a", 0, 1, 0, sequence=1), op("aten::b", 0, 1, 2, sequence=1)]
    ops += [back(n, 10, 1, 1, forward_thread=f) for n, f in (("ABackward", 3), ("BBackward", 4))]
    trace = attributed(ops=ops)
    assert partners(trace) == {}
    assert problems(trace) == [("forward_thread_unknown", 2)]


def test_a_thread_number_belongs_to_its_process():
    # both processes call their first thread 1, and number alike
    threads = (Thread(1, 1), Thread(1, 2), Thread(2, 1), Thread(2, 2))
    meta = TraceMeta(path=META.path, format="test", sha256="", origin_ns=0, threads=threads)
    ops = [op("aten::a", 0, 1, 0, sequence=1), op("aten::b", 0, 1, 2, sequence=1)]
    ops += [back("ABackward", 10, 1, 1, thread=1), back("BBackward", 10, 1, 1, thread=3)]
    found = partners(attributed(ops=ops, meta=meta))
    assert found == {"ABackward": "aten::a", "BBackward": "aten::b"}


def test_a_forward_operator_after_it_is_no_partner():
    ops = [back("ABackward", 0, 1, 1), op("aten::a", 5, 1, sequence=1)]
    assert partners(attributed(ops=ops)) == {}


forwards = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 20)), max_size=12
)
backwards = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 4), st.integers(0, 20)), max_size=6
)


@given(forwards, backwards)
def test_forward(made, asked):
    ops = [op("f", s, 1, t, sequence=n) for t, n, s in made]
    ops += [back("b", s, 1, n, forward_thread=f, thread=5) for f, n, s in asked]
    frame = table("ops", ops).sort("thread", "start_ns", maintain_order=True)
    found = forward(frame, META.threads, []).tolist()
    rows = frame.rows(named=True)

    def gave(thread, number):
        """How many numbers of a forward thread a host thread gave before they came back."""
        first = {n: min(s for u, m, s in made if (u, m) == (thread, n)) for u, n, _ in made
                 if u == thread}  # fmt: skip
        came = {n: min(s for g, m, s in asked if (g, m) == (number, n)) for g, n, _ in asked
                if g == number}  # fmt: skip
        return sum(first[n] <= came[n] for n in first.keys() & came.keys())

    votes = {f: {t: gave(t, f) for t in range(3)} for f in (1, 2)}
    for i, r in enumerate(rows):
        if r["forward_thread"] is None:
            assert found[i] == -1
            continue
        held = votes[r["forward_thread"]]
        best = [t for t, v in held.items() if v and v == max(held.values())]
        candidates = [
            j for j, q in enumerate(rows)
            if best == [q["thread"]] and q["sequence"] == r["sequence"]
            and q["start_ns"] <= r["start_ns"]
        ]  # fmt: skip
        assert found[i] == max(candidates, default=-1)


def module(name, start, dur, thread=0):
    return op(f"nn.Module: {name}", start, dur, thread)


def modules(trace):
    return dict(zip(names(trace.ops), names(trace.ops, "module"), strict=True))


def test_the_innermost_module_that_began_before_and_runs_at_the_midpoint():
    # Block 0-100 holds Linear 20-40; "crosses" ends after Linear and "holds" begins before it
    ops = [op("before", 5, 10), op("in", 22, 6), op("crosses", 34, 10), op("late", 38, 10),
           op("outside", 100, 5), op("elsewhere", 25, 5, 1)]  # fmt: skip
    calls = [module("Block_0", 0, 100), module("Linear_3", 20, 20)]
    assert modules(attributed(ops=ops, modules=calls)) == {
        "before": "Block_0",
        "in": "Linear_3",
        "crosses": "Linear_3",
        "late": "Block_0",
        "outside": None,
        "elsewhere": None,
    }
    assert modules(attributed(ops=[op("holds", 18, 24)], modules=calls)) == {"holds": "Block_0"}


def test_backward_takes_the_module_of_its_forward_partner():
    ops = [
        op("aten::addmm", 25, 10, sequence=8),
        back(NODE + "AddmmBackward0", 100, 30, 8),
        back("AddmmBackward0", 102, 20, 8),
        op("aten::mm", 104, 5, 1),
        op(NODE + "torch::autograd::AccumulateGrad", 140, 9, 1),
        op("aten::detach", 141, 2, 1),
    ]
    trace = attributed(ops=ops, modules=[module("Linear_3", 20, 20)])
    lent = dict.fromkeys(("aten::addmm", NODE + "AddmmBackward0", "AddmmBackward0", "aten::mm"),
                         "Linear_3")  # fmt: skip
    rest = dict.fromkeys((NODE + "torch::autograd::AccumulateGrad", "aten::detach"))
    assert modules(trace) == lent | rest


def test_recomputation_in_backward_has_only_its_own_module():
    # below the node of Block's relu the checkpoint runs Linear again, and something outside it
    ops = [
        op("aten::relu", 5, 5, sequence=1),
        back(NODE + "ReluBackward0", 100, 60, 1),
        op("aten::again", 110, 10, 1, sequence=0),
        op("aten::linear", 130, 10, 1, sequence=1),
    ]
    calls = [module("ReLU_0", 0, 20), module("Linear_0", 125, 20, thread=1)]
    trace = attributed(ops=ops, modules=calls, ranges=[mark("ProfilerStep#1", 0, 200)])
    found = modules(trace)
    assert found["aten::linear"] == "Linear_0"
    assert found["aten::again"] is None
    assert found[NODE + "ReluBackward0"] == "ReLU_0"


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("hta/ns_resolution_resnet_ddp_v100", 1810),
        ("tracelens/mi300_resnet_ddp_act_checkpoint_rank0_of_8", 426),
        ("param/linear_rtx2080ti_kineto", 5280),
        ("kineto/resnet50_v100_num_workers_0_2021", 1068),
        ("hta/trace_diff_control_a100_rank3_of_8", 4764),
    ],
)
def test_partners_in_recordings(corpus, name, nodes):
    """Every node of recorded training finds a partner, and the names agree with it."""
    trace = wb.open(corpus / "traces" / f"{name}.json.gz")
    pairs = partners_by_name(trace)
    assert pairs["count"].sum() == nodes
    agree = pairs.filter(pl.col("node") == pl.col("partner"))["count"].sum()
    assert agree > 0.75 * nodes


def partners_by_name(trace):
    """`aten::cudnn_batch_norm` and `CudnnBatchNormBackward0` are both `cudnnbatchnorm`."""
    bare = pl.col("name").cast(pl.String).str.to_lowercase().str.replace_all(r"[_ ]", "")
    plain = bare.str.replace(r"^.*::|^.*: ?", "").str.replace(r"backward\d*$", "")
    ops = trace.ops.select("id", "forward", plain=plain)
    both = ops.join(ops, left_on="forward", right_on="id", suffix="_forward")
    return both.group_by(node="plain", partner="plain_forward").agg(count=pl.len())
