"""Every operation with an undefined operand: that reaches a result, which is stored, or is found where it is used.

The table is compared with the registered operations, so that a new one has to say what it does with undefined operands.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.tt.dialect.context import dialects

from ....support.tiers import both_tiers, share

N = 16


@dataclass(frozen=True)
class Case:
    """text: with {0}, {1}, … for operands of these types. results: types of %r, or %r0, %r1, …; () if the operation uses its
    operands itself. harmless: operands that no lane needs here. before: what the text needs of defined values."""

    operands: tuple[str, ...]
    text: str
    results: tuple[str, ...] = ()
    harmless: tuple[int, ...] = ()
    before: str = ""


def block(elem: str, *shape: int) -> str:
    return f"tensor<{'x'.join(map(str, shape or (N,)))}x{elem}>"


def same(name: str, elem: str, count: int, result: str | None = None, suffix: str = "") -> Case:
    """An elementwise operation on operands of one type."""
    names = ", ".join(f"{{{i}}}" for i in range(count))
    kind = block(elem) if result is None else f"{block(elem)} to {block(result)}"
    return Case((block(elem),) * count, f"%r = {name} {names}{suffix} : {kind}", (block(result or elem),))


def extended(name: str, last: str) -> Case:
    names = "%r:2 = " + f"{name} {{0}}, {{1}} : {block('i32')}, {block(last)}"
    return Case((block("i32"),) * 2, names, (block("i32"), block(last)))


def pointer(elem: str) -> str:
    return f"!tt.ptr<{elem}>"


INT, FLT, PTR, BIT = block("i32"), block("f32"), block("!tt.ptr<i32>"), block("i1")
DESC = "!tt.tensordesc<4x16xf32>"
MADE = "%d = tt.make_tensor_descriptor %memory, [%four, %sixteen], [%wide, %step] : <f32>, <4x16xf32>"
ROWS = "%d = tt.make_tensor_descriptor %memory, [%four, %sixteen], [%wide, %step] : <f32>, <1x16xf32>"
INTEGERS = (
    "addi",
    "subi",
    "muli",
    "divui",
    "divsi",
    "floordivsi",
    "ceildivsi",
    "ceildivui",
    "remui",
    "remsi",
    "minsi",
    "maxsi",
    "minui",
    "maxui",
    "andi",
    "ori",
    "xori",
    "shli",
    "shrui",
    "shrsi",
)
FLOATS = ("addf", "subf", "mulf", "divf", "minimumf", "minnumf", "maximumf", "maxnumf", "remf")
MATH = (
    "absf",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp2",
    "expm1",
    "exp",
    "floor",
    "log10",
    "log1p",
    "log2",
    "log",
    "roundeven",
    "round",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
)

SCALED = """%r = tt.dot_scaled {0} scale {1}, {2} scale {3}, {4} lhs = e2m1 rhs = e4m3 {fastMath = false} :
    tensor<16x32xi8>, tensor<16x2xi8> * tensor<64x16xf8E4M3FN>, tensor<16x2xi8> -> tensor<16x16xf32>"""
CASES: dict[str, Case] = {
    **{f"arith.{name}": same(f"arith.{name}", "i32", 2) for name in INTEGERS},
    **{f"arith.{name}": same(f"arith.{name}", "f32", 2) for name in FLOATS},
    **{f"math.{name}": same(f"math.{name}", "f32", 1) for name in MATH},
    **{f"math.{name}": same(f"math.{name}", "f32", 2) for name in ("atan2", "copysign", "powf")},
    **{f"math.{name}": same(f"math.{name}", "i32", 1) for name in ("absi", "ctlz", "cttz", "ctpop")},
    "math.fma": same("math.fma", "f32", 3),
    "math.fpowi": Case((FLT, INT), f"%r = math.fpowi {{0}}, {{1}} : {FLT}, {INT}", (FLT,)),
    "math.ipowi": same("math.ipowi", "i32", 2),
    "arith.addui_extended": extended("arith.addui_extended", "i1"),
    "arith.mului_extended": Case((INT, INT), f"%r:2 = arith.mului_extended {{0}}, {{1}} : {INT}", (INT, INT)),
    "arith.mulsi_extended": Case((INT, INT), f"%r:2 = arith.mulsi_extended {{0}}, {{1}} : {INT}", (INT, INT)),
    "arith.negf": same("arith.negf", "f32", 1),
    "arith.bitcast": same("arith.bitcast", "f32", 1, "i32"),
    "arith.index_cast": Case(
        ("i32",),
        "%q = arith.index_cast {0} : i32 to index\n%r = arith.index_cast %q : index to i32",
        ("i32",),
    ),
    "arith.extf": same("arith.extf", "f32", 1, "f64"),
    "arith.truncf": same("arith.truncf", "f32", 1, "f16"),
    "arith.cmpi": Case((INT, INT), f"%r = arith.cmpi slt, {{0}}, {{1}} : {INT}", (BIT,)),
    "arith.cmpf": Case((FLT, FLT), f"%r = arith.cmpf olt, {{0}}, {{1}} : {FLT}", (BIT,)),
    "arith.select": Case(
        (BIT, INT, INT), f"%r = arith.select {{0}}, {{1}}, {{2}} : {BIT}, {INT}", (INT,), (2,)
    ),
    "arith.extsi": same("arith.extsi", "i32", 1, "i64"),
    "arith.extui": same("arith.extui", "i32", 1, "i64"),
    "arith.trunci": same("arith.trunci", "i32", 1, "i16"),
    "arith.sitofp": same("arith.sitofp", "i32", 1, "f32"),
    "arith.uitofp": same("arith.uitofp", "i32", 1, "f32"),
    "arith.fptosi": same("arith.fptosi", "f32", 1, "i32"),
    "arith.fptoui": same("arith.fptoui", "f32", 1, "i32"),
    "tt.splat": Case(("i32",), f"%r = tt.splat {{0}} : i32 -> {INT}", (INT,)),
    "tt.unsplat": Case((block("i32", 1),), "%r = tt.unsplat {0} : tensor<1xi32>", ("i32",)),
    "tt.expand_dims": Case(
        (INT,),
        f"%r = tt.expand_dims {{0}} {{axis = 0 : i32}} : {INT} -> tensor<1x16xi32>",
        (block("i32", 1, 16),),
    ),
    "tt.broadcast": Case(
        (block("i32", 1, 16),),
        "%r = tt.broadcast {0} : tensor<1x16xi32> -> tensor<4x16xi32>",
        (block("i32", 4, 16),),
    ),
    "tt.trans": Case(
        (block("i32", 4, 16),),
        "%r = tt.trans {0} {order = array<i32: 1, 0>} : tensor<4x16xi32> -> tensor<16x4xi32>",
        (block("i32", 16, 4),),
    ),
    "tt.reshape": Case((INT,), f"%r = tt.reshape {{0}} : {INT} -> tensor<4x4xi32>", (block("i32", 4, 4),)),
    "tt.join": Case(
        (INT, INT), f"%r = tt.join {{0}}, {{1}} : {INT} -> tensor<16x2xi32>", (block("i32", 16, 2),)
    ),
    "tt.cat": Case((INT, INT), f"%r = tt.cat {{0}}, {{1}} : {INT} -> tensor<32xi32>", (block("i32", 32),)),
    "tt.split": Case(
        (block("i32", 16, 2),), f"%r0, %r1 = tt.split {{0}} : tensor<16x2xi32> -> {INT}", (INT, INT)
    ),
    "tt.gather": Case(
        (INT, INT), f"%r = tt.gather {{0}}[{{1}}] {{axis = 0 : i32}} : ({INT}, {INT}) -> {INT}", (INT,)
    ),
    "tt.addptr": Case((PTR, INT), f"%r = tt.addptr {{0}}, {{1}} : {PTR}, {INT}", (PTR,)),
    "tt.int_to_ptr": Case((block("i64"),), f"%r = tt.int_to_ptr {{0}} : {block('i64')} -> {PTR}", (PTR,)),
    "tt.ptr_to_int": Case((PTR,), f"%r = tt.ptr_to_int {{0}} : {PTR} -> {block('i64')}", (block("i64"),)),
    "tt.bitcast": Case((FLT,), f"%r = tt.bitcast {{0}} : {FLT} -> {INT}", (INT,)),
    "tt.load": Case((PTR, BIT, INT), f"%r = tt.load {{0}}, {{1}}, {{2}} : {PTR}", (INT,), (2,)),
    "tt.store": Case((PTR, INT, BIT), f"tt.store {{0}}, {{1}}, {{2}} : {PTR}"),
    "tt.atomic_rmw": Case(
        (PTR, INT, BIT),
        f"%r = tt.atomic_rmw add, relaxed, gpu, {{0}}, {{1}}, {{2}} : ({PTR}, {INT}, {BIT}) -> {INT}",
    ),
    "tt.atomic_cas": Case(
        (PTR, INT, INT),
        f"%r = tt.atomic_cas relaxed, gpu, {{0}}, {{1}}, {{2}} : ({PTR}, {INT}, {INT}) -> {INT}",
    ),
    "tt.atomic_load": Case(
        (PTR, BIT), f"%r = tt.atomic_load relaxed, gpu, {{0}}, {{1}} : ({PTR}, {BIT}) -> {INT}"
    ),
    "tt.atomic_store": Case((PTR, INT, BIT), f"tt.atomic_store relaxed, gpu, {{0}}, {{1}}, {{2}} : {PTR}"),
    "tt.atomic_poll": Case(
        (pointer("i32"), "i32", "i64"),
        "%r = tt.atomic_poll relaxed, gpu, {0}, {1} timeout {2} : !tt.ptr<i32>, i32 -> i1",
    ),
    "tt.dot": Case(
        (block("f32", 16, 16),) * 3,
        "%r = tt.dot {0}, {1}, {2} : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>",
        (block("f32", 16, 16),),
    ),
    "tt.dot_scaled": Case(
        (
            block("i8", 16, 32),
            block("i8", 16, 2),
            block("f8E4M3FN", 64, 16),
            block("i8", 16, 2),
            block("f32", 16, 16),
        ),
        SCALED,
        (block("f32", 16, 16),),
    ),
    "tt.fp_to_fp": Case(
        (FLT,), f"%r = tt.fp_to_fp {{0}}, rounding = rtne : {FLT} -> {block('f16')}", (block("f16"),)
    ),
    "tt.mulhiui": same("tt.mulhiui", "i32", 2),
    "tt.approx_divf": same("tt.approx_divf", "f32", 2),
    "tt.precise_divf": same("tt.precise_divf", "f32", 2),
    "tt.precise_sqrt": same("tt.precise_sqrt", "f32", 1),
    "tt.clampf": same("tt.clampf", "f32", 3, suffix=", propagateNan = none"),
    "tt.histogram": Case((INT, BIT), f"%r = tt.histogram {{0}}, {{1}} : {INT} -> {INT}", (INT,)),
    "tt.fft": Case(
        (block("i64"),), f'%r = tt.fft {{0}} {{axis = 0 : i32, kind = "forward", length = {N} : i32}} : {block("i64")}',
        (block("i64"),),
    ),
    "tt.sort": Case((INT,), f"%r = tt.sort {{0}} {{axis = 0 : i32}} : {INT}", (INT,)),
    "tt.extern_elementwise": Case(
        (FLT, FLT),
        '%r = tt.extern_elementwise {0}, {1} {libname = "", libpath = "", pure = true, symbol = "__nv_powf"} : '
        f"({FLT}, {FLT}) -> {FLT}",
        (FLT,),
    ),
    "tt.elementwise_inline_asm": Case(
        (INT, INT),
        '%r:2 = tt.elementwise_inline_asm "add.s32 $0, $2, $3; sub.s32 $1, $2, $3;" '
        f'{{constraints = "=r,=r,r,r", packed_element = 1 : i32, pure = true}} {{0}}, {{1}} : {INT}, {INT} -> {INT}, {INT}',
        (INT, INT),
    ),
    "tt.reduce": Case(
        (INT,),
        f"""%r = "tt.reduce"({{0}}) <{{axis = 0 : i32}}> ({{ ^bb0(%x: i32, %y: i32):
    %z = arith.addi %x, %y : i32
    tt.reduce.return %z : i32 }}) : ({INT}) -> i32""",
        ("i32",),
    ),
    "tt.reduce.return": Case(
        ("i32",),
        f"""%r = "tt.reduce"(%one_block) <{{axis = 0 : i32}}> ({{ ^bb0(%x: i32, %y: i32):
    tt.reduce.return {{0}} : i32 }}) : ({INT}) -> i32""",
        ("i32",),
    ),
    "tt.scan": Case(
        (INT,),
        f"""%r = "tt.scan"({{0}}) <{{axis = 0 : i32, reverse = false}}> ({{ ^bb0(%x: i32, %y: i32):
    %z = arith.addi %x, %y : i32
    tt.scan.return %z : i32 }}) : ({INT}) -> {INT}""",
        (INT,),
    ),
    "tt.scan.return": Case(
        ("i32",),
        f"""%r = "tt.scan"(%one_block) <{{axis = 0 : i32, reverse = false}}> ({{ ^bb0(%x: i32, %y: i32):
    tt.scan.return {{0}} : i32 }}) : ({INT}) -> {INT}""",
        (INT,),
    ),
    "tt.map_elementwise": Case(
        (INT, INT),
        f"""%r:2 = "tt.map_elementwise"({{0}}, {{1}}) <{{pack = 2 : i32}}> ({{
    ^bb0(%a: i32, %b: i32, %c: i32, %e: i32):
      %x = arith.addi %a, %c : i32
      %y = arith.xori %b, %e : i32
      tt.map_elementwise.return %x, %y, %y, %x : i32, i32, i32, i32 }}) : ({INT}, {INT}) -> ({INT}, {INT})""",
        (INT, INT),
    ),
    "tt.map_elementwise.return": Case(
        ("i32",),
        f"""%r = "tt.map_elementwise"(%one_block) <{{pack = 1 : i32}}> ({{
    ^bb0(%a: i32):
      tt.map_elementwise.return {{0}} : i32 }}) : ({INT}) -> {INT}""",
        (INT,),
    ),
    "tt.assert": Case(("i1",), 'tt.assert {0}, "holds" : i1'),
    "cf.assert": Case(("i1",), 'cf.assert {0}, "holds"'),
    "llvm.intr.assume": Case(("i1",), "llvm.intr.assume {0} : i1"),
    "tt.make_tensor_descriptor": Case(
        (pointer("f32"), "i32", "i32", "i64"),
        "%d = tt.make_tensor_descriptor {0}, [{1}, {2}], [{3}, %step] : <f32>, <4x16xf32>\n"
        f"%r = tt.descriptor_load %d[%zero, %zero] : {DESC} -> tensor<4x16xf32>",
    ),
    "tt.descriptor_load": Case(
        ("i32", "i32"), f"%r = tt.descriptor_load %d[{{0}}, {{1}}] : {DESC} -> tensor<4x16xf32>", before=MADE
    ),
    "tt.descriptor_store": Case(
        ("i32", "i32", block("f32", 4, 16)),
        f"tt.descriptor_store %d[{{0}}, {{1}}], {{2}} : {DESC}, tensor<4x16xf32>",
        before=MADE,
    ),
    "tt.descriptor_reduce": Case(
        ("i32", "i32", block("f32", 4, 16)),
        f"tt.descriptor_reduce add, %d[{{0}}, {{1}}], {{2}} : {DESC}, tensor<4x16xf32>",
        before=MADE,
    ),
    "tt.descriptor_gather": Case(
        (block("i32", 8), "i32"),
        "%r = tt.descriptor_gather %d[{0}, {1}] : (!tt.tensordesc<1x16xf32>, tensor<8xi32>, i32) -> tensor<8x16xf32>",
        before=ROWS,
    ),
    "tt.descriptor_scatter": Case(
        (block("i32", 8), "i32", block("f32", 8, 16)),
        "tt.descriptor_scatter %d[{0}, {1}], {2} : !tt.tensordesc<1x16xf32>, tensor<8xi32>, i32, tensor<8x16xf32>",
        before=ROWS,
    ),
    "tt.make_tensor_ptr": Case(
        (pointer("f32"), "i64", "i64", "i64", "i32", "i32"),
        "%p = tt.make_tensor_ptr {0}, [{1}, {2}], [{3}, %step], [{4}, {5}] {order = array<i32: 1, 0>} : <tensor<4x16xf32>>\n"
        "%r = tt.load %p {boundaryCheck = array<i32: 0, 1>, padding = 1 : i32} : !tt.ptr<tensor<4x16xf32>>",
    ),
    "tt.advance": Case(
        ("i32", "i32"),
        "%p = tt.advance %q, [{0}, {1}] : <tensor<4x16xf32>>\n"
        "%r = tt.load %p {boundaryCheck = array<i32: 0, 1>, padding = 1 : i32} : !tt.ptr<tensor<4x16xf32>>",
        before="%q = tt.make_tensor_ptr %memory, [%wide, %wide], [%wide, %step], [%zero, %zero] {order = array<i32: 1, 0>} : "
        "<tensor<4x16xf32>>",
    ),
}
"""Operation → a use of it."""
NOTHING = "takes no operands"
REASONS = {
    "arith.constant": NOTHING, "tt.get_program_id": NOTHING, "tt.get_num_programs": NOTHING, "tt.make_range": NOTHING,
    "tt.grid_dependency_wait": NOTHING, "tt.grid_dependency_launch_dependents": NOTHING, "ub.unreachable": NOTHING,
    "ub.poison": "is where the undefined values of this table come from",
    "tt.func": "its arguments are those of the launch, which are defined",
    "tt.call": "passes values on: test_undefined_values.py", "tt.return": "passes values on: test_undefined_values.py",
    "tt.sort_lines": "kernels have it in graphs alone: tests/end_to_end/test_unknown_lengths.py",
    "tt.print": "shows what it is given; debugging prints show lanes that a mask has left out",
    "cf.br": "passes values on: test_undefined_values.py", "cf.cond_br": "test_undefined_values.py",
    "cf.switch": "test_undefined_values.py",
}  # fmt: skip
"""Operations that are not in the table, and why."""


def test_the_table_is_complete() -> None:
    names = {
        op.name
        for each in dialects()
        if each.name in ("tt", "arith", "math", "ub", "llvm", "cf")
        for op in each.operations
    }
    assert CASES.keys().isdisjoint(REASONS)
    assert names == CASES.keys() | REASONS.keys()


def defined(type_: str) -> str:
    """What makes a value of a type, without its name."""
    elem = type_[7:-1].split("x")[-1] if type_.startswith("tensor") else type_
    if "!tt.ptr" in type_:
        return f"tt.splat %cells : !tt.ptr<i32> -> {type_}" if type_.startswith("tensor") else ""
    value = "true" if elem == "i1" else "1" if elem.startswith("i") else "1.0"
    if not type_.startswith("tensor"):
        return f"arith.constant {value}" if elem == "i1" else f"arith.constant {value} : {type_}"
    return f"arith.constant dense<{value}> : {type_}"


@functools.cache
def kernel(name: str, planted: int | None) -> jn.kernel.Kernel:
    """The use of an operation, with an undefined value for an operand."""
    case, lines, names, parameters = CASES[name], [], [], []
    for i, type_ in enumerate(case.operands):
        if i == planted:
            lines.append(f"%v{i} = ub.poison : {type_}")
            names.append(f"%v{i}")
        elif type_ == pointer("f32") or type_ == pointer("i32"):
            names.append("%memory" if type_ == pointer("f32") else "%cells")
        elif type_ == PTR:  # consecutive cells, so that no two lanes meet
            lines += [f"%s{i} = {defined(PTR)}", f"%v{i} = tt.addptr %s{i}, %lanes : {PTR}, {INT}"]
            names.append(f"%v{i}")
        elif name == "tt.int_to_ptr":
            lines += [f"%s{i} = {defined(PTR)}", f"%t{i} = tt.addptr %s{i}, %lanes : {PTR}, {INT}",
                      f"%v{i} = tt.ptr_to_int %t{i} : {PTR} -> {type_}"]  # fmt: skip
            names.append(f"%v{i}")
        elif name == "tt.addptr" or (name == "tt.descriptor_scatter" and i == 0):
            lines += [f"%v{i} = tt.make_range {{start = 0 : i32, end = {type_[7:-5]} : i32}} : {type_}"]
            names.append(f"%v{i}")
        else:
            # Of a single row the stride would not matter, and nothing of a block that lies outside of its tensor.
            number = "constant 4" if "make_tensor" in name and i < 4 else "constant 1"
            lines.append(f"%v{i} = {defined(type_).replace('constant 1', number)}")
            names.append(f"%v{i}")
    text = re.sub(r"\{(\d)\}", lambda match: names[int(match[1])], case.text)
    lines += [case.before, text]
    for i, type_ in enumerate(case.results):
        result = "%r" if len(case.results) == 1 else f"%r{i}" if "%r0" in text else f"%r#{i}"
        if "!tt.ptr" in type_:
            lines.append(f"%back{i} = tt.load {result} : {type_}")
            continue
        elem = type_[7:-1].split("x")[-1] if type_.startswith("tensor") else type_
        parameters.append(f"%o{i}: !tt.ptr<{elem}>")
        if not type_.startswith("tensor"):
            lines.append(f"tt.store %o{i}, {result} : !tt.ptr<{elem}>")
            continue
        count = int(np.prod([int(each) for each in type_[7:-1].split("x")[:-1]]))
        flat, pointers = f"tensor<{count}x{elem}>", f"tensor<{count}x!tt.ptr<{elem}>>"
        lines += [
            f"%flat{i} = tt.reshape {result} : {type_} -> {flat}",
            f"%at{i} = tt.make_range {{start = 0 : i32, end = {count} : i32}} : tensor<{count}xi32>",
            f"%start{i} = tt.splat %o{i} : !tt.ptr<{elem}> -> {pointers}",
            f"%place{i} = tt.addptr %start{i}, %at{i} : {pointers}, tensor<{count}xi32>",
            f"tt.store %place{i}, %flat{i} : {pointers}",
        ]
    more = "".join(f", {each}" for each in parameters)
    body = "\n  ".join(line for line in lines if line)
    return jn.kernel.from_ttir(f"""module {{ tt.func public @f(%memory: !tt.ptr<f32>, %cells: !tt.ptr<i32>{more}) {{
  %zero = arith.constant 0 : i32
  %four = arith.constant 4 : i32
  %sixteen = arith.constant 16 : i32
  %wide = arith.constant 16 : i64
  %step = arith.constant 1 : i64
  %one_block = arith.constant dense<1> : {INT}
  %lanes = tt.make_range {{start = 0 : i32, end = 16 : i32}} : {INT}
  {body}
  tt.return }} }}""")


SIZES: dict[str, Any] = {
    "i1": np.bool_, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def arguments(name: str) -> list[Any]:
    found: list[Any] = [np.zeros(256, np.float32), np.zeros(64, np.int32)]
    for type_ in CASES[name].results:
        if "!tt.ptr" not in type_:
            found.append(
                np.zeros(1024, SIZES[type_[7:-1].split("x")[-1] if type_.startswith("tensor") else type_])
            )
    return found


@pytest.mark.one_in(11)
@pytest.mark.parametrize("name", CASES)
def test_undefined_operands_are_not_lost(name: str) -> None:
    case = CASES[name]
    report = kernel(name, None).sanitize(1, *arguments(name))
    assert report.findings == (), str(report)
    for planted in range(len(case.operands)):
        found = kernel(name, planted).sanitize(1, *arguments(name)).findings
        kinds = {each.kind for each in found}
        assert ("uninitialised" in kinds) == (planted not in case.harmless), (
            planted,
            [str(each) for each in found],
        )


@pytest.mark.slow
@both_tiers
def test_native_code_stops_at_them(in_full: bool) -> None:
    """Where the sanitizer has a finding, the launch does not end natively; without, most do."""
    ended = 0
    names = share(sorted(CASES), 0, 12, in_full)
    for name in names:
        for planted in (None, *range(len(CASES[name].operands))):
            made = kernel(name, planted)
            is_clean = made._first_look(1, arguments(name), {}, False).is_clean
            if planted is None:
                ended += is_clean
            elif planted not in CASES[name].harmless:
                assert not is_clean, (name, planted)
    assert ended > len(names) * 0.8
