"""Writes control flow of random programs, and the programs as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from .programs import INTEGERS, Program, Value
from .statements import EFFECTS, SIMPLE, Statement

DEEPEST = 3


def statement(r: Random, p: Program) -> None:
    kinds = list(SIMPLE)
    if not p.pure:
        kinds += (*EFFECTS, *p.more)
    if p.depth < DEEPEST:
        kinds += NESTED
        if not p.pure:
            kinds += ((1, pointers_that_move), (1, call))
    if p.depth == 0 and not p.pure:
        kinds += FLAT
    weights, statements = zip(*kinds, strict=True)
    r.choices(statements, weights)[0](r, p)


def some(r: Random, p: Program) -> None:
    for _ in range(r.randrange(1, 5)):
        statement(r, p)


def carried(r: Random, p: Program) -> list[Value]:
    return [p.value(r, p.element(r), p.shape(r)) for _ in range(r.randrange(4))]


def types(values: list[Value]) -> str:
    return ", ".join(value.type for value in values)


def names(values: list[Value]) -> str:
    return ", ".join(map(str, values))


def again(r: Random, p: Program, values: list[Value]) -> list[Value]:
    """Returns other values of the same types."""
    return [p.value(r, value.elem, value.shape, 0.1) for value in values]


def named(p: Program, values: list[Value]) -> list[Value]:
    return [Value(p.fresh(), value.elem, value.shape) for value in values]


def results(p: Program, values: list[Value]) -> tuple[str, list[Value]]:
    """Returns the left side of an operation with these results, and the results."""
    if not values:
        return "", []
    name = p.fresh()
    if len(values) == 1:
        return f"{name} = ", [Value(name, values[0].elem, values[0].shape)]
    return f"{name}:{len(values)} = ", [Value(f"{name}#{i}", v.elem, v.shape) for i, v in enumerate(values)]


def bound(r: Random, p: Program, elem: str) -> Value:
    """Returns a small number, which the compiler may know or not."""
    if r.random() < 0.4:
        return p.constant(r.choice((0, 1, 2, 3, -1)), elem)
    x = p.value(r, elem, ())
    return p.map("arith.andi", x, p.constant(3, elem))


def for_loop(r: Random, p: Program) -> None:
    elem = r.choice(("i32", "i32", "i64"))
    low, high, step = bound(r, p, elem), bound(r, p, elem), p.constant(r.choice((1, 1, 2, 3)), elem)
    inits = carried(r, p)
    left, found = results(p, inits)
    index, inner = Value(p.fresh(), elem), named(p, inits)
    pairs = ", ".join(f"{a} = {b}" for a, b in zip(inner, inits, strict=True))
    head = f"iter_args({pairs}) -> ({types(inits)}) " if inits else ""
    p.line(f"{left}scf.for {index} = {low} to {high} step {step} {head} : {elem} {{")
    with p.nested(index, *inner):
        some(r, p)
        if inits:
            p.line(f"scf.yield {names(again(r, p, inits))} : {types(inits)}")
    p.line("}")
    p.scope += found


def while_loop(r: Random, p: Program) -> None:
    """Writes a loop of at most three iterations, which may end earlier by a random condition."""
    counter = p.constant(0, "i32")
    inits = [counter, *carried(r, p)]
    left, found = results(p, inits)
    inner = named(p, inits)
    pairs = ", ".join(f"{a} = {b}" for a, b in zip(inner, inits, strict=True))
    p.line(f"{left}scf.while ({pairs}) : ({types(inits)}) -> ({types(inits)}) {{")
    with p.nested(*inner[1:]):
        some(r, p)
        goes = p.op(f"arith.cmpi slt, {inner[0]}, {p.constant(r.randrange(4), 'i32')} : i32", "i1")
        if r.random() < 0.5:
            goes = p.map("arith.andi", goes, p.value(r, "i1", ()))
        passed = [inner[0], *again(r, p, inits[1:])]
        p.line(f"scf.condition({goes}) {names(passed)} : {types(inits)}")
    after = named(p, inits)
    p.line("} do {")
    p.line(f"^bb0({', '.join(f'{value}: {value.type}' for value in after)}):")
    with p.nested(*after):
        some(r, p)
        following = p.map("arith.addi", after[0], p.constant(1, "i32"))
        p.line(f"scf.yield {names([following, *again(r, p, inits[1:])])} : {types(inits)}")
    p.line("}")
    p.scope += found


def branch(r: Random, p: Program) -> None:
    condition, outputs = p.value(r, "i1", ()), carried(r, p)
    left, found = results(p, outputs)
    p.line(f"{left}scf.if {condition} {f'-> ({types(outputs)}) ' if outputs else ''}{{")
    for side in range(2 if outputs or r.random() < 0.5 else 1):
        if side:
            p.line("} else {")
        with p.nested():
            some(r, p)
            if outputs:
                p.line(f"scf.yield {names(again(r, p, outputs))} : {types(outputs)}")
    p.line("}")
    p.scope += found


def pointers_that_move(r: Random, p: Program) -> None:
    """Writes a loop that carries a block of pointers and the values read through them."""
    elem, shape = p.element(r), p.shape(r, min(p.most, p.slab // 8))
    step, turns = r.choice((1, 2, p.slab // 8)), r.randrange(4)
    start = p.map("arith.andi", p.places(r, shape), p.constant(p.slab // 4 - 1, "i32", shape))
    pointers = p.pointers(r, p.array(r.choice(("in", "io")), elem), start)
    total = p.value(r, elem, shape)
    low, high, one = (p.constant(number, "i32") for number in (0, turns, 1))
    name, index, at, sum_ = (p.fresh() for _ in range(4))
    carried_types = f"{pointers.type}, {total.type}"
    p.line(
        f"{name}:2 = scf.for {index} = {low} to {high} step {one} iter_args({at} = {pointers}, {sum_} = {total}) "
        f"-> ({carried_types}) : i32 {{"
    )
    with p.nested():
        read = p.op(f"tt.load {at} : {pointers.type}", elem, shape)
        kind = "arith.xori" if elem in INTEGERS else "arith.addf"
        new = p.map(kind, Value(sum_, elem, shape), read)
        offset = p.constant(step, "i32", shape)
        moved = p.op(f"tt.addptr {at}, {offset} : {pointers.type}, {offset.type}", pointers.elem, shape)
        p.line(f"scf.yield {moved}, {new} : {carried_types}")
    p.line("}")
    p.scope.append(Value(f"{name}#1", elem, shape))
    if r.random() < 0.5:
        p.op(f"tt.load {name}#0 : {pointers.type}", elem, shape, keep=True)


def call(r: Random, p: Program) -> None:
    """Writes a function of blocks and scalars, with loops and branches of its own, and a call of it."""
    arguments = [p.value(r, p.element(r), p.shape(r)) for _ in range(r.randrange(1, 4))]
    inner = Program(p.grid, p.most, p.slab, pure=True, depth=1)
    inside = named(inner, arguments)
    inner.scope += inside
    some(r, inner)
    returned = inner.scope[-r.randrange(1, 3) :]
    symbol = f"@g{len(p.functions)}"
    parameters = ", ".join(f"{value}: {value.type}" for value in inside)
    given = f" -> ({types(returned)})" if len(returned) > 1 else f" -> {types(returned)}"
    lines = "\n".join(inner.lines)
    p.functions.append(
        f"tt.func private {symbol}({parameters}){given} {{\n{lines}\n  tt.return {names(returned)} : {types(returned)}\n}}"
    )
    left, found = results(p, returned)
    p.line(f"{left}tt.call {symbol}({names(arguments)}) : ({types(arguments)}) -> ({types(returned)})")
    p.scope += found


# Branches between blocks


def label(p: Program) -> str:
    """Returns a name for a later block."""
    p.count += 1
    return f"^b{p.count}"


def begin(p: Program, name: str, arguments: list[Value]) -> None:
    listed = f"({', '.join(f'{value}: {value.type}' for value in arguments)})" if arguments else ""
    p.lines.append(f"{name}{listed}:")


def to(name: str, values: list[Value]) -> str:
    return f"{name}({names(values)} : {types(values)})" if values else name


def diamond(r: Random, p: Program) -> None:
    condition, given, outputs = p.value(r, "i1", ()), carried(r, p), carried(r, p)
    sides, join = [label(p), label(p)], label(p)
    p.line(f"cf.cond_br {condition}, {to(sides[0], given)}, {to(sides[1], given)}")
    for side in sides:
        arguments = named(p, given)
        begin(p, side, arguments)
        known = list(p.scope)
        p.scope += arguments
        some(r, p)
        p.line(f"cf.br {to(join, again(r, p, outputs))}")
        p.scope = known
    merged = named(p, outputs)
    begin(p, join, merged)
    p.scope += merged


def ring(r: Random, p: Program) -> None:
    """Writes a loop of basic blocks, of at most three iterations."""
    inits = [p.constant(0, "i32"), *carried(r, p)]
    head, body, end = label(p), label(p), label(p)
    p.line(f"cf.br {to(head, inits)}")
    arguments = named(p, inits)
    begin(p, head, arguments)
    p.scope += arguments[1:]
    some_values = again(r, p, inits[1:2])
    goes = p.op(f"arith.cmpi slt, {arguments[0]}, {p.constant(r.randrange(4), 'i32')} : i32", "i1")
    p.line(f"cf.cond_br {goes}, {to(body, some_values)}, {to(end, some_values)}")
    inner = named(p, some_values)
    begin(p, body, inner)
    known = list(p.scope)
    p.scope += inner
    some(r, p)
    following = p.map("arith.addi", arguments[0], p.constant(1, "i32"))
    p.line(f"cf.br {to(head, [following, *again(r, p, inits[1:])])}")
    p.scope = known
    last = named(p, some_values)
    begin(p, end, last)
    p.scope += last


NESTED: tuple[tuple[int, Statement], ...] = ((2, for_loop), (1, while_loop), (2, branch))
FLAT: tuple[tuple[int, Statement], ...] = ((1, diamond), (1, ring))


def program(seeds: list[int], size: int = 0, more: Sequence[tuple[int, Statement]] = ()) -> Program:
    """Writes the program of these seeds. `size` 0: blocks of at most 64 elements, 1: of 4096, 2: of 2**20; `more`:
    statements, with their weights, besides the usual ones."""
    r = Random(repr(seeds[:1]))
    most = (64, 4096, 1 << 20)[size]
    grid = r.choice(((1, 1), (3, 1), (2, 2))) if size < 2 else (1, 1)
    p = Program(grid, most, most * r.choice((1, 2)) if size < 2 else most, more=more)
    with_blocks = r.random() < 0.3
    for seed in seeds:
        chosen = Random(seed)
        p.depth = 0 if with_blocks else 1  # branches between basic blocks are written at depth 0 only
        statement(chosen, p)
    p.depth = 0
    r = Random(repr(seeds))
    seen = [value for value in p.scope if value.shape or r.random() < 0.5]
    for value in seen[-3:] + r.sample(seen, min(6, len(seen))):
        p.keep(value)
    return p


__all__ = ["program"]
