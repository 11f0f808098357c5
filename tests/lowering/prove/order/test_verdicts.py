"""What is said of the order of lanes: by kernels with a barrier, without one, and with one in the wrong place."""

from __future__ import annotations

import joinery as jn
import pytest

pytest.importorskip("z3")

from ....support.proving.makers.ordering_kernels import (
    Barrier,
    Choice,
    Loop,
    Statement,
    Touch,
    broken,
    prove,
)

STORE, LOAD, OWN = Touch(1, "store"), Touch(2, "load", step=-1, base=31), Touch(2, "load")
SCALAR, LOADED = Touch(1, "store", is_scalar=True), Touch(2, "load", is_scalar=True)
WAIT = Barrier()
AHEAD = Touch(2, "load", base=1)
RUNS = Loop((WAIT,), has_condition=True)
UPDATE = Touch(1, "update", is_used=False)

CASES: dict[str, tuple[tuple[Statement, ...], str]] = {
    "another lane's element": ((STORE, LOAD), "refuted"),
    "another lane's, behind a barrier": ((STORE, WAIT, LOAD), "proven"),
    "a barrier before both": ((WAIT, STORE, LOAD), "refuted"),
    "a barrier behind both": ((STORE, LOAD, WAIT), "refuted"),
    "its own element": ((STORE, OWN), "unknown"),
    "its own element, behind a barrier": ((STORE, WAIT, OWN), "proven"),
    "in place": ((UPDATE,), "proven"),
    "in place, and used elsewhere": ((Touch(1, "update"),), "unknown"),
    "in place, of one element": ((Touch(1, "update", step=0, is_used=False),), "unknown"),
    "in place, twice": ((UPDATE, Touch(2, "update", is_used=False)), "unknown"),
    "in place, twice, with a barrier": ((UPDATE, WAIT, Touch(2, "update", is_used=False)), "proven"),
    "loaded, and something else stored": ((OWN, Touch(1, "store")), "unknown"),
    "read before it is written": ((LOAD, STORE), "unknown"),
    "written twice": ((STORE, Touch(2, "store", step=-1, base=31)), "unknown"),
    "written twice, by one lane": ((STORE, Touch(2, "store")), "unknown"),
    "read twice": ((OWN, Touch(1, "load", step=-1, base=31)), "proven"),
    "masks that keep lanes apart": ((Touch(1, "store", high=16), Touch(2, "load", step=-1, base=31, high=16)), "proven"),
    "masks that do not": ((Touch(1, "store", high=17), Touch(2, "load", step=-1, base=31, high=17)), "refuted"),
    "one element for all lanes": ((STORE, Touch(2, "load", step=0)), "refuted"),
    "a scalar for a block": ((SCALAR, OWN), "refuted"),
    "a scalar": ((SCALAR, LOADED), "unknown"),
    "a scalar, behind a barrier": ((SCALAR, WAIT, LOADED), "proven"),
    "a scalar in place": ((Touch(1, "update", is_scalar=True, is_used=False),), "proven"),
    "a scalar in place, and used elsewhere": ((Touch(1, "update", is_scalar=True),), "unknown"),
    "a scalar written twice": ((SCALAR, Touch(2, "store", is_scalar=True)), "proven"),
    "a scalar written and updated": ((SCALAR, Touch(2, "take", is_scalar=True)), "proven"),
    "a scalar elsewhere": ((Touch(1, "store", is_scalar=True, base=32), OWN), "proven"),
    "a loop with a barrier": ((Loop((STORE, WAIT, LOAD)),), "unknown"),
    "a loop with two barriers": ((Loop((STORE, WAIT, LOAD, WAIT)),), "proven"),
    "a loop of own elements": ((Loop((UPDATE,)),), "unknown"),
    "a loop of own elements, with a barrier": ((Loop((UPDATE, WAIT)),), "proven"),
    "a loop in place that goes on": ((Loop((Touch(1, "update", stride=32, is_used=False),)),), "proven"),
    "a loop that goes on": ((Loop((Touch(1, "store", stride=64), Touch(2, "load", stride=64, base=32))),), "proven"),
    "loads that are fetched ahead of barriers": ((Loop((STORE, Choice(0, (WAIT,), (WAIT,)), LOAD)),), "open"),
    "of barriers of loops": ((Loop((OWN, RUNS, STORE, RUNS)),), "unknown"),
    "of barriers of a loop around": ((Loop((Choice(0, (WAIT,), (WAIT,)), Loop((STORE, WAIT, LOAD, WAIT)))),), "open"),
    "of barriers of loops around, and inside": ((Loop((WAIT, Loop((STORE, WAIT, LOAD, WAIT)))),), "proven"),
    "no loads": ((Loop((STORE, Choice(0, (WAIT,), (WAIT,)))),), "proven"),
    "a loop that reads what the one before wrote": (
        (Loop((Touch(1, "store", stride=32, base=32), Touch(2, "load", stride=32, step=-1, base=31))),), "refuted",
    ),
    "a loop that writes over what it wrote": ((Loop((Touch(1, "store", stride=16),)),), "unknown"),
    "a loop with a condition": ((Loop((STORE, WAIT, LOAD, WAIT), has_condition=True),), "proven"),
    "a loop with a condition, and one barrier": ((Loop((STORE, WAIT, LOAD), has_condition=True),), "unknown"),
    "a barrier in a loop that may not run": ((STORE, Loop((WAIT,)), LOAD), "open"),
    "a barrier in a loop that runs": ((STORE, Loop((WAIT,), has_condition=True), LOAD), "proven"),
    "a barrier in one branch": ((STORE, Choice(2, (WAIT,), ()), LOAD), "open"),
    "a barrier in each branch": ((STORE, Choice(2, (WAIT,), (WAIT,)), LOAD), "proven"),
    "two branches": ((Choice(2, (STORE,), (LOAD,)),), "proven"),
    "additions": ((Touch(1, "add", step=0), Touch(2, "add", is_scalar=True)), "proven"),
    "an addition whose result is used": ((Touch(1, "add"), Touch(2, "take", step=-1, base=31)), "unknown"),
    "an addition and a load": ((Touch(1, "add"), LOAD), "unknown"),
    "a scalar's addition and its load": ((Touch(1, "add", is_scalar=True), LOADED), "unknown"),
    "an addition and a load, behind a barrier": ((Touch(1, "add"), WAIT, LOAD), "proven"),
    "the next lane's": ((Loop((AHEAD, STORE)),), "refuted"),
    "a size that keeps lanes apart": ((STORE, Touch(2, "load", step=-1, base=63, times=32)), "proven"),
    "a size of 0, too": ((STORE, Touch(2, "load", step=-1, base=31, times=32)), "refuted"),
}
"""Statements and the verdict: "open" where a launch that is tried may be one with the barrier."""


