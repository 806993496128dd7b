"""ResNet-50, RetinaNet and the 3D U-Net: counts by hand, and their parts."""

import math

import pytest
import torch

from workbench.errors import UsageError
from workbench.workloads import get, products, resnet50, retinanet, retinanet_loss, unet3d
from workbench.workloads.residual import Body
from workbench.workloads.residual_model import bottlenecks
from workbench.workloads.resnet50_model import batch as waves
from workbench.workloads.resnet50_model import model
from workbench.workloads.retinanet_model import Detector
from workbench.workloads.retinanet_model import batch as scenes
from workbench.workloads.training import Training
from workbench.workloads.unet3d_model import batch as volumes
from workbench.workloads.unet3d_model import dice_and_cross_entropy

CPU = torch.device("cpu")


def seeded():
    return torch.Generator().manual_seed(0)


def test_resnet_50_has_the_parameters_that_torchvision_counts():
    # stem               64 x 3 x 49                                          =      9,408
    # first stage        64x64 + 9x64x64 + 64x256 + 64x256, then twice
    #                    256x64 + 9x64x64 + 64x256                            =    212,992
    # second             376,832 + 3 x 278,528                                =  1,212,416
    # third              1,507,328 + 5 x 1,114,112                            =  7,077,888
    # fourth             6,029,312 + 2 x 4,456,448                            = 14,942,208
    # norms              2 x (64 + 3x(64+64+256)+256 + 4x(128+128+512)+512
    #                    + 6x(256+256+1024)+1024 + 3x(512+512+2048)+2048)      =     53,120
    # head               2048 x 1000 + 1000                                   =  2,049,000
    assert get("resnet50").parameters(get("resnet50").presets["full"]) == 25_557_032


def test_resnet_50_has_the_multiply_adds_that_torchvision_states():
    # torchvision's table says 4.09 GFLOPS, a multiply-add as one.
    macs = sum(layer.macs for layer in resnet50.layers(resnet50.PRESETS["full"]))
    assert macs == 4_089_184_256


def test_the_stride_is_in_the_3x3_convolution():
    with torch.device("meta"):
        first_of_second_stage = bottlenecks(model(resnet50.PRESETS["full"]))[3]
    assert first_of_second_stage.reduce.stride == (1, 1)
    assert first_of_second_stage.spatial.stride == (2, 2)
    assert first_of_second_stage.shortcut[0].stride == (2, 2)


def test_stages_halve_and_widen():
    body = Body(stem=64, inner=128, groups=32, blocks=(3, 4, 6, 3))
    assert body.widths == (256, 512, 1024, 2048)
    # 800: 400 by the stem, 200 by its pooling.
    assert body.sizes(800) == (200, 100, 50, 25)
    assert [block.inner for blocks in body.stages() for block in blocks[:1]] == [
        128,
        256,
        512,
        1024,
    ]


def test_a_class_is_a_plane_wave():
    # 16 classes: label 6 has frequency 1 + 6 // 4 = 2 down and 6 % 4 = 2 across.
    spec = get("resnet50").resolve("tiny", {"batch": 64})
    images, labels = waves(spec, seeded())
    image = images[(labels == 6).nonzero()[0, 0]].mean(0)
    spectrum = torch.fft.fft2(image).abs()
    assert divmod(spectrum[:, :32].argmax().item(), 32) == (2, 2)


def test_retinanet_counts_as_torchvision_does():
    # retinanet_resnet50_fpn: ResNet-50 (frozen norms hold no parameter), 91 classes: 34,014,999.
    # body               25,557,032 - 53,120 - 2,049,000                      = 23,454,912
    # lateral            256 x (512 + 1024 + 2048) + 3 x 256                  =    918,272
    # smooth, P6, P7     5 x (256 x 256 x 9 + 256)                            =  2,950,400
    # towers             8 x (256 x 256 x 9 + 256)                            =  4,720,640
    # last               9 x 256 x 9 x (91 + 4) + 9 x (91 + 4)                =  1,970,775
    spec = get("retinanet").resolve("full", {"groups": 1, "group_width": 64, "classes": 91})
    assert get("retinanet").parameters(spec) == 34_014_999


