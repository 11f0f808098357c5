"""Code for AVX2, whose registers hold no masks, against NumPy: on arrays that end, or begin, where memory does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

from ....fuzz.fences import Fence

pytestmark = pytest.mark.skipif(not host_target().has("avx2"), reason="no AVX2")
RNG = np.random.default_rng(7)
EXTENTS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 100, 129, 130)
BYTES = ("uint8", "int8", "bool", "int16", "float16", "uint16")


def compiled(make: Callable[..., Any], *arrays: Any) -> Any:
    """Returns the results of a function of symbols for arrays between which and the end of memory nothing lies."""
    graph = jn.Graph("g", [jn.TensorType(str(each.dtype), each.shape, f"x{number}") for number, each in enumerate(arrays)])
    found = make(*graph.inputs)
    graph.output(*(found if isinstance(found, tuple) else (found,)))
    model = jn.compile(graph, device="cpu", target="x86-64-v3", threads=1, cache=False)
    results = [model(*[Fence(at_end=at_end).copy(each, each.itemsize) for each in arrays]) for at_end in (True, False)]
    first, second = (each if isinstance(each, tuple) else (each,) for each in results)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    return first if isinstance(found, tuple) else first[0]


def numbers(dtype: str, *shape: int) -> Any:
    return RNG.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", BYTES)
def test_rows_of_any_length(dtype: str) -> None:
    for extent in EXTENTS:
        x = numbers(dtype, 3, extent)
        copied, padded, turned = compiled(
            lambda x: (jn.concat([x, x[:, :1]], 1), jn.pad(x, ((1, 0), (2, 3))), jn.flip(x, 1)), x
        )
        np.testing.assert_array_equal(copied, np.concatenate([x, x[:, :1]], 1))
        np.testing.assert_array_equal(padded, np.pad(x, ((1, 0), (2, 3))))
        np.testing.assert_array_equal(turned, x[:, ::-1])


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("source", "target"), [
    ("float32", "uint8"), ("float32", "bool"), ("float64", "int8"), ("int64", "int32"), ("int64", "uint8"), ("int32", "int16"),
    ("float64", "float32"), ("float32", "float16"), ("uint8", "float32"), ("int8", "int64"), ("bool", "float64"),
])  # fmt: skip
def test_casts_of_any_length(source: str, target: str) -> None:
    for extent in EXTENTS:
        x = numbers(source, extent)
        np.testing.assert_array_equal(compiled(lambda x: jn.cast(x, getattr(jn, target)), x), x.astype(target))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_comparisons_and_counts(dtype: str) -> None:
    for extent in EXTENTS:
        x = numbers(dtype, 3, extent)
        larger, count, rows = compiled(lambda x: (x > 50, jn.count_nonzero(x > 50), jn.count_nonzero(x, axis=1)), x)
        np.testing.assert_array_equal(larger, x > 50)
        assert count == np.count_nonzero(x > 50)
        np.testing.assert_array_equal(rows, np.count_nonzero(x, axis=1))


@pytest.mark.one_in(9)
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_extremes_with_and_without_nan(dtype: str, axis: int | None) -> None:
    for shape in ((3, 130), (17, 100), (40, 9), (100, 65)):
        for share in (0, 0.01, 1):
            x = RNG.standard_normal(shape).astype(dtype)
            x[RNG.random(shape) < share] = np.nan
            most, least, where = compiled(
                lambda x: (jn.max(x, axis=axis), jn.min(x, axis=axis), jn.argmax(x, axis=1 if axis is None else axis)), x
            )
            np.testing.assert_array_equal(most, x.max(axis=axis))
            np.testing.assert_array_equal(least, x.min(axis=axis))
            np.testing.assert_array_equal(where, x.argmax(axis=1 if axis is None else axis))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64"])
def test_rows_that_are_cut_where_masks_change(dtype: str) -> None:
    for extent in (40, 129, 1000):
        x, y = numbers(dtype, 4, extent), numbers(dtype, 4, 65)
        rolled, joined, halo = compiled(
            lambda x, y: (
                jn.roll(x, 5, 1) + x, jn.concat([x, y], 1) + jn.concat([y, x], 1), jn.pad(x, ((0, 0), (1, 1)))[:, 2:] + x,
            ), x, y,
        )  # fmt: skip
        np.testing.assert_array_equal(rolled, np.roll(x, 5, 1) + x)
        np.testing.assert_array_equal(joined, np.concatenate([x, y], 1) + np.concatenate([y, x], 1))
        np.testing.assert_array_equal(halo, np.pad(x, ((0, 0), (1, 1)))[:, 2:] + x)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_elements_a_few_apart(dtype: str) -> None:
    for stride in range(2, 10):
        for extent in (1, 2, 4, 5, 8, 17, 33, 70):
            x = numbers(dtype, extent * stride)
            parts = compiled(lambda x, stride=stride: tuple([x[first::stride] + x[:: stride] for first in range(stride)]), x)
            for first, part in enumerate(parts):
                np.testing.assert_array_equal(part, x[first::stride] + x[::stride])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_transposed_copies(dtype: str) -> None:
    for shape in ((2, 70), (70, 3), (16, 16), (31, 33), (64, 100), (8, 129)):
        x = numbers(dtype, *shape)
        np.testing.assert_array_equal(compiled(lambda x: jn.transpose(x), x), x.T)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "steps", "columns"), [
    (1, 300, 70), (6, 100, 40), (7, 100, 40), (13, 65, 100), (24, 40, 33), (64, 40, 128), (70, 130, 200),
    (100, 77, 1), (9, 33, 1),
])  # fmt: skip
def test_products_in_all_orders(rows: int, steps: int, columns: int, dtype: str) -> None:
    a, b = RNG.standard_normal((rows, steps)).astype(dtype), RNG.standard_normal((steps, columns)).astype(dtype)
    want = a.astype(np.float64) @ b.astype(np.float64)
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    for left in (False, True):
        for right in (False, True):
            x, y = np.ascontiguousarray(a.T) if left else a, np.ascontiguousarray(b.T) if right else b
            found = compiled(
                lambda x, y, left=left, right=right: (jn.transpose(x) if left else x) @ (jn.transpose(y) if right else y), x, y
            )
            np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_pixels_in_the_opposite_order(dtype: str) -> None:
    for together in range(2, 9):
        for extent in (1, 2, 3, 5, 6, 11, 16, 40):
            x = numbers(dtype, 3, extent, together)
            rows, columns = compiled(lambda x: (jn.flip(x, 1), jn.flip(x, 0)), x)
            np.testing.assert_array_equal(rows, x[:, ::-1])
            np.testing.assert_array_equal(columns, x[::-1])


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("source", "target"), [
    ("float64", "float32"), ("float64", "bool"), ("int64", "int8"), ("float32", "uint8"),
])  # fmt: skip
def test_narrow_rows_that_are_cut(source: str, target: str) -> None:
    """What is left of a piece may fill vectors of the wide elements, and not those of the narrow ones."""
    for extent in (28, 44, 92, 100):
        x = numbers(source, 3, extent)
        padded, rolled = compiled(
            lambda x: (jn.cast(jn.pad(x, ((0, 0), (3, 5))), getattr(jn, target)), jn.roll(x, 4, 1) > 50), x
        )
        np.testing.assert_array_equal(padded, np.pad(x, ((0, 0), (3, 5))).astype(target))
        np.testing.assert_array_equal(rolled, np.roll(x, 4, 1) > 50)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
def test_extremes_of_rows_with_elements_apart(dtype: str) -> None:
    for stride in (2, 3, 5, 8):
        x = numbers(dtype, 300, 700)
        found = compiled(lambda x, stride=stride: jn.max(x[:, ::stride], axis=0), x)
        np.testing.assert_array_equal(found, x[:, ::stride].max(0))


@pytest.mark.parametrize("shape", [(1, 5, 64), (1, 2, 3, 64), (1, 1, 1), (1, 64), (64,)])
def test_rows_times_transposed_matrices(shape: tuple[int, ...]) -> None:
    x, w = RNG.standard_normal(shape).astype(np.float32), RNG.standard_normal((7, shape[-1])).astype(np.float32)
    np.testing.assert_allclose(compiled(lambda x, w: x @ jn.transpose(w), x, w), x @ w.T, rtol=1e-4, atol=1e-4)


def test_vectors_of_two_registers_of_which_one_is_dead() -> None:
    """LLVM 22 loads the lanes of a register without a mask where it knows that none of them is live."""
    for extent in (57, 58, 60, 61):
        x = (RNG.standard_normal((1, extent)) + 1j * RNG.standard_normal((1, extent))).astype(np.complex64)
        found = compiled(lambda x: jn.pad(jn.stack([jn.imag(x), jn.flip(jn.imag(x), 1)], 0), ((0, 0), (16, 0), (0, 0))), x)
        np.testing.assert_array_equal(found, np.pad(np.stack([x.imag, x.imag[:, ::-1]]), ((0, 0), (16, 0), (0, 0))))


@pytest.mark.one_in(25)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "bool", "float16"])
@pytest.mark.parametrize(("columns", "kept"), [(4, 3), (3, 2), (8, 3), (6, 5), (16, 4), (8, 7)])
def test_columns_of_short_rows(dtype: str, columns: int, kept: int) -> None:
    """Cut rows, and such that meet a row of numbers: each column is a vector of its own."""
    for rows in (2, 7, 33, 100):
        x, row = numbers(dtype, rows, columns), numbers(dtype, kept)

        def make(x: Any, row: Any) -> Any:
            first = x[:, :kept]
            return jn.where(first == row, first, row), first == row, jn.flip(x[:, -kept:], 1)

        chosen, same, mirrored = compiled(make, x, row)
        np.testing.assert_array_equal(chosen, np.where(x[:, :kept] == row, x[:, :kept], row))
        np.testing.assert_array_equal(same, x[:, :kept] == row)
        np.testing.assert_array_equal(mirrored, x[:, -kept:][:, ::-1])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_bytes_of_few_columns_that_are_computed_in_floats(channels: int) -> None:
    for rows in (2, 7, 31, 32, 33, 100, 300):
        x = numbers("uint8", rows, channels + 1)

        def make(x: Any) -> Any:
            colours, share = jn.cast(x[:, :channels], jn.float32), jn.cast(x[:, channels:], jn.float32)
            return jn.cast(colours * share / 100.0, jn.uint8)

        wide = x.astype(np.float32)
        expected = (wide[:, :channels] * wide[:, channels:] / np.float32(100)).astype(np.uint8)
        np.testing.assert_array_equal(compiled(make, x), expected)