@pytest.mark.one_in(19)
@pytest.mark.parametrize("name", CASES)
def test_verdicts_are_those_that_are_right(name: str) -> None:
    body, verdict = CASES[name]
    proof = prove(body)
    assert proof.verdict("order") in (("refuted", "unknown") if verdict == "open" else (verdict,)), proof
    assert (broken(body) == set()) == (verdict == "proven")


def test_a_refuted_access_has_a_launch_and_both_lanes() -> None:
    proof = prove((STORE, LOAD))
    store, load = [each for each in proof.accesses if each.line.startswith("k:")]
    example = load.counterexample
    assert example is not None
    assert (example.finding.kind, example.finding.lane, example.finding.origin) == ("lane-race", (0,), "k:1:1")
    assert "lane [31] wrote at k:1:1" in example.finding.message
    assert store.counterexample == example


def test_what_no_launch_shows_is_shown_by_the_formula() -> None:
    (access, *_) = prove((LOAD, STORE)).accesses
    assert access.verdict == "unknown"
    assert "shown by the formula alone: n = " in access.reason
    assert "fix: tl.debug_barrier() between" in access.reason


def test_races_are_not_those_of_the_order() -> None:
    """The launch that refutes the order is one of the sanitizer's lanes; without that property it is not asked for barriers."""
    kernel = _kernel("tt.store %p, %r : tensor<128x!tt.ptr<i32>>\n%v = tt.load %q : tensor<128x!tt.ptr<i32>>")
    proof = kernel.prove(extents={"o": 128}, grid=1, properties=("races", "order"))
    assert (proof.verdict("races"), proof.verdict("order")) == ("proven", "refuted")
    assert kernel.prove(extents={"o": 128}, grid=1).ok
    assert not any(each.startswith("order") for each in kernel.prove(extents={"o": 128}, grid=1).trusted)


def test_what_a_proof_rests_on_is_printed() -> None:
    proof = prove((UPDATE,))
    assert any(each.startswith("order: one thread stores a lane") for each in proof.trusted)
    assert any("num_ctas = 1" in each and "whatever the other lines say" in each for each in proof.trusted)
    assert "different layouts" in prove((STORE, OWN)).accesses[0].reason
    assert "in the body of the loop itself" in prove((Loop((STORE, OWN)),)).accesses[0].reason


def test_a_number_that_changes_while_it_is_loaded_is_none() -> None:
    """Threads may go to different places with it, although the term of the address is one number."""
    body = """tt.store %o, %c1 : !tt.ptr<i32>
%s = tt.load %o : !tt.ptr<i32>
%eight = arith.constant 8 : i32
%seven = arith.constant 7 : i32
%k = arith.andi %s, %seven : i32
%l = arith.addi %k, %eight : i32
%a = tt.addptr %o, %l : !tt.ptr<i32>, i32
BETWEENtt.store %a, %c1 : !tt.ptr<i32>"""
    for between, verdict in (("", "unknown"), ("ttg.barrier all\n", "proven")):  # that is in an order, wherever it is
        proof = _kernel(body.replace("BETWEEN", between)).prove(extents={"o": 128}, grid=1, properties=("order",))
        assert (proof.verdict("order"), proof.accesses[-1].verdict) == ("unknown", verdict)
        assert between or "loaded while it changes" in proof.accesses[-1].reason
    proof = _kernel("ttg.barrier all\n".join(body.replace("BETWEEN", "").split("%s", 1)).replace("all\n =", "all\n%s ="))
    assert proof.prove(extents={"o": 128}, grid=1, properties=("order",)).verdict("order") == "proven"


