import dataclasses

import pytest
import torch
from families import losses, recorded_flops, tiny, training

from workbench.errors import UsageError
from workbench.workloads import get
from workbench.workloads.counting import causal_pairs_twice

FULL = {
    # test_gpt_model.py has the sum.
    "llama31_8b": 8_030_261_248,
    # embedding and head 2 x 128256 x 16384                       =   4,202,692,608
    # a layer: q, out    2 x 16384 x 16384                        =     536,870,912
    #          k, v      2 x 16384 x (8 x 128)                    =      33,554,432
    #          SwiGLU    3 x 16384 x 53248                        =   2,617,245,696
    #          norms     2 x 16384                                =          32,768
    # 126 layers         126 x 3,187,703,808                      = 401,650,679,808
    # last norm                                                   =          16,384
    "llama31_405b": 405_853_388_800,
    # embedding          51200 x 12288                            =     629,145,600
    # positions          2048 x 12288                             =      25,165,824
    # a layer: matrices  12 x 12288 x 12288                       =   1,811,939,328
    #          biases    (4 + 4 + 1) x 12288                      =         110,592
    #          norms     2 x 2 x 12288                            =          49,152
    # 96 layers          96 x 1,812,099,072                       = 173,961,510,912
    # last norm          2 x 12288                                =          24,576
    "gpt3_175b": 174_615_846_912,
    # embedding and head 2 x 32000 x 8192                         =     524,288,000
    # a layer: q, out    2 x 8192 x 8192                          =     134,217,728
    #          k, v      2 x 8192 x (8 x 128)                     =      16,777,216
    #          SwiGLU    3 x 8192 x 28672                         =     704,643,072
    #          norms     2 x 8192                                 =          16,384
    # 80 layers          80 x 855,654,400                         =  68,452,352,000
    # last norm                                                   =           8,192
    # adapters a layer   16 x (8192 + 10240) + 16 x (8192 + 8192) =         557,056
    # 80 of them                                                  =      44,564,480
    "llama2_70b_lora": 69_021_212_672,
    # embedding and head 2 x 129280 x 7168                        =   1,853,358,080
    # attention: query   7168 x 1536 + 1536 x 128 x 192           =      48,758,784
    #            keys    7168 x 576 + 512 x 128 x 256             =      20,905,984
    #            out     128 x 128 x 7168                         =     117,440,512
    # norms of a layer   2 x 7168 + 1536 + 512                    =          16,384
    # 61 times both      61 x 187,121,664                         =  11,414,421,504
    # 3 feed-forwards    3 x 3 x 7168 x 18432                     =   1,189,085,184
    # an expert          3 x 7168 x 2048                          =      44,040,192
    # 58 mixtures        58 x (257 x 44,040,192 + 256 x 7168)     = 656,569,532,416
    # last norm                                                   =           7,168
    # the decoder                                                 = 671,026,404,352
    # prediction: join   2 x 7168 x 7168                          =     102,760,448
    #             norms  3 x 7168                                 =          21,504
    #             layer  187,121,664 + 11,320,164,352             =  11,507,286,016
    "deepseekv3_671b": 682_636_472_320,
    # embedding and head 2 x 201088 x 2880                        =   1,158,266,880
    # q, k, v            2880 x (64 + 2 x 8) x 64 + 5120          =      14,750,720
    # out                64 x 64 x 2880 + 2880                    =      11,799,360
    # sinks                                                       =              64
    # router             2880 x 32 + 32                           =          92,192
    # experts: wide      32 x (2880 x 5760 + 5760)                =     531,025,920
    #          narrow    32 x (2880 x 2880 + 2880)                =     265,512,960
    # norms              2 x 2880                                 =           5,760
    # 24 layers          24 x 823,186,976                         =  19,756,487,424
    # last norm                                                   =           2,880
    "gpt_oss_20b": 20_914_757_184,
    # embeddings         (30522 + 512 + 2) x 1024 + 2 x 1024      =      31,782,912
    # a layer: attention 4 x (1024 x 1024 + 1024)                 =       4,198,400
    #          feed      2 x 1024 x 4096 + 4096 + 1024            =       8,393,728
    #          norms     2 x 2 x 1024                             =           4,096
    # 24 layers          24 x 12,596,224                          =     302,309,376
    # masked             1024 x 1024 + 1024 + 2 x 1024 + 30522    =       1,082,170
    # following          1024 x 1024 + 1024 + 2 x 1024 + 2        =       1,051,650
    "bert_large": 336_226_108,
}
KEPT = {
    "llama31_8b": {
        "grouped-query attention": lambda s: s.heads == 4 * s.kv_heads,
        "rotary positions, low frequencies slowed down": lambda s: s.rope_factor == 8,
        "SwiGLU": lambda s: s.activation == "swiglu",
        "RMSNorm": lambda s: s.norm == "rms",
        "untied embeddings": lambda s: not s.tied_embeddings,
    },
    "llama31_405b": {
        "sixteen query heads a key head": lambda s: s.heads == 16 * s.kv_heads,
        "rotary positions, low frequencies slowed down": lambda s: s.rope_factor == 8,
        "SwiGLU": lambda s: s.activation == "swiglu",
        "RMSNorm": lambda s: s.norm == "rms",
        "untied embeddings": lambda s: not s.tied_embeddings,
    },
    "gpt3_175b": {
        "learned positions": lambda s: s.positions == "learned",
        "LayerNorm with bias": lambda s: s.norm == "layer",
        "GELU": lambda s: s.activation == "gelu",
        "biases in every matrix": lambda s: s.bias,
        "as many key heads as query heads": lambda s: s.heads == s.kv_heads,
        "tied embeddings": lambda s: s.tied_embeddings,
    },
    "llama2_70b_lora": {
        "frozen base": lambda s: True,
        "adapters on the fused query-key-value matrix and on the output": lambda s: s.rank > 1,
        "dropout in the adapters": lambda s: s.dropout == 0.1,
        "grouped-query attention": lambda s: s.heads > s.kv_heads,
        "SwiGLU": lambda s: s.activation == "swiglu",
    },
    "deepseekv3_671b": {
        "multi-head latent attention": lambda s: s.key_value_rank < s.hidden,
        "first layers dense": lambda s: 0 < s.dense_layers < s.layers,
        "routed experts, chosen by groups from sigmoid scores": lambda s: (
            s.top_k > 1 and s.top_groups < s.expert_groups
        ),
        "biases that even out the load without a loss": lambda s: s.bias_step > 0,
        "a shared expert": lambda s: s.shared_experts == 1,
        "multi-token prediction": lambda s: s.predicted == 1,
    },
    "gpt_oss_20b": {
        "routed experts with biases, weighed by a softmax of the chosen": lambda s: s.top_k == 4,
        "attention in a window in every other layer": lambda s: s.window < s.seq,
        "attention sinks": lambda s: True,
        "grouped-query attention with biases": lambda s: s.heads > s.kv_heads,
        "heads wider than hidden / heads": lambda s: s.heads * s.head_dim > s.hidden,
        "YaRN positions": lambda s: s.rope_factor == 32,
        "clamped SwiGLU": lambda s: True,
    },
    "bert_large": {
        "attention in both directions over texts of unequal length": lambda s: True,
        "LayerNorm after each sublayer": lambda s: True,
        "GELU": lambda s: True,
        "dropout": lambda s: s.dropout == 0.1,
        "masked tokens gathered before a tied decoder": lambda s: s.predictions < s.seq,
        "next-sentence loss": lambda s: True,
        "LAMB": lambda s: s.optimizer == "lamb",
    },
}


