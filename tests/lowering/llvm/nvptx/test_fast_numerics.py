"""numerics="fast" on simulated GPUs and on the host: bounds, however far off approximations are, and what stays exact."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.ptxsim.arithmetic import floats

from ....support.kernels.blocks import empty, kernel, simulate, some
from ....support.kernels.float_blocks import BLOCK, SPECIAL, on_all, over_blocks, ulps

KERNELS = Path(jn.__file__).parent / "benchmarks" / "kernels"
GPUS = ["sm_80", "sm_90a"]
ERRORS = ["-1", "0", "1", "random"]
SMALLEST, LARGEST = 2.0**-126, float(np.finfo(np.float32).max)


def _factor(x: Any, error: str) -> Any:
    """-1 … 1 for each lane; random: a hash of its bits."""
    if error != "random":
        return float(error)
    bits = np.atleast_1d(np.asarray(x, np.float32)).view(np.uint32)
    return np.array([zlib.crc32(int(each).to_bytes(4, "little")) / 2.0**31 - 1 for each in bits])


@pytest.fixture(params=ERRORS)
def error(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Approximations of the simulator as far off as the PTX ISA allows: an ulp less than 2 for ex2, and so on, since rounding
    adds a half."""
    how: str = request.param

    def perturbed(function: Callable[..., Any], bound: float) -> Callable[..., Any]:
        def compute(x: Any) -> Any:
            with np.errstate(all="ignore"):
                found = function(x)
            return np.where(found == 1, found, found * (1 + bound * _factor(x, how)))  # ex2(0), rsqrt(1)

        return compute

    def log2(x: Any) -> Any:
        with np.errstate(all="ignore"):
            found = np.log2(x)
        size = np.where((x > 0.5) & (x < 2), 1.0, np.abs(found))
        return np.where(np.isfinite(found), found + np.where(found == 0, 0, 2.0**-22.2 * size * _factor(x, how)), found)

    for name, function, bound in (("ex2", np.exp2, 1.5 * 2.0**-24), ("rsqrt", lambda x: 1 / np.sqrt(x), 2.0**-23)):
        monkeypatch.setitem(floats.FLOAT_BUILDERS, name, floats._approximation(perturbed(function, bound)))
    monkeypatch.setitem(floats.FLOAT_BUILDERS, "lg2", floats._approximation(log2))
    for name, function, bound in (("rcp", lambda x: 1 / x, 2.0**-24), ("sqrt", np.sqrt, 2.0**-24)):
        exact, rough = floats.FLOAT_BUILDERS[name], floats._approximation(perturbed(function, bound))
        monkeypatch.setitem(
            floats.FLOAT_BUILDERS, name, lambda k, d, exact=exact, rough=rough: (rough if "approx" in d.flags else exact)(k, d)
        )
    return how


def function(name: str, numerics: str = "fast") -> jn.kernel.Kernel:
    return over_blocks(f"%y = math.{name} %x : tensor<{BLOCK}xf32>", numerics)


def numbers(low: float, high: float, count: int) -> Any:
    return np.random.default_rng(5).uniform(low, high, count).astype(np.float32)


def magnitudes(count: int) -> Any:
    return np.exp2(np.random.default_rng(6).uniform(-149, 128, count)).astype(np.float32)


@pytest.mark.parametrize("target", GPUS)
def test_exp(target: str, error: str) -> None:
    edge = np.nextafter(np.float32(88.72284), np.float32(0)) + np.arange(-40, 40, dtype=np.float32) * np.float32(7.6e-6)
    x, y = on_all(function("exp"), np.concatenate([numbers(-90, 89.5, 12000), numbers(-1, 1, 4000), edge]), target=target)
    exact = np.exp(x.astype(np.float64))
    normal = (exact >= SMALLEST * (1 + 2.0**-10)) & (exact <= LARGEST * (1 - 2.0**-10))
    assert (ulps(y[normal], exact[normal]) <= 3 + 1.23 * np.abs(x[normal])).all()
    assert (y[exact < SMALLEST * (1 - 2.0**-10)] == 0).all()
    assert np.isinf(y[exact > LARGEST * (1 + 2.0**-10)]).all()


