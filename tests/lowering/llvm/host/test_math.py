"""Operations of math that the host composes of others, on all float types and at the ends of their domains."""

from __future__ import annotations

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
FUNCTIONS = {
    "acosh": np.arccosh, "asinh": np.arcsinh, "atanh": np.arctanh, "cbrt": np.cbrt, "cosh": np.cosh, "log10": np.log10,
    "sinh": np.sinh, "atan2": np.arctan2, "round": lambda x: np.trunc(x + np.copysign(np.nextafter(0.5, 0), x)),
}  # fmt: skip
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-7, -6e-5, 11.0, -88.0, 710.0, 3e4, -6e4)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("elem", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_composed_functions(name: str, elem: str) -> None:
    n, dtype = 1024, np.dtype(DTYPES[elem])
    rng = np.random.default_rng(0)
    x = np.concatenate([EDGES, rng.normal(size=n // 2), 5 * rng.normal(size=n // 2)])[:n].astype(dtype)
    y = np.concatenate([EDGES[::-1], rng.normal(size=n)])[:n].astype(dtype)
    pointer, pointers, block = f"!tt.ptr<{elem}>", f"tensor<{n}x!tt.ptr<{elem}>>", f"tensor<{n}x{elem}>"
    lines = "".join(
        f"%b{p} = tt.splat %{p} : {pointer} -> {pointers}\n%p{p} = tt.addptr %b{p}, %r : {pointers}, tensor<{n}xi32>\n"
        for p in "xyo"
    )
    loads = "".join(f"%v{p} = tt.load %p{p} : {pointers}\n" for p in "xy")
    operands = "%vx, %vy" if name == "atan2" else "%vx"
    kernel = jn.kernel.from_ttir(
        f"tt.func public @f(%x: {pointer}, %y: {pointer}, %o: {pointer}) {{\n"
        f"%r = tt.make_range {{end = {n} : i32, start = 0 : i32}} : tensor<{n}xi32>\n{lines}{loads}"
        f"%z = math.{name} {operands} : {block}\ntt.store %po, %z : {pointers}\ntt.return\n}}"
    )
    found, interpreted = np.zeros(n, dtype), np.zeros(n, dtype)
    kernel.launch(1, x, y, found)
    kernel.interpret(1, x, y, interpreted)
    wide = [value.astype(np.float64) for value in (x, y)][: 2 if name == "atan2" else 1]
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](*wide)
        expected = exact.astype(np.float32).astype(dtype) if elem != "f64" else exact
        wanted = expected.astype(np.float64)
        step = np.abs(np.spacing(expected.astype(dtype)).astype(np.float64)) if elem != "bf16" else np.abs(wanted) * 2.0**-7
    for values in (found, interpreted):
        got = values.astype(np.float64)
        with np.errstate(all="ignore"):
            good = (np.abs(got - wanted) <= step * (4 if elem == "f64" else 1)) | (got == wanted)
        good |= np.isnan(got) & np.isnan(wanted)
        assert good.all(), (x[~good], y[~good], got[~good], wanted[~good])
        assert (np.signbit(got) == np.signbit(wanted))[~np.isnan(wanted)].all()


def triples(dtype: np.dtype, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors and summands: any bits, and products that a summand nearly cancels, with exponents all over the range."""
    rng = np.random.default_rng(7)
    bits, limits = np.dtype(f"u{dtype.itemsize}"), ml_dtypes.finfo(dtype)
    x, y, z = (rng.integers(0, 1 << 8 * dtype.itemsize, n, bits.type).view(dtype) for _ in range(3))
    for part in range(1, 4):
        here = slice(part * n // 4, (part + 1) * n // 4)
        size = n // 4
        scale = np.ldexp(1.0, rng.integers(limits.minexp, limits.maxexp, size)) if part > 1 else np.ones(size)
        other = 1 / scale if part == 2 else np.ldexp(1.0, rng.integers(-8, 9, size))
        x[here] = ((1 + rng.random(size)) * scale).astype(dtype)
        y[here] = ((1 + rng.random(size)) * other).astype(dtype)
        z[here] = -(x[here] * y[here]) * (1 + rng.integers(-2, 3, size) * np.float64(limits.eps)).astype(dtype)
    x[:2], y[:2], z[:2] = (2.0, 1.5), (limits.max, 1.5), (-limits.max, 0.0)
    return x, y, z


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("elem", DTYPES)
def test_fused_multiply_add(agree, elem: str) -> None:
    """The definition against the processor's instruction."""
    n = 4096
    x, y, z = triples(np.dtype(DTYPES[elem]), n)
    pointers, block = f"tensor<{n}x!tt.ptr<{elem}>>", f"tensor<{n}x{elem}>"
    lines = "".join(
        f"%b{p} = tt.splat %{p} : !tt.ptr<{elem}> -> {pointers}\n%p{p} = tt.addptr %b{p}, %r : {pointers}, tensor<{n}xi32>\n"
        for p in "xyzo"
    ) + "".join(f"%v{p} = tt.load %p{p} : {pointers}\n" for p in "xyz")
    text = (
        f"tt.func public @f({', '.join(f'%{p}: !tt.ptr<{elem}>' for p in 'xyzo')}) {{\n"
        f"%r = tt.make_range {{end = {n} : i32, start = 0 : i32}} : tensor<{n}xi32>\n{lines}"
        f"%s = math.fma %vx, %vy, %vz : {block}\ntt.store %po, %s : {pointers}\ntt.return\n}}"
    )
    agree(text, 1, x, y, z, np.zeros(n, x.dtype))
