"""Scatters, sorts, and running products and extremes against NumPy, on every device, with sizes and values that hurt."""

from __future__ import annotations

from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

from ..support.tiers import each

SIZES = (0, 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65)
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "bfloat16", "float64")
SLOW = pytest.mark.slow


def slow(*values: Any) -> list[Any]:
    """Values of a parameter that are tried in the slow tier alone."""
    return [pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=SLOW) for each in values]


COMBINE: dict[str, Any] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def hard(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Values with many equal ones, the ends of the range, NaN, infinities and zeros of both signs."""
    rng, kind = np.random.default_rng(seed), jn.DType(dtype)
    few = rng.integers(-3 if kind.kind in ("int", "float") else 0, 4, shape)
    if kind.is_bool:
        return (few > 1).astype(np.bool_)
    if kind.is_integer:
        ends = np.where(rng.random(shape) < 0.5, kind.min_value, kind.max_value)
        return np.where(rng.random(shape) < 0.2, ends.astype(kind.numpy), few.astype(kind.numpy))
    special = rng.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], shape)
    return np.where(rng.random(shape) < 0.4, special, few).astype(kind.numpy)


def stable(x: Any, axis: int, descending: bool) -> Any:
    """Positions in order by NumPy alone."""
    wide = x.astype(np.float32) if x.dtype == ml_dtypes.bfloat16 else x
    if not descending:
        return np.argsort(wide, axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(wide, axis), axis, kind="stable"), axis)


def same(got: Any, want: Any) -> None:
    """Equal bit by bit, but for which NaN it is."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype.kind in "fV":
        got, want = (each.astype(np.float64) for each in (got, want))
        assert np.array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(want) & ~np.isnan(want))
    np.testing.assert_array_equal(got, want)


def built(build: Any, *types: tuple[str, tuple[Any, ...]]) -> Any:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, f"x{position}") for position, (dtype, shape) in enumerate(types)])
    made = build(*graph.inputs)
    graph.output(*(made if isinstance(made, tuple) else (made,)))
    return graph


def on_all(graph: Any, *arrays: Any, device: str = "cpu") -> Any:
    """The results of the evaluator, which a device gives as well."""
    want = jn.evaluate(graph, *arrays)
    got = jn.compile(graph, device=device, cache=False)(*arrays)
    for one, other in zip(got, want, strict=True) if isinstance(want, tuple) else ((got, want),):
        same(one, other)
    return want


# -- sorts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", *slow("uint64", *DTYPES)])
def test_sorting_is_stable_with_nan_last_in_every_dtype(dtype: str) -> None:
    def build(x: Any) -> Any:
        return jn.sort(x), jn.argsort(x), jn.argsort(x, descending=True), *jn.top_k(x, 3), *jn.bottom_k(x, 12)

    graph = built(build, (dtype, ("n", 17)))
    compiled = jn.compile(graph, device="cpu", cache=False)
    for rows in (1, 5):
        x = hard(dtype, (rows, 17), rows)
        up, down = stable(x, 1, False), stable(x, 1, True)
        found = [np.take_along_axis(x, up, 1), up, down]
        found += [np.take_along_axis(x, down[:, :3], 1), down[:, :3], np.take_along_axis(x, up[:, :12], 1), up[:, :12]]
        for run in (compiled, lambda *given: jn.evaluate(graph, *given)):
            for got, want in zip(run(x), found, strict=True):
                same(got, want)


def test_lines_of_every_length_one_plan_for_all_of_them() -> None:
    graph = built(lambda x: (jn.argsort(x), jn.argsort(x, 0), jn.sort(x, 1, True)), ("float32", ("rows", "n")))
    compiled = jn.compile(graph, device="cpu", cache=False)
    assert all(kernel.name.split("_")[0] in ("ordered", "map") for kernel in compiled.kernels)
    for n in (*SIZES, 1025):
        x = hard("float32", (3, n), n)
        up, down, order = compiled(x)
        np.testing.assert_array_equal(up, stable(x, 1, False))
        np.testing.assert_array_equal(down, stable(x, 0, False))
        same(order, np.take_along_axis(x, stable(x, 1, True), 1))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "int64", *slow("uint64", "int32", *DTYPES)])
