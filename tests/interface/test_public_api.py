"""The public contract: every name exists, takes what is documented, and says so when it is misspelt or not there yet."""

from __future__ import annotations

import builtins
import inspect
import json
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

TYPES = [
    "BlockQuantized", "Budget", "Buffer", "CompileCache", "DType", "Dim", "Graph", "KernelSchedule", "Model", "ModelReport",
    "ModelSchedule", "OnnxLimits",
    "PointerTable", "Symbol", "TensorDescriptor", "TensorType",
    "Tuning",
]  # fmt: skip
ERRORS = [
    "JoineryError", "UserError", "UnsupportedError", "KernelAssertionError", "InternalError", "AccessError", "SanitizerError",
    "PtxCheckError", "DeviceError", "DeviceMemoryError",
]  # fmt: skip

NOT_YET = ["jit", "call_kernel", "DepthToSpace"]
"""Names of the contract that this version does not offer."""
RULE_SETS = ["max", "max-published", "jax", "numpy", "torch", "triton", "exact"]

# NumPy's and ml_dtypes' names and widths, typed in from their documentation: (kind, bits, bytes in memory)
DTYPES: dict[str, tuple[str, int, int]] = {
    "bool": ("bool", 1, 1),
    "int2": ("int", 2, 1), "int4": ("int", 4, 1), "int8": ("int", 8, 1), "int16": ("int", 16, 2),
    "int32": ("int", 32, 4), "int64": ("int", 64, 8),
    "uint2": ("uint", 2, 1), "uint4": ("uint", 4, 1), "uint8": ("uint", 8, 1), "uint16": ("uint", 16, 2),
    "uint32": ("uint", 32, 4), "uint64": ("uint", 64, 8), "index": ("uint", 64, 8), "address": ("uint", 64, 8),
    "float16": ("float", 16, 2), "bfloat16": ("float", 16, 2), "float32": ("float", 32, 4),
    "tensor_float32": ("float", 32, 4), "float64": ("float", 64, 8),
    "float8_e4m3fn": ("float", 8, 1), "float8_e5m2": ("float", 8, 1), "float8_e4m3fnuz": ("float", 8, 1),
    "float8_e5m2fnuz": ("float", 8, 1), "float8_e4m3b11fnuz": ("float", 8, 1), "float8_e4m3": ("float", 8, 1),
    "float8_e3m4": ("float", 8, 1), "float8_e8m0fnu": ("float", 8, 1),
    "float6_e2m3fn": ("float", 6, 1), "float6_e3m2fn": ("float", 6, 1), "float4_e2m1fn": ("float", 4, 1),
    "complex64": ("complex", 64, 8), "complex128": ("complex", 128, 16),
}  # fmt: skip

BINARY = """add sub mul div floor_div mod trunc_div rem pow minimum maximum
    equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor
    bitwise_and bitwise_or bitwise_xor shift_left shift_right fmod divmod logaddexp"""
UNARY = """negate abs sign sqrt rsqrt exp exp2 expm1 log log2 log1p sin cos asin acos atan tanh erf floor ceil round trunc
    is_nan logical_not bitwise_not relu sigmoid silu square reciprocal is_inf is_finite tan sinh cosh asinh acosh atanh
    log10 cbrt erfc softplus mish softsign hard_swish size shape_to_tensor"""
REDUCTIONS = "any all count_nonzero logsumexp reduce_l1 reduce_l2 sum_square log_sum"

