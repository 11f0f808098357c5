"""Finds from which arguments the addresses in registers are computed, from the text alone.

What a register may hold is the union over all instructions that write it, wherever they stand, so that the result holds for
every run. An address is an argument plus numbers, also numbers that were loaded. As soon as anything else is done with it, such
as taking the difference of two, nothing is known of the result, nor of its halves; loaded addresses are not followed either.
Where memory may hold addresses (a table, or what the text stores), loaded numbers of 64 bits are `WIDE`: the difference of
two may lead from one argument to another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from ....lowering.ptx.instructions import WIDTHS
from ....lowering.ptx.modules import Function
from ....lowering.ptx.syntax import (
    Address,
    Group,
    Instruction,
    Integer,
    Name,
    Operand,
    Pair,
    Register,
    Vector,
)

NUMBER, LOADED, WIDE, UNKNOWN = 0, -1, -2, -3
"""What a register may hold: a number that no memory holds; a number that was loaded; 64 bits that were, a number or an address;
anything. Above 0: a set of arguments as bits, from one of which the address is computed."""

_WITHOUT_RESULT = frozenset(["st", "red", "bra", "brx", "bar", "barrier", "fence", "setp", "cp"])
_STORING = frozenset(["st", "red", "atom", "call"])
_LOADING = frozenset(["ld", "ldu"])
_OF_DATA = frozenset(["atom", "call", "ldmatrix", "mma", "wgmma", "tcgen05"])
"""What gives memory's contents, or products of them, whatever their operands are."""


def either(one: int, other: int) -> int:
    """Joins what two instructions may write."""
    if one == other or other == NUMBER:
        return one
    if one == NUMBER:
        return other
    if {one, other} == {LOADED, WIDE}:
        return WIDE
    return one | other if one > 0 and other > 0 else UNKNOWN


def plus(one: int, other: int) -> int:
    if one == NUMBER or other == NUMBER:
        return one + other
    if UNKNOWN in (one, other) or (one > 0 and other > 0) or one == other == WIDE:
        return UNKNOWN
    return max(one, other) if one > 0 or other > 0 else min(one, other)  # an argument and what was loaded, or twice the latter


def computed(sources: Iterable[int]) -> int:
    """The result of anything but moves and sums."""
    found = set(sources)
    if any(each > 0 or each in (WIDE, UNKNOWN) for each in found):
        return UNKNOWN
    return LOADED if LOADED in found else NUMBER


