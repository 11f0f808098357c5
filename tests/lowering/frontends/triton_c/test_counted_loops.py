"""Loops whose steps do more than count, and counters that step over the end of their numbers."""

from __future__ import annotations

from collections.abc import Callable

import joinery as jn
import numpy as np
import pytest

from ....support.triton_c import run

I32 = np.int32


def ints(body: str, *args: int, parameters: str = "", is_counted: bool | None = None) -> list[int]:
    """What a kernel leaves in its array `y` of 4 ints, the same on the interpreter and natively."""
    kernel = jn.kernel.from_triton_c(f"__global__ void f(int *y{parameters}) {{\n{body}\n}}\n", cache=False)
    if is_counted is not None:
        assert ("scf.for" in kernel.ttir) == is_counted
    y, again = np.zeros(4, I32), np.zeros(4, I32)
    kernel.interpret(1, y, *args)
    kernel.launch(1, again, *args)
    assert list(y) == list(again)
    return [int(each) for each in y]


@pytest.mark.parametrize(
    ("header", "body", "wanted", "is_counted"),
    [
        ("int i = 0; i < 4; j += 2, k += 3, i += 1", ";", [8, 12], True),
        ("int i = 0; i < 4; j += 2, i++", ";", [8, 0], True), ("int i = 0; i < 4; i++, j++, k--", ";", [4, -4], True),
        ("int i = 0; i < 4; i += 1, j += 2, k += 3", ";", [8, 12], True),
        ("int i = 0; i < 4; j += i, i++", "k += j;", [6, 4], True),
        ("int i = 0; i < 4; i++, j += i", ";", [10, 0], False),  # it reads the counter behind its step
        ("int i = 0; i < 6; i++, i += 1", "j++;", [3, 0], False), ("int i = 0; i < 6; i += 1, i += 1", "j++;", [3, 0], False),
        ("int i = 0, n = 10; i < n; n--, 0, i += 1", "j++;", [5, 0], False),
        ("int i = 0, n = 1; i < 10; n *= 2, 0, i += n", "j++; k += i;", [3, 8], False),
        ("int i = 0; i < 4; (void) j++, (void) 0, ++i", "k = j;", [4, 3], True),
        ("int i = 0; i < 4; *(y + 2) += 5, *(y + 3) = i, i += 1", "j++;", [4, 0], True),
        ("int i = 3; i >= 0; j += 2, k += 3, i -= 1", ";", [8, 12], True),
        ("int i = 0; i < 4; j = k = i, 0, i += 1", ";", [3, 3], True),
        ("int i = 0; i < 8; (j < 3 ? i += 1 : 0), j++, i += 1", ";", [5, 0], False),
        ("int i = 0; i < 4; j += 2, k += 3, i += 1", "if (i == 1) continue; j += 10;", [38, 12], True),
    ],
)  # fmt: skip
def test_a_step_of_several_parts_does_all_of_them(header: str, body: str, wanted: list[int], is_counted: bool) -> None:
    text = f"int j = 0, k = 0; for ({header}) {{ {body} }} *y = j; *(y + 1) = k;"
    assert ints(text, is_counted=is_counted)[:2] == wanted


def test_stores_in_a_step_come_behind_the_body() -> None:
    assert ints("int s = 0; for (int i = 0; i < 4; *(y + 1) = i, *(y + 2) += 5, i += 1) s++; *y = s;") == [4, 3, 20, 0]


@pytest.mark.parametrize("step", ["a++, b += 2, k += 1", "a += 1, b += 2, k++", "k++, a += 1, b++, b++"])
def test_pointers_walk_with_the_counter(step: str) -> None:
    text = f"""__global__ void f(float *y, float *a, float *b, int K) {{
      float acc = 0; for (int k = 0; k < K; {step}) acc += *a * *b; *y = acc;
    }}"""
    a, b = np.arange(1, 9, dtype=np.float32), np.arange(16, dtype=np.float32)
    assert run(text, 1, np.zeros(1, np.float32), a, b, 5)[0][0] == float((a[:5] * b[:10:2]).sum())


def counted(start: int, goes_on: Callable[[int], bool], step: int, bits: int) -> list[int]:
    """Return how often a loop runs whose counter wraps, and what the counter is behind it."""
    times = 0
    while goes_on(start):
        times, start = times + 1, (start + step) % (1 << bits)
    return [times, start >> (bits - 8)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("type_", "start", "operator", "bound", "step"),
    [
        ("unsigned", 1, "<", 0xF000_0000, 0x7000_0000), ("unsigned", 1, "<=", 0xEFFF_FFFF, 0x7000_0000),
        ("unsigned", 0xFFFF_FFFE, ">", 0x0FFF_FFFF, -0x7000_0000), ("unsigned", 0xFFFF_FFFE, ">=", 0x1000_0000, -0x7000_0000),
        ("unsigned long", 3, "<", 0xF << 60, 7 << 60), ("unsigned", 1, "<", 5, 0x7000_0000),
        ("unsigned", 0, "<", 0xFFFF_FFFF, 0x3333_3333), ("unsigned", 9, "<", 9, 0x7000_0000),
        ("unsigned", 9, ">", 2, -3), ("unsigned", 9, ">=", 3, -3), ("unsigned", 0, "<=", 9, 3),
    ],
)  # fmt: skip
def test_an_unsigned_counter_that_wraps_goes_on_from_the_other_end(
    type_: str, start: int, operator: str, bound: int, step: int, is_known: bool
) -> None:
    bits = 64 if type_ == "unsigned long" else 32
    move = f"i {'+' if step > 0 else '-'}= ({type_}){abs(step)}u"
    limit, parameters = (f"({type_}){bound}u", "") if is_known else ("b", f", {type_} b")
    text = f"int n = 0; {type_} i; for (i = {start}; i {operator} {limit}; {move}) n++; *y = n; *(y + 1) = i >> {bits - 8};"
    goes_on = {"<": bound.__gt__, "<=": bound.__ge__, ">": bound.__lt__, ">=": bound.__le__}[operator]
    found = ints(text, *([] if is_known else [bound]), parameters=parameters)
    assert found[:2] == counted(start, goes_on, step, bits)


@pytest.mark.parametrize(
    ("header", "is_plain"),
    [
        ("unsigned i = 0; i < n; i++", True), ("unsigned i = n; i > 0; i--", True), ("unsigned i = n; i >= 1; i--", True),
        ("unsigned i = 0; i < 4000u; i += 16", True), ("int i = 0; i < (int)n; i += 16", True),
        ("unsigned i = 0; i < n; i += 16", False),
    ],
)  # fmt: skip
def test_steps_are_counted_one_by_one_only_where_a_counter_may_wrap(header: str, is_plain: bool) -> None:
    kernel = jn.kernel.from_triton_c(f"void f(int *y, unsigned n) {{ int s = 0; for ({header}) s += i; *y = s; }}")
    assert ("scf.while" not in kernel.ttir) == is_plain
    assert "scf.for" in kernel.ttir