def test_retinanet_of_mlperf_by_hand():
    # ResNeXt-50 32x4d: 9,408 + 202,240 + 1,187,840 + 6,995,968 + 14,516,224  = 22,911,680
    # pyramid and towers as above: 918,272 + 2,950,400 + 4,720,640             =  8,589,312
    # last               9 x 256 x 9 x (264 + 4) + 9 x (264 + 4)               =  5,559,660
    assert get("retinanet").parameters(get("retinanet").presets["full"]) == 37_060_652


def test_the_frozen_stages_cost_their_forward_alone():
    # Images of 800: the stem makes 400 x 400, the first stage works on 200 x 200.
    frozen = 2 * (400**2 * 9_408 + 200**2 * 202_240)
    layers = list(retinanet.layers(retinanet.PRESETS["full"]))
    assert sum(layer.flops for layer in layers if not layer.trains) == frozen
    # The two convolutions that meet their output have no gradient to pass on.
    assert len([layer for layer in layers if layer.trains and not layer.passes]) == 2


def test_frozen_weights_get_no_gradient_and_do_not_move():
    training = Training(get("retinanet"), get("retinanet").presets["tiny"], device=CPU)
    stem = training.module.body.stem[0].weight
    before = stem.detach().clone()
    training.step()
    assert not stem.requires_grad
    assert torch.equal(stem, before)
    # 16 x 3 x 49 of the stem; 16x32 + 9x32x8 + 32x64 + 16x64 and 64x32 + 9x32x8 + 32x64.
    assert training.parameters - training.trained == 2_352 + 5_888 + 6_400


def test_anchors_of_one_cell():
    # One cell of the first level: sizes 32, 40, 50, height over width 1/2, 1, 2; around 0.
    made = retinanet_loss.anchors((1,), 8)
    assert made.shape == (9, 4)
    # 32 / sqrt(1/2) = 45.25 wide, 22.63 high: half of them rounds to 23 and 11.
    assert made[0].tolist() == [-23, -11, 23, 11]
    assert made[1].tolist() == [-16, -16, 16, 16]
    assert made[7].tolist() == [-25, -25, 25, 25]


def test_anchors_step_by_the_cell():
    second = retinanet_loss.anchors((2,), 16).view(2, 2, 9, 4)
    # Row 1, column 0: 8 pixels down.
    assert (second[1, 0] - second[0, 0]).unique(dim=0).tolist() == [[0, 8, 0, 8]]
    assert (second[0, 1] - second[0, 0]).unique(dim=0).tolist() == [[8, 0, 8, 0]]


def boxes(*rows):
    return torch.tensor(rows, dtype=torch.float32)


def test_overlap_by_hand():
    # 4 x 4 and 4 x 4, shifted by 2: 8 of 24; apart: 0; itself: 1.
    found = retinanet_loss.overlap(
        boxes((0, 0, 4, 4)), boxes((2, 0, 6, 4), (9, 9, 10, 10), (0, 0, 4, 4))
    )
    torch.testing.assert_close(found, torch.tensor([[1 / 3, 0.0, 1.0]]))


def test_anchors_are_hit_background_or_between():
    # Against a box 0-10: 10 of 10 (hit), 4.5 of 10 (between), 3 of 10 (background).
    anchors = boxes((0, 0, 10, 1), (0, 0, 4.5, 1), (0, 0, 3, 1))
    index, is_hit, counts = retinanet_loss.match(boxes((0, 0, 10, 1)), anchors)
    assert index.tolist() == [0, 0, 0]
    assert is_hit.tolist() == [True, False, False]
    assert counts.tolist() == [True, False, True]


def test_a_box_keeps_its_best_anchor_however_poor():
    # The second box is 2 of 10 with the second anchor: the best that it has.
    _, is_hit, counts = retinanet_loss.match(
        boxes((0, 0, 10, 1), (20, 0, 30, 1)), boxes((0, 0, 10, 1), (20, 0, 22, 1), (40, 0, 50, 1))
    )
    assert is_hit.tolist() == [True, True, False]
    assert counts.tolist() == [True, True, True]


def test_focal_loss_by_hand():
    # Logits 0: p = 1/2, cross-entropy ln 2, (1 - p_t)^2 = 1/4. One hit with its class of two, one
    # background anchor, one that does not count: alpha 1/4 for the truth, 3/4 for the 3 others.
    is_hit = torch.tensor([True, False, False])
    counts = torch.tensor([True, True, False])
    loss = retinanet_loss.class_loss(torch.zeros(3, 2), torch.tensor([1, 0, 0]), is_hit, counts)
    assert loss.item() == pytest.approx((0.25 + 3 * 0.75) * 0.25 * math.log(2))


