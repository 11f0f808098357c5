"""Writes statements of block programs besides those of `tests/support/random_kernels/statements.py`: addresses from hashes
and from sums that wrap, products with one masked operand, results of 16 bits, loops over products, products in sums."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ..support.random_kernels.control import branch, call, diamond, ring
from ..support.random_kernels.programs import FLOATS, WIDTH, Program, Shape, Value, type_text
from ..support.random_kernels.statements import near

LARGE = (64 * 22369621, 0x7FFFFFFF, 2654435761, 1664525, 1013904223, 0x9E3779B9, 1 << 30, 3 << 29, -64, -1)


def start(r: Random, p: Program, elem: str, shape: Shape) -> Value:
    """Returns a value that an index is computed from: indices in the block, the program id, or any value."""
    way = r.randrange(4)
    if way == 0:
        return p.cast(p.index(shape), elem)
    if way == 1:
        return p.splat(p.cast(p.program(), elem), shape)
    if way == 2:
        number = p.map("arith.muli", p.cast(p.program(), elem), p.constant(r.choice(LARGE), elem))
        return p.map("arith.addi", p.splat(number, shape), p.cast(p.index(shape), elem))
    return p.value(r, elem, shape)


def hashed(r: Random, p: Program, elem: str, shape: Shape) -> Value:
    """Returns any integers, most of which exceeded the range of the type before they wrapped."""
    x = start(r, p, elem, shape)
    for _ in range(r.randrange(1, 4)):
        way = r.randrange(4)
        if way == 0:
            x = p.map("arith.muli", x, p.constant(r.choice(LARGE), elem, shape))
        elif way == 1:
            x = p.map("arith.addi", x, p.constant(r.choice(LARGE), elem, shape))
        elif way == 2:
            amount = p.constant(r.randrange(1, WIDTH[elem]), elem, shape)
            x = p.map(
                "arith.xori", x, p.map(r.choice(("arith.shrui", "arith.shrsi", "arith.shli")), x, amount)
            )
        else:
            x = p.map(
                r.choice(("arith.addi", "arith.subi", "arith.muli", "arith.xori")),
                x,
                start(r, p, elem, shape),
            )
    return x


def reduced(r: Random, p: Program, x: Value, count: int) -> Value:
    """Reduces an integer block to 0 … count - 1; count is a power of two, at least 2."""
    width = WIDTH[x.elem]
    way = r.randrange(6)
    if way == 0:
        return p.map("arith.andi", x, p.constant(count - 1, x.elem, x.shape))
    if way == 1:
        return p.map("arith.shrui", x, p.constant(width - count.bit_length() + 1, x.elem, x.shape))
    if way == 2:
        return p.map("arith.remui", x, p.constant(r.choice((count, count - 1)), x.elem, x.shape))
    if way == 3:  # remsi has the sign of the dividend
        half = count // 2
        x = p.map("arith.remsi", x, p.constant(half, x.elem, x.shape))
        return p.map("arith.addi", x, p.constant(half, x.elem, x.shape))
    if way == 4:
        x = p.map("arith.remsi", x, p.constant(count, x.elem, x.shape))
        negative = p.op(f"arith.cmpi slt, {x}, {p.constant(0, x.elem, x.shape)} : {x.type}", "i1", x.shape)
        return p.select(negative, p.map("arith.addi", x, p.constant(count, x.elem, x.shape)), x)
    low = p.map("arith.maxsi", x, p.constant(0, x.elem, x.shape))
    return p.map("arith.minsi", low, p.constant(count - 1, x.elem, x.shape))


def hash_loads(r: Random, p: Program) -> None:
    """Writes a gather from indices that only a remainder, a mask or a shift keeps in range."""
    shape = p.shape(r, min(p.most, 1024))
    elem = r.choice(("i32", "i32", "i64"))
    local = p.cast(reduced(r, p, hashed(r, p, elem, shape), p.slab), "i32" if r.random() < 0.5 else elem)
    kind = p.element(r)
    array = p.array(r.choice(("in", "io")), kind)
    if local.elem == "i64":  # `pointers` computes with the type of the offsets
        local = p.cast(local, "i32")
    pointers = p.pointers(r, array, local)
    mask = p.mask(r, shape) if r.random() < 0.3 else None
    if mask is None:
        p.op(f"tt.load {pointers} : {pointers.type}", kind, shape, keep=True)
    else:
        p.op(
            f"tt.load {pointers}, {mask}, {p.random_constant(r, kind, shape)} : {pointers.type}",
            kind,
            shape,
            keep=True,
        )


def hash_scalar_loads(r: Random, p: Program) -> None:
    """Writes a load of a row whose index is a hash of the program id: a wide access at an address from
    arithmetic that wraps."""
    width = r.choice([w for w in (4, 16, 64) if 2 * w <= p.slab])
    elem, kind = r.choice(("i32", "i64")), p.element(r)
    row = reduced(r, p, hashed(r, p, elem, ()), p.slab // width)
    base = p.map("arith.muli", p.cast(row, "i32"), p.constant(width, "i32"))
    if r.random() < 0.3:
        base = p.map("arith.remsi", base, p.constant(p.slab - width + 1, "i32"))
    local = p.map("arith.addi", p.splat(base, (width,)), p.index((width,)))
    pointers = p.pointers(r, p.array("in", kind), local)
    p.op(f"tt.load {pointers} : {pointers.type}", kind, (width,), keep=True)


def hash_stores(r: Random, p: Program) -> None:
    """Writes a store to a permutation of the program's elements, by odd factors, sums and exclusive ors,
    masked to their number."""
    shape = p.shape(r, min(p.most, 1024))
    x = p.index(shape)
    for _ in range(r.randrange(1, 4)):
        if r.random() < 0.5:
            x = p.map("arith.muli", x, p.constant(r.choice(LARGE) | 1, "i32", shape))
        else:
            x = p.map(r.choice(("arith.addi", "arith.xori")), x, p.constant(r.choice(LARGE), "i32", shape))
    count = 1
    for extent in shape:
        count *= extent
    x = p.map("arith.andi", x, p.constant(count - 1, "i32", shape))
    value = p.value(r, p.element(r), shape)
    pointers = p.pointers(r, p.array("io", value.elem), x)
    mask = f", {p.mask(r, shape)}" if r.random() < 0.4 else ""
    p.line(f"tt.store {pointers}, {value}{mask} : {pointers.type}")


def small(r: Random, p: Program, elem: str, shape: Shape, high: int) -> Value:
    """Returns whole numbers from 0 to high, made from any values."""
    x = p.cast(p.value(r, p.element(r, ("i8", "i32", "i16")), shape), "i32")
    return p.cast(p.map("arith.andi", x, p.constant(high, "i32", shape)), elem)


def with_special(r: Random, p: Program, x: Value) -> Value:
    """Makes some elements infinite or NaN."""
    there = p.value(r, "i1", x.shape, 0.5)
    # one kind of infinity: +inf and -inf in one sum would give NaN, and fewer results would be compared
    bits = {"f16": ("0x7C00", "0x7E00"), "bf16": ("0x7F80", "0x7FC0"), "f32": ("0x7F800000", "0x7FC00000")}[
        x.elem
    ]
    constant = p.op(f"arith.constant dense<{r.choice(bits)}> : {x.type}", x.elem, x.shape)
    return p.select(there, constant, x)


def sides(r: Random, p: Program) -> tuple[int, int, int]:
    sizes = [s for s in (16, 32, 8, 4) if s * s <= p.most] or [1]
    return r.choice(sizes), r.choice(sizes), r.choice(sizes)


def masked_along_k(r: Random, p: Program, x: Value, axis: int) -> Value:
    """Zeroes the elements from a limit on along one axis; the limit may be known or not."""
    index = p.axis(x.shape[axis], axis, 2)
    known = r.random() < 0.4
    limit = p.constant(r.randrange(x.shape[axis] + 1), "i32") if known else p.value(r, "i32", ())
    inside = p.op(f"arith.cmpi slt, {index}, {p.splat(limit, index.shape)} : {index.type}", "i1", index.shape)
    if inside.shape != x.shape:
        inside = p.op(f"tt.broadcast {inside} : {inside.type} -> {type_text('i1', x.shape)}", "i1", x.shape)
    return p.select(inside, x, p.constant(0.0, x.elem, x.shape))


def dot(p: Program, a: Value, b: Value, c: Value) -> Value:
    return p.op(f"tt.dot {a}, {b}, {c} : {a.type} * {b.type} -> {c.type}", c.elem, c.shape)


def masked_dot(r: Random, p: Program) -> None:
    """Writes a product with one or both operands masked along the axis that is summed; the other may be
    infinite there."""
    m, n, k = sides(r, p)
    elem = r.choice(("f16", "bf16", "f32"))
    a, b = small(r, p, elem, (m, k), 3), small(r, p, elem, (k, n), 3)
    which = r.randrange(3)
    if which != 1:
        b = with_special(r, p, b)
    if which != 0:
        a = with_special(r, p, a)
    a = masked_along_k(r, p, a, 1) if which != 1 else a
    b = masked_along_k(r, p, b, 0) if which != 0 else b
    p.scope.append(dot(p, a, b, p.constant(0.0, "f32", (m, n))))


def half_dot(r: Random, p: Program) -> None:
    """Writes a product whose sums need more bits than its result has: rounded once, also as the running sum
    of a loop."""
    m, n, k = sides(r, p)
    high = r.choice((3, 15, 63))
    a, b = small(r, p, "f16", (m, k), high), small(r, p, "f16", (k, n), high)
    total = small(r, p, "f16", (m, n), 2047)
    if r.random() < 0.5:
        p.scope.append(dot(p, a, b, total))
        return
    name, inner = p.fresh(), Value(p.fresh(), "f16", (m, n))
    low, turns, one = (p.constant(number, "i32") for number in (0, r.randrange(1, 4), 1))
    p.line(
        f"{name} = scf.for {p.fresh()} = {low} to {turns} step {one} iter_args({inner} = {total}) -> ({total.type}) : i32 {{"
    )
    with p.nested():
        p.line(f"scf.yield {dot(p, a, b, inner)} : {total.type}")
    p.line("}")
    p.scope.append(Value(name, "f16", (m, n)))


def dot_loop(r: Random, p: Program) -> None:
    """Writes a product in a loop, whose operands may be masked, scaled and cast in the loop."""
    m, n, k = sides(r, p)
    elem = r.choice(("f16", "bf16", "f32"))
    a, b = small(r, p, elem, (m, k), 3), small(r, p, elem, (k, n), 3)
    name, inner, turn = p.fresh(), Value(p.fresh(), "f32", (m, n)), Value(p.fresh(), "i32")
    total = p.constant(0.0, "f32", (m, n))
    low, turns, one = (p.constant(number, "i32") for number in (0, r.randrange(1, 4), 1))
    p.line(
        f"{name} = scf.for {turn} = {low} to {turns} step {one} iter_args({inner} = {total}) -> ({total.type}) : i32 {{"
    )
    with p.nested(turn):
        left, right = a, b
        if r.random() < 0.5:
            left = masked_along_k(r, p, left, 1)
        if r.random() < 0.5:
            right = masked_along_k(r, p, right, 0)
        if r.random() < 0.4:
            left = p.map("arith.mulf", left, p.constant(2.0, elem, left.shape))
        product = dot(p, left, right, inner)
        if r.random() < 0.3:
            product = p.cast(p.cast(product, "f16"), "f32")
        p.line(f"scf.yield {product} : {total.type}")
    p.line("}")
    p.scope.append(Value(name, "f32", (m, n)))


def fusable(r: Random, p: Program) -> None:
    """Writes products that sums and differences use once or more: fast numerics rounds these one time less."""
    elem, shape = p.element(r, FLOATS), p.shape(r)
    x, y, total = (p.value(r, elem, shape) for _ in range(3))
    for _ in range(r.randrange(1, 4)):
        product = p.map("arith.mulf", x, y, keep=r.random() < 0.2)
        operands = (product, total) if r.random() < 0.5 else (total, product)
        total = p.map(r.choice(("arith.addf", "arith.subf")), *operands, keep=r.random() < 0.3)
        y = r.choice((total, y, p.value(r, elem, shape)))
    p.scope.append(total)


def branches(r: Random, p: Program) -> None:
    """Writes basic blocks that branch to each other, which are only possible outside of loops."""
    (r.choice((diamond, ring)) if p.depth == 0 else branch)(r, p)


def assumed(r: Random, p: Program) -> None:
    """Writes a true assumption about an index that is used afterwards."""
    x = p.map("arith.andi", p.value(r, "i32", ()), p.constant(7, "i32"))
    holds = p.op(f"arith.cmpi {r.choice(('sge', 'uge'))}, {x}, {p.constant(0, 'i32')} : i32", "i1")
    p.line(f"llvm.intr.assume {holds} : i1")
    p.scope.append(p.map("arith.muli", x, p.constant(r.choice((2, 16, -3)), "i32")))


STATEMENTS: tuple[tuple[int, Callable[[Random, Program], None]], ...] = (
    (6, hash_loads), (5, hash_scalar_loads), (4, hash_stores), (4, masked_dot), (4, half_dot), (3, dot_loop), (2, assumed),
    (4, fusable), (2, call), (2, near), (4, branches),
)  # fmt: skip
