"""`tt.gather` from a block that registers hold: every dtype, length and kind of position, in kernels from texts."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.tiers import each

RNG = np.random.default_rng(6)
DTYPES = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16", "f32": "float32", "f64": "float64"}
LENGTHS = (1, 2, 5, 16, 33, 64, 100, 129, 256, 300, 512)
POSITIONS = {"i8": "arith.extui %xv : tensor<{n}xi8> to tensor<{n}xi32>", "i32": "arith.addi %xv, %zero : tensor<{n}xi32>",
             "i64": "arith.addi %xv, %zero : tensor<{n}xi64>"}  # fmt: skip
TEXT = """
module {{
  tt.func public @picked(%t: !tt.ptr<{e}>, %x: !tt.ptr<{x}>, %o: !tt.ptr<{e}>) {{
    %r = tt.make_range {{start = 0 : i32, end = {size} : i32}} : tensor<{size}xi32>
    %tp = tt.splat %t : !tt.ptr<{e}> -> tensor<{size}x!tt.ptr<{e}>>
    %ta = tt.addptr %tp, %r : tensor<{size}x!tt.ptr<{e}>>, tensor<{size}xi32>
    %count = arith.constant dense<{count}> : tensor<{size}xi32>
    %m = arith.cmpi slt, %r, %count : tensor<{size}xi32>
    %tv = tt.load %ta, %m : tensor<{size}x!tt.ptr<{e}>>
    %pid = tt.get_program_id x : i32
    %c = arith.constant {n} : i32
    %s = arith.muli %pid, %c : i32
    %ss = tt.splat %s : i32 -> tensor<{n}xi32>
    %q = tt.make_range {{start = 0 : i32, end = {n} : i32}} : tensor<{n}xi32>
    %at = arith.addi %q, %ss : tensor<{n}xi32>
    %zero = arith.constant dense<0> : tensor<{n}x{x}>
    %xp = tt.splat %x : !tt.ptr<{x}> -> tensor<{n}x!tt.ptr<{x}>>
    %xa = tt.addptr %xp, %at : tensor<{n}x!tt.ptr<{x}>>, tensor<{n}xi32>
    %xv = tt.load %xa : tensor<{n}x!tt.ptr<{x}>>
    %i = {positions}
    %g = tt.gather %tv[%i] {{axis = 0 : i32}} : (tensor<{size}x{e}>, tensor<{n}x{i}>) -> tensor<{n}x{e}>
    %op = tt.splat %o : !tt.ptr<{e}> -> tensor<{n}x!tt.ptr<{e}>>
    %oa = tt.addptr %op, %at : tensor<{n}x!tt.ptr<{e}>>, tensor<{n}xi32>
    tt.store %oa, %g : tensor<{n}x!tt.ptr<{e}>>
    tt.return
  }}
}}
"""


def kernel_of(elem: str, positions: str, count: int, n: int) -> Any:
    size = 1 << (count - 1).bit_length()
    index = "i64" if positions == "i64" else "i32"
    emitted = POSITIONS[positions].format(n=n)
    return jn.kernel.from_ttir(TEXT.format(e=elem, x=positions, i=index, size=size, count=count, n=n, positions=emitted))


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("elem", "positions"), each(tuple(DTYPES), tuple(POSITIONS)))
def test_every_length(elem: str, positions: str) -> None:
    for count in LENGTHS:
        for n in (512, 4):
            kernel = kernel_of(elem, positions, count, n)
            table = RNG.integers(-100, 100, count).astype(DTYPES[elem])
            at = RNG.integers(0, min(count, 256) if positions == "i8" else count, 2 * n)
            given = at.astype(np.uint8).view(np.int8) if positions == "i8" else at.astype(DTYPES[positions])
            found = np.zeros(2 * n, DTYPES[elem])
            kernel.launch((2,), table, given, found)
            np.testing.assert_array_equal(found, table[at], err_msg=f"{count} {n}")


@pytest.mark.parametrize("n", [1, 8, 256])
def test_with_bounds_checked(n: int) -> None:
    kernel = kernel_of("f32", "i32", 20, n)
    table, at, found = np.arange(20, dtype=np.float32), RNG.integers(0, 20, n).astype(np.int32), np.zeros(n, np.float32)
    kernel.launch((1,), table, at, found, check_bounds=True)
    np.testing.assert_array_equal(found, table[at])


def test_negative_positions_of_few_bits_are_beyond_the_block() -> None:
    text = TEXT.format(e="i16", x="i8", i="i8", size=512, count=512, n=256, positions="arith.addi %xv, %zero : tensor<256xi8>")
    kernel = jn.kernel.from_ttir(text)
    table, at, found = np.arange(512, dtype=np.int16), np.arange(-128, 128).astype(np.int8), np.zeros(256, np.int16)
    kernel.launch((1,), table, at, found)
    np.testing.assert_array_equal(found, np.where(at < 0, 511, at.astype(np.int16)))


def test_positions_beyond_the_block_are_those_of_its_last_element() -> None:
    kernel = kernel_of("i32", "i64", 64, 256)
    table, at, found = np.arange(64, dtype=np.int32), RNG.integers(-(2**62), 2**62, 256), np.zeros(256, np.int32)
    at[:5] = -1, 63, 64, 2**32, 2**33 + 5
    kernel.launch((1,), table, at, found)
    np.testing.assert_array_equal(found, np.where((at >= 0) & (at < 64), at, 63))
