"""Arithmetic that GPUs have their own instruction sequences for, against float64 and NumPy."""

from __future__ import annotations

import itertools
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from joinery.runtime.ptxsim.arithmetic import floats
from joinery.runtime.ptxsim.launch import Module

from ....support.kernels.blocks import DTYPES, check, empty, kernel, simulate, some
from ....support.kernels.float_blocks import BLOCK, SPECIAL, on_all, over_blocks, ulps
from ....support.on_cuda import ON_CUDA


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_exp_is_within_2_ulp_with_denormal_results(target: str) -> None:
    k = over_blocks(f"%y = math.exp %x : tensor<{BLOCK}xf32>")
    rng = np.random.default_rng(1)
    numbers = [
        rng.uniform(-104.5, 89.5, 60000), np.linspace(-104, -87, 20000), np.linspace(88.6, 88.8, 2000),
        rng.standard_normal(20000) * 1e-3, (np.arange(-300, 260) + 0.5) * np.log(2),
    ]  # fmt: skip
    x, y = on_all(k, np.concatenate(numbers).astype(np.float32), target=target)
    exact = np.exp(x.astype(np.float64))
    finite = exact < np.finfo(np.float32).max
    most = 1.75 if ON_CUDA else 1.06  # the simulator's ex2.approx is rounded to the nearest, a device's is not
    assert ulps(y[finite], exact[finite]).max() < most
    assert np.isinf(y[exact > 3.4028236e38]).all()
    x, y = on_all(k, SPECIAL, target=target)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_allclose(y, np.exp(x.astype(np.float64)).astype(np.float32), rtol=2e-7)


def test_exp_of_weights() -> None:
    """What attention weights by: two instructions, a relative error of 2^-22 + |x| 2^-23, and 0 for what is masked."""
    k = over_blocks(f"%y = math.exp %x {{joinery.short, joinery.weight}} : tensor<{BLOCK}xf32>")
    assert k.ptx("sm_80").count("ex2.approx.ftz") == k.ptx("sm_80").count("mul.rn.f32") == BLOCK // 128
    edge = np.array([0.0, -0.0, -88.5, -1e30, -np.inf, np.nan], np.float32)
    x, y = on_all(k, np.concatenate([edge, np.random.default_rng(3).uniform(-87, 0, 4 * BLOCK - 6).astype(np.float32)]))
    np.testing.assert_array_equal(y[:6], np.array([1, 1, 0, 0, 0, np.nan], np.float32))
    x, y = x[6:].astype(np.float64), y[6:].astype(np.float64)
    assert (np.abs(y / np.exp(x) - 1) <= 2.0**-22 + np.abs(x) * 2.0**-23).all()


