"""What expressions mean: conversions, shapes, masks, memory. Every value is computed twice, and compared with NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

from ....support.tiers import each
from ....support.triton_c import run, values

F16, F32, F64, I8, I16, I32, I64 = np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64
R16 = np.arange(16)


def expect(found: np.ndarray, wanted: Any) -> None:
    np.testing.assert_array_equal(found, np.broadcast_to(np.asarray(wanted), found.shape).astype(found.dtype))


SCALARS: list[tuple[str, Any, Any]] = [
    ("7 / 2", I32, 3), ("-7 / 2", I32, -3), ("-7 % 3", I32, -1), ("7 % -3", I32, 1), ("1 << 31", I32, -(1 << 31)),
    ("-8 >> 1", I32, -4), ("(unsigned)-8 >> 1", np.uint32, (2**32 - 8) >> 1), ("0xFFFFFFFF > 0", np.bool_, True),
    ("-1 < 0u", np.bool_, False), ("2147483648 > 0", np.bool_, True), ("2147483647 + 1", I32, -(1 << 31)),
    ("2147483648", I64, 1 << 31), ("0x80000000 >> 31", I64, 1), ("(char)200", I8, -56), ("(unsigned char)300", np.uint8, 44),
    ("(char)200 + (char)100", I32, 44), ("(short)40000", I16, -25536), ("(bool)2", np.bool_, True),
    ("(bool)0.5", np.bool_, True),
    ("!3", I32, 0), ("!0", I32, 1), ("~5", I32, -6), ("+(-3)", I32, -3), ("3 & 6 | 8 ^ 1", I32, 11), ("1 ? 2 : 3.5", F64, 2.0),
    ("3 / 2.0", F64, 1.5), ("1 / 2 * 2.0f", F32, 0.0), ("5 / 2.0f", F32, 2.5), ("(int)-2.7", I32, -2), ("(int)2.7f", I32, 2),
    ("1e-3", F64, 1e-3), ("0.1f", F64, float(F32(0.1))), ("(half)0.1", F32, float(F16(0.1))), ("'a' + 1", I32, 98),
    ("'\\n'", I32, 10), ("sizeof(int)", I32, 4), ("sizeof(half[4, 8])", I32, 64), ("sizeof(float*)", I32, 8),
    ("sizeof(1.0f)", I32, 4),
    ("sizeof(bool)", I32, 1), ("min(3, -2)", I32, -2), ("max(3u, 2)", I32, 3), ("max(1.5f, 2)", F32, 2.0), ("abs(-3)", I32, 3),
    ("abs(-2.5f)", F32, 2.5), ("010 + 0x10", I32, 24), ("1 < 2 == 1", I32, 1), ("3 > 2 > 1", I32, 0),
    ("2 - 3u < 0", np.bool_, False),
    ("INFINITY", F32, np.inf), ("-INFINITY", F64, -np.inf), ("F16_INFINITY", F16, np.inf), ("NAN != NAN", np.bool_, True),
    ("NAN == NAN", np.bool_, False), ("true + true", I32, 2), ("(1, 2, 3)", I32, 3),
    ("18446744073709551615u", np.uint64, 2**64 - 1),
    ("(long)(int)3000000000", I64, 3000000000 - 2**32), ("floor(2.7f) + ceil(2.1f)", F32, 5.0), ("sqrt(16)", F32, 4.0),
    ("fma(2.0f, 3.0f, 1.0f)", F32, 7.0), ("pow(2.0f, 10.0f)", F32, 1024.0), ("select(1 > 2, 3, 4)", I32, 4),
    ("exp(0.0)", F64, 1.0),
    ("bitcast<int>(1.0f)", I32, 0x3F800000), ("bitcast<float>(0x3F800000)", F32, 1.0),
    ("bitcast<unsigned>(-1) == 0xFFFFFFFF", np.bool_, True),
]  # fmt: skip


@pytest.mark.parametrize("dtype", sorted({dtype for _, dtype, _ in SCALARS}, key=lambda dtype: np.dtype(dtype).name))
def test_scalars(dtype: Any) -> None:
    cases = [(expression, wanted) for expression, each, wanted in SCALARS if each is dtype]
    found = values([(expression, ()) for expression, _ in cases], dtype)
    for (expression, wanted), one in zip(cases, found, strict=True):
        np.testing.assert_array_equal(one, np.asarray(wanted).astype(dtype), err_msg=expression)


def test_unary_operators_of_what_is_not_constant() -> None:
    cases = [("-n", -5), ("-a", -2.5), ("-c", -200), ("~n", -6), ("!n", 0), ("c << n", 6400), ("!a", 0), ("!!c", 1)]
    found = values([(text, ()) for text, _ in cases], F64, "", 5, 2.5, 200, parameters="int n, float a, unsigned char c")
    assert [float(each) for each in found] == [wanted for _, wanted in cases]


OPERATORS = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("type_", "dtype"), [("int", I32), ("unsigned int", np.uint32), ("long", I64)])
def test_integer_operators_on_blocks(type_: str, dtype: Any) -> None:
    wide = [7, -7, 1 << 30, -(1 << 31), 3, -3, 0, 12345], [2, 3, 2, 5, 31, 1, 4, 9]
    a, b = np.array(wide[0], I64).astype(dtype), np.array(wide[1], I64).astype(dtype)
    stores = "\n".join(f"*(out + {8 * n} + i) = *(a + i) {operator} *(b + i);" for n, operator in enumerate(OPERATORS))
    text = f"__global__ void f({type_} *out, {type_} *a, {type_} *b) {{ int i[8] = 0 ... 8; {stores} }}"
    found = run(text, 1, np.zeros((len(OPERATORS), 8), dtype), a, b)[0]
    bits = np.dtype(dtype).itemsize * 8
    for operator, row in zip(OPERATORS, found, strict=True):
        for x, y, one in zip(map(int, a), map(int, b), map(int, row), strict=True):
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            wanted = {
                "+": x + y, "-": x - y, "*": x * y, "/": quotient, "%": x - y * quotient, "&": x & y, "|": x | y, "^": x ^ y,
                "<<": x << y, ">>": x >> y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y,
            }[operator]  # fmt: skip
            assert one % (1 << bits) == int(wanted) % (1 << bits), (x, operator, y)


M, T = np.arange(32).reshape(4, 8), np.arange(64).reshape(4, 2, 8)
SHAPES: list[tuple[str, tuple[int, ...], Any]] = [
    ("0 ... 16", (16,), R16), ("3 ... 19", (16,), R16 + 3), ("-8 ... 8", (16,), R16 - 8),
    ("2 * 0 ... 16 + 1", (16,), 2 * R16 + 1),
    ("(0 ... 4)[:, newaxis] * 8 + 0 ... 8", (4, 8), M),
    ("(0 ... 4)[:, newaxis, newaxis] * 16 + (0 ... 2)[newaxis, :, newaxis] * 8 + 0 ... 8", (4, 2, 8), T),
    ("m[+, :]", (8,), M.sum(0)), ("m[:, +]", (4,), M.sum(1)),
    ("m[+, +]", (), 496), ("m[max, min]", (), 24), ("m[min, max]", (), 7), ("m[+, newaxis, :]", (1, 8), M.sum(0)),
    ("m[:, max, newaxis]", (4, 1), np.arange(7, 32, 8)[:, None]), ("m[newaxis, :, +]", (1, 4), M.sum(1)),
    ("(1 + m)[*, :]", (8,), (M + 1).prod(0)), ("m[|, |]", (), 31), ("(m | 32)[&, &]", (), 32),
    ("^m", (8, 4), M.T), ("^^m", (4, 8), M), ("m[^1, ^0]", (8, 4), M.T),
    ("m[^0, ^1]", (4, 8), M), ("^(0 ... 8)", (8,), np.arange(8)),
    ("^t", (2, 8, 4), T.transpose(1, 2, 0)),
    ("t[^2, ^0, ^1]", (8, 4, 2), T.transpose(2, 0, 1)),
    ("(m > 10)[+, +]", (), 21), ("(m > 10)[max, min]", (), 1), ("(m > 30)[:, max][+]", (), 1), ("argmax(m, 1)[+]", (), 28),
    ("argmin(m % 3, 1)", (4,), (M % 3).argmin(1)), ("argmax(m % 3, 0)", (8,), (M % 3).argmax(0)),
    ("(int[4, 8])3", (4, 8), 3), ("(int[4, 8])(0 ... 8)", (4, 8), np.arange(8)),
    ("(float[8])(0 ... 8) * 2.0f", (8,), np.arange(8) * 2),
    ("m[+, +] + 0 ... 8", (8,), 496 + np.arange(8)), ("min(m, 10)[max, max]", (), 10), ("(0 ... 1) + 5", (), 5),
    ("m == ^^m", (4, 8), 1), ("trans(m)", (8, 4), M.T), ("m[:, newaxis, :][+, +, +]", (), 496),
]  # fmt: skip


def test_shapes() -> None:
    before = (
        "int m[4, 8] = (0 ... 4)[:, newaxis] * 8 + 0 ... 8;"
        "int t[4, 2, 8] = (0 ... 4)[:, newaxis, newaxis] * 16 + (0 ... 2)[:, newaxis] * 8 + 0 ... 8;"
    )
    found = values([(expression, shape) for expression, shape, _ in SHAPES], I32, before)
    for (expression, shape, wanted), one in zip(SHAPES, found, strict=True):
        np.testing.assert_array_equal(one, np.broadcast_to(np.asarray(wanted), shape), err_msg=expression)


def test_sums_of_half_are_made_in_float_and_rounded_once() -> None:
    x = np.full(64, 1e-3, F16)
    x[0] = 100
    found = run("__global__ void f(half *y, half *x) { *y = (*(x + 0 ... 64))[+]; }", 1, np.zeros(1, F16), x)[0]
    expect(found, F16(x.astype(F32).sum()))


def test_extrema_of_floats_ignore_nan() -> None:
    x = np.array([1, np.nan, 3, -2], F32)
    text = (
        "__global__ void f(float *y, float *x) { float v[4] = *(x + 0 ... 4); *y = v[max]; *(y + 1) = v[min]; *(y + "
        "2) = max(NAN, v)[+]; }"
    )
    expect(run(text, 1, np.zeros(3, F32), x)[0][:2], [3, -2])


@pytest.mark.parametrize(
    ("shapes", "types"),
    each(
        [((16, 32), (32, 8), (16, 8)), ((16, 16, 2), (16, 8, 2), (16, 8, 2)), ((16, 1), (1, 16), (16, 16))],
        [("float", F32, "float"), ("half", F16, "float"), ("char", I8, "int")],
    ),
)
def test_products(shapes: tuple[tuple[int, ...], ...], types: tuple[str, Any, str]) -> None:
    (a, b, shape), (type_, dtype, result) = shapes, types
    rng = np.random.default_rng(3)
    x, y = rng.integers(-4, 5, a).astype(dtype), rng.integers(-4, 5, b).astype(dtype)

    def at(extents: tuple[int, ...]) -> str:
        text = "0"
        for axis, extent in enumerate(extents):
            view = ", ".join(":" if each == axis else "newaxis" for each in range(len(extents)))
            text = f"({text}) * {extent} + (0 ... {extent})[{view}]"
        return text

    kernel = f"""__global__ void f({result} *out, {type_} *a, {type_} *b) {{
      {type_} x{list(a)} = *(a + {at(a)}), y{list(b)} = *(b + {at(b)});
      {result} c{list(shape)} = 1;
      c += x @ y;
      *(out + {at(shape)}) = c;
    }}"""
    found = run(kernel, 1, np.zeros(shape, F32 if result == "float" else I32), x, y)[0]
    wide_x, wide_y = x.astype(F64), y.astype(F64)
    wanted = wide_x @ wide_y if len(a) == 2 else np.einsum("mkb,knb->mnb", wide_x, wide_y)
    expect(found, wanted + 1)


def test_a_sum_with_a_product_is_one_operation() -> None:
    text = """__global__ void f(float *o) {
      float a[16, 16] = 1, c[16, 16] = 2;
      %s
      *(o + (0 ... 16)[:, newaxis] * 16 + 0 ... 16) = c;
    }
    """
    for statement in ("c += a @ a;", "c = c + a @ a;", "c = a @ a + c;", "c = dot(a, a, c);"):
        ttir = jn.kernel.from_triton_c(text % statement).ttir
        assert ttir.count("tt.dot ") == 1
        assert "arith.addf" not in ttir


# Memory and masks


def test_masks_and_pointers() -> None:
    x = np.arange(16, dtype=F32)
    text = """__global__ void f(float *y, float *x, int n) {
      int i[16] = 0 ... 16;
      float *p[16] = x + i;
      *?(i < n)(y + i) = *?(i % 2 == 0)p + 1;
      *?(i < n && i > 3)(y + i) += *p;
      *y = (y + 5) - y;
      *(y + 1) = (p == x + i)[min];
    }"""
    found = run(text, 1, np.zeros(16, F32), x, 12)[0]
    wanted = np.where(R16 % 2 == 0, x, 0) + 1
    wanted = np.where((R16 < 12) & (R16 > 3), wanted + x, wanted)
    expect(found[3:], np.where(R16 < 12, wanted, 0)[3:])
    expect(found[:2], [5, 1])


def test_a_scalar_pointer_with_a_block_of_masks_is_a_block() -> None:
    text = (
        "__global__ void f(int *y, int *x) { int i[8] = 0 ... 8; int v[8] = *?(i > 3)x; *(y + i) = v; *?(i == 2)(y + "
        "i + 0 * i) = 5; }"
    )
    expect(run(text, 1, np.zeros(8, I32), np.array([7], I32))[0], [0, 0, 5, 0, 7, 7, 7, 7])


GUARDED = [
    ("i < n ? *(x + i) : -1", "np.where(i < n, g(x, i), -1)"),
    ("i >= n ? -1 : *(x + i)", "np.where(i < n, g(x, i), -1)"),
    ("i < n ? *(x + i) * 2 + *(x + i) : 0.5f", "np.where(i < n, g(x, i) * 3, 0.5)"),
    ("i < n ? (i > 2 ? *(x + i) : *(x + i + 1)) : 0", "np.where(i < n, np.where(i > 2, g(x, i), g(x, i + 1)), 0)"),
    ("i < n ? *?(i > 2)(x + i) : -1", "np.where(i < n, np.where(i > 2, g(x, i), 0), -1)"),
    ("i < n && *(x + (i < n ? i : 0)) > 3 ? *(x + i) : 0", "np.where((i < n) & (g(x, np.where(i < n, i, 0)) > 3), g(x, i), 0)"),
    ("i < n ? (int)*(x + i) : 0", "np.where(i < n, g(x, i), 0)"),
    ("i < n ? exp(*(x + i) * 0) : 0", "np.where(i < n, 1, 0)"),
    ("i < n ? (half)*(x + i) : 0", "np.where(i < n, g(x, i), 0)"),
    ("i < n ? twice(x + i) : 0", "np.where(i < n, g(x, i) * 2, 0)"),
    ("n > 100 ? *(x + i + 1000000) : i", "i"),
    ("i < n ? *(x + n - 1) : 0", "np.where(i < n, x[n - 1], 0)"),
    ("i < 0 ? *(x + 1000000) : i", "i"),
    ("i < n ? (*(x + i))[+] : 0", None),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "wanted"), GUARDED)
def test_loads_in_arms_are_guarded(expression: str, wanted: str | None) -> None:
    """The array ends where the mask does: another access would be found."""
    text = f"""
    float twice(float *p[16])[16] {{ float v[16] = *p; if (v[max] > -1e30f) v += *p; return v; }}
    __global__ void f(float *y, float *x, int n) {{ int i[16] = 0 ... 16; *(y + i) = {expression}; }}
    """
    n = 11
    x = (np.arange(n + (1 if "i + 1" in expression else 0)) + 2).astype(F32)
    kernel = jn.kernel.from_triton_c(text, cache=False)
    if wanted is None:  # every element is reduced where any lane is needed
        with pytest.raises(jn.JoineryError):
            kernel.interpret(1, np.zeros(16, F32), x, n)
        return
    namespace = {"np": np, "i": R16, "n": n, "x": x, "g": lambda x, i: x[np.clip(i, 0, len(x) - 1)]}
    for checked in (False, True):
        y = np.zeros(16, F32)
        if checked:
            kernel.launch(1, y, x, n, check_bounds=True)
        else:
            kernel.interpret(1, y, x, n)
        expect(y, eval(wanted, namespace))


MASKED = """__global__ void f(float *y, float *x, int n) {
  int i[8] = 0 ... 8, k[8] = 0 ... 8;
  bool in[8, 8] = i[:, newaxis] < n && k[newaxis, :] < n;
  int at[8, 8] = i[:, newaxis] * 8 + k;
  *(y + at) = in ? (*(x + i))[:, newaxis] * (*(x + k))[newaxis, :] : -1;
  *(y + 64 + at) = in ? ^(*(x + i[:, newaxis] + 0 * k)) + *(x + k) : -1;
  *(y + 128 + i) = i < n ? (*(x + i[:, newaxis] + 0 * k[newaxis, :]))[:, max] : -1;
  *(y + 136 + at) = in ? (*(x + i[:, newaxis] + 0 * k)) @ (*(x + 0 * i[:, newaxis] + k)) : -1;
}
"""


def test_masks_follow_what_changes_shapes() -> None:
    """A lane that nobody needs is not loaded, through views, broadcasts, transposes, reductions and products."""
    x = np.arange(5, dtype=F32)
    y, again = np.zeros(200, F32), np.zeros(200, F32)
    kernel = jn.kernel.from_triton_c(MASKED, cache=False)
    kernel.interpret(1, y, x, 5)
    kernel.launch(1, again, x, 5, check_bounds=True)
    expect(again, y)
    inside = np.zeros((8, 8), bool)
    inside[:5, :5] = True
    wide = np.r_[x, 0, 0, 0]
    expect(y[:64].reshape(8, 8), np.where(inside, np.outer(wide, wide), -1))
    expect(y[64:128].reshape(8, 8), np.where(inside, wide[None, :] + wide[None, :], -1))
    expect(y[128:136], np.where(R16[:8] < 5, wide, -1))
    expect(y[136:].reshape(8, 8), np.where(inside, np.outer(wide, wide) * 8, -1))


def test_bools_are_bytes_in_memory() -> None:
    x = np.array([0, 1, 2, 255], np.uint8)
    text = (
        "__global__ void f(bool *y, bool *x) { int i[4] = 0 ... 4; bool v[4] = *(x + i); *(y + i) = v; *(y + 4) = 7; "
        "*(y + 5 + v[+]) = 1; }"
    )
    expect(run(text, 1, np.full(9, 9, np.uint8), x)[0], [0, 1, 1, 1, 1, 9, 9, 9, 1])


def test_bfloat16_and_half_meet_in_float() -> None:
    x, z = np.array([1.5], ml_dtypes.bfloat16), np.array([3], F16)
    text = (
        "__global__ void f(float *y, bfloat16 *x, half *z) { *y = *x * *z; *(y + 1) = sizeof(*x * *z); *x = "
        "1.0009765625f; *z = (half)*x + *z; }"
    )
    found = run(text, 1, np.zeros(2, F32), x, z)
    expect(found[0], [4.5, 4])
    expect(found[2], [4])


def test_half_with_int_stays_half_and_with_float_is_float() -> None:
    x = np.array([2049], F16)  # 2048, which + 1 rounds to in half
    text = (
        "__global__ void f(float *y, half *x) { *y = *x + 1; *(y + 1) = *x + 1.0f; *(y + 2) = sizeof(*x + 1); *(y + "
        "3) = *x * *x; }"
    )
    expect(run(text, 1, np.zeros(4, F32), x)[0], [2048, 2049, 2, np.inf])


def test_pointers_move_by_elements() -> None:
    x = np.arange(32, dtype=I32)
    text = """__global__ void f(int *y, int *x, unsigned int u, long l, unsigned char c) {
      *y = *(x + u); *(y + 1) = *(x + l - 1); *(y + 2) = *(c + x); *(y + 3) = *(x + 8 - 3); *(y + 4) = (x + l) - (x + 2);
      char *b = (char*)x; *(y + 5) = *(int*)(b + 12); *(y + 6) = (long)(x + 1) - (long)x; *(y + 7) = x != 0; *(y + 8) = !x;
      int *q = (int*)((long)x + 16); *(y + 9) = *q; void *v = (void*)x; *(y + 10) = v == x; *(y + 11) = x < x + 1 && x ? 1 : 0;
      x += 3; *(y + 12) = *x; x -= 2; *(y + 13) = *x++; *(y + 14) = *x; *(y + 15) = *--x;
    }"""
    found = run(text, 1, np.zeros(16, I32), x, 7, 9, 5)[0]
    expect(found, [7, 8, 5, 5, 7, 3, 4, 1, 0, 4, 1, 1, 3, 1, 2, 1])


def test_compound_assignment_evaluates_the_target_once() -> None:
    text = """__global__ void f(int *y, int *x) {
      *(y + atomic_add(x, 1)) += 5; *(y + atomic_add(x, 1)) <<= 2; *?(atomic_add(x, 1) > 0)(y + 2) -= 1;
      int a = 3; a += a *= 2; *(y + 3) = a; a = *(y + 4) = 8; *(y + 5) = a; *(y + 6) = (a++, a--) + a;
    }"""
    found = run(text, 1, np.full(8, 10, I32), np.zeros(1, I32))
    expect(found[0], [15, 40, 9, 12, 8, 8, 17, 10])
    expect(found[1], [3])


def test_atomics_in_all_their_spellings() -> None:
    text = """
    extern float atomic_add(float*, float);
    __global__ void f(float *s, int *n, long *l, half *h) {
      int i[8] = 0 ... 8; float v[8] = i;
      atomic_add(s + 0 * i, v, i < 4); atomic_add_float_8x1(s + 1 + 0 * i, v, (bool[8])1);
      atomic_add_float_1x1(s + 2, 1.5f, (bool)1);
      f32_atomic_add(s + 3, 2.5f); atomic_add(float, 8)(s + 4 + 0 * i, v, i > 6);
      *(n + 8) = atomic_cas(n, 0, 5); *(n + 9) = atomic_cas(n, 0, 6); *(n + 10) = atomic_xchg(n, 7);
      atomic_max(n + 1, 9); atomic_min(n + 2, -9); atomic_and(n + 3, 6); atomic_or(n + 4, 6); atomic_xor(n + 5, 3);
      atomic_max((unsigned*)(n + 6), (unsigned)-1); atomic_add(l, 3); *(l + 1) = atomic_cas(l, 3, 1l << 40);
      atomic_add(h, 0.5f);
      *(s + 5) = atomic_xchg(s, 1.0f); __debug_barrier();
    }"""
    found = run(text, 1, np.zeros(6, F32), np.array([0, 5, 5, 5, 1, 1, 1, 0, 0, 0, 0], I32), np.zeros(2, I64), np.ones(2, F16))
    expect(found[0], [1, 28, 1.5, 2.5, 7, 6])
    expect(found[1], [7, 9, -9, 4, 7, 2, -1, 0, 0, 5, 5])
    expect(found[2], [1 << 40, 3])
    expect(found[3], [1.5, 1])


def test_constants_without_a_suffix_are_double_and_can_be_float() -> None:
    text = "__global__ void f(double *y, float *x) { int i[4] = 0 ... 4; *(y + i) = *(x + i) * 0.1; }"
    x = np.arange(4, dtype=F32)
    with pytest.warns(jn.TritonCWarning, match=r"1:84: warning: the constant is a double, so that \* computes float\[4\]"):
        expect(run(text, 1, np.zeros(4), x)[0], x.astype(F64) * 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expect(run(text, 1, np.zeros(4), x, single_precision_constants=True)[0], x * F32(0.1))


def test_the_inverse_of_a_bool_is_warned_about() -> None:
    with pytest.warns(jn.TritonCWarning, match="~ of a bool is an int that is never 0; fix: !"):
        expect(values([("~(0 ... 4 < 2)", (4,))], I32)[0], [-2, -2, -1, -1])


def test_locations_name_the_use_and_the_macro() -> None:
    text = "#define ADD(a, b) ((a) + \\\n  (b))\n__global__ void f(float *x) {\n  *x = ADD(*x, *(x + 1));\n}\n"
    ttir = jn.kernel.from_triton_c(text).ttir
    assert 'arith.addf %0, %3 : f32 loc(callsite("<text>":1:24 at "<text>":4:8))' in ttir
    assert '%0 = tt.load %x : !tt.ptr<f32> loc("<text>":4:12)' in ttir
    defined = jn.kernel.from_triton_c("__global__ void f(float *x) {\n  *x = *x OP 2;\n}\n", {"OP": "*"}).ttir
    assert 'arith.mulf %0, %1 : f32 loc("<text>":2:11)' in defined


def test_print_and_assert(capsys: pytest.CaptureFixture[str]) -> None:
    text = '__global__ void f(int *x, int n) { print("n is", n); assert(*x > n, "too small"); assert((0 ... 4) >= 0); }\n'
    kernel = jn.kernel.from_triton_c(text)
    kernel.launch(1, np.array([3], I32), 2)
    assert capsys.readouterr().out == "pid (0, 0, 0) idx () n is: 2\n"
    with pytest.raises(jn.KernelAssertionError, match="too small") as caught:
        kernel.launch(1, np.array([3], I32), 4)
    assert (caught.value.file, caught.value.line) == ("<text>", 1)
