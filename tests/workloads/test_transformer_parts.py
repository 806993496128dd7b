import math

import pytest
import torch
from families import training
from torch import nn

from workbench.workloads.deepseekv3_671b_model import Router, after_step
from workbench.workloads.experts import Experts, tokens_of
from workbench.workloads.gpt_oss_20b_model import attend_flex, attend_written, clamped_swiglu
from workbench.workloads.layers import sharpen_yarn, stretch_yarn
from workbench.workloads.llama2_70b_lora_model import Adapted


@pytest.mark.parametrize("kernel", ["loop", "grouped"])
def test_experts_give_each_token_the_weighed_sum_of_its_experts(kernel):
    torch.manual_seed(0)
    mixture = Experts(
        count=4, hidden=8, width=16, activation=lambda x: x[..., ::2] * 2, kernel=kernel, bias=True
    )
    for tensor in mixture.parameters():
        nn.init.normal_(tensor)
    x = torch.randn(5, 8)
    chosen = torch.tensor([[0, 2], [2, 0], [2, 3], [3, 2], [0, 3]])  # nobody chose 1
    weights = torch.rand(5, 2)

    def expert(i, row):
        inside = (row @ mixture.wide[i] + mixture.wide_bias[i])[::2] * 2
        return inside @ mixture.narrow[i] + mixture.narrow_bias[i]

    expected = torch.stack(
        [
            sum(w * expert(i, row) for i, w in zip(ids, shares, strict=True))
            for row, ids, shares in zip(x, chosen.tolist(), weights, strict=True)
        ]
    )
    torch.testing.assert_close(mixture(x, chosen, weights), expected)


def test_experts_are_counted():
    assert tokens_of(torch.tensor([[0, 2], [2, 3]]), 4).tolist() == [1, 0, 2, 1]


def router(**overrides):
    spec = training("deepseekv3_671b", **overrides).spec
    made = Router(spec)
    made.load.reset_parameters()
    return made


def test_the_best_groups_come_first_and_the_bias_chooses_without_weighing():
    # 8 experts in 4 groups of 2, the 2 best groups, 2 experts. Sums of groups: 0.9, 1.0, 1.1, 0.2.
    made = router(experts=8, expert_groups=4, top_groups=2, top_k=2)
    scores = torch.tensor([[0.8, 0.1, 0.55, 0.45, 0.9, 0.2, 0.1, 0.1]])
    # The second best of all, expert 0, is out with its group.
    assert set(made._choose(scores)[0].tolist()) == {4, 2}
    # A bias of 0.2 on expert 1 brings group 0 to 1.1, past group 1.
    biased = scores + torch.tensor([0, 0.2, 0, 0, 0, 0, 0, 0])
    assert set(made._choose(biased)[0].tolist()) == {4, 0}


def test_weights_are_shares_of_the_scores_of_the_chosen():
    made = router(hidden=16, heads=4, experts=8, expert_groups=4, top_groups=4, top_k=2)
    nn.init.zeros_(made.linear.weight)
    made.load.bias[3] = made.load.bias[5] = 1.0
    chosen, weights, balance = made(torch.randn(1, 6, 16))
    assert {tuple(sorted(row)) for row in chosen[0].tolist()} == {(3, 5)}
    # Equal scores: halves, times 2.5. All on two of eight: 8 / 2 x (1 x 1/8 + 1 x 1/8) = 1.
    torch.testing.assert_close(weights, torch.full((1, 6, 2), 1.25))
    assert balance.item() == pytest.approx(0.0001)
    assert made.load.chosen.tolist() == [0, 0, 0, 6, 0, 6, 0, 0]


def test_the_bias_rises_where_too_few_came():
    made = training("deepseekv3_671b", layers=2, dense_layers=1, predicted=0)
    load = made.module.blocks[1].ffn.router.load
    load.chosen.copy_(torch.arange(16.0))  # mean 7.5
    after_step(made.module)
    torch.testing.assert_close(load.bias, torch.tensor([0.001] * 8 + [-0.001] * 8))
    assert load.chosen.sum() == 0


