"""Makes kernels whose loops carry integers that do not grow evenly: binary searches, walks, rings, exchanges, nearly right.

Numbers are of 8 bits more often than not, so that sums of two ends wrap in small launches, and so do counters.
"""

from __future__ import annotations

import random

from .random_kernels import RandomKernel
from .writing import Writer, can_hold

_EXTENTS = ["n", "n + 1", "n + 1", "m", "max(n, 0)", "max(n, m) + 1", "9", "64", "128"]
_LIMITS = [3, 4, 7, 8]


class _Maker(Writer):
    """Writes one kernel."""

    def lanes(self) -> str:
        made = self.made(f"tt.make_range {{end = {self.size} : i32, start = 0 : i32}} : {self.block('i32')}", "")
        return self.cast(made, self.block("i32"), self.own)

    def access(self, index: str, kind: str, is_store: bool = False, base: str = "") -> str | None:
        """An access to an array by an index, with a mask now and then."""
        rng, is_block = self.rng, kind.startswith("tensor")
        name = base or rng.choice(["x", "x", "y"])
        element = self.elements[name]
        pointer = f"!tt.ptr<{element}>"
        to, own = (self.block(pointer), self.block(element)) if is_block else (pointer, element)
        at = self.made(f"tt.splat %{name} : {pointer} -> {to}", "") if is_block else f"%{name}"
        at = self.made(f"tt.addptr {at}, {index} : {to}, {kind}", "")
        mask = ""
        if rng.random() < 0.3:
            limit = rng.choice(["%n", "%m"])
            mask = ", " + self.compare("slt", index, self.splat(limit) if is_block else limit, kind)
        if is_store:
            self.emit(f"tt.store {at}, {self.number(rng.choice([1, 7]), own)}{mask} : {to}")
            return None
        return self.made(f"tt.load {at}{mask} : {to}", own)

    def decided(self, index: str, kind: str) -> str:
        """A condition that data decides, or the index."""
        rng = self.rng
        if rng.random() < 0.75:
            loaded = self.access(index, kind, base="x")
            own = self.block(self.elements["x"]) if kind.startswith("tensor") else self.elements["x"]
            return self.compare("slt", loaded or "", self.number(rng.choice([0, 3, 8]), own), own)
        limit = self.number(rng.choice([0, 1, 3, 8]), kind)
        return self.compare(rng.choice(["slt", "sge", "eq", "ult"]), index, limit, kind)

    def select(self, condition: str, yes: str, no: str, kind: str) -> str:
        one = f"{kind.rsplit('x', 1)[0]}xi1>" if kind.startswith("tensor") else ""
        types = f"{one}, {kind}" if one else kind
        return self.made(f"arith.select {condition}, {yes}, {no} : {types}", kind)

    def middle(self, low: str, high: str, kind: str) -> str:
        rng = self.rng
        two = self.number(2, kind)
        if rng.random() < 0.4:
            half = self.op("divsi", self.op("subi", high, low, kind), two, kind)
            return self.op("addi", low, half, kind)
        total = self.op("addi", low, high, kind)
        if rng.random() < 0.3:
            return self.op("shrsi", total, self.number(1, kind), kind)
        return self.op("divsi", total, two, kind)

    def searched(self, carried: list[str], kind: str) -> list[str]:
        """Two ends that come nearer to each other."""
        low, high, *rest = carried
        middle = self.middle(low, high, kind)
        up = self.decided(middle, kind)
        beyond = self.op("addi", middle, self.number(1, kind), kind) if self.rng.random() < 0.6 else middle
        low, high = self.select(up, beyond, low, kind), self.select(up, high, middle, kind)
        return [low, high, *rest]

    def walked(self, carried: list[str], kind: str) -> list[str]:
        """One number that goes here and there within limits, or nearly."""
        rng = self.rng
        first, *rest = carried
        step = self.number(rng.choice([1, 1, 2, 3, -1, 40]), kind)
        moved = self.op(rng.choice(["addi", "addi", "subi", "muli"]), first, step, kind)
        match rng.randrange(6):
            case 0:
                moved = self.op("minsi", moved, rng.choice([*rest, self.number(rng.choice([3, 8, 100]), kind)]), kind)
            case 1:
                moved = self.op("maxsi", self.op("minsi", moved, self.number(8, kind), kind), self.number(0, kind), kind)
            case 2:
                limit = self.number(rng.choice(_LIMITS), kind)
                moved = self.op(rng.choice(["remsi", "remui", "andi"]), moved, limit, kind)
            case 3:
                is_below = self.compare("slt", first, rng.choice([*rest, self.number(8, kind)]), kind)
                moved = self.select(is_below, moved, first, kind)
            case 4:
                moved = self.select(self.decided(first, kind), moved, self.number(rng.choice([0, 0, 1]), kind), kind)
            case _:
                moved = self.select(self.decided(first, kind), rng.choice([first, *rest]), first, kind)
        return [moved, *rest]

    def exchanged(self, carried: list[str], kind: str) -> list[str]:
        """The carried numbers in another order, or what the loop starts with."""
        rng = self.rng
        found = list(carried)
        rng.shuffle(found)
        if rng.random() < 0.4:
            found[0] = rng.choice(self.starts)
        return found

    def body(self, carried: list[str], kind: str) -> list[str]:
        rng = self.rng
        if rng.random() < 0.4:
            self.access(rng.choice(carried), kind, rng.random() < 0.3)
        way = rng.choice([self.searched, self.searched, self.walked, self.walked, self.exchanged])
        if len(carried) == 1:
            way = self.walked
        if self.depth < 3 and rng.random() < 0.15:
            carried = self.looped(kind, carried)
        if rng.random() < 0.35 and not kind.startswith("tensor"):
            names, types = [f"%{self.fresh()}" for _ in carried], ", ".join([kind] * len(carried))
            last = carried[-1] if len(carried) > 1 else "%m"
            is_open = self.compare(rng.choice(["slt", "slt", "sle", "ne"]), carried[0], last, kind)
            tag = self.fresh()
            self.emit(f"%{tag}:{len(names)} = scf.if {is_open} -> ({types}) {{")
            self.depth += 1
            outer = {own: list(known) for own, known in self.scope.items()}
            following = way(carried, kind)
            self.emit(f"scf.yield {', '.join(following)} : {types}")
            self.scope = outer
            self.depth -= 1
            self.emit("} else {")
            self.emit(f"  scf.yield {', '.join(carried)} : {types}")
            self.emit("}")
            return [f"%{tag}#{number}" for number in range(len(names))]
        return way(carried, kind)

    def looped(self, kind: str, starts: list[str]) -> list[str]:
        """A loop with carried numbers. Returns what it leaves."""
        rng, tag, count = self.rng, self.fresh(), len(starts)
        around, self.starts = self.starts, starts  # where this loop ends, what others begin with is not to be seen
        names = [f"%a{each}{tag}" for each in range(count)]
        types = ", ".join([kind] * count)
        pairs = ", ".join([f"{name} = {start}" for name, start in zip(names, starts, strict=True)])
        is_while = rng.random() < 0.25 and not kind.startswith("tensor")
        if is_while:  # it ends by a counter of its own, whatever the others do
            zero = self.number(0, "i32")
            head = f"%{tag}:{count + 1} = scf.while ({pairs}, %c{tag} = {zero})"
            self.emit(f"{head} : ({types}, i32) -> ({types}, i32) {{")
        else:
            zero, step = self.number(0, self.width), self.number(rng.choice([1, 1, 1, 2, 3]), self.width)
            end = rng.choice(["%n", "%m", self.number(rng.choice([0, 2, 5]), self.width)])
            head = f"%{tag}:{count} = scf.for %i{tag} = {zero} to {end} step {step}"
            self.emit(f"{head} iter_args({pairs}) -> ({types}) : {self.width} {{")
        self.depth += 1
        outer = {own: list(known) for own, known in self.scope.items()}
        if is_while:
            goes = self.made(f"arith.cmpi slt, %c{tag}, {self.number(4, 'i32')} : i32", "i1")
            if rng.random() < 0.7:
                is_apart = self.compare(rng.choice(["slt", "slt", "ne", "sle"]), names[0], names[-1], kind)
                goes = self.op("andi", goes, is_apart, "i1")
            self.emit(f"scf.condition({goes}) {', '.join(names)}, %c{tag} : {types}, i32")
            self.depth -= 1
            self.emit("} do {")
            self.scope = {own: list(known) for own, known in outer.items()}
            self.emit(f"^bb0({', '.join([f'%b{each}{tag}: {kind}' for each in range(count)])}, %d{tag}: i32):")
            self.depth += 1
            following = self.body([f"%b{each}{tag}" for each in range(count)], kind)
            more = self.made(f"arith.addi %d{tag}, {self.number(1, 'i32')} : i32", "")
            self.emit(f"scf.yield {', '.join(following)}, {more} : {types}, i32")
        else:
            following = self.body(names, kind)
            self.emit(f"scf.yield {', '.join(following)} : {types}")
        self.scope, self.starts = outer, around
        self.depth -= 1
        self.emit("}")
        return [f"%{tag}#{each}" for each in range(count)]

    def make(self) -> RandomKernel:
        """Makes the kernel."""
        rng = self.rng
        self.width, self.size = rng.choice(["i8", "i8", "i16", "i32"]), 4
        self.faults = rng.choice([0, 0, 1, 2])
        self.elements = {"x": rng.choice(["i32", "i8"]), "y": "i32"}
        self.starts: list[str] = []
        self.emit("%pid32 = tt.get_program_id x : i32")
        pid = self.cast("%pid32", "i32", self.width)
        for _ in range(rng.choice([1, 1, 2])):
            kind = self.own if rng.random() < 0.3 else self.width
            starts = []
            for position in range(rng.choice([1, 2, 2, 2, 3])):
                zero, other = self.number(0, self.width), self.number(rng.choice([1, -1, 3, 8, 63]), self.width)
                start = rng.choice(["%n", "%n", "%m", other] if position else [zero, zero, pid, other])
                if kind != self.width:
                    start = self.lanes() if rng.random() < 0.2 else self.splat(start)
                starts.append(start)
            left = self.looped(kind, starts)
            self.access(rng.choice(left), kind, rng.random() < 0.4)
        chosen = ["n >= 0", "n >= 1", "m >= 1", "m >= n", "n <= 60", "m <= 60", "n == m"]
        assume = [each for each in chosen if rng.random() < (0.1 if "==" in each else 0.4)]
        while assume and not can_hold(assume, ()):
            del assume[0]
        extents = {name: rng.choice(_EXTENTS) for name in "xy"}
        grid = rng.choice(["grid_x", "2", "3"])
        assume += ["grid_x <= 5"] if grid == "grid_x" else []
        parameters = ", ".join([f"%{name}: !tt.ptr<{element}>" for name, element in self.elements.items()])
        head = f"tt.func public @k({parameters}, %n: {self.width}, %m: {self.width}) {{\n"
        text = head + "\n".join(self.lines) + "\n  tt.return\n}\n"
        return RandomKernel(text, extents, (grid,), tuple(assume), dict(self.elements))


def searching_kernel(rng: random.Random) -> RandomKernel:
    """Returns a kernel as the random numbers choose it."""
    return _Maker(rng).make()


__all__ = ["searching_kernel"]
