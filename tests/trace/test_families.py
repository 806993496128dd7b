"""Families of kernels: the table itself, and 300 names labelled by hand, 100 of them held out.

`kernel_names.csv` was drawn by seed from recorded traces and public profiles; the names with
`held_out` yes were labelled after the patterns had been frozen, and then tried once: 97 agreed.
"""

import csv
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from tinytrace import call, kernel, op, write

import workbench as wb
from workbench.errors import InputError
from workbench.trace import families, schema
from workbench.trace.families import family, is_collective


def labelled(part=None):
    with (Path(__file__).parent / "kernel_names.csv").open(newline="") as f:
        rows = [r for r in csv.DictReader(f) if part in (None, r["held_out"])]
    return pl.DataFrame(rows)


def test_the_hand_labelled_names_are_three_hundred_a_third_held_out():
    names = labelled()
    assert names["name"].n_unique() == 300
    assert names.filter(pl.col("held_out") == "yes").height == 100
    assert set(names["family"]) <= {*families.table().meanings, "other"}
    assert (names["source"].str.len_chars() > 0).all()


@pytest.mark.parametrize("part", [None, "yes"])
def test_the_table_agrees_with_the_labels(part):
    names = labelled(part)
    got = families.families(names["name"]).cast(pl.String)
    wrong = names.with_columns(got=got).filter(pl.col("family") != got)
    assert 1 - wrong.height / names.height >= 0.95, wrong.rows()


