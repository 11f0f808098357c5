"""Decides the outcome of mutants: caught, harmless by a rule (`rules`), or by a reason in `tests/data/mutation/harmless.json`.

An entry of the file names programs, one instruction of theirs with the accesses or synchronising instructions around it, and
the harmless changes of it; it covers nothing else.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .launches import Launch, verdict
from .mutants import ACCESS, OF_REGISTERS, SYNCHRONISING, Mutant, Unit, mutants_of, synchronises, trapped
from .programs import Program
from .rules import RULES, Code, by_deletion

FILE = Path(__file__).resolve().parents[1] / "data" / "mutation" / "harmless.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """A reason in the file. programs: their names; instruction: as in `Mutant.instruction`; between: the opcodes around it;
    mutants: the harmless changes."""

    programs: tuple[str, ...]
    instruction: str
    between: tuple[str, str]
    mutants: tuple[str, ...]
    reason: str


@functools.cache
def entries() -> tuple[Entry, ...]:
    found = []
    for each in json.loads(FILE.read_text()):
        lists = {key: tuple(value) if isinstance(value, list) else value for key, value in each.items()}
        found.append(Entry(**lists))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a mutant. caught: how it is told from the program, "" if it is not; rule, entry: why it does no harm;
    executed: whether a launch reaches the instruction (checked if the mutant is not caught)."""

    program: Program
    mutant: Mutant
    caught: str
    rule: str
    entry: Entry | None
    executed: bool

    @property
    def is_harmless(self) -> bool:
        return not self.caught and self.executed and (bool(self.rule) or self.entry is not None)

    @property
    def problem(self) -> str:
        """The fault of the suite that the outcome shows, or ""."""
        if not self.executed:
            return "no launch executes the instruction"
        if self.caught and (self.rule or self.entry):
            return f"caught ({self.caught}), though it is said to do no harm: {self.rule or (self.entry and self.entry.reason)}"
        return "" if self.caught or self.is_harmless else "missed"

    def __str__(self) -> str:
        return f"{self.program}: PTX line {self.mutant.line}: {self.mutant.name}: {self.problem}"


class Excuses:
    """Finds the reasons why mutants of one text do no harm."""

    def __init__(self, program: Program, text: str) -> None:
        self.program = str(program)
        self.code = Code.of(text)
        self.names: dict[int, str] = {}
        counts: dict[str, int] = {}
        for index, unit in enumerate(self.code.units):
            if synchronises(unit):
                counts[unit.opcode] = counts.get(unit.opcode, 0) + 1
                self.names[index] = f"{unit.opcode} #{counts[unit.opcode]}"

    def entry(self, index: int, what: str) -> Entry | None:
        for each in entries():
            if self.program in each.programs and self.names.get(index) == each.instruction and what in each.mutants:
                return each if self.between(index) == each.between else None
        return None

    def rule(self, index: int, what: str) -> str:
        found = next((name for name, holds in RULES.items() if holds(self.code, index, what)), "")
        return found or by_deletion(self.code, index, what, self._deletable)

    def _deletable(self, index: int) -> bool:
        if any(holds(self.code, index, "deleted") for holds in RULES.values()):
            return True
        return self.entry(index, "deleted") is not None

    def between(self, index: int) -> tuple[str, str]:
        """Returns the opcodes of the accesses or synchronising instructions before and after, across labels
        and branches."""
        units = self.code.units
        before = next((_word(each) for each in units[index - 1 :: -1] if _counts(each)), "the start") if index else "the start"
        return before, next((_word(each) for each in units[index + 1 :] if _counts(each)), "the end")


def _counts(unit: Unit) -> bool:
    ordering = SYNCHRONISING.match(unit.text) and not OF_REGISTERS.search(unit.text)
    return bool(ordering or ACCESS.match(unit.text))


def _word(unit: Unit) -> str:
    return re.sub(r"^@\S+\s+", "", unit.text).split()[0].rstrip(";")


def by_text(launches: list[Launch]) -> list[list[Launch]]:
    """Groups the launches by their text."""
    found: dict[str, list[Launch]] = {}
    for launch in launches:
        found.setdefault(launch.text, []).append(launch)
    return list(found.values())


def outcomes(program: Program, chosen: str = "all") -> Iterator[Outcome]:
    """Yields the outcomes of a program's mutants: of "all"; of the "deletions" for which there is no reason; or only of the
    "first deletions", those of the first instruction of each opcode."""
    for launches in by_text(program.launches()):
        text = launches[0].text
        again = verdict(launches, text)
        assert not again, f"{program}: the launch is not the same a second time: {again}"
        excuses = Excuses(program, text)
        reached: dict[int, bool] = {}
        for mutant in mutants_of(text):
            deletes = mutant.what == "deleted" and (mutant.number == 1 or chosen == "deletions")
            if chosen != "all" and not deletes:
                continue
            entry, rule = excuses.entry(mutant.index, mutant.what), excuses.rule(mutant.index, mutant.what)
            if chosen != "all" and (entry or rule):
                continue
            caught = verdict(launches, mutant.text)
            if not caught and mutant.index not in reached:
                reached[mutant.index] = verdict(launches, trapped(text, mutant)) == "trap"
            yield Outcome(program, mutant, caught, rule, entry, bool(caught) or reached[mutant.index])
