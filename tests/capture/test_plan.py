import dataclasses
import sys
from pathlib import Path

import pytest

from workbench.capture import CapturePlan
from workbench.errors import UsageError


def test_a_plan_is_frozen_hashable_and_comparable():
    plan = CapturePlan(workload="gpt", overrides={"layers": "3", "heads": 2})
    assert hash(plan) == hash(CapturePlan(workload="gpt", overrides={"heads": 2, "layers": "3"}))
    assert plan.spec.layers == 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.steps = 3


def test_defaults_record_five_steps_with_shapes_and_memory_without_stacks():
    plan = CapturePlan(workload="gpt")
    assert (plan.steps, plan.shapes, plan.memory, plan.stacks) == (5, True, True, False)
    assert plan.interpreter == Path(sys.executable)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "either a workload (gpt, "),
        ({"workload": "gpt", "script": Path(__file__)}, "and not both"),
        ({"workload": "gpd"}, "did you mean gpt?"),
        ({"workload": "gpt", "preset": "tinny"}, "did you mean tiny"),
        ({"workload": "gpt", "overrides": {"layer": "1"}}, "did you mean layers"),
        ({"workload": "gpt", "steps": 0}, "steps=0 is not a whole number of at least 1"),
        ({"workload": "gpt", "warmup": -1}, "warmup=-1"),
        ({"workload": "gpt", "ranks": 65}, "ranks=65 is above 64"),
        ({"workload": "gpt", "steps": True}, "steps=True"),
        ({"workload": "gpt", "timeout_s": 0}, "timeout_s=0"),
        ({"workload": "gpt", "timeout_s": float("nan")}, "timeout_s=nan"),
        ({"workload": "gpt", "device": "gpu"}, "device='gpu' is not auto, cpu, cuda or cuda:N"),
        ({"workload": "gpt", "device": "cuda:0", "ranks": 2}, "device=cuda:0 and ranks=2"),
        ({"workload": "gpt", "python": Path("/nowhere/python")}, "is not a program"),
        ({"workload": "gpt", "arguments": ("x",)}, "arguments belongs to a script"),
        ({"workload": "gpt", "function": "step"}, "function belongs to a script"),
        ({"script": Path("/nowhere.py")}, "no script at /nowhere.py"),
        ({"script": Path(__file__), "precision": "bf16"}, "precision belong to a workload"),
        ({"workload": "gpt", "precision": "fp8"}, "precision='fp8' is not one of fp32, tf32"),
        (
            {"workload": "gpt", "precision": "bf16", "overrides": {"precision": "fp32"}},
            "exclude each other",
        ),
    ],
)
def test_a_wrong_plan_says_which_field(options, words):
    with pytest.raises(UsageError) as caught:
        CapturePlan(**options)
    assert words in str(caught.value)


def test_precision_is_shorthand_for_the_spec_field():
    assert CapturePlan(workload="gpt", precision="bf16").spec.precision == "bf16"
    both = {"precision": "bf16", "overrides": {"precision": "bf16"}}
    assert CapturePlan(workload="gpt", **both).spec.precision == "bf16"


def test_the_name_of_a_script_is_safe_as_a_folder(tmp_path):
    script = tmp_path / "my train (v2).py"
    script.touch()
    assert CapturePlan(script=script).name == "my-train-v2"


def test_as_dict_holds_plain_values():
    values = CapturePlan(workload="gpt", overrides={"layers": 1}, out=Path("x")).as_dict()
    assert values["overrides"] == {"layers": 1}
    assert values["out"] == "x"
