import polars as pl
import pytest
from costs.made import op_row, ops_of_profile, trace_of

from workbench import costs
from workbench.costs.cost import CONVENTIONS, SCHEMA
from workbench.costs.levels import owners
from workbench.costs.models import prices
from workbench.errors import UsageError

F2 = ["float", "float"]


@pytest.fixture
def case(corpus):
    def read(name):
        ops = ops_of_profile(corpus / "cases" / f"{name}.json")
        return trace_of(ops, kind="cpu", device=None)

    return read


def worked(trace):
    """FLOPs of the products and attention of a trace, in order."""
    frame = costs.operators(trace)
    return frame.filter(pl.col("model").is_in(["matmul", "attention"]))["flops"].to_list()


def test_a_wrapper_and_what_it_calls_count_once():
    # linear > addmm, and a mm alone: two rows, 1024 + 4,194,304
    trace = trace_of([
        op_row(0, "aten::linear", None, 0, [[4, 8], [16, 8], [16]], ["float"] * 3),
        op_row(1, "aten::t", 0, 1, [[16, 8]], ["float"]),
        op_row(2, "aten::addmm", 0, 1, [[16], [4, 8], [8, 16]], ["float"] * 3),
        op_row(3, "aten::mm", None, 0, [[64, 128], [128, 256]], F2),
    ])  # fmt: skip
    frame = costs.operators(trace)
    assert frame.schema == SCHEMA
    # the view t costs nothing, and does not hide what is beside it
    assert frame.select("op", "flops").rows() == [(1, 0), (2, 1024), (3, 4_194_304)]


def test_what_does_its_work_itself_counts_and_not_what_it_calls():
    # addmm > mm (as a library may do it): the addmm, 2 * 4*16*8, counts; the mm is part of it
    trace = trace_of([
        op_row(0, "aten::addmm", None, 0, [[16], [4, 8], [8, 16]], ["float"] * 3),
        op_row(1, "aten::unknown", 0, 1),
        op_row(2, "aten::mm", 1, 2, [[4, 8], [8, 16]], F2),
    ])  # fmt: skip
    assert costs.operators(trace).select("op", "flops").rows() == [(0, 1024)]


@pytest.mark.parametrize(
    ("name", "is_view"),
    [("autograd::engine::evaluate_function: MulBackward0", True), ("MulBackward0", True),
     ("torch::autograd::AccumulateGrad", True), ("CompiledFunctionBackward", False),
     ("MyFunctionBackward", False), ("torch::autograd::CppNode<Lookup>", False)],
)  # fmt: skip
def test_nodes_of_autograd_leave_the_work_to_what_they_call(name, is_view):
    trace = trace_of([op_row(0, name, None, 0, [[4]], ["float"])])
    assert costs.operators(trace)["model"].to_list() == (["view"] if is_view else [])


def test_conventions_are_choices_of_parts():
    # addmm 4x8 @ 8x16 with a bias: 1024 and 64 adds. Causal attention 1x1x4x8 on itself: scores
    # and values of 8 of 16 pairs, 2*8*(8+8) = 256, and 256 more that the mask drops.
    sdpa = [[1, 1, 4, 8]] * 3 + [[]] * 2
    trace = trace_of([
        op_row(0, "aten::addmm", None, 0, [[16], [4, 8], [8, 16]], ["float"] * 3),
        op_row(1, "aten::_scaled_dot_product_flash_attention", None, 0, sdpa,
               ["float"] * 3 + ["Scalar"] * 2, None, ["", "", "", "0.", "True"]),
    ])  # fmt: skip
    flops = {n: costs.operators(trace, convention=n)["flops"].to_list() for n in CONVENTIONS}
    assert flops == {
        "default": [1024, 256],
        "model": [1024, 256],
        "epilogues": [1088, 256],
        "full_attention": [1024, 512],
        "tracelens": [1088, 256],
    }
    with pytest.raises(UsageError, match="convention"):
        costs.operators(trace, convention="tracelense")


def test_the_innermost_counts_through_operators_without_a_model():
    trace = trace_of([
        op_row(0, "aten::matmul", None, 0, [[4, 8], [8, 5]], F2),
        op_row(1, "aten::unknown", 0, 1),
        op_row(2, "aten::mm", 1, 2, [[4, 8], [8, 5]], F2),
    ])  # fmt: skip
    assert costs.operators(trace)["op"].to_list() == [2]


def test_a_wrapper_counts_when_the_inner_shapes_are_unusable():
    trace = trace_of([
        op_row(0, "aten::matmul", None, 0, [[4, 8], [8, 5]], F2),
        op_row(1, "aten::mm", 0, 1, "not json", F2),
    ])  # fmt: skip
    assert costs.operators(trace)["op"].to_list() == [0]
    reasons = prices(trace).select("op", "reason").rows()
    assert reasons == [(0, None), (1, "input dims are not JSON")]


