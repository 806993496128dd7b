"""Kernels and operators grouped by what an engineer asks for; occupancy and blocks an SM."""

import pytest
from tinytrace import call, kernel, op, write

import workbench as wb
from workbench.analysis.dtypes import of_inputs, of_name
from workbench.analysis.kernels import SCHEMA, multiprocessors
from workbench.errors import UsageError

US = 1000
H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}
MM = {"Input Dims": [[4, 8], [8, 2]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}


@pytest.fixture
def trace(tmp_path):
    """Two products of one shape, one of another, and a copy.

    gemm 0-10 (132 blocks, occupancy 0.5), 10-40 (264, 0.25), 40-45 (of another shape), copy 50-51
    """
    other = {"Input Dims": [[2, 2], [2, 2]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    shape = {"block": [128, 1, 1]}
    half, quarter = {"est. achieved occupancy %": 50}, {"est. achieved occupancy %": 25}
    return wb.open(
        write(
            tmp_path,
            [
                op("aten::mm", 0, 3, **MM), op("aten::mm", 4, 3, **MM),
                op("aten::mm", 8, 3, **other),
                call("cudaLaunchKernel", 1, 1, 1), call("cudaLaunchKernel", 5, 1, 2),
                call("cudaLaunchKernel", 9, 1, 3),
                kernel("gemm", 10, 10, 1, grid=[132, 1, 1], **shape, **half),
                kernel("gemm", 20, 30, 2, grid=[66, 2, 2], **shape, **quarter),
                kernel("gemm", 50, 5, 3),
                kernel("Memset (Device)", 60, 1, 4, cat="gpu_memset"),
            ],
            deviceProperties=[H100],
        )
    )  # fmt: skip


def test_by_name_with_p95_occupancy_and_blocks_per_sm(trace):
    frame = wb.kernels(trace)
    assert dict(frame.schema) == SCHEMA
    gemm, _ = frame.rows(named=True)
    assert gemm["p95_ns"] == pytest.approx(10_000 + 0.9 * 20_000)  # 5, 10, 30: rank 1.9
    # weighted by time over the two that have them: (0.5 x 10 + 0.25 x 30) / 40, (1 x 10 + 2 x 30)
    assert gemm["occupancy"] == pytest.approx(12.5 / 40)
    assert gemm["blocks_per_sm"] == pytest.approx(70 / 40)
    assert frame["occupancy"].to_list()[1] is None


def test_by_shape_type_and_grid(trace):
    by = ("name", "input_dims", "dtype")
    frame = wb.kernels(trace, by=by)
    assert frame.select("name", "dtype", "input_dims", "count", "total_ns").rows() == [
        ("gemm", "bf16", "[[4,8],[8,2]]", 2, 40 * US),
        ("gemm", "bf16", "[[2,2],[2,2]]", 1, 5 * US),
        ("Memset (Device)", None, None, 1, 1 * US),
    ]
    frame = wb.kernels(trace, by=["grid", "block"])
    assert frame.select("grid", "block", "total_ns").rows() == [
        ("66x2x2", "128x1x1", 30 * US),
        ("132x1x1", "128x1x1", 10 * US),
        (None, None, 6 * US),
    ]
    family = wb.kernels(trace, by="family")
    assert family.select("family", "count").rows() == [("gemm", 3), ("set", 1)]
    assert family["share"].sum() == pytest.approx(1)


def test_operators_by_shape(trace):
    columns = ("name", "input_dims", "calls", "self_device_ns", "total_host_ns")
    assert wb.ops(trace, by=("name", "input_dims")).select(columns).rows() == [
        ("aten::mm", "[[4,8],[8,2]]", 2, 40 * US, 6 * US),
        ("aten::mm", "[[2,2],[2,2]]", 1, 5 * US, 3 * US),
    ]  # fmt: skip
    assert wb.ops(trace, by=("phase",))["calls"].to_list() == [3]


def test_wrong_columns_get_a_sentence(trace):
    with pytest.raises(UsageError, match="did you mean grid"):
        wb.kernels(trace, by=("gird",))
    with pytest.raises(UsageError, match="input_dims"):
        wb.ops(trace, by=())


def test_host_execution_by_type(tmp_path):
    trace = wb.open(write(tmp_path, [op("aten::mm", 0, 10, **MM)]))
    assert wb.kernels(trace, by=("dtype", "grid")).select("dtype", "grid", "count").rows() == [
        ("bf16", None, 1)
    ]


def test_multiprocessors_come_from_the_recording_or_the_data_sheet(tmp_path):
    said = [
        ({"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 99}, 99),
        ({"id": 0, "name": "NVIDIA H100 80GB HBM3"}, 132),
        ({"id": 0, "name": "Some GPU"}, None),
        ({"id": 1, "name": "NVIDIA H100 80GB HBM3"}, None),
    ]
    for i, (device, wanted) in enumerate(said):
        path = write(tmp_path, [kernel("k", 0, 1)], f"{i}.json", deviceProperties=[device])
        assert multiprocessors(wb.open(path), 0) == wanted


def test_a_grid_that_counts_threads_gives_no_blocks(tmp_path):
    events = [
        call("hipExtModuleLaunchKernel", 0, 1, 1),
        kernel("Cijk", 2, 1, 1, grid=[256, 1, 1], block=[256, 1, 1]),
    ]
    trace = wb.open(write(tmp_path, events, deviceProperties=[H100]))
    assert wb.kernels(trace)["blocks_per_sm"].to_list() == [None]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("ampere_sgemm_128x64_tn", "fp32"),
        ("cutlass_80_tensorop_s1688gemm_tf32_64x64_16x6_nn_align4", "tf32"),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "bf16"),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn", "fp16"),
        ("elementwise_kernel<4, CUDAFunctor_add<c10::BFloat16>, array<char*, 3ul> >", "bf16"),
        ("void at::native::reduce_kernel<512, 1, ReduceOp<double, f>>", "fp64"),
        ("void at::native::vectorized_elementwise_kernel<4, FillFunctor<c10::Half>>", "fp16"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "fp32"),
        ("void reduce<c10::Half, float>", None),  # which is the data, which the sum?
        ("Cijk_Ailk_Bjlk_BBS_BH_Bias", None),
        ("behalf_of_floating_doubles", None),
    ],
)  # fmt: skip
def test_type_by_name(name, dtype):
    assert of_name(name) == dtype


@pytest.mark.parametrize(
    ("types", "dtype"),
    [
        ('["float","float",""]', "fp32"),
        ('["c10::BFloat16","Scalar"]', "bf16"),
        ('["float","c10::BFloat16"]', None),
        ('["TensorList","float"]', None),
        ('["mystery"]', None),
        ('[""]', None),
        ('[["float"]]', None),
        ("no JSON", None),
    ],
)
def test_type_by_inputs(types, dtype):
    assert of_inputs(types) == dtype


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path",
    [
        "hta/nccl_args_resnet_a100_rank0_of_2.json.gz",
        "tracelens/mi300_qwen1.5_0.5b_inference.json.gz",
        "nsys/cloverleaf_a100_schema3.13.sqlite",
        "tracelens/mi300_jax_conv_minimal.xplane.pb",
    ],
)
def test_grouping_changes_no_total(corpus, path):
    trace = wb.open(corpus / "traces" / path)
    whole = wb.kernels(trace, window="all")["total_ns"].sum()
    for by in ("dtype", "family", "grid", "input_dims"):
        frame = wb.kernels(trace, window="all", by=by)
        assert frame["total_ns"].sum() == whole
        assert frame["count"].sum() == trace.activities.height
