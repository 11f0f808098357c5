"""What readers found proven wrongly is proven no more, and the launches that show it are there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import joinery as jn
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.initialised.verdicts import Initialised
from joinery.lowering.prove.preparation import prepare
from joinery.lowering.prove.prover import Prover
from joinery.lowering.prove.specify.specification import Specification
from joinery.promotion.float_modes import default_modes

from ....support.proving.differential import PROVED
from ....support.proving.makers.undefined.wrong_once import CARRIED, EXPANDED, WITHOUT_ACCESSES, text_of_wrong
from ....support.proving.makers.undefined_cases import findings_of

_EXTENTS = {"x": 8, "y": 8, "o": 8}
_WRONG = CARRIED | EXPANDED


def prove(kernel: jn.kernel.Kernel) -> Any:
    return kernel.prove(extents=_EXTENTS, grid=1, properties=("initialised",))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", _WRONG)
def test_what_launches_find_is_not_proven(name: str) -> None:
    kernel = jn.kernel.from_ttir(text_of_wrong(_WRONG[name]))
    proof, found = prove(kernel), [*findings_of(kernel)]
    assert found
    assert proof.verdict("initialised") in ("unknown", "refuted")
    assert {each.line for each in proof.accesses if each.verdict in PROVED}.isdisjoint(found)


@pytest.mark.parametrize("name", WITHOUT_ACCESSES)
def test_a_kernel_without_accesses_is_not_proven_whatever_it_asserts(name: str) -> None:
    kernel = jn.kernel.from_ttir(WITHOUT_ACCESSES[name])
    found = kernel.sanitize(1, 2, 1).findings
    assert [each.kind for each in found] == ["uninitialised"]
    proof = kernel.prove(grid=1, properties=("initialised",))
    (row,) = proof.accesses
    assert not proof.ok
    assert row.line == found[0].line
    if name == "switched":
        assert "may be undefined, and is not followed" in row.reason
    else:
        assert row.verdict == "refuted"
        assert row.counterexample is not None
        assert "is undefined" in row.counterexample.finding.message
    assert kernel.prove.verify(proof.as_json()).verdict("initialised") == proof.verdict("initialised")


def test_what_is_asserted_and_defined_is_proven() -> None:
    text = WITHOUT_ACCESSES["asserted"].replace("ub.poison : i1", "arith.cmpi slt, %n, %m : i32")
    assert jn.kernel.from_ttir(text).prove(grid=1, properties=("initialised",)).ok


@pytest.mark.parametrize("assertion", ['tt.assert %bit, "" : i1', 'cf.assert %bit, ""', "llvm.intr.assume %bit : i1"])
def test_what_is_asserted_has_a_verdict_beside_the_accesses(assertion: str) -> None:
    body = f"%c = tt.load %x, %some : !tt.ptr<i32>\n%bit = arith.cmpi slt, %c, %one : i32\n{assertion}\n"
    proof = prove(jn.kernel.from_ttir(text_of_wrong(f"{body}%r = arith.addi %v, %zeros : tensor<8xi32>")))
    *accesses, asserted = proof.accesses
    assert {each.verdict for each in accesses} == {"unknown"}
    assert (asserted.operation, asserted.verdict) == (assertion.split()[0], "refuted")


_CALLS = """module {
tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32, %m: i32) {
  %some = arith.cmpi slt, %n, %m : i32
  %lanes = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
  %sevens = arith.constant dense<7> : tensor<8xi32>
  %last = arith.cmpi eq, %lanes, %sevens : tensor<8xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %at = tt.addptr %xs, %lanes : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  %u = tt.load %at, %last : tensor<8x!tt.ptr<i32>>
  %c = tt.load %x, %some : !tt.ptr<i32>
  %of_last = "tt.reduce"(%u) <{axis = 0 : i32}> ({
  ^bb0(%e: i32, %f: i32):
    %twice = arith.addi %f, %f : i32
    tt.reduce.return %twice : i32
  }) : (tensor<8xi32>) -> i32
  tt.call @h(%o, %n) : (!tt.ptr<i32>, i32) -> ()
  tt.call @h(%o, %of_last) : (!tt.ptr<i32>, i32) -> ()
  tt.call @h(%o, %c) : (!tt.ptr<i32>, i32) -> ()
  tt.return
}
tt.func private @h(%p: !tt.ptr<i32>, %c: i32) {
  %one = arith.constant 1 : i32
  %more = arith.cmpi slt, %c, %one : i32
  scf.if %more {
    tt.store %p, %one : !tt.ptr<i32>
  }
  tt.return
}
}
"""


def test_a_finding_of_one_call_refutes_no_access_of_another_one() -> None:
    proof = jn.kernel.from_ttir(_CALLS).prove([], {"x": 8, "o": 8}, 1, ("initialised",))
    stores = [each for each in proof.accesses if each.operation == "tt.store"]
    assert len({each.line for each in stores}) == 3
    for each in stores:
        if each.verdict == "refuted":
            finding = each.counterexample.finding
            assert finding.line.partition(" called at ")[2] == each.line.partition(" called at ")[2]
    assert [each.verdict for each in stores] == ["unknown", "unknown", "refuted"]


def test_verdicts_depend_on_no_access_that_was_asked_before() -> None:
    for body in CARRIED.values():
        kernel = jn.kernel.from_ttir(text_of_wrong(body))
        with default_modes():
            prepared = prepare(kernel._function)
        specification = Specification.of((), _EXTENTS, 1)
        found = []
        for turned in (False, True):
            asked = replace(prepared, accesses=prepared.accesses[::-1] if turned else prepared.accesses)
            bounds = Prover(asked, specification, None)._bounds
            verdicts = Initialised(bounds).verdicts()
            found.append({each.op: (own.verdict, own.level) for each, own in verdicts.items()})
        assert found[0] == found[1]
