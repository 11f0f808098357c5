"""Statements: every form of control flow against the same program in Python, functions, declarations, promises."""

from __future__ import annotations

import itertools
import pickle
import re
from collections.abc import Callable

import joinery as jn
import numpy as np
import pytest

from ....support.triton_c import run

I32, F32 = np.int32, np.float32


def ints(body: str) -> Callable[[int], list[int]]:
    """What a kernel leaves in its array `y`, by its argument `n`: interpreted, and natively."""
    kernel = jn.kernel.from_triton_c(f"__global__ void f(int *y, int n) {{\n{body}\n}}\n", cache=False)

    def run_with(n: int) -> list[int]:
        y, again = np.zeros(8, I32), np.zeros(8, I32)
        kernel.interpret(1, y, n)
        kernel.launch(1, again, n)
        assert list(y) == list(again)
        return [int(each) for each in y]

    return run_with


def count(start: int, goes_on: Callable[[int], bool], step: int) -> list[int]:
    found = []
    while goes_on(start):
        found.append(start)
        start += step
    return [len(found), sum(found), start]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("header", "python", "is_counted"),
    [
        ("i = 0; i < n; i++", (0, "i < n", 1), True), ("i = 3; i < n; i += 4", (3, "i < n", 4), True),
        ("i = n; i > 0; i -= 3", (None, "i > 0", -3), True),
        ("i = n; 0 < i; i--", (None, "i > 0", -1), True), ("i = 0; i <= n; i += 2", (0, "i <= n", 2), True),
        ("i = n; i >= -2; --i", (None, "i >= -2", -1), True),
        ("i = 0; i < n * 2 - 1; i = i + 3", (0, "i < n * 2 - 1", 3), True), ("i = -5; n > i; ++i", (-5, "i < n", 1), True),
        ("i = 0; i != n; i++", (0, "i != n", 1), False), ("i = 1; i < n; i += i", None, False),
        ("i = n; i < 0; i++", (None, "i < 0", 1), True),
    ],
)  # fmt: skip
def test_loops_count(header: str, python: tuple[int | None, str, int] | None, is_counted: bool) -> None:
    body = f"int c = 0, s = 0, i; for ({header}) {{ c++; s += i; }} *y = c; *(y + 1) = s; *(y + 2) = i;"
    text = f"__global__ void f(int *y, int n) {{ {body} }}\n"
    ttir = jn.kernel.from_triton_c(text).ttir
    assert ("scf.for" in ttir) == is_counted
    assert ("scf.while" in ttir) != is_counted
    results = ints(body)
    for n in (0, 1, 7, 12):
        found = results(n)[:3]
        if python is None:
            wanted, i = [0, 0], 1
            while i < n:
                wanted, i = [wanted[0] + 1, wanted[1] + i], i + i
            assert found == [*wanted, i]
            continue
        start, condition, step = python
        assert found == count(n if start is None else start, lambda i: eval(condition, {"i": i, "n": n}), step)  # noqa: B023


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("loop", "step", "is_counted"),
    [
        ("int s = max(n, 3); for (i = 0; i < 40; i += s)", lambda n: max(n, 3), True),
        ("int s = n > 2 ? 5 : 2; for (i = 0; i < 40; i = s + i)", lambda n: 5 if n > 2 else 2, True),
        ("int s = get_num_programs(0); for (i = 0; i < 40; i += s)", lambda n: 1, True),
        ("long s = get_num_programs(0); s = s; for (i = 0; i < 40; i += 2)", lambda n: 2, True),
        ("int s = min(max(n, 2), 6); for (i = 0; i <= 40; i += s * 2 - 1)", lambda n: 2 * min(max(n, 2), 6) - 1, True),
        ("int s = max(n, 0); for (i = 0; i < 40; i += s + (s == 0))", lambda n: max(n, 1), False),
        ("int s = max(n, 1); s += 1; for (i = 0; i < 40; i += s)", lambda n: max(n, 1) + 1, False),
        ("int s = max(n, 1); for (i = 0; i < 40; i += s * 1000000)", lambda n: max(n, 1) * 1000000, False),
        ("int s = max(n, 1) + n - n; for (i = 0; i < 40; i += s)", lambda n: max(n, 1), False),
        ("unsigned u = 40; for (i = 0; i < u; i += 3)", lambda n: 3, True),
        ("unsigned u = n + 40; for (i = n; u > i; i++)", lambda n: 1, True),
    ],
)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_steps_that_are_known_to_be_positive_and_unsigned_bounds(
    loop: str, step: Callable[[int], int], is_counted: bool, n: int
) -> None:
    declared, header = loop[: loop.index("for (")], loop[loop.index("for (") :]
    body = f"int c = 0, t = 0, i; {declared} {header} {{ c++; t += i; }} *y = c; *(y + 1) = t; *(y + 2) = i;"
    ttir = jn.kernel.from_triton_c(f"__global__ void f(int *y, int n) {{ {body} }}\n").ttir
    assert ("scf.for" in ttir, "scf.while" in ttir) == (is_counted, not is_counted)
    start, end = (n, n + 40) if "i = n" in loop else (0, 41 if "<=" in loop else 40)
    wanted = list(range(start, end, step(n)))
    assert ints(body)(n)[:3] == [len(wanted), sum(wanted), wanted[-1] + step(n)]


