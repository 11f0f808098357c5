"""Sizes that assumptions leave one value are said to be fixed, and no other ones: against all small sizes."""

from __future__ import annotations

import itertools
import random

import joinery as jn
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.specify.expressions import evaluate
from joinery.lowering.prove.specify.specification import Specification

_STORE = """tt.func public @k(%x: !tt.ptr<i32>, %n: i32{n}, %m: i32) {{
  %p = tt.get_program_id x : i32
  %c = arith.constant 0 : i32
  %is = arith.cmpi slt, %p, %c : i32
  tt.store %x, %p, %is : !tt.ptr<i32>
  tt.return
}}"""


def kernel(promise: str = "") -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(_STORE.format(n=promise))


def fixed(assume: list[str], extent: str, grid: str, promise: str = "") -> set[str]:
    return set(kernel(promise).prove(assume, {"x": extent}, grid, ("bounds",)).fixed)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("assume", "extent", "grid", "found"), [
    (["2*n == 20"], "n", "n", {"n == 10", "10 programs along x", "x has 10 elements"}),
    (["cdiv(n, 16) == 1"], "n", "cdiv(n, 16)", {"1 program along x"}),
    (["1 <= n <= 16"], "m", "cdiv(n, 16)", {"1 program along x"}),
    (["n*m == 1"], "max(n, m)", "n", {"n == 1", "m == 1", "1 program along x", "x has 1 element"}),
    (["n*m == 1"], "n*m", "1", {"x has 1 element", "1 program along x"}),
    (["n*n == 49", "n >= 0"], "m", "m", {"n == 7"}), (["n*n == 49"], "m", "m", set()),
    (["n*n == 49"], "n*n", "m", {"x has 49 elements"}),
    (["n + m == 10", "n - m == 2"], "n", "m", {"n == 6", "m == 4", "4 programs along x", "x has 6 elements"}),
    (["n % 16 == 0 and n // 16 == 3"], "m", "m", {"n == 48"}), (["min(n, 3) == 3"], "min(n, 3)", "n", {"x has 3 elements"}),
    (["n == 3 or n == 4"], "n", "m", set()), (["n == 3 or n + 1 == 4"], "m", "m", {"n == 3"}),
    (["n >= 2**31 - 1"], "m", "m", {"n == 2147483647"}),
    (["n >= m*m", "m >= 2**15", "n <= 2**30"], "x_", "x_", {"n == 1073741824", "m == 32768"}),
    ([], "n", "m", set()), (["n >= m", "m >= 1"], "n*m", ("cdiv(n, 16)"), set()), (["n == 4*m"], "n", "m", set()),
    (["n % 128 == 0", "n >= 2**20"], "n", "cdiv(n, 128)", set()),
    (["n == 10"], "n - n", "1", {"n == 10", "1 program along x", "x has 0 elements"}),
    (["n >= 1", "m >= n + 1", "m <= 2"], "m", "n", {"n == 1", "m == 2", "1 program along x", "x has 2 elements"}),
])  # fmt: skip
def test_what_has_no_second_value_is_fixed(assume: list[str], extent: str, grid: str, found: set[str]) -> None:
    assert fixed(assume, extent, grid) == found


def test_what_the_text_promises_fixes_sizes_too() -> None:
    assert fixed(["16 <= n <= 31"], "m", "m") == set()
    assert fixed(["16 <= n <= 31"], "m", "m", " {tt.divisibility = 16 : i32}") == {"n == 16"}


def test_programs_that_do_not_ask_which_they_are_need_no_number() -> None:
    made = jn.kernel.from_ttir("tt.func public @k(%x: !tt.ptr<i32>) {\n  %c = tt.load %x : !tt.ptr<i32>\n  tt.return\n}")
    assert made.prove((), {"x": "n"}, 1, ("bounds",)).fixed == ()
    assert kernel().prove((), {"x": "n"}, 1, ("bounds",)).fixed == ("1 program along x",)


@pytest.mark.parametrize("limit", [1, 1000])
def test_nothing_wrong_is_said_where_the_solver_may_take_few_steps(limit: int) -> None:
    """What comparisons with numbers say is said all the same."""
    proof = kernel().prove(["n*n == 49", "n >= 0", "m == 3"], {"x": "n"}, "m", ("bounds",), limit)
    assert {*proof.fixed} <= {"m == 3", "3 programs along x", "n == 7", "x has 7 elements"}
    assert {"m == 3", "3 programs along x"} <= {*proof.fixed}


def _random(rng: random.Random) -> tuple[list[str], str, str]:
    def size() -> str:
        one, two = rng.choice("nm"), rng.choice(("n", "m", "2", "3", "5"))
        return rng.choice((f"{one} + {two}", f"{one} * {two}", f"cdiv({one}, 4)", f"max({one}, {two})", f"{one} // 3", one))

    assume = [f"{size()} {rng.choice(('==', '<=', '>='))} {rng.randint(0, 9)}" for _ in range(rng.randint(1, 3))]
    return [*assume, "0 <= n <= 9", "0 <= m <= 9"], size(), size()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_specifications_fix_what_all_their_sizes_say(first: int) -> None:
    """All sizes that satisfy the assumptions are from 0 to 9, and tried here."""
    some = 0
    for seed in range(first, first + 20):
        assume, extent, grid = _random(random.Random(seed))
        parsed = Specification.of(assume, {"x": extent}, grid).parsed()
        every = [{"n": n, "m": m} for n, m in itertools.product(range(10), repeat=2) if parsed.holds({"n": n, "m": m})]
        if not every:
            with pytest.raises(jn.UserError, match="contradict each other"):
                fixed(assume, extent, grid)
            continue
        expected = {f"{name} == {every[0][name]}" for name in "nm" if len({each[name] for each in every}) == 1}
        programs = {evaluate(parsed.grid[0], each) for each in every}
        elements = {evaluate(parsed.extents["x"], each) for each in every}
        expected |= {f"{each} program{'s' * (each != 1)} along x" for each in programs if len(programs) == 1}
        expected |= {f"x has {each} element{'s' * (each != 1)}" for each in elements if len(elements) == 1}
        assert fixed(assume, extent, grid) == expected, (seed, assume, extent, grid)
        some += bool(expected)
    assert some > 3


@pytest.mark.parametrize(
    "assume",
    [
        ["k == 2 * cdiv(m, 5)", "number(k)"], ["k == n + cdiv(m, 5)", "n >= m * m"], ["k == n + min(n, cdiv(m, 5))", "n >= m"],
        ["number(j)", "3 * n >= 20 and 3 * n <= 24", "k == min(j, 7) * 2"],
    ],
)  # fmt: skip
def test_sizes_that_are_made_of_quotients_which_no_question_is_about(assume: list[str]) -> None:
    found = jn.kernel.from_ttir("""tt.func public @k(%x: !tt.ptr<i32>, %n: i32, %m: i32) {
  %p = tt.get_program_id x : i32
  %a = tt.addptr %x, %p : !tt.ptr<i32>, i32
  tt.store %a, %p : !tt.ptr<i32>
  tt.return
}""").prove(assume, {"x": "max(n, 3)"}, 3)
    assert found.verdict("bounds") == "proven"
    assert found.fixed == ("3 programs along x",)