def test_lines_that_are_sorted_by_bytes(dtype: str) -> None:
    """From 256 elements on, known or open: of few values, of one, of those that differ in one byte, of all."""
    lengths = (255, 256, 257, 1030)
    opened = jn.compile(built(lambda x: (jn.argsort(x), jn.sort(x, -1, True)), (dtype, ("r", "n"))), device="cpu", cache=False)
    known = jn.compile(built(lambda x: (jn.argsort(x), jn.sort(x, -1, True)), (dtype, (4, 257))), device="cpu", threads=2)
    for n in lengths:
        x = hard(dtype, (4, n), n)
        rng = np.random.default_rng(n)
        x[1] = x[1, 0]
        x[2] = rng.integers(0, 2**63, n).view(np.float64).astype(x.dtype) if x.dtype.kind in "fV" else rng.integers(0, 2**62, n)
        x[3] = np.arange(n)[::-1]
        for compiled in (opened, known) if n == 257 else (opened,):
            up, down = compiled(x)
            np.testing.assert_array_equal(up, stable(x, 1, False))
            same(down, np.take_along_axis(x, stable(x, 1, True), 1))


LENGTHS = (1, 2, 3, 15, 16, 17, 31, 33, 64, 100, 255, 256, 257, 300, 512, 513, 1030, 2049)
"""Of lines that a program sorts whole: around a square of rows and a piece of them."""


@pytest.mark.one_in(18)
@pytest.mark.parametrize(("lines", "n"), each(
    (("float32", 5), ("float32", 37), ("float64", 3), ("float64", 20), ("uint16", 18)), LENGTHS, times=1,
))  # fmt: skip
def test_lines_of_a_known_length(lines: tuple[str, int], n: int) -> None:
    """Along either axis, of fewer and more lines than a register has lanes, elements of 32 and of 64 bits."""
    dtype, count = lines
    x, y = hard(dtype, (count, n), n), np.ascontiguousarray(hard(dtype, (count, n), n + 1).T)
    graph = built(lambda x, y: (jn.sort(x), jn.sort(x, descending=True), jn.argsort(x), jn.sort(y, 0)),
                  (dtype, x.shape), (dtype, y.shape))  # fmt: skip
    up, down = stable(x, 1, False), stable(x, 1, True)
    want = (np.take_along_axis(x, up, 1), np.take_along_axis(x, down, 1), up, np.take_along_axis(y, stable(y, 0, False), 0))
    compiled = jn.compile(graph, device="cpu", threads=1)
    assert n == 1 or not any(kernel.name.startswith("ordered") for kernel in compiled.kernels)
    for one, other in zip(compiled(x, y), want, strict=True):
        same(one, other)


LONG = [("float32", 5000), *slow(("float32", 200_000), ("float64", 9000), ("int64", 100_000))]


@pytest.mark.parametrize(("dtype", "n"), LONG)
def test_one_long_line_is_sorted_in_pieces(dtype: str, n: int) -> None:
    x = hard(dtype, (n,), n)
    x[::3] = np.random.default_rng(1).standard_normal(n)[::3] * 1e6
    compiled = jn.compile(built(lambda x: (jn.sort(x), jn.argsort(x)), (dtype, (n,))), device="cpu", cache=False)
    order = stable(x, 0, False)
    for one, other in zip(compiled(x), (x[order], order), strict=True):
        same(one, other)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3", "float8_e3m4", "tensor_float32"])
