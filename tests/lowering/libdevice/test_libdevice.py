"""Functions of libdevice: the host against the interpreter at special values, both against mpmath, and what is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import joinery as jn
import mpmath
import numpy as np
import pytest
from joinery.interface.native import host_program
from joinery.lowering.libdevice.expand import EXPANSIONS
from joinery.lowering.libdevice.reference import REFERENCE
from joinery.lowering.libdevice.signatures import CALLS, SIGNATURES, Signature

from ...support.kernels.library_functions import DTYPES, INF, LANES, VALUES, groups, run
from ...support.tiers import halved

EXACT = {
    "fmax", "fmin", "fdim", "nextafter", "remainder", "fmod", "ldexp", "round", "fabs", "copysign", "logb", "rint", "nearbyint",
    "trunc", "floor", "ceil", "saturate", "rsqrt_rn", "rcp64h", "half2float", "sqrt", "fma", "reinterpret", "hiloint2double",
}  # fmt: skip


def agree(found: Any, expected: Any, ulps: float) -> Any:
    """Equal, zeros of one sign, both NaN, or that close; `expected` sets the unit, and one denormal may vanish."""
    if found.dtype.kind == "i":
        return found == expected
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(expected)).astype(np.float64)
        near = np.abs(found.astype(np.float64) - expected.astype(np.float64)) <= ulps * unit
    same = (found == expected) & (np.signbit(found) == np.signbit(expected))
    return same | (np.isnan(found) & np.isnan(expected)) | (near & (ulps > 0) & (np.signbit(found) == np.signbit(expected)))


@pytest.mark.one_in(24)
@pytest.mark.parametrize("signatures", halved(groups()))
def test_host_and_interpreter_agree_at_special_values(signatures: list[Signature]) -> None:
    arguments = signatures[0].arguments
    if len(arguments) == 1:
        columns = [VALUES[arguments[0]]]
    elif len(arguments) == 2:
        columns = [list(column) for column in zip(*itertools.product(*(VALUES[e] for e in arguments)), strict=True)]
    else:
        rng = np.random.default_rng(0)
        columns = [rng.choice(np.array(VALUES[e], object), 2 * LANES).tolist() for e in arguments]
    host, defined = run(signatures, columns, "launch"), run(signatures, columns, "interpret")
    for signature, found, expected in zip(signatures, host, defined, strict=True):
        good = agree(found, expected, 0 if signature.rounding or signature.function in EXACT else 4)
        bad = [(*(column[i] for column in columns), found[i], expected[i]) for i in np.flatnonzero(~good)[:4]]
        assert good.all(), f"{signature.symbol}: {bad}"


def test_every_symbol_has_both_definitions() -> None:
    for signature in SIGNATURES.values():
        assert signature.function in REFERENCE
        assert (signature.function in EXPANSIONS) != (signature.function in CALLS)
    assert len(SIGNATURES) == 331


# -- against mpmath


def _inverse_erfc(q: Any) -> Any:
    if q > 1:
        return -_inverse_erfc(2 - q)
    if q > 0.1:
        return mpmath.erfinv(1 - q)
    x = mpmath.sqrt(-mpmath.log(q))
    for _ in range(12):
        scaled = mpmath.erfc(x)
        x += (mpmath.log(scaled) - mpmath.log(q)) * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(x * x) * scaled
    return x


def _root3(x: Any) -> Any:
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


def _size(*xs: Any) -> Any:
    return mpmath.sqrt(sum(x * x for x in xs))


def _span(low: float, high: float) -> Callable[[Any, int], Any]:
    return lambda rng, n: rng.uniform(low, high, n)


def _powers(low: float, high: float, signed: bool = True) -> Callable[[Any, int], Any]:
    return lambda rng, n: rng.choice([-1.0, 1.0] if signed else [1.0], n) * 2.0 ** rng.uniform(low, high, n)


# function: (mpmath, operands of float32, operands of float64 where they differ)
WITNESSES: dict[str, tuple[Any, ...]] = {
    "acos": (mpmath.acos, [_span(-1, 1)]), "acosh": (mpmath.acosh, [_powers(0.001, 60, False)]),
    "asin": (mpmath.asin, [_span(-1, 1)]), "asinh": (mpmath.asinh, [_powers(-60, 100)]),
    "atan": (mpmath.atan, [_powers(-60, 60)]),
    "atanh": (mpmath.atanh, [_span(-1, 1)]), "cbrt": (_root3, [_powers(-120, 120)], [_powers(-1070, 1000)]),
    "cos": (mpmath.cos, [_span(-100, 100)]), "cosh": (mpmath.cosh, [_span(-88, 88)], [_span(-700, 700)]),
    "cospi": (mpmath.cospi, [_span(-300, 300)]), "sinpi": (mpmath.sinpi, [_powers(-60, 10)]),
    "cyl_bessel_i0": (lambda x: mpmath.besseli(0, x), [_span(-80, 80)], [_span(-60, 700)]),
    "cyl_bessel_i1": (lambda x: mpmath.besseli(1, x), [_powers(-60, 6)], [_powers(-60, 9)]),
    "erf": (mpmath.erf, [_span(-4, 4)]), "erfc": (mpmath.erfc, [_span(-5, 9)], [_span(-5, 26)]),
    "erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [_span(-5, 100)], [_span(-10, 60)]),
    "erfinv": (lambda y: mpmath.sign(y) * _inverse_erfc(1 - abs(y)), [_span(-1, 1)]),
    "erfcinv": (_inverse_erfc, [_span(0, 2)], [_powers(-1000, 0.9, False)]),
    "exp": (mpmath.exp, [_span(-80, 80)]), "exp10": (lambda x: mpmath.mpf(10) ** x, [_span(-36, 37)], [_span(-300, 300)]),
    "exp2": (lambda x: mpmath.mpf(2) ** x, [_span(-120, 120)]), "expm1": (mpmath.expm1, [_powers(-60, 6)]),
    "lgamma": (lambda x: mpmath.log(abs(mpmath.gamma(x))), [_span(0.1, 60)]), "tgamma": (mpmath.gamma, [_span(-8.6, 30)]),
    "log": (mpmath.log, [_powers(-120, 120, False)]), "log10": (mpmath.log10, [_powers(-120, 120, False)]),
    "log1p": (mpmath.log1p, [_span(-0.99, 9)]), "log2": (lambda x: mpmath.log(x, 2), [_powers(-120, 120, False)]),
    "normcdf": (lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2, [_span(-12, 6)], [_span(-37, 6)]),
    "normcdfinv": (lambda p: -mpmath.sqrt(2) * _inverse_erfc(2 * p), [_span(0, 1)], [_powers(-1000, -1, False)]),
    "rcbrt": (lambda x: 1 / _root3(x), [_powers(-120, 120)]),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), [_powers(-120, 120, False)]),
    "sin": (mpmath.sin, [_span(-100, 100)]), "sinh": (mpmath.sinh, [_powers(-60, 6)]), "tan": (mpmath.tan, [_span(-100, 100)]),
    "tanh": (mpmath.tanh, [_powers(-60, 4)]), "sqrt": (mpmath.sqrt, [_powers(-120, 120, False)]),
    "atan2": (mpmath.atan2, [_powers(-30, 30)] * 2), "pow": (mpmath.power, [_powers(-20, 20, False), _span(-5, 5)]),
    "powi": (lambda x, n: mpmath.power(x, int(n)), [_span(-3, 3), lambda rng, n: rng.integers(-50, 50, n)]),
    "hypot": (_size, [_powers(-40, 40)] * 2, [_powers(-1000, 1000)] * 2),
    "rhypot": (lambda *x: 1 / _size(*x), [_powers(-40, 40)] * 2),
    "norm": (_size, [_powers(-60, 60)] * 4), "rnorm": (lambda *x: 1 / _size(*x), [_powers(-60, 60)] * 4),
}  # fmt: skip
POINTS = 24


def distance(found: float, exact: Any, elem: str) -> float:
    """In units in the last place of the exact number, which is not a multiple of them."""
    precision, least = (24, -149) if elem == "f32" else (53, -1074)
    if exact == 0:
        return 0.0 if found == 0 else INF
    unit = mpmath.mpf(2) ** max(mpmath.frexp(abs(exact))[1] - precision, least)
    return float(abs(mpmath.mpf(found) - exact) / unit) if math.isfinite(found) else INF


def transcendental() -> list[Any]:
    return [pytest.param(s, id=s.symbol) for s in SIGNATURES.values() if s.function in WITNESSES and "fast" not in s.symbol]


@pytest.mark.one_in(96)
@pytest.mark.parametrize("signature", transcendental())
def test_within_four_units_in_the_last_place(signature: Signature) -> None:
    witness, *spans = WITNESSES[signature.function]
    span = spans[-1] if signature.arguments[0] == "f64" else spans[0]
    rng = np.random.default_rng(3)
    operands = [draw(rng, POINTS).astype(DTYPES[e]) for draw, e in zip(span, signature.arguments, strict=False)]
    with mpmath.workprec(300):
        exact = [witness(*[mpmath.mpf(float(x)) for x in lane]) for lane in zip(*operands, strict=True)]
        for how in ("launch", "interpret"):
            (found,) = run([signature], operands, how)
            worst = max(distance(float(x), y, signature.result) for x, y in zip(found, exact, strict=True))
            assert worst <= 4, f"{how}: {worst} ulp"


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1", "jn", "yn"])
def test_bessel_functions_are_as_good_as_the_c_library(name: str) -> None:
    """Near their zeros an absolute error is what can be had; float32 goes through float64."""
    kind = {"j": mpmath.besselj, "y": mpmath.bessely}[name[0]]
    rng = np.random.default_rng(1)
    x = rng.uniform(0.5, 30, POINTS)
    orders = rng.integers(0, 6, POINTS).astype(np.int32)
    for end, elem, bound in (("f", "f32", 6e-8), ("", "f64", 4e-15)):
        signature = SIGNATURES[f"__nv_{name}{end}"]
        points = x.astype(DTYPES[elem])
        operands = [orders, points] if name[1] == "n" else [points]
        for how in ("launch", "interpret"):
            (found,) = run([signature], operands, how)
            for order, at, value in zip(orders, points, found, strict=True):
                exact = kind(int(order) if name[1] == "n" else int(name[1]), mpmath.mpf(float(at)))
                assert abs(mpmath.mpf(float(value)) - exact) <= bound * max(1, abs(exact))


def test_orders_without_bound_do_not_hang() -> None:
    signature = SIGNATURES["__nv_jn"]
    for how in ("launch", "interpret"):
        (found,) = run([signature], [[1 << 30, -(1 << 31), 3], [1e9, 2.0, 2.0]], how)
        assert np.isnan(found[:2]).all()
        assert found[2] == pytest.approx(0.12894324947440206)


# -- directions


def _halfway(rng: Any, n: int, low: int, high: int) -> Any:
    """Short mantissas of either sign: sums and products that are exact, and ties."""
    return rng.choice([-1.0, 1.0], n) * rng.integers(1, 1 << 20, n) * 2.0 ** rng.integers(low, high, n).astype(np.float64)


RANGES = [("f32", -120, 80), ("f64", -20, 20), ("f64", -1070, -400), ("f64", -500, 480)]


@pytest.mark.slow
@pytest.mark.parametrize(("elem", "low", "high"), RANGES)
def test_directed_rounding_is_exact(elem: str, low: int, high: int) -> None:
    """The interpreter rounds exact rationals; the host's error-free transformations must give the same bits."""
    rng = np.random.default_rng(abs(low))
    columns = [_halfway(rng, 2 * LANES, low, high) for _ in range(3)]
    with np.errstate(all="ignore"):
        columns[2][:LANES] = np.nextafter(-columns[0][:LANES] * columns[1][:LANES], 0)  # nearly everything cancels
        columns[2] = np.where(np.isfinite(columns[2]), columns[2], 1.0)
    for count in (1, 2, 3):
        signatures = [s for s in SIGNATURES.values() if s.arguments == (elem,) * count and s.rounding and s.result == elem]
        host, defined = (run(signatures, columns[:count], how) for how in ("launch", "interpret"))
        for signature, found, expected in zip(signatures, host, defined, strict=True):
            assert agree(found, expected, 0).all(), signature.symbol


