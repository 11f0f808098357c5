"""Makes mutants of PTX texts: one synchronising instruction deleted, swapped with its neighbour, or given a
wrong operand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SYNCHRONISING = re.compile(
    r"^(@\S+\s+)?(bar(rier)?\.|mbarrier\.|fence\.|membar|wgmma\.(fence|commit|wait)|cp\.async\.(bulk\.)?(commit|wait)|setmaxnreg"
    r"|shfl\.sync|elect\.sync)"
)
COUNTED_COPY = re.compile(r"complete_tx::bytes")
"""Matches a copy that an mbarrier counts: its mbarrier is a synchronising operand."""
OF_REGISTERS = re.compile(r"shfl|elect|setmaxnreg")
"""Matches instructions that do not concern memory."""
ACCESS = re.compile(r"^(@\S+\s+)?(ld\.(shared|global)|st\.|atom|red\.|ldmatrix|stmatrix|cp\.|wgmma\.)")
EDGE = re.compile(r"^(\S+:$|@\S+\s+bra|bra|ret|exit)")
REGISTER = re.compile(r"%[a-z]+\d+|\b(?:on|off|da|db|done)\b")


@dataclass(frozen=True, slots=True)
class Unit:
    """An instruction, or a block of inline assembly that polls, with its lines (first, one after the last) in
    the text."""

    text: str
    first: int
    end: int

    @property
    def opcode(self) -> str:
        words = re.sub(r"^@\S+\s+", "", self.text).split()[0].rstrip(";")
        return ".".join(re.sub(r"\.(shared(::cta)?|b64|sync|aligned|cta)\b", "", words).split(".")[:4])


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutant of a text. opcode, number: the changed instruction, and its number among those of its opcode, from 1; what: the
    change. index: the instruction's index in the text's units; line: its line, from 1."""

    opcode: str
    number: int
    what: str
    index: int
    line: int
    text: str

    @property
    def instruction(self) -> str:
        return f"{self.opcode} #{self.number}"

    @property
    def name(self) -> str:
        return f"{self.instruction} {self.what}"

    @property
    def kind(self) -> str:
        """The kind of change: "deleted", "swapped" or "operand"."""
        word = self.what.split()[0]
        return word if word in ("deleted", "swapped") else "operand"


def synchronises(unit: Unit) -> bool:
    return bool(SYNCHRONISING.match(unit.text) or COUNTED_COPY.search(unit.text))


def units_of(lines: list[str]) -> list[Unit]:
    """Returns the units of the text, without its declarations."""
    found, place = [], 0
    while place < len(lines):
        text = lines[place].strip()
        end = place + 1
        if text == "{" and place + 2 < len(lines) and "done" in lines[place + 1]:  # a loop that polls
            end = next(at for at in range(place, len(lines)) if lines[at].strip() == "}") + 1
            text = next(each.strip() for each in lines[place:end] if "try_wait" in each)
        if text and not text.startswith(("//", ".")):
            found.append(Unit(text, place, end))
        place = end
    return found


def mutants_of(text: str) -> Iterator[Mutant]:
    """Yields all mutants of a PTX text, each with a different text."""
    lines = text.split("\n")
    units = units_of(lines)
    counts: Counter[str] = Counter()
    seen = {text}
    threads = int(found[1]) if (found := re.search(r"\.reqntid (\d+)", text)) else 0
    for index, unit in enumerate(units):
        if not synchronises(unit):
            continue
        counts[unit.opcode] += 1
        for what, mutated in _variants(lines, units, index, threads):
            made = "\n".join(mutated)
            if made not in seen:
                seen.add(made)
                yield Mutant(unit.opcode, counts[unit.opcode], what, index, unit.first + 1, made)


def trapped(text: str, mutant: Mutant) -> str:
    """Returns the text with a trap in place of the mutant's instruction, for the threads that execute it."""
    lines = text.split("\n")
    unit = units_of(lines)[mutant.index]
    guard = re.match(r"@\S+\s+", unit.text)
    return "\n".join([*lines[: unit.first], f"{guard[0] if guard else ''}trap;", *lines[unit.end :]])


def _variants(lines: list[str], units: list[Unit], index: int, threads: int) -> Iterator[tuple[str, list[str]]]:
    unit = units[index]
    if not COUNTED_COPY.search(unit.text):
        yield "deleted", [*lines[: unit.first], *lines[unit.end :]]
        if not OF_REGISTERS.search(unit.text):
            yield from _swaps(lines, units, index)
    values = _constants(lines, unit.first)
    for what, change in _operands(unit.text, values, threads):
        block = [change(each) if each.strip() == unit.text else each for each in lines[unit.first : unit.end]]
        yield what, [*lines[: unit.first], *block, *lines[unit.end :]]


def neighbour(units: list[Unit], index: int, step: int) -> int | None:
    """Returns the nearest access or synchronising instruction before (step -1) or after (1) one, with no
    label or branch between."""
    at = index + step
    while 0 <= at < len(units) and not EDGE.match(units[at].text):
        ordering = SYNCHRONISING.match(units[at].text) and not OF_REGISTERS.search(units[at].text)
        if ordering or ACCESS.match(units[at].text):
            return at
        at += step
    return None


