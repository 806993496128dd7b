import math
import time

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from workbench.errors import UsageError
from workbench.workloads import get
from workbench.workloads.data import Batches, tokens
from workbench.workloads.gpt_model import batch
from workbench.workloads.training import Training

CPU = torch.device("cpu")


class Executed(TorchDispatchMode):
    """The operators that run, without those whose kept results are taken instead."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name().partition(".")[0])
        return func(*args, **(kwargs or {}))


def spec(**overrides):
    return get("gpt").resolve("tiny", overrides)


def training(**overrides):
    return Training(get("gpt"), spec(**overrides), device=CPU)


def losses(steps, **overrides):
    made = training(**overrides)
    return [made.step().item() for _ in range(steps)]


def test_training_starts_at_the_loss_of_a_uniform_guess_and_repeats_exactly():
    first = losses(3)
    assert first[0] == pytest.approx(math.log(1024), rel=0.02)
    assert losses(3) == first


def test_there_is_something_to_learn():
    found = losses(12)
    assert found[-1] < found[0] - 0.2


@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recomputation_changes_no_number(recompute):
    assert losses(2, recompute=recompute) == losses(2)


@pytest.mark.parametrize(
    ("recompute", "products"),
    # A layer has 7 matrices and one attention, the head one matrix: forward once, backward twice
    # each. Full recomputation runs both layers again, all but the last matrix: nothing needs its
    # result.
    [("none", 45), ("selective", 45), ("full", 45 + 2 * 6)],
)
def test_selective_recomputation_keeps_the_products(recompute, products):
    made = training(recompute=recompute)
    with Executed() as executed:
        made.step()
    assert executed.names.count("aten::mm") == products


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_autocast_runs_the_matmuls_in_the_short_type(precision):
    seen = []
    made = training(precision=precision, layers=1)
    attention = made.module.blocks[0].attention
    attention.v.register_forward_hook(lambda *a: seen.append(a[2].dtype))
    made.step()
    assert seen == [{"bf16": torch.bfloat16, "fp16": torch.float16}[precision]]
    assert attention.v.weight.dtype == torch.float32


def test_true_bf16_keeps_weights_short_and_tables_exact():
    made = training(precision="bf16-true")
    assert {p.dtype for p in made.module.parameters()} == {torch.bfloat16}
    assert made.module.rotary.cos.dtype == torch.float32
    assert math.isfinite(made.step().item())


def test_accumulation_averages_micro_batches_into_one_optimiser_step():
    made = training(accumulate=3)
    calls = []
    made.optimizer.register_step_post_hook(lambda *a: calls.append(1))
    made.step()
    assert len(calls) == 1
    facts = made.facts()
    assert facts["samples_per_step_and_rank"] == 2 * 3
    assert facts["tokens_per_step_and_rank"] == 2 * 128 * 3
    assert facts["flops_per_step_and_rank"] == 3 * get("gpt").flops(spec())


def test_gradients_are_clipped_to_their_common_norm():
    made = training(clip_norm=0.25)
    norms = []
    made.optimizer.register_step_pre_hook(
        lambda *a: norms.append(
            torch.cat([p.grad.flatten() for p in made.module.parameters()]).norm()
        )
    )
    made.step()
    assert norms[0].item() == pytest.approx(0.25, rel=1e-4)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adafactor", "lamb"])
def test_each_optimiser_moves_every_weight(optimizer):
    made = training(optimizer=optimizer, learning_rate=0.1)
    before = [p.detach().clone() for p in made.module.parameters()]
    assert math.isfinite(made.step().item())
    after = list(made.module.parameters())
    assert not any(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_lamb_steps_by_the_norm_of_the_weight():
    # Adam's first step is sign(g) here: (1, 1), norm sqrt 2; |w| = 5, so lr x 5 / sqrt 2 each.
    from workbench.workloads.optimizers import Lamb

    weight = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    weight.grad = torch.tensor([[1.0, 1.0]])
    Lamb([weight], lr=0.1, weight_decay=0.0).step()
    moved = 0.5 / math.sqrt(2)
    torch.testing.assert_close(weight.data, torch.tensor([[3 - moved, 4 - moved]]))


def test_blocks_are_compiled():
    compiled = losses(2, compile="default", layers=1)
    assert compiled == pytest.approx(losses(2, layers=1), rel=1e-4)


def test_what_cannot_run_here_is_refused():
    with pytest.raises(UsageError, match="cuda_graphs=true and device=cpu"):
        training(cuda_graphs=True)


def test_batches_repeat_for_a_seed_and_differ_between_ranks():
    def first(rank, seed=0):
        return next(iter(Batches(spec(seed=seed), batch, rank)))[0]

    assert torch.equal(first(0), first(0))
    assert not torch.equal(first(0), first(1))
    assert not torch.equal(first(0), first(0, seed=1))
    assert first(0).shape == (2, 129)


def test_loader_processes_yield_batches_of_their_own():
    made = training(loader_workers=2)
    one, other = made.next_batch()[0], made.next_batch()[0]
    assert not torch.equal(one, other)


def test_the_input_waits_as_long_as_it_is_told():
    batches = iter(Batches(spec(loader_delay_ms=30.0), batch, 0))
    start = time.perf_counter()
    next(batches)
    assert time.perf_counter() - start >= 0.03


def test_tokens_follow_zipf_and_odd_ones_their_neighbour():
    ids = tokens((1000, 65), 100, torch.Generator().manual_seed(0))
    assert ids.min() >= 0
    assert ids.max() <= 99
    assert torch.equal(ids[:, 1::2], (ids[:, :64:2] + 1) % 100)
    # P(id 0) = log 2 / log 101 = 0.15; 33,000 even draws.
    assert (ids[:, ::2] == 0).float().mean().item() == pytest.approx(0.150, abs=0.01)
