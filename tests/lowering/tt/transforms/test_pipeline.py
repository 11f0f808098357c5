"""The named passes: their order, the text after each, and that none changes what a kernel computes."""

from __future__ import annotations

import json
from pathlib import Path

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.tt.transforms.pipeline import pipeline_of

CORPUS = Path(__file__).resolve().parents[3] / "data" / "ttir"
KERNEL = """
module {
  tt.func public @f(%o: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %dead = arith.muli %n, %c2 : i32
    %v = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0) -> (i32) : i32 {
      %same = arith.addi %n, %c0 : i32
      %fixed = arith.muli %n, %n : i32
      %again = arith.muli %n, %n : i32
      %x = arith.addi %fixed, %again : i32
      %y = tt.call @twice(%i) : (i32) -> i32
      %z = arith.addi %x, %y : i32
      %t = arith.addi %s, %z : i32
      %next = arith.subi %t, %same : i32
      scf.yield %next : i32
    }
    tt.store %o, %v : !tt.ptr<i32>
    tt.return
  }
  tt.func private @twice(%x: i32) -> i32 {
    %c2 = arith.constant 2 : i32
    %y = arith.muli %x, %c2 : i32
    tt.return %y : i32
  }
}
"""


def test_what_each_pass_does() -> None:
    kernel = jn.kernel.from_ttir(KERNEL)
    assert kernel.passes == pipeline_of("host").names
    stages = kernel.stages()
    assert tuple(stages) == kernel.passes
    assert kernel.passes[:1] == ("inline",)
    assert "tt.call" in kernel.ttir
    assert "tt.call" not in stages["inline"]
    assert "arith.addi %n, %c0" in stages["inline"]
    assert "arith.addi %n, %c0" not in stages["canonicalize"]
    assert stages["canonicalize"].count("arith.muli %n, %n") == 2
    assert stages["cse"].count("arith.muli %n, %n") == 1
    assert "%dead = " in stages["cse"]
    assert "%dead = " not in stages["dce"]
    assert stages["dce"].index("arith.muli %n, %n") > stages["dce"].index("scf.for")
    assert stages["licm"].index("arith.muli %n, %n") < stages["licm"].index("scf.for")
    for name, text in stages.items():
        assert kernel.ttir_after(name) == text


def test_a_name_that_is_no_pass() -> None:
    with pytest.raises(
        jn.UserError, match="no pass 'loop'; the passes are inline, drop-claims, expand-control"
    ):
        jn.kernel.from_ttir(KERNEL).ttir_after("loop")


def test_the_kernel_itself_stays() -> None:
    kernel = jn.kernel.from_ttir(KERNEL)
    before = kernel.ttir
    kernel.stages()
    o, p = np.zeros(1, np.int32), np.zeros(1, np.int32)
    kernel.interpret((1,), o, 5)
    kernel.launch((1,), p, 5)
    assert o[0] == p[0] == 5 * 50 + 20 - 25
    assert kernel.ttir == before


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "name", ["arg_fast", "call_chain", "raw_softmax_rows", "softmax_rows", "sort_rows", "welford_stats"]
)
def test_every_stage_computes_the_same(name: str) -> None:
    """After every pass the text reads back, and the interpreter answers with the same bits."""
    facts = json.loads((CORPUS / name / "case.json").read_text())
    data = np.load(CORPUS / name / "data.npz")
    kernel = jn.kernel.from_ttir(CORPUS / name / "kernel.ttir", facts["entry"])

    def run(one: jn.kernel.Kernel) -> list[bytes]:
        arguments = []
        for each in facts["args"]:
            if each["kind"] == "scalar":
                arguments.append(each["value"])
            elif "fill" in each["init"]:
                kind = {"f": "float", "i": "int", "u": "uint"}[each["dtype"][0]] + each["dtype"][1:]
                arguments.append(np.full(each["numel"], each["init"]["fill"]).astype(kind))
            else:
                arguments.append(data[each["init"]["array"]].copy())
        one.interpret(tuple(facts["grid"]), *arguments)
        return [value.tobytes() for value in arguments if isinstance(value, np.ndarray)]

    expected = run(kernel)
    for text in dict.fromkeys(kernel.stages().values()):  # a pass that changes nothing leaves the same text
        assert run(jn.kernel.from_ttir(text)) == expected


# Folding: blocks filled with one value, and floats