SWAPS = {"swapped with the one before": -1, "swapped with the next": 1}


def _swaps(lines: list[str], units: list[Unit], index: int) -> Iterator[tuple[str, list[str]]]:
    """Swaps the instruction with its neighbours."""
    for what, step in SWAPS.items():
        at = neighbour(units, index, step)
        if at is not None:
            first, second = min(at, index), max(at, index)
            moved = _moved(lines, units[first], units[second], units[first + 1 : second])
            if moved is not None:
                yield what, moved


def _moved(lines: list[str], first: Unit, second: Unit, between: list[Unit]) -> list[str] | None:
    """Returns the text with the two units in the other order, if the computations between them allow that."""
    inner = set(REGISTER.findall(" ".join(each.text for each in between)))
    one, two = (set(REGISTER.findall(each.text)) for each in (first, second))
    rest = lines[first.end : second.first]
    a, b = lines[first.first : first.end], lines[second.first : second.end]
    if one & two:
        return None
    if not two & inner:
        return [*lines[: first.first], *b, *a, *rest, *lines[second.end :]]
    if not one & inner:
        return [*lines[: first.first], *rest, *b, *a, *lines[second.end :]]
    return None


def _constants(lines: list[str], place: int) -> Callable[[str], int | None]:
    """Returns a function that gives the constant to which an earlier line sets a register; None for other
    operands."""

    def value(operand: str) -> int | None:
        if re.fullmatch(r"-?\d+", operand):
            return int(operand)
        for line in reversed(lines[:place]):
            if found := re.search(rf"\bmov\.[bu]\d+\s+{re.escape(operand)}, (-?\d+);", line):
                return int(found[1])
        return None

    return value


Change = Callable[[str], str]


def _operands(text: str, value: Callable[[str], int | None], threads: int) -> Iterator[tuple[str, Change]]:
    """Yields wrong operands of an instruction: what is wrong, and a function that writes it."""

    def put(pattern: str, new: str) -> Change:
        return lambda line: re.sub(pattern, new, line, count=1)

    def last(operand: int) -> Change:
        return put(r"(%\w+|-?\d+)\s*;\s*$", f"{operand};")

    opcode = re.sub(r"^@\S+\s+", "", text).split()[0]
    tail = re.search(r"([^,\s\]]+)\s*;\s*$", text)
    operand = value(tail[1]) if tail else None
    if opcode == "bar.sync":
        yield "on another barrier", put(r"(bar\.sync\s+)\d+", r"\g<1>7")
        if "," in text and operand is not None:
            yield "with more threads", last(operand + 32)
            yield "with fewer threads", last(operand - 32)
        elif threads > 32:
            yield "with fewer threads", put(r";\s*$", f", {threads - 32};")
    elif opcode == "bar.warp.sync" or opcode.startswith("shfl.sync"):
        yield "of half the lanes", last(0xFFFF)
    elif "wait_group" in opcode and operand is not None:
        yield "for one group less", last(operand + 1)
        if "bulk" in opcode and not opcode.endswith(".read"):
            yield "for reads only", put("wait_group", "wait_group.read")
    elif opcode.startswith("fence.proxy.async"):
        yield "of another proxy", put(r"fence\.\S+;", "fence.proxy.alias;")
        yield "of another space", put(r"fence\.\S+;", "fence.proxy.async.global;")
        yield "without the proxy", put(r"fence\.\S+;", "fence.acq_rel.cta;")
    elif opcode.startswith("fence.mbarrier_init"):
        yield "of ordinary accesses", put(r"fence\.\S+;", "fence.acq_rel.cta;")
    elif opcode.startswith("mbarrier.init"):
        if operand is not None:
            yield "with a larger count", last(operand + 1)
            if operand > 1:
                yield "with a smaller count", last(operand - 1)
        yield "elsewhere", _other_object
    elif opcode.startswith("mbarrier.arrive"):
        yield "at another mbarrier", _other_object
        if "expect_tx" in opcode and operand is not None:
            yield "with fewer bytes", last(operand - 16)
            yield "with half the bytes", last(operand // 2)
            yield "with more bytes", last(operand + 16)
    elif opcode.startswith("mbarrier.try_wait"):
        yield "at another mbarrier", _other_object
        flipped = r".reg .b32 other; xor.b32 other, \1, 1;\nmbarrier.try_wait\2, other;"
        yield "with the other parity", put(r"mbarrier\.try_wait(?=.*, (\S+);)(.*), \S+;", flipped)
    elif opcode.startswith("mbarrier.inval"):
        yield "elsewhere", _other_object
    elif opcode.startswith("setmaxnreg") and operand is not None:
        yield "with more registers", last(operand + 8)
    elif COUNTED_COPY.search(text):
        yield "at another mbarrier", _other_object


def _other_object(line: str) -> str:
    """Moves the last address in brackets by 8 bytes."""
    start, end = line.rindex("["), line.rindex("]")
    return f"{line[:end]}+8{line[end:]}" if "+" not in line[start:end] else _further(line, start, end)


def _further(line: str, start: int, end: int) -> str:
    base, offset = line[start + 1 : end].split("+")
    return f"{line[: start + 1]}{base}+{int(offset) + 8}{line[end:]}"
