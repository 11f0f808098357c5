"""Lines that are sorted by partitions, against NumPy: each function before a page that nobody may touch, and in graphs."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.host_stages import compile_object
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.host.sorts.quicksort import Partition, SortedHeap, SortedLine
from joinery.lowering.llvm.module import module_of
from joinery.runtime.native.linking import link

from .....support.fenced_arrays import Fenced

WIDTHS = [width for width, feature in ((64, "avx512f"), (32, "avx2")) if host_target().has(feature)]
"""Bytes of registers: processors with AVX-512 run the functions for AVX2, too."""
pytestmark = pytest.mark.skipif(not WIDTHS, reason="no AVX2")
of_all_widths = pytest.mark.parametrize("width", WIDTHS)
ELEMENTS = {"i32": np.int32, "i64": np.int64}
LEVELS = 64


@functools.lru_cache
def _linked(function: SortedLine | Partition | SortedHeap) -> Any:
    return link([compile_object(module_of(function), host_target())], (function.name,), {})


def call(function: SortedLine | Partition | SortedHeap, line: np.ndarray, *rest: int) -> tuple[np.ndarray, int]:
    """Runs a function on a copy of a line that ends where memory does; returns the line then, and the result."""
    memory = Fenced(np.concatenate([np.full(4, 77, line.dtype), line]))
    first = memory.address + 4 * line.itemsize
    kinds = {"ptr": ctypes.c_void_p, "i32": ctypes.c_int32, "i64": ctypes.c_int64}
    types = [kinds[kind] for kind, _ in function.parameters]
    run = ctypes.CFUNCTYPE(ctypes.c_int64, *types)(_linked(function)[function.name])
    found = run(first, line.size, *rest)
    result = np.empty_like(line)
    ctypes.memmove(result.ctypes.data, first, line.nbytes)
    assert ctypes.string_at(memory.address, 4 * line.itemsize) == np.full(4, 77, line.dtype).tobytes()
    return result, found


def lines(dtype: type[np.signedinteger[Any]], size: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    ramp = np.arange(size)
    made = {
        "any": rng.integers(low, high, size, endpoint=True),
        "few": rng.integers(-2, 3, size),
        "two": np.where(rng.random(size) < 0.5, low, high),
        "equal": np.full(size, 7),
        "largest": np.full(size, high),
        "least": np.full(size, low),
        "rare": np.where(rng.random(size) < 0.01, rng.integers(low, high, size), high),
        "ascending": ramp,
        "descending": -ramp,
        "pipe": np.minimum(ramp, size - ramp),
        "saw": ramp % 37,
    }
    return {name: line.astype(dtype) for name, line in made.items()}


@pytest.mark.one_in(2)
@of_all_widths
@pytest.mark.parametrize("elem", ELEMENTS)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 255, 256, 257, 511, 512, 513, 1000, 1023, 4095, 4096, 5001, 30_000])
def test_lines_are_in_order(elem: str, width: int, size: int) -> None:
    for name, line in lines(ELEMENTS[elem], size, np.random.default_rng(size)).items():
        found, _ = call(SortedLine(elem, width), line, LEVELS)
        assert np.array_equal(found, np.sort(line)), name


@of_all_widths
@pytest.mark.parametrize("elem", ELEMENTS)
@pytest.mark.parametrize("size", [600, 1025])
def test_one_pair_out_of_order_is_found(elem: str, width: int, size: int) -> None:
    """Lines are looked through for elements that fall, a register at a time, of which the last one overlaps the one before."""
    for at in (0, 1, 6, 7, 8, 15, 16, 17, size // 2, size - 18, size - 17, size - 10, size - 9, size - 8, size - 3, size - 2):
        line = np.arange(size).astype(ELEMENTS[elem])
        line[[at, at + 1]] = line[[at + 1, at]]
        found, _ = call(SortedLine(elem, width), line, LEVELS)
        assert np.array_equal(found, np.arange(size)), at


@of_all_widths
@pytest.mark.parametrize("elem", ELEMENTS)
@pytest.mark.parametrize("levels", [0, 1, 2, 5])
def test_parts_with_too_many_partitions_behind_them_are_heaps(elem: str, width: int, levels: int) -> None:
    for name, line in lines(ELEMENTS[elem], 9001, np.random.default_rng(levels)).items():
        found, _ = call(SortedLine(elem, width), line, levels)
        assert np.array_equal(found, np.sort(line)), name


@of_all_widths
@pytest.mark.parametrize("elem", ELEMENTS)
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 100, 1001])
def test_heaps_are_sorted(elem: str, width: int, size: int) -> None:
    for name, line in lines(ELEMENTS[elem], size, np.random.default_rng(size)).items():
        found, _ = call(SortedHeap(elem, width), line)
        assert np.array_equal(found, np.sort(line)), name


@of_all_widths
@pytest.mark.parametrize("elem", ELEMENTS)
@pytest.mark.parametrize("size", [384, 385, 399, 511, 512, 513, 700, 1023, 2000])
def test_a_partition_divides_a_line(elem: str, width: int, size: int) -> None:
    for name, line in lines(ELEMENTS[elem], size, np.random.default_rng(size)).items():
        for pivot in {int(each) for each in np.quantile(line.astype(object), [0, 0.5, 1], method="lower")}:
            found, smaller = call(Partition(elem, width), line, pivot)
            assert smaller == (line < pivot).sum(), name
            assert (found[:smaller] < pivot).all(), name
            assert (found[smaller:] >= pivot).all(), name
            assert np.array_equal(np.sort(found), np.sort(line)), name


def compiled(dtype: jn.DType, shape: tuple[int, ...], make: Any) -> jn.Model:
    graph = jn.Graph("sorts", inputs=[jn.TensorType(dtype, shape, name="x")])
    found = make(*graph.inputs)
    graph.output(*(found if isinstance(found, tuple) else (found,)))
    return jn.compile(graph, device="cpu")


@pytest.mark.one_in(18)
@pytest.mark.parametrize("size", [3000, 65_537, 100_000])
@pytest.mark.parametrize("dtype", [jn.float32, jn.float64, jn.int32, jn.int64, jn.uint8, jn.float16])
def test_graphs_sort_long_lines(dtype: jn.DType, size: int) -> None:
    rng = np.random.default_rng(size)
    x = (rng.standard_normal((2, size)) * 100).astype(dtype.name)
    if dtype.is_float:
        x[:, ::7] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], x[:, ::7].shape)
    found = np.asarray(compiled(dtype, x.shape, lambda x: jn.sort(x, axis=1))(x))
    want = np.sort(x, 1, kind="stable")
    assert np.array_equal(found, want, equal_nan=dtype.is_float)
    zeros = want == 0
    assert np.array_equal(np.signbit(found[zeros]), np.signbit(want[zeros])) if dtype.is_float else True


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [jn.float32, jn.float64, jn.int64])
def test_positions_of_long_lines_are_stable(dtype: jn.DType) -> None:
    x = np.random.default_rng(0).integers(-500, 500, 70_001).astype(dtype.name)
    found = np.asarray(compiled(dtype, x.shape, jn.argsort)(x))
    assert np.array_equal(found, np.argsort(x, kind="stable"))


def test_long_lines_along_other_axes_and_in_descending_order() -> None:
    x = np.random.default_rng(0).standard_normal((70_000, 3)).astype(np.float32)
    found = compiled(jn.float32, x.shape, lambda x: (jn.sort(x, axis=0), jn.sort(-x, axis=0, descending=True)))(x)
    want = np.sort(x, 0)
    assert np.array_equal(found[0], want)
    assert np.array_equal(found[1], -want)


def test_programs_of_a_text_may_store_the_same_line() -> None:
    """What lies in memory is in order whenever another program looks or stores."""
    size = 8192
    block, pointers = f"tensor<{size}xi32>", f"tensor<{size}x!tt.ptr<i32>>"
    kernel = jn.kernel.from_ttir(f"""module {{
      tt.func public @sorted(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {{
        %r = tt.make_range {{start = 0 : i32, end = {size} : i32}} : {block}
        %xs = tt.splat %x : !tt.ptr<i32> -> {pointers}
        %from = tt.addptr %xs, %r : {pointers}, {block}
        %v = tt.load %from : {pointers}
        %ys = tt.splat %y : !tt.ptr<i32> -> {pointers}
        %to = tt.addptr %ys, %r : {pointers}, {block}
        %z = tt.sort %v {{axis = 0 : i32}} : {block}
        tt.store %to, %z : {pointers}
        tt.return
      }}
    }}""")
    rng = np.random.default_rng(0)
    jn.set_threads(2)
    try:
        for _ in range(20):
            x = rng.integers(-(2**31), 2**31, size).astype(np.int32)
            y = np.zeros_like(x)
            kernel.launch((8,), x, y)
            assert np.array_equal(y, np.sort(x))
    finally:
        jn.set_threads(None)
