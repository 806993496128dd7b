import pytest

from workbench.costs.attention import score_pairs
from workbench.costs.models import cost
from workbench.costs.shapes import Call, ShapeError, Tensor

CPU = "aten::_scaled_dot_product_flash_attention_for_cpu"


def half(*dims):
    return Tensor(dims, "c10::Half")


def cpu_call(q, k, v, causal, mask=None):
    return Call((q, k, v, None, None, mask, None), ("", "", "", "0.", causal, "", ""))


def test_full_attention():
    # K45: 4 * 1 * 12 * 64 * 64 * 64 = 12,582,912; reads three, writes one of 49,152 elements.
    q = half(1, 12, 64, 64)
    found = cost(CPU, cpu_call(q, q, q, "False"))
    assert found.flops == 12_582_912
    assert (found.read_bytes, found.write_bytes) == (3 * 49_152 * 2, 49_152 * 2)


def test_causal_counts_the_unmasked_half():
    q = half(1, 12, 64, 64)
    assert cost(CPU, cpu_call(q, q, q, "True")).flops == 6_291_456


@pytest.mark.parametrize(
    ("queries", "keys", "pairs"), [(4, 4, 8), (4, 6, 8), (6, 4, 16), (1, 1, 0.5)]
)
def test_causal_pairs_when_lengths_differ(queries, keys, pairs):
    assert score_pairs(queries, keys, causal=True) == pairs
    assert score_pairs(queries, keys, causal=False) == queries * keys


def test_another_width_of_values():
    # 2 * B1 * H2 * 4 * 6 * (8 + 16) = 2304; O is 1 x 2 x 4 x 16.
    found = cost(CPU, cpu_call(half(1, 2, 4, 8), half(1, 2, 6, 8), half(1, 2, 6, 16), "False"))
    assert (found.flops, found.write_bytes) == (2304, 256)


def test_grouped_queries_use_all_query_heads_and_the_bytes_that_exist():
    found = cost(CPU, cpu_call(half(1, 8, 4, 2), half(1, 2, 4, 2), half(1, 2, 4, 2), "False"))
    assert found.flops == 4 * 8 * 4 * 4 * 2
    assert found.read_bytes == (64 + 16 + 16) * 2


def test_a_mask_is_read_once_when_it_is_expanded():
    mask = Tensor((1, 12, 64, 64), "c10::Half", (0, 0, 64, 1))
    q = half(1, 12, 64, 64)
    assert cost(CPU, cpu_call(q, q, q, "False", mask)).read_bytes == (3 * 49_152 + 4096) * 2


def test_backward_is_two_and_a_half_forwards():
    # five products against two; reads dO Q K V O, writes dQ dK dV
    q, lse = half(1, 12, 64, 64), Tensor((1, 12, 64), "float")
    concrete = ("",) * 6 + ("0.", "True", "", "")
    found = cost(CPU + "_backward", Call((q, q, q, q, q, lse, None, None, None, None), concrete))
    assert found.flops == 6_291_456 * 5 // 2
    assert (found.read_bytes, found.write_bytes) == (5 * 49_152 * 2, 3 * 49_152 * 2)


@pytest.mark.parametrize(
    ("name", "position", "length"),
    [("scaled_dot_product_attention", 5, 8), ("_scaled_dot_product_flash_attention", 4, 7),
     ("_scaled_dot_product_efficient_attention", 6, 8),
     ("_scaled_dot_product_cudnn_attention", 6, 9)],
)  # fmt: skip
def test_is_causal_is_found_where_the_schema_has_it(name, position, length):
    torch = pytest.importorskip("torch")
    schema = getattr(torch.ops.aten, name).default._schema.arguments
    assert schema[position].name == "is_causal"
    q = half(1, 2, 4, 8)
    concrete = ["False"] * length
    concrete[position] = "True"
    found = cost("aten::" + name, Call((q, q, q) + (None,) * (length - 3), tuple(concrete)))
    assert found.flops == 4 * 2 * 8 * 8


@pytest.mark.parametrize(
    "name",
    ["_scaled_dot_product_flash_attention_for_cpu_backward",
     "_scaled_dot_product_flash_attention_backward",
     "_scaled_dot_product_efficient_attention_backward",
     "_scaled_dot_product_cudnn_attention_backward",
     "_scaled_dot_product_fused_attention_overrideable",
     "_scaled_dot_product_flash_attention_for_cpu"],
)  # fmt: skip
def test_positions_agree_with_torch(name):
    from workbench.costs.attention_calls import SIGNATURES

    torch = pytest.importorskip("torch")
    args = [a.name for a in getattr(torch.ops.aten, name).default._schema.arguments]
    signature = SIGNATURES["aten::" + name]
    assert args[signature.query] == "query"
    assert args[signature.causal] == "is_causal"
    assert signature.mask is None or args[signature.mask] in {"attn_mask", "attn_bias"}
    assert signature.out is None or args[signature.out] == "out"


def test_unknown_causal_is_unknown_not_a_guess():
    q = half(1, 2, 4, 8)
    with pytest.raises(ShapeError, match="not recorded"):
        cost(CPU, Call((q, q, q)))


@pytest.mark.parametrize(
    "shapes",
    [((2, 4, 8), (2, 4, 8), (2, 4, 8)), ((1, 3, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)),
     ((1, 2, 4, 8), (1, 2, 4, 9), (1, 2, 4, 8)), ((1, 2, 4, 8), (1, 0, 4, 8), (1, 0, 4, 8))],
)  # fmt: skip
def test_shapes_that_do_not_fit(shapes):
    with pytest.raises(ShapeError):
        cost(CPU, cpu_call(*(half(*s) for s in shapes), "False"))
