"""Operators that move data: copies, indexing, ordering, random numbers, sparse helpers, fused."""

import pytest

from workbench.costs.models import cost
from workbench.costs.shapes import Call, ShapeError, Tensor


def f32(*dims, strides=None):
    return Tensor(dims, "float", strides)


def of(kind, *dims):
    return Tensor(dims, kind)


def priced(name, tensors, texts=None):
    found = cost(name, Call(tensors, texts))
    return found.flops, found.read_bytes, found.write_bytes


X = f32(4, 8)  # 32 elements, 128 bytes
PICK = of("long", 3)
NO = None

# name, tensors, texts, FLOPs, read, written
CASES = [
    ("copy_", (X, of("c10::Half", 4, 8), NO), NO, 0, 64, 128),
    ("copy_", (X, f32(8), NO), NO, 0, 32, 128),
    ("fill_", (X, NO), ("", "0"), 0, 0, 128),
    ("zero_", (X,), NO, 0, 0, 128),
    ("_local_scalar_dense", (of("long"),), NO, 0, 8, 8),
    ("cat", ((X, f32(2, 8)), NO), ("", "0"), 0, 192, 192),
    # of two types: the wider one is written; bf16 64 and fp32 128 bytes
    ("cat", ((of("c10::BFloat16", 4, 8), X), NO), ("", "0"), 0, 192, 256),
    # neither extents nor types of a list: it moves, how much is not known
    ("cat", (NO, NO), NO, 0, NO, NO),
    ("cat", ((of("TensorList", 4, 8),), NO), NO, 0, NO, NO),
    # columns 1 + 8 + 2, rows 4 - 1: 33; a cut row is not read
    ("constant_pad_nd", (X, NO, NO), ("", "[1, 2]", "0"), 0, 128, 44 * 4),
    ("constant_pad_nd", (X, NO, NO), ("", "[1, 2, -1, 0]", "0"), 0, 96, 33 * 4),
    ("repeat", (X, NO), ("", "[2, 1, 3]"), 0, 128, 6 * 128),
    ("flip", (X, NO), ("", "[0]"), 0, 128, 128),
    ("arange", (NO,) * 5, ("7", "", "", "", ""), 0, 0, 56),
    ("arange", (NO,) * 6, ("0", "1.", "6", "", "", ""), 0, 0, 4),
    ("arange", (NO,) * 7, ("2", "9", "3", "3", "", "", ""), 0, 0, 12),
    ("arange", (NO, NO, NO, of("long", 0)), ("0", "351", "1", ""), 0, 0, 351 * 8),
    # 3 of 32 elements and 3 indices
    ("gather", (X, NO, of("long", 3, 1), NO), NO, 0, 24 + 12, 12),
    # more picks than elements read all once
    ("gather", (X, NO, of("long", 4, 80), NO), NO, 0, 2560 + 128, 1280),
    ("index_select", (X, NO, PICK), ("", "0", ""), 0, 24 + 96, 96),
    ("index_select", (X, NO, PICK), ("", "1", ""), 0, 24 + 48, 48),
    ("index_select", (f32(9), NO, PICK), NO, 0, 24 + 12, 12),
    ("index", (X, (PICK,)), NO, 0, 24 + 96, 96),
    ("index", (X, (PICK, PICK)), NO, 0, 48 + 12, 12),
    # a mask, or what may be one: how many it picks is not recorded
    ("index", (X, (of("bool", 4, 8),)), NO, 0, NO, NO),
    ("index", (X, (of("TensorList", 4),)), NO, 0, NO, NO),
    ("index", (X, (of("TensorList", 3),)), NO, 0, 24 + 96, 96),
    ("index", (X, NO), NO, 0, NO, NO),
    # 3 rows of 8 are placed; added ones are read first, 1 FLOP each
    ("index_put_", (X, (PICK,), f32(3, 8), NO), ("", "", "", "False"), 0, 96 + 24, 96),
    ("index_put_", (X, (PICK,), f32(3, 8), NO), ("", "", "", "True"), 24, 96 + 24 + 96, 96),
    ("_index_put_impl_", (X, NO, f32(3, 8), NO, NO), ("", "", "", "True", ""), 24, NO, 96),
    ("index_copy_", (X, NO, PICK, f32(3, 8)), NO, 0, 24 + 96, 96),
    ("index_add_", (X, NO, PICK, f32(3, 8), NO), NO, 24, 24 + 96 + 96, 96),
    # a number, or a tensor of one, goes to 3 slices of 8 along the first dimension
    ("index_fill_", (X, NO, PICK, NO), ("", "0", "", "1."), 0, 24, 96),
    ("index_fill_", (X, NO, PICK, f32()), ("", "0", "", ""), 0, 24 + 4, 96),
    ("index_fill_", (f32(9), NO, PICK, NO), NO, 0, 24, 12),
    ("index_fill", (X, NO, PICK, NO), ("", "0", "", "1."), 0, 24 + 128, 128),
    ("scatter_", (X, NO, of("long", 4, 2), NO), NO, 0, 64, 32),
    # of a source larger than the index, only what the index places: 8 elements
    ("scatter_", (X, NO, of("long", 4, 2), f32(9, 9)), NO, 0, 64 + 32, 32),
    ("scatter_add_", (X, NO, of("long", 4, 2), f32(9, 9)), NO, 8, 64 + 32 + 32, 32),
    ("scatter_reduce", (X, NO, of("long", 4, 2), f32(9, 9)), NO, 8, 64 + 32 + 128, 128),
    ("scatter_add_", (X, NO, of("long", 4, 2), f32(4, 2)), NO, 8, 64 + 32 + 32, 32),
    # on a copy: all of self is read and written
    ("scatter_add", (X, NO, of("long", 4, 2), f32(4, 2)), NO, 8, 64 + 32 + 128, 128),
    ("nonzero", (of("bool", 4, 8),), NO, 0, 32, NO),
    ("masked_select", (X, of("bool", 4, 8)), NO, 0, 128 + 32, NO),
    ("sort", (X, NO, NO), ("", "-1", "False"), 0, 128, 32 * 12),
    ("topk", (X, NO, NO, NO, NO), ("", "2", "-1", "True", "True"), 0, 128, 8 * 12),
    ("bucketize", (f32(5), f32(9), NO, NO), ("", "", "False", "False"), 0, 56, 40),
    ("bucketize", (f32(5), f32(9), NO, NO), ("", "", "True", "False"), 0, 56, 20),
    ("searchsorted", (f32(9), f32(5), NO, NO), ("", "", "False", "False"), 0, 56, 40),
    ("normal_", (X, NO, NO, NO), NO, 0, 0, 128),
    ("bernoulli_", (X, X, NO), NO, 0, 128, 128),
    ("multinomial", (X, NO, NO, NO), ("", "2", "False", ""), 0, 128, 4 * 2 * 8),
    ("randperm", (NO,) * 5, ("7", "4", "", "", ""), 0, 0, 56),
]


