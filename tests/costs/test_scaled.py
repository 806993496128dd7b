import pytest

from workbench.costs.models import cost
from workbench.costs.shapes import Call, ShapeError, Tensor


def f32(*dims):
    return Tensor(dims, "float")


def bf16(*dims):
    return Tensor(dims, "c10::BFloat16")


def fp8(*dims):
    return Tensor(dims, "c10::Float8_e4m3fn")


def call(*tensors, concrete=None):
    return Call(tensors, concrete)


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


def test_until_2_4_the_bias_came_before_the_scales():
    # self, mat2, bias, out_dtype (15: bf16), scale_a, scale_b
    args = (fp8(64, 32), fp8(32, 16), bf16(16), None, f32(), f32())
    found = cost("aten::_scaled_mm", Call(args, ("", "", "", "15", "", "")))
    assert (found.flops, found.epilogue_flops) == (2 * 64 * 16 * 32, 64 * 16)
    assert found.read_bytes == 64 * 32 + 32 * 16 + 2 * 16 + 8
    assert found.write_bytes == 2 * 64 * 16


def test_the_second_form_has_lists_of_scales():
    # scale_a [64], scale_b [16], bias at 8, out_dtype at 9
    tensors = (fp8(64, 32), fp8(32, 16), (f32(64, 1),), None, None, (f32(1, 16),), None, None,
               bf16(16), None)  # fmt: skip
    found = cost("aten::_scaled_mm_v2", Call(tensors, ("",) * 9 + ("15",)))
    assert (found.flops, found.epilogue_flops) == (65_536, 1024)
    assert found.read_bytes == 2048 + 512 + 4 * (64 + 16) + 32
    assert found.write_bytes == 2048


def test_scaled_groups():
    # 64 rows in groups of a weight each: 2 * 64 * 5 * 8 = 5120, as unscaled; scales are read
    tensors = (fp8(64, 8), fp8(4, 8, 5), f32(64), f32(4, 5), Tensor((4,), "int"), None, None, None)
    found = cost("aten::_scaled_grouped_mm", Call(tensors, ("",) * 7 + ("15",)))
    assert (found.flops, found.read_bytes) == (5120, 512 + 160 + 4 * (64 + 20))
    assert found.write_bytes == 2 * 64 * 5
    second = (fp8(64, 8), fp8(4, 8, 5), (f32(64),), None, None, (f32(4, 5),), None, None,
              Tensor((4,), "int"), None, None)  # fmt: skip
    found = cost("aten::_scaled_grouped_mm_v2", Call(second, ("",) * 10 + ("15",)))
    assert (found.flops, found.write_bytes) == (5120, 640)


def test_groups_of_4_bit_numbers_have_twice_the_length():
    four = Tensor((64, 4), "c10::Float4_e2m1fn_x2"), Tensor((4, 4, 5), "c10::Float4_e2m1fn_x2")
    found = cost("aten::_grouped_mm", call(*four, Tensor((4,), "int"), concrete=("",) * 5))
    assert (found.flops, found.precision) == (5120, "fp4")


def test_weights_in_few_bits():
    # 3 x 8 by 16 x 8 transposed: 2 * 3 * 16 * 8 = 768; one byte a weight, a scale a column
    eight = cost("aten::_weight_int8pack_mm",
                 call(bf16(3, 8), Tensor((16, 8), "signed char"), bf16(16)))  # fmt: skip
    assert (eight.flops, eight.read_bytes, eight.write_bytes) == (768, 48 + 128 + 32, 96)
    # packed as torch likes; the columns are those of (K / group, N, 2)
    packed = Tensor((2, 1, 32, 1), "int")
    four = cost("aten::_weight_int4pack_mm", call(bf16(3, 8), packed, None, bf16(2, 16, 2)))
    assert (four.flops, four.write_bytes, four.read_bytes) == (768, 96, 48 + 256 + 128)


@pytest.mark.parametrize(
    ("name", "tensors"),
    [("aten::_grouped_mm", (f32(4, 8), f32(9, 5), f32(2))),
     ("aten::_grouped_mm", (f32(4, 8), f32(8, 5), f32(0))),
     ("aten::_grouped_mm", (f32(8), f32(8, 5), f32(2))),
     ("aten::_scaled_mm", (fp8(4, 8), fp8(9, 5), f32(), f32())),
     ("aten::_weight_int4pack_mm", (bf16(3, 8), f32(4), None, bf16(16)))],
)  # fmt: skip
def test_unusable_shapes_give_a_reason(name, tensors):
    with pytest.raises(ShapeError):
        cost(name, Call(tensors))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("_scaled_mm", {2: "scale_a", 3: "scale_b", 4: "bias", 6: "out_dtype"}),
     ("_scaled_mm_v2", {2: "scale_a", 5: "scale_b", 8: "bias", 9: "out_dtype"}),
     ("_grouped_mm", {2: "offs", 3: "bias", 4: "out_dtype"}),
     ("_scaled_grouped_mm", {2: "scale_a", 3: "scale_b", 4: "offs", 5: "bias", 7: "out_dtype"}),
     ("_scaled_grouped_mm_v2", {2: "scale_a", 5: "scale_b", 8: "offs", 9: "bias",
                                10: "out_dtype"})],
)  # fmt: skip
def test_positions_agree_with_torch(name, wanted):
    torch = pytest.importorskip("torch")
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        pytest.skip("this torch has no such operator")
    args = [a.name for a in packet.default._schema.arguments]
    assert {at: args[at] for at in wanted} == wanted


def test_scales_of_a_type_that_was_not_recorded_leave_the_bytes_unknown():
    # profilers write `TensorList` for a list of scales: FLOPs do not need them, bytes do
    scales = (Tensor((64, 1), "TensorList"),)
    tensors = (fp8(64, 32), fp8(32, 16), scales, None, None, scales, None, None, None, None)
    found = cost("aten::_scaled_mm_v2", call(*tensors, concrete=("",) * 9 + ("15",)))
    assert (found.flops, found.read_bytes, found.write_bytes) == (2 * 64 * 16 * 32, None, 2048)
    assert found.unknown == "the type of the scales was not recorded"
