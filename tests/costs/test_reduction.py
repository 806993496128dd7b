import pytest

from workbench.costs.models import cost
from workbench.costs.shapes import Call, ShapeError, Tensor


def f32(*dims):
    return Tensor(dims, "float")


def of(kind, *dims):
    return Tensor(dims, kind)


X = f32(4, 8)  # 32 elements, 128 bytes
IDS = of("long", 4)

# name, tensors, texts, FLOPs, read, written
CASES = [
    ("sum", (X, None), ("", ""), 32, 128, 4),
    ("sum", (X, None, None, None), ("", "[0]", "True", ""), 32, 128, 32),
    ("sum", (X, None, None, None), ("", "", "False", ""), 32, 128, 4),
    # old traces lack the dimensions: what is written is not known
    ("sum", (X, None, None, None), None, 32, 128, None),
    ("sum", (of("int", 4, 8), None), ("", ""), 32, 128, 8),
    ("sum", (of("c10::BFloat16", 4, 8), None, None, None), ("", "[1]", "False", "6"), 32, 64, 16),
    # 32 additions and a division for each of 4
    ("mean", (X, None, None, None), ("", "[-1]", "False", ""), 36, 128, 16),
    ("mean", (X, None, None, None), None, None, 128, None),
    ("mean", (X, None, None, None, f32()), None, 33, 128, 4),
    ("max", (X,), ("",), 32, 128, 4),
    ("max", (X, None, None), ("", "1", "False"), 32, 128, 4 * (4 + 8)),
    ("max", (X, X), ("", ""), 32, 256, 128),
    ("argmax", (X, None, None), ("", "-1", "False"), 32, 128, 4 * 8),
    ("argmax", (X, None, None), ("", "", "False"), 32, 128, 8),
    ("any", (of("bool", 4, 8),), ("",), 32, 32, 1),
    # mean, difference, square, sum: 4 * 32; two divisions for each of 4 rows, a root for std
    ("var", (X, None, None, None), ("", "[1]", "1", "False"), 136, 128, 16),
    ("std", (X, None, None, None), ("", "[1]", "1", "False"), 140, 128, 16),
    # square and sum, a root for each of 4
    ("linalg_vector_norm", (X, None, None, None, None), ("", "2", "[1]", "False", ""), 68, 128, 16),
    ("linalg_vector_norm", (X, None, None, None, None), ("", "1", "[1]", "False", ""), 64, 128, 16),
    ("cumsum", (X, None, None), ("", "0", ""), 32, 128, 128),
    ("cumsum", (of("bool", 4, 8), None, None), ("", "0", ""), 32, 32, 256),
    # maximum, difference, exp, sum, division; log_softmax a log for each of 4 rows
    ("_softmax", (X, None, None), ("", "-1", "False"), 160, 128, 128),
    ("_softmax", (of("c10::Half", 4, 8), None, None), ("", "-1", "True"), 160, 64, 128),
    ("_log_softmax", (X, None, None), ("", "-1", "False"), 164, 128, 128),
    ("_softmax_backward_data", (X, X, None, None), ("", "", "1", "6"), 128, 256, 128),
    ("_log_softmax_backward_data", (X, X, None, None), ("", "", "1", "15"), 128, 256, 64),
    # difference, square, sum: 3 * 32, and one division; reduction 0 keeps all, 2 only sums
    ("mse_loss", (X, X, None), ("", "", "1"), 97, 256, 4),
    ("mse_loss", (X, X, None), ("", "", "0"), 64, 256, 128),
    ("mse_loss", (X, X, None), ("", "", "2"), 96, 256, 4),
    ("mse_loss_backward", (f32(), X, X, None), ("", "", "", "1"), 96, 4 + 256, 128),
    # 4 rows: one picked element each, minus and sum, one division; reads 4 elements, 4 indices
    ("nll_loss_forward", (X, IDS, None, None, None), ("", "", "", "1", "-100"), 9, 16 + 32, 8),
    # with weights of 8 classes: minus, product, two sums a row
    ("nll_loss_forward", (X, IDS, f32(8), None, None), ("", "", "", "1", "-100"), 17, 80, 8),
    # writes all of the gradient; reads the loss's gradient, indices and total weight
    ("nll_loss_backward", (f32(), X, IDS, None, None, None, f32()), None, 8, 4 + 32 + 4, 128),
    ("binary_cross_entropy", (X, X, None, None), ("", "", "", "1"), 9 * 32 + 1, 256, 4),
    ("smooth_l1_loss", (X, X, None, None), ("", "", "0", "1."), 7 * 32, 256, 128),
    ("huber_loss", (X, X, None, None), ("", "", "0", "1."), 6 * 32, 256, 128),
]


