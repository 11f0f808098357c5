"""Public functions that are not one row: values, dtypes and special cases against NumPy and SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
import scipy.special

Run = Callable[..., Any]
GRID = np.concatenate(
    [
        np.linspace(-6, 6, 97),
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-20, -1e-8, 1e30, -1e30, 88.9, -88.9, 30.5, 0.5, -0.5],
    ]
).astype(np.float32)


def ulps(result: np.ndarray, exact: np.ndarray) -> float:
    """Largest error in units in the last place of float32; infinite where infinities or NaNs disagree."""
    with np.errstate(over="ignore"):
        nearest = exact.astype(np.float32)
    special = ~np.isfinite(nearest)
    if (
        not np.array_equal(result[special], nearest[special], equal_nan=True)
        or not np.isfinite(result[~special]).all()
    ):
        return math.inf
    regular = ~special & (np.abs(nearest) > 2.0**-120)
    distance = np.abs(result[regular].astype(np.float64) - exact[regular])
    return float(np.max(distance / np.spacing(np.abs(nearest[regular])), initial=0))


SMOOTH: dict[str, tuple[Callable[..., Any], float]] = {
    "tan": (np.tan, 3), "sinh": (np.sinh, 3), "cosh": (np.cosh, 3), "asinh": (np.arcsinh, 3), "acosh": (np.arccosh, 3),
    "atanh": (np.arctanh, 3), "log10": (np.log10, 3), "cbrt": (np.cbrt, 2), "erfc": (scipy.special.erfc, 4),
    "reciprocal": (lambda x: 1 / x, 0.5), "square": (lambda x: x * x, 0.5),
    "softplus": (lambda x: np.logaddexp(x, 0), 4), "softsign": (lambda x: x / (1 + np.abs(x)), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_float_functions_are_accurate_everywhere(run: Run, name: str) -> None:
    reference, limit = SMOOTH[name]
    with np.errstate(all="ignore"):
        exact = np.asarray(reference(GRID.astype(np.float64)))
        if name == "softsign":  # inf / inf
            exact[np.isinf(GRID)] = np.nan
        result = run(getattr(jn, name), GRID)
    assert result.dtype == np.float32
    assert ulps(result, exact) <= limit


@pytest.mark.parametrize("name", ["sinh", "cosh", "asinh", "acosh"])
def test_hyperbolic_functions_of_float64_where_their_forms_change(run: Run, name: str) -> None:
    """Near overflow, and from 2^20 to 2^80, where log1p becomes log and squares no longer count."""
    if name in ("sinh", "cosh"):
        x = np.concatenate([np.linspace(708, 710.4757, 400), [709.0, np.nextafter(709.0, 0), 710.5, np.inf]])
    else:
        x = np.concatenate([2.0 ** np.linspace(20, 80, 400), [2.0**60, np.nextafter(2.0**60, 0), 1e300, np.inf]])
    with np.errstate(over="ignore", invalid="ignore"):
        found, exact = run(getattr(jn, name), x), getattr(np, REFERENCE_NAMES[name])(x)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, exact, rtol=4 * 2.0**-52)


REFERENCE_NAMES = {"sinh": "sinh", "cosh": "cosh", "asinh": "arcsinh", "acosh": "arccosh"}


def test_odd_functions_keep_the_sign_of_zero(run: Run) -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    for function in (jn.sinh, jn.asinh, jn.atanh, jn.tan, jn.cbrt):
        assert np.signbit(run(function, zeros)).tolist() == [False, True], function


def test_sixteen_bit_functions_round_once(run: Run) -> None:
    grid = np.linspace(-3, 3, 200).astype(np.float16)
    for name, reference in {
        "sinh": np.sinh,
        "tan": np.tan,
        "erfc": scipy.special.erfc,
        "cbrt": np.cbrt,
    }.items():
        expected = reference(grid.astype(np.float64)).astype(np.float16)
        result = run(getattr(jn, name), grid)
        assert result.dtype == np.float16
        assert np.mean(result != expected) < 0.01, name  # ties of the float32 result aside
        np.testing.assert_allclose(result, expected, rtol=1e-3)


def torchlike(x: np.ndarray) -> dict[str, np.ndarray]:
    """Definitions written out in float64."""
    negative = np.expm1(np.minimum(x, 0))
    sigmoid = scipy.special.expit(x)
    return {
        "leaky_relu": np.where(x >= 0, x, 0.01 * x), "elu": np.where(x > 0, x, negative),
        "selu": 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * negative),
        "celu": np.where(x > 0, x, negative), "mish": x * np.tanh(np.logaddexp(x, 0)),
        "hard_sigmoid": np.clip(0.2 * x + 0.5, 0, 1), "hard_swish": x * np.clip(x / 6 + 0.5, 0, 1),
        "shrink": np.where(x < -0.5, x, np.where(x > 0.5, x, 0)), "thresholded_relu": np.where(x > 1, x, 0),
        "silu": x * sigmoid, "relu": np.maximum(x, 0), "sigmoid": sigmoid,
        "gelu": x * scipy.special.ndtr(x),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(torchlike(np.zeros(1))))
def test_activations_are_their_definitions(run: Run, name: str) -> None:
    grid = np.linspace(-7, 7, 113).astype(np.float32)
    result = run(getattr(jn, name), grid)
    np.testing.assert_allclose(result, torchlike(grid.astype(np.float64))[name], rtol=2e-5, atol=2e-6)
    assert result.dtype == np.float32


def test_parameters_of_activations(run: Run) -> None:
    x = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(run(lambda v: jn.leaky_relu(v, 0.3), x), np.where(x >= 0, x, 0.3 * x))
    np.testing.assert_allclose(run(lambda v: jn.elu(v, 2.0), x), np.where(x > 0, x, 2 * np.expm1(x)))
    np.testing.assert_allclose(run(lambda v: jn.celu(v, 2.0), x), np.where(x > 0, x, 2 * np.expm1(x / 2)))
    np.testing.assert_allclose(
        run(lambda v: jn.shrink(v, 1.0, 0.25), x), np.sign(x) * (np.abs(x) - 0.25) * (np.abs(x) > 1)
    )
    np.testing.assert_allclose(run(lambda v: jn.prelu(v, np.array([0.5] * 9)), x), np.where(x >= 0, x, x / 2))
    np.testing.assert_allclose(run(lambda v: jn.swiglu(v, v + 1), x), x * scipy.special.expit(x) * (x + 1))
    tanh = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(run(lambda v: jn.gelu(v, "tanh"), x), tanh)
    np.testing.assert_allclose(
        run(lambda v: jn.gelu(v, approximate="quick"), x), x * scipy.special.expit(1.702 * x)
    )


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """Also where the result is close to 0; SciPy's has an absolute error there."""
    below = x - np.max(x, axis, keepdims=True)
    return below - np.log1p(np.sum(np.where(below < 0, np.exp(below), 0), axis, keepdims=True))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_family(run: Run, axis: int) -> None:
    x = np.random.default_rng(1).normal(size=(3, 5)) * 30
    np.testing.assert_allclose(
        run(lambda v: jn.softmax(v, axis), x), scipy.special.softmax(x, axis), rtol=1e-12
    )
    np.testing.assert_allclose(
        run(lambda v: jn.logsoftmax(v, axis), x), log_softmax(x, axis), rtol=1e-12
    )
    np.testing.assert_allclose(
        run(lambda v: jn.logsumexp(v, axis), x), scipy.special.logsumexp(x, axis), rtol=1e-12
    )
    one = np.zeros((3, 5))
    np.put_along_axis(one, np.expand_dims(x.argmax(axis), axis), 1, axis)
    np.testing.assert_array_equal(run(lambda v: jn.hardmax(v, axis), x), one)


