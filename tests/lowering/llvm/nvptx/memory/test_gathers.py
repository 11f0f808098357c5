"""tt.gather and tt.histogram as threads run them, against NumPy and the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from joinery.promotion.errors import UnsupportedError

from .....support.kernels.blocks import (
    DTYPES,
    block_type,
    check,
    empty,
    kernel,
    simulate,
    simulate_with,
    some,
)


def gather(shape, index_shape, axis: int, elem: str = "f32", index: str = "i32"):
    source, indices, result = block_type(shape, elem), block_type(index_shape, index), block_type(index_shape, elem)
    body = f"%y0 = tt.gather %x0[%x1] {{axis = {axis} : i32}} : ({source}, {indices}) -> {result}"
    return kernel([(shape, elem), (index_shape, index)], [(index_shape, elem)], body)


def indices(shape, bound: int, elem: str = "i32"):
    return np.random.default_rng(list(shape)).integers(0, bound, shape).astype(DTYPES[elem])


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("shape", "index_shape", "axis"),
    [
        ((1,), (1,), 0), ((8,), (8,), 0), ((32,), (32,), 0), ((32,), (256,), 0), ((1024,), (64,), 0), ((512,), (512,), 0),
        ((1, 32), (1, 32), 1), ((16, 16), (16, 16), 0), ((16, 16), (16, 16), 1), ((64, 32), (64, 8), 1), ((4, 64), (32, 64), 0),
        ((32, 1), (32, 4), 1), ((4, 8, 16), (4, 8, 16), 1), ((2, 32, 8), (2, 4, 8), 1),
    ],
)  # fmt: skip
def test_gathers_along_any_axis(shape: tuple[int, ...], index_shape: tuple[int, ...], axis: int) -> None:
    x, at = some(shape, "f32"), indices(index_shape, shape[axis])
    _, _, out = simulate(gather(shape, index_shape, axis), x, at, empty(index_shape, "f32"))
    np.testing.assert_array_equal(out, np.take_along_axis(x, at, axis))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("elem", ["i8", "f16", "bf16", "i64", "f64"])
@pytest.mark.parametrize("shape", [(64,), (8, 32)])
def test_elements_of_any_width(elem: str, shape: tuple[int, ...]) -> None:
    axis = len(shape) - 1
    check(gather(shape, shape, axis, elem), some(shape, elem), indices(shape, shape[axis]), empty(shape, elem))


@pytest.mark.parametrize("index", ["i8", "i16", "i64"])
def test_indices_of_any_width(index: str) -> None:
    x, at = some((128,), "f32"), indices((128,), 128, index)
    _, _, out = simulate(gather((128,), (128,), 0, "f32", index), x, at, empty((128,), "f32"))
    np.testing.assert_array_equal(out, x[at])


def test_a_gather_inside_a_warp_takes_shuffles() -> None:
    k = gather((32,), (32,), 0)
    assert "shfl.sync.idx" in k.ptx()
    assert "st.shared" not in k.ptx()
    assert "st.shared" in gather((1024,), (1024,), 0).ptx()


def test_the_source_may_be_an_expression() -> None:
    body = """%r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
    %three = arith.constant dense<3> : tensor<64xi32>
    %s = arith.muli %r, %three : tensor<64xi32>
    %g = tt.gather %s[%x0] {axis = 0 : i32} : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>
    %h = tt.gather %three[%x0] {axis = 0 : i32} : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>
    %y0 = arith.addi %g, %h : tensor<64xi32>"""
    at = indices((64,), 64)
    _, out = simulate(kernel([((64,), "i32")], [((64,), "i32")], body), at, empty((64,), "i32"))
    np.testing.assert_array_equal(out, 3 * at + 3)


# -- histograms ------------------------------------------------------------------------------


def histogram(count: int, bins: int, elem: str = "i32", masked: bool = False, out: str = "i32"):
    operands = "%x0, %m" if masked else "%x0"
    body = f"%y0 = tt.histogram {operands} : tensor<{count}x{elem}> -> tensor<{bins}x{out}>"
    if masked:
        body = f"%n = arith.constant dense<0> : tensor<{count}xi8>\n" + (
            f"%m = arith.cmpi ne, %x1, %n : tensor<{count}xi8>\n{body}"
        )
    return kernel([((count,), elem), *([((count,), "i8")] if masked else [])], [((bins,), out)], body)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("count", "bins"), [(1, 1), (2, 4), (16, 2), (32, 32), (128, 16), (1024, 256), (64, 512), (2048, 8)])
@pytest.mark.parametrize("masked", [False, True])
def test_every_element_counts_once(count: int, bins: int, masked: bool) -> None:
    values = np.random.default_rng(count).integers(-2, bins + 2, count).astype(np.int32)
    mask = (np.arange(count) % 3 != 0).astype(np.int8)
    arrays = [values, mask] if masked else [values]
    found = check(histogram(count, bins, masked=masked), *arrays, empty((bins,), "i32"))
    inside = values[(values >= 0) & (values < bins) & (mask.astype(bool) | (not masked))]
    np.testing.assert_array_equal(found[-1], np.bincount(inside, minlength=bins))


@pytest.mark.parametrize(("elem", "out"), [("i8", "i32"), ("i16", "i64"), ("i64", "i32"), ("i64", "i16")])
def test_numbers_and_counts_of_any_width(elem: str, out: str) -> None:
    values = some((256,), elem)
    values[:3] = np.iinfo(DTYPES[elem]).max
    check(histogram(256, 256, elem, out=out), values, empty((256,), out))


def test_two_histograms_share_the_buffer() -> None:
    body = """%a = tt.histogram %x0 : tensor<512xi32> -> tensor<64xi32>
    %b = tt.histogram %a : tensor<64xi32> -> tensor<64xi32>
    %y0 = arith.addi %a, %b : tensor<64xi32>"""
    values = np.random.default_rng(1).integers(0, 64, 512).astype(np.int32)
    check(kernel([((512,), "i32")], [((64,), "i32")], body), values, empty((64,), "i32"))


def test_counts_of_one_bit_are_refused() -> None:
    body = """%h = tt.histogram %x0 : tensor<32xi32> -> tensor<2xi1>
    %y0 = arith.extui %h : tensor<2xi1> to tensor<2xi32>"""
    with pytest.raises(UnsupportedError, match="counts of i1"):
        kernel([((32,), "i32")], [((2,), "i32")], body).ptx()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("warps", [1, 2, 8])
@pytest.mark.parametrize(("shape", "axis"), [((64,), 0), ((1024,), 0), ((16, 8), 0)])
def test_programs_of_other_sizes(warps: int, shape: tuple[int, ...], axis: int) -> None:
    x, where = some(shape, "f32"), indices(shape, shape[axis])
    _, _, out = simulate_with(gather(shape, shape, axis), warps, x, where, empty(shape, "f32"))
    np.testing.assert_array_equal(out, np.take_along_axis(x, where, axis))
    values = indices((512,), 64)
    _, counts = simulate_with(histogram(512, 64), warps, values, empty((64,), "i32"))
    np.testing.assert_array_equal(counts, np.bincount(values, minlength=64))
