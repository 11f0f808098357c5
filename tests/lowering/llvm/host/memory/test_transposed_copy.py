"""Blocks copied with their rows as columns: every size, offset and stride agrees with NumPy, and nothing else is written."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.host.memory.transposed_copy import (
    COLUMN,
    TOGETHER,
    Deinterleaving,
    Interleaving,
    TransposedCopy,
    TransposedLines,
)
from joinery.lowering.llvm.module import module_of
from joinery.promotion.errors import UserError

from .....support.native_code import HASWELL, compile_and_link, host_has_avx2
from .....support.tiers import each

RNG = np.random.default_rng(2)
EXTENTS = (0, 1, 3, 12, 16, 17, 64, 67)
SIZES, WIDTHS = (1, 2, 4, 8), (16, 32, 64)
TOGETHER_SIZES = (3, 5, 6, 7, 9, 12, 15, 16, 17, 24, 32, 45, 63)
DTYPES = ("bool", "uint8", "float16", "float32", "complex64", "float64")
CASES = (
    ((3, 17, 5), (2, 1, 0)), ((70, 3), (1, 0)), ((3, 70), (1, 0)), ((2, 197, 12), (0, 2, 1)),
    ((4, 3, 5, 16), (3, 2, 1, 0)), ((130, 67), (1, 0)), ((1, 9), (1, 0)), ((0, 5), (1, 0)),
)  # fmt: skip


def skip_unless_wide(width: int, masked: bool) -> None:
    if masked and not host_target().has("avx512bw", "avx512vl"):
        pytest.skip("needs AVX-512")
    if width == 32 and not host_has_avx2():
        pytest.skip("needs AVX2")


def check(function: Any, rows: int, columns: int, stride: int, ld: int, shift: int = 0, begin: int = 0, *,
          call: Any) -> None:  # fmt: skip
    """Runs a function between guards. shift: elements, begin: bytes from a cache line at which the result begins."""
    size = function.size
    source = RNG.integers(0, 256, (max(rows, 1) * max(stride, 1) + columns) * size, dtype=np.uint8)
    length = max(columns, 1) * ld + rows
    memory = np.full((length + shift) * size + begin + 256, 0xA5, np.uint8)
    start = -memory.ctypes.data % 64 + shift * size + begin
    wanted = memory.copy()
    typed = source.reshape(-1, size)
    target = wanted[start : start + length * size].reshape(-1, size)
    for c in range(columns):
        target[c * ld : c * ld + rows] = typed[np.arange(rows) * stride + c]
    call(source.ctypes.data, stride * size, memory.ctypes.data + start, ld * size, rows, columns)
    np.testing.assert_array_equal(memory, wanted, err_msg=f"{function} {rows} {columns} {stride} {ld} {shift} {begin}")


def linked(function: Any, cpu: str | None = None) -> Any:
    address = compile_and_link(module_of(function), [function.name], cpu)[function.name]
    integer, pointer = ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(None, pointer, integer, pointer, integer, integer, integer)(address)


@pytest.mark.parametrize(("size", "width", "masked"), each(SIZES, WIDTHS, (False, True)))
def test_every_size_of_a_block(size: int, width: int, masked: bool) -> None:
    skip_unless_wide(width, masked)
    function = TransposedCopy(size, size, width, masked, False)
    narrow = host_has_avx2() and (not masked or (width == 32 and size >= 4))
    call = linked(function, HASWELL if narrow else None)
    for rows in EXTENTS:
        for columns in EXTENTS:
            check(function, rows, columns, columns + rows % 3, rows + columns % 2, 1, call=call)


@pytest.mark.parametrize(("size", "width"), each(TOGETHER_SIZES, WIDTHS))
def test_neighbours_that_stay_together(size: int, width: int) -> None:
    skip_unless_wide(width, False)
    function = TransposedCopy(size, 1, width, width == 64 and host_target().has("avx512bw", "avx512vl"), False)
    call = linked(function, HASWELL if width < 64 and host_has_avx2() else None)
    for rows in EXTENTS[:-1]:
        for columns in (0, 1, 2, 5, 16, 17):
            check(function, rows, columns, columns + rows % 3, rows + columns % 2, 1, begin=3, call=call)


@pytest.mark.parametrize("size", SIZES)
def test_whole_lines_of_aligned_columns(size: int) -> None:
    skip_unless_wide(64, True)
    function = TransposedCopy(size, size, 64, True, True)
    call = linked(function)
    for rows, columns in ((64, 16), (64, 3), (128, 70), (67, 33), (5, 5)):
        check(function, rows, columns, columns + 1, 256, call=call)


@pytest.mark.parametrize(("size", "masked"), each(SIZES, (False, True)))
def test_columns_that_start_anywhere(size: int, masked: bool) -> None:
    skip_unless_wide(64 if masked else 32, masked)
    function = TransposedLines(size, size, 64 if masked else 32, masked)
    call = linked(function, None if masked else HASWELL if host_has_avx2() else None)
    most = COLUMN // size
    for rows, columns in ((0, 4), (1, 1), (17, 3), (most, 5), (most + 1, 18), (2 * most + 7, TOGETHER + 3)):
        for shift in (0, 1, 7):
            check(function, rows, columns, columns + 2, rows + shift, shift, call=call)
    if size > 1:
        check(function, most, 4, 5, most, 0, 1, call=call)  # between elements


@pytest.mark.parametrize(("size", "count", "streaming"), each(SIZES, (2, 3, 5, 8), (False, True)))
def test_few_lines_without_gaps(size: int, count: int, streaming: bool) -> None:
    skip_unless_wide(64, True)
    apart, together = Deinterleaving(size, size, 64, count, streaming), Interleaving(size, size, 64, count, streaming)
    one, other = linked(apart), linked(together)
    for extent in (0, 1, 17, 64, 131):
        room = -(-extent // 64) * 64
        check(apart, extent, count, count, room, call=one)
        check(together, count, extent, extent + 1, count, call=other)


def built(shape: tuple[Any, ...], dtype: str, build: Callable[[Any], Any]) -> jn.Model:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, name="x")])
    graph.output(build(graph.inputs[0]))
    return jn.compile(graph, device="cpu", cache=False)


def permuted(shape: tuple[Any, ...], order: tuple[int, ...], dtype: str) -> jn.Model:
    return built(shape, dtype, lambda x: jn.permute(x, order))


@pytest.mark.parametrize(("dtype", "case"), each(DTYPES, CASES))
def test_permutes(dtype: str, case: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, order = case
    x = RNG.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    np.testing.assert_array_equal(permuted(shape, order, dtype)(x), x.transpose(order))


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("dtype", "count"), each(("uint8", "int16", "float32", "float64"), (1, 2, 3, 4, 5, 7, 8, 13, 16, 17)))
def test_small_dimensions_that_stay_last(dtype: str, count: int) -> None:
    for shape in ((70, 33, count), (3, 130, count), (17, 2, 1, count)):
        x = RNG.integers(0, 100, shape).astype(dtype)
        order = (1, 0, *range(2, len(shape)))
        np.testing.assert_array_equal(permuted(shape, order, dtype)(x), x.transpose(order))
        turned = built(shape, dtype, lambda x, order=order: jn.permute(x, order)[::-1])
        np.testing.assert_array_equal(turned(x), x.transpose(order)[::-1])


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(64, 128), (67, 33), (1, 9), (9, 1), (2000, 1100)])
def test_quarter_turns(dtype: str, shape: tuple[int, int]) -> None:
    x = RNG.integers(0, 100, shape).astype(dtype)
    left = built(shape, dtype, lambda x: jn.permute(x, (1, 0))[::-1])
    right = built(shape, dtype, lambda x: jn.permute(x[::-1], (1, 0)))
    both = built(shape, dtype, lambda x: jn.permute(x, (1, 0))[::-1, ::-1])
    np.testing.assert_array_equal(left(x), np.rot90(x))
    np.testing.assert_array_equal(right(x), np.rot90(x, -1))
    np.testing.assert_array_equal(both(x), x.T[::-1, ::-1])


def test_neighbours_of_sizes_known_at_launch() -> None:
    model = built(("m", "n", 3), "uint8", lambda x: jn.permute(x, (1, 0, 2))[::-1])
    last = built((5, "n", "k"), "float32", lambda x: jn.permute(x, (1, 0, 2)))
    for m, n in ((3, 17), (65, 2), (1, 1), (4, 0), (0, 4), (130, 67)):
        x = RNG.integers(0, 99, (m, n, 3)).astype(np.uint8)
        np.testing.assert_array_equal(model(x), x.transpose(1, 0, 2)[::-1])
        y = RNG.integers(0, 99, (5, m, n)).astype(np.float32)
        np.testing.assert_array_equal(last(y), y.transpose(1, 0, 2))


def test_many_small_matrices_are_no_copies_of_tiles() -> None:
    swapped = (0, 2, 1, 3)
    shapes = (((500, 4, 4, 2), swapped), ((300, 2, 8, 3), swapped), ((90, 12, 15, 3), swapped), ((900, 2, 3), (1, 0, 2)))
    for shape, order in shapes:
        x = RNG.integers(0, 100, shape).astype(np.uint8)
        model = permuted(shape, order, "uint8")
        np.testing.assert_array_equal(model(x), x.transpose(order))
        assert all("jn_transposed_copy" not in kernel.llvm_ir for kernel in model.kernels)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", [("h", "w", 24), ("h", "w", 17), (1000, "w", 63), ("h", "w", 3)])
def test_blocks_of_many_neighbours(shape: tuple[Any, ...]) -> None:
    model = built(shape, "uint8", lambda x: jn.permute(x, (1, 0, 2)))
    for h, w in ((70, 33), (1, 2), (17, 300)):
        x = RNG.integers(0, 99, tuple({"h": h, "w": w}.get(each, each) for each in shape)).astype(np.uint8)
        np.testing.assert_array_equal(model(x), x.transpose(1, 0, 2))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("shape", [(1600, 1203, 3), (1024, 1024, 2), (700, 1500, 5), (1080, 720, 24), (3, 90000, 17)])
def test_neighbours_past_the_caches(shape: tuple[int, ...]) -> None:
    for dtype in ("uint8", "float32"):
        x = RNG.integers(0, 99, shape).astype(dtype)
        np.testing.assert_array_equal(permuted(shape, (1, 0, 2), dtype)(x), x.transpose(1, 0, 2))


def test_permutes_of_sizes_known_at_launch() -> None:
    model = permuted(("m", "n", "k"), (2, 0, 1), "int16")
    for shape in ((3, 17, 70), (65, 2, 3), (1, 1, 1), (4, 0, 3), (2, 130, 67)):
        x = RNG.integers(0, 99, shape).astype(np.int16)
        np.testing.assert_array_equal(model(x), x.transpose(2, 0, 1))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", [(4096, 1024), (4099, 1021), (1600003, 3), (3, 1600003)])
def test_permutes_past_the_caches(shape: tuple[int, int]) -> None:
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(permuted(shape, (1, 0), "float32")(x), x.T)


def test_every_bit_of_a_float_stays() -> None:
    bits = np.array([[0x7FA00001, 0xFFC00002], [0x80000000, 0x7F800001], [1, 0x807FFFFF]], np.uint32)
    found = permuted((3, 2), (1, 0), "float32")(bits.view(np.float32))
    np.testing.assert_array_equal(np.asarray(found).view(np.uint32), bits.T)


def test_another_shape_is_refused() -> None:
    with pytest.raises(UserError):
        permuted((3, 2), (1, 0), "float32")(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("target", [None, "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_few_columns_of_many_rows(dtype: str, target: str | None) -> None:
    for columns in (2, 3, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17):
        for rows in (1, 31, 64, 1000, 4099):
            x = np.random.default_rng(columns).integers(0, 100, (rows, columns)).astype(dtype)
            graph = jn.Graph("g", [jn.TensorType(dtype, x.shape, "x")])
            graph.output(jn.permute(graph.inputs[0], (1, 0)))
            np.testing.assert_array_equal(jn.compile(graph, device="cpu", threads=1, target=target)(x), x.T)
