"""What a verdict rests on besides its own access: other accesses, counters as devices count, operations without a rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove import preparation
from joinery.lowering.prove.evaluate import loops
from joinery.lowering.prove.specify.expressions import Comparison, Joined
from joinery.lowering.prove.specify.specification import ParsedSpecification
from joinery.lowering.prove.terms.formulas import within

_SHOWN = ("proven", "proven under", "never executed")


def kernel(parameters: str, body: str) -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(f"tt.func public @k({parameters}) {{\n{body}\n  tt.return\n}}\n")


def conditions(proof: Any, prop: str) -> list[tuple[str, ...]]:
    """The conditions of a property, of all accesses, each of which is shown under one."""
    own = [each for each in proof.accesses if each.prop == prop]
    assert {each.verdict for each in own} <= set(_SHOWN), proof
    return [each.condition for each in own]


# An access that is inside under a condition may meet other arrays beyond it

_TILE = """
  %c1 = arith.constant 1 : i8
  %p = tt.get_program_id x : i32
  %c = arith.constant 65536 : i32
  %o = arith.muli %p, %c : i32
  %w = arith.extsi %o : i32 to i64
  %m = arith.cmpi slt, %w, %n : i64
  %at = tt.addptr %x, %o : !tt.ptr<i8>, i32"""
"""The offset wraps for n > 2**31, and is before the array then."""
_STRAYS = {
    "a load may read what others store": ("%x: !tt.ptr<i8>, %y: !tt.ptr<i8>, %z: !tt.ptr<i8>, %n: i64", f"""{_TILE}
  %v = tt.load %at, %m : !tt.ptr<i8>
  %to = tt.addptr %y, %p : !tt.ptr<i8>, i32
  tt.store %to, %c1 : !tt.ptr<i8>
  %out = tt.addptr %z, %p : !tt.ptr<i8>, i32
  tt.store %out, %v : !tt.ptr<i8>""", {"x": "n", "y": "g", "z": "g"}, 3),
    "a store may write what others load": ("%x: !tt.ptr<i8>, %y: !tt.ptr<i32>, %n: i64", f"""{_TILE}
  tt.store %at, %c1, %m : !tt.ptr<i8>
  %v = tt.load %y : !tt.ptr<i32>""", {"x": "n", "y": 1}, 2),
    "an atomic may be in an array of others": ("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i64", """
  %c1 = arith.constant 1 : i32
  %p = tt.get_program_id x : i32
  %c = arith.constant 65536 : i32
  %o = arith.muli %p, %c : i32
  %w = arith.extsi %o : i32 to i64
  %m = arith.cmpi slt, %w, %n : i64
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  %r = tt.atomic_rmw add, acq_rel, gpu, %at, %c1, %m : (!tt.ptr<i32>, i32, i1) -> i32""", {"x": "n"}, 1),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", _STRAYS)
@pytest.mark.parametrize("properties", [("races",), ("bounds", "races")])
def test_races_hold_under_what_the_bounds_of_all_accesses_need(name: str, properties: tuple[str, ...]) -> None:
    parameters, body, extents, count = _STRAYS[name]
    proof = kernel(parameters, body).prove(["g == cdiv(n, 65536)"], extents, "g", properties)
    found = conditions(proof, "races")
    assert len(found) == count
    assert all(any(text.startswith("n <=") for text in each) for each in found), proof
    assert not proof.ok


def test_races_of_loads_do_not_rest_on_other_loads() -> None:
    made = kernel("%x: !tt.ptr<i8>, %y: !tt.ptr<i8>, %z: !tt.ptr<i8>, %n: i64", f"""{_TILE}
  %v = tt.load %at, %m : !tt.ptr<i8>
  %u = tt.load %y : !tt.ptr<i8>
  %out = tt.addptr %z, %p : !tt.ptr<i8>, i32
  tt.store %out, %u : !tt.ptr<i8>""")
    proof = made.prove(["g == cdiv(n, 65536)"], {"x": "n", "y": 1, "z": "g"}, "g", ("races",))
    assert [each.verdict for each in proof.accesses] == ["proven under", "proven", "proven under"]


# Counters

_COUNTED = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %c1024 = arith.constant 1024 : i32
  scf.for %i = %c0 to %n step {step} : i32 {{{body}
  }}"""
