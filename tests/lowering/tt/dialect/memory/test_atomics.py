"""Atomic operations: against NumPy, across threads, in both forms, and what their verifiers refuse."""

from __future__ import annotations

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

LANES = 64


def block(kind: str, elem: str, order: str = "acq_rel", scope: str = "gpu") -> jn.kernel.Kernel:
    """Every program applies 64 values to the cells its indices name, where index >= 0, and keeps what was there."""
    one, many = f"!tt.ptr<{elem}>", f"tensor<64x!tt.ptr<{elem}>>"
    types = f"({many}, tensor<64x{elem}>, tensor<64xi1>) -> tensor<64x{elem}>"
    return jn.kernel.from_ttir(f"""
module {{
  tt.func public @k(%cells: {one}, %index: !tt.ptr<i32>, %value: {one}, %old: {one}) {{
    %pid = tt.get_program_id x : i32
    %c64 = arith.constant 64 : i32
    %start = arith.muli %pid, %c64 : i32
    %range = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %first = tt.splat %start : i32 -> tensor<64xi32>
    %at = arith.addi %first, %range : tensor<64xi32>
    %pi = tt.splat %index : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %ai = tt.addptr %pi, %at : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %i = tt.load %ai : tensor<64x!tt.ptr<i32>>
    %zero = arith.constant dense<0> : tensor<64xi32>
    %mask = arith.cmpi sge, %i, %zero : tensor<64xi32>
    %pv = tt.splat %value : {one} -> {many}
    %av = tt.addptr %pv, %at : {many}, tensor<64xi32>
    %v = tt.load %av : {many}
    %pc = tt.splat %cells : {one} -> {many}
    %ac = tt.addptr %pc, %i : {many}, tensor<64xi32>
    %o = tt.atomic_rmw {kind}, {order}, {scope}, %ac, %v, %mask : {types}
    %po = tt.splat %old : {one} -> {many}
    %ao = tt.addptr %po, %at : {many}, tensor<64xi32>
    tt.store %ao, %o, %mask : {many}
    tt.return
  }}
}}
""")


UFUNCS = {
    "add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "max": np.maximum, "min": np.minimum,
    "fadd": np.add, "umax": np.maximum, "umin": np.minimum,
}  # fmt: skip


@pytest.mark.one_in(14)
@pytest.mark.parametrize(
    ("kind", "elem", "dtype"),
    [
        *((kind, "i32", np.int32) for kind in ("add", "and", "or", "xor", "max", "min")),
        ("umax", "i32", np.uint32), ("umin", "i64", np.uint64), ("add", "i64", np.int64), ("add", "i8", np.int8),
        ("max", "i16", np.int16), ("fadd", "f32", np.float32), ("fadd", "f64", np.float64),
    ],
)  # fmt: skip
def test_read_modify_write(kind: str, elem: str, dtype: type) -> None:
    """Colliding lanes and programs: whatever the order, the cells end up as NumPy's unbuffered ufunc leaves them."""
    kernel = block(kind, elem)
    rng = np.random.default_rng(0)
    programs = 50
    index = rng.integers(-1, 7, programs * LANES).astype(np.int32)
    if np.dtype(dtype).kind == "f":
        value = rng.integers(-9, 10, programs * LANES).astype(dtype)
        start = np.arange(7).astype(dtype)
    else:
        info = np.iinfo(dtype)
        value = rng.integers(info.min, info.max, programs * LANES, dtype, endpoint=True)
        start = rng.integers(info.min, info.max, 7, dtype, endpoint=True)
    expected = start.copy()
    UFUNCS[kind].at(expected, index[index >= 0], value[index >= 0])
    for run in (kernel.interpret, kernel.launch, lambda *a: kernel.launch(*a, threads=8)):
        cells, old = start.copy(), np.full(programs * LANES, 7).astype(dtype)
        run((programs,), cells, index, value, old)
        np.testing.assert_array_equal(cells, expected)
        assert (old[index < 0] == np.asarray(7).astype(dtype)).all()


