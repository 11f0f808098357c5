"""Every message of the verifiers, each produced by an operation that is wrong in exactly that way."""

from __future__ import annotations

import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.promotion.errors import UserError

PARAMETERS = {
    "i": "i32",
    "l": "i64",
    "b": "i1",
    "f": "f32",
    "h": "f16",
    "p": "!tt.ptr<f32>",
    "q": "!tt.ptr<i32>",
    "f8": "tensor<8xf32>",
    "g8": "tensor<8xf32>",
    "f16": "tensor<16xf32>",
    "h8": "tensor<8xf16>",
    "i8": "tensor<8xi32>",
    "i16": "tensor<16xi32>",
    "l8": "tensor<8xi64>",
    "b8": "tensor<8xi1>",
    "b16": "tensor<16xi1>",
    "p8": "tensor<8x!tt.ptr<f32>>",
    "one": "tensor<1xf32>",
    "m": "tensor<16x32xf32>",
    "n": "tensor<32x8xf32>",
    "w": "tensor<16x32xf16>",
    "v": "tensor<32x8xf16>",
    "c": "tensor<16x8xf32>",
    "ch": "tensor<16x8xf16>",
    "ci": "tensor<16x8xi32>",
    "mi": "tensor<16x32xi8>",
    "ni": "tensor<32x8xi8>",
    "b3": "tensor<2x16x32xf32>",
    "b4": "tensor<4x32x8xf32>",
    "three": "tensor<3xf32>",
    "four": "tensor<4x2xf32>",
}


def module(body: str) -> str:
    parameters = ", ".join(f"%{name}: {type_}" for name, type_ in PARAMETERS.items())
    return f"tt.func public @f({parameters}) {{\n{body}\ntt.return\n}}"


def op(name: str, operands: str, results: str = "", properties: str = "") -> str:
    """The generic form, which can say anything."""
    names = [operand.strip() for operand in operands.split(",") if operand.strip()]
    types = ", ".join(PARAMETERS[operand] for operand in names)
    values = ", ".join(f"%{operand}" for operand in names)
    count = 2 if results.count("tensor<") == 2 else 1
    bound = f"%r:{count} = " if results else ""
    return (
        f'{bound}"{name}"({values}) {f"<{{{properties}}}>" if properties else ""} : ({types}) -> ({results})'
    )


AXIS0, AXIS1 = "axis = 0 : i32", "axis = 1 : i32"


def fft(axis: int = 0, kind: str = "forward", length: int = 8) -> str:
    return f'axis = {axis} : i32, kind = "{kind}", length = {length} : i32'


