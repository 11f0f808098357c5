"""Blocks whose columns lie in memory one element after the other: what is loaded, filled in, and left alone."""

from __future__ import annotations

import ctypes
import mmap

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

NUMPY = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i32": np.int32, "i64": np.int64, "i16": np.int16, "i8": np.int8,
}  # fmt: skip


def kernel(elem: str, rows: int, columns: int, other: str | None, use: str = "") -> str:
    """out[r, c] = x[c · stride + r] where r < m and c < n; else `other`, or nothing is asked for. use: operations on %v."""
    block, index = f"{rows}x{columns}", f"tensor<{rows}x{columns}xi32>"
    mask = "" if other is None else ", %mask, %other"
    result = "%w" if use else "%v"
    fill = "" if other is None else f"%other = arith.constant dense<{other}> : tensor<{block}x{elem}>"
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<{elem}>, %out: !tt.ptr<{elem}>, %stride: i32, %m: i32, %n: i32) {{
    %r = tt.make_range {{end = {rows} : i32, start = 0 : i32}} : tensor<{rows}xi32>
    %c = tt.make_range {{end = {columns} : i32, start = 0 : i32}} : tensor<{columns}xi32>
    %r1 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<{rows}xi32> -> tensor<{rows}x1xi32>
    %c1 = tt.expand_dims %c {{axis = 0 : i32}} : tensor<{columns}xi32> -> tensor<1x{columns}xi32>
    %s = tt.splat %stride : i32 -> tensor<1x{columns}xi32>
    %cs = arith.muli %c1, %s : tensor<1x{columns}xi32>
    %ra = tt.broadcast %r1 : tensor<{rows}x1xi32> -> {index}
    %ca = tt.broadcast %cs : tensor<1x{columns}xi32> -> {index}
    %cb = tt.broadcast %c1 : tensor<1x{columns}xi32> -> {index}
    %o = arith.addi %ra, %ca : {index}
    %xs = tt.splat %x : !tt.ptr<{elem}> -> tensor<{block}x!tt.ptr<{elem}>>
    %p = tt.addptr %xs, %o : tensor<{block}x!tt.ptr<{elem}>>, {index}
    %ms = tt.splat %m : i32 -> {index}
    %ns = tt.splat %n : i32 -> {index}
    %rm = arith.cmpi slt, %ra, %ms : {index}
    %cm = arith.cmpi slt, %cb, %ns : {index}
    %mask = arith.andi %rm, %cm : tensor<{block}xi1>
    {fill}
    %v = tt.load %p{mask} : tensor<{block}x!tt.ptr<{elem}>>
    {use}
    %width = arith.constant dense<{columns}> : {index}
    %rw = arith.muli %ra, %width : {index}
    %q = arith.addi %rw, %cb : {index}
    %os = tt.splat %out : !tt.ptr<{elem}> -> tensor<{block}x!tt.ptr<{elem}>>
    %po = tt.addptr %os, %q : tensor<{block}x!tt.ptr<{elem}>>, {index}
    tt.store %po, {result} : tensor<{block}x!tt.ptr<{elem}>>
    tt.return
  }}
}}
"""


def source(elem: str, count: int) -> np.ndarray:
    return np.arange(1, count + 1).astype(NUMPY[elem])


@pytest.mark.one_in(6)
@pytest.mark.parametrize("elem", NUMPY)
@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (4, 128), (64, 8), (2, 64), (32, 1), (1, 32)])
def test_everything(agree, elem: str, rows: int, columns: int) -> None:
    stride = rows + 3
    x = source(elem, stride * columns)
    found = agree(kernel(elem, rows, columns, None), 1, x, np.zeros((rows, columns), x.dtype), stride, rows, columns)
    assert np.array_equal(found[1], x.reshape(columns, stride)[:, :rows].T)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("elem", ["f32", "f16", "i8", "f64"])
@pytest.mark.parametrize("m", [0, 1, 16, 33, 99])
@pytest.mark.parametrize("n", [0, 32, 47, -1])
def test_within_limits(agree, elem: str, m: int, n: int) -> None:
    """The array ends where the limits do: reading on would be a fault of the sanitizer, and the fill is another number."""
    rows, columns, stride = 64, 64, 64
    inside = (slice(max(m, 0)), slice(max(n, 0)))
    x = source(elem, stride * columns)
    text = kernel(elem, rows, columns, "-7" if elem[0] == "i" else "-7.0")
    found = agree(text, 1, x, np.zeros((rows, columns), x.dtype), stride, m, n)
    expected = np.full((rows, columns), -7, x.dtype)
    expected[inside] = x.reshape(columns, stride).T[inside]
    assert np.array_equal(found[1], expected)


def test_nothing_beyond_the_limits_is_read() -> None:
    """Behind the last column that counts, the page is not there."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    x = np.frombuffer(memory, np.float32)
    x[:] = np.arange(x.size)
    libc = ctypes.CDLL(None)
    address = x.__array_interface__["data"][0]
    if libc.mprotect(ctypes.c_void_p(address + page), page, 0) != 0:
        pytest.skip("memory cannot be protected here")
    rows, columns, stride = 32, 64, 32
    last = x[page // 4 - 20 * stride : page // 4]  # 20 columns fit before the page that is not there
    out = np.zeros((rows, columns), np.float32)
    try:
        jn.kernel.from_ttir(kernel("f32", rows, columns, "-7.0")).launch(1, last, out, stride, rows, 20, threads=1)
        assert np.array_equal(out[:, :20], last.reshape(20, stride).T)
        assert (out[:, 20:] == -7).all()
    finally:
        libc.mprotect(ctypes.c_void_p(address + page), page, 3)


def test_as_a_factor_and_in_arithmetic(agree) -> None:
    """Read by more than one operation, elementwise and as the right factor."""
    use = """%d = arith.constant dense<0.0> : tensor<32x32xf32>
    %e = tt.dot %v, %v, %d : tensor<32x32xf32> * tensor<32x32xf32> -> tensor<32x32xf32>
    %w = arith.addf %e, %v : tensor<32x32xf32>"""
    x = (source("f32", 1024) % 7).reshape(32, 32)
    found = agree(kernel("f32", 32, 32, "0.0", use), 1, x, np.zeros_like(x), 32, 32, 32)
    assert np.array_equal(found[1], x.T @ x.T + x.T)


def test_other_that_is_no_number(agree) -> None:
    """What stands for elements beyond the limits varies: such a block is gathered."""
    text = kernel("i32", 16, 16, "0").replace("%other = arith.constant dense<0> : tensor<16x16xi32>", "")
    text = text.replace("%other", "%o")
    x = source("i32", 256)
    found = agree(text, 1, x, np.zeros((16, 16), np.int32), 16, 9, 5)
    offsets = np.arange(16)[:, None] + np.arange(16) * 16
    inside = (np.arange(16)[:, None] < 9) & (np.arange(16) < 5)
    assert np.array_equal(found[1], np.where(inside, x.reshape(16, 16).T, offsets))


def test_a_transposed_load_with_other_numbers(agree) -> None:
    """The same behind `tt.trans`."""
    body = """
    %z = tt.trans %v {order = array<i32: 1, 0>} : tensor<16x16xi32> -> tensor<16x16xi32>
    %w = arith.addi %z, %z : tensor<16x16xi32>"""
    text = kernel("i32", 16, 16, "0", body).replace("%other = arith.constant dense<0> : tensor<16x16xi32>", "")
    text = text.replace("%other", "%o").replace("%stride: i32", "%unused: i32").replace(
        "tt.splat %stride", "tt.splat %sixteen").replace("%s = tt", "%sixteen = arith.constant 16 : i32\n %s = tt")  # fmt: skip
    # rows and columns change places, so that the load itself is by rows
    text = text.replace("%o = arith.addi %ra, %ca", "%rb = arith.muli %ra, %sixteens : tensor<16x16xi32>\n"
                        "    %o = arith.addi %rb, %cb").replace(
        "%ra = tt", "%sixteens = arith.constant dense<16> : tensor<16x16xi32>\n    %ra = tt")  # fmt: skip
    x = source("i32", 256)
    found = agree(text, 1, x, np.zeros((16, 16), np.int32), 16, 9, 5)
    inside = (np.arange(16)[:, None] < 9) & (np.arange(16) < 5)
    loaded = np.where(inside, x.reshape(16, 16), np.arange(256).reshape(16, 16))
    assert np.array_equal(found[1], 2 * loaded.T)
