"""BlockBuilder: what it builds verifies, prints and reads back; what cannot be right raises at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt import types as t
from joinery.lowering.tt.builder.block_builder import BlockBuilder
from joinery.lowering.tt.constants import block_values, constant_attr, is_splat, scalar_value, splat_value
from joinery.lowering.tt.dialect.attributes import CachePolicyAttr, enum_attr
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.types import BF16, F16, F32, F64, I1, I8, I16, I32, I64, ptr, scalar_type, tensor
from joinery.lowering.tt.verify import verify
from joinery.promotion.dtype import DType
from joinery.promotion.errors import InternalError, UnsupportedError
from xdsl.dialects.builtin import StringAttr

FLOAT_UNARY = [
    *(
        f"math.{name}"
        for name in [
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log1p",
            "sqrt",
            "rsqrt",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "tanh",
            "erf",
        ]
    ),
    *(f"math.{name}" for name in ["floor", "ceil", "roundeven", "trunc", "absf"]),
    "arith.negf",
    "tt.precise_sqrt",
]
FLOAT_BINARY = [
    *(
        f"arith.{name}"
        for name in ["addf", "subf", "mulf", "divf", "remf", "maximumf", "minimumf", "maxnumf", "minnumf"]
    ),
    "math.powf",
    "math.copysign",
    "tt.precise_divf",
]
INTEGER_UNARY = ["math.absi", "math.ctlz", "math.cttz", "math.ctpop"]
INTEGER_BINARY = [
    *(
        f"arith.{name}"
        for name in [
            "addi",
            "subi",
            "muli",
            "divsi",
            "divui",
            "remsi",
            "remui",
            "andi",
            "ori",
            "xori",
            "shli",
            "shrsi",
            "shrui",
        ]
    ),
    *(f"arith.{name}" for name in ["maxsi", "minsi", "maxui", "minui"]),
    "tt.mulhiui",
]


def add(b: BlockBuilder, left: list, right: list) -> list:
    return [b.binary("arith.addf", left[0], right[0])]


def maximum(b: BlockBuilder, left: list, right: list) -> list:
    return [b.binary("arith.maximumf", left[0], right[0])]


def everything(shape: tuple[int, ...]) -> BlockBuilder:
    """A function with every operation that the builder makes, on scalars or blocks."""
    b = BlockBuilder.function(
        "all", [("p", ptr(F32)), ("x", F32), ("n", I64)], [{"tt.divisibility": 16}, {}, {}]
    )
    p, x, n = b.args
    x, k = b.splat(x, shape), b.splat(n, shape)
    for name in FLOAT_UNARY:
        b.unary(name, x)
    for name in FLOAT_BINARY:
        b.binary(name, x, x)
    for name in INTEGER_UNARY:
        b.unary(name, k)
    for name in INTEGER_BINARY:
        b.binary(name, k, k)
    b.ternary("math.fma", x, x, x)
    b.op("tt.clampf", (x, x, x), (x.type,), {"propagateNan": enum_attr(0xFFFF)})
    b.op("tt.clampf", (x, x, x), (x.type,), {"propagateNan": enum_attr(0)})
    conditions = [
        b.cmpi(name, k, k) for name in ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
    ]
    conditions += [
        b.cmpf(name, x, x)
        for name in [
            "oeq",
            "one",
            "olt",
            "ole",
            "ogt",
            "oge",
            "ord",
            "ueq",
            "une",
            "ult",
            "ule",
            "ugt",
            "uge",
            "uno",
            "true",
            "false",
        ]
    ]
    b.select(conditions[0], x, x)
    half = b.cast("arith.truncf", x, F16)
    b.cast("arith.extf", half, F64)
    b.cast("tt.fp_to_fp", half, BF16)
    b.cast("tt.fp_to_fp", x, "f8E4M3FN")
    b.cast("tt.fp_to_fp", b.cast("tt.fp_to_fp", x, "f8E5M2"), F32)
    b.cast("tt.bitcast", x, I32)
    small = b.cast("arith.trunci", k, I8)
    b.cast("arith.extsi", small, I16)
    b.cast("arith.extui", small, I32)
    b.cast("arith.sitofp", k, F32)
    b.cast("arith.uitofp", k, BF16)
    b.cast("arith.fptosi", x, I64)
    b.cast("arith.fptoui", x, I8)
    pointers = b.addptr(b.splat(p, shape), k)
    b.cast("tt.int_to_ptr", b.cast("tt.ptr_to_int", pointers, I64), ptr(F32))
    one = b.load(pointers)
    two = b.load(pointers, conditions[0])
    three = b.load(pointers, conditions[0], b.const(0.5, F32, shape), cache="cg")
    b.store(pointers, b.binary("arith.addf", one, b.binary("arith.addf", two, three)))
    b.store(pointers, x, conditions[1], cache="cs")
    b.program_id()
    b.op("tt.get_num_programs", (), (I32,), {"axis": enum_attr(2)})
    return b


def shapes_and_regions() -> BlockBuilder:
    b = BlockBuilder.function("regions", [("x", F32), ("n", I64)])
    x, n = b.args
    rows = b.expand_dims(b.arange(4), 1)
    b.broadcast(rows, (4, 8))
    block = b.splat(x, (4, 8))
    b.trans(block, (1, 0))
    flat = b.reshape(block, (32,))
    low, high = b.split(b.join(flat, flat))
    b.op("tt.cat", (low, high), (tensor(F32, (64,)),))
    b.op("tt.gather", (flat, b.arange(16, start=3)), (tensor(F32, (16,)),), {"axis": enum_attr(0)})
    b.op("tt.unsplat", (b.splat(x, (1, 1)),), (F32,))
    b.dot(b.splat(x, (4, 16)), b.splat(x, (16, 8)), block, precision="tf32")
    b.dot(b.splat(x, (2, 4, 16)), b.splat(x, (2, 16, 8)), b.splat(x, (2, 4, 8)))
    totals = b.reduce([block], 1, add)
    b.reduce(totals, 0, maximum)
    index = b.broadcast(rows, (4, 8))

    def larger(b: BlockBuilder, left: list, right: list) -> list:
        take = b.cmpf("ogt", left[0], right[0])
        return [b.select(take, left[0], right[0]), b.select(take, left[1], right[1])]

    assert len(b.reduce([block, index], 0, larger)) == 2
    b.scan([block], 1, add, reverse=True)
    zero, one = b.const(0, I64), b.const(1, I64)
    with b.for_(zero, n, one, [x, block]) as loop:
        k, (total, carried) = loop
        branch = b.if_(b.cmpi("slt", k, n), [F32])
        with branch.then():
            branch.yield_([b.binary("arith.addf", total, x)])
        with branch.otherwise():
            branch.yield_([b.const(0.0, F32)])
        loop.yield_([branch.results[0], carried])
    assert [value.type for value in loop.results] == [F32, tensor(F32, (4, 8))]
    with b.for_(zero, n, one) as (k, values):
        assert values == []
        only = b.if_(b.cmpi("eq", k, zero))
        with only.then():
            b.const(3.0, F32)
    return b


@pytest.mark.parametrize("make", [lambda: everything(()), lambda: everything((2, 8)), shapes_and_regions])
def test_what_is_built_verifies_and_reads_back(make: Callable[[], BlockBuilder]) -> None:
    function = make().finish()
    verify(function)
    text = print_module(function)
    again = parse(text)
    assert print_module(again) == text
    assert [op.name for op in again.walk()][1:] == [op.name for op in function.walk()]


def test_the_printed_spelling() -> None:
    """As Triton 3.9 prints it."""
    lines = [line.strip() for line in print_module(everything((8,)).finish()).split("\n")]
    assert lines[1] == (
        "tt.func public @all(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %x: f32, %n: i64) attributes {noinline = false} {"
    )
    endings = [line.partition(" = ")[2] or line for line in lines]
    for expected in (
        "tt.splat %x : f32 -> tensor<8xf32>",
        "arith.cmpi slt, %1, %1 : tensor<8xi64>",
        "tt.get_num_programs z : i32",
        "tt.precise_divf %0, %0 : tensor<8xf32>",
        "tt.clampf %0, %0, %0, propagateNan = all : tensor<8xf32>",
        "arith.fptosi %0 : tensor<8xf32> to tensor<8xi64>",
    ):
        assert expected in endings
    assert any(
        line.startswith("tt.store")
        and "{cachePolicy = #tt.cache_policy<cache_modifier = cs, eviction_policy = evict_normal>} : tensor<8x!tt.ptr<f32>>"
        in line
        for line in lines
    )
    assert any(", rounding = rtne : tensor<8xf32> -> tensor<8xf8E4M3FN>" in line for line in lines)
    text = print_module(shapes_and_regions().finish())
    for expected in (
        "inputPrecision = tf32 : tensor<4x16xf32> * tensor<16x8xf32> -> tensor<4x8xf32>",
        "}) : (tensor<4x8xf32>) -> tensor<4xf32>",
        "<{axis = 1 : i32, reverse = true}>",
        "{order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>",
        "tt.make_range {start = 3 : i32, end = 19 : i32} : tensor<16xi32>",
    ):
        assert expected in text


WRONG: list[tuple[Callable[[BlockBuilder], object], str]] = [
    (lambda b: b.binary("arith.addf", b.args[0], b.args[1]), "arith.addf of f32 and i32"),
    (
        lambda b: b.binary("arith.addf", b.args[0], b.splat(b.args[0], (8,))),
        "arith.addf of f32 and tensor<8xf32>",
    ),
    (lambda b: b.ternary("math.fma", b.args[0], b.args[0], b.args[1]), "math.fma of f32 and i32"),
    (lambda b: b.cmpi("eq", b.args[0], b.args[1]), "arith.cmpi of f32 and i32"),
    (
        lambda b: b.select(b.splat(b.const(True, I1), (4,)), b.args[0], b.args[0]),
        "arith.select of f32 by tensor<4xi1>",
    ),
    (lambda b: b.splat(b.splat(b.args[0], (8,)), (8,)), "tt.splat of a block tensor<8xf32>"),
    (lambda b: b.expand_dims(b.splat(b.args[0], (8,)), 2), "tt.expand_dims of tensor<8xf32> at axis 2"),
    (lambda b: b.expand_dims(b.args[0], 0), "tt.expand_dims of f32 at axis 0"),
    (lambda b: b.broadcast(b.splat(b.args[0], (8,)), (16,)), "tt.broadcast of tensor<8xf32> to [16]"),
    (lambda b: b.trans(b.splat(b.args[0], (8,)), (1,)), "tt.trans of tensor<8xf32> with order [1]"),
    (lambda b: b.reshape(b.splat(b.args[0], (8,)), (4,)), "tt.reshape of tensor<8xf32> to [4]"),
    (lambda b: b.split(b.splat(b.args[0], (8,))), "tt.split of tensor<8xf32>"),
    (lambda b: b.addptr(b.args[0], b.args[1]), "tt.addptr of f32 by i32"),
    (lambda b: b.addptr(b.args[2], b.arange(8)), "tt.addptr of !tt.ptr<f32> by tensor<8xi32>"),
    (
        lambda b: b.load(b.args[2], b.splat(b.const(True, I1), (8,))),
        "tt.load through !tt.ptr<f32> with mask tensor<8xi1>",
    ),
    (lambda b: b.load(b.args[2], None, b.args[0]), "tt.load of !tt.ptr<f32> with other f32"),
    (lambda b: b.load(b.args[0]), "not a pointer or a block of pointers: f32"),
    (lambda b: b.store(b.args[2], b.args[1]), "tt.store of i32 through !tt.ptr<f32>"),
    (
        lambda b: b.dot(b.splat(b.args[0], (4, 8)), b.splat(b.args[0], (4, 8)), b.args[0]),
        "tt.dot of tensor<4x8xf32>",
    ),
    (lambda b: b.reduce([b.args[0]], 0, lambda b, left, right: left), "tt.reduce of f32"),
    (
        lambda b: b.reduce([b.arange(8)], 0, lambda b, left, right: [b.args[0]]),
        "tt.reduce: the region gives f32",
    ),
    (lambda b: b.for_(b.args[1], b.args[0], b.args[1]), "scf.for of i32 and f32"),
    (lambda b: b.if_(b.args[1]), "scf.if on i32"),
    (lambda b: b.program_id(3), "grid axis 3"),
    (lambda b: b.unary("math.sqr", b.args[0]), "the block IR has no operation math.sqr"),
    (lambda b: b.const(1.5, I32), "constant 1.5 of type i32"),
    (lambda b: b.const(1, ptr(F32)), "constant of type !tt.ptr<f32>"),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_request_raises(make: Callable[[BlockBuilder], object], message: str) -> None:
    b = BlockBuilder.function("f", [("x", F32), ("i", I32), ("p", ptr(F32))])
    with pytest.raises(InternalError) as caught:
        make(b)
    assert message in str(caught.value)


def test_a_region_left_unfinished_raises() -> None:
    b = BlockBuilder.function("f", [("x", F32), ("i", I32)])
    x, i = b.args
    with pytest.raises(InternalError, match=r"scf.for yields \(\), expected \(f32\)"), b.for_(i, i, i, [x]):
        pass
    with b.for_(i, i, i, [x]) as loop:
        loop.yield_([x])
        with pytest.raises(InternalError, match="yield_ called twice"):
            loop.yield_([x])
        with pytest.raises(InternalError, match="inside a loop"):
            b.finish()
    branch = b.if_(b.cmpi("eq", i, i))
    with pytest.raises(InternalError, match="outside then"):
        branch.yield_([])
    with pytest.raises(InternalError, match="1 argument attributes for 2 parameters"):
        BlockBuilder.function("f", [("x", F32), ("i", I32)], [{}])


def test_a_branch_may_use_what_was_computed_between_its_blocks() -> None:
    b = BlockBuilder.function("f", [("o", ptr(I32)), ("i", I32)])
    o, i = b.args
    branch = b.if_(b.cmpi("eq", i, b.const(0, I32)), [I32])
    with branch.then():
        branch.yield_([i])
    between = b.binary("arith.muli", i, b.const(7, I32))
    with branch.otherwise():
        branch.yield_([b.binary("arith.addi", between, b.const(7, I32))])
    b.store(o, branch.results[0])
    function = b.finish()
    verify(function)
    out = np.zeros(1, np.int32)
    interpret(function, 1, [out, 3])
    assert out[0] == 28
    b = BlockBuilder.function("f", [("i", I32)])
    (i,) = b.args
    branch = b.if_(b.cmpi("eq", i, i), [I32])
    with pytest.raises(InternalError, match=r"otherwise\(\) before then\(\)"), branch.otherwise():
        branch.yield_([i])
    branch = b.if_(b.cmpi("eq", i, i), [I32])
    with branch.then():
        branch.yield_([i])
    b.binary("arith.addi", branch.results[0], i)
    with pytest.raises(InternalError, match="results are used before"), branch.otherwise():
        branch.yield_([i])


def test_what_the_builder_lets_through_the_verifier_refuses() -> None:
    b = BlockBuilder.function("f", [("x", F32)])
    b.splat(b.args[0], (1 << 21,))
    with pytest.raises(InternalError, match="2097152 elements, expected at most 1048576"):
        verify(b.finish())
    b = BlockBuilder.function("f", [("p", ptr(F32))])
    b.load(b.args[0])
    b.finish().body.block.first_op.properties["cachePolicy"] = CachePolicyAttr(
        StringAttr("xx"), StringAttr("evict_first")
    )
    with pytest.raises(InternalError, match="unknown cache policy"):
        verify(b.func)


# Constants


def test_equal_constants_are_one_operation() -> None:
    b = BlockBuilder.function("f", [("n", I64), ("v", tensor(F32, (8,)))])
    n, v = b.args
    assert b.const(1, I64) is b.const(1, I64) is b.const(True, "i64") is b.const(1.0, DType("int64"))
    assert b.const(1, I64) is not b.const(1, I32)
    assert b.const(0.0, F32) is not b.const(-0.0, F32)
    assert b.const(float("nan"), F32, (4,)) is b.const(float("nan"), F32, (4,))
    assert b.const(255, I8) is b.const(-1, I8)
    outer = b.const(7, I64)
    with b.for_(n, n, n):
        assert b.const(7, I64) is outer, "values of the enclosing block are visible in a loop"
        inner = b.const(8, I64)
    assert b.const(8, I64) is not inner, "but not the other way round"

    def combine(b: BlockBuilder, left: list, right: list) -> list:
        assert b.const(0.0, F32) is not b.const(0.0, F32, (8,))
        constant = b.const(0.0, F32)
        assert constant.owner.parent is left[0].owner, "a combine region uses nothing from outside"
        return [constant]

    b.const(0.0, F32)
    b.reduce([v], 0, combine)
    verify(b.finish())


def test_constants_keep_their_value() -> None:
    assert scalar_value(constant_attr(300, I8)) == 44
    assert scalar_value(constant_attr(2**63, I64)) == -(2**63)
    assert scalar_value(constant_attr(2, I1)) == 1
    assert scalar_value(constant_attr(0.1, F32)) == float(np.float32(0.1))
    assert scalar_value(constant_attr(1e300, F32)) == np.inf
    assert scalar_value(constant_attr(-70000.0, F16)) == -np.inf
    block = constant_attr(0.1, BF16, (256, 256))
    assert is_splat(block)
    assert splat_value(block) == 0.10009765625
    assert block_values(block) == (0.10009765625,) * 65536
    assert len(block.data.data) == 2, "a splat is stored once"
    assert splat_value(constant_attr(True, I1, (4,))) == 1
    written_out = parse(
        "tt.func public @f() {\n%c = arith.constant dense<[1, 2]> : tensor<2xi32>\ntt.return\n}"
    )
    value = next(op for op in written_out.walk() if op.name == "arith.constant").properties["value"]
    assert splat_value(value) is None
    assert block_values(value) == (1, 2)


# Types


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bool", "i1"),
        ("uint8", "i8"),
        ("int64", "i64"),
        ("index", "i64"),
        ("address", "i64"),
        ("tensor_float32", "f32"),
        ("bfloat16", "bf16"),
        ("float8_e4m3fn", "f8E4M3FN"),
        ("float8_e5m2", "f8E5M2"),
        ("bf16", "bf16"),
        ("f8E5M2", "f8E5M2"),
    ],
)
def test_scalar_types(name: str, text: str) -> None:
    assert str(scalar_type(name)) == text
    assert scalar_type(name) is scalar_type(scalar_type(name))


def test_types_are_interned_and_taken_apart() -> None:
    assert ptr("f32") is ptr(DType("float32"))
    assert tensor(ptr(F16), [4, 8]) is tensor(ptr("float16"), (4, 8))
    pointers = tensor(ptr(F16), (4, 8))
    assert str(pointers) == "tensor<4x8x!tt.ptr<f16>>"
    assert t.elem(pointers) is ptr(F16)
    assert t.shape_of(pointers) == (4, 8)
    assert t.shape_of(I32) == ()
    assert t.value_type(pointers) is tensor(F16, (4, 8))
    assert t.mask_type(pointers) is tensor(I1, (4, 8))
    assert tensor(F32, ()) is F32
    assert [t.bit_width(x) for x in (I1, I64, BF16, ptr(I8), tensor(scalar_type("f8E5M2"), (4,)))] == [
        1,
        64,
        16,
        64,
        8,
    ]
    assert t.element_count(pointers) == 32
    assert t.is_pointer(pointers)
    assert not t.is_float(pointers)
    assert t.is_float(tensor(BF16, (2,)))
    assert t.is_integer(I1)
    with pytest.raises(UnsupportedError, match="no element type 'complex64'"):
        scalar_type("complex64")
    with pytest.raises(InternalError, match="a block of blocks"):
        tensor(pointers, (2,))


def test_no_instruction_is_emitted_for_nothing() -> None:
    b = BlockBuilder.function("f", [("x", F32)])
    (x,) = b.args
    assert b.splat(x, ()) is x
    assert b.cast("arith.extf", x, F32) is x
    block = b.splat(x, (4,))
    assert b.broadcast(block, (4,)) is block
    assert len(list(b.finish().walk())) == 3


def test_the_example_of_the_module_runs() -> None:
    b = BlockBuilder.function("scale", [("x", ptr("f32")), ("n", I64)])
    x, n = b.args
    offsets = b.cast("arith.extsi", b.arange(64), I64)
    mask = b.cmpi("slt", offsets, b.splat(n, (64,)))
    pointers = b.addptr(b.splat(x, (64,)), offsets)
    value = b.load(pointers, mask)
    b.store(pointers, b.binary("arith.mulf", value, b.const(2.0, F32, (64,))), mask)
    data = np.arange(50, dtype=np.float32)
    interpret(b.finish(), 1, [data, 50])
    assert data.tolist() == [2.0 * k for k in range(50)]