_READ = """
    %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
    %v = tt.load %at : !tt.ptr<i32>"""


@pytest.mark.parametrize("prop", ["bounds", "overflow", "termination of loops"])
def test_a_counter_that_wraps_beyond_the_end_is_a_condition(prop: str) -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32", _COUNTED.format(step="%c1024", body=_READ))
    assert conditions(made.prove((), {"x": "n"}, 1, (prop,)), prop) == [("n <= 2**31 - 2**16",)]
    assert made.prove("n <= 2**31 - 1024", {"x": "n"}, 1, (prop,)).ok
    assert not made.prove("n <= 2**31 - 1023", {"x": "n"}, 1, (prop,)).ok


@pytest.mark.parametrize("prop", ["bounds", "overflow", "termination of loops"])
def test_a_counter_that_comes_to_its_end_exactly_does_not_wrap(prop: str) -> None:
    one = kernel("%x: !tt.ptr<i32>, %n: i32", _COUNTED.format(step="%c1", body=_READ))
    assert one.prove((), {"x": "n"}, 1, (prop,)).ok
    multiple = kernel("%x: !tt.ptr<i32>, %n: i32 {tt.divisibility = 16 : i32}", _COUNTED.format(step="%c16", body=_READ))
    assert multiple.prove((), {"x": "n"}, 1, (prop,)).ok


def test_a_loop_whose_counter_wraps_runs_with_numbers_below_its_first() -> None:
    """For n = 2140000000 and s = 2139998006 a device's counter is negative in the second iteration already."""
    made = kernel("%x: !tt.ptr<i32>, %n: i32, %s: i32", _COUNTED.format(step="%s", body="""
    %neg = arith.cmpi slt, %i, %c0 : i32
    tt.store %x, %n, %neg : !tt.ptr<i32>"""))
    assert made.prove("s >= 1", {"x": 0}, 1, ("bounds",)).verdict("bounds") not in ("proven", "never executed")
    assert [each.verdict for each in made.prove(["s >= 1", "n <= 2**30", "s <= 2**30"], {"x": 0}, 1, ("bounds",)).accesses] == ["never executed"]  # noqa: E501


def test_what_a_loop_adds_up_rests_on_its_counter() -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32", """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c1024 = arith.constant 1024 : i32
  %sum = scf.for %i = %c0 to %n step %c1024 iter_args(%a = %c0) -> (i32) : i32 {
    %b = arith.addi %a, %c1 : i32
    scf.yield %b : i32
  }
  %most = arith.constant 2097152 : i32
  %far = arith.cmpi sgt, %sum, %most : i32
  tt.store %x, %n, %far : !tt.ptr<i32>""")
    assert [each.verdict for each in made.prove((), {"x": 0}, 1, ("bounds",)).accesses] != ["never executed"]


# Numbers that loops with a condition carry

_REPEATED = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = scf.while (%i = %c0) : (i32) -> i32 {
    %go = arith.cmpi slt, %i, %n : i32
    scf.condition(%go) %i : i32
  } do {
  ^bb0(%j: i32):
    %at = tt.addptr %x, %j : !tt.ptr<i32>, i32
    tt.store %at, %c1 : !tt.ptr<i32>
    %next = arith.addi %j, %s : i32
    scf.yield %next : i32
  }"""


