"""Programs of one row each, many rows to a thread: softmax and layer norm of any length, and where programs stand in a grid."""

from __future__ import annotations

import itertools
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.promotion.arrays import Array

from .....support.tiers import both_tiers, share

TEXTS = Path(__file__).resolve().parents[5] / "benchmarks/kernels"
SIZES = (1, 3, 15, 16, 17, 31, 33, 64, 1000, 1025, 4096)
GRIDS = (1, 2, 3, 5, 7, 1023)


@pytest.fixture(scope="module")
def softmax() -> jn.Kernel:
    return jn.kernel.from_ttir(TEXTS / "softmax.ttir")


@pytest.fixture(scope="module")
def layer_norm() -> jn.Kernel:
    return jn.kernel.from_ttir(TEXTS / "layer_norm.ttir")


def rows(count: int, n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(count, n)).astype(np.float32)


def spoilt(x: Array) -> Array:
    """Rows that masks, overflow and NaN leave: -inf in some places, or everywhere; far below the others; NaN."""
    x = x.copy()
    x[0, ::2] = -np.inf
    x[1 % len(x), 1::3] -= 200
    x[2 % len(x), -1:] = -60  # a quotient too small for the quick way
    x[3 % len(x)] = -np.inf
    x[4 % len(x), :1] = np.nan
    x[5 % len(x), :1] = np.inf
    return x


def softmax_of(x: Array) -> Array:
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        power = np.exp(wide - np.fmax.reduce(wide, axis=1, keepdims=True))
        return power / power.sum(axis=1, keepdims=True)


@pytest.mark.slow
@both_tiers
def test_softmax_of_any_length(softmax: jn.Kernel, in_full: bool) -> None:
    for n, grid in share(list(itertools.product(SIZES, GRIDS)), 0, 5, in_full):
        for x in (rows(grid, n, n), spoilt(rows(grid, n, n))):
            found = [np.full_like(x, 7) for _ in range(3)]
            softmax.launch((grid,), x, found[0], n, threads=1)
            softmax.launch((grid,), x, found[1], n, threads=2)
            softmax.launch((grid,), x, found[2], n, threads=1, check_bounds=True)
            np.testing.assert_allclose(found[0], softmax_of(x), rtol=2e-6, atol=1e-45)
            for other in found[1:]:
                np.testing.assert_array_equal(other, found[0])


def test_softmax_as_the_interpreter_has_it(softmax: jn.Kernel) -> None:
    for n, grid in ((1, 2), (3, 7), (33, 5), (1000, 3), (1025, 2)):
        x = spoilt(rows(grid, n))
        native, interpreted = np.zeros_like(x), np.zeros_like(x)
        softmax.launch((grid,), x, native, n)
        softmax.interpret((grid,), x, interpreted, n)
        np.testing.assert_allclose(native, interpreted, rtol=2e-6, atol=1e-45)


@both_tiers
def test_layer_norm_of_any_length(layer_norm: jn.Kernel, in_full: bool) -> None:
    for n, grid in share(list(itertools.product(SIZES, GRIDS)), 1, 5, in_full):
        x, w, b = rows(grid, n), rows(1, n, 1)[0], rows(1, n, 2)[0]
        found = [np.full_like(x, 7) for _ in range(2)]
        for threads, o in zip((1, 2), found, strict=True):
            layer_norm.launch((grid,), x, w, b, o, n, 1e-3, threads=threads)
        wide = x.astype(np.float64)
        scale = 1 / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-3)
        np.testing.assert_allclose(found[0], (wide - wide.mean(axis=1, keepdims=True)) * scale * w + b, rtol=2e-4, atol=2e-4)
        np.testing.assert_array_equal(found[1], found[0])


@pytest.mark.parametrize("n", [3, 64, 1000])
def test_rows_in_place(softmax: jn.Kernel, n: int) -> None:
    x = rows(5, n)
    expected = np.zeros_like(x)
    softmax.launch((5,), x, expected, n)
    softmax.launch((5,), x, x, n)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("n", [3, 64, 1000])
def test_rows_that_are_read_after_they_were_written(softmax: jn.Kernel, n: int) -> None:
    """Program i writes what program i + 1 reads: on one thread, programs run one after the other."""
    memory = np.concatenate([rows(1, n), np.zeros((6, n), np.float32)])
    expected = memory.copy()
    for i in range(6):
        expected[i + 1] = softmax_of(expected[i : i + 1])[0]
    softmax.launch((6,), memory[:6], memory[1:], n, threads=1)
    np.testing.assert_allclose(memory, expected, rtol=2e-5)


WHERE = """
module { tt.func public @where(%o: !tt.ptr<i32>) {
  %x = tt.get_program_id x : i32
  %y = tt.get_program_id y : i32
  %z = tt.get_program_id z : i32
  %nx = tt.get_num_programs x : i32
  %ny = tt.get_num_programs y : i32
  %a = arith.muli %z, %ny : i32
  %b = arith.addi %a, %y : i32
  %c = arith.muli %b, %nx : i32
  %d = arith.addi %c, %x : i32
  %hundred = arith.constant 100 : i32
  %e = arith.muli %z, %hundred : i32
  %f = arith.addi %e, %y : i32
  %g = arith.muli %f, %hundred : i32
  %h = arith.addi %g, %x : i32
  %p = tt.addptr %o, %d : !tt.ptr<i32>, i32
  tt.store %p, %h : !tt.ptr<i32>
  tt.return
} }
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_where_programs_stand(threads: int) -> None:
    kernel = jn.kernel.from_ttir(WHERE)
    for x, y, z in ((1, 1, 1), (3, 5, 2), (1, 1, 7), (1, 9, 1), (67, 3, 2), (2, 1, 31)):
        found = np.full((z, y, x), -1, np.int32)
        kernel.launch((x, y, z), found, threads=threads)
        k, j, i = np.indices((z, y, x))
        np.testing.assert_array_equal(found, k * 10_000 + j * 100 + i)
    kernel.launch((0, 3, 2), np.zeros(1, np.int32), threads=threads)
