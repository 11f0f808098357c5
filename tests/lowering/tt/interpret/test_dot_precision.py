"""tt.dot: what inputPrecision promises, and every combination of operand and accumulator types."""

from __future__ import annotations

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.printing import print_module

RNG = np.random.default_rng(33)
NUMPY = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip
M, K, N = 16, 32, 8


def kernel(elem: str, total: str, tail: str = "") -> str:
    lines = []
    for name, type_, (rows, columns) in (("a", elem, (M, K)), ("b", elem, (K, N)), ("c", total, (M, N))):
        count = rows * columns
        lines += [
            f"%{name}i = tt.make_range {{start = 0 : i32, end = {count} : i32}} : tensor<{count}xi32>",
            f"%{name}p = tt.splat %{name} : !tt.ptr<{type_}> -> tensor<{count}x!tt.ptr<{type_}>>",
            f"%{name}q = tt.addptr %{name}p, %{name}i : tensor<{count}x!tt.ptr<{type_}>>, tensor<{count}xi32>",
            f"%{name}l = tt.load %{name}q : tensor<{count}x!tt.ptr<{type_}>>",
            f"%{name}r = tt.reshape %{name}l : tensor<{count}x{type_}> -> tensor<{rows}x{columns}x{type_}>",
        ]
    types = f"tensor<{M}x{K}x{elem}> * tensor<{K}x{N}x{elem}> -> tensor<{M}x{N}x{total}>"
    lines.append(f"%d = tt.dot %ar, %br, %cr{tail} : {types}")
    lines.append(f"%f = tt.reshape %d : tensor<{M}x{N}x{total}> -> tensor<{M * N}x{total}>")
    lines.append(f"tt.store %cq, %f : tensor<{M * N}x!tt.ptr<{total}>>")
    body = "\n".join(lines)
    return f"tt.func public @f(%a: !tt.ptr<{elem}>, %b: !tt.ptr<{elem}>, %c: !tt.ptr<{total}>) {{\n{body}\ntt.return\n}}"


def results(text: str, a, b, c):
    """(interpreted, launched)"""
    loaded = jn.kernel.from_ttir(text)
    first, second = c.copy(), c.copy()
    loaded.interpret(1, a, b, first)
    loaded.launch(1, a, b, second)
    return first.reshape(M, N), second.reshape(M, N)


def split(values: np.ndarray, terms: int, to) -> list[np.ndarray]:
    """float32 as a sum of narrower numbers, largest first."""
    parts = []
    for _ in range(terms):
        parts.append(to(values))
        values = (values - parts[-1]).astype(np.float32)
    return parts


def bfloat16(values):
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


def tf32(values):
    mantissa, exponent = np.frexp(values.astype(np.float64))
    return np.ldexp(np.rint(mantissa * 2.0**11), exponent - 11).astype(np.float32)


SPLITS = {"tf32x3": (2, 3, tf32), "bf16x3": (2, 3, bfloat16), "bf16x6": (3, 6, bfloat16)}


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3", "bf16x6", "ieee"])
def test_split_precisions_are_kept_or_exceeded(precision: str) -> None:
    """No result is further from the exact product than the named sum of narrower products, its sums in float32, may be."""
    a, b, c = (RNG.normal(size=size).astype(np.float32) for size in (M * K, K * N, M * N))
    x, y = a.reshape(M, K), b.reshape(K, N)
    exact = x.astype(np.float64) @ y.astype(np.float64) + c.reshape(M, N)
    found = results(kernel("f32", "f32", f", inputPrecision = {precision}"), a, b, c)
    plain = results(kernel("f32", "f32"), a, b, c)
    size = np.abs(x) @ np.abs(y) + np.abs(c.reshape(M, N))
    for value, other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(value, other)
        assert (np.abs(value - exact) <= K * 2.0**-24 * size).all()
    if precision in SPLITS:
        terms, count, to = SPLITS[precision]
        parts = split(x, terms, to), split(y, terms, to)
        pairs = sorted(((i, j) for i in range(terms) for j in range(terms)), key=sum)[:count]
        model = sum(parts[0][i].astype(np.float64) @ parts[1][j] for i, j in pairs) + c.reshape(M, N)
        bound = {"tf32x3": 2.0**-20, "bf16x3": 2.0**-15, "bf16x6": 2.0**-23}[precision]
        assert (np.abs(model - exact) <= bound * size).all()  # what the name stands for
        if precision == "bf16x3":
            assert np.abs(model - exact).max() > max(np.abs(value - exact).max() for value in found)


