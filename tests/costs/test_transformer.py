import pytest

from workbench.costs.model_conventions import (
    MODEL_CONVENTIONS,
    ModelConvention,
    model_convention,
)
from workbench.costs.transformer import (
    Experts,
    Latent,
    TransformerConfig,
    forward,
    hardware_flops_per_token,
    model_flops_per_token,
    parameters,
)
from workbench.errors import UsageError

# The preset `tiny` of the workload `gpt`.
TINY = TransformerConfig(
    layers=2, hidden=128, ffn_hidden=352, heads=4, kv_heads=2, head_dim=32, vocab=1024,
    seq_len=128, gated_mlp=True,
)  # fmt: skip
LLAMA_8B = TransformerConfig(
    layers=32, hidden=4096, ffn_hidden=14336, heads=32, kv_heads=8, head_dim=128, vocab=128256,
    seq_len=8192, gated_mlp=True,
)  # fmt: skip
GPT_175B = TransformerConfig(
    layers=96, hidden=12288, ffn_hidden=49152, heads=96, kv_heads=96, head_dim=128, vocab=51200,
    seq_len=2048, gated_mlp=False, tied_embeddings=True,
)  # fmt: skip


def test_the_parts_of_a_forward_by_hand():
    # projections: q and out 128 x 128, k and v 128 x 64: 49,152 elements a layer
    # feed-forward: 3 x 128 x 352 = 135,168; output 128 x 1024 = 131,072
    # attention, causal: 2 products x 2 FLOPs x 64 keys x 4 heads x 32 = 32,768 a layer
    assert forward(TINY) == {
        "projections": 2 * 2 * 49_152,
        "feed_forward": 2 * 2 * 135_168,
        "router": 0,
        "output": 2 * 131_072,
        "prediction": 0,
        "attention": 2 * 32_768,
    }
    # 3 x (196,608 + 540,672 + 262,144 + 65,536) = 3,194,880
    assert model_flops_per_token(TINY) == 3_194_880


def test_parameters_by_hand():
    # 2 x 131,072 embeddings and output, 2 x (49,152 + 135,168 + 2 norms of 128), a last norm of 128
    assert parameters(TINY) == 631_424


def test_what_is_published_of_llama_8b():
    # Megatron-Bridge 25.11: 744 TFLOPS at 14,451 tokens/s = 51.5 GFLOP, attention halved;
    # NeMo 24.07: 688 TFLOPS at 11,883 tokens/s = 57.9, not halved; between them 6 L a d s = 6.44
    assert model_flops_per_token(LLAMA_8B, "megatron") == pytest.approx(51.5e9, rel=2e-3)
    assert model_flops_per_token(LLAMA_8B, "megatron_full") == pytest.approx(57.9e9, rel=2e-3)
    halved = 6 * 32 * 4096 * 8192
    whole = model_flops_per_token(LLAMA_8B, "full_attention")
    assert whole - model_flops_per_token(LLAMA_8B) == halved


def test_the_closed_form_of_the_papers():
    # 72 L h^2 (1 + s / 6h + V / 12 L h) a token: Narayanan et al., Korthikanti et al.
    L, h, s, V = 96, 12288, 2048, 51200
    whole = 72 * L * h**2 * (1 + s / (6 * h) + V / (12 * L * h))
    assert model_flops_per_token(GPT_175B, "megatron_full") == pytest.approx(whole, rel=1e-12)
    # With the layers run again: 96 L h^2 (1 + s / 6h + V / 16 L h)
    again = 96 * L * h**2 * (1 + s / (6 * h) + V / (16 * L * h))
    found = hardware_flops_per_token(GPT_175B, "megatron_full", recompute="full", flash=False)
    assert found == pytest.approx(again, rel=1e-12)


def test_hardware_flops_count_what_is_computed_again():
    # forward 1,064,960: layers 802,816 of it, attention 65,536
    model = 3 * 1_064_960
    assert hardware_flops_per_token(TINY, flash=False) == model
    assert hardware_flops_per_token(TINY) == model + 0.5 * 65_536
    selective = hardware_flops_per_token(TINY, recompute="selective", flash=False)
    assert selective == model + 65_536
    assert hardware_flops_per_token(TINY, recompute="full", flash=False) == model + 802_816


def test_llm_foundry_counts_four_forwards_with_recomputation():
    # its README: MFU 41.25 % and HFU 55.0 % of one run: 4 / 3
    model = model_flops_per_token(TINY, "llm-foundry")
    again = hardware_flops_per_token(TINY, "llm-foundry", recompute="full", flash=False)
    assert again / model == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    ("name", "per_token"),
    [
        # 6 P: 6 x 631,424
        ("6P", 3_788_544),
        # and 12 L h s: 12 x 2 x 128 x 128
        ("llm-foundry", 3_788_544 + 393_216),
        ("ml-engineering", 3_788_544 + 196_608),
        # less the 131,072 that are only looked up
        ("torchtitan", 6 * (631_424 - 131_072) + 393_216),
        # the default less 6 x 131,072 of the output projection
        ("without_vocabulary", 3_194_880 - 786_432),
        ("full_attention", 3_194_880 + 196_608),
        ("megatron", 3_194_880),
        ("megatron_full", 3_194_880 + 196_608),
        ("default", 3_194_880),
    ],
)
def test_conventions_by_hand(name, per_token):
    assert model_flops_per_token(TINY, name) == per_token


