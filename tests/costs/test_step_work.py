import json

import pytest
from tinytrace import kernel, write

import workbench as wb
from workbench.costs.step_work import StepWork, recorded
from workbench.costs.transformer import TransformerConfig, parameters
from workbench.resources import data
from workbench.workloads.gpt import PRESETS

SHAPE = {"layers": 2, "hidden": 8, "ffn_hidden": 16, "heads": 2, "kv_heads": 1, "head_dim": 4,
         "vocab": 10, "seq_len": 4, "gated_mlp": True}  # fmt: skip


def told(tmp_path, **manifest):
    path = write(tmp_path, [kernel("k", 0, 1)])
    if manifest:
        (tmp_path / "run.json").write_text(json.dumps({"schema_version": 1, **manifest}))
    return recorded(wb.open(path))


def test_a_run_says_what_its_steps_work_on(tmp_path):
    found = told(
        tmp_path, transformer=SHAPE, tokens_per_step_and_rank=32, samples_per_step_and_rank=8
    )
    assert found == StepWork(config=TransformerConfig(**SHAPE), tokens=32, samples=8)


def test_a_trace_alone_does_not(tmp_path):
    assert told(tmp_path) is None


def test_runs_from_before_are_read_by_their_spec():
    found = recorded(wb.open(data() / "gpt_tiny_cpu"))
    # 2 sequences of 128; run.json counts 631,424 parameters
    assert (found.tokens, found.samples) == (256, 2)
    assert parameters(found.config) == 631_424


def test_every_preset_has_a_shape():
    for spec in PRESETS.values():
        assert TransformerConfig(**spec.transformer()).layers == spec.layers


@pytest.mark.parametrize(
    "shape",
    [
        SHAPE | {"layers": "2"},
        SHAPE | {"layers": 0},
        SHAPE | {"experts": {"routed": 8}},
        SHAPE | {"experts": 8},
        SHAPE | {"kv_heads": False},
        SHAPE | {"layers": 10**400},
        SHAPE | {"colour": 1},
        {"layers": 2},
        [1],
        "x",
    ],
)
def test_a_strange_shape_is_not_known(tmp_path, shape):
    found = told(tmp_path, transformer=shape, tokens_per_step_and_rank=-3)
    assert found == StepWork()
    assert told(tmp_path, tokens_per_step_and_rank=10**400) == StepWork()


def test_a_strange_spec_is_not_known(tmp_path):
    assert told(tmp_path, workload="gpt", spec={"layers": "many"}) == StepWork()
    assert told(tmp_path, workload=["gpt"], spec=None) == StepWork()
