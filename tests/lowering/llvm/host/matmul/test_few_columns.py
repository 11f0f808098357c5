"""Products with few columns, or few rows of a transposed matrix, whose lanes lie along k: beside NumPy in float64."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.host_stages import compile_object
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.host.matmul.skinny import FewColumns
from joinery.lowering.llvm.module import module_of
from joinery.lowering.target import HostTarget
from joinery.promotion.arrays import Array
from joinery.runtime.native.linking import link

from .....support.fenced_arrays import Fenced, fenced
from .....support.tiers import both_tiers, share

AVX2 = frozenset(("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "popcnt", "sse4.1", "sse4.2"))
TARGETS = {
    "short": HostTarget(host_target().triple, "haswell", AVX2, 16),
    "avx2": HostTarget(host_target().triple, "haswell", AVX2, 32),
    "host": host_target(),
}  # fmt: skip
ROWS, COLUMNS, DEPTHS = (1, 2, 3, 7, 8, 9, 300), (2, 3, 4, 5, 7, 8), (16, 31, 32, 33, 64, 109, 513, 1100)
CASES = list(itertools.product(ROWS, COLUMNS, DEPTHS, ("plain", "turned", "both"), ("float32", "float64")))


def numbers(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


def product(dtype: str, x: Any, w: Any, turned: bool, swapped: bool = False, **options: Any) -> jn.Model:
    """Returns x @ w, or x @ w.T, of the shapes; the transposed product, if it is swapped."""
    graph = jn.Graph("g", [jn.TensorType(dtype, x, "x"), jn.TensorType(dtype, w, "w")])
    left, right = graph.inputs
    right = right.T if turned else right
    graph.output(right.T @ left.T if swapped else left @ right)
    return jn.compile(graph, "cpu", cache=False, **options)


@pytest.mark.slow
@both_tiers
def test_any_sizes(in_full: bool) -> None:
    """All values are exact, so that every order of sums gives the same. Matrices end where memory does."""
    for rows, columns, depth, kind, dtype in share(CASES, 3, 60, in_full):
        x = numbers(rows, depth, dtype=dtype)
        w = numbers(*((depth, columns) if kind == "plain" else (columns, depth)), dtype=dtype)
        (one, _first), (other, _second) = fenced(x), fenced(w)
        model = product(dtype, x.shape, w.shape, kind != "plain", kind == "both", threads=1 + rows % 2)
        expected = x.astype(np.float64) @ (w if kind == "plain" else w.T)
        found = model(one, other)
        assert np.array_equal(found, expected.T if kind == "both" else expected), (rows, columns, depth, kind, dtype)


def test_the_product_is_formed_along_k() -> None:
    """For few columns of many steps: not for more columns, nor for fewer steps, nor where the order of sums is given."""
    def called(columns: int, depth: int, **options: Any) -> bool:
        model = product("float32", (64, depth), (depth, columns), False, **options)
        return any("@jn_few_columns_" in kernel.llvm_ir for kernel in model.kernels)

    assert called(4, 32)
    assert not called(9, 64)
    assert not called(4, 4)
    assert not called(4, 64, numerics="reproducible")


def test_rows_do_not_depend_on_their_position() -> None:
    row = np.random.default_rng(0).standard_normal(777).astype(np.float32)
    w = np.random.default_rng(1).standard_normal((777, 3)).astype(np.float32)
    found = product("float32", (23, 777), w.shape, False)(np.tile(row, (23, 1)), w)
    assert (found == found[0]).all()


def test_symbolic_sizes_and_a_sum_that_is_added_to() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", ("m", "k"), "x"), jn.TensorType("float32", ("k", 4), "w")])
    x, w = graph.inputs
    graph.output(jn.relu(x @ w + 1))
    model = jn.compile(graph, "cpu", cache=False)
    for m, k in ((1, 1), (5, 15), (64, 700), (129, 1030), (3, 0)):
        a, b = numbers(m, k), numbers(k, 4)
        np.testing.assert_array_equal(model(a, b), np.maximum(a @ b + 1, 0))


def test_infinities_stay_in_their_rows_and_columns() -> None:
    x, w = numbers(20, 100), numbers(100, 3)
    x[3, 99], w[50, 1], x[7, 0] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(product("float32", x.shape, w.shape, False)(x, w), x @ w)


def test_convolutions_to_few_channels() -> None:
    """Rows are windows, which begin anywhere."""
    for channels, filters in ((32, 3), (40, 2), (64, 8)):
        x, w = numbers(1, 9, 11, channels), numbers(3, 3, channels, filters)
        graph = jn.Graph("g", [jn.TensorType("float32", x.shape, "x"), jn.TensorType("float32", w.shape, "w")])
        graph.output(jn.conv(*graph.inputs, padding=1))
        wide = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
        windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))
        expected = np.einsum("nhwcij,ijcf->nhwf", windows, w)
        np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x, w), expected)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", TARGETS)
def test_every_width_of_registers(name: str) -> None:
    """The function by itself: no element is read or written but those of the product, and sums are added to, or not."""
    target = TARGETS[name]
    if not target.is_x86 or not target.features <= host_target().features:
        pytest.skip(f"no {name}")
    for (element, dtype), columns in itertools.product((("float", np.float32), ("double", np.float64)), (2, 3, 8)):
        lanes = target.vector_bytes // np.dtype(dtype).itemsize
        if columns > lanes:
            continue
        for gathered in (False, True):
            panel = FewColumns(element, lanes, columns, target.registers, gathered)
            code = link([compile_object(module_of(panel), target)], (panel.name,), {})
            kinds = {"ptr": ctypes.c_void_p, "i1": ctypes.c_bool, "i64": ctypes.c_int64}
            run = ctypes.CFUNCTYPE(None, *[kinds[type_] for type_, _ in panel.parameters])(code[panel.name])
            counts = (0, 1, panel.height, 2 * panel.height + 1)
            for rows, depth, accumulate in itertools.product(counts, (1, 2 * lanes + 3), (0, 1)):
                x, w = numbers(rows + 2, depth + 3).astype(dtype), numbers(columns, depth).astype(dtype)
                start = np.full((rows + 1, columns + 1), 5, dtype)
                order = np.random.default_rng(rows).permutation(rows).astype(np.int64) if gathered else np.arange(rows)
                result, right = start.copy(), Fenced(w)
                left = Fenced(x[: max(rows, 1)].ravel()[: max(rows - 1, 0) * (depth + 3) + depth])  # the last row ends early
                offsets = np.ascontiguousarray(order * (depth + 3))
                run(left.address, offsets.ctypes.data if gathered else depth + 3, right.address, depth, result.ctypes.data,
                    columns + 1, rows, depth, bool(accumulate))  # fmt: skip
                expected = start.copy()
                expected[:rows, :columns] = x[order][:, :depth] @ w.T + 5 * accumulate
                np.testing.assert_array_equal(result, expected)


def test_one_column_of_a_few_is_read() -> None:
    text = """
__global__ void f(float *z, float *x, float *y) {
  int i[16] = 0 ... 16, j[COLUMNS] = 0 ... COLUMNS, k[64] = 0 ... 64;
  float a[16, 64] = *(x + i[:, newaxis] * 64 + k[newaxis, :]);
  float b[64, COLUMNS] = *(y + k[:, newaxis] * COLUMNS + j[newaxis, :]);
  float c[16, COLUMNS] = a @ b;
  *?(j[newaxis, :] < LIVE)(z + i[:, newaxis] * COLUMNS + j[newaxis, :]) = c;
}
"""
    for columns, live in ((2, 1), (4, 1), (4, 3), (8, 1)):
        kernel = jn.kernel.from_triton_c(text, {"COLUMNS": columns, "LIVE": live})
        x, y, z = numbers(16, 64), numbers(64, columns), np.full((16, columns), 9, np.float32)
        kernel.launch((1,), z, x, y)
        np.testing.assert_array_equal(z[:, :live], (x @ y)[:, :live])
        assert (z[:, live:] == 9).all()