# name → parameters, as documented. "=" marks those that may be left out, with their default.
SIGNATURES: dict[str, str] = {
    **dict.fromkeys(BINARY.split(), "x, y"),
    **dict.fromkeys(UNARY.split(), "x"),
    **dict.fromkeys(REDUCTIONS.split(), "x, axis=None, keepdims=False"),
    "where": "condition, x, y",
    "sum": "x, axis=None, keepdims=False, dtype=None",
    "prod": "x, axis=None, keepdims=False, dtype=None",
    "mean": "x, axis=None, keepdims=False, dtype=None",
    "var": "x, axis=None, keepdims=False, correction=0, dtype=None",
    "stdev": "x, axis=None, keepdims=False, correction=0, dtype=None",
    "atan2": "y, x",
    "hypot": "x, y",
    "copysign": "x, y",
    **dict.fromkeys(("real", "imag", "conj", "angle"), "x"), "complex": "real, imag",
    "popcount": "x",
    "max": "x, y=None, axis=None, keepdims=False",
    "min": "x, y=None, axis=None, keepdims=False",
    "argmax": "x, axis=None, keepdims=False",
    "argmin": "x, axis=None, keepdims=False",
    "norm": "x, ord=2, axis=None, keepdims=False",
    "cumsum": "x, axis=-1, exclusive=False, reverse=False, dtype=None",
    "cumprod": "x, axis=-1, exclusive=False, reverse=False, dtype=None", "cummax": "x, axis=-1, reverse=False",
    "cummin": "x, axis=-1, reverse=False",
    "sort": "x, axis=-1, descending=False", "argsort": "x, axis=-1, descending=False",
    "top_k": "x, k, axis=-1, largest=True", "bottom_k": "x, k, axis=-1",
    "scatter": "x, updates, indices, axis=-1, reduction='none', mode='drop'",
    "put_along_axis": "x, indices, values, axis=-1, mode='drop'",
    **dict.fromkeys(("scatter_add", "scatter_mul", "scatter_min", "scatter_max"), "x, updates, indices, axis=-1, mode='drop'"),
    "scatter_nd": "x, updates, indices, reduction='none', mode='drop'",
    **dict.fromkeys(
        ("scatter_nd_add", "scatter_nd_mul", "scatter_nd_min", "scatter_nd_max"), "x, updates, indices, mode='drop'"
    ),
    "cast": "x, dtype, rounding='nearest', saturate=True",
    "bitcast": "x, dtype",
    "cast_like": "x, like",
    "promote": "*operands",
    "implicit_cast": "lhs, rhs",
    "softmax": "x, axis=-1",
    "logsoftmax": "x, axis=-1",
    "hardmax": "x, axis=-1",
    "gelu": "x, approximate='none'",
    "clip": "x, low=None, high=None",
    "prelu": "x, slope",
    "leaky_relu": "x, alpha=0.01",
    "elu": "x, alpha=1.0",
    "celu": "x, alpha=1.0",
    "selu": "x, alpha=1.6732632423543772, gamma=1.0507009873554805",
    "hard_sigmoid": "x, alpha=0.2, beta=0.5",
    "shrink": "x, threshold=0.5, bias=0.0",
    "thresholded_relu": "x, alpha=1.0",
    "swiglu": "gate, value",
    "layer_norm": "x, scale=None, bias=None, epsilon=1e-05",
    "rms_norm": "x, scale=None, epsilon=1e-06",
    "matmul": "a, b, precision='ieee'",
    "dot": "a, b, precision='ieee'",
    "outer": "a, b",
    "linear": "x, weight, bias=None, precision='ieee'",
    "gemm": "a, b, c=None, alpha=1.0, beta=1.0, transpose_a=False, transpose_b=False",
    "tensordot": "a, b, axes=2, precision='ieee'",
    "einsum": "equation, *operands, precision='ieee'",
    "reshape": "x, shape",
    "permute": "x, axes",
    "transpose": "x, axis_1=-1, axis_2=-2",
    "broadcast_to": "x, shape",
    "expand": "x, shape",
    "squeeze": "x, axis=None",
    "unsqueeze": "x, axis",
    "flatten": "x, start_axis=0, end_axis=-1",
    "flip": "x, axis=None",
    "slice_tensor": "x, indices",
    "rebind": "x, shape, message=''",
    "concat": "values, axis=0",
    "stack": "values, axis=0",
    "split": "x, sizes, axis=0",
    "chunk": "x, chunks, axis=0",
    "tile": "x, repeats",
    "repeat_interleave": "x, repeats, axis=None",
    "pad": "x, widths, mode='constant', value=0",
    "gather": "x, indices, axis=0, mode='clip'",
    "take_along_axis": "x, indices, axis=-1, mode='clip'",
    "nonzero": "x",
    "compress": "x, condition, axis=None",
    "unique": "x, axis=None, sorted=True",
    "non_max_suppression": "boxes, scores, max_output_boxes_per_class, iou_threshold=0.0, score_threshold=-inf, "
                           "center_point_box=False",
    "image_decode": "data, pixel_format='RGB'",
    "string_concat": "x, y",
    "string_equal": "x, y",
    "string_split": "x, delimiter='', limit=None",
    "string_split_count": "x, delimiter='', limit=None",
    "regex_full_match": "x, pattern",
    "string_normalize": "x, case='none', case_sensitive=False, stopwords=()",
    "tf_idf": "x, terms, lengths, skips=0, mode='TF', positions=None, weights=None",
    "encode_labels": "x, keys, values, default, dtype",
    "parse_numbers": "x, dtype",
    "print_numbers": "x",
    "compile_onnx": "model, device='auto', *, target=None, threads=None, numerics='strict', cache=True, constants=None, "
                    "external_data_dir=None, limits=None, check_positions=False",
    "limit_threads": "threads",
    "set_threads": "threads",
    "attention": "query, key, value, mask=None, is_causal=False, scale=None, softcap=None",
    "band_part": "x, num_lower=None, num_upper=None, exclude=False",
    "batch_norm": "x, scale, bias, mean, var, epsilon=1e-05, axis=1",
    "categorical": "logits, count=1, seed=0, stream=0",
    "dropout": "x, ratio=0.5, seed=0, stream=0",
    "fft": "x, n=None, axis=-1",
    "group_norm": "x, num_groups, scale=None, bias=None, epsilon=1e-05",
    "ifft": "x, n=None, axis=-1",
    "instance_norm": "x, scale=None, bias=None, epsilon=1e-05",
    "irfft": "x, n=None, axis=-1",
    "linspace": "graph, start, stop, num=50, endpoint=True, dtype=None",
    "rfft": "x, n=None, axis=-1",
    "stft": "x, frame_length, frame_step, window=None, onesided=True",
    "bincount": "x, weights=None, minlength=0, length=None",
    "dequantize": "x, scale, zero_point=None, dtype=None, axis=-1, block_size=None",
    "dynamic_quantize": "x",
    "gather_nd": "x, indices, batch_dims=0, mode='clip'",
    "quantize": "x, scale, zero_point=None, dtype=None, axis=-1, block_size=None, saturate=True",
    "random_integers": "x, low, high, seed=0, stream=0",
    "random_permutation": "x, axis=-1, seed=0, stream=0",
    "searchsorted": "a, v, side='left', sorter=None",
    "associative_scan": "fn, elems, reverse=False, axis=0",
    "histogram": "a, bins=10, range=None, density=False, weights=None",
    "save": "graph, path, targets=('cpu',), *, numerics='strict', cache=True",
    "to_onnx": "graph, path=None, *, opset=None, external_data='auto'",
    "save_safetensors": "weights, path",
    "load_safetensors": "path, names=None",
    "load_gguf": "path, names=None, *, blocks='dequantize'",
    "while_loop": "cond_fun, body_fun, init_val",
    "fori_loop": "lower, upper, body_fun, init_val",
    "scan": "f, init, xs=None, length=None, reverse=False",
    "cond": "pred, true_fun, false_fun, *operands",
    "windows": "x, sizes, axes=None, strides=1, dilations=1",
    "conv": "x, kernel, stride=1, dilation=1, padding=0, groups=1, bias=None",
    "conv1d": "x, kernel, stride=1, dilation=1, padding=0, groups=1, bias=None",
    "conv2d": "x, kernel, stride=1, dilation=1, padding=0, groups=1, bias=None",
    "conv3d": "x, kernel, stride=1, dilation=1, padding=0, groups=1, bias=None",
    "conv_transpose": "x, kernel, stride=1, dilation=1, padding=0, output_padding=0, groups=1, bias=None",
    "col2im": "x, image_shape, block_shape, stride=1, dilation=1, padding=0",
    "deform_conv": "x, kernel, offset, mask=None, stride=1, dilation=1, padding=0, groups=1, offset_groups=1, bias=None",
    "lp_pool": "x, kernel_size, stride=None, dilation=1, padding=0, ceil_mode=False, p=2.0",
    "max_pool_with_indices": "x, kernel_size, stride=None, dilation=1, padding=0, ceil_mode=False",
    "max_unpool": "x, indices, kernel_size, stride=None, padding=0, output_size=None",
    "resize": "x, size=None, scale=None, axes=None, mode='nearest', coordinates='half_pixel', rounding='round_prefer_floor', "
              "cubic_coefficient=-0.75, exclude_outside=False, antialias=False, roi=None, extrapolation_value=0.0",
    "grid_sample": "x, grid, mode='linear', padding_mode='zeros', align_corners=False",
    "affine_grid": "theta, size, align_corners=False",
    "roi_align": "x, rois, batch_indices, output_size, spatial_scale=1.0, sampling_ratio=2, mode='avg', half_pixel=True",
    "rnn": "x, w, r, b=None, sequence_lens=None, initial_h=None, direction='forward', batch_first=False, activations=None, "
           "clip=None",
    "gru": "x, w, r, b=None, sequence_lens=None, initial_h=None, direction='forward', batch_first=False, activations=None, "
           "clip=None, linear_before_reset=False",
    "lstm": "x, w, r, b=None, sequence_lens=None, initial_h=None, initial_c=None, p=None, direction='forward', "
            "batch_first=False, activations=None, clip=None, input_forget=False",
    "rotary_embedding": "x, cos, sin, positions=None, interleaved=False",
    "cross_entropy": "x, target, weight=None, ignore_index=None, reduction='mean', axis=1",
    "nll_loss": "x, target, weight=None, ignore_index=None, reduction='mean', axis=1",
    "hann_window": "graph, size, periodic=True, dtype=DType(\"float32\")",
    "hamming_window": "graph, size, periodic=True, alpha=0.54, dtype=DType(\"float32\")",
    "blackman_window": "graph, size, periodic=True, dtype=DType(\"float32\")",
    "lrn": "x, size, alpha=0.0001, beta=0.75, bias=1.0, axis=1",
    "lp_norm": "x, p=2, axis=-1",
    "max_pool": "x, kernel_size, stride=None, dilation=1, padding=0, ceil_mode=False",
    "avg_pool": "x, kernel_size, stride=None, dilation=1, padding=0, ceil_mode=False, count_boundary=True",
    "random_bits": "x, seed=0, stream=0",
    "random_uniform": "x, low=0.0, high=1.0, seed=0, stream=0",
    "random_normal": "x, mean=0.0, scale=1.0, seed=0, stream=0",
    "bernoulli": "p, seed=0, stream=0",
    "bit_shift": "x, y, direction='left'",
    "masked_fill": "x, mask, value",
    "isclose": "x, y, rtol=1e-05, atol=1e-08, equal_nan=False",
    "full": "graph, shape, value, dtype=None",
    "zeros": "graph, shape, dtype=DType(\"float32\")",
    "ones": "graph, shape, dtype=DType(\"float32\")",
    "zeros_like": "x, dtype=None",
    "arange": "graph, start, stop=None, step=1, dtype=None",
    "eye": "graph, n, m=None, k=0, dtype=DType(\"float32\")",
    "tril": "x, k=0",
    "triu": "x, k=0",
    "one_hot": "indices, depth, dtype=DType(\"float32\"), axis=-1",
    "roll": "x, shift, axis=None",
    "to_text": "graph, locations=False",
    "from_text": "text, arrays=None, budget=Budget(bytes=68719476736, work=281474976710656, open_loops=False)",
    "from_exported": "exported_program, *, state='refuse', name='model', seed=None",
    "from_onnx": "model, *, constants=None, sizes=None, elements=None, external_data_dir=None, limits=None, "
    "check_positions=False",
    "ones_like": "x, dtype=None",
    "dim": "name",
    "evaluate": "graph, /, *arrays, **named",
    "what_if": "graph, semantics=None, policy=None",
    "result_type": "op, *operands, rules='max', **options",
    "compile": "graph, device='auto', *, target=None, threads=None, numerics='strict', debug=False, schedule=None, tune=None, "
    "cache=True",
    "load": "source, device='auto', *, target=None, threads=None, trusted=False, budget=None, cache=True, digest=None, "
            "verify=True",
}  # fmt: skip