def test_every_increment_is_seen_once() -> None:
    """The old values of a counter are 0 … n - 1, each once: nothing is lost between eight threads."""
    kernel = block("add", "i32", "relaxed", "sys")
    programs = 500
    for _ in range(5):
        counter, old = np.zeros(1, np.int32), np.zeros(programs * LANES, np.int32)
        ones = np.ones(programs * LANES, np.int32)
        kernel.launch((programs,), counter, np.zeros(programs * LANES, np.int32), ones, old, threads=8)
        assert counter[0] == programs * LANES
        np.testing.assert_array_equal(np.sort(old), np.arange(programs * LANES))


@pytest.mark.parametrize("elem", ["i32", "i64", "f32"])
def test_exchange_and_compare(elem: str) -> None:
    dtype = {"i32": np.int32, "i64": np.int64, "f32": np.float32}[elem]
    kernel = jn.kernel.from_ttir(f"""
module {{
  tt.func public @k(%p: !tt.ptr<{elem}>, %seen: !tt.ptr<{elem}>, %a: {elem}, %b: {elem}) {{
    %old = tt.atomic_cas acq_rel, gpu, %p, %a, %b : (!tt.ptr<{elem}>, {elem}, {elem}) -> {elem}
    tt.store %seen, %old : !tt.ptr<{elem}>
    %c1 = arith.constant 1 : i32
    %q = tt.addptr %p, %c1 : !tt.ptr<{elem}>, i32
    %true = arith.constant true
    %was = tt.atomic_rmw exch, release, cta, %q, %b, %true : (!tt.ptr<{elem}>, {elem}, i1) -> {elem}
    %next = tt.addptr %seen, %c1 : !tt.ptr<{elem}>, i32
    tt.store %next, %was : !tt.ptr<{elem}>
    tt.return
  }}
}}
""")
    for run in (kernel.interpret, kernel.launch):
        for cell, written in ((5, 9), (4, 4)):
            p, seen = np.array([cell, 2], dtype), np.zeros(2, dtype)
            run((1,), p, seen, 5, 9)
            np.testing.assert_array_equal(p, np.array([written, 9], dtype))
            np.testing.assert_array_equal(seen, np.array([cell, 2], dtype))
    assert jn.kernel.from_ttir(kernel.ttir).ttir == kernel.ttir


@pytest.mark.parametrize("elem", ["bf16", "f16", "f32", "f64"])
def test_floats_of_every_width_are_added(elem: str) -> None:
    """Half of the lanes add 1, half -0.5: every partial sum is exact, so the order does not matter."""
    dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64}[elem]
    kernel = block("fadd", elem)
    programs = 6
    index = np.zeros(programs * LANES, np.int32)
    value = np.where(np.arange(programs * LANES) % 2, 1, -0.5).astype(dtype)
    for run in (kernel.interpret, kernel.launch, lambda *a: kernel.launch(*a, threads=8)):
        cells, old = np.zeros(1, dtype), np.zeros(programs * LANES, dtype)
        run((programs,), cells, index, value, old)
        assert float(cells[0]) == programs * LANES / 4


def test_what_lies_beside_a_narrow_element_is_left_alone() -> None:
    kernel = block("fadd", "bf16")
    cells = np.array([7, 0, 9], ml_dtypes.bfloat16)
    kernel.launch((1,), cells, np.ones(LANES, np.int32), np.ones(LANES, cells.dtype), np.zeros(LANES, cells.dtype))
    assert cells.astype(float).tolist() == [7, LANES, 9]


@pytest.mark.parametrize(
    ("kind", "elem", "message"),
    [("fadd", "i32", "fadd of"), ("add", "f32", "add of"), ("max", "f64", "max of"), ("mul", "i32", "atomic_rmw_op: and")],
)
def test_what_does_not_fit_is_refused(kind: str, elem: str, message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        block(kind, elem)


@pytest.mark.parametrize(("order", "scope"), [("seq_cst", "gpu"), ("acq_rel", "warp")])
def test_unknown_orders_and_scopes(order: str, scope: str) -> None:
    with pytest.raises(jn.UserError, match="expected a s"):
        block("add", "i32", order, scope)
