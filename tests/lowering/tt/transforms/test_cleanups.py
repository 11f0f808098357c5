"""canonicalize, cse and dce: what they fold, reuse and remove, what they must leave alone, and that the meaning stays."""

from __future__ import annotations

import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.builder.block_builder import BlockBuilder
from joinery.lowering.tt.constants import splat_value
from joinery.lowering.tt.dialect.attributes import enum_attr
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.transforms.pipeline import Pipeline
from joinery.lowering.tt.types import F32, I1, I8, I32, I64, ptr
from joinery.lowering.tt.verify import verify

SIMPLIFY = Pipeline.parse("canonicalize,cse,dce")


def names(func) -> list[str]:
    return [op.name for op in func.walk()][1:-1]


def folded(text: str, result: str = "i32"):
    """Fold `%r` of a one-line body; the value that is stored: a constant's value, an argument's name, or an op's name."""
    source = (
        "tt.func public @f(%x: i32, %b: i1, %t: tensor<4xi32>, %o: !tt.ptr<"
        + result
        + ">) {\n"
        + text
        + f"\ntt.store %o, %r : !tt.ptr<{result}>\ntt.return\n}}"
    )
    func = parse(source).body.block.first_op
    SIMPLIFY.run(func)
    verify(func)
    value = next(op for op in func.walk() if op.name == "tt.store").operands[1]
    if value.name_hint in ("x", "b", "t") and not hasattr(value, "op"):
        return value.name_hint
    if value.owner.name == "arith.constant":
        return splat_value(value.owner.properties["value"])
    return value.owner.name


def constant_pair(a: int, c: int, operation: str, type_: str = "i32") -> str:
    return f"%p = arith.constant {a} : {type_}\n%q = arith.constant {c} : {type_}\n%r = arith.{operation} %p, %q : {type_}"


MIN = -(2**31)


@pytest.mark.parametrize(
    ("a", "c", "operation", "expected"),
    [
        (7, 5, "addi", 12),
        (2**31 - 1, 1, "addi", MIN),
        (7, 9, "subi", -2),
        (1 << 20, 1 << 12, "muli", 0),
        (-7, 2, "divsi", -3),
        (-7, 2, "remsi", -1),
        (7, -2, "divsi", -3),
        (MIN, -1, "divsi", MIN),
        (-1, 2, "divui", 2**31 - 1),
        (-1, 16, "remui", 15),
        (7, 0, "divsi", "arith.divsi"),
        (7, 0, "remui", "arith.remui"),
        (1, 31, "shli", MIN),
        (1, 32, "shli", "arith.shli"),
        (-8, 1, "shrsi", -4),
        (-8, 1, "shrui", 2**31 - 4),
        (12, 10, "andi", 8),
        (12, 10, "ori", 14),
        (12, 10, "xori", 6),
        (-1, 1, "maxsi", 1),
        (-1, 1, "maxui", -1),
        (-1, 1, "minsi", -1),
        (-1, 1, "minui", 1),
    ],
)
def test_integer_constants_are_folded(a: int, c: int, operation: str, expected: object) -> None:
    assert folded(constant_pair(a, c, operation)) == expected


@pytest.mark.parametrize(
    ("operation", "left", "right", "expected"),
    [
        ("addi", "%x", "0", "x"),
        ("addi", "0", "%x", "x"),
        ("subi", "%x", "0", "x"),
        ("subi", "0", "%x", "arith.subi"),
        ("muli", "%x", "1", "x"),
        ("muli", "1", "%x", "x"),
        ("muli", "%x", "0", 0),
        ("muli", "%x", "2", "arith.muli"),
        ("andi", "%x", "-1", "x"),
        ("andi", "0", "%x", 0),
        ("andi", "%x", "1", "arith.andi"),
        ("ori", "%x", "0", "x"),
        ("xori", "0", "%x", "x"),
        ("shli", "%x", "0", "x"),
        ("shli", "0", "%x", "arith.shli"),
        ("divsi", "%x", "1", "x"),
        ("divui", "%x", "1", "x"),
        ("divsi", "1", "%x", "arith.divsi"),
    ],
)
def test_neutral_operands(operation: str, left: str, right: str, expected: object) -> None:
    constant = next(side for side in (left, right) if side != "%x")
    operands = ", ".join(side if side == "%x" else "%k" for side in (left, right))
    assert (
        folded(f"%k = arith.constant {constant} : i32\n%r = arith.{operation} {operands} : i32") == expected
    )


