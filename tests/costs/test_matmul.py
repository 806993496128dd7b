import pytest

from workbench.costs.models import cost
from workbench.costs.shapes import Call, ShapeError, Tensor


def f32(*dims, strides=None):
    return Tensor(dims, "float", strides)


def bf16(*dims):
    return Tensor(dims, "c10::BFloat16")


def call(*tensors, concrete=None):
    return Call(tensors, concrete)


def test_mm_64x128_by_128x256():
    # 64 * 256 outputs, 128 multiply-adds each, 2 FLOPs each = 4,194,304 (K47).
    found = cost("aten::mm", call(bf16(64, 128), bf16(128, 256)))
    assert found.flops == 4_194_304
    assert found.read_bytes == (64 * 128 + 128 * 256) * 2
    assert found.write_bytes == 64 * 256 * 2
    assert (found.precision, found.unit) == ("bf16", "matrix")


@pytest.mark.parametrize(
    ("left", "right", "flops", "written"),
    [
        # output (2,3,4,5) = 120 elements, length 8: 2 * 120 * 8 = 1920 (K46)
        ((2, 1, 4, 8), (3, 8, 5), 1920, 480),
        ((8,), (8,), 16, 4),
        ((4, 8), (8,), 64, 16),
        ((8,), (8, 5), 80, 20),
        ((8,), (3, 8, 5), 240, 60),
        ((2, 4, 8), (8,), 128, 32),
        ((0, 8), (8, 5), 0, 0),
        ((4, 0), (0, 5), 0, 80),
    ],
)
def test_matmul_by_broadcast(left, right, flops, written):
    found = cost("aten::matmul", call(f32(*left), f32(*right)))
    assert (found.flops, found.write_bytes) == (flops, written)


def test_products_with_a_vector_run_on_the_vector_unit():
    assert cost("aten::mv", call(f32(4, 8), f32(8))).unit == "vector"
    assert cost("aten::dot", call(f32(8), f32(8))).flops == 16


def test_addmm_does_not_count_the_bias_but_reads_it():
    # 4 x 8 by 8 x 16: 1024 FLOPs; reads 32 + 128 + 16 floats.
    found = cost("aten::addmm", call(f32(16), f32(4, 8), f32(8, 16)))
    assert (found.flops, found.read_bytes, found.write_bytes) == (1024, 704, 256)


def test_addmm_with_an_expanded_bias_reads_each_element_once():
    found = cost("aten::addmm", call(f32(4, 16, strides=(0, 1)), f32(4, 8), f32(8, 16)))
    assert found.read_bytes == (32 + 128 + 16) * 4


def test_addmm_with_beta_zero_does_not_read_self():
    args = ("", "", "", "0", "1")
    found = cost("aten::addmm_", call(f32(4, 16), f32(4, 8), f32(8, 16), concrete=args))
    assert found.read_bytes == (32 + 128) * 4


def test_linear_equals_its_addmm():
    # weight is (out, in)
    with_bias = cost("aten::linear", call(f32(4, 8), f32(16, 8), f32(16)))
    assert (with_bias.flops, with_bias.read_bytes) == (1024, 704)
    assert cost("aten::linear", call(f32(2, 3, 8), f32(16, 8), None)).flops == 2 * 6 * 16 * 8


def test_bmm_baddbmm_addbmm_addmv():
    # 3 batches of 4 x 8 by 8 x 5: 3 * 4 * 5 * 8 * 2 = 960
    a, b = f32(3, 4, 8), f32(3, 8, 5)
    assert cost("aten::bmm", call(a, b)).flops == 960
    assert cost("aten::baddbmm", call(f32(3, 4, 5), a, b)).flops == 960
    reduced = cost("aten::addbmm", call(f32(4, 5), a, b))
    assert (reduced.flops, reduced.write_bytes) == (960, 80)
    assert cost("aten::addmv_", call(f32(4), f32(4, 8), f32(8))).flops == 64


def test_complex_multiply_adds_are_four_real_ones():
    c = Tensor((4, 4), "c10::complex<float>")
    assert cost("aten::mm", call(c, c)).flops == 4 * 2 * 4 * 4 * 4


def test_linear_by_other_names():
    # 4 x 8 by (16, 8) transposed: 1024, reads 32 + 128 + 16 elements, writes 64
    plain = call(bf16(4, 8), bf16(16, 8), bf16(16))
    for name in ("aten::mkldnn_linear", "mkldnn::_linear_pointwise", "vllm::rocm_unquantized_gemm"):
        found = cost(name, plain)
        assert (found.flops, found.read_bytes, found.epilogue_flops) == (1024, 352, 64)
    packed = call(f32(4, 8), f32(999), f32(16, 8), f32(16))
    found = cost("mkl::_mkl_linear", packed)
    assert (found.flops, found.read_bytes) == (1024, 704)


def test_a_linear_that_is_asked_for_its_output_type():
    args = (bf16(4, 8), bf16(16, 8), None, None)
    found = cost("aiter::gemm_a16w16", call(*args, concrete=("", "", "", "6")))
    assert (found.flops, found.write_bytes) == (1024, 4 * 64)
    unknown = cost("aiter::gemm_a16w16", call(*args))
    assert (unknown.flops, unknown.write_bytes) == (1024, None)
    assert "type" in unknown.unknown


def test_linear_backward_by_output_mask():
    # input 4 x 8, gradient 4 x 16, weight 16 x 8: 1024 each; the bias gradient reads 64 * 2 bytes
    args = (bf16(4, 8), bf16(4, 16), bf16(16, 8), None)
    whole = cost("aten::linear_backward", call(*args, concrete=("", "", "", "[True, True, True]")))
    assert (whole.flops, whole.epilogue_flops) == (2048, 64)
    assert (whole.read_bytes, whole.write_bytes) == (2 * (64 + 128 + 32), 2 * (32 + 128 + 16))
    bias = cost("aten::linear_backward", call(*args, concrete=("", "", "", "[False, False, True]")))
    assert (bias.flops, bias.read_bytes, bias.write_bytes) == (0, 128, 32)
    with pytest.raises(ShapeError, match="mask"):
        cost("aten::linear_backward", call(*args))


def test_outer_products():
    # 3 x 5 of length 1: 30; addr adds 15 and reads self
    assert cost("aten::ger", call(f32(3), f32(5))).flops == 30
    found = cost("aten::addr", call(f32(3, 5), f32(3), f32(5)))
    assert (found.flops, found.epilogue_flops, found.unit) == (30, 15, "vector")
    assert (found.read_bytes, found.write_bytes) == (4 * 23, 60)


@pytest.mark.parametrize(
    ("name", "tensors"),
    [("aten::mm", (f32(4, 8), f32(9, 5))), ("aten::mm", (f32(4, 8), None)), ("aten::mm", ()),
     ("aten::bmm", (f32(2, 4, 8), f32(3, 8, 5))), ("aten::dot", (f32(), f32())),
     ("aten::addmm", (f32(4), f32(4, 8))), ("aten::ger", (f32(4, 8), f32(5))),
     ("aten::linear_backward", (f32(4, 8), f32(4, 9), f32(16, 8))),
     ("aten::mm", (Tensor((2, 2), "weird"), f32(2, 2))),
     ("aten::mm", (f32(2**31, 2**30), f32(2**30, 2**31)))],
)  # fmt: skip
def test_unusable_shapes_give_a_reason(name, tensors):
    with pytest.raises(ShapeError):
        cost(name, Call(tensors))
