"""Reductions of masked blocks: what lies beyond the mask counts as what the load says, whether it is visited or not."""

from __future__ import annotations

import math

import numpy as np
import pytest

ROWS, COLUMNS = 32, 64
KINDS = {
    "addf": ("f32", np.add, 0.0), "mulf": ("f32", np.multiply, 1.0), "maximumf": ("f32", np.maximum, -math.inf),
    "minimumf": ("f32", np.minimum, math.inf), "maxnumf": ("f32", np.fmax, -math.inf), "minnumf": ("f32", np.fmin, math.inf),
    "addi": ("i32", np.add, 0), "muli": ("i32", np.multiply, 1), "maxsi": ("i32", np.maximum, -(2**31)),
    "minsi": ("i32", np.minimum, 2**31 - 1), "andi": ("i32", np.bitwise_and, -1), "ori": ("i32", np.bitwise_or, 0),
    "xori": ("i32", np.bitwise_xor, 0),
}  # fmt: skip


def number(value: float, elem: str) -> str:
    if elem == "i32":
        return str(int(value))
    return f"0x{np.float32(value).view(np.uint32):08X}"


def kernel(kind: str, axis: int, other: float, function: str = "") -> str:
    """Reduces f(x) of a block of 32 × 64 whose columns (axis 1) or rows (axis 0) are masked; f works on the block %v."""
    elem = KINDS[kind][0]
    along, across = (COLUMNS, ROWS) if axis else (ROWS, COLUMNS)
    extent = f"1x{along}" if axis else f"{along}x1"
    block = f"tensor<{ROWS}x{COLUMNS}x"
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<{elem}>, %o: !tt.ptr<{elem}>, %n: i32) {{
    %r = tt.make_range {{end = {ROWS} : i32, start = 0 : i32}} : tensor<{ROWS}xi32>
    %c = tt.make_range {{end = {COLUMNS} : i32, start = 0 : i32}} : tensor<{COLUMNS}xi32>
    %r2 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<{ROWS}xi32> -> tensor<{ROWS}x1xi32>
    %c2 = tt.expand_dims %c {{axis = 0 : i32}} : tensor<{COLUMNS}xi32> -> tensor<1x{COLUMNS}xi32>
    %w = arith.constant dense<{COLUMNS}> : tensor<{ROWS}x1xi32>
    %rw = arith.muli %r2, %w : tensor<{ROWS}x1xi32>
    %ra = tt.broadcast %rw : tensor<{ROWS}x1xi32> -> {block}i32>
    %ca = tt.broadcast %c2 : tensor<1x{COLUMNS}xi32> -> {block}i32>
    %at = arith.addi %ra, %ca : {block}i32>
    %bx = tt.splat %x : !tt.ptr<{elem}> -> {block}!tt.ptr<{elem}>>
    %px = tt.addptr %bx, %at : {block}!tt.ptr<{elem}>>, {block}i32>
    %limit = tt.splat %n : i32 -> tensor<{extent}xi32>
    %inside = arith.cmpi slt, {"%c2" if axis else "%r2"}, %limit : tensor<{extent}xi32>
    %mask = tt.broadcast %inside : tensor<{extent}xi1> -> {block}i1>
    %other = arith.constant dense<{number(other, elem)}> : {block}{elem}>
    %v = tt.load %px, %mask, %other : {block}!tt.ptr<{elem}>>
    {function}
    %s = "tt.reduce"({"%y" if function else "%v"}) <{{axis = {axis} : i32}}> ({{
    ^bb0(%l: {elem}, %m: {elem}):
      %t = arith.{kind} %l, %m : {elem}
      tt.reduce.return %t : {elem}
    }}) : ({block}{elem}>) -> tensor<{across}x{elem}>
    %i = tt.make_range {{end = {across} : i32, start = 0 : i32}} : tensor<{across}xi32>
    %bo = tt.splat %o : !tt.ptr<{elem}> -> tensor<{across}x!tt.ptr<{elem}>>
    %po = tt.addptr %bo, %i : tensor<{across}x!tt.ptr<{elem}>>, tensor<{across}xi32>
    tt.store %po, %s : tensor<{across}x!tt.ptr<{elem}>>
    tt.return
  }}
}}
"""


def numbers(elem: str) -> np.ndarray:
    """Whole numbers: their sums and products are exact in any order."""
    rng = np.random.default_rng(5)
    if elem == "i32":
        return rng.integers(-(2**31), 2**31, (ROWS, COLUMNS)).astype(np.int32)
    return rng.choice(np.array([-2, -1, 1, 2], np.float32), (ROWS, COLUMNS))


def masked(x: np.ndarray, axis: int, n: int, other: float) -> np.ndarray:
    inside = np.arange(x.shape[axis]) < n
    return np.where(inside if axis else inside[:, None], x, np.asarray(other).astype(x.dtype))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_every_combination(agree, kind: str, axis: int) -> None:
    elem, ufunc, neutral = KINDS[kind]
    x = numbers(elem)
    length = (ROWS, COLUMNS)[1 - axis]
    others = [neutral, 3] if elem == "i32" else [neutral, 0.0, 2.0]
    for other in others:
        text = kernel(kind, axis, other)
        for n in (-5, 0, 1, 7, 16, 31, 32, 33, 64, 100):
            found = agree(text, 1, x, np.zeros(length, x.dtype), n)[1]
            with np.errstate(all="ignore"):
                expected = ufunc.reduce(masked(x, axis, n, other), axis).astype(x.dtype)
            np.testing.assert_array_equal(found, expected, err_msg=f"other {other}, n {n}")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["maximumf", "minimumf", "maxnumf", "minnumf", "addf"])
@pytest.mark.parametrize("other", [math.nan, 0.0])
def test_not_a_number(agree, kind: str, axis: int, other: float) -> None:
    """NaN among the values, as all of them, and beyond the mask."""
    _, ufunc, _ = KINDS[kind]
    x = numbers("f32")
    x[3, :] = math.nan
    x[:, 5] = math.nan
    x[7, 9] = math.nan
    length = (ROWS, COLUMNS)[1 - axis]
    text = kernel(kind, axis, other)
    for n in (0, 3, 6, 40, 64):
        found = agree(text, 1, x, np.zeros(length, x.dtype), n)[1]
        with np.errstate(all="ignore"):
            expected = ufunc.reduce(masked(x, axis, n, other), axis)
        np.testing.assert_array_equal(found, expected, err_msg=f"n {n}")


@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_computed_beyond_the_mask(agree, axis: int) -> None:
    """exp of what lies there is 0 if that is -inf, and counts otherwise."""
    block = f"tensor<{ROWS}x{COLUMNS}xf32>"
    function = f"%e = arith.mulf %v, %v : {block}\n %y = arith.subf %e, %v : {block}"
    x = numbers("f32")
    length = (ROWS, COLUMNS)[1 - axis]
    for other, n in [(0.0, 9), (3.0, 9), (1.0, 0), (2.0, 64)]:
        found = agree(kernel("addf", axis, other, function), 1, x, np.zeros(length, x.dtype), n)[1]
        values = masked(x, axis, n, other)
        np.testing.assert_array_equal(found, (values * values - values).sum(axis))


def test_a_select_beyond_the_mask(agree) -> None:
    """Where the select chooses by the same mask, its other arm counts."""
    block = f"tensor<{ROWS}x{COLUMNS}x"
    function = f"""%k = arith.constant dense<5.000000e-01> : {block}f32>
    %y = arith.select %mask, %v, %k : {block}i1>, {block}f32>"""
    x = numbers("f32")
    for n in (0, 10, 64):
        found = agree(kernel("addf", 1, 9.0, function), 1, x, np.zeros(ROWS, x.dtype), n)[1]
        np.testing.assert_array_equal(found, masked(x, 1, n, 0.5).sum(1))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("other", [0.0, -0.0])
def test_signs_of_sums_of_zeros(agree, axis: int, other: float) -> None:
    """Terms that are all -0.0 add up to -0.0, and one +0.0 among them, beyond the mask too, makes that 0.0."""
    block = f"tensor<{ROWS}x{COLUMNS}x"
    functions = {
        "": "the load's own",
        f"%k = arith.constant dense<2.0> : {block}f32>\n %y = arith.mulf %v, %k : {block}f32>": "computed",
        f"%k = arith.constant dense<0.0> : {block}f32>\n %y = arith.select %mask, %v, %k : {block}i1>, {block}f32>": "chosen",
        f"%k = arith.constant dense<-0.0> : {block}f32>\n %y = arith.select %mask, %v, %k : {block}i1>, {block}f32>": "neutral",
    }
    x = np.full((ROWS, COLUMNS), -0.0, np.float32)
    length = (ROWS, COLUMNS)[1 - axis]
    for function, what in functions.items():
        text = kernel("addf", axis, other, function)
        beyond = {"chosen": 0.0, "neutral": -0.0}.get(what, other)
        for n in (0, 1, 16, 31, 32, 64):
            found = agree(text, 1, x, np.ones(length, x.dtype), n)[1]
            only = n >= x.shape[axis] or math.copysign(1, beyond) < 0
            np.testing.assert_array_equal(np.signbit(found), only, err_msg=f"{what}, n {n}")
