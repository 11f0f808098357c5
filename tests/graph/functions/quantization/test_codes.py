"""Numbers become codes and codes numbers, as a formula in NumPy says, on every device, for every kind of scale and code."""

from __future__ import annotations

from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

RNG = np.random.default_rng(5)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "int4", "uint4", "int2", "uint2")
FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn")
X = np.array(
    [
        [0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 1e9, -1e9, np.inf],
        [-np.inf, 3.25, -7.75, 127.5, -128.5, 448, 1e5, 0.125, 5.9],
    ],
    np.float32,
)


def run(graph: Any, *arrays: Any, devices: tuple[str, ...] = ("cpu", "ptxsim")) -> Any:
    """The result of the evaluator, which devices give as well."""
    want = jn.evaluate(graph, *arrays)
    for device in devices:
        found = jn.compile(graph, device=device, cache=False)(*arrays)
        for one, other in zip(
            *[each if isinstance(each, tuple) else (each,) for each in (found, want)], strict=True
        ):
            np.testing.assert_array_equal(one, other)
    return want


def spread(parameter: Any, shape: tuple[int, ...], axis: int, block: int) -> Any:
    """A scale or zero point for each element."""
    if parameter.ndim == 0:
        return np.full(shape, parameter)
    if block:
        return np.repeat(parameter, block, axis)[tuple([slice(size) for size in shape])]
    return np.broadcast_to(parameter.reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape)


FORMS: dict[str, tuple[Any, int, int]] = {
    "tensor": (np.float32(0.25), 0, 0),
    "axis": (np.array([0.25, 3.0], np.float32), 0, 0),
    "blocks": (np.abs(RNG.normal(size=(2, 3))).astype(np.float32) + 0.1, 1, 4),
}


@pytest.mark.parametrize("form", [*[pytest.param(n, marks=pytest.mark.slow) for n in ("tensor", "axis")], "blocks"])
def test_integers_are_rounded_shifted_and_clamped(form: str) -> None:
    scale, axis, block = FORMS[form]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, X.shape, "x")])
    (x,) = graph.inputs
    zeros = {
        name: RNG.integers(0, min(int(jn.DType(name).max_value), 3) + 1, np.shape(scale)) for name in INTEGERS
    }
    made = [jn.quantize(x, scale, graph.constant(zero.astype(jn.DType(name).numpy), name), axis=axis, block_size=block or None)
            for name, zero in zeros.items()]  # fmt: skip
    graph.output(*[y.cast(jn.int32) for y in made])
    found = run(graph, X, devices=("cpu", "ptxsim") if form == "blocks" else ("cpu",))
    ratio = np.rint(X / spread(np.asarray(scale), X.shape, axis, block))
    for (name, zero), codes in zip(zeros.items(), found, strict=True):
        dtype = jn.DType(name)
        shifted = (ratio + spread(zero, X.shape, axis, block).astype(np.float32)).astype(np.float64)
        want = np.clip(shifted, int(dtype.min_value), int(dtype.max_value))
        np.testing.assert_array_equal(codes, want.astype(np.int64), name)


def test_floats_are_converted_to_the_largest_at_most() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", "m"), "x")])
    graph.output(*[jn.quantize(graph.inputs[0], 0.5, dtype=name).cast(jn.float32) for name in FLOATS])
    for name, found in zip(FLOATS, run(graph, X, devices=("cpu",)), strict=True):
        largest = float(jn.DType(name).max_value)
        want = (
            np.clip(X / np.float32(0.5), -largest, largest)
            .astype(getattr(ml_dtypes, name))
            .astype(np.float32)
        )
        np.testing.assert_array_equal(found, want, name)
    loose = jn.Graph("g", [jn.TensorType(jn.float32, (2,), "x")])
    loose.output(jn.quantize(loose.inputs[0], 1.0, dtype="float8_e4m3fn", saturate=False).cast(jn.float32))
    np.testing.assert_array_equal(run(loose, np.array([1e9, 3], np.float32), devices=("cpu",)), [np.nan, 3])


@pytest.mark.one_in(8)
@pytest.mark.parametrize("code", [*INTEGERS, *FLOATS])
def test_codes_become_numbers(code: str) -> None:
    dtype = jn.DType(code)
    few = RNG.integers(int(max(dtype.min_value, -100)), int(min(dtype.max_value, 100)) + 1, (3, 8))
    codes = few.astype(dtype.numpy)
    scale = np.array([[0.5, 2.0, 0.125]] * 3, np.float32)
    graph = jn.Graph("g", [jn.TensorType(dtype, (3, 8), "x")])
    (x,) = graph.inputs
    zero = graph.constant(np.ones((3, 3), dtype.numpy), dtype) if dtype.is_integer else None
    graph.output(jn.dequantize(x, scale, zero, block_size=3), jn.dequantize(x, scale[0, :1].repeat(8)),
                 jn.dequantize(x, np.float32(0.5), dtype=jn.bfloat16).cast(jn.float32))  # fmt: skip
    blocks, axis, narrow = run(
        graph, codes, devices=("cpu", "ptxsim") if code in ("uint4", "float4_e2m1fn") else ("cpu",)
    )
    numbers = codes.astype(np.float32)
    np.testing.assert_array_equal(blocks, (numbers - (zero is not None)) * spread(scale, (3, 8), 1, 3))
    np.testing.assert_array_equal(axis, numbers * np.float32(0.5))
    np.testing.assert_array_equal(
        narrow, (numbers * np.float32(0.5)).astype(ml_dtypes.bfloat16).astype(np.float32)
    )


