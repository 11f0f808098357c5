"""Whole kernels built as the tiler builds them, interpreted on sizes that do not fill their blocks, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.tt.builder.block_builder import BlockBuilder
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.types import BF16, F16, F32, I64, ptr
from joinery.promotion.errors import UserError

RNG = np.random.default_rng(3)
NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}


def add(b, left, right):
    return [b.binary("arith.addf", left[0], right[0])]


def maximum(b, left, right):
    return [b.binary("arith.maximumf", left[0], right[0])]


def softmax_kernel(block: int):
    b = BlockBuilder.function("softmax", [("x", ptr(F32)), ("o", ptr(F32)), ("n", I64)])
    x, o, n = b.args
    row = b.cast("arith.extsi", b.program_id(), I64)
    columns = b.cast("arith.extsi", b.arange(block), I64)
    mask = b.cmpi("slt", columns, b.splat(n, (block,)))
    offsets = b.binary("arith.addi", b.splat(b.binary("arith.muli", row, n), (block,)), columns)
    value = b.load(b.addptr(b.splat(x, (block,)), offsets), mask, b.const(float("-inf"), F32, (block,)))
    (largest,) = b.reduce([value], 0, maximum)
    powers = b.unary("math.exp", b.binary("arith.subf", value, b.splat(largest, (block,))))
    (total,) = b.reduce([powers], 0, add)
    b.store(
        b.addptr(b.splat(o, (block,)), offsets),
        b.binary("arith.divf", powers, b.splat(total, (block,))),
        mask,
    )
    return b.finish()


@pytest.mark.parametrize("n", [1, 31, 32, 33, 64])
def test_softmax(n: int) -> None:
    x = (RNG.normal(size=(7, n)) * 10).astype(np.float32)
    out = np.zeros_like(x)
    interpret(softmax_kernel(64), 7, [x, out, n])
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    # exp turns the rounding of its argument (up to 40 here) into a relative error
    np.testing.assert_allclose(out, powers / powers.sum(1, keepdims=True), rtol=1e-5)


def matmul_kernel(elem, tile_m: int, tile_n: int, tile_k: int):
    """One output tile per program, a loop over K, ragged edges by masks; f32 accumulation."""
    b = BlockBuilder.function(
        "matmul", [(name, ptr(elem)) for name in "abc"] + [(name, I64) for name in "mnk"]
    )
    a, w, c, m, n, k = b.args
    one = b.const(1, I64)
    tile = b.const(tile_n, I64)
    columns = b.binary("arith.divsi", b.binary("arith.addi", n, b.const(tile_n - 1, I64)), tile)
    program = b.cast("arith.extsi", b.program_id(), I64)

    def axis(start, extent: int, position: int):
        line = b.cast("arith.extsi", b.arange(extent), I64)
        return b.expand_dims(b.binary("arith.addi", b.splat(start, (extent,)), line), position)

    i = axis(
        b.binary("arith.muli", b.binary("arith.divsi", program, columns), b.const(tile_m, I64)), tile_m, 1
    )
    j = axis(b.binary("arith.muli", b.binary("arith.remsi", program, columns), tile), tile_n, 0)

    def tile_of(pointer, rows, cols, stride, row_limit, col_limit, shape):
        mask = b.binary(
            "arith.andi",
            b.broadcast(b.cmpi("slt", rows, b.splat(row_limit, (shape[0], 1))), shape),
            b.broadcast(b.cmpi("slt", cols, b.splat(col_limit, (1, shape[1]))), shape),
        )
        start = b.binary("arith.muli", rows, b.splat(stride, (shape[0], 1)))
        offsets = b.binary("arith.addi", b.broadcast(start, shape), b.broadcast(cols, shape))
        return b.addptr(b.splat(pointer, shape), offsets), mask

    zero = b.const(0, I64)
    accumulator = b.const(0.0, F32, (tile_m, tile_n))
    with b.for_(zero, k, b.const(tile_k, I64), [accumulator]) as loop:
        start, (total,) = loop
        pointers, mask = tile_of(a, i, axis(start, tile_k, 0), k, m, k, (tile_m, tile_k))
        left = b.load(pointers, mask, b.const(0.0, elem, (tile_m, tile_k)))
        pointers, mask = tile_of(w, axis(start, tile_k, 1), j, n, k, n, (tile_k, tile_n))
        right = b.load(pointers, mask, b.const(0.0, elem, (tile_k, tile_n)))
        loop.yield_([b.dot(left, right, total)])
    pointers, mask = tile_of(c, i, j, n, m, n, (tile_m, tile_n))
    b.store(pointers, b.cast("arith.truncf", loop.results[0], elem), mask)
    assert one.type == I64
    return b.finish()


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (1, 1, 1), (17, 40, 33), (5, 3, 0)])
@pytest.mark.parametrize("elem", [F32, F16, BF16], ids=str)
def test_matmul_with_ragged_edges(m: int, n: int, k: int, elem) -> None:
    dtype = NUMPY[str(elem)]
    x, y = RNG.normal(size=(m, k)).astype(dtype), RNG.normal(size=(k, n)).astype(dtype)
    guarded = np.full(m * n + 16, 9, dtype)
    out = guarded[: m * n]
    grid = -(-m // 16) * -(-n // 16)
    interpret(matmul_kernel(elem, 16, 16, 8), grid, [x, y, out, m, n, k])
    exact = x.astype(np.float64) @ y.astype(np.float64)
    magnitude = np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64)) + 1e-30
    half_unit = float(ml_dtypes.finfo(dtype).eps) * 0.51
    assert (
        np.abs(out.reshape(m, n).astype(np.float64) - exact) <= half_unit * np.abs(exact) + 1e-6 * magnitude
    ).all()
    assert (guarded[m * n :].astype(np.float64) == 9).all()


def test_loops_and_branches() -> None:
    """The sum over k in [low, high) by step, where multiples of 3 count double."""
    b = BlockBuilder.function("f", [("o", ptr(I64)), ("low", I64), ("high", I64), ("step", I64)])
    o, low, high, step = b.args
    zero = b.const(0, I64)
    with b.for_(low, high, step, [zero, zero]) as loop:
        k, (total, count) = loop
        branch = b.if_(b.cmpi("eq", b.binary("arith.remsi", k, b.const(3, I64)), zero), [I64])
        with branch.then():
            branch.yield_([b.binary("arith.addi", k, k)])
        with branch.otherwise():
            branch.yield_([k])
        loop.yield_(
            [b.binary("arith.addi", total, branch.results[0]), b.binary("arith.addi", count, b.const(1, I64))]
        )
    total, count = loop.results
    b.store(o, total)
    only = b.if_(b.cmpi("sgt", count, b.const(5, I64)))
    with only.then():
        b.store(b.addptr(o, b.const(1, I64)), count)
    function = b.finish()
    for start, stop, stride in [(0, 10, 1), (5, 5, 1), (7, 3, 2), (-4, 20, 3)]:
        out = np.full(2, -1, np.int64)
        interpret(function, 1, [out, start, stop, stride])
        numbers = range(start, stop, stride)
        assert out[0] == sum(2 * k if k % 3 == 0 else k for k in numbers)
        assert out[1] == (len(numbers) if len(numbers) > 5 else -1)
    with pytest.raises(UserError, match=r"scf\.for with step 0"):
        interpret(function, 1, [np.zeros(2, np.int64), 0, 4, 0])