def test_elements_that_are_sorted_stay_what_they_are(dtype: str) -> None:
    """Infinities of short floats, and bits that a cast to the dtype would round."""
    kind = jn.DType(dtype).numpy
    x = np.array([[1, np.inf, 2.3250308, -np.inf, 0.5, np.nan, -0.0, 0.0]] * 3, np.float32).astype(kind)
    graph = built(lambda x: (jn.sort(x), jn.sort(x, descending=True)), (dtype, x.shape))
    wide = x.astype(np.float32)
    up, down = jn.compile(graph, device="cpu", cache=False)(x)
    for found, order in ((up, stable(wide, 1, False)), (down, stable(wide, 1, True))):
        same(found.astype(np.float32), np.take_along_axis(wide, order, 1))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("build", [
    lambda x: (jn.sort(x, 0), jn.argsort(x, 0, True)), lambda x: (lambda y: (y, jn.sort(y, 1), y.T))(jn.sort(x, 0)),
    lambda x: (lambda y: (y, jn.where(y > 0, y * y, y)))(jn.sort(x, 0)), lambda x: (jn.sort(x.T, 1).T, *jn.top_k(x.T, 9)),
])  # fmt: skip
def test_programs_of_several_sorts_have_enough_scratch(build: Any) -> None:
    x = hard("float64", (4097, 9), 3)
    on_all(built(build, ("float64", x.shape)), x)


def test_a_part_of_a_line_is_not_sorted() -> None:
    graph = built(lambda x: jn.sort(x), ("int32", (4, 100)))
    compiled = jn.compile(graph, device="cpu", cache=False)
    (name,) = [kernel.name for kernel in compiled.kernels]
    changed = compiled.schedule.replaced(name, blocks={"i0": 4, "scan": 64})
    with pytest.raises(jn.UserError, match=r"block of 64 along the axis scan, whose lines are sorted .*\(1, 128\)"):
        jn.compile(graph, device="cpu", schedule=changed, cache=False)


def test_a_long_line_of_words() -> None:
    """Of unknown length: it is sorted by the lower halves of its words, and then by the upper ones."""
    x = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 70_001)
    x[::7] = x[0]
    graph = built(lambda x: jn.argsort(x), ("int64", ("n",)))
    np.testing.assert_array_equal(jn.compile(graph, device="cpu", cache=False)(x), np.argsort(x, kind="stable"))


def test_a_few_largest_elements_need_no_sort() -> None:
    graph = built(lambda x: jn.top_k(x, 4), ("float32", (2, 30)))
    assert not any("sort" in kernel.name for kernel in jn.compile(graph, device="cpu", cache=False).kernels)


def test_many_largest_elements_of_long_lines_are_chosen_before_they_are_sorted() -> None:
    graph = built(lambda x: (*jn.top_k(x, 20), jn.bottom_k(x, 9)[1]), ("float32", ("r", "n")))
    compiled = jn.compile(graph, device="cpu", cache=False)
    for n, seed in ((20, 0), (21, 1), (320, 2), (3001, 3)):
        x = hard("float32", (3, n), seed)
        x[0] = x[0, 0]  # all equal
        x[1] = np.random.default_rng(seed).normal(size=n)
        want, least = stable(x, 1, True)[:, :20], stable(x, 1, False)[:, :9]
        values, positions, smallest = compiled(x)
        np.testing.assert_array_equal(positions, want)
        same(values, np.take_along_axis(x, want, 1))
        np.testing.assert_array_equal(smallest, least)


@SLOW
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "bfloat16", "int64", "float32"])
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_more_than_a_few_largest_elements(device: str, dtype: str) -> None:
    x = hard(dtype, (2, 160), 5)
    graph = built(lambda x: jn.top_k(x, 10)[1], (dtype, (2, 160)))
    np.testing.assert_array_equal(on_all(graph, x, device=device), stable(x, 1, True)[:, :10])


def test_an_inner_axis_and_what_is_computed_around_a_sort() -> None:
    x = hard("float32", (3, 9, 4))
    graph = built(lambda x: jn.sort(jn.relu(x) * 2, 1)[:, ::-1] + 1, ("float32", x.shape))
    on_all(graph, x)