@pytest.mark.parametrize(("name", "tensors", "texts", "flops", "read", "written"), CASES)
def test_one_call(  # noqa: PLR0917
    name, tensors, texts, flops, read, written
):
    found = cost("aten::" + name, Call(tensors, texts))
    assert (found.flops, found.read_bytes, found.write_bytes) == (flops, read, written)


@pytest.mark.parametrize(
    ("name", "tensors", "texts"),
    [("linalg_vector_norm", (X, None, None, None, None), None),
     ("linalg_vector_norm", (X, None, None, None, None), ("", "3", "[1]", "False", "")),
     ("sum", (X, None, None, None), ("", "[2]", "False", "")),
     ("mse_loss", (X, X, None), None), ("_softmax", (None,), None)],
)  # fmt: skip
def test_what_cannot_be_priced_says_why(name, tensors, texts):
    with pytest.raises(ShapeError):
        cost("aten::" + name, Call(tensors, texts))


def test_nothing_to_reduce():
    # 0 x 8 over the first dimension: 8 results of no elements
    found = cost("aten::sum", Call((f32(0, 8), None, None, None), ("", "[0]", "False", "")))
    assert (found.flops, found.write_bytes) == (0, 32)


def test_fourier_transforms():
    # 4 x 8 complex: 5 * 32 * log2(8) = 480; real to 5 of 8: half, and 4 * 5 complex of 8 bytes
    c = of("c10::complex<float>", 4, 8)
    whole = cost("aten::_fft_c2c", Call((c, None, None, None), ("", "[1]", "0", "True")))
    assert (whole.flops, whole.read_bytes, whole.write_bytes) == (480, 256, 256)
    real = cost("aten::_fft_r2c", Call((X, None, None, None), ("", "[1]", "0", "True")))
    assert (real.flops, real.read_bytes, real.write_bytes) == (240, 128, 160)
    back = cost("aten::_fft_c2r", Call((of("c10::complex<float>", 4, 5), None, None, None),
                                       ("", "[1]", "2", "8")))  # fmt: skip
    assert (back.flops, back.read_bytes, back.write_bytes) == (240, 160, 128)


@pytest.mark.parametrize(
    ("name", "texts", "written"),
    [("sum", ("", "[1]", "False", ""), 4 * 8), ("mean", ("", "[1]", "False", ""), 4 * 8),
     ("var", ("", "[1]", "1", "False"), 4 * 4), ("std", ("", "[1]", "1", "False"), 4 * 4),
     ("var_mean", ("", "[1]", "1", "False"), 4 * 12),
     ("norm", ("", "2", "[1]", "False"), 4 * 4),
     ("linalg_vector_norm", ("", "2", "[1]", "False", ""), 4 * 4)],
)  # fmt: skip
def test_norms_and_variances_of_complex_numbers_are_real(name, texts, written):
    # 4 x 8 of 8 bytes: 4 results of 8 bytes, real ones of 4; FLOPs of real numbers do not hold
    given = Tensor((4, 8), "c10::complex<float>")
    found = cost("aten::" + name, Call((given, *[None] * (len(texts) - 1)), texts))
    assert (found.flops, found.read_bytes, found.write_bytes) == (None, 256, written)
