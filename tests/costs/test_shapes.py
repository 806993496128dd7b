import json

import pytest

from workbench.costs.shapes import DTYPES, Call, ShapeError, Tensor, parse


def test_two_matrices_and_a_missing_argument():
    call = parse("[[128,512],[512,512],[]]", '["float","c10::BFloat16",""]')
    assert call.tensors == (
        Tensor((128, 512), "float"), Tensor((512, 512), "c10::BFloat16"), None,
    )  # fmt: skip
    assert call.optional(2) is None


def test_a_scalar_tensor_is_told_from_no_tensor_by_its_type():
    assert parse("[[],[]]", '["float","Scalar"]').tensors == (Tensor((), "float"), None)


def test_a_list_of_tensors_nests_one_deeper():
    call = parse("[[[2,3],[4]]]", '[["float","float"]]')
    assert call.tensors == ((Tensor((2, 3), "float"), Tensor((4,), "float")),)
    same = parse("[[[2,3],[4]]]", '["TensorList"]').tensors[0]
    assert [t.dims for t in same] == [(2, 3), (4,)]


@pytest.mark.parametrize(
    ("name", "width"),
    [("double", 8), ("float", 4), ("c10::Half", 2), ("c10::BFloat16", 2), ("long int", 8),
     ("c10::Float8_e4m3fn", 1), ("c10::Float8_e5m2fnuz", 1), ("bool", 1),
     ("c10::complex<float>", 8)],
)  # fmt: skip
def test_width_of_types(name, width):
    assert Tensor((3,), name).distinct_bytes == 3 * width


def test_unsigned_char_is_an_integer_not_an_8_bit_float():
    assert DTYPES["unsigned char"].precision == "uint8"
    assert DTYPES["c10::Float8_e4m3fn"].precision == "fp8"


@pytest.mark.parametrize(
    ("dims", "strides", "distinct"),
    [((4, 8), (8, 1), 32), ((4, 8), (0, 1), 8), ((4, 8), (0, 0), 1), ((2, 3, 4), (12, 0, 1), 8),
     ((5, 3), (1, 1), 7), ((0, 3), (3, 1), 0), ((), (), 1)],
)  # fmt: skip
def test_distinct_elements_behind_strides(dims, strides, distinct):
    # 5 windows of 3 that move by one touch 0..6: seven elements.
    assert Tensor(dims, "float", strides).distinct_elements == distinct


@pytest.mark.parametrize(
    "text",
    ["", "[", "{}", "null", "__import__('os')", "[" * 5000, '"' + "x" * 2_000_000 + '"', "[1]]"],
)
def test_hostile_text_is_unknown_with_a_reason(text):
    with pytest.raises(ShapeError, match="input dims"):
        parse(text, "[]")


@pytest.mark.parametrize(
    "entry", [[-1, 2], [2**62], [1.5], ["2"], [True], [2**40, 2**40], "x", None, [[1], 2], [1] * 65]
)
def test_a_bad_entry_leaves_only_its_argument_unknown(entry):
    call = parse(json.dumps([entry, [2]]), '["float","float"]')
    assert call.tensors == (None, Tensor((2,), "float"))


def test_unequal_lengths_and_unrecorded_shapes():
    with pytest.raises(ShapeError, match="2 input dims but 1"):
        parse("[[1],[2]]", '["float"]')
    with pytest.raises(ShapeError, match="not recorded"):
        parse(None, '["float"]')


def test_strides_that_do_not_fit_count_as_not_recorded():
    for strides in ("[[1]]", '[["a",1]]', "nonsense", "[[8,1],[1]]", "[[9999999999999999999,1]]"):
        assert parse("[[4,8]]", '["float"]', strides).tensors == (Tensor((4, 8), "float"),)


def test_concrete_inputs():
    call = parse("[[],[],[]]", '["Scalar","Scalar",""]', None, '["True","6",7]')
    assert call.flag(0)
    assert (call.text(1), call.text(2), call.text(9)) == ("6", "", None)
    with pytest.raises(ShapeError, match="not recorded"):
        Call(()).flag(0)


def test_an_unknown_type_name_is_a_reason():
    with pytest.raises(ShapeError, match=r"Posit16.* not known"):
        _ = Tensor((2,), "c10::Posit16").dtype