@pytest.mark.parametrize("name", FULL)
def test_full_has_the_parameters_that_the_published_shape_gives(name):
    from importlib import import_module

    workload = get(name)
    spec = workload.preset("full")
    with torch.device("meta"):
        model = import_module(workload.module).model(spec)
    assert sum(p.numel() for p in model.parameters()) == FULL[name]
    assert workload.parameters(spec) == FULL[name]


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("preset", ["tiny", "full"])
def test_tiny_keeps_what_makes_the_family(name, preset):
    spec = get(name).preset(preset)
    assert tuple(KEPT[name]) == get(name).distinctive
    assert [part for part, holds in KEPT[name].items() if not holds(spec)] == []


@pytest.mark.parametrize("name", FULL)
def test_tiny_is_no_toy_and_learns(name):
    spec = tiny(name)
    assert spec.layers >= 2
    made = training(name)
    assert made.parameters == get(name).parameters(spec) >= 10**6
    assert set(get(name).preset_help) == set(get(name).presets)
    first, second = made.step().item(), made.step().item()
    assert 0 < second < 12
    assert first < 12


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_the_loss_falls_over_twenty_steps(name):
    found = losses(name, 20)
    # A batch in a step is small, so single losses scatter.
    assert sum(found[-5:]) < sum(found[:5]) - 5 * 0.2


