"""Phases of a training step by hand."""

import polars as pl
import pytest
from rawtables import attributed, call, kernel, mark, names, op, step

import workbench as wb

NODE = "autograd::engine::evaluate_function: "


def phases(*ops, ranges=()):
    trace = attributed(ops=list(ops), ranges=[step(1, 0, 1000), *ranges])
    return dict(zip(names(trace.ops), trace.ops["phase"], strict=True))


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("Optimizer.step#AdamW.step", "optimizer"),
        ("Optimizer.zero_grad#SGD.zero_grad", "optimizer"),
        ("zero_grad", "optimizer"),
        ("## zero_grad ##", "optimizer"),
        ("optimizer.zero_grad", "optimizer"),
        ("my_zero_grad_check", "forward"),
        ("Optimizer.stepping", "forward"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "data"),
        ("nccl:all_reduce", "communication"),
        ("c10d::allreduce_", "communication"),
    ],
)
def test_what_an_annotation_says(name, phase):
    assert phases(op("aten::x", 12, 5), ranges=[mark(name, 10, 20, domain="user")]) == {
        "aten::x": phase
    }


def test_outside_steps_is_other():
    assert phases(op("aten::x", 2000, 5)) == {"aten::x": "other"}


def test_what_hooks_do_between_nodes_on_autograds_thread_is_backward():
    found = phases(
        op("aten::mm", 0, 5, sequence=3),
        op(NODE + "MmBackward0", 20, 10, 1, sequence=3, forward_thread=1),
        op("aten::hook", 40, 5, 1),
        op("c10d::allreduce_", 50, 5, 1),
    )
    assert found["aten::hook"] == "backward"
    assert found["c10d::allreduce_"] == "communication"
    assert found["aten::mm"] == "forward"


def test_a_thread_that_begins_forward_operators_is_not_autograds():
    # backward on the caller's thread, as on the CPU: no mark stands on it
    found = phases(
        op("aten::mm", 0, 5, 1, sequence=3),
        op(NODE + "MmBackward0", 20, 10, 1, sequence=3, forward_thread=1),
        op("aten::add_", 40, 5, 1),
    )
    assert found == {
        "aten::mm": "forward", NODE + "MmBackward0": "backward", "aten::add_": "forward",
    }  # fmt: skip


def test_nodes_of_2021_have_no_engine_operator_around_them():
    found = phases(
        op("aten::mm", 0, 5, sequence=3),
        op("MmBackward", 20, 10, 1, sequence=3, forward_thread=1),
        op("aten::t", 22, 2, 1),
        op("torch::autograd::AccumulateGrad", 40, 5, 1),
    )
    assert found == {
        "aten::mm": "forward",
        "MmBackward": "backward",
        "aten::t": "backward",
        "torch::autograd::AccumulateGrad": "backward",
    }


def test_nodes_of_2021_on_the_callers_thread():
    found = phases(
        op("aten::mm", 0, 5, sequence=3),
        op("MmBackward", 20, 10, sequence=3, forward_thread=1),
        op("aten::t", 22, 2),
        op("aten::add", 40, 5),
    )
    assert found == {
        "aten::mm": "forward",
        "MmBackward": "backward",
        "aten::t": "backward",
        "aten::add": "forward",
    }


def test_a_forward_operator_below_a_node_is_recomputation():
    found = phases(
        op("aten::mm", 0, 5, sequence=3),
        op(NODE + "CheckpointBackward", 20, 100, 1, sequence=3, forward_thread=1),
        op("aten::again", 30, 20, 1, sequence=0),
        op("aten::inner", 35, 5, 1),
        op("aten::grad", 60, 5, 1),
    )
    assert found["aten::again"] == found["aten::inner"] == "recomputation"
    assert found["aten::grad"] == "backward"


def test_an_activity_without_a_launch_has_no_phase_and_no_step():
    trace = attributed(
        ranges=[step(1, 0, 100)],
        launches=[call("cudaLaunchKernel", 10, 1, 1)],
        activities=[kernel("a", 20, 5, 1), kernel("b", 30, 5, 2)],
    )
    assert trace.activities.select("phase", "step").rows() == [("forward", 1), (None, None)]


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    [
        "kineto/resnet50_v100_num_workers_0_2021",
        "hta/ns_resolution_resnet_ddp_v100",
        "hta/nccl_args_resnet_a100_rank0_of_2",
    ],
)
def test_backward_of_recorded_training_takes_about_twice_as_long_as_forward(corpus, name):
    """A convolution's backward is two convolutions: one for the input, one for the weights."""
    trace = wb.open(corpus / "traces" / f"{name}.json.gz")
    by_phase = dict(trace.activities.group_by("phase").agg(pl.col("dur_ns").sum()).rows())
    assert 1.6 < by_phase["backward"] / by_phase["forward"] < 2.4
    assert by_phase["optimizer"] > 0
