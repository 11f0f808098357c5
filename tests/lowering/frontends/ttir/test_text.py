"""Reading and printing: what xDSL's parser needs help with, limits on strangers' texts, the canonical form."""

from __future__ import annotations

import math
import re
import struct
import time

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.parser import MAX_TEXT
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.builder.block_builder import BlockBuilder
from joinery.lowering.tt.canonical import canonical_text
from joinery.lowering.tt.constants import block_values, splat_value
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.types import BF16, F16, F32, F64, I32, I64, ptr, scalar_type
from joinery.promotion.errors import UserError
from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FloatAttr, FusedLoc, NameLoc, UnknownLoc


def constants(*texts: str) -> list:
    """The values of `arith.constant` operations."""
    body = "\n".join(f"%c{index} = arith.constant {text}" for index, text in enumerate(texts))
    module = parse(f"tt.func public @f() {{\n{body}\ntt.return\n}}")
    return [op.properties["value"] for op in module.walk() if op.name == "arith.constant"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dense<0xFF800000> : tensor<4xf32>", -math.inf),
        ("dense<0x7F800000> : tensor<4xf32>", math.inf),
        ("dense<0x3F800000> : tensor<4xf32>", 1.0),
        ("dense<0xFC00> : tensor<4xf16>", -math.inf),
        ("dense<0xFF80> : tensor<4xbf16>", -math.inf),
        ("dense<0x3F80> : tensor<4xbf16>", 1.0),
        ("dense<0x7FF0000000000000> : tensor<4xf64>", math.inf),
        ("dense<0x38> : tensor<4xf8E4M3FN>", 1.0),
        ("dense<0x3C> : tensor<4xf8E5M2>", 1.0),
        ("dense<0x10> : tensor<4xi32>", 16),
        ("dense<-1.5> : tensor<4xf32>", -1.5),
        ("dense<1.000000e-05> : tensor<4xf32>", float(np.float32(1e-5))),
        ("dense<-1> : tensor<4xi8>", -1),
        ("dense<255> : tensor<4xi8>", -1),
        ("dense<true> : tensor<4xi1>", 1),
        ("dense<false> : tensor<4xi1>", 0),
        ("0xFF800000 : f32", -math.inf),
        ("0xFF80 : bf16", -math.inf),
        ("-7 : i64", -7),
        ("true", 1),
    ],
)
def test_the_value_of_a_constant(text: str, value: float) -> None:
    (attr,) = constants(text)
    assert splat_value(attr) == value


def test_nan_and_lists_of_bit_patterns() -> None:
    nan, mixed, integers = constants(
        "dense<0x7FC00000> : tensor<4xf32>",
        "dense<[0xFF800000, 1.0, 0x3F000000, 0x80000000]> : tensor<4xf32>",
        "dense<[[1, 2], [3, 0x4]]> : tensor<2x2xi32>",
    )
    assert math.isnan(splat_value(nan))
    values = block_values(mixed)
    assert values == (-math.inf, 1.0, 0.5, 0.0)
    assert math.copysign(1, values[3]) == -1
    assert block_values(integers) == (1, 2, 3, 4)


@pytest.mark.parametrize(
    "text",
    [
        "dense<300> : tensor<4xi8>",
        "dense<1.5> : tensor<4xi32>",
        "dense<0x1FF800000> : tensor<4xf32>",
        "dense<[0x1FFFFFFFF, 1.0]> : tensor<2xf32>",
        "dense<true> : tensor<4xf32>",
        "dense<1> : tensor<2x!tt.ptr<f32>>",
    ],
)
def test_a_constant_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="cannot read the block IR"):
        constants(text)


RNG = np.random.default_rng(7)
BITS = {
    F16: "<u2",
    BF16: "<u2",
    F32: "<u4",
    F64: "<u8",
    scalar_type("f8E4M3FN"): "u1",
    scalar_type("f8E5M2"): "u1",
}


