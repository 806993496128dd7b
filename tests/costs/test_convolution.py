import polars as pl
import pytest
from costs.made import op_row, trace_of

from workbench import costs
from workbench.costs.convolution import spread, windows
from workbench.costs.convolution_calls import BACKWARDS, FORWARDS
from workbench.costs.models import cost, prices
from workbench.costs.shapes import Call, ShapeError, Tensor

CONV = "aten::convolution"
BACK = "aten::convolution_backward"


def f32(*dims, strides=None):
    return Tensor(dims, "float", strides)


def call(data, weight, bias=None, *, s=1, p=0, d=1, t=False, extra=0, groups=1):
    """The arguments of aten::convolution; one number stands for all extents."""
    n = len(weight.dims) - 2
    lists = [str([v] * n) for v in (s, p, d)]
    concrete = ("", "", "", *lists, str(t), str([extra] * n), str(groups))
    return Call((data, weight, bias, *[None] * 6), concrete)


def backward(grad, data, weight, mask, *, t=False):
    concrete = ("", "", "", "[4]", "[1, 1]", "[0, 0]", "[1, 1]", str(t), "[0, 0]", "1", mask)
    return Call((grad, data, weight, *[None] * 8), concrete)


# 2 * out elements * C_in / groups * prod(kernel); bytes of fp32: (x + w + b) and out, times 4
CASES = {
    # out (2, 4, 6, 6) = 288 elements of 3 * 3 * 3 = 27 products: 15,552
    "2d": (call(f32(2, 3, 8, 8), f32(4, 3, 3, 3)), 15_552, 4 * (384 + 108), 4 * 288),
    # out (2, 4, 8, 8) = 512: 27,648
    "padded": (call(f32(2, 3, 8, 8), f32(4, 3, 3, 3), p=1), 27_648, 4 * 492, 4 * 512),
    # (7 + 2 - 2 - 1) // 2 + 1 = 4: out (1, 4, 4) = 16 of 9: 288
    "1d strided": (call(f32(1, 3, 7), f32(4, 3, 3), s=2, p=1), 288, 4 * (21 + 36), 64),
    # 8 - 2 * 2 = 4: out (1, 2, 4, 4, 4) = 128 of 27: 6912
    "3d dilated": (
        call(f32(1, 1, 8, 8, 8), f32(2, 1, 3, 3, 3), d=2), 6912, 4 * (512 + 54), 4 * 128,
    ),
    # 4 channels in 2 groups: out (1, 6, 6, 6) = 216 of 2 * 9 = 18: 7776
    "grouped": (
        call(f32(1, 4, 8, 8), f32(6, 2, 3, 3), groups=2), 7776, 4 * (256 + 108), 4 * 216,
    ),
    # transposed: 2 * 2 * 3 = 12 inputs, each times 1 * 2 * 2: 96; out (1, 1, 4, 4)
    "transposed": (
        call(f32(1, 3, 2, 2), f32(3, 1, 2, 2), s=2, t=True), 96, 4 * (12 + 12), 4 * 16,
    ),
    # 4 -> 2 * 3 channels in 2 groups: 4 * 9 = 36 inputs times 3 * 4 = 12: 864; out (1, 6, 4, 4)
    "transposed in groups": (
        call(f32(1, 4, 3, 3), f32(4, 3, 2, 2), t=True, groups=2), 864, 4 * (36 + 48), 4 * 96,
    ),
    "no batch": (call(f32(3, 8, 8), f32(4, 3, 3, 3)), 7776, 4 * (192 + 108), 4 * 144),
    "empty": (call(f32(0, 3, 8, 8), f32(4, 3, 3, 3)), 0, 4 * 108, 0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_forward(case):
    args, flops, read, written = CASES[case]
    found = cost(CONV, args)
    assert (found.flops, found.read_bytes, found.write_bytes) == (flops, read, written)
    assert (found.unit, found.model, found.epilogue_flops) == ("matrix", "convolution", 0)


def test_a_bias_is_read_and_its_adds_are_an_epilogue():
    found = cost(CONV, call(f32(2, 3, 8, 8), f32(4, 3, 3, 3), f32(4)))
    assert (found.flops, found.read_bytes, found.epilogue_flops) == (15_552, 4 * 496, 288)


def test_complex_multiply_adds_are_four_real_ones():
    c = [Tensor(d, "c10::complex<float>") for d in ((2, 3, 8, 8), (4, 3, 3, 3))]
    assert cost(CONV, call(*c)).flops == 4 * 15_552


def test_one_channel_a_group_has_no_matrix_product():
    # out (1, 3, 6, 6) = 108 of 9: 1944
    found = cost(CONV, call(f32(1, 3, 8, 8), f32(3, 1, 3, 3), groups=3))
    assert (found.flops, found.unit) == (1944, "vector")
    transposed = call(f32(1, 3, 8, 8), f32(3, 1, 3, 3), groups=3, t=True)
    assert cost(CONV, transposed).unit == "vector"
    assert cost(CONV, call(f32(1, 1, 8, 8), f32(2, 1, 3, 3))).unit == "matrix"


@pytest.mark.parametrize(
    ("mask", "gradients", "read", "written", "epilogue"),
    [("[True, True, True]", 2, 288 + 108 + 384, 384 + 108 + 4, 288),
     ("[True, False, False]", 1, 288 + 108, 384, 0),
     ("[False, True, False]", 1, 288 + 384, 108, 0),
     ("[False, False, True]", 0, 288, 4, 288)],
)  # fmt: skip
def test_backward_by_output_mask(mask, gradients, read, written, epilogue):
    # each gradient is the forward's 15,552; reads what it needs of grad, weight and input
    args = backward(f32(2, 4, 6, 6), f32(2, 3, 8, 8), f32(4, 3, 3, 3), mask)
    found = cost(BACK, args)
    assert found.flops == gradients * 15_552
    assert (found.read_bytes, found.write_bytes) == (4 * read, 4 * written)
    assert found.epilogue_flops == epilogue


def test_the_bias_gradient_reads_bytes_not_elements():
    # 32 elements of 2 bytes: 64 (a peer's model of the bias gradient says 32)
    half = [Tensor(d, "c10::BFloat16") for d in ((1, 4, 8), (1, 3, 8), (4, 3, 1))]
    assert cost(BACK, backward(*half, "[False, False, True]")).read_bytes == 64


def test_backward_of_a_transposed_one_counts_inputs():
    args = backward(f32(1, 1, 4, 4), f32(1, 3, 2, 2), f32(3, 1, 2, 2), "[True, True]", t=True)
    assert cost(BACK, args).flops == 2 * 96


def test_parts_of_a_backward_take_sizes_from_their_arguments():
    grad = f32(2, 4, 6, 6)
    data = Call((None, grad, f32(4, 3, 3, 3)), ("[2, 3, 8, 8]", "", ""))
    found = cost("aten::cudnn_convolution_backward_input", data)
    assert (found.flops, found.write_bytes) == (15_552, 4 * 384)
    weight = Call((None, grad, f32(2, 3, 8, 8)), ("[4, 3, 3, 3]", "", ""))
    found = cost("aten::cudnn_convolution_backward_weight", weight)
    assert (found.flops, found.read_bytes, found.write_bytes) == (15_552, 4 * 672, 4 * 108)
    bias = cost("aten::miopen_convolution_backward_bias", Call((grad,)))
    assert (bias.flops, bias.epilogue_flops, bias.write_bytes) == (0, 288, 16)


def test_parts_without_sizes():
    grad, weight = f32(2, 4, 6, 6), f32(4, 3, 3, 3)
    found = cost("aten::cudnn_convolution_backward_input", Call((None, grad, weight)))
    assert (found.flops, found.write_bytes) == (15_552, None)
    assert "not recorded" in found.unknown
    with pytest.raises(ShapeError, match="filter"):
        cost("aten::cudnn_convolution_backward_weight", Call((None, grad, f32(2, 3, 8, 8))))


OLD = [
    op_row(0, "aten::conv2d", None, 0, [[2, 3, 8, 8], [4, 3, 3, 3], []], ["float", "float", ""]),
    op_row(1, CONV, 0, 1, [[2, 3, 8, 8], [4, 3, 3, 3], []], ["float", "float", ""]),
    op_row(2, "aten::cudnn_convolution", 1, 2, [[2, 3, 8, 8], [4, 3, 3, 3]], ["float"] * 2),
    op_row(3, "CudnnConvolutionBackward", None, 0) | {"forward": 1},
    op_row(4, "aten::cudnn_convolution_backward", 3, 1,
           [[2, 3, 8, 8], [2, 4, 6, 6], [4, 3, 3, 3]], ["float"] * 3),
    op_row(5, "aten::cudnn_convolution_backward_input", 4, 2,
           [[], [2, 4, 6, 6], [4, 3, 3, 3]], ["GenericList", "float", "float"]),
    op_row(6, "aten::cudnn_convolution_backward_weight", 4, 2,
           [[], [2, 4, 6, 6], [2, 3, 8, 8]], ["GenericList", "float", "float"]),
]  # fmt: skip


def test_an_old_recording_has_its_extents_in_partners():
    # no strides and sizes: the output has the extents of its gradient, the filter those in the
    # backward around; the operators that would need a flag or a mask leave it to what they call
    frame = costs.operators(trace_of(OLD))
    assert frame.select("op", "flops", "read_bytes", "write_bytes").rows() == [
        (2, 15_552, 4 * 492, 4 * 288),
        (5, 15_552, 4 * (288 + 108), 4 * 384),
        (6, 15_552, 4 * (288 + 384), 4 * 108),
    ]


def test_without_a_backward_the_output_is_not_guessed():
    found = prices(trace_of(OLD[:3]))
    assert found["flops"].to_list() == [None] * 3
    assert found["reason"].str.contains("was not recorded").all()


def test_a_wrapper_leaves_the_count_and_the_general_one_keeps_it_with_what_it_calls():
    dims, types = [[2, 3, 8, 8], [4, 3, 3, 3], [4]], ["float"] * 3
    concrete = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"]
    general = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]
    trace = trace_of([
        op_row(0, "aten::conv2d", None, 0, [*dims, *[[]] * 4], [*types, *[""] * 4], None, concrete),
        op_row(1, CONV, 0, 1, [*dims, *[[]] * 6], [*types, *[""] * 6], None, general),
        op_row(2, "aten::mkldnn_convolution", 1, 2, [*dims, *[[]] * 4], [*types, *[""] * 4], None,
               ["", "", "", "[0, 0]", "[1, 1]", "[1, 1]", "1"]),
    ])  # fmt: skip
    assert costs.operators(trace).select("op", "flops").rows() == [(1, 15_552)]


@pytest.mark.parametrize(
    "args",
    [call(f32(2, 3, 8, 8), f32(4, 2, 3, 3)), call(f32(2, 3), f32(4, 3)),
     call(f32(2, 3, 8, 8), f32(4, 3, 3, 3), s=0), call(f32(8, 8), f32(4, 3, 3, 3)),
     call(f32(2, 3, 8, 8), f32(4, 0, 3, 3)), Call((f32(2, 3, 8, 8), f32(4, 3, 3, 3))),
     Call((f32(2, 3, 8, 8), f32(4, 3, 3, 3), None), ("", "", "", "same", "x", "[1]", "False"))],
)  # fmt: skip
def test_unusable_arguments_give_a_reason(args):
    with pytest.raises(ShapeError):
        cost(CONV, args)


def test_extents_of_outputs():
    assert windows((7,), (3,), ((2,), (1,), (1,))) == (4,)
    assert windows((2,), (5,), ((1,), (0,), (1,))) == (0,)
    assert spread((2,), (2,), ((2,), (0,), (1,)), (1,)) == (5,)


@pytest.mark.corpus
def test_resnet_50_of_2021_has_its_published_work(corpus):
    # 6 steps of 32 images; torchvision gives 4,089,184,256 multiply-adds an image, 2,048,000 of
    # them in the last product; the first layer (112 * 112 * 64 * 147) needs no data gradient
    from workbench.trace.open import open_source

    trace = open_source(corpus / "traces" / "kineto" / "resnet50_v100_num_workers_0_2021.json.gz")
    names = trace.ops.select(pl.col("id").alias("op"), pl.col("name").cast(pl.String))
    frame = costs.operators(trace).filter(pl.col("model") == "convolution").join(names, on="op")
    layers, first = 4_089_184_256 - 2_048_000, 112 * 112 * 64 * 147
    found = dict(frame.group_by("name").agg(pl.col("flops").sum()).iter_rows())
    assert found == {
        "aten::cudnn_convolution": 6 * 32 * 2 * layers,
        "aten::cudnn_convolution_backward_weight": 6 * 32 * 2 * layers,
        "aten::cudnn_convolution_backward_input": 6 * 32 * 2 * (layers - first),
    }
    assert frame["write_bytes"].null_count() == 0


NAMES = {"stride": "stride", "padding": "padding", "dilation": "dilation", "groups": "groups",
         "bias": "bias", "transposed": "transposed", "output_padding": "output_padding",
         "added": "z"}  # fmt: skip


def test_positions_agree_with_torch():
    torch = pytest.importorskip("torch")
    seen = 0
    for name, form in FORWARDS.items():
        space, _, short = name.partition("::")
        packet = getattr(torch.ops.aten, short, None) if space == "aten" else None
        if packet is None:
            continue
        overload = getattr(packet, "default", None) or getattr(packet, packet.overloads()[0])
        args = [a.name for a in overload._schema.arguments]
        for field, wanted in NAMES.items():
            at = getattr(form, field)
            assert at is None or args[at] == wanted, (name, field)
        seen += 1
    assert seen > 20
    for name in ("convolution_backward", "convolution_backward_overrideable"):
        form = BACKWARDS["aten::" + name]
        args = [a.name for a in getattr(torch.ops.aten, name).default._schema.arguments]
        assert (args[form.grad], args[form.data], args[form.weight]) == (
            "grad_output", "input", "weight",
        )  # fmt: skip
        assert (args[form.transposed], args[-1]) == ("transposed", "output_mask")