def test_what_is_not_modelled_is_unknown() -> None:
    """Blocks in a circle run again, and what is not inside its array may meet anything."""
    circle = """cf.br ^head(%c0 : i32)
^head(%i: i32):
  tt.store %p, %r : tensor<128x!tt.ptr<i32>>
  ttg.barrier all
  %j = arith.addi %i, %c1 : i32
  %go = arith.cmpi slt, %j, %c1 : i32
  cf.cond_br %go, ^head(%j : i32), ^end
^end:"""
    proof = _kernel(circle).prove(extents={"o": 128}, grid=1, properties=("order",))
    assert proof.verdict("order") == "unknown"
    assert "branches lead back" in proof.accesses[0].reason
    stray = _kernel("tt.store %p, %r : tensor<128x!tt.ptr<i32>>").prove(extents={"o": 127}, grid=1, properties=("order",))
    assert stray.verdict("order") == "unknown"


BLOCKS = """cf.cond_br %GO, ^one, ^two
^one:
  ONE
  cf.br ^last
^two:
  TWO
  cf.br ^last
^last:
  LAST
"""


@pytest.mark.parametrize(
    ("one", "two", "is_proven"),
    [("ttg.barrier all", "ttg.barrier all", True), ("ttg.barrier all", "", False), ("", "ttg.barrier all", False),
     ("ttg.barrier local", "ttg.barrier all", False), ("gpu.barrier", "gpu.barrier", True)],
)  # fmt: skip
def test_barriers_in_blocks(one: str, two: str, is_proven: bool) -> None:
    store, load = "tt.store %p, %r : tensor<128x!tt.ptr<i32>>", "%v = tt.load %q : tensor<128x!tt.ptr<i32>>"
    body = "%go = arith.cmpi sgt, %n, %c0 : i32\n" + BLOCKS.replace("%GO", "%go")
    body = f"{store}\n{body.replace('ONE', one).replace('TWO', two).replace('LAST', load)}"
    proof = _kernel(body).prove(extents={"o": 128}, grid=1, properties=("order",))
    assert (proof.verdict("order") == "proven") == is_proven


def test_descriptors_and_divided_loops_wait_at_no_barrier() -> None:
    text = """tt.func public @f(%d: !tt.tensordesc<tensor<128xi32>>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %v = tt.descriptor_load %d[%c0] : !tt.tensordesc<tensor<128xi32>> -> tensor<128xi32>
  ttg.barrier all
  tt.descriptor_store %d[%c0], %v : !tt.tensordesc<tensor<128xi32>>, tensor<128xi32>
  tt.return
}"""
    proof = jn.kernel.from_ttir(text).prove(extents={"d": 128}, grid=1, properties=("order",))
    assert proof.verdict("order") == "unknown"
    assert "copies by descriptors" in proof.accesses[0].reason
    body = """scf.for %i = %c0 to %n step %c1 : i32 {
  tt.store %p, %r : tensor<128x!tt.ptr<i32>>
  ttg.barrier all
}MORE"""
    for more, verdict in (("", "proven"), (" {tt.warp_specialize}", "unknown")):
        made = _kernel(body.replace("MORE", more)).prove(extents={"o": 128}, grid=1, properties=("order",))
        assert made.verdict("order") == verdict


def test_a_stored_proof_is_verified() -> None:
    kernel = _kernel("tt.store %p, %r : tensor<128x!tt.ptr<i32>>\nttg.barrier all\n%v = tt.load %q : tensor<128x!tt.ptr<i32>>")
    proof = kernel.prove(extents={"o": 128}, grid=1, properties=("order",))
    assert kernel.prove.verify(proof.as_json()).verdict("order") == "proven"
    assert "order" in proof.as_html()


def test_many_accesses_are_answered() -> None:
    stores = "tt.store %o, %c1 : !tt.ptr<i32>\n" * 70
    proof = _kernel(stores).prove(extents={"o": 128}, grid=1, properties=("order",))
    assert proof.verdict("order") == "unknown"
    assert "pairs of accesses to its array" in proof.accesses[0].reason


def _kernel(body: str) -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(f"""tt.func public @f(%o: !tt.ptr<i32>, %n: i32) {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = tt.make_range {{end = 128 : i32, start = 0 : i32}} : tensor<128xi32>
  %last = arith.constant dense<127> : tensor<128xi32>
  %back = arith.subi %last, %r : tensor<128xi32>
  %p0 = tt.splat %o : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>>
  %p = tt.addptr %p0, %r : tensor<128x!tt.ptr<i32>>, tensor<128xi32>
  %q = tt.addptr %p0, %back : tensor<128x!tt.ptr<i32>>, tensor<128xi32>
  {body}
  tt.return
}}""")
