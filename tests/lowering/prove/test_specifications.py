"""Specifications: what they mean, what is refused, and that nothing follows from assumptions that contradict each other."""

from __future__ import annotations

import builtins
import json
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.preparation import parameter_names
from joinery.lowering.prove.specify.expressions import evaluate, holds, parse_assumption, parse_size

from ...support.proving.kernels import SUBJECTS


def kernel(name: str = "vector") -> Any:
    return jn.kernel.from_ttir(SUBJECTS[name].text)


def test_sizes_are_what_python_makes_of_them() -> None:
    values = {"n": 17, "m": -5, "a.b": 3}
    for text, expected in (
        ("n + 2 * m - -3", 17 + 2 * -5 + 3), ("(n + m) * a.b", 36), ("m // 2 + m % 2", -2), ("cdiv(n, 4) * 2**3", 40),
        ("min(n, max(m, 4))", 4), ("2**31 - 1", 2**31 - 1),
        ("n**3 - m**0", 17**3 - 1), ("cdiv(n, 4)**2", 25),
    ):  # fmt: skip
        assert evaluate(parse_size(text, "size"), values) == expected
    truths = {"0 <= m < n": False, "m < 0 <= n and n != 3": True, "n < 0 or m == -5": True, "n % 4 == 1": True}
    for text, truth in truths.items():
        assert holds(parse_assumption(text), values) is truth


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n +", "it ends too soon"), ("n n", "'n' is left over"), ("n $ 2", "'$' is no part"), ("(n", "expected ')'"),
        ("n ** m", "powers have two numbers"), ("n**9", "an exponent up to 8"),
        ("(n**8)**8", "a power of a power"), ("(n + (m**2 + 1)**2)**2", "a power of a power"),
        ("idx[:] + 1", "elements of arrays are for assumptions"), ("9" * 60, "too long"),
        ("(" * 60 + "n" + ")" * 60, "nested parentheses"), ("__import__('os')", "is no part"),
    ],
)  # fmt: skip
def test_what_is_no_size_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(jn.UserError, match="extent of x") as caught:
        kernel().prove(extents={"x": text})
    assert why in str(caught.value)


def test_a_specification_in_several_lines_is_what_it_says_in_one() -> None:
    one = kernel().prove(["n >= 1 and n < 9"], {"x": "n"}, ["cdiv(n, 4)", "1"], properties=["bounds"])
    several = kernel().prove(["n >= 1\n and n\r\n\t< 9\u2028"], {"x": "n\n"}, ["cdiv(n,\x0b4)", "\n1"], properties=["bounds"])
    assert str(several) == str(one)
    assert several.as_html() == one.as_html()
    assert several.as_json() == one.as_json()
    assert all(map(str.isprintable, str(several).split("\n")))
    assert "assume: n >= 1 and n < 9" in str(one.specification).split("\n")
    assert str(kernel().prove.verify(several.as_json())) == str(one)
    stored = json.loads(one.as_json())
    for changed in ({"assume": ["n >= 1 and n\n< 9"]}, {"extents": {"x": "n\n"}}, {"grid": ["cdiv(n,\n4)", "1", "1"]}):
        with pytest.raises(jn.UserError, match="says other than what is proven now"):
            kernel().prove.verify(json.dumps(stored | changed))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028", "\x1b[2J", "\u202e"])
def test_no_line_of_a_specification_passes_for_one_of_a_proof(end: str) -> None:
    given: list[dict[str, Any]] = [
        {"assume": [f"n >= 1{end}m >= 2"]}, {"assume": f"n >= 1{end}m >= 2"}, {"assume": [f"n >= 1{end}bounds: proven"]},
        {"extents": {"x": f"n{end}bounds: proven"}}, {"extents": {f"x{end}": "n"}}, {"grid": f"n{end}bounds: proven"},
    ]  # fmt: skip
    for each in given:
        with pytest.raises(jn.UserError) as caught:
            kernel().prove(**each)
        assert str(caught.value).startswith("prove: ")
        assert str(caught.value).isprintable()
    if end.isspace():
        with pytest.raises(jn.UserError, match="'m' is left over; assumptions are joined by 'and', or each has a text"):
            kernel().prove([f"n >= 1{end}m >= 2"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"extents": {"y": "n"}}, "no array 'y'; arrays: x"),
        ({"assume": ["n"]}, "it compares nothing"),
        ({"assume": [3]}, "expected texts"),
        ({"assume": b"n >= 1"}, "expected texts"),
        ({"grid": b"n"}, "expected one to three sizes"),
        ({"extents": [("x", "n")]}, "expected sizes by parameter"),
        ({"grid": ("1", "1", "1", "1")}, "expected one to three sizes"),
        ({"grid": "n // k"}, "which may be 0 or less; fix: assume 'k >= 1'"),
        ({"assume": ["x >= 1"]}, "'x' is no integer; numbers: n"),
        ({"assume": ["0 <= x[:] or n >= 1"]}, "elements are compared with sizes"),
        ({"assume": ["0 <= x[:] < n"], "extents": {"x": "n"}}, "may not last: tt.store"),
        ({"limit": 0}, "expected a number of steps"),
    ],
)
def test_what_a_specification_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(jn.UserError) as caught:
        kernel().prove(**arguments)
    assert message in str(caught.value)


