"""Makes kernels of the idioms by which real ones index memory, nearly right: most are right, some have a fault or two.

What it shares with the other makers is the form of what it returns. A kernel reads and writes arrays of known extents: `x` of
n elements, `y` of n rows of m, `z` of 16, `t` a table of indices. Every index is meant to be inside; how it is made and guarded
is drawn, and faults exchange an operation, an operand, a number or a predicate, drop a mask, or change the specification.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .random_kernels import RandomKernel
from .writing import Writer

_EXTENTS = {"x": "n", "y": "n * m", "z": "16", "t": "n"}


class _Maker(Writer):
    # Indices
    def lanes(self, count: int = 0) -> str:
        count = count or self.size
        wide = self.made(
            f"tt.make_range {{end = {count} : i32, start = 0 : i32}} : {self.block('i32', count)}",
            self.block("i32", count),
        )
        return self.cast(wide, self.block("i32", count), self.block(self.width, count))

    def begin(self) -> str:
        """A number that tells programs, or iterations, apart."""
        return self.rng.choice(self.starts) if self.rng.random() < 0.8 else "%pid"

    def linear(self) -> str:
        """start * size + lanes, in one of several ways."""
        rng, own = self.rng, self.own
        start, lanes = self.begin(), self.lanes()
        choice = rng.randrange(5)
        if choice == 0:
            first = self.op("shli", start, self.number({4: 2, 8: 3}[self.size], self.width), self.width)
        elif choice == 1 and self.counters and start not in self.starts[:1]:
            first = start
        else:
            first = self.op("muli", start, self.number(self.size, self.width), self.width)
        found = self.op("addi", self.splat(first), lanes, own)
        if choice == 2:
            turned = self.op("subi", self.number(self.size - 1, own), lanes, own)
            found = self.op("addi", self.splat(first), turned, own)
        if choice == 3:
            found = self.op("ori", self.splat(first), lanes, own)
        return self.changed(found)

    def changed(self, index: str) -> str:
        """The same numbers, or a permutation of them, by a way round."""
        rng, own = self.rng, self.own
        choice = rng.randrange(12)
        if choice == 0:
            two = self.number(2, own)
            half = self.op(rng.choice(["divsi", "divui"]), index, two, own)
            rest = self.op(rng.choice(["remsi", "remui"]), index, two, own)
            return self.op("addi", self.op("muli", half, two, own), rest, own)
        if choice == 1:
            two = self.number(2, own)
            high = self.op("shli", self.op(rng.choice(["shrsi", "shrui"]), index, two, own), two, own)
            return self.op(
                rng.choice(["ori", "addi"]), high, self.op("andi", index, self.number(3, own), own), own
            )
        if choice == 2:
            return self.op("xori", index, self.number(1, own), own)
        if choice == 3:
            wide = "i64" if self.width == "i32" else "i32"
            to = self.block(wide)
            return self.cast(self.cast(index, own, to), to, own)
        if choice == 4:
            square = self.block(self.width, 2, self.size // 2)
            back = self.block(self.width, self.size // 2, 2)
            shaped = self.made(f"tt.reshape {index} : {own} -> {square}", square)
            turned = self.made(f"tt.trans {shaped} {{order = array<i32: 1, 0>}} : {square} -> {back}", back)
            return self.made(f"tt.reshape {turned} : {back} -> {own}", own)
        if choice == 5:
            last = self.cast(self.lanes(), own, self.block("i32"))
            which = self.op("subi", self.number(self.size - 1, self.block("i32")), last, self.block("i32"))
            if rng.random() < 0.5:
                which = self.op(
                    "andi", which, self.number(self.size - 1, self.block("i32")), self.block("i32")
                )
            return self.made(
                f"tt.gather {index}[{which}] {{axis = 0 : i32}} : ({own}, {self.block('i32')}) -> {own}", own
            )
        if choice == 6:
            square, half = self.block(self.width, self.size // 2, 2), self.block(self.width, self.size // 2)
            shaped = self.made(f"tt.reshape {index} : {own} -> {square}", square)
            one, two = f"%{self.fresh()}", f"%{self.fresh()}"
            self.emit(f"{one}, {two} = tt.split {shaped} : {square} -> {half}")
            joined = self.made(f"tt.join {two}, {one} : {half} -> {square}", square)
            return self.made(f"tt.reshape {joined} : {square} -> {own}", own)
        return index

    def guarded(self, index: str, limit: str) -> tuple[str, str | None]:
        """An index below a limit, and a mask; without one the index itself is changed."""
        rng, own = self.rng, self.own
        end, one, zero = self.splat(limit), self.number(1, own), self.number(0, own)
        choice = rng.randrange(10)
        if choice == 0:
            return index, self.compare("ult", index, end, own)
        if choice == 1:
            return index, self.compare("sle", index, self.op("subi", end, one, own), own)
        if choice == 2:
            return index, self.compare("sgt", self.op("subi", end, index, own), zero, own)
        if choice == 3 and self.may_assume("n >= 1"):
            self.assume.append("n >= 1")
            return self.op(
                "maxsi", self.op("minsi", index, self.op("subi", end, one, own), own), zero, own
            ), None
        if choice == 4 and self.may_assume("n >= 1"):
            self.assume.append("n >= 1")
            return self.op(rng.choice(["remui", "remui", "remsi"]), index, end, own), None
        if choice == 5 and self.may_assume("n >= 1"):
            self.assume.append("n >= 1")
            inside = self.compare("slt", index, end, own)
            return self.made(f"arith.select {inside}, {index}, {zero} : {self.block('i1')}, {own}", own), None
        inside = self.compare("slt", index, end, own)
        if rng.random() < 0.6:
            inside = self.op("andi", self.compare("sge", index, zero, own), inside, self.block("i1"))
        if choice == 6:
            less = self.compare("slt", index, self.splat(rng.choice(["%n", "%m"])), own)
            inside = self.op("andi", inside, less, self.block("i1"))
        return index, inside

    def may_assume(self, text: str) -> bool:
        return text in self.assume or self.rng.random() < 0.5

    # Accesses

    def pointers(self, array: str, index: str, kind: str, *shape: int) -> tuple[str, str]:
        """Pointers into an array at an index, or by a pointer that is chosen or moved twice."""
        rng, element = self.rng, self.elements[array]
        to = self.block(f"!tt.ptr<{element}>", *shape)
        self.used.add(array)
        base = f"%{array}"
        if not shape and rng.random() < 0.1:
            flag = self.compare("slt", "%pid", self.number(1, self.width), self.width)
            pointer = f"!tt.ptr<{element}>"
            other = rng.choice(
                [array, array, *[each for each, own in self.elements.items() if own == element]]
            )
            base = self.made(f"arith.select {flag}, {base}, %{other} : {pointer}", pointer)
        made = self.made(f"tt.splat {base} : !tt.ptr<{element}> -> {to}", to)
        if rng.random() < 0.15:
            part = self.made(f"arith.constant dense<1> : {kind}", kind)
            made = self.made(f"tt.addptr {made}, {part} : {to}, {kind}", to)
            index = self.op("subi", index, part, kind)
        return self.made(f"tt.addptr {made}, {index} : {to}, {kind}", to), to

    def touch(self, array: str, index: str, mask: str | None, kind: str, *shape: int) -> None:
        """Reads or writes elements."""
        rng, element = self.rng, self.elements[array]
        if rng.random() < 0.25 and not kind.endswith("xi64>"):
            wide = self.block("i64", *shape)
            index, kind = self.cast(index, kind, wide), wide
        at, to = self.pointers(array, index, kind, *shape)
        if self.goes_wrong(0.05):
            mask = None
        block, yes = self.block(element, *shape), self.block("i1", *shape)
        more = f", {mask}" if mask else ""
        choice = rng.random()
        if choice < 0.3 and array != "t":
            self.made(f"tt.load {at}{more} : {to}", block)
        elif choice < 0.75 or element == "i8":
            value = self.made(
                f"tt.splat %{'p' if element == 'i32' else 'p' + element[1:]} : {element} -> {block}", block
            )
            if not shape and rng.random() < 0.5:
                value = self.cast(self.lanes(), self.own, block)
            self.emit(f"tt.store {at}, {value}{more} : {to}")
        else:
            mask = mask or self.made(f"arith.constant dense<true> : {yes}", yes)
            value = self.made(f"arith.constant dense<1> : {block}", block)
            order, scope = (
                rng.choice(["relaxed", "acquire", "release", "acq_rel"]),
                rng.choice(["gpu", "gpu", "gpu", "sys", "cta"]),
            )
            kinds = rng.choice(["add", "max", "exch", "and", "or", "xor", "umin"])
            self.made(
                f"tt.atomic_rmw {kinds}, {order}, {scope}, {at}, {value}, {mask} : ({to}, {block}, {yes}) -> {block}",
                block,
            )

    def line(self) -> None:
        """Elements of x, or of z, one after the other."""
        rng = self.rng
        array = rng.choice(["x", "x", "x", "z"])
        limit = "%n" if array == "x" else self.number(16, self.width)
        index = self.linear()
        if rng.random() < 0.15 and array == "x" and "t" in self.elements:
            index, mask = self.looked_up(index)
        else:
            index, mask = self.guarded(index, limit)
        self.touch(array, index, mask, self.own)

    def looked_up(self, index: str) -> tuple[str, str | None]:
        """Indices from the table."""
        index, mask = self.guarded(index, "%n")
        element = self.elements["t"]
        self.used.add("t")
        self.assume.append("0 <= t[:] < n")
        to = self.block(f"!tt.ptr<{element}>")
        made = self.made(f"tt.splat %t : !tt.ptr<{element}> -> {to}", to)
        at = self.made(f"tt.addptr {made}, {index} : {to}, {self.own}", to)
        block = self.block(element)
        found = self.made(f"tt.load {at}{f', {mask}' if mask else ''} : {to}", block)
        return self.cast(found, block, self.own, self.rng.random() < 0.8), mask

    def table(self) -> None:
        """Elements of y, by rows and columns."""
        rng = self.rng
        self.used.add("y")
        if rng.random() < 0.5:  # one row after the other
            row = self.begin()
            lanes = self.lanes()
            column = (
                lanes
                if rng.random() < 0.6
                else self.op("addi", self.splat(rng.choice(self.starts)), lanes, self.own)
            )
            inside = self.compare("slt", column, self.splat("%m"), self.own)
            if rng.random() < 0.7:
                zero = self.number(0, self.own)
                inside = self.op(
                    "andi", inside, self.compare("sge", column, zero, self.own), self.block("i1")
                )
            within = self.compare("slt", row, "%n", self.width)
            if rng.random() < 0.7:
                within = self.op(
                    "andi", within, self.compare("sge", row, self.number(0, self.width), self.width), "i1"
                )
            mask = self.op("andi", inside, self.splat(within, "i1"), self.block("i1"))
            first = self.op("muli", row, "%m", self.width)
            index = self.op("addi", self.splat(first), column, self.own)
            self.touch("y", index, mask, self.own)
            return
        if rng.random() < 0.5:  # a tile
            own, tile = self.width, (2, 4)
            rows, columns = self.lanes(2), self.lanes(4)
            high, wide = self.block(own, 2, 1), self.block(own, 1, 4)
            down = self.made(
                f"tt.expand_dims {rows} {{axis = 1 : i32}} : {self.block(own, 2)} -> {high}", high
            )
            along = self.made(
                f"tt.expand_dims {columns} {{axis = 0 : i32}} : {self.block(own, 4)} -> {wide}", wide
            )
            start = self.op("muli", self.begin(), self.number(2, own), own)
            down = self.op("addi", down, self.splat(start, own, 2, 1), high)
            inside = [
                self.compare("slt", down, self.splat("%n", own, 2, 1), high),
                self.compare("slt", along, self.splat("%m", own, 1, 4), wide),
            ]
            both = self.block(own, *tile)
            yes = self.block("i1", *tile)
            masks = [
                self.made(f"tt.broadcast {each} : {self.block('i1', *shape)} -> {yes}", yes)
                for each, shape in zip(inside, ((2, 1), (1, 4)), strict=True)
            ]
            step = self.op("muli", down, self.splat("%m", own, 2, 1), high)
            spread = [
                self.made(f"tt.broadcast {each} : {kind} -> {both}", both)
                for each, kind in ((step, high), (along, wide))
            ]
            index = self.op("addi", spread[0], spread[1], both)
            self.touch("y", index, self.op("andi", masks[0], masks[1], yes), both, *tile)
            return
        # an index that is taken apart
        index, mask = self.linear(), None
        self.assume += ["m >= 1"] if "m >= 1" not in self.assume else []
        columns = self.splat("%m")
        row = self.op(rng.choice(["divsi", "divui"]), index, columns, self.own)
        column = self.op(rng.choice(["remsi", "remui"]), index, columns, self.own)
        mask = self.compare(rng.choice(["slt", "ult"]), row, self.splat("%n"), self.own)
        again = self.op("addi", self.op("muli", row, columns, self.own), column, self.own)
        self.touch("y", again, mask, self.own)

    def single(self) -> None:
        """One element of x or z."""
        rng = self.rng
        array = rng.choice(["x", "z", "z"])
        element = self.elements[array]
        start = self.begin()
        pointer = f"!tt.ptr<{element}>"
        self.used.add(array)
        choice = rng.randrange(4)
        flag = None
        if array == "z" and choice == 0:
            start = self.op("andi", start, self.number(15, self.width), self.width)
        elif array == "z" and choice == 1:
            start = self.op("remui", start, self.number(16, self.width), self.width)
        elif choice == 2:
            found, block = self.reduced(), self.width
            limit = "%n" if array == "x" else self.number(16, self.width)
            flag = self.op(
                "andi",
                self.compare("sge", found, self.number(0, block), block),
                self.compare("slt", found, limit, block),
                "i1",
            )
            start = found
        else:
            limit = "%n" if array == "x" else self.number(16, self.width)
            flag = self.op(
                "andi",
                self.compare("sge", start, self.number(0, self.width), self.width),
                self.compare("slt", start, limit, self.width),
                "i1",
            )
        at = self.made(f"tt.addptr %{array}, {start} : {pointer}, {self.width}", pointer)
        value = self.made(f"arith.constant 1 : {element}", element)
        kind = rng.random()
        flag = flag or self.made("arith.constant true", "i1")
        if kind < 0.5:
            self.emit(f"tt.store {at}, {value}, {flag} : {pointer}")
        elif kind < 0.8 and element != "i8":
            scope = rng.choice(["gpu", "gpu", "cta"])
            self.made(
                f"tt.atomic_rmw add, relaxed, {scope}, {at}, {value}, {flag} : ({pointer}, {element}, i1) -> {element}",
                element,
            )
        else:
            self.made(f"tt.load {at}, {flag} : {pointer}", element)

    def reduced(self) -> str:
        name, own = f"%{self.fresh()}", self.own
        kind = self.rng.choice(["maxsi", "minsi", "addi"])
        self.emit(f'{name} = "tt.reduce"({self.linear()}) <{{axis = 0 : i32}}> ({{')
        self.emit(f"^bb0(%a{name[1:]}: {self.width}, %b{name[1:]}: {self.width}):")
        self.emit(f"  %c{name[1:]} = arith.{kind} %a{name[1:]}, %b{name[1:]} : {self.width}")
        self.emit(f"  tt.reduce.return %c{name[1:]} : {self.width}")
        self.emit(f"}}) : ({own}) -> {self.width}")
        return name

    # Control

    def statements(self, count: int) -> None:
        for _ in range(count):
            choice = self.rng.random()
            if choice < 0.45:
                self.line()
            elif choice < 0.65:
                self.table()
            elif choice < 0.75:
                self.single()
            elif self.depth < 2:
                self.rng.choice([self.stride, self.stride, self.carried, self.repeated, self.branch])()
            else:
                self.line()

    def inside(self, body: Callable[[], None]) -> None:
        saved = {kind: list(own) for kind, own in self.scope.items()}, list(self.starts), list(self.counters)
        self.depth += 1
        body()
        self.depth -= 1
        self.scope, self.starts, self.counters = saved

    def stride(self) -> None:
        """A loop over numbers, of this program or of every other one."""
        rng, own = self.rng, self.width
        name = f"%i{self.fresh()}"
        bounds = [
            ("%pid", "%n", "%np"),
            (self.number(0, own), rng.choice(["%n", "%m"]), self.number(rng.choice([1, 2, self.size]), own)),
            (self.number(0, own), self.number(rng.choice([1, 2, 3]), own), self.number(1, own)),
            (self.number(rng.choice([0, 1]), own), "%m", self.number(1, own)),
        ]  # fmt: skip
        low, high, step = rng.choice(bounds)
        self.emit(
            f"scf.for {name} = {self.other(low, own)} to {self.other(high, own)} step {self.other(step, own)} : {own} {{"
        )

        def body() -> None:
            self.starts += [name, name]
            self.counters.append(name)
            self.scope.setdefault(own, []).append(name)
            if rng.random() < 0.3:
                sum_ = self.op("addi", self.op("muli", "%pid", "%m", own), name, own)
                self.starts += [sum_, sum_]
            self.statements(rng.randint(1, 2))

        self.inside(body)
        self.emit("}")

    def carried(self) -> None:
        """A loop that moves pointers, and an index beside them that is compared."""
        rng, own = self.rng, self.width
        tag = self.fresh()
        array = rng.choice(["x", "x", "z"])
        self.used.add(array)
        element, kind = self.elements[array], self.own
        pointers = self.block(f"!tt.ptr<{element}>")
        step = rng.choice([1, 1, self.size])
        start = self.linear() if rng.random() < 0.5 else self.lanes()
        made = self.made(f"tt.splat %{array} : !tt.ptr<{element}> -> {pointers}", pointers)
        made = self.made(f"tt.addptr {made}, {start} : {pointers}, {kind}", pointers)
        zero, one = self.number(0, own), self.number(1, own)
        turns = rng.choice([self.number(rng.choice([2, 3]), own), "%m"])
        self.emit(
            f"%r{tag}:2 = scf.for %i{tag} = {zero} to {turns} step {one} "
            f"iter_args(%j{tag} = {start}, %p{tag} = {made}) -> ({kind}, {pointers}) : {own} {{"
        )

        def body() -> None:
            self.counters.append(f"%i{tag}")
            limit = "%n" if array == "x" else self.number(16, own)
            inside = self.compare("slt", f"%j{tag}", self.splat(limit), kind)
            if rng.random() < 0.8:
                inside = self.op(
                    "andi",
                    inside,
                    self.compare("sge", f"%j{tag}", self.number(0, kind), kind),
                    self.block("i1"),
                )
            value = self.made(f"arith.constant dense<1> : {self.block(element)}", self.block(element))
            if rng.random() < 0.5:
                self.emit(f"tt.store %p{tag}, {value}, {inside} : {pointers}")
            else:
                self.made(f"tt.load %p{tag}, {inside} : {pointers}", self.block(element))
            if rng.random() < 0.3:
                self.statements(1)
            by = self.number(step, kind)
            index = self.op("addi", f"%j{tag}", by, kind)
            by = by if rng.random() < 0.8 else self.number(step, kind)
            moved = self.made(f"tt.addptr %p{tag}, {by} : {pointers}, {kind}", pointers)
            self.emit(f"scf.yield {index}, {moved} : {kind}, {pointers}")

        self.inside(body)
        self.emit("}")
        if rng.random() < 0.3:
            index, mask = self.guarded(f"%r{tag}#0", "%n")
            self.touch("x", index, mask, self.own)

    def repeated(self) -> None:
        """A loop with a condition."""
        rng, own, tag = self.rng, self.width, self.fresh()
        zero, cap = self.number(0, own), rng.choice(["%n", "%m", self.number(3, own)])
        first = rng.choice([zero, "%pid"])
        self.emit(
            f"%w{tag}:2 = scf.while (%i{tag} = {first}, %t{tag} = {zero}) : ({own}, {own}) -> ({own}, {own}) {{"
        )

        def before() -> None:
            go = self.compare("slt", f"%i{tag}", cap, own)
            few = self.compare("slt", f"%t{tag}", self.number(5, own), own)
            go = self.op("andi", go, few, "i1")
            self.emit(f"scf.condition({go}) %i{tag}, %t{tag} : {own}, {own}")

        def after() -> None:
            self.emit(f"^bb0(%j{tag}: {own}, %u{tag}: {own}):")
            self.starts += [f"%j{tag}"] * 3
            self.scope.setdefault(own, []).append(f"%j{tag}")
            self.statements(1)
            step = rng.choice([self.number(1, own), self.number(2, own), "%np"])
            moved = self.op("addi", f"%j{tag}", step, own)
            turn = self.made(f"arith.constant 1 : {own}", own)
            turn = self.made(f"arith.addi %u{tag}, {turn} : {own}", own)
            self.emit(f"scf.yield {moved}, {turn} : {own}, {own}")

        self.inside(before)
        self.emit("} do {")
        self.inside(after)
        self.emit("}")
        self.starts.append(f"%w{tag}#0")

    def branch(self) -> None:
        """A branch that yields a number, which some accesses start from."""
        rng, own, tag = self.rng, self.width, self.fresh()
        left = self.begin()
        flag = self.compare(
            rng.choice(["slt", "sge", "eq"]), left, rng.choice(["%n", "%m", self.number(1, own)]), own
        )
        self.emit(f"%b{tag} = scf.if {flag} -> ({own}) {{")

        def arm(count: int) -> Callable[[], None]:
            def body() -> None:
                self.statements(count)
                self.emit(f"scf.yield {self.other(left, own)} : {own}")

            return body

        self.inside(arm(1))
        self.emit("} else {")
        self.inside(arm(rng.randint(0, 1)))
        self.emit("}")
        self.starts.append(f"%b{tag}")

    def leaving(self) -> None:
        """Programs that have nothing to do leave; others may come by two ways."""
        rng, own, tag = self.rng, self.width, self.fresh()
        flag = self.compare(rng.choice(["slt", "ult", "sle"]), "%pid", rng.choice(["%n", "%m"]), own)
        self.emit(f"cf.cond_br {flag}, ^go{tag}, ^end")
        self.emit(f"^go{tag}:")
        if rng.random() < 0.4:
            left, right = rng.choice(self.starts), rng.choice(["%pid", self.number(0, own)])
            other = self.compare("slt", left, self.number(2, own), own)
            self.emit(f"cf.cond_br {other}, ^one{tag}, ^two{tag}")
            self.emit(f"^one{tag}:")
            self.inside(lambda: (self.statements(1), self.emit(f"cf.br ^both{tag}({left} : {own})"))[0])
            self.emit(f"^two{tag}:")
            self.emit(f"cf.br ^both{tag}({rng.choice([left, right])} : {own})")
            self.emit(f"^both{tag}(%m{tag}: {own}):")
            self.starts.append(f"%m{tag}")

    def make(self) -> RandomKernel:
        """Makes the kernel."""
        rng, own = self.rng, self.width
        self.depth = 0
        self.starts, self.counters = ["%pid"], []
        self.scope = {own: ["%n", "%m", "%pid", "%np"]}
        for name, what in (("pid", "get_program_id"), ("np", "get_num_programs")):
            self.emit(f"%{name}0 = tt.{what} x : i32")
            if own == "i32":
                self.emit(f"%{name}1 = arith.constant 0 : i32")
                self.emit(f"%{name} = arith.addi %{name}0, %{name}1 : i32")
            else:
                self.emit(f"%{name} = arith.{'extsi' if own == 'i64' else 'trunci'} %{name}0 : i32 to {own}")
        self.emit("%p = arith.addi %pid0, %pid0 : i32")
        self.emit("%p64 = arith.extsi %pid0 : i32 to i64")
        self.emit("%p8 = arith.trunci %pid0 : i32 to i8")
        leaves = rng.random() < 0.25
        if leaves:
            self.leaving()
        self.statements(rng.randint(1, 3))
        self.emit("cf.br ^end" if leaves else "tt.return")
        if leaves:
            self.lines += ["^end:", "  tt.return"]
        extents = dict(_EXTENTS)
        if self.goes_wrong(0.1):
            array = rng.choice(["x", "y", "z", "t"])
            extents[array] = {"x": "n - 1", "y": "n * m - 1", "z": "15", "t": "n - 1"}[array]
            self.assume.append("n >= 1" if array != "y" else "n * m >= 1")
        grids = [
            f"cdiv(n, {self.size})",
            f"cdiv(n, {self.size})",
            "n",
            "grid_x",
            "grid_x",
            "m",
            "cdiv(n * m, 4)",
            "3",
        ]
        grid = rng.choice(grids)
        assume = [*self.assume]
        if grid == "grid_x":
            assume.append("grid_x <= 100")
        assume += [
            each
            for each in ("n >= 0", "m >= 1", "m >= 0", "m <= n", "n <= 100", "n <= 20", "m <= 20")
            if rng.random() < 0.3
        ]
        if self.goes_wrong(0.1) and assume:
            assume.remove(rng.choice(assume))
        assume = [each for each in assume if each != "grid_x <= 100" or grid == "grid_x"]
        parameters = ", ".join([f"%{name}: !tt.ptr<{element}>" for name, element in self.elements.items()])
        text = f"tt.func public @k({parameters}, %n: {own}, %m: {own}) {{\n" + "\n".join(self.lines) + "\n}\n"
        return RandomKernel(text, extents, (grid,), tuple(dict.fromkeys(assume)), dict(self.elements))


def idiomatic_kernel(rng: random.Random) -> RandomKernel:
    """Returns a kernel as the random numbers choose it."""
    return _Maker(rng).make()


__all__ = ["idiomatic_kernel"]
