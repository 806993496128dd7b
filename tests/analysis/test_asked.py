"""What every analysis does with what it is asked for: unknown ranks and devices, odd ranges."""

import importlib
import inspect

import pytest
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.analysis.names import ANALYSES, FUNCTIONS
from workbench.errors import UsageError

QUESTIONS = {
    name: getattr(importlib.import_module(module), FUNCTIONS.get(name, name))
    for name, module in ANALYSES.items()
}
ODD = {"rank": 99, "device": 99, "window": "bogus", "within": (10, 5)}


@pytest.fixture
def trace(tmp_path):
    events = [
        step(1, 0, 50),
        step(2, 50, 50),
        op("aten::mm", 1, 8),
        call("cudaLaunchKernel", 2, 1, 1),
        op("aten::mm", 51, 8),
        call("cudaLaunchKernel", 52, 1, 2),
        kernel("k", 10, 20, 1),
        kernel("k", 60, 20, 2),
    ]
    return wb.open(write(tmp_path, events))


@pytest.mark.parametrize(
    ("name", "option"),
    [(n, o) for n, q in QUESTIONS.items() for o in ODD if o in inspect.signature(q).parameters],
)
def test_what_the_source_does_not_have_is_an_error_and_not_an_empty_answer(trace, name, option):
    with pytest.raises(UsageError, match=r"99|bogus|order"):
        QUESTIONS[name](trace, **{option: ODD[option]})