def test_assumptions_are_read_once() -> None:
    """An iterator is empty after that."""
    proof = kernel().prove(iter(["n >= 1"]), {"x": "n"}, properties=("bounds", "bounds"))
    assert proof.specification.assume == ("n >= 1",)
    assert proof.properties == ("bounds",)


@pytest.mark.parametrize("name", ["Initialised", "Bounds", "speed"])
def test_properties_that_there_are_not_are_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(jn.UserError, match=r"no property .* fix: properties=\('bounds', 'races', 'overflow', '"):
        kernel().prove(extents={"x": "n"}, properties=(name,))


@pytest.mark.parametrize(
    "assume",
    [["n >= 5", "n <= 4"], ["n * n == 2"], ["n * n == 200"], ["n == 2 * k", "n == 2 * k + 1"], ["n <= -1"], ["n >= 2**31"]],
)
def test_nothing_follows_from_assumptions_that_contradict_each_other(assume: list[str]) -> None:
    """By themselves, with the extents, or with the range of a parameter."""
    faulty = kernel("mask_of_too_many")
    if assume == ["n * n == 200"]:  # as linear arithmetic with lemmas does not know
        proof = faulty.prove(assume, {"x": "n"}, "cdiv(n, 4)")
        assert {each.verdict for each in proof.accesses} == {"unknown"}
        assert any("no sizes were found" in each.reason for each in proof.accesses)
        return
    with pytest.raises(jn.UserError, match="the assumptions contradict each other"):
        faulty.prove(assume, {"x": "n"}, "cdiv(n, 4)")


@pytest.mark.parametrize(
    ("rest", "is_possible"),
    [("1 == 2", False), ("n >= 5 and n <= 4", False), ("n < 0", False), ("n >= 5", True), ("(n // 4) == 2", True)],
)
def test_what_is_said_of_sizes_beside_elements_is_not_lost(rest: str, is_possible: bool) -> None:
    """All that was joined to bounds of elements was left out of what contradicts."""
    made = jn.kernel.from_ttir("""tt.func public @k(%x: !tt.ptr<i32>, %idx: !tt.ptr<i32>, %n: i32) {
  %p = tt.get_program_id x : i32
  %a = tt.addptr %idx, %p : !tt.ptr<i32>, i32
  %i = tt.load %a : !tt.ptr<i32>
  %b = tt.addptr %x, %i : !tt.ptr<i32>, i32
  %v = tt.load %b : !tt.ptr<i32>
  tt.return
}""")
    assume, extents = [f"0 <= idx[:] < n and {rest}"], {"x": "n", "idx": "m"}
    if is_possible:
        assert made.prove(assume, extents, "m", ("bounds",)).ok
    else:
        with pytest.raises(jn.UserError, match="the assumptions contradict each other"):
            made.prove(assume, extents, "m", ("bounds",))


def test_an_access_that_never_runs_is_not_called_proven() -> None:
    proof = kernel().prove(["n == 0"], {"x": "n"}, "4")
    assert [each.verdict for each in proof.accesses if each.prop == "bounds"] == ["never executed"]


def test_an_array_without_an_extent_is_unknown() -> None:
    proof = kernel().prove(grid="cdiv(n, 4)", properties="bounds")
    assert proof.verdict("bounds") == "unknown"
    assert "fix: extents={'x': 'n'}" in proof.accesses[0].reason