def test_hardmax_over_a_symbolic_axis_takes_the_first_of_equal_ones() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, ("b", "n"))])
    graph.output(jn.hardmax(graph.inputs[0]))
    result = jn.evaluate(graph, np.array([[1, 3, 3], [2, 1, 0]], np.float32))
    assert result.tolist() == [[0, 1, 0], [1, 0, 0]]


def test_arithmetic_sugar(run: Run) -> None:
    a, b = np.array([7, -7, 5, 0], np.int32), np.array([2, 2, -3, 4], np.int32)
    quotient, rest = run(jn.divmod, a, b)
    np.testing.assert_array_equal(quotient, a // b)
    np.testing.assert_array_equal(rest, a % b)
    np.testing.assert_array_equal(run(jn.fmod, a, b), np.fmod(a, b))
    np.testing.assert_array_equal(run(lambda x: jn.clip(x, -2, 4), a), np.clip(a, -2, 4))
    np.testing.assert_array_equal(run(lambda x: jn.clip(x, low=0), a), np.maximum(a, 0))
    np.testing.assert_array_equal(run(lambda x: jn.clip(x, high=np.int32(3)), a), np.minimum(a, 3))
    np.testing.assert_array_equal(run(lambda x: jn.bit_shift(x, 1, "right"), a), a >> 1)
    np.testing.assert_array_equal(run(jn.bit_shift, a, np.abs(b)), a << np.abs(b))
    np.testing.assert_array_equal(run(lambda x: jn.masked_fill(x, x > 0, -1), a), np.where(a > 0, -1, a))
    np.testing.assert_array_equal(run(jn.max, a, b), np.maximum(a, b))
    np.testing.assert_array_equal(run(jn.min, a, b), np.minimum(a, b))


def test_classification_and_closeness(run: Run) -> None:
    x = np.array([1.0, np.nan, np.inf, -np.inf, 0.0, 1 + 1e-6])
    y = np.array([1.0, np.nan, np.inf, np.inf, 1e-9, 1.0])
    np.testing.assert_array_equal(run(jn.is_inf, x), np.isinf(x))
    np.testing.assert_array_equal(run(jn.is_finite, x), np.isfinite(x))
    np.testing.assert_array_equal(run(jn.isclose, x, y), np.isclose(x, y))
    np.testing.assert_array_equal(
        run(lambda a, b: jn.isclose(a, b, equal_nan=True), x, y), np.isclose(x, y, equal_nan=True)
    )
    np.testing.assert_array_equal(
        run(lambda a, b: jn.isclose(a, b, rtol=1e-9), x, y), np.isclose(x, y, rtol=1e-9)
    )
    integers = np.array([1, 2])
    assert run(jn.is_inf, integers).tolist() == [False, False]
    assert run(jn.is_finite, integers).tolist() == [True, True]
    a = np.array([-np.inf, np.inf, 1000.0, 0.0, np.nan])
    b = np.array([-np.inf, 3.0, 1000.0, 1.0, 1.0])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(run(jn.logaddexp, a, b), np.logaddexp(a, b))


@pytest.mark.parametrize("axis", [None, 0, (0, 2), -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_are_numpys(run: Run, axis: Any, keepdims: bool) -> None:
    x = np.random.default_rng(2).normal(size=(2, 3, 4))
    options = {"axis": axis, "keepdims": keepdims}
    pairs: list[tuple[Any, Any]] = [
        (jn.sum, np.sum), (jn.prod, np.prod), (jn.mean, np.mean), (jn.var, np.var), (jn.stdev, np.std), (jn.max, np.max),
        (jn.min, np.min), (jn.any, np.any), (jn.all, np.all), (jn.count_nonzero, np.count_nonzero),
    ]  # fmt: skip
    for ours, theirs in pairs:
        result, expected = run(lambda v, f=ours: f(v, **options), x), np.asarray(theirs(x, **options))
        assert result.dtype == expected.dtype, ours
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    np.testing.assert_allclose(
        run(lambda v: jn.var(v, correction=1, **options), x), np.var(x, ddof=1, **options)
    )
    np.testing.assert_allclose(run(lambda v: jn.sum_square(v, **options), x), np.sum(x * x, **options))
    np.testing.assert_allclose(run(lambda v: jn.reduce_l1(v, **options), x), np.sum(np.abs(x), **options))
    np.testing.assert_allclose(
        run(lambda v: jn.reduce_l2(v, **options), x), np.sqrt(np.sum(x * x, **options))
    )
    np.testing.assert_allclose(
        run(lambda v: jn.log_sum(v * v, **options), x), np.log(np.sum(x * x, **options))
    )
    for order in (1, 2, 3, 0.5, 0, math.inf, -math.inf):
        with np.errstate(divide="ignore"):
            powers = np.abs(x)
            exact = {
                math.inf: powers.max(**options),
                -math.inf: powers.min(**options),
                0: np.sum(powers != 0, **options),
            }.get(order, np.sum(powers ** (order or 1), **options) ** (1 / (order or 1)))
        np.testing.assert_allclose(run(lambda v, o=order: jn.norm(v, o, **options), x), exact, rtol=1e-12)


def test_arg_reductions_and_cumsum(run: Run) -> None:
    x = np.array([[3, 9, 9], [-1, -1, 4]], np.int16)
    for axis in (None, 0, 1, -1):
        np.testing.assert_array_equal(run(lambda v, a=axis: jn.argmax(v, a), x), np.argmax(x, axis))
        np.testing.assert_array_equal(
            run(lambda v, a=axis: jn.argmin(v, a, keepdims=True), x), np.argmin(x, axis, keepdims=True)
        )
    assert run(jn.argmax, np.array([1.0, np.nan, 3.0, np.nan])) == 1
    np.testing.assert_array_equal(run(lambda v: jn.cumsum(v, 1), x), np.cumsum(x, 1))
    np.testing.assert_array_equal(
        run(lambda v: jn.cumsum(v, reverse=True), x), np.cumsum(x[:, ::-1], 1)[:, ::-1]
    )
    exclusive = run(lambda v: jn.cumsum(v, 0, exclusive=True), x)
    np.testing.assert_array_equal(exclusive, np.vstack([np.zeros((1, 3)), x[:1]]))
    assert exclusive.dtype == np.int64


def test_empty_sums_and_truths(run: Run) -> None:
    empty = np.zeros((0, 3), np.float32)
    assert run(lambda v: jn.sum(v, axis=0), empty).tolist() == [0, 0, 0]
    assert run(lambda v: jn.prod(v, axis=0), empty).tolist() == [1, 1, 1]
    assert run(lambda v: jn.any(v, axis=0), empty).tolist() == [False] * 3
    assert run(lambda v: jn.all(v, axis=0), empty).tolist() == [True] * 3
    assert np.isnan(run(lambda v: jn.mean(v, axis=0), empty)).all()


def test_shape_functions_are_numpys(run: Run) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    cases: list[tuple[Any, Any]] = [
        (lambda v: jn.permute(v, (2, 0, 1)), x.transpose(2, 0, 1)), (lambda v: jn.transpose(v, 0, -1), x.swapaxes(0, 2)),
        (lambda v: v.T, x.T), (lambda v: jn.flip(v, (0, -1)), np.flip(x, (0, 2))), (jn.flip, np.flip(x)),
        (lambda v: jn.unsqueeze(v, (0, -1)), x[None, ..., None]), (lambda v: jn.flatten(v, 1), x.reshape(2, 12)),
        (lambda v: jn.squeeze(jn.unsqueeze(v, 1)), x),
        (lambda v: jn.broadcast_to(v, (5, 2, 3, 4)), np.broadcast_to(x, (5, 2, 3, 4))),
        (lambda v: jn.expand(v[:1], (2, 1, 1)), np.broadcast_to(x[:1], (2, 3, 4))), (lambda v: jn.expand(v, (4,)), x),
        (lambda v: jn.tile(v, (2, 1, 3)), np.tile(x, (2, 1, 3))),
        (lambda v: jn.tile(v, (2, 1, 1, 1)), np.tile(x, (2, 1, 1, 1))),
        (lambda v: jn.tile(v, 2), np.tile(x, 2)), (lambda v: jn.repeat_interleave(v, 3, 1), np.repeat(x, 3, 1)),
        (lambda v: jn.repeat_interleave(v, 2), np.repeat(x, 2)), (lambda v: jn.stack([v, v + 1], -1), np.stack([x, x + 1], -1)),
        (lambda v: jn.concat([v, v[:1]], 0), np.concatenate([x, x[:1]], 0)), (jn.shape_to_tensor, np.array([2, 3, 4])),
        (jn.size, np.int64(24)), (lambda v: jn.slice_tensor(v, (0, slice(None, None, -1))), x[0, ::-1]),
        (lambda v: jn.pad(v, [(0, 0), (1, 2), (0, 3)], value=7), np.pad(x, [(0, 0), (1, 2), (0, 3)], constant_values=7)),
        (lambda v: jn.pad(v, [(0, 0), (1, 2), (3, 0)], "reflect"), np.pad(x, [(0, 0), (1, 2), (3, 0)], "reflect")),
        (lambda v: jn.pad(v, 1, mode="edge"), np.pad(x, 1, "edge")),
        (lambda v: jn.pad(v, [(1, 2), (0, 3), (4, 0)], "wrap"), np.pad(x, [(1, 2), (0, 3), (4, 0)], "wrap")),
        (lambda v: jn.pad(v, [(1, 2), (0, 3), (4, 0)], "symmetric"), np.pad(x, [(1, 2), (0, 3), (4, 0)], "symmetric")),
        (lambda v: jn.pad(v, [(7, 2), (0, 13), (9, 11)], "wrap"), np.pad(x, [(7, 2), (0, 13), (9, 11)], "wrap")),
        (lambda v: jn.pad(v, [(7, 2), (0, 13), (9, 11)], "symmetric"), np.pad(x, [(7, 2), (0, 13), (9, 11)], "symmetric")),
        (lambda v: jn.pad(v, [0, 0, 0, 0, 1, 1]), np.pad(x, [(0, 0), (0, 0), (1, 1)])),
        (lambda v: jn.zeros_like(v), np.zeros_like(x)), (lambda v: jn.ones_like(v, jn.float32), np.ones_like(x, np.float32)),
        (lambda v: jn.full(v, (2, 2), 7), np.full((2, 2), 7)), (lambda v: jn.zeros(v.graph, 3), np.zeros(3, np.float32)),
        (lambda v: jn.ones(v, (2,), "bool"), np.ones(2, bool)), (lambda v: jn.full(v, (2,), v[0, 0, 3]), np.full(2, 3)),
    ]  # fmt: skip
    for build, expected in cases:
        result = run(build, x)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def test_splitting(run: Run) -> None:
    x = np.arange(30).reshape(10, 3)
    for pieces, expected in (
        (lambda v: jn.split(v, [3, 0, 7]), np.split(x, [3, 3])), (lambda v: jn.split(v, 5), np.split(x, 5)),
        (lambda v: jn.split(v, [1, 2], -1), np.split(x, [1], 1)), (lambda v: jn.chunk(v, 4), [x[:3], x[3:6], x[6:9], x[9:]]),
        (lambda v: jn.chunk(v, 3, axis=1), np.split(x, 3, 1)),
    ):  # fmt: skip
        for result, piece in zip(run(pieces, x), expected, strict=True):
            np.testing.assert_array_equal(result, piece)


def test_gathering(run: Run) -> None:
    x = np.arange(12.0).reshape(3, 4)
    indices = np.array([[0, -1], [2, 1]])
    np.testing.assert_array_equal(run(lambda v, i: jn.gather(v, i, 1), x, indices), np.take(x, indices, 1))
    np.testing.assert_array_equal(run(lambda v: jn.gather(v, 1), x), x[1])
    np.testing.assert_array_equal(run(lambda v: jn.gather(v, np.array([9, -9], np.int8)), x), x[[2, 0]])
    order = np.argsort(-x, 1)
    np.testing.assert_array_equal(
        run(lambda v, i: jn.take_along_axis(v, i), x, order), np.take_along_axis(x, order, 1)
    )


def test_products(run: Run) -> None:
    rng = np.random.default_rng(3)
    a, b, c, v = rng.normal(size=(3, 4)), rng.normal(size=(4, 5)), rng.normal(size=(3, 5)), rng.normal(size=4)
    cube = rng.normal(size=(2, 4, 5))
    for build, operands, expected in (
        (jn.matmul, (a, b), a @ b), (jn.dot, (a, b), a @ b), (jn.dot, (v, v), v @ v), (jn.dot, (a, cube), np.dot(a, cube)),
        (lambda x: jn.dot(x, 2.0), (a,), 2 * a), (jn.outer, (v, c), np.outer(v, c)), (jn.linear, (a, b.T), a @ b),
        (lambda x, w: jn.linear(x, w, np.arange(5.0)), (a, b.T), a @ b + np.arange(5)),
        (lambda x, y, z: jn.gemm(x, y, z, 0.5, 2.0, True, True), (a.T, b.T, c), 0.5 * a @ b + 2 * c),
        (jn.gemm, (a, b), a @ b), (jn.tensordot, (a, a), np.tensordot(a, a)),
        (lambda x, y: jn.tensordot(x, y, 1), (a, b), a @ b),
        (lambda x, y: jn.tensordot(x, y, ((0, 1), (1, 0))), (a, a.T), np.tensordot(a, a.T, ((0, 1), (1, 0)))),
        (lambda x, y: jn.tensordot(x, y, 0), (v, v), np.outer(v, v)),
    ):  # fmt: skip
        np.testing.assert_allclose(run(build, *operands), expected, rtol=1e-12)
    tf32 = run(lambda x, y: jn.matmul(x, y, "tf32"), a.astype(np.float32), b.astype(np.float32))
    np.testing.assert_allclose(tf32, a @ b, rtol=0.05, atol=0.01)
    assert not np.allclose(tf32, a @ b, rtol=1e-6, atol=1e-7)


def test_normalisation(run: Run) -> None:
    rng = np.random.default_rng(4)
    x, scale, bias = rng.normal(size=(3, 8)), rng.normal(size=8), rng.normal(size=8)
    centred = x - x.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(
        run(lambda v: jn.layer_norm(v, scale, bias), x), normal * scale + bias, rtol=1e-12
    )
    np.testing.assert_allclose(run(lambda v: jn.layer_norm(v, bias=bias), x), normal + bias, rtol=1e-12)
    np.testing.assert_allclose(run(jn.layer_norm, x), normal, rtol=1e-12)
    rms = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(run(lambda v: jn.rms_norm(v, scale), x), rms * scale, rtol=1e-12)


def test_casts(run: Run) -> None:
    x = np.array([1.5, -2.5, 1e20, np.nan, -np.inf], np.float32)
    assert run(lambda v: v.cast(jn.int32), x).tolist() == [1, -2, 2**31 - 1, 0, -(2**31)]
    assert run(lambda v: v.cast(jn.uint8), x).tolist() == [1, 0, 255, 0, 0]
    third = np.array([1 / 3], np.float32)
    near, cut = (
        run(lambda v, r=r: jn.cast(v, jn.float16, rounding=r), third) for r in ("nearest", "toward_zero")
    )
    assert near[0] >= cut[0]
    assert abs(float(cut[0])) <= 1 / 3
    assert run(lambda v: v.bitcast(jn.int32), third)[0] == third.view(np.int32)[0]
    big = np.array([1e6], np.float32)
    saturated, open_ended = (
        run(lambda v, s=s: jn.cast(v, "float8_e5m2", saturate=s), big) for s in (True, False)
    )
    assert float(saturated[0]) == 57344
    assert math.isinf(float(open_ended[0]))
