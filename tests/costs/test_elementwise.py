import pytest

from workbench.costs.models import cost
from workbench.costs.shapes import Call, ShapeError, Tensor


def f32(*dims, strides=None):
    return Tensor(dims, "float", strides)


def bf16(*dims):
    return Tensor(dims, "c10::BFloat16")


def of(kind, *dims):
    return Tensor(dims, kind)


X = f32(4, 8)  # 32 elements, 128 bytes

# name, tensors, texts of the arguments, FLOPs of 32 elements, read bytes, written bytes
CASES = [
    ("neg", (X,), None, 32, 128, 128),
    ("exp", (X,), None, 32, 128, 128),
    ("silu", (X,), None, 2 * 32, 128, 128),
    # exact 5; tanh form 9; backward 11 and 18
    ("gelu", (X, None), ("", ""), 5 * 32, 128, 128),
    ("gelu", (X, None), ("", "tanh"), 9 * 32, 128, 128),
    ("gelu_backward", (X, X, None), ("", "", "none"), 11 * 32, 256, 128),
    ("gelu_backward", (X, X, None), ("", "", "tanh"), 18 * 32, 256, 128),
    # alpha 1 adds; 0.5 multiplies too
    ("add", (X, X, None), ("", "", "1"), 32, 256, 128),
    ("add", (X, X, None), ("", "", "0.5"), 2 * 32, 256, 128),
    ("add", (X, X, None), None, 32, 256, 128),
    ("add_", (bf16(4, 8), X, None), ("", "", "1"), 32, 64 + 128, 64),
    ("mul", (X, None), ("", "2."), 32, 128, 128),
    ("div", (X, f32(8)), None, 32, 128 + 32, 128),
    ("eq", (X, None), ("", "1"), 32, 128, 32),
    ("pow", (X, None), ("", "2"), 32, 128, 128),
    # of a complex number: two squares, a sum, a root; a real number comes out
    ("abs", (X,), None, 32, 128, 128),
    # one complex number beside real ones: complex, as wide as these (none of half bf16)
    ("mul", (of("double", 4, 8), of("c10::complex<float>")), None, 6 * 32, 256 + 8, 512),
    ("mul", (of("c10::Half", 4, 8), of("c10::complex<double>")), None, 6 * 32, 64 + 16, 128),
    ("mul", (bf16(4, 8), of("c10::complex<float>")), None, 6 * 32, 64 + 8, 256),
    ("abs", (of("c10::complex<float>", 4, 8),), None, 4 * 32, 256, 128),
    ("clamp", (X, None, None), ("", "0", ""), 32, 128, 128),
    ("clamp", (X, None, None), ("", "0", "1"), 2 * 32, 128, 128),
    ("threshold_backward", (X, X, None), ("", "", "0"), 2 * 32, 256, 128),
    # value * b * c: 1 leaves out a product
    ("addcmul_", (X, X, X, None), ("", "", "", "1"), 2 * 32, 384, 128),
    ("addcmul_", (X, X, X, None), ("", "", "", "0.1"), 3 * 32, 384, 128),
    ("addcdiv_", (X, X, X, None), ("", "", "", "-0.1"), 3 * 32, 384, 128),
    # a mask of bools is 32 bytes
    ("where", (of("bool", 4, 8), X, None), ("", "", "0"), 32, 32 + 128, 128),
    ("masked_fill_", (X, of("bool", 4, 8), None), None, 32, 128 + 32, 128),
    # result and mask; without training nothing is computed
    ("native_dropout", (X, None, None), ("", "0.1", "True"), 3 * 32, 128, 128 + 32),
    ("native_dropout", (X, None, None), ("", "0.1", "False"), 0, 128, 128 + 32),
    ("native_dropout_backward", (X, of("bool", 4, 8), None), None, 2 * 32, 128 + 32, 128),
    ("sigmoid_backward", (X, X), None, 3 * 32, 256, 128),
    ("silu_backward", (X, X), None, 6 * 32, 256, 128),
    # out=: written in its own type, not read
    ("add", (X, X, None, bf16(4, 8)), ("", "", "1", ""), 32, 256, 64),
    # an expanded operand is read once: 8 floats
    ("mul", (X, f32(4, 8, strides=(0, 1))), None, 32, 128 + 32, 128),
]


@pytest.mark.parametrize(("name", "tensors", "texts", "flops", "read", "written"), CASES)
def test_one_call(  # noqa: PLR0917
    name, tensors, texts, flops, read, written
):
    found = cost("aten::" + name, Call(tensors, texts))
    assert (found.flops, found.read_bytes, found.write_bytes) == (flops, read, written)