def test_scales_that_are_powers_of_two_as_codes() -> None:
    """Blocks of 32 with scales of 8 bits without mantissa: the formats called MX."""
    codes = RNG.normal(size=(2, 64)).astype(ml_dtypes.float4_e2m1fn)
    scales = np.array([[0.5, 4.0], [2.0**-9, 1.0]], ml_dtypes.float8_e8m0fnu)
    graph = jn.Graph(
        "g", [jn.TensorType("float4_e2m1fn", (2, 64), "x"), jn.TensorType("float8_e8m0fnu", (2, 2), "s")]
    )
    numbers = jn.dequantize(*graph.inputs, block_size=32)
    graph.output(
        numbers, jn.quantize(numbers, graph.inputs[1], dtype="float4_e2m1fn", block_size=32).cast(jn.float32)
    )
    assert numbers.dtype is jn.float32
    found, again = run(graph, codes, scales, devices=("cpu",))
    np.testing.assert_array_equal(found, codes.astype(np.float32) * scales.astype(np.float32).repeat(32, 1))
    np.testing.assert_array_equal(again, codes.astype(np.float32))


def test_a_range_that_is_found_at_run_time() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x")])
    graph.output(*jn.dynamic_quantize(graph.inputs[0]))
    for x in (
        np.array([-1.0, 0.5, 3.0], np.float32),
        np.zeros(4, np.float32),
        np.array([2.0, 4.0], np.float32),
    ):
        codes, scale, zero = run(graph, x, devices=("cpu",))
        assert (codes.dtype, scale.dtype, zero.dtype) == (np.uint8, np.float32, np.uint8)
        np.testing.assert_allclose((codes.astype(np.float32) - zero) * scale, x, atol=scale / 2 + 1e-6)


def test_dtypes_and_nothing_implicit() -> None:
    types = [jn.TensorType(jn.float16, (4,), "x"), jn.TensorType(jn.int8, (), "z"), jn.TensorType(jn.int8, (0,), "e")]
    graph = jn.Graph("g", types, policy="strict")
    x, zero, empty = graph.inputs
    made = jn.quantize(x, 0.5, zero)
    assert (made.dtype, made.op.name) == (jn.int8, "quantize")
    assert jn.dequantize(made, np.array(0.5, np.float16), zero).dtype is jn.float16
    assert jn.dequantize(made, np.float16(0.5)).dtype is jn.dequantize(made, 0.5).dtype is jn.float32
    assert jn.dequantize(empty, 0.5, 3).shape == (0,)
    assert not graph.casts()


REFUSED: dict[str, tuple[Any, str]] = {
    "no dtype": (lambda x, s, c: jn.quantize(x, s), "no dtype of the codes"),
    "dtype": (lambda x, s, c: jn.quantize(x, s, dtype=jn.int64, axis=0), "codes of int64"),
    "numbers": (lambda x, s, c: jn.dequantize(x, 0.5), "codes of float32"),
    "scale": (lambda x, s, c: jn.quantize(x, c, dtype=jn.int8, axis=0), "a scale of int8"),
    "count": (lambda x, s, c: jn.quantize(x, s, dtype=jn.int8, axis=1), "3 scales along axis 1"),
    "zero point": (
        lambda x, s, c: jn.quantize(x, s, c, dtype=jn.uint8, axis=0),
        "a zero point of int8, codes of uint8",
    ),
    "zero of floats": (
        lambda x, s, c: jn.quantize(x, 0.5, 0, dtype="float8_e5m2"),
        "a zero point of codes of float8_e5m2",
    ),
    "shape": (lambda x, s, c: jn.quantize(x, 0.5, c), "one shape"),
    "block": (lambda x, s, c: jn.quantize(x, s, dtype=jn.int8, block_size=0), "block_size is 0"),
    "blocks of a vector": (lambda x, s, c: jn.quantize(x, s, dtype=jn.int8, block_size=2), "for blocks of"),
    "matrix": (lambda x, s, c: jn.quantize(x, x, dtype=jn.int8), "without blocks"),
    "integers": (lambda x, s, c: jn.dynamic_quantize(c), "values of int8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_a_fix(name: str) -> None:
    build, told = REFUSED[name]
    graph = jn.Graph(
        "g",
        [
            jn.TensorType(jn.float32, (3, 5), "x"),
            jn.TensorType(jn.float32, (3,), "s"),
            jn.TensorType(jn.int8, (3,), "c"),
        ],
    )
    with pytest.raises(jn.UserError, match=told) as caught:
        build(*graph.inputs)
    assert "fix" in str(caught.value) or "expected" in str(caught.value)
