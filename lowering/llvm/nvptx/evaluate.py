"""Evaluates block values in a layout: the elements that the registers of each thread hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from ....promotion.dataclass import dataclass
from ...linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from ...linear_layouts.linear import to_unique
from ...tt.facts import APPROXIMATE, CONTRACT, IN_RANGE, allows
from ..elementwise import (
    INSTRUCTION,
    NARROW,
    Rounded,
    emit_map,
    instruction,
    math_form,
    narrowed,
    register_element,
    round_register,
    widened,
)
from ..math import approximate
from ..math.library import INSTRUCTIONS
from ..op_lines import NodeLines
from ..quotients.division import divide_all
from ..values import ConstantInt, V, const, is_constant, is_integer, poison
from .convert_layout import Moves
from .functions import called
from .nodes import (
    Distributed,
    Map,
    Node,
    Range,
    Splat,
    View,
    depth_of,
    is_materialized,
    is_slow,
    own_layout,
    source_layout,
)
from .threads import Threads

Registers = tuple[V, ...]


_CHEAP = frozenset(["ptr", "i1", "i8", "i16", "i32", "i64"])
"""The types of elements of which often only a few are used: of addresses and masks that loops carry, one for each access."""


_DIVISIONS = frozenset(["arith.divf", "tt.precise_divf", "tt.approx_divf"])
_PACKED = {
    "arith.addf": "fadd", "arith.subf": "fsub", "arith.mulf": "fmul", "arith.maximumf": "maximum",
    "arith.minimumf": "minimum", "arith.maxnumf": "maxnum", "arith.minnumf": "minnum",
}  # fmt: skip
"""The operations that the hardware has for two 16-bit floats in a register."""
_LONG_FROM = 12
"""The fewest instructions of a long function."""
_LONG = frozenset([op for op, count in INSTRUCTIONS.items() if count >= _LONG_FROM]) | {"arith.remf"}
"""The functions with so many instructions that they are not printed once per element."""
_SLOW = _LONG | _DIVISIONS | {"arith.divsi", "arith.divui", "arith.remsi", "arith.remui"}
"""The operations that a loop should not repeat if it does not change them, whatever registers that takes.

