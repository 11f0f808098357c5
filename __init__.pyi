"""Types of joinery's public names. Written by docs/stubs.py: do not edit."""

# ruff: noqa: A001, A002, A004 (names of builtins are ours)
import builtins
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from . import promotion as promotion
from .graph.dims.dim import Dim as Dim
from .graph.functions.joining import Widths as _Widths
from .graph.functions.spatial.geometry import Padding as _Padding
from .graph.functions.spatial.geometry import PerAxis as _PerAxis
from .graph.graph import Graph as Graph
from .graph.onnx.export.exporter import to_onnx as to_onnx
from .graph.onnx.importer import from_onnx as from_onnx
from .graph.onnx.limits import OnnxLimits as OnnxLimits
from .graph.promote.result_types import result_type as result_type
from .graph.promote.what_if import what_if as what_if
from .graph.protocols import TensorLike as _TensorLike
from .graph.reference.budget import Budget as Budget
from .graph.reference.evaluate import evaluate as evaluate
from .graph.symbol import Symbol as Symbol
from .graph.text.parsing import from_text as from_text
from .graph.text.printing import to_text as to_text
from .graph.types import Axis as _Axis
from .graph.types import DimLike as _DimLike
from .graph.types import DTypeLike as _DTypeLike
from .graph.types import ShapeLike as _ShapeLike
from .graph.types import TensorType as TensorType
from .graph.weights.block_quantised import BlockQuantized as BlockQuantized
from .graph.weights.gguf_files import load_gguf as load_gguf
from .graph.weights.safetensors_files import load_safetensors as load_safetensors
from .graph.weights.safetensors_files import save_safetensors as save_safetensors
from .interface import distributed as distributed
from .interface import kernel as kernel
from .interface import torch as torch
from .interface import triton as triton
from .interface.compiling import compile as compile
from .interface.compiling import save as save
from .interface.model import Model as Model
from .interface.onnx.specialised import compile_onnx as compile_onnx
from .interface.opening.loading import load as load
from .interface.tensor_arguments import PointerTable as PointerTable
from .interface.tensor_arguments import TensorDescriptor as TensorDescriptor
from .interface.torch.exported import from_exported as from_exported
from .interface.tuning.models import Tuning as Tuning
from .lowering.choices.model_schedule import KernelSchedule as KernelSchedule
from .lowering.choices.model_schedule import ModelSchedule as ModelSchedule
from .lowering.sanitize import ModelReport as ModelReport
from .lowering.tt.interpret.memory import AccessError as AccessError
from .lowering.tt.sanitize.findings import SanitizerError as SanitizerError
from .promotion.dtype import DType as DType
from .promotion.errors import DeviceError as DeviceError
from .promotion.errors import DeviceMemoryError as DeviceMemoryError
from .promotion.errors import InternalError as InternalError
from .promotion.errors import JoineryError as JoineryError
from .promotion.errors import KernelAssertionError as KernelAssertionError
from .promotion.errors import PromotionWarning as PromotionWarning
from .promotion.errors import TritonCWarning as TritonCWarning
from .promotion.errors import UnsupportedError as UnsupportedError
from .promotion.errors import UserError as UserError
from .runtime.cuda.buffers import Buffer as Buffer
from .runtime.host.threads import limit_threads as limit_threads
from .runtime.host.threads import set_threads as set_threads
from .runtime.ptxsim.checks.findings import PtxCheckError as PtxCheckError
from .runtime.storage.cache import CompileCache as CompileCache

_Bound: TypeAlias = float | np.generic | str | Dim

__version__: str

bool: DType
int4: DType
int8: DType
int16: DType
int32: DType
int64: DType
uint4: DType
uint8: DType
uint16: DType
uint32: DType
uint64: DType
index: DType
address: DType
float16: DType
bfloat16: DType
float32: DType
tensor_float32: DType
float64: DType
float8_e4m3fn: DType
float8_e5m2: DType
float8_e4m3fnuz: DType
float8_e5m2fnuz: DType
float8_e4m3b11fnuz: DType
float8_e4m3: DType
float8_e3m4: DType
float8_e8m0fnu: DType
complex64: DType
complex128: DType
float4_e2m1fn: DType
float6_e2m3fn: DType
float6_e3m2fn: DType
int2: DType
uint2: DType
string: DType

