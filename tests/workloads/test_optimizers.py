import math

import pytest
import torch

from workbench.errors import UsageError
from workbench.workloads import get, optimizers


def after_two_steps(name, **overrides):
    """A weight of (3, 4) and a bias of 2 after two steps with gradients of (0, 1) and 1."""
    spec = get("resnet50").resolve("tiny", {"optimizer": name, **overrides})
    layer = torch.nn.Linear(2, 1)
    layer.weight.data = torch.tensor([[3.0, 4.0]])
    layer.bias.data = torch.tensor([2.0])
    optimizer = optimizers.make(spec, layer)
    for _ in range(2):
        layer.weight.grad, layer.bias.grad = torch.tensor([[0.0, 1.0]]), torch.tensor([1.0])
        optimizer.step()
    return layer.weight.data[0].tolist(), layer.bias.data.item()


def test_lars_by_hand():
    # Step 1: |w| = 5, |g| = 1, trust 0.001 x 5 = 0.005; momentum m1 = 0.1 x 0.005 x (0, 1).
    # Step 2: |w| = |(3, 3.9995)|; m2 = 0.9 m1 + 0.1 x 0.001 |w|.
    # The bias takes plain momentum: 0.1, then 0.09 + 0.1.
    first = 0.1 * 0.005
    second = 0.9 * first + 0.1 * 1e-3 * math.hypot(3, 4 - first)
    weight, bias = after_two_steps("lars", learning_rate=0.1, weight_decay=0.0)
    assert weight == pytest.approx([3, 4 - first - second], abs=1e-6)
    assert bias == pytest.approx(2 - 0.1 - 0.19)


def test_lars_decays_matrices_alone():
    # g + 0.5 w = (1.5, 3), whose norm is sqrt(11.25): the first step goes along it.
    spec = get("resnet50").resolve("tiny", {"optimizer": "lars", "weight_decay": 0.5})
    layer = torch.nn.Linear(2, 1)
    layer.weight.data, layer.bias.data = torch.tensor([[3.0, 4.0]]), torch.tensor([2.0])
    layer.weight.grad, layer.bias.grad = torch.tensor([[0.0, 1.0]]), torch.tensor([0.0])
    optimizers.make(spec, layer).step()
    moved = torch.tensor([3.0, 4.0]) - layer.weight.data[0]
    expected = torch.tensor([1.5, 3.0]) * 0.03 * 1e-3 * 5 / math.sqrt(11.25)
    torch.testing.assert_close(moved, expected, rtol=1e-2, atol=1e-8)
    assert layer.bias.data.item() == 2.0


def test_nesterov_looks_ahead():
    # v1 = 1, step 1 + 0.9; v2 = 1.9, step 1 + 0.9 x 1.9 = 2.71; 0.1 x (1.9 + 2.71) = 0.461.
    weight, bias = after_two_steps("nesterov", learning_rate=0.1, weight_decay=0.0)
    assert weight == pytest.approx([3, 4 - 0.461])
    assert bias == pytest.approx(2 - 0.461)


def test_lars_has_no_fused_form():
    with pytest.raises(UsageError, match="fusion=fused and optimizer=lars"):
        get("resnet50").resolve("tiny", {"optimizer": "lars", "fusion": "fused"})