@pytest.mark.parametrize(("name", "tensors", "texts", "flops", "read", "written"), CASES)
def test_one_call(  # noqa: PLR0917
    name, tensors, texts, flops, read, written
):
    assert priced("aten::" + name, tensors, texts) == (flops, read, written)


def test_what_moves_uses_no_arithmetic():
    assert cost("aten::copy_", Call((X, X, None))).unit == "memory"


@pytest.mark.parametrize(
    ("name", "tensors", "texts"),
    [("constant_pad_nd", (X, NO, NO), NO), ("constant_pad_nd", (X, NO, NO), ("", "[1]", "")),
     ("constant_pad_nd", (X, NO, NO), ("", "[-5, -5]", "")), ("repeat", (X, NO), NO),
     ("arange", (NO,) * 5, NO), ("arange", (NO,) * 7, ("0", "1", "0", "", "", "", "")),
     ("index_select", (X, NO, PICK), NO), ("index_fill_", (X, NO, PICK, NO), NO),
     ("topk", (X, NO, NO), NO),
     ("index", (f32(4), (PICK, PICK)), NO), ("index_put_", (X, (PICK,), X, NO), NO),
     ("randperm", (NO,) * 5, NO), ("multinomial", (X, NO, NO, NO), NO)],
)  # fmt: skip
def test_what_cannot_be_priced_says_why(name, tensors, texts):
    with pytest.raises(ShapeError):
        priced("aten::" + name, tensors, texts)


