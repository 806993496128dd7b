"""Attention by operator: layouts, corners of causal masks, windows, packed sequences, caches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.costs.attention import score_pairs
from workbench.costs.attention_calls import CACHED, SIGNATURES
from workbench.costs.models import cost
from workbench.costs.shapes import Call, ShapeError, Tensor


def half(*dims):
    return Tensor(dims, "c10::Half")


INT = Tensor((3,), "int")
"""Cumulative lengths of two sequences."""


def call(tensors, concrete, length):
    """A call of `length` arguments, those that are given by position."""
    placed = tuple(tensors.get(i) for i in range(length))
    return Call(placed, tuple(concrete.get(i, "") for i in range(length)))


def qkv(q, k, v=None, at=0):
    return {at: half(*q), at + 1: half(*k), at + 2: half(*(v or k))}


@pytest.mark.parametrize(
    ("corner", "queries", "keys", "pairs"),
    [
        # top left: query i sees keys up to i, the diagonal half: 1 + 2 - 1
        (False, 2, 6, 2),
        # bottom right: 5 + 6 - 1; with more queries than keys the first 4 see nothing: 1 + 2 - 1
        (True, 2, 6, 10),
        (True, 6, 2, 2),
        (True, 1, 8, 7.5),
        (True, 4, 4, 8),
    ],
)
def test_causal_corners(corner, queries, keys, pairs):
    assert score_pairs(queries, keys, causal=True, bottom_right=corner) == pairs


@given(
    st.integers(0, 9), st.integers(0, 9), st.booleans(), st.booleans(),
    st.integers(-1, 10), st.integers(-1, 10),
)  # fmt: skip
def test_pairs_against_counting_each(  # noqa: PLR0917
    queries, keys, causal, corner, left, right
):
    offset = keys - queries if corner else 0
    bound = 0 if causal else right
    count = 0.0
    for i in range(queries):
        for j in range(keys):
            after = j - i - offset
            if (bound >= 0 and after > bound) or (left >= 0 and -after > left):
                continue
            count += 0.5 if bound == 0 == after else 1
    found = score_pairs(queries, keys, causal=causal, bottom_right=corner, left=left, right=right)
    assert found == count


def test_a_million_tokens_are_counted_at_once():
    assert score_pairs(2**40, 2**40, causal=True) == 2.0**79


FLASH = "aten::_flash_attention_forward"


def test_flash_attention_has_the_length_before_the_heads():
    # 2 * B1 * H2 * (4 * 6) * (8 + 8) = 1536; O is 4 * 2 * 8 halves
    args = call(qkv((1, 4, 2, 8), (1, 6, 2, 8)), {8: "False"}, 13)
    found = cost(FLASH, args)
    assert (found.flops, found.read_bytes, found.write_bytes) == (1536, 2 * (64 + 96 + 96), 128)


def test_a_prefill_with_a_cache_is_a_number():
    # causal with 2 queries on 6 keys, bottom right: 10 of 12 pairs; 2 * H2 * 10 * 16 = 640
    # (a peer raises an error when the lengths differ)
    args = call(qkv((1, 2, 2, 8), (1, 6, 2, 8)), {8: "True"}, 13)
    found = cost(FLASH, args)
    assert (found.flops, found.masked_flops) == (640, 128)
    # torch's own is_causal starts at the top left: 2 of 12 pairs
    cpu = "aten::_scaled_dot_product_flash_attention_for_cpu"
    heads_first = call(qkv((1, 2, 2, 8), (1, 2, 6, 8)), {4: "True"}, 7)
    assert cost(cpu, heads_first).flops == 128


def test_a_sliding_window():
    # 4 queries of 4 keys, each its own and 1 before: 1 + 2 + 2 + 2 - 4 / 2 = 5 pairs, H2 D8
    args = call(qkv((1, 4, 2, 8), (1, 4, 2, 8)), {8: "True", 11: "1", 12: "0"}, 13)
    found = cost(FLASH, args)
    assert (found.flops, found.masked_flops) == (2 * 2 * 5 * 16, 2 * 2 * 11 * 16)
    # without a causal mask: 1 before and 1 after: 2 + 3 + 3 + 2
    both = call(qkv((1, 4, 2, 8), (1, 4, 2, 8)), {8: "False", 11: "1", 12: "1"}, 13)
    assert cost(FLASH, both).flops == 2 * 2 * 10 * 16


def test_packed_sequences_of_one_length_and_of_several():
    # 2 sequences of 4 queries and 6 keys: the longest fill the totals of 8 and 12
    packed = qkv((8, 2, 8), (12, 2, 8)) | {3: INT, 4: INT}
    same = cost(FLASH, call(packed, {5: "4", 6: "6", 8: "False"}, 13))
    assert same.flops == 2 * 1536
    several = cost(FLASH, call(packed, {5: "5", 6: "6", 8: "False"}, 13))
    assert (several.flops, several.read_bytes) == (None, same.read_bytes)
    assert "lengths" in several.unknown
    one = packed | {3: Tensor((2,), "int"), 4: Tensor((2,), "int")}
    assert cost(FLASH, call(one, {8: "False"}, 13)).flops == 2 * 2 * 8 * 12 * 16


def test_packed_sequences_in_a_batch_of_one():
    name = "aten::_efficient_attention_forward"
    packed = qkv((1, 8, 2, 8), (1, 12, 2, 8)) | {4: INT, 5: INT}
    assert cost(name, call(packed, {6: "4", 7: "6", 9: "0"}, 14)).flops == 2 * 1536


@pytest.mark.parametrize(("kind", "pairs"), [("0", 12), ("1", 2), ("2", 10)])
def test_efficient_attention_names_the_corner(kind, pairs):
    args = call(qkv((1, 2, 2, 8), (1, 6, 2, 8)), {9: kind}, 14)
    assert cost("aten::_efficient_attention_forward", args).flops == 2 * 2 * pairs * 16


def test_efficient_attention_in_a_window_of_two_keys():
    # up to its own: 1 + 2 + 2 + 2 less half the diagonal: 5 pairs
    args = call(qkv((1, 4, 2, 8), (1, 4, 2, 8)), {9: "1", 13: "2"}, 14)
    assert cost("aten::_efficient_attention_forward", args).flops == 2 * 2 * 5 * 16
    unknown = call(qkv((1, 4, 2, 8), (1, 4, 2, 8)), {9: "0", 13: "2"}, 14)
    with pytest.raises(ShapeError, match="window"):
        cost("aten::_efficient_attention_forward", unknown)


def test_latent_attention_has_wide_keys_and_narrow_values():
    # D 24, Dv 16: forward 2 * 2 * 16 * 40, backward 2 * 2 * 16 * (3 * 24 + 2 * 16)
    q, v = (1, 2, 4, 24), (1, 2, 4, 16)
    forward = call(qkv(q, q, v), {4: "False"}, 7)
    found = cost("aten::_scaled_dot_product_flash_attention", forward)
    assert (found.flops, found.write_bytes) == (2560, 2 * 128)
    tensors = {0: half(*v), 4: half(*v)} | qkv(q, q, v, at=1)
    back = cost("aten::_scaled_dot_product_flash_attention_backward",
                call(tensors, {11: "False"}, 15))  # fmt: skip
    assert back.flops == 2 * 2 * 16 * 104
    # the scores again: 2 * 2 * 16 * 24
    assert back.recomputed_flops == 1536
    assert (back.read_bytes, back.write_bytes) == (2 * (384 + 128 * 3), 2 * (192 * 2 + 128))


@pytest.mark.parametrize(
    ("name", "causal", "first"),
    [("flash_attn::_flash_attn_forward", 5, 0), ("flashattn::_flash_attn_forward", 5, 0),
     ("flash_attn::_flash_attn_backward", 11, 1), ("flash_attn_3::fwd", 24, 0),
     ("aiter::_flash_attn_forward", 5, 0), ("aiter::mha_fwd", 5, 0),
     ("aiter::fmha_v3_fwd", 5, 0), ("aiter::_flash_attn_backward", 12, 1),
     ("aiter::mha_bwd", 8, 1)],
)  # fmt: skip
def test_operators_of_other_packages(name, causal, first):
    # 10 pairs, bottom right; forward 2 * H2 * 10 * 16, backward 2.5 of it
    tensors = qkv((1, 2, 2, 8), (1, 6, 2, 8), at=first)
    if first:
        tensors |= {0: half(1, 2, 2, 8), 4: half(1, 2, 2, 8)}
    found = cost(name, call(tensors, {causal: "True"}, 27))
    assert found.flops == (1600 if first else 640)


def test_packed_of_the_flash_attention_package():
    tensors = qkv((8, 2, 8), (12, 2, 8)) | {3: INT, 4: INT}
    args = call(tensors, {5: "4", 6: "6", 9: "False", 10: "-1", 11: "-1"}, 18)
    assert cost("flash_attn::_flash_attn_varlen_forward", args).flops == 2 * 1536


def test_in_8_bits_the_type_of_the_output_is_unknown():
    eight = Tensor((1, 4, 2, 8), "c10::Float8_e4m3fn")
    found = cost("flash_attn_3::fwd", call({0: eight, 1: eight, 2: eight}, {24: "False"}, 27))
    assert (found.flops, found.precision, found.write_bytes) == (1024, "fp8", None)
    assert "type" in found.unknown


@pytest.mark.parametrize("name", CACHED)
def test_a_cache_behind_an_object_is_unknown(name):
    with pytest.raises(ShapeError, match="cached keys"):
        cost(name, Call((half(8, 2, 8), half(8, 2, 8), half(8, 2, 8))))


def test_a_cache_whose_used_part_is_in_values_is_unknown():
    tensors = qkv((8, 2, 8), (12, 2, 8)) | {3: INT, 4: INT, 15: Tensor((2, 4), "int")}
    with pytest.raises(ShapeError, match="cache"):
        cost("flash_attn::_flash_attn_varlen_forward",
             call(tensors, {5: "4", 6: "6", 9: "False"}, 18))  # fmt: skip


@pytest.mark.parametrize(
    "tensors",
    [qkv((8, 2, 8), (12, 2, 9)) | {3: INT, 4: INT}, qkv((8, 2, 2, 8), (12, 2, 8)) | {3: INT},
     qkv((8, 2, 8), (12, 2, 8)) | {3: Tensor((1,), "int")}, qkv((8, 2, 8), (8, 2, 8)),
     qkv((1, 4, 3, 8), (1, 4, 2, 8)), qkv((1, 4, 2, 8), (1, 4, 2, 8), (1, 5, 2, 8))],
)  # fmt: skip
def test_what_does_not_fit(tensors):
    with pytest.raises(ShapeError):
        cost(FLASH, call(tensors, {5: "4", 6: "6", 8: "False"}, 13))


FIELDS = {"query": {"query"}, "causal": {"is_causal"}, "mask": {"attn_mask", "attn_bias", "bias"},
          "out": {"out"}, "left": {"window_size_left"}, "right": {"window_size_right"},
          "window": {"window_size"}, "kinds": {"custom_mask_type"}}  # fmt: skip
PAIRS = {"starts": ({"cum_seq_q", "cu_seqlens_q"}, {"cum_seq_k", "cu_seqlens_k"}),
         "longest": ({"max_q", "max_seqlen_q"}, {"max_k", "max_seqlen_k"})}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in SIGNATURES if n.startswith("aten::")])
def test_positions_agree_with_torch(name):
    torch = pytest.importorskip("torch")
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"))
    args = [a.name for a in packet.default._schema.arguments]
    form = SIGNATURES[name]
    for field, wanted in FIELDS.items():
        at = getattr(form, field)
        assert at is None or args[at] in wanted, field
    for field, wanted in PAIRS.items():
        for at, names in zip(getattr(form, field) or (), wanted, strict=False):
            assert args[at] in names, field
    for at in form.cache:
        assert args[at] in {"seqused_k", "block_table", "seqlen_k"}
