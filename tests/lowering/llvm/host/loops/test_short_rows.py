"""Blocks whose rows are shorter than a vector, several of which are computed at once, beside NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

from .....support.fenced_arrays import fenced

ROWS = (1, 7, 50, 1001)
"""Fewer than fill a vector, ends within vectors, and more than a program has."""
COLUMNS = (2, 3, 5, 6, 7, 8, 12, 16, 20, 31)
RNG = np.random.default_rng(8)


def _joined(parts: Any) -> Any:
    return jn.concat(list(parts), axis=1) if isinstance(parts[0], jn.Symbol) else np.concatenate(parts, 1)


Computed = Callable[[Any, Any, Any], Any]
CASES: dict[str, Computed] = {
    "columns from right to left": lambda x, y, v: x[:, ::-1],
    "halves exchanged": lambda x, y, v: _joined([x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]]),
    "side by side": lambda x, y, v: _joined([x, y]),
    "a column between": lambda x, y, v: _joined([x[:, :1], y, x[:, 1:]]),
    "a factor for each row": lambda x, y, v: x * y[:, :1],
    "a factor for each column": lambda x, y, v: x * v,
    "all but the last column": lambda x, y, v: x[:, :-1] + y[:, 1:],
    "every other column": lambda x, y, v: x[:, ::2] * 3,
    "rows and columns": lambda x, y, v: (x[:, 1:2] + v) * (y[:, :1] - v[::-1]),
}


def _numbers(dtype: str, *shape: int) -> np.ndarray:
    return RNG.integers(0, 2 if dtype == "bool" else 50, shape).astype(dtype)


def _model(computed: Computed, dtype: str, columns: int, rows: int | str) -> Any:
    shapes = ((rows, columns), (rows, columns), (columns,))
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, name) for shape, name in zip(shapes, "xyv", strict=True)])
    graph.output(computed(*graph.inputs))
    return jn.compile(graph, "cpu", cache=False)


@pytest.mark.one_in(280)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "int32", "float32", "float64"])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("case", CASES)
def test_values_of_short_rows(case: str, columns: int, dtype: str) -> None:
    """Of known numbers of rows and of one that is known at launch; inputs end where memory does."""
    at_launch = _model(CASES[case], dtype, columns, "n")
    for rows in (*ROWS, 0):
        given = _numbers(dtype, rows, columns), _numbers(dtype, rows, columns), _numbers(dtype, columns)
        expected = CASES[case](*given)
        arrays, fences = zip(*[fenced(each) for each in given], strict=True) if rows else (given, ())
        for model in (at_launch, _model(CASES[case], dtype, columns, rows)):
            np.testing.assert_array_equal(model(*arrays), expected, f"{rows} rows")
        del fences


@pytest.mark.one_in(4)
@pytest.mark.parametrize("columns", [2, 3, 5, 8, 16])
def test_values_of_other_dtypes_than_the_result_s(columns: int) -> None:
    """Lanes are as wide as the widest of them; a comparison's result takes a byte each."""
    x, y = _numbers("uint8", 333, columns), RNG.random((333, columns), np.float32)
    graph = jn.Graph("g", [jn.TensorType(jn.uint8, ("n", columns), "x"), jn.TensorType(jn.float32, ("n", columns), "y")])
    a, b = graph.inputs
    scaled = jn.cast(a[:, ::-1], jn.float32) * 0.5 + b[:, :1]
    graph.output(jn.cast(scaled, jn.uint8), scaled, jn.greater(scaled, b))
    found = jn.compile(graph, "cpu", cache=False)(x, y)
    expected = x[:, ::-1].astype(np.float32) * np.float32(0.5) + y[:, :1]
    np.testing.assert_array_equal(found[0], expected.astype(np.uint8))
    np.testing.assert_array_equal(found[1], expected)
    np.testing.assert_array_equal(found[2], expected > y)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_bytes_beside_wider_numbers(dtype: str) -> None:
    """As many bytes as there are lanes of these: a part of a register."""
    b, x = _numbers("uint8", 200, 3), _numbers(dtype, 200, 3)
    graph = jn.Graph("g", [jn.TensorType("uint8", ("n", 3), "b"), jn.TensorType(dtype, ("n", 3), "x")])
    flags, numbers = graph.inputs
    graph.output(jn.where(jn.greater(flags[:, ::-1], 20), numbers, numbers[:, :1]))
    found = jn.compile(graph, "cpu", cache=False)(b, x)
    np.testing.assert_array_equal(found, np.where(b[:, ::-1] > 20, x, x[:, :1]))


def test_rows_of_several_images_and_of_a_function_of_rows() -> None:
    """Outer dimensions, and what is dear is computed once for each row."""
    x, w = RNG.random((3, 70, 6), np.float32), RNG.random((3, 70), np.float32)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (3, "n", 6), "x"), jn.TensorType(jn.float32, (3, "n"), "w")])
    a, b = graph.inputs
    graph.output(a[:, :, 1:] * jn.unsqueeze(jn.exp(jn.tanh(b)), 2))
    found = jn.compile(graph, "cpu", cache=False)(x, w)
    np.testing.assert_allclose(found, x[:, :, 1:] * np.exp(np.tanh(w))[:, :, None], rtol=1e-5)


