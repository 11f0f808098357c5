"""atan2, hypot, copysign and popcount against NumPy and mpmath, with the special values of C99, Annex F."""

from __future__ import annotations

from typing import Any

import joinery as jn
import mpmath
import numpy as np
import pytest

Array = np.ndarray[Any, Any]
ULP = {"atan2": 2.0, "hypot": 1.5}


def _model(dtype: str, device: str = "cpu") -> tuple[Any, Any]:
    graph = jn.Graph("pairs", inputs=[jn.TensorType(dtype, ("n",), name=name) for name in ("y", "x")])
    y, x = graph.inputs
    graph.output(jn.atan2(y, x), jn.hypot(y, x), jn.copysign(y, x))
    return graph, jn.compile(graph, device=device, cache=False)


def _specials(dtype: Any) -> tuple[Array, Array]:
    info = np.finfo(dtype)
    numbers = [0.0, np.inf, np.nan, 1.0, 3.0, float(info.tiny), float(info.smallest_subnormal), float(info.max)]
    y, x = np.meshgrid(*[np.array([*numbers, *[-number for number in numbers]], dtype)] * 2)
    return y.ravel(), x.ravel()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("dtype", "device"), [("float32", "cpu"), ("float64", "cpu"), ("float32", "ptxsim")])
def test_special_values(dtype: str, device: str) -> None:
    y, x = _specials(dtype)
    graph, model = _model(dtype, device)
    with np.errstate(all="ignore"):
        expected = np.arctan2(y, x), np.hypot(y, x), np.copysign(y, x)
    for results in (model(y, x), jn.evaluate(graph, y, x)):
        for found, right in zip(results, expected, strict=True):
            np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
            exact = np.isin(right, [0.0, np.inf, -np.inf]) & ~np.isnan(right)
            np.testing.assert_array_equal(found[exact], right[exact])
            np.testing.assert_array_equal(np.signbit(found)[~np.isnan(right)], np.signbit(right)[~np.isnan(right)])
            np.testing.assert_allclose(found, right, rtol=4 * np.finfo(dtype).eps, atol=2 * np.finfo(dtype).smallest_subnormal)


def test_the_angles_of_zeros_and_infinities_are_those_of_c() -> None:
    """C99, F.9.1.4, typed in."""
    pi, inf = np.pi, np.inf
    rows = [
        (0.0, -0.0, pi), (-0.0, -0.0, -pi), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -1.0, pi), (-0.0, 1.0, -0.0),
        (-1.0, 0.0, -pi / 2), (1.0, -0.0, pi / 2), (1.0, -inf, pi), (-1.0, -inf, -pi), (1.0, inf, 0.0), (-1.0, inf, -0.0),
        (inf, 2.0, pi / 2), (-inf, -2.0, -pi / 2), (inf, -inf, 3 * pi / 4), (-inf, -inf, -3 * pi / 4), (inf, inf, pi / 4),
        (-inf, inf, -pi / 4),
    ]  # fmt: skip
    y, x, expected = np.array(rows, np.float32).T.copy()
    found = _model("float32")[1](y, x)[0]
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    np.testing.assert_array_max_ulp(found, expected, 1)  # 3π/4 is made of π/4
    assert np.array_equal(found[:13], expected[:13])


def _distances(name: str, found: Array, y: Array, x: Array) -> float:
    exact = {"atan2": mpmath.atan2, "hypot": mpmath.hypot}[name]
    worst = 0.0
    with mpmath.workprec(200):
        for value, a, b in zip(found.tolist(), y.tolist(), x.tolist(), strict=True):
            right = exact(mpmath.mpf(a), mpmath.mpf(b))
            place = float(np.spacing(abs(found.dtype.type(float(right)))))
            if np.isfinite(place):
                worst = max(worst, float(abs(value - right) / mpmath.mpf(place)))
    return worst


