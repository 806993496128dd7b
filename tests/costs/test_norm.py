"""Normalisations: every figure worked out from the definition, on 4 rows of 8 or 2 x 3 x 4."""

import pytest

from workbench.costs.models import cost
from workbench.costs.shapes import Call, ShapeError, Tensor


def f32(*dims):
    return Tensor(dims, "float")


def bf16(*dims):
    return Tensor(dims, "c10::BFloat16")


def priced(name, tensors, texts=None):
    found = cost(name, Call(tensors, texts))
    return found.flops, found.read_bytes, found.write_bytes


ROWS, SCALE = f32(4, 8), f32(8)
LAYER = ("", "[8]", "", "", "1e-05")


def test_layer_norm():
    # mean 1, variance 3, product with rstd 1, weight and bias 2: 7 * 32 + 4 rows * 4 = 240;
    # writes 32 and two statistics of 4 rows
    found = priced("aten::native_layer_norm", (ROWS, None, SCALE, SCALE, None), LAYER)
    assert found == (240, 128 + 64, 128 + 32)
    # without weight and bias 5 * 32 + 16; the shape says how long a row is
    assert priced("aten::native_layer_norm", (ROWS, None, None, None, None), LAYER)[0] == 176
    # an old trace has no shape: the weight tells
    assert priced("aten::native_layer_norm", (ROWS, None, SCALE, SCALE, None))[0] == 240
    # statistics of 16 bits are kept in fp32
    narrow = priced("aten::native_layer_norm", (bf16(4, 8), None, bf16(8), bf16(8), None), LAYER)
    assert narrow[2] == 64 + 32


@pytest.mark.parametrize(
    ("mask", "flops", "written"),
    [
        # xhat 2, h 1, sums 1 + 2, dx 5 = 11; dweight 2; dbias 1
        ("[True, True, True]", 14 * 32, 128 + 64),
        ("[True, False, False]", 11 * 32, 128),
        ("[False, True, True]", (2 + 2 + 1) * 32, 64),
        ("[False, False, True]", 32, 32),
    ],
)
def test_layer_norm_backward(mask, flops, written):
    tensors = (ROWS, ROWS, None, f32(4, 1), f32(4, 1), SCALE, SCALE, None)
    texts = ("",) * 7 + (mask,)
    read = 2 * 128 + 2 * 16 + 32
    assert priced("aten::native_layer_norm_backward", tensors, texts) == (flops, read, written)


def test_layer_norm_backward_without_a_recorded_mask_writes_all_there_is():
    tensors = (ROWS, ROWS, None, f32(4, 1), f32(4, 1), SCALE, SCALE, None)
    assert priced("aten::native_layer_norm_backward", tensors)[0] == 14 * 32


IMAGE, CHANNEL = f32(2, 3, 4), f32(3)  # 24 elements, 96 bytes; 3 channels, 12 bytes
BATCH = (IMAGE, CHANNEL, CHANNEL, CHANNEL, CHANNEL, None, None, None)


@pytest.mark.parametrize(
    "name",
    ["native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit"],
)
def test_batch_norm_trains_or_evaluates_as_recorded(name):
    # training: 7 * 24 + 3 channels * (4 + 7 for the running statistics) = 201
    texts = ("",) * 5 + ("True", "0.1", "1e-05")
    # reads input, weight, bias, both running; writes result, two saved, both running
    assert priced("aten::" + name, BATCH, texts) == (201, 96 + 48, 96 + 24 + 24)
    # the text "False" is false: (x - mean) * rstd * weight + bias = 4 * 24 + 3 * 2 = 102
    texts = ("",) * 5 + ("False", "0.1", "1e-05")
    assert priced("aten::" + name, BATCH, texts) == (102, 96 + 48, 96)


def test_batch_norm_whose_mode_is_not_recorded_is_not_guessed():
    with pytest.raises(ShapeError, match="not recorded"):
        priced("aten::cudnn_batch_norm", BATCH)


def test_batch_norm_backward():
    # cuDNN's has no mask: xhat 2, h 1, sums 3, dx 5, dweight 2, dbias 1 = 14 * 24
    tensors = (IMAGE, IMAGE, CHANNEL, CHANNEL, CHANNEL, CHANNEL, CHANNEL, None)
    found = priced("aten::cudnn_batch_norm_backward", tensors)
    assert found == (14 * 24, 2 * 96 + 3 * 12, 96 + 24)
    native = (IMAGE, IMAGE, CHANNEL, CHANNEL, CHANNEL, CHANNEL, CHANNEL, None, None, None)
    texts = ("",) * 7 + ("True", "1e-05", "[True, True, True]")
    assert priced("aten::native_batch_norm_backward", native, texts) == found
    # evaluation: statistics are constants, dx = g * weight * rstd 2, dweight 2 + 2, dbias 1
    texts = ("",) * 7 + ("False", "1e-05", "[True, True, True]")
    assert priced("aten::native_batch_norm_backward", native, texts)[0] == 7 * 24


def test_group_norm():
    # 2 images, 3 channels in 3 groups: 6 groups of 4; 7 * 24 + 6 * 4 = 192; two statistics of 6
    tensors = (IMAGE, CHANNEL, CHANNEL, None, None, None, None, None)
    texts = ("", "", "", "2", "3", "4", "3", "1e-05")
    assert priced("aten::native_group_norm", tensors, texts) == (192, 96 + 24, 96 + 48)
    back = (IMAGE, IMAGE, f32(2, 3), f32(2, 3), CHANNEL, None, None, None, None, None)
    texts = ("",) * 9 + ("[True, True, True]",)
    assert priced("aten::native_group_norm_backward", back, texts)[0] == 14 * 24
    # the same without statistics written: AITER's
    found = priced(
        "aiter::_groupnorm_run", (IMAGE, None, CHANNEL, CHANNEL, None), ("", "3", "", "", "")
    )
    assert found == (192, 96 + 24, 96)


def test_rms_norm():
    # square, sum, product, weight: 4 * 32 + 3 a row = 140; writes 32 and 1 / rms of 4 rows
    texts = ("", "[8]", "", "")
    found = priced("aten::_fused_rms_norm", (ROWS, None, SCALE, None), texts)
    assert found == (140, 128 + 32, 128 + 16)
    # xhat 1, h 1, sum 2, dx 4, dweight 2 = 10 * 32
    back = (ROWS, ROWS, None, f32(4, 1), SCALE, None)
    assert priced("aten::_fused_rms_norm_backward", back, ("",) * 5 + ("[True, True]",))[0] == 320


def test_rms_norms_of_servers():
    # 4 x 8 of 2 bytes: (out, x, weight) reads 64 + 16, writes 64
    x, w = bf16(4, 8), bf16(8)
    assert priced("aiter::rmsnorm", (x, x, w, None)) == (140, 80, 64)
    # with a residual: 32 more FLOPs, the residual read and the sum written
    assert priced("aiter::add_rmsnorm", (x, x, x, x, w, None)) == (172, 144, 128)


@pytest.mark.parametrize(
    ("name", "tensors"),
    [("native_layer_norm", (ROWS, None, None, None, None)),
     ("native_layer_norm", (ROWS, None, f32(5), None, None)),
     ("native_group_norm", (IMAGE, None, None, None, None, None, None, None)),
     ("native_batch_norm", (f32(4), None, None, None, None, None, None, None))],
)  # fmt: skip
def test_what_cannot_be_priced_says_why(name, tensors):
    with pytest.raises(ShapeError):
        priced("aten::" + name, tensors)
