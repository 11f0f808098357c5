"""Launches in which a number wraps: what a run of one program without arrays sees, against the interpreter with arrays."""

from __future__ import annotations

import contextlib
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove import overflow
from joinery.lowering.prove.preparation import PreparedFunction, prepare
from joinery.lowering.prove.single_programs import COMPUTING, SinglePrograms
from joinery.lowering.tt import types as t
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.op_locations import OpLocations
from joinery.lowering.tt.types import numpy_dtype
from joinery.promotion.errors import InternalError, JoineryError

from ...support.corpus import WITH_DATA, Case, read


def wrapping(prepared: PreparedFunction, ops: list[Any], *launch: Any) -> dict[Any, Any]:
    return SinglePrograms(prepared, ops).run(*launch)


def _kernel(parameters: str, body: str) -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(f"tt.func public @k({parameters}) {{\n{body}\n  tt.return\n}}\n")


def _prepared(kernel: jn.kernel.Kernel) -> PreparedFunction:
    return prepare(kernel._function)


def _computing(prepared: PreparedFunction) -> list[Any]:
    return [op for op in prepared.function.walk() if op.name in COMPUTING and t.bit_width(op.results[0].type) > 1]


_SQUARES = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %p = tt.get_program_id x : i32
  %at = tt.addptr %x, %p : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>
  scf.for %i = %c0 to %m step %c1 : i32 {
    %v = tt.load %at : !tt.ptr<i32>
    %w = arith.muli %v, %v : i32
    tt.store %at, %w : !tt.ptr<i32>
  }"""


@pytest.mark.parametrize(
    ("n", "m", "wraps"), [(46340, 1, False), (46341, 1, True), (10, 3, False), (10, 4, True), (-3, 4, False)]
)
def test_what_a_program_writes_is_what_it_reads_later(n: int, m: int, wraps: bool) -> None:
    assert (abs(n) ** (2**m) >= 2**31) == wraps
    prepared = _prepared(_kernel("%x: !tt.ptr<i32>, %n: i32, %m: i32", _SQUARES))
    many = 1 << 30
    found = wrapping(prepared, _computing(prepared), {"n": n, "m": m}, {"x": many}, (many, 1, 1), {}, (many - 1, 0, 0))
    assert len(found) == wraps
    for finding in found.values():
        assert finding.message.split(" ")[0] == str(abs(n) ** (2 ** (m - 1)))
        assert (finding.program, finding.line) == ((many - 1, 0, 0), "ttir:10")


def test_a_program_ends_where_it_leaves_its_array_and_where_it_does_not_end() -> None:
    prepared = _prepared(_kernel("%x: !tt.ptr<i32>, %n: i32, %m: i32", _SQUARES))
    ops, sizes = _computing(prepared), {"n": 46341, "m": 1}
    assert wrapping(prepared, ops, sizes, {"x": 4}, (5, 1, 1), {}, (3, 0, 0))
    assert not wrapping(prepared, ops, sizes, {"x": 4}, (5, 1, 1), {}, (4, 0, 0))
    assert not wrapping(prepared, ops, sizes, {"x": 4}, (3, 1, 1), {}, (3, 0, 0))  # no program of the grid
    assert not wrapping(prepared, ops, {"n": 1, "m": 2**31 - 1}, {"x": 4}, (3, 1, 1), {}, (0, 0, 0))
    assert not wrapping(prepared, ops, {"n": 2**31, "m": 1}, {"x": 4}, (3, 1, 1), {}, (0, 0, 0))  # no number of the parameter


def test_what_arrays_hold_is_what_is_assumed_of_them() -> None:
    """A table of offsets: without a bound of its elements a sum wraps, with one it does not."""
    made = _kernel("%t: !tt.ptr<i32>, %x: !tt.ptr<i32>, %n: i32", """
  %p = tt.get_program_id x : i32
  %at = tt.addptr %t, %p : !tt.ptr<i32>, i32
  %o = tt.load %at : !tt.ptr<i32>
  %i = arith.addi %o, %p : i32
  %to = tt.addptr %x, %i : !tt.ptr<i32>, i32
  tt.store %to, %p : !tt.ptr<i32>""")
    proof = made.prove(["n >= 1"], {"t": "n", "x": "n"}, "n", ("overflow",))
    (example,) = [each.counterexample for each in proof.refuted]
    ((name, value),) = example.contents
    assert name == "t"
    assert value + example.finding.program[0] >= 2**31
    assert str(value) in example.finding.message
    assert made.prove(["n >= 1", "0 <= t[:] < n", "n <= 2**30"], {"t": "n", "x": "2 * n"}, "n", ("overflow",)).ok


def test_a_condition_comes_with_a_launch_that_breaks_it_and_wraps() -> None:
    made = _kernel("%x: !tt.ptr<i32>, %n: i32, %m: i32", """
  %p = tt.get_program_id x : i32
  %i = arith.muli %p, %m : i32
  %to = tt.addptr %x, %i : !tt.ptr<i32>, i32
  tt.store %to, %p : !tt.ptr<i32>""")
    proof = made.prove(["n >= 1", "m >= 1"], {"x": "n * m"}, "n", ("overflow",))
    (verdict,) = proof.accesses
    assert (verdict.verdict, proof.refuted, proof.ok) == ("proven under", (), False)
    sizes = dict(verdict.counterexample.sizes)
    assert not all(eval(each, {}, sizes) for each in verdict.condition)
    assert (sizes["n"] - 1) * sizes["m"] >= 2**31
    assert "else: " in str(proof)
    assert "a run of that program: overflow: " in str(proof)
    assert proof.as_html().count("overflow: ") >= 1


def test_a_proof_under_conditions_in_which_a_number_wraps_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a rule were wrong wherever there is a condition."""
    asked = overflow.Overflow._problem
    monkeypatch.setattr(overflow.Overflow, "_problem", lambda own, op, level: "" if level else asked(own, op, level))
    made = _kernel("%x: !tt.ptr<i32>, %n: i32, %m: i32", """
  %i = arith.muli %n, %m : i32
  %to = tt.addptr %x, %i : !tt.ptr<i32>, i32
  tt.store %to, %n : !tt.ptr<i32>""")
    with pytest.raises(InternalError, match="a number wraps there"):
        made.prove(["n >= 1", "m >= 1"], {"x": "k"}, 1, ("overflow",))


