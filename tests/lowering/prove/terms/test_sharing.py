"""What is said of an atom is said once: no condition, program or property that comes later makes it another number."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.bounds import Bounds
from joinery.lowering.prove.found import Found
from joinery.lowering.prove.initialised.verdicts import Initialised
from joinery.lowering.prove.overflow import Overflow
from joinery.lowering.prove.preparation import prepare
from joinery.lowering.prove.races.verdicts import Races
from joinery.lowering.prove.specify.expressions import holds, parse_assumption
from joinery.lowering.prove.specify.specification import Specification
from joinery.lowering.prove.terms.atoms import PROGRAM, Terms
from joinery.lowering.prove.terms.formulas import TRUE, Formula, Truth, equal
from joinery.lowering.prove.terms.orders import Element, Meaning, Order
from joinery.lowering.prove.terms.polynomials import Polynomial, constant, variable
from joinery.promotion.errors import InternalError
from joinery.promotion.float_modes import default_modes

from ....support.corpus import WITH_DATA, Case, read
from ....support.proving.launches import PROVED
from ....support.tiers import both_tiers
from ..test_corpus import WRITTEN

PROPERTIES = ("bounds", "races", "overflow", "initialised", "termination of loops")


class Attack(NamedTuple):
    """A kernel whose loaded elements are at other places for many programs than for few, and a launch with many.

    The sizes are those of the launch; arrays that are large have the elements that are read.
    """

    parameters: str
    body: str
    assume: tuple[str, ...]
    extents: dict[str, Any]
    sizes: dict[str, int]
    arguments: Callable[[], list[Any]]
    kind: str

    @property
    def kernel(self) -> Any:
        return jn.kernel.from_ttir(f"tt.func public @k({self.parameters}) {{\n{_WRAPPED}{self.body}\n  tt.return\n}}\n")

    @property
    def grid(self) -> str:
        return "cdiv(m, 2**29)"

    def is_said(self, condition: Sequence[str]) -> bool:
        """Whether what is proven under conditions is said of the launch."""
        return all(holds(parse_assumption(text), self.sizes) for text in condition)


_WRAPPED = """
  %p = tt.get_program_id x : i32
  %c = arith.constant 32 : i8
  %s = arith.constant 5 : i8
  %f = arith.constant 4 : i32
  %one = arith.constant 1 : i32
  %narrow = arith.trunci %p : i32 to i8
  %far = arith.muli %narrow, %c : i8
  %back = arith.shrsi %far, %s : i8
  %w = arith.extsi %back : i8 to i32
  %i = arith.addi %w, %f : i32
"""
"""%i is 4 + the program, of four programs; the ninth has that of the first. Four are those of m <= 2**31."""
_ROWS = """
  %ip = tt.addptr %ends, %i : !tt.ptr<i32>, i32
  %jp = tt.addptr %ip, %one : !tt.ptr<i32>, i32
  %lo = tt.load %ip : !tt.ptr<i32>
  %hi = tt.load %jp : !tt.ptr<i32>
  %mask = arith.cmpi slt, %lo, %hi : i32
  %op = tt.addptr %o, %lo : !tt.ptr<i32>, i32
  tt.store %op, %p, %mask : !tt.ptr<i32>
"""
_CLIMBS = """
  %lk = arith.addi %lo, %k : i32
  %lw = arith.extsi %lk : i32 to i64
  %yp = tt.addptr %y, %lk : !tt.ptr<i8>, i32
  %b = tt.load %yp : !tt.ptr<i8>
  %kw = arith.extsi %k : i32 to i64
  %d = arith.subi %lw, %kw : i64
  %zp = tt.addptr %z, %d : !tt.ptr<i8>, i64
  %b2 = tt.load %zp : !tt.ptr<i8>
"""
"""Reads that need a small %k, of arrays that bring other conditions: the terms of few programs are made last."""
_TABLE = f"""
  %tp = tt.addptr %tab, %i : !tt.ptr<i64>, i32
  %a = tt.load %tp : !tt.ptr<i64>
  %j = arith.addi %p, %f : i32
  %np = tt.addptr %lens, %j : !tt.ptr<i32>, i32
  %len = tt.load %np : !tt.ptr<i32>
  %fifteen = arith.constant 15 : i32
  %some = arith.cmpi slt, %fifteen, %len : i32
  scf.if %some {{
    %low = arith.trunci %a : i64 to i32
    %lo = arith.andi %low, %fifteen : i32
{_CLIMBS}
    %q = tt.int_to_ptr %a : i64 -> !tt.ptr<i32>
    %at = tt.addptr %q, %d : !tt.ptr<i32>, i64
    %v = tt.load %at : !tt.ptr<i32>
    %op = tt.addptr %o, %p : !tt.ptr<i32>, i32
    tt.store %op, %v : !tt.ptr<i32>
  }}
