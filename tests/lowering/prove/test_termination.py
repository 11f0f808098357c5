"""Which loops end: those that count, if their counter cannot wrap; of others nothing is said."""

from __future__ import annotations

import joinery as jn
import pytest

pytest.importorskip("z3")


def verdict(body: str, assume: tuple[str, ...] = (), parameters: str = "%n: i32, %s: i32") -> tuple[str, tuple[str, ...]]:
    numbers = "\n".join([f"  %c{n} = arith.constant {n} : i32" for n in (0, 1, 4)])
    made = jn.kernel.from_ttir(f"tt.func public @k({parameters}) {{\n{numbers}\n{body}\n  tt.return\n}}\n")
    proof = made.prove(assume, {}, 1, ("termination of loops",))
    return proof.verdict("termination of loops"), proof.accesses[0].condition if proof.accesses else ()


def loop(low: str, end: str, step: str) -> str:
    return f"  scf.for %i = {low} to {end} step {step} : i32 {{\n  }}"


def test_loops_that_count_end() -> None:
    assert verdict("") == ("proven", ())
    assert verdict(loop("%c0", "%n", "%c1"), ("n <= 1000",)) == ("proven", ())
    assert verdict(loop("%n", "%c4", "%c4")) == ("proven", ())
    assert verdict(loop("%c0", "%n", "%s"), ("s >= 1", "s <= 100", "n <= 2**20")) == ("proven", ())


def test_a_counter_that_may_wrap_ends_under_a_condition() -> None:
    """2**31 - 1 is no multiple of 4: a counter of 32 bits passes it, and is negative then."""
    found, condition = verdict(loop("%c0", "%n", "%c4"))
    assert found == "proven under"
    assert [each.split(" ")[0] for each in condition] == ["n"]
    assert verdict("  %m = arith.addi %n, %c1 : i32\n" + loop("%c0", "%m", "%c4"))[0] == "proven under"


def test_a_counter_that_reaches_its_end_does_not_wrap() -> None:
    """n + 1 may wrap, and the loop does not run then."""
    assert verdict("  %m = arith.addi %n, %c1 : i32\n" + loop("%c0", "%m", "%c1")) == ("proven", ())


def test_nothing_is_said_of_other_loops() -> None:
    assert verdict(loop("%c0", "%n", "%s"), ("n <= 100",))[0] == "unknown"
    assert verdict(loop("%c0", "%n", "%s"), ("n <= 100", "s <= 0"))[0] == "unknown"
    assert verdict(loop("%c0", "%n", "%c0"), ("n <= 100",))[0] == "unknown"
    assert verdict("""  %w = scf.while (%i = %c0) : (i32) -> (i32) {
    %g = arith.cmpi slt, %i, %n : i32
    scf.condition(%g) %i : i32
  } do {
  ^bb0(%j: i32):
    %k = arith.addi %j, %s : i32
    scf.yield %k : i32
  }""")[0] == "unknown"
    assert verdict("""  cf.br ^head(%c0 : i32)
^head(%i: i32):
  %j = arith.addi %i, %s : i32
  %go = arith.cmpi slt, %j, %n : i32
  cf.cond_br %go, ^head(%j : i32), ^end
^end:""")[0] == "unknown"
    assert verdict("""  %r = scf.execute_region -> i32 {
    cf.br ^head
  ^head:
    cf.br ^head
  }""")[0] == "unknown"


def test_nothing_is_said_of_a_counter_of_one_bit() -> None:
    assert verdict("""  %f = arith.constant false
  %t = arith.constant true
  scf.for %i = %f to %t step %t : i1 {
  }""")[0] == "unknown"


def test_an_inner_loop_is_judged_by_itself() -> None:
    found, _ = verdict(f"""  scf.for %j = %c0 to %c4 step %c1 : i32 {{
{loop("%c0", "%n", "%s")}
  }}""", ("n <= 100",))
    assert found == "unknown"


def rows(body: str, assume: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Of each loop its operation and its verdict."""
    made = jn.kernel.from_ttir(f"""tt.func public @k(%n: i32, %s: i32) {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %yes = arith.constant true
{body}
  tt.return
}}""")
    return [(each.operation, each.verdict) for each in made.prove(assume, {}, 1, ("termination of loops",)).accesses]


_FOREVER = """  %r = scf.while (%a = %c0) : (i32) -> i32 {
    scf.condition(%yes) %a : i32
  } do {
  ^bb0(%b: i32):
    scf.yield %b : i32
  }"""


def around(body: str) -> str:
    return f"  scf.for %j{len(body)} = %c0 to %c4 step %c1 : i32 {{\n{body}\n  }}"


def test_a_loop_around_one_that_may_go_on_forever_is_unknown() -> None:
    """Its own row said that it comes to its end."""
    assert rows(around(_FOREVER)) == [("scf.for", "unknown"), ("scf.while", "unknown")]
    twice = around(around(f"  scf.if %yes {{\n{_FOREVER}\n  }}"))
    assert rows(twice) == [("scf.for", "unknown")] * 2 + [("scf.while", "unknown")]
    assert rows(_FOREVER + "\n" + around("")) == [("scf.while", "unknown"), ("scf.for", "proven")]
    assert rows(around(loop("%c0", "%n", "%c4"))) == [("scf.for", "proven under")] * 2
    assert rows(around(loop("%c0", "%n", "%c4")), ("n <= 100",)) == [("scf.for", "proven")] * 2
    assert rows(around(loop("%c0", "%n", "%s")), ("n <= 100",)) == [("scf.for", "unknown")] * 2


@pytest.mark.parametrize("step", ["zero", "one"])
def test_nothing_is_said_of_operations_on_no_list(step: str) -> None:
    """A parallel loop of which the step is 0 never ends."""
    assert verdict(f"""  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  "scf.parallel"(%zero, %one, %{step}) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
  ^bb0(%i: index):
    "scf.reduce"() : () -> ()
  }}) : (index, index, index) -> ()""")[0] == "unknown"


def test_nothing_is_said_of_functions_of_others() -> None:
    assert verdict("""  %e = tt.extern_elementwise %n {libname = "", libpath = "", pure = true, symbol = "forever"} :
    (i32) -> i32""")[0] == "unknown"


def test_what_computes_and_touches_memory_ends() -> None:
    assert verdict("""  %l = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
  %r = "tt.reduce"(%l) <{axis = 0 : i32}> ({
  ^bb0(%a: i32, %b: i32):
    %t = arith.addi %a, %b : i32
    tt.reduce.return %t : i32
  }) : (tensor<4xi32>) -> i32
  tt.store %x, %r : !tt.ptr<i32>""", (), "%x: !tt.ptr<i32>") == ("proven", ())