NO_FASTMATH = "fastmath = #arith.fastmath<none>"
RANGE = "start = 0 : i32, end = 8 : i32"
CASES = [
    (op("tt.get_program_id", "", "i32", "axis = 3 : i32"), "axis is 3, expected 0 (x), 1 (y) or 2 (z)"),
    (op("tt.get_num_programs", "", "i32", "axis = -1 : i32"), "axis is -1, expected 0 (x), 1 (y) or 2 (z)"),
    (op("tt.make_range", "", "tensor<8xi32>", "start = 4 : i32, end = 4 : i32"), "the range 4 … 4 is empty"),
    (
        op("tt.make_range", "", "tensor<8xi64>", RANGE),
        "result is tensor<8xi64>, expected tensor<8xi32> (0 … 8)",
    ),
    (op("tt.make_range", "", "tensor<16xi32>", RANGE), "result is tensor<16xi32>, expected tensor<8xi32>"),
    (op("tt.splat", "f8", "tensor<8xf32>"), "src is tensor<8xf32>, expected a scalar"),
    (op("tt.splat", "f", "f32"), "result is f32, expected a block"),
    (op("tt.splat", "f", "tensor<8xf16>"), "result has element type f16, expected f32"),
    (op("tt.unsplat", "f", "f32"), "src is f32, expected a block"),
    (op("tt.unsplat", "f8", "f32"), "src is tensor<8xf32> with 8 elements, expected exactly one"),
    (op("tt.unsplat", "one", "f16"), "result is f16, expected f32"),
    (op("tt.expand_dims", "f", "tensor<1xf32>", AXIS0), "src is f32, expected a block"),
    (op("tt.expand_dims", "f8", "tensor<8x1xf32>", "axis = 2 : i32"), "axis 2 is outside 0 … 1"),
    (op("tt.expand_dims", "f8", "tensor<8x1xf32>", AXIS0), "of shape [8, 1], expected shape [1, 8]"),
    (op("tt.expand_dims", "f8", "tensor<1x8xf16>", AXIS0), "result has element type f16, expected f32"),
    (
        op("tt.broadcast", "f8", "tensor<4x8xf32>"),
        "src has rank 1 and result rank 2; tt.expand_dims adds axes",
    ),
    (op("tt.broadcast", "f8", "tensor<16xf32>"), "axis 0 grows from 8 to 16; only axes of extent 1 can grow"),
    (op("tt.broadcast", "one", "tensor<8xi32>"), "result has element type i32, expected f32"),
    (op("tt.broadcast", "f", "tensor<8xf32>"), "src is f32, expected a block"),
    (
        op("tt.trans", "m", "tensor<32x16xf32>", "order = array<i32: 1, 1>"),
        "order [1, 1] is not a permutation of the 2 axes of tensor<16x32xf32>",
    ),
    (
        op("tt.trans", "m", "tensor<16x32xf32>", "order = array<i32: 1, 0>"),
        "of shape [16, 32], expected shape [32, 16]",
    ),
    (
        op("tt.trans", "m", "tensor<32x16xf16>", "order = array<i32: 1, 0>"),
        "result has element type f16, expected f32",
    ),
    (op("tt.reshape", "m", "tensor<256xf32>"), "src has 512 elements and result 256"),
    (op("tt.reshape", "m", "tensor<512xf16>"), "result has element type f16, expected f32"),
    (op("tt.join", "f8, f16", "tensor<8x2xf32>"), "rhs is tensor<16xf32>, expected tensor<8xf32>"),
    (op("tt.join", "f8, g8", "tensor<2x8xf32>"), "of shape [2, 8], expected shape [8, 2]"),
    (op("tt.join", "f8, g8", "tensor<8x2xf16>"), "result has element type f16, expected f32"),
    (op("tt.cat", "f8, f16", "tensor<16xf32>"), "rhs is tensor<16xf32>, expected tensor<8xf32>"),
    (op("tt.cat", "f8, g8", "tensor<8xf32>"), "of shape [8], expected shape [16]"),
    (op("tt.split", "f8", "tensor<8xf32>, tensor<8xf32>"), "expected a last axis of extent 2"),
    (
        op("tt.split", "four", "tensor<2xf32>, tensor<4xf32>"),
        "first result is tensor<2xf32>, expected tensor<4xf32>",
    ),
    (
        op("tt.split", "four", "tensor<4xf32>, tensor<4xf16>"),
        "second result is tensor<4xf16>, expected tensor<4xf32>",
    ),
    (
        op("tt.gather", "f8, g8", "tensor<8xf32>", AXIS0),
        "indices is tensor<8xf32>, expected integer elements",
    ),
    (op("tt.gather", "f8, i8", "tensor<8xf32>", AXIS1), "axis 1 is outside 0 … 0"),
    (op("tt.sort", "f8", "tensor<8xf32>", AXIS0), "src is tensor<8xf32>, expected integer elements"),
    (op("tt.sort", "b8", "tensor<8xi1>", AXIS0), "of one bit; expected integers of 8 bits or more"),
    (op("tt.sort", "i8", "tensor<8xi32>", AXIS1), "axis 1 is outside 0 … 0"),
    (op("tt.sort", "i8", "tensor<8xi64>", AXIS0), "result is tensor<8xi64>, expected tensor<8xi32>"),
    (op("tt.sort_lines", "p, l, l"), "what ptr points to is f32, expected integer elements"),
    (op("tt.sort_lines", "p8, l, l"), "ptr is tensor<8x!tt.ptr<f32>>; expected a pointer"),
    (op("tt.sort_lines", "q, i, l"), "lines is i32"),
    (op("tt.sort_lines", "q, l, i"), "count is i32"),
    (op("tt.fft", "i8", "tensor<8xi32>", fft()), "src is tensor<8xi32>, expected a block of i64"),
    (op("tt.fft", "l8", "tensor<4xi64>", fft()), "result is tensor<4xi64>, expected tensor<8xi64>"),
    (op("tt.fft", "l8", "tensor<8xi64>", fft(kind="sideways")), "kind is 'sideways', expected one of forward"),
    (op("tt.fft", "l8", "tensor<8xi64>", fft(length=9)), "a transform of 9 numbers"),
    (op("tt.fft", "l8", "tensor<8xi64>", fft(kind="real")), "a transform of 8 numbers, of kind real, along an axis"),
    (op("tt.fft", "l8", "tensor<8xi64>", fft(axis=1)), "axis 1 is outside 0 … 0"),
    (op("tt.gather", "m, i8", "tensor<8xf32>", AXIS0), "src has rank 2 and indices rank 1"),
    (
        op("tt.gather", "m, ci", "tensor<16x8xf32>", AXIS0),
        "axis 1 has extent 32 in src and 8 in indices",
    ),
    (op("tt.gather", "f8, i16", "tensor<8xf32>", AXIS0), "of shape [8], expected shape [16]"),
    (op("tt.gather", "f8, i8", "tensor<8xi32>", AXIS0), "result has element type i32, expected f32"),
    (op("tt.addptr", "f8, i8", "tensor<8xf32>"), "ptr is tensor<8xf32>, expected pointer elements"),
    (op("tt.addptr", "p8, f8", PARAMETERS["p8"]), "offset is tensor<8xf32>, expected integer elements"),
    (op("tt.addptr", "p8, i", PARAMETERS["p8"]), "offset is i32 of shape [], expected shape [8]"),
    (
        op("tt.addptr", "p, i", "!tt.ptr<i32>"),
        "result is !tt.ptr<i32>, expected !tt.ptr<f32> (the type of ptr)",
    ),
    (
        op("tt.load", "f8", "tensor<8xf32>", "operandSegmentSizes = array<i32: 1, 0, 0>, isVolatile = false"),
        "ptr is tensor<8xf32>, expected pointer elements",
    ),
    (
        op(
            "tt.load",
            "p8, i8",
            "tensor<8xf32>",
            "operandSegmentSizes = array<i32: 1, 1, 0>, isVolatile = false",
        ),
        "mask is tensor<8xi32>, expected tensor<8xi1> (i1 of the pointer's shape)",
    ),
    (
        op(
            "tt.load",
            "p8, b16",
            "tensor<8xf32>",
            "operandSegmentSizes = array<i32: 1, 1, 0>, isVolatile = false",
        ),
        "mask is tensor<16xi1>, expected tensor<8xi1>",
    ),
    (
        op(
            "tt.load",
            "p8, b8, h8",
            "tensor<8xf32>",
            "operandSegmentSizes = array<i32: 1, 1, 1>, isVolatile = false",
        ),
        "other is tensor<8xf16>, expected tensor<8xf32> (what ptr points to)",
    ),
    (
        op(
            "tt.load",
            "p8, f8",
            "tensor<8xf32>",
            "operandSegmentSizes = array<i32: 1, 0, 1>, isVolatile = false",
        ),
        "other needs a mask",
    ),
    (
        op("tt.load", "p8", "tensor<8xf16>", "operandSegmentSizes = array<i32: 1, 0, 0>, isVolatile = false"),
        "result is tensor<8xf16>, expected tensor<8xf32> (what ptr points to)",
    ),
    (op("tt.store", "p8, h8"), "value is tensor<8xf16>, expected tensor<8xf32> (what ptr points to)"),
    (op("tt.store", "p8, f8, b16"), "mask is tensor<16xi1>, expected tensor<8xi1>"),
    (op("tt.store", "f8, g8"), "ptr is tensor<8xf32>, expected pointer elements"),
    (op("tt.int_to_ptr", "i", "!tt.ptr<f32>"), "src is i32, expected i64 elements"),
    (op("tt.int_to_ptr", "l", "f64"), "result is f64, expected pointer elements"),
    (op("tt.ptr_to_int", "l", "i64"), "src is i64, expected pointer elements"),
    (op("tt.ptr_to_int", "p", "i32"), "result is i32, expected i64 elements"),
    (op("tt.ptr_to_int", "p8", "tensor<4xi64>"), "of shape [4], expected shape [8]"),
    (op("tt.bitcast", "p", "i64"), "a pointer casts to pointers only"),
    (op("tt.bitcast", "f8", "tensor<8xi16>"), "src has elements of 32 bits and result of 16"),
    (op("tt.bitcast", "f8", "tensor<4xi32>"), "of shape [4], expected shape [8]"),
    (op("tt.fp_to_fp", "i8", "tensor<8xf32>"), "src is tensor<8xi32>, expected float elements"),
    (op("tt.fp_to_fp", "f8", "tensor<8xi32>"), "result is tensor<8xi32>, expected float elements"),
    (op("tt.fp_to_fp", "f8", "tensor<4xf32>"), "of shape [4], expected shape [8]"),
    (op("tt.fp_to_fp", "f8", "tensor<8xf16>"), "f32 to f16 loses bits and needs a rounding"),
    (op("tt.fp_to_fp", "f8", "tensor<8xf16>", "rounding = 7 : i32"), "unknown rounding 7"),
    (op("tt.mulhiui", "f8, g8", "tensor<8xf32>"), "x is tensor<8xf32>, expected integer elements"),
    (op("tt.precise_divf", "i8, i8", "tensor<8xi32>"), "x is tensor<8xi32>, expected float elements"),
    (op("tt.precise_divf", "f8, f16", "tensor<8xf32>"), "y is tensor<16xf32>, expected tensor<8xf32>"),
    (op("tt.precise_divf", "f8, g8", "tensor<16xf32>"), "result is tensor<16xf32>, expected tensor<8xf32>"),
    (op("tt.precise_sqrt", "i8", "tensor<8xi32>"), "x is tensor<8xi32>, expected float elements"),
    (op("tt.precise_sqrt", "f8", "tensor<8xf16>"), "result is tensor<8xf16>, expected tensor<8xf32>"),
    (
        op("tt.clampf", "i8, i8, i8", "tensor<8xi32>", "propagateNan = 0 : i32"),
        "x is tensor<8xi32>, expected float elements",
    ),
    (
        op("tt.clampf", "f8, f16, f8", "tensor<8xf32>", "propagateNan = 0 : i32"),
        "min is tensor<16xf32>, expected tensor<8xf32>",
    ),
    (
        op("tt.clampf", "f8, g8, f16", "tensor<8xf32>", "propagateNan = 0 : i32"),
        "max is tensor<16xf32>, expected tensor<8xf32>",
    ),
    (op("tt.clampf", "f8, g8, f8", "tensor<8xf32>", "propagateNan = 5 : i32"), "unknown propagateNan 5"),
    # blocks as such
    (
        op("tt.splat", "f", "tensor<3xf32>"),
        "result 0 is tensor<3xf32>, expected every extent to be a power of two",
    ),
    (
        op("tt.reshape", "three", "tensor<3xf32>"),
        "operand 0 is tensor<3xf32>, expected every extent to be a power",
    ),
    (op("tt.splat", "f", "tensor<0xf32>"), "expected every extent to be a power of two"),
    (op("tt.splat", "f", "tensor<?xf32>"), "expected every extent to be a power of two"),
    (op("tt.splat", "f", "tensor<f32>"), "a block has at least one axis, a single value is a scalar"),
    (op("tt.splat", "f", "tensor<8xf32, 1 : i32>"), "block types carry no layout"),
    # arith
    (
        op("arith.cmpi", "f8, g8", "tensor<8xi1>", "predicate = 0 : i64"),
        "lhs is tensor<8xf32>, expected integer",
    ),
    (
        op("arith.cmpi", "i8, i16", "tensor<8xi1>", "predicate = 0 : i64"),
        "rhs is tensor<16xi32>, expected tensor<8",
    ),
    (op("arith.cmpi", "i8, i8", "i1", "predicate = 0 : i64"), "result is i1, expected tensor<8xi1>"),
    (op("arith.cmpi", "i8, i8", "tensor<8xi1>", "predicate = 10 : i64"), "unknown predicate 10"),
    (
        op("arith.cmpf", "i8, i8", "tensor<8xi1>", "predicate = 0 : i64, fastmath = #arith.fastmath<none>"),
        "lhs is tensor<8xi32>, expected float elements",
    ),
    (
        op("arith.remf", "i8, i8", "tensor<8xi32>", NO_FASTMATH),
        "lhs is tensor<8xi32>, expected float elements",
    ),
    (
        op("arith.remf", "f8, f16", "tensor<8xf32>", NO_FASTMATH),
        "rhs is tensor<16xf32>, expected tensor<8xf32>",
    ),
    (
        op("arith.remf", "f8, g8", "tensor<16xf32>", NO_FASTMATH),
        "result is tensor<16xf32>, expected tensor<8xf32>",
    ),
    (op("arith.select", "b16, f8, g8", "tensor<8xf32>"), "condition is tensor<16xi1>, expected tensor<8xi1>"),
    (op("arith.select", "b, f8, f16", "tensor<8xf32>"), "rhs is tensor<16xf32>, expected tensor<8xf32>"),
    (op("arith.select", "b, f8, g8", "tensor<16xf32>"), "result is tensor<16xf32>, expected tensor<8xf32>"),
    (op("arith.extsi", "f", "i64"), "input is f32, expected integer elements"),
    (op("arith.extsi", "i", "f64"), "result is f64, expected integer elements"),
    (op("arith.extsi", "l", "i32"), "i64 to i32, expected a wider result"),
    (op("arith.extui", "i8", "tensor<16xi64>"), "of shape [16], expected shape [8]"),
    (op("arith.trunci", "i", "i64"), "i32 to i64, expected a narrower result"),
    (op("arith.trunci", "i", "i32"), "i32 to i32 does not change the width"),
    (op("arith.sitofp", "f", "f32"), "input is f32, expected integer elements"),
    (op("arith.uitofp", "i", "i32"), "result is i32, expected float elements"),
    (op("arith.fptosi", "i", "i32"), "input is i32, expected float elements"),
    (op("arith.fptoui", "f", "f16"), "result is f16, expected integer elements"),
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("body", "message"), CASES, ids=range(len(CASES)))
def test_a_wrong_operation_is_refused(body: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(module(body))
    assert message in str(caught.value)
    name = body.split('"')[1]
    assert str(caught.value).startswith(name), "the message begins with the operation"
    assert "\n  in: " in str(caught.value), "and shows it"


DOT = "inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32"
DOTS = [
    (
        op("tt.dot", "f8, n, c", "tensor<16x8xf32>", DOT),
        "a is tensor<8xf32>, expected rank 2, or 3 for a batch",
    ),
    (op("tt.dot", "m, b4, c", "tensor<16x8xf32>", DOT), "a has rank 2 and b rank 3"),
    (
        op("tt.dot", "m, m, c", "tensor<16x8xf32>", DOT),
        "with K = 32 columns, b is tensor<16x32xf32> with K = 16 rows",
    ),
    (op("tt.dot", "b3, b4, c", "tensor<16x8xf32>", DOT), "a has batch extent 2 and b 4"),
    (
        op("tt.dot", "m, n, m", "tensor<16x32xf32>", DOT),
        "c is tensor<16x32xf32> of shape [16, 32], expected shape [16, 8]",
    ),
    (
        op("tt.dot", "m, n, c", "tensor<16x8xf16>", DOT),
        "result is tensor<16x8xf16>, expected tensor<16x8xf32>",
    ),
    (
        op("tt.dot", "m, n, ci", "tensor<16x8xi32>", DOT),
        "a has elements f32 and c i32; both are integers or both are floats",
    ),
    (
        op("tt.dot", "m, v, c", "tensor<16x8xf32>", DOT),
        "a has elements f32 and b f16, expected the same kind and width",
    ),
    (op("tt.dot", "m, n, ch", "tensor<16x8xf16>", DOT), "c has elements f16, narrower than those of a (f32)"),
    (
        op("tt.dot", "m, n, c", "tensor<16x8xf32>", "inputPrecision = 9 : i32, maxNumImpreciseAcc = 0 : i32"),
        "unknown inputPrecision 9",
    ),
]


@pytest.mark.parametrize(("body", "message"), DOTS, ids=range(len(DOTS)))
def test_a_wrong_product_is_refused(body: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(module(body))
    assert message in str(caught.value)


def reduction(
    operands: str = "f8",
    results: str = "f32",
    arguments: str = "%x: f32, %y: f32",
    end: str = "tt.reduce.return %x : f32",
    properties: str = AXIS0,
    name: str = "tt.reduce",
) -> str:
    names = [operand.strip() for operand in operands.split(",") if operand.strip()]
    types = ", ".join(PARAMETERS[operand] for operand in names)
    values = ", ".join(f"%{operand}" for operand in names)
    return f'%r = "{name}"({values}) <{{{properties}}}> ({{\n^bb0({arguments}):\n{end}\n}}) : ({types}) -> ({results})'


REGIONS = [
    (reduction(operands="f"), "operand 0 is f32, expected a block"),
    (reduction(operands="f8, f16"), "operand 1 is tensor<16xf32> of shape [16], expected shape [8]"),
    (reduction(properties=AXIS1), "axis 1 is outside 0 … 0"),
    (reduction(results="f16"), "number 0 of the results is f16, expected f32"),
    (
        reduction(operands="m", results="tensor<16xf32>"),
        "number 0 of the results is tensor<16xf32>, expected tensor<32xf32>",
    ),
    (reduction(arguments="%x: f32"), "1 region arguments, expected 2"),
    (reduction(arguments="%x: f32, %y: f16"), "number 1 of the region arguments is f16, expected f32"),
    (
        reduction(end="%z = arith.constant 1 : i32\ntt.reduce.return %z : i32"),
        "number 0 of the values returned by the region is i32, expected f32",
    ),
    (reduction(end="scf.yield %x : f32"), "the region ends in scf.yield, expected tt.reduce.return"),
    (
        reduction(name="tt.scan", properties=f"{AXIS0}, reverse = false", end="tt.scan.return %x : f32"),
        "number 0 of the results is f32, expected tensor<8xf32>",
    ),
    (
        reduction(
            name="tt.scan",
            results="tensor<8xf32>",
            properties=f"{AXIS0}, reverse = false",
        ),
        "the region ends in tt.reduce.return, expected tt.scan.return",
    ),
    (
        '"scf.for"(%i, %i, %l) ({\n^bb0(%k: i32):\nscf.yield\n}) : (i32, i32, i64) -> ()',
        "the step is i64, expected i32",
    ),
    (
        '"scf.for"(%f, %f, %f) ({\n^bb0(%k: f32):\nscf.yield\n}) : (f32, f32, f32) -> ()',
        "the lower bound is f32, expected a scalar integer",
    ),
    (
        '%r = "scf.for"(%i, %i, %i, %f) ({\n^bb0(%k: i32, %a: f32):\nscf.yield %k : i32\n}) : (i32, i32, i32, f32) -> (f32)',
        "number 0 of the yielded values is i32, expected f32",
    ),
    (
        '%r = "scf.for"(%i, %i, %i, %f) ({\n^bb0(%k: i32, %a: f32):\nscf.yield %a : f32\n}) : (i32, i32, i32, f32) -> (f16)',
        "number 0 of the results is f16, expected f32",
    ),
    (
        '%r = "scf.for"(%i, %i, %i, %f) ({\n^bb0(%k: i32):\nscf.yield %f : f32\n}) : (i32, i32, i32, f32) -> (f32)',
        "1 region arguments, expected 2",
    ),
    (
        '%r = "scf.if"(%b) ({\nscf.yield %f : f32\n}, {\nscf.yield %h : f16\n}) : (i1) -> (f32)',
        "number 0 of the yielded values is f16, expected f32",
    ),
    ('%r = "scf.if"(%b) ({\nscf.yield %f : f32\n}, {}) : (i1) -> (f32)', "has results but no else region"),
    (
        '%r = "scf.execute_region"() ({\nscf.yield %h : f16\n}) : () -> f32',
        "number 0 of the yielded values is f16, expected f32",
    ),
    ('"scf.if"(%i) ({\nscf.yield\n}, {}) : (i32) -> ()', "the condition is i32, expected i1"),
    (
        '"scf.if"(%b) ({\n%z = arith.constant 1 : i32\n}, {}) : (i1) -> ()',
        "a region does not end in scf.yield",
    ),
    (
        "%r = scf.while (%a = %f) : (f32) -> f32 {\nscf.condition(%b) %i : i32\n} do {\n^bb0(%a: f32):\nscf.yield %a : f32\n}",
        "number 0 of the values passed by scf.condition is i32, expected f32",
    ),
    (
        "%r = scf.while (%a = %f) : (f32) -> f32 {\nscf.condition(%b) %a : f32\n} do {\n^bb0(%a: f32):\nscf.yield %i : i32\n}",
        "number 0 of the yielded values is i32, expected f32",
    ),
]


@pytest.mark.parametrize(("body", "message"), REGIONS, ids=range(len(REGIONS)))
def test_a_wrong_region_is_refused(body: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(module(body))
    assert message in str(caught.value)


FUNCTIONS = [
    ("tt.return", "stands in builtin.module, expected to stand in tt.func"),
    ("tt.func public @f() -> i32 {\ntt.return\n}", "0 returned values, expected 1"),
    (
        "tt.func public @f(%x: f32) -> i32 {\ntt.return %x : f32\n}",
        "number 0 of the returned values is f32, expected i32",
    ),
    ("tt.func public @f() {\n%x = arith.constant 1 : i32\n}", "does not end in a terminator"),
    (
        '"tt.func"() <{sym_name = "f", function_type = (i32) -> ()}> ({\n^bb0(%x: f32):\ntt.return\n}) : () -> ()',
        "number 0 of the entry block arguments is f32, expected i32",
    ),
    (
        '"tt.func"() <{sym_name = "f", function_type = () -> (), arg_attrs = [{}]}> ({\ntt.return\n}) : () -> ()',
        "1 argument attributes for 0 arguments",
    ),
    (
        '"tt.func"() <{sym_name = "f", function_type = () -> (), res_attrs = [{}]}> ({\ntt.return\n}) : () -> ()',
        "1 result attributes for 0 results",
    ),
    ("tt.func public @f() {\ntt.call @g() : () -> ()\ntt.return\n}", "is not a tt.func of this module"),
    (
        "tt.func private @g(%x: i32) {\ntt.return\n}\ntt.func public @f() {\ntt.call @g() : () -> ()\ntt.return\n}",
        "0 operands of the call, expected 1",
    ),
    (
        "tt.func private @g() -> f32\ntt.func public @f() {\n%r = tt.call @g() : () -> i32\ntt.return\n}",
        "number 0 of the results of the call is i32, expected f32",
    ),
    (
        "tt.func public @f(%b: i1) {\nscf.if %b {\ntt.return\n}\ntt.return\n}",
        "a region ends in tt.return, expected scf.yield",
    ),
    (
        "tt.func public @f(%x: i32) {\n%a = arith.addi %x, %c : i32\n%c = arith.constant 1 : i32\ntt.return\n}",
        "an operand is used before its definition",
    ),
    (
        "tt.func public @f(%b: i1) {\ncf.cond_br %b, ^a, ^c\n^a:\n%x = arith.constant 1 : i32\ncf.br ^c\n^c:\n"
        "%y = arith.addi %x, %x : i32\ntt.return\n}",
        "an operand is used before its definition",
    ),
]

BRANCHES = [
    ("cf.br ^a(%x : i32)\n^a(%v: f32):", "number 0 of the values passed to block 0 of the branch is i32, expected f32"),
    ("cf.br ^a\n^a(%v: f32):", "cf.br: 0 values passed to block 0 of the branch, expected 1"),
    ("cf.br ^a(%x : i32)\n^a:", "cf.br: 1 values passed to block 0 of the branch, expected 0"),
    (
        "cf.cond_br %b, ^a, ^c(%x : i32)\n^a:\ntt.return\n^c(%v: f32):",
        "number 0 of the values passed to block 1 of the branch is i32, expected f32",
    ),
    (
        "cf.switch %x : i32, [\ndefault: ^a(%b : i1),\n1: ^a(%x : i32)\n]\n^a(%v: i1):",
        "number 0 of the values passed to block 1 of the branch is i32, expected i1",
    ),
]
FUNCTIONS += [(f"tt.func public @f(%x: i32, %b: i1) {{\n{body}\ntt.return\n}}", message) for body, message in BRANCHES]
FUNCTIONS += [
    (
        '"tt.func"() <{sym_name = "f", function_type = () -> ()}> ({\n^a:\ncf.br ^c\n^c:\ncf.br ^a\n}) : () -> ()',
        "branches to the first block of its region, which nothing may enter again",
    ),
]


@pytest.mark.parametrize(("text", "message"), FUNCTIONS, ids=range(len(FUNCTIONS)))
def test_a_wrong_function_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_the_right_forms_are_accepted() -> None:
    """The table's own building blocks are legal when nothing is wrong with them, so each case fails for its reason."""
    good = [
        op("tt.addptr", "p8, i8", PARAMETERS["p8"]),
        op(
            "tt.load",
            "p8, b8, f8",
            "tensor<8xf32>",
            "operandSegmentSizes = array<i32: 1, 1, 1>, isVolatile = false",
        ),
        op("tt.store", "p8, f8, b8"),
        op("tt.gather", "f8, i8", "tensor<8xf32>", AXIS0),
        op("tt.dot", "m, n, c", "tensor<16x8xf32>", DOT),
        op("tt.dot", "mi, ni, ci", "tensor<16x8xi32>", DOT),
        op("tt.dot", "w, v, ch", "tensor<16x8xf16>", DOT),
        op("tt.clampf", "f8, g8, f8", "tensor<8xf32>", "propagateNan = 0 : i32"),
        op("arith.select", "b, f8, g8", "tensor<8xf32>"),
        op("arith.cmpi", "i8, i8", "tensor<8xi1>", "predicate = 9 : i64"),
        op("arith.extsi", "i", "i64"),
        op("tt.split", "four", "tensor<4xf32>, tensor<4xf32>"),
        reduction(),
        reduction(
            name="tt.scan",
            results="tensor<8xf32>",
            properties=f"{AXIS0}, reverse = true",
            end="tt.scan.return %y : f32",
        ),
        "scf.for %k = %i to %i step %i : i32 {\nscf.yield\n}",
    ]
    for body in good:
        parse(module(body))
