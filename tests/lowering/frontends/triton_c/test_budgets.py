"""What is large, deep or long: refused with its place in time and memory that are bounded, or done."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.frontends.triton_c.building.axes import matchings
from joinery.lowering.frontends.triton_c.printing import print_stage
from joinery.lowering.frontends.triton_c.text import read

from ....support.tiers import each
from ....support.triton_c import first_problem, problems, run

I32 = np.int32
RANGE = "int v[2048] = 0 ... 2048;"


@pytest.mark.parametrize(
    "body",
    [
        "x = (v[:, newaxis] §+ v)[+, +];", "x = ((v[:, newaxis] > 1) §&& (v > 2))[+, +];", "x = (v[:, newaxis] §> v)[+, +];",
        "x = (v[:, newaxis] > 1 §? v : 0)[+, +];", "x = §select(v[:, newaxis] > 1, v, 0)[+, +];",
        "x = (v[:, newaxis] §@ v[newaxis, :])[+, +];", "x = §max(v[:, newaxis], v)[+, +];", "*§?(v[:, newaxis])(p + v) = 1;",
        "x = §fma(v[:, newaxis], v, 1.0f)[+, +];", "x = v[newaxis, :][§v, :][+, +];",
        "x = (p + v[:, newaxis] §== p + v)[+, +];",
        "x = (*(p + v[:, newaxis] §+ v))[+, +];", "§atomic_add(p + v[:, newaxis], v);", "x = t[v[:, newaxis], §v][+, +];",
        "x = ((struct s){v[:, newaxis] §+ v, 1}).n;",
        "struct n a[2048] = {v}, b[2048, 1] = {v[:, newaxis]}; x = (v[:, newaxis] > 2 §? a : b).k[+, +];",
    ],
)  # fmt: skip
def test_results_that_are_larger_than_blocks_are_refused_where_they_are_made(body: str) -> None:
    head = "struct s { int v[16]; int n; }; struct n { int k; };\n__constant__ int t[2, 2] = {1, 2, 3, 4};\n"
    before, _, behind = body.partition("§")
    found = problems(head + f"__global__ void f(int *p, int x) {{\n{RANGE}\n{before}{behind}\n}}")
    at = body.index("*") + 1 if body.startswith("*") else len(before) + 1
    assert f"<text>:5:{at}: error: " in found
    assert "with 4194304 elements; at most 1048576 are possible; fix: smaller blocks, and a loop over them" in found


def test_a_block_of_the_largest_size_is_made() -> None:
    text = "void f(int *y) { int v[1024] = 0 ... 1024; *y = (v[:, newaxis] + v)[+, +]; }"
    assert run(text, 1, np.zeros(1, I32))[0][0] == 1024 * 1024 * 1023


def test_tuning_drops_a_combination_whose_block_is_too_large() -> None:
    text = """__global__ void f(float *y) {
      int r[TM] = 0 ... TM, c[TN] = 0 ... TN;
      *(y + r[:, newaxis] * TN + c) = 1;
    }
    """
    kernel = jn.kernel.tune(text, {"TM": [16, 2048], "TN": [1024]}, progress=False, cache=False)
    y = np.zeros(16 * 1024, np.float32)
    kernel.launch(1, y)
    assert y.all()
    ((configuration, reason),) = kernel.dropped.items()
    assert dict(configuration.defines)["TM"] == 2048
    assert "<text>:3:32: error: [2048, 1] and [1024] give a block of shape [2048, 1024]" in reason


def axes(count: int) -> str:
    shape = ", ".join(["1"] * count)
    function = f"int g(int *p, int i[{shape}])[{shape}] {{ return *(p + i); }}\n"
    body = f"int i[{shape}] = 2; int v[{shape}] = i < n ? g(x, i) : -1; *(y + (i & 0)) = v;"
    return f"{function}__global__ void f(int *y, int *x, int n) {{ {body} }}"


@pytest.mark.parametrize("count", [2, 20, 32])
def test_a_call_in_an_arm_over_many_axes_takes_no_time(count: int) -> None:
    start = time.process_time()
    kernel = jn.kernel.from_triton_c(axes(count), cache=False)
    assert kernel.ttir
    assert time.process_time() - start < 10
    for n, wanted in ((3, 7), (2, -1)):
        y = np.zeros(1, I32)
        kernel.interpret(1, y, np.array([5, 6, 7][: n if n > 2 else 0], I32), n)
        assert y[0] == wanted


def test_lanes_that_may_be_axes_in_very_many_ways_are_refused() -> None:
    def text(count: int) -> str:
        views = [", ".join(":" if at == axis else "newaxis" for at in range(count)) for axis in range(count)]
        beside = f"(*(x + ({' + '.join(f'i[{view}]' for view in views)})) += 1, 5)"
        body = f"int i[2] = 0 ... 2, j[2] = 0 ... 2; *(y + i[:, newaxis] * 2 + j) = i[:, newaxis] + i < 2 ? {beside} : 0;"
        return f"__global__ void f(int *y, int *x) {{\n{body}\n}}"

    assert jn.kernel.from_triton_c(text(4) + "\n", cache=False).ttir  # 4 * 3 ways
    found = problems(text(12))
    assert "<text>:2:" in found
    assert "may be the lanes of the condition in more than 64 ways; fix: other variables for its axes" in found


@pytest.mark.parametrize("seed", range(40))
def test_matchings_are_those_of_all_choices_that_place_most(seed: int) -> None:
    chosen = random.Random(seed)
    choices = [sorted(chosen.sample(range(4), chosen.randrange(4))) for _ in range(chosen.randrange(1, 5))]
    every = [
        each for each in itertools.product(*[[*at, None] for at in choices])
        if len(set(each) - {None}) == sum(at is not None for at in each)
    ]  # fmt: skip
    most = max(sum(at is not None for at in each) for each in every)
    wanted = {each for each in every if sum(at is not None for at in each) == most}
    found = matchings(choices)
    assert set(found) == wanted
    assert len(found) == len(wanted)


def test_the_values_of_macros_in_a_message_take_no_time() -> None:
    lines = [f"#define A{number} A{number + 1}" for number in range(1000)]
    lines += ["#define A1000 24]; y = y" + " + 0" * 20000, "__global__ void f(int *y) { int v[A0; }"]
    start = time.process_time()
    assert "1002:35: error: the extent 24 of a block is no power of two; fix: 32, and a mask" in problems("\n".join(lines))
    assert time.process_time() - start < 10
    short = "#define SIZE (HALF * 2)\n#define HALF 12\n__global__ void f(int *y) { int v[SIZE]; }"
    assert "the extent 24 of a block is no power of two (HALF = 12, SIZE = 24)" in problems(short)


@pytest.mark.parametrize(
    ("text", "include", "message"),
    [
        ('#include "a.h"\n' * 150, ";" * 50000, "a.h:1:15537: error: more than 65536 tokens"),
        pytest.param(";" * 4_000_000, "", "<text>:1:524289: error: the text and what it includes have more than 524288 tokens",
                     marks=pytest.mark.slow),
        pytest.param('#include "a.h"\n' * 9, "#if 0\n" + ";" * 60000 + "\n#endif", "have more than 524288 tokens",
                     marks=pytest.mark.slow),
        ('#include "a.h"\n' * 9, " " * 1_000_000, "<text>:5:2: error: the files that are included have more than 4194304"),
    ],
)  # fmt: skip
def test_files_that_are_included_fit_into_memory(text: str, include: str, message: str) -> None:
    assert message in problems(f"{text}__global__ void f(int *y) {{ *y = 1; }}", include={"a.h": include})


@pytest.mark.one_in(6)
@pytest.mark.parametrize("statement", ["a = a;", "a = g(a);", "a = *y ? a : b;", "a = (struct s){1};", "c.s = a;", "g(c.s);"])
def test_the_members_of_structs_count(statement: str) -> None:
    members = " ".join(f"int a{number};" for number in range(255))
    head = f"struct s {{ {members} }}; struct t {{ struct s s; int n; }}; struct s g(struct s a) {{ return a; }}\n"
    declared = "struct s a = {0}, b = {1}; struct t c = {0};"
    text = f"{head}__global__ void f(int *y) {{ {declared} {statement * 600} }}"
    message = "error: the function has more than 131072 expressions, with what it calls and the members of structs"
    assert message in problems(text)


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_long_sum_can_be_printed(count: int) -> None:
    reading = read("__global__ void f(int *y) { *y = " + "*y + " * count + "1; }", "sum.tc")
    for stage in ("ast", "typed"):
        lines = print_stage(reading, stage).splitlines()
        assert len(lines) > count
        assert max(map(len, lines)) < 400
    tree = print_stage(read("__global__ void f(int *y) { *y = 1 + 2 * 3; }", "sum.tc"), "ast")
    assert "          right: Binary * @sum.tc:1:40\n            left: Literal 2 @sum.tc:1:38\n" in tree


@pytest.mark.slow
@pytest.mark.parametrize("text", [
    "sizeof " * 1200 + "1", pytest.param("bitcast<int>(" * 150 + "1" + ")" * 150, marks=pytest.mark.slow),
])
def test_the_command_line_tells_of_deep_texts_in_json(text: str, tmp_path: Path) -> None:
    file = tmp_path / "deep.tc"
    file.write_text(f"__global__ void f(int *y) {{ *y = {text}; }}\n")
    command = [sys.executable, "-m", "joinery", "compile", str(file), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "Traceback" not in done.stderr + done.stdout
    assert "more than 48 levels are nested in one another" in done.stderr + done.stdout


# Chains, whose authors nest nothing


def chain(count: int, text: str, between: str = " else ") -> str:
    return between.join(text.replace("#", str(number)) for number in range(count))


BODIES = {
    "stores": lambda count: chain(count, "if (n == #) *y = # + 7;") + " else *y = -1;",
    "variables": lambda count: f"int v = 3; {chain(count, 'if (n == #) v = # + 7;')} else v = -1; *y = v;",
    "conditions that store": lambda count: f"int v = -1; {chain(count, 'if ((*(y + 1) = #) == n) v = # + 7;')} *y = v;",
    "returns": lambda count: f"*y = -1; {chain(count, 'if (n == #) { *y = # + 7; return; }')}",
    "returns and an end": lambda count: f"{chain(count, 'if (n == #) { *y = # + 7; return; }')} else *y = -1; *(y + 2) = 1;",
    "breaks": lambda count: (
        f"*y = -1; for (int k = 0; k < 2; k++) {{ {chain(count, 'if (n == #) { *y = # + 7; break; }')} *(y + 2) += 1; }}"
    ),
    "loads": lambda count: f"*y = {chain(count, 'n == # ? *(x + #)', ' : ')} : -1;",
    "numbers": lambda count: f"*y = {chain(count, 'n == # ? # + 7', ' : ')} : -1;",
    "assignments in arms": lambda count: f"int v = -1; {chain(count, 'n == # ? (v = *(x + #))', ' : ')} : 0; *y = v;",
    "assignments in conditions": lambda count: (
        f"int v = -1, w = {chain(count, 'n == (v = #) ? *(x + #)', ' : ')} : -1; *y = w; *(y + 1) = v;"
    ),
    "calls without values": lambda count: f"*y = -1; {chain(count, 'n == # ? g(y, # + 7)', ' : ')} : (void) 0;",
    "blocks": lambda count: (
        f"int i[1] = n; int v[1] = {chain(count, 'i == # ? *(x + i)', ' : ')} : -1; *(y + (0 ... 1)) = v;"
    ),
}  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("body", "count"), each(tuple(BODIES), (48,)) + [
    pytest.param(body, 120 if body == "blocks" else 400, marks=pytest.mark.slow) for body in BODIES
])  # fmt: skip
def test_long_chains_take_the_first_arm_that_holds(body: str, count: int) -> None:
    text = f"void g(int *y, int v) {{ *y = v; }} __global__ void f(int *y, int *x, int n) {{ {BODIES[body](count)} }}"
    kernel = jn.kernel.from_triton_c(text + "\n", cache=False)
    x = np.arange(count, dtype=I32) + 7
    hows = [kernel.interpret, *([kernel.launch] if count > 48 or body in ("returns", "loads", "blocks") else [])]
    for n in (0, 7, 8, 9, 16, 39, count - 1, count, -1):
        for how in hows:
            y = np.zeros(3, I32)
            how(1, y, x, n)
            taken = 0 <= n < count
            assert y[0] == (n + 7 if taken else -1), (n, how)
            if body in ("conditions that store", "assignments in conditions"):
                assert y[1] == (n if taken else count - 1)
            if body in ("returns and an end", "breaks"):
                assert y[2] == (0 if taken else 2 if body == "breaks" else 1)


def test_an_error_in_a_chain_hides_no_other() -> None:
    links = ["if (n == 0) n = 1;", "if (k) n = 2;", "if (n = ) n = 3;", "if (n == 4) n = q;", "n = r;"]
    found = first_problem(" else ".join(links))
    assert [name in found for name in ("k is not declared", "expected an expression", "q is not", "r is not")] == [True] * 4


def test_a_conditional_expression_has_some_arms() -> None:
    found = first_problem("n = " + "n ? 1 : " * 1100 + "0;")
    assert "more than 1024 conditional expressions, of which each is the last arm of another" in found
