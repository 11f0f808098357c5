"""tt.assert, cf.assert and tt.print: what they say, to whom, and what the verifier refuses."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.interpret.print_format import MAX_LINES, print_lines
from joinery.lowering.tt.printing import print_module

ROOT = Path(__file__).resolve().parents[3] / "data" / "ttir"


def corpus(name: str):
    facts = json.loads((ROOT / name / "case.json").read_text())
    data = np.load(ROOT / name / "data.npz")
    arguments = []
    for argument in facts["args"]:
        if argument["kind"] == "scalar":
            arguments.append(argument["value"])
        elif "fill" in argument["init"]:
            dtype = argument["dtype"].replace("i", "int").replace("f", "float")
            arguments.append(np.full(argument["numel"], argument["init"]["fill"], dtype))
        else:
            arguments.append(np.ascontiguousarray(data[argument["init"]["array"]]).reshape(-1).copy())
    return jn.kernel.from_ttir((ROOT / name / "kernel.ttir").read_text()), tuple(facts["grid"]), arguments, facts


# tt.assert


def test_an_assertion_of_the_corpus_fails_with_its_place() -> None:
    kernel, grid, arguments, _ = corpus("checked_index_ok")
    kernel.interpret(grid, *arguments)
    arguments[0][[7, 9]] = 40, -1
    with pytest.raises(jn.KernelAssertionError) as caught:
        kernel.interpret(grid, *arguments)
    error = caught.value
    assert (error.message, error.program, error.lane) == ("index out of range", (0, 0, 0), (7,))
    assert error.file == "k_flow.py"
    assert isinstance(error.line, int)
    place = f"at k_flow.py:{error.line} fails in program (0, 0, 0), element (7,)"
    assert str(error) == f"the kernel's assertion {place}: index out of range"
    assert isinstance(error, jn.UserError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_programs_before_the_failing_one_have_run() -> None:
    kernel, grid, arguments, _ = corpus("checked_sqrt")
    arguments[0][70] = -1.0
    with pytest.raises(jn.KernelAssertionError) as caught:
        kernel.interpret(grid, *arguments)
    assert (caught.value.message, caught.value.program, caught.value.lane) == ("negative input", (1, 0, 0), (6,))
    assert (arguments[1][:64] == np.sqrt(arguments[0][:64])).all()
    assert (arguments[1][64:] == -96).all()


def test_overflow_is_caught() -> None:
    kernel, grid, arguments, _ = corpus("overflow_checked")
    arguments[0][3], arguments[1][3] = 1 << 30, 1 << 30
    with pytest.raises(jn.KernelAssertionError, match="int32 overflow detected for operation"):
        kernel.interpret(grid, *arguments)


ASSERTS = """
#loc2 = loc("kernel.py":12:5)
#loc3 = loc("helper.py":7:9)
#loc4 = loc("x"(#loc3))
#loc5 = loc(callsite(#loc4 at #loc2))
#loc6 = loc(fused[unknown, #loc2])
tt.func public @f(%n: i32) {
  %z = arith.constant 0 : i32
  %y = tt.get_program_id y : i32
  %c = arith.cmpi slt, %y, %n : i32
  %r = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
  %r4 = tt.reshape %r : tensor<8xi32> -> tensor<2x4xi32>
  %s = tt.splat %n : i32 -> tensor<2x4xi32>
  %b = arith.cmpi slt, %r4, %s : tensor<2x4xi32>
  OPERATION
  tt.return
}
"""


def failure(operation: str, n: int) -> jn.KernelAssertionError:
    text = ASSERTS.replace("OPERATION", operation)
    kernel = jn.kernel.from_ttir(text)
    assert jn.kernel.from_ttir(kernel.ttir).ttir == kernel.ttir
    kernel.interpret((1, 2), 8)
    with pytest.raises(jn.KernelAssertionError) as caught:
        kernel.interpret((1, 2), n)
    return caught.value


@pytest.mark.parametrize(
    ("location", "file", "line"),
    [("", None, None), ("loc(unknown)", None, None), ("loc(#loc2)", "kernel.py", 12), ("loc(#loc5)", "helper.py", 7),
     ("loc(#loc6)", "kernel.py", 12), ('loc("direct.py":99:1)', "direct.py", 99)],
)  # fmt: skip
def test_the_place_in_the_source(location: str, file: str | None, line: int | None) -> None:
    error = failure(f'tt.assert %c, "too \\"late\\"" : i1 {location}', 1)
    assert (error.file, error.line, error.program, error.lane) == (file, line, (0, 1, 0), ())
    assert error.message == 'too "late"'
    assert (f"at {file}:{line}" in str(error)) == (file is not None)


def test_locations_that_share_their_parts() -> None:
    """Eight call sites, each of the one before with itself: looked at once each."""
    aliases = "#loc100 = loc(unknown)\n"
    aliases += "".join(f"#loc{n} = loc(callsite(#loc{n - 1} at #loc{n - 1}))\n" for n in range(101, 109))
    module = parse(aliases + 'tt.func public @f(%c: i1) {\ntt.assert %c, "m" : i1 loc(#loc108)\ntt.return\n}')
    with pytest.raises(jn.KernelAssertionError) as caught:
        interpret(module, 1, [False])
    assert caught.value.line is None


def test_the_first_false_element() -> None:
    assert failure('tt.assert %b, "block" : tensor<2x4xi1>', 6).lane == (1, 2)
    assert failure('tt.assert %b, "block" : tensor<2x4xi1>', 0).lane == (0, 0)


def test_cf_assert() -> None:
    error = failure('cf.assert %c, "scalar" loc(#loc2)', 1)
    assert (error.message, error.line, error.lane) == ("scalar", 12, ())


@pytest.mark.parametrize("rank", range(5))
def test_conditions_of_every_rank(rank: int) -> None:
    shape = (2, 1, 4, 2)[:rank]
    type_ = f"tensor<{'x'.join(map(str, shape))}xi1>" if rank else "i1"
    splat = f"%b = tt.splat %c : i1 -> {type_}" if rank else "%z = arith.constant true\n%b = arith.andi %c, %z : i1"
    text = f'tt.func public @f(%c: i1) {{\n{splat}\ntt.assert %b, "m" : {type_}\ntt.return\n}}'
    kernel = jn.kernel.from_ttir(text)
    kernel.interpret(1, True)
    with pytest.raises(jn.KernelAssertionError) as caught:
        kernel.interpret(1, False)
    assert caught.value.lane == (0,) * rank


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('tt.assert %i, "m" : i32', "tt.assert: condition is i32, expected i1"),
        ('tt.assert %b, "m" : tensor<8xi32>', "tt.assert: condition is tensor<8xi32>, expected tensor<8xi1>"),
        ('"tt.assert"(%i) : (i32) -> ()', "message"),
        ("tt.assert %i, 3 : i32", r"<text>:\d+:\d+"),
        ('"tt.print"(%i) <{prefix = " x: ", hex = false, isSigned = array<i32>}> : (i32) -> ()', "isSigned has 0 entries"),
        ('"tt.print"(%i) <{prefix = "x", hex = false, isSigned = array<i32: 1, 0>}> : (i32) -> ()', "2 entries for 1 operands"),
        ('"tt.print"() <{prefix = "x", hex = false, isSigned = array<i32: 1>}> : () -> ()', "1 entries for 0 operands"),
        ('"tt.print"(%i) <{prefix = "x", hex = false, isSigned = array<i64: 1>}> : (i32) -> ()', "elements i64, expected i32"),
        ('"tt.print"(%x) <{prefix = "x", hex = false, isSigned = array<i32: 1>}> : (index) -> ()', "operand 0 is index"),
        ('tt.print "x" {isSigned = array<i32>}', "hex"),
        ('tt.print "x" {hex = false}', "isSigned"),
    ],
)
def test_what_the_verifier_refuses(body: str, message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        jn.kernel.from_ttir(f"tt.func public @f(%i: i32, %b: tensor<8xi32>, %x: index) {{\n{body}\ntt.return\n}}")


# tt.print


def written(lines: list[str], program, prefix: str) -> list[str]:
    """The values of the lines of one program and prefix, in order."""
    start = re.compile(rf"pid \({', '.join(map(str, program))}\)( idx \([ \d,]*\))?{re.escape(prefix)}")
    return [line[found.end() :] for line in lines if (found := start.match(line))]


@pytest.mark.parametrize("run", ["interpret", "launch"])
@pytest.mark.parametrize("name", ["print_values", "print_in_loop"])
def test_prints_of_the_corpus(name: str, run: str, capsys: pytest.CaptureFixture[str]) -> None:
    kernel, grid, arguments, facts = corpus(name)
    getattr(kernel, run)(grid, *arguments)
    lines = capsys.readouterr().out.splitlines()
    expected: dict[tuple, list[str]] = {}
    for said in facts["prints"]:
        values = said.get("values", said.get("tensor", []))
        texts = [f"0x{value & 0xFFFFFFFF:08x}" if said.get("hex") else str(value) for value in values]
        if len(said.get("values", ())) > 1:
            texts = [f"(operand {number}) {text}" for number, text in enumerate(texts)]
        expected.setdefault((tuple(said["pid"]), said["prefix"]), []).extend(texts or [""])
    assert sum(map(len, expected.values())) == len(lines) > 0
    for (program, prefix), texts in expected.items():
        assert written(lines, program, prefix) == texts


def test_the_whole_line() -> None:
    assert print_lines(" done", False, [], (1, 2, 3), []) == ["pid (1, 2, 3) done"]
    assert print_lines(" x: ", False, [True], (0, 0, 0), [np.int32(-5)]) == ["pid (0, 0, 0) idx () x: -5"]
    lines = print_lines(" x: ", False, [True], (0, 0, 0), [np.arange(16, dtype=np.int8)])
    assert lines[3] == "pid (0, 0, 0) idx ( 3) x: 3"
    assert lines[15] == "pid (0, 0, 0) idx (15) x: 15"
    lines = print_lines(" x: ", False, [True, True], (0, 4, 0), [np.arange(32).reshape(2, 1, 16), np.int32(7)])
    assert lines[20] == "pid (0, 4, 0) idx (1, 0,  4) x: (operand 0) 20"
    assert lines[32:] == ["pid (0, 4, 0) idx () x: (operand 1) 7"]


@pytest.mark.parametrize(
    ("value", "hexadecimal", "signed", "expected"),
    [
        (np.int8(-1), False, True, "-1"),
        (np.int8(-1), False, False, "255"),
        (np.int8(-1), True, True, "0xff"),
        (np.int16(-2), True, False, "0xfffe"),
        (np.int32(-1), False, False, "4294967295"),
        (np.int32(10), True, True, "0x0000000a"),
        (np.int64(-1), False, False, "18446744073709551615"),
        (np.int64(-(1 << 63)), False, True, "-9223372036854775808"),
        (np.int64(-1), True, True, "0xffffffffffffffff"),
        (np.bool_(True), False, False, "1"),
        (np.bool_(True), False, True, "-1"),
        (np.bool_(False), False, True, "0"),
        (np.bool_(True), True, False, "0x1"),
        (np.float32(1.5), False, True, "1.500000"),
        (np.float32(0.1), False, True, "0.100000"),
        (np.float64(-1e-9), False, True, "-0.000000"),
        (np.float16(65504), False, True, "65504.000000"),
        (ml_dtypes.bfloat16(3.0), False, True, "3.000000"),
        (ml_dtypes.float8_e4m3fn(0.5), False, True, "0.500000"),
        (np.float32(np.nan), False, True, "nan"),
        (np.float32(-np.inf), False, True, "-inf"),
        (np.float32(1.0), True, True, "0x1p+0"),
        (np.float32(-0.75), True, True, "-0x1.8p-1"),
        (np.float16(0.0), True, True, "0x0p+0"),
        (ml_dtypes.bfloat16(10.0), True, True, "0x1.4p+3"),
        (np.float64(np.inf), True, True, "inf"),
    ],
)
def test_values(value, hexadecimal: bool, signed: bool, expected: str) -> None:
    for array in (value, np.asarray(value).reshape(1, 1)):
        (line,) = print_lines(" v: ", hexadecimal, [signed], (0, 0, 0), [array])
        assert line.endswith(f" v: {expected}")


def test_pointers() -> None:
    (line,) = print_lines("", False, [False], (0, 0, 0), [np.int64(0x1234)], [True])
    assert line == "pid (0, 0, 0) idx ()0x1234"


def test_output_is_bounded() -> None:
    values = np.zeros((256, 256), np.int32)
    lines = print_lines(" v: ", False, [True, True], (0, 0, 0), [values, values])
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == f"pid (0, 0, 0) v: … {MAX_LINES} more elements"
    assert len(print_lines(" v: ", False, [True], (0, 0, 0), [values])) == MAX_LINES


@pytest.mark.parametrize("rank", range(5))
@pytest.mark.parametrize("elem", ["i1", "i8", "i64", "f16", "bf16", "f32", "f8E5M2", "!tt.ptr<f32>"])
def test_kernels_print(rank: int, elem: str, capsys: pytest.CaptureFixture[str]) -> None:
    shape = (2, 1, 4, 2)[:rank]
    type_ = f"tensor<{'x'.join(map(str, shape))}x{elem}>" if rank else elem
    splat = f"%b = tt.splat %v : {elem} -> {type_}\n" if rank else ""
    name = "%b" if rank else "%v"
    operation = f'tt.print " v: " {{hex = false, isSigned = array<i32: 1>}} : {name} : {type_}'
    text = f"tt.func public @f(%v: {elem}) {{\n{splat}{operation}\ntt.return\n}}"
    module = parse(text)
    assert operation in print_module(module)
    assert print_module(parse(print_module(module))) == print_module(module)
    interpret(module, (2,), [np.zeros(4, np.float32) if "ptr" in elem else 1])
    lines = capsys.readouterr().out.splitlines()
    count = int(np.prod(shape))
    assert len(lines) == 2 * count
    shown = {"i1": "-1", "i8": "1", "i64": "1", "!tt.ptr<f32>": "0x1010000000000"}.get(elem, "1.000000")
    indices = [", ".join(map(str, index)) for index in np.ndindex(shape)]
    expected = [f"pid ({x}, 0, 0) idx ({index}) v: {shown}" for x in range(2) for index in indices]
    assert lines == expected