def test_offsets_that_wrap_are_proven_under_a_condition() -> None:
    """Any number of programs of 4 elements: beyond 2**29 of them the index wraps, and is less than n again."""
    proof = kernel().prove(extents={"x": "n"}, grid="grid_x")
    assert proof.verdict("bounds") == "proven under"
    (condition,) = {each.condition for each in proof.accesses if each.prop == "bounds"}
    assert any("grid_x <= " in text for text in condition)
    assert not proof.ok


def test_parameters_of_one_name_are_told_apart() -> None:
    """A reader drops the numbers behind names: %n_1 and %n_2 are both called n."""
    text = """
tt.func public @k(%x_1: !tt.ptr<i32>, %n_1: i32, %n_2: i32) {
  %at = tt.addptr %x_1, %n_2 : !tt.ptr<i32>, i32
  tt.store %at, %n_1 : !tt.ptr<i32>
  tt.return
}
"""
    both = jn.kernel.from_ttir(text)
    assert both.prove(["arg1 >= 0", "arg2 >= 0"], {"x": "arg1 + 1"}, 1, "bounds").verdict("bounds") == "refuted"
    assert both.prove(["arg2 >= 0", "arg1 == arg2"], {"x": "arg1 + 1"}, 1, "bounds").ok
    for name in ("n", "n_1", "n_2", "x_1"):
        with pytest.raises(jn.UserError, match=r"numbers: arg1, arg2|no integer"):
            both.prove([f"{name} >= 0"], {"x": "4"}, 1)


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("%n: i32, %m: i32", ("x", "n", "m")), ("%a-b: i32, %a_b: i32", ("x", "arg1", "arg2")),
        ("%n_2: i32, %n: i32", ("x", "arg1", "arg2")), ("%arg2: i32, %m: i32", ("x", "arg1", "m")),
        ("%x.shape.0: i32, %m: i32", ("x", "arg1", "m")), ("%n.1: i32, %n_1: i32", ("x", "arg1", "n")),
        ("%arg3: i32, %a: i32, %m.k: i32", ("x", "arg1", "a", "arg3_")),
        ("%0: i32, %argument_1: i32", ("x", "arg1", "argument")),
        ("%a-1: i32, %a_1: i32", ("x", "arg1", "a")), ("%arg2: i32, %arg2_1: i32", ("x", "arg1", "arg2_")),
        ("%arg2: i32, %arg2_: i32, %arg1: i32", ("x", "arg1_", "arg2_", "arg3")), ("%0: i32, %1: i32", ("x", "arg1", "arg2")),
    ],
)  # fmt: skip
def test_a_name_is_never_that_of_another_parameter(head: str, names: tuple[str, ...]) -> None:
    made = jn.kernel.from_ttir(f"tt.func public @k(%x: !tt.ptr<i32>, {head}) {{\n  tt.return\n}}\n")
    assert parameter_names(made._function) == names


@pytest.mark.parametrize(
    ("head", "index", "assume", "extents"),
    [
        ("%x: !tt.ptr<i32>, %arg3: i32, %a: i32, %m.k: i32", "%m.k", ["0 <= arg3 < 4"], {"x": 4}),
        ("%x: !tt.ptr<i32>, %arg2: i32, %n_1: i32, %n_2: i32", "%n_1", ["0 <= arg2 < 4"], {"x": 4}),
        ("%arg1: !tt.ptr<i32>, %x.q: !tt.ptr<i32>, %n: i32", "%n", ["0 <= n < 4"], {"arg1": 4}),
        ("%x: !tt.ptr<i32>, %a-1: i32, %a_1: i32", "%a-1", ["0 <= a_1 < 4"], {"x": 4}),
        ("%x: !tt.ptr<i32>, %0: i32, %argument_1: i32", "%0", ["0 <= argument_1 < 4"], {"x": 4}),
        ("%x: !tt.ptr<i32>, %n: i32", "%n", ["0 <= n < 4", "x.shape.0 >= 4"], {"x": 4}),
        ("%arg1: !tt.ptr<i32>, %x.q: !tt.ptr<i32>, %n: i32", "%n", ["0 <= arg1[:] < 4"], {"arg0": 4}),
        ("%x: !tt.ptr<i32>, %d: !tt.tensordesc<4xi32>, %d.shape.0: i32", "%d.shape.0", ["0 <= d.shape.0 < 4"], {"x": 4}),
        ("%x: !tt.ptr<i32>, %d: !tt.tensordesc<4xi32>, %d.shape.0: i32", "%d.shape.0", ["0 <= d.stride.0 < 4"], {"x": 4}),
    ],
)
def test_a_name_that_the_text_has_elsewhere_is_refused(
    head: str, index: str, assume: list[str], extents: dict[str, Any]
) -> None:
    """It meant the parameter at that position, or one that is spelled like it, of which this was proven."""
    array = "%x.q" if "%x.q" in head else "%x"
    made = jn.kernel.from_ttir(f"""tt.func public @k({head}) {{
      %at = tt.addptr {array}, {index} : !tt.ptr<i32>, i32
      %v = tt.load %at : !tt.ptr<i32>
      tt.return
    }}""")
    with pytest.raises(jn.UserError, match=r"is not known, as texts are read without|has no array 'arg1'"):
        made.prove(assume, extents, 1)


