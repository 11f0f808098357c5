"""Loops whose conditions assign variables, against what C compilers make of the same statements."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

I32 = np.int32
X = np.array([3, 4, 5, 0, 0, 0, 0, 0], I32)


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
    for run in (kernel.launch, kernel.interpret, kernel.sanitize):
        y = np.zeros(1, I32)
        run(1, y, X)
        assert y[0] == expected


def test_gpus_get_what_the_condition_assigns() -> None:
    text = "__global__ void f(int *y, int *x) { int v, s = 0; while ((v = *x) != 0) { s += v; x++; } *y = s; }"
    y = np.zeros(1, I32)
    jn.kernel.from_triton_c(text).launch(1, y, X, device="ptxsim")
    assert y[0] == 12
