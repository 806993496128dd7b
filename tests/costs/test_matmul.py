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


def test_scaled_mm_in_8_bits_writes_the_output_type():
    a, b = Tensor((64, 32), "c10::Float8_e4m3fn"), Tensor((32, 16), "c10::Float8_e4m3fn")
    one = f32()
    tensors = (a, b, one, one, None, None, None, None)
    found = cost("aten::_scaled_mm", Call(tensors, ("",) * 6 + ("15", "False")))
    assert found.flops == 2 * 64 * 16 * 32
    assert found.read_bytes == 64 * 32 + 32 * 16 + 8
    assert found.write_bytes == 64 * 16 * 2  # bfloat16
    assert found.precision == "fp8"
    unknown = cost("aten::_scaled_mm", Call(tensors))
    assert (unknown.flops, unknown.write_bytes) == (found.flops, None)


def test_scaled_mm_in_4_bits_holds_two_numbers_a_byte():
    a, b = Tensor((64, 16), "c10::Float4_e2m1fn_x2"), Tensor((16, 8), "c10::Float4_e2m1fn_x2")
    assert cost("aten::_scaled_mm", call(a, b, f32(), f32())).flops == 2 * 64 * 8 * 32


def test_grouped_mm_of_every_form():
    offsets = Tensor((4,), "int")
    none = ("",) * 5
    rows = cost("aten::_grouped_mm", call(bf16(64, 8), bf16(4, 8, 5), offsets, concrete=none))
    assert rows.flops == 2 * 64 * 5 * 8
    assert rows.read_bytes == (64 * 8 + 4 * 8 * 5) * 2
    assert rows.write_bytes == 64 * 5 * 2
    columns = cost("aten::_grouped_mm", call(bf16(4, 6, 8), bf16(8, 40), offsets, concrete=none))
    assert (columns.flops, columns.write_bytes) == (2 * 6 * 40 * 8, 6 * 40 * 2)
    inner = cost("aten::_grouped_mm", call(bf16(6, 64), bf16(64, 5), offsets, concrete=none))
    assert (inner.flops, inner.write_bytes) == (2 * 6 * 5 * 64, 4 * 6 * 5 * 2)
    batch = cost("aten::_grouped_mm", call(bf16(3, 4, 8), bf16(3, 8, 5), None, concrete=none))
    assert batch.flops == 960


@pytest.mark.parametrize(
    ("name", "tensors"),
    [("aten::mm", (f32(4, 8), f32(9, 5))), ("aten::mm", (f32(4, 8), None)), ("aten::mm", ()),
     ("aten::bmm", (f32(2, 4, 8), f32(3, 8, 5))), ("aten::dot", (f32(), f32())),
     ("aten::addmm", (f32(4), f32(4, 8))), ("aten::_grouped_mm", (f32(4, 8), f32(9, 5), f32(2))),
     ("aten::mm", (Tensor((2, 2), "weird"), f32(2, 2))),
     ("aten::mm", (f32(2**31, 2**30), f32(2**30, 2**31)))],
)  # fmt: skip
def test_unusable_shapes_give_a_reason(name, tensors):
    with pytest.raises(ShapeError):
        cost(name, Call(tensors))