@pytest.mark.parametrize("window", [None, 3])
def test_a_sink_takes_its_share_of_the_softmax(window):
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 8, 16), torch.randn(1, 2, 8, 16), torch.randn(1, 2, 8, 16)
    sinks = torch.tensor([-1.0, 0.0, 1.0, 2.0])
    expected = torch.zeros_like(q)
    for head in range(4):
        for i in range(8):
            keys = [j for j in range(i + 1) if window is None or i - j < window]
            score = [math.exp(q[0, head, i] @ k[0, head // 2, j] / 4) for j in keys]
            total = sum(score) + math.exp(sinks[head])
            for j, share in zip(keys, score, strict=True):
                expected[0, head, i] += share / total * v[0, head // 2, j]
    torch.testing.assert_close(attend_written(q, k, v, sinks, window), expected)
    torch.testing.assert_close(attend_flex(q, k, v, sinks, window), expected)


def test_swiglu_is_clamped_at_seven():
    # gate 100 is 7: 7 sigmoid(11.914) = 6.99995; up -100 is -7, plus 1.
    found = clamped_swiglu(torch.tensor([100.0, -100.0]))
    assert found.item() == pytest.approx(-6 * 7 / (1 + math.exp(-1.702 * 7)))


def test_yarn_keeps_fast_frequencies_and_divides_slow_ones():
    # Width 8 and theta 10^4: frequencies 1, 0.1, 0.01, 0.001. A context of 1000 / 2 pi x 32 is
    # 201.06 x 25.3; place(turns) = 4 log10(context / (2 pi turns)) / 4.
    original, theta, width = 20_106, 10_000.0, 8
    fast = 4 * math.log(original / (32 * 2 * math.pi)) / math.log(theta)
    slow = 4 * math.log(original / (2 * math.pi)) / math.log(theta)
    assert (fast, slow) == (pytest.approx(2.0, abs=1e-3), pytest.approx(3.505, abs=1e-3))
    frequency = torch.tensor([1.0, 0.1, 0.01, 0.001])
    found = stretch_yarn(4.0, original, theta=theta, width=width)(frequency) / frequency
    # Places 0 and 1 lie before `fast`, 2 at it; 3 is (3 - 2) / 1.505 = 0.664 of the way to 1/4.
    torch.testing.assert_close(
        found, torch.tensor([1.0, 1.0, 1.0, 1 - 0.664 * 0.75]), atol=1e-3, rtol=0
    )
    assert sharpen_yarn(32.0) == pytest.approx(1.3466, abs=1e-4)


def test_only_adapters_are_trained_and_they_start_at_nothing():
    made = training("llama2_70b_lora", weight_decay=0.0)
    before = {n: p.detach().clone() for n, p in made.module.named_parameters()}
    x = torch.randn(2, 256)
    adapted = made.module.blocks[0].attention.qkv
    torch.testing.assert_close(adapted(x), adapted.base(x))
    made.step()
    changed = {n for n, p in made.module.named_parameters() if not torch.equal(p, before[n])}
    # Up moves first; down has no gradient while up is 0.
    assert changed == {n for n in before if n.endswith(("qkv.up.weight", "out.up.weight"))}
    made.step()
    changed = {n for n, p in made.module.named_parameters() if not torch.equal(p, before[n])}
    adapters = ("qkv.up.weight", "out.up.weight", "qkv.down.weight", "out.down.weight")
    assert changed == {n for n in before if n.endswith(adapters)}
    # 2 layers x (4 x (256 + 384) + 4 x (256 + 256))
    assert made.facts()["trained_parameters"] == 9216
    assert sum(isinstance(m, Adapted) for m in made.module.modules()) == 4


def test_texts_of_bert_are_ragged_and_masked_tokens_lie_inside():
    made = training("bert_large", batch=64)
    tokens, texts, lengths, places, ids, follows = made.next_batch()
    assert lengths.min() >= 8
    assert lengths.max() <= 64
    assert len(lengths.unique()) > 10
    is_wanted = ids != -100
    assert (places < lengths.unsqueeze(-1)).masked_select(is_wanted).all()
    # 15 % of 36 tokens in the mean, 10 at most.
    assert is_wanted.sum(-1).float().mean().item() == pytest.approx(5.2, abs=1.0)
    hidden = tokens.gather(1, places).masked_select(is_wanted) == 3
    assert hidden.float().mean().item() == pytest.approx(0.8, abs=0.1)
    assert texts.sum(-1).tolist() == (64 - lengths // 2).tolist()
    assert set(follows.tolist()) == {0, 1}


def test_padding_changes_no_state_of_a_text():
    made = training("bert_large", dropout=0.0)
    module = made.module.eval()
    tokens, texts, _, places, ids, follows = made.next_batch()
    lengths = torch.full((8,), 32)
    places, ids = places.clamp(max=31), ids.clamp(min=0)
    other = tokens.clone()
    other[:, 32:] = 5
    one = module(tokens, texts, lengths, places, ids, follows)
    torch.testing.assert_close(module(other, texts, lengths, places, ids, follows), one)
