"""Contains one example per operation of the block IR: lines of text that use it, and the type of the value
`%z` they compute.

The lines are put into a function that defines the values of `SETUP`. Examples without a value write to memory themselves.
"""

from __future__ import annotations

from typing import NamedTuple

SETUP = """
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %x16 = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %px = tt.addptr %x16, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %y16 = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %py = tt.addptr %y16, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %a16 = tt.splat %a : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %pa = tt.addptr %a16, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %b16 = tt.splat %b : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %pb = tt.addptr %b16, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %f = tt.load %px : tensor<16x!tt.ptr<f32>>
    %g = tt.load %py : tensor<16x!tt.ptr<f32>>
    %i = tt.load %pa : tensor<16x!tt.ptr<i32>>
    %j = tt.load %pb : tensor<16x!tt.ptr<i32>>
    %m = arith.cmpi slt, %i, %j : tensor<16xi32>
    %s = tt.load %x : !tt.ptr<f32>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %l1 = arith.constant 1 : i64
    %l4 = arith.constant 4 : i64
    %yes = arith.cmpi slt, %c0, %k : i32
    %f44 = tt.reshape %f : tensor<16xf32> -> tensor<4x4xf32>
    %i44 = tt.reshape %i : tensor<16xi32> -> tensor<4x4xi32>
"""
DOUBLE = """tt.func private @double(%v: tensor<16xf32>) -> tensor<16xf32> {
  %w = arith.addf %v, %v : tensor<16xf32>
  tt.return %w : tensor<16xf32>
}"""
FLOAT, INT, BOOL, F44 = "tensor<16xf32>", "tensor<16xi32>", "tensor<16xi1>", "tensor<4x4xf32>"


class Example(NamedTuple):
    """A text that uses an operation; `result` is the type of `%z`, empty where there is none."""

    text: str
    result: str = ""


def _same(names: str, dialect: str, operands: str, type_: str) -> dict[str, Example]:
    """Makes examples of operations whose operands and result have one type."""
    return {f"{dialect}.{n}": Example(f"%z = {dialect}.{n} {operands} : {type_}", type_) for n in names.split()}


