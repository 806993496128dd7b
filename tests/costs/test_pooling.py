import pytest

from workbench.costs.models import cost
from workbench.costs.pooling import extent
from workbench.costs.shapes import Call, ShapeError, Tensor


def f32(*dims):
    return Tensor(dims, "float")


def ids(*dims):
    return Tensor(dims, "long")


def priced(name, tensors, texts=None):
    found = cost("aten::" + name, Call(tensors, texts))
    return found.flops, found.read_bytes, found.write_bytes


@pytest.mark.parametrize(
    ("sizes", "ceil", "windows"),
    [
        # (n, kernel, stride, padding, dilation): floor((n + 2p - d(k-1) - 1) / s + 1)
        ((112, 3, 2, 1, 1), False, 56),
        ((5, 2, 2, 0, 1), False, 2),
        ((5, 2, 2, 0, 1), True, 3),
        ((7, 3, 1, 0, 2), False, 3),
        # rounded up 3, but the third starts in the right padding, at 4 of 1 + 2 + 1
        ((2, 1, 2, 1, 1), True, 2),
        ((1, 3, 1, 0, 1), False, 0),
    ],
)
def test_windows(sizes, ceil, windows):
    assert extent(*sizes, ceil) == windows


def test_max_pooling():
    # 2 x 8 x 8 with 2 x 2 windows: 2 * 16 outputs of 4 comparisons; writes values and indices
    texts = ("", "[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "False")
    tensors = (f32(1, 2, 8, 8), None, None, None, None, None)
    assert priced("max_pool2d_with_indices", tensors, texts) == (128, 512, 32 * 12)
    # no stride: that of the window; a single number is for both dimensions
    texts = ("", "[2]", "[]", "[0]", "[1]", "False")
    assert priced("max_pool2d_with_indices", tensors, texts)[0] == 128
    back = (f32(1, 2, 4, 4), f32(1, 2, 8, 8), *(None,) * 5, ids(1, 2, 4, 4))
    assert priced("max_pool2d_with_indices_backward", back) == (32, 128 + 256, 512)


def test_max_pooling_along_one_dimension_keeps_no_indices():
    # 2 x 8 with windows of 2: 8 outputs of 2 comparisons
    texts = ("", "[2]", "[2]", "[0]", "[1]", "False")
    tensors = (f32(1, 2, 8), *(None,) * 5)
    assert priced("max_pool1d", tensors, texts) == (16, 64, 32)


def test_average_pooling():
    # as above, 4 additions and a division; backward a division and 4 additions a gradient
    texts = ("", "[2, 2]", "[2, 2]", "[0, 0]", "False", "True", "")
    assert priced("avg_pool2d", (f32(1, 2, 8, 8), *(None,) * 6), texts) == (160, 512, 128)
    back = (f32(1, 2, 4, 4), f32(1, 2, 8, 8), *(None,) * 6)
    assert priced("avg_pool2d_backward", back, ("", "", "[2, 2]", *("",) * 5)) == (160, 128, 512)


def test_adaptive_pooling():
    # every element is added once, 2 * 4 divisions
    found = priced("_adaptive_avg_pool2d", (f32(1, 2, 8, 8), None), ("", "[2, 2]"))
    assert found == (128 + 8, 512, 32)
    back = priced("_adaptive_avg_pool2d_backward", (f32(1, 2, 2, 2), f32(1, 2, 8, 8)))
    assert back == (8 + 128, 32, 512)


def test_resizing():
    # 2 x 4 x 4 to 8 x 8: nearest copies; bilinear is three interpolations of 3 FLOPs an output
    given, texts = (f32(1, 2, 4, 4), None, None, None), ("", "[8, 8]", "", "")
    assert priced("upsample_nearest2d", given, texts) == (0, 128, 512)
    assert priced("upsample_bilinear2d", given, texts) == (9 * 128, 128, 512)
    # to 2 x 2 nearest reads only what it keeps
    assert priced("upsample_nearest2d", given, ("", "[2, 2]", "", ""))[1] == 32
    back = ("", "[8, 8]", "[1, 2, 4, 4]", "", "")
    assert priced("upsample_nearest2d_backward", (f32(1, 2, 8, 8), *(None,) * 4), back) == (
        128,
        512,
        128,
    )


@pytest.mark.parametrize(
    ("name", "texts"),
    [("max_pool2d_with_indices", None),
     ("max_pool2d_with_indices", ("", "[2, 2, 2]", "[2]", "[0]", "[1]", "False")),
     ("max_pool2d_with_indices", ("", "[2, 2]", "[0, 0]", "[0]", "[1]", "False")),
     ("upsample_nearest2d", ("", "", "[2., 2.]")), ("_adaptive_avg_pool2d", None)],
)  # fmt: skip
def test_what_cannot_be_priced_says_why(name, texts):
    with pytest.raises(ShapeError):
        priced(name, (f32(1, 2, 8, 8), *(None,) * 5), texts)