def add(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def sub(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def mul(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def div(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def floor_div(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def mod(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def trunc_div(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def rem(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def pow(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def minimum(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def maximum(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def equal(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def not_equal(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def less(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def less_equal(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def greater(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def greater_equal(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def logical_and(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def logical_or(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def logical_xor(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def logical_not(x: Symbol) -> Symbol: ...
def bitwise_and(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def bitwise_or(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def bitwise_xor(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def bitwise_not(x: Symbol) -> Symbol: ...
def shift_left(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def shift_right(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def popcount(x: Symbol) -> Symbol: ...
def where(condition: _TensorLike, x: _TensorLike, y: _TensorLike) -> Symbol: ...
def negate(x: Symbol) -> Symbol: ...
def abs(x: Symbol) -> Symbol: ...
def sign(x: Symbol) -> Symbol: ...
def sqrt(x: Symbol) -> Symbol: ...
def rsqrt(x: Symbol) -> Symbol: ...
def exp(x: Symbol) -> Symbol: ...
def exp2(x: Symbol) -> Symbol: ...
def expm1(x: Symbol) -> Symbol: ...
def log(x: Symbol) -> Symbol: ...
def log2(x: Symbol) -> Symbol: ...
def log10(x: Symbol) -> Symbol: ...
def log1p(x: Symbol) -> Symbol: ...
def cbrt(x: Symbol) -> Symbol: ...
def sin(x: Symbol) -> Symbol: ...
def cos(x: Symbol) -> Symbol: ...
def asin(x: Symbol) -> Symbol: ...
def acos(x: Symbol) -> Symbol: ...
def atan(x: Symbol) -> Symbol: ...
def tanh(x: Symbol) -> Symbol: ...
def erf(x: Symbol) -> Symbol: ...
def floor(x: Symbol) -> Symbol: ...
def ceil(x: Symbol) -> Symbol: ...
def round(x: Symbol) -> Symbol: ...
def trunc(x: Symbol) -> Symbol: ...
def is_nan(x: Symbol) -> Symbol: ...
def relu(x: Symbol) -> Symbol: ...
def sigmoid(x: Symbol) -> Symbol: ...
def square(x: Symbol) -> Symbol: ...
def reciprocal(x: Symbol) -> Symbol: ...
def fmod(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def divmod(x: _TensorLike, y: _TensorLike) -> tuple[Symbol, Symbol]: ...
def clip(x: _TensorLike, low: _TensorLike | None = ..., high: _TensorLike | None = ...) -> Symbol: ...
def logaddexp(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def isclose(
    x: _TensorLike,
    y: _TensorLike,
    rtol: float = ...,
    atol: float = ...,
    equal_nan: builtins.bool = ...,
) -> Symbol: ...
def bit_shift(x: _TensorLike, y: _TensorLike, direction: str = ...) -> Symbol: ...
def masked_fill(x: _TensorLike, mask: _TensorLike, value: _TensorLike) -> Symbol: ...
def is_inf(x: Symbol) -> Symbol: ...
def is_finite(x: Symbol) -> Symbol: ...
def tan(x: Symbol) -> Symbol: ...
def sinh(x: Symbol) -> Symbol: ...
def cosh(x: Symbol) -> Symbol: ...
def asinh(x: Symbol) -> Symbol: ...
def acosh(x: Symbol) -> Symbol: ...
def atanh(x: Symbol) -> Symbol: ...
def erfc(x: Symbol) -> Symbol: ...
def atan2(y: _TensorLike, x: _TensorLike) -> Symbol: ...
def hypot(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def copysign(x: _TensorLike, y: _TensorLike) -> Symbol: ...
def real(x: Symbol) -> Symbol: ...
def imag(x: Symbol) -> Symbol: ...
def conj(x: Symbol) -> Symbol: ...
def angle(x: Symbol) -> Symbol: ...
def complex(real: _TensorLike, imag: _TensorLike) -> Symbol: ...
def cast(x: Symbol, dtype: _DTypeLike, rounding: str = ..., saturate: builtins.bool = ...) -> Symbol: ...
def bitcast(x: Symbol, dtype: _DTypeLike) -> Symbol: ...
def cast_like(x: _TensorLike, like: _TensorLike) -> Symbol: ...
def promote(*operands: _TensorLike) -> tuple[Symbol, ...]: ...
def implicit_cast(lhs: _TensorLike, rhs: _TensorLike) -> tuple[Symbol, Symbol]: ...
def softmax(x: Symbol, axis: int = ...) -> Symbol: ...
def logsoftmax(x: Symbol, axis: int = ...) -> Symbol: ...
def gelu(x: Symbol, approximate: str = ...) -> Symbol: ...
def silu(x: Symbol) -> Symbol: ...
def prelu(x: _TensorLike, slope: _TensorLike) -> Symbol: ...
def leaky_relu(x: Symbol, alpha: float = ...) -> Symbol: ...
def elu(x: Symbol, alpha: float = ...) -> Symbol: ...
def selu(x: Symbol, alpha: float = ..., gamma: float = ...) -> Symbol: ...
def celu(x: Symbol, alpha: float = ...) -> Symbol: ...
def softplus(x: Symbol) -> Symbol: ...
def mish(x: Symbol) -> Symbol: ...
def softsign(x: Symbol) -> Symbol: ...
def hard_sigmoid(x: Symbol, alpha: float = ..., beta: float = ...) -> Symbol: ...
def hard_swish(x: Symbol) -> Symbol: ...
def swiglu(gate: _TensorLike, value: _TensorLike) -> Symbol: ...
def shrink(x: Symbol, threshold: float = ..., bias: float = ...) -> Symbol: ...
def thresholded_relu(x: Symbol, alpha: float = ...) -> Symbol: ...
def hardmax(x: Symbol, axis: int = ...) -> Symbol: ...
def layer_norm(
    x: _TensorLike,
    scale: _TensorLike | None = ...,
    bias: _TensorLike | None = ...,
    epsilon: float = ...,
) -> Symbol: ...
def rms_norm(x: _TensorLike, scale: _TensorLike | None = ..., epsilon: float = ...) -> Symbol: ...
def batch_norm(
    x: _TensorLike,
    scale: _TensorLike | None,
    bias: _TensorLike | None,
    mean: _TensorLike,
    var: _TensorLike,
    epsilon: float = ...,
    axis: int = ...,
) -> Symbol: ...
def group_norm(
    x: _TensorLike,
    num_groups: int,
    scale: _TensorLike | None = ...,
    bias: _TensorLike | None = ...,
    epsilon: float = ...,
) -> Symbol: ...
def instance_norm(
    x: _TensorLike,
    scale: _TensorLike | None = ...,
    bias: _TensorLike | None = ...,
    epsilon: float = ...,
) -> Symbol: ...
def lrn(
    x: Symbol,
    size: int,
    alpha: float = ...,
    beta: float = ...,
    bias: float = ...,
    axis: int = ...,
) -> Symbol: ...
def lp_norm(x: Symbol, p: int = ..., axis: int = ...) -> Symbol: ...
def sum(
    x: Symbol,
    axis: _Axis = ...,
    keepdims: builtins.bool = ...,
    dtype: _DTypeLike | None = ...,
) -> Symbol: ...
def prod(
    x: Symbol,
    axis: _Axis = ...,
    keepdims: builtins.bool = ...,
    dtype: _DTypeLike | None = ...,
) -> Symbol: ...
def max(
    x: _TensorLike,
    y: _TensorLike | None = ...,
    axis: _Axis = ...,
    keepdims: builtins.bool = ...,
) -> Symbol: ...
def min(
    x: _TensorLike,
    y: _TensorLike | None = ...,
    axis: _Axis = ...,
    keepdims: builtins.bool = ...,
) -> Symbol: ...
def argmax(x: Symbol, axis: int | None = ..., keepdims: builtins.bool = ...) -> Symbol: ...
def argmin(x: Symbol, axis: int | None = ..., keepdims: builtins.bool = ...) -> Symbol: ...
def any(x: Symbol, axis: _Axis = ..., keepdims: builtins.bool = ...) -> Symbol: ...
def all(x: Symbol, axis: _Axis = ..., keepdims: builtins.bool = ...) -> Symbol: ...
def count_nonzero(x: Symbol, axis: _Axis = ..., keepdims: builtins.bool = ...) -> Symbol: ...
def mean(
    x: Symbol,
    axis: _Axis = ...,
    keepdims: builtins.bool = ...,
    dtype: _DTypeLike | None = ...,
) -> Symbol: ...
def var(
    x: Symbol,
    axis: _Axis = ...,
    keepdims: builtins.bool = ...,
    correction: int | float = ...,
    dtype: _DTypeLike | None = ...,
) -> Symbol: ...
def stdev(
    x: Symbol,
    axis: _Axis = ...,
    keepdims: builtins.bool = ...,
    correction: int | float = ...,
    dtype: _DTypeLike | None = ...,
) -> Symbol: ...
def logsumexp(x: Symbol, axis: _Axis = ..., keepdims: builtins.bool = ...) -> Symbol: ...
def cumsum(
    x: Symbol,
    axis: int = ...,
    exclusive: builtins.bool = ...,
    reverse: builtins.bool = ...,
    dtype: _DTypeLike | None = ...,
) -> Symbol: ...
def reduce_l1(x: Symbol, axis: _Axis = ..., keepdims: builtins.bool = ...) -> Symbol: ...
def reduce_l2(x: Symbol, axis: _Axis = ..., keepdims: builtins.bool = ...) -> Symbol: ...
def sum_square(x: Symbol, axis: _Axis = ..., keepdims: builtins.bool = ...) -> Symbol: ...
def log_sum(x: Symbol, axis: _Axis = ..., keepdims: builtins.bool = ...) -> Symbol: ...
def norm(x: Symbol, ord: int | float = ..., axis: _Axis = ..., keepdims: builtins.bool = ...) -> Symbol: ...
def matmul(a: _TensorLike, b: _TensorLike, precision: str = ...) -> Symbol: ...
def dot(a: _TensorLike, b: _TensorLike, precision: str = ...) -> Symbol: ...
def outer(a: _TensorLike, b: _TensorLike) -> Symbol: ...
def linear(
    x: _TensorLike,
    weight: _TensorLike,
    bias: _TensorLike | None = ...,
    precision: str = ...,
) -> Symbol: ...
def gemm(
    a: _TensorLike,
    b: _TensorLike,
    c: _TensorLike | None = ...,
    alpha: float = ...,
    beta: float = ...,
    transpose_a: builtins.bool = ...,
    transpose_b: builtins.bool = ...,
) -> Symbol: ...
def tensordot(
    a: _TensorLike,
    b: _TensorLike,
    axes: int | Sequence[int | Sequence[int]] = ...,
    precision: str = ...,
) -> Symbol: ...
def attention(
    query: _TensorLike,
    key: _TensorLike,
    value: _TensorLike,
    mask: _TensorLike | None = ...,
    is_causal: builtins.bool = ...,
    scale: float | None = ...,
    softcap: float | None = ...,
) -> Symbol: ...
def einsum(equation: str, *operands: _TensorLike, precision: str = ...) -> Symbol: ...
def reshape(x: Symbol, shape: _ShapeLike) -> Symbol: ...
def permute(x: Symbol, axes: Sequence[int]) -> Symbol: ...
def transpose(x: Symbol, axis_1: int = ..., axis_2: int = ...) -> Symbol: ...
def broadcast_to(x: Symbol, shape: _ShapeLike) -> Symbol: ...
def expand(x: Symbol, shape: _ShapeLike) -> Symbol: ...
def squeeze(x: Symbol, axis: _Axis = ...) -> Symbol: ...
def unsqueeze(x: Symbol, axis: int | tuple[int, ...] | list[int]) -> Symbol: ...
def flatten(x: Symbol, start_axis: int = ..., end_axis: int = ...) -> Symbol: ...
def flip(x: Symbol, axis: _Axis = ...) -> Symbol: ...
def slice_tensor(x: _TensorLike, indices: Any) -> Symbol: ...
def rebind(x: Symbol, shape: _DimLike | Sequence[_DimLike | None] | None, message: str = ...) -> Symbol: ...
def size(x: Symbol) -> Symbol: ...
def shape_to_tensor(x: Symbol) -> Symbol: ...
def windows(
    x: Symbol,
    sizes: int | Sequence[int],
    axes: int | Sequence[int] | None = ...,
    strides: int | Sequence[int] = ...,
    dilations: int | Sequence[int] = ...,
) -> Symbol: ...
def concat(values: Sequence[_TensorLike], axis: int = ...) -> Symbol: ...
def stack(values: Sequence[_TensorLike], axis: int = ...) -> Symbol: ...
def split(x: Symbol, sizes: int | Sequence[_DimLike], axis: int = ...) -> tuple[Symbol, ...]: ...
def chunk(x: Symbol, chunks: int, axis: int = ...) -> tuple[Symbol, ...]: ...
def tile(x: Symbol, repeats: _ShapeLike) -> Symbol: ...
def repeat_interleave(x: Symbol, repeats: _DimLike, axis: int | None = ...) -> Symbol: ...
def roll(x: Symbol, shift: int | Dim | Sequence[int | Dim], axis: _Axis = ...) -> Symbol: ...
def pad(
    x: Symbol,
    widths: _Widths,
    mode: str = ...,
    value: builtins.complex | np.generic = ...,
) -> Symbol: ...
def fft(x: Symbol, n: int | None = ..., axis: int = ...) -> Symbol: ...
def ifft(x: Symbol, n: int | None = ..., axis: int = ...) -> Symbol: ...
def rfft(x: Symbol, n: int | None = ..., axis: int = ...) -> Symbol: ...
def irfft(x: Symbol, n: int | None = ..., axis: int = ...) -> Symbol: ...
def stft(
    x: _TensorLike,
    frame_length: int,
    frame_step: int,
    window: _TensorLike | None = ...,
    onesided: builtins.bool = ...,
) -> Symbol: ...
def hann_window(
    graph: Graph | Symbol,
    size: _DimLike,
    periodic: builtins.bool = ...,
    dtype: _DTypeLike = ...,
) -> Symbol: ...
def hamming_window(
    graph: Graph | Symbol,
    size: _DimLike,
    periodic: builtins.bool = ...,
    alpha: float = ...,
    dtype: _DTypeLike = ...,
) -> Symbol: ...
def blackman_window(
    graph: Graph | Symbol,
    size: _DimLike,
    periodic: builtins.bool = ...,
    dtype: _DTypeLike = ...,
) -> Symbol: ...
def conv(
    x: _TensorLike,
    kernel: _TensorLike,
    stride: _PerAxis = ...,
    dilation: _PerAxis = ...,
    padding: _Padding = ...,
    groups: int = ...,
    bias: _TensorLike | None = ...,
) -> Symbol: ...
def conv1d(
    x: _TensorLike,
    kernel: _TensorLike,
    stride: _PerAxis = ...,
    dilation: _PerAxis = ...,
    padding: _Padding = ...,
    groups: int = ...,
    bias: _TensorLike | None = ...,
) -> Symbol: ...
def conv2d(
    x: _TensorLike,
    kernel: _TensorLike,
    stride: _PerAxis = ...,
    dilation: _PerAxis = ...,
    padding: _Padding = ...,
    groups: int = ...,
    bias: _TensorLike | None = ...,
) -> Symbol: ...
def conv3d(
    x: _TensorLike,
    kernel: _TensorLike,
    stride: _PerAxis = ...,
    dilation: _PerAxis = ...,
    padding: _Padding = ...,
    groups: int = ...,
    bias: _TensorLike | None = ...,
) -> Symbol: ...
def max_pool(
    x: Symbol,
    kernel_size: _PerAxis,
    stride: _PerAxis | None = ...,
    dilation: _PerAxis = ...,
    padding: _Padding = ...,
    ceil_mode: builtins.bool = ...,
) -> Symbol: ...
def avg_pool(
    x: Symbol,
    kernel_size: _PerAxis,
    stride: _PerAxis | None = ...,
    dilation: _PerAxis = ...,
    padding: _Padding = ...,
    ceil_mode: builtins.bool = ...,
    count_boundary: builtins.bool = ...,
) -> Symbol: ...
def conv_transpose(
    x: _TensorLike,
    kernel: _TensorLike,
    stride: _PerAxis = ...,
    dilation: _PerAxis = ...,
    padding: _Padding = ...,
    output_padding: _PerAxis = ...,
    groups: int = ...,
    bias: _TensorLike | None = ...,
) -> Symbol: ...
def col2im(
    x: Symbol,
    image_shape: Sequence[_DimLike],
    block_shape: Sequence[int],
    stride: _PerAxis = ...,
    dilation: _PerAxis = ...,
    padding: _Padding = ...,
) -> Symbol: ...
def deform_conv(
    x: _TensorLike,
    kernel: _TensorLike,
    offset: _TensorLike,
    mask: _TensorLike | None = ...,
    stride: _PerAxis = ...,
    dilation: _PerAxis = ...,
    padding: _Padding = ...,
    groups: int = ...,
    offset_groups: int = ...,
    bias: _TensorLike | None = ...,
) -> Symbol: ...
def lp_pool(
    x: Symbol,
    kernel_size: _PerAxis,
    stride: _PerAxis | None = ...,
    dilation: _PerAxis = ...,
    padding: _Padding = ...,
    ceil_mode: builtins.bool = ...,
    p: float = ...,
) -> Symbol: ...
def max_pool_with_indices(
    x: Symbol,
    kernel_size: _PerAxis,
    stride: _PerAxis | None = ...,
    dilation: _PerAxis = ...,
    padding: _Padding = ...,
    ceil_mode: builtins.bool = ...,
) -> tuple[Symbol, Symbol]: ...
def max_unpool(
    x: _TensorLike,
    indices: _TensorLike,
    kernel_size: _PerAxis,
    stride: _PerAxis | None = ...,
    padding: _Padding = ...,
    output_size: Sequence[_DimLike] | None = ...,
) -> Symbol: ...
def resize(
    x: Symbol,
    size: _DimLike | Sequence[_DimLike] | None = ...,
    scale: float | Sequence[float] | None = ...,
    axes: int | Sequence[int] | None = ...,
    mode: str = ...,
    coordinates: str = ...,
    rounding: str = ...,
    cubic_coefficient: float = ...,
    exclude_outside: builtins.bool = ...,
    antialias: builtins.bool = ...,
    roi: Sequence[tuple[float, float]] | None = ...,
    extrapolation_value: float = ...,
) -> Symbol: ...
def grid_sample(
    x: _TensorLike,
    grid: _TensorLike,
    mode: str = ...,
    padding_mode: str = ...,
    align_corners: builtins.bool = ...,
) -> Symbol: ...
def affine_grid(theta: Symbol, size: Sequence[_DimLike], align_corners: builtins.bool = ...) -> Symbol: ...
def roi_align(
    x: _TensorLike,
    rois: _TensorLike,
    batch_indices: _TensorLike,
    output_size: int | Sequence[int],
    spatial_scale: float = ...,
    sampling_ratio: int = ...,
    mode: str = ...,
    half_pixel: builtins.bool = ...,
) -> Symbol: ...
def rnn(
    x: _TensorLike,
    w: _TensorLike,
    r: _TensorLike,
    b: _TensorLike | None = ...,
    sequence_lens: _TensorLike | None = ...,
    initial_h: _TensorLike | None = ...,
    direction: str = ...,
    batch_first: builtins.bool = ...,
    activations: Sequence[str] | None = ...,
    clip: float | None = ...,
) -> tuple[Symbol, Symbol]: ...
def gru(
    x: _TensorLike,
    w: _TensorLike,
    r: _TensorLike,
    b: _TensorLike | None = ...,
    sequence_lens: _TensorLike | None = ...,
    initial_h: _TensorLike | None = ...,
    direction: str = ...,
    batch_first: builtins.bool = ...,
    activations: Sequence[str] | None = ...,
    clip: float | None = ...,
    linear_before_reset: builtins.bool = ...,
) -> tuple[Symbol, Symbol]: ...
def lstm(
    x: _TensorLike,
    w: _TensorLike,
    r: _TensorLike,
    b: _TensorLike | None = ...,
    sequence_lens: _TensorLike | None = ...,
    initial_h: _TensorLike | None = ...,
    initial_c: _TensorLike | None = ...,
    p: _TensorLike | None = ...,
    direction: str = ...,
    batch_first: builtins.bool = ...,
    activations: Sequence[str] | None = ...,
    clip: float | None = ...,
    input_forget: builtins.bool = ...,
) -> tuple[Symbol, Symbol, Symbol]: ...
def rotary_embedding(
    x: _TensorLike,
    cos: _TensorLike,
    sin: _TensorLike,
    positions: _TensorLike | None = ...,
    interleaved: builtins.bool = ...,
) -> Symbol: ...
def cross_entropy(
    x: _TensorLike,
    target: _TensorLike,
    weight: _TensorLike | None = ...,
    ignore_index: int | None = ...,
    reduction: str = ...,
    axis: int = ...,
) -> Symbol: ...
def nll_loss(
    x: _TensorLike,
    target: _TensorLike,
    weight: _TensorLike | None = ...,
    ignore_index: int | None = ...,
    reduction: str = ...,
    axis: int = ...,
) -> Symbol: ...
def gather(x: _TensorLike, indices: _TensorLike, axis: int = ..., mode: str = ...) -> Symbol: ...
def take_along_axis(x: _TensorLike, indices: _TensorLike, axis: int = ..., mode: str = ...) -> Symbol: ...
def gather_nd(x: _TensorLike, indices: _TensorLike, batch_dims: int = ..., mode: str = ...) -> Symbol: ...
def sort(x: Symbol, axis: int = ..., descending: builtins.bool = ...) -> Symbol: ...
def argsort(x: Symbol, axis: int = ..., descending: builtins.bool = ...) -> Symbol: ...
def top_k(x: Symbol, k: int, axis: int = ..., largest: builtins.bool = ...) -> tuple[Symbol, Symbol]: ...
def bottom_k(x: Symbol, k: int, axis: int = ...) -> tuple[Symbol, Symbol]: ...
def cumprod(
    x: Symbol,
    axis: int = ...,
    exclusive: builtins.bool = ...,
    reverse: builtins.bool = ...,
    dtype: _DTypeLike | None = ...,
) -> Symbol: ...
def cummax(x: Symbol, axis: int = ..., reverse: builtins.bool = ...) -> Symbol: ...
def cummin(x: Symbol, axis: int = ..., reverse: builtins.bool = ...) -> Symbol: ...
def scatter(
    x: _TensorLike,
    updates: _TensorLike,
    indices: _TensorLike,
    axis: int = ...,
    reduction: str = ...,
    mode: str = ...,
) -> Symbol: ...
def scatter_add(
    x: _TensorLike,
    updates: _TensorLike,
    indices: _TensorLike,
    axis: int = ...,
    mode: str = ...,
) -> Symbol: ...
def scatter_mul(
    x: _TensorLike,
    updates: _TensorLike,
    indices: _TensorLike,
    axis: int = ...,
    mode: str = ...,
) -> Symbol: ...
def scatter_min(
    x: _TensorLike,
    updates: _TensorLike,
    indices: _TensorLike,
    axis: int = ...,
    mode: str = ...,
) -> Symbol: ...
def scatter_max(
    x: _TensorLike,
    updates: _TensorLike,
    indices: _TensorLike,
    axis: int = ...,
    mode: str = ...,
) -> Symbol: ...
def put_along_axis(
    x: _TensorLike,
    indices: _TensorLike,
    values: _TensorLike,
    axis: int = ...,
    mode: str = ...,
) -> Symbol: ...
def scatter_nd(
    x: _TensorLike,
    updates: _TensorLike,
    indices: _TensorLike,
    reduction: str = ...,
    mode: str = ...,
) -> Symbol: ...
def scatter_nd_add(x: _TensorLike, updates: _TensorLike, indices: _TensorLike, mode: str = ...) -> Symbol: ...
def scatter_nd_mul(x: _TensorLike, updates: _TensorLike, indices: _TensorLike, mode: str = ...) -> Symbol: ...
def scatter_nd_min(x: _TensorLike, updates: _TensorLike, indices: _TensorLike, mode: str = ...) -> Symbol: ...
def scatter_nd_max(x: _TensorLike, updates: _TensorLike, indices: _TensorLike, mode: str = ...) -> Symbol: ...
def searchsorted(
    a: _TensorLike,
    v: _TensorLike,
    side: str = ...,
    sorter: _TensorLike | None = ...,
) -> Symbol: ...
def bincount(
    x: _TensorLike,
    weights: _TensorLike | None = ...,
    minlength: _DimLike = ...,
    length: _DimLike | None = ...,
) -> Symbol: ...
def histogram(
    a: _TensorLike,
    bins: int | _TensorLike = ...,
    range: tuple[float, float] | None = ...,
    density: builtins.bool = ...,
    weights: _TensorLike | None = ...,
) -> tuple[Symbol, Symbol]: ...
def quantize(
    x: _TensorLike,
    scale: _TensorLike,
    zero_point: _TensorLike | None = ...,
    dtype: _DTypeLike | None = ...,
    axis: int = ...,
    block_size: int | None = ...,
    saturate: builtins.bool = ...,
) -> Symbol: ...
def dequantize(
    x: _TensorLike,
    scale: _TensorLike,
    zero_point: _TensorLike | None = ...,
    dtype: _DTypeLike | None = ...,
    axis: int = ...,
    block_size: int | None = ...,
) -> Symbol: ...
def dynamic_quantize(x: Symbol) -> tuple[Symbol, Symbol, Symbol]: ...
def random_bits(x: Symbol, seed: int | Symbol = ..., stream: int | Symbol = ...) -> Symbol: ...
def random_uniform(
    x: Symbol,
    low: float = ...,
    high: float = ...,
    seed: int | Symbol = ...,
    stream: int | Symbol = ...,
) -> Symbol: ...
def random_normal(
    x: Symbol,
    mean: float = ...,
    scale: float = ...,
    seed: int | Symbol = ...,
    stream: int | Symbol = ...,
) -> Symbol: ...
def random_integers(
    x: Symbol,
    low: int,
    high: int,
    seed: int | Symbol = ...,
    stream: int | Symbol = ...,
) -> Symbol: ...
def random_permutation(
    x: Symbol,
    axis: int = ...,
    seed: int | Symbol = ...,
    stream: int | Symbol = ...,
) -> Symbol: ...
def bernoulli(p: Symbol, seed: int | Symbol = ..., stream: int | Symbol = ...) -> Symbol: ...
def categorical(
    logits: Symbol,
    count: int = ...,
    seed: int | Symbol = ...,
    stream: int | Symbol = ...,
) -> Symbol: ...
def dropout(
    x: Symbol,
    ratio: float = ...,
    seed: int | Symbol = ...,
    stream: int | Symbol = ...,
) -> Symbol: ...
def nonzero(x: Symbol) -> Symbol: ...
def compress(x: _TensorLike, condition: _TensorLike, axis: int | None = ...) -> Symbol: ...
def unique(
    x: Symbol,
    axis: int | None = ...,
    sorted: builtins.bool = ...,
) -> tuple[Symbol, Symbol, Symbol, Symbol]: ...
def non_max_suppression(
    boxes: _TensorLike,
    scores: _TensorLike,
    max_output_boxes_per_class: int,
    iou_threshold: float = ...,
    score_threshold: float = ...,
    center_point_box: builtins.bool = ...,
) -> Symbol: ...
def image_decode(data: Symbol, pixel_format: str = ...) -> Symbol: ...
def string_concat(x: _TensorLike | str, y: _TensorLike | str) -> Symbol: ...
def string_equal(x: _TensorLike | str, y: _TensorLike | str) -> Symbol: ...
def string_split(x: Symbol, delimiter: str = ..., limit: int | None = ...) -> tuple[Symbol, Symbol]: ...
def string_split_count(x: Symbol, delimiter: str = ..., limit: int | None = ...) -> Symbol: ...
def regex_full_match(x: Symbol, pattern: str) -> Symbol: ...
def string_normalize(
    x: Symbol,
    case: str = ...,
    case_sensitive: builtins.bool = ...,
    stopwords: Sequence[str] = ...,
) -> Symbol: ...
def tf_idf(
    x: Symbol,
    terms: Sequence[Sequence[str] | Sequence[int]],
    lengths: tuple[int, int],
    skips: int = ...,
    mode: str = ...,
    positions: Sequence[int] | None = ...,
    weights: Sequence[float] | None = ...,
) -> Symbol: ...
def encode_labels(
    x: Symbol,
    keys: Sequence[str] | Sequence[int] | Sequence[float],
    values: Sequence[str] | Sequence[int] | Sequence[float],
    default: str | float,
    dtype: _DTypeLike,
) -> Symbol: ...
def parse_numbers(x: Symbol, dtype: _DTypeLike) -> Symbol: ...
def print_numbers(x: Symbol) -> Symbol: ...
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any: ...
def fori_loop(
    lower: _TensorLike,
    upper: _TensorLike,
    body_fun: Callable[[Symbol, Any], Any],
    init_val: Any,
) -> Any: ...
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = ...,
    length: _DimLike | None = ...,
    reverse: builtins.bool = ...,
) -> tuple[Any, Any]: ...
def associative_scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    reverse: builtins.bool = ...,
    axis: int = ...,
) -> Any: ...
def cond(
    pred: Symbol,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
) -> Any: ...
def full(
    graph: Graph | Symbol,
    shape: _ShapeLike,
    value: _TensorLike,
    dtype: _DTypeLike | None = ...,
) -> Symbol: ...
def zeros(graph: Graph | Symbol, shape: _ShapeLike, dtype: _DTypeLike = ...) -> Symbol: ...
def ones(graph: Graph | Symbol, shape: _ShapeLike, dtype: _DTypeLike = ...) -> Symbol: ...
def zeros_like(x: Symbol, dtype: _DTypeLike | None = ...) -> Symbol: ...
def ones_like(x: Symbol, dtype: _DTypeLike | None = ...) -> Symbol: ...
def arange(
    graph: Graph | Symbol,
    start: _Bound,
    stop: _Bound | None = ...,
    step: _Bound = ...,
    dtype: _DTypeLike | None = ...,
) -> Symbol: ...
def linspace(
    graph: Graph | Symbol,
    start: _TensorLike,
    stop: _TensorLike,
    num: _DimLike = ...,
    endpoint: builtins.bool = ...,
    dtype: _DTypeLike | None = ...,
) -> Symbol: ...
def eye(
    graph: Graph | Symbol,
    n: _DimLike,
    m: _DimLike | None = ...,
    k: int | Dim = ...,
    dtype: _DTypeLike = ...,
) -> Symbol: ...
def tril(x: Symbol, k: int | Dim = ...) -> Symbol: ...
def triu(x: Symbol, k: int | Dim = ...) -> Symbol: ...
def band_part(
    x: Symbol,
    num_lower: int | None = ...,
    num_upper: int | None = ...,
    exclude: builtins.bool = ...,
) -> Symbol: ...
def one_hot(indices: Symbol, depth: _DimLike, dtype: _DTypeLike = ..., axis: int = ...) -> Symbol: ...
def dim(name: str) -> Dim: ...