@pytest.mark.parametrize(
    ("dtype", "n"), [("float32", 33), *slow(*[(dtype, n) for dtype in ("float32", "uint64") for n in (0, 1, 2)])]
)
def test_sorts_on_a_simulated_gpu(dtype: str, n: int) -> None:
    on_all(built(lambda x: (jn.argsort(x), jn.sort(x, 0, True)), (dtype, (3, n))), hard(dtype, (3, n)), device="ptxsim")


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda x: jn.sort(x, 2), r"sort: axis 2 (.|\n)*operand 0: input 'x0'"),
        (lambda x: jn.argsort(x.cast(jn.float32).bitcast(jn.int32).bitcast(jn.float32)[0, 0]), "argsort: .*axis"),
        (lambda x: jn.top_k(x, 6), "top_k: k is 6, axis 1 has 5 elements(.|\n)*fix: k=5"),
        (lambda x: jn.top_k(x, -1), "top_k: k is -1(.|\n)*0 or more"),
        (lambda x: jn.top_k(x, 1.5), "top_k: k is 1.5(.|\n)*an int"),
    ],
)
def test_what_cannot_be_ordered_is_refused(build: Any, text: str) -> None:
    with pytest.raises(jn.UserError, match=text):
        built(build, ("float32", (2, 5)))


def test_complex_numbers_have_no_order() -> None:
    with pytest.raises(jn.UserError, match="argsort: values of complex64 have no order"):
        built(jn.argsort, ("complex64", (2, 5)))


def test_too_few_elements_at_a_call_are_named() -> None:
    compiled = jn.compile(built(lambda x: jn.top_k(x, 3), ("float32", ("n",))), device="cpu", cache=False)
    with pytest.raises(jn.UserError, match="top_k: axis 0 must have 3 elements or more"):
        compiled(np.zeros(2, np.float32))


# -- scatters ------------------------------------------------------------------------------------------------------------


def scattered(x: Any, updates: Any, indices: Any, axis: int, reduction: str) -> Any:
    """A scatter by a loop over single elements, those out of range left out."""
    result = x.copy()
    for where in np.ndindex(indices.shape):
        at = int(indices[where]) + (x.shape[axis] if indices[where] < 0 else 0)
        if 0 <= at < x.shape[axis]:
            to = (*where[:axis], at, *where[axis + 1 :])
            new = updates[where] if reduction == "none" else COMBINE[reduction](result[to], updates[where])
            result[to] = new
    return result


@pytest.mark.one_in(2)
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
@pytest.mark.parametrize(
    "dtype", ["bool", "float32", *slow("int8", "uint64", "float16", "bfloat16", "float64")]
)
def test_updates_come_in_the_order_of_the_axis(dtype: str, reduction: str) -> None:
    rng = np.random.default_rng(1)
    x, updates = hard(dtype, (3, 7, 5), 1), hard(dtype, (3, 9, 5), 2)
    if dtype in ("float16", "bfloat16", "float32", "float64"):  # NumPy and joinery may pick other zeros
        x, updates = (np.where(each == 0, np.ones_like(each), each) for each in (x, updates))
    indices = rng.integers(-9, 9, (3, 9, 5))
    many = ("a", "j", "b")
    graph = built(lambda x, u, i: jn.scatter(x, u, i, 1, reduction), (dtype, ("a", 7, "b")), (dtype, many), ("int64", many))
    with np.errstate(all="ignore"):
        want = scattered(x, updates, indices, 1, reduction)
    same(on_all(graph, x, updates, indices), want)


@pytest.mark.parametrize(
    ("device", "axis"), [("cpu", 0), ("cpu", 1), ("cpu", 2), ("ptxsim", 1), *slow(("ptxsim", 0), ("ptxsim", 2))]
)
def test_every_axis_and_shorter_positions(device: str, axis: int) -> None:
    rng = np.random.default_rng(axis)
    x = rng.integers(0, 9, (4, 6, 5)).astype(np.int32)
    updates, indices = rng.integers(0, 9, (3, 4, 2)).astype(np.int32), rng.integers(-7, 7, (3, 4, 2)).astype(np.int8)
    graph = built(
        lambda x, u, i: jn.scatter_add(x, u, i, axis), ("int32", x.shape), ("int32", updates.shape), ("int8", indices.shape)
    )
    want = scattered(x, updates, indices, axis, "add")
    np.testing.assert_array_equal(on_all(graph, x, updates, indices, device=device), want)


