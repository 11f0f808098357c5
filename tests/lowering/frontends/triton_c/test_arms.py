"""Arms of `?:` with a block of conditions: whatever an arm loads, wherever it stands in it, is masked by the condition."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

Y = np.array([13, 12, 11, 10, 0, 0, 0, 0])
X, LUT = np.arange(4, dtype=np.int32) + 10, np.arange(4, dtype=np.int32)[::-1].copy()
AT = "int at(int *x, int *l[8])[8] { return *(x + *l); }\n"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("arm", "wanted"),
    [
        ("i < 4 ? *(x + *(lut + i)) : 0", Y),
        ("i >= 4 ? 0 : *(x + *(lut + i))", Y),
        ("i < 4 ? *?(*(lut + i) >= 2)(x + i) : 0", [10, 11, 0, 0, 0, 0, 0, 0]),
        ("i < 4 ? *?(*(lut + i) >= 2)(x + *(lut + i)) : 0", [13, 12, 0, 0, 0, 0, 0, 0]),
        ("i < 6 ? (i < 4 ? *(x + *(lut + i)) : 5) : 0", [13, 12, 11, 10, 5, 5, 0, 0]),
        ("i < 6 ? (i >= 4 ? 5 : *(x + *(lut + i))) : 0", [13, 12, 11, 10, 5, 5, 0, 0]),
        ("i < 2 ? *(x + *(lut + i)) : i < 4 ? *(lut + i) : 9", [13, 12, 1, 0, 9, 9, 9, 9]),
        ("i < 4 ? *(x + *(lut + *(lut + i))) : 0", [10, 11, 12, 13, 0, 0, 0, 0]),
        ("i < 4 ? *(x + (i * 1)[*(lut + i)]) : 0", Y),
        ("i < 4 ? at(x, lut + i) : 0", Y),
        ("i < 4 ? *(x + (*(lut + (0 ... 8)[newaxis, :] % 4))[max, :]) : 0", Y),
    ],
)
def test_loads_of_an_address_are_masked(arm: str, wanted: np.ndarray | list[int]) -> None:
    text = f"__global__ void f(int *y, int *x, int *lut) {{ int i[8] = 0 ... 8; *(y + i) = {arm}; }}"
    kernel = jn.kernel.from_triton_c(AT + text)
    for how in ("interpreter", "sanitizer", "bounds", "ptxsim"):  # each stops at a load outside of the arrays
        y = np.zeros(8, np.int32)
        if how == "interpreter":
            kernel.interpret(1, y, X, LUT)
        elif how == "sanitizer":
            assert kernel.sanitize(1, y, X, LUT).findings == ()
        elif how == "bounds":
            kernel.launch(1, y, X, LUT, check_bounds=True)
        else:
            kernel.launch(1, y, X, LUT, device="ptxsim")
        np.testing.assert_array_equal(y, wanted, how)


STRUCT = "struct s { int a[8], b[8]; };\n"
NINES = "int beyond(int *x)[8] { return *(x + 0 ... 8); }\n"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("before", "arm"),
    [
        ("", "(*(x + 0 ... 8), *(x + i))"), ("", "(*(x + 0 ... 8) + 1, *(lut + 0 ... 8), *(x + i))"),
        ("int g(int v[8], int i[8])[8] { return i; }", "g(*(x + 0 ... 8), *(x + i))"),
        ("int g(int v[8], int i[8])[8] { int w[8] = v + 1, u[8] = w * w; return i; }", "g(*(x + 0 ... 8), *(x + i))"),
        ("int h(int v[8], int i[8])[8] { return i; } int g(int v[8], int i[8])[8] { return h(v * 2, i); }",
         "g(*(x + 0 ... 8), *(x + i))"),
        ("int g(int *x, int i[8])[8] { int v[8] = *(x + 0 ... 8); *(x + 0 ... 8); return i; }", "g(x, *(x + i))"),
        (NINES, "(beyond(x), *(x + i))"), (NINES + "int g(int v[8], int i[8])[8] { return i; }", "g(beyond(x), *(x + i))"),
        (STRUCT, "((struct s){*(x + i), *(x + 0 ... 8)}).a"), (STRUCT, "((struct s){.b = *(x + i), .a = *(x + 0 ... 8)}).b"),
        (STRUCT + "struct s g(int *x, int i[8]) { return (struct s){*(x + i), *(x + 0 ... 8)}; }", "g(x, i).a"),
    ],
)  # fmt: skip
def test_what_no_lane_takes_is_not_loaded(before: str, arm: str) -> None:
    for text in (f"i < 4 ? {arm} : 0", f"i >= 4 ? 0 : {arm}"):
        body = f"int i[8] = 0 ... 8; *(y + i) = {text};"
        kernel = jn.kernel.from_triton_c(f"{before}\n__global__ void f(int *y, int *x, int *lut) {{ {body} }}\n")
        y, again = np.zeros(8, np.int32), np.zeros(8, np.int32)
        kernel.interpret(1, y, X, LUT)
        kernel.launch(1, again, X, LUT, check_bounds=True)
        assert y.tolist() == again.tolist() == [10, 11, 12, 13, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("before", "arm", "wanted", "memory"),
    [
        ("", "(*(x + 0 ... 4) += 1, i)", [0, 1, 2, 3, 9, 9, 9, 9], [11, 12, 13, 14]),
        ("int g(int v[4], int i[8])[8] { return i + v[+]; }", "g(*(x + 0 ... 4), i)", [46, 47, 48, 49, 9, 9, 9, 9], X),
        ("int g(int v[4], int i[8])[8] { int s = 0; for (int k = 0; k < v[+]; k++) s += 2; return i + s; }",
         "g(*(x + 0 ... 4), i)", [92, 93, 94, 95, 9, 9, 9, 9], X),
        ("int g(int *x, int v[4], int i[8])[8] { *(x + 0 ... 4) = v * 2; return i; }", "g(x, *(x + 0 ... 4), i)",
         [0, 1, 2, 3, 9, 9, 9, 9], [20, 22, 24, 26]),
        ("int g(int *x, int v[4])[4] { *(x + 0 ... 4) = v; return v; }", "(g(x, *(x + 0 ... 4) + 1), i)",
         [0, 1, 2, 3, 9, 9, 9, 9], [11, 12, 13, 14]),
        ("int g(int v[4], int i[8])[8] { if (v[max] > 5) return i; return -i; }", "g(*(x + 0 ... 4), i)",
         [0, 1, 2, 3, 9, 9, 9, 9], X),
    ],
)  # fmt: skip
def test_what_leads_to_memory_a_result_or_a_decision_is(
    before: str, arm: str, wanted: list[int], memory: np.ndarray | list[int]
) -> None:
    body = f"int i[8] = 0 ... 8; *(y + i) = i < 4 ? {arm} : 9;"
    kernel = jn.kernel.from_triton_c(f"{before}\n__global__ void f(int *y, int *x) {{ {body} }}\n")
    for how in (kernel.interpret, kernel.launch):
        y, x = np.zeros(8, np.int32), X.copy()
        how(1, y, x)
        assert y.tolist() == wanted
        assert x.tolist() == list(memory)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("type_", ["float", "half"])
def test_indices_of_extrema_ignore_nan(type_: str) -> None:
    dtype = {"float": np.float32, "half": np.float16}[type_]
    nan, inf = np.nan, np.inf
    rows = np.array([
        [1, 1, 3, 1, 1, 3, 1, 1], [1, 1, 3, 1, 1, 3, nan, 1], [nan, 1, 3, nan, 1, 3, nan, 1], [nan] * 8,
        [nan, -inf, nan, -inf, nan, nan, nan, nan], [nan, inf, nan, inf, nan, nan, nan, nan], [3, nan, 1, nan, 3, 1, 2, nan],
        [nan, nan, nan, nan, nan, nan, nan, 0],
    ], dtype)  # fmt: skip
    wanted = []
    for row in rows:
        held = [at for at in range(8) if row[at] == row[at]]
        wanted.append(max(held, key=lambda at: (row[at], -at)) if held else 0)
        wanted.append(min(held, key=lambda at: (row[at], at)) if held else 0)
    body = "int r[8] = 0 ... 8, c[8] = 0 ... 8; T v[8, 8] = *(x + r[:, newaxis] * 8 + c);"
    stores = "*(y + 2 * r) = argmax(v, 1); *(y + 2 * r + 1) = argmin(v, 1);"
    columns = "*(z + 2 * r) = argmax(^v, 0); *(z + 2 * r + 1) = argmin(^v, 0);"
    kernel = jn.kernel.from_triton_c(f"__global__ void f(int *y, int *z, T *x) {{ {body} {stores} {columns} }}", {"T": type_})
    for how in ("interpreter", "cpu", "sm_80", "sm_90a"):
        y, z = np.zeros(16, np.int32), np.zeros(16, np.int32)
        if how == "interpreter":
            kernel.interpret(1, y, z, rows)
        else:
            kernel.launch(1, y, z, rows, device="cpu" if how == "cpu" else "ptxsim", target=None if how == "cpu" else how)
        np.testing.assert_array_equal(y, wanted, how)
        np.testing.assert_array_equal(z, wanted, how)
