import math

import pytest
import torch

from workbench.errors import UsageError
from workbench.workloads import get
from workbench.workloads.flux1 import PRESETS
from workbench.workloads.flux1_model import (
    Positions,
    Rotation,
    batch,
    patches,
    rotate,
    sinusoids,
)
from workbench.workloads.training import Training

CPU = torch.device("cpu")


def spec(**overrides):
    return get("flux1").resolve("tiny", overrides)


def test_flux_1_schnell_by_hand():
    # h = 3072, heads 128 wide. A stream of a double block: modulation 6 h h + 6 h, queries to
    # values 3 h h + 3 h, projection h h + h, MLP 8 h h + 5 h, norms 2 x 128.
    # 19 double blocks   36 h h + 30 h + 512 each                              = 6,456,794,624
    # 38 single blocks   3 h h + 3 h, 7 h h + 7 h, 5 h h + h, 2 x 128 each     = 5,380,488,704
    # image in           64 h + h                                              =       199,680
    # text in            4096 h + h                                            =    12,585,984
    # time in            256 h + h + h h + h                                   =    10,229,760
    # pooled text in     768 h + h + h h + h                                   =    11,802,624
    # last modulation    2 h h + 2 h                                           =    18,880,512
    # head               64 h + 64                                             =       196,672
    assert get("flux1").parameters(PRESETS["full"]) == 11_891_178_560


def test_tokens_are_text_and_patches():
    # 256 pixels: 32 x 32 latents, 16 x 16 patches of 2 x 2 x 16 numbers.
    full = PRESETS["full"]
    assert (full.side, full.channels, full.tokens_per_sample) == (16, 64, 256 + 256)
    assert full.axes == (16, 56, 56)


def test_patches_are_squares_in_reading_order():
    # One channel of 4 x 4: the second patch is the right upper square.
    latents = torch.arange(16.0).view(1, 1, 4, 4)
    assert patches(latents)[0, 1].tolist() == [2, 3, 6, 7]
    # Channels come first within a patch.
    two = torch.stack((latents[0, 0], 100 + latents[0, 0])).unsqueeze(0)
    assert patches(two)[0, 0].tolist() == [0, 1, 4, 5, 100, 101, 104, 105]


def test_rotation_turns_neighbours_by_row_and_column():
    # Heads 32 wide: 4 numbers turn by kind, 14 by row, 14 by column. Text stands still.
    small = spec(text=1)
    positions = Positions(small)
    positions.reset_parameters()
    cos, sin = positions()
    assert cos[0].eq(1).all()
    # The token at row 1, column 2 of 8 x 8 is 1 + 1 x 8 + 2.
    x = torch.zeros(32)
    x[4] = x[18] = 1.0
    turned = rotate(x, Rotation(cos[11], sin[11]))
    expected = [math.cos(1), math.sin(1), math.cos(2), math.sin(2)]
    assert turned[[4, 5, 18, 19]].tolist() == pytest.approx(expected)


def test_time_is_told_by_sinusoids():
    # Frequencies 1 and, half way, 10000^(-1/2) = 1/100, of 1000 times the time.
    found = sinusoids(torch.tensor([0.002]))[0]
    assert found[0].item() == pytest.approx(math.cos(2))
    assert found[128 + 64].item() == pytest.approx(math.sin(0.02))


def test_the_model_begins_with_a_velocity_of_0():
    # So the loss is the mean of (noise - latents)^2: 1 of the noise, and that of the latents.
    training = Training(get("flux1"), spec(batch=64), device=CPU)
    made = training.next_batch()
    expected = 1 + made[0].square().mean().item()
    assert training.loss(made).item() == pytest.approx(expected, rel=0.02)


def test_text_is_left_out_of_a_share_of_the_samples():
    _, text, pooled = batch(spec(batch=400, no_text=0.25, text=1), torch.Generator().manual_seed(0))
    is_empty = (text == 0).all(dim=2).all(dim=1)
    assert is_empty.float().mean().item() == pytest.approx(0.25, abs=0.06)
    assert torch.equal(is_empty, (pooled == 0).all(dim=1))


def test_attention_sees_text_and_image_in_both_streams():
    training = Training(get("flux1"), spec(double_blocks=1, single_blocks=1), device=CPU)
    module = training.module
    for name, parameter in module.named_parameters():
        if "modulation" in name or "head." in name:
            torch.nn.init.normal_(parameter, std=0.5)
    latents, text, pooled = training.next_batch()
    picture, time = patches(latents), torch.full((len(latents),), 0.5)
    before = module.velocity(picture, text, pooled, time)
    other = module.velocity(picture, text + 1, pooled, time)
    assert not torch.allclose(before, other)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"image": 120}, ("image=120", "16")),
        ({"hidden": 144, "heads": 8}, ("hidden=144", "heads=8")),
    ],
)
def test_shapes_that_do_not_divide_are_refused(values, words):
    with pytest.raises(UsageError) as caught:
        spec(**values)
    assert all(word in str(caught.value) for word in words)