DESCRIPTOR = "%d = tt.make_tensor_descriptor %x, [%c4, %c4], [%l4, %l1] : <f32>, <4x4xf32>\n"
SEEN = "%v = tt.descriptor_load %d[%c0, %c0] : !tt.tensordesc<4x4xf32> -> tensor<4x4xf32>\n"
INTEGERS = """%e = tt.make_tensor_descriptor %a, [%c4, %c4], [%l4, %l1] : <i32>, <4x4xi32>
"""
ROWS = """%d = tt.make_tensor_descriptor %x, [%c4, %c4], [%l4, %l1] : <f32>, <1x4xf32>
%rows = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
"""
BLOCK = """%p = tt.make_tensor_ptr %x, [%l4, %l4], [%l4, %l1], [%c0, %c0] {order = array<i32: 1, 0>} : <tensor<2x2xf32>>
"""
MAP = """%stride = arith.constant 16 : i64
tt.experimental_tensormap_create %q, %x, [%c4, %c4], [%c4, %c4], [%stride], [%c1, %c1] {elem_type = 7 : i32, \
fill_mode = 0 : i32, interleave_layout = 0 : i32, swizzle_mode = 0 : i32} : \
(!tt.ptr<i8>, !tt.ptr<f32>, i32, i32, i32, i32, i64, i32, i32) -> ()
tt.experimental_tensormap_fenceproxy_acquire %q : !tt.ptr<i8>
%d = tt.reinterpret_tensor_descriptor %q : !tt.ptr<i8> to !tt.tensordesc<tensor<4x4xf32>>
%z = tt.experimental_descriptor_load %d[%c0, %c0] : !tt.tensordesc<tensor<4x4xf32>> -> tensor<4x4xf32>"""
NEWER_MAP = (
    MAP.replace("tt.experimental_tensormap", "ttng.tensormap")
    .replace("tt.reinterpret", "ttng.reinterpret")
    .replace("tt.experimental_descriptor", "tt.descriptor")
    .replace("tensordesc<tensor<4x4xf32>>", "tensordesc<4x4xf32>")
)
OLD_DESCRIPTOR = "%d = tt.make_tensor_descriptor %x, [%c4, %c4], [%l4, %l1] : <f32>, <tensor<4x4xf32>>\n"
OLD_LOAD = "%z = tt.experimental_descriptor_load %d[%c0, %c0] : !tt.tensordesc<tensor<4x4xf32>> -> tensor<4x4xf32>"
OLD_STORE = "\ntt.experimental_descriptor_store %d[%c0, %c1], %z : !tt.tensordesc<tensor<4x4xf32>>, tensor<4x4xf32>"
OLD_ROWS = ROWS.replace("<1x4xf32>", "<tensor<1x4xf32>>")
OLD_GATHER = (
    "%z = tt.experimental_descriptor_gather %d[%rows, %c0] : (!tt.tensordesc<tensor<1x4xf32>>, tensor<4xi32>, i32) -> "
    "tensor<4x4xf32>"
)
REDUCE = """%z = "tt.reduce"(%f44) <{axis = 1 : i32}> ({
^bb0(%u: f32, %v: f32):
  %w = arith.maxnumf %u, %v : f32
  tt.reduce.return %w : f32
}) : (tensor<4x4xf32>) -> tensor<4xf32>"""
SCAN = """%z = "tt.scan"(%i44) <{axis = 1 : i32, reverse = false}> ({
^bb0(%u: i32, %v: i32):
  %w = arith.addi %u, %v : i32
  tt.scan.return %w : i32
}) : (tensor<4x4xi32>) -> tensor<4x4xi32>"""
ELEMENTWISE = """%z = "tt.map_elementwise"(%f, %g) <{pack = 1 : i32}> ({
^bb0(%u: f32, %v: f32):
  %w = arith.mulf %u, %v : f32
  tt.map_elementwise.return %w : f32
}) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>"""
WHILE = """%z, %n = scf.while (%v = %f, %t = %c0) : (tensor<16xf32>, i32) -> (tensor<16xf32>, i32) {
  %more = arith.cmpi slt, %t, %c4 : i32
  scf.condition(%more) %v, %t : tensor<16xf32>, i32
} do {
^bb0(%v: tensor<16xf32>, %t: i32):
  %w = arith.addf %v, %g : tensor<16xf32>
  %next = arith.addi %t, %c1 : i32
  scf.yield %w, %next : tensor<16xf32>, i32
}"""
FOR = """%z = scf.for %t = %c0 to %c4 step %c1 iter_args(%v = %f) -> (tensor<16xf32>)  : i32 {
  %w = arith.addf %v, %g : tensor<16xf32>
  scf.yield %w : tensor<16xf32>
}"""
BRANCH = """cf.cond_br %yes, ^one(%f : tensor<16xf32>), ^two(%g : tensor<16xf32>)
^one(%u: tensor<16xf32>):
  cf.br ^two(%u : tensor<16xf32>)
^two(%z: tensor<16xf32>):"""