class _Ended(Exception):
    pass


@pytest.mark.parametrize("name", WITH_DATA)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.one_in(120)
def test_the_first_program_of_the_corpus_wraps_where_it_does_with_arrays(seed: int, name: str) -> None:
    """The interpreter runs it with arrays that are there; with the sizes of the corpus, and with large ones, which wrap."""
    case, kernel = Case(name), read(name)
    prepared = _prepared(kernel)
    launch = kernel.prove.launch(tuple(case.facts["grid"]), *case.arguments()[0])
    rng = np.random.default_rng(seed)
    contents = {each: int(rng.integers(-3, 4)) for each in launch.contents}
    sizes = {each: int(2 ** rng.integers(20, 31)) if seed and rng.random() < 0.4 else n for each, n in launch.numbers.items()}
    ops = _computing(prepared)
    found = wrapping(prepared, ops, sizes, launch.elements, launch.grid, contents, (0, 0, 0))
    arguments = []
    for each in prepared.parameters:
        dtype = numpy_dtype(t.pointee(each.type) if each.is_array else each.type)
        if each.is_array:
            dtype = np.dtype(np.uint8) if dtype == np.bool_ else dtype
            arguments.append(np.full(launch.elements.get(each.name, 0), contents.get(each.name, 0)).astype(dtype))
        else:
            arguments.append(dtype.type(sizes.get(each.name, 1)))
    texts = OpLocations(prepared.function)
    watched = {texts.text(op) for op in ops}
    seen, steps = set(), 0

    def look(step: Any) -> None:
        nonlocal steps
        steps += 1
        if step.program != (0, 0, 0) or steps > 20_000:
            raise _Ended
        if step.text in watched:
            x, y = [np.asarray(each).astype(object) for each in (step.operands[0], step.operands[-1])]
            exact = {
                "arith.addi": lambda: x + y, "arith.subi": lambda: x - y, "arith.muli": lambda: x * y,
                "arith.shli": lambda: x * 2 ** np.clip(y, 0, 300), "arith.trunci": lambda: x, "math.absi": lambda: abs(x),
            }[step.name]()  # fmt: skip
            if (exact != np.asarray(step.results[0]).astype(object)).any():
                seen.add(step.text)

    with contextlib.suppress(_Ended, JoineryError):
        interpret(prepared.function, launch.grid, arguments, trace=look)
    wraps = {each.operation for each in found.values()}
    assert wraps == seen or (steps > 1000 and wraps < seen)  # a program that is long ends early


def test_numbers_that_are_read_as_unsigned_are_not_refuted() -> None:
    """2**31 - 1 + 5 fits 32 bits without a sign, and so does what -1 is there."""
    for made in ("arith.addi %n, %c5", "arith.subi %n, %c5"):
        kernel = _kernel("%x: !tt.ptr<i32>, %n: i32", f"""
  %c5 = arith.constant 5 : i32
  %c7 = arith.constant 7 : i32
  %s = {made} : i32
  %m = arith.cmpi ult, %s, %c7 : i32
  tt.store %x, %n, %m : !tt.ptr<i32>""")
        (verdict,) = kernel.prove(["n >= 0"], {"x": 1}, 1, ("overflow",)).accesses
        assert verdict.verdict in ("unknown", "proven under")
        assert verdict.counterexample is None


_SCALED = """
  %c0 = arith.constant dense<0> : tensor<16xi32>
  %lanes = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %ns = tt.splat %n : i32 -> tensor<16xi32>
  %m = arith.cmpi slt, %lanes, %ns : tensor<16xi32>
  %is = tt.splat %idx : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %ia = tt.addptr %is, %lanes : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
  %j = LOAD
  %ss = tt.splat %s : i32 -> tensor<16xi32>
  %js = arith.muli %j, %ss : tensor<16xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %xa = tt.addptr %xs, %js : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
  tt.store %xa, %lanes, %m : tensor<16x!tt.ptr<i32>>"""
