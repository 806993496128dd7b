"""List operators and optimisers on two tensors of 3 x 4: 24 elements, 96 bytes of fp32."""

import pytest

from workbench.costs.models import cost
from workbench.costs.shapes import Call, ShapeError, Tensor

P = (Tensor((3, 4), "float"), Tensor((3, 4), "float"))
ONE = Tensor((), "float")
STEPS = (ONE, ONE)
UNTOLD = (Tensor((3, 4), "TensorList"),) * 2


def priced(name, tensors, texts=None):
    found = cost("aten::" + name, Call(tensors, texts))
    return found.flops, found.read_bytes, found.write_bytes


CASES = [
    ("_foreach_add_", (P, P, None), ("", "", "1"), 24, 192, 96),
    ("_foreach_add_", (P, P, None), ("", "", "-0.001"), 48, 192, 96),
    ("_foreach_add_", (P, None), ("", "1"), 24, 96, 96),
    ("_foreach_mul_", (P, ONE), ("", ""), 24, 100, 96),
    ("_foreach_sqrt", (P,), ("",), 24, 96, 96),
    ("_foreach_lerp_", (P, P, None), ("", "", "0.1"), 72, 192, 96),
    ("_foreach_addcmul_", (P, P, P, None), ("", "", "", "0.001"), 72, 288, 96),
    # one factor a tensor
    ("_foreach_addcdiv_", (P, P, P, None), ("", "", "", "[1., 2.]"), 72, 288, 96),
    ("_foreach_copy_", (P, P, None), ("", "", "False"), 0, 96, 96),
    ("_foreach_zero_", (P,), ("",), 0, 0, 96),
    # square and sum, a root for each tensor
    ("_foreach_norm", (P, None, None), ("", "2", ""), 50, 96, 8),
    ("_foreach_norm", (P, None, None), ("", "inf", ""), 48, 96, 8),
    # types that nothing told: FLOPs are known, bytes are not
    ("_foreach_add_", (UNTOLD, UNTOLD, None), ("", "", "1"), 24, None, None),
    ("_amp_foreach_non_finite_check_and_unscale_", (P, ONE, ONE), ("",) * 3, 48, 104, 96),
]


@pytest.mark.parametrize(("name", "tensors", "texts", "flops", "read", "written"), CASES)
def test_lists(  # noqa: PLR0917
    name, tensors, texts, flops, read, written
):
    assert priced(name, tensors, texts) == (flops, read, written)


def adam(name, *, decay="0.", amsgrad="False", scale=None):
    largest = P if amsgrad == "True" else None
    tensors = (P, P, P, P, largest, STEPS, *(None,) * 7, scale, None)
    texts = ("",) * 6 + ("0.001", "0.9", "0.999", decay, "1e-08", amsgrad, "False", "", "")
    return priced(name, tensors, texts)


def test_adam():
    # 13 an element; reads parameter, gradient, two moments and two steps; writes all but gradient
    assert adam("_fused_adam_") == (13 * 24, 4 * 96 + 8, 3 * 96)
    # decay: g + wd * p is 2; AdamW's p * (1 - lr * wd) is 1; amsgrad a maximum
    assert adam("_fused_adam_", decay="0.1")[0] == 15 * 24
    assert adam("_fused_adamw_", decay="0.1")[0] == 14 * 24
    assert adam("_fused_adam_", amsgrad="True") == (14 * 24, 5 * 96 + 8, 4 * 96)
    # scaled gradients are divided and written back
    assert adam("_fused_adam_", scale=ONE) == (14 * 24, 4 * 96 + 8, 4 * 96)


def test_an_empty_list_whose_type_a_kernel_told_is_no_number():
    # `[]` beside a type reads as a tensor without dimensions; SGD without momentum has no buffers
    empty = Tensor((), "float")
    texts = ("", "", "", "0.", "0.", "0.1", "0.", "False", "False", "False", "", "")
    assert priced("_fused_sgd_", (P, P, empty, *(None,) * 9), texts) == (2 * 24, 192, 96)


@pytest.mark.parametrize(
    ("decay", "momentum", "dampening", "nesterov", "first", "each"),
    [("0.", "0.", "0.", "False", "False", 2), ("0.1", "0.", "0.", "False", "False", 4),
     ("0.", "0.9", "0.", "False", "False", 4), ("0.", "0.9", "0.5", "False", "False", 5),
     ("0.", "0.9", "0.", "True", "False", 6), ("0.", "0.9", "0.", "False", "True", 2)],
)  # fmt: skip
def test_sgd(  # noqa: PLR0917
    decay, momentum, dampening, nesterov, first, each
):
    buffers = P if momentum != "0." else None
    tensors = (P, P, buffers, *(None,) * 9)
    texts = ("", "", "", decay, momentum, "0.1", dampening, nesterov, "False", first, "", "")
    read, written = (288, 192) if buffers else (192, 96)
    assert priced("_fused_sgd_", tensors, texts) == (each * 24, read, written)


def test_adagrad():
    # 7 an element: s += g * g, sqrt(s) + eps, p -= lr * g / that
    tensors = (P, P, P, STEPS, *(None,) * 7)
    texts = ("",) * 4 + ("0.1", "0.", "0.", "1e-10", "False", "", "")
    assert priced("_fused_adagrad_", tensors, texts) == (7 * 24, 288 + 8, 192)


@pytest.mark.parametrize(
    ("name", "tensors"),
    [("_foreach_add_", (None, None)), ("_foreach_norm", (P, None, None)),
     ("_fused_adam_", (P, P, P, P, None, STEPS, *(None,) * 9))],
)  # fmt: skip
def test_what_cannot_be_priced_says_why(name, tensors):
    with pytest.raises(ShapeError):
        priced(name, tensors)
