"""How `benchmarks/untraced.py` judges what it measured, on planted numbers."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "benchmarks" / "untraced.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("untraced_benchmark", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_plain_runs_that_agree_allow_5_percent(script):
    assert script.judged([100.0, 100.0, 100.0], 104.9) == (pytest.approx(0.049), 0.05, True)
    assert not script.judged([100.0, 100.0, 100.0], 105.1).holds
    assert not script.judged([100.0, 100.0, 100.0], 94.9).holds


def test_plain_runs_that_differ_allow_their_own_interval(script):
    # 90, 100, 110: deviation 10, so 4.302653 x 10 / sqrt(3) = 24.84 of 100
    found = script.judged([90.0, 100.0, 110.0], 124.0)
    assert found.allowed == pytest.approx(0.24841, abs=1e-5)
    assert found.holds
    assert not script.judged([90.0, 100.0, 110.0], 125.0).holds
