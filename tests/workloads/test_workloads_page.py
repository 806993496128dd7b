"""The page of workloads is what the specs say, and all of them say what they must."""

import importlib.util
from pathlib import Path

import pytest

from workbench.workloads import get, names

ROOT = Path(__file__).parents[2]


def test_the_page_of_workloads_is_what_the_specs_say():
    spec = importlib.util.spec_from_file_location("workloads_page", ROOT / "scripts/workloads.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.page() == made.PAGE.read_text("utf-8"), "run scripts/workloads.py"


@pytest.mark.parametrize("name", names())
def test_every_workload_says_what_it_is_and_where_it_is_from(name):
    workload = get(name)
    assert list(workload.presets) == ["tiny", "small", "full"]
    assert set(workload.preset_help) == set(workload.presets)
    assert workload.included
    assert workload.source
    assert len(workload.distinctive) >= 3
    sizes = [workload.parameters(workload.preset(p)) for p in workload.presets]
    assert sizes == sorted(sizes)
    for preset in workload.presets:
        assert workload.flops(workload.preset(preset)) > 0
