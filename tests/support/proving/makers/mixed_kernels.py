"""Makes random kernels of what `random_kernels` leaves out: circles of blocks, narrow numbers, shapes, scans, calls."""

from __future__ import annotations

import random
from collections.abc import Callable

from .random_kernels import RandomKernel

OPERATIONS = ["addi", "addi", "subi", "muli", "divsi", "remsi", "divui", "remui", "minsi", "maxsi", "minui", "maxui", "andi", "ori",  # noqa: E501
              "xori", "shli", "shrsi", "shrui", "ceildivsi", "floordivsi"]  # fmt: skip
PREDICATES = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
_WIDTHS = ["i8", "i16", "i32", "i64"]
_CONSTANTS = [0, 0, 1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 64, 100, 127, -1, -2, -8, -128]
_STATEMENTS = 14


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.main = rng.choice(["i8", "i8", "i16", "i32", "i32"])
        self.lines: list[str] = []
        self.count = 0
        self.scalars: dict[str, list[str]] = {self.main: ["%n", "%m"], "i1": []}
        self.blocks: dict[str, list[str]] = {}
        self.depth = 0
        self.elements = {
            "x": rng.choice(["i32", "i32", "i64", "i16"]),
            "y": rng.choice(["i8", "i32"]),
            "idx": self.main,
        }
        self.calls = False

    # Text

    def emit(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def name(self, text: str) -> str:
        made = f"%{self.fresh()}"
        self.emit(f"{made} = {text}")
        return made

    # Values

    def constant(self, kind: str, value: int | None = None, is_block: bool = False) -> str:
        value = self.rng.choice(_CONSTANTS) if value is None else value
        if kind == "i1":
            value = bool(value & 1)
        text = str(value).lower()
        if is_block:
            return self.name(f"arith.constant dense<{text}> : {block(kind)}")
        return self.name(f"arith.constant {text}" if kind == "i1" else f"arith.constant {text} : {kind}")

    def scalar(self, kind: str) -> str:
        """A number of this type."""
        rng = self.rng
        own = self.scalars.get(kind, [])
        if own and rng.random() < 0.7:
            return rng.choice(own[-6:] if rng.random() < 0.6 else own)
        if kind == "i1":
            other = self.any_kind()
            return self.name(
                f"arith.cmpi {rng.choice(PREDICATES)}, {self.scalar(other)}, {self.scalar(other)} : {other}"
            )
        if rng.random() < 0.6 or self.depth > 3:
            return self.constant(kind)
        return self.cast(rng.choice([each for each in (*_WIDTHS, "i1") if each != kind]), kind, False)

    def block(self, kind: str) -> str:
        """A block of numbers of this type."""
        rng = self.rng
        own = self.blocks.get(kind, [])
        if own and rng.random() < 0.7:
            return rng.choice(own[-6:] if rng.random() < 0.6 else own)
        if kind == "i1" and rng.random() < 0.8:
            other = self.any_kind()
            return self.name(
                f"arith.cmpi {rng.choice(PREDICATES)}, {self.block(other)}, {self.block(other)} : {block(other)}"
            )
        if rng.random() < 0.5:
            return self.name(f"tt.splat {self.scalar(kind)} : {kind} -> {block(kind)}")
        if rng.random() < 0.5:
            return self.constant(kind, None, True)
        if rng.random() < 0.3:
            numbers = ", ".join(
                [
                    str(rng.choice(_CONSTANTS)) if kind != "i1" else rng.choice(["true", "false"])
                    for _ in range(4)
                ]
            )
            return self.name(f"arith.constant dense<[{numbers}]> : {block(kind)}")
        found = self.blocks.get(self.main, [])
        if kind == self.main or not found:
            return self.constant(kind, None, True)
        return self.cast(self.main, kind, True)

    def any_kind(self) -> str:
        return self.rng.choice([self.main, self.main, self.main, "i8", "i32", "i64", "i1"])

    def cast(self, kind: str, to: str, is_block: bool) -> str:
        self.depth += 1
        source = self.block(kind) if is_block else self.scalar(kind)
        self.depth -= 1
        operation = self.rng.choice(["extsi", "extui"]) if bits(kind) < bits(to) else "trunci"
        types = (block(kind), block(to)) if is_block else (kind, to)
        return self.name(f"arith.{operation} {source} : {types[0]} to {types[1]}")

    def keep(self, made: str, kind: str, is_block: bool) -> None:
        (self.blocks if is_block else self.scalars).setdefault(kind, []).append(made)

    # Statements

    def compute(self) -> None:
        rng = self.rng
        kind, is_block = self.any_kind(), rng.random() < 0.5
        take: Callable[[str], str] = self.block if is_block else self.scalar
        type_ = block(kind) if is_block else kind
        choice = rng.random()
        if choice < 0.6:
            operation = rng.choice(OPERATIONS)
            if kind == "i1" and operation not in ("andi", "ori", "xori", "addi", "subi", "muli"):
                operation = rng.choice(["andi", "ori", "xori"])
            right = self.constant(kind, None, is_block) if rng.random() < 0.5 else take(kind)
            self.keep(self.name(f"arith.{operation} {take(kind)}, {right} : {type_}"), kind, is_block)
        elif choice < 0.7:
            condition = take("i1")
            mask = f"{block('i1')}, {type_}" if is_block else type_
            self.keep(
                self.name(f"arith.select {condition}, {take(kind)}, {take(kind)} : {mask}"), kind, is_block
            )
        elif choice < 0.85:
            other = rng.choice([each for each in (*_WIDTHS, "i1") if each != kind])
            self.keep(self.cast(kind, other, is_block), other, is_block)
        elif choice < 0.9 and kind != "i1":
            self.keep(self.name(f"math.absi {take(kind)} : {type_}"), kind, is_block)
        elif choice < 0.95 and kind != "i1":
            low, high = f"%{self.fresh()}", f"%{self.fresh()}"
            operation = rng.choice(["mulsi_extended", "mului_extended"])
            self.emit(f"{low}, {high} = arith.{operation} {take(kind)}, {take(kind)} : {type_}")
            self.keep(rng.choice([low, high]), kind, is_block)
        else:
            self.keep(take("i1"), "i1", is_block)

    def shape(self) -> None:
        """Moves the elements of a block."""
        rng = self.rng
        kind = self.any_kind()
        source, type_ = self.block(kind), block(kind)
        square, halves = f"tensor<2x2x{kind}>", f"tensor<2x{kind}>"
        wide = self.name(f"tt.reshape {source} : {type_} -> {square}")
        choice = rng.randrange(8)
        if choice == 0:
            wide = self.name(f"tt.trans {wide} {{order = array<i32: 1, 0>}} : {square} -> {square}")
        elif choice == 1:
            left, right = f"%{self.fresh()}", f"%{self.fresh()}"
            self.emit(f"{left}, {right} = tt.split {wide} : {square} -> {halves}")
            wide = self.name(f"tt.join {right}, {left} : {halves} -> {square}")
        elif choice == 2:
            left, right = f"%{self.fresh()}", f"%{self.fresh()}"
            self.emit(f"{left}, {right} = tt.split {wide} : {square} -> {halves}")
            self.keep(self.name(f"tt.cat {right}, {left} : {halves} -> {type_}"), kind, True)
            return
        elif choice == 3:
            left, right = f"%{self.fresh()}", f"%{self.fresh()}"
            self.emit(f"{left}, {right} = tt.split {wide} : {square} -> {halves}")
            axis = rng.randrange(2)
            one = f"tensor<2x1x{kind}>" if axis else f"tensor<1x2x{kind}>"
            flat = self.name(
                f"tt.expand_dims {rng.choice([left, right])} {{axis = {axis} : i32}} : {halves} -> {one}"
            )
            wide = self.name(f"tt.broadcast {flat} : {one} -> {square}")
        elif choice == 4 and kind != "i1":
            index = self.block("i32")
            three = self.constant("i32", rng.choice([3, 3, 1]), True)
            index = self.name(f"arith.andi {index}, {three} : {block('i32')}")
            self.keep(
                self.name(
                    f"tt.gather {source}[{index}] {{axis = 0 : i32}} : ({type_}, {block('i32')}) -> {type_}"
                ),
                kind,
                True,
            )
            return
        elif choice == 5 and kind != "i1":
            body = rng.choice(["addi", "maxsi", "minui", "xori"])
            made = f"%{self.fresh()}"
            which, back = rng.choice([("scan", type_), ("reduce", kind)])
            more = "axis = 0 : i32, reverse = false" if which == "scan" else "axis = 0 : i32"
            self.emit(f"""{made} = "tt.{which}"({source}) <{{{more}}}> ({{
  ^bb0(%a{made[1:]}: {kind}, %b{made[1:]}: {kind}):
    %s{made[1:]} = arith.{body} %a{made[1:]}, %b{made[1:]} : {kind}
    tt.{which}.return %s{made[1:]} : {kind}
  }}) : ({type_}) -> {back}""")
            self.keep(made, kind, which == "scan")
            return
        elif choice == 6 and kind == "i32":
            seven = self.constant("i32", 3, True)
            low = self.name(f"arith.andi {source}, {seven} : {type_}")
            self.keep(self.name(f"tt.histogram {low} : {type_} -> {type_}"), kind, True)
            return
        self.keep(self.name(f"tt.reshape {wide} : {square} -> {type_}"), kind, True)

    def access(self) -> None:
        """Reads or writes elements by a block, or one."""
        rng = self.rng
        array = rng.choice(["x", "x", "y"])
        element = self.elements[array]
        kind = rng.choice([self.main, self.main, "i32", "i64", "i8"])
        if rng.random() < 0.3:
            at = self.name(f"tt.addptr %{array}, {self.scalar(kind)} : !tt.ptr<{element}>, {kind}")
            mask = self.scalar("i1") if rng.random() < 0.7 else None
            suffix = f", {mask}" if mask else ""
            if rng.random() < 0.7:
                self.emit(f"tt.store {at}, {self.scalar(element)}{suffix} : !tt.ptr<{element}>")
            elif mask is None or rng.random() < 0.5:
                other = f"{suffix}, {self.scalar(element)}" if mask else ""
                self.keep(self.name(f"tt.load {at}{other} : !tt.ptr<{element}>"), element, False)
            else:
                operation = rng.choice(["add", "exch", "max"])
                if bits(element) >= 32:
                    made = self.name(
                        f"tt.atomic_rmw {operation}, acq_rel, gpu, {at}, {self.scalar(element)}, {mask} : (!tt.ptr<{element}>, "
                        f"{element}, i1) -> {element}"
                    )
                    self.keep(made, element, False)
            return
        offset = self.block(kind)
        base = self.name(f"tt.splat %{array} : !tt.ptr<{element}> -> {pointers(element)}")
        at = self.name(f"tt.addptr {base}, {offset} : {pointers(element)}, {block(kind)}")
        mask = None
        if rng.random() < 0.9:
            limit = self.constant(kind, rng.choice([1, 4, 8, 16, 17]), True)
            if rng.random() < 0.5:
                limit = self.block(kind)
            mask = self.name(
                f"arith.cmpi {rng.choice(['slt', 'slt', 'ult', 'ule'])}, {offset}, {limit} : {block(kind)}"
            )
            if rng.random() < 0.7:
                zero = self.constant(kind, 0, True)
                low = self.name(f"arith.cmpi sge, {offset}, {zero} : {block(kind)}")
                mask = self.name(f"arith.andi {mask}, {low} : {block('i1')}")
        suffix = f", {mask}" if mask else ""
        choice = rng.random()
        if choice < 0.55:
            self.emit(f"tt.store {at}, {self.block(element)}{suffix} : {pointers(element)}")
        elif choice < 0.8 or bits(element) < 32:
            other = f"{suffix}, {self.block(element)}" if mask else ""
            self.keep(self.name(f"tt.load {at}{other} : {pointers(element)}"), element, True)
        else:
            mask = mask or self.block("i1")
            made = self.name(
                f"tt.atomic_rmw add, acq_rel, gpu, {at}, {self.block(element)}, {mask} : ({pointers(element)}, {block(element)}, "  # noqa: E501
                f"{block('i1')}) -> {block(element)}"
            )
            self.keep(made, element, True)

    def _inside(self, body: Callable[[], None]) -> None:
        saved = [{kind: list(own) for kind, own in each.items()} for each in (self.scalars, self.blocks)]
        self.depth += 1
        body()
        self.depth -= 1
        self.scalars, self.blocks = saved

    def diamond(self) -> None:
        """Goes one of several ways, which meet in a block with arguments."""
        rng, tag = self.rng, self.fresh()
        kind = self.any_kind()
        arguments = [kind, rng.choice([self.main, "i1"])]
        types = ", ".join(arguments)

        def leave() -> str:
            return f"^join{tag}({', '.join([self.scalar(each) for each in arguments])} : {types})"

        if rng.random() < 0.3:
            flag = self.scalar("i32")
            first = [self.scalar(each) for each in arguments]
            numbers = f"{flag} : i32, [default: ^a{tag}, {rng.choice([0, 1])}: ^b{tag}, 3: ^join{tag}({', '.join(first)} : {types})]"  # noqa: E501
            self.emit(f"cf.switch {numbers}")
        else:
            target = f"^b{tag}" if rng.random() < 0.7 else leave()
            condition = self.scalar("i1")
            self.emit(f"cf.cond_br {condition}, ^a{tag}, {target}")
            if target != f"^b{tag}":
                self.emit(f"^a{tag}:")
                self._inside(lambda: [self.statements(rng.randint(0, 2)), self.emit(f"cf.br {leave()}")])  # type: ignore[func-returns-value]
                self._joined(tag, arguments)
                return
        for way in ("a", "b"):
            self.emit(f"^{way}{tag}:")
            self._inside(lambda: [self.statements(rng.randint(0, 2)), self.emit(f"cf.br {leave()}")])  # type: ignore[func-returns-value]
        self._joined(tag, arguments)

    def _joined(self, tag: str, arguments: list[str]) -> None:
        names = [f"%{tag}_{number}" for number in range(len(arguments))]
        self.emit(
            f"^join{tag}({', '.join([f'{name}: {kind}' for name, kind in zip(names, arguments, strict=True)])}):"
        )
        for made, kind in zip(names, arguments, strict=True):
            self.keep(made, kind, False)

    def circle(self) -> None:
        """Goes round a few times between blocks."""
        rng, tag = self.rng, self.fresh()
        zero, one, end = (
            self.constant("i32", 0),
            self.constant("i32", 1),
            self.constant("i32", rng.choice([1, 2, 4])),
        )
        kind = self.main
        self.emit(f"cf.br ^head{tag}({zero}, {self.scalar(kind)} : i32, {kind})")
        self.emit(f"^head{tag}(%t{tag}: i32, %c{tag}: {kind}):")
        self.keep(f"%t{tag}", "i32", False)
        self.keep(f"%c{tag}", kind, False)
        self.statements(rng.randint(0, 2))
        go = self.name(f"arith.cmpi slt, %t{tag}, {end} : i32")
        self.emit(f"cf.cond_br {go}, ^body{tag}, ^end{tag}")
        self.emit(f"^body{tag}:")

        def body() -> None:
            self.statements(rng.randint(0, 2))
            following = self.name(f"arith.addi %t{tag}, {one} : i32")
            self.emit(f"cf.br ^head{tag}({following}, {self.scalar(kind)} : i32, {kind})")

        self._inside(body)
        self.emit(f"^end{tag}:")

    def choice(self) -> None:
        rng, tag = self.rng, self.fresh()
        kind, other = self.any_kind(), self.main
        condition = self.scalar("i1")
        self.emit(f"%{tag}:2 = scf.if {condition} -> ({kind}, {block(other)}) {{")
        for last in (False, True):

            def body() -> None:
                self.statements(rng.randint(0, 2))
                self.emit(f"scf.yield {self.scalar(kind)}, {self.block(other)} : {kind}, {block(other)}")

            self._inside(body)
            self.emit("}" if last else "} else {")
        self.keep(f"%{tag}#0", kind, False)
        self.keep(f"%{tag}#1", other, True)

    def region(self) -> None:
        tag, kind = self.fresh(), self.any_kind()
        self.emit(f"%{tag} = scf.execute_region -> {kind} {{")

        def body() -> None:
            (self.diamond if self.rng.random() < 0.6 else self.circle)()
            self.statements(1)
            self.emit(f"scf.yield {self.scalar(kind)} : {kind}")

        self._inside(body)
        self.emit("}")
        self.keep(f"%{tag}", kind, False)

    def loop(self) -> None:
        rng, tag = self.rng, self.fresh()
        kind = rng.choice([self.main, "i32"])
        carried = [self.any_kind(), self.main]
        low = self.constant(kind, rng.choice([0, 0, 1, -2, 3])) if rng.random() < 0.7 else self.scalar(kind)
        end = self.constant(kind, rng.choice([2, 3, 5, 8]))
        if rng.random() < 0.5:
            three = self.constant(kind, 6)
            end = self.name(f"arith.minsi {self.scalar(kind)}, {three} : {kind}")
            minus = self.constant(kind, -4)
            low = self.name(f"arith.maxsi {low}, {minus} : {kind}")
        step = self.constant(kind, rng.choice([1, 1, 2, 3, 4])) if rng.random() < 0.85 else self.scalar(kind)
        types = f"{carried[0]}, {block(carried[1])}, !tt.ptr<i32>"
        starts = f"%c{tag} = {self.scalar(carried[0])}, %d{tag} = {self.block(carried[1])}, %p{tag} = %z"
        self.emit(
            f"%{tag}:3 = scf.for %i{tag} = {low} to {end} step {step} iter_args({starts}) -> ({types}) : {kind} {{"
        )

        def body() -> None:
            self.keep(f"%i{tag}", kind, False)
            self.keep(f"%c{tag}", carried[0], False)
            self.keep(f"%d{tag}", carried[1], True)
            self.statements(rng.randint(1, 3))
            scalar = self.scalar(carried[0])
            if rng.random() < 0.6:
                operation = rng.choice(["addi", "addi", "subi", "muli", "xori"])
                scalar = self.name(f"arith.{operation} %c{tag}, {self.scalar(carried[0])} : {carried[0]}")
            wide = self.block(carried[1])
            if rng.random() < 0.6:
                wide = self.name(f"arith.addi %d{tag}, {wide} : {block(carried[1])}")
            by = self.constant("i32", rng.choice([0, 1, 2])) if rng.random() < 0.7 else self.scalar("i32")
            moved = self.name(f"tt.addptr %p{tag}, {by} : !tt.ptr<i32>, i32")
            if rng.random() < 0.3:
                self.emit(f"tt.store %p{tag}, {self.scalar('i32')}, {self.scalar('i1')} : !tt.ptr<i32>")
            self.emit(f"scf.yield {scalar}, {wide}, {moved} : {types}")

        self._inside(body)
        self.emit("}")
        self.keep(f"%{tag}#0", carried[0], False)
        self.keep(f"%{tag}#1", carried[1], True)
        if rng.random() < 0.4:
            self.emit(f"tt.store %{tag}#2, {self.scalar('i32')}, {self.scalar('i1')} : !tt.ptr<i32>")

    def repeat(self) -> None:
        rng, tag = self.rng, self.fresh()
        kind = self.main
        zero, cap = self.constant("i32", 0), self.constant("i32", rng.choice([1, 2, 5]))
        types = f"{kind}, i32, {block(kind)}"
        starts = f"%i{tag} = {self.scalar(kind)}, %t{tag} = {zero}, %b{tag} = {self.block(kind)}"
        self.emit(f"%{tag}:2 = scf.while ({starts}) : ({types}) -> ({kind}, i32) {{")

        def before() -> None:
            self.keep(f"%i{tag}", kind, False)
            self.keep(f"%t{tag}", "i32", False)
            self.keep(f"%b{tag}", kind, True)
            self.statements(rng.randint(0, 2))
            one = self.name(f"arith.cmpi slt, %t{tag}, {cap} : i32")
            go = self.name(f"arith.andi {one}, {self.scalar('i1')} : i1")
            self.emit(f"scf.condition({go}) {self.scalar(kind)}, %t{tag} : {kind}, i32")

        def after() -> None:
            self.emit(f"^bb0(%j{tag}: {kind}, %u{tag}: i32):")
            self.keep(f"%j{tag}", kind, False)
            self.keep(f"%u{tag}", "i32", False)
            self.statements(rng.randint(0, 2))
            moved = self.name(
                f"arith.{rng.choice(['addi', 'addi', 'shli', 'muli'])} %j{tag}, {self.scalar(kind)} : {kind}"
            )
            one = self.constant("i32", 1)
            counted = self.name(f"arith.addi %u{tag}, {one} : i32")
            self.emit(f"scf.yield {moved}, {counted}, {self.block(kind)} : {types}")

        self._inside(before)
        self.emit("} do {")
        self._inside(after)
        self.emit("}")
        self.keep(f"%{tag}#0", kind, False)
        self.keep(f"%{tag}#1", "i32", False)

    def call(self) -> None:
        self.calls = True
        made = self.name(
            f"tt.call @helper({self.scalar(self.main)}, {self.scalar('i1')}) : ({self.main}, i1) -> {self.main}"
        )
        self.keep(made, self.main, False)

    def statements(self, count: int) -> None:
        rng = self.rng
        for _ in range(count):
            choice = rng.random()
            if choice < 0.45:
                self.compute()
            elif choice < 0.6:
                self.access()
            elif choice < 0.7:
                self.shape()
            elif choice < 0.73:
                self.call()
            elif self.depth < 2:
                structured = [self.choice, self.region, self.loop, self.loop, self.repeat]
                flat = [self.diamond, self.diamond, self.circle] if self.depth == 0 else []
                rng.choice([*structured, *flat])()

    def make(self) -> RandomKernel:
        """Makes the kernel."""
        rng, main = self.rng, self.main
        self.emit("%pid = tt.get_program_id x : i32")
        self.emit("%lanes = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>")
        self.emit(
            "%z = tt.bitcast %x : !tt.ptr<" + self.elements["x"] + "> -> !tt.ptr<i32>"
            if self.elements["x"] != "i32"
            else "%none = arith.constant 0 : i32\n  %z = tt.addptr %x, %none : !tt.ptr<i32>, i32"
        )
        four = self.constant("i32", 4)
        start = self.name(f"arith.muli %pid, {four} : i32")
        wide = self.name(f"tt.splat {start} : i32 -> tensor<4xi32>")
        index = self.name(f"arith.addi {wide}, %lanes : tensor<4xi32>")
        self.scalars["i32"] = [*self.scalars.get("i32", []), "%pid", start]
        self.blocks["i32"] = ["%lanes", index, index]
        if main != "i32":
            self.blocks[main] = [self.name(f"arith.trunci {index} : tensor<4xi32> to {block(main)}")]
        loaded = self.name(f"tt.load %idx : !tt.ptr<{main}>")
        self.keep(loaded, main, False)
        self.statements(rng.randint(3, _STATEMENTS))
        self.access()
        parameters = ", ".join([f"%{name}: !tt.ptr<{element}>" for name, element in self.elements.items()])
        text = (
            f"tt.func public @k({parameters}, %n: {main}, %m: {main}) {{\n"
            + "\n".join(self.lines)
            + "\n  tt.return\n}\n"
        )
        if self.calls:
            body = f"""  %c = arith.constant {rng.choice([1, 3, 100])} : {main}
  %s = arith.{rng.choice(OPERATIONS)} %a, %c : {main}
  cf.cond_br %q, ^one, ^two(%s : {main})
^one:
  %d = arith.addi %s, %a : {main}
  cf.br ^two(%d : {main})
^two(%r: {main}):
  tt.return %r : {main}"""
            text = (
                f"module {{\ntt.func private @helper(%a: {main}, %q: i1) -> {main} {{\n{body}\n}}\n{text}}}\n"
            )
        sizes = ["n", "n", "m", "n + 3", "17", "8", "n * m", "4 * m", "128", "300", "2**20"]
        extents = {name: rng.choice(sizes) for name in self.elements} | {
            "idx": rng.choice(["1", "1", "n", "4"])
        }
        grid = rng.choice(["grid_x", "cdiv(n, 4)", "2", "m", "1"])
        assume = [f"grid_x <= {rng.choice([5, 30])}"] if grid == "grid_x" else []
        assume += [
            each for each in ("n >= 0", "m >= 1", "m <= n", "n <= 17", "n <= 100") if rng.random() < 0.4
        ]
        if rng.random() < 0.5:
            assume.append(
                rng.choice(["0 <= idx[:] < n", "0 <= idx[:] < 8", "idx[:] < 17", "0 <= idx[:] <= 200"])
            )
        return RandomKernel(text, extents, (grid,), tuple(assume), dict(self.elements))


def bits(kind: str) -> int:
    return int(kind[1:])


def block(kind: str) -> str:
    return f"tensor<4x{kind}>"


def pointers(element: str) -> str:
    return f"tensor<4x!tt.ptr<{element}>>"


def mixed_kernel(rng: random.Random) -> RandomKernel:
    """Returns a kernel as the random numbers choose it."""
    return _Maker(rng).make()
