"""Every operation that moves or computes elements, launched: all element types, ranks 0 to 4, axes of extent 1, one element to
2**20. What the interpreter gives is the expectation; `test_numerics` and the corpus say that it is right."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ....support.random_kernels.programs import ELEMENTS, FLOATS, INTEGERS, WIDTH, random_array, type_text
from ....support.tiers import each

SHAPES = ((), (1,), (2, 1, 4, 8), (1, 64, 1), (32, 128))
LARGE = (1 << 20,)
INTEGER_OPS = (
    "addi subi muli andi ori xori divsi divui remsi remui shli shrsi shrui maxsi maxui minsi minui ceildivsi ceildivui "
    "floordivsi"
)
FLOAT_OPS = "addf subf mulf divf remf"
PREDICATES = {
    "cmpi": "eq ne slt sle sgt sge ult ule ugt uge",
    "cmpf": "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true",
}
ROUNDING = "absf sqrt floor ceil trunc roundeven round"


class Text:
    """A function of two arrays x and y of `elem`, each read as one block of `shape`; results go to arrays r0, r1, …"""

    def __init__(self, elem: str, shape: tuple[int, ...]) -> None:
        self.elem, self.shape = elem, shape
        self.parameters = [f"%{name}: !tt.ptr<{elem}>" for name in "xy"]
        self.lines: list[str] = []
        self.outputs: list[tuple[str, int]] = []
        for name in "xy":
            pointers = self._pointers(name, elem, shape)
            self.lines.append(f"%v{name} = tt.load %p{name} : {pointers}")

    def _pointers(self, name: str, elem: str, shape: tuple[int, ...]) -> str:
        pointer, n = f"!tt.ptr<{elem}>", prod(shape)
        block = type_text(pointer, shape)
        if not shape:
            self.lines.append(f"%p{name} = tt.bitcast %{name} : {pointer} -> {pointer}")
            return block
        flat = f"tensor<{n}xi32>"
        self.lines += [
            f"%m{name} = tt.make_range {{end = {n} : i32, start = 0 : i32}} : {flat}",
            f"%i{name} = tt.reshape %m{name} : {flat} -> {type_text('i32', shape)}",
            f"%b{name} = tt.splat %{name} : {pointer} -> {block}",
            f"%p{name} = tt.addptr %b{name}, %i{name} : {block}, {type_text('i32', shape)}",
        ]
        return block

    @property
    def type(self) -> str:
        return type_text(self.elem, self.shape)

    def keep(self, line: str, elem: str = "", shape: tuple[int, ...] | None = None, value: str = "%z") -> None:
        """A line that computes `value`, which is stored to an array of its own."""
        elem, shape, name = elem or self.elem, self.shape if shape is None else shape, f"r{len(self.outputs)}"
        self.parameters.append(f"%{name}: !tt.ptr<{elem}>")
        pointers = self._pointers(name, elem, shape)
        own = f"%z{name}"
        self.lines += [line.replace("%z", own), f"tt.store %p{name}, {value.replace('%z', own)} : {pointers}"]
        self.outputs.append((elem, prod(shape)))

    def check(self, agree, seed: int = 0, **start: np.ndarray) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        inputs = [start.get(name, random_array(rng, self.elem, prod(self.shape))) for name in "xy"]
        results = [random_array(rng, elem, n + 4) for elem, n in self.outputs]
        body = "\n".join(self.lines)
        text = f"tt.func public @f({', '.join(self.parameters)}) {{\n{body}\ntt.return\n}}"
        with np.errstate(all="ignore"):
            return list(agree(text, 1, *inputs, *results))


def both(shapes=SHAPES, large=True):
    """Element types × shapes, and a large block for one type of each kind. Fast has each type with two of the shapes."""
    cases = each(ELEMENTS, shapes, times=2)
    cases += [pytest.param("f32", LARGE), pytest.param("i16", LARGE)] if large else []
    names = [f"{case.values[0]}-{'x'.join(map(str, case.values[1])) or 0}" for case in cases]
    return pytest.mark.parametrize(("elem", "shape"), cases, ids=names)


@pytest.mark.one_in(28)
@both()
def test_elementwise(agree, elem: str, shape: tuple[int, ...]) -> None:
    text = Text(elem, shape)
    names = INTEGER_OPS if elem in INTEGERS else FLOAT_OPS
    if elem == "i1":
        names = "addi subi muli andi ori xori maxsi maxui minsi minui"
    large = prod(shape) > 1 << 16
    for name in names.split()[:: 4 if large else 1]:
        text.keep(f"%z = arith.{name} %vx, %vy : {text.type}")
    kind = "cmpi" if elem in INTEGERS else "cmpf"
    for predicate in PREDICATES[kind].split()[:: 5 if large else 1]:
        text.keep(f"%z = arith.{kind} {predicate}, %vx, %vy : {text.type}", "i1")
    condition = type_text("i1", shape)
    text.lines.append(f"%c = arith.{kind} {'slt' if kind == 'cmpi' else 'olt'}, %vx, %vy : {text.type}")
    text.keep(f"%z = arith.select %c, %vx, %vy : {condition + ', ' if shape else ''}{text.type}")
    if elem in FLOATS:
        text.keep(f"%z = arith.negf %vx : {text.type}")
        for name in ROUNDING.split():
            text.keep(f"%z = math.{name} %vx : {text.type}")
    elif elem != "i1":
        text.keep(f"%z = tt.mulhiui %vx, %vy : {text.type}")
        for name in ["absi", "ctlz", "cttz", "ctpop"]:
            text.keep(f"%z = math.{name} %vx : {text.type}")
    text.check(agree)


@pytest.mark.one_in(6)
@both(shapes=((), (1, 1), (16, 1, 512)), large=False)
def test_casts(agree, elem: str, shape: tuple[int, ...]) -> None:
    text = Text(elem, shape)
    for other in ELEMENTS:
        result, wider = type_text(other, shape), WIDTH[other] > WIDTH[elem]
        if other == elem:
            continue
        if elem in INTEGERS and other in INTEGERS:
            names = ["extsi", "extui"] if wider else ["trunci"]
        elif elem in INTEGERS:
            names = ["sitofp", "uitofp"]
        elif other in INTEGERS:
            names = ["fptosi", "fptoui"]
        elif WIDTH[other] == WIDTH[elem]:
            names = []
        else:
            names = ["extf" if wider else "truncf"]
        for name in names:
            text.keep(f"%z = arith.{name} %vx : {text.type} to {result}", other)
        if elem in INTEGERS and WIDTH[other] == WIDTH[elem]:
            text.keep(f"%z = tt.bitcast %vx : {text.type} -> {result}", other)
        if elem in FLOATS and other in FLOATS and not wider:
            for rounding in ("rtz", "rtne"):
                text.keep(f"%z = tt.fp_to_fp %vx, rounding = {rounding} : {text.type} -> {result}", other)
    text.check(agree)


@pytest.mark.one_in(12)
@both(shapes=((1,), (1, 1, 1, 1), (2, 1, 4, 8), (1, 64, 1), (8, 2)))
def test_moves(agree, elem: str, shape: tuple[int, ...]) -> None:
    """Results are known: the same moves of NumPy."""
    text, expected = Text(elem, shape), []
    rng = np.random.default_rng(1)
    n, rank = prod(shape), len(shape)
    flat = {name: random_array(rng, elem, n) for name in "xy"}
    x, y = (flat[name].reshape(shape) for name in "xy")

    def put(line: str, wanted: np.ndarray, value: str = "%z") -> None:
        text.keep(f"{line} -> {type_text(elem, wanted.shape)}", shape=wanted.shape, value=value)
        expected.append(wanted)

    for axis in range(rank + 1) if rank < 4 else ():
        put(f"%z = tt.expand_dims %vx {{axis = {axis} : i32}} : {text.type}", np.expand_dims(x, axis))
    for axis in [axis for axis in range(rank) if shape[axis] == 1]:
        wide = (*shape[:axis], 4, *shape[axis + 1 :])
        put(f"%z = tt.broadcast %vx : {text.type}", np.broadcast_to(x, wide))
    for order in {tuple(np.roll(range(rank), 1)), tuple(range(rank))[::-1]}:
        listed = ", ".join(map(str, order))
        put(f"%z = tt.trans %vx {{order = array<i32: {listed}>}} : {text.type}", x.transpose(order))
    put(f"%z = tt.reshape %vx : {text.type}", x.reshape(1, n))
    if n < 1 << 20:
        put(f"%z = tt.join %vx, %vy : {text.type}", np.stack([x, y], -1))
    if rank == 1 and n < 1 << 20:
        put(f"%z = tt.cat %vx, %vy : {text.type}", np.concatenate([x, y]))
    if shape[-1] == 2:
        put(f"%z:2 = tt.split %vx : {text.type}", x[..., 0], "%z#0")
        put(f"%z:2 = tt.split %vx : {text.type}", x[..., 1], "%z#1")
    if n == 1:
        text.keep(f"%z = tt.unsplat %vx : {text.type}", shape=())
        expected.append(x.reshape(()))
    found = text.check(agree, 1, **flat)[2:]
    for result, wanted in zip(found, expected, strict=True):
        bits = f"u{wanted.dtype.itemsize}"
        assert np.array_equal(result[: wanted.size].view(bits), np.ascontiguousarray(wanted).reshape(-1).view(bits))


def region(kind: str, axis: int, elem: str, op: str, operand: str, result: str, reverse: str = "") -> str:
    extra = f", reverse = {reverse}" if reverse else ""
    return (
        f'%z = "tt.{kind}"(%vx) <{{axis = {axis} : i32{extra}}}> ({{\n^bb0(%l: {elem}, %r: {elem}):\n'
        f"%q = arith.{op} %l, %r : {elem}\ntt.{kind}.return %q : {elem}\n}}) : ({operand}) -> {result}"
    )


@pytest.mark.one_in(32)
@both(shapes=((1,), (1, 1, 1, 1), (2, 1, 4, 8), (16, 1), (32, 128)))
def test_reductions_and_scans(agree, elem: str, shape: tuple[int, ...]) -> None:
    """Along every axis; against NumPy too."""
    text, expected = Text(elem, shape), []
    rng = np.random.default_rng(2)
    x = random_array(rng, elem, prod(shape))
    if elem in FLOATS:
        x = rng.integers(-9, 10, prod(shape)).astype(x.dtype)
    block = x.reshape(shape)
    ops = {"maximumf": np.maximum, "minnumf": np.minimum} if elem in FLOATS else {"ori": np.bitwise_or, "xori": np.bitwise_xor}
    if elem in ("f32", "f64"):
        ops["addf"] = np.add
    elif elem in INTEGERS and elem != "i1":
        ops |= {"addi": np.add, "muli": np.multiply, "maxsi": np.maximum}
    for axis in range(len(shape)):
        left = (*shape[:axis], *shape[axis + 1 :])
        for op, function in list(ops.items())[: 1 if prod(shape) > 1 << 16 else None]:
            with np.errstate(over="ignore"):
                if elem in ("f16", "bf16"):
                    wide = block.astype(np.float32)
                    total, prefixes = function.reduce(wide, axis), function.accumulate(wide, axis)
                    back = np.flip(function.accumulate(np.flip(wide, axis), axis), axis)
                    results = [each.astype(x.dtype) for each in (total, prefixes, back)]
                else:
                    back = np.flip(function.accumulate(np.flip(block, axis), axis), axis)
                    total = function.reduce(block, axis, dtype=x.dtype)
                    results = [total, function.accumulate(block, axis, dtype=x.dtype), back]
            text.keep(region("reduce", axis, elem, op, text.type, type_text(elem, left)), shape=left)
            text.keep(region("scan", axis, elem, op, text.type, text.type, "false"))
            text.keep(region("scan", axis, elem, op, text.type, text.type, "true"))
            expected += results
    found = text.check(agree, x=x)[2:]
    for result, wanted in zip(found, expected, strict=True):
        assert np.array_equal(result[: wanted.size].astype(np.float64), wanted.reshape(-1).astype(x.dtype).astype(np.float64))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("elem", "width"), [*((e, "i32") for e in ELEMENTS), ("f32", "i8"), ("f32", "i16"), ("i1", "i64")])
def test_gather(agree, elem: str, width: str) -> None:
    """Along the first, a middle and the last axis; more or fewer indices than elements."""
    shape = (4, 8, 2)
    for axis, extent in ((0, 16), (1, 1), (2, 4)):
        text = Text(elem, shape)
        wanted = (*shape[:axis], extent, *shape[axis + 1 :])
        n = prod(wanted)
        text.lines += [
            f"%n = tt.make_range {{end = {n} : i32, start = 0 : i32}} : tensor<{n}xi32>",
            f"%c = arith.constant dense<{shape[axis] - 1}> : tensor<{n}xi32>",
            f"%three = arith.constant dense<3> : tensor<{n}xi32>", f"%t = arith.divui %n, %three : tensor<{n}xi32>",
            f"%i = arith.andi %t, %c : tensor<{n}xi32>",
        ]  # fmt: skip
        how = {"i64": "extsi", "i32": ""}.get(width, "trunci")
        if how:
            text.lines.append(f"%w = arith.{how} %i : tensor<{n}xi32> to tensor<{n}x{width}>")
        index = "%w" if how else "%i"
        text.lines.append(f"%at = tt.reshape {index} : tensor<{n}x{width}> -> {type_text(width, wanted)}")
        types = f"({text.type}, {type_text(width, wanted)}) -> {type_text(elem, wanted)}"
        text.keep(f"%z = tt.gather %vx[%at] {{axis = {axis} : i32}} : {types}", shape=wanted)
        x = random_array(np.random.default_rng(3), elem, prod(shape))
        *_, found = text.check(agree, x=x)
        at = (np.arange(n) // 3 & (shape[axis] - 1)).reshape(wanted)
        bits = f"u{x.dtype.itemsize}"
        taken = np.take_along_axis(x.reshape(shape), at, axis).reshape(-1)
        assert np.array_equal(found[:n].view(bits), taken.view(bits))


HISTOGRAMS = [
    (1, "i8", "i32"), (2, "i16", "i64"), (64, "i64", "i32"), (4096, "i32", "i64"), (4096, "i8", "i8"), (1 << 20, "i32", "i32"),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("n", "elem", "counts"), HISTOGRAMS)
def test_histogram(agree, elem: str, counts: str, n: int) -> None:
    text = Text(elem, (n,))
    limit = type_text(elem, (n,))
    text.lines += [f"%c = arith.constant dense<5> : {limit}", f"%m = arith.cmpi slt, %vx, %c : {limit}"]
    for bins in (1, 8):
        for mask in ("", ", %m"):
            text.keep(f"%z = tt.histogram %vx{mask} : {limit} -> tensor<{bins}x{counts}>", counts, (bins,))
    x = np.random.default_rng(4).integers(-3, 12, n).astype(f"i{WIDTH[elem] // 8}")
    found = text.check(agree, x=x)[2:]
    for i, (bins, masked) in enumerate((bins, masked) for bins in (1, 8) for masked in (False, True)):
        kept = x[(x >= 0) & (x < bins) & ((x < 5) | (not masked))].astype(np.int64)
        assert np.array_equal(found[i][:bins], np.bincount(kept, minlength=bins).astype(found[i].dtype))


PRODUCTS = (
    ("i8", "i32"), ("i16", "i32"), ("i32", "i32"), ("i64", "i64"), ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"),
    ("bf16", "bf16"), ("f32", "f32"), ("f64", "f64"),
)  # fmt: skip


EXTENTS = (
    ((), (1, 1, 1)), ((), (1, 4, 1)), ((), (16, 1, 8)), ((1,), (1, 64, 32)), ((4,), (64, 16, 4)), ((2,), (1, 8, 1))
)  # fmt: skip
"""Batches, and m, k, n."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("extents", "types"), each(EXTENTS, PRODUCTS, times=2))
def test_products(agree, extents: tuple[Any, Any], types: tuple[str, str]) -> None:
    """Of small whole numbers, exact in any order."""
    (batch, shape), (elem, result) = extents, types
    m, k, n = shape
    a, b, c = (type_text(e, (*batch, *s)) for e, s in ((elem, (m, k)), (elem, (k, n)), (result, (m, n))))
    names = {"a": (elem, a), "b": (elem, b), "c": (result, c)}
    sizes = {"a": prod(batch) * m * k, "b": prod(batch) * k * n, "c": prod(batch) * m * n}
    lines = []
    for name, (e, block) in names.items():
        size = sizes[name]
        lines.append(
            f"%r{name} = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>\n"
            f"%s{name} = tt.splat %{name} : !tt.ptr<{e}> -> tensor<{size}x!tt.ptr<{e}>>\n"
            f"%p{name} = tt.addptr %s{name}, %r{name} : tensor<{size}x!tt.ptr<{e}>>, tensor<{size}xi32>\n"
            f"%f{name} = tt.load %p{name} : tensor<{size}x!tt.ptr<{e}>>\n"
            f"%v{name} = tt.reshape %f{name} : tensor<{size}x{e}> -> {block}"
        )
    size = sizes["c"]
    text = (
        f"tt.func public @f(%a: !tt.ptr<{elem}>, %b: !tt.ptr<{elem}>, %c: !tt.ptr<{result}>) {{\n" + "\n".join(lines)
        + f"\n%d = tt.dot %va, %vb, %vc : {a} * {b} -> {c}\n%e = tt.reshape %d : {c} -> tensor<{size}x{result}>\n"
        f"tt.store %pc, %e : tensor<{size}x!tt.ptr<{result}>>\ntt.return\n}}"
    )  # fmt: skip
    rng = np.random.default_rng(5)
    dtypes = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64}
    high = 2 if result in ("f16", "bf16") else 4
    arrays = [
        rng.integers(0, high, sizes[name]).astype(dtypes.get(e) or f"i{WIDTH[e] // 8}") for name, (e, _) in names.items()
    ]
    *_, found = agree(text, 1, *arrays)
    x, y, z = (array.astype(np.float64).reshape(s) for array, s in zip(
        arrays, ((*batch, m, k), (*batch, k, n), (*batch, m, n)), strict=True))  # fmt: skip
    assert np.array_equal(found.astype(np.float64), (x @ y + z).astype(arrays[2].dtype).astype(np.float64).reshape(-1))