@pytest.mark.parametrize("count", [0, 1, 300])
def test_lines_longer_than_a_segment(count: int) -> None:
    rng = np.random.default_rng(count)
    x, updates = rng.random(5001, np.float32), rng.random(count, np.float32)
    indices = rng.integers(-5001, 5001, count)
    graph = built(
        lambda x, u, i: jn.scatter_nd_add(x, u, jn.unsqueeze(i, 1)), ("float32", ("n",)), ("float32", ("m",)), ("int64", ("m",))
    )
    compiled = jn.compile(graph, device="cpu", cache=False)
    want = x.copy()
    np.add.at(want, indices, updates)
    np.testing.assert_array_equal(compiled(x, updates, indices), want)
    assert len(compiled.kernels) == 1


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_slices_at_tuples_of_positions(depth: int) -> None:
    rng = np.random.default_rng(depth)
    x = rng.random((3, 4, 2), np.float32)
    indices = rng.integers(-5, 5, (2, 5, depth))
    updates = rng.random((2, 5, *x.shape[depth:]), np.float32)
    want = x.copy()
    for where in np.ndindex(2, 5):
        at = [int(i) + (n if i < 0 else 0) for i, n in zip(indices[where], x.shape, strict=False)]
        if all(0 <= a < n for a, n in zip(at, x.shape, strict=False)):
            want[tuple(at)] = np.maximum(want[tuple(at)], updates[where])
    types = [("float32", x.shape), ("float32", updates.shape), ("int64", indices.shape)]
    graph = built(lambda x, u, i: jn.scatter_nd(x, u, i, "max"), *types)
    np.testing.assert_array_equal(on_all(graph, x, updates, indices), want)


@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_complex_numbers_of_128_bits_are_scattered_as_pairs(device: str) -> None:
    graph = jn.Graph("g", [jn.TensorType("complex128", (3, "n"), "x"), jn.TensorType("complex128", (2, "n"), "u"),
                           jn.TensorType("int64", (2, "n"), "i")])  # fmt: skip
    x, u, i = graph.inputs
    graph.output(jn.scatter(x, u, i, 0))
    rng = np.random.default_rng(3)
    data, updates = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape) for shape in ((3, 4), (2, 4)))
    where = np.array([[0, 1, 2, 0], [2, -3, 1, 7]])
    expected = data.copy()
    for (row, column), position in np.ndenumerate(where):
        if position < 3:
            expected[position, column] = updates[row, column]
    np.testing.assert_array_equal(jn.compile(graph, device, cache=False)(data, updates, where), expected)


def test_put_along_axis_broadcasts() -> None:
    x, indices = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([[1, -1]])
    want = x.copy()
    np.put_along_axis(want, np.broadcast_to(indices, (3, 2)), 7, 1)
    graph = built(lambda x, i: jn.put_along_axis(x, i, 7, 1), ("float32", (3, 4)), ("int64", (1, 2)))
    np.testing.assert_array_equal(on_all(graph, x, indices), want)


def test_a_scatter_is_one_kernel_of_one_plan_with_what_is_before_it() -> None:
    def build(x: Any, u: Any, i: Any) -> Any:
        return jn.scatter_add(jn.exp(x), u * 2, i % 5, 0)

    graph = built(build, ("float32", (5, 8)), ("float32", ("m", 8)), ("int32", ("m", 8)))
    compiled = jn.compile(graph, device="cpu", cache=False)
    assert [kernel.name.split("_")[0] for kernel in compiled.kernels] == ["ordered"]
    rng = np.random.default_rng(0)
    x, u, i = rng.random((5, 8), np.float32), rng.random((6, 8), np.float32), rng.integers(0, 99, (6, 8), np.int32)
    want = np.exp(x)
    np.add.at(want, (i % 5, np.arange(8)), u * 2)
    np.testing.assert_allclose(compiled(x, u, i), want, rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda x: jn.scatter(x, x, np.full((2, 5), 5)), r"scatter: positions 5 to 5 on an axis of size 5(.|\n)*-5 to 4"),
        (lambda x: jn.scatter(x, x, np.full((2, 4), 0)), "scatter: on axis 1 data, indices and updates have 5, 4 and 5 el"),
        (lambda x: jn.scatter(x, x, np.zeros((2, 5))), "scatter: the indices must be integers, not float64"),
        (lambda x: jn.scatter(x, x, np.zeros((2, 5), int), reduction="sum"), "scatter: reduction 'sum'(.|\n)*'none', 'add'"),
        (lambda x: jn.scatter(x, x[0], np.zeros((5,), int)), "scatter: data, indices and updates have 2, 1 and 1 axes"),
        (lambda x: jn.put_along_axis(x, np.array([[7]]), 1), "put_along_axis: positions 7 to 7 on an axis of size 5"),
        (lambda x: jn.scatter_nd(x, x, np.array([[2, 0]])), r"scatter_nd: updates with 2 axes"),
        (lambda x: jn.scatter_nd(x, x[:1, 0], np.array([[2, 0]])), "scatter_nd: positions 2 to 2 on an axis of size 2"),
        (lambda x: jn.scatter_nd(x, x, np.zeros((2, 3), int)), "scatter_nd: 3 positions for 2 axes"),
    ],
)
def test_wrong_scatters_are_refused(build: Any, text: str) -> None:
    with pytest.raises(jn.UserError, match=text):
        built(build, ("float32", (2, 5)))