@pytest.mark.parametrize("elem", BITS, ids=str)
def test_floats_are_printed_so_that_they_read_back(elem) -> None:
    """Random bit patterns: extremes, subnormals, values without a short decimal form."""
    size = np.dtype(BITS[elem]).itemsize
    patterns = RNG.integers(0, 256, (60, size), dtype=np.uint8)
    values = [next(iter(elem.iter_unpack(row.tobytes()))) for row in patterns]
    values = [value for value in values if not math.isnan(value)]
    values += [0.0, -0.0, 1e-5, 1e5, 65504.0, 1 / 3, 6e-8, 448.0, 3.0]
    b = BlockBuilder.function("f", [])
    for index, value in enumerate(values):
        b.const(value, elem, (4,) if index % 2 else ())
    text = print_module(b.finish())
    found = [splat_value(op.properties["value"]) for op in parse(text).walk() if op.name == "arith.constant"]
    expected = [splat_value(op.properties["value"]) for op in b.func.walk() if op.name == "arith.constant"]
    assert [struct.pack("<d", value) for value in found] == [struct.pack("<d", value) for value in expected]
    literals = [line.split("constant ")[1] for line in text.split("\n") if "constant" in line]
    for literal in literals:  # MLIR reads a float literal only with a decimal point, or a bit pattern
        assert re.match(r"(dense<)?(-?\d+\.\d*(e[+-]\d+)?|0x[0-9A-F]+)\b", literal), literal


LOCATIONS = """
#loc = loc("k.py":1:0)
module {
  tt.func public @f(%x: i32 loc("x"(#loc))) {
    %a = arith.addi %x, %x : i32 loc(#loc5)
    %b = arith.addi %x, %a : i32 loc(#loc7)
    %c = arith.addi %x, %a : i32 loc(unknown)
    %d = arith.addi %x, %a : i32 loc("inline.py":3:4)
    %e = arith.addi %x, %a : i32 loc(fused[#loc2, #loc3])
    %g = arith.addi %x, %a : i32 loc(#loc8)
    tt.return loc(#loc2)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("k.py":9:2)
#loc3 = loc(unknown)
#loc4 = loc("k.py":5:6)
#loc5 = loc("a"(#loc4))
#loc7 = loc(callsite(#loc4 at #loc2))
#loc8 = loc("only a name")
"""


def test_locations_may_be_used_before_their_definition() -> None:
    module = parse(LOCATIONS)
    found = {op.results[0].name_hint: op.location for op in module.walk() if op.results}
    named = found["a"]
    assert isinstance(named, NameLoc)
    assert isinstance(named.parameters[1], FileLineColLoc)
    assert '"k.py":5:6' in str(named)
    assert isinstance(found["b"], CallSiteLoc)
    assert isinstance(found["c"], UnknownLoc)
    assert '"inline.py":3:4' in str(found["d"])
    assert isinstance(found["e"], FusedLoc)
    assert isinstance(found["g"], NameLoc)
    assert print_module(module).startswith("module {\n")
    assert "loc" not in print_module(module), "locations are printed on request only"
    text = print_module(module, locations=True)
    assert '"k.py":5:6' in text
    assert print_module(parse(text), locations=True) == text


def test_a_location_defined_by_itself_is_refused() -> None:
    with pytest.raises(UserError, match="location #loc1 is defined by itself"):
        parse('tt.func public @f() {\ntt.return loc(#loc1)\n}\n#loc1 = loc("x"(#loc1))')


def test_while_without_operands() -> None:
    text = """
    tt.func public @f(%p: !tt.ptr<i32>) {
      %one = arith.constant 1 : i32
      %ten = arith.constant 10 : i32
      scf.while : () -> () {
        %now = tt.load %p : !tt.ptr<i32>
        %more = arith.cmpi slt, %now, %ten : i32
        scf.condition(%more)
      } do {
        %now = tt.load %p : !tt.ptr<i32>
        %next = arith.addi %now, %one : i32
        tt.store %p, %next : !tt.ptr<i32>
        scf.yield
      }
      tt.return
    }"""
    module = parse(text)
    printed = print_module(module)
    assert print_module(parse(printed)) == printed
    data = np.array([3], np.int32)
    interpret(module, 1, [data])
    assert data[0] == 10