def test_a_signed_counter_with_an_unsigned_bound_counts_in_unsigned_numbers() -> None:
    body = "unsigned u = 0x80000002u; int c = 0, i; for (i = 0x7ffffffe; i < u; i++) c++; *y = c; *(y + 1) = i;"
    assert ints(body)(0)[:2] == [4, -(1 << 31) + 2]
    negative = "unsigned u = 5; int c = 0, i; for (i = -1; i < u; i++) c++; *y = c; *(y + 1) = i;"
    assert ints(negative)(0)[:2] == [0, -1]
    down = "unsigned u = 3; int c = 0, i; for (i = n; i > u; i -= 2) c++; *y = c; *(y + 1) = i;"
    assert ints(down)(8)[:2] == [3, 2]


def test_unsigned_and_long_counters() -> None:
    text = """__global__ void f(long *y, unsigned int u, long l) {
      long c = 0; unsigned int i; for (i = u; i < u + 10; i += 3) c += i; *y = c; *(y + 1) = i;
      long k; c = 0; for (k = l; k > l - 5; k -= 2) c += k; *(y + 2) = c; *(y + 3) = k;
      c = 0; for (unsigned int j = 10; j > 7u; j--) c += j; *(y + 4) = c;
      c = 0; for (int j = 2147483640; j < 2147483647; j += 4) c++; *(y + 5) = c;
      c = 0; for (int j = -2147483647; j < 2147483647; j += 1 << 30) c++; *(y + 6) = c;
    }"""
    u, big = 3_000_000_000, 1 << 40
    found = run(text, 1, np.zeros(7, np.int64), u, big)[0]
    assert list(found) == [4 * u + 18, u + 12, 3 * big - 6, big - 6, 27, 2, 4]


