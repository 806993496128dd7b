import math

import pytest
import torch

from workbench.workloads import get
from workbench.workloads.gpt_model import Gpt
from workbench.workloads.layers import Rotary, rotate, stretch_llama
from workbench.workloads.parallel import fill


def spec(**overrides):
    return get("gpt").resolve("tiny", overrides)


def filled(module, **overrides):
    fill(module, torch.device("cpu"), spec(**overrides))
    return module


def parameters(preset, **overrides):
    return get("gpt").parameters(get("gpt").resolve(preset, overrides))


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
    # width 4, theta 10000: frequencies 1 and 1/100.
    with torch.device("meta"):
        rotary = Rotary(3, 4, 10_000.0)
    cos, sin = filled(rotary)()
    x = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(3, 4)
    turned = rotate(x, cos, sin)[2]
    expected = torch.tensor([math.cos(2.0), 0.0, math.sin(2.0), 0.0])
    torch.testing.assert_close(turned, expected)
    assert sin[2, 1].item() == pytest.approx(math.sin(0.02))


def test_llama_3_1_slows_down_the_frequencies_that_do_not_turn_in_the_first_context():
    # Turns in a context of 1000: 8 (kept), 2.5 (half way from 1 to 4: 1/2 + 1/2 / 8 = 9/16), 0.5.
    frequency = torch.tensor([8.0, 2.5, 0.5]) * 2 * math.pi / 1000
    slowed = stretch_llama(8.0, 1000)(frequency)
    torch.testing.assert_close(slowed / frequency, torch.tensor([1.0, 0.5625, 0.125]))


def test_attention_is_causal():
    torch.manual_seed(0)
    with torch.device("meta"):
        model = Gpt(spec(seq=8))
    filled(model)
    tokens = torch.randint(1024, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 1024
    before, after = model.logits(tokens), model.logits(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])