def test_nothing_for_operators_without_a_model_and_for_an_empty_trace():
    assert costs.operators(trace_of([op_row(0, "my::relu", None, 0, [[4]], ["float"])])).is_empty()
    assert costs.operators(trace_of([])).schema == SCHEMA


def test_views_need_no_arguments_and_composites_leave_the_work_to_others():
    # reshape > clone > copy_: only the copy moves, 4*8 floats read and written; the view alone
    # has arguments that cannot be used and costs nothing all the same
    trace = trace_of([
        op_row(0, "aten::reshape", None, 0, [[4, 8], []], ["float", "ScalarList"]),
        op_row(1, "aten::clone", 0, 1, [[4, 8], []], ["float", "Scalar"]),
        op_row(2, "aten::copy_", 1, 2, [[4, 8], [4, 8], []], ["float", "float", "Scalar"]),
        op_row(3, "aten::view", None, 0, "not json", "not json"),
    ])  # fmt: skip
    frame = costs.operators(trace)
    assert frame.select("op", "model", "read_bytes", "write_bytes").rows() == [
        (0, "view", 0, 0), (1, "view", 0, 0), (2, "copy", 128, 128), (3, "view", 0, 0),
    ]  # fmt: skip
    assert prices(trace)["reason"].null_count() == 4


def test_a_view_that_launched_a_kernel_is_not_one():
    kernel = {"id": 0, "kind": "kernel", "name": "k", "start_ns": 0, "dur_ns": 5, "op": 0}
    ops = [op_row(n, "aten::view", None, 0, [[4]], ["float"]) for n in range(2)]
    assert costs.operators(trace_of(ops, [kernel]))["op"].to_list() == [1]


def test_a_wrapper_that_launched_kernels_did_the_work():
    # linear > addmm: with a kernel of its own the linear counts, and not what it calls
    kernel = {"id": 0, "kind": "kernel", "name": "k", "start_ns": 0, "dur_ns": 5, "op": 0}
    ops = [
        op_row(0, "aten::linear", None, 0, [[4, 8], [16, 8], [16]], ["float"] * 3),
        op_row(1, "aten::addmm", 0, 1, [[16], [4, 8], [8, 16]], ["float"] * 3),
    ]
    assert costs.operators(trace_of(ops))["op"].to_list() == [1]
    assert costs.operators(trace_of(ops, [kernel]))["op"].to_list() == [0]


def test_what_an_operator_calls_on_the_way_is_part_of_it():
    # mul_ of a Python number on the host: the conversions inside are not counted again
    trace = trace_of([
        op_row(0, "aten::mul_", None, 0, [[3, 4], []], ["float", "Scalar"]),
        op_row(1, "aten::mul", 0, 1, [[], [3, 4], [3, 4]], ["double", "float", "float"]),
        op_row(2, "aten::copy_", 1, 2, [[], [], []], ["float", "double", "Scalar"]),
    ])  # fmt: skip
    assert costs.operators(trace).select("op", "flops").rows() == [(0, 12)]


def test_the_nearest_carrier_owns_what_runs_inside_it():
    # 0 linear > 1 addmm (carries) > 2 copy_ > 3 fill_;  4 relu alone
    parent = pl.Series([None, 0, 1, 2, None], dtype=pl.UInt32)
    ops = pl.Series([0, 1, 2, 3, 4, None], dtype=pl.UInt32)
    carriers = pl.Series([1], dtype=pl.UInt32)
    assert owners(parent, carriers, ops).to_list() == [0, 1, 1, 1, 4, None]
    nothing = pl.Series([], dtype=pl.UInt32)
    assert owners(nothing, nothing, pl.Series([None], dtype=pl.UInt32)).to_list() == [None]


@pytest.mark.corpus
def test_k45_attention_on_the_cpu(case):
    assert worked(case("K45_sdpa_cpu")) == [12_582_912]


@pytest.mark.corpus
def test_k46_matmul_family(case):
    assert worked(case("K46_matmul_family")) == [1920, 16, 64, 1024]


@pytest.mark.corpus
def test_k44_a_transposed_convolution_counts_its_inputs_once(case):
    # every one of 2 * 2 * 3 input elements times a filter of 1 * 2 * 2: 48 multiply-adds
    found = costs.operators(case("K44_conv_transpose")).filter(pl.col("model") == "convolution")
    assert found.select("flops", "unit").rows() == [(96, "matrix")]


@pytest.mark.corpus
def test_k49_unknown_operators_have_no_row(case):
    frame = costs.operators(case("K49_flop_coverage"))
    assert frame.select("flops", "precision").rows() == [(4_194_304, "bf16")]
