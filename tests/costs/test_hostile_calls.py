"""Arguments that no framework records: every model prices them, or gives a reason."""

import json
import random

import pytest

from workbench.costs import models, shapes
from workbench.costs.cost import UNITS
from workbench.costs.shapes import ShapeError

DIMS = [
    [], [0], [1], [3], [4, 5], [2, 3, 4], [2, 3, 4, 5], [1, 2, 3, 4, 5], [4, 4, 4, 4], [0, 0],
    [2**61], [2**31, 2**31], [[2, 3], [4]], [[3]], [[]],
]  # fmt: skip
TYPES = [
    "float", "double", "c10::BFloat16", "long int", "bool", "c10::complex<float>", "unsigned char",
    "c10::Float4_e2m1fn_x2", "", "Scalar", "ScalarList", "TensorList", "weird", ["float", "bool"],
]  # fmt: skip
TEXTS = [
    "", "1", "0", "-1", "2", "True", "False", "[1, 1]", "[0, 0]", "[]", "[-3]", "[-1]", "[1,1,1]",
    "9" * 5000, "1e400", "nan", "inf", "[True, True, True]", "[]", "[[[]]]", "\u00b2", "[1e3]",
    "99999999999999999999999", "tanh", "None", "4611686018427387903",
]  # fmt: skip
NAMES = sorted({*models.MODELS, *(start + "x" for start in models.PREFIXES)})
COUNTS = ("flops", "read_bytes", "write_bytes", "epilogue_flops", "masked_flops")


def drawn(name, at):
    """A call with drawn arguments, the same each time."""
    draw = random.Random(f"{name} {at}")
    n = draw.choice([0, 1, 2, 3, 4, 5, 6, 8, 12, 22, 30])
    dims = [draw.choice(DIMS) for _ in range(n)]
    types = [draw.choice(TYPES[:6] if draw.random() < 0.7 else TYPES) for _ in range(n)]
    texts = [draw.choice(TEXTS) for _ in range(n)]
    return shapes.parse(json.dumps(dims), json.dumps(types), None, json.dumps(texts))


def test_bytes_read_and_written_fit_a_count_together():
    # 2^60 floats: 2^62 bytes are read and as many written
    call = shapes.parse(f"[[{2**60}]]", '["float"]')
    assert models.cost("aten::sum", call).read_bytes == 2**62
    with pytest.raises(ShapeError, match="64-bit"):
        models.cost("aten::neg", call)


def refused(name, call):
    """Say whether it gives a reason; what it prices must be counts."""
    try:
        found = models.cost(name, call)
    except ShapeError:
        return True
    counts = [getattr(found, count) for count in COUNTS]
    assert all(n is None or (type(n) is int and 0 <= n <= models.MAX_COUNT) for n in counts)
    assert found.unit in UNITS
    return False


def test_any_arguments_give_counts_or_a_reason():
    answers = [refused(name, drawn(name, at)) for name in NAMES for at in range(25)]
    assert 0 < sum(answers) < len(answers)


@pytest.mark.parametrize(
    ("name", "dims", "texts"),
    [("aten::repeat", [[4], []], ("", "[-2]")),
     ("aten::upsample_nearest1d", [[1, 1, 4], []], ("", "[-8]")),
     ("aiter::_groupnorm_run", [[2, 4, 3], [], [4]], ("", "-2", "")),
     ("aten::_cudnn_rnn_backward", [[7, 2, 5], [[24, 5], [24, 6]]], ("", "[]")),
     ("_C::rotary_embedding", [[3], [3, 8], [3, 8], [], []], ("", "", "", "4", ""))],
)  # fmt: skip
def test_known_traps_give_a_reason(name, dims, texts):
    call = shapes.parse(json.dumps(dims), json.dumps(["float"] * len(dims)), None,
                        json.dumps(texts))  # fmt: skip
    with pytest.raises(ShapeError):
        models.cost(name, call)


@pytest.mark.parametrize("code", ["9" * 5000, "-6", "six", "99"])
def test_a_type_code_that_is_none_counts_as_not_given(code):
    call = shapes.parse("[[4],[],[],[]]", '["float","","",""]', None,
                        json.dumps(["", "", "", code]))  # fmt: skip
    assert models.cost("aten::sum", call).write_bytes == 4