# -- what is refused


def text(symbol: str, arguments: str = "f32", result: str = "f32") -> str:
    names = [f"%x{i}" for i in range(len(arguments.split()))]
    parameters = ", ".join(f"{name}: {e}" for name, e in zip(names, arguments.split(), strict=True))
    return f"""
module {{
  tt.func public @k({parameters}, %o: !tt.ptr<{result}>) {{
    %v = tt.extern_elementwise {", ".join(names)} {{libname = "l", libpath = "p", pure = false, symbol = "{symbol}"}}
      : ({", ".join(arguments.split())}) -> {result}
    tt.store %o, %v : !tt.ptr<{result}>
    tt.return
  }}
}}
"""


def test_scalars_and_all_attributes() -> None:
    k = jn.kernel.from_ttir(text("__nv_sinhf"))
    assert '{libname = "l", libpath = "p", pure = false, symbol = "__nv_sinhf"} : (f32) -> f32' in k.ttir
    assert jn.kernel.from_ttir(k.ttir).ttir == k.ttir
    for how in (k.launch, k.interpret):
        out = np.zeros(1, np.float32)
        how((1,), 1.0, out)
        assert out[0] == np.float32(np.sinh(1.0))


@pytest.mark.parametrize(
    ("symbol", "arguments", "result", "message"),
    [
        ("__nv_sinf", "f64", "f32", r"__nv_sinf takes \(f32\), got \(f64\)"),
        ("__nv_sinf", "f32 f32", "f32", r"__nv_sinf takes \(f32\), got \(f32, f32\)"),
        ("__nv_powf", "f32", "f32", r"takes \(f32, f32\)"),
        ("__nv_ldexpf", "f32 i64", "f32", r"takes \(f32, i32\)"),
        ("__nv_isnanf", "f32", "i1", "gives i32"),
    ],
)
def test_wrong_types_are_refused_when_read(symbol: str, arguments: str, result: str, message: str) -> None:
    with pytest.raises(jn.UserError, match=message) as caught:
        jn.kernel.from_ttir(text(symbol, arguments, result))
    assert "in: %" in str(caught.value)