def entries():
    import tomllib

    from workbench import resources

    return tomllib.loads((resources.data() / "families.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("of", ["kernel", "operator"])
def test_every_pattern_has_a_source_and_stands_once(of):
    held = entries()
    assert len(held["families"]) <= 25
    assert {e["family"] for e in held[of]} <= set(held["families"])
    assert all(len(e["source"]) > 5 and e["patterns"] for e in held[of])
    counts = Counter((e["family"], p) for e in held[of] for p in e["patterns"])
    assert [p for p, n in counts.items() if n > 1] == []
    for pattern in (p for e in held[of] for p in e["patterns"]):
        re.compile(pattern)  # what the library refuses alone, it would refuse joined
        assert not pl.Series(["", "x", "Kernel"]).str.contains(pattern).any(), pattern


@pytest.mark.parametrize(
    "name",
    ["", " ", "k0", "Kernel", "kernel_0", "main", "my_kernel", "void foo<int>(int*, float const*)",
     "vecCopy(double*, double*, double*, int, int) [clone .kd]", "_Z3fooPfi", "fused_kernel",
     "void bar<float>(at::Tensor const&, c10::BFloat16*)", "reduced", "_fwd_kernel",
     "_ZN6clover19par_ranged2d_kernelIZ16flux_calc_kerneliiE_EEvNS_7Range2dET_"],
)  # fmt: skip
def test_no_pattern_catches_all(name):
    assert family(name) == "other"


def test_families_keeps_order_nulls_and_repetitions():
    names = pl.Series("name", ["volta_sgemm_128x32_nt", None, "k0", "volta_sgemm_128x32_nt"])
    want = ["gemm", None, "other", "gemm"]
    for given in (names, names.cast(schema.NAME)):
        got = families.families(given)
        assert (got.dtype, got.cast(pl.String).to_list()) == (schema.NAME, want)
    assert families.families(pl.Series([], dtype=pl.String)).len() == 0


def test_many_names_are_classified_as_each_alone():
    names = pl.Series([f"volta_sgemm_{i}" if i % 2 else f"k_{i}" for i in range(6000)])
    got = families.families(names).cast(pl.String)
    assert got.to_list() == ["other", "gemm"] * 3000


def test_mangled_and_demangled_say_the_same():
    both = {
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
        "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)":
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(T1)":
        "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEEvT1_",
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(flash::Flash_fwd_params)":
        "_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128EEEEvNS_16Flash_fwd_paramsE",
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)":
        "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE",
    }  # fmt: skip
    got = [(family(a), family(b)) for a, b in both.items()]
    assert got == [(f, f) for f in ("set", "reduction", "attention", "communication")]


@pytest.mark.parametrize(
    "name",
    ["ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "ncclDevKernel_Generic_1", "rcclKern",
     "hcom_allReduce__123_0_1", "oneccl_allreduce_small", "mscclKernel_Sum_float_LL_false",
     "void vllm::cross_device_reduce_2stage<float, 8>", "two_shot_all_reduce_kernel_inplace",
     "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>",
     "void deep_ep::intranode::combine<__nv_bfloat16, 2, 768, 4096>", "nvshmemi_proxy_quiet",
     "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1, half>",
     "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop", "void quickreduce::allreduce_prototype_twoshot",
     "mori::moe::EpDispatchIntraNodeKernel", "void sglang::moe_finalize_all_reduce_kernel"],
)  # fmt: skip
def test_communication_of_every_library(name):
    assert is_collective(name)
    assert family(name) == "communication"


@pytest.mark.parametrize(
    ("name", "is_a"),
    [
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(T1)", "reduction"),
        ("void cutlass::reduction::kernel::ReduceSplitK<cutlass::MatrixShape<4, 128>>", "gemm"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float>", "gemm"),
        ("void at::native::_scatter_gather_elementwise_kernel<128, 4, ReduceAdd>", "indexing"),
        ("void cub::DeviceReduceByKeyKernel<cub::DispatchReduceByKey<long*>>", "sort"),
        ("block_all_reduce_sum_f32_f32_kernel", "reduction"),
        ("void warpAllReduce<float>", "reduction"),
        # a fused name lists a collective that another kernel ran
        ("triton_poi_fused_add_all_reduce_wait_tensor_3", "fused"),
        ("input_reduce_fusion_92", "fused"),
        ("get_dispatch_layout<8>", "moe"),
        # the product takes the time, the exchange hides behind it
        ("ag_gemm_kernel_persistent", "gemm"),
        ("Memcpy PtoP (Device -> Device)", "copy"),
        ("void at::native::(anonymous namespace)::all_kernel_cuda", "other"),
    ],
)
def test_false_friends_of_communication(name, is_a):
    assert not is_collective(name)
    assert family(name) == is_a


def test_what_stands_beyond_the_limit_is_not_looked_at():
    padding = "k" * families.LONGEST
    assert family(padding + "_sgemm_") == "other"
    assert family(padding[:-6] + "_sgemm") == "gemm"
    hostile = ["_" * 10**6, "a" * 10**6, "cutlass" * 10**5, "\0é" * 10**5, "triton_tem_" * 10**5]
    assert [family(n) for n in hostile] == ["other", "other", "other", "other", "gemm"]


@pytest.mark.parametrize(
    ("operator", "is_a"),
    [
        ("aten::mm", "gemm"), ("aten::linear", "gemm"), ("aten::conv2d", "convolution"),
        ("aten::mkldnn_convolution", "convolution"), ("aten::native_layer_norm", "norm"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("aten::_log_softmax_backward_data", "softmax"), ("aten::nll_loss_forward", "loss"),
        ("aten::add_", "elementwise"), ("aten::gelu_backward", "elementwise"),
        ("aten::sum", "reduction"), ("aten::copy_", "layout"), ("aten::fill_", "set"),
        ("aten::embedding_dense_backward", "embedding"), ("aten::index_select", "indexing"),
        ("aten::native_dropout", "random"), ("aten::max_pool2d_with_indices", "pooling"),
        ("aten::topk", "sort"), ("aten::cumsum", "scan"), ("aten::_fused_adamw_", "optimizer"),
        ("Optimizer.step#SGD.step", "optimizer"), ("gloo:all_reduce", "communication"),
        ("graph_0_cpp_fused_add_0", "fused"), ("aten::_foreach_mul_", "elementwise"),
        ("aten::view", None), ("aten::empty", None), ("aten::as_strided", None),
        ("autograd::engine::evaluate_function: AddmmBackward0", None), ("my_op", None),
        ("aten::addressing", None), ("aten::summary", None),
    ],
)  # fmt: skip
def test_operators(operator, is_a):
    assert families.families(pl.Series([operator]), "operator").to_list() == [is_a]


def test_a_trace_has_the_family_of_every_row(tmp_path):
    # record first: k_mine carries a collective's args; kind next: a copy is one whatever its name
    events = [
        call("cudaLaunchKernel", 0, 1, 1),
        kernel("k_mine", 10, 5, 1, **{"Collective name": "allreduce"}),
        kernel("two_shot_all_reduce_kernel", 20, 5),
        kernel("volta_sgemm_128x32_nt", 30, 5),
        kernel("k0", 40, 5),
        kernel("x", 50, 5, cat="gpu_memcpy"),
        kernel("y", 60, 5, cat="gpu_memset"),
    ]
    got = wb.open(write(tmp_path, events)).activities
    assert got.select(pl.col("name", "kind", "family").cast(pl.String)).rows() == [
        ("k_mine", "collective", "communication"),
        ("two_shot_all_reduce_kernel", "collective", "communication"),
        ("volta_sgemm_128x32_nt", "kernel", "gemm"),
        ("k0", "kernel", "other"),
        ("x", "copy", "copy"),
        ("y", "set", "set"),
    ]
    shown = wb.kernels(wb.open(write(tmp_path, events)), window="all")
    assert dict(shown.select("name", "family").rows())["volta_sgemm_128x32_nt"] == "gemm"


def test_host_execution_goes_by_operator(tmp_path):
    trace = wb.open(write(tmp_path, [op("aten::mm", 0, 9), op("aten::view", 10, 2)]))
    rows = trace.activities.select(pl.col("name", "family").cast(pl.String)).rows()
    assert rows == [("aten::mm", "gemm"), ("aten::view", None)]
    shown = wb.kernels(trace, window="all")
    assert dict(shown.select("name", "family").rows()) == {"aten::mm": "gemm", "aten::view": None}


def test_a_table_that_cannot_be_used_is_named(tmp_path):
    broken = tmp_path / "families.toml"
    for text in ("[families", "families = 3", '[families]\na = "x"\n[[kernel]]\nfamily = "b"'):
        broken.write_text(text)
        with pytest.raises(InputError, match=r"families\.toml cannot be used"):
            families.table(broken)
        families._read.cache_clear()
