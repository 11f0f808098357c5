"""C that is rare and legal, against what C compilers make of it, and mistakes that must not hide others."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

I32 = np.int32


def result(body: str, n: int = 0, before: str = "") -> list[int]:
    kernel = jn.kernel.from_triton_c(f"{before}\n__global__ void f(int *y, int n) {{ {body} }}", cache=False)
    found = []
    for run in (kernel.interpret, kernel.launch):
        y = np.zeros(4, I32)
        run(1, y, n)
        found.append(y.tolist())
    assert found[0] == found[1]
    return found[0]


def errors(body: str) -> list[str]:
    with pytest.raises(jn.UserError) as caught:
        jn.kernel.from_triton_c(f"__global__ void f(int *y, int n) {{ {body} }}")
    return [each.partition("error: ")[2] for each in str(caught.value).splitlines() if "error: " in each]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("(*y)++; (*y)++; *(y + 1) = (*y)--; *(y + 2) = *y;", [1, 2, 1, 0]),
        ("int *p = y; (*p++)++; (*p)--;", [1, -1, 0, 0]),
        ("int i[4] = 0 ... 4; (*?(i > 1)(y + i))++;", [0, 0, 1, 1]),
        ("switch (n) { int q; case 2: q = 5; *y = q; break; default: q = 7; *y = q; }", [7, 0, 0, 0]),
        ("switch (n) { int q = 3; case 0: q = 5; case 1: *y = q; }", [5, 0, 0, 0]),
        ("int (x) = 3, (z)[4] = 2; *y = x + z[+];", [11, 0, 0, 0]),
        ("enum { A = 2147483646, B }; *y = B;", [2147483647, 0, 0, 0]),
    ],
)
def test_rare_statements(body: str, expected: list[int]) -> None:
    assert result(body) == expected


@pytest.mark.parametrize(("n", "expected"), [(1, [1, 0, 0, 0]), (5, [0, 1, 0, 0])])
def test_one_of_two_calls_of_void_functions(n: int, expected: list[int]) -> None:
    assert result("n < 3 ? s(y) : s(y + 1);", n, "void s(int *p) { *p = 1; }") == expected


def test_void_arms_of_a_block_of_conditions_and_of_another_type() -> None:
    before = "void s(int *p) { *p = 1; }"
    for body, message in [
        ("int i[4] = 0 ... 4; i < 3 ? s(y) : s(y + 1);", "the arms of ?: on a block of conditions are void"),
        ("n ? s(y) : 1;", "one arm of ?: is void"),
    ]:
        with pytest.raises(jn.UserError, match=message.replace("?", r"\?")):
            result(body, 0, before)


@pytest.mark.parametrize("n", [0, 3, 39, 40, 77])
def test_many_cases_and_many_exits(n: int) -> None:
    cases = " ".join(f"case {k}: *y = {k * k + 1}; if (n == 39) break; *(y + 1) = 1; break;" for k in range(40))
    expected = [n * n + 1, int(n != 39)] if n < 40 else [-1, 0]
    assert result(f"switch (n) {{ {cases} default: *y = -1; }} *(y + 2) = 9;", n)[:3] == [*expected, 9]
    exits = " ".join(f"if (n == {k}) {{ *y = a; return; }} int v{k} = n + a; a = v{k} - n + 1;" for k in range(40))
    assert result(f"int a = 5; {exits} *y = a + v3;", n)[0] == (5 + n if n < 40 else 45 + n + 8)
    breaks = " ".join(f"if (s == {k * 3}) {'continue' if k % 2 else 'break'}; s += 1;" for k in range(1, 20))
    total = 0
    for _ in range(n):
        for k in range(1, 20):
            if total == k * 3:
                break
            total += 1
        else:
            continue
        if k % 2 == 0:
            break
    assert result(f"int s = 0; for (int j = 0; j < n; j++) {{ {breaks} }} *y = s;", n)[0] == total


def test_mistakes_do_not_hide_others() -> None:
    body = """
    while (q1) { q2; } for (int i = 0; i < q3; i++) { q4; } switch (q5) { case 1: q6; } if (q7) q8;
    switch (n) { case 1: case 1: q9; case q10: ; } break;
    enum { A = 2147483647, B, C };
    """
    found = errors(body)
    for number in range(1, 11):
        assert any(f"q{number} " in each or each.endswith(f"q{number}") or f"q{number};" in each for each in found), number
    assert "case 1 is there twice in this switch" in found
    assert any(each.startswith("break outside of loops and switches") for each in found)
    assert any("the constant B of an enum is 2147483648, which is no int" in each for each in found)


@pytest.mark.parametrize("argument", [12, 12.0, np.float32(12), np.int64(4)])
def test_promises_of_numbers_hold_whatever_their_type(argument: object) -> None:
    kernel = jn.kernel.from_triton_c("__global__ void f(int *y, int n __multipleof(8)) { *y = n; }")
    with pytest.raises(jn.UserError, match=r"__multipleof\(8\) is promised"):
        kernel.launch(1, np.zeros(1, I32), argument)
    kernel.launch(1, np.zeros(1, I32), 16.0)