def test_conditions() -> None:
    assert folded("%k = arith.constant true\n%r = arith.andi %b, %k : i1", "i1") == "b"
    assert folded("%k = arith.constant false\n%r = arith.andi %b, %k : i1", "i1") == 0
    assert folded("%k = arith.constant false\n%r = arith.ori %b, %k : i1", "i1") == "b"
    assert folded("%k = arith.constant true\n%r = arith.ori %b, %k : i1", "i1") == 1
    assert folded("%k = arith.constant true\n%r = arith.xori %k, %k : i1", "i1") == 0
    assert folded("%k = arith.constant true\n%r = arith.addi %k, %k : i1", "i1") == "arith.addi"
    assert (
        folded("%k = arith.constant 3 : i32\n%c = arith.constant true\n%r = arith.select %c, %x, %k : i32")
        == "x"
    )
    assert (
        folded("%k = arith.constant 3 : i32\n%c = arith.constant false\n%r = arith.select %c, %x, %k : i32")
        == 3
    )
    assert folded("%r = arith.select %b, %x, %x : i32") == "x"
    assert folded("%k = arith.constant 3 : i32\n%r = arith.select %b, %x, %k : i32") == "arith.select"


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("eq", 0),
        ("ne", 1),
        ("slt", 1),
        ("sle", 1),
        ("sgt", 0),
        ("sge", 0),
        ("ult", 0),
        ("ule", 0),
        ("ugt", 1),
        ("uge", 1),
    ],
)
def test_comparisons_of_constants(predicate: str, expected: int) -> None:
    text = f"%p = arith.constant -1 : i32\n%q = arith.constant 1 : i32\n%r = arith.cmpi {predicate}, %p, %q : i32"
    assert folded(text, "i1") == expected


def test_casts_of_constants() -> None:
    assert folded("%k = arith.constant -2 : i8\n%r = arith.extsi %k : i8 to i32") == -2
    assert folded("%k = arith.constant -2 : i8\n%r = arith.extui %k : i8 to i32") == 254
    assert folded("%k = arith.constant true\n%r = arith.extsi %k : i1 to i32") == -1
    assert folded("%k = arith.constant true\n%r = arith.extui %k : i1 to i32") == 1
    assert folded("%k = arith.constant 257 : i64\n%r = arith.trunci %k : i64 to i32") == 257
    assert folded("%k = arith.constant 2 : i64\n%r = arith.trunci %k : i64 to i1", "i1") == 0


def test_floats_are_left_alone() -> None:
    text = "%k = arith.constant 0.0 : f32\n%y = arith.sitofp %x : i32 to f32\n%r = arith.addf %y, %k : f32"
    assert folded(text, "f32") == "arith.addf"


def test_one_value_stays_one_value() -> None:
    b = BlockBuilder.function("f", [("o", ptr(I32)), ("n", I32)])
    o, n = b.args
    two = b.splat(b.const(2, I32), (4, 1))
    wide = b.broadcast(b.expand_dims(b.splat(n, (4,)), 1), (4, 8))
    column = b.broadcast(b.expand_dims(b.arange(4), 1), (4, 4))
    total = b.binary("arith.addi", wide, b.broadcast(two, (4, 8)))
    b.store(b.addptr(b.splat(o, (4, 8)), total), b.binary("arith.muli", total, b.const(1, I32, (4, 8))))
    b.store(b.addptr(b.splat(o, (4, 4)), column), column)
    func = b.finish()
    SIMPLIFY.run(func)
    verify(func)
    kinds = names(func)
    assert kinds.count("tt.broadcast") == 1
    assert kinds.count("tt.expand_dims") == 1
    assert "arith.muli" not in kinds
    text = print_module(func)
    assert "arith.constant dense<2> : tensor<4x8xi32>" in text
    assert "tt.splat %n : i32 -> tensor<4x8xi32>" in text


def test_equal_operations_become_one() -> None:
    b = BlockBuilder.function("f", [("p", ptr(F32)), ("n", I64)])
    p, n = b.args
    for _ in range(3):
        offsets = b.cast("arith.extsi", b.arange(8), I64)
        mask = b.cmpi("slt", offsets, b.splat(n, (8,)))
        pointers = b.addptr(b.splat(p, (8,)), offsets)
        value = b.load(pointers, mask)
        b.store(pointers, b.binary("arith.addf", value, value), mask)
    func = b.finish()
    SIMPLIFY.run(func)
    verify(func)
    kinds = names(func)
    for kind in ("tt.make_range", "arith.extsi", "arith.cmpi", "tt.addptr"):
        assert kinds.count(kind) == 1, kind
    assert kinds.count("tt.load") == 3, "loads see the stores in between"
    assert kinds.count("tt.store") == 3
    data = np.array([1.0, 2.0, 3.0], np.float32)
    interpret(func, 1, [data, 3])
    assert data.tolist() == [8.0, 16.0, 24.0]


def programs(b: BlockBuilder, axis: int):
    """The extent of a grid axis."""
    return b.op("tt.get_num_programs", (), (I32,), {"axis": enum_attr(axis)})[0]


