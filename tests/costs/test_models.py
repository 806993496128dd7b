import polars as pl
import pytest
from costs.made import op_row, ops_of_profile, trace_of

from workbench import costs
from workbench.costs.cost import CONVENTIONS
from workbench.costs.models import SCHEMA, owners, prices
from workbench.errors import UsageError

F2 = ["float", "float"]


@pytest.fixture
def case(corpus):
    def read(name):
        ops = ops_of_profile(corpus / "cases" / f"{name}.json")
        return trace_of(ops, kind="cpu", device=None)

    return read


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
    assert frame.select("op", "flops").rows() == [(2, 1024), (3, 4_194_304)]


def test_what_does_its_work_itself_counts_and_not_what_it_calls():
    # addmm > mm (as a library may do it): the addmm, 2 * 4*16*8, counts; the mm is part of it
    trace = trace_of([
        op_row(0, "aten::addmm", None, 0, [[16], [4, 8], [8, 16]], ["float"] * 3),
        op_row(1, "aten::unknown", 0, 1),
        op_row(2, "aten::mm", 1, 2, [[4, 8], [8, 16]], F2),
    ])  # fmt: skip
    assert costs.operators(trace).select("op", "flops").rows() == [(0, 1024)]


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
    assert costs.operators(
        trace_of([op_row(0, "aten::relu", None, 0, [[4]], ["float"])])
    ).is_empty()
    assert costs.operators(trace_of([])).schema == SCHEMA


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
    assert costs.operators(case("K45_sdpa_cpu"))["flops"].to_list() == [12_582_912]


@pytest.mark.corpus
def test_k46_matmul_family(case):
    assert costs.operators(case("K46_matmul_family"))["flops"].to_list() == [1920, 16, 64, 1024]


@pytest.mark.corpus
def test_k44_a_transposed_convolution_counts_its_inputs_once(case):
    # every one of 2 * 2 * 3 input elements times a filter of 1 * 2 * 2: 48 multiply-adds
    found = costs.operators(case("K44_conv_transpose")).filter(pl.col("model") == "convolution")
    assert found.select("flops", "unit").rows() == [(96, "matrix")]


@pytest.mark.corpus
def test_k49_unknown_operators_have_no_row(case):
    frame = costs.operators(case("K49_flop_coverage"))
    assert frame.select("flops", "precision").rows() == [(4_194_304, "bf16")]