FLOATS = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-45, 3.4e38]
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def program(body: str, type_: str, result: str | None = None) -> str:
    result = result or type_
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<{type_}>, %o: !tt.ptr<{result}>) {{
    %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %p0 = tt.splat %x : !tt.ptr<{type_}> -> tensor<16x!tt.ptr<{type_}>>
    %p = tt.addptr %p0, %r : tensor<16x!tt.ptr<{type_}>>, tensor<16xi32>
    %v = tt.load %p : tensor<16x!tt.ptr<{type_}>>
    {body}
    %q0 = tt.splat %o : !tt.ptr<{result}> -> tensor<16x!tt.ptr<{result}>>
    %q = tt.addptr %q0, %r : tensor<16x!tt.ptr<{result}>>, tensor<16xi32>
    tt.store %q, %w : tensor<16x!tt.ptr<{result}>>
    tt.return
  }}
}}
"""


def same_before_and_after(text: str, x: np.ndarray, result: np.dtype) -> str:
    """The text after canonicalize, once the interpreter has answered both texts with the same bits."""
    kernel = jn.kernel.from_ttir(text)
    after = kernel.ttir_after("canonicalize")
    answers = []
    for one in (kernel, jn.kernel.from_ttir(after)):
        o = np.zeros(16, result)
        one.interpret((1,), x, o)
        answers.append(o)
    assert answers[0].tobytes() == answers[1].tobytes()
    return after


@pytest.mark.one_in(3)
@pytest.mark.parametrize("type_", DTYPES)
@pytest.mark.parametrize(
    ("operation", "constant", "folds"),
    [
        ("arith.addf %v, %k", "-0.0", True), ("arith.addf %k, %v", "-0.0", True), ("arith.addf %v, %k", "0.0", False),
        ("arith.subf %v, %k", "0.0", True), ("arith.subf %v, %k", "-0.0", False), ("arith.subf %k, %v", "0.0", False),
        ("arith.mulf %v, %k", "1.0", True), ("arith.mulf %k, %v", "1.0", True), ("arith.mulf %v, %k", "0.0", False),
        ("arith.divf %v, %k", "1.0", True), ("arith.divf %k, %v", "1.0", False), ("arith.subf %v, %v", "0.0", False),
    ],
)  # fmt: skip
def test_neutral_floats(type_: str, operation: str, constant: str, folds: bool) -> None:
    body = (
        f"%k = arith.constant dense<{constant}> : tensor<16x{type_}>\n%w = {operation} : tensor<16x{type_}>"
    )
    dtype = np.dtype(DTYPES[type_])
    with np.errstate(over="ignore"):
        x = np.resize(np.array(FLOATS, np.float64), 16).astype(dtype)
    after = same_before_and_after(program(body, type_), x, dtype)
    assert (operation.split()[0] not in after) == folds


@pytest.mark.one_in(4)
@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("operation", ["addf", "subf", "mulf", "divf"])
@pytest.mark.parametrize(
    ("x", "y", "folds"),
    [
        ("1.5", "3.0", True),
        ("0.1", "0.3", True),
        ("-0.0", "0.0", None),
        ("1.0e38", "1.0e300", None),
        ("1.0e-40", "3.0", True),
    ],
)
def test_float_constants(type_: str, operation: str, x: str, y: str, folds: bool | None) -> None:
    if type_ == "f32" and "e300" in y:
        y = "3.0e38"
    body = f"""
    %a = arith.constant dense<{x}> : tensor<16x{type_}>
    %b = arith.constant {y} : {type_}
    %c = tt.splat %b : {type_} -> tensor<16x{type_}>
    %w = arith.{operation} %a, %c : tensor<16x{type_}>"""
    after = same_before_and_after(program(body, type_), np.zeros(16, DTYPES[type_]), np.dtype(DTYPES[type_]))
    if folds is not None:
        assert f"arith.{operation}" not in after


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "predicate",
    ["oeq", "one", "olt", "ole", "ogt", "oge", "ord", "ueq", "une", "ult", "ule", "ugt", "uge", "uno"],
)
@pytest.mark.parametrize(
    ("x", "y"),
    [("1.0", "2.0"), ("2.0", "1.0"), ("0.0", "-0.0"), ("0x7FC00000", "1.0"), ("0x7F800000", "0x7F800000")],
)
def test_comparisons_of_float_constants(predicate: str, x: str, y: str) -> None:
    body = f"""
    %a = arith.constant dense<{x}> : tensor<16xf32>
    %b = arith.constant dense<{y}> : tensor<16xf32>
    %m = arith.cmpf {predicate}, %a, %b : tensor<16xf32>
    %w = arith.extui %m : tensor<16xi1> to tensor<16xi32>"""
    after = same_before_and_after(program(body, "f32", "i32"), np.zeros(16, np.float32), np.dtype(np.int32))
    assert "arith.cmpf" not in after
    assert "arith.extui" not in after


@pytest.mark.parametrize(
    ("body", "result", "gone"),
    [
        (
            "%k = arith.constant dense<0x3E01> : tensor<16xf16>\n%w = arith.extf %k : tensor<16xf16> to tensor<16xf32>",
            "f32",
            "extf",
        ),
        (
            "%k = arith.constant dense<0.1> : tensor<16xf64>\n%w = arith.truncf %k : tensor<16xf64> to tensor<16xf32>",
            "f32",
            "truncf",
        ),
        (
            "%k = arith.constant dense<1.0e300> : tensor<16xf64>\n%w = arith.truncf %k : tensor<16xf64> to tensor<16xf32>",
            "f32",
            None,
        ),
        (
            "%k = arith.constant dense<0.1> : tensor<16xf32>\n%w = arith.truncf %k : tensor<16xf32> to tensor<16xbf16>",
            "bf16",
            None,
        ),
        (
            "%k = arith.constant dense<0.1> : tensor<16xf32>\n%w = arith.truncf %k : tensor<16xf32> to tensor<16xf16>",
            "f16",
            "truncf",
        ),
    ],
)
def test_casts_of_float_constants(body: str, result: str, gone: str | None) -> None:
    dtype = np.dtype(DTYPES[result])
    after = same_before_and_after(program(body, "f32", result), np.zeros(16, np.float32), dtype)
    assert gone is None or f"arith.{gone}" not in after


INTEGERS = {
    "add": ("%w = arith.addi %a, %b : tensor<16xi32>", "addi"),
    "zero": ("%z = arith.constant dense<0> : tensor<16xi32>\n%w = arith.addi %v, %z : tensor<16xi32>", "addi"),
    "one": ("%z = arith.constant dense<1> : tensor<16xi32>\n%w = arith.muli %z, %v : tensor<16xi32>", "muli"),
    "itself": ("%w = arith.subi %v, %v : tensor<16xi32>", "subi"),
    "ones": ("%z = arith.constant dense<-1> : tensor<16xi32>\n%w = arith.ori %v, %z : tensor<16xi32>", "ori"),
    "true": (
        "%t = arith.constant dense<true> : tensor<16xi1>\n%m = arith.cmpi slt, %v, %a : tensor<16xi32>\n"
        "%n = arith.andi %m, %t : tensor<16xi1>\n%w = arith.extui %n : tensor<16xi1> to tensor<16xi32>",
        "andi",
    ),
    "reflexive": (
        "%m = arith.cmpi ule, %v, %v : tensor<16xi32>\n%w = arith.extsi %m : tensor<16xi1> to tensor<16xi32>",
        "cmpi",
    ),
    "chosen": (
        "%t = arith.constant true\n%s = tt.splat %t : i1 -> tensor<16xi1>\n"
        "%w = arith.select %s, %v, %a : tensor<16xi1>, tensor<16xi32>",
        "select",
    ),
    "mask": (
        "%t = arith.constant dense<true> : tensor<16xi1>\n%f = arith.constant dense<false> : tensor<16xi1>\n"
        "%m = arith.cmpi slt, %v, %a : tensor<16xi32>\n%n = arith.select %m, %t, %f : tensor<16xi1>, tensor<16xi1>\n"
        "%w = arith.extui %n : tensor<16xi1> to tensor<16xi32>",
        "select",
    ),
    "narrow": (
        "%s = arith.trunci %b : tensor<16xi32> to tensor<16xi8>\n"
        "%w = arith.extsi %s : tensor<16xi8> to tensor<16xi32>",
        "trunci",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INTEGERS)
def test_blocks_of_one_integer(name: str) -> None:
    body, gone = INTEGERS[name]
    constants = "%a = arith.constant dense<7> : tensor<16xi32>\n%five = arith.constant 1234567 : i32\n"
    constants += "%b = tt.splat %five : i32 -> tensor<16xi32>\n"
    x = np.array([0, 1, -1, 7, 2**31 - 1, -(2**31), 5, 6] * 2, np.int32)
    after = same_before_and_after(program(constants + body, "i32"), x, np.dtype(np.int32))
    assert f"arith.{gone}" not in after