def written_out(spec):
    """What operators do beyond the convention: scores behind the mask, all of them computed."""
    square = 2 * spec.seq**2
    causal = square - causal_pairs_twice(spec.seq)
    if hasattr(spec, "nope_dim"):
        widths = spec.nope_dim + spec.rope_dim + spec.value_dim
        pairs = (spec.layers + spec.predicted) * causal
    elif hasattr(spec, "window"):
        widths = 2 * spec.head_dim
        pairs = causal + square - causal_pairs_twice(spec.seq, spec.window)
    else:
        return 0
    return 3 * spec.samples_per_step * spec.heads * widths * pairs


@pytest.mark.parametrize("name", ["gpt", *FULL])
def test_stated_flops_are_those_of_the_recorded_operators(name, tmp_path):
    # Fused attention skips what the mask hides. Values narrower than keys, and sinks, have no
    # fused kernel on a CPU: there all scores are computed.
    made = training(name)
    stated = made.facts()["flops_per_step_and_rank"]
    assert recorded_flops(made, tmp_path) == stated + written_out(made.spec)


def test_flops_of_the_decoder_are_those_of_its_configuration():
    from workbench.costs.transformer import TransformerConfig, model_flops_per_token

    for preset in ("tiny", "full"):
        spec = get("llama31_8b").preset(preset)
        tokens = spec.samples_per_step * spec.seq
        config = TransformerConfig(**spec.transformer())
        assert get("llama31_8b").flops(spec) == tokens * model_flops_per_token(config)


@pytest.mark.parametrize("recompute", ["selective", "full"])
@pytest.mark.parametrize(
    "name", ["llama2_70b_lora", "deepseekv3_671b", "gpt_oss_20b", "bert_large"]
)
def test_recomputation_changes_no_number(name, recompute):
    # but for the order in which threads of a busy machine add
    assert losses(name, 2, recompute=recompute) == pytest.approx(losses(name, 2), rel=1e-6)


@pytest.mark.parametrize("name", ["deepseekv3_671b", "gpt_oss_20b"])
def test_grouped_experts_give_what_the_loop_gives(name):
    grouped = losses(name, 2, expert_kernel="grouped")
    assert grouped == pytest.approx(losses(name, 2), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("deepseekv3_671b", {"top_k": 20}, ("top_k=20", "experts=16")),
        ("deepseekv3_671b", {"dense_layers": 4}, ("dense_layers=4", "layers=3")),
        ("deepseekv3_671b", {"expert_groups": 3}, ("experts=16", "expert_groups=3")),
        ("deepseekv3_671b", {"top_k": 12}, ("top_k=12", "top_groups=2")),
        ("deepseekv3_671b", {"cuda_graphs": True}, ("cuda_graphs=true", "expert_kernel=loop")),
        ("gpt_oss_20b", {"attention": "flex"}, ("attention=flex", "compile=off")),
        ("gpt_oss_20b", {"kv_heads": 3}, ("heads=8", "kv_heads=3")),
        ("bert_large", {"predictions": 65}, ("predictions=65", "seq=64")),
        ("bert_large", {"heads": 3}, ("hidden=256", "heads=3")),
        (
            "bert_large",
            {"cuda_graphs": True, "recompute": "full"},
            ("cuda_graphs=true", "recompute=full"),
        ),
    ],
)
def test_combinations_that_mean_nothing_name_both_fields(name, values, words):
    with pytest.raises(UsageError) as caught:
        tiny(name, **values)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("name", FULL)
def test_a_spec_survives_storage_as_plain_values(name):
    for preset in get(name).presets:
        spec = get(name).preset(preset)
        assert get(name).spec(dataclasses.asdict(spec)) == spec
