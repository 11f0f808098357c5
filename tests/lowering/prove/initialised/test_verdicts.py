"""What a verdict of "initialised" has: what refutes it, its reason, what it relies on, and what a proof prints and keeps."""

from __future__ import annotations

import json
from typing import Any

import joinery as jn
import pytest

pytest.importorskip("z3")

from ....support.proving.makers.undefined_cases import CASES, UndefinedCase, text_of

_EXTENTS = {"x": 8, "y": 8, "o": 8}


def prove(name: str | UndefinedCase) -> tuple[jn.kernel.Kernel, Any]:
    kernel = jn.kernel.from_ttir(text_of(CASES[name] if isinstance(name, str) else name))
    return kernel, kernel.prove(extents=_EXTENTS, grid=1, properties=("initialised",))


def test_what_refutes_it_is_a_launch_with_its_finding() -> None:
    _, proof = prove("stored without a mask")
    (refuted,) = proof.refuted
    assert refuted.counterexample.finding.kind == "uninitialised"
    assert dict(refuted.counterexample.sizes)["n"] < 8
    assert "the stored value is undefined" in str(proof)
    assert proof.verdict("initialised") == "refuted"


@pytest.mark.parametrize(("condition", "verdict"), [("n >= 8", "proven"), ("n >= 7", "refuted")])
def test_assumptions_count(condition: str, verdict: str) -> None:
    kernel = jn.kernel.from_ttir(text_of(CASES["stored without a mask"]))
    assert kernel.prove([condition], _EXTENTS, 1, ("initialised",)).verdict("initialised") == verdict


def test_what_decides_a_branch_refutes_what_is_inside() -> None:
    body = (
        "%c = tt.load %x, %some : !tt.ptr<i32>\n%bit = arith.cmpi slt, %c, %one : i32\nscf.if %bit {\n"
        "tt.store %y, %one : !tt.ptr<i32>\n}\n%r = arith.addi %v, %zeros : tensor<8xi32>"
    )
    _, proof = prove(UndefinedCase(body, "", "wrong"))
    inside, last = proof.accesses[-2:]
    assert inside.verdict == "refuted"
    assert "the branch condition is undefined" in inside.counterexample.finding.message
    assert (last.verdict, last.reason.partition(" is not shown")[0].partition(" of ")[0]) == ("unknown", "the condition")


def test_what_is_read_again_relies_on_what_was_written() -> None:
    _, proof = prove("what is stored and loaded again")
    *_, first, read, last = proof.accesses
    assert [each.verdict for each in (first, read, last)] == ["refuted", "proven", "unknown"]
    assert "it relies on what memory holds, perhaps by tt.store" in last.reason


_ATOMICS = {
    "add": ("%q = tt.atomic_rmw add, relaxed, gpu, %to, %v : (TP, TI) -> TI", "unknown"),
    "compare and swap": ("%q = tt.atomic_cas relaxed, gpu, %o, %none, %one : (!tt.ptr<i32>, i32, i32) -> i32", "unknown"),
    "wait": (
        "%t = arith.extsi %one : i32 to i64\n%q = tt.atomic_poll acquire, gpu, %o, %one timeout %t : !tt.ptr<i32>, i32 -> i1",
        "unknown",
    ),
    "exchange": ("%q = tt.atomic_rmw exch, relaxed, gpu, %to, %v : (TP, TI) -> TI", "proven"),
    "add elsewhere": ("%q = tt.atomic_rmw add, relaxed, gpu, %at, %v : (TP, TI) -> TI", "proven"),
}


@pytest.mark.parametrize("name", _ATOMICS)
def test_an_atomic_relies_on_what_memory_holds_that_it_updates(name: str) -> None:
    """The sum of what a store left undefined and something else was proven to be defined."""
    atomic, verdict = _ATOMICS[name]
    atomic = atomic.replace("TP", "tensor<8x!tt.ptr<i32>>").replace("TI", "tensor<8xi32>")
    body = (
        "%ys = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>\n"
        "%to = tt.addptr %ys, %lanes : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
        f"tt.store %to, STORED : tensor<8x!tt.ptr<i32>>\n{atomic}\n%r = arith.addi %v, %zeros : tensor<8xi32>"
    )
    _, proof = prove(UndefinedCase(body.replace("STORED", "%u"), "", verdict))
    *_, stored, updated, last = proof.accesses
    assert [each.verdict for each in (stored, updated, last)] == ["refuted", verdict, "proven"]
    assert verdict == "proven" or "it relies on what memory holds, perhaps by tt.store" in updated.reason
    assert prove(UndefinedCase(body.replace("STORED", "%v"), "", "proven"))[1].ok


def test_a_reason_says_where_it_comes_from() -> None:
    _, proof = prove("scanned")
    assert proof.accesses[-1].verdict == "unknown"
    reason = proof.accesses[-1].reason
    assert reason.startswith("the stored value is not shown to be defined: it may come from a lane that tt.load")


def test_a_proof_of_it_prints_what_it_trusts_and_is_verified_again() -> None:
    kernel, proof = prove("stored by the same mask")
    assert "all that memory holds when the launch begins is defined, also beyond the arrays" in proof.trusted
    assert kernel.prove.verify(proof.as_json()).verdict("initialised") == "proven"
    assert "initialised" in proof.as_html()
    data = json.loads(prove("stored by another mask")[1].as_json())
    data["verdicts"]["initialised"] = "proven"
    other = jn.kernel.from_ttir(text_of(CASES["stored by another mask"]))
    with pytest.raises(jn.UserError, match="verdicts differ"):
        other.prove.verify(json.dumps(data))


def test_what_a_descriptor_is_made_of_has_to_be_defined() -> None:
    kernel = jn.kernel.from_ttir("""tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %b: i1) {
  %n = tt.load %x, %b : !tt.ptr<i32>
  %c = arith.constant 8 : i32
  %i = arith.constant 0 : i32
  %s = arith.constant 1 : i64
  %d = tt.make_tensor_descriptor %o, [%n], [%s] : <i32>, <8xi32>
  %v = arith.constant dense<1> : tensor<8xi32>
  tt.descriptor_store %d[%i], %v : !tt.tensordesc<8xi32>, tensor<8xi32>
  tt.return
}""")
    proof = kernel.prove(extents={"x": 1, "o": 8}, grid=1, properties=("initialised",))
    assert {each.verdict for each in proof.accesses} == {"unknown"}
    assert "may be undefined, and is not followed" in proof.accesses[-1].reason
