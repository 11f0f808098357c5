"""Elementwise nests: ragged sizes, broadcasts, transpositions, gathers, guards, runtime sizes."""

import numpy as np
import pytest
from joinery.graph.dims.dim import dim
from joinery.lowering.nest import Affine
from joinery.lowering.tile.schedule import Schedule
from joinery.promotion.dtype import bool_, float32, float64, int64

SIZES = [0, 1, 3, 31, 33, 257, 1000, 1023, 1024, 1025]


@pytest.mark.parametrize("n", SIZES)
def test_one_axis(body, rng, n):
    x = rng.standard_normal(n).astype(np.float32)
    b = body(i=n)
    b.store(b.op("add", b.load(x, ["i"]), b.const(2.5, float32)), ["i"])
    np.testing.assert_array_equal(b.run()[0], x + np.float32(2.5))
    assert b.launch.bytes_read == 4 * n
    assert b.launch.flops == n


@pytest.mark.parametrize("shape", [(3, 1), (1, 7), (33, 31), (257, 3), (5, 1000), (64, 64)])
def test_broadcast_row_and_column(body, rng, shape):
    x, row, column = rng.standard_normal(shape), rng.standard_normal(shape[1]), rng.standard_normal(shape[0])
    b = body(i=shape[0], j=shape[1])
    total = b.op("mul", b.op("add", b.load(x, ["i", "j"]), b.load(row, ["j"])), b.load(column, ["i"]))
    b.store(total, ["i", "j"])
    np.testing.assert_array_equal(b.run()[0], (x + row) * column[:, None])


@pytest.mark.parametrize("shape", [(31, 33), (64, 64), (1, 5), (100, 3), (257, 65)])
def test_transposed_load_is_read_in_memory_order(body, rng, shape):
    x, y = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape[::-1]).astype(np.float32)
    b = body(i=shape[1], j=shape[0])
    b.store(b.op("add", b.load(x, ["j", "i"]), b.load(y, ["i", "j"])), ["i", "j"])
    np.testing.assert_array_equal(b.run()[0], x.T + y)
    if min(shape) > 16:
        assert any(op.name == "tt.trans" for op in b.program.func.body.block.ops)


def test_two_stores_of_different_layout(body, rng):
    x = rng.standard_normal((70, 37))
    b = body(i=70, j=37)
    value = b.op("negate", b.load(x, ["i", "j"]))
    b.store(value, ["i", "j"])
    b.store(value, ["j", "i"])
    plain, transposed = b.run()
    np.testing.assert_array_equal(plain, -x)
    np.testing.assert_array_equal(transposed, -x.T)


def test_reversed_and_strided_load(body, rng):
    x = rng.standard_normal(100)
    b = body(i=33)
    b.store(b.load(x, ["i"], at=Affine(98, ((0, -3),))), ["i"])
    np.testing.assert_array_equal(b.run()[0], x[98::-3][:33])


def test_gather_with_indices_in_memory(body, rng):
    table, rows = rng.standard_normal((50, 17)), rng.integers(0, 50, 9)
    b = body(i=9, j=17)
    index = b.load(rows, ["i"])
    b.store(b.load(table, [], at=Affine(0, ((1, 1),)), indices=[(index, 17)]), ["i", "j"])
    np.testing.assert_array_equal(b.run()[0], table[rows])


def test_guarded_loads_do_not_touch_memory(body, rng):
    x, y = rng.standard_normal(10), rng.standard_normal(23)
    b = body(i=33)
    at = b.index("i")
    first = b.op("less", at, b.const(10, int64), dtype=bool_)
    second = b.op("logical_not", first, dtype=bool_)
    left = b.load(x, ["i"], guard=first)
    right = b.load(y, [], at=Affine(-10, ((0, 1),)), guard=second)
    b.store(b.op("where", first, left, right), ["i"])
    np.testing.assert_array_equal(b.run()[0], np.concatenate([x, y]))


@pytest.mark.parametrize(("batch", "n"), [(1, 1), (3, 1025), (7, 0), (0, 5), (5, 300)])
def test_sizes_known_at_launch(body, rng, batch, n):
    x, row = rng.standard_normal((batch, n)), rng.standard_normal(n)
    b = body({"batch": batch, "n": n}, i=dim("batch"), j=dim("n"))
    value = b.op(
        "sub", b.load(x, ["i", "j"], shape=(dim("batch"), dim("n"))), b.load(row, ["j"], shape=(dim("n"),))
    )
    scaled = b.op("mul", value, b.op("cast", b.add("dim", int64, (), extent=dim("n")), dtype=float64))
    b.store(scaled, ["i", "j"])
    np.testing.assert_array_equal(b.run()[0], (x - row) * n)
    assert b.program.scalars == len(set(b.launch.scalars)) == 2


def test_scalar_nest(body):
    b = body()
    b.store(b.op("add", b.load(np.array(2.0), []), b.const(1.0, float64)), [])
    assert b.run()[0] == 3.0


def test_bool_is_a_byte_in_memory(body, rng):
    x = rng.integers(0, 2, 100).astype(np.bool_)
    b = body(i=100)
    b.store(b.op("logical_not", b.load(x, ["i"]), dtype=bool_), ["i"])
    np.testing.assert_array_equal(b.run()[0], ~x)


def test_streaming_stores_carry_the_cache_modifier(body, rng):
    x = rng.standard_normal(100)
    b = body(i=100)
    b.store(b.op("negate", b.load(x, ["i"])), ["i"])
    np.testing.assert_array_equal(b.run(Schedule(((0, 64),), streaming=True))[0], -x)
    (store,) = [op for op in b.program.func.body.block.ops if op.name == "tt.store"]
    assert "cs" in str(store.properties["cachePolicy"])
