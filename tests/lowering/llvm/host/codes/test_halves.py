"""Halves of 64-bit integers, and integers made of halves, against NumPy: whole registers, parts of one, single numbers."""

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

SIZES = [1, 7, 16, 31, 1000]


def run(build, *arrays):
    graph = jn.Graph("g", [jn.TensorType(jn.DType(str(array.dtype)), array.shape) for array in arrays])
    graph.output(build(*graph.inputs))
    model = jn.compile(graph, device="cpu", cache=False)
    return model(*arrays), model.kernels[0]


def numbers(size, dtype):
    drawn = np.random.default_rng(size).integers(0, 1 << 63, size, np.uint64) * np.uint64(3)
    return drawn.astype(dtype)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_halves_are_taken_out(size, dtype):
    x = numbers(size, dtype)
    low, _ = run(lambda x: x.cast("int32"), x)
    np.testing.assert_array_equal(low, x.astype(np.int32))
    high, _ = run(lambda x: (x >> 32).cast("uint32"), x)
    np.testing.assert_array_equal(high, (x >> np.array(32, dtype)).astype(np.uint32))
    both, _ = run(lambda x: (x >> 32).cast("int32") * 3 + x.cast("int32"), x)
    np.testing.assert_array_equal(both, (x >> np.array(32, dtype)).astype(np.int32) * 3 + x.astype(np.int32))


@pytest.mark.parametrize("amount", [0, 31, 33, 63])
def test_other_shifts_are_no_halves(amount):
    x = numbers(100, "uint64")
    found, _ = run(lambda x: (x >> amount).cast("uint32"), x)
    np.testing.assert_array_equal(found, (x >> np.uint64(amount)).astype(np.uint32))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_integers_are_made_of_halves(size, swapped):
    low, high = numbers(size, "uint32"), numbers(size, "uint64").astype(np.uint32)[::-1].copy()

    def build(low, high):
        upper, lower = high.cast("uint64") << 32, low.cast("uint64")
        return lower | upper if swapped else upper | lower

    found, _ = run(build, low, high)
    np.testing.assert_array_equal(found, high.astype(np.uint64) << np.uint64(32) | low)


def test_signed_halves_are_extended_by_their_signs():
    low, high = numbers(100, "int32"), numbers(100, "uint64").astype(np.int32)[::-1].copy()
    found, _ = run(lambda low, high: (high.cast("int64") << 32) | low.cast("int64"), low, high)
    np.testing.assert_array_equal(found, high.astype(np.int64) << 32 | low.astype(np.int64))


@pytest.mark.parametrize("size", SIZES)
def test_complex_numbers_move_their_halves(size):
    rng = np.random.default_rng(size)
    x = (rng.standard_normal(size) + 1j * rng.standard_normal(size)).astype(np.complex64)
    found, _ = run(lambda x: jn.conj(x) * 2.0, x)
    np.testing.assert_array_equal(found, x.conj() * np.float32(2))
    found, kernel = run(lambda x: jn.real(x) * 2.0 + jn.imag(x), x)
    np.testing.assert_array_equal(found, x.real * np.float32(2) + x.imag)
    if size >= 1000 and "<32 x i32>" in kernel.llvm_ir:  # two registers of AVX-512
        assert "trunc <16 x i64>" not in kernel.llvm_ir


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 15, 17, 33, 65, 100])
def test_columns_of_complex_numbers(rows: int) -> None:
    """Of a rest of one row LLVM made an extension of part of a register that it has no instruction for."""
    x, y = (np.arange(rows, dtype=np.float32).astype(np.complex64).reshape(rows, 1) * each + 1 for each in (1j, 2))
    graph = jn.Graph("g", [jn.TensorType("complex64", (rows, 1), name=name) for name in "xy"])
    one, other = graph.inputs
    graph.output(jn.concat([one * other, other], axis=-1))
    found = jn.compile(graph, device="cpu", cache=False)(x, y)
    np.testing.assert_allclose(found, np.concatenate([x * y, y], axis=-1), rtol=1e-6)


N = 64


