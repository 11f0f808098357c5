"""The interpreter: memory, masks, shapes, reductions, scans, products, control flow, against NumPy."""

from __future__ import annotations

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.builder.block_builder import BlockBuilder
from joinery.lowering.tt.dialect.attributes import enum_attr
from joinery.lowering.tt.interpret.interpreter import AccessError, interpret
from joinery.lowering.tt.types import F32, I8, I32, I64, ptr, scalar_type, tensor
from joinery.promotion.errors import UnsupportedError, UserError
from xdsl.dialects.test import TestOp

RNG = np.random.default_rng(3)


def add(b, left, right):
    return [b.binary("arith.addf", left[0], right[0])]


def maximum(b, left, right):
    return [b.binary("arith.maximumf", left[0], right[0])]


def copy_kernel(block: int = 16, masked: bool = True, other: float | None = None, elem="f32"):
    """o[i] = x[i] for i < n, one block of elements per program."""
    b = BlockBuilder.function("copy", [("x", ptr(elem)), ("o", ptr(elem)), ("n", I64)])
    x, o, n = b.args
    start = b.binary("arith.muli", b.cast("arith.extsi", b.program_id(), I64), b.const(block, I64))
    offsets = b.binary("arith.addi", b.splat(start, (block,)), b.cast("arith.extsi", b.arange(block), I64))
    mask = b.cmpi("slt", offsets, b.splat(n, (block,)))
    fill = b.const(other, elem, (block,)) if other is not None else None
    value = b.load(b.addptr(b.splat(x, (block,)), offsets), mask if masked else None, fill)
    b.store(b.addptr(b.splat(o, (block,)), offsets), value, None if other is not None else mask)
    return b.finish()


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 100])
def test_masked_lanes_touch_no_memory(n: int) -> None:
    x = RNG.normal(size=n).astype(np.float32)
    guarded = np.full(n + 20, -7, np.float32)
    interpret(copy_kernel(), -(-n // 16), [x, guarded[10 : 10 + n], n])
    np.testing.assert_array_equal(guarded[10 : 10 + n], x)
    assert (guarded[:10] == -7).all()
    assert (guarded[10 + n :] == -7).all()


def test_other_fills_masked_lanes() -> None:
    x = np.arange(5, dtype=np.float32)
    o = np.zeros(16, np.float32)
    interpret(copy_kernel(other=-3.0), 1, [x, o, 5])
    assert o.tolist() == [0, 1, 2, 3, 4, *[-3.0] * 11]


def test_an_access_outside_is_reported() -> None:
    x, o = np.zeros(20, np.float32), np.zeros(20, np.float32)
    with pytest.raises(AccessError) as caught:
        interpret(copy_kernel(masked=False), 2, [x, o, 20])
    assert "@copy, program (1, 0, 0): element 20 of array 'x' is read" in str(caught.value)
    assert "elements 0 … 19 (80 bytes)" in str(caught.value)
    with pytest.raises(AccessError, match="element 20 of array 'o' is written"):
        interpret(copy_kernel(), 2, [np.zeros(32, np.float32), o, 32])
    o.flags.writeable = False
    with pytest.raises(AccessError, match="array 'o' is read-only"):
        interpret(copy_kernel(), 1, [x, o, 5])


def address_kernel(text: str):
    return parse(f"tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %a: i64) {{\n{text}\ntt.return\n}}")


def test_negative_misaligned_and_wild_addresses_are_reported() -> None:
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    before = address_kernel("%p = tt.addptr %y, %a : !tt.ptr<f32>, i64\n%v = tt.load %p : !tt.ptr<f32>")
    with pytest.raises(AccessError, match="element -1 of array 'y' is read"):
        interpret(before, 1, [x, y, -1])
    odd = address_kernel(
        "%i = tt.ptr_to_int %x : !tt.ptr<f32> -> i64\n%j = arith.addi %i, %a : i64\n"
        "%p = tt.int_to_ptr %j : i64 -> !tt.ptr<f32>\n%v = tt.load %p : !tt.ptr<f32>\ntt.store %y, %v : !tt.ptr<f32>"
    )
    x[2] = 5.0
    interpret(odd, 1, [x, y, 8])
    assert y[0] == 5.0
    with pytest.raises(AccessError, match="no multiple of 4"):
        interpret(odd, 1, [x, y, 2])
    with pytest.raises(AccessError, match="lies in no array"):
        interpret(odd, 1, [x, y, 1 << 60])
    with pytest.raises(AccessError, match="element 4 of array 'x' is read"):
        interpret(odd, 1, [x, y, 16])


def test_one_block_may_point_into_several_arrays() -> None:
    b = BlockBuilder.function("f", [("x", ptr(F32)), ("y", ptr(F32))])
    x, y = b.args
    lanes = b.arange(8)
    even = b.cmpi("eq", b.binary("arith.andi", lanes, b.const(1, I32, (8,))), b.const(0, I32, (8,)))
    pointers = b.select(even, *(b.addptr(b.splat(p, (8,)), lanes) for p in (x, y)))
    b.store(pointers, b.binary("arith.addf", b.load(pointers), b.const(100.0, F32, (8,))))
    first, second = np.arange(8, dtype=np.float32), -np.arange(8, dtype=np.float32)
    interpret(b.finish(), 1, [first, second])
    assert first.tolist() == [100, 1, 102, 3, 104, 5, 106, 7]
    assert second.tolist() == [0, 99, -2, 97, -4, 95, -6, 93]


def test_what_a_masked_load_leaves_undefined_is_conspicuous() -> None:
    def kernel(elem):
        b = BlockBuilder.function("f", [("x", ptr(elem)), ("o", ptr(elem))])
        x, o = b.args
        mask = b.cmpi("slt", b.arange(4), b.const(2, I32, (4,)))
        b.store(
            b.addptr(b.splat(o, (4,)), b.arange(4)), b.load(b.addptr(b.splat(x, (4,)), b.arange(4)), mask)
        )
        return b.finish()

    out = np.zeros(4, np.float32)
    interpret(kernel("f32"), 1, [np.ones(2, np.float32), out])
    assert np.isnan(out[2:]).all()
    numbers = np.zeros(4, np.int32)
    interpret(kernel("i32"), 1, [np.ones(2, np.int32), numbers])
    assert numbers.tolist() == [1, 1, 0x5A5A5A5A, 0x5A5A5A5A]


WRONG_ARGUMENTS = [
    ((np.zeros(4, np.float32),), "takes 3 arguments, got 1"),
    (
        (np.zeros(4, np.float64), np.zeros(4, np.float32), 1),
        "dtype float64 of 8 bytes, expected elements of 4",
    ),
    ((np.zeros((4, 4), np.float32).T, np.zeros(4, np.float32), 1), "the array is not C-contiguous"),
    (([1.0], np.zeros(4, np.float32), 1), "expected a NumPy array, got list"),
    ((np.zeros(4, np.float32), np.zeros(4, np.float32), 1.5), "1.5 is not an integer"),
    ((np.zeros(4, np.float32), np.zeros(4, np.float32), "n"), "expected a number, got str"),
    ((np.zeros(4, np.float32), np.zeros(4, np.float32), 1 << 64), "does not fit into 64 bits"),
    ((np.zeros(4, np.float32), np.zeros(4, np.float32), -(1 << 63) - 1), "does not fit into 64 bits"),
]


@pytest.mark.parametrize(("args", "message"), WRONG_ARGUMENTS, ids=range(len(WRONG_ARGUMENTS)))
def test_wrong_arguments_are_refused(args: tuple, message: str) -> None:
    with pytest.raises(UserError) as caught:
        interpret(copy_kernel(), 1, args)
    assert message in str(caught.value)
    assert "@copy" in str(caught.value)


def test_arguments_of_every_kind() -> None:
    """Raw bits serve for types NumPy lacks; unsigned numbers fit signless parameters; scalars are rounded."""
    x = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    o = np.zeros(2, np.uint16)
    interpret(copy_kernel(elem="bf16"), 1, [x, o, 2])
    assert o.view(ml_dtypes.bfloat16).tolist() == [1.5, -2.0]
    text = (
        "tt.func public @f(%p: !tt.ptr<i8>, %a: i8, %b: i1, %f: f16, %q: !tt.ptr<f16>) {\n"
        "tt.store %p, %a : !tt.ptr<i8>\ntt.store %q, %f : !tt.ptr<f16>\ntt.return\n}"
    )
    small, half = np.zeros(1, np.int8), np.zeros(1, np.float16)
    interpret(parse(text), 1, [small, 255, True, 0.1, half])
    assert small[0] == -1
    assert half[0] == np.float16(0.1)


def test_the_grid() -> None:
    b = BlockBuilder.function("f", [("o", ptr(I32))])
    (o,) = b.args
    x, y, z = (b.program_id(axis) for axis in range(3))
    nx, ny, nz = (b.op("tt.get_num_programs", (), (I32,), {"axis": enum_attr(axis)})[0] for axis in range(3))
    row = b.binary("arith.addi", b.binary("arith.muli", z, ny), y)
    position = b.binary("arith.addi", b.binary("arith.muli", row, nx), x)
    b.store(b.addptr(o, position), b.binary("arith.addi", position, nz))
    function = b.finish()
    out = np.zeros(24, np.int32)
    interpret(function, (2, 3, 4), [out])
    assert out.tolist() == [k + 4 for k in range(24)]
    out[:] = 0
    interpret(function, 5, [out])
    assert out.tolist() == [1, 2, 3, 4, 5] + [0] * 19
    interpret(function, 0, [np.zeros(0, np.int32)])
    with pytest.raises(UserError, match="expected one to three numbers"):
        interpret(function, (1, 1, 1, 1), [out])
    with pytest.raises(UserError, match="none negative"):
        interpret(function, (-1,), [out])


def write(b: BlockBuilder, pointer, value, shape: tuple[int, ...]) -> None:
    """Store a block at consecutive addresses, row-major."""
    count = int(np.prod(shape))
    offsets = b.reshape(b.arange(count), shape)
    b.store(b.addptr(b.splat(pointer, shape), offsets), value)


def read(b: BlockBuilder, pointer, shape: tuple[int, ...]):
    offsets = b.reshape(b.arange(int(np.prod(shape))), shape)
    return b.load(b.addptr(b.splat(pointer, shape), offsets))


def test_shapes() -> None:
    outputs = [
        ("a", (8, 4)),
        ("b", (4, 8)),
        ("c", (2, 16)),
        ("d", (4, 8, 2)),
        ("e", (64,)),
        ("f", (4, 4)),
        ("g", (4, 8)),
    ]
    b = BlockBuilder.function(
        "f", [("x", ptr(F32)), ("i", ptr(I32)), *((name, ptr(F32)) for name, _ in outputs)]
    )
    x, i, *places = b.args
    block = read(b, x, (4, 8))
    indices = read(b, i, (4, 4))
    row = b.expand_dims(read(b, x, (8,)), 0)
    joined = b.join(block, row_block := b.broadcast(row, (4, 8)))
    first, second = b.split(joined)
    values = [
        b.trans(block, (1, 0)),
        row_block,
        b.reshape(block, (2, 16)),
        joined,
        b.op("tt.cat", (b.reshape(first, (32,)), b.reshape(second, (32,))), (tensor(F32, (64,)),))[0],
        b.op("tt.gather", (block, indices), (tensor(F32, (4, 4)),), {"axis": enum_attr(1)})[0],
        b.binary("arith.addf", first, b.splat(b.op("tt.unsplat", (b.reshape(read(b, x, (1,)), (1, 1)),), (F32,))[0], (4, 8))),
    ]
    for place, value, (_, shape) in zip(places, values, outputs, strict=True):
        write(b, place, value, shape)
    data = RNG.normal(size=(4, 8)).astype(np.float32)
    picks = RNG.integers(0, 8, (4, 4), dtype=np.int32)
    results = [np.zeros(shape, np.float32) for _, shape in outputs]
    interpret(b.finish(), 1, [data, picks, *results])
    top = np.broadcast_to(data[:1], (4, 8))
    expected = [
        data.T,
        top,
        data.reshape(2, 16),
        np.stack([data, top], -1),
        np.concatenate([data.ravel(), top.ravel()]),
        np.take_along_axis(data, picks.astype(np.int64), 1),
        data + data[0, 0],
    ]
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reductions(axis: int) -> None:
    shape = (4, 8, 2)
    left = shape[:axis] + shape[axis + 1 :]

    def larger(b, a, c):
        """The larger value and its index; the first of equal ones."""
        wins = b.cmpf("ogt", a[0], c[0])
        same = b.cmpf("oeq", a[0], c[0])
        take = b.binary("arith.ori", wins, b.binary("arith.andi", same, b.cmpi("slt", a[1], c[1])))
        return [b.select(take, a[0], c[0]), b.select(take, a[1], c[1])]

    b = BlockBuilder.function(
        "f", [("x", ptr(F32)), ("s", ptr(F32)), ("m", ptr(F32)), ("v", ptr(F32)), ("i", ptr(I32))]
    )
    x, s, m, v, i = b.args
    block = read(b, x, shape)
    index = b.arange(shape[axis])
    for other in range(3):
        if other != axis:
            index = b.expand_dims(index, other)
    index = b.broadcast(index, shape)
    write(b, s, b.reduce([block], axis, add)[0], left)
    write(b, m, b.reduce([block], axis, maximum)[0], left)
    best = b.reduce([block, index], axis, larger)
    write(b, v, best[0], left)
    write(b, i, best[1], left)
    data = RNG.integers(-3, 4, shape).astype(np.float32)  # many ties
    results = [np.zeros(left, np.float32) for _ in range(3)] + [np.zeros(left, np.int32)]
    interpret(b.finish(), 1, [data, *results])
    np.testing.assert_array_equal(results[0], data.sum(axis))
    np.testing.assert_array_equal(results[1], data.max(axis))
    np.testing.assert_array_equal(results[2], data.max(axis))
    np.testing.assert_array_equal(results[3], data.argmax(axis))


def test_a_reduction_keeps_the_order_of_the_operands() -> None:
    """2x2 matrices under multiplication: associative, not commutative."""

    def product(b, p, q):
        def dot(i, j):
            first = b.binary("arith.muli", p[2 * i], q[j])
            return b.binary("arith.addi", first, b.binary("arith.muli", p[2 * i + 1], q[2 + j]))

        return [dot(i, j) for i in (0, 1) for j in (0, 1)]

    names = "abcd"
    b = BlockBuilder.function(
        "f", [*((n, ptr(I64)) for n in names), ("o", ptr(I64)), ("s", ptr(I64)), ("r", ptr(I64))]
    )
    *inputs, o, s, r = b.args
    blocks = [read(b, p, (16,)) for p in inputs]
    for k, value in enumerate(b.reduce(blocks, 0, product)):
        b.store(b.addptr(o, b.const(k, I32)), value)
    write(b, s, b.scan(blocks, 0, product)[1], (16,))
    write(b, r, b.scan(blocks, 0, product, reverse=True)[1], (16,))
    matrices = RNG.integers(-3, 4, (16, 2, 2)).astype(np.int64)
    parts = [np.ascontiguousarray(matrices[:, i, j]) for i in (0, 1) for j in (0, 1)]
    total, prefix, suffix = np.zeros(4, np.int64), np.zeros(16, np.int64), np.zeros(16, np.int64)
    interpret(b.finish(), 1, [*parts, total, prefix, suffix])
    running, back = np.eye(2, dtype=np.int64), np.eye(2, dtype=np.int64)
    forward, backward = [], []
    for k in range(16):
        running = running @ matrices[k]
        forward.append(running[0, 1])
        back = back @ matrices[15 - k]
        backward.append(back[0, 1])
    assert total.tolist() == running.ravel().tolist()
    assert prefix.tolist() == forward
    assert suffix.tolist() == backward[::-1]


def test_a_combine_region_with_control_flow() -> None:
    text = """
    tt.func public @f(%p: !tt.ptr<i32>, %o: !tt.ptr<i32>) {
      %r = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
      %b = tt.splat %p : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
      %q = tt.addptr %b, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
      %v = tt.load %q : tensor<8x!tt.ptr<i32>>
      %m = "tt.reduce"(%v) <{axis = 0 : i32}> ({
      ^bb0(%x: i32, %y: i32):
        %c = arith.cmpi sgt, %x, %y : i32
        %z = scf.if %c -> (i32) {
          scf.yield %x : i32
        } else {
          scf.yield %y : i32
        }
        tt.reduce.return %z : i32
      }) : (tensor<8xi32>) -> i32
      tt.store %o, %m : !tt.ptr<i32>
      tt.return
    }"""
    data = RNG.integers(-100, 100, 8, dtype=np.int32)
    out = np.zeros(1, np.int32)
    interpret(parse(text), 1, [data, out])
    assert out[0] == data.max()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(axis: int, reverse: bool) -> None:
    b = BlockBuilder.function("f", [("x", ptr(I64)), ("o", ptr(I64))])
    x, o = b.args
    sums = b.scan(
        [read(b, x, (8, 16))],
        axis,
        lambda b, left, right: [b.binary("arith.addi", left[0], right[0])],
        reverse,
    )
    write(b, o, sums[0], (8, 16))
    data = RNG.integers(-50, 50, (8, 16))
    out = np.zeros((8, 16), np.int64)
    interpret(b.finish(), 1, [data, out])
    expected = np.flip(np.cumsum(np.flip(data, axis), axis), axis) if reverse else np.cumsum(data, axis)
    np.testing.assert_array_equal(out, expected)


DOTS = [
    ("f32", "f32", "ieee", 1e-6),
    ("f64", "f64", "ieee", 1e-14),
    ("f16", "f32", "ieee", 1e-6),
    ("bf16", "f32", "ieee", 1e-6),
    ("f16", "f16", "ieee", 2e-3),
    ("f8E5M2", "f32", "ieee", 1e-6),
    ("i8", "i32", "ieee", 0),
    ("i16", "i32", "ieee", 0),
    ("f32", "f32", "tf32", 2e-3),
]
NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8E5M2": ml_dtypes.float8_e5m2}
NUMPY |= {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32}


@pytest.mark.parametrize(("elem", "acc", "precision", "tolerance"), DOTS)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_products(elem: str, acc: str, precision: str, tolerance: float, batch: tuple[int, ...]) -> None:
    rows, columns, out_shape = (*batch, 16, 32), (*batch, 32, 8), (*batch, 16, 8)
    b = BlockBuilder.function("f", [("a", ptr(elem)), ("b", ptr(elem)), ("c", ptr(acc)), ("o", ptr(acc))])
    left, right = read(b, b.args[0], rows), read(b, b.args[1], columns)
    write(b, b.args[3], b.dot(left, right, read(b, b.args[2], out_shape), precision), out_shape)
    if elem[0] == "i":
        info = np.iinfo(NUMPY[elem])
        x, y = (
            RNG.integers(info.min, info.max, shape, dtype=NUMPY[elem], endpoint=True)
            for shape in (rows, columns)
        )
        c = RNG.integers(-100, 100, out_shape, dtype=NUMPY[acc])
    else:
        x, y = (RNG.normal(size=shape).astype(NUMPY[elem]) for shape in (rows, columns))
        c = RNG.normal(size=out_shape).astype(NUMPY[acc])
    out = np.zeros(out_shape, NUMPY[acc])
    interpret(b.finish(), 1, [x, y, c, out])
    exact = x.astype(np.float64) @ y.astype(np.float64) + c.astype(np.float64)
    if tolerance:
        magnitude = np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64)) + np.abs(c.astype(np.float64))
        error = np.abs(out.astype(np.float64) - exact)
        assert (error <= tolerance * magnitude).all()
        assert precision == "ieee" or error.max() > 1e-6, "tf32 must have been narrowed"
    else:
        np.testing.assert_array_equal(out, exact.astype(np.int64).astype(np.int32))