@pytest.mark.parametrize(("dtype", "bounds"), [("float32", ULP), ("float64", {"atan2": 4.0, "hypot": 4.0})])
def test_errors_against_mpmath(dtype: str, bounds: dict[str, float]) -> None:
    random = np.random.default_rng(7)
    magnitudes = np.exp2(np.concatenate([random.uniform(-3, 3, (2, 800)), random.uniform(-120, 120, (2, 400))], 1))
    y, x = (magnitudes * random.choice([-1, 1], magnitudes.shape)).astype(dtype)
    found = dict(zip(("atan2", "hypot"), _model(dtype)[1](y, x), strict=False))
    for name, bound in bounds.items():
        assert _distances(name, found[name], y, x) <= bound, name


def test_errors_in_float32_over_many_points() -> None:
    """float64's own functions are exact enough to judge float32."""
    random = np.random.default_rng(3)
    bits = random.integers(0, 2**32, (2, 300_000), np.uint32).view(np.float32)
    near = (np.exp2(random.uniform(-2, 2, (2, 300_000))) * random.choice([-1, 1], (2, 300_000))).astype(np.float32)
    y, x = np.concatenate([bits, near], 1)
    found = _model("float32")[1](y, x)
    with np.errstate(all="ignore"):
        for name, value, right in zip(("atan2", "hypot"), found, (np.arctan2, np.hypot), strict=False):
            exact = right(y.astype(np.float64), x.astype(np.float64))
            error = np.abs(value.astype(np.float64) - exact) / np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
            assert np.nanmax(np.where(np.isfinite(error), error, 0)) <= ULP[name], name


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tensor_float32"])
def test_short_floats_are_rounded_once(dtype: str) -> None:
    random = np.random.default_rng(2)
    held = jn.DType(dtype).numpy
    y, x = random.standard_normal((2, 65)).astype(np.float16).astype(held)
    found = _model(dtype)[1](y, x)
    wide = y.astype(np.float64), x.astype(np.float64)
    for value, right in zip(found, (np.arctan2(*wide), np.hypot(*wide), np.copysign(*wide)), strict=True):
        assert value.dtype == held
        np.testing.assert_allclose(value.astype(np.float64), right, rtol=2.0 ** -jn.DType(dtype).mantissa_bits)


def test_integers_become_the_default_float() -> None:
    (i,) = jn.Graph("g", inputs=[jn.TensorType("int32", (3,))]).inputs
    assert jn.atan2(i, 1).dtype is jn.hypot(i, i).dtype is jn.copysign(2, i).dtype is jn.float32
    with pytest.raises(jn.UnsupportedError, match="hypot: float8_e4m3fn can be stored"):
        jn.hypot(*[i.graph.input("float8_e4m3fn", (3,), name) for name in "ab"])


@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_popcount_counts_the_bits_of_every_integer(device: str) -> None:
    names = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "index")
    graph = jn.Graph("bits", inputs=[jn.TensorType(name, ("n",), name=name) for name in names])
    graph.output(*[jn.popcount(x) for x in graph.inputs])
    model = jn.compile(graph, device=device, cache=False)
    for size in (0, 1, 63, 64, 65) if device == "cpu" else (33,):
        raw = np.random.default_rng(size).integers(0, 256, size * 8, np.uint8)
        arrays = [
            raw[:size] > 127 if name == "bool" else raw[: size * jn.DType(name).itemsize].view(jn.DType(name).numpy)
            for name in names
        ]
        expected = [
            np.array([(v % (1 << 8 * array.itemsize)).bit_count() for v in array.tolist()], array.dtype)
            for array in arrays
        ]  # fmt: skip
        for results in (model(*arrays), jn.evaluate(graph, *arrays)):
            for found, right in zip(results, expected, strict=True):
                assert found.dtype == right.dtype
                np.testing.assert_array_equal(found, right)
    with pytest.raises(jn.UserError, match=r"popcount(.|\n)*must be bool or integer, not float32"):
        jn.popcount(jn.Graph("g", inputs=[jn.TensorType("float32", (2,))]).inputs[0])


def test_masks_of_the_top_bit_are_literals_of_uint64() -> None:
    (x,) = (graph := jn.Graph("g", inputs=[jn.TensorType("uint64", (2,))])).inputs
    graph.output(x & (1 << 63))
    assert jn.evaluate(graph, np.array([2**63 + 5, 7], np.uint64)).tolist() == [2**63, 0]