def _kernel(stores: str, loads: str = "", mask: str = "") -> str:
    """Integers of both halves of pairs of floats in x, taken apart again: `%low` and `%high`; pointers to places of y."""
    block, pointers, masked = f"tensor<{N}xi64>", f"tensor<{N}x!tt.ptr<f32>>", ", %m, %none" if mask else ""
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i64) {{
    %r0 = tt.make_range {{end = {N} : i32, start = 0 : i32}} : tensor<{N}xi32>
    %r = arith.extsi %r0 : tensor<{N}xi32> to {block}
    %two = arith.constant dense<2> : {block}
    %one = arith.constant dense<1> : {block}
    %none = arith.constant dense<0.0> : tensor<{N}xf32>
    %limit = tt.splat %n : i64 -> {block}
    %m = arith.cmpi slt, %r, %limit : {block}
    %i = arith.muli %r, %two : {block}
    %j = arith.addi %i, %one : {block}
    %bx = tt.splat %x : !tt.ptr<f32> -> {pointers}
    %by = tt.splat %y : !tt.ptr<f32> -> {pointers}
    %xi = tt.addptr %bx, %i : {pointers}, {block}
    %xj = tt.addptr %bx, %j : {pointers}, {block}
    %yi = tt.addptr %by, %i : {pointers}, {block}
    %yj = tt.addptr %by, %j : {pointers}, {block}
    %r1 = arith.addi %r, %one : {block}
    %ri = tt.addptr %by, %r : {pointers}, {block}
    %rj = tt.addptr %by, %r1 : {pointers}, {block}
    %si = tt.addptr %bx, %r : {pointers}, {block}
    %sj = tt.addptr %bx, %r1 : {pointers}, {block}
    %a = tt.load %xi{masked} : {pointers}
    %b = tt.load %xj{masked} : {pointers}
    {loads}
    %ai = tt.bitcast %a : tensor<{N}xf32> -> tensor<{N}xi32>
    %bi = tt.bitcast %b : tensor<{N}xf32> -> tensor<{N}xi32>
    %aw = arith.extui %ai : tensor<{N}xi32> to {block}
    %bw = arith.extui %bi : tensor<{N}xi32> to {block}
    %by32 = arith.constant dense<32> : {block}
    %up = arith.shli %bw, %by32 : {block}
    %both = arith.ori %up, %aw : {block}
    %sum = arith.addi %both, %one : {block}
    %l = arith.trunci %sum : {block} to tensor<{N}xi32>
    %low = tt.bitcast %l : tensor<{N}xi32> -> tensor<{N}xf32>
    %s = arith.shrui %sum, %by32 : {block}
    %h = arith.trunci %s : {block} to tensor<{N}xi32>
    %high = tt.bitcast %h : tensor<{N}xi32> -> tensor<{N}xf32>
    {stores}
    tt.return
  }}
}}
"""


def _store(pointers: str, value: str, mask: str = "") -> str:
    return f"tt.store %{pointers}, %{value}{mask} : tensor<{N}x!tt.ptr<f32>>\n"


OTHER_HIGH = f"""%twice = arith.addi %both, %both : tensor<{N}xi64>
    %s2 = arith.shrui %twice, %by32 : tensor<{N}xi64>
    %h2 = arith.trunci %s2 : tensor<{N}xi64> to tensor<{N}xi32>
    %high2 = tt.bitcast %h2 : tensor<{N}xi32> -> tensor<{N}xf32>
