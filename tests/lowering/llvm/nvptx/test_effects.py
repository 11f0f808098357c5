"""tt.assert and tt.print on threads: what a launch in the simulator prints, and how it stops."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.promotion.errors import KernelAssertionError, UnsupportedError
from joinery.runtime.ptxsim.checks.findings import PtxCheckError

from ....support.kernels.blocks import block_type, empty, kernel, simulate, simulate_with, some

# -- prints ----------------------------------------------------------------------------------


def printing(blocks, prefix: str = " v: ", hexadecimal: bool = False, signed: bool = True, before: str = ""):
    types = ", ".join(block_type(shape, elem) for shape, elem in blocks)
    operands = ", ".join(f"%x{n}" for n in range(len(blocks)))
    signs = f"array<i32: {', '.join(str(int(signed)) for _ in blocks)}>" if blocks else "array<i32>"
    facts = f"{{hex = {str(hexadecimal).lower()}, isSigned = {signs}}}"
    typed = f" : {operands} : {types}" if blocks else ""
    return kernel(blocks, [], f'{before}\n    tt.print "{prefix}" {facts}{typed}')


def printed(k, capsys, *arrays, grid: int = 1) -> str:
    """What the launch prints; the interpreter prints the same."""
    simulate(k, *arrays, grid=grid)
    found = capsys.readouterr().out
    k.interpret((grid,), *arrays)
    assert found == capsys.readouterr().out
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("elem", "hexadecimal", "signed"),
    [
        ("i8", False, True), ("i8", True, True), ("i16", False, False), ("i16", True, False), ("i32", False, True),
        ("i32", True, True), ("i64", False, True), ("i64", False, False), ("i64", True, True), ("f16", False, True),
        ("bf16", False, True), ("f32", False, True), ("f32", True, True), ("f64", False, True), ("f64", True, True),
    ],
)  # fmt: skip
def test_numbers_of_any_type(elem: str, hexadecimal: bool, signed: bool, capsys) -> None:
    x = some((16,), elem)
    assert printed(printing([((16,), elem)], hexadecimal=hexadecimal, signed=signed), capsys, x).count("\n") == 16


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", [(1,), (4,), (256,), (2, 1, 64), (8, 32)])
def test_every_element_once_and_in_order(shape: tuple[int, ...], capsys) -> None:
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    lines = printed(printing([(shape, "i32")]), capsys, x).splitlines()
    assert [int(line.rsplit(" ", 1)[1]) for line in lines] == list(range(x.size))


def test_scalars_and_several_operands(capsys) -> None:
    text = printed(printing([((), "i32"), ((2,), "f32"), ((), "f64")]), capsys, np.array([7], np.int32),
                   np.array([0.5, -2], np.float32), np.array([np.inf]))  # fmt: skip
    assert text.splitlines() == [
        "pid (0, 0, 0) idx () v: (operand 0) 7",
        "pid (0, 0, 0) idx (0) v: (operand 1) 0.500000",
        "pid (0, 0, 0) idx (1) v: (operand 1) -2.000000",
        "pid (0, 0, 0) idx () v: (operand 2) inf",
    ]


def test_a_prefix_alone_from_every_program(capsys) -> None:
    text = printed(printing([], ' 100% of \\"it\\" done'), capsys, grid=3)
    assert text.splitlines() == [f'pid ({n}, 0, 0) 100% of "it" done' for n in range(3)]


def test_conditions_and_fp8(capsys) -> None:
    body = """%zero = arith.constant dense<0> : tensor<4xi32>
    %c = arith.cmpi sgt, %x0, %zero : tensor<4xi32>
    %f = arith.sitofp %x0 : tensor<4xi32> to tensor<4xf32>
    %e = tt.fp_to_fp %f, rounding = rtne : tensor<4xf32> -> tensor<4xf8E4M3FN>
    tt.print " c: " {hex = false, isSigned = array<i32: 1, 0>} : %c, %e : tensor<4xi1>, tensor<4xf8E4M3FN>"""
    text = printed(kernel([((4,), "i32")], [], body), capsys, np.array([-1, 0, 2, 3], np.int32))
    assert [line.rsplit(" ", 1)[1] for line in text.splitlines()] == [
        "0", "0", "-1", "-1", "-1.000000", "0.000000", "2.000000", "3.000000"
    ]  # fmt: skip


def test_what_was_printed_before_a_fault_is_shown(capsys) -> None:
    k = printing([((), "i32")], before='tt.print " first" {hex = false, isSigned = array<i32>}')
    with pytest.raises(PtxCheckError, match="bounds"):
        simulate(k, np.zeros(0, np.int32))
    # The load comes first in the text; a kernel that prints before it faults shows what it printed.
    late = kernel([], [((), "i32")], 'tt.print " first" {hex = false, isSigned = array<i32>}\n%y0 = arith.constant 1 : i32')
    capsys.readouterr()
    with pytest.raises(PtxCheckError, match="bounds"):
        simulate(late, np.zeros(0, np.int32))
    assert capsys.readouterr().out == "pid (0, 0, 0) first\n"


# -- assertions ------------------------------------------------------------------------------


def asserting(shape, message: str = "all are small", location: str = ' loc("k.py":12:3)'):
    """Writes the numbers, which must be below 100, one further."""
    type_, mask = block_type(shape, "i32"), block_type(shape, "i1")
    limit = "dense<100>" if shape else "100"
    body = f"""%limit = arith.constant {limit} : {type_}
    %c = arith.cmpi slt, %x0, %limit : {type_}
    tt.assert %c, "{message}" : {mask}{location}
    %y0 = arith.addi %x0, %limit : {type_}"""
    return kernel([(shape, "i32")], [(shape, "i32")], body)


@pytest.mark.parametrize("shape", [(), (1,), (16,), (512,), (4, 64)])
def test_what_holds_changes_nothing(shape: tuple[int, ...]) -> None:
    x = np.full(shape or (1,), 5, np.int32)
    _, out = simulate(asserting(shape), x, empty(shape or (1,), "i32"))
    np.testing.assert_array_equal(out, x + 100)


@pytest.mark.parametrize(
    ("shape", "place"),
    [((1,), (0,)), ((16,), (3,)), ((512,), (130,)), ((512,), (511,)), ((4, 64), (2, 33)), ((2, 1, 8), (1, 0, 4))],
)
def test_the_first_false_element_stops_the_launch(shape: tuple[int, ...], place: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.int32)
    x[place] = 100
    x[(-1,) * len(shape)] = 200
    errors = []
    for run in (lambda k: simulate(k, x, empty(shape, "i32")), lambda k: k.interpret((1,), x, empty(shape, "i32"))):
        with pytest.raises(KernelAssertionError, match="all are small") as caught:
            run(asserting(shape))
        errors.append(caught.value)
    assert str(errors[0]) == str(errors[1])
    assert (errors[0].lane, errors[0].file, errors[0].line) == (place, "k.py", 12)


def test_a_scalar_in_a_later_program() -> None:
    body = """%pid = tt.get_program_id x : i32
    %c = arith.cmpi slt, %pid, %x0 : i32
    tt.assert %c, "too \\22many\\22 programs" : i1"""
    k = kernel([((), "i32")], [], body)
    simulate(k, np.array([3], np.int32), grid=3)
    with pytest.raises(KernelAssertionError, match=r"program \(3, 0, 0\): too \"many\" programs") as caught:
        simulate(k, np.array([3], np.int32), grid=5)
    assert (caught.value.message, caught.value.line) == ('too "many" programs', None)


def test_what_comes_after_relies_on_it() -> None:
    """No thread reads outside of the array before another one has found out."""
    body = """%hundred = arith.constant 100 : i32
    %c = arith.cmpi slt, %x0, %hundred : i32
    tt.assert %c, "inside" : i1
    %a = tt.addptr %p0, %x0 : !tt.ptr<i32>, i32
    %y0 = tt.load %a : !tt.ptr<i32>"""
    with pytest.raises(KernelAssertionError, match="inside"):
        simulate(kernel([((), "i32")], [((), "i32")], body), np.array([1000], np.int32), empty((1,), "i32"))


def test_an_assertion_in_a_map() -> None:
    body = """%zero = arith.constant 0 : i32
    %y0 = "tt.map_elementwise"(%x0) <{pack = 1 : i32}> ({
    ^bb0(%a: i32):
      %p = arith.cmpi sgt, %a, %zero : i32
      %v = scf.if %p -> (i32) {
        %o = arith.constant 50 : i32
        %c = arith.cmpi slt, %a, %o : i32
        tt.assert %c, "below fifty" : i1
        scf.yield %a : i32
      } else {
        scf.yield %zero : i32
      }
      tt.map_elementwise.return %v : i32
    }) : (tensor<64xi32>) -> tensor<64xi32>"""
    k = kernel([((64,), "i32")], [((64,), "i32")], body)
    x = np.arange(-14, 50, dtype=np.int32)
    _, out = simulate(k, x, empty((64,), "i32"))
    np.testing.assert_array_equal(out, np.maximum(x, 0))
    with pytest.raises(KernelAssertionError, match="below fifty"):
        simulate(k, x + 1, empty((64,), "i32"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["tt.scan", "tt.reduce"])
@pytest.mark.parametrize("shape", [(64,), (512,), (4, 128)])
def test_assertions_in_combine_regions_hold_for_what_is_combined(kind: str, shape: tuple[int, ...]) -> None:
    """Sums below 1000, whoever forms them; what a thread computes and drops does not count."""
    axis = len(shape) - 1
    result = block_type(shape if kind == "tt.scan" else shape[:-1], "i32")
    body = f"""%y0 = "{kind}"(%x0) <{{axis = {axis} : i32{", reverse = false" if kind == "tt.scan" else ""}}}> ({{
    ^bb0(%a: i32, %b: i32):
      %most = arith.constant 1000 : i32
      %c = arith.addi %a, %b : i32
      %g = arith.cmpi slt, %c, %most : i32
      tt.assert %g, "small" : i1
      {kind}.return %c : i32
    }}) : ({block_type(shape, "i32")}) -> {result}"""
    out = shape if kind == "tt.scan" else shape[:-1]
    k = kernel([(shape, "i32")], [(out, "i32")], body)
    x = np.zeros(shape, np.int32)
    x[..., 0] = 999
    assert (simulate(k, x, empty(out or (1,), "i32"))[1] == 999).all()
    x[..., -1] = 1
    with pytest.raises(KernelAssertionError, match="small"):
        simulate(k, x, empty(out or (1,), "i32"))


@pytest.mark.parametrize("what", ["tt.print", "tt.store"])
def test_what_a_combine_region_cannot_hold(what: str) -> None:
    inside = {
        "tt.print": 'tt.print " x" {hex = false, isSigned = array<i32>}', "tt.store": "tt.store %p0, %b : !tt.ptr<i32>",
    }[what]  # fmt: skip
    body = f"""%y0 = "tt.reduce"(%x0) <{{axis = 0 : i32}}> ({{
    ^bb0(%a: i32, %b: i32):
      {inside}
      %c = arith.addi %a, %b : i32
      tt.reduce.return %c : i32
    }}) : (tensor<64xi32>) -> i32"""
    with pytest.raises(UnsupportedError, match=f"{what} in its region"):
        kernel([((64,), "i32")], [((), "i32")], body).ptx()


def test_faults_that_are_no_assertions_stay_faults() -> None:
    with pytest.raises(PtxCheckError) as caught:
        simulate(asserting((8,)), np.zeros(4, np.int32), empty((8,), "i32"))
    assert not isinstance(caught.value, KernelAssertionError)


def test_texts_are_stored_once() -> None:
    body = "\n".join(f'tt.assert %c, "the same" : i1 loc("k.py":{n}:1)' for n in (1, 2, 3))
    k = jn.kernel.from_ttir(f"tt.func public @k(%c: i1) {{\n{body}\ntt.return\n}}\n")
    assert k.llvm_ir("sm_80").count("the same") == 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("warps", [1, 8])
@pytest.mark.parametrize("shape", [(), (64,), (1024,)])
def test_assertions_of_programs_of_other_sizes(warps: int, shape: tuple[int, ...]) -> None:
    x, out = np.zeros(shape or (1,), np.int32), empty(shape or (1,), "i32")
    assert (simulate_with(asserting(shape), warps, x, out)[1] == 100).all()
    with pytest.raises(PtxCheckError, match=r"assert: all are small \(k\.py:12, k"):
        simulate_with(asserting(shape), warps, x + 100, out)