def test_integer_products_wrap() -> None:
    b = BlockBuilder.function("f", [("c", ptr(I32))])
    (c,) = b.args
    big = b.const(127, I8, (4, 4))
    write(b, c, b.dot(big, big, read(b, c, (4, 4))), (4, 4))
    out = np.full((4, 4), 2**31 - 1, np.int32)
    interpret(b.finish(), 1, [out])
    assert (out == 2**31 - 1 + 4 * 127 * 127 - 2**32).all()


BRANCHES = """
tt.func private @twice(%x: i32) -> (i32, i32) {
  %y = arith.addi %x, %x : i32
  tt.return %x, %y : i32, i32
}
tt.func public @f(%o: !tt.ptr<i32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %small = arith.cmpi slt, %n, %zero : i32
  cf.cond_br %small, ^end(%n : i32), ^loop(%zero, %n : i32, i32)
^loop(%total: i32, %left: i32):
  %r:2 = tt.call @twice(%left) : (i32) -> (i32, i32)
  %next = arith.addi %total, %r#1 : i32
  %less = arith.subi %left, %one : i32
  %more = arith.cmpi sgt, %less, %zero : i32
  cf.cond_br %more, ^loop(%next, %less : i32, i32), ^end(%next : i32)
^end(%value: i32):
  tt.store %o, %value : !tt.ptr<i32>
  tt.return
}
"""