def test_a_descriptor_whose_parts_have_a_name_of_the_text_is_called_by_its_position() -> None:
    head = "%x: !tt.ptr<i32>, %d: !tt.tensordesc<4xi32>, %d.shape.0: i32, %d_shape: i32, %e: !tt.tensordesc<4xi32>"
    head += ", %arg1.shape.0: i32"
    made = jn.kernel.from_ttir(f"tt.func public @k({head}) {{\n  tt.return\n}}\n")
    assert parameter_names(made._function) == ("x", "arg1_", "arg2", "d_shape", "e", "arg5")
    lines = str(made.prove()).split("\n")
    for name, text, position in (("arg1_", "d", 1), ("arg2", "d.shape.0", 2), ("arg5", "arg1.shape.0", 5)):
        assert lines.count(f"  {name} is the parameter %{text}, number {position} of the text, counted from 0") == 1
    assert sum("of the text, counted" in line for line in lines) == 3  # the others are called as the text calls them
    for wrong in ("arg2.shape.0", "arg1_.shape.1", "arg5.x", "d"):
        with pytest.raises(jn.UserError, match="is not known, as texts are read without"):
            made.prove([f"{wrong} >= 1"])


def test_reasons_call_nothing_by_the_name_of_a_parameter() -> None:
    made = jn.kernel.from_ttir("""tt.func public @k(%x: !tt.ptr<i32>, %p_x: i32, %lane: i32) {
      %p = tt.get_program_id x : i32
      %r = tt.make_range {start = 0 : i32, end = 4 : i32} : tensor<4xi32>
      %some = arith.addi %p, %p_x : i32
      %all = tt.splat %some : i32 -> tensor<4xi32>
      %index = arith.muli %all, %r : tensor<4xi32>
      %to = tt.splat %x : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
      %at = tt.addptr %to, %index : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
      tt.store %at, %r : tensor<4x!tt.ptr<i32>>
      tt.return
    }""")
    made = jn.kernel.from_ttir(made.ttir.replace("%x:", "%t: !tt.ptr<i32>, %x:"))
    (verdict,) = made.prove(("distinct(t[:])",), {"x": "lane"}, properties=("overflow",)).accesses  # no launch refutes it
    assert "program(x)" in verdict.reason
    assert "p_x*lane() + program(x)*lane()" in verdict.reason


@pytest.mark.parametrize("head", ["%grid_x_1: i32, %grid_x_2: i32", "%grid_x: f32, %n: i32", "%grid-x: i32, %n: i32"])
def test_a_grid_of_any_size_has_a_name_that_no_parameter_could_have(head: str) -> None:
    made = jn.kernel.from_ttir(f"""tt.func public @k(%x: !tt.ptr<i32>, {head}) {{
      %c = arith.constant 1 : i32
      tt.store %x, %c : !tt.ptr<i32>
      tt.return
    }}""")
    assert made.prove((), {"x": 1}, None, ("bounds",)).specification.grid[0] == "grid_x_"


