"""Maps every public function to "module:function", so that the facade imports a module on first use."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from ...construction.recording import recorded
from ...ops.table import OPS

_MODULES: dict[str, str] = {
    "elementwise": (
        "square reciprocal fmod divmod clip logaddexp isclose bit_shift masked_fill is_inf is_finite "
        "tan sinh cosh asinh acosh atanh log10 cbrt"
    ),
    "special": (
        "erfc"
    ),
    "pairs": (
        "atan2 hypot copysign"
    ),
    "complex.values": (
        "real imag conj angle complex"
    ),
    "conversion": (
        "cast bitcast cast_like promote implicit_cast"
    ),
    "activations": (
        "softmax logsoftmax gelu silu prelu leaky_relu elu selu celu softplus mish softsign hard_sigmoid hard_swish "
        "swiglu shrink thresholded_relu hardmax"
    ),
    "normalization": (
        "layer_norm rms_norm batch_norm group_norm instance_norm lrn lp_norm"
    ),
    "reductions": (
        "sum prod max min argmax argmin any all count_nonzero mean var stdev logsumexp cumsum reduce_l1 reduce_l2 sum_square "
        "log_sum norm"
    ),
    "linalg": (
        "matmul dot outer linear gemm tensordot attention"
    ),
    "einsum": (
        "einsum"
    ),
    "shaping": (
        "reshape permute transpose broadcast_to expand squeeze unsqueeze flatten flip slice_tensor rebind size shape_to_tensor "
        "windows"
    ),
    "joining": (
        "concat stack split chunk tile repeat_interleave roll pad"
    ),
    "signal.fourier": (
        "fft ifft rfft irfft stft"
    ),
    "signal.windows": (
        "hann_window hamming_window blackman_window"
    ),
    "spatial.convolution": (
        "conv conv1d conv2d conv3d max_pool avg_pool"
    ),
    "spatial.transposed": (
        "conv_transpose col2im"
    ),
    "spatial.deformable": (
        "deform_conv"
    ),
    "spatial.pooling": (
        "lp_pool max_pool_with_indices max_unpool"
    ),
    "spatial.resizing": (
        "resize"
    ),
    "spatial.sampling": (
        "grid_sample"
    ),
    "spatial.grids": (
        "affine_grid"
    ),
    "spatial.regions": (
        "roi_align"
    ),
    "networks.recurrent": (
        "rnn gru lstm"
    ),
    "networks.rotary": (
        "rotary_embedding"
    ),
    "networks.losses": (
        "cross_entropy nll_loss"
    ),
    "indexing": (
        "gather take_along_axis gather_nd"
    ),
    "ordered.sorting": (
        "sort argsort top_k bottom_k"
    ),
    "ordered.running": (
        "cumprod cummax cummin"
    ),
    "ordered.scattering": (
        "scatter scatter_add scatter_mul scatter_min scatter_max put_along_axis scatter_nd scatter_nd_add scatter_nd_mul "
        "scatter_nd_min scatter_nd_max"
    ),
    "ordered.searching": (
        "searchsorted bincount histogram"
    ),
    "quantization.codes": (
        "quantize dequantize dynamic_quantize"
    ),
    "random.distributions": (
        "random_bits random_uniform random_normal random_integers random_permutation bernoulli categorical dropout"
    ),
    "host.data_sized": (
        "nonzero compress unique non_max_suppression image_decode"
    ),
    "host.strings": (
        "string_concat string_equal string_split string_split_count regex_full_match string_normalize tf_idf encode_labels "
        "parse_numbers print_numbers"
    ),
    "control.loops": (
        "while_loop fori_loop scan"
    ),
    "control.associative": (
        "associative_scan"
    ),
    "control.branches": (
        "cond"
    ),
    "creation": (
        "full zeros ones zeros_like ones_like"
    ),
    "triangles": (
        "arange linspace eye tril triu band_part one_hot"
    ),
}  # fmt: skip
"""Module → the names of its public functions. A new name is a line of its own below the module's."""

_BUILTINS = ("sum", "max", "min", "any", "all", "divmod", "complex")
"""Public names whose functions carry a trailing underscore, so that modules keep Python's own."""

EXPORTS: dict[str, str] = {
    name: "graph.functions.elementwise:" + name
    for name, row in OPS.items()
    if row.kind == "map" and not row.attrs and "internal" not in row.traits
}
EXPORTS.update(
    (name, f"graph.functions.{module}:{name}{'_' if name in _BUILTINS else ''}")
    for module, names in _MODULES.items()
    for name in names.split()
)


@functools.cache
def on_parts() -> Callable[..., Any]:
    """Return what computes rows on complex numbers, which loads when there are some."""
    package = __package__.partition(".")[0]
    found: Callable[..., Any] = importlib.import_module(f"{package}.graph.functions.complex.rows").applied
    return found


@functools.cache
def public(name: str) -> Callable[..., Any]:
    """Return the public function of that name; its graph records calls, and `help` shows the public name."""
    module, _, function = EXPORTS[name].partition(":")
    package = __package__.partition(".")[0]
    plain = getattr(importlib.import_module(f"{package}.{module}"), function)  # imports Symbol, whose methods need this file
    plain.__qualname__ = name  # Python's messages about missing arguments show it
    found: Callable[..., Any] = recorded(plain)
    found.__name__ = found.__qualname__ = name
    return found