def test_a_counter_of_a_loop_with_a_condition_that_bounds_it_never_wraps() -> None:
    """It is below n, so the next one is at most n + s - 1."""
    made = kernel("%x: !tt.ptr<i32>, %n: i32, %s: i32", _REPEATED)
    assert made.prove(["s >= 0", "n + s <= 2**31"], {"x": "n"}, 1, ("bounds",)).ok
    assert not made.prove(["s >= 0", "n + s <= 2**31 + 1"], {"x": "n"}, 1, ("bounds",)).ok
    assert not made.prove(["n + s <= 2**31"], {"x": "n"}, 1, ("bounds",)).ok  # it goes below 0


def test_that_a_counter_stays_exact_rests_on_the_condition_and_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the condition asked for the number alone, and not for the next one, too much is proven."""
    made = kernel("%x: !tt.ptr<i32>, %n: i32, %s: i32", _REPEATED)
    monkeypatch.setattr(loops, "within", lambda number, low, high: within(number - number.constant_part, low * 2, high * 2))
    assert made.prove(["s >= 0", "n + s <= 2**31 + 1"], {"x": "n"}, 1, ("bounds",)).ok


@pytest.mark.slow
@pytest.mark.parametrize("where", ["in the loop", "behind it"])
def test_a_launch_that_never_ends_is_given_up(where: str) -> None:
    """A run that may refute an access is one of a kernel that may loop for ever."""
    store = """
    %at = tt.addptr %x, %n : !tt.ptr<i32>, i32
    tt.store %at, %n : !tt.ptr<i32>"""
    made = kernel("%x: !tt.ptr<i32>, %n: i32", f"""
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = scf.while (%i = %c0) : (i32) -> i32 {{
    %go = arith.cmpi ne, %i, %n : i32
    scf.condition(%go) %i : i32
  }} do {{
  ^bb0(%j: i32):{store if where == "in the loop" else ""}
    %next = arith.xori %j, %c1 : i32
    scf.yield %next : i32
  }}{store if where != "in the loop" else ""}""")
    proof = made.prove("n >= 2", {"x": "n"}, 1, ("bounds",))
    assert proof.verdict("bounds") == ("refuted" if where == "in the loop" else "unknown")


# Sizes that are one number

_AT_SIZE = """
  %at = tt.addptr %x, %n : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>"""


@pytest.mark.slow
def test_a_size_is_a_number_where_the_assumptions_leave_no_other() -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32", _AT_SIZE)
    for assume in (["n == 3"], ["3 <= n and n < 4"], ["n >= 3", "4 > n"]):
        assert made.prove(assume, {"x": 4}, 1, ("bounds",)).ok
        assert not made.prove(assume, {"x": 3}, 1, ("bounds",)).ok
    with pytest.raises(jn.UserError, match="contradict"):
        made.prove(["n == 3", "n == 4"], {"x": 9}, 1)
    promised = kernel("%x: !tt.ptr<i32>, %n: i32 {tt.divisibility = 16 : i32}", _AT_SIZE)
    with pytest.raises(jn.UserError, match="contradict"):
        promised.prove(["n == 3"], {"x": 9}, 1)


def test_a_size_is_no_number_where_one_of_several_assumptions_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32", _AT_SIZE)
    assert not made.prove(["n == 3 or n == 100"], {"x": 4}, 1, ("bounds",)).ok

    def all_comparisons(self: ParsedSpecification) -> Any:
        waiting = [assumption for _, assumption in self.assume]
        while waiting:
            match waiting.pop():
                case Comparison(relation, left, right):
                    yield left, relation, right
                case Joined(_, parts):
                    waiting += parts[:1]

    other = kernel("%x: !tt.ptr<i32>, %n: i32, %m: i32", _AT_SIZE)
    either = ["n == 2 * m or n == 100", "m >= 0"]
    assert not other.prove(either, {"x": "2 * m + 1"}, 1, ("bounds",)).ok
    monkeypatch.setattr(ParsedSpecification, "_comparisons", all_comparisons)
    assert made.prove(["n == 3 or n == 100"], {"x": 4}, 1, ("bounds",)).ok, "the condition of the rule is not tried"
    assert other.prove(either, {"x": "2 * m + 1"}, 1, ("bounds",)).ok, "the condition of the rule is not tried"


def test_a_size_is_what_the_assumptions_say_it_is() -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32, %m: i32, %k: i64", _AT_SIZE)
    for equation in ("n == 2 * m", "2 * m == n", "n == 2 * m and m == k", "n - 2 * m == 0"):
        assert made.prove([equation, "m >= 0"], {"x": "2 * m + 1"}, 1, ("bounds",)).ok
        assert made.prove([equation, "m >= 0"], {"x": "2 * m"}, 1, ("bounds",)).verdict("bounds") == "refuted"
    circle = ["n == m + 1", "m == k - 1", "k == n"]
    assert made.prove([*circle, "n >= 0"], {"x": "m + 2"}, 1, ("bounds",)).ok
    for contradiction in (["n == m + 1", "m == n + 1"], ["n == m * m", "n < 0"], ["n == k", "k == 2**31"]):
        with pytest.raises(jn.UserError, match="contradict"):
            made.prove(contradiction, {"x": 9}, 1)


def test_what_a_size_is_fits_its_type() -> None:
    """n is a number of 32 bits, so its factors are small."""
    made = kernel("%x: !tt.ptr<i8>, %n: i32, %m: i64, %k: i64", """
  %c0 = arith.constant 0 : i8
  %p = arith.muli %m, %k : i64
  %q = arith.muli %p, %k : i64
  %at = tt.addptr %x, %p : !tt.ptr<i8>, i64
  tt.store %at, %c0 : !tt.ptr<i8>""")
    assert made.prove(["n == m * k", "m >= 0", "k >= 0"], {"x": "2**31"}, 1, ("bounds",)).ok
    assert not made.prove(["n == m * k", "m >= 0", "k >= 0"], {"x": "2**31 - 1"}, 1, ("bounds",)).ok


# Regions of maps

_MAPPED = """
  %p = tt.get_program_id x : i32
  %c1 = arith.constant 1 : i32
  %i = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
  %r = "tt.map_elementwise"(%i) <{pack = 1 : i32}> ({
  ^bb0(%e: i32):
    %far = arith.cmpi sgt, %e, %c1 : i32
    cf.cond_br %far, ^one, ^two
  ^one:
    %in = tt.addptr %x, %e : !tt.ptr<i32>, i32
    tt.store %in, %e : !tt.ptr<i32>
    cf.br ^two
  ^two:
    tt.map_elementwise.return %e : i32
  }) : (tensor<4xi32>) -> tensor<4xi32>
  %at = tt.addptr %x, %p : !tt.ptr<i32>, i32
  tt.store %at, %c1 : !tt.ptr<i32>"""


def test_accesses_in_regions_of_maps_are_accesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Program 2 stores where all programs do by the map. What a region computes is any number."""
    made = kernel("%x: !tt.ptr<i32>", _MAPPED)
    proof = made.prove((), {"x": "g + 4"}, "g", ("bounds", "races"))
    assert [each.verdict for each in proof.accesses if each.prop == "bounds"] == ["unknown", "proven"]
    assert [each.verdict for each in proof.accesses if each.prop == "races"] == ["unknown", "unknown"]
    before = preparation._accesses
    monkeypatch.setattr(
        preparation, "_accesses",
        lambda function: [each for each in before(function) if each.op.parent_op().name != "tt.map_elementwise"],
    )  # fmt: skip
    assert kernel("%x: !tt.ptr<i32>", _MAPPED).prove((), {"x": "g + 4"}, "g", ("bounds", "races")).ok