def test_exp_of_all_magnitudes_keeps_the_bound_of_the_product() -> None:
    """The rounding of x · log2 e, over every 97th number, as float32 arithmetic has it; ex2 adds its own 2 ulp."""
    bits = np.arange(0x3C000000, 0x42B17218, 97, dtype=np.uint32)
    for sign in (0, 1 << 31):
        x = (bits | np.uint32(sign)).view(np.float32)
        exponent = x.astype(np.float64) * np.log2(np.e)
        off = np.abs(np.expm1(((x * np.float32(np.log2(np.e))) - exponent) * np.log(2)))
        assert (off * np.exp2(exponent - np.floor(exponent)) * 2**23 <= np.minimum(1.23 * np.abs(x) + 0.1, 64)).all()


@pytest.mark.parametrize("target", GPUS)
def test_exp2(target: str, error: str) -> None:
    x, y = on_all(function("exp2"), np.concatenate([numbers(-130, 129, 8000), numbers(-1, 1, 2000)]), target=target)
    exact = np.exp2(x.astype(np.float64))
    normal = (exact >= SMALLEST * (1 + 2.0**-20)) & (exact <= LARGEST)
    assert ulps(y[normal], exact[normal]).max() <= 2
    assert (y[exact < SMALLEST * (1 - 2.0**-20)] == 0).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "scale"), [("log2", 1.0), ("log", np.log(2))])
def test_logarithms(name: str, scale: float, error: str) -> None:
    x, y = on_all(function(name), np.concatenate([magnitudes(8000), numbers(0.4, 2.2, 4000)]))
    exact = getattr(np, name)(x.astype(np.float64))
    off = np.abs(y - exact)
    near = (x > 0.5) & (x < 2)
    assert (off[near] <= scale * 2.0**-22 + np.spacing(np.abs(exact[near]).astype(np.float32))).all()
    assert (off[~near] <= (2.0**-22 + 2.0**-23) * np.abs(exact[~near])).all()


@pytest.mark.parametrize("name", ["sqrt", "rsqrt"])
def test_roots(name: str, error: str) -> None:
    x, y = on_all(function(name), magnitudes(8000))
    exact = np.sqrt(x.astype(np.float64)) if name == "sqrt" else 1 / np.sqrt(x.astype(np.float64))
    assert ulps(y, exact).max() <= 2.5


@pytest.mark.one_in(8)
@pytest.mark.parametrize("target", ["host", "sm_80"])
def test_erf_and_tanh(target: str, error: str) -> None:
    x, y = on_all(function("tanh"), numbers(-10, 10, 8000), target=target)
    assert ulps(y, np.tanh(x.astype(np.float64))).max() <= 6
    assert (np.abs(y) <= 1).all()
    x, y = on_all(function("erf"), np.concatenate([numbers(-4.5, 4.5, 8000), numbers(-0.01, 0.01, 1000)]), target=target)
    exact = np.array([math.erf(each) for each in x.tolist()])
    assert np.abs(y - exact).max() < 5e-7
    assert (np.abs(y) <= 1).all()


FUNCTIONS = ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "erf", "expm1", "log1p", "sin", "cos"]


@pytest.mark.one_in(24)
@pytest.mark.parametrize("target", ["host", *GPUS])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values_are_those_of_strict_numerics(name: str, target: str) -> None:
    edges = np.array([88.722, 88.7229, 89, 128, 127.999, 1e30, -104, -1e30, -126, -150], np.float32)
    x, fast = on_all(function(name), np.concatenate([SPECIAL, edges]), target=target)
    _, strict = on_all(function(name, "strict"), x, target=target)
    np.testing.assert_array_equal(np.isnan(fast), np.isnan(strict))
    for special in (np.inf, -np.inf):
        np.testing.assert_array_equal(fast == special, strict == special, str(x))
    there = ~np.isnan(strict)
    np.testing.assert_array_equal(np.signbit(fast[there]), np.signbit(strict[there]))
    assert not fast[there & (strict == 0)].any()
    denormal = (np.abs(strict) < SMALLEST) & (strict != 0)
    assert (fast[there & (fast == 0) & (strict != 0)] == 0).all()
    assert denormal[there & (fast == 0) & (strict != 0)].all()


