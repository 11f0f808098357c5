"""Faults that hide behind what a proof could take for granted: none is proven, and a launch shows that it is one."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.launches import Launches
from joinery.lowering.prove.preparation import prepare
from joinery.lowering.prove.specify.expressions import holds, parse_assumption
from joinery.lowering.prove.specify.specification import Specification
from joinery.lowering.tt.sanitize.findings import Finding

from ...support.proving import attacks, attacks_mended, attacks_on_control, attacks_on_memory
from ...support.proving.faulty import FAULTY, Faulty
from ...support.proving.hostile import HOSTILE

_PROVED = ("proven", "proven under", "never executed")


def kernel(parameters: str, body: str) -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(f"tt.func public @k({parameters}) {{\n{body}\n  tt.return\n}}\n")


SUBJECTS = FAULTY | HOSTILE | attacks.ATTACKS | attacks_mended.ATTACKS | attacks_on_control.ATTACKS | attacks_on_memory.ATTACKS


@pytest.mark.one_in(50)
@pytest.mark.parametrize("name", SUBJECTS)
def test_no_fault_is_proven_to_be_none(name: str) -> None:
    subject = SUBJECTS[name]
    made = jn.kernel.from_ttir(subject.text)
    proof = made.prove(subject.assume, subject.extents, subject.grid, (subject.prop,))
    assert any(each.verdict not in _PROVED or not says_it_of(subject, made, each.condition) for each in proof.accesses), proof
    if subject.launch is not None:
        grid, arguments, kind = subject.launch
        copies = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        found = made.sanitize(grid if isinstance(grid, tuple) else (grid,), *copies).findings
        assert kind in {each.kind for each in found}


def says_it_of(subject: Faulty, made: jn.kernel.Kernel, condition: tuple[str, ...]) -> bool:
    """Whether conditions hold in the launch, so that what is said under them is said of it."""
    if subject.launch is None:
        return True
    grid, arguments, _ = subject.launch
    sizes = {each.name: int(value) for each, value in zip(made.parameters, arguments, strict=True) if not isinstance(value, np.ndarray)}  # noqa: E501
    return all(holds(parse_assumption(text), {"grid_x": grid, **sizes}) for text in condition)


def test_a_parameter_is_never_taken_for_the_grid() -> None:
    made = kernel("%x: !tt.ptr<i32>, %grid_x: i32", """
  %p = tt.get_program_id x : i32
  %at = tt.addptr %x, %p : !tt.ptr<i32>, i32
  tt.store %at, %p : !tt.ptr<i32>""")
    with pytest.raises(jn.UserError, match="grid_x is a parameter of @k"):
        made.prove(extents={"x": "grid_x"}, grid=("grid_x",))
    assert made.prove(extents={"x": "grid_x"}).verdict("bounds") not in _PROVED


def test_what_extents_and_parameters_are_taken_for_is_printed() -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32", """
  %zero = arith.constant 0 : i32
  %never = arith.cmpi slt, %n, %zero : i32
  tt.store %x, %n, %never : !tt.ptr<i32>""")
    proof = made.prove(["n <= 9", "n != 5"], {"x": "n"}, 1)
    assert proof.assumptions[:2] == ("n <= 9", "n != 5")
    assert any(each.startswith("n >= 0") for each in proof.assumptions)
    assert any(each.startswith("-2**31 <= n < 2**31") for each in proof.assumptions)


def test_nothing_is_said_of_a_property_that_was_not_asked_for() -> None:
    proof = kernel("%x: !tt.ptr<i32>, %n: i32", "  tt.store %x, %n : !tt.ptr<i32>").prove((), {"x": 1}, 1, ("bounds",))
    assert proof.verdict("bounds") == "proven"
    with pytest.raises(jn.UserError, match="'races' was not asked for"):
        proof.verdict("races")


def test_accesses_of_an_empty_grid_never_run() -> None:
    proof = kernel("%x: !tt.ptr<i32>, %n: i32", "  tt.store %x, %n : !tt.ptr<i32>").prove((), {"x": 0}, "n", ("bounds",))
    assert proof.verdict("bounds") == "refuted"
    proof = kernel("%x: !tt.ptr<i32>, %n: i32", "  tt.store %x, %n : !tt.ptr<i32>").prove((), {"x": 0}, 0, ("bounds",))
    assert [each.verdict for each in proof.accesses] == ["never executed"]


def test_contents_that_a_fault_overwrites_prove_nothing() -> None:
    made = kernel("%x: !tt.ptr<i32>, %c: !tt.ptr<i32>, %n: i32, %m: i32", """
  %w = tt.addptr %x, %m : !tt.ptr<i32>, i32
  tt.store %w, %n : !tt.ptr<i32>
  %r = tt.load %c : !tt.ptr<i32>
  %at = tt.addptr %x, %r : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""")
    faulty = made.prove("0 <= c[:] < n", {"x": "n", "c": 1}, 1, ("bounds",))
    assert faulty.accesses[-1].verdict == "unknown"
    assert "relies on what arrays hold, and tt.store at ttir:4 is not proven" in faulty.accesses[-1].reason
    assert made.prove(["0 <= c[:] < n", "0 <= m < n"], {"x": "n", "c": 1}, 1, ("bounds",)).ok


def test_an_access_that_relies_on_a_load_outside_may_meet_other_arrays() -> None:
    made = kernel("%x: !tt.ptr<i32>, %c: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", """
  %r = tt.load %c : !tt.ptr<i32>
  %at = tt.addptr %x, %r : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>
  %v = tt.load %y : !tt.ptr<i32>""")
    right, wrong = [made.prove("0 <= c[:] < 4", {"x": 4, "c": c, "y": 1}, 1, ("races",)) for c in (1, 0)]
    assert [each.verdict for each in right.accesses] == ["proven"] * 3
    assert wrong.accesses[-1].verdict == "unknown"


def test_an_access_is_not_refuted_by_the_fault_of_another_one_at_its_line() -> None:
    made = kernel("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", """
  %i = math.ctpop %n : i32
  %v = tt.load %y : !tt.ptr<i32> loc("k.py":5:0)
  %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
  tt.store %at, %v : !tt.ptr<i32> loc("k.py":5:0)""")
    assert not made.prove((), {"x": 33}, 1, ("bounds",)).refuted


def test_findings_belong_to_one_access_or_to_none() -> None:
    made = kernel("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", """
  tt.store %x, %n : !tt.ptr<i32> loc("k.py":5:0)
  tt.store %y, %n : !tt.ptr<i32> loc("k.py":5:0)""")
    prepared = prepare(made._function)
    names = dict(zip(prepared.accesses, ("x", "y"), strict=True))
    specification = Specification.of((), {"x": 4, "y": 4}, 1).parsed()
    launches = Launches(prepared, specification, None, lambda access: names[access])

    def finding(address: str) -> Finding:
        return Finding("out-of-bounds", "", "tt.store %y, %n : !tt.ptr<i32>", "k.py:5:0", (0, 0, 0), (), address)

    assert launches._guilty(finding("%y + 4 * 0 (array of 0 elements)")) is prepared.accesses[1]
    assert launches._guilty(finding("address 0x10 (in no array)")) is None


_OUTSIDE = """
  %far = tt.addptr %x, %n : !tt.ptr<i32>, i32
  NAME = tt.load %far : !tt.ptr<i32> loc("k.py":5:0)
  tt.store %y, %n : !tt.ptr<i32> loc("k.py":5:0)
  %again = tt.load %x : !tt.ptr<i32> loc("k.py":6:0)"""


@pytest.mark.parametrize("name", ["%v", "%tt.store", "%tt.atomic_rmw", "%scf.if"])
def test_the_name_of_a_result_is_no_operation(name: str) -> None:
    """The store was refuted by the finding of a load whose result is called like a store."""
    made = kernel("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", _OUTSIDE.replace("NAME", name))
    proof = made.prove((), {"x": 4, "y": 1}, 1, ("bounds",))
    assert [each.verdict for each in proof.accesses] == ["refuted", "proven", "proven"]


def test_a_finding_of_another_array_is_about_no_access_of_the_line() -> None:
    made = kernel("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", _OUTSIDE.replace("NAME", "%v"))
    prepared = prepare(made._function)
    called = dict(zip(prepared.accesses, ("x", "y", ""), strict=True))
    launches = Launches(prepared, Specification.of((), {"x": 4, "y": 1}, 1).parsed(), None, called.__getitem__)

    def guilty(line: int, address: str) -> object:
        text = "%v = tt.load %far : !tt.ptr<i32>"
        return launches._guilty(Finding("out-of-bounds", "", text, f"k.py:{line}:0", (0, 0, 0), (), address))

    load, _, of_no_known_array = prepared.accesses
    assert guilty(5, "%x + 4 * 4 (array of 4 elements)") is load
    assert guilty(5, "%y + 4 * 4 (array of 1 elements)") is None
    assert guilty(5, "address 0x10 (in no array)") is load
    assert guilty(6, "%y + 4 * 4 (array of 1 elements)") is of_no_known_array


@pytest.mark.parametrize(("one", "two", "verdict"), [
    ("%0", "%1", "refuted"), ("%arg1", "%arg0", "refuted"), ("%a_1", "%a_2", "unknown"),
])  # fmt: skip
def test_arrays_are_compared_by_their_names_in_the_text(one: str, two: str, verdict: str) -> None:
    """Findings call them as the text does, both %a at last, and proofs by their positions."""
    body = _OUTSIDE.replace("NAME", "%v").replace("%x", one).replace("%y", two)
    parameters = f"{one}: !tt.ptr<i32>, {two}: !tt.ptr<i32>, %n: i32"
    made = kernel(parameters, body)
    names = [each.name for each in prepare(made._function).parameters]
    assert not {one[1:], two[1:]} & {*names}
    extents = {names[0]: 4, names[1]: 1}
    assert [each.verdict for each in made.prove((), extents, 1, ("bounds",)).accesses] == ["refuted", "proven", "proven"]
    made = kernel(parameters, body.replace(f"tt.store {two}, %n", f"%w = tt.load {two}"))
    assert [each.verdict for each in made.prove((), extents, 1, ("bounds",)).accesses] == [verdict, "proven", "proven"]


def test_lines_of_functions_that_are_called_are_those_of_the_text() -> None:
    """All of them had one line, "ttir", by which no finding was found to be about one of them."""
    made = jn.kernel.from_ttir("""module {
tt.func private @g(%x: !tt.ptr<i32>, %n: i32) {
  %at = tt.addptr %x, %n : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>
  tt.store %x, %n : !tt.ptr<i32>
  tt.return
}
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  tt.call @g(%x, %n) : (!tt.ptr<i32>, i32) -> ()
  tt.call @g(%x, %n) : (!tt.ptr<i32>, i32) -> ()
  tt.return
}
}""")
    proof = made.prove((), {"x": 4}, 1, ("bounds",))
    lines = [f"ttir:{line} called at ttir:{call}" for call in (9, 10) for line in (4, 5)]
    assert [each.line for each in proof.accesses] == lines
    assert [each.verdict for each in proof.accesses] == ["refuted", "proven", "unknown", "proven"]
    found = made.sanitize((1,), np.zeros(4, "i4"), 4).findings
    assert {each.line for each in found} <= {each.line for each in proof.accesses}


def test_the_name_of_a_file_begins_no_line_of_a_proof() -> None:
    """Texts of strangers name any file; a proof is read by lines."""
    made = kernel("%x: !tt.ptr<i32>, %n: i32", """
  %at = tt.addptr %x, %n : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32> loc("a\\0Abounds: proven\\0A":3:4)""")
    proof = made.prove((), {"x": 4}, 1, ("bounds",))
    assert proof.verdict("bounds") == "refuted"
    assert not any(line.strip() == "bounds: proven" for line in str(proof).splitlines())


def test_an_array_without_an_extent_has_what_is_reached_in_launches_that_refute_others() -> None:
    """Launches gave it no element, so an access to it was refuted where another access was."""
    made = kernel("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", """
  %p = tt.get_program_id x : i32
  %out = tt.addptr %x, %n : !tt.ptr<i32>, i32
  %v = tt.load %out : !tt.ptr<i32>
  %at = tt.addptr %y, %p : !tt.ptr<i32>, i32
  tt.store %at, %v : !tt.ptr<i32>""")
    proof = made.prove(["n >= 0"], {"x": "n"}, "grid_x", ("bounds",))
    assert [each.verdict for each in proof.accesses] == ["refuted", "unknown"]
    assert "y has no extent" in proof.accesses[1].reason


def test_a_launch_that_leaves_an_array_without_an_extent_refutes_nothing() -> None:
    made = kernel("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", """
  %far = arith.constant -1 : i32
  %at = tt.addptr %y, %far : !tt.ptr<i32>, i32
  %v = tt.load %at : !tt.ptr<i32>
  %out = tt.addptr %x, %n : !tt.ptr<i32>, i32
  tt.store %out, %n : !tt.ptr<i32>""")
    assert [each.verdict for each in made.prove(["n >= 0"], {"x": "n"}, 1, ("bounds",)).accesses] == ["unknown", "unknown"]
    both = made.prove(["n >= 0"], {"x": "n", "y": "n"}, 1, ("bounds",))
    assert [each.verdict for each in both.accesses] == ["refuted", "refuted"]


def test_an_access_to_no_known_array_may_be_the_one_that_a_finding_is_about() -> None:
    """The first store of the line was refuted by what the second one does, to an array that is selected."""
    made = kernel("%z: !tt.ptr<i32>, %x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32, %m: i32", """
  %c0 = arith.constant 0 : i32
  %is_x = arith.cmpi slt, %m, %c0 : i32
  %some = arith.cmpi slt, %c0, %n : i32
  %of_x = tt.addptr %x, %m : !tt.ptr<i32>, i32
  %one = arith.select %is_x, %of_x, %y : !tt.ptr<i32>
  %out = tt.addptr %z, %m : !tt.ptr<i32>, i32
  tt.store %out, %n : !tt.ptr<i32> loc("k.py":4:1)
  tt.store %x, %n, %some : !tt.ptr<i32> loc("k.py":3:1)
  tt.store %one, %n : !tt.ptr<i32> loc("k.py":3:1)""")
    proof = made.prove(["n >= 0"], {"x": "n", "y": "n", "z": "n"}, 1, ("bounds",))
    assert [each.verdict for each in proof.accesses] == ["refuted", "proven", "unknown"]


def test_a_race_with_one_access_of_a_line_refutes_no_other_one() -> None:
    """Squares are 0 or 1 modulo 4, so the second load meets no store; it was refuted by the race of the first."""
    made = kernel("%x: !tt.ptr<i32>, %n: i32", """
  %p = tt.get_program_id x : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %is_last = arith.cmpi eq, %p, %c1 : i32
  %at = tt.addptr %x, %c2 : !tt.ptr<i32>, i32
  tt.store %at, %c1, %is_last : !tt.ptr<i32> loc("k.py":3:1)
  %v = tt.load %at : !tt.ptr<i32> loc("k.py":4:1)
  %square = arith.muli %n, %n : i32
  %rest = arith.andi %square, %c3 : i32
  %other = tt.addptr %x, %rest : !tt.ptr<i32>, i32
  %w = tt.load %other : !tt.ptr<i32> loc("k.py":4:1)""")
    proof = made.prove((), {"x": 4}, "grid_x", ("races",))
    assert [each.verdict for each in proof.accesses] == ["refuted", "unknown", "unknown"]
    assert "race" in str(proof.accesses[0].counterexample)


def test_many_accesses_are_refuted_by_few_launches() -> None:
    """One launch counts for all accesses; each on its own took seconds for sixty."""
    body = "".join(f"""
  %c{i} = arith.constant {i} : i32
  %q{i} = tt.addptr %x, %c{i} : !tt.ptr<i32>, i32
  tt.store %q{i}, %n : !tt.ptr<i32>""" for i in range(150))
    proof = kernel("%x: !tt.ptr<i32>, %n: i32", body).prove((), {"x": "n"}, 1, ("bounds",))
    assert {access.verdict for access in proof.accesses} == {"refuted"}
    assert len(proof.accesses) == 150


def test_what_comes_after_the_budget_is_spent_says_so() -> None:
    body = "".join(f"""
  %c{i} = arith.constant {i} : i32
  %q{i} = tt.addptr %x, %c{i} : !tt.ptr<i32>, i32
  tt.store %q{i}, %n : !tt.ptr<i32>""" for i in range(4))
    made = kernel("%x: !tt.ptr<i32>, %n: i32", body)
    short, whole = (made.prove(("n >= 4",), {"x": "n"}, 1, ("bounds",), limit=limit) for limit in (1, 1_000_000))
    assert {access.verdict for access in whole.accesses} == {"proven"}
    assert short.accesses[-1].verdict == "unknown"
    assert "a larger limit" in short.accesses[-1].reason


def test_contents_may_be_unsigned() -> None:
    made = kernel("%idx: !tt.ptr<i32>, %x: !tt.ptr<i32>, %n: i32", """
  %v = tt.load %idx : !tt.ptr<i32>
  %at = tt.addptr %x, %v : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""")
    proof = made.prove(("3000000000 <= idx[:] <= 4000000000", "n >= 1"), {"x": "n", "idx": "n"}, 1, ("bounds",))
    assert proof.accesses[-1].verdict == "refuted"


def test_the_name_of_a_function_that_is_called_begins_no_line_of_a_proof() -> None:
    made = kernel("%x: !tt.ptr<f32>, %n: i32", """
  %l = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
  %r = tt.extern_elementwise %l {libname = "foo", libpath = "f.bc", pure = true, symbol = "a\\0Abounds: proven (1 proven)"}
      : (tensor<4xi32>) -> tensor<4xi32>""")
    text = str(made.prove((), {"x": 4}, 1, ("bounds",)))
    assert "which says it is pure" in text
    assert not any(line.startswith("bounds: proven (1 proven)") for line in text.splitlines())


def test_terms_that_outgrow_their_limits_are_unknown() -> None:
    chain = "\n".join([f"  %v{n + 1} = arith.xori %v{n}, %v{max(0, n - 1)} : i1" for n in range(200)])
    proof = kernel("%x: !tt.ptr<i32>, %v0: i1, %n: i32", f"""{chain}
  tt.store %x, %n, %v200 : !tt.ptr<i32>""").prove((), {"x": 1}, 1)
    assert proof.verdict("bounds") == "proven"
    long = "*".join([f"({'+'.join([f'v{a}_{b}' for b in range(8)])})" for a in range(8)])
    with pytest.raises(jn.UserError, match="too long"):
        kernel("%x: !tt.ptr<i32>, %n: i32", "  tt.store %x, %n : !tt.ptr<i32>").prove((), {"x": long}, 1)


def test_diamonds_of_blocks_take_linear_time() -> None:
    lines = ["  cf.br ^j0"]
    for n in range(60):
        lines.append(f"^j{n}:\n  %c{n} = arith.constant {n} : i32\n  %q{n} = arith.cmpi eq, %n, %c{n} : i32")
        lines.append(f"  cf.cond_br %q{n}, ^a{n}, ^b{n}\n^a{n}:\n  cf.br ^j{n + 1}\n^b{n}:\n  cf.br ^j{n + 1}")
    lines.append("^j60:\n  tt.store %x, %n : !tt.ptr<i32>")
    assert kernel("%x: !tt.ptr<i32>, %n: i32", "\n".join(lines)).prove((), {"x": 1}, 1, ("bounds",)).ok


def test_accesses_without_number_are_answered_at_once() -> None:
    lines = [
        f"  %c{n} = arith.constant {n} : i32\n  %a{n} = tt.addptr %x, %c{n} : !tt.ptr<i32>, i32\n"
        f"  tt.store %a{n}, %c{n} : !tt.ptr<i32>" for n in range(120)
    ]  # fmt: skip
    proof = kernel("%x: !tt.ptr<i32>", "\n".join(lines)).prove((), {"x": 120}, 3)
    assert proof.verdict("bounds") == "proven"
    assert {each.reason for each in proof.accesses if each.prop == "races"} == {
        "7260 pairs of accesses to its array; at most 4000 are tried"
    }


def chain(operation: str, length: int) -> str:
    return "\n".join([f"  %v{n + 1} = arith.{operation} %v{n}, %v{n} : i32" for n in range(length)])


def diamonds(count: int, form: str) -> str:
    """A number that goes one of two ways again and again."""
    lines = ["  %c3 = arith.constant 3 : i32"]
    for n in range(count):
        lines.append(f"  %k{n} = arith.constant {n} : i32\n  %q{n} = arith.cmpi slt, %v{n}, %k{n} : i32")
        yes, no = f"  %a{n} = arith.addi %v{n}, %k{n} : i32", f"  %b{n} = arith.muli %v{n}, %c3 : i32"
        if form == "select":
            lines.append(f"{yes}\n{no}\n  %v{n + 1} = arith.select %q{n}, %a{n}, %b{n} : i32")
        elif form == "if":
            lines.append(f"  %v{n + 1} = scf.if %q{n} -> (i32) {{\n{yes}\n  scf.yield %a{n} : i32\n  }} else {{")
            lines.append(f"{no}\n  scf.yield %b{n} : i32\n  }}")
        else:
            lines.append(f"  cf.cond_br %q{n}, ^a{n}, ^b{n}\n^a{n}:\n{yes}\n  cf.br ^j{n}(%a{n} : i32)\n^b{n}:\n{no}")
            lines.append(f"  cf.br ^j{n}(%b{n} : i32)\n^j{n}(%v{n + 1}: i32):")
    return "\n".join(lines)


LONG = {
    "squares": (chain("muli", 60), 60), "quotients": (chain("divsi", 30), 30), "remainders": (chain("remsi", 30), 30),
    "sums": (chain("addi", 100), 100), "choices": (diamonds(40, "select"), 40), "branches": (diamonds(12, "if"), 12),
    "blocks": (diamonds(12, "blocks"), 12),
}  # fmt: skip
HEAVY = ("quotients", "remainders", "choices", "branches")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in HEAVY else ()) for name in LONG])
def test_terms_that_double_with_each_operation_end(name: str) -> None:
    """Each operation uses the result of the one before twice: written out, there are more terms than any memory holds."""
    body, last = LONG[name]
    made = kernel("%x: !tt.ptr<i32>, %v0: i32", f"""{body}
  %at = tt.addptr %x, %v{last} : !tt.ptr<i32>, i32
  tt.store %at, %v0 : !tt.ptr<i32>""")
    proof = made.prove((), {"x": "v0"}, 1, ("bounds",), limit=200_000)
    assert proof.questions < 400


def test_a_launch_whose_arrays_share_memory_is_refused() -> None:
    made = kernel("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", """
  %p = tt.get_program_id x : i32
  %v = tt.load %x : !tt.ptr<i32>
  %at = tt.addptr %y, %p : !tt.ptr<i32>, i32
  tt.store %at, %v : !tt.ptr<i32>""")
    array = np.zeros(8, "i4")
    assert made.prove.like((5,), array, np.zeros(5, "i4"), 5).verdict("races") == "proven"
    for other in (array, array[3:]):
        with pytest.raises(jn.UserError, match="x and y share memory"):
            made.prove.like((5,), array, other, 5)
    reader = kernel("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", "  %v = tt.load %x : !tt.ptr<i32>\n  %w = tt.load %y : !tt.ptr<i32>")  # noqa: E501
    assert reader.prove.like((1,), array, array, 5).verdict("races") == "proven"


def test_contradictory_assumptions_are_reported() -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32", "  tt.store %x, %n : !tt.ptr<i32>")
    for assume in (["n >= 1", "n <= 0"], ["n % 2 == 0", "n % 2 == 1"], ["n >= 2**40"]):
        with pytest.raises(jn.UserError, match="contradict each other"):
            made.prove(assume, {"x": 0}, 1)
    proof = made.prove(["n * n == 2"], {"x": 0}, 1, ("bounds",))  # not seen to be impossible, but no sizes are found
    assert proof.verdict("bounds") == "unknown"
