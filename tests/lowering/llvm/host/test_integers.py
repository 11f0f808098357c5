"""Integer arithmetic that would trap or be undefined in LLVM has the results the block IR defines."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(2)
DIVISIONS = ["divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi"]
SHIFTS = ["shli", "shrsi", "shrui"]
N = 256


def kernel(op: str, width: int, scalar: bool) -> str:
    shape = "" if scalar else f"tensor<{N}x"
    end = "" if scalar else ">"
    read = (
        f"%a = tt.load %x : !tt.ptr<i{width}>\n %b = tt.load %y : !tt.ptr<i{width}>"
        if scalar
        else f"""%r = tt.make_range {{end = {N} : i32, start = 0 : i32}} : tensor<{N}xi32>
    %bx = tt.splat %x : !tt.ptr<i{width}> -> tensor<{N}x!tt.ptr<i{width}>>
    %px = tt.addptr %bx, %r : tensor<{N}x!tt.ptr<i{width}>>, tensor<{N}xi32>
    %by = tt.splat %y : !tt.ptr<i{width}> -> tensor<{N}x!tt.ptr<i{width}>>
    %py = tt.addptr %by, %r : tensor<{N}x!tt.ptr<i{width}>>, tensor<{N}xi32>
    %bo = tt.splat %o : !tt.ptr<i{width}> -> tensor<{N}x!tt.ptr<i{width}>>
    %po = tt.addptr %bo, %r : tensor<{N}x!tt.ptr<i{width}>>, tensor<{N}xi32>
    %a = tt.load %px : tensor<{N}x!tt.ptr<i{width}>>
    %b = tt.load %py : tensor<{N}x!tt.ptr<i{width}>>"""
    )
    target = "%o" if scalar else "%po"
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<i{width}>, %y: !tt.ptr<i{width}>, %o: !tt.ptr<i{width}>) {{
    {read}
    %c = arith.{op} %a, %b : {shape}i{width}{end}
    tt.store {target}, %c : {shape}!tt.ptr<i{width}>{end}
    tt.return
  }}
}}
"""


def numbers(width: int) -> tuple[np.ndarray, np.ndarray]:
    kind = np.dtype(f"int{max(width, 8)}")
    if width == 1:
        pairs = np.array([(a, b) for a in (0, 1) for b in (0, 1)] * (N // 4), np.int8)
        return pairs[:, 0].copy(), pairs[:, 1].copy()
    info = np.iinfo(kind)
    corners = np.array([0, 1, -1, 2, -3, width - 1, width, width + 1, info.min, info.max], kind)
    a = np.concatenate([np.repeat(corners, 10), RNG.integers(info.min, info.max, N - 100, kind)])
    b = np.concatenate([np.tile(corners, 10), RNG.integers(-5, width + 5, N - 100).astype(kind)])
    return a, b


def expected(op: str, a: int, b: int, width: int) -> int:
    """From Python's integers; a and b are signed."""
    mask = (1 << width) - 1
    if op in ("divui", "remui", "ceildivui", "shrui"):
        a, b = a & mask, b & mask
    if op in DIVISIONS:
        if b == 0:
            value = a if op.startswith("rem") else 0
        elif op.startswith("rem"):
            value = abs(a) % abs(b) * (1 if a >= 0 else -1)
        elif op.startswith("div"):
            value = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        else:
            value = a // b if op.startswith("floor") else -(-a // b)
    else:
        amount = b & mask
        outside = -1 if op == "shrsi" and a < 0 else 0
        value = outside if amount >= width else a << amount if op == "shli" else a >> amount
    value &= mask
    return value - (1 << width) if value >> (width - 1) and width > 1 else value


@pytest.mark.one_in(6)
@pytest.mark.parametrize("width", [1, 8, 16, 32, 64])
@pytest.mark.parametrize("op", DIVISIONS + SHIFTS)
def test_every_pair(agree, op: str, width: int) -> None:
    a, b = numbers(width)
    found = agree(kernel(op, width, False), 1, a, b, np.zeros_like(a))[2]
    signed_a, signed_b = (-a, -b) if width == 1 else (a, b)
    wanted = [expected(op, int(x), int(y), width) for x, y in zip(signed_a, signed_b, strict=True)]
    assert found.tolist() == [abs(w) for w in wanted] if width == 1 else found.tolist() == wanted


@pytest.mark.parametrize("op", DIVISIONS + SHIFTS)
def test_scalars(agree, op: str) -> None:
    for a, b in [(7, 0), (-(2**31), -1), (-7, 2), (5, 32), (5, -1), (-5, 40)]:
        x, y = np.array([a], np.int32), np.array([b], np.int32)
        found = agree(kernel(op, 32, True), 1, x, y, np.zeros_like(x))[2]
        assert int(found[0]) == expected(op, a, b, 32)


@pytest.mark.parametrize("divisor", [0, -1, 3])
def test_constant_divisors(agree, divisor: int) -> None:
    text = kernel("divsi", 32, False).replace(
        f"%b = tt.load %py : tensor<{N}x!tt.ptr<i32>>",
        f"%s = arith.constant {divisor} : i32\n %b = tt.splat %s : i32 -> tensor<{N}xi32>",
    )
    a, b = numbers(32)
    found = agree(text, 1, a, b, np.zeros_like(a))[2]
    assert found.tolist() == [expected("divsi", int(x), divisor, 32) for x in a]
