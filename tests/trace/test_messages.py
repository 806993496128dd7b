"""How much a collective moved, from the tensors of its operator or of the range around it."""

import polars as pl
import pytest
from rawtables import attributed, call, kernel, mark, op

NCCL = {"kind": "collective"}


def moved(*, ops=(), ranges=(), kernel_name="ncclKernel_SendRecv", kernel_args=None):
    trace = attributed(
        ops=[*ops],
        launches=[call("cudaLaunchKernel", 10, 1, 1)],
        activities=[kernel(kernel_name, 60, 5, 1, **NCCL, **(kernel_args or {}))],
        ranges=[*ranges],
    )
    columns = pl.col("dtype").cast(pl.String), "in_elements", "out_elements", "bytes"
    return trace.collectives.select(columns).row(0)


def alltoall(dims, types):
    base = op("c10d::alltoall_base_", 0, 50, input_dims=dims, input_types=types)
    return [base, op("record_param_comms", 1, 40)]


def test_an_operator_of_two_tensors_tells_both_sides():
    # output 768, input 3392 ints: the larger side, 3392 * 4 bytes, is the message
    told = moved(ops=alltoall("[[768],[3392],[],[]]", '["int","int","",""]'))
    assert told == ("int", 3392, 768, 13_568)


def test_a_range_tells_the_message_where_the_input_is_the_larger_side():
    around = mark("nccl:all_reduce", 0, 50, input_dims="[[100],[20]]", input_types='["float"]')
    told = moved(ops=[op("record_param_comms", 1, 40)], ranges=[around])
    assert told == ("float", 120, None, 480)


@pytest.mark.parametrize("name", ["nccl:_all_gather_base", "nccl:all_to_all", "nccl:gather"])
def test_the_input_of_a_gather_is_not_the_message(name):
    around = mark(name, 0, 50, input_dims="[[100]]", input_types='["float"]')
    assert moved(ops=[op("x", 1, 40)], ranges=[around]) == (None, None, None, None)


def test_what_the_kernel_says_itself_comes_first():
    told = moved(
        ops=alltoall("[[768],[3392]]", '["int","int"]'),
        kernel_args={"comm_in": 5, "comm_out": 5, "comm_dtype": "Float"},
    )
    assert told == ("Float", 5, 5, 20)


@pytest.mark.parametrize(
    ("dims", "types"),
    [("[[768],[]]", '["int","int"]'), ("[[768]]", '["int"]'), ("[768,3392]", '["int","int"]'),
     ("[[768],[-1]]", '["int","int"]'), ("nonsense", '["int","int"]'), (None, None)],
)  # fmt: skip
def test_an_operator_that_tells_one_side_tells_nothing(dims, types):
    assert moved(ops=alltoall(dims, types)) == (None, None, None, None)


@pytest.mark.corpus
def test_a_real_trace_of_2023(corpus):
    from workbench.trace.open import open_source

    # one all-to-all of 6144 floats each way of 24,576 bytes, one of unequal parts, an all-reduce
    # of 394,241 floats
    trace = open_source(corpus / "traces" / "param" / "dlrm_v100_8ranks" / "kineto_rank0.json.gz")
    assert trace.collectives["bytes"].to_list() == [
        24_576, 192, 1536, 13_568, 1_576_964, 24_576, 448, 907_840,
    ]  # fmt: skip
