"""The page of how much of each recording has a cost model is what the models say."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.corpus
def test_the_page_of_coverage_is_what_the_models_say(corpus):
    spec = importlib.util.spec_from_file_location("coverage_page", ROOT / "scripts/coverage.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.page(corpus / "traces") == made.PAGE.read_text("utf-8"), "run scripts/coverage.py"
