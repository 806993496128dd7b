"""Operators that move and compute nothing themselves: their cost is 0 whatever their arguments.

Views share the storage of their argument (torch documentation, "Tensor Views"); metadata operators
read or set a description; allocation fills nothing; composites are written in other operators
(`CompositeImplicitAutograd` in torch's `native_functions.yaml`, or a factory that calls `fill_`),
and nodes of autograd's graph call operators, which are recorded and carry the work. A copy that
`reshape` or `to` needs is that of the `copy_` inside it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from workbench.costs.cost import Cost

if TYPE_CHECKING:
    from workbench.costs.cost import Model
    from workbench.costs.shapes import Call

VIEWS = """
_conj _fw_primal _indices _make_dual _neg_view _reshape_alias _unsafe_view _values adjoint alias
as_strided as_strided_ atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_to
ccol_indices chunk col_indices conj crow_indices detach detach_ diagonal dsplit expand expand_as
flatten hsplit imag indices lift lift_fresh linalg_diagonal mH mT matrix_H meshgrid moveaxis
movedim narrow numpy_T permute positive ravel real reshape reshape_as resolve_conj resolve_neg
row_indices select slice slice_inverse split split_with_sizes squeeze squeeze_ swapaxes swapaxes_
swapdims swapdims_ t t_ tensor_split transpose transpose_ unbind unflatten unfold unsafe_chunk
unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_ values view view_as view_as_complex
view_as_real vsplit
"""
METADATA = """
_assert_async _assert_tensor_metadata _backward _debug_has_internal_overlap
_has_compatible_shallow_copy_type _has_same_storage_numel _nnpack_available _use_cudnn_ctc_loss
_use_cudnn_rnn_flatten_weight _version can_cast cudnn_is_acceptable data dense_dim get_device
is_complex is_conj is_contiguous is_distributed is_floating_point is_inference is_leaf is_neg
is_pinned is_same_size is_signed numel output_nr promote_types record_stream requires_grad_
result_type retain_grad retains_grad set_ set_data size sparse_dim storage_offset stride sym_numel
sym_size sym_storage_offset sym_stride
"""
ALLOCATION = """
_empty_affine_quantized _resize_output_ empty empty_like empty_permuted empty_quantized
empty_strided new_empty new_empty_strided resize resize_ resize_as_
"""
COMPOSITES = """
_autocast_to_full_precision _autocast_to_reduced_precision _batch_norm_impl_index _cast_Byte
_cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _pad_circular _pad_enum _pin_memory
_stack _to_copy _to_cpu absolute absolute_ adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout
argsort argwhere avg_pool1d batch_norm cartesian_prod clip clip_ clone column_stack concat
concatenate contiguous cosine_embedding_loss cosine_similarity cross_entropy_loss
diagonal_backward diff divide divide_ dropout dropout_ dstack embedding_backward feature_dropout
fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn fft_irfft fft_irfft2 fft_irfftn fft_rfft
fft_rfft2 fft_rfftn flatten_dense_tensors fliplr flipud float_power frobenius_norm full full_like
gather_backward greater greater_ greater_equal greater_equal_ group_norm hstack
index_select_backward instance_norm is_nonzero isclose isfinite isreal item kl_div l1_loss
layer_norm less less_ less_equal less_equal_ linalg_matrix_norm linalg_norm log_sigmoid
log_softmax logsumexp masked_select_backward max_pool2d max_pool3d multiply multiply_
negative negative_ new_full new_ones new_zeros nll_loss nll_loss2d nll_loss_nd not_equal
not_equal_ nuclear_norm one_hot ones ones_like pad pad_sequence pairwise_distance pin_memory prelu
rand rand_like randint randint_like randn randn_like relu6 relu6_ rms_norm row_stack scalar_tensor
select_backward selu selu_ slice_backward softmax square square_ stack subtract subtract_
sum_to_size take_along_dim tile to trapezoid true_divide true_divide_ type_as
unflatten_dense_tensors value_selecting_reduction_backward vstack zeros zeros_like
"""
_OTHERS = ("detach", "detach_", "_C::weak_ref_tensor")
"""Names that the profiler writes without a namespace, and of other libraries."""
NAMES = frozenset(
    f"aten::{name}" for text in (VIEWS, METADATA, ALLOCATION, COMPOSITES) for name in text.split()
).union(_OTHERS)
_NODES = re.compile(
    r"autograd::engine::evaluate_function: .*"
    r"|(torch::autograd::)?(\w+Backward\d+|AccumulateGrad|CopySlices|CopyBackwards)"
)
"""Nodes of autograd's graph, which call operators; one without a number (of a compiled function, of
a Python function) may hold kernels of its own."""
COST = Cost(0, 0, 0, "unknown", "memory", "view")


def is_one(name: str) -> bool:
    """Say whether an operator of this name moves and computes nothing itself."""
    return name in NAMES or _NODES.fullmatch(name) is not None


def _nothing(_: Call) -> Cost:
    return COST


MODELS: dict[str, Model] = dict.fromkeys(NAMES, _nothing)
WRAPPERS: frozenset[str] = frozenset()