def test_names_of_descriptors_are_those_of_their_parts_alone() -> None:
    """Two of one name are called by their position, and a parameter may be named like a part of that: this was proven."""
    head = "%a_1: !tt.tensordesc<4xf32>, %a_2: i32, %arg0.shape.0: i32, %x: !tt.ptr<i32>"
    made = jn.kernel.from_ttir(f"""tt.func public @f({head}) {{
      %c0 = arith.constant 0 : i32
      %m = arith.minsi %arg0.shape.0, %c0 : i32
      %at = tt.addptr %x, %m : !tt.ptr<i32>, i32
      tt.store %at, %c0 : !tt.ptr<i32>
      tt.return
    }}""")
    assert parameter_names(made._function) == ("arg0_", "arg1", "arg2", "x")
    assert made.prove(extents={"x": 1}, grid=1, properties=("bounds",)).verdict("bounds") == "refuted"


@pytest.mark.parametrize("extent", [80, 127, 128])
def test_tensor_maps_in_memory_are_not_modelled(extent: int) -> None:
    """They have 128 bytes, of which their expanded form touches some words: bounds and races were proven of shorter memory."""
    options = "{elem_type = 7 : i32, fill_mode = 0 : i32, interleave_layout = 0 : i32, swizzle_mode = 0 : i32}"
    makes = jn.kernel.from_ttir(f"""tt.func public @f(%w: !tt.ptr<i8> {{tt.divisibility = 16 : i32}}, %x: !tt.ptr<f32>) {{
      %c1 = arith.constant 1 : i32
      %c8 = arith.constant 8 : i32
      ttng.tensormap_create %w, %x, [%c8], [%c8], [], [%c1] {options} : (!tt.ptr<i8>, !tt.ptr<f32>, i32, i32, i32) -> ()
      tt.return
    }}""")
    reads = jn.kernel.from_ttir("""tt.func public @f(%w: !tt.ptr<i8> {tt.divisibility = 16 : i32}) {
      %d = ttng.reinterpret_tensor_descriptor %w : !tt.ptr<i8> to !tt.tensordesc<8xf32>
      tt.return
    }""")
    for kernel_, extents in ((makes, {"w": extent, "x": 8}), (reads, {"w": extent})):
        found = kernel_.prove(extents=extents, grid=2, properties=("bounds", "races"))
        assert {found.verdict("bounds"), found.verdict("races")} == {"unknown"}
        assert "touches 128 bytes, is not modelled" in str(found)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("operation", [
    "ttng.tensormap_create %w, %x, [%c8], [%c8], [], [%c1] {elem_type = 7 : i32, fill_mode = 0 : i32, "
    "interleave_layout = 0 : i32, swizzle_mode = 0 : i32} : (!tt.ptr<i8>, !tt.ptr<f32>, i32, i32, i32) -> ()",
    "%d = ttng.reinterpret_tensor_descriptor %w : !tt.ptr<i8> to !tt.tensordesc<8xf32>",
    "ttng.tensormap_fenceproxy_acquire %w : !tt.ptr<i8>",
])  # fmt: skip
def test_tensor_maps_of_functions_that_are_called_are_not_modelled(operation: str, depth: int) -> None:
    """They were looked for in the kernel before functions were inlined, and proven of 80 bytes."""
    lines = f"""%c1 = arith.constant 1 : i32
      %c8 = arith.constant 8 : i32
      {operation}"""
    callees = []
    for level in range(depth):
        callees.append(f"tt.func private @f{level}(%w: !tt.ptr<i8>, %x: !tt.ptr<f32>) {{\n{lines}\ntt.return\n}}")
        lines = f"tt.call @f{level}(%w, %x) : (!tt.ptr<i8>, !tt.ptr<f32>) -> ()"
    made = jn.kernel.from_ttir("module {\n" + "\n".join(callees) + f"""
    tt.func public @f(%w: !tt.ptr<i8> {{tt.divisibility = 16 : i32}}, %x: !tt.ptr<f32>) {{
      {lines}
      tt.return
    }}
    }}""")
    found = made.prove(extents={"w": 80, "x": 8}, grid=2)
    assert {found.verdict(each) for each in found.properties} == {"unknown"}
    assert "called at" in found.accesses[0].line


_AT_THE_END = """
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %v = tt.descriptor_load %d[%zero] : !tt.tensordesc<4xi32> -> tensor<4xi32>
  %last = arith.subi %n, %one : i32
  %at = tt.addptr %x, %last : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>"""


