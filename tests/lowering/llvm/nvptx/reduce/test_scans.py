"""tt.scan as threads run it, against NumPy and the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from .....support.kernels.blocks import block_type, check, empty, kernel, simulate, simulate_with, some


def scan(shape, elems, axis: int, region: str, reverse: bool = False):
    """A kernel that scans one block for each element type."""
    sources = ", ".join(f"%x{n}" for n in range(len(elems)))
    arguments = ", ".join(f"%{side}{n}: {elem}" for side in "ab" for n, elem in enumerate(elems))
    types = ", ".join(block_type(shape, elem) for elem in elems)
    results = types if len(elems) == 1 else f"({types})"
    where = f"axis = {axis} : i32, reverse = {str(reverse).lower()}"
    lines = [f'%y:{len(elems)} = "tt.scan"({sources}) <{{{where}}}> ({{', f"^bb0({arguments}):", region]
    lines.append(f"}}) : ({types}) -> {results}")
    lines += [f"%y{n} = arith.select %true, %y#{n}, %y#{n} : i1, {block_type(shape, elem)}" for n, elem in enumerate(elems)]
    body = "\n    ".join(["%true = arith.constant true", *lines])
    blocks = [(shape, elem) for elem in elems]
    return kernel(blocks, blocks, body)


def add(elem: str) -> str:
    name = "arith.addf" if elem[0] in "fb" else "arith.addi"
    return f"%c = {name} %a0, %b0 : {elem}\ntt.scan.return %c : {elem}"


# b ∘ a of the maps x → scale·x + shift: associative, not commutative.
COMPOSE = """%s = arith.muli %a0, %b0 : i32
    %t = arith.muli %b0, %a1 : i32
    %u = arith.addi %t, %b1 : i32
    tt.scan.return %s, %u : i32, i32"""


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((1,), 0), ((2,), 0), ((16,), 0), ((128,), 0), ((1024,), 0), ((4, 1), 1), ((1, 64), 1), ((8, 32), 0), ((8, 32), 1),
        ((64, 16), 0), ((64, 16), 1), ((2, 8, 32), 1), ((4, 16, 8), 0), ((4, 16, 8), 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("reverse", [False, True])
def test_sums_along_any_axis(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    x = some(shape, "i32")
    _, out = simulate(scan(shape, ["i32"], axis, add("i32"), reverse), x, empty(shape, "i32"))
    turned = np.flip(x, axis) if reverse else x
    sums = np.cumsum(turned, axis, dtype=np.int32)
    np.testing.assert_array_equal(out, np.flip(sums, axis) if reverse else sums)


@pytest.mark.parametrize("elem", ["i8", "i16", "i64"])
def test_integers_of_any_width_wrap(elem: str) -> None:
    check(scan((256,), [elem], 0, add(elem)), some((256,), elem), empty((256,), elem))


@pytest.mark.parametrize(("elem", "rtol"), [("f16", 0.1), ("bf16", 0.5), ("f32", 1e-4), ("f64", 1e-12)])
def test_floats_of_any_width(elem: str, rtol: float) -> None:
    check(scan((8, 64), [elem], 1, add(elem)), some((8, 64), elem), empty((8, 64), elem), rtol=rtol)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [(4,), (32,), (512,), (2, 256)])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_of_operands_is_kept(shape: tuple[int, ...], reverse: bool) -> None:
    out = [empty(shape, "i32"), empty(shape, "i32")]
    k = scan(shape, ["i32", "i32"], len(shape) - 1, COMPOSE, reverse)
    check(k, some(shape, "i32", 1) | 1, some(shape, "i32", 2), *out)


def test_operands_of_different_widths() -> None:
    """The place of the largest number so far, with it."""
    region = """%g = arith.cmpf ogt, %b0, %a0 : f64
    %m = arith.select %g, %b0, %a0 : f64
    %i = arith.select %g, %b1, %a1 : i8
    tt.scan.return %m, %i : f64, i8"""
    shape = (256,)
    values, places = some(shape, "f64"), np.arange(256).astype(np.int8)
    found = check(scan(shape, ["f64", "i8"], 0, region), values, places, empty(shape, "f64"), empty(shape, "i8"))
    np.testing.assert_array_equal(found[2], np.maximum.accumulate(values))


def test_a_region_that_branches() -> None:
    region = """%g = arith.cmpi sgt, %b0, %a0 : i32
    %m = scf.if %g -> (i32) {
      scf.yield %b0 : i32
    } else {
      scf.yield %a0 : i32
    }
    tt.scan.return %m : i32"""
    x = some((512,), "i32")
    _, out = simulate(scan((512,), ["i32"], 0, region), x, empty((512,), "i32"))
    np.testing.assert_array_equal(out, np.maximum.accumulate(x))


def test_a_scan_after_a_transpose() -> None:
    """A layout in which the axis lies elsewhere."""
    body = """%t = tt.trans %x0 {order = array<i32: 1, 0>} : tensor<16x64xi32> -> tensor<64x16xi32>
    %y0 = "tt.scan"(%t) <{axis = 0 : i32, reverse = false}> ({
    ^bb0(%a0: i32, %b0: i32):
      %c = arith.addi %a0, %b0 : i32
      tt.scan.return %c : i32
    }) : (tensor<64x16xi32>) -> tensor<64x16xi32>"""
    x = some((16, 64), "i32")
    _, out = simulate(kernel([((16, 64), "i32")], [((64, 16), "i32")], body), x, empty((64, 16), "i32"))
    np.testing.assert_array_equal(out, np.cumsum(x.T, 0, dtype=np.int32))


def test_scans_one_after_the_other() -> None:
    """Both use the buffer in shared memory."""
    body = "\n".join(
        f"""%y{n} = "tt.scan"(%{source}) <{{axis = 0 : i32, reverse = {reverse}}}> ({{
    ^bb0(%a{n}: i32, %b{n}: i32):
      %c{n} = arith.addi %a{n}, %b{n} : i32
      tt.scan.return %c{n} : i32
    }}) : (tensor<1024xi32>) -> tensor<1024xi32>"""
        for n, (source, reverse) in enumerate([("x0", "false"), ("y0", "true")])
    )
    block = ((1024,), "i32")
    check(kernel([block], [block, block], body), some((1024,), "i32"), empty((1024,), "i32"), empty((1024,), "i32"))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("warps", [1, 2, 8, 16])
@pytest.mark.parametrize("shape", [(16,), (2048,), (32, 16)])
def test_programs_of_other_sizes(warps: int, shape: tuple[int, ...]) -> None:
    x, y = some(shape, "i32", 1) | 1, some(shape, "i32", 2)
    out = [empty(shape, "i32"), empty(shape, "i32")]
    k = scan(shape, ["i32", "i32"], 0, COMPOSE, reverse=True)
    expected = [array.copy() for array in (x, y, *out)]
    k.interpret((1,), *expected)
    for found, wanted in zip(simulate_with(k, warps, x, y, *out), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_scan_in_a_loop() -> None:
    """What one turn gives, the next one takes; the buffer is used again and again."""
    body = """%zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %three = arith.constant 3 : i32
    %y0 = scf.for %i = %zero to %three step %one iter_args(%x = %x0) -> (tensor<512xi32>) : i32 {
      %s = "tt.scan"(%x) <{axis = 0 : i32, reverse = false}> ({
      ^bb0(%a0: i32, %b0: i32):
        %c = arith.addi %a0, %b0 : i32
        tt.scan.return %c : i32
      }) : (tensor<512xi32>) -> tensor<512xi32>
      scf.yield %s : tensor<512xi32>
    }"""
    x = some((512,), "i32")
    _, out = simulate(kernel([((512,), "i32")], [((512,), "i32")], body), x, empty((512,), "i32"))
    for _ in range(3):
        x = np.cumsum(x, dtype=np.int32)
    np.testing.assert_array_equal(out, x)
