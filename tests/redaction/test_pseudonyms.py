"""What becomes of names: public ones stay, all others tell analyses what they told before."""

import csv
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.redaction import leads, vocabulary
from workbench.redaction import pseudonyms as kinds
from workbench.redaction.key import Key
from workbench.redaction.pseudonyms import Names
from workbench.trace import families

LABELLED = Path(__file__).parents[1] / "trace" / "kernel_names.csv"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
TOKEN = "[bcdghjkqrtvxz]{10}"


@pytest.fixture
def names():
    return Names(Key(bytes(32)))


@pytest.mark.parametrize(
    ("kind", "public"),
    [
        (kinds.KERNEL, ADD),
        (kinds.KERNEL, "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"),
        (kinds.KERNEL, "ncclDevKernel_AllReduce_Sum_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
        (kinds.KERNEL, "triton_poi_fused_add_addmm_gelu_view_15"),
        (kinds.KERNEL, "Memcpy DtoH (Device -> Pinned)"),
        (kinds.OPERATOR, "aten::addmm"),
        (kinds.OPERATOR, "autograd::engine::evaluate_function: AddmmBackward0"),
        (kinds.OPERATOR, "torch::autograd::AccumulateGrad"),
        (kinds.RANGE, "ProfilerStep#12"),
        (kinds.RANGE, "Optimizer.step#AdamW.step"),
        (kinds.RANGE, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
        (kinds.RANGE, "nccl:all_reduce"),
        (kinds.RANGE, "Torch-Compiled Region: 3/1"),
        (kinds.CALL, "cudaLaunchKernelExC"),
        (kinds.CALL, "hipMemcpyWithStream"),
        (kinds.MODULE, "nn.Module: Linear_31"),
        (kinds.THREAD, "thread 4644 (pt_autograd_0)"),
        (kinds.VALUE, "[1, -2.5e-3, True]"),
        (kinds.VALUE, "c10::BFloat16"),
        (kinds.PRODUCT, "NVIDIA H100 80GB HBM3"),
        (kinds.PRODUCT, "AMD Instinct MI300X"),
        (kinds.COUNTER, "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"),
    ],
)  # fmt: skip
def test_a_public_name_stays(names, kind, public):
    assert names.one(kind, public) == public
    assert names.key.names == {}


@pytest.mark.parametrize(
    ("kind", "name", "form"),
    [
        (kinds.KERNEL, "fused_router_attention_kernel", "attention_kernel_{}"),
        (kinds.KERNEL, "void acme::moe_gemm<bf16>(float*)", "gemm_kernel_{}"),  # bf16 and float
        (kinds.KERNEL, "acme_allreduce_bf16", "bf16_all_reduce_kernel_{}"),
        (kinds.KERNEL, "triton_red_fused_acme_rope_7", "triton_red_kernel_{}"),
        (kinds.OPERATOR, "acme::route", "op_{}"),
        (kinds.OPERATOR, "AcmeRouteBackward", "op_{}Backward"),
        (
            kinds.OPERATOR,
            "autograd::engine::evaluate_function: AcmeRouteBackward",
            "autograd::engine::evaluate_function: op_{}Backward",
        ),
        (kinds.RANGE, "forward pass of layer 3", "range_{}"),
        (kinds.RANGE, "gc.collect", "gc range_{}"),
        (kinds.RANGE, "Optimizer.step#AcmeLion.step", "Optimizer.step#range_{}.step"),
        (kinds.CALL, "cudaAcmeLaunchKernel", "cudaLaunchKernel_call_{}"),
        (kinds.MODULE, "nn.Module: AcmeRouter_31", "nn.Module: Module_{}_31"),
        (kinds.FILE, "/data/acme/k.py", "file_{}.py"),
        (kinds.THREAD, "thread 7 (acme-feeder)", "thread 7 (thread_{})"),
        (kinds.GROUP_TEXT, "acme_tp_dp", "tensor_data_about_{}"),
        (kinds.VALUE, "10.1.2.3", "value_{}"),
        (kinds.PHRASE, "10.1.2.3", "text_{}"),
        (kinds.PRODUCT, "Acme X100", "device_{}"),
    ],
)
def test_any_other_is_renamed_and_keeps_its_form(names, kind, name, form):
    found = names.one(kind, name)
    assert re.fullmatch(re.escape(form).replace(r"\{\}", TOKEN), found), found
    (pseudonym,) = names.key.names
    assert name.replace(names.key.names[pseudonym], pseudonym) == found


def test_a_name_is_the_same_in_every_form_it_takes(names):
    one = names.one(kinds.OPERATOR, "AcmeRoute")
    assert names.one(kinds.OPERATOR, "AcmeRouteBackward") == f"{one}Backward"
    module = names.one(kinds.MODULE, "AcmeRouter_1")
    assert names.one(kinds.MODULE, "nn.Module: AcmeRouter_2") == f"nn.Module: {module[:-2]}_2"


def test_pseudonyms_follow_from_the_salt_alone(names):
    again, other = Names(Key(bytes(32))), Names(Key())
    texts = ["acme", "acme::b", "c"]
    assert names.several(kinds.OPERATOR, texts) == again.several(kinds.OPERATOR, texts[::-1])
    found = other.several(kinds.OPERATOR, texts)
    assert not {*found.values()} & {*again.several(kinds.OPERATOR, texts).values()}


def hidden(kind):
    """The same kind of names with nothing public."""
    return replace(kind, is_public=lambda name: False)


def test_labelled_kernels_tell_the_same_as_pseudonyms(names):
    with LABELLED.open(newline="") as file:
        labelled = [row["name"] for row in csv.DictReader(file)]
    new = names.several(hidden(kinds.KERNEL), labelled)
    read = kinds.KERNEL.reading
    told = zip(labelled, read(labelled), read([new[n] for n in labelled]), strict=True)
    # to TraceLens this very name is a copy
    assert [n for n, a, b in told if a != b] == ["__amd_rocclr_copyBuffer.kd"]


FAMILIES = sorted(families.table().meanings)
TYPES = ["", "fp64", "tf32", "fp32", "bf16", "fp16", "fp8", "fp4"]


def test_each_family_is_told_with_each_type(names):
    for family, dtype in product(FAMILIES, TYPES):
        word = next(word for word in leads.KERNEL_FAMILIES[family] if word)
        secret = f"{word}kernel_acme_{dtype}_k"
        (told,), new = kinds.KERNEL.reading([secret]), names.one(hidden(kinds.KERNEL), secret)
        assert told.family == family or dtype, secret  # a narrow type makes it a quantisation
        (again,) = kinds.KERNEL.reading([new])
        assert (again.family, again.dtype) == (told.family, told.dtype), (secret, new)


WORDS = """acme gemm conv softmax fp8 bf16 float half nccl AllReduce gather sync Memcpy HtoD tf32
triton_poi simt s1688 Functor<float reduce copy cast moe rope adam hip wait GIL gc"""


@given(st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=4).map("_".join))
def test_a_made_up_name_keeps_its_family(name):
    """What a name tells first stays, whatever else it tells."""
    made = Names(Key(bytes(32)))
    new = made.one(hidden(kinds.KERNEL), name)
    assert families.family(new) == families.family(name), new
    for kind in (kinds.CALL, kinds.RANGE):
        one = hidden(kind)
        assert kind.reading([made.one(one, name)]) == kind.reading([name])


@given(st.text(max_size=30))
def test_any_text_is_public_or_gone(name):
    made = Names(Key(bytes(32)))
    for kind in (kinds.KERNEL, kinds.OPERATOR, kinds.RANGE, kinds.MODULE, kinds.VALUE):
        new = made.one(kind, f"acmé{name}")
        assert "acm" not in new


def test_words_that_no_list_has_make_no_name_public():
    at = "void at::native::elementwise_kernel<{}>(int)"
    assert vocabulary.is_kernel(at.format("float"))
    assert not vocabulary.is_kernel(at.format("acme::Router"))
    assert not vocabulary.is_kernel("elementwise_kernel")  # it begins as no library's
    assert not vocabulary.is_kernel("_ZN2at6native4acmeE")  # mangled names are not looked into
    assert not vocabulary.is_kernel("at::" + "n" * 10_000)
    assert not vocabulary.is_kernel("at::nativé")