def test_operations_that_differ_stay_apart() -> None:
    b = BlockBuilder.function("f", [("o", ptr(I1)), ("p", ptr(I32)), ("n", I32)])
    o, p, n = b.args
    for predicate in ("slt", "ult", "sge"):
        b.store(o, b.cmpi(predicate, n, programs(b, 0)))
    for value in (b.program_id(0), b.program_id(1), programs(b, 1)):
        b.store(p, value)
    for width in (I8, I64):
        b.store(p, b.cast("arith.trunci", b.cast("arith.extsi", n, I64), I32) if width is I64 else n)
    func = b.finish()
    SIMPLIFY.run(func)
    kinds = names(func)
    assert kinds.count("arith.cmpi") == 3
    assert kinds.count("tt.get_program_id") == 2
    assert kinds.count("tt.get_num_programs") == 2


def loop_kernel():
    b = BlockBuilder.function("f", [("o", ptr(I64)), ("n", I64)])
    o, n = b.args
    zero, one = b.const(0, I64), b.const(1, I64)
    outside = b.binary("arith.muli", n, n)
    with b.for_(zero, n, one, [zero]) as loop:
        k, (total,) = loop
        again = b.binary("arith.muli", n, n)
        branch = b.if_(b.cmpi("slt", k, b.const(2, I64)), [I64])
        with branch.then():
            branch.yield_([b.binary("arith.muli", k, again)])
        with branch.otherwise():
            branch.yield_([b.binary("arith.muli", k, b.binary("arith.addi", again, zero))])
        b.binary("arith.subi", total, k)  # unused
        loop.yield_([b.binary("arith.addi", total, branch.results[0])])
    b.store(o, b.binary("arith.addi", loop.results[0], outside))
    unused = b.for_(zero, n, one, [zero])
    with unused:
        unused.yield_([b.binary("arith.addi", unused.args[0], unused.index)])
    return b.finish()


def test_loops_and_branches_keep_their_meaning() -> None:
    before, after = loop_kernel(), loop_kernel()
    SIMPLIFY.run(after)
    verify(after)
    kinds = names(after)
    assert kinds.count("scf.for") == 1, "a loop whose results nobody uses is gone"
    assert kinds.count("arith.muli") == 3, "n * n once; one product per branch is not visible to the other"
    assert "arith.subi" not in kinds
    for n in (0, 1, 5):
        results = []
        for func in (before, after):
            out = np.zeros(1, np.int64)
            interpret(func, 1, [out, n])
            results.append(out[0])
        assert results[0] == results[1] == n * n + sum(k * n * n for k in range(n))


def test_dead_code() -> None:
    b = BlockBuilder.function("f", [("p", ptr(F32)), ("n", I32)])
    p, n = b.args
    block = b.splat(b.load(p), (8,))  # a load nobody uses may go
    b.reduce([block], 0, lambda b, left, right: [b.binary("arith.addf", left[0], right[0])])
    effect = b.if_(b.cmpi("sgt", n, n))
    with effect.then():
        b.store(p, b.const(1.0, F32))
    func = b.finish()
    Pipeline.parse("dce").run(func)
    verify(func)
    assert names(func) == ["arith.cmpi", "scf.if", "arith.constant", "tt.store", "scf.yield"]
    volatile = parse(
        "tt.func public @f(%p: !tt.ptr<f32>) {\n%v = tt.load %p {isVolatile = true} : !tt.ptr<f32>\ntt.return\n}"
    ).body.block.first_op
    SIMPLIFY.run(volatile)
    assert names(volatile) == ["tt.load"]


def test_a_combine_region_takes_nothing_from_outside() -> None:
    """Even when an equal operation stands before it."""
    b = BlockBuilder.function("f", [("x", ptr(F32)), ("o", ptr(F32))])
    x, o = b.args
    half = b.const(0.5, F32)
    block = b.load(b.addptr(b.splat(x, (4,)), b.arange(4)))

    def combine(b, left, right):
        return [b.binary("arith.addf", left[0], b.binary("arith.mulf", right[0], b.const(0.5, F32)))]

    (total,) = b.reduce([block], 0, combine)
    b.store(o, b.binary("arith.addf", total, half))
    func = b.finish()
    SIMPLIFY.run(func)
    region = next(op for op in func.walk() if op.name == "tt.reduce").regions[0]
    for op in region.walk():
        for operand in op.operands:
            owner = operand.owner
            assert owner is region.block or owner.parent is region.block


def test_blocks_that_branch_are_kept_apart() -> None:
    text = """
    tt.func public @f(%b: i1, %n: i32, %o: !tt.ptr<i32>) {
      cf.cond_br %b, ^one, ^two
    ^one:
      %x = arith.muli %n, %n : i32
      tt.store %o, %x : !tt.ptr<i32>
      tt.return
    ^two:
      %y = arith.muli %n, %n : i32
      tt.store %o, %y : !tt.ptr<i32>
      tt.return
    }"""
    func = parse(text).body.block.first_op
    SIMPLIFY.run(func)
    verify(func)
    assert names(func).count("arith.muli") == 2