def test_offsets_by_hand():
    # Anchor 0-10, box 5-25 wide: centre 5 -> 15, one anchor's width; twice as wide. Height equal.
    found = retinanet_loss.encode(boxes((5, 0, 25, 10)), boxes((0, 0, 10, 10)))
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0, math.log(2), 0.0]]))
    loss = retinanet_loss.box_loss(
        torch.zeros(2, 4),
        boxes((5, 0, 25, 10), (0, 0, 1, 1)),
        boxes((0, 0, 10, 10), (0, 0, 10, 10)),
        torch.tensor([True, False]),
    )
    assert loss.item() == pytest.approx(1 + math.log(2))


def test_targets_are_ragged_rectangles_in_the_image():
    spec = get("retinanet").resolve("tiny", {"batch": 6})
    images, *targets = scenes(spec, seeded())
    assert images.shape == (6, 3, 128, 128)
    its_boxes, classes = targets[:6], targets[6:]
    counts = [len(found) for found in its_boxes]
    assert counts == [len(found) for found in classes]
    assert len(set(counts)) > 1
    assert min(counts) >= 1
    for found in its_boxes:
        assert ((found >= 0) & (found <= 128)).all()
        assert (found[:, 2:] > found[:, :2]).all()


def test_ragged_targets_and_cuda_graphs_exclude_each_other():
    with pytest.raises(UsageError, match=r"cuda_graphs=true .* boxes=8"):
        get("retinanet").resolve("tiny", {"cuda_graphs": True})
    assert get("retinanet").resolve("tiny", {"cuda_graphs": True, "boxes": 1}).cuda_graphs


def test_the_pyramid_has_five_levels_and_nine_anchors_a_cell():
    spec = retinanet.PRESETS["full"]
    assert spec.sizes() == (100, 50, 25, 13, 7)
    with torch.device("meta"):
        assert len(Detector(spec).anchors) == 9 * (10_000 + 2_500 + 625 + 169 + 49) == 120_087


def test_unet3d_by_hand():
    # A convolution has 27 n m weights, and 2 m of its norm; widths 32, 64, 128, 256, 320, 320.
    # down   28,640 + 166,144 + 664,064 + 2,655,232 + 4,977,920 + 5,530,880   = 14,022,880
    # up     9,115,200 + 5,965,056 + 1,589,888 + 397,632 + 99,488             = 17,167,264
    # the first of them: 8 x 320 x 320 + 320, 27 x 640 x 320 + 640, 27 x 320 x 320 + 640
    # head   32 x 3 + 3                                                       =         99
    assert get("unet3d").parameters(unet3d.PRESETS["full"]) == 31_190_243


def test_levels_are_checked_against_the_crop():
    with pytest.raises(UsageError, match=r"crop=24 .* levels=5"):
        get("unet3d").resolve("tiny", {"crop": 24})
    with pytest.raises(UsageError, match=r"crop=16 .* levels=5"):
        get("unet3d").resolve("tiny", {"crop": 16})


def test_dice_and_cross_entropy_by_hand():
    # Two voxels of kidney and tumour, logits 0: chances 1/3, cross-entropy ln 3.
    # Dice of each of both classes: 2 x 1/3 / (2/3 + 1) = 0.4; without the background.
    labels = torch.tensor([1, 2]).view(1, 1, 1, 2)
    loss = dice_and_cross_entropy(torch.zeros(1, 3, 1, 1, 2), labels)
    assert loss.item() == pytest.approx((math.log(3) + 0.6) / 2, rel=1e-5)


def test_volumes_hold_kidneys_and_a_tumour():
    images, labels = volumes(unet3d.PRESETS["tiny"], seeded())
    assert images.shape == (2, 1, 32, 32, 32)
    for image, label in zip(images, labels, strict=True):
        assert label.unique().tolist() == [0, 1, 2]
        # Brightness of a kidney 1, of a tumour -1, under noise of deviation 1.
        assert image[0][label == 1].mean().item() == pytest.approx(1, abs=0.1)
        assert image[0][label == 2].mean().item() == pytest.approx(-1, abs=0.2)


def test_products_are_one_list():
    spec = unet3d.PRESETS["tiny"]
    assert unet3d.flops(spec) == 2 * products.flops(unet3d.layers(spec))