def test_permuted_sparse_features():
    # 3 features x 2 rows of lengths, 10 values of int64: all are kept when 3 features come out
    name = "fbgemm::permute_2D_sparse_data"
    lengths, values = of("int", 3, 2), of("long", 10)
    order = of("int", 3)
    read = 12 + 24 + 80
    assert priced(name, (order, lengths, values, NO, NO)) == (0, read, 24 + 80)
    # 2 of 3 features: how many values they have says the sum, 6, or nothing
    order = of("int", 2)
    texts = ("", "", "", "", "6")
    assert priced(name, (order, lengths, values, NO, NO), texts) == (0, read - 4, 16 + 48)
    assert priced(name, (order, lengths, values, NO, NO)) == (0, read - 4, None)
    # with weights of fp32
    found = priced(name, (of("int", 3), lengths, values, f32(10), NO))
    assert found == (0, read + 40, 24 + 80 + 40)


def test_other_sparse_helpers():
    ids = of("long", 5)
    assert priced("fbgemm::asynchronous_complete_cumsum", (ids,)) == (0, 40, 48)
    assert priced("fbgemm::asynchronous_complete_cumsum", (of("int", 2, 5),)) == (0, 40, 48)
    rows, offsets = of("long", 1), of("long", 3)
    assert priced("fbgemm::bounds_check_indices", (rows, ids, offsets, NO, rows)) == (0, 72, 0)
    assert priced("fb::offsets_range", (offsets, of("int", 7))) == (0, 24, 56)
    pooled = priced("fbgemm::permute_pooled_embs_auto_grad", (X, offsets, of("long", 2), offsets))
    assert pooled == (0, 128 + 24 + 16 + 24, 128)
    node = "torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction<&f> >"
    assert priced(node, (X,)) == (0, 128, 128)


def test_keys_and_values_into_their_caches():
    # 5 tokens of 2 x 8 in bf16 to a cache of bytes: reads 2 * 160 and 5 slots, writes 2 * 80
    key = of("c10::BFloat16", 5, 2, 8)
    cache = of("unsigned char", 9, 4, 2, 8)
    found = priced("_C_cache_ops::reshape_and_cache_flash", (key, key, cache, cache, of("long", 5)))
    assert found == (0, 320 + 40, 160)


@pytest.mark.parametrize(
    ("tensors", "texts", "read", "written"),
    [
        # two inputs, and an output of an element an iteration
        ((X, X, X, NO), ("", "", "", "32"), 256, 128),
        # a bias comes last: the first is input and output in one
        ((X, f32(8), NO), ("", "", "32"), 160, 128),
        # a slice of 32 out of 96, and its copy: 32 elements of the first are read
        ((f32(96), X, NO), ("", "", "32"), 128, 128),
        # a reduction over 8: 4 results
        ((X, f32(4), NO, NO), ("", "", "4", "8"), 128, 16),
    ],
)
def test_fused_kernels_count_each_argument_once(tensors, texts, read, written):
    found = cost("triton_poi_fused_add_3", Call(tensors, texts))
    assert (found.flops, found.read_bytes, found.write_bytes) == (None, read, written)
    assert found.model == "fused"


def test_fused_kernels_without_iterations_are_not_guessed():
    with pytest.raises(ShapeError):
        priced("triton_red_fused_add_3", (X, X))