EXAMPLES: dict[str, Example] = {
    # functions and programs
    "tt.func": Example("%z = arith.addf %f, %g : tensor<16xf32>", FLOAT),
    "tt.return": Example("%z = tt.call @double(%f) : (tensor<16xf32>) -> tensor<16xf32>", FLOAT),
    "tt.call": Example("%z = tt.call @double(%f) : (tensor<16xf32>) -> tensor<16xf32>", FLOAT),
    "tt.get_program_id": Example(
        "%z = tt.get_program_id y : i32\n%p = tt.addptr %a, %z : !tt.ptr<i32>, i32\ntt.store %p, %c4 : !tt.ptr<i32>"
    ),
    "tt.get_num_programs": Example("%z = tt.get_num_programs y : i32", "i32"),
    # shapes
    "tt.make_range": Example("%z = tt.make_range {end = 24 : i32, start = 8 : i32} : tensor<16xi32>", INT),
    "tt.splat": Example("%z = tt.splat %s : f32 -> tensor<16xf32>", FLOAT),
    "tt.unsplat": Example("%one = tt.splat %s : f32 -> tensor<1x1xf32>\n%z = tt.unsplat %one : tensor<1x1xf32>", "f32"),
    "tt.expand_dims": Example(
        "%z = tt.expand_dims %f {axis = 1 : i32} : tensor<16xf32> -> tensor<16x1xf32>", "tensor<16x1xf32>"
    ),
    "tt.broadcast": Example(
        "%e = tt.expand_dims %f {axis = 0 : i32} : tensor<16xf32> -> tensor<1x16xf32>\n"
        "%z = tt.broadcast %e : tensor<1x16xf32> -> tensor<2x16xf32>", "tensor<2x16xf32>",
    ),
    "tt.trans": Example("%z = tt.trans %f44 {order = array<i32: 1, 0>} : tensor<4x4xf32> -> tensor<4x4xf32>", F44),
    "tt.reshape": Example("%z = tt.reshape %f : tensor<16xf32> -> tensor<2x8xf32>", "tensor<2x8xf32>"),
    "tt.join": Example("%z = tt.join %f, %g : tensor<16xf32> -> tensor<16x2xf32>", "tensor<16x2xf32>"),
    "tt.cat": Example("%z = tt.cat %f, %g : tensor<16xf32> -> tensor<32xf32>", "tensor<32xf32>"),
    "tt.split": Example(
        "%pairs = tt.reshape %f : tensor<16xf32> -> tensor<8x2xf32>\n%z, %other = tt.split %pairs : tensor<8x2xf32> -> "
        "tensor<8xf32>", "tensor<8xf32>",
    ),
    "tt.gather": Example("%z = tt.gather %f[%r] {axis = 0 : i32} : (tensor<16xf32>, tensor<16xi32>) -> tensor<16xf32>", FLOAT),
    # memory
    "tt.addptr": Example(
        "%next = tt.addptr %px, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\n%z = tt.load %next : tensor<16x!tt.ptr<f32>>",
        FLOAT,
    ),
    "tt.load": Example("%z = tt.load %px, %m, %g : tensor<16x!tt.ptr<f32>>", FLOAT),
    "tt.store": Example("tt.store %px, %g, %m : tensor<16x!tt.ptr<f32>>"),
    "tt.int_to_ptr": Example(
        "%n = tt.ptr_to_int %px : tensor<16x!tt.ptr<f32>> -> tensor<16xi64>\n"
        "%p = tt.int_to_ptr %n : tensor<16xi64> -> tensor<16x!tt.ptr<f32>>\n%z = tt.load %p : tensor<16x!tt.ptr<f32>>", FLOAT,
    ),
    "tt.ptr_to_int": Example(
        "%u = tt.ptr_to_int %px : tensor<16x!tt.ptr<f32>> -> tensor<16xi64>\n"
        "%v = tt.ptr_to_int %x16 : tensor<16x!tt.ptr<f32>> -> tensor<16xi64>\n%z = arith.subi %u, %v : tensor<16xi64>",
        "tensor<16xi64>",
    ),
    "tt.bitcast": Example("%z = tt.bitcast %f : tensor<16xf32> -> tensor<16xi32>", INT),
    "tt.atomic_rmw": Example(
        "%z = tt.atomic_rmw fadd, relaxed, gpu, %px, %g, %m : (tensor<16x!tt.ptr<f32>>, tensor<16xf32>, tensor<16xi1>) -> "
        "tensor<16xf32>", FLOAT,
    ),
    "tt.atomic_cas": Example(
        "%z = tt.atomic_cas acq_rel, gpu, %pa, %i, %j : (tensor<16x!tt.ptr<i32>>, tensor<16xi32>, tensor<16xi32>) -> "
        "tensor<16xi32>", INT,
    ),
    "tt.atomic_load": Example(
        "%z = tt.atomic_load acquire, gpu, %pa : (tensor<16x!tt.ptr<i32>>) -> tensor<16xi32>", INT
    ),
    "tt.atomic_store": Example("tt.atomic_store release, gpu, %pa, %j, %m : tensor<16x!tt.ptr<i32>>"),
    "tt.atomic_poll": Example(
        "%n = tt.load %a : !tt.ptr<i32>\n%z = tt.atomic_poll acquire, gpu, %a, %n timeout %l4 : !tt.ptr<i32>, i32 -> i1", "i1"
    ),
    # descriptors
    "tt.make_tensor_descriptor": Example(DESCRIPTOR + SEEN.replace("%v", "%z").strip(), F44),
    "tt.descriptor_load": Example(DESCRIPTOR + SEEN.replace("%v", "%z").strip(), F44),
    "tt.descriptor_store": Example(
        DESCRIPTOR + "tt.descriptor_store %d[%c1, %c0], %f44 : !tt.tensordesc<4x4xf32>, tensor<4x4xf32>"
    ),
    "tt.descriptor_reduce": Example(
        INTEGERS + "tt.descriptor_reduce add, %e[%c0, %c0], %i44 : !tt.tensordesc<4x4xi32>, tensor<4x4xi32>"
    ),
    "tt.descriptor_gather": Example(
        ROWS + "%z = tt.descriptor_gather %d[%rows, %c0] : (!tt.tensordesc<1x4xf32>, tensor<4xi32>, i32) -> tensor<4x4xf32>",
        F44,
    ),
    "tt.descriptor_scatter": Example(
        ROWS + "%u = arith.addf %f44, %f44 : tensor<4x4xf32>\n"
        "tt.descriptor_scatter %d[%rows, %c0], %u : !tt.tensordesc<1x4xf32>, tensor<4xi32>, i32, tensor<4x4xf32>"
    ),
    "tt.make_tensor_ptr": Example(BLOCK + "%z = tt.load %p : !tt.ptr<tensor<2x2xf32>>", "tensor<2x2xf32>"),
    "tt.advance": Example(
        BLOCK + "%n = tt.advance %p, [%c1, %c1] : <tensor<2x2xf32>>\n%z = tt.load %n {boundaryCheck = array<i32: 0, 1>, "
        "padding = 1 : i32} : !tt.ptr<tensor<2x2xf32>>", "tensor<2x2xf32>",
    ),
    **dict.fromkeys(
        ("ttng.tensormap_create", "ttng.tensormap_fenceproxy_acquire", "ttng.reinterpret_tensor_descriptor"),
        Example(NEWER_MAP, F44),
    ),
    # products, library functions, assembly
    "tt.dot": Example("%z = tt.dot %f44, %f44, %f44 : tensor<4x4xf32> * tensor<4x4xf32> -> tensor<4x4xf32>", F44),
    "tt.dot_scaled": Example(
        "%u = arith.constant dense<1.0> : tensor<16x32xbf16>\n%v = arith.constant dense<2.0> : tensor<32x16xf8E4M3FN>\n"
        "%w = arith.constant dense<128> : tensor<16x1xi8>\n%acc = arith.constant dense<1.0> : tensor<16x16xf32>\n"
        "%z = tt.dot_scaled %u, %v scale %w, %acc lhs = bf16 rhs = e4m3 {fastMath = false} : tensor<16x32xbf16> * "
        "tensor<32x16xf8E4M3FN>, tensor<16x1xi8> -> tensor<16x16xf32>", "tensor<16x16xf32>",
    ),
    "tt.histogram": Example("%z = tt.histogram %i, %m : tensor<16xi32> -> tensor<8xi32>", "tensor<8xi32>"),
    "tt.sort": Example("%z = tt.sort %i {axis = 0 : i32} : tensor<16xi32>", INT),
    "tt.fft": Example(
        '%l = arith.constant dense<4611686019501129728> : tensor<4xi64>\n%t = tt.fft %l {axis = 0 : i32, kind = "forward", '
        "length = 4 : i32} : tensor<4xi64>\n%u = arith.trunci %t : tensor<4xi64> to tensor<4xi32>\n"
        "%z = tt.bitcast %u : tensor<4xi32> -> tensor<4xf32>", "tensor<4xf32>",
    ),
    "tt.extern_elementwise": Example(
        '%z = tt.extern_elementwise %f {libname = "", libpath = "", pure = true, symbol = "__nv_cbrtf"} : (tensor<16xf32>) -> '
        "tensor<16xf32>", FLOAT,
    ),
    "tt.elementwise_inline_asm": Example(
        '%z = tt.elementwise_inline_asm "shf.l.wrap.b32 $0, $1, $2, 7;" {constraints = "=r,r,r", packed_element = 1 : i32, '
        "pure = true} %i, %j : tensor<16xi32>, tensor<16xi32> -> tensor<16xi32>", INT,
    ),
    # regions
    **dict.fromkeys(("tt.reduce", "tt.reduce.return"), Example(REDUCE, "tensor<4xf32>")),
    **dict.fromkeys(("tt.scan", "tt.scan.return"), Example(SCAN, "tensor<4x4xi32>")),
    **dict.fromkeys(("tt.map_elementwise", "tt.map_elementwise.return"), Example(ELEMENTWISE, FLOAT)),
    # checks and hints
    "tt.assert": Example('tt.assert %yes, "k is positive" : i1\ntt.store %px, %g : tensor<16x!tt.ptr<f32>>'),
    "tt.print": Example(
        'tt.print " i: " {hex = false, isSigned = array<i32: 1>} : %c4 : i32\ntt.store %px, %g : tensor<16x!tt.ptr<f32>>'
    ),
    **{
        name: Example(f"{name}{words}\ntt.store %px, %g : tensor<16x!tt.ptr<f32>>")
        for name, words in {
            "tt.grid_dependency_wait": "", "tt.grid_dependency_launch_dependents": "", "ttg.barrier": " all",
            "llvm.intr.assume": " %yes : i1", "cf.assert": ' %yes, "k is positive"',
        }.items()
    },
    # tt arithmetic
    "tt.fp_to_fp": Example("%z = tt.fp_to_fp %f, rounding = rtz : tensor<16xf32> -> tensor<16xf16>", "tensor<16xf16>"),
    **_same("mulhiui", "tt", "%i, %j", INT),
    **_same("approx_divf precise_divf", "tt", "%f, %g", FLOAT),
    **_same("precise_sqrt", "tt", "%f", FLOAT),
    "tt.clampf": Example("%low = arith.subf %f, %g : tensor<16xf32>\n%z = tt.clampf %f, %low, %g, propagateNan = all : "
                         "tensor<16xf32>", FLOAT),
    # arith
    "arith.constant": Example("%z = arith.constant dense<2.500000e+00> : tensor<16xf32>", FLOAT),
    **_same(
        "addi subi muli andi ori xori divsi divui remsi remui ceildivsi ceildivui floordivsi shli shrsi shrui maxsi maxui "
        "minsi minui", "arith", "%i, %j", INT,
    ),
    **_same("addf subf mulf divf remf maximumf minimumf maxnumf minnumf", "arith", "%f, %g", FLOAT),
    **_same("negf", "arith", "%f", FLOAT),
    **{
        f"arith.{name}": Example(f"%z, %high = arith.{name} %i, %j : {types}", INT)
        for name, types in {
            "addui_extended": "tensor<16xi32>, tensor<16xi1>", "mului_extended": "tensor<16xi32>",
            "mulsi_extended": "tensor<16xi32>",
        }.items()
    },
    "arith.cmpi": Example("%z = arith.cmpi ult, %i, %j : tensor<16xi32>", BOOL),
    "arith.cmpf": Example("%z = arith.cmpf ole, %f, %g : tensor<16xf32>", BOOL),
    "arith.select": Example("%z = arith.select %m, %f, %g : tensor<16xi1>, tensor<16xf32>", FLOAT),
    "arith.bitcast": Example("%z = arith.bitcast %f : tensor<16xf32> to tensor<16xi32>", INT),
    "arith.index_cast": Example("%n = arith.index_cast %k : i32 to index\n%z = arith.index_cast %n : index to i32", "i32"),
    **{
        f"arith.{name}": Example(f"%z = arith.{name} {value} : {old} to tensor<16x{new}>", f"tensor<16x{new}>")
        for name, value, old, new in (
            ("extsi", "%i", INT, "i64"), ("extui", "%i", INT, "i64"), ("trunci", "%i", INT, "i8"), ("sitofp", "%i", INT, "f32"),
            ("uitofp", "%i", INT, "f32"), ("fptosi", "%f", FLOAT, "i32"), ("fptoui", "%f", FLOAT, "i32"),
            ("extf", "%f", FLOAT, "f64"),
            ("truncf", "%f", FLOAT, "bf16"),
        )
    },
    # math
    **_same(
        "absf acos acosh asin asinh atan atanh cbrt ceil cos cosh erf exp exp2 expm1 floor log log10 log1p log2 round "
        "roundeven rsqrt sin sinh sqrt tan tanh trunc", "math", "%f", FLOAT,
    ),
    **_same("absi ctlz ctpop cttz", "math", "%i", INT),
    **_same("atan2 copysign powf", "math", "%f, %g", FLOAT),
    **_same("fma", "math", "%f, %g, %f", FLOAT),
    **_same("ipowi", "math", "%i, %j", INT),
    "math.fpowi": Example("%z = math.fpowi %f, %i : tensor<16xf32>, tensor<16xi32>", FLOAT),
    # control flow
    "scf.for": Example(FOR, FLOAT),
    "scf.yield": Example(FOR, FLOAT),
    **dict.fromkeys(("scf.while", "scf.condition"), Example(WHILE, FLOAT)),
    "scf.if": Example(
        "%z = scf.if %yes -> (tensor<16xf32>) {\n  scf.yield %f : tensor<16xf32>\n} else {\n  scf.yield %g : tensor<16xf32>\n}",
        FLOAT,
    ),
    "scf.execute_region": Example("%z = scf.execute_region -> (tensor<16xf32>) {\n  scf.yield %f : tensor<16xf32>\n}", FLOAT),
    "scf.index_switch": Example(
        "%n = arith.index_cast %k : i32 to index\n%z = scf.index_switch %n -> tensor<16xf32>\ncase 1 {\n"
        "  scf.yield %f : tensor<16xf32>\n}\ndefault {\n  scf.yield %g : tensor<16xf32>\n}", FLOAT,
    ),
    "cf.br": Example(BRANCH, FLOAT),
    "cf.cond_br": Example(BRANCH, FLOAT),
    "cf.switch": Example(
        "cf.switch %k : i32, [\n  default: ^one(%f : tensor<16xf32>),\n  1: ^one(%g : tensor<16xf32>)\n]\n"
        "^one(%z: tensor<16xf32>):", FLOAT,
    ),
    "ub.poison": Example("%u = ub.poison : tensor<16xf32>\n%z = arith.select %yes, %f, %u : tensor<16xf32>", FLOAT),
}  # fmt: skip
"""Operation → example."""

