"""The mutants that are known to be harmless, with the reasons: `tests/data/mutation/harmless.json`."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from .mutants import Mutant, mutants_of
from .programs import Launch, Program

FILE = Path(__file__).resolve().parents[1] / "data" / "mutation" / "harmless.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """programs, mutants: patterns with `*` for their names."""

    programs: str
    mutants: str
    reason: str

    def covers(self, program: Program, mutant: Mutant) -> bool:
        return fnmatchcase(str(program), self.programs) and fnmatchcase(mutant.name, self.mutants)


@functools.cache
def entries() -> tuple[Entry, ...]:
    return tuple(Entry(**each) for each in json.loads(FILE.read_text()))


@dataclass(frozen=True, slots=True)
class Outcome:
    """caught: how the mutant is told from the program, "" if it is not; entry: why that does no harm, if the table says so."""

    program: Program
    mutant: Mutant
    caught: str
    entry: Entry | None

    @property
    def is_missed(self) -> bool:
        return not self.caught and self.entry is None

    def __str__(self) -> str:
        return f"{self.program}: PTX line {self.mutant.line}: {self.mutant.name}"


def by_text(launches: list[Launch]) -> list[list[Launch]]:
    """The launches of each text."""
    found: dict[str, list[Launch]] = {}
    for launch in launches:
        found.setdefault(launch.text, []).append(launch)
    return list(found.values())


def outcomes(program: Program, only_first_deletions: bool = False) -> Iterator[Outcome]:
    """What becomes of the mutants of a program; of the first instruction of each opcode, deleted, if that is enough."""
    for launches in by_text(program.launches()):
        text = launches[0].text
        again = next(filter(None, (each.verdict(text) for each in launches)), "")
        assert not again, f"{program}: the launch is not the same a second time: {again}"
        for mutant in mutants_of(text):
            if not only_first_deletions or mutant.name.endswith("#1 deleted"):
                caught = next(filter(None, (each.verdict(mutant.text) for each in launches)), "")
                entry = next((each for each in entries() if each.covers(program, mutant)), None)
                yield Outcome(program, mutant, caught, None if caught else entry)
