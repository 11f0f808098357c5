"""Maps names of other libraries to joinery's functions, and lists planned ones, for the hints in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ....promotion.errors import close_names
from ...ops.table import OPS
from .exports import EXPORTS

_ALIASES = """
absolute: abs                     | fabs: abs                          | subtract: sub
multiply: mul                     | divide: div                        | true_divide: div
floor_divide: floor_div           | remainder: mod                     | power: pow
float_power: pow                  | negative: negate                   | neg: negate
reciprocal_: reciprocal           | arcsin: asin                       | arccos: acos
arctan: atan                      | arctan2: atan2                     | arcsinh: asinh
arccosh: acosh                    | arctanh: atanh                     | rint: round
around: round                     | fix: trunc                         | isnan: is_nan
isinf: is_inf                     | isfinite: is_finite                | is_close: isclose
eq: equal                         | ne: not_equal                      | lt: less
le: less_equal                    | gt: greater                        | ge: greater_equal
invert: bitwise_not               | bitwise_invert: bitwise_not        | left_shift: shift_left
bitwise_left_shift: shift_left    | right_shift: shift_right           | bitwise_right_shift: shift_right
bitwise_count: popcount           | population_count: popcount         | select: where
amax: max                         | amin: min                          | reduce_sum: sum
reduce_prod: prod                 | reduce_max: max                    | reduce_min: min
reduce_mean: mean                 | reduce_any: any                    | reduce_all: all
reduce_log_sum_exp: logsumexp     | reduce_sum_square: sum_square      | reduce_log_sum: log_sum
average: mean                     | std: stdev                         | arg_max: argmax
arg_min: argmin                   | cum_sum: cumsum                    | concatenate: concat
cat: concat                       | hstack: concat                     | vstack: concat
column_stack: stack               | array_split: split                 | hsplit: split
vsplit: split                     | repeat: repeat_interleave          | take: gather
index_select: gather              | gather_elements: take_along_axis   | take_along_dim: take_along_axis
expand_dims: unsqueeze            | ravel: flatten                     | moveaxis: permute
rollaxis: permute                 | swapaxes: transpose                | swapdims: transpose
permute_dims: permute             | fliplr: flip                       | flipud: flip
rot90: flip                       | reverse: flip                      | astype: cast
convert_element_type: cast        | view: bitcast                      | bitcast_convert_type: bitcast
clamp: clip                       | ones_: ones                        | full_like: full
range: arange                     | iota: arange                       | identity: eye
eye_like: eye                     | trilu: tril                        | mm: matmul
bmm: matmul                       | mat_mul: matmul                    | inner: dot
scatter_elements: scatter         | topk: top_k                        | cum_prod: cumprod
maximum_accumulate: cummax        | minimum_accumulate: cummin         | index_put: scatter_nd
vdot: dot                         | log_softmax: logsoftmax            | swish: silu
hardswish: hard_swish             | hardsigmoid: hard_sigmoid          | expit: sigmoid
logistic: sigmoid                 | layer_normalization: layer_norm    | rms_normalization: rms_norm
shape: shape_to_tensor            | slice: slice_tensor                | logical_invert: logical_not
sliding_window_view: windows      | unfold: windows                    | reduce_window: windows
uniform: random_uniform            | normal: random_normal              | gaussian: random_normal
randint: random_integers          | permuted: random_permutation       | multinomial: categorical
matrix_band_part: band_part       | scaled_dot_product_attention: attention |  gather_elements_nd: gather_nd      | dft: fft
batch_normalization: batch_norm   | group_normalization: group_norm    | instance_normalization: instance_norm
quantize_linear: quantize         | dequantize_linear: dequantize      | dynamic_quantize_linear: dynamic_quantize
linalg_norm: norm                 | masked_select: where               | broadcast_in_dim: broadcast_to
median: sort                       | quantile: sort                     | percentile: sort
interpolate: resize               | upsample: resize                   | resize_bilinear: resize
hanning: hann_window              | hamming: hamming_window            | blackman: blackman_window
conv_transpose1d: conv_transpose  | conv_transpose2d: conv_transpose   | conv_transpose3d: conv_transpose
conv2d_transpose: conv_transpose  | deform_conv2d: deform_conv         | fold: col2im
max_unpool2d: max_unpool          | lp_pool2d: lp_pool                 | local_response_norm: lrn
lp_normalization: lp_norm         | normalize: lp_norm                 | softmax_cross_entropy_loss: cross_entropy
negative_log_likelihood_loss: nll_loss | max_pool2d_with_indices: max_pool_with_indices | global_lp_pool: norm
"""
_PLANNED = """
jit call_kernel from_exported distributed
set_seed global_avg_pool
depth_to_space space_to_depth center_crop_pad reverse_sequence
"""

ALIASES: dict[str, str] = {
    name.strip(): target.strip()
    for name, _, target in (entry.partition(":") for line in _ALIASES.split("\n") for entry in line.split("|"))
    if target
}
"""Names of NumPy, JAX, torch and ONNX (in snake case) → joinery's."""

PLANNED = frozenset(_PLANNED.split())
"""Names that a later version will have."""


def named_elsewhere(name: str) -> str:
    """Return joinery's name for what another library calls `name`, or ""."""
    by_onnx = {row.onnx[0]: row.name for row in OPS.values() if row.onnx and row.name in EXPORTS}
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    for candidate in (by_onnx.get(name, ""), ALIASES.get(snake, ""), snake):
        if candidate in EXPORTS and candidate != name:
            return candidate
    return ""


def is_planned(name: str) -> bool:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() in PLANNED


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return a question with the names a user may have meant, or "".

    If another library uses this name, that is joinery's name for it; else similar names.
    """
    elsewhere = named_elsewhere(name)
    near = [elsewhere] if elsewhere else close_names(name, list(known), 3, 0.6)
    return f"did you mean {' or '.join(prefix + entry for entry in near)}?" if near else ""