class AliasSets:
    """What the registers of a kernel and its functions may hold.

    Args:
        functions: the kernel and what it calls.
        pointers: the names of the kernel's parameters that are addresses.
        has_tables: whether memory may hold addresses before the kernel runs.
    """

    def __init__(self, functions: Sequence[Function], pointers: Sequence[str], has_tables: bool = False) -> None:
        self._bits = {name: 1 << number for number, name in enumerate(pointers)}
        self._names = list(pointers)
        self._loaded = WIDE if has_tables else LOADED
        """What loads of 64 bits give: `WIDE` as soon as an address is stored, and unknown, as all loads, as soon as something
        unknown is, perhaps the difference of two addresses, or half of one."""
        self._registers: dict[tuple[str, str], int] = {}
        if pointers:
            self._follow([(function, i) for function in functions for i in function.code or () if _concerns(function, i)])

    def _follow(self, writers: list[tuple[Function, Instruction]]) -> None:
        """Goes through instructions, and again through those that read what has changed."""
        readers: dict[tuple[str, str], list[int]] = {}
        for number, (function, i) in enumerate(writers):
            for operand in i.operands:
                for register in _registers(operand):
                    readers.setdefault((function.name, register.name), []).append(number)
        waiting = deque(range(len(writers)))
        are_waiting = set(waiting)
        while waiting:
            number = waiting.popleft()
            are_waiting.discard(number)
            loaded = self._loaded
            changed = self._execute(*writers[number])
            again = range(len(writers)) if loaded != self._loaded else [n for key in changed for n in readers.get(key, ())]
            for each in again:
                if each not in are_waiting:
                    are_waiting.add(each)
                    waiting.append(each)

    def sources(self, function: Function, address: Operand) -> list[str]:
        """Returns the parameters from one of which an address is computed; none if that is not known."""
        base = address.base if isinstance(address, Address) else address
        if not isinstance(base, Register):
            return []
        bits = self._registers.get((function.name, base.name), NUMBER)
        return [name for name in self._names if bits > 0 and bits & self._bits[name]]

    def _execute(self, function: Function, i: Instruction) -> list[tuple[str, str]]:
        """Adds what an instruction may write; returns the registers for which that is new."""
        if i.opcode in _STORING and self._loaded != UNKNOWN:
            stored = i.operands if i.opcode == "call" else i.operands[1:]
            found = {self._value(function, each) for operand in stored for each in _registers(operand)}
            if UNKNOWN in found:
                self._loaded = UNKNOWN
            elif any(each > 0 for each in found):
                self._loaded = WIDE
        if i.opcode in _WITHOUT_RESULT or not i.operands:
            return []
        targets = list(_registers(i.operands[0]))
        value = self._result(function, i)
        if len(targets) > 1 and i.opcode not in _LOADING:
            value = computed([value])  # a part of it
        changed = []
        for target in targets:
            key = (function.name, target.name)
            old = self._registers.get(key, NUMBER)
            is_part = value == WIDE and WIDTHS[function.registers[target.name]] < 64
            new = either(old, LOADED if is_part else value)
            if new != old:
                self._registers[key] = new
                changed.append(key)
        return changed

    def _result(self, function: Function, i: Instruction) -> int:
        if i.opcode in _LOADING and len(i.operands) > 1:
            return self._load(function, i, i.operands[1])
        if i.opcode in _OF_DATA:
            return self._loaded
        sources = [self._value(function, operand) for operand in i.operands[1:]]
        if i.opcode == "mov" and isinstance(i.operands[0], Register):
            is_wide = WIDTHS[function.registers[i.operands[0].name]] == 64
            if isinstance(i.operands[1], Name) and not is_wide:
                return NUMBER  # an address of shared memory
            if isinstance(i.operands[1], Vector) and is_wide and sources[0] == LOADED:
                return self._loaded
        count, rule = _RULES.get(i.opcode, (0, computed))
        return rule(sources) if len(sources) >= count else UNKNOWN

    def _load(self, function: Function, i: Instruction, source: Operand) -> int:
        base = source.base if isinstance(source, Address) else None
        if not (function.entry and isinstance(source, Address) and isinstance(base, Name) and base.text in self._bits):
            return self._loaded
        is_whole = source.offset == 0 and isinstance(i.operands[0], Register)
        return self._bits[base.text] if is_whole and any(each.startswith("param") for each in i.modifiers) else UNKNOWN

    def _value(self, function: Function, operand: Operand) -> int:
        match operand:
            case Register(name):
                return self._registers.get((function.name, name), NUMBER)
            case Integer():
                return NUMBER
            case Vector() | Group():
                return computed([self._value(function, each) for each in operand.elements])
            case Name() | Address() | Pair():  # addresses of variables
                return UNKNOWN
        return NUMBER


def _moved(sources: Sequence[int]) -> int:
    return sources[0]


def _selected(sources: Sequence[int]) -> int:
    return either(sources[0], sources[1])


def _added(sources: Sequence[int]) -> int:
    return plus(sources[0], sources[1])


def _subtracted(sources: Sequence[int]) -> int:
    return computed(sources) if sources[1] > 0 or sources[1] in (WIDE, UNKNOWN) else plus(sources[0], sources[1])


def _shifted(sources: Sequence[int]) -> int:
    return WIDE if sources[0] == WIDE and sources[1] == NUMBER else computed(sources)


def _multiplied_and_added(sources: Sequence[int]) -> int:
    return plus(computed(sources[:2]), sources[2])


_RULES: Mapping[str, tuple[int, Callable[[Sequence[int]], int]]] = {
    "mov": (1, _moved), "cvta": (1, _moved), "add": (2, _added), "or": (2, _added), "sub": (2, _subtracted),
    "selp": (2, _selected), "mad": (3, _multiplied_and_added), "shl": (2, _shifted),
}  # fmt: skip
"""Opcode → the least number of sources, and the rule. `or` adds numbers to an address whose low bits are known to be zero."""


def _registers(operand: Operand) -> Iterable[Register]:
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Vector | Group):
        for element in operand.elements:
            yield from _registers(element)
    elif isinstance(operand, Pair):
        yield from _registers(operand.first)
        yield from _registers(operand.second)


def _concerns(function: Function, i: Instruction) -> bool:
    """Returns whether an instruction writes a register that is no predicate, or may store one."""
    operands = i.operands if i.opcode in _STORING else i.operands[:1]
    return any(WIDTHS[function.registers[each.name]] > 1 for operand in operands for each in _registers(operand))
