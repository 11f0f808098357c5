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