def test_a_tensor_reaches_as_far_as_its_array_which_may_be_longer_than_its_extent() -> None:
    """The extent was taken for all that the array has, which no launch checks: a tensor of 64 elements was left out."""
    parameters = "%d: !tt.tensordesc<4xi32>, %x: !tt.ptr<i32>, %n: i32"
    made = jn.kernel.from_ttir(f"tt.func public @f({parameters}) {{{_AT_THE_END}\n  tt.return\n}}")
    assume = ["n == d.shape.0", "n >= 1", "d.stride.0 == 1"]
    proof = made.prove(assume, {"d": 16, "x": 16}, 1, ("bounds",))
    assert proof.verdict("bounds") == "refuted"
    (example,) = [each.counterexample for each in proof.refuted]
    assert example is not None
    assert dict(example.sizes)["n"] > 16
    assert made.prove([*assume, "n <= 16"], {"d": 16, "x": 16}, 1, ("bounds",)).ok
    longer = jn.TensorDescriptor(np.zeros(64, np.int32))
    assert {each.kind for each in made.sanitize((1,), longer, np.zeros(16, np.int32), 64).findings} == {"out-of-bounds"}


def test_programs_as_many_as_a_tensor_has_elements_may_be_more_than_its_extent() -> None:
    made = jn.kernel.from_ttir("""tt.func public @f(%d: !tt.tensordesc<4xi32>, %x: !tt.ptr<i32>) {
      %c16 = arith.constant 16 : i32
      %c0 = arith.constant 0 : i32
      %v = tt.descriptor_load %d[%c0] : !tt.tensordesc<4xi32> -> tensor<4xi32>
      %p = tt.get_program_id x : i32
      %i = arith.remsi %p, %c16 : i32
      %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
      tt.store %at, %p : !tt.ptr<i32>
      tt.return
    }""")
    extents = {"d": 16, "x": 16}
    assert made.prove(["d.stride.0 == 1"], extents, "d.shape.0", ("races",)).verdict("races") == "refuted"
    assert made.prove(["d.stride.0 == 1", "d.shape.0 <= 16"], extents, "d.shape.0", ("races",)).ok


def test_a_proof_is_data() -> None:
    proof = kernel("mask_of_too_many").prove(extents={"x": "n"}, grid="cdiv(n, 4)", properties=("bounds", "races"))
    data = json.loads(proof.as_json())
    assert data["verdicts"] == {"bounds": "refuted", "races": "unknown"}
    example = data["accesses"][0]["counterexample"]
    assert example["finding"]["kind"] == "out-of-bounds"
    assert str(proof.accesses[0].counterexample.finding.message) in str(proof)
    assert "arrays of different parameters do not overlap" in str(proof)


def test_verdicts_are_the_same_again_and_follow_from_the_limit() -> None:
    first, second = (kernel("too_small_tiles").prove(extents={"x": "n"}, grid="cdiv(n, 3)") for _ in range(2))
    assert first.as_json() == second.as_json()
    tired = kernel().prove(extents={"x": "n"}, grid="cdiv(n, 4)", limit=1)
    assert {each.verdict for each in tired.accesses} == {"unknown"}


def test_a_specification_is_guessed_from_a_launch() -> None:
    proof = kernel().prove.like(25, np.zeros(100, np.int32), 100)
    assert str(proof.specification) == "grid: cdiv(n, 4), 1, 1\nextent of x: n\nassume: n >= 1"
    assert proof.ok


@pytest.mark.slow
def test_relations_of_sizes_are_guessed_as_far_as_they_are_needed() -> None:
    rows = kernel("tiles").prove.like((3, 2), np.zeros(90, np.float32), 9, 7, 10)
    assert rows.specification.grid == ("cdiv(n, 4)", "cdiv(m, 4)", "1")
    assert dict(rows.specification.extents) == {"x": "(n - 1) * s + m"}
    assert "s >= m" in rows.specification.assume
    assert rows.verdict("races") in ("proven", "proven under")


