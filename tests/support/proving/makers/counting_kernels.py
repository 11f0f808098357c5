"""Makes kernels of what other makers hardly have: counters of loops with a condition, sizes that are fixed, and maps.

Most loops are meant to count from somewhere to somewhere without wrapping, and their counters are used unguarded from below:
a proof needs that they stay exact. Faults are those by which a counter wraps: a condition on another number, on one that
wraps before it is compared, a disjunction, `ne`, an unsigned comparison, a step near the end of the type. Sizes are fixed by
assumptions or are constants of the text, and serve as steps, divisors, shifts and masks. Regions of maps compute
indices, read and write.
"""

from __future__ import annotations

import random

from .random_kernels import RandomKernel
from .writing import Writer, can_hold

_FIXED = [0, 1, 2, 3, 4, 7, 8, 16, 17, 100, 127, -1, -3, -128]
_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
_EXTENTS = {"x": "n", "y": "m", "z": "16"}


class _Maker(Writer):
    """Writes one kernel.

    Attributes:
        counters: of the loops around.
        has_range: whether a loop counts to a size, which must not be far then.
    """

    counters: list[str]
    has_range: bool

    def number(self, value: int, kind: str) -> str:
        """A constant, wrapped to its width: faults double it."""
        half = 1 << (_BITS[kind.split("x")[-1].rstrip(">")] - 1)
        if self.goes_wrong(0.03):
            value += self.rng.choice([-1, 1, value])
        value = (value + half) % (2 * half) - half
        text = f"dense<{value}>" if kind.startswith("tensor") else str(value)
        return self.made(f"arith.constant {text} : {kind}", kind)

    def end(self) -> int:
        """A number near the end of the type."""
        half = 1 << (_BITS[self.width] - 1)
        return self.rng.choice([half - 1, half - 2, half - 5, half // 2, half // 2 + 3, -half, -half + 2])

    def limit(self) -> str:
        rng = self.rng
        choice = rng.random()
        if choice < 0.6:
            return rng.choice(["%n", "%n", "%m"])
        return self.number(rng.choice([3, 4, 16, 17]) if choice < 0.9 else self.end(), self.width)

    def step(self) -> str:
        """What a counter moves by: small, a size, the number of programs, or as far as half of the type."""
        rng = self.rng
        choice = rng.random()
        if choice < 0.55:
            return self.number(rng.choice([1, 1, 1, 2, 3, 4, 8]), self.width)
        if choice < 0.75:
            return rng.choice(["%m", "%np"])
        if choice < 0.9:
            return self.number(rng.choice([-1, -1, -2, 0]), self.width)
        return self.number(self.end(), self.width)

    def start(self) -> str:
        rng = self.rng
        choice = rng.random()
        if choice < 0.4:
            return self.number(0, self.width)
        if choice < 0.6:
            return "%pid"
        if choice < 0.75:
            return self.op("muli", "%pid", self.number(self.size, self.width), self.width)
        return rng.choice(["%n", "%m", *self.counters]) if choice < 0.95 else self.number(self.end(), self.width)

    def goes_on(self, counter: str, other: str, limit: str, step: str) -> str:
        """The condition of a loop: mostly one that bounds the counter, so that it fits after the step."""
        rng, width = self.rng, self.width
        choice = rng.random()
        if choice < 0.4:
            found = self.compare("slt", counter, limit, width)
        elif choice < 0.5:
            found = self.compare("sgt", counter, limit, width)
        elif choice < 0.6:  # the next number is compared
            found = self.compare("slt", self.op("addi", counter, step, width), limit, width)
        elif choice < 0.7:
            found = self.compare("sgt", self.op("subi", limit, counter, width), self.number(0, width), width)
        elif choice < 0.8:
            found = self.compare(rng.choice(["ult", "ne", "sle", "ule"]), counter, limit, width)
        elif choice < 0.9:
            low = self.compare("sge", counter, self.number(0, width), width)
            found = self.op("andi", low, self.compare("slt", counter, limit, width), "i1")
        else:
            found = self.compare("slt", other, limit, width)
        if rng.random() < 0.15:
            also = self.compare(rng.choice(["slt", "ne"]), rng.choice([other, counter]), self.limit(), width)
            found = self.op(rng.choice(["andi", "ori"]), found, also, "i1")
        return found

    def counted(self) -> None:
        """A loop with a condition that carries a counter and another number; a cap ends it soon, as nothing else may."""
        rng, width = self.rng, self.width
        start, limit, step, zero, one = self.start(), self.limit(), self.step(), self.number(0, width), self.number(1, width)
        other = rng.choice([zero, zero, self.start()])
        cap = self.number(rng.choice([2, 4, 6, 20]), width)
        tag, types = self.fresh(), ", ".join([width] * 3)
        first = f"%i{tag} = {start}, %o{tag} = {other}, %t{tag} = {zero}"
        self.emit(f"%{tag}:3 = scf.while ({first}) : ({types}) -> ({types}) {{")
        outer = {kind: list(own) for kind, own in self.scope.items()}
        self.depth += 1
        self.counters.append(f"%i{tag}")
        if rng.random() < 0.15:
            self.touched(f"%i{tag}")
        go = self.goes_on(f"%i{tag}", f"%o{tag}", limit, step)
        few = self.made(f"arith.cmpi slt, %t{tag}, {cap} : {width}", "i1")
        go = self.made(f"arith.andi {go}, {few} : i1", "i1")
        passed = [f"%i{tag}", f"%o{tag}", f"%t{tag}"]
        if rng.random() < 0.1:
            passed[0] = self.op("addi", f"%i{tag}", one, width)
        self.emit(f"scf.condition({go}) {', '.join(passed)} : {types}")
        self.depth -= 1
        self.counters.pop()
        self.emit("} do {")
        self.scope = {kind: list(own) for kind, own in outer.items()}
        self.depth += 1
        self.emit(f"^bb0(%j{tag}: {width}, %p{tag}: {width}, %u{tag}: {width}):")
        self.counters.append(f"%j{tag}")
        for _ in range(rng.choice([1, 1, 2])):
            self.statement()
        moved = self.op(rng.choice(["addi"] * 8 + ["subi", "muli"]), f"%j{tag}", step, width)
        by = rng.choice([one, step, f"%j{tag}", "%m"])
        carried = self.op(rng.choice(["addi", "addi", "subi"]), f"%p{tag}", by, width)
        counted = self.made(f"arith.addi %u{tag}, {one} : {width}", width)
        if rng.random() < 0.1:  # a branch decides by how much
            flag = self.compare("slt", f"%j{tag}", limit, width)
            moved = self.made(f"arith.select {flag}, {moved}, {rng.choice([carried, f'%j{tag}'])} : {width}", width)
        self.counters.pop()
        self.emit(f"scf.yield {moved}, {carried}, {counted} : {types}")
        self.depth -= 1
        self.emit("}")
        self.scope = outer

    def looped(self) -> None:
        """A loop that counts, by sizes that may be fixed."""
        rng, width, tag = self.rng, self.width, self.fresh()
        self.has_range = True
        low = rng.choice([self.number(rng.choice([0, 0, 1, -2]), width), "%pid", "%m"])
        end = rng.choice(["%n", "%m", self.number(rng.choice([4, 17]), width)])
        step = rng.choice([self.number(1, width), "%m", self.step()])
        self.emit(f"scf.for %i{tag} = {low} to {end} step {step} : {width} {{")
        outer = {kind: list(own) for kind, own in self.scope.items()}
        self.depth += 1
        self.counters.append(f"%i{tag}")
        self.statement()
        self.counters.pop()
        self.depth -= 1
        self.scope = outer
        self.emit("}")

    def sized(self, index: str) -> str:
        """An index that is changed by a size: a quotient, a remainder, a shift, a mask, a product."""
        rng = self.rng
        operation = rng.choice(["divsi", "remsi", "divui", "remui", "shli", "shrsi", "shrui", "andi", "ori", "xori", "muli",
                                "minsi", "maxsi", "addi", "subi"])  # fmt: skip
        return self.op(operation, index, rng.choice(["%m", "%n"]), self.width)

    def touched(self, index: str) -> None:
        """One element at a number, which is guarded from above, from both sides, or not at all."""
        rng, width = self.rng, self.width
        array = rng.choice(["x", "x", "y", "z"])
        limit = {"x": "%n", "y": "%m"}.get(array) or self.number(16, width)
        if rng.random() < 0.25:
            index = self.sized(index)
        choice, flag = rng.random(), ""
        if choice < 0.55:
            flag = self.compare("slt", index, limit, width)
        elif choice < 0.7:
            flag = self.compare("ult", index, limit, width)
        elif choice < 0.85:
            low = self.compare("sge", index, self.number(0, width), width)
            flag = self.op("andi", self.compare("slt", index, limit, width), low, "i1")
        pointer, element = f"!tt.ptr<{self.elements[array]}>", self.elements[array]
        at = self.made(f"tt.addptr %{array}, {index} : {pointer}, {width}", pointer)
        more = f", {flag}" if flag else ""
        if rng.random() < 0.3:
            self.made(f"tt.load {at}{more} : {pointer}", element)
            return
        value = self.made(f"arith.constant {rng.choice([1, 5])} : {element}", element)
        self.emit(f"tt.store {at}, {value}{more} : {pointer}")

    def blocked(self) -> None:
        """A block that begins at a counter; its indices come from a map now and then."""
        rng, own = self.rng, self.own
        wide = self.block("i32")
        lanes = self.made(f"tt.make_range {{end = {self.size} : i32, start = 0 : i32}} : {wide}", wide)
        lanes = self.cast(lanes, wide, own)
        index = self.op("addi", self.splat(rng.choice([*self.counters, self.start()])), lanes, own)
        array = rng.choice(["x", "y", "z"])
        limit = self.splat({"x": "%n", "y": "%m"}.get(array) or self.number(16, self.width))
        if rng.random() < 0.6:
            index = self.mapped(index, limit)
        element, yes = self.elements[array], self.block("i1")
        to, block = self.block(f"!tt.ptr<{element}>"), self.block(element)
        mask = self.compare("slt", index, limit, own)
        if rng.random() < 0.5:
            mask = self.op("andi", mask, self.compare("sge", index, self.number(0, own), own), yes)
        more = "" if rng.random() < 0.1 else f", {mask}"
        base = self.made(f"tt.splat %{array} : !tt.ptr<{element}> -> {to}", to)
        at = self.made(f"tt.addptr {base}, {index} : {to}, {own}", to)
        if rng.random() < 0.3:
            self.made(f"tt.load {at}{more} : {to}", block)
        else:
            self.emit(f"tt.store {at}, {self.cast(lanes, own, block)}{more} : {to}")

    def mapped(self, index: str, limit: str) -> str:
        """What a region makes of each index: with an operation or two, a branch, an access; of pairs now and then."""
        rng, width, own, tag = self.rng, self.width, self.own, self.fresh()
        pack = rng.choice([1, 1, 1, 2])
        names = [f"%e{tag}{each}" for each in range(2 * pack)]
        self.emit(f'%{tag} = "tt.map_elementwise"({index}, {limit}) <{{pack = {pack} : i32}}> ({{')
        self.emit(f"^bb0({', '.join([f'{name}: {width}' for name in names])}):")
        self.depth += 1
        outer = {kind: list(its) for kind, its in self.scope.items()}
        self.scope, results = {}, []
        for each in range(pack):
            number, end = names[each], names[pack + each]
            changed = self.op(rng.choice(["addi", "minsi", "maxsi", "xori", "subi", "remsi"]), number,
                              rng.choice([end, self.number(rng.choice([0, 1, 3]), width), "%m"]), width)  # fmt: skip
            if rng.random() < 0.4:
                flag = self.compare("slt", number, end, width)
                changed = self.made(f"arith.select {flag}, {changed}, {number} : {width}", width)
            results.append(rng.choice([changed, changed, number]))
        if rng.random() < 0.25:
            flag = self.made(f"arith.cmpi slt, {results[0]}, {names[pack]} : {width}", "i1")
            at = self.made(f"tt.addptr %x, {results[0]} : !tt.ptr<{self.elements['x']}>, {width}", "")
            if rng.random() < 0.5:
                self.made(f"tt.load {at}, {flag} : !tt.ptr<{self.elements['x']}>", self.elements["x"])
            else:
                value = self.made(f"arith.constant 1 : {self.elements['x']}", self.elements["x"])
                self.emit(f"tt.store {at}, {value}, {flag} : !tt.ptr<{self.elements['x']}>")
        if rng.random() < 0.25:  # several blocks
            flag = self.made(f"arith.cmpi slt, {names[0]}, {names[pack]} : {width}", "i1")
            last = f"^last{tag}({', '.join(results)} : {', '.join([width] * pack)})"
            self.emit(f"cf.cond_br {flag}, ^more{tag}, {last}")
            self.depth -= 1
            self.emit(f"^more{tag}:")
            self.depth += 1
            self.emit(f"cf.br {last}")
            results = [f"%l{tag}{each}" for each in range(pack)]
            self.depth -= 1
            self.emit(f"^last{tag}({', '.join([f'{name}: {width}' for name in results])}):")
            self.depth += 1
        self.emit(f"tt.map_elementwise.return {', '.join(results)} : {', '.join([width] * pack)}")
        self.depth -= 1
        self.scope = outer
        self.emit(f"}}) : ({own}, {own}) -> {own}")
        return f"%{tag}"

    def statement(self) -> None:
        rng = self.rng
        choice = rng.random()
        if self.depth < 2 and choice < 0.4:
            self.counted()
        elif self.depth < 2 and choice < 0.5:
            self.looped()
        elif choice < 0.75 and self.counters:
            self.touched(rng.choice(self.counters))
        elif choice < 0.9:
            self.blocked()
        else:
            self.touched(self.sized("%pid"))

    def make(self) -> RandomKernel:
        """Makes the kernel."""
        rng = self.rng
        self.counters, self.has_range = [], False
        del self.elements["t"]
        self.emit("%pid32 = tt.get_program_id x : i32")
        self.emit("%np32 = tt.get_num_programs x : i32")
        for name in ("pid", "np"):
            if self.width == "i32":
                zero = self.made("arith.constant 0 : i32", "i32")
                self.emit(f"%{name} = arith.addi %{name}32, {zero} : i32")
            else:
                cast = "extsi" if self.width == "i64" else "trunci"
                self.emit(f"%{name} = arith.{cast} %{name}32 : i32 to {self.width}")
        self.scope.setdefault(self.width, []).extend(["%n", "%m", "%pid", "%np"])
        self.counted()
        for _ in range(rng.choice([0, 0, 1, 2])):
            self.statement()
        return self.finished()

    def finished(self) -> RandomKernel:
        """The kernel with its sizes: some are fixed by assumptions, some are constants of the text."""
        rng = self.rng
        assume = [each for each in ("n >= 0", "m >= 1", "m <= n", "n <= 17", "n <= 100") if rng.random() < 0.35]
        lines, half = list(self.lines), 1 << (_BITS[self.width] - 1)
        for name in ("n", "m"):
            if rng.random() < 0.35:
                value = rng.choice([*_FIXED, *([] if self.has_range else [half - 1, half - 3, half // 2])])
                fixed = [f"{name} == {value}" if value >= 0 else f"{name} == 0 - {-value}"]
                if rng.random() < 0.3:
                    fixed = [f"{name} >= {value}", f"{name} < {value} + 1"] if value >= 0 else fixed
                if rng.random() < 0.4:  # of the text
                    lines = [line.replace(f"%{name},", f"%own_{name},").replace(f"%{name} ", f"%own_{name} ")
                             .replace(f"%{name})", f"%own_{name})") for line in lines]  # fmt: skip
                    lines.insert(0, f"  %own_{name} = arith.constant {value} : {self.width}")
                assume += [each for each in fixed if rng.random() < 0.9]
        if rng.random() < 0.2:  # one size is made of the other
            assume.append(rng.choice(["n == m", "m == n", "n == 2 * m", "m == n - 1", "n == m * m", "3 * m + 1 == n"]))
        while assume and not can_hold(assume, (*_FIXED, half - 1, half - 3, half // 2)):
            del assume[0]
        parameters = ", ".join([f"%{name}: !tt.ptr<{element}>" for name, element in self.elements.items()])
        text = f"tt.func public @k({parameters}, %n: {self.width}, %m: {self.width}) {{\n" + "\n".join(lines)
        text += "\n  tt.return\n}\n"
        extents = dict(_EXTENTS)
        if rng.random() < 0.2:
            name = rng.choice(["x", "y", "z"])
            kept = {"x": ["n + 1"], "y": ["m + 3"]}.get(name, []) if self.has_range else []
            extents[name] = rng.choice(kept or ["n + 1", "m + 3", "8", "n * m", "0"])
        grid = rng.choice(["grid_x", "cdiv(n, 4)", "1", "1", "2", "min(m, 3)"])
        assume += [f"grid_x <= {rng.choice([5, 30])}"] if grid == "grid_x" else []
        return RandomKernel(text, extents, (grid,), tuple(assume), dict(self.elements))


def counting_kernel(rng: random.Random) -> RandomKernel:
    """Returns a kernel as the random numbers choose it."""
    return _Maker(rng).make()


__all__ = ["counting_kernel"]
