"""FLOPs and bytes of recurrent layers (LSTM, GRU, plain), from recorded weights.

Each weight matrix multiplies each token once: 2 * tokens * elements of all matrices (projections
too). Backwards run as many multiply-adds for the data gradients, and again for the gradients of
the weights. The gates between the products are counted in the cells alone, which hold no product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.costs import arguments
from workbench.costs.cost import Cost
from workbench.costs.shapes import LIST, Call, ShapeError, Tensor

if TYPE_CHECKING:
    from workbench.costs.cost import Model


@dataclass(frozen=True, slots=True)
class _Form:
    """Positions of the weights (tensors, or one list) and of the states; input is at 0."""

    weights: tuple[int, ...]
    states: tuple[int, ...]
    bidirectional: int
    output: int | None = None
    """A backward has the forward's output and the gradients of output and states after it."""
    mask: bool = False
    """The last argument says which gradients are wanted, the weights' at the end."""


_LAYER = _Form((1, 2, 3, 4), (5, 6), 13)
_LAYER_BACKWARD = _Form((1, 2, 3, 4), (5, 6), 19, output=7)
_CUDNN = _Form((1,), (4, 5), 13)
_CUDNN_BACKWARD = _Form((1,), (4, 5), 17, output=6, mask=True)
_MIOPEN = _Form((1,), (3, 4), 11)
_MIOPEN_BACKWARD = _Form((1,), (4, 5), 16, output=6, mask=True)


def _tensors(call: Call, positions: tuple[int, ...]) -> tuple[Tensor, ...]:
    found = [call.tensors[p] if p < len(call.tensors) else None for p in positions]
    lists = [t if isinstance(t, tuple) else (t,) for t in found]
    return tuple(t for some in lists for t in some if t is not None)


def _weights(call: Call, form: _Form, like: Tensor) -> tuple[Tensor, ...]:
    """Return the weights; of a list without a recorded type they have that of the input."""
    found = _tensors(call, form.weights)
    return tuple(replace(t, type_name=like.type_name) if t.type_name == LIST else t for t in found)


def _sizes(call: Call, form: _Form) -> tuple[Tensor, tuple[Tensor, ...], int, int]:
    """Return input, weights, tokens, and the elements of all weight matrices."""
    data = call.tensor(0)
    weights = _weights(call, form, data)
    matrices = sum(t.elements for t in weights if len(t.dims) == 2)  # noqa: PLR2004
    if not data.dims or not data.dims[-1] or not matrices:
        raise ShapeError("the weights of the layer were not recorded")
    return data, weights, data.elements // data.dims[-1], matrices


def _forward(form: _Form) -> Model:
    def model(call: Call) -> Cost:
        """Price 2 * tokens * matrices; reads input, weights, states, writes output and states."""
        data, weights, tokens, matrices = _sizes(call, form)
        states = _tensors(call, form.states)
        if not states or not states[0].dims:
            raise ShapeError("the state of the layer was not recorded")
        directions = 1 if form is _LAYER else 1 + call.flag(form.bidirectional)
        written = tokens * states[0].dims[-1] * directions + sum(t.elements for t in states)
        biases = sum(t.elements for t in weights if len(t.dims) == 1)
        return _cost(
            data,
            2 * tokens * matrices,
            sum(t.distinct_bytes for t in (data, *weights, *states)),
            written * data.dtype.bytes,
            tokens * biases,
        )

    return model


def _backward(form: _Form) -> Model:
    def model(call: Call) -> Cost:
        """Price twice the forward: once without the weights' gradients.

        Reads input, weights, states, output and their gradients; writes the gradients.
        """
        data, weights, tokens, matrices = _sizes(call, form)
        to_weights = arguments.mask(call, -1)[-1] if form.mask else True
        start = form.output or 0
        states = _tensors(call, form.states)
        others = tuple(t for t in call.tensors[start : start + 4] if isinstance(t, Tensor))
        written = sum(t.elements for t in (data, *states))
        written += sum(t.elements for t in weights) if to_weights else 0
        return _cost(
            data,
            2 * tokens * matrices * (1 + to_weights),
            sum(t.distinct_bytes for t in (data, *weights, *states, *others)),
            written * data.dtype.bytes,
        )

    return model


def _cell(per_unit: int, gates: int) -> Model:
    def model(call: Call) -> Cost:
        """Price the gates of a cell, from (input gates, hidden gates, state, two biases).

        Adds of the biases are an epilogue.
        """
        inputs, hidden, state = (call.tensor(i) for i in range(3))
        biases = [t for t in (call.optional(3), call.optional(4)) if t is not None]
        if inputs.dims != hidden.dims or inputs.elements != gates * state.elements:
            raise ShapeError("gates and state do not fit together")
        outputs = 2 if gates == LSTM_GATES else 1
        return Cost(
            flops=per_unit * state.elements,
            read_bytes=sum(t.distinct_bytes for t in (inputs, hidden, state, *biases)),
            # The workspace for the backward holds every gate.
            write_bytes=(outputs * state.elements + inputs.elements) * state.dtype.bytes,
            precision=state.dtype.precision,
            unit="special",
            model="recurrent",
            epilogue_flops=len(biases) * inputs.elements,
        )

    return model


LSTM_GATES, GRU_GATES = 4, 3
LSTM_FLOPS = 13
"""A unit: 4 adds of input and hidden, 3 sigmoids, 2 tanh, f c + i g (3), o tanh(c) (1)
(Hochreiter and Schmidhuber 1997, as in torch's `LSTMCell`)."""
GRU_FLOPS = 10
"""A unit: r and z an add and a sigmoid each (4), n a product, an add, a tanh (3), n + z (h - n)
(3) (Cho et al., arXiv 1406.1078, as in torch's `GRUCell`)."""


def _cost(data: Tensor, flops: int, read: int, written: int, epilogue: int = 0) -> Cost:
    return Cost(
        flops=flops,
        read_bytes=read,
        write_bytes=written,
        precision=data.dtype.precision,
        unit="matrix",
        model="recurrent",
        epilogue_flops=epilogue,
    )


MODELS: dict[str, Model] = {
    "aten::mkldnn_rnn_layer": _forward(_LAYER),
    "aten::_cudnn_rnn": _forward(_CUDNN),
    "aten::miopen_rnn": _forward(_MIOPEN),
    "aten::mkldnn_rnn_layer_backward": _backward(_LAYER_BACKWARD),
    "aten::_cudnn_rnn_backward": _backward(_CUDNN_BACKWARD),
    "aten::miopen_rnn_backward": _backward(_MIOPEN_BACKWARD),
    "aten::_thnn_fused_lstm_cell": _cell(LSTM_FLOPS, LSTM_GATES),
    "aten::_thnn_fused_gru_cell": _cell(GRU_FLOPS, GRU_GATES),
}
WRAPPERS = frozenset[str]()
"""None: `lstm` and `gru` have no model of their own, what they call carries the count."""
