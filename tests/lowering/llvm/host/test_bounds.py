"""Accesses that leave their arrays stop a checked launch before they touch memory, whatever way the address is made."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.native.code import decode_native, encode_native
from joinery.lowering.tt.interpret.memory import AccessError

HEAD = "module { tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32, %s: i64) {\n"
RANGE = """
  %r = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %ns = tt.splat %n : i32 -> tensor<16xi32>
  %below = arith.cmpi slt, %r, %ns : tensor<16xi32>
  %yp = tt.addptr %ys, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
"""
END = "\n  tt.return } }"
STORED = "\n  tt.store %yp, %v : tensor<16x!tt.ptr<f32>>"
LOADED = "\n  %v = tt.load %xp : tensor<16x!tt.ptr<f32>>" + STORED
POINTERS = "\n  %xp = tt.addptr %xs, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>"
WIDE = "\n  %xp = tt.addptr %xs, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi64>"
STRIDED = """
  %w = arith.extsi %r : tensor<16xi32> to tensor<16xi64>
  %ss = tt.splat %s : i64 -> tensor<16xi64>
  %i = arith.muli %w, %ss : tensor<16xi64>"""
REVERSED = """
  %o = arith.constant dense<15> : tensor<16xi32>
  %i = arith.subi %o, %r : tensor<16xi32>"""
WRAPPED = """
  %i = arith.remsi %r, %ns : tensor<16xi32>"""
BACK = """
  %i = arith.subi %r, %ns : tensor<16xi32>"""
GATHERED = """
  %bits = tt.bitcast %yp : tensor<16x!tt.ptr<f32>> -> tensor<16x!tt.ptr<i32>>
  %i = tt.load %bits, %below : tensor<16x!tt.ptr<i32>>"""


def launch(body: str, x: Any, n: int = 16, s: int = 1, y: Any = None, head: str = RANGE) -> Any:
    kernel = jn.kernel.from_ttir(HEAD + head + body + END)
    y = np.zeros(16, np.float32) if y is None else y
    kernel.launch((1,), x, y, n, s, check_bounds=True)
    return y


def ramp(count: int) -> Any:
    return np.arange(count, dtype=np.float32)


RIGHT: dict[str, tuple[str, dict[str, Any], Any]] = {
    "every element": (STRIDED + WIDE + LOADED, {"x": ramp(16)}, ramp(16)),
    "every second": (STRIDED + WIDE + LOADED, {"x": ramp(31), "s": 2}, ramp(31)[::2]),
    "one element sixteen times": (STRIDED + WIDE + LOADED, {"x": ramp(1), "s": 0}, np.zeros(16)),
    "backwards": (REVERSED + POINTERS + LOADED, {"x": ramp(16)}, ramp(16)[::-1]),
    "around the end": (WRAPPED + POINTERS + LOADED, {"x": ramp(5), "n": 5}, np.arange(16) % 5),
    "at loaded positions": (
        GATHERED + POINTERS + LOADED, {"x": ramp(4), "y": np.full(16, 3, np.int32).view(np.float32)}, np.full(16, 3.0),
    ),
}  # fmt: skip
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "one too far": (STRIDED + WIDE + LOADED, {"x": ramp(15)}, "element 15 of array 'x' is read, by element (15,)"),
    "every second, one too far": (STRIDED + WIDE + LOADED, {"x": ramp(30), "s": 2}, "element 30 .* by element (15,)"),
    "before the first": (BACK + POINTERS + LOADED, {"x": ramp(16), "n": 1}, "element -1 .* by element (0,)"),
    "negative stride": (STRIDED + WIDE + LOADED, {"x": ramp(16), "s": -1}, "element -1 .* by element (1,)"),
    "a stride that comes around": (STRIDED + WIDE + LOADED, {"x": ramp(16), "s": 1 << 61}, "by element (1,)"),
    "an enormous stride": (STRIDED + WIDE + LOADED, {"x": ramp(16), "s": (1 << 59) + 1}, "by element (1,)"),
    "no elements": (STRIDED + WIDE + LOADED, {"x": ramp(0)}, "element 0 of array 'x' is read, by element (0,)"),
    "remainders": (WRAPPED + POINTERS + LOADED, {"x": ramp(4), "n": 5}, "element 4 .* by element (4,)"),
    "loaded positions": (
        GATHERED + POINTERS + LOADED, {"x": ramp(4), "y": np.array([3] * 9 + [4] * 7, np.int32).view(np.float32)},
        "element 4 .* by element (9,)",
    ),
    "a store": (STRIDED + WIDE + LOADED, {"x": ramp(16), "y": np.zeros(12, np.float32)}, "element 12 of array 'y' is written"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_lies_inside_is_accessed(name: str) -> None:
    body, arguments, expected = RIGHT[name]
    np.testing.assert_array_equal(launch(body, **arguments), expected)


@pytest.mark.parametrize("name", WRONG)
def test_what_lies_outside_stops_the_launch(name: str) -> None:
    body, arguments, message = WRONG[name]
    with pytest.raises(AccessError, match=message.replace("(", r"\(").replace(")", r"\)")):
        launch(body, **arguments)


MASKED = REVERSED.replace("%i", "%q") + "\n  %i = arith.addi %r, %r : tensor<16xi32>" + POINTERS


def test_masks_leave_elements_out() -> None:
    body = MASKED + "\n  %v = tt.load %xp, %below : tensor<16x!tt.ptr<f32>>"
    body += "\n  tt.store %yp, %v, %below : tensor<16x!tt.ptr<f32>>"
    np.testing.assert_array_equal(launch(body, ramp(9), 5, y=np.zeros(5, np.float32)), 2 * np.arange(5))
    launch(body, ramp(0), 0, y=np.zeros(0, np.float32))
    with pytest.raises(AccessError, match=r"element 10 of array 'x' is read, by element \(5,\)"):
        launch(body, ramp(9), 6)


def test_masks_that_are_no_bounds_leave_elements_out_too() -> None:
    odd = "\n  %two = arith.constant dense<2> : tensor<16xi32>\n  %u = arith.remsi %r, %two : tensor<16xi32>"
    odd += "\n  %z = arith.constant dense<0> : tensor<16xi32>\n  %m = arith.cmpi eq, %u, %z : tensor<16xi32>"
    body = odd + BACK + POINTERS + "\n  %v = tt.load %xp, %m : tensor<16x!tt.ptr<f32>>" + STORED
    assert launch(body, ramp(15), 0)[14] == 14
    with pytest.raises(AccessError, match=r"element 14 of array 'x' is read, by element \(14,\)"):
        launch(body, ramp(14), 0)


SCALAR = "\n  %p = tt.addptr %x, %n : !tt.ptr<f32>, i32\n  {}\n  tt.store %y, %v : !tt.ptr<f32>"


LOAD = "%v = tt.load %p : !tt.ptr<f32>"
ADD = """%one = arith.constant 1.0 : f32
  %true = arith.constant true
  %v = tt.atomic_rmw fadd, acq_rel, gpu, %p, %one, %true : (!tt.ptr<f32>, f32, i1) -> f32"""


@pytest.mark.parametrize(("access", "verb"), [(LOAD, "read"), (ADD, "written")], ids=["load", "atomic"])
def test_scalars_and_atomics(access: str, verb: str) -> None:
    body = SCALAR.format(access)
    assert launch(body, ramp(4), 3, y=np.zeros(1, np.float32), head="")[0] == 3
    for n in (4, -1, (1 << 31) - 1):
        with pytest.raises(AccessError, match=rf"element {n} of array 'x' is {verb}, which has elements 0 … 3 \(16 bytes\)"):
            launch(body, ramp(4), n, y=np.zeros(1, np.float32), head="")


def test_a_masked_scalar_is_not_accessed() -> None:
    mask = "%zero = arith.constant 0 : i32\n  %m = arith.cmpi sge, %n, %zero : i32\n  %f = arith.constant 7.0 : f32\n"
    body = SCALAR.format(mask + "  %v = tt.load %p, %m, %f : !tt.ptr<f32>")
    assert launch(body, ramp(4), -1, y=np.zeros(1, np.float32), head="")[0] == 7


def test_nothing_is_touched_before_the_launch_stops() -> None:
    guarded = np.zeros(20, np.float32)
    with pytest.raises(AccessError):
        launch(STRIDED + WIDE + LOADED, ramp(16), y=guarded[:12])
    assert not guarded.any()


TABLE = """module { tt.func public @k(%t: !tt.ptr<i64>, %y: !tt.ptr<f32>, %i: i32) {
  %e = tt.addptr %t, %i : !tt.ptr<i64>, i32
  %a = tt.load %e : !tt.ptr<i64>
  %p = tt.int_to_ptr %a : i64 -> !tt.ptr<f32>
  %q = tt.addptr %p, %i : !tt.ptr<f32>, i32
  %v = tt.load %q : !tt.ptr<f32>
  tt.store %y, %v : !tt.ptr<f32>
  tt.return } }"""


def test_addresses_from_a_table_reach_its_arrays() -> None:
    kernel = jn.kernel.from_ttir(TABLE)
    arrays = [ramp(1), ramp(5), 10 + ramp(3), ramp(1)]
    y = np.zeros(1, np.float32)
    for i, expected in enumerate((0, 1, 12)):
        kernel.launch((1,), jn.PointerTable(arrays), y, i, check_bounds=True)
        assert y[0] == expected
    with pytest.raises(AccessError, match="is read, which lies in no array"):
        kernel.launch((1,), jn.PointerTable(arrays), y, 3, check_bounds=True)


def test_code_that_checks_survives_as_bytes() -> None:
    kernel = jn.kernel.from_ttir(HEAD + RANGE + STRIDED + WIDE + LOADED + END)
    facts, compiled = kernel.native_code(check_bounds=True)
    assert facts.checked
    again = decode_native(encode_native(facts, compiled), kernel.host_object)
    assert again.facts == facts
    assert again.program([], []).sites == compiled.sites


def test_devices_that_check_by_themselves_or_not_at_all() -> None:
    kernel = jn.kernel.from_ttir(HEAD + RANGE + STRIDED + WIDE + LOADED + END)
    for device in ("ptxsim", "cuda"):
        with pytest.raises(jn.UnsupportedError, match=f"check_bounds=True with device='{device}'; fix: device='cpu'"):
            kernel.launch((1,), ramp(16), ramp(16), 16, 1, device=device, check_bounds=True)
