"""Workloads that another package brings: found by its metadata, recorded, refused in a sentence."""

import json
import os
import sys

import pytest

from workbench import cli, workloads
from workbench.capture import CapturePlan, record
from workbench.errors import UsageError
from workbench.workloads import registry

SPEC = """
from dataclasses import dataclass
from workbench.workloads import Workload
from workbench.workloads.fields import param
from workbench.workloads.options import Options

@dataclass(frozen=True, kw_only=True)
class Spec(Options):
    width: int = param(8, "width of the layer", minimum=1)

def make(name, **changed):
    given = dict(
        name=name, summary="one layer", presets={"tiny": Spec()}, preset_help={"tiny": "8 wide"},
        module="other_package.model", parameters=lambda spec: spec.width**2,
        # 2 of the forward pass and 2 for the gradient of the weights, each sample
        flops=lambda spec: 4 * spec.samples_per_step * spec.width**2)
    return Workload(**(given | changed))

GOOD = make("layer")
NO_PRESETS = make("empty", presets={})
OTHER_NAME = make("other")
RAISES = make("raises", flops=lambda spec: 1 // 0)
STRANGER = make("stranger", presets={"tiny": 3})
FLOAT = make("float", parameters=lambda spec: 1.5)
GPT = make("gpt")
TEXT = "text"
"""
MODEL = """
import torch
from torch import nn

class Layer(nn.Linear):
    def forward(self, x):
        return super().forward(x).square().mean()

def model(spec):
    return Layer(spec.width, spec.width, bias=False)

def blocks(module):
    return [module]

def batch(spec, generator):
    return (torch.randn(spec.batch, spec.width, generator=generator),)
"""
BROKEN = {
    "empty": ("spec:NO_PRESETS", "it has no presets"),
    "wrong": ("spec:OTHER_NAME", "it calls itself 'other'"),
    "raises": ("spec:RAISES", "ZeroDivisionError"),
    "stranger": ("spec:STRANGER", "its preset tiny does not extend options.Options"),
    "float": ("spec:FLOAT", "no whole number"),
    "gpt": ("spec:GPT", "there is a workload named gpt already"),
    "text": ("spec:TEXT", "it is a str, and not a Workload"),
    "gone": ("nowhere:X", "ModuleNotFoundError: No module named 'other_package.nowhere'"),
    "less": ("spec:LESS", "AttributeError"),
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Lay down a package with entry points, as pip would."""

    def installed(points):
        place = tmp_path / "site"
        package, about = place / "other_package", place / "other_package-1.0.dist-info"
        package.mkdir(parents=True)
        about.mkdir()
        (package / "__init__.py").touch()
        (package / "spec.py").write_text(SPEC)
        (package / "model.py").write_text(MODEL)
        (about / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n"
        )
        lines = [f"{name} = other_package.{value}" for name, value in points.items()]
        (about / "entry_points.txt").write_text("\n".join(["[workbench.workloads]", *lines]))
        monkeypatch.syspath_prepend(place)
        monkeypatch.setenv(
            "PYTHONPATH", os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
        )
        registry._installed.cache_clear()

    yield installed
    registry._installed.cache_clear()
    for name in [n for n in sys.modules if n.startswith("other_package")]:
        del sys.modules[name]


def test_a_workload_of_another_package_is_one_of_ours(install):
    install({"layer": "spec:GOOD"})
    assert workloads.names()[-1] == "layer"
    assert workloads.get("layer").summary == "one layer"
    assert CapturePlan(workload="layer", overrides={"width": "16"}).spec.width == 16
    assert workloads.faults() == ()
    with pytest.raises(UsageError, match="did you mean layer"):
        workloads.get("layr")


def test_a_broken_one_is_a_sentence_and_the_others_stay(install, monkeypatch, capsys):
    install({"layer": "spec:GOOD"} | {name: value for name, (value, _) in BROKEN.items()})
    assert workloads.names()[-1] == "layer"
    assert workloads.get("gpt").module == "workbench.workloads.gpt_model"
    for name, (_, reason) in BROKEN.items():
        (sentence,) = [s for s in workloads.faults() if f"workload {name} of other-package" in s]
        assert reason in sentence
        if name != "gpt":
            with pytest.raises(UsageError, match=f"workload {name} of other-package"):
                workloads.get(name)
    monkeypatch.setattr(sys, "argv", ["workbench", "workloads", "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    told = json.loads(capsys.readouterr().out)
    assert told["rows"][-1]["parameters"] == 64
    assert told["rows"][-1]["step_flops"] == 4 * 2 * 64
    assert len(told["meta"]["unusable"]) == len(BROKEN)


@pytest.mark.slow
def test_it_is_recorded_where_it_is_installed(install, tmp_path, monkeypatch):
    install({"layer": "spec:GOOD"})
    lengths = {"warmup": 1, "untraced": 1, "steps": 1, "device": "cpu"}
    run = record(CapturePlan(workload="layer", out=tmp_path / "run", **lengths))
    assert run.wait(120) == "done", run.error
    assert run.manifest["parameters"] == 64
    monkeypatch.setenv("PYTHONPATH", "")
    run = record(CapturePlan(workload="layer", out=tmp_path / "other", **lengths))
    assert run.wait(120) == "failed"
    assert "There is no workload named 'layer'" in run.error
    assert sys.executable in run.error