def test_branches_between_blocks_and_calls() -> None:
    module = parse(BRANCHES)
    for n, expected in ((4, 20), (1, 2), (-3, -3)):
        out = np.zeros(1, np.int32)
        interpret(module, 1, [out, n])
        assert out[0] == expected
    out = np.zeros(1, np.int32)
    interpret(module, 1, [out, 2], name="f")
    assert out[0] == 6
    with pytest.raises(UserError, match=r"no function .g.; its functions: twice, f"):
        interpret(module, 1, [out, 2], name="g")
    two = parse("tt.func public @a() {\ntt.return\n}\ntt.func public @b() {\ntt.return\n}")
    with pytest.raises(UserError, match=r"Pass name= to choose one"):
        interpret(two, 1, [])
    with pytest.raises(UserError, match="declaration without a body"):
        interpret(parse("tt.func private @a()"), 1, [], name="a")


def test_an_unknown_operation_is_named() -> None:
    b = BlockBuilder.function("f", [("x", F32), ("i", I32)])
    b.op(TestOp, b.args, (F32,))
    with pytest.raises(UnsupportedError, match=r"the interpreter has no test\.op"):
        interpret(b.finish(), 1, [1.0, 2])
    b = BlockBuilder.function("f", [])
    b.const(1, scalar_type("i4"))
    with pytest.raises(UnsupportedError, match="no elements of type i4"):
        interpret(b.finish(), 1, [])


