"""Block functions through the host back end against NumPy, on sizes around every vector and block boundary."""

from __future__ import annotations

import numpy as np
import pytest
from joinery.lowering.tt.builder.block_builder import BlockBuilder
from joinery.lowering.tt.types import ptr

SIZES = [0, 1, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 257, 1000]


def add(b, x, y):
    return [b.binary("arith.addf", x[0], y[0])]


def biggest(b, x, y):
    return [b.binary("arith.maximumf", x[0], y[0])]


def wide(b, n, start=None):
    """start + 0 … n - 1 in i64."""
    positions = b.cast("arith.extsi", b.arange(n), "i64")
    return positions if start is None else b.binary("arith.addi", b.splat(start, (n,)), positions)


def program_start(b, block):
    return b.binary("arith.muli", b.cast("arith.extsi", b.program_id(), "i64"), b.const(block, "i64"))


def pointers(b, base, offsets):
    shape = tuple(offsets.type.get_shape())
    return b.addptr(b.splat(base, shape), offsets)


def vector_add(block=128, elem="f32", op="arith.addf"):
    b = BlockBuilder.function("k", [("x", ptr(elem)), ("y", ptr(elem)), ("o", ptr(elem)), ("n", _i64())])
    x, y, o, n = b.args
    at = wide(b, block, program_start(b, block))
    mask = b.cmpi("slt", at, b.splat(n, (block,)))
    left, right = b.load(pointers(b, x, at), mask), b.load(pointers(b, y, at), mask)
    b.store(pointers(b, o, at), b.binary(op, left, right), mask)
    return b.finish()


def _i64():
    from joinery.lowering.tt.types import scalar_type

    return scalar_type("i64")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", SIZES)