METHODS: dict[str, str] = {
    "Graph": "name, inputs=(), semantics='max', policy='lattice', on_loss=None",
    "Graph.input": "self, dtype, shape=(), name=None",
    "Graph.constant": "self, value, dtype=None",
    "Graph.scalar": "self, value, dtype=None",
    "Graph.weight": "self, name, array, dtype=None",
    "Graph.output": "self, *symbols, names=None, name=None",
    "Graph.casts": "self",
    "Symbol.why": "self",
    "Symbol.cast": "self, dtype, rounding='nearest', saturate=True",
    "Symbol.bitcast": "self, dtype",
    "Symbol.reshape": "self, *shape",
    "Symbol.permute": "self, *axes",
    "Symbol.transpose": "self, axis_1=-1, axis_2=-2, *more",
    "Symbol.astype": "self, dtype",
    "Symbol.broadcast_to": "self, shape",
    "Symbol.__getitem__": "self, key",
    "Budget": "bytes=68719476736, work=281474976710656, open_loops=False",
    "TensorType": "dtype, shape, name=None",
    "DType": "name",
    "TensorDescriptor": "array, shape=None, strides=None, block_shape=None, padding='zero'",
    "PointerTable": "arrays",
    "KernelSchedule": "blocks=None, algorithm=None, streaming=None, group=None, warps=None, lanes=None",
    "Tuning": "seconds, sizes=<factory>, inputs=None, lock=None, progress=None",
    "ModelSchedule": "kernels=<factory>, about=<factory>",
    "ModelSchedule.replaced": "self, name, **changes",
    "ModelSchedule.from_text": "text",
    "ModelSchedule.save": "self, path",
    "Model.__call__": "self, *arrays, **named",
    "Model.run": "self, inputs",
    "Model.bind": "self, *inputs, outputs=None, **named",
    "Model.plan": "self",
    "Model.save": "self, path, targets=None",
    "Model.sanitize": "self, *inputs, **named",
    "Model.profile": "self, *inputs, repeat=10, **named",
    "promotion.rules": "name='max'",
    "promotion.implicit_cast_type": "lhs, rhs, rule_set='max'",
    "promotion.implicit_cast": "lhs, rhs, rule_set='max'",
    "promotion.RuleSet.join": "self, a, b",
    "promotion.RuleSet.promote": "self, *operands",
    "promotion.RuleSet.table": "self",
    "promotion.RuleSet.explain": "self, a, b",
    "promotion.RuleSet.laws": "self",
}