_LOADS = {
    "load": "tt.load %ia, %m : tensor<16x!tt.ptr<i32>>",
    "atomic": "tt.atomic_rmw add, acq_rel, gpu, %ia, %c0, %m : "
    "(tensor<16x!tt.ptr<i32>>, tensor<16xi32>, tensor<16xi1>) -> tensor<16xi32>",
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", _LOADS)
def test_what_no_lane_defines_refutes_nothing(kind: str) -> None:
    """Lanes that are masked off may hold any number, and its product with 3 may wrap; those that are read do not."""
    made = _kernel("%idx: !tt.ptr<i32>, %x: !tt.ptr<i32>, %n: i32, %s: i32", _SCALED.replace("LOAD", _LOADS[kind]))
    launches: Any = {"extents": {"idx": "n", "x": "3000"}, "grid": 1, "properties": ("overflow",)}
    small = () if kind == "atomic" else ("500 <= idx[:] < 1000",)  # the atomic writes there, so nothing is assumed
    for sizes in (["1 <= n <= 15", "s == 3"], ["n == 5", "s >= 2**30"]):
        found = made.prove([*sizes, *small], **launches).refuted
        assert all(each.counterexample.finding.lane < (dict(each.counterexample.sizes)["n"],) for each in found)
        assert kind == "atomic" or bool(found) == (sizes[0] == "n == 5")


def test_an_array_ends_before_the_addresses_of_the_next_one() -> None:
    """An offset of 2**59 bytes led into another array, and numbers of that one were taken for those of the first."""
    made = _kernel("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %z: !tt.ptr<i32>, %n: i32, %m: i32", """
  %c = arith.constant 144115188075855872 : i64
  %c0 = arith.constant 0 : i32
  %a = tt.addptr %x, %c : !tt.ptr<i32>, i64
  %v = tt.load %a : !tt.ptr<i32>
  %w1 = arith.addi %v, %m : i32
  %w2 = arith.addi %v, %n : i32
  %k1 = arith.cmpi sge, %w1, %c0 : i32
  %k2 = arith.cmpi sge, %w2, %c0 : i32
  %b1 = tt.addptr %z, %w1 : !tt.ptr<i32>, i32
  tt.store %b1, %n, %k1 : !tt.ptr<i32>
  %b2 = tt.addptr %z, %w2 : !tt.ptr<i32>, i32
  tt.store %b2, %n, %k2 : !tt.ptr<i32>""")
    sizes = ["0 <= x[:] <= 5", "2**31 - 100 <= y[:] <= 2**31 - 1", "n >= 1000", "m >= 0"]
    proof = made.prove(sizes, {"x": "2**60", "y": "4", "z": "2**31"}, 1, properties=("overflow",))
    assert not proof.refuted
    assert proof.verdict("overflow") == "proven under"


def test_no_address_that_was_made_up_refutes() -> None:
    made = _kernel("%x: !tt.ptr<i32>, %n: i32", """
  %c8 = arith.constant 8 : i64
  %c0 = arith.constant 0 : i64
  %a = tt.ptr_to_int %x : !tt.ptr<i32> -> i64
  %b = arith.muli %a, %c8 : i64
  %m = arith.cmpi sgt, %b, %c0 : i64
  tt.store %x, %n, %m : !tt.ptr<i32>""")
    assert made.prove([], {"x": 1}, 1, properties=("overflow",)).verdict("overflow") == "unknown"


def test_a_launch_is_shown_with_all_that_it_was_called_with() -> None:
    made = _kernel("%x: !tt.ptr<i32>, %n: i32, %b: i1, %f: f32", """
  scf.if %b {
    %w = arith.muli %n, %n : i32
    %a = tt.addptr %x, %w : !tt.ptr<i32>, i32
    tt.store %a, %n : !tt.ptr<i32>
  }""")
    (verdict,) = made.prove(["n >= 70000"], {"x": "k"}, 1, ("overflow",)).accesses
    sizes = dict(verdict.counterexample.sizes)
    assert (sizes["b"], sizes["f"]) == (1, 1)
    assert sizes["n"] ** 2 >= 2**31


def test_a_cast_is_said_in_a_sentence() -> None:
    made = _kernel("%x: !tt.ptr<i32>, %n: i32", """
  %w = arith.trunci %n : i32 to i8
  %a = tt.addptr %x, %w : !tt.ptr<i32>, i8
  tt.store %a, %n : !tt.ptr<i32>""")
    (verdict,) = made.prove(["n >= 300"], {"x": "k"}, 1, ("overflow",)).accesses
    assert " does not fit 8 bits: it becomes " in verdict.counterexample.finding.message
    assert "," not in verdict.counterexample.finding.message
