"""Writes the statements of random programs, one function each: (random numbers, program) -> None."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random

from .programs import CELLS, ELEMENTS, FLOATS, INTEGERS, WIDTH, Program, Value, type_text

Statement = Callable[[Random, Program], None]

INTEGER_OPS = (
    "addi", "subi", "muli", "andi", "ori", "xori", "divsi", "divui", "remsi", "remui", "shli", "shrsi", "shrui",
    "maxsi", "maxui", "minsi", "minui", "ceildivsi", "ceildivui", "floordivsi",
)  # fmt: skip
BIT_OPS = ("addi", "subi", "muli", "andi", "ori", "xori")  # of i1
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
NEAR = (
    "exp", "exp2", "expm1", "log", "log2", "log1p", "rsqrt", "sin", "cos", "tanh", "erf", "atan", "asin", "acos",
    "acosh", "asinh", "atanh", "cbrt", "cosh", "sinh", "log10", "tan",
)  # fmt: skip


def integers(r: Random, p: Program) -> None:
    elem, shape = p.element(r, INTEGERS), p.shape(r)
    x, y = p.value(r, elem, shape), p.value(r, elem, shape)
    if elem == "i1":
        p.map(f"arith.{r.choice(BIT_OPS)}", x, y, keep=True)
    elif r.random() < 0.1:
        p.map("tt.mulhiui", x, y, keep=True)
    elif r.random() < 0.15:
        p.map(f"math.{r.choice(('absi', 'ctpop', 'ctlz', 'cttz'))}", x, keep=True)
    else:
        p.map(f"arith.{r.choice(INTEGER_OPS)}", x, y, keep=True)


def without_sign_of_zero(p: Program, x: Value) -> Value:
    """Adds 0, which turns -0 into 0: a maximum may return either of two zeros."""
    return p.map("arith.addf", x, p.constant(0.0, x.elem, x.shape))


def without_nan(p: Program, x: Value) -> Value:
    """Replaces NaNs, whose bits are not defined."""
    bad = p.op(f"arith.cmpf uno, {x}, {x} : {x.type}", "i1", x.shape)
    return p.select(bad, p.constant(1.0, x.elem, x.shape), x)


def floats(r: Random, p: Program) -> None:
    elem, shape = p.element(r, FLOATS), p.shape(r)
    x, y = p.value(r, elem, shape), p.value(r, elem, shape)
    way = r.randrange(8)
    if way < 3:
        p.map(f"arith.{r.choice(('addf', 'subf', 'mulf', 'divf'))}", x, y, keep=True)
    elif way == 3:
        x, y = without_sign_of_zero(p, x), without_sign_of_zero(p, y)
        p.map(f"arith.{r.choice(('maximumf', 'minimumf', 'maxnumf', 'minnumf'))}", x, y, keep=True)
    elif way == 4:
        name = r.choice(("arith.negf", "math.absf", "math.sqrt", "math.floor", "math.ceil", "math.trunc", "math.roundeven",
                         "math.round"))
        p.map("tt.precise_sqrt" if name == "math.sqrt" and r.random() < 0.3 and elem == "f32" else name, x, keep=True)
    elif way == 5:
        p.map("math.copysign", x, without_nan(p, y), keep=True)
    elif way == 6 and elem != "f64":
        p.map("math.fma", x, y, p.value(r, elem, shape), keep=True)
    else:
        x = without_sign_of_zero(p, x)
        low, high = p.constant(-1.5, elem, shape), p.constant(2.0, elem, shape)
        nan = r.choice(("all", "none"))
        p.op(f"tt.clampf {x}, {low}, {high}, propagateNan = {nan} : {x.type}", elem, shape, keep=True)


def near(r: Random, p: Program) -> None:
    """Writes an elementary function, whose result is stored for a comparison within bounds and not used further."""
    elem, shape = p.element(r, FLOATS), p.shape(r)
    x = p.value(r, elem, shape)
    if elem == "f64" or r.random() < 0.5:  # with ordinary operands only
        low, high = p.constant(-3.0, elem, shape), p.constant(3.0, elem, shape)
        x = p.op(f"tt.clampf {x}, {low}, {high}, propagateNan = none : {x.type}", elem, shape)
    name = r.choice(NEAR)
    p.keep(p.map(f"math.{name}", x), f"near_{name}")


def compare(r: Random, p: Program) -> None:
    elem, shape = p.element(r), p.shape(r)
    x, y = p.value(r, elem, shape), p.value(r, elem, shape)
    if elem in FLOATS:
        p.op(f"arith.cmpf {r.choice(FLOAT_PREDICATES)}, {x}, {y} : {x.type}", "i1", shape, keep=True)
    else:
        p.op(f"arith.cmpi {r.choice(PREDICATES)}, {x}, {y} : {x.type}", "i1", shape, keep=True)


def choose(r: Random, p: Program) -> None:
    elem, shape = p.element(r), p.shape(r)
    condition = p.value(r, "i1", shape if r.random() < 0.8 else ())
    p.select(condition, p.value(r, elem, shape), p.value(r, elem, shape), keep=True)


def casts(r: Random, p: Program) -> None:
    old, new, shape = p.element(r), p.element(r), p.shape(r)
    x = p.value(r, old, shape)
    if old in FLOATS and new in INTEGERS:
        how = r.choice(("arith.fptosi", "arith.fptoui"))
    elif old in INTEGERS and new in FLOATS:
        how = r.choice(("arith.sitofp", "arith.uitofp"))
    elif old in INTEGERS and WIDTH[new] > WIDTH[old]:
        how = r.choice(("arith.extsi", "arith.extui"))
    elif WIDTH[old] == WIDTH[new] and old != new:
        how = "arith.bitcast"
    else:
        how = None
    if WIDTH[old] == WIDTH[new] and old != new and r.random() < 0.5:
        if old in FLOATS:
            x = without_nan(p, x)
        p.scope.append(p.op(f"tt.bitcast {x} : {x.type} -> {type_text(new, shape)}", new, shape))
    else:
        if how == "arith.bitcast" and old in FLOATS:
            x = without_nan(p, x)
        p.scope.append(p.cast(x, new, how))


def shapes(r: Random, p: Program) -> None:
    elem, shape = p.element(r), p.shape(r)
    way = r.randrange(9)
    rank = len(shape)
    if way == 5 and 0 < rank < 5 and 2 * prod(shape) <= p.most and shape[-1] != 2:
        shape, rank = (*shape, 2), rank + 1
    x = p.value(r, elem, shape)

    def put(text: str, result: tuple[int, ...]) -> None:
        p.op(f"{text} -> {type_text(elem, result)}", elem, result, keep=True)

    if way == 0 and 1 <= rank < 5:
        axis = r.randrange(rank + 1)
        put(f"tt.expand_dims {x} {{axis = {axis} : i32}} : {x.type}", (*shape[:axis], 1, *shape[axis:]))
    elif way == 1 and 1 in shape:
        axis = r.choice([i for i, extent in enumerate(shape) if extent == 1])
        extent = 1 << r.randrange((p.most // prod(shape)).bit_length())
        put(f"tt.broadcast {x} : {x.type}", (*shape[:axis], extent, *shape[axis + 1 :]))
    elif way == 2 and rank:
        order = list(range(rank))
        r.shuffle(order)
        put(f"tt.trans {x} {{order = array<i32: {', '.join(map(str, order))}>}} : {x.type}", tuple(shape[i] for i in order))
    elif way == 3 and rank:
        left, new = prod(shape), []
        for _ in range(r.randrange(4)):
            new.append(1 << r.randrange(left.bit_length()))
            left //= new[-1]
        put(f"tt.reshape {x} : {x.type}", (*new, left))
    elif way == 4 and rank < 5 and rank and 2 * prod(shape) <= p.most:
        y = p.value(r, elem, shape)
        put(f"tt.join {x}, {y} : {x.type}", (*shape, 2))
    elif way == 5 and rank > 1 and shape[-1] == 2:
        name = p.fresh()
        half = shape[:-1]
        p.line(f"{name}:2 = tt.split {x} : {x.type} -> {type_text(elem, half)}")
        p.scope += [Value(f"{name}#{i}", elem, half) for i in range(2)]
    elif way == 6 and rank == 1 and 2 * prod(shape) <= p.most:
        y = p.value(r, elem, shape)
        put(f"tt.cat {x}, {y} : {x.type}", (2 * shape[0],))
    elif way == 7 and rank:
        axis = r.randrange(rank)
        extent = r.choice((shape[axis], 1 << r.randrange((p.most // max(1, prod(shape) // shape[axis])).bit_length())))
        wanted = (*shape[:axis], extent, *shape[axis + 1 :])
        i = p.value(r, r.choice(("i32", "i64", "i16")), wanted)
        i = p.map("arith.andi", i, p.constant(min(shape[axis], 1 << 14) - 1, i.elem, wanted))
        types = f"({x.type}, {i.type}) -> {type_text(elem, wanted)}"
        p.op(f"tt.gather {x}[{i}] {{axis = {axis} : i32}} : {types}", elem, wanted, keep=True)
    elif not rank:
        p.scope.append(p.splat(x, p.shape(r, rank=r.choice((1, 2)))))
    elif prod(shape) == 1:
        p.op(f"tt.unsplat {x} : {x.type}", elem, keep=True)


def loads(r: Random, p: Program) -> None:
    p.scope.append(p.load(r, p.element(r), p.shape(r)))


def stores(r: Random, p: Program) -> None:
    p.store(r, p.value(r, p.element(r), p.shape(r), 0.05))


def chosen_pointers(r: Random, p: Program) -> None:
    """Writes loads through pointers to two arrays, chosen lane by lane or as a whole."""
    elem, shape = p.element(r), p.shape(r)
    one, two = (p.pointers(r, p.array(kind, elem), p.places(r, shape)) for kind in ("in", "io"))
    chosen = p.select(p.value(r, "i1", shape if r.random() < 0.7 else ()), one, two)
    p.op(f"tt.load {chosen} : {chosen.type}", elem, shape, keep=True)


def whole_number(r: Random, p: Program, x: Value, high: int) -> Value:
    """Makes a float block of 0 … high from any values: their sums and products are exact in any order."""
    x = p.cast(x, "i32")
    return p.cast(p.map("arith.andi", x, p.constant(high, "i32", x.shape)), x.elem)


COMMUTATIVE = ("addi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui")


def combined(r: Random, p: Program) -> None:
    """Writes a reduction or a scan: of one operand by one operation, of two (the extreme element and its index), or of
    pairs of numbers by the composition of linear maps (scans only, as that does not commute)."""
    shape = p.shape(r)
    if not shape:
        shape = p.shape(r, rank=2)
    axis, scan = r.randrange(len(shape)), r.random() < 0.4
    left = shape if scan else (*shape[:axis], *shape[axis + 1 :])
    elem = p.element(r)
    x = p.value(r, elem, shape)
    way = r.randrange(4)
    operands, body = [x], [f"%q = arith.{r.choice(COMMUTATIVE)} %a0, %b0 : {elem}", "%q"]
    if elem == "i1":
        body[0] = f"%q = arith.{r.choice(('andi', 'ori', 'xori'))} %a0, %b0 : i1"
    elif elem in FLOATS and way != 1:
        if elem in ("f32", "f64") and r.random() < 0.6:
            whole = p.map("arith.andi", p.cast(x, "i32"), p.constant(7, "i32", shape))
            operands, body[0] = [p.cast(whole, elem)], f"%q = arith.addf %a0, %b0 : {elem}"
        else:
            operands = [without_sign_of_zero(p, x)]
            body[0] = f"%q = arith.{r.choice(('maximumf', 'minimumf', 'maxnumf', 'minnumf'))} %a0, %b0 : {elem}"
    elif way == 1:
        index = p.axis(shape[axis], axis, len(shape))
        if index.shape != shape:
            index = p.op(f"tt.broadcast {index} : {index.type} -> {type_text('i32', shape)}", "i32", shape)
        compare = "arith.cmpf" if elem in FLOATS else "arith.cmpi"
        if elem in FLOATS:
            operands = [without_nan(p, x)]
        greater, equal = ("ogt", "oeq") if elem in FLOATS else (r.choice(("sgt", "ult")), "eq")
        operands.append(index)
        body = [
            f"%gt = {compare} {greater}, %a0, %b0 : {elem}", f"%eq = {compare} {equal}, %a0, %b0 : {elem}",
            "%lt = arith.cmpi slt, %a1, %b1 : i32", "%tie = arith.andi %eq, %lt : i1", "%first = arith.ori %gt, %tie : i1",
            f"%q = arith.select %first, %a0, %b0 : {elem}", "%n = arith.select %first, %a1, %b1 : i32", "%q, %n",
        ]  # fmt: skip
    elif way == 2 and scan:
        operands = [x, p.value(r, elem, shape)]
        body = [
            f"%q = arith.muli %a0, %b0 : {elem}", f"%m = arith.muli %a1, %b0 : {elem}", f"%n = arith.addi %m, %b1 : {elem}",
            "%q, %n",
        ]  # fmt: skip
    kinds = [operand.elem for operand in operands]
    arguments = [f"%{side}{i}: {kind}" for side in "ab" for i, kind in enumerate(kinds)]
    name = p.fresh()
    kind = "scan" if scan else "reduce"
    reverse = f", reverse = {r.choice(('true', 'false'))}" if scan else ""
    count = f":{len(operands)}" if len(operands) > 1 else ""
    p.line(f'{name}{count} = "tt.{kind}"({", ".join(map(str, operands))}) <{{axis = {axis} : i32{reverse}}}> ({{')
    p.line(f"^bb0({', '.join(arguments)}):")
    for line in body[:-1]:
        p.line(f"  {line}")
    p.line(f"  tt.{kind}.return {body[-1]} : {', '.join(kinds)}")
    results = ", ".join(type_text(kind, left) for kind in kinds)
    p.line(f"}}) : ({', '.join(operand.type for operand in operands)}) -> ({results})")
    names = [f"{name}#{i}" for i in range(len(kinds))] if count else [name]
    p.scope += [Value(name, kind, left) for name, kind in zip(names, kinds, strict=True)]


DOTS = (("i8", "i32"), ("f16", "f32"), ("bf16", "f32"), ("f32", "f32"), ("f64", "f64"), ("f16", "f16"))


def dot(r: Random, p: Program) -> None:
    """Writes a product of small whole numbers, which is exact in any order."""
    sizes = [s for s in (1, 2, 4, 8, 16, 32, 64) if s * s <= p.most]
    m, n, k = (r.choice(sizes) for _ in range(3))
    batch: tuple[int, ...] = ()
    if r.random() < 0.25 and 4 * max(m * k, k * n, m * n) <= p.most:
        batch = (r.choice((1, 2, 4)),)
    elem, result = r.choice(DOTS)
    operands = []
    for kind, shape in ((elem, (*batch, m, k)), (elem, (*batch, k, n)), (result, (*batch, m, n))):
        x = p.cast(p.value(r, p.element(r, ("i8", "i32", "f32")), shape), "i32")
        operands.append(p.cast(p.map("arith.andi", x, p.constant(3, "i32", shape)), kind))
    a, b, c = operands
    precision = r.choice(("ieee", "tf32", "tf32x3")) if elem == "f32" else "ieee"
    hint = "" if precision == "ieee" else f", inputPrecision = {precision}"
    p.op(f"tt.dot {a}, {b}, {c}{hint} : {a.type} * {b.type} -> {c.type}", result, c.shape, keep=True)


def histogram(r: Random, p: Program) -> None:
    shape = p.shape(r, rank=1)
    x = p.value(r, "i32", shape)
    if r.random() < 0.6:
        x = p.map("arith.remsi", x, p.constant(9, "i32", shape))
    bins = r.choice((1, 2, 8, 32))
    mask = p.mask(r, shape) if r.random() < 0.5 else None
    operands = f"{x}, {mask}" if mask else f"{x}"
    p.op(f"tt.histogram {operands} : {x.type} -> tensor<{bins}xi32>", "i32", (bins,), keep=True)


def atomics(r: Random, p: Program) -> None:
    """Writes atomics: on shared cells, with one operation whose results are not used; or on the program's own
    memory."""
    shape = p.shape(r, min(p.most, 256))
    mask = p.mask(r, shape) if r.random() < 0.5 else None
    order, scope = r.choice(("relaxed", "acquire", "release", "acq_rel")), r.choice(("gpu", "cta", "sys"))
    if r.random() < 0.5:
        elem = r.choice(("i32", "i64"))
        x = p.value(r, elem, shape)
        local = p.map("arith.andi", p.gathered(r, shape), p.constant(CELLS - 1, "i32", shape))
        pointers = p.pointers(r, p.array("cells", elem), local)
        kind = "add"
        keep = False
        scope = "gpu"
    else:
        elem = r.choice(("i32", "i64", "f32", "f64", "i16", "i8"))
        x = p.value(r, elem, shape)
        pointers = p.pointers(r, p.array("io", elem), p.places(r, shape))
        kinds = ("fadd", "exch") if elem in FLOATS else ("add", "and", "or", "xor", "max", "min", "umax", "umin", "exch")
        kind, keep = r.choice(kinds), mask is None
    text = f"{pointers}, {x}" + (f", {mask}" if mask else "")
    types = f"({pointers.type}, {x.type}{f', {mask.type}' if mask else ''}) -> {x.type}"
    p.op(f"tt.atomic_rmw {kind}, {order}, {scope}, {text} : {types}", elem, shape, keep=keep)


def several(one: Statement) -> Statement:
    def run(r: Random, p: Program) -> None:
        for _ in range(r.randrange(1, 5)):
            one(r, p)

    return run


SIMPLE: tuple[tuple[int, Statement], ...] = (
    (6, several(integers)), (6, several(floats)), (3, compare), (3, choose), (4, several(casts)), (5, several(shapes)),
    (4, combined), (2, dot), (1, histogram),
)  # fmt: skip
EFFECTS: tuple[tuple[int, Statement], ...] = ((2, near), (3, loads), (5, stores), (1, chosen_pointers), (1, atomics))

__all__ = ["EFFECTS", "ELEMENTS", "SIMPLE", "Statement"]