def test_a_loop_of_products_is_counted_and_carries_what_lives() -> None:
    text = """__global__ void f(float *c, float *a, int K) {
      int i[16] = 0 ... 16; float acc[16, 16] = 0; int dead = 3; bool m[16];
      for (int k = K; k > 0; k -= 16) { m = i < k; dead = k; acc += (m[:, newaxis] ? *(a + i[:, newaxis] * 16 + i) : 0) @ acc; }
      *(c + i[:, newaxis] * 16 + i) = acc;
    }
    """
    ttir = jn.kernel.from_triton_c(text).ttir
    assert re.search(r"scf\.for %\d+ = .* iter_args\(%acc_\d+ = %acc, %k_\d+ = %K\) -> \(tensor<16x16xf32>, i32\)", ttir)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("body", "python"),
    [
        ("int i = 0; while (i * i < n) i++; *y = i;", lambda n: [next(i for i in range(99) if i * i >= n)]),
        ("int i = n, s = 0; do { s += i; i--; } while (i > 0); *y = s; *(y + 1) = i;",
         lambda n: [n + sum(range(n)), min(n - 1, 0)]),
        ("int i = 0; for (;;) { if (i >= n) break; i += 3; } *y = i;", lambda n: [-(-n // 3) * 3]),
        ("int s = 0; for (int i = 0; i < n; i++) { if (i % 3 == 1) continue; s += i; } *y = s;",
         lambda n: [sum(i for i in range(n) if i % 3 != 1)]),
        ("int s = 0; for (int i = 0; i < n; i++) { if (i % 3 == 1) continue; if (s > 10) break; s += i; } *y = s; "
         "*(y + 1) = 7;",
         lambda n: [next((s for i, s in enumerate(itertools.accumulate((0 if i % 3 == 1 else i for i in range(n)), initial=0))
                          if s > 10), sum(i for i in range(n) if i % 3 != 1)), 7]),
        ("int i = 0, s = 0; do { i++; if (i == 3) continue; s += i; } while (i < n); *y = s;",
         lambda n: [sum(i for i in range(1, max(n, 1) + 1) if i != 3)]),
        ("int s = 0; for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { if (j > i) break; s += j; } *y = s;",
         lambda n: [sum(j for i in range(n) for j in range(i + 1))]),
        ("int a = 0, s = 0; for (int i = 0; i < n; i++) { for (int j = 0; j < i; j++) { if (j == 2) a = 1; } s += i; } "
         "*y = s + a;",
         lambda n: [sum(range(n)) + (n > 3)]),
        ("if (n < 3) { *y = 1; return; } *y = 2; if (n < 8) return; *(y + 1) = 3;",
         lambda n: [1, 0] if n < 3 else [2, 3 if n >= 8 else 0]),
        ("for (int i = 0; i < n; i++) { *(y + 1) = i; if (i == 4) return; } *y = 9;",
         lambda n: [0, 4] if n > 4 else [9, max(n - 1, 0)]),
        ("while (1) { if (n > 5) { n -= 2; continue; } break; } *y = n;", lambda n: [n if n <= 5 else 5 - (n % 2 == 0)]),
        ("if (n > 3 && *y == 0) *y = 1; else if (n > 1 || *(y + 1)) *y = 2; else *y = 3;",
         lambda n: [1 if n > 3 else 2 if n > 1 else 3]),
        ("switch (n) { case 0: *y = 5; break; case 1: case 2: *y = 6; break; default: *y = 7; }",
         lambda n: [5 if n == 0 else 6 if n < 3 else 7]),
        ("switch (n) { default: *y = 7; case 1: *(y + 1) = 8; break; case 7: *y = 9; }",
         lambda n: [0, 8] if n == 1 else [9, 0] if n == 7 else [7, 8]),
        ("switch (n) { case 0: ; int s = 4, t; *y = 1; case 1: *(y + 1) = s; t = 3; *(y + 2) = t; }",
         lambda n: [1, 4, 3] if n == 0 else [0, 0, 3] if n == 1 else [0, 0, 0]),
        ("int s = 0; switch (n) { case 0: s += 1; case 1: s += 2; if (n) break; case 2: s += 4; default: s += 8; "
         "case 12: s += 16; } *y = s;",
         lambda n: [{0: 31, 1: 2, 2: 28, 12: 16}.get(n, 24)]),
        ("int s = 0; for (int i = 0; i < n; i++) switch (i % 4) { case 0: continue; case 1: s += 1; break; "
         "case 2: s += 10; default: s += 100; } *y = s;",
         lambda n: [sum((0, 1, 110, 100)[i % 4] for i in range(n))]),
        ("int a = n, b; b = (a > 3 ? a++ : a--) + 0; *y = a; *(y + 1) = b; *(y + 2) = n > 5 && (a += 2) > 0; *(y + 3) = a;",
         lambda n: [n + (1 if n > 3 else -1), n, int(n > 5), n + (1 if n > 3 else -1) + (2 if n > 5 else 0)]),
        ("int a = 3; { int a = n; a++; *y = a; } *(y + 1) = a; for (int a = 0; a < 2; a++) *(y + 2) = a; *(y + 3) = a;",
         lambda n: [n + 1, 3, 1, 3]),
        ("int i = 0, j; for (i = 0, j = 10; i < j; i++, j--) ; *y = i; *(y + 1) = j;", lambda n: [5, 5]),
        ("enum { A, B = 5, C }; typedef int T; const T k = C; _Static_assert(C == 6 && sizeof(T) == 4, \"no\"); "
         "*y = A + B + k;",
         lambda n: [11]),
        ("int s = 0; for (int i = 0; i < n; ++i) { int t; if (i & 1) t = i; else t = -i; s += t; } *y = s;",
         lambda n: [sum(i if i % 2 else -i for i in range(n))]),
        ("; {} { ; } *y = n; ;", lambda n: [n]),
    ],
)  # fmt: skip
def test_control_flow(body: str, python: Callable[[int], list[int]]) -> None:
    results = ints(body)
    for n in (0, 1, 2, 7, 12):
        wanted = python(n)
        assert results(n)[: len(wanted)] == wanted, n


MEMORY = np.array([3, 4, 5, 0, 0, 0, 0, 0], I32)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("int v, s = 0; while ((v = *x) != 0) { s += v; x++; } *y = s;", 12),
        ("int v = 9, s = 0; for (; (v = *x) != 0; x++) s += v; *y = s;", 12),
        ("int v = 9, s = 0; for (; (v = *x) != 0; x++) { if (v == 4) continue; s += v; } *y = s;", 8),
        ("int v = 9, s = 0; while ((v = *x) != 0) { x++; if (v == 4) break; s += v; } *y = s * 10 + v;", 34),
        ("int v, s = 0; while ((v = *x) != 0) { while ((v = v - 1) > 0) s += v; x++; } *y = s;", 19),
        ("int n = 4, s = 0, m = 100; while (m = n, n-- > 0) s = s * 10 + m; *y = s;", 4321),
        ("int s = 0; struct p { int a; } q = {9}; for (; q.a = *x, q.a; x++) s += q.a; *y = s;", 12),
        ("int s[4] = 0, b[4] = 5, n = 3; while ((b = n + 0 ... 4)[max] > 4) { s += b; n--; } *y = s[+];", 32),
        ("int v = 1; if (*x > 0) v = 7; do { if (*x > 2) break; } while ((v = *x) != 0); *y = v;", 7),
        ("int v = 1; if (*x > 0) v = 7; do { if (*x > 3) break; x++; } while ((v = *x) != 0); *y = v;", 4),
        ("int v, s = 0; do { if (*x) v = 1; else v = 2; x++; s++; } while (v != 2); *y = s;", 4),
    ],
)
def test_the_body_sees_what_the_condition_assigns(body: str, expected: int) -> None:
    kernel = jn.kernel.from_triton_c(f"__global__ void f(int *y, int *x) {{ {body} }}")
    for execute in (kernel.launch, kernel.interpret, kernel.sanitize):
        y = np.zeros(1, I32)
        execute(1, y, MEMORY)
        assert y[0] == expected


