"""Offsets that lead beyond all memory, and may come round to the array: the sanitizer and checked code find them."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.interface.kernel import Kernel

BLOCKS = {
    "a scalar": "%p = tt.addptr %x, %far : !tt.ptr<T>, i64\n %v = tt.load %p : !tt.ptr<T>\n tt.store %y, %v : !tt.ptr<T>",
    "a block": """%p = tt.addptr %x, %far : !tt.ptr<T>, i64
        %s = tt.splat %p : !tt.ptr<T> -> tensor<16x!tt.ptr<T>>
        %at = tt.addptr %s, %i : tensor<16x!tt.ptr<T>>, tensor<16xi32>
        %v = tt.load %at : tensor<16x!tt.ptr<T>>
        tt.store %to, %v : tensor<16x!tt.ptr<T>>""",
    "a stride": """%s = tt.splat %x : !tt.ptr<T> -> tensor<16x!tt.ptr<T>>
        %step = tt.splat %far : i64 -> tensor<16xi64>
        %wide = arith.extsi %i : tensor<16xi32> to tensor<16xi64>
        %o = arith.muli %wide, %step : tensor<16xi64>
        %at = tt.addptr %s, %o : tensor<16x!tt.ptr<T>>, tensor<16xi64>
        %v = tt.load %at : tensor<16x!tt.ptr<T>>
        tt.store %to, %v : tensor<16x!tt.ptr<T>>""",
    "lanes": """%s = tt.splat %x : !tt.ptr<T> -> tensor<16x!tt.ptr<T>>
        %f = tt.splat %far : i64 -> tensor<16xi64>
        %wide = arith.extsi %i : tensor<16xi32> to tensor<16xi64>
        %o = arith.xori %wide, %f : tensor<16xi64>
        %at = tt.addptr %s, %o : tensor<16x!tt.ptr<T>>, tensor<16xi64>
        %v = tt.load %at : tensor<16x!tt.ptr<T>>
        tt.store %to, %v : tensor<16x!tt.ptr<T>>""",
}
NEAR = {"a scalar": 5, "a block": 3, "a stride": 2, "lanes": 8}


def kernel(body: str, type_: str, *more: str) -> Kernel:
    parameters = ", ".join(("%x: !tt.ptr<T>", "%y: !tt.ptr<T>", "%far: i64", *more))
    text = f"""tt.func public @k({parameters}) {{
        %i = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
        %ys = tt.splat %y : !tt.ptr<T> -> tensor<16x!tt.ptr<T>>
        %to = tt.addptr %ys, %i : tensor<16x!tt.ptr<T>>, tensor<16xi32>
        {body}
        tt.return
    }}"""
    return jn.kernel.from_ttir(text.replace("<T>", f"<{type_}>"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [np.int16, np.float64])
@pytest.mark.parametrize("name", BLOCKS)
def test_offsets_that_wrap_in_bytes_are_found(name: str, dtype: type) -> None:
    k = kernel(BLOCKS[name], "i16" if dtype is np.int16 else "f64")
    x, y = np.arange(64, dtype=dtype), np.zeros(16, dtype)
    far = -(2**63) if dtype is np.int16 else 2**61  # in bytes a multiple of 2^64
    with pytest.raises(jn.SanitizerError, match=r"overflow: the offset leads more than 2\^60 bytes away in '.*tt\.addptr"):
        k.launch((1,), x, y, far, sanitize=True)
    with pytest.raises(jn.AccessError, match="of array 'x' is read"):
        k.launch((1,), x, y, far, check_bounds=True)
    assert not y.any()


@pytest.mark.parametrize("name", BLOCKS)
def test_offsets_of_64_bits_that_stay_inside_are_none(name: str) -> None:
    k = kernel(BLOCKS[name], "f32")
    x = np.arange(64, dtype=np.float32)
    i = np.arange(16)
    near = NEAR[name]
    expected = {"a scalar": x[5:6], "a block": x[3:19], "a stride": x[2 * i], "lanes": x[i ^ 8]}[name]
    for options in ({"sanitize": True}, {"check_bounds": True}):
        y = np.zeros(16, np.float32)
        k.launch((1,), x, y, near, **options)
        np.testing.assert_array_equal(y[: len(expected)], expected)


TWICE = {
    "back": """%p = tt.addptr %x, %far : !tt.ptr<T>, i64
        %q = tt.addptr %p, %back : !tt.ptr<T>, i64
        %v = tt.load %q : !tt.ptr<T>
        tt.store %y, %v : !tt.ptr<T>""",
    "back by a block": """%p = tt.addptr %x, %far : !tt.ptr<T>, i64
        %s = tt.splat %p : !tt.ptr<T> -> tensor<16x!tt.ptr<T>>
        %b = tt.splat %back : i64 -> tensor<16xi64>
        %at = tt.addptr %s, %b : tensor<16x!tt.ptr<T>>, tensor<16xi64>
        %v = tt.load %at : tensor<16x!tt.ptr<T>>
        tt.store %to, %v : tensor<16x!tt.ptr<T>>""",
    "in a loop": """%c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %c5 = arith.constant 5 : i32
        %p = tt.addptr %x, %far : !tt.ptr<T>, i64
        %q = tt.addptr %p, %back : !tt.ptr<T>, i64
        %r = scf.for %j = %c0 to %c5 step %c1 iter_args(%a = %q) -> (!tt.ptr<T>) : i32 {
            %n = tt.addptr %a, %c1 : !tt.ptr<T>, i32
            scf.yield %n : !tt.ptr<T>
        }
        %v = tt.load %r : !tt.ptr<T>
        tt.store %y, %v : !tt.ptr<T>""",
    "as a number": """%p = tt.addptr %x, %far : !tt.ptr<T>, i64
        %q = tt.addptr %p, %back : !tt.ptr<T>, i64
        %b = tt.ptr_to_int %q : !tt.ptr<T> -> i64
        %a = tt.ptr_to_int %x : !tt.ptr<T> -> i64
        %d = arith.subi %b, %a : i64
        %v = tt.addptr %x, %d : !tt.ptr<T>, i64
        %w = tt.load %v : !tt.ptr<T>
        tt.store %y, %w : !tt.ptr<T>""",
}


@pytest.mark.one_in(12)
@pytest.mark.parametrize("by", [2**58, 2**59, 2**60, 2**61, 2**62, -(2**62), -(2**63)])
@pytest.mark.parametrize("type_", ["i8", "i64"])
@pytest.mark.parametrize("name", TWICE)
def test_pointers_that_were_moved_too_far_do_not_come_back(name: str, type_: str, by: int) -> None:
    k = kernel(TWICE[name], type_, "%back: i64")
    dtype, size = (np.int8, 1) if type_ == "i8" else (np.int64, 8)
    for back in (-by, 4 - by, -by - 1 - 2**20):
        back = (back + 2**63) % 2**64 - 2**63
        x, y = np.arange(64, dtype=dtype), np.zeros(16, dtype)
        near = abs(by) * size <= 2**60 and abs(back) * size <= 2**60
        inside = near and back + by in (0, 4)
        for options in ({"sanitize": True}, {"check_bounds": True}):
            if not inside:
                with pytest.raises(jn.SanitizerError if "sanitize" in options else jn.UserError):
                    k.launch((1,), x, y, by, back, **options)
                assert not y.any()
                continue
            k.launch((1,), x, y, by, back, **options)
            assert y[0] == back + by + 5 * (name == "in a loop")


def test_masked_accesses_behind_far_moves_are_none() -> None:
    k = kernel("""%p = tt.addptr %x, %far : !tt.ptr<T>, i64
        %c = arith.constant false
        %zero = arith.constant 7.0 : f32
        %v = tt.load %p, %c, %zero : !tt.ptr<T>
        tt.store %y, %v : !tt.ptr<T>""", "f32")  # fmt: skip
    for options in ({"sanitize": True}, {"check_bounds": True}):
        x, y = np.arange(64, dtype=np.float32), np.zeros(16, np.float32)
        k.launch((1,), x, y, -(2**63), **options)
        assert y[0] == 7