def test_every_convention_has_a_hand_made_answer_above():
    cases = test_conventions_by_hand.pytestmark[0].args[1]
    assert {name for name, _ in cases} == set(MODEL_CONVENTIONS)


def test_tied_embeddings_multiply():
    tied = TransformerConfig(
        layers=1, hidden=8, ffn_hidden=16, heads=2, kv_heads=2, head_dim=4, vocab=10, seq_len=4,
        gated_mlp=False, tied_embeddings=True, learned_positions=True,
    )  # fmt: skip
    # layers 4 x 64 + 2 x 8 x 16 = 512; norms 3 x 8; embeddings 80; positions 32
    assert parameters(tied) == 648
    # attention 12 L h s = 12 x 8 x 4; positions are only looked up, tied embeddings multiply
    assert model_flops_per_token(tied, "torchtitan") == 6 * (648 - 32) + 384
    assert model_flops_per_token(tied, "6P") == 6 * 648


def test_experts_by_hand():
    config = TransformerConfig(
        layers=3, hidden=8, ffn_hidden=32, heads=2, kv_heads=1, head_dim=4, vocab=10, seq_len=4,
        gated_mlp=True, experts=Experts(routed=6, top_k=2, ffn_hidden=5, shared=1, dense_layers=1),
    )  # fmt: skip
    parts = forward(config)
    # one layer 3 x 8 x 32 = 768; two of (2 + 1) experts of 3 x 8 x 5 = 120: 360 each
    assert parts["feed_forward"] == 2 * (768 + 2 * 360)
    assert parts["router"] == 2 * 2 * 8 * 6
    assert forward(config, "megatron")["router"] == 0
    # all 7 experts: 840 and the router's 48, in two layers; projections 2 x 8 x 4 x 3 = 192
    assert parameters(config) == 3 * 192 + 768 + 2 * (840 + 48) + 7 * 8 + 2 * 80
    assert parameters(config, active=True) == 3 * 192 + 768 + 2 * (360 + 48) + 7 * 8 + 2 * 80


def test_latent_attention_and_predicted_tokens_by_hand():
    latent = Latent(query_rank=3, key_value_rank=5, nope_dim=4, rope_dim=2, value_dim=7)
    config = TransformerConfig(
        layers=2, hidden=8, ffn_hidden=16, heads=2, kv_heads=2, head_dim=4, vocab=10, seq_len=6,
        gated_mlp=False, latent=latent, predicted_tokens=1,
    )  # fmt: skip
    parts = forward(config)
    # query 3 x (8 + 2 x 6), down 8 x (5 + 2), up 5 x 2 x (4 + 7), out 2 x 7 x 8
    layer = 60 + 56 + 110 + 112
    assert parts["projections"] == 2 * 2 * layer
    # three layers' scores: 2 x 2 heads x (4 + 2 + 7) x 3 keys
    assert parts["attention"] == 3 * 2 * 2 * 13 * 3
    # a layer with its feed-forward 2 x 8 x 16, 2h to h, a head
    assert parts["prediction"] == 2 * (layer + 256 + 2 * 64 + 80)


def test_a_convention_says_itself_and_an_unknown_one_the_nearest():
    assert str(model_convention("default")) == (
        "default: weights by products, attention causal half, vocabulary counted"
    )
    assert str(model_convention("6P")) == "6P: weights by parameters, attention not counted"
    own = ModelConvention(name="mine", weights="products", attention="none")
    assert model_convention(own) is own
    with pytest.raises(UsageError, match="megatron"):
        model_convention("megatorn")


def test_shapes_that_cannot_be():
    with pytest.raises(UsageError, match="layers=0"):
        TransformerConfig(**{**_fields(), "layers": 0})
    with pytest.raises(UsageError, match="kv_heads=3"):
        TransformerConfig(**{**_fields(), "kv_heads": 3})
    with pytest.raises(UsageError, match="ffn_hidden"):
        TransformerConfig(**{**_fields(), "ffn_hidden": None})


def _fields():
    return {n: getattr(TINY, n) for n in TINY.__slots__}


@pytest.mark.parametrize("dense", [-1, 3])
def test_no_more_layers_are_dense_than_there_are(dense):
    experts = Experts(routed=4, top_k=1, ffn_hidden=5, dense_layers=dense)
    with pytest.raises(UsageError, match=f"dense_layers={dense} of 2 layers"):
        TransformerConfig(
            layers=2, hidden=4, ffn_hidden=8, heads=1, kv_heads=1, head_dim=4, vocab=8, seq_len=8,
            gated_mlp=False, experts=experts,
        )  # fmt: skip