def test_what_a_map_computes_leaves_other_accesses_proven() -> None:
    made = kernel("%x: !tt.ptr<i32>", _MAPPED.replace("    tt.store %in, %e : !tt.ptr<i32>\n", ""))
    assert made.prove((), {"x": "g"}, "g", ("bounds", "races")).ok


# Operations

_ASSEMBLY = """
  %f = tt.elementwise_inline_asm "{ .reg .u32 a; add.u32 a, $1, $1; cvt.rn.f32.u32 $0, a; }" {constraints = "=f,r", packed_element = 1 : i32, pure = true} %s : i32 -> f32"""  # noqa: E501
_READERS = {
    "a comparison of unsigned numbers": "  %m = arith.cmpi ugt, %s, %c1 : i32",
    "a float of an unsigned number": "  %f = arith.uitofp %s : i32 to f32",
    "a function of a library": '  %f = tt.extern_elementwise %s {libname = "libdevice", libpath = "", pure = true, symbol = "__nv_uint2float_rn"} : (i32) -> f32',  # noqa: E501
    "assembly": _ASSEMBLY,
    "a float of a float's bits": "  %b = arith.bitcast %s : i32 to f32\n  %h = arith.bitcast %b : f32 to i32\n  %f = arith.uitofp %h : i32 to f32",  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("name", _READERS)
def test_overflow_of_numbers_that_are_read_as_unsigned_or_by_what_is_not_modelled(name: str) -> None:
    """uint32(-1) + 1 wraps, and no signed sum does for n < 2**31 - 1."""
    compared = "\n  %big = arith.constant 1.0e9 : f32\n  %m = arith.cmpf ogt, %f, %big : f32"
    compared = "" if "%m =" in _READERS[name] else compared
    made = kernel("%x: !tt.ptr<i32>, %n: i32", f"""
  %c1 = arith.constant 1 : i32
  %s = arith.addi %n, %c1 : i32
{_READERS[name]}{compared}
  tt.store %x, %c1, %m : !tt.ptr<i32>""")
    assert made.prove("n <= 2**31 - 2", {"x": 1}, 1, ("overflow",)).verdict("overflow") == "unknown"


def test_overflow_of_floats_of_signed_numbers_is_proven() -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32", """
  %c1 = arith.constant 1 : i32
  %s = arith.addi %n, %c1 : i32
  %f = arith.sitofp %s : i32 to f32
  %e = math.exp %f : f32
  %g = arith.addf %e, %f : f32
  %m = arith.cmpf ogt, %g, %f : f32
  tt.store %x, %c1, %m : !tt.ptr<i32>""")
    assert made.prove("n <= 2**31 - 2", {"x": 1}, 1, ("overflow",)).ok
    assert not made.prove((), {"x": 1}, 1, ("overflow",)).ok


_BITS = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %no = arith.constant false
  %yes = arith.constant true
  %p = arith.cmpi sgt, %n, %c1 : i32
  %q = arith.cmpi slt, %n, %c0 : i32
  %r = {operation}
  %e = arith.{read} %r : i1 to i32
  %m = arith.cmpi slt, %e, %c0 : i32
  tt.store %x, %n, %m : !tt.ptr<i32>"""


@pytest.mark.one_in(9)
@pytest.mark.parametrize(
    ("operation", "unsigned", "signed"),
    [
        ("arith.addi %p, %p : i1", False, False), ("arith.addi %p, %q : i1", True, True),
        ("arith.addi %p, %no : i1", True, True), ("arith.subi %no, %p : i1", False, False),
        ("arith.subi %p, %no : i1", True, True), ("arith.subi %yes, %p : i1", True, True),
        ("arith.muli %p, %p : i1", True, False), ("arith.muli %p, %q : i1", True, True),
        ("arith.shli %p, %yes : i1", False, False), ("arith.shli %p, %no : i1", True, True),
        ("arith.trunci %n : i32 to i1", False, False),
        ("arith.trunci %c1 : i32 to i1", True, False), ("arith.trunci %c0 : i32 to i1", True, True),
        ("arith.divsi %p, %yes : i1", False, False), ("arith.xori %p, %yes : i1", True, True),
        ("arith.ori %p, %p : i1", True, True), ("arith.andi %p, %yes : i1", True, True),
    ],
)  # fmt: skip
def test_truth_values_wrap_like_other_numbers(operation: str, unsigned: bool, signed: bool) -> None:
    """Sums of one bit were proven not to wrap. True is 1, or -1 where a signed number is made of it."""
    for read, holds in (("extui", unsigned), ("extsi", signed)):
        made = kernel("%x: !tt.ptr<i32>, %n: i32", _BITS.format(operation=operation, read=read))
        assert made.prove((), {"x": 1}, 1, ("overflow",)).ok == holds, read


def test_numbers_of_one_bit_do_not_wrap_where_assumptions_say_so() -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32", _BITS.format(operation="arith.trunci %n : i32 to i1", read="extui"))
    assert made.prove(["0 <= n <= 1"], {"x": 1}, 1, ("overflow",)).ok
    made = kernel("%x: !tt.ptr<i32>, %n: i32", _BITS.format(operation="arith.addi %p, %p : i1", read="extui"))
    assert made.prove(["n <= 1"], {"x": 1}, 1, ("overflow",)).ok


@pytest.mark.parametrize("library", ["mine", "libdevice", ""])
@pytest.mark.parametrize("symbol", ["foo", "__nv_abs"])
def test_what_is_believed_of_foreign_functions_is_printed(library: str, symbol: str) -> None:
    """A function of another library may be called like one of libdevice's."""
    made = kernel("%x: !tt.ptr<i32>, %n: i32", f"""
  %s = tt.extern_elementwise %n {{libname = "{library}", libpath = "", pure = true, symbol = "{symbol}"}} : (i32) -> i32
  tt.store %x, %s : !tt.ptr<i32>""")
    printed = [each for each in made.prove((), {"x": 1}, 1).trusted if "says it is pure" in each]
    is_known = library != "mine" and symbol == "__nv_abs"
    assert printed == ([] if is_known else [f"{symbol}, which says it is pure, touches no memory"])


# Properties

_FAR = """
  %c100 = arith.constant 100 : i32
  %at = tt.addptr %x, %c100 : !tt.ptr<i32>, i32
  tt.store %at, %c100 : !tt.ptr<i32>"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("none", [(), [], ""])
def test_a_proof_of_no_property_is_refused(none: Any) -> None:
    made = kernel("%x: !tt.ptr<i32>", _FAR)
    for prove in (lambda: made.prove((), {"x": 1}, 1, none), lambda: made.prove.like(1, np.zeros(1, "i4"), properties=none)):
        with pytest.raises(jn.JoineryError, match=r"properties=\(\)|no property"):
            prove()


def test_a_stored_proof_of_no_property_is_refused() -> None:
    made = kernel("%x: !tt.ptr<i32>", _FAR)
    text = made.prove((), {"x": 101}, 1, ("bounds",)).as_json().replace('"bounds": "proven"', "")
    with pytest.raises(jn.UserError):
        made.prove.verify(text)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "value"), [("solver", "z3 99"), ("example", {"n": -4}), ("example", {}), ("example", {"n": 2**40})]
)
def test_a_stored_proof_of_another_solver_or_with_another_example_is_refused(name: str, value: Any) -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32", """
  %i = tt.get_program_id x : i32
  %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""")
    text = made.prove(["n >= 1"], {"x": "n"}, "n").as_json()
    assert made.prove.verify(text).verdict("bounds") == "proven"
    with pytest.raises(jn.UserError, match=f"{name}s? differ"):
        made.prove.verify(json.dumps({**json.loads(text), name: value}))


def _with(text: str, **changes: Any) -> str:
    return json.dumps({**json.loads(text), **changes})


def _without(text: str, name: str) -> str:
    return json.dumps({key: value for key, value in json.loads(text).items() if key != name})


@pytest.mark.one_in(19)
@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace('"trusted": [', '"trusted": [],\n "trusted": [', 1),
        lambda text: text.replace('"verdicts": {', '"verdicts": {"bounds": "refuted"},\n "verdicts": {', 1),
        lambda text: text.replace('"bounds": "proven"', '"bounds": "refuted", "bounds": "proven"', 1),
        lambda text: _with(text, example={"n": 1.0}),
        lambda text: _with(text, example={"n": True}),
        lambda text: _with(text, steps="none"),
        lambda text: _with(text, questions="proven by hand"),
        lambda text: _with(text, questions=1.0),
        lambda text: _with(text, questions=True),
        lambda text: _with(text, steps=-1),
        lambda text: _with(text, steps=float("nan")),
        lambda text: _without(text, "questions"),
        lambda text: _without(text, "steps"),
        lambda text: _without(text, "example"),
        lambda text: _with(text, note=None),
        lambda text: _with(text, counterexample=None),
        lambda text: _with(text, accesses=[{**each, "counterexample": {}} for each in json.loads(text)["accesses"]]),
        lambda text: text.replace('"condition": []', '"condition": [], "note": null', 1),
        lambda text: text.rstrip()[:-1] + ', "note": ' + "[" * 900 + "]" * 900 + "}",
    ],
)
def test_a_stored_proof_says_what_is_written_now_and_nothing_else(changed: Callable[[str], str]) -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32", """
  %c1 = arith.constant 1 : i32
  tt.store %x, %c1 : !tt.ptr<i32>""")
    text = made.prove(["n >= 1"], {"x": "n"}, 1).as_json()
    assert json.loads(text)["example"] == {"n": 1}
    for same in (text, json.dumps(json.loads(text)), _with(text, questions=7, steps=10**30)):
        assert made.prove.verify(same).ok
    assert changed(text) != text
    with pytest.raises(jn.UserError, match=r"stands there twice|no number|differ"):
        made.prove.verify(changed(text))


@pytest.mark.parametrize("width", [4, 12, 24, 65])
def test_nothing_is_said_of_elements_whose_size_in_memory_is_open(width: int) -> None:
    pointer = f"!tt.ptr<i{width}>"
    made = kernel("%x: !tt.ptr<i8>, %n: i32", f"""
  %c1 = arith.constant 1 : i{width}
  %b1 = arith.constant 1 : i8
  %q = tt.bitcast %x : !tt.ptr<i8> -> {pointer}
  tt.store %q, %c1 : {pointer}
  %at = tt.addptr %q, %n : {pointer}, i32
  %b = tt.bitcast %at : {pointer} -> !tt.ptr<i8>
  tt.store %b, %b1 : !tt.ptr<i8>""")
    proof = made.prove("0 <= n < 4", {"x": 64}, 1, ("bounds",))
    assert [each.verdict for each in proof.accesses] == ["unknown"] * 2


def test_poison_that_has_no_part_in_an_address_is_no_obstacle() -> None:
    """As in functions that return early: what they do not return is poison, and is merged with what they do."""
    made = kernel("%x: !tt.ptr<f32>, %n: i32", """
  %c0 = arith.constant 0 : i32
  %p = ub.poison : f32
  %one = arith.constant 1.0 : f32
  %m = arith.cmpi sgt, %n, %c0 : i32
  cf.cond_br %m, ^a, ^b(%p, %n : f32, i32)
^a:
  cf.br ^b(%one, %c0 : f32, i32)
^b(%v: f32, %i: i32):
  %w = scf.for %j = %c0 to %n step %n iter_args(%k = %v) -> (f32) : i32 {
    scf.yield %k : f32
  }
  %is = arith.cmpi eq, %i, %c0 : i32
  %at = tt.addptr %x, %i : !tt.ptr<f32>, i32
  tt.store %at, %w, %is : !tt.ptr<f32>""")
    proof = made.prove((), {"x": 1}, 1)
    assert [proof.verdict(each) for each in ("bounds", "races")] == ["proven", "proven"]
