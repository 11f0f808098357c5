"""Single instructions against a second definition in plain integers and fractions, written apart from the package."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

THREADS = 128


def f32(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def bits32(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def round_to(
    value: Fraction, precision: int, least: int, largest: Fraction, mode: str = "rn"
) -> Fraction | str:
    """A fraction in a binary format, "inf" beyond it."""
    if value == 0:
        return value
    size = abs(value)
    exponent = 0
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    while Fraction(2) ** exponent > size:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, least) - precision + 1)
    low = (size / step).__floor__()
    rest = size / step - low
    if mode == "rn":
        low += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1)
    elif (mode == "rp" and value > 0) or (mode == "rm" and value < 0):
        low += rest > 0
    found = low * step
    if found > largest:
        return "inf" if mode == "rn" or ((mode == "rp") == (value > 0) and mode != "rz") else f"{largest}"
    return found if value > 0 else -found


F32 = (24, -126, (2 - Fraction(1, 2**23)) * Fraction(2) ** 127)
BF16 = (8, -126, (2 - Fraction(1, 2**7)) * Fraction(2) ** 127)
F16 = (11, -14, Fraction(65504))


def finite32(rng: np.random.Generator, count: int) -> np.ndarray:
    """Finite floats whose sums and products meet every kind of rounding."""
    bits = rng.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32)
    near = (rng.integers(0, 1 << 24, count) | 0x3F000000).astype(np.uint32)
    tiny = rng.integers(0, 1 << 25, count).astype(np.uint32)
    found = np.where(rng.random(count) < 0.4, near, np.where(rng.random(count) < 0.2, tiny, bits))
    return np.where((found & 0x7F800000) == 0x7F800000, found & 0x7F, found).astype(np.uint32)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_float32_arithmetic_rounds_once(run: Any, name: str, mode: str) -> None:
    rng = np.random.default_rng(len(name) * 17 + ord(mode[1]))
    x, y, z = (finite32(rng, 8 * THREADS).reshape(8, THREADS) for _ in range(3))
    with np.errstate(all="ignore"):
        cancel = (-(x.view(np.float32) * y.view(np.float32))).view(np.uint32)
    z[0] = np.where((cancel[0] & 0x7F800000) == 0x7F800000, z[0], cancel[0])
    out = np.zeros((8, THREADS), np.uint32)
    third = ", %f3" if name == "fma" else ""
    body = "add.u64 %rd1, %rd1, %rd0; add.u64 %rd2, %rd2, %rd0; add.u64 %rd3, %rd3, %rd0; add.u64 %rd4, %rd4, %rd0;\n"
    for row in range(8):
        at = 4 * THREADS * row
        body += (
            f"ld.global.f32 %f1, [%rd1+{at}]; ld.global.f32 %f2, [%rd2+{at}]; ld.global.f32 %f3, [%rd3+{at}];\n"
            f"{name}.{mode}.f32 %f4, %f1, %f2{third}; st.global.f32 [%rd4+{at}], %f4;\n"
        )
    run(body + "ret;", [x, y, z, out], threads=THREADS)
    for a, b, c, got in zip(x.reshape(-1), y.reshape(-1), z.reshape(-1), out.reshape(-1), strict=True):
        p, q, r = (Fraction(f32(int(v))) for v in (a, b, c))
        exact = {"add": p + q, "sub": p - q, "mul": p * q, "fma": p * q + r}[name]
        want = round_to(exact, *F32, mode)
        value = f32(int(got))
        if isinstance(want, str):
            expected = math.inf if want == "inf" else float(F32[2])
            assert abs(value) == expected, (name, mode, hex(a), hex(b), hex(c), value)
            assert (value > 0) == (exact > 0)
        else:
            assert Fraction(value) == want, (name, mode, hex(a), hex(b), hex(c), hex(got))
            if want == 0 and exact != 0:
                assert math.copysign(1, value) == (1 if exact > 0 else -1)


def fraction16(bits: int, type_: str) -> Fraction:
    if type_ == "bf16":
        return Fraction(f32(bits << 16))
    return Fraction(float(np.uint16(bits).view(np.float16)))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("type_", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["add", "sub", "fma"])
def test_float32_arithmetic_with_narrow_operands_rounds_once(run: Any, name: str, type_: str, mode: str) -> None:
    rng = np.random.default_rng(len(name) * 31 + ord(mode[1]) + len(type_))
    x, y = (rng.integers(0, 1 << 16, THREADS).astype(np.uint16) for _ in range(2))
    top = 0x7C00 if type_ == "f16" else 0x7F80
    x, y = (np.where((v & top) == top, v & 0x80FF, v).astype(np.uint16) for v in (x, y))
    z = finite32(rng, THREADS)
    z[:32] = [bits32(float(-fraction16(int(v), type_))) for v in x[:32]]  # sums that are exactly zero
    out = np.zeros(THREADS, np.uint32)
    operands = "%h1, %h2, %f3" if name == "fma" else "%h1, %f3"
    body = f"""
      add.u64 %rd3, %rd3, %rd0; add.u64 %rd4, %rd4, %rd0; shr.u64 %rd0, %rd0, 1;
      add.u64 %rd1, %rd1, %rd0; add.u64 %rd2, %rd2, %rd0;
      ld.global.b16 %h1, [%rd1]; ld.global.b16 %h2, [%rd2]; ld.global.f32 %f3, [%rd3];
      {name}.{mode}.f32.{type_} %f4, {operands}; st.global.f32 [%rd4], %f4; ret;
    """
    run(body, [x, y, z, out], threads=THREADS)
    for a, b, c, got in zip(x, y, z, out, strict=True):
        p, q, r = fraction16(int(a), type_), fraction16(int(b), type_), Fraction(f32(int(c)))
        exact = {"add": p + r, "sub": p - r, "fma": p * q + r}[name]
        want, value = round_to(exact, *F32, mode), f32(int(got))
        if isinstance(want, str):
            assert abs(value) == (math.inf if want == "inf" else float(F32[2]))
            continue
        assert Fraction(value) == want, (name, mode, hex(a), hex(b), hex(c), hex(got))
        if want == 0 and name == "add" and p != 0:
            assert math.copysign(1, value) == (-1 if mode == "rm" else 1)


def test_fused_float64_rounds_once(run: Any) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, THREADS))
    z = -(x * y) * (1 + rng.integers(-2, 3, THREADS) * 2.0**-52)
    z[::3] = rng.standard_normal(THREADS)[::3] * 2.0 ** rng.integers(-80, 80, THREADS)[::3]
    x[5], y[5], z[5] = 2.0**-600, 2.0**-500, 2.0**-1070
    out = np.zeros(THREADS)
    body = """
      shl.b64 %rd0, %rd0, 1; add.u64 %rd1, %rd1, %rd0; add.u64 %rd2, %rd2, %rd0; add.u64 %rd3, %rd3, %rd0;
      add.u64 %rd4, %rd4, %rd0;
      ld.global.f64 %fd1, [%rd1]; ld.global.f64 %fd2, [%rd2]; ld.global.f64 %fd3, [%rd3];
      fma.rn.f64 %fd4, %fd1, %fd2, %fd3; st.global.f64 [%rd4], %fd4; ret;
    """
    run(body, [x, y, z, out], threads=THREADS)
    for a, b, c, got in zip(x, y, z, out, strict=True):
        want = round_to(
            Fraction(a) * Fraction(b) + Fraction(c), 53, -1022, (2 - Fraction(1, 2**52)) * Fraction(2) ** 1023
        )
        assert Fraction(got) == want


def signed(x: int, width: int) -> int:
    return x - (1 << width) if x >> (width - 1) else x


def permute(a: int, b: int, c: int) -> int:
    source = [(b << 32 | a) >> (8 * i) & 255 for i in range(8)]
    total = 0
    for i in range(4):
        s = c >> (4 * i) & 15
        octet = source[s & 7]
        total |= ((255 if octet & 128 else 0) if s & 8 else octet) << (8 * i)
    return total


def extract(a: int, pos: int, length: int, sign: bool) -> int:
    pos, length = pos & 255, length & 255
    if length == 0:
        return 0
    fill = a >> min(pos + length - 1, 31) & 1 if sign else 0
    return sum((((a >> (pos + i) & 1) if pos + i < 32 and i < length else fill) << i) for i in range(32))


INTEGER: list[tuple[str, Callable[[int, int, int], int]]] = [
    ("mul.hi.u32 %r4, %r1, %r2", lambda a, b, c: a * b >> 32),
    ("mul.hi.s32 %r4, %r1, %r2", lambda a, b, c: signed(a, 32) * signed(b, 32) >> 32),
    ("mad.lo.s32 %r4, %r1, %r2, %r3", lambda a, b, c: a * b + c),
    ("mad.hi.s32 %r4, %r1, %r2, %r3", lambda a, b, c: (signed(a, 32) * signed(b, 32) >> 32) + c),
    ("shl.b32 %r4, %r1, %r2", lambda a, b, c: a << b if b < 32 else 0),
    ("shr.u32 %r4, %r1, %r2", lambda a, b, c: a >> b if b < 32 else 0),
    ("shr.s32 %r4, %r1, %r2", lambda a, b, c: signed(a, 32) >> min(b, 31)),
    ("shf.l.wrap.b32 %r4, %r1, %r2, %r3", lambda a, b, c: ((b << 32 | a) << (c & 31)) >> 32),
    ("shf.r.clamp.b32 %r4, %r1, %r2, %r3", lambda a, b, c: (b << 32 | a) >> min(c, 32)),
    ("prmt.b32 %r4, %r1, %r2, %r3", permute),
    ("prmt.b32 %r4, %r1, %r2, 0x3b19", lambda a, b, c: permute(a, b, 0x3B19)),
    ("bfe.u32 %r4, %r1, %r2, %r3", lambda a, b, c: extract(a, b, c, False)),
    ("bfe.s32 %r4, %r1, %r2, %r3", lambda a, b, c: extract(a, b, c, True)),
    ("bfe.s32 %r4, %r1, 8, 12", lambda a, b, c: extract(a, 8, 12, True)),
    ("bfe.u32 %r4, %r1, 31, 1", lambda a, b, c: a >> 31),
    ("bfi.b32 %r4, %r1, %r2, 4, 9", lambda a, b, c: (b & ~(511 << 4)) | ((a & 511) << 4)),
    ("lop3.b32 %r4, %r1, %r2, %r3, 0xe8", lambda a, b, c: (a & b) | (a & c) | (b & c)),
    ("lop3.b32 %r4, %r1, %r2, %r3, 0x1e", lambda a, b, c: a ^ (b | c)),
    ("popc.b32 %r4, %r1", lambda a, b, c: a.bit_count()),
    ("clz.b32 %r4, %r1", lambda a, b, c: 32 - a.bit_length()),
    ("bfind.u32 %r4, %r1", lambda a, b, c: a.bit_length() - 1),
    ("brev.b32 %r4, %r1", lambda a, b, c: int(f"{a:032b}"[::-1], 2)),
    ("abs.s32 %r4, %r1", lambda a, b, c: abs(signed(a, 32))),
    ("min.s32 %r4, %r1, %r2", lambda a, b, c: min(signed(a, 32), signed(b, 32))),
    ("dp4a.s32.u32 %r4, %r1, %r2, %r3",
     lambda a, b, c: c + sum(signed(a >> 8 * i & 255, 8) * (b >> 8 * i & 255) for i in range(4))),
    ("cvt.s32.s8 %r4, %r1", lambda a, b, c: signed(a & 255, 8)),
    ("mul.wide.s16 %r4, %h1, %h2", lambda a, b, c: signed(a & 65535, 16) * signed(b & 65535, 16)),
    ("slct.u32.s32 %r4, %r1, %r2, %r3", lambda a, b, c: a if signed(c, 32) >= 0 else b),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "want"), INTEGER, ids=[row[0].split()[0] + f"-{i}" for i, row in enumerate(INTEGER)]
)
def test_integers(run: Any, text: str, want: Callable[[int, int, int], int]) -> None:
    rng = np.random.default_rng(5)
    a, b, c = rng.integers(0, 1 << 32, (3, THREADS), dtype=np.uint64).astype(np.uint32)
    special = np.array(
        [0, 1, 31, 32, 33, 255, 1 << 31, (1 << 31) - 1, (1 << 32) - 1, 0x8000, 64, 7], np.uint32
    )
    for row in (a, b, c):
        row[:48] = rng.choice(special, 48)
    b[60:90] &= 63
    c[60:90] &= 31
    out = np.zeros(THREADS, np.uint32)
    body = f"""
      add.u64 %rd1, %rd1, %rd0; add.u64 %rd2, %rd2, %rd0; add.u64 %rd3, %rd3, %rd0; add.u64 %rd4, %rd4, %rd0;
      ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd2]; ld.global.u32 %r3, [%rd3];
      cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r2;
      {text}; st.global.u32 [%rd4], %r4; ret;
    """
    run(body, [a, b, c, out], threads=THREADS)
    for x, y, z, got in zip(a, b, c, out, strict=True):
        assert int(got) == want(int(x), int(y), int(z)) & 0xFFFFFFFF, (hex(x), hex(y), hex(z))


def test_carry_chain_is_128_bits(run: Any) -> None:
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 1 << 64, (2, 2, 32), dtype=np.uint64)
    a[0, :8] = (1 << 64) - 1
    out = np.zeros((2, 2, 32), np.uint64)
    body = """
      shl.b64 %rd0, %rd0, 1; add.u64 %rd1, %rd1, %rd0; add.u64 %rd2, %rd2, %rd0; add.u64 %rd3, %rd3, %rd0;
      ld.global.u64 %rd10, [%rd1]; ld.global.u64 %rd11, [%rd1+256]; ld.global.u64 %rd12, [%rd2];
      ld.global.u64 %rd13, [%rd2+256];
      add.cc.u64 %rd14, %rd10, %rd12; addc.u64 %rd15, %rd11, %rd13; st.global.u64 [%rd3], %rd14;
      st.global.u64 [%rd3+256], %rd15;
      sub.cc.u64 %rd14, %rd10, %rd12; subc.u64 %rd15, %rd11, %rd13; st.global.u64 [%rd3+512], %rd14;
      st.global.u64 [%rd3+768], %rd15;
      ret;
    """
    run(body, [a, b, out])
    for i in range(32):
        x, y = (int(v[1, i]) << 64 | int(v[0, i]) for v in (a, b))
        assert (int(out[0, 1, i]) << 64 | int(out[0, 0, i])) == (x + y) % 2**128
        assert (int(out[1, 1, i]) << 64 | int(out[1, 0, i])) == (x - y) % 2**128


@pytest.mark.parametrize(("format_", "word"), [(BF16, "bf16"), (F16, "f16")])
def test_packs_put_the_first_source_above(run: Any, format_: tuple[int, int, Fraction], word: str) -> None:
    rng = np.random.default_rng(9)
    a, b = (finite32(rng, 32) for _ in range(2))
    out = np.zeros(32, np.uint32)
    body = f"""
      add.u64 %rd1, %rd1, %rd0; add.u64 %rd2, %rd2, %rd0; add.u64 %rd3, %rd3, %rd0;
      ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2];
      cvt.rn.{word}x2.f32 %r1, %f1, %f2; st.global.u32 [%rd3], %r1; ret;
    """
    run(body, [a, b, out])
    for high, low, got in zip(a, b, out, strict=True):
        for bits, half in ((high, int(got) >> 16), (low, int(got) & 0xFFFF)):
            exact = Fraction(f32(int(bits)))
            want = round_to(exact, *format_)
            found = f32(half << 16) if word == "bf16" else float(np.uint16(half).view(np.float16))
            assert (math.isinf(found) and want == "inf") or Fraction(found) == want


APPROXIMATE = [
    ("ex2.approx.f32", lambda x: 2.0**x, -20, 20, 2**-22), ("lg2.approx.f32", lambda x: math.log2(abs(x) + 2.5), 0, 0, 2**-22),
    ("rsqrt.approx.f32", lambda x: 1 / math.sqrt(x), 1e-3, 1e3, 2**-22.9), ("sin.approx.f32", math.sin, -6, 6, 2**-20.5),
    ("cos.approx.f32", math.cos, -6, 6, 2**-20.5), ("tanh.approx.f32", math.tanh, -3, 3, 2**-11),
    ("rcp.approx.f32", lambda x: 1 / x, 0.1, 30, 2**-23), ("sqrt.approx.f32", math.sqrt, 0.01, 1e3, 2**-23),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "function", "low", "high", "bound"), APPROXIMATE, ids=[row[0] for row in APPROXIMATE]
)
def test_approximations_keep_their_bounds(
    run: Any, name: str, function: Callable[[float], float], low: float, high: float, bound: float
) -> None:
    rng = np.random.default_rng(2)
    x = (
        rng.uniform(low, high, THREADS) if low != high else np.abs(rng.standard_normal(THREADS)) + 2.5
    ).astype(np.float32)
    out = np.zeros(THREADS, np.float32)
    body = f"""
      add.u64 %rd1, %rd1, %rd0; add.u64 %rd2, %rd2, %rd0;
      ld.global.f32 %f1, [%rd1]; {name} %f2, %f1; st.global.f32 [%rd2], %f2; ret;
    """
    run(body, [x, out], threads=THREADS)
    for value, got in zip(x, out, strict=True):
        want = math.log2(float(value)) if name.startswith("lg2") else function(float(value))
        scale = 1.0 if name.startswith(("sin", "cos")) else abs(want)
        assert abs(float(got) - want) <= bound * scale