OLDER: dict[str, Example] = {
    "tt.experimental_descriptor_load": Example(OLD_DESCRIPTOR + OLD_LOAD, F44),
    "tt.experimental_descriptor_store": Example(OLD_DESCRIPTOR + OLD_LOAD + OLD_STORE, F44),
    "tt.experimental_descriptor_reduce": Example(
        INTEGERS.replace("<4x4xi32>", "<tensor<4x4xi32>>")
        + "tt.experimental_descriptor_reduce add, %e[%c0, %c0], %i44 : !tt.tensordesc<tensor<4x4xi32>>, tensor<4x4xi32>"
    ),
    "tt.experimental_descriptor_gather": Example(OLD_ROWS + OLD_GATHER, F44),
    "tt.experimental_descriptor_scatter": Example(
        OLD_ROWS + OLD_GATHER + "\ntt.experimental_descriptor_scatter %d[%rows, %c1], %z : !tt.tensordesc<tensor<1x4xf32>>, "
        "tensor<4xi32>, i32, tensor<4x4xf32>", F44,
    ),
    **dict.fromkeys(
        (
            "tt.experimental_tensormap_create", "tt.experimental_tensormap_fenceproxy_acquire",
            "tt.reinterpret_tensor_descriptor",
        ),
        Example(MAP, F44),
    ),
}  # fmt: skip
"""Operation under its older name → example."""


