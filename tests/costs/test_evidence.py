import json

import pytest
from costs.made import op_row, trace_of

from workbench import costs
from workbench.costs.evidence import completed

SPACE = "at::native::(anonymous namespace)::"
APPLY = f"void {SPACE}multi_tensor_apply_kernel<{SPACE}TensorListMetadata<2>, {SPACE}"
LISTS = [[[3, 4], [3, 4]], [[3, 4], [3, 4]], []]
TYPES = ["TensorList", "TensorList", "Scalar"]


def kernel(name, op=0, number=0, grid=None):
    return {
        "id": number, "kind": "kernel", "name": name, "start_ns": 0, "dur_ns": 1, "op": op,
        "grid": grid,
    }  # fmt: skip


def foreach(name="aten::_foreach_add_", dims=LISTS):
    return op_row(0, name, None, 0, dims, TYPES, None, ["", "", "1"])


@pytest.mark.parametrize(
    ("name", "types"),
    [
        (f"{APPLY}BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>(…)",
         '["float","float","Scalar"]'),
        (f"{APPLY}BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>, std::plus<float>, float>(…)",
         '["c10::BFloat16","c10::BFloat16","Scalar"]'),
        # destination, source
        (f"{APPLY}CopyFunctor<int, long, 2, 1, 1>, at::native::Copy<int, long> >(…)",
         '["int","long","Scalar"]'),
        (f"void {SPACE}CatArrayBatchedCopy_contig<{SPACE}OpaqueType<2u>, unsigned int, 3, 128, 1>",
         '["OpaqueType<2u>","OpaqueType<2u>","Scalar"]'),
        (("void at::native::<unnamed>::CatArrayBatchedCopy_vectorized<at::native::<unnamed>::"
         "OpaqueType<(unsigned int)4>, unsigned int, (int)1>"),
         '["OpaqueType<4u>","OpaqueType<4u>","Scalar"]'),
        ("void other_kernel<float>", '["TensorList","TensorList","Scalar"]'),
        (f"{APPLY}StrangeFunctor<Weird, 2>", '["TensorList","TensorList","Scalar"]'),
    ],
)  # fmt: skip
def test_the_kernel_names_the_type_of_a_list(name, types):
    trace = trace_of([foreach()], [kernel(name)])
    assert json.loads(completed(trace, trace.ops)["input_types"][0]) == json.loads(types)


def test_bytes_follow():
    # two lists of 24 elements of 2 bytes are read, one is written
    name = f"{APPLY}BinaryOpListAlphaFunctor<c10::Half, 2, 2, 0>, std::plus<float>, float>"
    found = costs.operators(trace_of([foreach()], [kernel(name)]))
    assert found.select("read_bytes", "write_bytes", "precision").rows() == [(96, 48, "fp16")]


def test_kernels_that_disagree_tell_nothing():
    names = [f"{APPLY}BinaryOpListAlphaFunctor<{t}, 2, 2, 0>" for t in ("float", "double")]
    trace = trace_of([foreach()], [kernel(n, number=i) for i, n in enumerate(names)])
    found = costs.operators(trace)
    assert found.select("flops", "read_bytes").rows() == [(24, None)]


def test_on_the_host_the_operators_on_one_tensor_tell():
    one = [[3, 4], [3, 4], []]
    rows = [op_row(n, "aten::add_", 0, 1, one, ["float", "float", "Scalar"]) for n in (1, 2)]
    found = costs.operators(trace_of([foreach(), *rows], kind="cpu", device=None))
    # the list counts, and what it calls is part of it
    assert found.select("op", "flops", "read_bytes").rows() == [(0, 24, 192)]


def test_types_that_are_no_json_stay_as_they_are():
    row = foreach() | {"input_types": '["TensorList", '}
    name = f"{APPLY}BinaryOpListAlphaFunctor<float, 2, 2, 0>"
    trace = trace_of([row], [kernel(name)])
    assert completed(trace, trace.ops)["input_types"].to_list() == ['["TensorList", ']


def batch_norm(concrete=None):
    dims = [[2, 3, 4], [3], [3], [3], [3], [], [], []]
    types = ["float"] * 5 + ["Bool", "Double", "Double"]
    return op_row(0, "aten::cudnn_batch_norm", None, 0, dims, types, None, concrete)


@pytest.mark.parametrize(
    ("name", "flops"),
    # 7 * 24 + 3 * 11 in training, 4 * 24 + 3 * 2 in evaluation
    [("void cudnn::bn_fw_tr_1C11_singleread<float, 512>", 201),
     ("void cudnn::bn_fw_inf_1C11_kernel_NCHW<float>", 102), ("other", None)],
)  # fmt: skip
def test_the_kernel_tells_whether_a_batch_norm_trains(name, flops):
    found = costs.operators(trace_of([batch_norm()], [kernel(name)]))["flops"].to_list()
    assert found == ([] if flops is None else [flops])


def test_what_was_recorded_is_not_overruled():
    row = batch_norm(["", "", "", "", "", "False", "", ""])
    trace = trace_of([row], [kernel("void cudnn::bn_fw_tr_1C11_singleread<float, 512>")])
    assert costs.operators(trace)["flops"].to_list() == [102]


@pytest.mark.parametrize(
    ("grid", "read", "written"),
    [
        # 5 indices of rows of 512 * 64 * 2 = 65,536 bytes, 16 blocks of 256 threads of 16 bytes
        ([5, 16, 1], 5 * 65_536 + 40, 5 * 65_536),
        # a grid that is not that of rows tells nothing
        ([5, 15, 1], None, None),
        (None, None, None),
    ],
)
def test_a_gather_has_a_block_column_for_each_index(grid, read, written):
    row = op_row(0, "aten::index", None, 0, [[9, 512, 64], []], ["c10::BFloat16", ""])
    gather = kernel("void at::native::vectorized_gather_kernel<16, long>(char*)", grid=grid)
    found = costs.operators(trace_of([row], [gather]))
    assert found.select("flops", "read_bytes", "write_bytes").rows() == [(0, read, written)]