"""


def table() -> list[Any]:
    """The ninth program reads tab[4], of no bytes, and lens[12]."""
    lengths = np.zeros(16, np.int32)
    lengths[12] = 16
    arrays = jn.PointerTable([np.zeros(each, np.int32) for each in lengths])
    return [arrays, lengths, np.zeros(9, np.int32), np.zeros(32, np.int8), np.zeros(17, np.int8), 0]


def rows() -> list[Any]:
    return [np.arange(9, dtype=np.int32), np.zeros(8, np.int32)]


_SIZES = {"m": 9 * 2**29, "k": 0}
ATTACKS = {
    "rows": Attack("%ends: !tt.ptr<i32>, %o: !tt.ptr<i32>", _ROWS, ("sorted(ends[:])", "0 <= ends[:] <= 8"),
                   {"ends": 9, "o": 8}, _SIZES, rows, "race"),
    "rows beside what needs conditions": Attack(
        "%ends: !tt.ptr<i32>, %o: !tt.ptr<i32>, %z: !tt.ptr<i8>, %y: !tt.ptr<i8>, %k: i32", _ROWS + _CLIMBS,
        ("sorted(ends[:])", "0 <= ends[:] <= 8", "k >= 0", "m >= 1"), {"ends": 9, "o": 8, "z": "m + 9", "y": "k + 9"}, _SIZES,
        lambda: [*rows(), np.zeros(9, np.int8), np.zeros(9, np.int8), 0], "race"),
    "arrays that a table points at": Attack(
        "%tab: !tt.ptr<i64>, %lens: !tt.ptr<i32>, %o: !tt.ptr<i32>, %z: !tt.ptr<i8>, %y: !tt.ptr<i8>, %k: i32", _TABLE,
        ("points(tab[:], 4 * lens[:])", "k >= 0", "m >= 1", "m <= 9 * 2**29"),
        {"tab": 16, "lens": 16, "o": "cdiv(m, 2**29)", "z": "m + 17", "y": "k + 17"}, _SIZES, table, "out-of-bounds"),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ATTACKS)
def test_what_few_programs_load_says_nothing_of_many(name: str) -> None:
    attack = ATTACKS[name]
    proof = attack.kernel.prove(attack.assume, attack.extents, attack.grid)
    prop = "races" if attack.kind == "race" else "bounds"
    own = [each for each in proof.accesses if each.prop == prop]
    assert any(each.verdict in PROVED for each in own)
    assert not all(each.verdict in PROVED and attack.is_said(each.condition) for each in own), proof
    assert attack.kind in {each.kind for each in attack.kernel.sanitize(9, *attack.arguments()).findings}


OTHERS: dict[str, Callable[[Bounds], Any]] = {"races": Races, "overflow": Overflow, "initialised": Initialised}


def verdicts(kernel: Any, given: dict[str, Any], order: Sequence[str]) -> dict[str, list[Found]]:
    """The verdicts of properties that are asked one after the other, of the same terms."""
    specification = Specification.of(given.get("assume", ()), given.get("extents", {}), given.get("grid"))
    with default_modes():
        bounds = Bounds(prepare(kernel._function), specification, specification.parsed(), None, 400_000)
        found = {}
        for prop in order:
            if prop == "bounds":
                found[prop] = [bounds.bounds_of(each) for each in bounds.prepared.accesses]
            else:
                found[prop] = [*OTHERS[prop](bounds).verdicts().values()]
    return found


TABLES = [name for name, each in WRITTEN["specifications"].items() if any("[:]" in text for text in each["assume"])]


def subjects(in_full: bool) -> Iterator[tuple[Any, dict[str, Any]]]:
    for attack in ATTACKS.values():
        yield attack.kernel, {"assume": attack.assume, "extents": attack.extents, "grid": attack.grid}
    for name in TABLES if in_full else ():
        yield read(name), WRITTEN["specifications"][name]


@pytest.mark.slow
@both_tiers
def test_verdicts_do_not_depend_on_what_was_asked_before(in_full: bool) -> None:
    alone = ("bounds", *OTHERS)
    for kernel, given in subjects(in_full):
        expected = {prop: verdicts(kernel, given, (prop,))[prop] for prop in (alone if in_full else ("races",))}
        for order in itertools.permutations(alone) if in_full else (("overflow", "races"),):
            found = verdicts(kernel, given, order)
            assert {prop: found[prop] for prop in expected} == expected, order


def test_properties_are_told_in_the_order_in_which_they_are_asked() -> None:
    attack = ATTACKS["rows"]
    known = {}
    for order in (PROPERTIES, PROPERTIES[::-1], ("overflow", "races")):
        proof = attack.kernel.prove(attack.assume, attack.extents, attack.grid, order)
        assert [*dict.fromkeys(each.prop for each in proof.accesses)] == [each for each in order if "loops" not in each]
        for each in proof.accesses:
            assert known.setdefault((each.prop, each.line), each) == each


# Keys


class Checked:
    """Makes the facts, range and meaning of each atom and flag again wherever somebody asks for it, and compares them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self._depth = 0
        atom, flag = Terms.atom, Terms.flag

        def atom_again(
            terms: Terms, key: Hashable, name: str, low: int | None = None, high: int | None = None,
            depends: Iterable[Hashable] = (), facts: Callable[[Polynomial], Sequence[Formula]] | None = None,
            meaning: Meaning | None = None,
        ) -> Polynomial:  # fmt: skip
            number = terms._numbers.get(key)
            if number is not None and name and self._depth < 2:
                own, made = terms.atoms[number], variable(number)
                assert (own.low, own.high, own.depends) == (low, high, frozenset(depends)), key
                if facts is not None:
                    found = self._again(facts, made)
                    assert own.facts == tuple([each for each in found if not isinstance(each, Truth)]), key
            return atom(terms, key, name, low, high, depends, facts, meaning)

        def flag_again(
            terms: Terms, key: Hashable, name: str, depends: Iterable[Hashable] = (),
            facts: Callable[[Formula], Sequence[Formula]] | None = None,
        ) -> int:  # fmt: skip
            number = terms._flags.get(key)
            if number is not None and self._depth < 2:
                assert terms.flag_depends(number) == frozenset(depends), key
            return flag(terms, key, name, depends, facts)

        patch.setattr(Terms, "atom", atom_again)
        patch.setattr(Terms, "flag", flag_again)

    def _again(self, facts: Callable[[Polynomial], Sequence[Formula]], made: Polynomial) -> Sequence[Formula]:
        self.asked += 1
        self._depth += 1
        try:
            return facts(made)
        finally:
            self._depth -= 1