def test_tf32_is_what_it_says() -> None:
    a, b, c = (RNG.normal(size=size).astype(np.float32) for size in (M * K, K * N, M * N))
    x, y = tf32(a.reshape(M, K)).astype(np.float64), tf32(b.reshape(K, N)).astype(np.float64)
    exact = a.reshape(M, K).astype(np.float64) @ b.reshape(K, N) + c.reshape(M, N)
    for found in results(kernel("f32", "f32", ", inputPrecision = tf32"), a, b, c):
        np.testing.assert_allclose(found, x @ y + c.reshape(M, N), rtol=1e-5, atol=1e-5)
        assert np.abs(found - exact).max() > 1e-4


@pytest.mark.one_in(12)
@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "bf16x3", "ieee"])
@pytest.mark.parametrize(
    ("elem", "total"),
    [("f8E4M3FN", "f32"), ("f8E4M3FN", "f16"), ("f8E5M2", "f32"), ("f8E5M2", "f16"), ("f16", "f16"), ("f16", "f32"),
     ("bf16", "f32"), ("f32", "f64"), ("f64", "f64")],
)  # fmt: skip
def test_precision_concerns_float32_only(elem: str, total: str, precision: str) -> None:
    a, b = ((RNG.normal(size=size)).astype(NUMPY[elem]) for size in (M * K, K * N))
    c = RNG.normal(size=M * N).astype(NUMPY[total])
    exact = a.reshape(M, K).astype(np.float64) @ b.reshape(K, N).astype(np.float64) + c.reshape(M, N)
    rounding = float(ml_dtypes.finfo(NUMPY[total]).eps)
    for found in results(kernel(elem, total, f", inputPrecision = {precision}"), a, b, c):
        np.testing.assert_allclose(found.astype(np.float64), exact, rtol=rounding, atol=rounding * 32)


@pytest.mark.parametrize(("elem", "total"), [("i8", "i32"), ("i8", "i8"), ("i16", "i32"), ("i32", "i32"), ("i64", "i64")])
def test_integers_wrap(elem: str, total: str) -> None:
    kinds = [np.iinfo(NUMPY[kind]) for kind in (elem, elem, total)]
    a, b, c = (RNG.integers(k.min, k.max, s, k.dtype) for k, s in zip(kinds, (M * K, K * N, M * N), strict=True))
    wide = a.reshape(M, K).astype(object) @ b.reshape(K, N).astype(object) + c.reshape(M, N).astype(object)
    width = kinds[2].bits
    expected = ((wide + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))).astype(NUMPY[total])
    loaded = jn.kernel.from_ttir(kernel(elem, total))
    found = c.copy()
    loaded.interpret(1, a, b, found)
    np.testing.assert_array_equal(found.reshape(M, N), expected)


@pytest.mark.parametrize("precision", ["", ", inputPrecision = tf32", ", inputPrecision = bf16x6"])
@pytest.mark.parametrize("imprecise", ["", " {maxNumImpreciseAcc = 1073741824 : i32}"])
def test_text(precision: str, imprecise: str) -> None:
    text = kernel("f8E5M2", "f32", precision + imprecise)
    printed = print_module(parse(text))
    assert f"%cr{precision}{imprecise} : tensor" in printed
    assert print_module(parse(printed)) == printed