OLDER = """
tt.func public @f(%p: tensor<8x!tt.ptr<f32>>, %m: tensor<8xi1>, %v: tensor<8xf32>) attributes {noinline = false} {
  %a = tt.load %p, %m, %v cacheModifier = ca evictionPolicy = evict_first {isVolatile = true} : tensor<8x!tt.ptr<f32>>
  %b = tt.load %p evictionPolicy = evict_last : tensor<8x!tt.ptr<f32>>
  tt.store %p, %b, %m cacheModifier = wt {note = "mine"} : tensor<8x!tt.ptr<f32>>
  tt.return
}"""


def test_the_spelling_of_older_texts_is_read() -> None:
    text = print_module(parse(OLDER))
    policy = "#tt.cache_policy<cache_modifier = {}, eviction_policy = {}>"
    assert (
        f"tt.load %p, %m, %v {{cachePolicy = {policy.format('ca', 'evict_first')}, isVolatile = true}}"
        in text
    )
    assert (
        f"tt.load %p {{cachePolicy = {policy.format('none', 'evict_last')}}} : tensor<8x!tt.ptr<f32>>" in text
    )
    assert f'{{cachePolicy = {policy.format("wt", "evict_normal")}, note = "mine"}}' in text
    assert print_module(parse(text)) == text


SPELLINGS = [
    'tt.func private @"m.f__fp32_c-0.5"(!tt.ptr<i8, 0>, f32) -> (f32, i32)',
    "tt.func private @one(f32 {a.b = 1 : i32}) -> f32",
    "tt.func private @attrs() -> (f64 {dialect.name = 0 : i64}) attributes {x.y = false}",
    """tt.func public @f(%acc: f32) {
  %c-1_i32 = arith.constant -1 : i32
  tt.return
}""",
    """tt.func public @f(%x: i32, %b: i1) {
  cf.cond_br %b, ^bb0(%x : i32), ^bb1
^bb0(%y: i32):
  cf.br ^bb1
^bb1:
  tt.return
}""",
    """tt.func public @f(%x: tensor<4xi32>) {
  %y:2 = "tt.reduce"(%x, %x) <{axis = 0 : i32}> ({
  ^bb0(%a: i32, %b: i32, %c: i32, %d: i32):
    tt.reduce.return %a, %b : i32, i32
  }) : (tensor<4xi32>, tensor<4xi32>) -> (i32, i32)
  %z = arith.addi %y#0, %y#1 : i32
  tt.return
}""",
    """tt.func public @f(%x: tensor<4xi32>) {
  %y = arith.muli %x, %x overflow<nsw, nuw> : tensor<4xi32>
  %z = arith.trunci %x overflow<nsw> : tensor<4xi32> to tensor<4xi8>
  tt.return
}""",
    """tt.func public @f(%x: f32, %i: i32) {
  %y = arith.addf %x, %x fastmath<nnan> : f32
  %b = arith.cmpf olt, %x, %x fastmath<fast> : f32
  %r = scf.for %k = %i to %i step %i iter_args(%a = %x) -> (f32) : i32 {
    scf.yield %a : f32
  } {tt.num_stages = 2 : i32, tt.flatten}
  tt.return
}""",
    """tt.func public @f(%x: i32) {
  %_ = arith.addi %x, %x : i32
  %_0 = arith.addi %_, %x : i32
  %__1 = arith.addi %_0, %x : i32
  tt.return
}""",
    """tt.func public @f(%x: tensor<8x1xf32>) {
  %y = tt.reshape %x allow_reorder efficient_layout {k = 1 : i32} : tensor<8x1xf32> -> tensor<8xf32>
  tt.return
}""",
    """tt.func public @f(%x: f32) {
  %y = ub.poison : f32
  tt.return
}""",
]


