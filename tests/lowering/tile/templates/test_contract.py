"""Matrix products: every operand layout, ragged sizes, batches, element types, prologues, epilogues, packed
panels."""

import ml_dtypes
import numpy as np
import pytest
from joinery.graph.dims.dim import dim
from joinery.lowering.nest import Affine
from joinery.lowering.tile.schedule import Schedule
from joinery.lowering.tile.templates.products import packable_operand
from joinery.promotion.dtype import bfloat16, float16, float32, float64, int8, int32, int64, uint8
from joinery.promotion.errors import UnsupportedError, UserError

SHAPES = [
    (1, 1, 1),
    (3, 5, 7),
    (31, 33, 65),
    (64, 64, 64),
    (65, 63, 130),
    (1, 100, 33),
    (33, 1, 600),
    (2, 3, 0),
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("left", ["mk", "km"])
@pytest.mark.parametrize("right", ["kn", "nk"])
def test_layouts_and_sizes(body, rng, m, n, k, left, right):
    sizes = {"m": m, "n": n, "k": k}
    x, y = (rng.integers(-4, 5, [sizes[d] for d in dims]).astype(np.float32) for dims in (left, right))
    b = body(**sizes)
    product = b.contract(b.load(x, left), b.load(y, right), "k", float32)
    b.store(product, ["m", "n"])
    a, c = x if left == "mk" else x.T, y if right == "kn" else y.T
    for schedule in (None, Schedule(((0, 16), (1, 32), (2, 16)))):
        np.testing.assert_array_equal(b.run(schedule)[0], a @ c)
    assert b.launch.flops == 2 * m * n * k


def test_operands_are_read_in_memory_order(body, rng):
    b = body(m=32, n=32, k=32)
    x, y = rng.standard_normal((32, 32)), rng.standard_normal((32, 32))
    b.store(b.contract(b.load(x, "km"), b.load(y, "nk"), "k", float64), ["m", "n"])
    np.testing.assert_allclose(b.run()[0], x.T @ y.T, rtol=1e-12, atol=1e-12)
    assert sum(op.name == "tt.trans" for op in b.program.func.body.block.ops) == 2


@pytest.mark.parametrize(
    ("source", "dtype"),
    [(np.float16, float32), (ml_dtypes.bfloat16, float32), (np.float64, float64), (np.int8, int32), (np.uint8, int32),
     (np.bool_, int32), (np.int16, int32), (np.int32, int32), (np.int64, int64), (np.float16, float16),
     (ml_dtypes.bfloat16, bfloat16), (np.float32, float64)],
)  # fmt: skip
def test_element_types(body, rng, source, dtype):
    x = rng.integers(0 if np.dtype(source).kind in "ub" else -3, 4, (20, 37)).astype(source)
    y = rng.integers(0 if np.dtype(source).kind in "ub" else -3, 4, (37, 9)).astype(source)
    b = body(m=20, n=9, k=37)
    b.store(b.contract(b.load(x, "mk"), b.load(y, "kn"), "k", dtype), ["m", "n"])
    expected = (x.astype(np.float64) @ y.astype(np.float64)).astype(dtype.numpy)
    for schedule in (None, Schedule(((0, 16), (1, 16), (2, 16)))):
        np.testing.assert_array_equal(b.run(schedule)[0], expected)


def test_integers_wrap_and_unsigned_bytes_are_not_signed(body):
    big = np.full((2, 2), 2**62, np.int64)
    b = body(m=2, n=2, k=2)
    b.store(b.contract(b.load(big, "mk"), b.load(big, "kn"), "k", int64), ["m", "n"])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(b.run()[0], big @ big)
    x, y = np.full((2, 3), 200, np.uint8), np.full((3, 2), -100, np.int8)
    b = body(m=2, n=2, k=3)
    b.store(b.contract(b.load(x, "mk", uint8), b.load(y, "kn", int8), "k", int32), ["m", "n"])
    np.testing.assert_array_equal(b.run()[0], np.full((2, 2), -60000))


def test_batches_with_broadcast_and_split_result_axes(body, rng):
    """(batch, seq, k) @ (k, heads·width) stored as (batch, heads, seq, width): a projection of attention."""
    batch, heads, seq, width, k = 2, 3, 37, 16, 48
    x, w = rng.standard_normal((batch, seq, k)), rng.standard_normal((k, heads, width))
    b = body(b=batch, h=heads, m=seq, n=width, k=k)
    product = b.contract(b.load(x, ["b", "m", "k"]), b.load(w, ["k", "h", "n"]), "k", float64)
    b.store(product, ["b", "h", "m", "n"])
    np.testing.assert_allclose(b.run()[0], np.einsum("bmk,khn->bhmn", x, w), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("k", [40, 600])
def test_prologue_and_epilogue(body, rng, k):
    x, w = rng.standard_normal((33, k)).astype(np.float32), rng.standard_normal((k, 70)).astype(np.float32)
    bias, residual = (
        rng.standard_normal(70).astype(np.float32),
        rng.standard_normal((33, 70)).astype(np.float32),
    )
    b = body(m=33, n=70, k=k)
    left = b.op("exp", b.load(x, "mk"))  # exp(0) = 1: padding along k must not reach the sum
    product = b.op("add", b.contract(left, b.load(w, "kn"), "k", float32), b.load(bias, "n"))
    b.store(b.op("add", b.op("relu", product), b.load(residual, "mn")), ["m", "n"])
    expected = np.maximum(np.exp(x) @ w + bias, 0) + residual
    np.testing.assert_allclose(b.run()[0], expected, rtol=2e-4, atol=2e-3)


def test_infinite_padding_partner(body):
    """1 / 0 in a padded lane of one operand meets 0 in the other: still no NaN."""
    x, y = np.ones((2, 3)), np.full((3, 2), 2.0)
    b = body(m=2, n=2, k=3)
    right = b.op("div", b.const(1.0, float64), b.load(y, "kn"))
    b.store(b.contract(b.load(x, "mk"), right, "k", float64), ["m", "n"])
    np.testing.assert_array_equal(b.run()[0], np.full((2, 2), 1.5))


def test_two_products_share_rows_and_columns(body, rng):
    x, gate, up = rng.standard_normal((10, 20)), rng.standard_normal((20, 30)), rng.standard_normal((20, 30))
    b = body(m=10, n=30, k=20)
    left = b.load(x, "mk")
    first = b.contract(left, b.load(gate, "kn"), "k", float64)
    second = b.contract(left, b.load(up, "kn"), "k", float64)
    b.store(b.op("mul", b.op("sigmoid", first), second), ["m", "n"])
    np.testing.assert_allclose(b.run()[0], (x @ up) / (1 + np.exp(-(x @ gate))), rtol=1e-10)


def test_vectors_without_an_axis_of_their_own(body, rng):
    x, y = rng.standard_normal(50), rng.standard_normal((50, 20))
    b = body(n=20, k=50)
    b.store(b.contract(b.load(x, "k"), b.load(y, "kn"), "k", float64), ["n"])
    np.testing.assert_allclose(b.run()[0], x @ y, rtol=1e-12)
    b = body(k=50)
    b.store(b.contract(b.load(x, "k"), b.load(x, "k"), "k", float64), [])
    np.testing.assert_allclose(b.run()[0], x @ x, rtol=1e-12)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (70, 3, 1000), (0, 5, 5), (5, 5, 0)])