def module(example: Example) -> str:
    """Returns a module with one public function that runs the example and stores its value."""
    parameters = "%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %a: !tt.ptr<i32>, %b: !tt.ptr<i32>, %q: !tt.ptr<i8>, %k: i32"
    body = example.text
    if example.result:
        elem, shape = element(example.result)
        parameters += f", %o: !tt.ptr<{elem}>"
        body += "\n" + _store(elem, shape)
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    helper = DOUBLE if "@double" in example.text else ""
    return f"module {{\n  tt.func public @example({parameters}) {{{SETUP}{lines}\n    tt.return\n  }}\n{helper}\n}}\n"


def element(type_: str) -> tuple[str, tuple[int, ...]]:
    """Returns the element type and the shape of a type's text."""
    if not type_.startswith("tensor<"):
        return type_, ()
    *extents, elem = type_[7:-1].split("x")
    return elem, tuple(map(int, extents))


def _store(elem: str, shape: tuple[int, ...]) -> str:
    if not shape:
        return f"tt.store %o, %z : !tt.ptr<{elem}>"
    n = 1
    for extent in shape:
        n *= extent
    whole, kind = f"tensor<{'x'.join(map(str, shape))}x{elem}>", f"tensor<{n}x!tt.ptr<{elem}>>"
    flat = f"%zz = tt.reshape %z : {whole} -> tensor<{n}x{elem}>\n" if len(shape) > 1 else ""
    return (
        f"{flat}%oo = tt.splat %o : !tt.ptr<{elem}> -> {kind}\n"
        f"%or = tt.make_range {{end = {n} : i32, start = 0 : i32}} : tensor<{n}xi32>\n"
        f"%op = tt.addptr %oo, %or : {kind}, tensor<{n}xi32>\n"
        f"tt.store %op, {'%zz' if flat else '%z'} : {kind}"
    )


__all__ = ["EXAMPLES", "OLDER", "Example", "element", "module"]
