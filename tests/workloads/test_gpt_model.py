import math

import pytest
import torch

from workbench.workloads import get
from workbench.workloads.gpt_model import Gpt, Tokens, Training, rope_table, rotate


def spec(**overrides):
    return get("gpt").resolve("tiny", overrides)


def parameters(preset, **overrides):
    with torch.device("meta"):
        return sum(p.numel() for p in Gpt(get("gpt").resolve(preset, overrides)).parameters())


def test_full_has_the_parameters_of_llama_3_1_8b():
    # embedding and head   2 x 128256 x 4096                    = 1,050,673,152
    # a layer: q and out   2 x 4096 x 4096                      =    33,554,432
    #          k and v     2 x 4096 x (8 x 128)                 =     8,388,608
    #          SwiGLU      3 x 4096 x 14336                     =   176,160,768
    #          two norms   2 x 4096                             =         8,192
    #          in all                                           =   218,112,000
    # 32 layers            32 x 218,112,000                     = 6,979,584,000
    # last norm                                                 =         4,096
    # sum                                                       = 8,030,261,248
    assert parameters("full") == 8_030_261_248


def test_tied_embeddings_share_one_matrix():
    assert parameters("full") - parameters("full", tied_embeddings=True) == 128_256 * 4096


def test_rotation_turns_a_pair_by_position_times_frequency():
    # head_dim 4 (hidden 16 over 4 heads), theta 10000: frequencies 1 and 1/100.
    cos, sin = rope_table(spec(hidden=16, seq=3))
    x = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(3, 4)
    turned = rotate(x, cos, sin)[2]
    expected = torch.tensor([math.cos(2.0), 0.0, math.sin(2.0), 0.0])
    torch.testing.assert_close(turned, expected)
    assert sin[2, 1].item() == pytest.approx(math.sin(0.02))


def test_attention_is_causal():
    torch.manual_seed(0)
    model = Gpt(spec(seq=8)).eval()
    tokens = torch.randint(1024, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 1024
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_tokens_repeat_for_a_seed_and_differ_between_ranks():
    def first(rank, seed=0):
        return next(iter(Tokens(spec(seed=seed), rank)))

    assert torch.equal(first(0), first(0))
    assert not torch.equal(first(0), first(1))
    assert not torch.equal(first(0), first(0, seed=1))
    assert first(0).shape == (129,)


def losses(steps, **overrides):
    training = Training(spec(**overrides), device=torch.device("cpu"))
    return [training.step().item() for _ in range(steps)]


def test_training_starts_at_the_loss_of_a_uniform_guess_and_repeats_exactly():
    first = losses(3)
    assert first[0] == pytest.approx(math.log(1024), rel=0.02)
    assert losses(3) == first


def test_recomputation_changes_no_number():
    assert losses(2, recompute=True) == losses(2)


def test_bf16_runs_the_matmuls_in_bf16():
    seen = []
    training = Training(spec(precision="bf16", layers=1), device=torch.device("cpu"))
    attention = training.model.blocks[0].attention
    attention.v.register_forward_hook(lambda *a: seen.append(a[2].dtype))
    training.step()
    assert seen == [torch.bfloat16]
    assert attention.v.weight.dtype == torch.float32


def test_accumulation_averages_micro_batches_into_one_optimiser_step():
    training = Training(spec(accumulate=3), device=torch.device("cpu"))
    calls = []
    training.optimizer.register_step_post_hook(lambda *a: calls.append(1))
    training.step()
    assert len(calls) == 1
    facts = training.facts()
    assert facts["samples_per_step_and_rank"] == 2 * 3
    assert facts["tokens_per_step_and_rank"] == 2 * 128 * 3