@both_tiers
def test_the_key_of_an_atom_holds_all_that_its_facts_are_made_of(monkeypatch: pytest.MonkeyPatch, in_full: bool) -> None:
    checked = Checked(monkeypatch)
    for attack in ATTACKS.values() if in_full else [ATTACKS["rows"]]:
        attack.kernel.prove(attack.assume, attack.extents, attack.grid, PROPERTIES[::-1])
    for name in WITH_DATA if in_full else ("desc_gather_scatter",):
        given = WRITTEN["specifications"].get(name)
        if given is None:
            case = Case(name)
            read(name).prove.like(tuple(case.facts["grid"]), *case.arguments()[0], properties=PROPERTIES[::-1])
        else:
            read(name).prove(**given, properties=PROPERTIES[::-1])
    assert checked.asked > (1000 if in_full else 20)


def test_a_key_that_leaves_something_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    Checked(monkeypatch)
    terms = Terms()
    x = terms.atom("x", "x")
    made = [terms.atom("next", "next", 0, 9, (), lambda made: (equal(made, x + 1),)) for _ in range(2)]
    assert made[0] == made[1]
    with pytest.raises(AssertionError, match="next"):
        terms.atom("next", "next", 0, 9, (), lambda made: (equal(made, x + 2),))
    with pytest.raises(AssertionError, match="next"):
        terms.atom("next", "next", 0, 8, (), lambda made: (equal(made, x + 1),))


def test_an_atom_is_one_number_of_memory() -> None:
    terms = Terms()
    order = Order(True, False, 4, constant(9))
    one, two = [Meaning(0, Element(0, constant(at), TRUE, order)) for at in (0, 4)]
    made = terms.atom("v", "v", 0, 9, (PROGRAM,), meaning=one)
    assert terms.atom("v", "v", 0, 9, (PROGRAM,), meaning=one) == made
    for other in (two, None, Meaning(0), Meaning(1, one.element), Meaning(0, one.element, -2)):
        with pytest.raises(InternalError, match="two different numbers"):
            terms.atom("v", "v", 0, 9, (PROGRAM,), meaning=other)
    p = terms.atom("p", "p", 0, 9, (PROGRAM,))
    with pytest.raises(InternalError, match="where w is loaded depends on more"):
        terms.atom("w", "w", 0, 9, (), meaning=Meaning(0, Element(0, p * 4, TRUE, order)))
    assert terms.elements == {0: one.element}
