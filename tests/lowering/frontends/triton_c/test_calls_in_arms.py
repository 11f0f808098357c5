"""Functions that are called in arms of conditionals: what their accesses are masked by, against NumPy."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

I32 = np.int32
X = np.arange(1, 9, dtype=I32)


def results(text: str, *args: object, defines: dict[str, object] | None = None) -> list[int]:
    """What a kernel leaves in its first argument, 8 ints, on interpreter, sanitizer and host, where bounds are checked."""
    kernel = jn.kernel.from_triton_c(text, defines or {})
    found = []
    for run in (kernel.interpret, kernel.sanitize, lambda *a: kernel.launch(*a, check_bounds=True)):
        y = np.zeros(8, I32)
        run(1, y, *(each.copy() if isinstance(each, np.ndarray) else each for each in args))
        found.append(y.tolist())
    assert found[1:] == found[:1] * 2
    return found[0]


BODIES = {
    "one expression": "int r[R] = 0 ... R; return v + (*(p + (r & 7)))[+];",
    "two statements": "int r[R] = 0 ... R; int w[R] = *(p + (r & 7)); return v + w[+];",
    "a loop": "int s = 0; for (int j = 0; j < R; j++) s += *(p + (j & 7)); return v + s;",
    "a branch": "int r[R] = 0 ... R; int s = 0; if (*p) { int w[R] = *(p + (r & 7)); s = w[+]; } return v + s;",
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("extent", [8, 16])
@pytest.mark.parametrize("body", BODIES)
def test_what_has_nothing_to_do_with_the_lanes_is_not_masked(body: str, extent: int) -> None:
    text = f"int f(int *p, int v[8])[8] {{ {BODIES[body]} }}"
    text += "__global__ void k(int *y, int *x, int n) { int i[8] = 0 ... 8; *(y + i) = i < n ? f(x, i) : -1; }"
    total = sum((j & 7) + 1 for j in range(extent))
    assert results(text, X, 3, defines={"R": extent}) == [total, total + 1, total + 2, *[-1] * 5]
    assert results(text, X, 0, defines={"R": extent}) == [-1] * 8


@pytest.mark.parametrize("extent", [8, 16])
@pytest.mark.parametrize("call", ["f(1 + *(x + r), i)", "(*(x + r) += 1, i + (*(x + r))[+])"])
def test_nor_are_arguments_and_what_is_evaluated_beside_a_value(call: str, extent: int) -> None:
    text = "int f(int p[R], int v[8])[8] { return v + p[+]; }"
    text += "__global__ void k(int *y, int *x, int n) { int i[8] = 0 ... 8; int r[R] = 0 ... R;"
    text += f"*(y + i) = i < n ? {call} : -1; }}"
    x = np.arange(16, dtype=I32)
    total = int(x[:extent].sum()) + extent
    assert results(text, x, 3, defines={"R": extent}) == [total, total + 1, total + 2, *[-1] * 5]


@pytest.mark.parametrize("body", ["int t[8, 8] = *p; return t[:, +];", "return (*p)[:, +];", "return ^(^*p)[+, :];"])
def test_lanes_are_followed_through_shapes(body: str) -> None:
    """The memory has 5 rows, so that another one must not be touched."""
    text = f"int rows(int *p[8, 8])[8] {{ {body} }}"
    text = text.replace("^(^*p)[+, :]", "(^*p)[+, :]")
    text += "__global__ void k(int *y, int *x, int n) { int i[8] = 0 ... 8, j[8] = 0 ... 8;"
    text += "*(y + i) = i < n ? rows(x + i[:, newaxis] * 8 + j) : -1; }"
    x = np.arange(40, dtype=I32)
    assert results(text, x, 5) == [*x.reshape(5, 8).sum(axis=1).tolist(), -1, -1, -1]


def test_lanes_are_followed_through_calls_of_calls_and_inner_arms() -> None:
    text = """
    int at(int *p[8])[8] { int found[8] = *p; return found; }
    int twice(int *p[8], int v[8])[8] { int a[8] = v > 1 ? at(p) : 100; return a * 2; }
    __global__ void k(int *y, int *x, int n) { int i[8] = 0 ... 8; *(y + i) = i < n ? twice(x + i, i) : -1; }
    """
    assert results(text, X[:5], 5) == [200, 200, 6, 8, 10, -1, -1, -1]


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("int put(int *p[8], int v[8])[8] { *p = v + 1; return v; }", "put(y + i, i)"),
        ("int put(int *p[8])[8] { *p = 0 ... 8; *p += 1; return 5; }", "put(y + i)"),
        ("void put(int *p[8], int v[8]) { *p = v + 1; }", "(put(y + i, i), 0)"),
        ("void put(int *p[8], int v[8]) { *p = v + 1; }", "(put(y + i, i), i)"),
        ("void put(int *p[8], int v[8]) { for (int j = 0; j < 2; j++) *p = v + j; }", "(put(y + i, i), i)"),
    ],
)
def test_stores_happen_in_the_active_lanes(function: str, call: str) -> None:
    text = f"{function} __global__ void k(int *y, int n) {{ int i[8] = 0 ... 8; int w[8] = i < n ? {call} : 0; }}"
    assert results(text, 3) == [1, 2, 3, 0, 0, 0, 0, 0]
    assert results(text, 0) == [0] * 8


@pytest.mark.parametrize(
    "body",
    [
        "int v; do { v = *p; } while (v == 0); return v;",
        "int v; for (; (v = *p) == 0;); return v;",
        "int v = 0; while (atomic_cas(p, 1, 1) != 1); return 1;",
    ],
)
def test_a_function_that_waits_is_not_called_where_no_lane_is_active(body: str) -> None:
    text = f"int wait(int *p) {{ {body} }}"
    text += "__global__ void k(int *y, int *lock, int n) { int i[8] = 0 ... 8; *(y + i) = i < n ? wait(lock) : 5; }"
    assert results(text, np.ones(1, I32), 2) == [1, 1, *[5] * 6]
    assert results(text, np.zeros(1, I32), 0) == [5] * 8


LANES = np.arange(8)
ROWS = np.arange(40, dtype=I32)
"""Five rows of 8: what is loaded for a sixth one lies outside."""
SUMS = np.append(ROWS.reshape(5, 8).sum(1), [0, 0, 0])
LOAD = "int load(int *p[8])[8] { int t[8] = *p; return t; } void put(int *o[8], int v[8]) { *o = v; } "
TILE = "int t[8, 8] = *(p[:, newaxis] + j[newaxis, :]);"
HOSTILE = {
    "an index that is returned, too": (
        f"int f(int *p[8])[8] {{ int j[8] = 0 ... 8; {TILE} return t[:, +] + j; }}", "f(x + i * 8)", SUMS + LANES),
    "lanes along both axes": (
        "int f(int *p, int v[8])[8] { return (*(p + v[:, newaxis] * 8 + v[newaxis, :]))[:, +]; }", "f(x, i)", SUMS),
    "through another function": (
        f"int g(int *p[8], int j[8])[8] {{ {TILE} return t[:, +]; }}"
        "int f(int *p[8])[8] { int j[8] = 0 ... 8; return g(p, j) + j; }", "f(x + i * 8)", SUMS + LANES),
    "in the argument": (
        "int f(int v[8, 8])[8] { return v[:, +]; }", "f(*(x + i[:, newaxis] * 8 + i[newaxis, :])) + i", SUMS + LANES),
    "in a struct": (
        "struct r { int *p[8], v[8]; }; "
        "int f(struct r a)[8] { int j[8] = 0 ... 8; return (*(a.p[:, newaxis] + j))[:, +] + a.v + j; }",
        "f((struct r){x + i * 8, i})", SUMS + 2 * LANES),
    "in a loop with a return": (
        "int f(int *p[8])[8] { int j[8] = 0 ... 8, s[8] = 0; for (int q = 0; ; q++) { if (q == 2) return s; "
        "s += (*(p[:, newaxis] + j))[:, +] + j; } return j; }", "f(x + i * 8)", 2 * (SUMS + LANES)),
    "a factor that all lanes need": (
        "int f(int *p[8], int *w)[8] { int j[8] = 0 ... 8; int a[8, 8] = *(p[:, newaxis] + j); "
        "int b[8, 8] = *(w + (j[:, newaxis] * 8 + j) % 40); return (a @ b)[:, +] + j; }", "f(x + i * 8, x)",
        np.append(ROWS.reshape(5, 8) @ np.resize(ROWS, (8, 8)), np.zeros((3, 8), I32), 0).sum(1) + LANES),
}  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", HOSTILE)
def test_what_leads_to_a_lane_is_masked_whatever_else_is_along_it(name: str) -> None:
    functions, call, expected = HOSTILE[name]
    text = f"{functions} __global__ void k(int *y, int *x, int n) {{ int i[8] = 0 ... 8; *(y + i) = i < n ? {call} : -1; }}"
    assert results(text, ROWS, 5) == np.where(LANES < 5, expected, -1).tolist()
    text = text.replace("i < n ?", "i >= n ? -1 :").replace(" : -1;", ";")
    assert results(text, ROWS, 5) == np.where(LANES < 5, expected, -1).tolist()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("body", "call", "expected"),
    [
        (f"void f(int *p[8], int *o[8]) {{ int j[8] = 0 ... 8; {TILE} *o = t[:, +] + j; }}", "f(x + i * 8, y + i)",
         SUMS + LANES),
        (f"void f(int *p[8], int *o[8]) {{ int j[8] = 0 ... 8; {TILE} put(o, t[:, +] + j); }}", "f(x + i * 8, y + i)",
         SUMS + LANES),
        (f"void f(int *p[8], int *o[8]) {{ int j[8] = 0 ... 8; {TILE} atomic_add(o, t[:, +] + j); }}", "f(x + i * 8, y + i)",
         SUMS + LANES),
        ("int f(int *p, int *o, int v[8])[8] { int t[8, 8] = *(p + v[:, newaxis] * 8 + v); *(o + v) = t[:, +]; return v; }",
         "f(x, y, i)", SUMS),
        (f"void f(int *p[8], int *o) {{ int j[8] = 0 ... 8; {TILE} *(o + j) = t[+, :]; }}", "f(x + i * 8, y)", None),
        (f"void f(int *p[8], int *o) {{ int j[8] = 0 ... 8; {TILE} atomic_add(o + j, t[+, :]); }}", "f(x + i * 8, y)", None),
    ],
)  # fmt: skip
def test_what_leads_to_a_store_in_a_lane_is_masked_like_it(body: str, call: str, expected: np.ndarray | None) -> None:
    kernel = f"int i[8] = 0 ... 8; int w[8] = i < n ? ({call}, 0) : 0;"
    text = f"{LOAD}{body} __global__ void k(int *y, int *x, int n) {{ {kernel} }}"
    columns = ROWS.reshape(5, 8).sum(0)
    assert results(text, ROWS, 5) == (columns if expected is None else np.where(LANES < 5, expected, 0)).tolist()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("functions", "value", "expected"),
    [
        ("int f(int *p[8], int v[8])[8] { if (v[max] > 100) return v; int t[8] = *p; "
         "if (t[max] > 4) return t + 10; return t; }",
         "f(x + i, i)", [11, 12, 13, 14, 15]),
        ("int f(int *p[8], int m)[8] { int s[8] = 0; for (int a = 0; ; a++) switch (a % 3) { case 0: s += *p; break; "
         "case 1: if (a > m) return s; default: s += 1; continue; } return s; }", "f(x + i, 4)", [7, 10, 13, 16, 19]),
        ("int f(int *p[8], int v[8])[8] { for (int a = 0; a < 9; a++) for (int b = 0; b < 3; b++) { "
         "if (a * b == 4) return *p + a * 10 + b; if (a == 7) break; } return v; }", "f(x + i, i)", [23, 24, 25, 26, 27]),
        ("int f(int *p[8], int *q[8])[8] { int s[8] = 0; for (int a = 0; a < 5; a++) { int *t[8] = p; p = q; q = t; "
         "if (a == 3) return s; s = s * 10 + *p; } return s; }", "f(x + i, x + (4 - i))", [515, 424, 333, 242, 151]),
        ("int f(int *p[8], int v[8])[8] { v += 1; p += v - 1; int t[8] = *p; p -= v - 1; return t + v; }", "f(x + 0 * i, i)",
         [2, 4, 6, 8, 10]),
        ("int f(int *p[8], int v[8], int m)[8] { return v > m ? *p : (v > 0 ? *(p - 1) : 7); }", "f(x + i, i, 2)",
         [7, 1, 2, 4, 5]),
        ("int f(int *p, int v[8])[8] { return (v[:, newaxis] >= v ? *(p + v) : 0)[:, +]; }", "f(x, i)", [1, 3, 6, 10, 15]),
        ("int f(int *p, int v[8])[8] { int a[8] = *(p + v); return (a[:, newaxis] * a)[:, +]; }", "f(x, i)",
         [15, 30, 45, 60, 75]),
        ("", "*?(load(x + i) > 2)(x + i)", [0, 0, 3, 4, 5]),
        ("", "10 / load(x + i) + i[load(x + i) - 1]", [10, 6, 5, 5, 6]),
        ("", "i < 2 ? load(x + i) : load(x + i - 2) * 10", [1, 2, 10, 20, 30]),
        ("int f(int *p[8])[8] { int t[8] = *p; assert(t > 0); return t; }", "f(x + i)", [1, 2, 3, 4, 5]),
    ],
)  # fmt: skip
def test_early_exits_and_loops_under_masks(functions: str, value: str, expected: list[int]) -> None:
    kernel = f"int i[8] = 0 ... 8; *(y + i) = i < n ? {value} : -1;"
    text = f"{LOAD}{functions} __global__ void k(int *y, int *x, int n) {{ {kernel} }}"
    assert results(text, X[:5], 5) == [*expected, -1, -1, -1]