def test_gpus_get_what_the_condition_assigns() -> None:
    text = "__global__ void f(int *y, int *x) { int v, s = 0; while ((v = *x) != 0) { s += v; x++; } *y = s; }"
    y = np.zeros(1, I32)
    jn.kernel.from_triton_c(text).launch(1, y, MEMORY, device="ptxsim")
    assert y[0] == 12


def test_a_lock_spins_until_it_is_free() -> None:
    text = """__global__ void f(int *sum, int *lock, int *x) {
      int i[8] = 0 ... 8;
      for (int repeat = 1; repeat == 1; repeat = atomic_cas(lock, 0, 1)) ;
      *(sum + i) += *(x + get_program_id(0) * 8 + i);
      __debug_barrier();
      atomic_xchg(lock, 0);
    }
    """
    x = np.arange(64, dtype=I32).reshape(8, 8)
    kernel = jn.kernel.from_triton_c(text)
    for threads in (1, 2):
        sums, lock = np.zeros(8, I32), np.zeros(1, I32)
        kernel.launch(8, sums, lock, x, threads=threads)
        assert list(sums) == list(x.sum(0))
        assert lock[0] == 0


# Functions

FUNCTIONS = """
float sign(float v) { if (v > 0) return 1; if (v < 0) return -1; return 0; }
void put(float *p[8], float v) { *p = v; }
float norm(float v[8])[8] { float s = sqrt((v * v)[+]); return v / s; }
float sum_to(float *p, int n) {
  float s = 0; for (int i = 0; i < n; i++) { if (*(p + i) < 0) return s; s += *(p + i); } return s; }
int deep(int n) { return sign(n - 3.0f) > 0 ? n : 3; }
__global__ void f(float *y, float *x, int n) {
  int i[8] = 0 ... 8;
  put(y + i, -1);
  put(y + 8 + i, sign(*x) + sum_to(x, n));
  *(y + 16 + i) = norm(i + 1);
  *(y + 24) = deep(n); *(y + 25) = deep(0);
}
"""


