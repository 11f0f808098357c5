"""Positions nobody reads are not computed; positions somebody reads are, whatever the masks look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from joinery.lowering.llvm.host.loops.demanded_elements import DemandedElements
from joinery.lowering.tt.builder.block_builder import BlockBuilder
from joinery.lowering.tt.types import ptr, scalar_type

I64 = scalar_type("i64")
ROWS, COLUMNS = 64, 32


def add(b: Any, x: Any, y: Any) -> list[Any]:
    return [b.binary("arith.addf", x[0], y[0])]


def kernel(*names: str) -> Any:
    """Pointers, and sizes for the names in lower case."""
    return BlockBuilder.function("k", [(name, ptr("f32") if name.isupper() else I64) for name in names])


def positions(b: Any, n: int) -> Any:
    return b.cast("arith.extsi", b.arange(n), "i64")


def below(b: Any, n: int, limit: Any) -> Any:
    return b.cmpi("slt", positions(b, n), b.splat(limit, (n,)))


def matrix(b: Any, base: Any, rows: int = ROWS, columns: int = COLUMNS) -> Any:
    """Pointers to a row-major block at `base`."""
    row = b.binary("arith.muli", positions(b, rows), b.const(columns, "i64", (rows,)))
    offsets = b.binary(
        "arith.addi", b.broadcast(b.expand_dims(row, 1), (rows, columns)),
        b.broadcast(b.expand_dims(positions(b, columns), 0), (rows, columns)),
    )  # fmt: skip
    return b.addptr(b.splat(base, (rows, columns)), offsets)


def line(b: Any, base: Any, n: int = ROWS) -> Any:
    return b.addptr(b.splat(base, (n,)), positions(b, n))


def row_sums(b: Any, base: Any) -> Any:
    """The sums of the 64 rows of 32 at `base`, as an unmasked reduction."""
    (total,) = b.reduce([b.load(matrix(b, base))], 1, add)
    return total


def found(demanded: DemandedElements, value: Any) -> list[tuple[int, Any]]:
    return list(demanded.of(value))


def test_a_store_limits_what_it_stores() -> None:
    b = kernel("X", "O", "n")
    x, out, n = b.args
    mask = below(b, ROWS, n)
    total = row_sums(b, x)
    doubled = b.binary("arith.addf", total, total)
    b.store(line(b, out), doubled, mask)
    demanded = DemandedElements(b.finish())
    assert found(demanded, doubled) == [(0, mask)]
    assert found(demanded, total) == [(0, mask)]
    block = total.op.operands[0]
    assert found(demanded, block) == [(0, mask)]  # not the reduced dimension
    assert found(demanded, mask) == []


def test_limits_follow_dimensions() -> None:
    b = kernel("X", "Y", "O", "n", "m")
    x, y, out, n, m = b.args
    row_mask, square = below(b, ROWS, n), below(b, ROWS, m)
    left, right = b.load(matrix(b, x)), b.trans(b.load(matrix(b, y)), (1, 0))
    product = b.dot(left, right, b.const(0.0, "f32", (ROWS, ROWS)))
    flipped = b.trans(product, (1, 0))
    both = b.binary(
        "arith.andi", b.broadcast(b.expand_dims(row_mask, 1), (ROWS, ROWS)), b.broadcast(b.expand_dims(square, 0), (ROWS, ROWS))
    )
    b.store(matrix(b, out, ROWS, ROWS), flipped, both)
    demanded = DemandedElements(b.finish())
    assert found(demanded, flipped) == [(0, row_mask), (1, square)]
    assert found(demanded, product) == [(0, square), (1, row_mask)]
    assert found(demanded, left) == [(0, square)]
    assert found(demanded, right) == [(1, row_mask)]
    assert found(demanded, right.op.operands[0]) == [(0, row_mask)]


def test_different_masks_together_limit_nothing() -> None:
    b = kernel("X", "O", "P", "n", "m")
    x, out, other, n, m = b.args
    total = row_sums(b, x)
    b.store(line(b, out), total, below(b, ROWS, n))
    b.store(line(b, other), total, below(b, ROWS, m))
    assert found(DemandedElements(b.finish()), total) == []


def test_the_first_choice_is_read_where_the_condition_holds() -> None:
    b = kernel("X", "O", "n")
    x, out, n = b.args
    mask = below(b, ROWS, n)
    total, other = row_sums(b, x), b.load(line(b, x))
    b.store(line(b, out), b.select(mask, total, other))
    demanded = DemandedElements(b.finish())
    assert found(demanded, total) == [(0, mask)]
    assert found(demanded, other) == []


def test_addresses_keep_everything() -> None:
    b = kernel("X", "O", "n")
    x, out, n = b.args
    index = b.cast("arith.fptosi", row_sums(b, x), "i64")
    mask = below(b, ROWS, n)
    taken = b.load(b.addptr(b.splat(x, (ROWS,)), index), mask)
    b.store(line(b, out), taken, mask)
    demanded = DemandedElements(b.finish())
    assert found(demanded, taken) == [(0, mask)]
    assert found(demanded, index) == []


def carried(variant: bool) -> tuple[Any, Any, Any]:
    """acc += row sums, three times; every turn stores it where position < n · turn (variant), or < n."""
    b = kernel("X", "O", "n")
    x, out, n = b.args
    outside = below(b, ROWS, n)
    three, one = b.const(3, "i64"), b.const(1, "i64")
    with b.for_(b.const(0, "i64"), three, one, [b.const(0.0, "f32", (ROWS,))]) as loop:
        turn = b.binary("arith.addi", loop.index, one)
        mask = below(b, ROWS, b.binary("arith.muli", n, turn)) if variant else outside
        total = row_sums(b, x)
        start = b.binary("arith.muli", loop.index, b.const(ROWS, "i64"))
        b.store(line(b, b.addptr(out, start)), loop.args[0], mask)
        loop.yield_([b.binary("arith.addf", loop.args[0], total)])
    function = b.finish()
    return function, total, outside


def test_a_mask_that_changes_with_the_turn_limits_nothing_carried() -> None:
    function, total, mask = carried(variant=False)
    assert found(DemandedElements(function), total) == [(0, mask)]
    function, total, _ = carried(variant=True)
    assert found(DemandedElements(function), total) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [0, 1, 5, 16, 21, 64])
@pytest.mark.parametrize("variant", [False, True])
def test_carried_blocks_run_right(native: Any, variant: bool, n: int) -> None:
    x = np.random.default_rng(n).integers(-9, 10, (ROWS, COLUMNS)).astype(np.float32)
    out = np.full((3, ROWS), 7, np.float32)
    native(carried(variant)[0])(2, x, out, n)
    for turn in range(3):
        count = min(ROWS, n * (turn + 1) if variant else n)
        np.testing.assert_array_equal(out[turn, :count], x.sum(1)[:count] * turn)
        np.testing.assert_array_equal(out[turn, count:], 7)


@pytest.mark.parametrize(("n", "m"), [(0, 64), (5, 3), (3, 40), (64, 64), (33, 17)])
def test_two_readers_with_masks_of_their_own(native: Any, n: int, m: int) -> None:
    """A sum read in two places, a by-product (exp) kept for both, and their product."""
    b = kernel("X", "O", "P", "n", "m")
    x, out, other, rows, more = b.args
    block = b.unary("math.exp", b.load(matrix(b, x)))
    (total,) = b.reduce([block], 1, add)
    b.store(line(b, out), total, below(b, ROWS, rows))
    scaled = b.binary("arith.mulf", block, b.broadcast(b.expand_dims(total, 1), (ROWS, COLUMNS)))
    where = b.broadcast(b.expand_dims(below(b, ROWS, more), 1), (ROWS, COLUMNS))
    b.store(matrix(b, other), scaled, where)
    function = native(b.finish())
    for seed in range(2):
        values = np.random.default_rng(seed).standard_normal((ROWS, COLUMNS)).astype(np.float32)
        sums, products = np.full(ROWS, 7, np.float32), np.full((ROWS, COLUMNS), 7, np.float32)
        function(1, values, sums, products, n, m)
        e = np.exp(values.astype(np.float64))
        np.testing.assert_allclose(sums[:n], e.sum(1)[:n], rtol=1e-5)
        np.testing.assert_allclose(products[:m], (e * e.sum(1, keepdims=True))[:m], rtol=1e-5)
        assert (sums[n:] == 7).all()
        assert (products[m:] == 7).all()


@pytest.mark.one_in(18)
@pytest.mark.parametrize("n", [0, 1, 7, 16, 50, 64])
def test_a_product_of_masked_rows(native: Any, n: int) -> None:
    """Rows are masked only where the product is stored; a second product reads all of the first."""
    for chained in (False, True):
        b = kernel("X", "Y", "O", "n")
        x, y, out, rows = b.args
        zeros = b.const(0.0, "f32", (ROWS, ROWS))
        product = b.dot(b.load(matrix(b, x)), b.trans(b.load(matrix(b, y)), (1, 0)), zeros)
        if chained:
            product = b.dot(b.trans(product, (1, 0)), product, zeros)
        where = b.broadcast(b.expand_dims(below(b, ROWS, rows), 1), (ROWS, ROWS))
        b.store(matrix(b, out, ROWS, ROWS), product, where)
        rng = np.random.default_rng(n)
        left, right = rng.integers(-4, 5, (2, ROWS, COLUMNS)).astype(np.float32)
        result = np.full((ROWS, ROWS), 7, np.float32)
        native(b.finish())(1, left, right, result, n)
        expected = left @ right.T
        if chained:
            expected = expected.T @ expected
        np.testing.assert_array_equal(result[:n], expected[:n])
        assert (result[n:] == 7).all()