# -- running products and extremes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", *slow("ptxsim")])
def test_running_products_and_extremes(device: str) -> None:
    sizes = (1, 2, 33, 3000) if device == "cpu" else (1, 33)
    graph = built(
        lambda x: (jn.cummax(x), jn.cummin(x, 0), jn.cummax(x, 1, reverse=True), jn.cumprod(x), jn.cumprod(x, 0, True, True)),
        ("float32", ("r", "n")),
    )
    compiled = jn.compile(graph, device=device, cache=False)
    for n in sizes:
        x = np.random.default_rng(n).choice(np.array([1, -1, 2, 0.5, -1, 1], np.float32), (5, n))
        x[0, n // 2] = np.nan
        turned = np.cumprod(np.concatenate([np.ones((1, n), np.float32), x[:0:-1]]), 0, dtype=np.float32)[::-1]
        want = (
            np.maximum.accumulate(x, 1), np.minimum.accumulate(x, 0), np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1],
            np.cumprod(x, 1, dtype=np.float32), turned,
        )  # fmt: skip
        for got, right in zip(compiled(x), want, strict=True):
            np.testing.assert_array_equal(got, right)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64"])
def test_running_extremes_of_integers(dtype: str) -> None:
    x = hard(dtype, (4, 130), 3)
    graph = built(lambda x: (jn.cummax(x), jn.cummin(x), jn.cumprod(x, 0)), (dtype, ("r", "n")))
    for got, want in zip(
        on_all(graph, x), (np.maximum.accumulate(x, 1), np.minimum.accumulate(x, 1), np.cumprod(x, 0)), strict=True
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int64", *slow("int8", "uint8", "int32", "uint64")])
def test_running_integers_of_every_length(dtype: str) -> None:
    """Vectors are scanned by themselves and added to those before them, which wraps as one after the other does."""
    graph = built(lambda x: (jn.cumsum(x, -1), jn.cummax(x, -1), jn.cummin(x, -1)), (dtype, ("rows", "n")))
    compiled = jn.compile(graph, device="cpu", cache=False, threads=2)
    ends = np.iinfo(dtype)
    for n in (0, 1, 3, 7, 8, 9, 16, 100, 2100):
        x = np.random.default_rng(n).integers(ends.min, ends.max, (3, n), dtype=dtype, endpoint=True)
        sums, largest, smallest = compiled(x)
        np.testing.assert_array_equal(sums, np.cumsum(x, -1, dtype=sums.dtype))
        np.testing.assert_array_equal(largest, np.maximum.accumulate(x, -1))
        np.testing.assert_array_equal(smallest, np.minimum.accumulate(x, -1))


@pytest.mark.one_in(36)
@pytest.mark.parametrize(("shape", "k", "dtype"), [
    ((3, 2048), 1, jn.float32), ((2, 5000), 7, jn.float32), ((2, 50_001), 10, jn.float32), ((1, 32_000), 1000, jn.float32),
    ((4, 3000), 64, jn.float16), ((2, 4097), 40, jn.int8), ((2, 9000), 12, jn.bool), ((1, 200_000), 100, jn.int32),
    ((1, 70_000), 9, jn.uint8), ((5, 2047), 63, jn.float32), ((2, 4099), 1, jn.float64), ((3, 1000), 10, jn.float32),
])  # fmt: skip
@pytest.mark.parametrize("largest", [True, False])
def test_a_few_of_long_lines(shape: tuple[int, int], k: int, dtype: Any, largest: bool) -> None:
    """Lines are cut into blocks; equal elements, at the ends of blocks too, keep their order."""
    rng = np.random.default_rng(29)
    g = jn.Graph("g", [jn.TensorType(dtype, shape, "x")])
    g.output(*jn.top_k(g.inputs[0], k, -1, largest))
    model = jn.compile(g, cache=False)
    lines = [rng.integers(0, 2, shape), rng.integers(-100, 100, shape), np.zeros(shape), np.arange(shape[1]) + np.zeros(shape)]
    if dtype.is_float:
        lines += [rng.standard_normal(shape), np.where(rng.random(shape) < 0.01, np.nan, 0.0), np.full(shape, np.inf)]
    for line in lines:
        x = line.astype(dtype.numpy)
        wide = np.where(np.isnan(x.astype(np.float64)), np.inf, np.clip(x.astype(np.float64), -1e300, 1e300))
        wanted = np.argsort(-wide if largest else wide, axis=-1, kind="stable")[:, :k]
        values, positions = model(x)
        np.testing.assert_array_equal(positions, wanted)
        np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, -1))