def test_functions_take_and_return_scalars_blocks_and_pointers() -> None:
    x = np.array([2, 3, 4, -1, 5], F32)
    found = run(FUNCTIONS, 1, np.zeros(26, F32), x, 5)[0]
    assert list(found[:16]) == [-1] * 8 + [10] * 8
    np.testing.assert_allclose(found[16:24], np.arange(1, 9) / np.sqrt((np.arange(1, 9) ** 2).sum()), rtol=1e-6)
    assert list(found[24:]) == [5, 3]
    ttir = jn.kernel.from_triton_c(FUNCTIONS).ttir
    assert re.findall(r"tt\.func (\w+ @\w+)", ttir) == [
        "public @f", "private @put", "private @sign", "private @sum_to", "private @norm", "private @deep",
    ]  # fmt: skip


def test_kernels_are_chosen_by_name() -> None:
    text = "__global__ void a(int *x) { *x = 1; }\n__global__ void b(int *x) { *x = ADD; }\n"
    x = np.zeros(1, I32)
    jn.kernel.from_triton_c(text, name="a").launch(1, x)
    assert x[0] == 1
    jn.kernel.from_triton_c(text, {"ADD": 4}, "b").launch(1, x)
    assert x[0] == 4
    with pytest.raises(jn.UserError, match="the text has several kernels: a, b; fix: name='a'"):
        jn.kernel.from_triton_c(text)
    with pytest.raises(jn.UserError, match="the text has no kernel c; kernels: a, b"):
        jn.kernel.from_triton_c(text, name="c")


def test_without_global_every_void_function_that_nobody_calls_is_a_kernel() -> None:
    text = "void g(int *x) { *x = 3; }\nint h(int a) { return a; }\nvoid f(int *x) { g(x + h(1)); }\n"
    x = np.zeros(2, I32)
    jn.kernel.from_triton_c(text).launch(1, x)
    assert list(x) == [0, 3]


@pytest.mark.parametrize(
    ("value", "text"),
    [(16, "16"), (True, "1"), (False, "0"), (np.int64(3), "3"), (0.5, "0.5"), (float("inf"), "INFINITY"), (jn.float16, "half"),
     (jn.uint8, "uint8"), ("a, b", "a, b"), (-2, "-2")],
)  # fmt: skip
def test_values_of_macros(value: object, text: str) -> None:
    from joinery.interface.texts import triton_c_text

    assert triton_c_text("x\n", {"A": value}, None, (), False).defines == (("A", text),)
    assert triton_c_text("x\n", {"A": None}, None, (), False).defines == ()


@pytest.mark.parametrize(
    ("defines", "message"),
    [
        ({"A": [1, 2]}, "defines['A'] is a list, and a kernel has one value"), ({"A": jn.complex64},
         "which Triton-C does not have"),
        ({"A": object()}, "defines['A'] is a object, expected text"), ({3: 4}, "defines has 3, expected the name of a macro"),
        ({"A": "1\n2"}, "the value of macro A has several lines"), ({"2A": "1"}, "defines has '2A'"),
    ],
)  # fmt: skip
def test_mistakes_in_macros_of_the_caller(defines: dict[str, object], message: str) -> None:
    with pytest.raises(jn.UserError, match=re.escape(message)):
        jn.kernel.from_triton_c("__global__ void f() {}\n", defines)


