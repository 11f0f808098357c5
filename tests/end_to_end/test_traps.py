"""Traps other tools fell into, each with its known right answer, on the reference evaluator and on compiled code."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

Array = np.ndarray[Any, Any]
Build = Callable[..., jn.Symbol]


class Both:
    """Runs one small graph on both and insists on equal bits."""

    def __init__(self, agreement: Any) -> None:
        self.agreement = agreement

    def __call__(self, build: Build, *arrays: Any) -> Array:
        return self.compiled(build, *arrays)(*arrays)

    def compiled(self, build: Build, *arrays: Any) -> Callable[..., Array]:
        """The graph, compiled once for all arrays of these shapes and dtypes."""
        values = [np.asarray(array) for array in arrays]
        inputs = [
            jn.TensorType(jn.DType.from_numpy(value.dtype), value.shape, f"x{i}") for i, value in enumerate(values)
        ]
        graph = jn.Graph("trap", inputs)
        graph.output(build(*graph.inputs))
        model = self.agreement.compile(graph)

        def run(*arrays: Any) -> Array:
            ((actual, expected, _),) = self.agreement.both(graph, *map(np.asarray, arrays), model=model).values()
            self.agreement.same(actual, expected)
            return actual

        return run


@pytest.fixture
def both(agreement: Any) -> Both:
    return Both(agreement)


def equal(actual: Array, expected: Any, dtype: Any = None) -> None:
    """Equal values and, when given, the dtype; signs of zeros count."""
    wanted = np.asarray(expected).astype(actual.dtype)
    np.testing.assert_array_equal(actual, wanted)
    if actual.dtype.kind not in "biu":
        np.testing.assert_array_equal(np.signbit(actual.astype(np.float64)), np.signbit(wanted.astype(np.float64)))
    if dtype is not None:
        assert actual.dtype == np.dtype(dtype)


# -- 1: mixed sign --------------------------------------------------------------------------------------------------------


def test_unsigned_against_signed(both: Both) -> None:
    equal(both(lambda x, y: x < y, np.uint32([2**31]), np.int32([0])), [False])
    equal(both(lambda x, y: x > y, np.uint32([2**31]), np.int32([-1])), [True])
    equal(both(lambda x, y: x == y, np.uint8([255]), np.int8([-1])), [False])
    equal(both(lambda x: x + 1, np.uint64([1400000002000000600])), [1400000002000000601], np.uint64)
    equal(both(lambda x, y: x + y, np.int8([-1]), np.uint8([255])), [254], np.int16)


def test_the_top_of_the_lattice_is_no_silent_float(both: Both) -> None:
    """int64 and uint64 join in a float only under the lattice policy, and the ledger says what that may cost."""
    types = [jn.TensorType("int64", (1,)), jn.TensorType("uint64", (1,))]
    graph = jn.Graph("lattice", types)
    assert (graph.inputs[0] + graph.inputs[1]).dtype.is_float
    assert [entry.loss for entry in graph.casts()] == ["overflow", "overflow"]
    for policy in ("exact", "strict"):
        refusing = jn.Graph(policy, types, policy=policy)
        with pytest.raises(jn.UserError, match="cast"):
            refusing.inputs[0] + refusing.inputs[1]


# -- 2: literals ----------------------------------------------------------------------------------------------------------


def test_literals_keep_the_tensors_dtype(both: Both) -> None:
    equal(both(lambda x: x - 1, np.uint8([0])), [255], np.uint8)
    half = np.float16([2.0, -3.0])
    for build in (
        lambda x: x + 0.0, lambda x: jn.maximum(x, 0.0), lambda x: jn.where(x > 0, x, 0.0), lambda x: jn.clip(x, -1.0, 1.0),
        lambda x: x**2.0, lambda x: 0.1 * x, lambda x: x / 3,
    ):  # fmt: skip
        assert both(build, half).dtype == np.float16
    for value in (256, -1):
        graph = jn.Graph("literal", [jn.TensorType("uint8", (1,), "x")])
        with pytest.raises(jn.UserError, match="does not fit uint8"):
            graph.inputs[0] + value
    assert both(lambda x: x + 1, np.array([True])).dtype == np.int64


def test_a_literal_and_a_constant_of_the_same_value_agree(both: Both) -> None:
    x = np.float16([0.1, 1000.0, -3.0])
    literal = both(lambda x: x * 0.3 + 2049, x)
    constant = both(lambda x: x * x.graph.constant(np.float16(0.3)) + x.graph.constant(np.float16(2049)), x)
    equal(literal, constant)


# -- 3: lossy joins -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("narrow", "wide", "value", "lost"),
    [("int32", "bfloat16", 257, 256), ("int32", "float32", 16777217, 16777216), ("uint64", "float64", 2**53 + 1, 2**53)],
)
def test_lossy_joins(both: Both, narrow: str, wide: str, value: int, lost: int) -> None:
    types = [jn.TensorType(narrow, (1,), "x"), jn.TensorType(wide, (1,), "y")]
    graph = jn.Graph("lossy", types)
    graph.output(graph.inputs[0] + graph.inputs[1])
    (entry,) = graph.casts()
    assert entry.loss == "rounding"
    zero = np.zeros(1, jn.DType(wide).numpy)
    result = both(lambda x, y: x + y, np.array([value], narrow), zero)
    assert int(result[0]) == lost
    exact = jn.Graph("exact", types, policy="exact")
    with pytest.raises(jn.UserError, match=f"{narrow}.*{wide}"):
        exact.inputs[0] + exact.inputs[1]


# -- 4: integer division --------------------------------------------------------------------------------------------------


def test_signs_of_division(both: Both) -> None:
    a, b = np.int32([-7, 7, -7, 7, 8, -36]), np.int32([2, 2, -2, -2, -3, 5])
    equal(both(lambda x, y: x // y, a, b), [-4, 3, 3, -4, -3, -8])
    equal(both(lambda x, y: x % y, a, b), [1, 1, -1, -1, -1, 4])
    equal(both(jn.trunc_div, a, b), [-3, 3, 3, -3, -2, -7])
    equal(both(jn.rem, a, b), [-1, 1, -1, 1, 2, -1])
    equal(both(lambda x: -(-x // 5), np.int64([-36, 36, 35])), [-7, 8, 7])


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_division_never_kills_the_process(both: Both, dtype: str) -> None:
    """x // 0 = 0, x % 0 = x, INT_MIN // -1 = INT_MIN, in lanes and in tails, for divisors known and unknown."""
    kind = jn.DType(dtype)
    low, high = int(kind.min_value), int(kind.max_value)
    a = np.array([*[low, high, 0, 1, 7, high // 2] * 11, low], kind.numpy)
    floors = both.compiled(lambda x, y: x // y, a, a)
    truncations = both.compiled(jn.trunc_div, a, a), both.compiled(jn.rem, a, a)
    divisions = ((floors, both.compiled(lambda x, y: x % y, a, a)), truncations)
    for divisor in (0, 1, 3, high, *([-1, low] if low < 0 else [])):
        b = np.full(a.shape, divisor, kind.numpy)
        for divide, modulo in divisions:
            quotient, remainder = divide(a, b), modulo(a, b)
            with np.errstate(all="ignore"):
                equal(quotient * b + remainder, a)
            if divisor == 0:
                equal(quotient, np.zeros_like(a))
            if divisor == -1:
                equal(quotient, np.array([(-int(x) - low) % 2**kind.bits + low for x in a], kind.numpy))
        equal(both(lambda x, d=divisor: x // d, a), floors(a, b))


def test_division_by_padding(both: Both) -> None:
    """The lanes beyond the last element hold no divisor."""
    for size in (1, 5, 17, 33, 65):
        ones = np.ones(size, np.int32)
        equal(both(lambda x, y: jn.sum(x // y) + jn.max(y % x), ones * 6, ones * 3), size * 2 + 3)


# -- 5: reductions --------------------------------------------------------------------------------------------------------


def test_sums_that_overflow_elsewhere(both: Both) -> None:
    equal(both(jn.sum, np.ones((32, 32), bool)), 1024, np.int64)
    equal(both(jn.sum, np.ones(5000, np.uint8)), 5000, np.uint64)
    equal(both(jn.sum, np.full(3, -128, np.int8)), -384, np.int64)
    equal(both(jn.mean, np.ones(65520, np.float16)), 1, np.float16)
    equal(both(jn.sum, np.ones(4096, np.float16) * 8), 32768, np.float16)
    equal(both(jn.mean, np.full(300, 255, np.uint8)), 255, np.float32)
    equal(both(lambda x: jn.sum(x, dtype="int8"), np.ones(200, np.int8)), -56, np.int8)
    equal(both(jn.prod, np.array([True, True])), 1, np.int64)


def test_extremes_with_nan(both: Both) -> None:
    four = np.zeros(4, np.float32)
    extremes = [both.compiled(reduction, four) for reduction in (jn.max, jn.min)]
    positions = [both.compiled(reduction, four) for reduction in (jn.argmax, jn.argmin)]
    maximum = both.compiled(jn.maximum, four[:2], four[:2])
    for values in itertools.permutations([np.nan, np.inf, 1.0, -np.inf]):
        x = np.float32(values)
        for extreme in extremes:
            assert np.isnan(extreme(x))
        for position in positions:
            equal(position(x), list(np.isnan(x)).index(True))
        assert np.isnan(maximum(x[:2], x[1::-1])).tolist() == [bool(np.isnan(x[:2]).any())] * 2


def test_ties_go_to_the_first(both: Both) -> None:
    x = np.int32([3, 1, 3, 1] * 20)
    equal(both(jn.argmax, x), 0)
    equal(both(jn.argmin, x), 1)
    equal(both(lambda x: jn.argmax(x, 0), np.float32(np.zeros((70, 3)))), [0, 0, 0])


@pytest.mark.one_in(8)
@pytest.mark.parametrize("size", [1, 3, 5, 33, 65, 257, 1000])
def test_padding_lanes_never_leak(both: Both, size: int) -> None:
    x = np.full(size, -2.0, np.float32)
    equal(both(jn.max, x), -2)
    equal(both(lambda x: jn.min(-x), x), 2)
    equal(both(lambda x: jn.prod(x * 0 - 1), x), (-1) ** size)
    equal(both(lambda x: jn.max(jn.exp(x * 0)), x), 1)
    equal(both(lambda x: jn.sum(jn.exp(x * 0)), x), size)
    equal(both(jn.max, np.full(size, -7, np.int8)), -7)
    equal(both(jn.all, np.ones(size, bool)), True)
    equal(both(jn.any, np.zeros(size, bool)), False)


# -- 6: empty and rank 0 --------------------------------------------------------------------------------------------------


def test_empty_shapes(both: Both) -> None:
    assert both(lambda x, y: x + y, np.zeros((0, 5), np.float32), np.ones((1, 5), np.float32)).shape == (0, 5)
    assert both(lambda x, y: x + y, np.float32(1.0), np.zeros((0, 2, 2), np.float32)).shape == (0, 2, 2)
    graph = jn.Graph("misfit", [jn.TensorType("float32", (2, 1), "x"), jn.TensorType("float32", (0, 1), "y")])
    with pytest.raises(jn.UserError, match=r"shape|broadcast|size"):
        graph.inputs[0] + graph.inputs[1]
    empty = np.zeros((0, 3), np.float32)
    equal(both(jn.sum, empty), 0)
    equal(both(jn.prod, empty), 1)
    equal(both(lambda x: jn.sum(x, 0), empty), [0, 0, 0])
    assert both(lambda x: jn.max(x, axis=1), empty).shape == (0,)
    assert both(lambda x: jn.argmax(x, 1), empty).shape == (0,)
    equal(both(lambda x: x @ x.T, np.zeros((2, 0), np.float32)), np.zeros((2, 2)))
    equal(both(jn.any, empty), False)
    equal(both(jn.all, empty), True)


def test_the_largest_of_nothing_is_an_error(agreement: Any) -> None:
    for reduction in (jn.max, jn.min, jn.argmax):
        with pytest.raises(jn.UserError, match="empty"):
            reduction(jn.Graph("empty", [jn.TensorType("float32", (0,), "x")]).inputs[0], axis=0)
        graph = jn.Graph("empty", [jn.TensorType("float32", ("n",), "x")])
        graph.output(reduction(graph.inputs[0], axis=0))
        model = agreement.compile(graph)
        for run in (model, lambda x, graph=graph: jn.evaluate(graph, x)):
            with pytest.raises(jn.UserError, match="empty"):
                run(np.zeros(0, np.float32))
            assert run(np.ones(1, np.float32)).shape == ()


def test_scalars_all_the_way(both: Both) -> None:
    equal(both(lambda x, y: jn.where(x < y, x * y, jn.exp(x)), np.float32(2), np.float32(3)), 6, np.float32)
    equal(both(lambda x: jn.sum(x) + jn.max(x) + x.reshape(1)[0], np.int64(5)), 15)
    equal(both(lambda x: x.broadcast_to((2, 3)), np.bool_(True)), np.ones((2, 3), bool))


# -- 7: ragged sizes ------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize("size", [1, 3, 31, 33, 257, 1000, 65537])
def test_ragged_sizes(agreement: Any, size: int) -> None:
    """Sizes no block divides; `bounded` runs between guard bytes."""
    for dtype in ("float32", "bool", "bfloat16"):
        graph = jn.Graph("ragged", [jn.TensorType(dtype, (size,), "x")])
        (x,) = graph.inputs
        graph.output(jn.maximum(x, jn.flip(x)), jn.sum(x), x[::-1][1:] if size > 1 else x, jn.cumsum(x.cast("float32")))
        agreement.bounded(graph, agreement.random(jn.DType(dtype), size, tame=True))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", [(33, 64), (257, 257), (1, 65537), (65537, 1)])
def test_ragged_planes(agreement: Any, shape: tuple[int, int]) -> None:
    for extents in (shape, ("n", "m")):
        graph = jn.Graph("plane", [jn.TensorType("float32", extents, "x")])
        (x,) = graph.inputs
        graph.output(x.T + 1, jn.sum(x, 0), jn.softmax(x, 1), jn.max(x, axis=0) - jn.min(x, axis=1, keepdims=True)[0])
        agreement.bounded(graph, agreement.random(jn.float32, shape, tame=True))


# -- 8: index overflow ----------------------------------------------------------------------------------------------------


def test_addresses_are_64_bits_wide(agreement: Any) -> None:
    """A stride of 319 x 7,864,320 elements wraps in 32 bits. The graph is lowered for such shapes, without ever running it: no
    index may be computed in i32 beyond the range of a block."""
    rows, columns = 319, 7_864_320
    assert rows * columns > 2**31
    graph = jn.Graph("large", [jn.TensorType("uint8", (rows + 1, columns), "x"), jn.TensorType("uint8", ("n", columns), "y")])
    x, y = graph.inputs
    graph.output(x[rows:, -1:] + 1, jn.max(y, axis=1), x[::-1, ::-1][:1, :3] ^ 1)
    model = agreement.compile(graph)
    text = "\n".join(kernel.llvm_ir for kernel in model.kernels)
    assert str(rows * columns + columns - 1) in text
    for line in text.splitlines():
        match = re.search(r"getelementptr \w+, ptr [%@]\w+, (i\d+) ", line)
        if match:
            assert match.group(1) == "i64", line
        assert not re.search(r"= (mul|shl) (nsw |nuw )*i32 ", line), line


def test_the_last_element_of_more_than_two_to_the_31(agreement: Any) -> None:
    """Reads and writes beyond 2**31 bytes, without touching what lies between (the pages are never written)."""
    size = 2**31 + 70
    x = np.zeros(size, np.uint8)
    x[-3:] = [7, 8, 9]
    graph = jn.Graph("far", [jn.TensorType("uint8", (size,), "x")])
    (value,) = graph.inputs
    graph.output(value[-3:] * 2, value[::-1][:3], jn.gather(value, np.array([-1, size - 2, 0]), 0))
    doubled, backward, gathered = agreement.compile(graph)(x)
    equal(doubled, [14, 16, 18])
    equal(backward, [9, 8, 7])
    equal(gathered, [9, 8, 0])


def test_unsigned_positions_and_many_batches(both: Both) -> None:
    data = np.arange(300, dtype=np.int32)
    equal(both(lambda x, i: jn.gather(x, i, 0), data, np.uint8([200, 255, 0])), [200, 255, 0])
    equal(both(lambda x, i: jn.gather(x, i, 0), data, np.uint64([2**63, 2**64 - 1, 5])), [299, 299, 5])
    equal(both(lambda x: jn.sum(x, 1), np.ones((65537, 2), np.int8)), np.full(65537, 2))


# -- 9: rounding across fusion --------------------------------------------------------------------------------------------


def test_fused_is_split(agreement: Any) -> None:
    """x*y+z in one kernel and in two: no contraction to a fused multiply-add, every op rounds to its own dtype."""
    for dtype in ("bfloat16", "float16", "float32", "float64", "tensor_float32"):
        kind = jn.DType(dtype)
        arrays = [agreement.random(kind, 3000, seed, tame=True) for seed in range(3)]
        types = [jn.TensorType(dtype, (3000,), name) for name in "xyz"]
        fused = jn.Graph("fused", types)
        x, y, z = fused.inputs
        fused.output(x * y + z)
        first, second = jn.Graph("first", types[:2]), jn.Graph("second", types[1:])
        first.output(first.inputs[0] * first.inputs[1])
        second.output(second.inputs[0] + second.inputs[1])
        product = agreement.run(agreement.compile(first), *arrays[:2])[0]
        split = agreement.run(agreement.compile(second), product, arrays[2])[0]
        model = agreement.agrees(fused, *arrays)
        agreement.same(agreement.run(model, *arrays)[0], split)


def test_exp_of_a_difference_of_equals(both: Both) -> None:
    x = np.float32(np.random.default_rng(0).uniform(1e4, 1e8, 300))
    equal(both(lambda x: jn.exp(x * 0.3 - x * 0.3), x), np.ones(300))
    equal(both(lambda x: x * 0.1 - x * 0.1, x), np.zeros(300))


def test_casts_are_not_elided(both: Both) -> None:
    x = np.float32([1.00001, 257.3, 3e38, 1e-40])
    equal(both(lambda x: x.cast("bfloat16").cast("float32"), x), x.astype(ml_dtypes.bfloat16).astype(np.float32))
    with np.errstate(all="ignore"):
        equal(both(lambda x: x.cast("float16").cast("float32") * 1, x), x.astype(np.float16).astype(np.float32))
    equal(both(lambda x: x.cast("int32").cast("float32"), x[:2]), [1, 257])
    wide = np.float64([1 + 2**-30, 1e300])
    with np.errstate(all="ignore"):
        equal(both(lambda x: x.cast("float32").cast("float64"), wide), wide.astype(np.float32).astype(np.float64))


def test_float32_products_are_float32(both: Both) -> None:
    """2**-20 next to 1 is lost with 10 mantissa bits; tf32 only where it is asked for."""
    a = np.float32([[1 + 2**-20, 1]])
    b = np.float32([[1], [-1]])
    equal(both(lambda x, y: x @ y, a, b), [[2**-20]])
    equal(both(lambda x, y: jn.matmul(x, y, precision="tf32"), a, b), [[0]])


def test_zeros_keep_their_sign(both: Both) -> None:
    zeros = np.float32([-0.0, 0.0, -0.0] * 20)
    equal(both(lambda x: x + 0.0, zeros), np.zeros(60))
    equal(both(lambda x: x - 0.0, zeros), zeros)
    equal(both(lambda x: x * 1.0, zeros), zeros)
    equal(both(lambda x: -x, zeros), -zeros)
    equal(both(lambda x: 0.0 - x, zeros), np.zeros(60))
    equal(both(lambda x: x * -1.0, zeros), -zeros)
    equal(both(jn.sqrt, zeros), zeros)
    equal(both(lambda x: 1.0 / x, zeros), np.float32([-np.inf, np.inf, -np.inf] * 20))
    equal(both(lambda x: jn.sin(x) + jn.tanh(x), zeros), zeros)
    equal(both(jn.round, np.float32([-0.3, -0.5, 0.4])), [-0.0, -0.0, 0.0])
    equal(both(lambda x: x.cast("float16").cast("bfloat16"), zeros), zeros)
    x = np.float32([2.0, 3.0, 10.0])
    equal(both(lambda x: jn.sqrt(x) * jn.sqrt(x), x), np.sqrt(x) * np.sqrt(x))


def test_denormals_are_kept(both: Both) -> None:
    for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
        tiny = np.array([ml_dtypes.finfo(dtype).smallest_subnormal] * 37).astype(dtype)
        assert (tiny > 0).all()
        equal(both(lambda x: x + x, tiny), tiny + tiny)
        equal(both(lambda x: x * 1.0, tiny), tiny)
        equal(both(lambda x: jn.maximum(x, -x), tiny), tiny)
    equal(both(jn.sum, np.float32([1e-45] * 8)), np.float32(1.1210388e-44))


# -- 10: casts, shifts, interning -----------------------------------------------------------------------------------------


def test_float_to_integer_saturates(both: Both) -> None:
    x = np.float32([np.nan, np.inf, -np.inf, 1e20, -1e20, 2.9, -2.9, 2147483648.0, -2147483904.0])
    top, low = 2**31 - 1, -(2**31)
    equal(both(lambda x: x.cast("int32"), x), [0, top, low, top, low, 2, -2, top, low])
    equal(both(lambda x: x.cast("uint8"), x), [0, 255, 0, 255, 0, 2, 0, 255, 0])
    equal(both(lambda x: x.cast("int8"), x), [0, 127, -128, 127, -128, 2, -2, 127, -128])
    equal(both(lambda x: x.cast("uint64"), x)[:5], np.array([0, 2**64 - 1, 0, 2**64 - 1, 0], np.uint64))
    equal(both(lambda x: x.cast("int64"), x)[:5], np.array([0, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63)]))
    equal(both(lambda x: x.cast("bool"), np.float32([0.0, -0.0, np.nan, 1e-45])), [False, False, True, True])
    equal(both(lambda x: x.cast("int8"), np.int32([300, -129, 128])), [44, 127, -128])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32", "uint64"])
def test_shifts_past_the_width(both: Both, dtype: str) -> None:
    kind = jn.DType(dtype)
    width = kind.bits
    amounts = [0, 1, width - 1, width, width + 1, min(2 * width, 127), 127]
    x = np.full(len(amounts), 5, kind.numpy)
    left = [5 << n if n < width else 0 for n in amounts]
    right = [5 >> n if n < width else 0 for n in amounts]
    counts = np.array(amounts, kind.numpy)
    equal(both(lambda x, n: x << n, x, counts), np.array([value % 2**width for value in left], np.uint64).astype(kind.numpy))
    equal(both(lambda x, n: x >> n, x, counts), right)
    if kind.kind == "int":
        equal(both(lambda x, n: x >> n, -x, counts), [-5 >> min(n, width - 1) for n in amounts])
        equal(both(lambda x, n: x << n, x, -counts), [5] + [0] * 6)
        equal(both(lambda x, n: x >> n, -x, -counts), [-5] + [-1] * 6)
    for literal in (0, 1, width):
        equal(both(lambda x, n=literal: x << n, x[:1]), np.array([(5 << literal) % 2**width], np.uint64).astype(kind.numpy))


def test_constants_are_told_apart_by_their_bits(both: Both) -> None:
    """In Python True == 1 == 1.0 and 0.0 == -0.0, and NaN is not itself: none of that may merge or split constants."""
    x = np.float32([2.0, -2.0])
    equal(both(lambda x: jn.concat([x * 0.0, x * -0.0], 0), x), np.float32([0.0, -0.0, -0.0, 0.0]))
    equal(both(lambda x: jn.concat([x / 0.0, x / -0.0], 0), x), np.float32([np.inf, -np.inf, -np.inf, np.inf]))
    flags = np.array([True, False])
    parts = both(lambda b: jn.concat([(b + 1).cast("float32"), (b | True).cast("float32"), b + 1.0], 0), flags)
    equal(parts, [2, 1, 1, 1, 2, 1])
    nan = np.float32(np.nan)
    result = both(lambda x: jn.concat([jn.where(x > 0, x, float("nan")), jn.where(x > 0, nan, x)], 0), x)
    assert np.isnan(result).tolist() == [False, True, True, False]

    def build(x: jn.Symbol) -> jn.Symbol:
        one, true = (x.graph.constant(value).cast("float32") for value in (np.int8(1), True))
        return jn.stack([one + x, true - x], 0)

    equal(both(build, x), [[3, -1], [-1, 3]])
