"""Blocks of many short dimensions, which are visited by their positions: reductions, broadcasts, transposes and masks along
every dimension give what the interpreter gives."""

from __future__ import annotations

import itertools
import math

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

from .....support.kernels.deep_blocks import Text, block
from .....support.tiers import each

NUMPY = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i32": np.int32, "i64": np.int64, "i16": np.int16, "i8": np.int8,
}  # fmt: skip
SHAPES = [
    (2, 2, 2), (4, 4, 4), (8, 2, 8), (2, 16, 2), (64, 2, 2), (2, 2, 64), (1, 2, 1, 2, 1, 2), (4, 2, 8, 2), (2, 2, 2, 32),
    (2, 2, 2, 2, 2), (2, 4, 1, 2, 8), (2, 2, 2, 2, 2, 2), (2, 1, 2, 2, 2, 2, 2, 1), (2,) * 9,
]  # fmt: skip
AXES = [(shape, axis) for shape in SHAPES for axis in range(len(shape))]


def numbers(elem: str, count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if elem[0] == "i":
        return rng.integers(-100, 100, count).astype(NUMPY[elem])
    return rng.standard_normal(count).astype(np.float32).astype(NUMPY[elem])


def outputs(elem: str, count: int) -> np.ndarray:
    return np.zeros(count, NUMPY[elem])


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("shape", "axis"), AXES)
def test_a_reduction_along_each_axis(agree, shape, axis) -> None:
    t = Text("i32")
    x = t.load("%x", shape)
    t.store(t.reduce(t.map("arith.muli", x, x), axis, "arith.subi" if shape[axis] == 2 else "arith.addi"))
    x = numbers("i32", math.prod(shape))
    o = agree(t.text(), 1, x, x, outputs("i32", x.size // shape[axis]), 0)[2]
    squares = (x * x).reshape(shape)
    lows, highs = np.take(squares, 0, axis), np.take(squares, shape[axis] - 1, axis)
    expected = lows - highs if shape[axis] == 2 else squares.sum(axis)  # the order of two counts
    assert (o == expected.reshape(-1)).all()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("elem", ["f32", "f64", "f16", "bf16", "i64", "i16", "i8"])
@pytest.mark.parametrize("shape", [(4, 2, 2), (2, 2, 2, 2, 2, 2, 2)])
def test_element_types(agree, shape, elem) -> None:
    op = "arith.maximumf" if "f" in elem else "arith.maxsi"
    for axis, n in enumerate(shape):
        t = Text(elem)
        x = t.load("%x", shape)
        y = t.map("arith.addf" if "f" in elem else "arith.addi", x, t.partner(x, axis, op))
        t.store(y)
        x = numbers(elem, math.prod(shape), axis)
        if "f" in elem:
            x[[3, 6]] = np.nan, -np.inf
        o = agree(t.text(), 1, x, x, outputs(elem, x.size), 0)[2]
        cube = x.reshape(shape)
        with np.errstate(invalid="ignore", over="ignore"):
            expected = cube + cube.max(axis, keepdims=True)
        same = (o.reshape(shape) == expected) | ((expected != expected) & (o.reshape(shape) != o.reshape(shape)))
        assert same.all(), (axis, n)


@pytest.mark.one_in(9)
@pytest.mark.parametrize(("shape", "axis"), AXES)
def test_what_varies_along_one_dimension(agree, shape, axis) -> None:
    """Positions along a dimension, numbers from memory along it, and both through a comparison."""
    t = Text("i32")
    x = t.load("%x", shape)
    line = t.range(shape[axis])
    y = t.load("%y", [shape[axis]])
    scaled = t.map("arith.muli", t.along(line, shape, axis), t.splat("%n", "i32", shape))
    total = t.map("arith.addi", t.map("arith.addi", x, scaled), t.along(y, shape, axis))
    one = t.constant("1", [shape[axis]], "i32")
    odd = t.map("arith.cmpi ne,", t.map("arith.andi", line, one), t.constant("0", [shape[axis]], "i32"), elem="i1")
    t.store(t.select(t.along(odd, shape, axis), total, x))
    x, y = numbers("i32", math.prod(shape)), numbers("i32", shape[axis], 1)
    o = agree(t.text(), 1, x, y, outputs("i32", x.size), 1000)[2]
    here = np.indices(shape)[axis]
    cube = x.reshape(shape)
    assert (o.reshape(shape) == np.where(here % 2, cube + 1000 * here + y[here], cube)).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("shape", "elem"), each([(4, 2, 8), (2, 16, 4), (4, 2, 2, 4), (2, 2, 32, 2)], ["f32", "i8", "i64"]))
def test_every_transpose(agree, shape, elem) -> None:
    x = numbers(elem, math.prod(shape))
    for order in itertools.permutations(range(len(shape))):
        t = Text(elem)
        v = t.load("%x", shape)
        v = t.map("arith.addf" if elem[0] == "f" else "arith.addi", v, v)
        t.store(t.trans(v, order))
        o = agree(t.text(), 1, x, x, outputs(elem, x.size), 0)[2]
        assert (o == (x + x).reshape(shape).transpose(order).reshape(-1)).all(), order


@pytest.mark.parametrize("axis", range(5))
def test_booleans(agree, axis) -> None:
    shape = (2, 4, 2, 2, 2)
    t = Text("f32")
    x = t.load("%x", shape)
    low = t.map("arith.cmpf olt,", x, t.constant("0.0", shape, "f32"), elem="i1")
    other = t.partner(low, axis, "arith.xori")
    t.store(t.select(t.map("arith.xori", low, other), x, t.constant("7.0", shape, "f32")))
    x = numbers("f32", math.prod(shape))
    o = agree(t.text(), 1, x, x, outputs("f32", x.size), 0)[2]
    cube = x.reshape(shape)
    below = cube < 0
    odd = np.logical_xor.reduce(below, axis, keepdims=True) ^ below
    assert (o == np.where(odd, cube, 7).reshape(-1)).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", [(4, 4, 4), (2, 8, 2), (2, 2, 4, 2), (4, 2, 16, 2)])
@pytest.mark.parametrize("kind", ["none", "bound", "pattern"])
def test_loads_and_stores_of_deep_blocks(agree, shape, kind) -> None:
    """Pointers that are one line, under a limit of one dimension or a pattern of two."""
    for axis in range(len(shape)):
        t = Text("f32")
        offsets, step = None, 1
        for d in reversed(range(len(shape))):
            part = t.along(t.range(shape[d]), shape, d)
            part = t.map("arith.muli", part, t.constant(str(step), shape, "i32"))
            offsets = part if offsets is None else t.map("arith.addi", offsets, part)
            step *= shape[d]
        assert offsets is not None
        here = t.along(t.range(shape[axis]), shape, axis)
        if kind == "bound":
            on = t.map("arith.cmpi slt,", here, t.splat("%n", "i32", shape), elem="i1")
        else:
            mixed = t.map("arith.xori", here, t.along(t.range(shape[0]), shape, 0))
            on = t.map("arith.cmpi sgt,", mixed, t.constant("0", shape, "i32"), elem="i1")
        x, o = t.places("%x", "f32", offsets), t.places("%o", "f32", offsets)
        mask, fill = (f", {on}", f", {t.constant('5.0', shape, 'f32')}") if kind != "none" else ("", "")
        v = t.add(f"tt.load {x}{mask}{fill} : {t.type(x)}", shape, "f32")
        v = t.map("arith.addf", v, t.partner(v, axis, "arith.maxnumf"))
        t.lines.append(f"tt.store {o}, {v}{mask} : {t.type(o)}")
        x = numbers("f32", math.prod(shape))
        out = np.full(x.size, -1, np.float32)
        got = agree(t.text(), 1, x, x, out, 1)[2].reshape(shape)
        at = np.indices(shape)
        held = at[axis] < 1 if kind == "bound" else (at[axis] ^ at[0]) > 0
        held = held | (kind == "none")
        cube = np.where(held, x.reshape(shape), np.float32(5))
        assert (got == np.where(held, cube + cube.max(axis, keepdims=True), -1)).all()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
def test_strides_that_only_the_launch_knows(agree, order) -> None:
    shape = (4, 8, 4)
    t = Text("f32")
    x = t.load("%x", shape)
    offsets = None
    for stride, d in enumerate(order):
        part = t.map("arith.muli", t.along(t.range(shape[d]), shape, d), t.splat("%n", "i32", shape))
        part = t.map("arith.muli", part, t.constant(str((1, 4, 32)[stride]), shape, "i32"))
        offsets = part if offsets is None else t.map("arith.addi", offsets, part)
    assert offsets is not None
    places = t.places("%y", "f32", offsets)
    t.store(t.map("arith.addf", x, t.add(f"tt.load {places} : {t.type(places)}", shape, "f32")))
    x, y = numbers("f32", 128), numbers("f32", 1024, 1)
    o = agree(t.text(), 1, x, y, outputs("f32", 128), 3)[2].reshape(shape)
    at = np.indices(shape)
    where = sum(at[d] * 3 * (1, 4, 32)[stride] for stride, d in enumerate(order))
    assert (o == x.reshape(shape) + y[where]).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dims", [(0, 1), (0, 2), (1, 2), (1,), (2,)])
@pytest.mark.parametrize("masked", [False, True])
def test_loads_of_smaller_blocks(agree, dims, masked) -> None:
    """Not contiguous, and on some of the dimensions: y[n · a + 50 · b]."""
    shape = (4, 8, 4)
    some = [shape[d] for d in dims]
    t = Text("f32")
    x = t.load("%x", shape)
    offsets = t.map("arith.muli", t.along(t.range(some[0]), some, 0), t.splat("%n", "i32", some))
    if len(some) > 1:
        part = t.map("arith.muli", t.along(t.range(some[1]), some, 1), t.constant("50", some, "i32"))
        offsets = t.map("arith.addi", offsets, part)
    places = t.places("%y", "f32", offsets)
    mask = ""
    if masked:
        on = t.map("arith.cmpi slt,", offsets, t.constant("60", some, "i32"), elem="i1")
        mask = f", {on}, {t.constant('9.0', some, 'f32')}"
    y = t.add(f"tt.load {places}{mask} : {t.type(places)}", some, "f32")
    for d in range(len(shape)):
        if d not in dims:
            y = t.moved("tt.expand_dims", y, [*t.shapes[y][:d], 1, *t.shapes[y][d:]], f" {{axis = {d} : i32}}")
    y = t.spread(y, shape)
    t.store(t.map("arith.addf", t.map("arith.mulf", x, y), t.partner(y, 0, "arith.addf")))
    x, y = numbers("f32", 128), numbers("f32", 1024, 1)
    o = agree(t.text(), 1, x, y, outputs("f32", 128), 7)[2].reshape(shape)
    at = np.indices(shape)
    where = sum(at[d] * step for d, step in zip(dims, (7, 50), strict=False))
    read = np.where(where < 60, y[where], np.float32(9)) if masked else y[where]
    close = np.abs(o - (x.reshape(shape) * read + read.sum(0, keepdims=True))) < 1e-5
    assert close.all()


@pytest.mark.parametrize("computed", ["read", "written"])
def test_computed_addresses(agree, computed) -> None:
    """Loads or stores at places that are remainders of positions."""
    shape = (4, 2, 4)
    t = Text("f32")
    v = t.load("%x", shape)
    near = t.along(t.range(4), shape, 2)
    for d, step in ((0, 8), (1, 4)):
        part = t.map("arith.muli", t.along(t.range(shape[d]), shape, d), t.constant(str(step), shape, "i32"))
        near = t.map("arith.addi", near, part)
    far = t.map("arith.remui", t.map("arith.muli", near, t.constant("5", shape, "i32")), t.constant("32", shape, "i32"))
    places = t.places("%y", "f32", far if computed == "read" else near)
    v = t.map("arith.addf", v, t.add(f"tt.load {places} : {t.type(places)}", shape, "f32"))
    places = t.places("%o", "f32", near if computed == "read" else far)
    t.lines.append(f"tt.store {places}, {v} : {t.type(places)}")
    x, y = numbers("f32", 32), numbers("f32", 32, 1)
    o = agree(t.text(), 1, x, y, outputs("f32", 32), 0)[2]
    at = np.arange(32) * 5 % 32
    if computed == "read":
        assert (o == x + y[at]).all()
    else:
        assert (o[at] == x + y).all()


@pytest.mark.parametrize("shape", [(4, 8, 1), (1, 4, 1, 8), (4, 1, 1, 8, 1)])
def test_reshapes_of_positions_that_move_extents_of_one(agree, shape) -> None:
    t = Text("i32")
    rows = t.map("arith.muli", t.along(t.range(4), (4, 1, 8), 0), t.splat("%n", "i32", (4, 1, 8)))
    at = t.map("arith.addi", rows, t.along(t.range(8), (4, 1, 8), 2))
    t.store(t.map("arith.addi", t.reshape(at, shape), t.load("%x", shape)))
    x = numbers("i32", 32)
    o = agree(t.text(), 1, x, x, outputs("i32", 32), 1000)[2]
    assert (o == x + 1000 * (np.arange(32) // 8) + np.arange(32) % 8).all()


def test_what_is_kept_on_the_way(agree) -> None:
    """A dear value that one nest computes and later ones read, from its own dimensions and turned."""
    shape = (2, 4, 2, 4)
    t = Text("f32")
    x = t.load("%x", shape)
    dear = t.map("math.exp", x)
    for axis in (3, 0, 2):
        dear = t.map("arith.addf", dear, t.partner(dear, axis, "arith.maxnumf"))
        dear = t.map("math.sqrt", dear)
    t.store(t.map("arith.subf", dear, t.trans(t.trans(dear, (1, 0, 3, 2)), (1, 0, 3, 2))))
    agree(t.text(), 1, numbers("f32", 64), numbers("f32", 64), outputs("f32", 64), 0)
    calls = [line for line in jn.kernel.from_ttir(t.text()).llvm_ir().splitlines() if " call " in line and "llvm.sqrt" in line]
    # for two vectors where there is a reduction on the way, for one where there is none, or as many as are stored together
    assert len(calls) <= (6 if host_target().has_short_vectors else 5)


def test_pairs_of_values_and_places(agree) -> None:
    """The larger of two and where it stands: two results of one reduction, first from neighbours, then from rows."""
    for shape, axis in (((4, 2, 2), 2), ((4, 2, 4), 1), ((2, 4, 4), 0)):
        t = Text("f32", "i32")
        x = t.load("%x", shape)
        places = t.reshape(t.range(math.prod(shape)), shape)
        rest = [*shape[:axis], *shape[axis + 1 :]]
        values, where = block(shape, "f32"), block(shape, "i32")
        t.lines.append(f"""%p:2 = "tt.reduce"({x}, {places}) <{{axis = {axis} : i32}}> ({{
    ^bb0(%a: f32, %ai: i32, %b: f32, %bi: i32):
      %c = arith.cmpf ogt, %b, %a : f32
      %m = arith.select %c, %b, %a : f32
      %mi = arith.select %c, %bi, %ai : i32
      tt.reduce.return %m, %mi : f32, i32
    }}) : ({values}, {where}) -> ({block(rest, "f32")}, {block(rest, "i32")})""")
        t.shapes["%p#1"], t.elems["%p#1"] = tuple(rest), "i32"
        t.store("%p#1")
        x = numbers("f32", math.prod(shape))
        o = agree(t.text(), 1, x, x, outputs("i32", x.size // 2), 0)[2].reshape(rest)
        index = np.expand_dims(x.reshape(shape).argmax(axis), axis)
        expected = np.take_along_axis(np.arange(x.size).reshape(shape), index, axis)
        assert (o == expected.squeeze(axis)).all()


@pytest.mark.parametrize("axis", range(4))
def test_blocks_carried_by_loops(agree, axis) -> None:
    """Every turn reads the block's other side along an axis and writes the block in place."""
    shape = (2, 2, 2, 8)
    text = carried(shape, axis)
    x = numbers("i32", math.prod(shape))
    for turns in (0, 1, 3):
        o = agree(text, 1, x, x, outputs("i32", x.size), turns)[2]
        cube = x.reshape(shape)
        for _ in range(turns):
            cube = (np.bitwise_xor.reduce(cube, axis, keepdims=True) ^ cube) + cube + np.indices(shape)[axis]
        assert (o == cube.reshape(-1)).all()


def carried(shape: tuple[int, ...], axis: int) -> str:
    of = block(shape, "i32")
    t = Text("i32")
    x = t.load("%x", shape)
    body = Text("i32")
    body.shapes |= {f"%s{i}": () for i in range(100)} | {"%c": shape}  # names of its own
    body.elems["%c"] = "i32"
    other = body.map("arith.xori", "%c", body.partner("%c", axis, "arith.xori"))
    new = body.map("arith.addi", other, body.map("arith.addi", "%c", body.along(body.range(shape[axis]), shape, axis)))
    t.lines += [
        "%zero = arith.constant 0 : i32", "%one = arith.constant 1 : i32",
        f"%end = scf.for %i = %zero to %n step %one iter_args(%c = {x}) -> ({of}) : i32 {{",
        *(f"  {line}" for line in body.lines), f"  scf.yield {new} : {of}", "}",
    ]  # fmt: skip
    t.shapes["%end"], t.elems["%end"] = shape, "i32"
    t.store("%end")
    return t.text()


def test_scans_and_wide_reductions_of_what_deep_nests_leave(agree) -> None:
    shape = (2, 4, 2, 2)
    of = block(shape, "i32")
    t = Text("i32")
    x = t.load("%x", shape)
    x = t.map("arith.addi", x, t.partner(x, 2, "arith.maxsi"))
    scanned = t.add(f""""tt.scan"({x}) <{{axis = 1 : i32, reverse = false}}> ({{
    ^bb0(%l: i32, %r: i32):
      %s = arith.addi %l, %r : i32
      tt.scan.return %s : i32
    }}) : ({of}) -> {of}""", shape, "i32")  # fmt: skip
    t.store(t.map("arith.addi", scanned, t.partner(scanned, 1, "arith.minsi")))
    x = numbers("i32", 32)
    o = agree(t.text(), 1, x, x, outputs("i32", 32), 0)[2].reshape(shape)
    cube = x.reshape(shape)
    cube = np.cumsum(cube + cube.max(2, keepdims=True), 1)
    assert (o == cube + cube.min(1, keepdims=True)).all()


def loops(text: str) -> int:
    return sum(" = phi i64" in line for line in jn.kernel.from_ttir(text).llvm_ir().splitlines())


@pytest.mark.parametrize("shape", [(2,) * 9, (4, 4, 4), (4, 2, 2, 32)])
def test_a_deep_nest_is_one_loop(shape) -> None:
    t = Text("f32")
    x = t.load("%x", shape)
    t.store(t.map("arith.addf", x, t.partner(x, 1, "arith.maxnumf")))
    assert loops(t.text()) <= 5  # programs, reading, reducing, writing twice
    assert loops(carried(shape, 0)) <= (10 if host_target().has_short_vectors else 9)  # what is left of two vectors, too