@pytest.mark.parametrize("text", SPELLINGS, ids=range(len(SPELLINGS)))
def test_forms_that_occur_in_real_texts(text: str) -> None:
    printed = print_module(parse(text))
    assert print_module(parse(printed)) == printed
    for word in re.findall(
        r"arith\.\w+|overflow<[^>]*>|fastmath<[^>]*>|tt\.num_stages = 2|allow_reorder|@\S+?\(|!tt\.ptr<i8, 0>",
        text,
    ):
        assert word in printed or word.replace(", ", ",") in printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Could not parse entire input"),
        ("tt.func public @f(", "cannot read the block IR"),
        ("tt.func public @f() {\n  tt.frobnicate\n}", "Operation tt.frobnicate is not registered"),
        (
            "tt.func public @f() {\n  %x = arith.addi %y, %y : i32\n  tt.return\n}",
            "values used but not defined: [%y]",
        ),
        (
            "tt.func public @f(%x: i32) {\n  %p = tt.get_program_id w : i32\n  tt.return\n}",
            "expected a program axis: x, y, z",
        ),
        (
            "tt.func public @f(%x: i32) {\n  %p = arith.cmpi lt, %x, %x : i32\n  tt.return\n}",
            "expected a comparison: eq, ne, slt",
        ),
        (
            "tt.func public @f(%p: !tt.ptr<i32>) {\n  %x = tt.load %p cacheModifier = qq : !tt.ptr<i32>\n  tt.return\n}",
            "expected a cacheModifier",
        ),
        (
            "tt.func public @f(%p: !tt.ptr<i32>) {\n  %x = tt.load %p cacheModifier = cg "
            "{cachePolicy = #tt.cache_policy<cache_modifier = cg, eviction_policy = evict_first>} "
            ": !tt.ptr<i32>\n  tt.return\n}",
            "cachePolicy stands beside cacheModifier",
        ),
        (
            "tt.func public @f(%x: tensor<1048577xi32>) {\n  tt.return\n}",
            "1048577 elements; the limit is 1048576",
        ),
        (
            "tt.func public @f() {\n  %x = arith.constant dense<0> : tensor<99999999999xi32>\n  tt.return\n}",
            "the limit is 1048576",
        ),
        (
            "tt.func public @f(%x: i32, f32) {\n  tt.return\n}",
            "some parameters have a name and some have none",
        ),
        ("tt.func public @f() {\n" + "scf.execute_region {\n" * 3000, "nested too deeply"),
        ("tt.func public @f(%x: " + "tensor<2x" * 5000 + "i32) {}", "cannot read the block IR"),
    ],
    ids=range(13),
)
def test_a_text_that_is_no_block_ir_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text, "kernel.ttir")
    assert message in str(caught.value)
    assert str(caught.value).startswith("kernel.ttir: ")


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(UserError, match=f"the limit is {MAX_TEXT}"):
        parse(" " * (MAX_TEXT + 1))


def test_a_text_error_shows_the_line() -> None:
    with pytest.raises(UserError) as caught:
        parse("tt.func public @f() {\n  tt.return\n  what is this\n}", "kernel.ttir")
    assert "kernel.ttir:3:" in str(caught.value)
    assert "what is this" in str(caught.value)


def scale(name: str = "scale", hint: str = "x", factor: float = 2.0, width: int = 8) -> BlockBuilder:
    b = BlockBuilder.function(name, [(hint, ptr(F32)), ("n", I64)])
    x, _ = b.args
    pointers = b.addptr(b.splat(x, (width,)), b.arange(width))
    value = b.load(pointers)
    value.name_hint = hint
    b.store(pointers, b.binary("arith.mulf", value, b.const(factor, F32, (width,))))
    return b


def test_the_canonical_text_ignores_names_only() -> None:
    text = canonical_text(scale().finish())
    assert text == canonical_text(scale("other", "values").finish())
    printed = print_module(scale().finish())
    assert text == canonical_text(parse(printed).body.block.first_op)
    renamed = re.sub(r"%(\w+)", r"%v_\1x", printed)
    assert text == canonical_text(parse(renamed).body.block.first_op)
    assert "scale" not in text
    different = [
        scale(factor=3.0),
        scale(factor=-2.0),
        scale(width=16),
        scale(factor=math.nan),
    ]
    texts = [canonical_text(b.finish()) for b in different]
    with_extra = scale()
    with_extra.const(1, I32)
    texts.append(canonical_text(with_extra.finish()))
    cached = scale()
    cached.load(cached.args[0], cache="cs")
    plain = scale()
    plain.load(plain.args[0])
    texts += [canonical_text(cached.finish()), canonical_text(plain.finish())]
    assert len({text, *texts}) == 8


