"""Which kernels are collectives, and where what they moved is known from."""

import polars as pl
import pytest
from rawtables import attributed, call, kernel, mark, names, op

from workbench.trace.collectives import dtype_bytes

RECORD = "record_param_comms"
COMM = {
    "comm_name": "allreduce",
    "comm_group": "dp",
    "comm_group_size": 8,
    "comm_dtype": "BFloat16",
    "comm_in": 1000,
    "comm_out": 1000,
}


def record(start, dur, **more):
    return op(RECORD, start, dur, **(COMM | more))


def launch(at, correlation, name="cudaLaunchKernel"):
    return call(name, at, 1, correlation)


def kinds(trace):
    return dict(zip(names(trace.activities), trace.activities["kind"], strict=True))


def test_a_kernel_that_a_record_launched_is_a_collective_whatever_its_name():
    trace = attributed(
        ops=[op("c10d::allreduce_", 0, 20), record(2, 16), op("aten::add", 30, 5)],
        launches=[launch(5, 1), launch(31, 2)],
        activities=[kernel("one_shot_kernel", 40, 10, 1), kernel("add", 60, 5, 2)],
    )
    assert kinds(trace) == {"one_shot_kernel": "collective", "add": "kernel"}
    row = trace.collectives.row(0, named=True)
    assert (row["activity"], row["name"], row["group"], row["bytes"]) == (
        0, "all_reduce", "dp", 2000,
    )  # fmt: skip


def test_what_a_record_launches_besides_is_no_collective():
    # a copy, a copy call that runs as a kernel, and an operator's own kernel inside the record
    trace = attributed(
        ops=[record(0, 50), op("aten::copy_", 10, 10)],
        launches=[
            launch(1, 1, "cudaMemcpyAsync"),
            launch(3, 2, "hipMemcpyWithStream"),
            launch(12, 3),
        ],
        activities=[
            kernel("Memcpy DtoD", 60, 5, 1, kind="copy"),
            kernel("__amd_rocclr_copyBuffer", 70, 5, 2),
            kernel("elementwise_copy", 80, 5, 3),
        ],
    )
    assert kinds(trace) == {
        "Memcpy DtoD": "copy",
        "__amd_rocclr_copyBuffer": "kernel",
        "elementwise_copy": "kernel",
    }
    assert trace.collectives.height == 0


def test_helpers_beside_a_known_collective_stay_kernels():
    trace = attributed(
        ops=[record(0, 50)],
        launches=[launch(1, 1), launch(3, 2)],
        activities=[
            kernel("checkForNaN", 60, 5, 1),
            kernel("ncclDevKernel_AllReduce", 70, 5, 2, kind="collective"),
        ],
    )
    assert kinds(trace) == {"checkForNaN": "kernel", "ncclDevKernel_AllReduce": "collective"}
    # another record's helper has nothing to do with it
    trace = attributed(
        ops=[record(0, 50), record(100, 50)],
        launches=[launch(1, 1), launch(103, 2)],
        activities=[
            kernel("custom", 60, 5, 1),
            kernel("ncclDevKernel_AllReduce", 170, 5, 2, kind="collective"),
        ],
    )
    assert set(kinds(trace).values()) == {"collective"}


def test_a_record_is_found_above_operators_of_communication_only():
    trace = attributed(
        ops=[record(0, 50), op("nccl:all_reduce", 5, 40), op("aten::cat", 60, 5)],
        launches=[launch(10, 1)],
        activities=[kernel("custom", 60, 5, 1)],
    )
    assert kinds(trace) == {"custom": "collective"}
    assert trace.collectives["bytes"].to_list() == [2000]


def test_records_of_old_traces_have_no_arguments():
    trace = attributed(
        ops=[op(RECORD, 0, 50)],
        launches=[launch(10, 1)],
        activities=[kernel("custom", 60, 5, 1)],
    )
    assert kinds(trace) == {"custom": "collective"}
    assert trace.collectives.select("name", "bytes").rows() == [("unknown", None)]


def test_own_record_first_then_the_operators_then_the_payload_around_the_launch():
    nccl = {"kind": "collective"}
    payload = mark("ncclAllReduce", 0, 100, domain="nccl", comm_name="allreduce", comm_seq=7,
                   comm_in=5, comm_out=5, comm_dtype="ncclFloat32")  # fmt: skip
    inner = mark("ncclGroup", 1, 50, domain="nccl")
    trace = attributed(
        ops=[record(0, 20, comm_dtype=None), op("other", 30, 20)],
        launches=[launch(10, 1), launch(40, 2), launch(200, 3)],
        activities=[
            kernel("ncclDevKernel_AllReduce", 60, 5, 1, comm_in=3, **nccl),
            kernel("ncclDevKernel_AllReduce", 70, 5, 2, **nccl),
            kernel("ncclDevKernel_AllReduce", 210, 5, 3, **nccl),
        ],
        ranges=[payload, inner],
    )
    wanted = ["in_elements", "out_elements", "dtype", "seq", "bytes"]
    assert trace.collectives.with_columns(pl.col("dtype").cast(pl.String)).select(
        wanted
    ).rows() == [
        (3, 1000, "ncclFloat32", 7, 4000),
        (5, 5, "ncclFloat32", 7, 20),
        (None, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("Double", 8), ("Long", 8), ("UInt64", 8), ("ComplexFloat", 8), ("ncclInt64", 8),
        ("Float", 4), ("Int", 4), ("UInt32", 4), ("ComplexHalf", 4), ("QInt32", 4),
        ("ncclFloat", 4), ("torch.float32", 4), ("HCCL_DATA_TYPE_FP32", 4),
        ("Half", 2), ("c10::BFloat16", 2), ("UInt16", 2), ("Short", 2), ("Bits16", 2),
        ("ncclBfloat16", 2), ("unsigned short", 2),
        ("Byte", 1), ("Char", 1), ("Bool", 1), ("QInt8", 1), ("QUInt8", 1), ("Bits8", 1),
        ("Float8_e4m3fn", 1), ("Float8_e5m2fnuz", 1), ("Float8_e8m0fnu", 1),
        ("Float4_e2m1fn_x2", 1), ("ncclFloat8e4m3", 1),
        ("ComplexDouble", 16), ("c10::complex<double>", 16), ("c10::complex<float>", 8),
        ("Strange", None), (None, None),
    ],
)  # fmt: skip
def test_bytes_of_an_element(name, size):
    assert dtype_bytes(name) == size