@pytest.mark.skipif(not host_target().has("avx512vbmi"), reason="the host picks no bytes of two registers")
def test_one_store_has_many_rows() -> None:
    """64 bytes of rows of five are stored at once. Short rows are joined in one kernel, long ones stored part by part."""
    def text(case: str, columns: int) -> str:
        return "".join([kernel.llvm_ir for kernel in _model(CASES[case], "uint8", columns, 1001).kernels])

    assert re.search(r"store <64 x i8> .*, align 1", text("columns from right to left", 5))
    assert not re.search(r"store <(5|8|16) x i8>", text("columns from right to left", 5))
    assert len(_model(CASES["side by side"], "uint8", 7, 1001).kernels) == 1
    assert len(_model(CASES["side by side"], "float64", 31, 1001).kernels) == 2


@pytest.mark.one_in(9)
@pytest.mark.parametrize("columns", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("case", [lambda w, u: w + (u + u), lambda w, u: w * w + w - u, lambda w, u: w ^ (u << 1)])
def test_bytes_that_are_repeated_and_added(case: Any, columns: int) -> None:
    """LLVM 22 did not end for sums of 64 bytes that a shuffle repeats."""
    for width in (1, columns):
        w, u = _numbers("uint8", 200, width), _numbers("uint8", columns)
        graph = jn.Graph("g", [jn.TensorType("uint8", ("n", width), "w"), jn.TensorType("uint8", (columns,), "u")])
        graph.output(case(*graph.inputs))
        np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(w, u), case(w, u))


def _text(body: str, rows: int, columns: int, around: int = 1) -> str:
    """A kernel that stores a block of `around` · rows · columns numbers, %v, one after the other."""
    shape = f"{around}x{rows}x{columns}" if around > 1 else f"{rows}x{columns}"
    size = around * rows * columns
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>) {{
    {body}
    %i = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>
    %at = tt.reshape %i : tensor<{size}xi32> -> tensor<{shape}xi32>
    %bo = tt.splat %o : !tt.ptr<i32> -> tensor<{shape}x!tt.ptr<i32>>
    %po = tt.addptr %bo, %at : tensor<{shape}x!tt.ptr<i32>>, tensor<{shape}xi32>
    tt.store %po, %v : tensor<{shape}x!tt.ptr<i32>>
    tt.return
  }}
}}
"""


def test_a_block_that_is_read_at_two_rows_of_blocks(agree: Any) -> None:
    """x[i] - x[j] for all pairs of blocks: both are one load at other coordinates."""
    x = RNG.integers(-99, 99, (4, 64, 4)).astype(np.int32)
    body = """%r = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
    %ar = tt.reshape %r : tensor<1024xi32> -> tensor<4x64x4xi32>
    %bx = tt.splat %x : !tt.ptr<i32> -> tensor<4x64x4x!tt.ptr<i32>>
    %px = tt.addptr %bx, %ar : tensor<4x64x4x!tt.ptr<i32>>, tensor<4x64x4xi32>
    %l = tt.load %px : tensor<4x64x4x!tt.ptr<i32>>
    %a = tt.expand_dims %l {axis = 1 : i32} : tensor<4x64x4xi32> -> tensor<4x1x64x4xi32>
    %b = tt.expand_dims %l {axis = 0 : i32} : tensor<4x64x4xi32> -> tensor<1x4x64x4xi32>
    %wa = tt.broadcast %a : tensor<4x1x64x4xi32> -> tensor<4x4x64x4xi32>
    %wb = tt.broadcast %b : tensor<1x4x64x4xi32> -> tensor<4x4x64x4xi32>
    %v = arith.subi %wa, %wb : tensor<4x4x64x4xi32>"""
    text = _text(body, 64, 4, 16).replace("16x64x4x", "4x4x64x4x")
    found = agree(text, 1, x, np.zeros((4, 4, 64, 4), np.int32))[1]
    np.testing.assert_array_equal(found, x[:, None] - x[None])


def test_a_turned_block_that_varies_along_columns_alone(agree: Any) -> None:
    x = RNG.integers(-99, 99, 4).astype(np.int32)
    body = """%r = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %e = tt.expand_dims %r {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
    %w = tt.broadcast %e : tensor<4x1xi32> -> tensor<4x32xi32>
    %bx = tt.splat %x : !tt.ptr<i32> -> tensor<4x32x!tt.ptr<i32>>
    %px = tt.addptr %bx, %w : tensor<4x32x!tt.ptr<i32>>, tensor<4x32xi32>
    %l = tt.load %px : tensor<4x32x!tt.ptr<i32>>
    %v = tt.trans %l {order = array<i32: 1, 0>} : tensor<4x32xi32> -> tensor<32x4xi32>"""
    found = agree(_text(body, 32, 4), 1, x, np.zeros((32, 4), np.int32))[1]
    np.testing.assert_array_equal(found, np.broadcast_to(x, (32, 4)))
