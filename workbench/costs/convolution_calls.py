"""Which operators are convolutions, and where their arguments stand.

Positions are those of torch's `native_functions.yaml` and, for names that it no longer has, of the
versions that had them (cuDNN and MIOpen backwards until 1.10). Input and weight of a forward are at
0 and 1; the output mask of a backward comes last.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Forward:
    """Positions of a forward operator's arguments; None: it has no such argument."""

    stride: int
    padding: int
    dilation: int | None = None
    groups: int | None = None
    bias: int | None = None
    transposed: int | None = None
    """Position of the flag that says so; see `transposes`."""
    output_padding: int | None = None
    added: int | None = None
    """A tensor of the output's extents that is added before an activation."""
    transposes: bool = False
    """It is transposed by its name."""


@dataclass(frozen=True, slots=True)
class Backward:
    """Positions of grad_output, input and weight in a backward."""

    grad: int
    data: int
    weight: int
    transposed: int | None = None
    transposes: bool = False


_GENERAL = Forward(3, 4, 5, groups=8, bias=2, transposed=6, output_padding=7)
_PLAIN = Forward(3, 4, 5, groups=6, bias=2)
_TRANSPOSED = Forward(3, 4, 7, groups=6, bias=2, output_padding=5, transposes=True)
_PADDING_FIRST = Forward(4, 3, 5, groups=6, bias=2)
_SLOW = Forward(4, 5, bias=3)
_DILATED = Forward(4, 5, 6, bias=3)
_SLOW_TRANSPOSED = Forward(4, 5, 7, bias=3, output_padding=6, transposes=True)
_ADDING = Forward(5, 6, 7, groups=8, bias=4, added=2)
_CUDNN = Forward(3, 2, 4, groups=5)

FORWARDS = {
    **dict.fromkeys(
        ("aten::convolution", "aten::_convolution", "aten::convolution_overrideable"), _GENERAL
    ),
    **dict.fromkeys(("aten::conv1d", "aten::conv2d", "aten::conv3d"), _PLAIN),
    **dict.fromkeys((f"aten::conv_transpose{n}d" for n in (1, 2, 3)), _TRANSPOSED),
    "aten::cudnn_convolution": _CUDNN,
    "aten::cudnn_convolution_transpose": Forward(
        4, 2, 5, groups=6, output_padding=3, transposes=True
    ),
    # The data gradient of a transposed convolution is a plain convolution of the gradient.
    "aten::cudnn_convolution_transpose_backward_input": _CUDNN,
    **dict.fromkeys(
        ("aten::cudnn_convolution_relu", "aten::miopen_convolution_relu"), _PLAIN
    ),
    **dict.fromkeys(
        ("aten::cudnn_convolution_add_relu", "aten::miopen_convolution_add_relu"), _ADDING
    ),
    **dict.fromkeys(
        ("aten::miopen_convolution", "aten::miopen_depthwise_convolution",
         "aten::mkldnn_convolution", "mkldnn::_convolution_pointwise", "aten::_mps_convolution"),
        _PADDING_FIRST,
    ),
    "aten::miopen_convolution_transpose": Forward(
        5, 3, 6, groups=7, bias=2, output_padding=4, transposes=True
    ),
    "aten::_nnpack_spatial_convolution": Forward(4, 3, bias=2),
    **dict.fromkeys(
        ("aten::thnn_conv2d", "aten::thnn_conv2d_forward", "aten::_slow_conv2d_forward",
         "aten::slow_conv3d", "aten::slow_conv3d_forward"),
        _SLOW,
    ),
    **dict.fromkeys(
        ("aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d", "aten::_conv_depthwise2d",
         "aten::conv_depthwise3d", "aten::thnn_conv_depthwise2d",
         "aten::thnn_conv_depthwise2d_forward"),
        _DILATED,
    ),
    **dict.fromkeys(
        ("aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d"), _SLOW_TRANSPOSED
    ),
}  # fmt: skip
BACKWARDS = {
    "aten::convolution_backward": Backward(0, 1, 2, transposed=7),
    "aten::convolution_backward_overrideable": Backward(0, 1, 2, transposed=6),
    **dict.fromkeys(
        ("aten::cudnn_convolution_backward", "aten::miopen_convolution_backward",
         "aten::miopen_depthwise_convolution_backward", "aten::mkldnn_convolution_backward",
         "aten::mps_convolution_backward"),
        Backward(1, 0, 2),
    ),
    **dict.fromkeys(
        ("aten::cudnn_convolution_transpose_backward",
         "aten::miopen_convolution_transpose_backward", "aten::mps_convolution_transpose_backward"),
        Backward(1, 0, 2, transposes=True),
    ),
    **dict.fromkeys(
        ("aten::thnn_conv2d_backward", "aten::_slow_conv2d_backward"), Backward(0, 1, 2)
    ),
}  # fmt: skip
_MAKERS = ("cudnn", "miopen", "mkldnn", "miopen_depthwise")
DATA_GRADIENTS = frozenset(f"aten::{maker}_convolution_backward_input" for maker in _MAKERS)
"""Operators of (input's size, grad_output, weight)."""
WEIGHT_GRADIENTS = frozenset(
    f"aten::{maker}_convolution_backward_{part}"
    for maker in _MAKERS
    for part in ("weight", "weights")
)
"""Operators of (weight's size, grad_output, input)."""
BIAS_GRADIENTS = frozenset(f"aten::{maker}_convolution_backward_bias" for maker in _MAKERS)
"""Operators of (grad_output)."""
PARTS = DATA_GRADIENTS | WEIGHT_GRADIENTS
"""What a backward calls for each gradient; the sizes are recorded in the backward alone."""