def test_files_to_include(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "tile.h"
    path.write_text("#define T 8\n")
    kernel = Path(str(tmp_path)) / "k.tc"
    kernel.write_text('#include "tile.h"\n__global__ void f(int *x) { *(x + 0 ... T) = T; }\n')
    for include in ([path], [str(path)], {"tile.h": path}, {"tile.h": "#define T 8\n"}):
        x = np.zeros(8, I32)
        jn.kernel.from_triton_c(kernel, include=include).launch(1, x)
        assert list(x) == [8] * 8
    with pytest.raises(jn.UserError, match=r"k\.tc:1:2: error: #include tile\.h: no such file was given"):
        jn.kernel.from_triton_c(str(kernel))
    with pytest.raises(jn.UserError, match="cannot be read"):
        jn.kernel.from_triton_c(kernel, include=[path.with_name("other.h")])


# Promises

PROMISES = """__global__ void f(float *x __aligned(16), float *y __noalias, float *z, int n __multipleof(4), int m __retune) {
  *y = n + *x + m;
}
"""


def test_promises_are_checked_at_launch() -> None:
    kernel = jn.kernel.from_triton_c(PROMISES)
    base = np.zeros(64, F32)
    start = -(base.ctypes.data // 4) % 4
    x, y, z = base[start : start + 4], base[start + 8 : start + 12], base[start + 16 : start + 20]
    kernel.launch(1, x, y, z, 8, 3)
    assert y[0] == 11
    for launch in (kernel.launch, kernel.interpret, kernel.sanitize):
        with pytest.raises(jn.UserError, match=r"@f, parameter n: __multipleof\(4\) is promised, and the argument is 6"):
            launch(1, x, y, z, 6, 3)
        with pytest.raises(jn.UserError, match=r"parameter x: __aligned\(16\) is promised, and the address is a multiple of 4"):
            launch(1, base[start + 1 : start + 4], y, z, 8, 3)
        with pytest.raises(jn.UserError, match="parameter y: __noalias is promised, and its memory overlaps"):
            launch(1, x, x, z, 8, 3)
    kernel.launch(1, x, y, x, 8, 3)  # nobody promised that x and z differ
    copy = pickle.loads(pickle.dumps(kernel))
    with pytest.raises(jn.UserError, match="__multipleof"):
        copy.launch(1, x, y, z, 6, 3)


def test_promises_of_memory_of_gpus_are_checked_by_its_address() -> None:
    class OnDevice:
        def __init__(self, address: int) -> None:
            self.__cuda_array_interface__ = {"data": (address, False), "shape": (4,), "typestr": "<f4", "version": 3}

    kernel = jn.kernel.from_triton_c(PROMISES)
    x, y, z = OnDevice(4096), OnDevice(8192), OnDevice(8200)
    with pytest.raises(jn.UserError, match="parameter y: __noalias is promised, and its memory overlaps that of argument 2"):
        kernel.launch(1, x, y, z, 8, 3, device="cuda")
    with pytest.raises(jn.UserError, match=r"parameter x: __aligned\(16\) is promised, and the address is a multiple of 8"):
        kernel.launch(1, OnDevice(4104), y, x, 8, 3, device="cuda")


def test_what_nobody_writes_may_overlap_a_noalias_pointer() -> None:
    text = "__global__ void f(float *y, float *a __noalias, float *b) { *y = *a + *b; }\n"
    x, y = np.array([2], F32), np.zeros(1, F32)
    jn.kernel.from_triton_c(text).launch(1, y, x, x)
    assert y[0] == 4


def test_a_promise_of_a_local_variable_is_not_believed() -> None:
    text = "__global__ void f(int *x, int n) { int i __multipleof(8) = n; *(x + i + 0 ... 4) = i % 8; }"
    assert list(run(text, 1, np.zeros(8, I32), 3)[0]) == [0, 0, 0, 3, 3, 3, 3, 0]


def test_a_store_through_a_readonly_pointer_is_warned_about_and_happens() -> None:
    text = "__global__ void f(float *x __readonly) {\n  *x = 3;\n}\n"
    with pytest.warns(jn.TritonCWarning, match="2:6: warning: the kernel stores through x here, and promises __readonly"):
        kernel = jn.kernel.from_triton_c(text)
    x = np.zeros(1, F32)
    kernel.launch(1, x)
    assert x[0] == 3
    assert "llvm.readonly" not in kernel.ttir


def test_a_variable_that_may_be_read_before_it_is_assigned_is_zero() -> None:
    text = (
        "__global__ void f(int *y, int n) { int a; if (n > 3) a = 5; *y = a; int b; if (n) b = 1; else b = 2; *(y + "
        "1) = b; }\n"
    )
    with pytest.warns(jn.TritonCWarning) as caught:
        found = run(text, 1, np.ones(2, I32), 2)[0]
    assert list(found) == [0, 1]
    messages = {str(each.message).split("\n")[0] for each in caught}
    assert [each.partition(";")[0] for each in messages] == [
        "<text>:1:40: warning: a may be read before something is assigned to it: it is 0"
    ]
    with pytest.warns(jn.TritonCWarning, match="the function may end without returning a value"):
        run("int g(int n) { if (n) return 3; }\n__global__ void f(int *y, int n) { *y = g(n); }", 1, np.ones(1, I32), 0)


@pytest.mark.slow
def test_a_kernel_is_the_same_whatever_hashes_strings_have() -> None:
    import subprocess
    import sys

    code = "import joinery as jn, sys; print(jn.kernel.from_triton_c(sys.argv[1]).ttir)"
    texts = {
        subprocess.check_output([sys.executable, "-c", code, FUNCTIONS], env={"PYTHONHASHSEED": seed}) for seed in ("1", "2")
    }
    assert len(texts) == 1