def test_the_canonical_text_tells_operands_and_branches_apart() -> None:
    def difference(first: int, second: int) -> str:
        b = BlockBuilder.function("f", [("x", F32), ("y", F32)])
        b.binary("arith.subf", b.args[first], b.args[second])
        return canonical_text(b.finish())

    assert difference(0, 1) != difference(1, 0)
    branching = SPELLINGS[4]
    other = branching.replace("^bb0(%x : i32), ^bb1", "^bb1, ^bb0(%x : i32)")
    assert canonical_text(parse(branching).body.block.first_op) != canonical_text(
        parse(other).body.block.first_op
    )


def test_f8_dtype_agreement() -> None:
    """xDSL's f8 decoding agrees with ml_dtypes on all 256 patterns, so constants mean the same to both."""
    for name, dtype in (("f8E4M3FN", ml_dtypes.float8_e4m3fn), ("f8E5M2", ml_dtypes.float8_e5m2)):
        raw = bytes(range(256))
        ours = np.array(scalar_type(name).unpack(raw, 256))
        theirs = np.frombuffer(raw, dtype).astype(np.float64)
        np.testing.assert_array_equal(ours, theirs)


def test_a_constant_keeps_its_attribute_type() -> None:
    (attr,) = constants("1.5 : bf16")
    assert isinstance(attr, FloatAttr)
    assert attr.type == BF16


CONSTANT = """module {
  tt.func public @copy(%x: !tt.ptr<f32, "constant">, %o: !tt.ptr<f32>) {
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %0 = tt.splat %x : !tt.ptr<f32, "constant"> -> tensor<16x!tt.ptr<f32, "constant">>
    %1 = tt.addptr %0, %i : tensor<16x!tt.ptr<f32, "constant">>, tensor<16xi32>
    %2 = tt.load %1 : tensor<16x!tt.ptr<f32, "constant">>
    %3 = tt.splat %o : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %4 = tt.addptr %3, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %4, %2 : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}
"""


def test_pointers_to_constant_memory_as_triton_3_9_prints_them() -> None:
    kernel = jn.kernel.from_ttir(CONSTANT)
    assert '%x: !tt.ptr<f32, "constant">' in kernel.text()
    assert jn.kernel.from_ttir(kernel.text()).text() == kernel.text()
    x = np.arange(16, dtype=np.float32)
    for run in (kernel.launch, kernel.interpret):
        out = np.zeros_like(x)
        run((1,), x, out)
        np.testing.assert_array_equal(out, x)


def test_unknown_address_spaces_are_named() -> None:
    with pytest.raises(UserError, match=r'2:41: unknown address space "moon"; there are "global", "constant"'):
        jn.kernel.from_ttir(CONSTANT.replace('"constant"', '"moon"'))


def test_the_barrier_of_older_texts_is_read_as_the_barrier() -> None:
    """Triton up to 3.6 prints `tl.debug_barrier` as an operation of the gpu dialect."""
    text = "tt.func public @k(%x: !tt.ptr<i32>) {\n  BARRIER\n  tt.return\n}"
    old, new = (print_module(parse(text.replace("BARRIER", barrier))) for barrier in ("gpu.barrier", "ttg.barrier all"))
    assert old == new
    assert "ttg.barrier all" in old


@pytest.mark.slow
def test_long_texts_are_read_in_a_time_that_grows_with_their_length() -> None:
    """Processor time per line, of texts of 0.7 and 5 million characters, the latter longer than was read once."""

    def seconds(count: int) -> float:
        lines = "\n".join(f"    %v{i + 1} = arith.addi %v{i}, %v{max(0, i - 3)} : i32 loc(#loc{i})" for i in range(count))
        origins = "\n".join(f'#loc{i} = loc("k.py":{i + 1}:5)' for i in range(count))
        text = f"module {{\n  tt.func public @k(%v0: i32) {{\n{lines}\n    tt.return\n  }}\n}}\n{origins}\n"
        assert count < 60_000 or len(text) > 5_000_000
        before = time.process_time()
        parse(text)
        return (time.process_time() - before) / count

    assert seconds(64_000) < 4 * seconds(8_000)
