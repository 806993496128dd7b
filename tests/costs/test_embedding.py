import pytest

from workbench.costs.models import cost
from workbench.costs.shapes import Call, ShapeError, Tensor

TABLE = Tensor((100, 8), "float")


def indices(*dims):
    return Tensor(dims, "long")


def test_an_embedding_moves_rows_and_computes_nothing():
    # 20 indices of 8 bytes, 20 rows of 32 bytes read and written
    found = cost("aten::embedding", Call((TABLE, indices(4, 5), None, None, None)))
    assert (found.flops, found.read_bytes, found.write_bytes) == (0, 160 + 640, 640)
    assert (found.unit, found.model) == ("memory", "embedding")


def test_more_lookups_than_rows_read_the_table_once():
    found = cost("aten::embedding", Call((TABLE, indices(1000), None, None, None)))
    assert (found.read_bytes, found.write_bytes) == (8000 + 3200, 32_000)


def bag(mode, *, samples=None, last="False"):
    concrete = ("", "", "", "False", mode, "False", "", last, "-1")
    tensors = (TABLE, indices(20), indices(4), None, None, None, samples, None, None)
    return cost("aten::_embedding_bag", Call(tensors, concrete))


def test_a_bag_adds_up_its_rows():
    # 20 lookups of 8: 160 adds; 4 bags of 8 written. Mean: 32 divisions more. Weighted: twice
    found = bag("0")
    assert (found.flops, found.write_bytes, found.unit) == (160, 128, "vector")
    assert found.read_bytes == 160 + 32 + 640
    assert bag("1").flops == 192
    assert bag("2").flops == 160
    weighted = bag("0", samples=Tensor((20,), "float"))
    assert (weighted.flops, weighted.read_bytes) == (320, 832 + 80)
    assert bag("0", last="True").write_bytes == 96


def test_backwards_add_into_a_whole_table():
    # gradient (4, 5, 8), 20 indices: 160 adds, a table of 100 x 8 written
    args = Call((Tensor((4, 5, 8), "float"), indices(4, 5)), ("", "", "100", "-1", "False"))
    found = cost("aten::embedding_dense_backward", args)
    assert (found.flops, found.read_bytes, found.write_bytes) == (160, 640 + 160, 3200)
    bags = (Tensor((4, 8), "float"), indices(20), indices(20), indices(4), indices(4))
    concrete = ("", "", "", "", "", "100", "False", "0", "", "-1")
    found = cost("aten::_embedding_bag_dense_backward", Call(bags + (None,) * 5, concrete))
    assert (found.flops, found.read_bytes, found.write_bytes) == (160, 128 + 320, 3200)


def test_without_arguments_the_number_of_rows_is_unknown():
    args = Call((Tensor((4, 5, 8), "float"), indices(4, 5)))
    found = cost("aten::embedding_dense_backward", args)
    assert (found.flops, found.write_bytes) == (160, None)
    assert "rows" in found.unknown


@pytest.mark.parametrize(
    ("name", "tensors"),
    [("aten::embedding", (Tensor((8,), "float"), indices(4))), ("aten::embedding", (TABLE, None)),
     ("aten::_embedding_bag", (TABLE, indices(20), indices(4))),
     ("aten::embedding_dense_backward", (Tensor((), "float"), indices(4)))],
)  # fmt: skip
def test_unusable_arguments_give_a_reason(name, tensors):
    with pytest.raises(ShapeError):
        cost(name, Call(tensors))