def signature(function: Any) -> str:
    parameters = inspect.signature(function).parameters.values()
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(bare))[1:-1]


def resolve(path: str) -> Any:
    value: Any = jn
    for part in path.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize(("path", "expected"), [*SIGNATURES.items(), *METHODS.items()])
def test_signatures(path: str, expected: str) -> None:
    function = resolve(path)
    assert signature(function) == expected
    assert inspect.getdoc(function), f"{path} is not documented"


def test_dir_lists_exactly_the_contract() -> None:
    listed = dir(jn)
    assert listed == sorted(listed)
    expected = {*TYPES, *ERRORS, *DTYPES, "string", *SIGNATURES, "PromotionWarning", "TritonCWarning"}
    expected |= {"distributed", "kernel", "promotion", "torch", "triton", "__version__"}
    assert set(listed) - expected == set()
    assert expected - set(listed) == set()
    for name in listed:
        getattr(jn, name)


@pytest.mark.slow
def test_a_fresh_import_finds_every_name_lazily() -> None:
    code = """
import json, sys
import joinery
names = dir(joinery)
loaded = [name for name in sys.modules if name.startswith("joinery.graph.functions.") and ".names" not in name]
print(json.dumps([names, loaded, [name for name in names if not hasattr(joinery, name)], hasattr(joinery, "no_such_name")]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, loaded, missing, invented = json.loads(done.stdout)
    assert names == dir(jn)
    assert loaded == []
    assert missing == []
    assert invented is False


# --- types


@pytest.mark.parametrize(("name", "expected"), DTYPES.items())
def test_dtypes(name: str, expected: tuple[str, int, int]) -> None:
    dtype = getattr(jn, name)
    assert isinstance(dtype, jn.DType)
    assert jn.DType(name) is dtype
    assert (dtype.name, str(dtype)) == (name, name)
    assert (dtype.kind, dtype.bits, dtype.itemsize) == expected
    stored = {"index": "uint64", "address": "uint64", "tensor_float32": "float32"}.get(name, name)
    witness = np.dtype(getattr(np, stored, None) or getattr(ml_dtypes, stored))
    assert dtype.numpy == witness


def test_names_of_builtins_are_ours() -> None:
    assert jn.bool is jn.DType("bool")
    assert jn.bool is not bool
    for name in ("sum", "max", "min", "abs", "round", "pow", "any", "all", "divmod", "compile"):
        assert getattr(jn, name).__module__.startswith("joinery.")
        assert getattr(jn, name) is not getattr(builtins, name)


def test_errors_are_also_pythons_own() -> None:
    assert all(issubclass(getattr(jn, name), jn.JoineryError) for name in ERRORS)
    assert issubclass(jn.UserError, ValueError)
    assert issubclass(jn.UnsupportedError, NotImplementedError)
    assert issubclass(jn.InternalError, RuntimeError)
    assert not issubclass(jn.JoineryError, (ValueError, NotImplementedError, RuntimeError))


def test_the_version_is_that_of_the_distribution() -> None:
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{jn.__version__}"\n' in text


FUNCTION_METHODS = [
    "sum", "prod", "mean", "var", "stdev", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "clip", "squeeze",
    "unsqueeze", "flatten",
]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTION_METHODS)
def test_methods_are_the_functions_of_the_same_names(name: str) -> None:
    method = inspect.signature(getattr(jn.Symbol, name)).parameters
    function = inspect.signature(getattr(jn, name)).parameters
    own = [(key, parameter.default) for key, parameter in list(method.items())[1:]]
    assert own == [(key, parameter.default) for key, parameter in list(function.items())[1:] if key != "y"]
    assert f"(see joinery.{name})" in inspect.getdoc(getattr(jn.Symbol, name))
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (1, 3), name="x")])
    (x,) = graph.inputs
    required = [1] if name in ("clip", "unsqueeze") else []
    by_method, by_function = getattr(x, name)(*required), getattr(jn, name)(x, *required)
    array = np.array([[0.5, -1.0, 2.0]], np.float32)
    graph.output(by_method, by_function)
    np.testing.assert_array_equal(*jn.evaluate(graph, array))
    assert by_method.location.file == __file__
    assert jn.what_if(graph, semantics="numpy").refusals == ()


def test_methods_of_symbols_that_numpy_and_torch_users_expect() -> None:
    (x,) = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (2, 3), name="x")]).inputs
    assert x.astype(jn.int8).dtype is jn.int8
    assert x.T.shape == x.transpose().shape == (3, 2)
    assert x.max(axis=1).shape == (2,)
    assert x.reshape(-1).shape == x.reshape((6,)).shape == x.flatten().shape == (6,)
    with pytest.raises(jn.UserError, match=r"transpose: 3 axes(.|\n)*x\.permute\(\(0, 2, 1\)\)"):
        x.transpose(0, 2, 1)


def test_help_calls_functions_by_their_names() -> None:
    for name in ("sum", "max", "min", "any", "all", "divmod", "exp", "matmul"):
        assert getattr(jn, name).__name__ == getattr(jn, name).__qualname__ == name
        assert pydoc.render_doc(getattr(jn, name), renderer=pydoc.plaintext).splitlines()[2].startswith(f"{name}(")


# --- names that are not there


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("sotfmax", "softmax"),
        ("floa32", "float32"),
        ("Grahp", "Graph"),
        ("argmaxx", "argmax"),
        ("tensor_float_32", "tensor_float32"),
    ],
)  # fmt: skip
def test_a_misspelt_name_suggests_a_near_one(name: str, near: str) -> None:
    with pytest.raises(
        AttributeError, match=rf"module 'joinery' has no attribute '{name}'; did you mean .*\b{near}\b"
    ):
        getattr(jn, name)


def test_a_name_that_is_near_nothing() -> None:
    with pytest.raises(AttributeError, match=r"^module 'joinery' has no attribute 'qqqqq'$"):
        jn.qqqqq  # noqa: B018


@pytest.mark.parametrize("name", NOT_YET)
def test_planned_names_say_so(name: str) -> None:
    assert name not in dir(jn)
    assert not hasattr(jn, name)
    with pytest.raises(
        AttributeError, match=rf"joinery\.{name} is planned, but not part of version {jn.__version__}"
    ):
        getattr(jn, name)


@pytest.mark.parametrize("name", RULE_SETS)
def test_rule_sets_by_name(name: str) -> None:
    assert jn.promotion.rules(name).name == name
    assert jn.Graph("g", semantics=name).rules.name == name


# --- the example of the contract, as one program


def test_the_contract_as_a_program(tmp_path: Path) -> None:
    rules = jn.promotion.rules("max")
    assert jn.promotion.implicit_cast_type(jn.int8, jn.float32) is jn.float32
    assert rules.join(jn.int8, jn.uint8) is jn.int16
    assert rules.promote(jn.int8, 1, "float16") is jn.float16
    assert rules.table()[jn.bfloat16, jn.float16] is jn.bfloat16
    assert "path: int8 → int16 → int32" in rules.explain(jn.int8, jn.int32)
    assert bool(rules.laws())

    w = np.random.default_rng(0).standard_normal((784, 10)).astype(np.float32)
    b = np.arange(10, dtype=np.float32)
    g = jn.Graph(
        "mlp", inputs=[jn.TensorType(jn.float32, ("batch", 784), name="x")], semantics="max", policy="lattice"
    )
    (x,) = g.inputs
    lhs, rhs = jn.promotion.implicit_cast(x, x.cast(jn.float64))
    assert (lhs.dtype, rhs.dtype) == (jn.float64, jn.float64)
    y = jn.relu(x @ w + b)
    assert y.dtype is jn.float32
    assert (str(y.shape[0]), y.shape[1]) == ("batch", 10)
    z = y[1:9:2, ::-1, None]
    assert z.shape[1:] == (10, 1)
    assert g.scalar(1, jn.int16).dtype is jn.int16
    assert g.constant(b).shape == (10,)
    assert g.weight("w", w).name == "w"
    half = y + g.scalar(1, jn.int16)
    assert "int16" in half.why()
    (entry,) = [cast for cast in g.casts() if cast.source is jn.int16]
    assert entry.target is jn.float32
    g.output(jn.sum(half, axis=None, keepdims=False), y, names=["total", "y"])

    m = jn.compile(g, device="cpu", cache=False)
    data = np.ones((3, 784), np.float32)
    total, activations = m(data)
    np.testing.assert_allclose(activations, np.maximum(data @ w + b, 0), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(total, (activations + 1).sum(dtype=np.float64), rtol=1e-6)
    for ours, reference in zip((total, activations), jn.evaluate(g, data), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-5, atol=1e-4)
    assert m.run({"x": data})["y"].tobytes() == activations.tobytes()
    assert m.bind(data)()[1].tobytes() == activations.tobytes()
    for kernel in m.kernels:
        assert {"name", "grid", "ttir", "llvm_ir", "asm", "bytes", "flops"} <= set(dir(kernel))
    m.save(tmp_path / "mlp.joinery")
    assert (
        jn.load(tmp_path / "mlp.joinery", device="auto", cache=False)(data)[1].tobytes()
        == activations.tobytes()
    )
