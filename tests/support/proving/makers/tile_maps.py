"""Makes kernels that map programs to tiles: rows and columns, groups of rows, batches, to and fro, right and nearly right.

A map is a tree of its own, which Python computes for every program of small launches: whether two of them store one element
is known without the prover, the interpreter and the sanitizer.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Tree = Any
"""A size by its name, "p" for the program, a number, or (operation, left, right)."""

_OPERATIONS = {"+": "addi", "-": "subi", "*": "muli", "//": "divsi", "%": "remsi", "min": "minsi", "max": "maxsi"}
_HALF = {"i8": 1 << 7, "i32": 1 << 31}


class TileMap(NamedTuple):
    """A kernel that stores one element for each program, at an offset below `e` where that is not masked.

    Attributes:
        offset: where, by the program and the sizes a and b.
        programs: how many there are, as specifications say it; `count` is the same as a tree.
        kind: of all numbers, "i8" or "i32".
    """

    offset: Tree
    programs: str
    count: Tree
    assume: tuple[str, ...]
    kind: str

    def text(self) -> str:
        """The kernel."""
        lines: list[str] = []
        known: dict[str, str] = {"a": "%a", "b": "%b", "p": "%pk"}
        kind = self.kind

        def write(tree: Tree) -> str:
            key = repr(tree) if not isinstance(tree, str) else tree
            if key not in known:
                if isinstance(tree, int):
                    made = f"arith.constant {tree} : {kind}"
                else:
                    operation, left, right = tree
                    made = f"arith.{_OPERATIONS[operation]} {write(left)}, {write(right)} : {kind}"
                known[key] = f"%v{len(known)}x"
                lines.append(f"{known[key]} = {made}")
            return known[key]

        offset = write(self.offset)
        zero = write(0)
        program = "%pk = arith.trunci %p : i32 to i8" if kind == "i8" else "%pk = arith.addi %p, %none : i32"
        body = "\n  ".join(lines)
        return f"""tt.func public @k(%x: !tt.ptr<i32>, %a: {kind}, %b: {kind}, %e: {kind}) {{
  %p = tt.get_program_id x : i32
  %none = arith.constant 0 : i32
  {program}
  {body}
  %is0 = arith.cmpi sge, {offset}, {zero} : {kind}
  %is1 = arith.cmpi slt, {offset}, %e : {kind}
  %is = arith.andi %is0, %is1 : i1
  %at = tt.addptr %x, {offset} : !tt.ptr<i32>, {kind}
  tt.store %at, %p, %is : !tt.ptr<i32>
  tt.return
}}"""

    def launches(self, sizes: range) -> Iterator[dict[str, int]]:
        """Yields sizes that the assumptions allow, with as many elements as offsets may reach."""
        for a, b in itertools.product(sizes, repeat=2):
            if all(_holds(text, a, b) for text in self.assume):
                yield {"a": a, "b": b, "e": _HALF[self.kind] - 1}

    def clash(self, numbers: Mapping[str, int]) -> tuple[int, int, int] | None:
        """Two programs of a launch, and the element that both store; None if there are none."""
        stored: dict[int, int] = {}
        for program in range(max(0, computed(self.count, {**numbers, "p": 0}, "i32"))):
            value = computed(self.offset, {**numbers, "p": _wrapped(program, self.kind)}, self.kind)
            if 0 <= value < numbers["e"] and stored.setdefault(value, program) != program:
                return stored[value], program, value
        return None


def _holds(text: str, a: int, b: int) -> bool:
    return bool(eval(text, {"a": a, "b": b}))


def _wrapped(value: int, kind: str) -> int:
    half = _HALF[kind]
    return (value + half) % (2 * half) - half


def computed(tree: Tree, numbers: Mapping[str, int], kind: str) -> int:
    """What a kernel computes: sums and products wrap, quotients are truncated, x / 0 is 0 and x % 0 is x."""
    if isinstance(tree, str):
        return numbers[tree]
    if isinstance(tree, int):
        return tree
    operation, x, y = tree[0], computed(tree[1], numbers, kind), computed(tree[2], numbers, kind)
    if operation in ("//", "%"):
        quotient = 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return _wrapped(quotient if operation == "//" else x - quotient * y, kind)
    if operation in ("min", "max"):
        return min(x, y) if operation == "min" else max(x, y)
    return _wrapped({"+": x + y, "-": x - y, "*": x * y}[operation], kind)


def _cdiv(size: Tree, block: int) -> Tree:
    return ("//", ("+", size, block - 1), block)


def tile_map(rng: random.Random) -> TileMap:
    """A map that is right, but for up to two faults."""
    block, group, batch = rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 3, 4]), rng.choice([2, 3])
    rows, columns = (_cdiv(size, block) if block > 1 else size for size in ("a", "b"))
    count = ("*", rows, columns)
    said = "*".join(f"cdiv({each}, {block})" if block > 1 else each for each in ("a", "b"))
    kind = rng.choice(["plain", "grouped", "grouped", "grouped", "batched", "to and fro", "turned", "rests"])
    p: Tree = "p"
    if kind == "batched":
        count, said = ("*", count, batch), f"{said}*{batch}"
        row, column = ("//", p, columns), ("%", p, columns)
        inner = ("%", row, rows)
        offset = ("+", ("*", ("//", row, rows), ("*", rows, columns)), ("+", ("*", inner, columns), column))
    elif kind == "grouped":
        width = ("*", columns, group)
        number = ("//", p, width)
        first = ("*", number, group)
        size = ("min", ("-", rows, first), group)
        inside = ("%", p, width) if rng.random() < 0.7 else ("-", p, ("*", number, width))
        row, column = ("+", first, ("%", inside, size)), ("//", inside, size)
        offset = ("+", ("*", row, columns), column)
    elif kind == "to and fro":
        row, column = ("//", p, columns), ("%", p, columns)
        odd = ("%", row, 2)
        turned = ("+", ("*", odd, ("-", ("-", columns, 1), ("*", column, 2))), column)
        offset = ("+", ("*", row, columns), turned)
    elif kind == "rests":
        width = ("max", columns, 1)
        offset = ("+", ("*", ("%", p, width), rows), ("//", p, width))
    else:
        row, column = ("//", p, columns), ("%", p, columns)
        offset = ("+", ("*", column, rows), row) if kind == "turned" else ("+", ("*", row, columns), column)
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        offset = _faulty(rng, offset)
    least = rng.choice([-2, 0, 1, 1, 1])
    assume = (f"a >= {least}", f"b >= {least}", *rng.choice([(), (), ("a >= b",), ("b % 2 == 0",), ("a <= 9",)]))
    return TileMap(offset, said, count, assume, rng.choice(["i32", "i32", "i8"]))


def _faulty(rng: random.Random, tree: Tree) -> Tree:
    """The same with one place changed: another operation, size or number."""
    if not isinstance(tree, tuple) or rng.random() < 0.2:
        if isinstance(tree, int):
            return max(0, tree + rng.choice([-1, 1]))
        if isinstance(tree, str):
            return rng.choice([each for each in ("a", "b", 2) if each != tree])
        operation, left, right = tree
        near = {"+": "-", "-": "+", "*": "+", "//": "%", "%": "//", "min": "max", "max": "min"}
        return (near[operation], left, right)
    operation, left, right = tree
    if rng.random() < 0.5:
        return (operation, _faulty(rng, left), right)
    return (operation, left, _faulty(rng, right))


__all__ = ["TileMap", "computed", "tile_map"]