def test_without_z3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    true_import = builtins.__import__

    def refusing(name: str, *args: Any, **options: Any) -> Any:
        if name == "z3":
            raise ImportError(name)
        return true_import(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(jn.UnsupportedError, match=r"pip install 'joinery-graph\[prove\]'"):
        kernel().prove(extents={"x": "n"})


@pytest.mark.parametrize(
    "type_",
    [
        "index", "!tt.ptr<tensor<4xi32>>", "tensor<4xi32>", "tensor<4x!tt.ptr<i32>>", "tensor<4xindex>", "none",
        "vector<4xi32>", "memref<4xi32>", "(i32) -> i32", "ui32", "!tt.ptr<!tt.ptr<tensor<4xi32>>>",
        "!tt.ptr<!tt.tensordesc<4xi32>>", "!tt.ptr<ui32>", "i77",
    ],
)
def test_parameters_that_no_launch_passes_are_refused(type_: str) -> None:
    """A pointer to a block is expanded to several parameters, which were taken for those behind it."""
    parameters = f"%p: {type_}, %x: !tt.ptr<i32>, %n: i32, %f: f32, %y: !tt.ptr<i32>, %m: i32"
    made = jn.kernel.from_ttir(f"""tt.func public @f({parameters}) {{
  %at = tt.addptr %x, %n : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>
  tt.return
}}""")
    with pytest.raises(jn.UnsupportedError, match=r"p of @f is of type .*, which no launch passes; fix: "):
        made.prove(["m == 0", "n == 1000"], {"x": 1, "y": 1}, 1)


def test_a_loop_up_to_an_index_parameter_is_refused() -> None:
    made = jn.kernel.from_ttir("""tt.func public @f(%x: !tt.ptr<i32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %j = arith.index_cast %i : index to i32
    %at = tt.addptr %x, %j : !tt.ptr<i32>, i32
    tt.store %at, %j : !tt.ptr<i32>
  }
  tt.return
}""")
    with pytest.raises(jn.UnsupportedError, match="n of @f is of type index"):
        made.prove((), {"x": 4}, 1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("assume", [["n * n >= 2**60"], ["n * m >= 2**52", "m <= 2**22", "m >= 1"]])
def test_nothing_is_proven_under_conditions_that_contradict_the_assumptions(assume: list[str]) -> None:
    """They say that n is 2**30 or more, which takes products of sizes to be seen: 4 * n is no number of 32 bits."""
    made = jn.kernel.from_ttir("""tt.func public @f(%x: !tt.ptr<i8>, %n: i32, %m: i32) {
  %l = tt.get_program_id x : i32
  %c4 = arith.constant 4 : i32
  %o = arith.muli %l, %c4 : i32
  %at = tt.addptr %x, %o : !tt.ptr<i8>, i32
  %b = arith.trunci %m : i32 to i8
  tt.store %at, %b : !tt.ptr<i8>
  tt.return
}""")
    proof = made.prove(assume, {"x": "4 * n"}, "n")
    assert [each.verdict for each in proof.accesses] == ["unknown", "unknown", "refuted"]
    assert proof.refuted[0].counterexample.finding.kind == "overflow"
    possible = made.prove((), {"x": "4 * n"}, "n")
    assert {each.verdict for each in possible.accesses} == {"proven under"}


@pytest.mark.parametrize("form", ["allow_reorder", "{allow_reorder = true}"])
def test_a_reshape_that_may_reorder_has_elements_in_any_order(form: str) -> None:
    made = jn.kernel.from_ttir(f"""tt.func public @f(%x: !tt.ptr<i32>, %n: i32) {{
      %l = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
      %r = tt.reshape %l {form} : tensor<8xi32> -> tensor<2x4xi32>
      %xs = tt.splat %x : !tt.ptr<i32> -> tensor<2x4x!tt.ptr<i32>>
      %at = tt.addptr %xs, %r : tensor<2x4x!tt.ptr<i32>>, tensor<2x4xi32>
      tt.store %at, %r : tensor<2x4x!tt.ptr<i32>>
      tt.return
    }}""")
    assert made.prove((), {"x": 8}, 1, ("bounds",)).verdict("bounds") == "unknown"


@pytest.mark.parametrize(("assume", "verdict"), [
    (["0 <= idx[:] < m"], "unknown"),  # m = 0 has no elements, and for m > 0 all are inside
    (["0 <= idx[:] < m", "m <= 0"], "unknown"),
    (["300 <= idx[:]"], "unknown"),
    (["0 <= idx[:] <= m"], "refuted"),
])  # fmt: skip
def test_no_launch_has_elements_in_a_range_that_is_empty(assume: list[str], verdict: str) -> None:
    """Without an extent of idx: it has elements in launches, so there are numbers that these may be."""
    subject = jn.kernel.from_ttir("""tt.func public @k(%idx: !tt.ptr<i8>, %o: !tt.ptr<i32>) {
  %p = tt.get_program_id x : i32
  %a = tt.addptr %idx, %p : !tt.ptr<i8>, i32
  %n = tt.load %a : !tt.ptr<i8>
  %v = arith.extui %n : i8 to i32
  %b = tt.addptr %o, %v : !tt.ptr<i32>, i32
  %c = tt.load %b : !tt.ptr<i32>
  tt.return
}""")
    proof = subject.prove([*assume, "m <= 100"], {"o": "m"}, "n", ("bounds",))
    assert proof.verdict("bounds") == verdict
    for each in proof.accesses:
        if each.counterexample is not None:
            assert dict(each.counterexample.sizes)["m"] >= 0


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("assume", "n"), [([], 1), (["n >= 2"], 2), (["n >= 5"], None), (["number(m)", "m * n >= 1", "m < 2"], 1)]
)
def test_sizes_that_show_that_assumptions_hold_are_all_one_number_where_they_may_be(assume: list[str], n: int | None) -> None:
    example = dict(jn.kernel.from_ttir(SUBJECTS["vector"].text, cache=False).prove(assume, {"x": "n"}).example)
    assert example["n"] >= 5 if n is None else {*example.values()} == {n}


def test_the_smallest_limit_is_one() -> None:
    """A share of it is none that the solver takes for no limit."""
    proof = jn.kernel.from_ttir(SUBJECTS["mask_of_too_many"].text, cache=False).prove((), {"x": "n"}, limit=1)
    assert proof.verdict("bounds") == "unknown"


_ROWS = """tt.func public @k(%x: !tt.ptr<i32>, %n: i32, %m: i32, %rows: i32) {
  %p = tt.get_program_id x : i32
  %q = arith.divsi %p, %rows : i32
  %r = arith.remsi %p, %rows : i32
  %o = arith.muli %q, %rows : i32
  %at = arith.addi %o, %r : i32
  %a = tt.addptr %x, %at : !tt.ptr<i32>, i32
  tt.store %a, %p : !tt.ptr<i32>
  tt.return
}"""
"""Stores rows * m elements, by as many programs."""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("size", ["(n + 2) // 3", "cdiv(n, 3)", "min(n, 7)", "max(n - 2, 1)", "n % 5 + 1", "2 * (n // 3) + 1"])
def test_sizes_are_what_equations_say(size: str) -> None:
    """Of whatever is a number for all sizes; extents may have the size or what it is."""
    rows = jn.kernel.from_ttir(_ROWS)
    assume = ["n >= 1", "m >= 1", "n <= 1000", "m <= 1000", f"rows == {size}"]
    for extent, programs in ((f"({size}) * m", "rows * m"), ("rows * m", f"m * ({size})")):
        found = rows.prove(assume, {"x": extent}, programs)
        assert {found.verdict(each) for each in found.properties} == {"proven"}, found
        short = rows.prove(assume, {"x": f"{extent} - 1"}, programs, ("bounds",))
        assert short.verdict("bounds") == "refuted", short


@pytest.mark.parametrize(
    "assume", [["rows == n // 3", "n == rows + 1"], ["rows == min(rows, n)", "rows >= n + 1"], ["rows == n % 3", "rows >= 3"]]
)
def test_equations_in_a_circle_and_beside_others_stay_assumptions(assume: list[str]) -> None:
    """The first ones hold for n == 1 alone; the others contradict themselves."""
    rows = jn.kernel.from_ttir(_ROWS)
    extents, programs = {"x": "m * n"}, "m"
    if assume[0] == "rows == n // 3":
        found = rows.prove([*assume, "m >= 1", "n >= 1"], extents, programs)
        assert "n == 1" in found.fixed
        return
    with pytest.raises(jn.UserError, match="the assumptions contradict each other"):
        rows.prove([*assume, "m >= 1", "n >= 1"], extents, programs)


def test_a_size_that_may_be_no_number_is_not_defined() -> None:
    """By 0 nothing is divided, and what is true of elements is no size."""
    with pytest.raises(jn.UserError, match="which may be 0 or less"):
        jn.kernel.from_ttir(_ROWS).prove(["rows == n // m"], {"x": "n"}, "n")
