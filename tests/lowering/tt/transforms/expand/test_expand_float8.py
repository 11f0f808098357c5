"""Arithmetic on 8-bit floats against ml_dtypes: every pair of operands on the host, a sample of them on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

from .....support.tiers import each

FORMATS = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip


def larger(numpy: Callable[[Any, Any], Any], sign: int) -> Callable[[Any, Any], Any]:
    """NumPy's function, with +0 above -0, about which it says nothing."""
    return lambda x, y: np.where((x == 0) & (y == 0), np.where(np.signbit(x) == (sign < 0), x, y), numpy(x, y))


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.maximumf": larger(np.maximum, 1), "arith.minimumf": larger(np.minimum, -1), "arith.maxnumf": larger(np.fmax, 1),
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "arith.negf": np.negative, "math.absf": np.abs, "math.sqrt": np.sqrt, "math.exp": np.exp,
}  # fmt: skip
TEXT = """
tt.func public @k(%x: !tt.ptr<F8>, %z: !tt.ptr<F8>, %y: !tt.ptr<OUT>) {
  %p = tt.get_program_id x : i32
  %c = arith.constant 256 : i32
  %s = arith.muli %p, %c : i32
  %ss = tt.splat %s : i32 -> tensor<256xi32>
  %r0 = tt.make_range {start = 0 : i32, end = 256 : i32} : tensor<256xi32>
  %r = arith.addi %r0, %ss : tensor<256xi32>
  %xs = tt.splat %x : !tt.ptr<F8> -> tensor<256x!tt.ptr<F8>>
  %xp = tt.addptr %xs, %r : tensor<256x!tt.ptr<F8>>, tensor<256xi32>
  %v = tt.load %xp : tensor<256x!tt.ptr<F8>>
  %zs = tt.splat %z : !tt.ptr<F8> -> tensor<256x!tt.ptr<F8>>
  %zp = tt.addptr %zs, %r : tensor<256x!tt.ptr<F8>>, tensor<256xi32>
  %u = tt.load %zp : tensor<256x!tt.ptr<F8>>
  %ys = tt.splat %y : !tt.ptr<OUT> -> tensor<256x!tt.ptr<OUT>>
  %yp = tt.addptr %ys, %r : tensor<256x!tt.ptr<OUT>>, tensor<256xi32>
  %w = OP
  tt.store %yp, %w : tensor<256x!tt.ptr<OUT>>
  tt.return
}
"""
BYTES = np.arange(256, dtype=np.uint8)


def kernel(operation: str, format_: str, out: str = "") -> Any:
    return jn.kernel.from_ttir(TEXT.replace("OP", operation).replace("OUT", out or format_).replace("F8", format_))


def check(found: Any, expected: Any) -> None:
    """Equal bits, or NaN both."""
    same = found.view(np.uint8) == expected.view(np.uint8)
    nan = np.isnan(found.astype(np.float32)) & np.isnan(expected.astype(np.float32))
    assert (same | nan).all(), np.flatnonzero(~(same | nan))[:5]


def computed(function: Callable[..., Any], dtype: Any, *operands: Any) -> Any:
    """The function in float32, rounded once."""
    with np.errstate(all="ignore"):
        return function(*[x.astype(np.float32) for x in operands]).astype(dtype)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("format_", "operation"), each(list(FORMATS), list(BINARY)))
def test_every_pair(format_: str, operation: str) -> None:
    dtype = FORMATS[format_]
    k = kernel(f"{operation} %v, %u : tensor<256x{format_}>", format_)
    x, z = np.repeat(BYTES, 256).view(dtype), np.tile(BYTES, 256).view(dtype)
    y = np.zeros_like(x)
    k.launch(256, x, z, y)
    check(y, computed(BINARY[operation], dtype, x, z))
    some = np.random.default_rng(0).permutation(len(x))[:256]
    y = np.zeros(256, dtype)
    k.launch(1, x[some], z[some], y, device="ptxsim", target="sm_90a")
    check(y, computed(BINARY[operation], dtype, x[some], z[some]))