@pytest.mark.parametrize(("name", "bound"), [("exp", 2.3), ("exp2", 2), ("log", 2), ("rsqrt", 2), ("tanh", 6)])
def test_bounds_on_the_host(name: str, bound: float) -> None:
    x = numbers(-104, 88.7, 50000) if name in ("exp", "exp2", "tanh") else magnitudes(50000)
    x, y = on_all(function(name), x, target="host")
    exact = 1 / np.sqrt(x.astype(np.float64)) if name == "rsqrt" else getattr(np, name)(x.astype(np.float64))
    assert ulps(y, exact).max() <= bound


DIVISORS = [3.0, -7.1, 1e-30, 1e30, 2e38, -3.3e38, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-44, -7e-41, 2.0**-64, 2.0**64]


@pytest.mark.one_in(9)
@pytest.mark.parametrize("divisor", DIVISORS)
def test_quotients_by_one_number(divisor: float, error: str) -> None:
    body = f"%bs = tt.splat %b : f32 -> tensor<{BLOCK}xf32>\n  %y = arith.divf %x, %bs : tensor<{BLOCK}xf32>"
    wild = np.random.default_rng(3).integers(0, 1 << 32, 2 * BLOCK, dtype=np.uint32).view(np.float32)
    x, y = on_all(over_blocks(body, "fast"), np.concatenate([wild, SPECIAL]), divisor)
    with np.errstate(all="ignore"):
        strict = x / np.float32(divisor)
        exact = x.astype(np.float64) / np.float64(np.float32(divisor))
    _same_quotients(y, strict, exact, 3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("flag", ["afn", "arcp", "fast"])
def test_quotients_of_pairs(flag: str, error: str) -> None:
    operation = f"%y0 = arith.divf %x0, %x1 fastmath<{flag}> : tensor<256xf32>"
    k = kernel([((256,), "f32"), ((256,), "f32")], [((256,), "f32")], operation)
    assert not re.search(r"\b(div|rcp)\.rn", k.ptx())
    left, right = (np.resize(each, 256) for each in (np.repeat(SPECIAL, 13), np.tile(SPECIAL, 13)))
    y = simulate(k, left, right, empty((256,), "f32"))[2]
    with np.errstate(all="ignore"):
        _same_quotients(y, left / right, left.astype(np.float64) / right, 3)


def test_divisions_by_one_number_share_its_reciprocal() -> None:
    block = f"tensor<{BLOCK}xf32>"
    body = f"""%bs = tt.splat %b : f32 -> {block}
  %u = arith.divf %x, %bs : {block}
  %one = arith.constant 1.0 : f32
  %n = arith.divf %one, %b : f32
  %ns = tt.splat %n : f32 -> {block}
  %y = arith.addf %u, %ns : {block}"""
    assert len(re.findall(r"rcp\.approx\.ftz", over_blocks(body, "fast").ptx())) == 1


def test_quotients_by_constants_are_products() -> None:
    block = f"tensor<{BLOCK}xf32>"
    k = over_blocks(f"%c3 = arith.constant dense<3.0> : {block}\n  %y = arith.divf %x, %c3 : {block}", "fast")
    assert not re.search(r"\b(div|rcp)\.", k.ptx())
    x, y = on_all(k, magnitudes(4000))
    assert ulps(y, x.astype(np.float64) / 3).max() <= 1.5
    tiny = over_blocks(f"%c3 = arith.constant dense<1.0e-44> : {block}\n  %y = arith.divf %x, %c3 : {block}", "fast")
    x, y = on_all(tiny, np.array([0.0, 1e-44, -3e-43, 1.0], np.float32))
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(y, x / np.float32(1e-44), rtol=2e-7)


def _same_quotients(y: Any, strict: Any, exact: Any, bound: float) -> None:
    finite = np.isfinite(strict) & (np.abs(exact) < LARGEST * (1 - 2.0**-20))
    assert ulps(y[finite], exact[finite]).max(initial=0) <= bound
    special = ~np.isfinite(strict) & ~(np.isinf(strict) & (np.abs(exact) < LARGEST * (1 + 2.0**-20)))
    np.testing.assert_array_equal(y[special], strict[special])
    there = ~np.isnan(strict)
    np.testing.assert_array_equal(np.signbit(y[there]), np.signbit(strict[there]))


EXPONENTS = [
    "%u = arith.mulf %x, %bs : BLOCK\n%v = arith.mulf %x, %bs : BLOCK\n%w = arith.subf %u, %v : BLOCK",
    "%u = arith.mulf %x, %bs : BLOCK\n%v = arith.mulf %bs, %x : BLOCK\n%w = arith.subf %u, %v : BLOCK",
    "%u = arith.mulf %x, %bs : BLOCK\n%v = arith.mulf %bs, %x : BLOCK\n%n = arith.negf %v : BLOCK\n"
    "%w = arith.addf %u, %n : BLOCK",
    "%u = arith.mulf %x, %bs fastmath<fast> : BLOCK\n%v = arith.mulf %bs, %x : BLOCK\n"
    "%w = arith.subf %u, %v fastmath<contract> : BLOCK",
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("target", ["host", *GPUS])
@pytest.mark.parametrize("name", ["exp", "exp2"])
@pytest.mark.parametrize("difference", EXPONENTS)
def test_exp_of_x_s_minus_x_s_is_1(difference: str, name: str, target: str) -> None:
    body = f"%bs = tt.splat %b : f32 -> BLOCK\n{difference}\n%y = math.{name} %w : BLOCK"
    body = body.replace("BLOCK", f"tensor<{BLOCK}xf32>")
    for numerics in ("fast", "strict"):
        _, y = on_all(over_blocks(body, numerics), numbers(-1e30, 1e30, BLOCK), 1234.5678e3, target)
        assert (y == 1).all()


# --- whole kernels


def softmax(rows: Any, numerics: str, target: str) -> Any:
    out, columns = np.zeros_like(rows), rows.shape[1]
    k = jn.kernel.from_ttir(KERNELS / "gpu_softmax.ttir", numerics=numerics)
    on = {"device": "cpu"} if target == "host" else {"device": "ptxsim", "target": target}
    k.launch((len(rows),), rows, out, columns, **on)
    return out


@pytest.mark.one_in(4)
@pytest.mark.parametrize("target", GPUS)
def test_softmax(target: str, error: str) -> None:
    rng = np.random.default_rng(4)
    rows = (rng.standard_normal((6, 1000)) * 10).astype(np.float32)
    rows[1, 100:] = -np.inf
    rows[2] = 7.25  # of equal values
    rows[3] *= 1e6
    rows[4, :] = -np.inf
    rows[4, 17] = -3e38
    rows[5, 3] = np.nan
    found = softmax(rows, "fast", target)
    with np.errstate(invalid="ignore"):
        powers = np.exp(rows[:5].astype(np.float64) - rows[:5].max(1, keepdims=True))
    exact = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(found[:5], exact, rtol=1e-5, atol=2.0**-126)
    assert (found[1, 100:] == 0).all()
    assert len(set(found[2])) == 1
    np.testing.assert_allclose(found[:5].astype(np.float64).sum(1), 1, rtol=1e-5)
    assert np.isnan(found[5]).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["host", "sm_80"])
def test_a_row_without_numbers_is_nan_as_in_strict_numerics(target: str) -> None:
    rows = np.full((1, 64), -np.inf, np.float32)
    assert np.isnan(softmax(rows, "fast", target)).all()
    assert np.isnan(softmax(rows, "strict", target)).all()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", ["host", *GPUS])
def test_layer_norm(target: str) -> None:
    rng = np.random.default_rng(8)
    x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 900), (900,), (900,)))
    out = np.zeros_like(x)
    k = jn.kernel.from_ttir(KERNELS / "gpu_layer_norm.ttir", numerics="fast")
    on = {"device": "cpu"} if target == "host" else {"device": "ptxsim", "target": target}
    arguments = {"f32": 1e-5, "i32": 900}
    values = iter([x, w, b, out])
    k.launch((3,), *[next(values) if p.is_pointer else arguments[str(p.type)] for p in k.parameters], **on)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    exact = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w + b
    np.testing.assert_allclose(out, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("target", GPUS)
def test_attention(target: str, error: str) -> None:
    k = jn.kernel.from_ttir(KERNELS / "gpu_attention_f16.ttir", numerics="fast")
    rng = np.random.default_rng(9)
    q, key, v = (rng.standard_normal((128, 64)).astype(np.float16) for _ in range(3))
    out = np.zeros((128, 64), np.float16)
    scale = 0.125
    k.launch((2,), q, key, v, out, 128, scale, 128 * 64, 64, device="ptxsim", target=target)
    scores = q.astype(np.float64) @ key.astype(np.float64).T * scale
    powers = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(out, powers / powers.sum(1, keepdims=True) @ v.astype(np.float64), rtol=4e-3, atol=2e-3)


def test_instructions() -> None:
    softmax_ptx = jn.kernel.from_ttir(KERNELS / "gpu_softmax.ttir", numerics="fast").ptx()
    assert softmax_ptx.count("ex2.approx.ftz") == 32  # 4096 numbers by 128 threads
    assert softmax_ptx.count("rcp.approx.ftz") == 1
    assert "div.rn" not in softmax_ptx
    attention = jn.kernel.from_ttir(KERNELS / "gpu_attention_f16.ttir", numerics="fast").ptx()
    assert "ex2.approx.ftz.f32" in attention
    assert "ex2.approx.f32" not in attention
    assert "rsqrt.approx.f32" in jn.kernel.from_ttir(KERNELS / "gpu_layer_norm.ttir", numerics="fast").ptx()


def test_flags_hold_for_their_operation_only() -> None:
    block = f"tensor<{BLOCK}xf32>"
    powers = f"%u = math.exp2 %x fastmath<afn> : {block}\n  %v = math.exp2 %x : {block}"
    k = over_blocks(f"{powers}\n  %y = arith.addf %u, %v : {block}")
    assert k.ptx().count("ex2.approx.ftz.f32") == k.ptx().count("ex2.approx.f32") == BLOCK // 128
    x, y = on_all(k, np.full(BLOCK, -127.5, np.float32))
    np.testing.assert_array_equal(y, np.exp2(x.astype(np.float64)).astype(np.float32))  # one of the two is 0


@pytest.mark.parametrize("elem", ["f16", "bf16"])
def test_16_bit_numbers(elem: str) -> None:
    body = f"""%m = arith.mulf %x0, %x1 fastmath<contract> : tensor<256x{elem}>
%s = arith.addf %m, %x2 fastmath<contract> : tensor<256x{elem}>
%y0 = arith.divf %s, %x1 fastmath<arcp> : tensor<256x{elem}>"""
    k = kernel([((256,), elem)] * 3, [((256,), elem)], body)
    x = [some((256,), elem, seed) for seed in range(3)]
    y = simulate(k, *x, empty((256,), elem))[3].astype(np.float64)
    a, b, c = (each.astype(np.float64) for each in x)
    fused = (a * b + c).astype(x[0].dtype).astype(np.float64)
    exact = (fused / b).astype(x[0].dtype).astype(np.float64)
    spacing = 2.0 ** (-10 if elem == "f16" else -7)
    assert (np.abs(y - exact) <= spacing * np.abs(exact) * 1.01).all()
    assert (y == exact).mean() > 0.95