def test_sizes_known_at_launch(body, rng, m, n, k):
    x, y = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    d = {name: dim(name) for name in "mnk"}
    b = body({"m": m, "n": n, "k": k}, **d)
    left, right = b.load(x, "mk", shape=(d["m"], d["k"])), b.load(y, "kn", shape=(d["k"], d["n"]))
    b.store(b.contract(left, right, "k", float64), ["m", "n"])
    np.testing.assert_allclose(b.run()[0], x @ y, rtol=1e-10, atol=1e-11)


def pack(matrix, width):
    n = matrix.shape[-1]
    padded = np.zeros((*matrix.shape[:-1], -(-n // width) * width), matrix.dtype)
    padded[..., :n] = matrix
    panels = padded.reshape(*matrix.shape[:-1], -1, width)
    return np.ascontiguousarray(np.moveaxis(panels, -2, -3))


@pytest.mark.parametrize(("n", "k", "width"), [(64, 40, 32), (70, 33, 32), (5, 600, 16)])
def test_packed_operand(body, rng, n, k, width):
    x, w = rng.standard_normal((33, k)), rng.standard_normal((k, n))
    b = body(m=33, n=n, k=k)
    b.store(b.contract(b.load(x, "mk"), b.load(w, "kn", kind="constant"), "k", float64), ["m", "n"])
    assert packable_operand(b.nest())[1:] == (k, n)
    b.arrays["constant", 0] = pack(w, width)
    schedule = Schedule(((0, 16), (1, width), (2, 64)), packed_b=width)
    np.testing.assert_allclose(b.run(schedule)[0], x @ w, rtol=1e-10, atol=1e-12)


def test_packed_operand_with_batches_and_split_columns(body, rng):
    x, w = rng.standard_normal((2, 5, 20)), rng.standard_normal((2, 20, 64))
    b = body(b=2, h=4, m=5, n=16, k=20)
    right = b.load(w, [], kind="constant", at=Affine(0, ((0, 20 * 64), (1, 16), (3, 1), (4, 64))))
    b.store(b.contract(b.load(x, ["b", "m", "k"]), right, "k", float64), ["b", "h", "m", "n"])
    b.arrays["constant", 0] = pack(w, 16)
    expected = (x @ w).reshape(2, 5, 4, 16).transpose(0, 2, 1, 3)
    schedule = Schedule(((2, 8), (3, 16), (4, 32)), packed_b=16)
    np.testing.assert_allclose(b.run(schedule)[0], expected, rtol=1e-10, atol=1e-12)


def test_transposed_operands_are_not_packable(body, rng):
    w = rng.standard_normal((8, 8))
    b = body(m=8, n=8, k=8)
    b.store(b.contract(b.load(w, "mk"), b.load(w, "nk", kind="constant"), "k", float64), ["m", "n"])
    assert packable_operand(b.nest()) is None
    with pytest.raises(UnsupportedError, match="in panels of 8"):
        b.run(Schedule(((0, 8), (1, 8), (2, 8)), packed_b=8))


def test_panel_width_must_be_the_block_of_the_columns(body, rng):
    w = rng.standard_normal((8, 8))
    b = body(m=8, n=8, k=8)
    b.store(b.contract(b.load(w, "mk"), b.load(w, "kn", kind="constant"), "k", float64), ["m", "n"])
    with pytest.raises(UserError, match="packed_b=16"):
        b.run(Schedule(((0, 8), (1, 8), (2, 8)), packed_b=16))


def test_tf32_products(body, rng):
    x, y = rng.standard_normal((9, 9)).astype(np.float32), rng.standard_normal((9, 9)).astype(np.float32)
    b = body(m=9, n=9, k=9)
    b.store(b.contract(b.load(x, "mk"), b.load(y, "kn"), "k", float32, "tf32"), ["m", "n"])
    rounded = [
        ((a.view(np.uint32) + 0xFFF + ((a.view(np.uint32) >> 13) & 1)) & 0xFFFFE000)
        .astype(np.uint32)
        .view(np.float32)
        for a in (x, y)
    ]
    np.testing.assert_allclose(b.run()[0], rounded[0].astype(np.float64) @ rounded[1], rtol=1e-5, atol=1e-6)
