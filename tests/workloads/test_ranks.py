"""However ranks share the work, the numbers are the same."""

import pytest
from families import losses
from rankrun import STEPS, losses_of_ranks

SPLIT = ("llama31_8b", "llama31_405b", "gpt3_175b", "llama2_70b_lora", "bert_large")
SHARDED = (*SPLIT, "deepseekv3_671b", "gpt_oss_20b")
ONE_OF_ALL = "llama31_8b"


def test_sharded_replicas_learn_what_replicas_learn(tmp_path):
    options = {"clip_norm": "1", "accumulate": "2"}
    replicas = losses_of_ranks("gpt", tmp_path / "ddp", parallel="ddp", **options)
    sharded = losses_of_ranks("gpt", tmp_path / "fsdp", parallel="fsdp", **options)
    assert replicas[0] != replicas[1]
    for one, other in zip(replicas, sharded, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


def test_a_split_model_learns_what_one_rank_learns(tmp_path):
    split = losses_of_ranks("gpt", tmp_path / "meet", parallel="tensor", clip_norm="1")
    assert split[0] == split[1]
    assert split[0] == pytest.approx(losses("gpt", STEPS, clip_norm=1.0), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARDED)
def test_every_transformer_runs_sharded(name, tmp_path, thorough):
    if name != ONE_OF_ALL and not thorough:
        pytest.skip("one of all does, unless WORKBENCH_THOROUGH is set")
    # Two ranks draw other masks than one, so with dropout only both ways of sharing are compared.
    replicas = losses_of_ranks(name, tmp_path / "ddp", parallel="ddp")
    sharded = losses_of_ranks(name, tmp_path / "fsdp", parallel="fsdp")
    for one, other in zip(replicas, sharded, strict=True):
        assert one == pytest.approx(other, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPLIT)
def test_every_dense_transformer_runs_split(name, tmp_path, thorough):
    if name != ONE_OF_ALL and not thorough:
        pytest.skip("one of all does, unless WORKBENCH_THOROUGH is set")
    split = losses_of_ranks(name, tmp_path / "meet", parallel="tensor")
    assert split[0] == pytest.approx(losses(name, STEPS), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16", "bf16-true"])
def test_sharded_weights_are_gathered_in_the_short_type(precision, tmp_path):
    found = losses_of_ranks("gpt", tmp_path / "meet", parallel="fsdp", precision=precision)
    assert found[0][0] == pytest.approx(losses("gpt", 1)[0], rel=1e-2)