ENDS = {"int64": (-(1 << 63), (1 << 63) - 1), "uint64": (0, (1 << 64) - 1)}
WIDE = (("int64", 1), ("int64", 3), ("float64", 6), ("uint64", 5), ("float64", 12), ("int64", 40))
"""Elements of 64 bits, and how many of them are wanted: one, few that are found one after the other, more by sorting."""


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("wanted", "n"), each(WIDE, (40, 131, 512, 1025, 4099), times=1))
def test_a_few_of_64_bits(wanted: tuple[str, int], n: int) -> None:
    """Keys of 64 bits have no room for positions: of equal ones the first is found first, also where all of them are the
    largest number, which blocks that are not full hold behind the line."""
    dtype, k = wanted
    x = hard(dtype, (5, n), n)
    ends = ENDS.get(dtype, (-np.inf, np.nan))
    x[1], x[2] = ends
    x[3] = np.random.default_rng(n).permutation(n)
    x[4, :3] = ends[1], ends[0], ends[1]
    graph = built(lambda x: (*jn.top_k(x, k), *jn.bottom_k(x, k)), (dtype, x.shape))
    found = jn.compile(graph, device="cpu", threads=1)(x)
    for values, positions, descending in ((*found[:2], True), (*found[2:], False)):
        want = stable(x, 1, descending)[:, :k]
        np.testing.assert_array_equal(positions, want)
        same(values, np.take_along_axis(x, want, 1))


@pytest.mark.parametrize(("dtype", "k"), [("float64", 3), *slow(("int64", 1), ("uint64", 11))])
def test_a_few_of_64_bits_of_unknown_lengths(dtype: str, k: int) -> None:
    compiled = jn.compile(built(lambda x: jn.top_k(x, k, 0), (dtype, ("n", "m"))), device="cpu", cache=False)
    for n in (k, k + 1, 300):
        x = hard(dtype, (n, 3), n)
        x[:, 1] = x[0, 1]
        values, positions = compiled(x)
        want = stable(x, 0, True)[:k]
        np.testing.assert_array_equal(positions, want)
        same(values, np.take_along_axis(x, want, 0))


@pytest.mark.parametrize("k", slow(1, 4, 12))
def test_a_few_of_64_bits_on_a_simulated_gpu(k: int) -> None:
    x = hard("int64", (2, 60), 5)
    x[1] = ENDS["int64"][1]
    graph = built(lambda x: jn.bottom_k(x, k)[1], ("int64", x.shape))
    np.testing.assert_array_equal(on_all(graph, x, device="ptxsim"), stable(x, 1, False)[:, :k])
