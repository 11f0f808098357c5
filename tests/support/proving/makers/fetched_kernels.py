"""Makes kernels whose addresses come by ways that nothing follows, and that masks, ranges of contents and contexts bound.

Indices are loaded, reduced, scanned, returned by functions, left by loops that count to a loaded number and by loops with a
condition, and multiplied until they wrap; pointers are selected and yielded by branches. Comparisons are unsigned now and then.
"""

from __future__ import annotations

import random

from .random_kernels import RandomKernel
from .writing import Writer, can_hold

_FAR = {"i32": [1 << 30, 1 << 31, -(1 << 31), 1 << 29, 1 << 16, 3], "i64": [1 << 61, 1 << 62, (1 << 62) + 1, 1 << 32, 3 << 61]}
_PREDICATES = ["slt", "slt", "sle", "ult", "ult", "ule", "sge", "ne"]
_COMBINED = ["addi", "addi", "maxsi", "minsi", "ori", "xori"]


class _Maker(Writer):
    """Writes one kernel."""

    def wide(self, name: str, is_signed: bool = True) -> str:
        """A scalar of 32 bits as an index."""
        return self.cast(name, "i32", self.index, is_signed)

    def scalar(self, depth: int = 0) -> str:
        """An index of any origin."""
        rng = self.rng
        makers = [self.plain, self.plain, self.loaded, self.loaded]
        if depth < 2:
            makers += [self.counted, self.counted, self.conditional, self.called, self.reduced, self.scaled, self.branched]
        found = rng.choice(makers)(depth + 1)
        return found

    def plain(self, depth: int) -> str:
        rng = self.rng
        if rng.random() < 0.5:
            return self.wide("%pid", rng.random() < 0.7)
        if rng.random() < 0.6:
            return self.wide("%n", rng.random() < 0.6)
        return self.number(rng.choice([0, 0, 1, 2, 3, 5, -1, -2]), self.index)

    def loaded(self, depth: int) -> str:
        """An element of idx, of whose contents something may be assumed."""
        rng, element = self.rng, self.elements["idx"]
        at = self.made(f"tt.addptr %idx, %pid : !tt.ptr<{element}>, i32", "")
        flag = self.compare(rng.choice(["slt", "slt", "ult"]), "%pid", "%n", "i32")
        more = ""
        if rng.random() < 0.6:
            more = f", {self.number(rng.choice([0, 0, 1, -1]), element)}"
        found = self.made(f"tt.load {at}, {flag}{more} : !tt.ptr<{element}>", "")
        bits = int(element[1:])
        if bits > int(self.index[1:]):
            return self.made(f"arith.trunci {found} : {element} to {self.index}", self.index)
        if bits == int(self.index[1:]):
            return found
        cast = rng.choice(["extsi", "extsi", "extui"])
        return self.made(f"arith.{cast} {found} : {element} to {self.index}", self.index)

    def scaled(self, depth: int) -> str:
        """An index times what makes it wrap, shifted, divided or masked afterwards."""
        rng, found = self.rng, self.scalar(depth)
        far = self.number(rng.choice(_FAR[self.index]), self.index)
        found = self.op(rng.choice(["muli", "muli", "addi", "subi"]), found, far, self.index)
        if rng.random() < 0.5:
            small = self.number(rng.choice([1, 2, 3, 4, 7, 8, 15]), self.index)
            how = rng.choice(["shrsi", "shrui", "divsi", "divui", "remsi", "remui", "andi"])
            found = self.op(how, found, small, self.index)
        return found

    def counted(self, depth: int) -> str:
        """What a loop leaves, whose end may be loaded."""
        rng, tag = self.rng, self.fresh()
        start, end = self.scalar(depth), self.scalar(depth)
        low, step = self.number(rng.choice([0, 0, 0, 1, -2]), self.index), self.number(rng.choice([1, 1, 2, 3]), self.index)
        increment = rng.choice([self.number(rng.choice([1, 1, 2, -1, *_FAR[self.index]]), self.index), start, low, step])
        if rng.random() < 0.6:
            end = self.op("minsi", end, self.number(rng.choice([3, 9, 20]), self.index), self.index)
        kind = self.index
        self.emit(f"%{tag} = scf.for %t{tag} = {low} to {end} step {step} iter_args(%a{tag} = {start}) -> ({kind}) : {kind} {{")
        self.depth += 1
        outer = {each: list(names) for each, names in self.scope.items()}
        if rng.random() < 0.4:
            self.touched(rng.choice([f"%a{tag}", f"%t{tag}"]))
        increment = f"%t{tag}" if rng.random() < 0.1 else increment
        following = self.op(rng.choice(["addi", "addi", "addi", "muli", "minsi"]), f"%a{tag}", increment, self.index)
        self.scope = outer
        self.emit(f"scf.yield {following} : {kind}")
        self.depth -= 1
        self.emit("}")
        return f"%{tag}"

    def conditional(self, depth: int) -> str:
        """What a loop with a condition leaves."""
        rng, tag, kind = self.rng, self.fresh(), self.index
        start, limit = self.scalar(depth), self.scalar(depth)
        step = self.number(rng.choice([1, 1, 2, 3, 5]), kind)
        self.emit(f"%{tag} = scf.while (%a{tag} = {start}) : ({kind}) -> {kind} {{")
        self.depth += 1
        outer = {each: list(names) for each, names in self.scope.items()}
        flag = self.compare(rng.choice(_PREDICATES[:4]), f"%a{tag}", limit, kind)
        if rng.random() < 0.6:
            most = self.compare("slt", f"%a{tag}", self.number(rng.choice([9, 30]), kind), kind)
            flag = self.op("andi", flag, most, "i1")
        passed = f"%a{tag}" if rng.random() < 0.8 else self.op("addi", f"%a{tag}", step, kind)
        self.scope = outer
        self.emit(f"scf.condition({flag}) {passed} : {kind}")
        self.depth -= 1
        self.emit("} do {")
        self.depth += 1
        self.emit(f"^bb0(%b{tag}: {kind}):")
        if rng.random() < 0.5:
            self.touched(f"%b{tag}")
        following = self.op("addi", f"%b{tag}", step, kind)
        self.scope = outer
        self.emit(f"scf.yield {following} : {kind}")
        self.depth -= 1
        self.emit("}")
        return f"%{tag}"

    def called(self, depth: int) -> str:
        """What a function returns, which may store."""
        rng, name = self.rng, f"f{self.fresh()}"
        given, kind = self.scalar(depth), self.index
        before, self.lines, scope, self.scope = self.lines, [], self.scope, {}
        level, self.depth = self.depth, 0
        element = self.elements["x"]
        head = f"tt.func private @{name}(%x: !tt.ptr<{element}>, %idx: !tt.ptr<{self.elements['idx']}>, %n: i32, %m: {kind}, "
        head += f"%pid: i32, %g: {kind}) -> {kind} {{"
        found = self.op(rng.choice(["addi", "muli", "remsi", "minui", "subi"]), "%g", rng.choice(["%m", "%g"]), kind)
        if rng.random() < 0.4:
            self.touched(rng.choice(["%g", found]))
        if rng.random() < 0.4:
            flag = self.compare(rng.choice(_PREDICATES), "%g", "%m", kind)
            found = self.made(f"arith.select {flag}, {found}, %g : {kind}", kind)
        self.functions.append("\n".join([head, *self.lines, f"  tt.return {found} : {kind}", "}"]))
        self.lines, self.scope, self.depth = before, scope, level
        types = f"(!tt.ptr<{element}>, !tt.ptr<{self.elements['idx']}>, i32, {kind}, i32, {kind}) -> {kind}"
        return self.made(f"tt.call @{name}(%x, %idx, %n, %m, %pid, {given}) : {types}", kind)

    def combined(self, operation: str, source: str, to: str, more: str = "") -> str:
        a, kind, what = self.fresh(), self.index, "scan" if more else "reduce"
        how = self.rng.choice(_COMBINED)
        body = f"^bb0(%a{a}: {kind}, %b{a}: {kind}): %c{a} = arith.{how} %a{a}, %b{a} : {kind}"
        body += f" tt.{what}.return %c{a} : {kind}"
        types = f"({self.block(kind)}) -> {to}"
        return self.made(f'"{operation}"({source}) <{{axis = 0 : i32{more}}}> ({{ {body} }}) : {types}', to)

    def reduced(self, depth: int) -> str:
        return self.combined("tt.reduce", self.lanes(depth), self.index)

    def branched(self, depth: int) -> str:
        """What one of two branches yields."""
        rng, tag, kind = self.rng, self.fresh(), self.index
        flag = self.compare(rng.choice(_PREDICATES), self.scalar(depth), rng.choice(["%m", self.scalar(depth)]), kind)
        self.emit(f"%{tag} = scf.if {flag} -> ({kind}) {{")
        for number in range(2):
            self.depth += 1
            outer = {each: list(names) for each, names in self.scope.items()}
            found = self.scalar(depth)
            if rng.random() < 0.3:
                self.touched(found)
            self.scope = outer
            self.emit(f"scf.yield {found} : {kind}")
            self.depth -= 1
            self.emit("} else {" if not number else "}")
        return f"%{tag}"

    def lanes(self, depth: int = 2) -> str:
        """A block of indices."""
        rng, own = self.rng, self.block(self.index)
        narrow = self.block("i32")
        found = self.cast(self.made(f"tt.make_range {{end = {self.size} : i32, start = 0 : i32}} : {narrow}", ""), narrow, own)
        if rng.random() < 0.3:
            far = self.number(rng.choice([*_FAR[self.index], 2, 4]), own)
            found = self.op(rng.choice(["muli", "muli", "addi", "xori"]), found, far, own)
        if rng.random() < 0.8:
            index = self.splat(self.scalar(depth), self.index)
            found = self.op(rng.choice(["addi", "addi", "muli", "subi"]), found, index, own)
        if rng.random() < 0.2:
            found = self.combined("tt.scan", found, own, ", reverse = false")
        return found

    def masked(self, index: str, kind: str) -> str:
        """A mask that mostly keeps an index inside."""
        rng, is_block = self.rng, kind != self.index
        yes = self.block("i1") if is_block else "i1"
        size = self.splat("%m", self.index) if is_block else "%m"
        choice = rng.random()
        if choice < 0.45:
            found = self.compare("ult", index, size, kind)
        elif choice < 0.9:
            low = self.compare("sge", index, self.number(0, kind), kind)
            found = self.op("andi", low, self.compare("slt", index, size, kind), yes)
        else:
            found = self.compare(rng.choice(_PREDICATES), index, size, kind)
        if rng.random() < 0.3:
            other = self.number(rng.choice([0, 1, 4, 7]), kind)
            more = self.compare(rng.choice(_PREDICATES), index, other, kind)
            found = self.op(rng.choice(["andi", "andi", "ori"]), found, more, yes)
        return found

    def address(self, index: str, kind: str, to: str, base: str) -> str:
        """A pointer, or one of two."""
        rng, tag = self.rng, self.fresh()
        at = self.made(f"tt.addptr {base}, {index} : {to}, {kind}", to)
        if rng.random() < 0.75:
            return at
        other = self.made(f"tt.addptr {base}, {self.number(rng.choice([0, 0, 1, 3]), kind)} : {to}, {kind}", to)
        own = self.compare(rng.choice(_PREDICATES), index, self.number(rng.choice([0, 1, 3, 7]), kind), kind)
        if kind != self.index:
            return self.made(f"arith.select {own}, {at}, {other} : {self.block('i1')}, {to}", to)
        if rng.random() < 0.5:
            return self.made(f"arith.select {own}, {at}, {other} : {to}", to)
        self.emit(f"%{tag} = scf.if {own} -> ({to}) {{ scf.yield {at} : {to} }} else {{ scf.yield {other} : {to} }}")
        return f"%{tag}"

    def touched(self, index: str, kind: str = "") -> None:
        """An access to x by an index."""
        rng, element, kind = self.rng, self.elements["x"], kind or self.index
        pointer, is_block = f"!tt.ptr<{element}>", kind != self.index
        to, own = (self.block(pointer), self.block(element)) if is_block else (pointer, element)
        mask = self.masked(index, kind) if rng.random() < 0.8 else ""
        base = self.made(f"tt.splat %x : {pointer} -> {to}", "") if is_block else "%x"
        at = self.address(index, kind, to, base)
        given = f", {mask}" if mask else ""
        if rng.random() < 0.3:
            self.made(f"tt.load {at}{given} : {to}", "")
            return
        value = self.number(rng.choice([1, 7]), own)
        if is_block and rng.random() < 0.7:
            narrow = self.block("i32")
            lanes = self.made(f"tt.make_range {{end = {self.size} : i32, start = 0 : i32}} : {narrow}", "")
            value = self.cast(lanes, narrow, own)
        self.emit(f"tt.store {at}, {value}{given} : {to}")

    def make(self) -> RandomKernel:
        """Makes the kernel."""
        rng = self.rng
        self.index = rng.choice(["i32", "i64", "i64"])
        self.width, self.size, self.faults = "i32", 4, rng.choice([0, 0, 1])
        self.functions: list[str] = []
        self.elements = {"x": rng.choice(["i32", "i32", "i64", "i8"]), "idx": rng.choice(["i32", "i32", "i64", "i8", "i16"])}
        self.emit("%pid = tt.get_program_id x : i32")
        for _ in range(rng.choice([1, 1, 2])):
            if rng.random() < 0.6:
                self.touched(self.scalar())
            else:
                self.touched(self.lanes(0), self.block(self.index))
        contents = ["0 <= idx[:] < n", "0 <= idx[:] < m", "-1 <= idx[:] < n", "0 <= idx[:] <= 9", "2 <= idx[:]", "idx[:] < 4"]
        chosen = ["n >= 0", "n >= 1", "m >= 1", "m >= 0", "m <= 100", "n <= 2**30", "n <= 17", "m >= n"]
        assume = [each for each in chosen if rng.random() < (0.05 if "n <=" in each else 0.35)]
        while assume and not can_hold(assume, ()):
            del assume[0]
        assume += [rng.choice(contents)] if rng.random() < 0.7 else []
        grid = rng.choice(["grid_x", "grid_x", "1", "2", "cdiv(n, 4)", "n"])
        assume += [f"grid_x <= {rng.choice([5, 30])}"] if grid == "grid_x" else []
        assume += ["n >= 0"] if "n" in grid and "n >= 0" not in assume else []
        pointers = ", ".join([f"%{name}: !tt.ptr<{element}>" for name, element in self.elements.items()])
        text = f"tt.func public @k({pointers}, %n: i32, %m: {self.index}) {{\n" + "\n".join(self.lines) + "\n  tt.return\n}\n"
        text = "\n".join(["module {", text, *self.functions, "}"])
        return RandomKernel(text, {"x": "m", "idx": "n"}, (grid,), tuple(assume), dict(self.elements))


def fetched_kernel(rng: random.Random) -> RandomKernel:
    """Returns a kernel as the random numbers choose it."""
    return _Maker(rng).make()


__all__ = ["fetched_kernel"]