Divisions by a power of two are quick.
"""
_WIDE = frozenset(["ptr", "i64", "f64"])
_KEPT = 32
"""The most registers in which results of other operations wait for the loop; the assembler recomputes those without room."""
_TOGETHER = 4
"""The fewest quotients by one number that are worth its reciprocal."""


@dataclass(slots=True)
class OpenLoop:
    """A position before an open loop: the lines for what is printed there, the block that they end in, and what dominates them.

    scopes: how many scopes enclose the loop.
    """

    lines: list[str]
    slot: int
    block: str
    known: dict[str, V]
    remembered: dict[object, V]
    scopes: int


class Evaluator:
    """Emits block values. Evaluated elements are remembered where they may be used again."""

    def __init__(self, threads: Threads, moves: Moves) -> None:
        self.t = threads
        self.f = threads.f
        self.moves = moves
        self._scopes: list[dict[tuple[int, LinearLayout], dict[int, V]]] = [{}]
        self._loops: list[OpenLoop] = []
        self._alive: list[Node] = []  # keeps the ids of remembered nodes unique
        self.lines = NodeLines()
        self.only_layouts = False
        """Whether only layouts matter, as on trial: values are arbitrary."""

    @contextmanager
    def scope(self, dominates: bool = False) -> Iterator[None]:
        """Opens a scope, whose values are not used outside. dominates: its instructions dominate what comes after."""
        self._scopes.append({})
        with nullcontext() if dominates else self.t.scope():
            yield
        self._scopes.pop()

    @contextmanager
    def loop(self) -> Iterator[OpenLoop]:
        """Opens a position before a loop; it is entered before the branch to the loop.

        Expressions from before the loop are evaluated there, when the loop first needs them; which block branches to
        the loop is known in the end.
        """
        f, lines = self.f, self.f.lines
        lines.append("")
        self._loops.append(OpenLoop(lines, len(lines) - 1, f.block, f.known(), self.t.all_remembered(), len(self._scopes)))
        yield self._loops[-1]
        self._loops.pop()

    @contextmanager
    def _before(self, number: int) -> Iterator[None]:
        """Prints what is emitted inside before an open loop."""
        loop = self._loops[number]
        kept = self._loops, self._scopes
        self._loops, self._scopes = self._loops[:number], self._scopes[: loop.scopes]
        with self.f.apart() as lines, self.f.knowing(loop.known), self.t.knowing(loop.remembered):
            self.f.block = loop.block
            yield
            loop.block = self.f.block
        self._loops, self._scopes = kept
        loop.lines[loop.slot] = "\n".join(filter(None, [loop.lines[loop.slot], *lines]))

    def _is_kept(self, node: Map, count: int) -> bool:
        """Whether registers keep this many elements through an open loop.

        Conditions are cheaper to recompute; of many addresses that are slow to compute, the offsets are kept.
        """
        if node.loops == len(self._loops):
            return False
        registers = count * (2 if node.elem in _WIDE else 1)
        return (registers <= _KEPT and node.elem != "i1") or (node.is_slow and node.elem != "ptr")

    def at(self, node: Node, layout: LinearLayout) -> Registers:
        """Evaluates all elements of the node in a layout of its shape."""
        return self.elements(node, layout, range(layout.size(REGISTER)))

    def elements(self, node: Node, layout: LinearLayout, registers: Sequence[int]) -> Registers:
        """Evaluates the elements that these registers hold in a layout of the node's shape."""
        if isinstance(node, Splat):
            return (node.value,) * len(registers)
        if self.only_layouts:
            return self.any(node.elem, len(registers))
        if isinstance(node, Distributed) and node.layout == layout:
            return tuple(node.registers[register] for register in registers)
        unique = layout.unique_registers()
        if unique is not layout and len(unique[REGISTER]) < len(layout[REGISTER]):
            table = to_unique(layout)
            registers, layout = [table[register] for register in registers], unique
        if isinstance(node, Map) and "equal" in node.attrs:
            same = sum(constant_bits(layout, node.attrs["equal"]))
            registers = [register & ~same for register in registers]
        key = (id(node), layout)
        known = next((scope[key] for scope in reversed(self._scopes) if key in scope), None)
        if known is None:
            known = {}
            self._alive.append(node)
        missing = list(dict.fromkeys(register for register in registers if register not in known))
        if missing:
            if isinstance(node, Map) and self._is_kept(node, len(missing)):
                with self._before(node.loops):
                    return self.elements(node, layout, registers)
            here = self.f.location
            self.f.location = self.lines.of(node, here)
            found = self._elements(node, layout, missing)
            self.f.location = here
            # elements that an inner scope adds do not hold outside
            known = self._scopes[-1][key] = {**known, **dict(zip(missing, found, strict=True))}
        return tuple(known[register] for register in registers)

    def _elements(self, node: Node, layout: LinearLayout, registers: Sequence[int]) -> Registers:
        match node:
            case Range():
                start = const(node.start, "i32")
                return tuple(self.f.add(index, start) for index in self.t.indices(layout, 0, registers))
            case Distributed():
                converted = self.moves.convert(node.registers, node.elem, node.layout, layout)
                self._scopes[-1][id(node), layout] = dict(enumerate(converted))
                return tuple(converted[register] for register in registers)
            case View():
                return self.elements(node.source, source_layout(node, layout), registers)
            case Map():
                return self.map(node.op, node.elem, node.operands, node.attrs, layout, registers)
        raise AssertionError

    def known(self, node: Node, layout: LinearLayout) -> Registers | None:
        """Returns the elements in a layout if they were all evaluated before, else None."""
        for scope in reversed(self._scopes):
            found = scope.get((id(node), layout))
            if found is not None and len(found) == layout.size(REGISTER):
                return tuple(found[register] for register in range(len(found)))
        return None

    def remember(self, node: Node, layout: LinearLayout, registers: Registers) -> None:
        """Remembers the elements in a layout, found in another way."""
        self._scopes[-1][id(node), layout] = dict(enumerate(registers))
        self._alive.append(node)

    def any(self, elem: str, count: int) -> Registers:
        return (poison(register_element(elem) if elem != "ptr" else "i64"),) * count

    def map(
        self, op: str, elem: str, operands: Sequence[Node], attrs: Mapping[str, Any], layout: LinearLayout,
        registers: Sequence[int], later: bool = False,
    ) -> Registers:  # fmt: skip
        """Applies an operation to the elements of these registers; operands that are scalars everywhere are computed with once.

        later: an element is printed if it is ever used.
        """
        if self.only_layouts:
            return self.any(elem, len(registers))
        if all(isinstance(operand, Splat) for operand in operands):
            values = [operand.value for operand in operands if isinstance(operand, Splat)]
            return (self.element(op, elem, values, [o.elem for o in operands], attrs),) * len(registers)
        if op == "tt.addptr" and not later:
            return self._addresses(operands, attrs, layout, registers)
        columns = [self.elements(operand, layout, registers) for operand in operands]
        elems = [operand.elem for operand in operands]
        if op == "tt.addptr":
            each_later = later and not isinstance(operands[1], Splat)
            offsets = {value: self._offset(value, attrs, each_later) for value in dict.fromkeys(columns[1])}
            op, columns[1] = "joinery.add_offset", tuple(offsets[value] for value in columns[1])
        if op == "arith.truncf" and elems[0] == "f32" and elem in NARROW:
            done = self._roundings(elem, columns[0])
        else:
            done = self._quotients(op, elem, columns, attrs) or self._pairs(op, elem, columns, attrs)
        found = []
        for row in zip(*columns, strict=True):
            if row not in done:
                done[row] = self._element(op, elem, row, elems, attrs, later)
            found.append(done[row])
        return tuple(found)

    def _addresses(
        self, operands: Sequence[Node], attrs: Mapping[str, Any], layout: LinearLayout, registers: Sequence[int]
    ) -> Registers:
        """Emits addresses: a pointer and the offsets that this and earlier operations add to it.

        Offsets that registers share come first: sums of them are shared as well. Where offsets rise by one, registers differ by
        constants, which accesses take as immediates.
        """
        constants = [0] * len(registers)
        columns: list[Registers] = []

        def take(offset: Node, attrs: Mapping[str, Any], layout: LinearLayout) -> None:
            bits = constant_bits(layout, attrs.get("runs", ()))
            steps = {bit: sum(layout.coordinates(layout[REGISTER][bit.bit_length() - 1])) for bit in bits}
            for index, register in enumerate(registers):
                constants[index] += int(attrs["size"]) * sum(step for bit, step in steps.items() if register & bit)
            own = self.elements(offset, layout, [register & ~sum(bits) for register in registers])
            columns.append(tuple(self._offset(value, attrs) for value in own))

        pointer: Node
        pointer, offset = operands
        take(offset, attrs, layout)
        while not isinstance(pointer, Splat | Distributed):
            if isinstance(pointer, View):  # registers keep their numbers
                layout = source_layout(pointer, layout)
                pointer = pointer.source
            elif isinstance(pointer, Map) and pointer.op == "tt.addptr":
                attrs, (pointer, offset) = pointer.attrs, pointer.operands
                take(offset, attrs, layout)
            else:
                break
        columns.append(self.elements(pointer, layout, registers))
        total, *more = sorted(reversed(columns), key=lambda column: len(set(column)))
        for column in more:
            total = tuple(self.f.add(*pair) for pair in zip(total, column, strict=True))
        return tuple(self.t.moved(base, constant) for base, constant in zip(total, constants, strict=True))

    def _quotients(
        self, op: str, elem: str, columns: Sequence[Registers], attrs: Mapping[str, Any]
    ) -> dict[tuple[V, ...], V]:
        """Emits quotients of several registers by one number; returns them by their operands."""
        if op not in _DIVISIONS or elem not in ("f32", "f16", "bf16"):
            return {}
        if IN_RANGE in attrs and not allows(attrs, APPROXIMATE):
            return {}
        by_divisor: dict[V, dict[V, None]] = {}
        for dividend, divisor in zip(*columns, strict=True):
            by_divisor.setdefault(divisor, {})[dividend] = None
        found: dict[tuple[V, ...], V] = {}
        approximately = op in approximate.DIVISIONS and approximate.may_divide(self.f, elem, attrs)
        for divisor, dividends in by_divisor.items():
            if (approximately and len(dividends) > 1) or (len(dividends) >= _TOGETHER and not is_constant(divisor)):
                divide = approximate.quotients if approximately else divide_all
                quotients = divide(self.f, list(dividends), divisor)
                for dividend, quotient in zip(dividends, quotients, strict=True):
                    found[dividend, divisor] = round_register(self.f, quotient, elem)
        return found

    def _pairs(
        self, op: str, elem: str, columns: Sequence[Registers], attrs: Mapping[str, Any]
    ) -> dict[tuple[V, ...], V]:
        """Emits arithmetic on 16-bit floats, two at a time; of an odd number the last is missing.

        It is rounded once, and in effect so is float32 arithmetic rounded afterwards: 24 bits are twice theirs and two more
        (Figueroa).
        """
        fuses = op == "math.fma" and allows(attrs, CONTRACT)
        if elem not in NARROW or (op not in _PACKED and not fuses):
            return {}
        rows = list(dict.fromkeys(zip(*columns, strict=True)))
        type_ = f"<2 x {NARROW[elem]}>"
        found: dict[tuple[V, ...], V] = {}
        for first, second in zip(rows[::2], rows[1::2], strict=False):
            operands = [
                self.f.bitcast(self.t.pack([self.t.to_bits(value, elem) for value in pair]), type_)
                for pair in zip(first, second, strict=True)
            ]
            if op in INSTRUCTION:
                both = self.f.binary(instruction(op, attrs), *operands)
            else:
                both = self.f.intrinsic(_PACKED.get(op, "fma"), operands)
            pieces = self.t.unpack(self.f.bitcast(both, "i32"), 2, 16)
            found[first], found[second] = (self.t.from_bits(piece, elem) for piece in pieces)
        return found

    def _roundings(self, elem: str, values: Registers) -> dict[tuple[V, ...], V]:
        """Rounds floats to 16 bits, two at a time if they are used as floats again; of an odd number the last is missing."""
        found: dict[tuple[V, ...], V] = {}
        own, f = list(dict.fromkeys(values)), self.f
        for pair in zip(own[::2], own[1::2], strict=False):
            both = f.deferred(f"<2 x {NARROW[elem]}>", partial(self.t.rounded, *pair, NARROW[elem]), of=pair)
            for index, value in enumerate(pair):
                half = f.deferred(NARROW[elem], partial(f.extract, both, index), Rounded(value), [both])
                found[(value,)] = widened(f, half)
        return found

    def _element(
        self, op: str, elem: str, row: Sequence[V], elems: Sequence[str], attrs: Mapping[str, Any], later: bool
    ) -> V:
        if not later:
            return self.element(op, elem, row, elems, attrs)
        type_ = "i64" if elem == "ptr" else register_element(elem)
        return self.f.deferred(type_, lambda: self.element(op, elem, row, elems, attrs), of=row)

    def _offset(self, value: V, attrs: Mapping[str, Any], later: bool = False) -> V:
        """Emits what tt.addptr adds: bytes, as i64."""
        size = int(attrs["size"])

        def make() -> V:
            if value.type == "i32" and not is_constant(value):  # the back end would make three instructions of it
                return self.f.pure(f'call i64 asm "mul.wide.s32 $0, $1, {size};", "=l,r"(i32 {value.operand()})', "i64")
            return self.f.mul(self.f.cast("sext", value, "i64"), const(size, "i64"))

        return self.f.deferred("i64", make, of=[value]) if later else make()

    def element(self, op: str, elem: str, values: Sequence[V], elems: Sequence[str], attrs: Mapping[str, Any]) -> V:
        """Emits one operation on scalars. Pointers are addresses (i64)."""
        if op == "tt.addptr":
            return self.f.add(values[0], self._offset(values[1], attrs))
        if op == "joinery.add_offset":
            return self.f.add(*values)
        if op == "arith.select" and is_constant(values[0]):
            return values[1] if is_integer(values[0], 1) else values[2]
        if op == "arith.select" and elem in NARROW:
            left, right = (narrowed(self.f, value, elem) for value in values[1:])
            return widened(self.f, self.f.select(values[0], left, right))
        if op in ("arith.andi", "arith.ori") and elem == "i1":
            neutral = int(op == "arith.andi")
            for own, other in ((0, 1), (1, 0)):
                if is_integer(values[own], neutral):
                    return values[other]
        if op in _LONG and elem in ("f32", "f64") and not allows(attrs, APPROXIMATE):
            name = f"{op}_{math_form(attrs)}"
            make = partial(emit_map, op=op, elem=elem, elems=list(elems), attrs=attrs)
            return called(self.f, name, register_element(elem), values, lambda f, xs: make(f, operands=xs))
        return emit_map(self.f, op, elem, list(values), list(elems), attrs)

    def choose_layout(self, nodes: Sequence[Node]) -> LinearLayout | None:
        """Chooses the layout to compute with these nodes in: where most elements need not move. None: all are expressions."""
        weak: LinearLayout | None = None
        for node in nodes:
            found = own_layout(node)
            if found is None:
                continue
            layout, exact = found
            if exact:
                return layout
            weak = weak or layout
        return weak

    def compute(self, op: str, shape: tuple[int, ...], elem: str, operands: Sequence[Node], attrs: Mapping[str, Any]) -> Node:
        """Returns the value of an elementwise operation: an expression unless an operand is distributed."""
        if all(isinstance(operand, Splat) for operand in operands):
            values = [operand.value for operand in operands if isinstance(operand, Splat)]
            return Splat(shape, elem, self.element(op, elem, values, [o.elem for o in operands], attrs))
        if not any(is_materialized(operand) for operand in operands):
            slow = any(map(is_slow, operands)) or (op in _SLOW and not _is_power_of_two(operands[-1]))
            depth = 1 + max(map(depth_of, operands))
            return Map(shape, elem, op, tuple(operands), attrs, len(self._loops), slow, depth)
        layout = self.choose_layout(operands)
        assert layout is not None
        weak = all(operand.weak for operand in operands if isinstance(operand, Distributed))
        registers = self.map(op, elem, operands, attrs, layout, range(layout.size(REGISTER)), elem in _CHEAP)
        return Distributed(shape, elem, layout, registers, weak and _any_distributed(operands))

    def distributed(self, node: Node, layout: LinearLayout) -> Distributed:
        if isinstance(node, Distributed) and node.layout == layout:
            return node
        return Distributed(node.shape, node.elem, layout, self.at(node, layout))

    def zero(self, elem: str) -> V:
        return const(0, register_element(elem)) if elem != "ptr" else const(0, "i64")


def constant_bits(layout: LinearLayout, groups: Sequence[int]) -> list[int]:
    """Returns the register bits that move an element inside its aligned group along one dim, where no thread bit does the same.

    An element with such bits set lies their step further than without. groups: elements per dim.
    """
    found: list[int] = []
    if max(groups, default=1) <= 1:
        return found
    moved = [layout.coordinates(basis) for basis in layout.columns((LANE, WARP))]
    own = [layout.coordinates(basis) for basis in layout[REGISTER]]
    for bit, step in enumerate(own):
        dims = [dim for dim, size in enumerate(step) if size]
        if len(dims) != 1:
            continue
        size = step[dims[0]]
        others = [*moved, *own[:bit], *own[bit + 1 :]]
        if size & (size - 1) == 0 and size < groups[dims[0]] and not any(other[dims[0]] & size for other in others):
            found.append(1 << bit)
    return found


def _is_power_of_two(divisor: Node) -> bool:
    value = divisor.value.printed() if isinstance(divisor, Splat) else None
    return isinstance(value, ConstantInt) and value.number > 0 and value.number.bit_count() == 1


def _any_distributed(nodes: Sequence[Node]) -> bool:
    return any(isinstance(node, Distributed) for node in nodes)