"""
STORES = {
    "of another number": _store("yi", "low") + OTHER_HIGH + _store("yj", "high2"),
    "both": _store("yi", "low") + _store("yj", "high"),
    "upper first": _store("yj", "high") + _store("yi", "low"),
    "swapped": _store("yi", "high") + _store("yj", "low"),
    "lower twice": _store("yi", "low") + _store("yj", "low"),
    "apart": _store("yi", "low") + _store("xj", "high"),
    "same place": _store("yi", "low") + _store("yi", "high"),
    "masked": _store("yi", "low", ", %m") + _store("yj", "high", ", %m"),
    "one masked": _store("yi", "low", ", %m") + _store("yj", "high"),
    "read between": _store("yi", "low") + f"%z = tt.load %yi : tensor<{N}x!tt.ptr<f32>>\n" + _store("yj", "z"),
    "another between": _store("yi", "low") + _store("xi", "high") + _store("yj", "high"),
    "overlapping": _store("ri", "low") + _store("rj", "high"),
    "overlapping, in place": _store("si", "low") + _store("sj", "high"),
    "in place": _store("xi", "low") + _store("xj", "high"),
    "in place, moved": _store("xj", "low") + _store("xi", "high"),
}
LOADS = {
    "as they lie": "",
    "overwritten": _store("xj", "none"),  # after they are loaded
    "aliased": _store("yj", "none"),
}


@pytest.mark.one_in(48)
@pytest.mark.parametrize("mask", ["", "masked"])
@pytest.mark.parametrize("loads", LOADS)
@pytest.mark.parametrize("stores", STORES)
def test_numbers_are_moved_whole_only_where_their_halves_are(stores, loads, mask):
    """Against the interpreter, with x and y apart and in one array, with accesses compared with arrays and without."""
    kernel = jn.kernel.from_ttir(_kernel(STORES[stores], LOADS[loads], mask))
    memory = np.random.default_rng(3).integers(-(2**31), 2**31, 5 * N).astype(np.int32)
    for n, first in [*itertools.product((0, 1, 5, N - 1, N), (3 * N,)), *itertools.product((N - 1,), (0, 1, 2, 7))]:
        found = []
        for run in (kernel.interpret, kernel.launch, functools.partial(kernel.launch, check_bounds=True)):
            own = memory.copy()
            run(1, *[own[begin : begin + 2 * N].view(np.float32) for begin in (0, first)], n)
            found.append(own)
        np.testing.assert_array_equal(found[1], found[0])
        np.testing.assert_array_equal(found[2], found[0])


@pytest.mark.parametrize(("stores", "is_whole"), [("both", True), ("masked", True), ("apart", False), ("swapped", False)])
def test_neighbours_are_stored_at_once(stores, is_whole):
    code = jn.kernel.from_ttir(_kernel(STORES[stores])).llvm_ir()
    assert bool(re.search(r"(store <\d+ x i64>|call void @llvm.masked.store.v\d+i64|@jn_store_\d_of_8)", code)) == is_whole


def test_pairs_of_floats_are_numbers_as_they_lie():
    """Where there is nothing else to do, complex numbers are copied, 4-byte aligned as floats are."""
    rows = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    found, kernel = run(lambda x: jn.complex(x[:, ::2], x[:, 1::2]), rows)
    np.testing.assert_array_equal(found, rows.view(np.complex64))
    loads = re.findall(r"load <\d+ x (\w+)>, ptr [^,]+, align (\d+)", kernel.llvm_ir)
    assert loads
    assert set(loads) == {("i64", "4")}


def test_a_product_that_is_stored_next_loses_no_store():
    """The value of the following store is computed as it is stored."""
    block = "tensor<16x16x"
    text = f"""