@pytest.mark.parametrize(
    ("tensors", "texts", "written"),
    [
        # broadcasting (4,1) with (8,) gives 32 results
        ((f32(4, 1), f32(8)), None, 128),
        # fp16 with bf16 gives fp32; a tensor without dimensions does not widen
        ((bf16(4), of("c10::Half", 4)), None, 16),
        ((bf16(4), f32()), None, 8),
        # integers: with int64 int64; a number that was not recorded leaves the result unknown
        ((of("int", 4), of("long", 4)), None, 32),
        ((of("int", 4), None), ("", "2"), 16),
        ((of("int", 4), None), ("", "2.5"), 16),
        ((of("int", 4), None), None, None),
        ((of("bool", 4), None), ("", "2"), 32),
        ((of("unsigned char", 4), of("signed char", 4)), None, 8),
        ((of("int", 4), of("double")), None, None),
        ((of("c10::complex<float>", 4), of("double", 4)), None, 64),
    ],
)
def test_the_type_of_the_result(tensors, texts, written):
    assert cost("aten::mul", Call(tensors, texts)).write_bytes == written


def test_complex_numbers_count_their_real_parts():
    c = of("c10::complex<float>", 4)
    assert cost("aten::add", Call((c, c, None))).flops == 2 * 4
    assert cost("aten::mul", Call((c, c))).flops == 6 * 4
    assert cost("aten::exp", Call((c,))).flops is None


def test_units():
    assert cost("aten::exp", Call((X,))).unit == "special"
    assert cost("aten::mul", Call((X, X))).unit == "vector"
    assert cost("aten::pow", Call((X, None), ("", "2"))).unit == "vector"
    assert cost("aten::pow", Call((X, None), ("", "0.5"))).unit == "special"


def test_gated_activation_of_servers():
    # 4 x 8 from 4 x 16: silu 2 and a product, 3 * 32 FLOPs; reads 64 and writes 32 of 2 bytes
    found = cost("_C::silu_and_mul", Call((bf16(4, 8), bf16(4, 16))))
    assert (found.flops, found.read_bytes, found.write_bytes) == (96, 128, 64)


def test_gated_linear_unit():
    # halves of 4 x 8: sigmoid and product, 2 * 16; backward 5 * 16
    assert cost("aten::glu", Call((X, None))).flops == 32
    found = cost("aten::glu_backward", Call((f32(4, 4), X, None)))
    assert (found.flops, found.read_bytes, found.write_bytes) == (80, 64 + 128, 128)


def test_rotary_embedding():
    # 2 positions, 3 query heads and 1 key head of width 8, cache of width 4: half of each head
    # turns, 2 * (3 + 1) * 4 = 32 elements of 3 FLOPs; reads 2 positions, 32, 2 cache rows of 4
    tensors = (of("long", 2), bf16(2, 24), bf16(2, 8), None, bf16(99, 4), None)
    found = cost("_C::rotary_embedding", Call(tensors, ("", "", "", "8", "", "True")))
    assert found.flops == 96
    assert (found.read_bytes, found.write_bytes) == (16 + 64 + 16, 64)


@pytest.mark.parametrize(
    ("name", "tensors"),
    [("add", (f32(3), f32(4))), ("neg", (None,)), ("where", (of("bool", 3), None, None)),
     ("mul", (Tensor((2,), "weird"), f32(2)))],
)  # fmt: skip
def test_what_cannot_be_priced_says_why(name, tensors):
    with pytest.raises(ShapeError):
        cost("aten::" + name, Call(tensors))


def test_positions_agree_with_torch():
    # operands are tensors or numbers, a factor is alpha or value, and out= comes where it is said
    torch = pytest.importorskip("torch")
    from workbench.costs.elementwise import SPECS

    for name, spec in SPECS.items():
        packet = getattr(torch.ops.aten, name)
        schemas = [getattr(packet, o)._schema for o in packet.overloads()]
        tensors = [s for s in schemas if str(s.arguments[0].type) == "Tensor"]
        plain = [s for s in tensors if not any(a.is_out for a in s.arguments)]
        whole = max(plain, key=lambda s: ("Tensor" in s.overload_name, len(s.arguments)))
        kinds = [str(a.type) for a in whole.arguments]
        assert all("Tensor" in kinds[p] or "number" in kinds[p] for p in spec.operands), name
        if spec.scale is not None:
            assert whole.arguments[spec.scale].name in {"alpha", "value"}, name
        outs = [
            s
            for s in tensors
            if s.arguments[-1].is_out and s.overload_name in {"out", "Tensor_out"}
        ]
        if spec.out is not None and outs:
            assert outs[0].arguments[spec.out].is_out, name