def test_bool_is_one_byte_in_memory() -> None:
    text = """
    tt.func public @f(%p: !tt.ptr<i1>, %q: !tt.ptr<i1>) {
      %r = tt.make_range {start = 0 : i32, end = 4 : i32} : tensor<4xi32>
      %a = tt.splat %p : !tt.ptr<i1> -> tensor<4x!tt.ptr<i1>>
      %b = tt.addptr %a, %r : tensor<4x!tt.ptr<i1>>, tensor<4xi32>
      %v = tt.load %b : tensor<4x!tt.ptr<i1>>
      %t = arith.constant dense<true> : tensor<4xi1>
      %n = arith.xori %v, %t : tensor<4xi1>
      %c = tt.splat %q : !tt.ptr<i1> -> tensor<4x!tt.ptr<i1>>
      %d = tt.addptr %c, %r : tensor<4x!tt.ptr<i1>>, tensor<4xi32>
      tt.store %d, %n : tensor<4x!tt.ptr<i1>>
      tt.return
    }"""
    out = np.full(4, 7, np.uint8)
    interpret(parse(text), 1, [np.array([0, 1, 2, 0], np.uint8), out])
    assert out.tolist() == [1, 0, 0, 1]


def test_reductions_that_call_functions_with_branches() -> None:
    """As front ends print them before anything is inlined: the choice is made element by element."""
    text = """
module {
  tt.func private @larger(%a: f32, %b: f32) -> f32 attributes {noinline = false} {
    %p = math.absf %a : f32
    %q = math.absf %b : f32
    %c = arith.cmpf ogt, %p, %q : f32
    %v = scf.if %c -> (f32) {
      scf.yield %a : f32
    } else {
      scf.yield %b : f32
    }
    tt.return %v : f32
  }
  tt.func private @through(%a: f32, %b: f32) -> f32 attributes {noinline = false} {
    %v = tt.call @larger(%a, %b) : (f32, f32) -> f32
    tt.return %v : f32
  }
  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %bx = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %px = tt.addptr %bx, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %v = tt.load %px : tensor<16x!tt.ptr<f32>>
    %s = "tt.reduce"(%v) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %t = tt.call @through(%a, %b) : (f32, f32) -> f32
      tt.reduce.return %t : f32
    }) : (tensor<16xf32>) -> f32
    %w = "tt.scan"(%v) <{axis = 0 : i32, reverse = false}> ({
    ^bb0(%a: f32, %b: f32):
      %t = tt.call @through(%a, %b) : (f32, f32) -> f32
      tt.scan.return %t : f32
    }) : (tensor<16xf32>) -> tensor<16xf32>
    tt.store %o, %s : !tt.ptr<f32>
    %one = arith.constant 1 : i32
    %o1 = tt.addptr %o, %one : !tt.ptr<f32>, i32
    %bo = tt.splat %o1 : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %po = tt.addptr %bo, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %po, %w : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}
"""
    kernel = jn.kernel.from_ttir(text)
    x = np.array([1, -2, 3, 2, -7, 5, 6, -8, 4, 0, 9, -11, 10, 12, -16, 15], np.float32)
    sizes = np.maximum.accumulate(np.abs(x))
    running = np.array([x[np.flatnonzero(np.abs(x) == size)[0]] for size in sizes])
    for run in (kernel.interpret, kernel.launch, kernel.sanitize):
        out = np.zeros(17, np.float32)
        run(1, x, out)
        assert out[0] == -16
        np.testing.assert_array_equal(out[1:], running)