module {{
  tt.func public @f(%x: !tt.ptr<i64>, %a: !tt.ptr<f32>, %o: !tt.ptr<f32>, %p: !tt.ptr<f32>) {{
    %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %c = tt.expand_dims %r {{axis = 0 : i32}} : tensor<16xi32> -> tensor<1x16xi32>
    %cb = tt.broadcast %c : tensor<1x16xi32> -> {block}i32>
    %d = tt.expand_dims %r {{axis = 1 : i32}} : tensor<16xi32> -> tensor<16x1xi32>
    %s = arith.constant dense<16> : tensor<16x1xi32>
    %ds = arith.muli %d, %s : tensor<16x1xi32>
    %db = tt.broadcast %ds : tensor<16x1xi32> -> {block}i32>
    %at = arith.addi %cb, %db : {block}i32>
    %xs = tt.splat %x : !tt.ptr<i64> -> {block}!tt.ptr<i64>>
    %xp = tt.addptr %xs, %at : {block}!tt.ptr<i64>>, {block}i32>
    %as = tt.splat %a : !tt.ptr<f32> -> {block}!tt.ptr<f32>>
    %ap = tt.addptr %as, %at : {block}!tt.ptr<f32>>, {block}i32>
    %os = tt.splat %o : !tt.ptr<f32> -> {block}!tt.ptr<f32>>
    %op = tt.addptr %os, %at : {block}!tt.ptr<f32>>, {block}i32>
    %ps = tt.splat %p : !tt.ptr<f32> -> {block}!tt.ptr<f32>>
    %pp = tt.addptr %ps, %at : {block}!tt.ptr<f32>>, {block}i32>
    %xv = tt.load %xp : {block}!tt.ptr<i64>>
    %av = tt.load %ap : {block}!tt.ptr<f32>>
    %lo = arith.trunci %xv : {block}i64> to {block}i32>
    %lf = tt.bitcast %lo : {block}i32> -> {block}f32>
    %zero = arith.constant dense<0.0> : {block}f32>
    tt.store %op, %lf : {block}!tt.ptr<f32>>
    %m = tt.dot %av, %av, %zero, inputPrecision = ieee : {block}f32> * {block}f32> -> {block}f32>
    tt.store %pp, %m : {block}!tt.ptr<f32>>
    tt.return
  }}
}}
"""
    x = numbers(256, "int64").reshape(16, 16)
    a = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    low, product = np.full((16, 16), 7, np.float32), np.zeros((16, 16), np.float32)
    jn.kernel.from_ttir(text).launch((1,), x, a, low, product)
    np.testing.assert_array_equal(low.view(np.int32), x.astype(np.int32))
    np.testing.assert_allclose(product, a @ a, 1e-4, 1e-4)


WITH_OTHERS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "products": lambda lib, x, y, r: x * y,
    "products and sums": lambda lib, x, y, r: x * y + x - y * 2.0,
    "a real factor": lambda lib, x, y, r: x * r.astype("complex64"),
    "a real factor of products": lambda lib, x, y, r: x * y * r.astype("complex64"),
    "products with a part of others": lambda lib, x, y, r: x * lib.real(y).astype("complex64"),
    "chosen by their parts": lambda lib, x, y, r: lib.where(lib.real(x) > lib.imag(y), x * y, y),
    "chosen by a real": lambda lib, x, y, r: lib.where(r > 0.0, x * y, y),
    "chosen by their position": lambda lib, x, y, r: lib.where(lib.cumsum(r * 0.0 + 1.0, axis=1) < 21.0, x * y, x),
    "of one row": lambda lib, x, y, r: x * y[0],
    "of one number": lambda lib, x, y, r: x * y[0, 0],
    "reversed": lambda lib, x, y, r: x * lib.flip(y, 1),
    "twice": lambda lib, x, y, r: (x * y) * (x * y) + lib.abs(x * y).astype("complex64"),
}


@pytest.mark.parametrize("columns", [1, 7, 15, 16, 17, 31, 32, 33, 48, 100])
@pytest.mark.parametrize("name", WITH_OTHERS)
def test_lanes_stay_in_another_order_only_where_all_do(name: str, columns: int) -> None:
    rng = np.random.default_rng(columns)
    x, y = (rng.standard_normal((3, columns, 2), dtype=np.float32).view(np.complex64)[..., 0] for _ in range(2))
    r = rng.standard_normal((3, columns), dtype=np.float32)
    for shape in ((3, columns), ("m", "n")):
        kinds = {"x": "complex64", "y": "complex64", "r": "float32"}
        graph = jn.Graph("g", inputs=[jn.TensorType(dtype, shape, each) for each, dtype in kinds.items()])
        graph.output(WITH_OTHERS[name](jn, *graph.inputs))
        found = jn.compile(graph, device="cpu", threads=1)(x, y, r)
        np.testing.assert_allclose(found, WITH_OTHERS[name](np, x, y, r), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("size", [16, 64, 1000])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint32"])
def test_addresses_and_choices_of_halves_are_in_the_order_of_elements(dtype: str, size: int) -> None:
    """An index of 32 bits is half of one of 64."""
    rng = np.random.default_rng(size)
    x, y = (rng.standard_normal((size, 2), dtype=np.float32).view(np.complex64)[..., 0] for _ in range(2))
    at = rng.integers(0, size, size)
    kinds = {"x": "complex64", "y": "complex64", "at": "int64"}
    graph = jn.Graph("g", inputs=[jn.TensorType(kind, (size,), name) for name, kind in kinds.items()])
    a, b, index = graph.inputs
    index = jn.cast(index, dtype)
    graph.output(jn.gather(a, index, axis=0) * b, jn.where(index > size // 2, a * b, b))
    gathered, chosen = jn.compile(graph, device="cpu", threads=1)(x, y, at)
    np.testing.assert_allclose(gathered, x[at] * y, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(chosen, np.where(at > size // 2, x * y, y), rtol=1e-5, atol=1e-5)