UNKNOWN = [("__nv_sinff", "__nv_sinf"), ("__nv_sincosf", "__nv_cosf"), ("sin", ""), ("", "")]


@pytest.mark.parametrize(("symbol", "near"), UNKNOWN)
def test_unknown_symbols_are_read_and_refused_by_name(symbol: str, near: str) -> None:
    k = jn.kernel.from_ttir(text(symbol))
    for how in (k.launch, k.interpret):
        with pytest.raises(jn.UnsupportedError, match=f"no function '{symbol}'.*{near}"):
            how((1,), 1.0, np.zeros(1, np.float32))


def test_a_machine_whose_c_library_lacks_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    k = jn.kernel.from_ttir(text("__nv_tgamma", "f64", "f64"))
    found = {name: at for name, at in host_program.library_symbols().items() if name != "tgamma"}
    monkeypatch.setattr(host_program, "library_symbols", lambda: found)
    with pytest.raises(jn.UnsupportedError, match="C library of this machine has no tgamma"):
        k.launch((1,), 1.0, np.zeros(1))


def test_operands_of_another_shape_are_refused() -> None:
    with pytest.raises(jn.UserError, match=r"operand 0 is .*expected shape"):
        jn.kernel.from_ttir(text("__nv_sinf").replace("(f32) -> f32", "(f32) -> tensor<8xf32>").replace("tt.store", "// "))
