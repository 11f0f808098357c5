"""Builds LLVM IR as text: a function builder over the typed values of `values.py`.

llvmlite's own builder has neither bfloat nor string attributes; text has both, and a line of text costs less than an object.
Values carry their LLVM type, so emitters read like arithmetic; intrinsics are declared on first use.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from .metadata import SourceLine, Subprogram
from .module import Module
from .names import check_name
from .values import (
    Carried,
    Constant,
    ConstantFloat,
    ConstantInt,
    ConstantSplat,
    Deferred,
    V,
    const,
    element,
    i32,
    i64,
    int_vector,
    is_integer,
    lanes,
    vector,
    with_element,
)

_MAX_DEFERRED = 48  # length of a chain of deferred values: printing the last prints all, each inside the next


class Phis(NamedTuple):
    """The phis of a loop's head, in a line kept for them: (carried, first value, next value), entry and latch."""

    slot: int
    values: list[tuple[Carried, V, V]]
    entry: str
    latch: str


class Loop:
    """The state of an open loop: `index` and the carried `values`; set `next` before leaving; `results` afterwards."""

    __slots__ = ("index", "next", "results", "values")

    def __init__(self, index: V, values: list[V]) -> None:
        self.index = index
        self.values = values
        self.next: list[V] = list(values)
        self.results: list[V] = []


