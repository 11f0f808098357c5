"""Facts exclude no run: whatever numbers are free in a proof, those that are defined by them exist."""

from __future__ import annotations

import random

import joinery as jn
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.evaluate import contexts
from joinery.lowering.prove.terms.atoms import Terms
from joinery.lowering.prove.terms.polynomials import constant, variable
from joinery.promotion.errors import InternalError

from ...support.proving.attacks_mended import ATTACKS
from ...support.proving.consistency import check
from ...support.proving.differential import MAKERS

SUBJECTS = [name for name, each in ATTACKS.items() if each.prop == "bounds"]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", SUBJECTS)
def test_facts_of_attacks_exclude_no_run(name: str) -> None:
    subject = ATTACKS[name]
    extents = {name: str(size) for name, size in subject.extents.items()}
    assert check(subject.text, subject.assume, extents, (str(subject.grid),), random.Random(1)) == ""


def random_kernels(kind: str, first: int, count: int) -> None:
    for seed in range(first, first + count):
        rng = random.Random(seed)
        subject = MAKERS[kind](rng)
        try:
            assert check(subject.text, subject.assume, subject.extents, subject.grid, rng) == "", f"{kind} {seed}"
        except jn.UserError:
            continue  # an assumption about an array that is written, or that contradicts another one


@pytest.mark.one_in(8)
@pytest.mark.parametrize("kind", MAKERS)
def test_facts_of_random_kernels_exclude_no_run(kind: str) -> None:
    random_kernels(kind, 0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("first", range(0, 400, 50))
def test_facts_of_many_random_kernels_exclude_no_run(kind: str, first: int) -> None:
    """`python -m tests.support.proving.consistency idioms SEED COUNT` tries others."""
    random_kernels(kind, first, 50)


def test_a_fact_of_what_is_never_reached_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a loop that is never reached any step is shown to be 1 or more; a bound of the iterations by it is none."""
    monkeypatch.setattr(contexts, "_is_positive", lambda ev, step: ev.is_shown(contexts.at_least(step, 1)))
    subject = ATTACKS["a quotient by a step of -3 in a loop that is never reached"]
    with pytest.raises(InternalError, match="quotient by -3"):
        check(subject.text, subject.assume, {"x": "1"}, ("1",), random.Random(1))


def test_numbers_that_cannot_be_are_refused() -> None:
    terms = Terms()
    for divisor in (0, -3):
        with pytest.raises(InternalError, match=f"quotient by {divisor}"):
            terms.floor_parts(variable(0), constant(divisor))
    with pytest.raises(InternalError, match="no number"):
        terms.atom("x", "x", 3, 2)


def test_an_index_of_a_table_that_is_none_is_in_a_lane_that_nobody_comes_to() -> None:
    made = jn.kernel.from_ttir("""tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %table = arith.constant dense<[0, 1, 2, 3]> : tensor<4xi32>
  %far = arith.constant dense<9> : tensor<4xi32>
  %a = arith.cmpi sgt, %n, %c0 : i32
  %b = arith.cmpi slt, %n, %c0 : i32
  %c = arith.andi %a, %b : i1
  scf.if %c {
    %v = tt.gather %table[%far] {axis = 0 : i32} : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    %xs = tt.splat %x : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %at = tt.addptr %xs, %v : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
    tt.store %at, %v : tensor<4x!tt.ptr<i32>>
  }
  tt.return
}
""")
    assert {each.verdict for each in made.prove((), {"x": 1}, 1, ("bounds",)).accesses} == {"never executed"}