@pytest.mark.parametrize(("format_", "operation"), each(list(FORMATS), list(UNARY)))
def test_every_value(format_: str, operation: str) -> None:
    dtype = FORMATS[format_]
    x = BYTES.view(dtype)
    for device in ("cpu", "ptxsim"):
        y = np.zeros_like(x)
        kernel(f"{operation} %v : tensor<256x{format_}>", format_).launch(1, x, x, y, device=device)
        check(y, computed(UNARY[operation], dtype, x))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("format_", FORMATS)
def test_comparisons_and_casts(format_: str) -> None:
    dtype = FORMATS[format_]
    x, z = BYTES.view(dtype), BYTES[::-1].copy().view(dtype)
    wide = x.astype(np.float32), z.astype(np.float32)
    cases = {"olt": wide[0] < wide[1], "une": wide[0] != wide[1], "uno": np.isnan(wide[0]) | np.isnan(wide[1])}
    for predicate, expected in cases.items():
        y = np.zeros(256, np.int8)
        compared = f"%t = arith.cmpf {predicate}, %v, %u : tensor<256x{format_}>\n  "
        extended = "%w = arith.extui %t : tensor<256xi1> to tensor<256xi8>"
        text = TEXT.replace("%w = OP", compared + extended).replace("OUT", "i8").replace("F8", format_)
        jn.kernel.from_ttir(text).launch(1, x, z, y)
        np.testing.assert_array_equal(y, expected)
    y32 = np.zeros(256, np.int32)
    kernel(f"arith.fptosi %v : tensor<256x{format_}> to tensor<256xi32>", format_, "i32").launch(1, x, z, y32)
    whole = np.nan_to_num(wide[0].astype(np.float64), nan=0.0, posinf=2**31 - 1, neginf=-(2**31))
    np.testing.assert_array_equal(y32, np.trunc(whole))


def test_an_unknown_format_of_eight_bits_is_no_internal_error() -> None:
    k = kernel("arith.addf %v, %u : tensor<256xf8E8M0FNU>", "f8E8M0FNU")
    x = np.full(256, 127, np.uint8)
    y = np.zeros(256, np.uint8)
    k.launch(1, x, x, y)
    np.testing.assert_array_equal(y, 128)


def test_sums_of_rows_round_every_step() -> None:
    text = """
tt.func public @k(%x: !tt.ptr<f8E5M2>, %y: !tt.ptr<f8E5M2>) {
  %r = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  %xs = tt.splat %x : !tt.ptr<f8E5M2> -> tensor<16x!tt.ptr<f8E5M2>>
  %xp = tt.addptr %xs, %r : tensor<16x!tt.ptr<f8E5M2>>, tensor<16xi32>
  %v = tt.load %xp : tensor<16x!tt.ptr<f8E5M2>>
  %s = "tt.reduce"(%v) <{axis = 0 : i32}> ({
  ^bb0(%a: f8E5M2, %b: f8E5M2):
    %c = arith.maximumf %a, %b : f8E5M2
    tt.reduce.return %c : f8E5M2
  }) : (tensor<16xf8E5M2>) -> f8E5M2
  tt.store %y, %s : !tt.ptr<f8E5M2>
  tt.return
}
"""
    x = np.random.default_rng(1).normal(size=16).astype(ml_dtypes.float8_e5m2)
    for device in ("cpu", "ptxsim"):
        y = np.zeros(1, ml_dtypes.float8_e5m2)
        jn.kernel.from_ttir(text).launch(1, x, y, device=device)
        assert float(y[0]) == float(x.astype(np.float32).max())


def test_the_check_can_fail() -> None:
    with pytest.raises(AssertionError):
        check(np.zeros(2, ml_dtypes.float8_e5m2), np.ones(2, ml_dtypes.float8_e5m2))
