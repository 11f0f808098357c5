"""Scans of one long row, chunk by chunk: each element waits for the one before it, and results are the chain's, to the bit."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

CHAINS = {"cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate}
SIZES = (1, 31, 33, 2047, 2048, 2049, 5000)
"""Around the least row whose operand is evaluated first, and around a chunk."""


def model(name: str, dtype: str, extent: int | str, reverse: bool) -> jn.Model:
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, (extent,), name="x")])
    graph.output(getattr(jn, name)(graph.inputs[0] * 0.5, axis=0, reverse=reverse))
    return jn.compile(graph, threads=1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_long_row_is_scanned_in_its_order(name: str, dtype: str, reverse: bool) -> None:
    """Sizes known at launch: chunks that masks cut hold the neutral element, of a product too."""
    compiled = model(name, dtype, "n", reverse)
    for size in SIZES:
        x = np.random.default_rng(size).uniform(-2.5, 2.5, size).astype(dtype)
        x[:: size // 2 + 1] = -0.0 if name != "cumprod" else 1.0
        along = (x * x.dtype.type(0.5))[:: -1 if reverse else 1]
        expected = CHAINS[name](along)[:: -1 if reverse else 1]
        found = compiled(x)
        np.testing.assert_array_equal(found, expected, err_msg=str(size))
        assert np.array_equal(np.signbit(found), np.signbit(expected)), size


@pytest.mark.parametrize("size", [33, 2049])
def test_known_sizes_and_infinities(size: int) -> None:
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    x[size // 2], x[-2] = np.inf, np.nan
    for reverse in (False, True):
        step = -1 if reverse else 1
        expected = np.cumsum((x * np.float32(0.5))[::step], dtype=np.float32)[::step]
        np.testing.assert_array_equal(model("cumsum", "float32", size, reverse)(x), expected)


TAKEN = """
tt.func public @f(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>) {{
  %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
  %at = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %px = tt.addptr %at, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %v = tt.load %px : tensor<64x!tt.ptr<f32>>
  %s = "tt.scan"(%v) <{{axis = 0 : i32, reverse = false}}> ({{
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    tt.scan.return %t : f32
  }}) : (tensor<64xf32>) -> tensor<64xf32>
  %number = arith.constant dense<{number}> : tensor<64xi32>
  %is = arith.cmpi {predicate}, %r, %number : tensor<64xi32>
  %others = arith.constant dense<{others}> : tensor<64xf32>
  %kept = arith.select %is, %s, %others : tensor<64xi1>, tensor<64xf32>
  %taken = "tt.reduce"(%kept) <{{axis = 0 : i32}}> ({{
  ^bb0(%a: f32, %b: f32):
    %t = arith.{combine} %a, %b : f32
    tt.reduce.return %t : f32
  }}) : (tensor<64xf32>) -> f32
  tt.store %o, %taken : !tt.ptr<f32>
  tt.return
}}"""


@pytest.mark.parametrize(("number", "predicate", "others", "combine"), [
    (63, "eq", "-0.0", "addf"), (17, "eq", "-0.0", "addf"),
    *[(number, "eq", "-0.0", "addf") for number in range(9)], (17, "eq", "1.0", "mulf"), (5, "eq", "0.5", "addf"),
    (5, "eq", "0.0", "mulf"), (5, "sle", "-0.0", "addf"), (64, "eq", "-0.0", "addf"), (-1, "eq", "3.0", "addf"),
])  # fmt: skip
def test_a_reduction_takes_one_element_only_where_the_others_are_neutral(
    number: int, predicate: str, others: str, combine: str
) -> None:
    x = np.random.default_rng(1).integers(-9, 9, 64).astype(np.float32)
    sums, positions = np.cumsum(x, dtype=np.float32), np.arange(64)
    kept = np.where(positions == number if predicate == "eq" else positions <= number, sums, np.float32(others))
    expected = kept.sum() if combine == "addf" else kept.prod()
    found = np.zeros(1, np.float32)
    text = TAKEN.format(number=number, predicate=predicate, others=others, combine=combine)
    jn.kernel.from_ttir(text).launch((1,), x, found)
    assert found[0] == expected


@pytest.mark.one_in(6)
@pytest.mark.parametrize("position", [0, 1, 7, 8, 59, 60, 63])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float16"])
def test_elements_of_a_scan_that_a_sum_reads(dtype: str, reverse: bool, position: int) -> None:
    """The result of the scan, and not its operand, which has been in the same memory."""
    graph = jn.Graph("g", [jn.TensorType(dtype, (64,))])
    scanned = jn.cumsum(graph.inputs[0], axis=0, reverse=reverse)
    chosen = jn.where(np.arange(64) == position, scanned, jn.cast(scanned * 0, dtype))
    graph.output(scanned, jn.sum(chosen))
    x = np.random.default_rng(position).integers(-3, 4, 64).astype(dtype)
    found, total = jn.compile(graph)(x)
    step = -1 if reverse else 1
    wanted = np.cumsum(x[::step])[::step]
    np.testing.assert_array_equal(found, wanted)
    assert total == wanted[position]


CARRIED = """
tt.func public @f(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %carry: f32) {{
  %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
  %at = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %px = tt.addptr %at, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %v = tt.load %px : tensor<64x!tt.ptr<f32>>
  %c = tt.splat %carry : f32 -> tensor<64xf32>
  %joined = arith.{op} {operands} : tensor<64xf32>
  %zero = arith.constant dense<0> : tensor<64xi32>
  %first = arith.cmpi eq, %r, %zero : tensor<64xi32>
  %started = arith.select %first, %joined, %v : tensor<64xi1>, tensor<64xf32>
  %s = "tt.scan"(%started) <{{axis = 0 : i32, reverse = false}}> ({{
  ^bb0(%a: f32, %b: f32):
    %t = arith.{op} {region} : f32
    tt.scan.return %t : f32
  }}) : (tensor<64xf32>) -> tensor<64xf32>
  %to = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %po = tt.addptr %to, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  tt.store %po, %s : tensor<64x!tt.ptr<f32>>
  tt.return
}}"""


@pytest.mark.parametrize(("op", "operands", "region", "first"), [
    ("addf", "%c, %v", "%a, %b", 102), ("addf", "%v, %c", "%a, %b", 102), ("subf", "%c, %v", "%b, %a", 98),
    ("subf", "%v, %c", "%a, %b", -98), ("subf", "%c, %v", "%a, %b", 98),
])  # fmt: skip
def test_the_first_element_is_as_it_is_started(op: str, operands: str, region: str, first: int) -> None:
    x, found = np.full(64, 2, np.float32), np.zeros(64, np.float32)
    text = CARRIED.format(op=op, operands=operands, region=region)
    jn.kernel.from_ttir(text).launch((1,), x, found, 100.0)
    assert found[0] == first
    if op == "addf":
        np.testing.assert_array_equal(found, 100 + 2 * np.arange(1, 65))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_integers_are_scanned_in_vectors_from_what_chunks_before_have(dtype: str) -> None:
    for extent in ("n", 5000):
        graph = jn.Graph("g", inputs=[jn.TensorType(dtype, (extent,), name="x")])
        (x,) = graph.inputs
        graph.output(jn.cumsum(x, axis=0), jn.cummax(x, axis=0), jn.cumsum(x, axis=0, reverse=True))
        compiled = jn.compile(graph, threads=1)
        for size in SIZES if extent == "n" else (5000,):
            values = np.random.default_rng(size).integers(-128, 128, size).astype(dtype)
            sums, largest, ends = compiled(values)
            np.testing.assert_array_equal(sums, np.cumsum(values, dtype=sums.dtype), err_msg=str(size))
            np.testing.assert_array_equal(largest, np.maximum.accumulate(values), err_msg=str(size))
            np.testing.assert_array_equal(ends, np.cumsum(values[::-1], dtype=ends.dtype)[::-1], err_msg=str(size))
