"""Has what kernels that load from tables have in common: indices that wrap, reads that bring conditions, and launches.

A proof looks at a kernel under several conditions, and terms of few programs are others than those of many: an index that is
computed in 8 bits wraps from the fifth program on, and the grid, or an array that is read, says of four that sizes fit 32 bits.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from ..writing import Writer

LANES = 4
_FEW = 29
"""m is from 2**29 * (n - 1) + 1 to 2**29 * n: with at most 2**31 there are four programs."""
LIMITS = ("y", "z")
"""Arrays that are there for the conditions alone: launches have few of their elements, and nothing is said of them."""


class Launch(NamedTuple):
    """Sizes by name, the number of programs, and the arguments."""

    sizes: dict[str, int]
    programs: int
    arguments: list[Any]


class TableWriter(Writer):
    """Writes kernels whose accesses are at indices that are loaded."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.size, self.width = LANES, "i32"
        self.many = rng.random() < 0.6
        self.programs = f"cdiv(m, 2**{_FEW})" if self.many else "n"
        self.extents = {"y": "k + c", "z": "m + c" if self.many else f"2**{_FEW} * n"}

    def vectors(self) -> tuple[str, str]:
        """The program and the lane, as blocks of 32 bits."""
        own = self.block("i32")
        lanes = self.made(f"tt.make_range {{end = {LANES} : i32, start = 0 : i32}} : {own}", own)
        return self.splat("%p", "i32"), lanes

    def wrapping(self, name: str, kind: str) -> str:
        """A number that is computed in 8 bits, and is itself as long as it is small."""
        shift = self.rng.choice([5, 5, 5, 5, 5, 6, 4])
        narrow = kind.replace("i32", "i8")
        found = self.op("muli", self.cast(name, kind, narrow), self.number(1 << shift, narrow), narrow)
        found = self.op("shrsi", found, self.number(shift, narrow), narrow)
        return self.cast(found, narrow, kind, self.rng.random() < 0.8)

    def affine(self, terms: list[tuple[str, int]], added: int, kind: str) -> str:
        """A sum of products, which wraps now and then."""
        rng = self.rng
        found = self.number(added, kind)
        for name, factor in terms:
            wraps = rng.random() < 0.35
            term = self.op("muli", self.wrapping(name, kind) if wraps else name, self.number(factor, kind), kind)
            found = self.op("addi", found, term, kind)
        return found

    def address(self, array: str, element: str, index: str, kind: str) -> tuple[str, str]:
        """A pointer, or a block of these, and its type."""
        pointer = f"!tt.ptr<{element}>"
        base, to = f"%{array}", pointer
        if kind.startswith("tensor"):
            to = self.block(pointer)
            base = self.made(f"tt.splat {base} : {pointer} -> {to}", "")
        return self.made(f"tt.addptr {base}, {index} : {to}, {kind}", ""), to

    def climb(self, index: str, kind: str) -> None:
        """Reads at an index that is known where k is small, of an array whose extent is small for few programs."""
        wide = kind.replace("i32", "i64")
        k = self.splat("%k", "i32") if kind.startswith("tensor") else "%k"
        far = self.made(f"arith.addi {index}, {k} : {kind}", "")
        address, to = self.address("y", "i8", far, kind)
        self.made(f"tt.load {address} : {to}", "")
        one, two = [self.made(f"arith.extsi {each} : {kind} to {wide}", "") for each in (far, k)]
        back = self.made(f"arith.subi {one}, {two} : {wide}", "")
        address, to = self.address("z", "i8", back, wide)
        self.made(f"tt.load {address} : {to}", "")

    def module(self, parameters: str, loop: int) -> str:
        """The text of the kernel. loop: how often the body runs; 0: there is none."""
        body = "\n".join(self.lines)
        if loop:
            body = f"  %last = arith.constant {loop} : i32\n  scf.for %t = %zero to %last step %one : i32 {{\n{body}\n  }}"
        head = "  %zero = arith.constant 0 : i32\n  %one = arith.constant 1 : i32\n  %p = tt.get_program_id x : i32"
        return f"tt.func public @k({parameters}) {{\n{head}\n{body}\n  tt.return\n}}\n"

    def assumptions(self) -> list[str]:
        """What is assumed of sizes."""
        return ["m >= 1", f"m <= 2**{_FEW} * 16"] if self.many else ["n >= 0", "n <= 16"]

    def sizes(self, rng: random.Random) -> dict[str, int]:
        """Sizes of a launch of up to ten programs, but for those that a kernel says itself."""
        programs = rng.choice([1, 2, 3, 4, 5, 8, 9, 9, 10])
        found = {"k": rng.randrange(4), "n": programs}
        if self.many:
            found["m"] = (programs << _FEW) - rng.choice([0, 1, (1 << _FEW) - 1])
        return found


__all__ = ["LANES", "LIMITS", "Launch", "TableWriter"]
