import pytest

from workbench.costs.models import cost
from workbench.costs.shapes import Call, ShapeError, Tensor


def f32(*dims):
    return Tensor(dims, "float")


# 7 steps of 2: 14 tokens, 5 wide, 6 units: matrices 24 x 5 and 24 x 6: 264 elements
WEIGHTS = (f32(24, 5), f32(24, 6), f32(24), f32(24))
STATES = (f32(2, 6), f32(2, 6))


def test_a_layer_multiplies_each_token_with_each_matrix():
    # 2 * 14 * 264 = 7392; reads 70 + 264 + 48 + 24, writes 14 * 6 and the states
    args = Call((f32(7, 2, 5), *WEIGHTS, *STATES, *[None] * 9))
    found = cost("aten::mkldnn_rnn_layer", args)
    assert (found.flops, found.epilogue_flops) == (7392, 14 * 48)
    assert (found.read_bytes, found.write_bytes) == (4 * 406, 4 * (84 + 24))
    assert (found.unit, found.model) == ("matrix", "recurrent")


def test_backward_is_twice_that():
    # reads output, new states and the gradient of the output too: 84 + 24 + 84
    outputs = (f32(7, 2, 6), f32(2, 6), f32(2, 6), f32(7, 2, 6))
    found = cost("aten::mkldnn_rnn_layer_backward",
                 Call((f32(7, 2, 5), *WEIGHTS, *STATES, *outputs, *[None] * 12)))  # fmt: skip
    assert found.flops == 2 * 7392
    assert (found.read_bytes, found.write_bytes) == (4 * (406 + 192), 4 * (70 + 24 + 312))


def cudnn(name, length, extra, states):
    tensors = {0: f32(7, 2, 5), 1: (*WEIGHTS, *WEIGHTS)} | states
    placed = tuple(tensors.get(i) for i in range(length))
    return cost(name, Call(placed, tuple(extra.get(i, "") for i in range(length))))


def test_cudnn_has_one_list_of_weights_for_both_directions():
    # two directions: 2 * 14 * 528; writes 14 * 2 * 6 and states of (2, 2, 6)
    states = {4: f32(2, 2, 6), 5: f32(2, 2, 6)}
    found = cudnn("aten::_cudnn_rnn", 16, {13: "True"}, states)
    assert (found.flops, found.write_bytes) == (14_784, 4 * (168 + 48))
    back = cudnn("aten::_cudnn_rnn_backward", 22, {21: "[True, False, False, False]"}, states)
    assert back.flops == 14_784
    whole = cudnn("aten::_cudnn_rnn_backward", 22, {21: "[True, False, False, True]"}, states)
    assert whole.flops == 2 * 14_784
    with pytest.raises(ShapeError, match="recorded"):
        cudnn("aten::_cudnn_rnn", 16, {}, states)


def test_a_list_of_weights_without_a_type_has_that_of_the_input():
    # profilers write `TensorList` for the type of a list: 2 * 14 * 264, as with known types
    untold = tuple(Tensor(t.dims, "TensorList") for t in WEIGHTS)
    states = {4: f32(1, 2, 6), 5: f32(1, 2, 6)}
    texts = {13: "False"}
    found = cudnn("aten::_cudnn_rnn", 16, texts, states | {1: untold})
    assert found == cudnn("aten::_cudnn_rnn", 16, texts, states | {1: WEIGHTS})
    assert (found.flops, found.read_bytes) == (7392, 4 * (70 + 264 + 48 + 24))


def test_cells_count_their_gates():
    # 2 x 6 units: LSTM 13 each, and 2 biases of 48 gates; GRU 10 each
    lstm = (f32(2, 24), f32(2, 24), f32(2, 6), f32(24), f32(24))
    found = cost("aten::_thnn_fused_lstm_cell", Call(lstm))
    assert (found.flops, found.epilogue_flops, found.unit) == (156, 96, "special")
    assert (found.read_bytes, found.write_bytes) == (4 * (96 + 12 + 48), 4 * (24 + 48))
    gru = cost("aten::_thnn_fused_gru_cell", Call((f32(2, 18), f32(2, 18), f32(2, 6))))
    assert (gru.flops, gru.epilogue_flops) == (120, 0)


@pytest.mark.parametrize(
    ("name", "tensors"),
    [("aten::mkldnn_rnn_layer", (f32(7, 2, 5), None, None, None, None, f32(2, 6))),
     ("aten::mkldnn_rnn_layer", (f32(7, 2, 5), *WEIGHTS)),
     ("aten::_thnn_fused_lstm_cell", (f32(2, 24), f32(2, 18), f32(2, 6))),
     ("aten::_thnn_fused_gru_cell", (f32(2, 24), f32(2, 24), f32(2, 6)))],
)  # fmt: skip
def test_unusable_shapes_give_a_reason(name, tensors):
    with pytest.raises(ShapeError):
        cost(name, Call(tensors))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("mkldnn_rnn_layer", {5: "hx_", 6: "cx_", 13: "bidirectional"}),
     ("mkldnn_rnn_layer_backward", {5: "hx_", 7: "output", 10: "grad_output"}),
     ("_cudnn_rnn", {1: "weight", 4: "hx", 5: "cx", 13: "bidirectional"}),
     ("_cudnn_rnn_backward", {1: "weight", 4: "hx", 6: "output", 7: "grad_output",
                              21: "output_mask"}),
     ("miopen_rnn", {1: "weight", 3: "hx", 4: "cx", 11: "bidirectional"}),
     ("miopen_rnn_backward", {1: "weight", 4: "hx", 6: "output", 20: "output_mask"})],
)  # fmt: skip
def test_positions_agree_with_torch(name, wanted):
    torch = pytest.importorskip("torch")
    args = [a.name for a in getattr(torch.ops.aten, name).default._schema.arguments]
    assert {at: args[at] for at in wanted} == wanted