@pytest.mark.parametrize("error", [-1, 0, 1])
def test_rsqrt_is_within_2_ulp_however_far_off_the_approximation_is(error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def approximation(x: Any) -> Any:  # as far off as the PTX ISA allows
        with np.errstate(all="ignore"):
            return (1 + error * 2.0**-22.9) / np.sqrt(x)

    monkeypatch.setitem(floats.FLOAT_BUILDERS, "rsqrt", floats._approximation(approximation))
    k = over_blocks(f"%y = math.rsqrt %x : tensor<{BLOCK}xf32>")
    code = k.gpu_code("sm_80")
    rng = np.random.default_rng(2)
    numbers = np.exp2(rng.uniform(-149, 128, 30 * BLOCK - len(SPECIAL))).astype(np.float32)
    x = np.concatenate([numbers, SPECIAL])
    y = np.zeros_like(x)
    Module(code.ptx).kernel("f").launch(30, None, [x, y, 0.0])
    with np.errstate(all="ignore"):
        exact = 1 / np.sqrt(x.astype(np.float64))
    usual = np.isfinite(exact)
    assert ulps(y[usual], exact[usual]).max() < 1.2
    np.testing.assert_array_equal(y[~usual], exact[~usual].astype(np.float32))


DIVISORS = [1.0, 3.0, 7.1, 1e-6, 1e12, 4096.0, -3.0, 1e-30, 1e30, 0.0, -0.0, np.inf, np.nan, 1e-44, 0.3, 9.9e-7, 1.09e12]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("divisor", DIVISORS)
def test_quotients_by_one_number_are_those_of_ieee(divisor: float) -> None:
    k = over_blocks(f"%bs = tt.splat %b : f32 -> tensor<{BLOCK}xf32>\n  %y = arith.divf %x, %bs : tensor<{BLOCK}xf32>")
    rng = np.random.default_rng(3)
    usual = rng.standard_normal(6 * BLOCK).astype(np.float32)  # these go the quick way
    usual[::7] = 0.0
    usual[1::7] = -0.0
    wild = rng.integers(0, 1 << 32, 6 * BLOCK, dtype=np.uint32).view(np.float32)
    small = (rng.standard_normal(2 * BLOCK) * 1e-37).astype(np.float32)
    one_of_many = usual.copy()
    one_of_many[:: BLOCK // 2] = np.inf
    x, y = on_all(k, np.concatenate([usual, wild, small, one_of_many, SPECIAL]), divisor)
    with np.errstate(all="ignore"):
        expected = x / np.float32(divisor)
    same = (y.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(y) & np.isnan(expected))
    assert same.all(), (x[~same][:3], y[~same][:3], expected[~same][:3])


def test_quotients_by_one_number_take_one_reciprocal() -> None:
    k = over_blocks(f"%bs = tt.splat %b : f32 -> tensor<{BLOCK}xf32>\n  %y = arith.divf %x, %bs : tensor<{BLOCK}xf32>")
    ptx = k.ptx()
    assert len(re.findall(r"rcp\.rn|div\.rn", ptx)) == 1 + 4  # the reciprocal, and the loop that really divides
    assert ptx.count('.pragma "nounroll"') == 1


def test_rows_are_divided_by_their_own_numbers() -> None:
    body = """
%e = tt.expand_dims %x1 {axis = 1 : i32} : tensor<16xf32> -> tensor<16x1xf32>
%w = tt.broadcast %e : tensor<16x1xf32> -> tensor<16x128xf32>
%y0 = arith.divf %x0, %w : tensor<16x128xf32>"""
    k = kernel([((16, 128), "f32"), ((16,), "f32")], [((16, 128), "f32")], body)
    rows = np.array([1, 2, -3, 0.1, 1e30, 0, np.inf, 5] * 2, np.float32)
    with np.errstate(all="ignore"):
        check(k, some((16, 128), "f32"), rows, empty((16, 128), "f32"))


OPERATIONS = ["addf", "subf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("elem", "target"), [*itertools.product(["f16", "bf16"], ["sm_80", "sm_90a"])])
def test_pairs_of_16_bit_floats_give_the_same_bits(elem: str, target: str) -> None:
    lines = [f"%y{i} = arith.{op} %x0, %x1 : tensor<2048x{elem}>" for i, op in enumerate(OPERATIONS)]
    lines += [f"%t = arith.subf %y0, %y2 : tensor<2048x{elem}>", f"%y7 = arith.mulf %t, %y1 : tensor<2048x{elem}>"]
    k = kernel([((2048,), elem)] * 2, [((2048,), elem)] * 8, "\n".join(lines))
    rng = np.random.default_rng(4)
    dtype = DTYPES[elem]
    x, y = rng.integers(0, 1 << 16, (2, 2048)).astype(np.uint16)
    special = np.array([0, 0x8000, 1, 0x8001, 0x3C00, 0x7C00, 0xFC00, 0x7E00, 0x3F80, 0x7F80, 0xFF80, 0x7FC0], np.uint16)
    pairs = np.array(list(itertools.product(special, special)), np.uint16).T
    x[: pairs.shape[1]], y[: pairs.shape[1]] = pairs
    arrays = [x.view(dtype), y.view(dtype), *(np.zeros(2048, dtype) for _ in range(8))]
    expected = [array.copy() for array in arrays]
    with np.errstate(all="ignore"):
        k.interpret((1,), *expected)
    found = simulate(k, *arrays, target=target)
    for op, one, other in zip([*OPERATIONS, "all"], found[2:], expected[2:], strict=True):
        wide, wanted = one.astype(np.float32), other.astype(np.float32)
        same = (wide == wanted) | (np.isnan(wide) & np.isnan(wanted))
        if op[0] != "m" or op == "mulf":  # of equal zeros max and min may give either
            same &= np.isnan(wide) | (np.signbit(wide) == np.signbit(wanted))
        assert same.all(), (op, x[~same][:3], y[~same][:3], wide[~same][:3], wanted[~same][:3])
    ptx = k.ptx(target)
    assert "x2" in ptx
    assert "cvt" not in ptx or elem == "bf16"


def test_floats_of_16_bits_that_only_move_are_not_converted() -> None:
    k = kernel([((64, 64), "bf16")], [((64, 64), "bf16")], """
%y0 = tt.trans %x0 {order = array<i32: 1, 0>} : tensor<64x64xbf16> -> tensor<64x64xbf16>""")
    x = some((64, 64), "bf16")
    assert (check(k, x, np.zeros((64, 64), ml_dtypes.bfloat16))[1] == x.T).all()
    assert "cvt.rn" not in k.ptx()


@pytest.mark.parametrize("error", [-1, 0, 1])
def test_tame_quotients_are_those_of_ieee(error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of sigmoid: 0 <= a <= 1 <= b <= 2, with a reciprocal that is off by a unit in the last place."""

    def reciprocal(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return (1 / x).astype(np.float32) * (1 + error * 2.0**-23)

    monkeypatch.setitem(floats.FLOAT_BUILDERS, "rcp", floats._approximation(reciprocal))
    k = kernel([((1024,), "f32")] * 2, [((1024,), "f32")], "%y0 = arith.divf %x0, %x1 {joinery.in_range} : tensor<1024xf32>")
    assert "div" not in k.ptx()
    rng = np.random.default_rng(8)
    for low in (-149, -126, -24, -1):
        a = np.minimum(np.exp2(rng.uniform(low, 0, 1024)), 1).astype(np.float32)
        b = rng.uniform(1, 2, 1024).astype(np.float32)
        a[:4], b[:4] = [0, 1, 1, np.nan], [1, 1, 2, np.nan]
        found, expected = simulate(k, a, b, empty((1024,), "f32"))[2], a / b
        usual = ~(expected < 2.0**-100) | (expected == 0)
        np.testing.assert_array_equal(found[usual], expected[usual])
        small = expected[~usual]  # whose remainders are denormal
        assert (np.abs(found[~usual] - small) <= np.maximum(np.spacing(small), np.float32(2.0**-148))).all()


@pytest.mark.parametrize("elem", ["f16", "bf16"])
@pytest.mark.parametrize("size", [1024, 128])
def test_floats_rounded_to_16_bits_and_wanted_as_floats(elem: str, size: int) -> None:
    """Two at a time, where a thread has two: one by one, the assembler moves them into products of warpgroups (C7514)."""
    k = kernel([((size,), "f32")], [((size,), "f32"), ((size,), elem)], f"""
%y1 = arith.truncf %x0 : tensor<{size}xf32> to tensor<{size}x{elem}>
%y0 = arith.extf %y1 : tensor<{size}x{elem}> to tensor<{size}xf32>""")
    special = [0.0, -0.0, 65519.0, 65520.0, -1e30, 3.4e38, np.inf, -np.inf, 1e-8, 6e-5, 1e-40, 1 + 2**-11, 1 + 2**-9]
    x = np.resize(np.concatenate([np.array(special, np.float32), some((115,), "f32")]), size)
    check(k, x, empty((size,), "f32"), np.zeros(size, DTYPES[elem]))
    pairs = k.ptx().count(f"cvt.rn.{elem}x2.f32")
    assert pairs == size // 256
    assert bool(pairs) != (f"cvt.rn.{elem}.f32" in k.ptx())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize(("op", "elem"), [*itertools.product(["sitofp", "uitofp"], ["f16", "bf16"])])
def test_integers_become_16_bit_floats_rounded_once(op: str, elem: str, bits: int) -> None:
    k = kernel([((512,), f"i{bits}")], [((512,), elem)], f"%y0 = arith.{op} %x0 : tensor<512xi{bits}> to tensor<512x{elem}>")
    rng = np.random.default_rng(bits)
    near = [sign * ((1 << e) + d) for e in range(bits - 1) for d in (-1, 0, 1) for sign in (1, -1)]
    ties = [2049, 2051, 2056, 2072, 257, 259, 0x8004, 0x8004 << 8, 65519, 65520, 70000]
    x = np.array([*near, *ties, *rng.integers(-(1 << 62), 1 << 62, 512)][:512]).astype(np.int64)
    x = x.astype(f"int{bits}")
    numbers = [int(number) for number in (x if op == "sitofp" else x.view(f"uint{bits}"))]
    precision = {"f16": 11, "bf16": 8}[elem]
    with np.errstate(over="ignore"):
        expected = np.array([_rounded(number, precision) for number in numbers]).astype(DTYPES[elem])
    for target in ("sm_80", "sm_90a"):
        np.testing.assert_array_equal(simulate(k, x, np.zeros(512, DTYPES[elem]), target=target)[1], expected)
    assert "f64" not in k.ptx() or (bits == 64 and elem == "bf16")


def _rounded(number: int, precision: int) -> float:
    """To nearest even, by integers."""
    dropped = max(abs(number).bit_length() - precision, 0)
    size, rest = divmod(abs(number), 1 << dropped)
    size += 2 * rest > 1 << dropped or (2 * rest == 1 << dropped and size % 2 == 1)
    return float((size << dropped) * (-1 if number < 0 else 1))


@pytest.mark.parametrize("op", ["shli", "shrui", "shrsi"])
def test_64_bits_are_shifted_by_64_bits(op: str) -> None:
    """LLVM's back end takes a guarded shift for the bounded one of PTX, which has 32 bits of the amount."""
    k = kernel([((256,), "i64")] * 2, [((256,), "i64")], f"%y0 = arith.{op} %x0, %x1 : tensor<256xi64>")
    amounts = [0, 1, 31, 32, 63, 64, 65, (1 << 32) + 2, 1 << 32, 1 << 33, -(1 << 63), -1, (1 << 63) - 1, 1 << 40]
    y = np.resize(np.array(amounts, np.int64), 256)
    x = np.random.default_rng(9).integers(-(1 << 63), (1 << 63) - 1, 256)
    (_, _, found) = check(k, x, y, np.zeros(256, np.int64))
    far = (y < 0) | (y > 63)
    assert (found[far] == (np.where(x[far] < 0, -1, 0) if op == "shrsi" else 0)).all()


REDUCTIONS = {
    "addi": np.add, "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor, "maxsi": np.maximum,
    "minsi": np.minimum,
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", [512, 16])
@pytest.mark.parametrize("op", [*REDUCTIONS, "maxui", "minui"])
def test_warps_reduce_integers_in_one_instruction(op: str, size: int) -> None:
    """Of 16 elements a warp has two copies each, which sums must not count."""
    k = kernel([((size,), "i32")], [((), "i32")], f"""
%y0 = "tt.reduce"(%x0) <{{axis = 0 : i32}}> ({{
^bb0(%a: i32, %b: i32):
  %m = arith.{op} %a, %b : i32
  tt.reduce.return %m : i32
}}) : (tensor<{size}xi32>) -> i32""")
    x = np.random.default_rng(5).integers(-(1 << 31), 1 << 31, size).astype(np.int32)
    (_, y) = check(k, x, np.zeros(1, np.int32))
    if op in REDUCTIONS:
        assert y[0] == REDUCTIONS[op].reduce(x, dtype=np.int32)
    in_one = size == 512 or op not in ("addi", "xori")
    assert k.ptx().count("redux.sync") == in_one
    assert ("shfl" in k.ptx()) != in_one