def test_masked_elementwise(native, n):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n)).astype(np.float32)
    out = np.full(n, 7, np.float32)
    native(vector_add())(-(-n // 128), x, y, out, n)
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("elem", "dtype", "op", "function"), [
    ("f64", np.float64, "arith.mulf", np.multiply),
    ("i32", np.int32, "arith.addi", np.add),
    ("i8", np.int8, "arith.muli", np.multiply),
    ("i64", np.int64, "arith.subi", np.subtract),
    ("i16", np.uint16, "arith.maxui", np.maximum),
    ("i16", np.int16, "arith.minsi", np.minimum),
    ("f32", np.float32, "arith.maximumf", np.maximum),
])  # fmt: skip
def test_element_types(native, elem, dtype, op, function):
    rng = np.random.default_rng(1)
    n = 777
    if np.dtype(dtype).kind == "f":
        x, y = rng.standard_normal((2, n)).astype(dtype)
        x[5], y[6], x[7], y[7] = np.nan, np.nan, -0.0, 0.0
    else:
        info = np.iinfo(dtype)
        x, y = rng.integers(info.min, info.max, (2, n), dtype, endpoint=True)
    out = np.zeros(n, dtype)
    native(vector_add(256, elem, op))(-(-n // 256), x, y, out, n)
    np.testing.assert_array_equal(out, function(x, y))


def row_softmax(block):
    b = BlockBuilder.function("k", [("x", ptr("f32")), ("o", ptr("f32")), ("n", _i64())])
    x, o, n = b.args
    row = b.binary("arith.muli", b.cast("arith.extsi", b.program_id(), "i64"), n)
    column = wide(b, block)
    mask = b.cmpi("slt", column, b.splat(n, (block,)))
    at = b.binary("arith.addi", b.splat(row, (block,)), column)
    low, none = b.const(float("-inf"), "f32", (block,)), b.const(0.0, "f32", (block,))
    value = b.load(pointers(b, x, at), mask, low)
    (top,) = b.reduce([b.select(mask, value, low)], 0, biggest)
    e = b.unary("math.exp", b.binary("arith.subf", value, b.splat(top, (block,))))
    (total,) = b.reduce([b.select(mask, e, none)], 0, add)
    b.store(pointers(b, o, at), b.binary("arith.divf", e, b.splat(total, (block,))), mask)
    return b.finish()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [1, 3, 16, 17, 100, 1000, 1024])
def test_softmax_rows(native, n):
    x = np.random.default_rng(n).standard_normal((7, n)).astype(np.float32) * 5
    out = np.zeros_like(x)
    native(row_softmax(1024))(7, x, out, n)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=2e-6 + n / 8 * 2.0**-24)


def matmul(bm, bn, bk, epilogue=False, transposed_b=False, elem="f32", acc="f32"):
    """o = a @ b (+ 1): the tile loop the tiler writes, all three extents ragged."""
    names = [("a", ptr(elem)), ("b", ptr(elem)), ("o", ptr(acc)), ("m", _i64()), ("n", _i64()), ("k", _i64())]
    b = BlockBuilder.function("k", names)
    left, right, out, m, n, k = b.args
    program = b.cast("arith.extsi", b.program_id(), "i64")
    blocks = b.binary("arith.divsi", b.binary("arith.addi", m, b.const(bm - 1, "i64")), b.const(bm, "i64"))
    m0 = b.binary("arith.muli", b.binary("arith.remsi", program, blocks), b.const(bm, "i64"))
    n0 = b.binary("arith.muli", b.binary("arith.divsi", program, blocks), b.const(bn, "i64"))
    rows, columns = b.expand_dims(wide(b, bm, m0), 1), b.expand_dims(wide(b, bn, n0), 0)
    row_mask = b.cmpi("slt", rows, b.splat(m, (bm, 1)))
    column_mask = b.cmpi("slt", columns, b.splat(n, (1, bn)))

    def at(i, j, stride_i, stride_j, shape):
        first = b.broadcast(b.binary("arith.muli", i, b.splat(stride_i, tuple(i.type.get_shape()))), shape)
        second = b.broadcast(b.binary("arith.muli", j, b.splat(stride_j, tuple(j.type.get_shape()))), shape)
        return b.binary("arith.addi", first, second)

    def both(p, q, shape):
        return b.binary("arith.andi", b.broadcast(p, shape), b.broadcast(q, shape))

    one = b.const(1, "i64")
    start = b.const(0, acc, (bm, bn))
    with b.for_(b.const(0, "i64"), k, b.const(bk, "i64"), [start]) as loop:
        depth = wide(b, bk, loop.index)
        across, down = b.expand_dims(depth, 0), b.expand_dims(depth, 1)
        across_mask = b.cmpi("slt", across, b.splat(k, (1, bk)))
        down_mask = b.cmpi("slt", down, b.splat(k, (bk, 1)))
        tile_a = b.load(pointers(b, left, at(rows, across, k, one, (bm, bk))), both(row_mask, across_mask, (bm, bk)),
                        b.const(0, elem, (bm, bk)))  # fmt: skip
        if transposed_b:
            i, j = b.expand_dims(wide(b, bn, n0), 1), across
            mask = both(b.cmpi("slt", i, b.splat(n, (bn, 1))), across_mask, (bn, bk))
            tile = b.load(pointers(b, right, at(i, j, k, one, (bn, bk))), mask, b.const(0, elem, (bn, bk)))
            tile_b = b.trans(tile, (1, 0))
        else:
            mask = both(down_mask, column_mask, (bk, bn))
            tile_b = b.load(
                pointers(b, right, at(down, columns, n, one, (bk, bn))), mask, b.const(0, elem, (bk, bn))
            )
        loop.yield_([b.dot(tile_a, tile_b, loop.args[0])])
    result = loop.results[0]
    if epilogue:
        result = b.binary("arith.addf", result, b.const(1.0, acc, (bm, bn)))
    b.store(
        pointers(b, out, at(rows, columns, n, one, (bm, bn))), result, both(row_mask, column_mask, (bm, bn))
    )
    return b.finish()


SHAPES = [(1, 1, 1), (64, 64, 128), (63, 65, 127), (17, 33, 300), (6, 64, 64), (7, 16, 5), (97, 130, 61)]


@pytest.mark.one_in(36)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_matmul(native, shape, transposed):
    m, n, k = shape
    rng = np.random.default_rng(3)
    a = rng.standard_normal((m, k)).astype(np.float32)
    w = rng.standard_normal((k, n)).astype(np.float32)
    out = np.full((m, n), 7, np.float32)
    kernel = native(matmul(64, 64, 128, epilogue=True, transposed_b=transposed))
    kernel(-(-m // 64) * -(-n // 64), a, np.ascontiguousarray(w.T) if transposed else w, out, m, n, k)
    exact = a.astype(np.float64) @ w + 1
    bound = np.abs(a).astype(np.float64) @ np.abs(w) * 2.0**-24 * (k + 2) + 2.0**-23
    assert (np.abs(out - exact) <= bound).all()


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("elem", "acc", "dtype", "out_dtype"), [
    ("i8", "i32", np.int8, np.int32),
    ("f64", "f64", np.float64, np.float64),
    ("i32", "i32", np.int32, np.int32),
    ("i64", "i64", np.int64, np.int64),
])  # fmt: skip
def test_matmul_types(native, elem, acc, dtype, out_dtype):
    m, n, k = 33, 70, 200
    rng = np.random.default_rng(4)
    if np.dtype(dtype).kind == "f":
        a, w = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    else:
        info = np.iinfo(dtype)
        a = rng.integers(info.min, info.max, (m, k), dtype, endpoint=True)
        w = rng.integers(info.min, info.max, (k, n), dtype, endpoint=True)
    out = np.zeros((m, n), out_dtype)
    native(matmul(32, 64, 64, elem=elem, acc=acc))(4, a, w, out, m, n, k)
    with np.errstate(over="ignore"):
        expected = a.astype(out_dtype) @ w.astype(out_dtype)
    if np.dtype(dtype).kind == "f":
        np.testing.assert_allclose(out, expected, rtol=1e-12)
    else:
        np.testing.assert_array_equal(out, expected)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [*SHAPES, (5, 3, 2), (64, 20, 131)])
def test_matmul_of_bytes(native, shape, transposed):
    """Both ends of int8, with masks that cut every tile."""
    m, n, k = shape
    rng = np.random.default_rng(5)
    a, w = (rng.choice(np.array([-128, -127, 1, 127], np.int8), size) for size in ((m, k), (k, n)))
    out = np.full((m, n), 7, np.int32)
    kernel = native(matmul(64, 32, 128, transposed_b=transposed, elem="i8", acc="i32"))
    kernel(-(-m // 64) * -(-n // 32), a, np.ascontiguousarray(w.T) if transposed else w, out, m, n, k)
    np.testing.assert_array_equal(out, a.astype(np.int64) @ w.astype(np.int64))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [(1, 1), (31, 33), (32, 32), (40, 100), (64, 64)])
def test_transposed_tile(native, shape):
    """o[i, j] = x[j, i] + y[i, j] over 32 × 32 tiles."""
    rows, columns = shape
    b = BlockBuilder.function(
        "k", [("x", ptr("f32")), ("y", ptr("f32")), ("o", ptr("f32")), ("m", _i64()), ("n", _i64())]
    )
    x, y, o, m, n = b.args
    t = 32
    program = b.cast("arith.extsi", b.program_id(), "i64")
    blocks = b.binary("arith.divsi", b.binary("arith.addi", n, b.const(t - 1, "i64")), b.const(t, "i64"))
    i0 = b.binary("arith.muli", b.binary("arith.divsi", program, blocks), b.const(t, "i64"))
    j0 = b.binary("arith.muli", b.binary("arith.remsi", program, blocks), b.const(t, "i64"))

    def tile(first, second, first_limit, second_limit, stride):
        p, q = b.expand_dims(wide(b, t, first), 1), b.expand_dims(wide(b, t, second), 0)
        at = b.binary("arith.addi", b.broadcast(b.binary("arith.muli", p, b.splat(stride, (t, 1))), (t, t)),
                      b.broadcast(q, (t, t)))  # fmt: skip
        mask = b.binary("arith.andi", b.broadcast(b.cmpi("slt", p, b.splat(first_limit, (t, 1))), (t, t)),
                        b.broadcast(b.cmpi("slt", q, b.splat(second_limit, (1, t))), (t, t)))  # fmt: skip
        return at, mask

    at, mask = tile(i0, j0, m, n, n)
    across, across_mask = tile(j0, i0, n, m, m)
    turned = b.trans(b.load(pointers(b, x, across), across_mask, b.const(0, "f32", (t, t))), (1, 0))
    b.store(pointers(b, o, at), b.binary("arith.addf", turned, b.load(pointers(b, y, at), mask)), mask)
    rng = np.random.default_rng(5)
    a, c = (
        rng.standard_normal((columns, rows)).astype(np.float32),
        rng.standard_normal(shape).astype(np.float32),
    )
    out = np.zeros(shape, np.float32)
    native(b.finish())(-(-rows // t) * -(-columns // t), a, c, out, rows, columns)
    np.testing.assert_array_equal(out, a.T + c)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("rows", "n"), [(1, 5), (8, 64), (13, 100), (40, 257)])
def test_column_sums(native, rows, n):
    """Reduction over the leading axis: chunks of 8 rows into a loop-carried accumulator."""
    block, chunk = 128, 8
    b = BlockBuilder.function("k", [("x", ptr("f32")), ("o", ptr("f32")), ("m", _i64()), ("n", _i64())])
    x, o, m, width = b.args
    columns = wide(b, block, program_start(b, block))
    keep = b.cmpi("slt", columns, b.splat(width, (block,)))
    with b.for_(b.const(0, "i64"), m, b.const(chunk, "i64"), [b.const(0.0, "f32", (block,))]) as loop:
        row = b.expand_dims(wide(b, chunk, loop.index), 1)
        shape = (chunk, block)
        at = b.binary("arith.addi", b.broadcast(b.binary("arith.muli", row, b.splat(width, (chunk, 1))), shape),
                      b.broadcast(b.expand_dims(columns, 0), shape))  # fmt: skip
        mask = b.binary("arith.andi", b.broadcast(b.cmpi("slt", row, b.splat(m, (chunk, 1))), shape),
                        b.broadcast(b.expand_dims(keep, 0), shape))  # fmt: skip
        none = b.const(0.0, "f32", shape)
        (part,) = b.reduce([b.select(mask, b.load(pointers(b, x, at), mask, none), none)], 0, add)
        loop.yield_([b.binary("arith.addf", loop.args[0], part)])
    b.store(pointers(b, o, columns), loop.results[0], keep)
    values = np.random.default_rng(6).standard_normal((rows, n)).astype(np.float32)
    out = np.zeros(n, np.float32)
    native(b.finish())(-(-n // block), values, out, rows, n)
    np.testing.assert_allclose(out, values.astype(np.float64).sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 17, 64])
def test_gather_and_scatter(native, n):
    """Data-dependent addresses: o[p[i]] = x[q[i]]."""
    block = 64
    b = BlockBuilder.function(
        "k", [("x", ptr("f32")), ("p", ptr("i64")), ("q", ptr("i64")), ("o", ptr("f32")), ("n", _i64())]
    )
    x, p, q, o, count = b.args
    at = wide(b, block)
    mask = b.cmpi("slt", at, b.splat(count, (block,)))
    to, source = b.load(pointers(b, p, at), mask), b.load(pointers(b, q, at), mask)
    b.store(pointers(b, o, to), b.load(pointers(b, x, source), mask), mask)
    rng = np.random.default_rng(n)
    values = rng.standard_normal(n).astype(np.float32)
    targets, sources = rng.permutation(n).astype(np.int64), rng.permutation(n).astype(np.int64)
    out = np.zeros(n, np.float32)
    native(b.finish())(1, values, targets, sources, out, n)
    expected = np.zeros(n, np.float32)
    expected[targets] = values[sources]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [1, 16, 40, 64])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(native, n, reverse):
    block = 64
    b = BlockBuilder.function("k", [("x", ptr("i64")), ("o", ptr("i64")), ("n", _i64())])
    x, o, count = b.args
    at = wide(b, block)
    mask = b.cmpi("slt", at, b.splat(count, (block,)))
    value = b.load(pointers(b, x, at), mask, b.const(0, "i64", (block,)))
    (sums,) = b.scan([value], 0, lambda b, p, q: [b.binary("arith.addi", p[0], q[0])], reverse)
    b.store(pointers(b, o, at), sums, mask)
    values = np.random.default_rng(n).integers(-100, 100, n)
    out = np.zeros(n, np.int64)
    native(b.finish())(1, values, out, n)
    expected = values[::-1].cumsum()[::-1] if reverse else values.cumsum()
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", [1, 2, 16, 33, 64])
def test_argmax_takes_the_first(native, n):
    """A two-operand reduction whose region is not a single operation."""
    block = 64
    b = BlockBuilder.function("k", [("x", ptr("f32")), ("o", ptr("i64")), ("n", _i64())])
    x, o, count = b.args
    at = wide(b, block)
    mask = b.cmpi("slt", at, b.splat(count, (block,)))
    low = b.const(float("-inf"), "f32", (block,))
    value = b.select(mask, b.load(pointers(b, x, at), mask, low), low)

    def later(b, p, q):
        first = b.binary("arith.andi", b.cmpf("oeq", q[0], p[0]), b.cmpi("slt", q[1], p[1]))
        take = b.binary("arith.ori", b.cmpf("ogt", q[0], p[0]), first)
        return [b.select(take, q[0], p[0]), b.select(take, q[1], p[1])]

    _, index = b.reduce([value, at], 0, later)
    b.store(o, index)
    values = np.random.default_rng(n).integers(0, 4, n).astype(np.float32)
    out = np.zeros(1, np.int64)
    native(b.finish())(1, values, out, n)
    assert out[0] == values.argmax()