class Function:
    """Builds one function, block after block. Methods append an instruction and return its value."""

    def __init__(
        self,
        module: Module,
        name: str,
        params: Sequence[tuple[str, str]],
        result: str = "void",
        attributes: str = "nounwind",
        linkage: str = "",
        numbering: bool = False,
    ) -> None:
        """Begins a function. `params`: (type with attributes such as "ptr noalias", name); vectors go without attributes.

        numbering: an instruction without effects is not printed a second time where the first dominates.
        """
        self.module, self.name = module, check_name(name)
        self.params = [V(f"%{n}", t if t[0] == "<" else t.split(" ")[0]) for t, n in params]
        self._declared = [f"{t} %{n}" for t, n in params]
        self._linkage, self._result = linkage, result
        self.attributes = attributes
        self.lines: list[str] = ["entry:"]
        self._all = self.lines
        self._known: list[dict[str, V]] | None = [{}] if numbering else None
        self._phis: list[Phis] = []
        self.block = "entry"
        self._entry_allocas: list[str] = []
        self._counter = 0
        self.subprogram: Subprogram | None = None
        self.halves_in_registers = False  # see `halves.py`
        self.divides_beside = False  # whether other work goes on beside the only division or root of a loop
        self.location = ""  # debug location that is appended to the text of instructions

    # -- plumbing ---------------------------------------------------------

    def becomes_part(self, name: str, type_: str, parameter: str) -> None:
        """Makes this a function that another one of the module calls, with one more parameter."""
        self.name = check_name(name)
        self._linkage, self.attributes = "internal", f"{self.attributes} noinline"
        self._declared.append(f"{type_} %{parameter}")

    def begins_at(self, name: str, line: SourceLine) -> None:
        """Gives the function a source line, which is also that of instructions printed before `location` is set."""
        self.subprogram = self.module.metadata.subprogram(name, line)
        self.location = self.subprogram.location(line)

    def fresh(self, prefix: str = "t") -> str:
        self._counter += 1
        return f"%{prefix}{self._counter}"

    def emit(self, text: str) -> None:
        self.lines.append(f"  {text}{self.location}" if text else "  ")

    def op(self, text: str, type_: str) -> V:
        self._counter += 1
        ref = f"%t{self._counter}"
        self.lines.append(f"  {ref} = {text}{self.location}")
        return V(ref, type_)

    def pure(self, text: str, type_: str) -> V:
        """Returns an instruction without effects: the value of an equal one that dominates, where values are numbered."""
        if self._known is None:
            return self.op(text, type_)
        for known in reversed(self._known):
            found = known.get(text)
            if found is not None:
                return found
        found = self._known[-1][text] = self.op(text, type_)
        return found

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Collects what is emitted inside in a list of its own."""
        kept, block, self.lines = self.lines, self.block, []
        yield self.lines
        self.lines, self.block = kept, block

    def known(self) -> dict[str, V]:
        """Returns the values that dominate the current position."""
        return {text: value for known in self._known or () for text, value in known.items()}

    @contextmanager
    def knowing(self, known: dict[str, V]) -> Iterator[None]:
        """Emits at another position, which only these values dominate; what is printed inside is added to them."""
        kept = self._known
        self._known = None if kept is None else [known]
        yield
        self._known = kept

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Opens a scope: what came before dominates its instructions, and they do not dominate what comes after."""
        if self._known is not None:
            self._known.append({})
        yield
        if self._known is not None:
            self._known.pop()

    def deferred(self, type_: str, make: Callable[[], V], origin: object = None, of: Iterable[V] = ()) -> Deferred:
        """Returns a value that `make` prints here, from the values `of`, if it is ever used."""
        depth = 1 + max((each.depth for each in of if isinstance(each, Deferred) and not each.is_printed), default=0)
        slot, location = len(self._all), self.location
        value = Deferred(type_, lambda: self.print_at(slot, make, location), origin, depth)
        if self.lines is self._all:
            self._all.append("")
        else:  # used by a deferred value that is being printed
            value = Deferred(type_, make, origin, depth)
            value.printed()
        if depth >= _MAX_DEFERRED:
            value.printed()
        return value

    def print_at(self, slot: int, make: Callable[[], V], location: str) -> V:
        """Prints the instructions of `make` in a line that was kept free; it must not need anything printed later."""
        lines, known, here = self.lines, self._known, self.location
        self.lines, self._known, self.location = [], None, location
        value = make()
        while isinstance(value, Deferred):
            value = value.printed()
        self._all[slot] = "\n".join(self.lines)
        self.lines, self._known, self.location = lines, known, here
        return value

    def label(self, prefix: str = "b") -> str:
        self._counter += 1
        return f"{prefix}{self._counter}"

    def start(self, label: str, dominated: bool = False) -> None:
        """Begins a block. dominated: all that was printed in this scope so far dominates it."""
        self.lines.append(f"{label}:")
        self.block = label
        if self._known is not None and not dominated:
            self._known[-1].clear()

    def carried(self, type_: str) -> Carried:
        """Returns a value that a loop carries; `join` sets its first and next value."""
        return Carried(self.fresh("c"), type_)

    def join(self, slot: int, values: Iterable[tuple[Carried, V, V]], entry: str, latch: str) -> None:
        """Records the (carried, first, next) values of a loop; phis of those that are used go to the line `slot` in the end."""
        self._phis.append(Phis(slot, list(values), entry, latch))

    def _print_phis(self) -> None:
        waiting = [(phis, *value) for phis in self._phis for value in phis.values]
        printed: dict[int, list[str]] = {}
        while True:  # printing one may use others
            ready = [each for each in waiting if each[1].is_used]
            if not ready:
                break
            waiting = [each for each in waiting if not each[1].is_used]
            for phis, value, first, new in ready:
                ways = f"[ {first.operand()}, %{phis.entry} ], [ {new.operand()}, %{phis.latch} ]"
                printed.setdefault(phis.slot, []).append(f"  {value.name} = phi {value.type} {ways}")
        for slot, lines in printed.items():
            self._all[slot] = "\n".join(lines)
        self._phis.clear()

    def text(self) -> str:
        self._print_phis()
        head = f"define {self._linkage}{' ' * bool(self._linkage)}{self._result} @{self.name}({', '.join(self._declared)})"
        head = f"{head} {self.attributes}{'' if self.subprogram is None else f' !dbg !{self.subprogram.number}'} {{"
        return "\n".join([head, self.lines[0], *self._entry_allocas, *filter(None, self.lines[1:]), "}", ""])

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Takes back what is emitted inside, but for deferred values from before."""
        kept = (len(self.lines), len(self._entry_allocas), self.block, len(self._phis))
        with self.scope():
            yield
        del self.lines[kept[0] :]
        del self._entry_allocas[kept[1] :]
        self.block = kept[2]
        del self._phis[kept[3] :]

    # -- arithmetic -------------------------------------------------------

    def binary(self, opcode: str, a: V, b: V) -> V:
        """Emits any two-operand instruction: add, fadd, and, shl, "add nsw", …"""
        return self.pure(f"{opcode} {a.type} {a.operand()}, {b.operand()}", a.type)

    def add(self, a: V, b: V) -> V:
        if is_integer(b, 0):
            return a
        if is_integer(a, 0):
            return b
        return self.pure(f"add {a.type} {a.operand()}, {b.operand()}", a.type)

    def sub(self, a: V, b: V) -> V:
        return a if is_integer(b, 0) else self.pure(f"sub {a.type} {a.operand()}, {b.operand()}", a.type)

    def mul(self, a: V, b: V) -> V:
        if is_integer(a, 1) or is_integer(b, 0):
            return b
        if is_integer(b, 1) or is_integer(a, 0):
            return a
        return self.pure(f"mul {a.type} {a.operand()}, {b.operand()}", a.type)

    def fneg(self, a: V) -> V:
        return self.pure(f"fneg {a.type} {a.operand()}", a.type)

    def icmp(self, predicate: str, a: V, b: V) -> V:
        return self.pure(f"icmp {predicate} {a.type} {a.operand()}, {b.operand()}", with_element(a.type, "i1"))

    def fcmp(self, predicate: str, a: V, b: V) -> V:
        return self.pure(f"fcmp {predicate} {a.type} {a.operand()}, {b.operand()}", with_element(a.type, "i1"))

    def select(self, c: V, a: V, b: V) -> V:
        return self.pure(f"select {c.type} {c.operand()}, {a.type} {a.operand()}, {b.type} {b.operand()}", a.type)

    def cast(self, opcode: str, a: V, type_: str) -> V:
        return a if a.type == type_ else self.pure(f"{opcode} {a.type} {a.operand()} to {type_}", type_)

    def bitcast(self, a: V, type_: str) -> V:
        if a.type == "float" and type_ == "i32" and isinstance(number := a.printed(), ConstantFloat):
            return const(struct.unpack("<i", struct.pack("<f", number.number))[0], type_)
        return self.cast("bitcast", a, type_)

    def call(self, name: str, result: str, args: Sequence[V], flags: str = "") -> V:
        text = ", ".join(f"{a.type} {a.operand()}" for a in args)
        if result == "void":
            self.emit(f"call void @{name}({text})")
            return V("", "void")
        return self.op(f"call {flags + ' ' if flags else ''}{result} @{name}({text})", result)

    def intrinsic(self, name: str, args: Sequence[V], result: str | None = None, flags: str = "") -> V:
        """Calls an intrinsic overloaded on the first operand's type: `intrinsic("fma", [a, b, c])` → `@llvm.fma.v16f32`."""
        full = f"llvm.{name}.{mangle(args[0].type)}"
        out = result if result is not None else args[0].type
        self.module.declare(full, out, [a.type for a in args])
        if name in ("smin", "smax"):
            return self.pure(f"call {out} @{full}({', '.join(f'{a.type} {a.operand()}' for a in args)})", out)
        return self.call(full, out, args, flags)

    def target_intrinsic(self, name: str, args: Sequence[V], result: str) -> V:
        """Calls a target intrinsic by its full name; the caller has checked that the target has it."""
        self.module.declare(name, result, [a.type for a in args])
        return self.call(name, result, args)

    def fma(self, a: V, b: V, c: V) -> V:
        return self.intrinsic("fma", [a, b, c])

    def smin(self, a: V, b: V) -> V:
        return self.intrinsic("smin", [a, b])

    def smax(self, a: V, b: V) -> V:
        return self.intrinsic("smax", [a, b])

    # -- vectors ----------------------------------------------------------

    def splat(self, a: V, n: int) -> V:
        """Broadcasts a scalar to a vector of n lanes (n == 1: unchanged). Constants stay constants."""
        if n == 1 or a.type[0] == "<":
            return a
        type_ = f"<{n} x {a.type}>"
        lane = a.printed()
        if isinstance(lane, Constant) and lane.type != "ptr":
            return ConstantSplat(lane, n)
        one = self.pure(f"insertelement {type_} poison, {a.type} {a.operand()}, i32 0", type_)
        return self.pure(f"shufflevector {type_} {one.operand()}, {type_} poison, <{n} x i32> zeroinitializer", type_)

    def shuffle(self, a: V, b: V, mask: Sequence[int]) -> V:
        indices = ", ".join(f"i32 {m}" if m >= 0 else "i32 poison" for m in mask)
        out = vector(element(a.type), len(mask))
        return self.pure(
            f"shufflevector {a.type} {a.operand()}, {b.type} {b.operand()}, <{len(mask)} x i32> <{indices}>", out
        )

    def concatenated(self, parts: Sequence[V]) -> V:
        """Returns vectors of equal lengths, a power of two of them, one after the other in one."""
        current = list(parts)
        while len(current) > 1:
            both = range(2 * lanes(current[0].type))
            current = [self.shuffle(a, b, both) for a, b in zip(current[::2], current[1::2], strict=True)]
        return current[0]

    def extract(self, a: V, lane: int | V) -> V:
        at = f"i32 {lane}" if isinstance(lane, int) else f"{lane.type} {lane.operand()}"
        return self.pure(f"extractelement {a.type} {a.operand()}, {at}", element(a.type))

    def insert(self, a: V, value: V, lane: int | V) -> V:
        at = f"i32 {lane}" if isinstance(lane, int) else f"{lane.type} {lane.operand()}"
        return self.pure(f"insertelement {a.type} {a.operand()}, {value.type} {value.operand()}, {at}", a.type)

    def hidden(self, a: V) -> V:
        """Emit an empty piece of assembly that gives a vector of x86: for optimisations it is any other one from here on."""
        return self.op(f'call {a.type} asm "", "=v,0"({a.type} {a.operand()})', a.type)

    def iota(self, n: int, element_: str = "i64") -> V:
        return int_vector(range(n), element_)

    # -- memory -----------------------------------------------------------

    def gep(self, base: V, index: V | int, element_: str = "i8") -> V:
        at = i64(index) if isinstance(index, int) else index
        if is_integer(at, 0):
            return base
        return self.pure(f"getelementptr {element_}, ptr {base.operand()}, {at.type} {at.operand()}", "ptr")

    def load(self, type_: str, pointer: V, align: int = 1) -> V:
        return self.op(f"load {type_}, ptr {pointer.operand()}, align {align}", type_)

    def store(self, value: V, pointer: V, align: int = 1, nontemporal: bool = False) -> None:
        hint = ", !nontemporal !0" if nontemporal else ""
        self.emit(f"store {value.type} {value.operand()}, ptr {pointer.operand()}, align {align}{hint}")

    def masked_load(self, type_: str, pointer: V, mask: V, other: V, align: int) -> V:
        name = f"llvm.masked.load.{mangle(type_)}.p0"
        self.module.declare(name, type_, ["ptr", "i32", mask.type, type_])
        return self.call(name, type_, [pointer, i32(align), mask, other])

    def masked_store(self, value: V, pointer: V, mask: V, align: int) -> None:
        name = f"llvm.masked.store.{mangle(value.type)}.p0"
        self.module.declare(name, "void", [value.type, "ptr", "i32", mask.type])
        self.call(name, "void", [value, pointer, i32(align), mask])

    def prefetch(self, pointer: V, write: bool = False, locality: int = 3) -> None:
        self.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        flags = [i32(int(write)), i32(locality), i32(1)]
        self.call("llvm.prefetch.p0", "void", [pointer, *flags])

    def alloca(self, type_: str, count: int = 1, align: int = 64) -> V:
        """Reserves stack memory once, in the entry block."""
        ref = self.fresh("s")
        self._entry_allocas.append(f"  {ref} = alloca {type_}, i64 {count}, align {align}")
        return V(ref, "ptr")

    def zeroed(self, count: int) -> V:
        """Reserves stack memory for words that are 0 when the function begins."""
        memory = self.alloca("i64", count, 8)
        for number in range(count):
            slot = self.fresh("s")
            self._entry_allocas.append(f"  {slot} = getelementptr i64, ptr {memory.operand()}, i64 {number}")
            self._entry_allocas.append(f"  store i64 0, ptr {slot}, align 8")
        return memory

    # -- control ----------------------------------------------------------

    def branch(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def cond_branch(self, c: V, yes: str, no: str) -> None:
        self.emit(f"br i1 {c.operand()}, label %{yes}, label %{no}")

    def phi(self, type_: str, incoming: Sequence[tuple[V, str]]) -> V:
        return self.op(f"phi {type_} " + ", ".join(f"[ {v.operand()}, %{b} ]" for v, b in incoming), type_)

    @contextmanager
    def loop(
        self,
        low: V | int,
        high: V | int,
        step: V | int = 1,
        carry: Sequence[V] = (),
        at_least_once: bool = False,
        keep: bool = False,
    ) -> Iterator[Loop]:
        """Opens `for index in range(low, high, step)` with carried values. `at_least_once`: a do-while (high > low is known).

        keep: the loop is not unrolled. A loop that is known to have one iteration is emitted as straight-line code.
        """
        lo, hi, st = (i64(x) if isinstance(x, int) else x for x in (low, high, step))
        if _is_one_iteration(lo, hi, st):
            once = Loop(lo, list(carry))
            yield once
            once.results = list(once.next)
            return
        head, body, done = self.label("h"), self.label("l"), self.label("x")
        before = self.block
        self.branch(head)
        self.start(head, True)
        loop = Loop(V(self.fresh("i"), lo.type), [V(self.fresh("c"), c.type) for c in carry])
        slot = len(self.lines)
        self.lines.append("")
        if not at_least_once:
            self.cond_branch(self.icmp("slt", loop.index, hi), body, done)
            self.start(body, True)
        counter = loop.index
        if self.module.opaque_indices:
            loop.index = self.op(f'call {lo.type} asm "", "=r,0"({lo.type} {counter.operand()})', lo.type)
        with self.scope():
            yield loop
        following = self.op(f"add nsw {lo.type} {counter.operand()}, {st.operand()}", lo.type)
        latch = self.block
        hint = f", !llvm.loop !{self.module.metadata.no_unrolling()}" if keep else ""
        if at_least_once:
            again = self.icmp("slt", following, hi)
            self.emit(f"br i1 {again.operand()}, label %{head}, label %{done}{hint}")
        else:
            self.emit(f"br label %{head}{hint}")
        phis = []
        for value, first, new in zip([counter, *loop.values], [lo, *carry], [following, *loop.next], strict=True):
            ways = f"[ {first.operand()}, %{before} ], [ {new.operand()}, %{latch} ]"
            phis.append(f"  {value.operand()} = phi {value.type} {ways}")
        self.lines[slot] = "\n".join(phis)
        self.start(done, True)
        loop.results = list(loop.next) if at_least_once else loop.values

    @contextmanager
    def when(self, c: V) -> Iterator[None]:
        """Emits a branch: the body runs if the i1 is true."""
        yes, done = self.label("y"), self.label("n")
        self.cond_branch(c, yes, done)
        self.start(yes, True)
        with self.scope():
            yield
        self.branch(done)
        self.start(done, True)

    def ret(self, value: V | None = None) -> None:
        self.emit("ret void" if value is None else f"ret {value.type} {value.operand()}")


def _is_one_iteration(low: V, high: V, step: V) -> bool:
    known = [each.number for each in (low, high, step) if isinstance(each, ConstantInt)]
    return len(known) == 3 and known[0] < known[1] <= known[0] + known[2]


def mangle(type_: str) -> str:
    """Returns LLVM's intrinsic suffix of a type: `v16f32`, `bf16`, `i64`, `p0`."""
    names = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}
    el = element(type_)
    short = names.get(el, el)
    return f"v{lanes(type_)}{short}" if type_[0] == "<" else short
