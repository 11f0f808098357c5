"""Writes the text of a kernel operation by operation, with a fault or two."""

from __future__ import annotations

import random
from collections.abc import Sequence

from joinery.lowering.prove.specify.specification import Specification

_LIKE = {
    "addi": ["subi", "ori"], "subi": ["addi"], "muli": ["addi", "shli"], "divsi": ["divui", "remsi"], "divui": ["divsi"],
    "remsi": ["remui", "divsi"], "remui": ["remsi"], "minsi": ["maxsi", "minui"], "maxsi": ["minsi", "maxui"],
    "minui": ["minsi"], "andi": ["ori"], "ori": ["andi", "addi"], "xori": ["ori", "addi"], "shli": ["shrui"],
    "shrsi": ["shrui"], "shrui": ["shrsi"],
}  # fmt: skip
_NEAR = {
    "slt": ["sle", "ult", "sgt"], "sle": ["slt", "ule"], "sgt": ["sge"], "sge": ["sgt", "ne"], "ult": ["ule", "slt"],
    "ule": ["ult"], "eq": ["ne", "sge"], "ne": ["eq"],
}  # fmt: skip
_WIDTHS = ["i8", "i8", "i16", "i32", "i32", "i32", "i64"]
Scope = dict[str, list[str]]


class Writer:
    """Writes operations, and makes faults now and then: another operation, operand, number, predicate, cast."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.width = rng.choice(_WIDTHS)
        self.size = rng.choice([4, 4, 8])
        self.elements = {
            "x": rng.choice(["i32", "i32", "i64", "i8"]),
            "y": "i32",
            "z": "i32",
            "t": rng.choice([self.width, self.width, "i32"]),
        }
        self.lines: list[str] = []
        self.scope: Scope = {}
        self.count = 0
        self.depth = 0
        self.faults = rng.choice([0, 0, 0, 1, 1, 1, 2, 3])
        self.used = {"x"}
        self.assume: list[str] = []
        self.grid = ""

    # Text

    def emit(self, text: str) -> None:
        self.lines.append("  " * (self.depth + 1) + text)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}q"

    def made(self, text: str, kind: str) -> str:
        name = f"%{self.fresh()}"
        self.emit(f"{name} = {text}")
        self.scope.setdefault(kind, []).append(name)
        return name

    def goes_wrong(self, chance: float = 0.04) -> bool:
        if self.faults and self.rng.random() < chance:
            self.faults -= 1
            return True
        return False

    def other(self, name: str, kind: str) -> str:
        own = self.scope.get(kind, [])
        return self.rng.choice(own) if own and self.goes_wrong(0.02) else name

    def op(self, operation: str, left: str, right: str, kind: str) -> str:
        if self.goes_wrong() and operation in _LIKE:
            operation = self.rng.choice(_LIKE[operation])
        if self.goes_wrong(0.01):
            left, right = right, left
        return self.made(
            f"arith.{operation} {self.other(left, kind)}, {self.other(right, kind)} : {kind}", kind
        )

    def compare(self, predicate: str, left: str, right: str, kind: str) -> str:
        if self.goes_wrong():
            predicate = self.rng.choice(_NEAR[predicate])
        to = kind.replace(kind.split("x")[-1].rstrip(">"), "i1") if kind.startswith("tensor") else "i1"
        return self.made(
            f"arith.cmpi {predicate}, {self.other(left, kind)}, {self.other(right, kind)} : {kind}", to
        )

    def number(self, value: int, kind: str) -> str:
        if self.goes_wrong(0.03):
            value += self.rng.choice([-1, 1, value])
        text = str(value)
        if kind.startswith("tensor"):
            text = f"dense<{value}>"
        return self.made(f"arith.constant {text} : {kind}", kind)

    def block(self, kind: str, *shape: int) -> str:
        return f"tensor<{'x'.join(map(str, shape or (self.size,)))}x{kind}>"

    @property
    def own(self) -> str:
        return self.block(self.width)

    def splat(self, scalar: str, kind: str = "", *shape: int) -> str:
        kind = kind or self.width
        to = self.block(kind, *shape)
        return self.made(f"tt.splat {self.other(scalar, kind)} : {kind} -> {to}", to)

    def cast(self, name: str, kind: str, to: str, is_signed: bool = True) -> str:
        """Casts a number or a block to another width."""
        bits, wanted = [int(each.split("x")[-1].strip("i>")) for each in (kind, to)]
        if bits == wanted:
            return name
        operation = "trunci" if bits > wanted else "extsi" if is_signed != self.goes_wrong(0.03) else "extui"
        return self.made(f"arith.{operation} {name} : {kind} to {to}", to)


def can_hold(assume: Sequence[str], values: Sequence[int]) -> bool:
    """Whether assumptions hold for some sizes, small ones or these: others are refused, and try nothing."""
    parsed = Specification.of(assume, {}, "1").parsed()
    tried = (*range(-4, 40), *values)
    return any(parsed.holds({"n": n, "m": m, "grid_x": 1}) for n in tried for m in tried)


__all__ = ["Writer", "can_hold"]
