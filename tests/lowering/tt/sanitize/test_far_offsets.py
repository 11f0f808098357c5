"""Offsets that pass 64 bits in bytes, whose addresses come round to the array: the sanitizer and checked code find them."""

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


def kernel(body: str, type_: str) -> Kernel:
    text = f"""tt.func public @k(%x: !tt.ptr<T>, %y: !tt.ptr<T>, %far: i64) {{
        %i = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
        %ys = tt.splat %y : !tt.ptr<T> -> tensor<16x!tt.ptr<T>>
        %to = tt.addptr %ys, %i : tensor<16x!tt.ptr<T>>, tensor<16xi32>
        {body}
        tt.return
    }}"""
    return jn.kernel.from_ttir(text.replace("<T>", f"<{type_}>"))


@pytest.mark.parametrize("dtype", [np.int16, np.float64])
@pytest.mark.parametrize("name", BLOCKS)
def test_offsets_that_wrap_in_bytes_are_found(name: str, dtype: type) -> None:
    k = kernel(BLOCKS[name], "i16" if dtype is np.int16 else "f64")
    x, y = np.arange(64, dtype=dtype), np.zeros(16, dtype)
    far = -(2**63) if dtype is np.int16 else 2**61  # in bytes a multiple of 2^64
    with pytest.raises(jn.SanitizerError, match=r"overflow: the offset in bytes wrapped around in '.*tt\.addptr"):
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
