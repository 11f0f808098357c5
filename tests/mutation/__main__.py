"""Tests every mutant of the programs whose names contain all given words, and prints the rates: `python -m tests.mutation
[words …]`."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import product

from .programs import PROGRAMS
from .table import Outcome, entries, outcomes

CLASSES = ("deleted", "swapped", "operand")


def report(found: list[Outcome]) -> None:
    """Prints the rates by instruction and by kind of mutation, as a table of Markdown, and how many each
    check caught."""
    made = Counter((each.mutant.opcode, each.mutant.kind) for each in found)
    caught = Counter((each.mutant.opcode, each.mutant.kind) for each in found if each.caught)
    harmless = Counter((each.mutant.opcode, each.mutant.kind) for each in found if each.is_harmless)

    def cell(names: list[str], kinds: tuple[str, ...]) -> str:
        numbers = [sum(count[key] for key in product(names, kinds)) for count in (made, caught, harmless)]
        missed = f" **{numbers[0] - numbers[1] - numbers[2]} missed**" if numbers[0] > numbers[1] + numbers[2] else ""
        return f"{numbers[1]} + {numbers[2]}{missed}" if numbers[0] else ""

    def rate(names: list[str]) -> str:
        kept = sum(count for (name, _), count in caught.items() if name in names)
        harmful = kept + sum(not each.caught and not each.is_harmless for each in found if each.mutant.opcode in names)
        return f"{100 * kept / harmful:.4g} %" if harmful else "–"

    names = sorted({each.mutant.opcode for each in found})
    print(f"\n| caught + harmless | {' | '.join(CLASSES)} | all | caught of the harmful |\n|{'---|' * (len(CLASSES) + 3)}")
    for title, chosen in [*((f"`{name}`", [name]) for name in names), ("all", names)]:
        cells = [*(cell(chosen, (kind,)) for kind in CLASSES), cell(chosen, CLASSES), rate(chosen)]
        print(f"| {title} | {' | '.join(cells)} |")
    who = Counter(each.caught for each in found if each.caught)
    print("\ncaught by: " + ", ".join(f"{name} {number}" for name, number in who.most_common()))
    why = Counter(each.rule or "an entry of the file" for each in found if each.is_harmless)
    print("\nharmless by: " + ", ".join(f"{name} {number}" for name, number in why.most_common()))


def stale(found: list[Outcome]) -> list[str]:
    """Lists the parts of the file's entries that match no mutant, or that no mutant needs."""
    used = {(str(each.program), each.mutant.instruction, each.mutant.what) for each in found if each.entry and not each.rule}
    return [
        f"{program}: {entry.instruction} {what}"
        for entry in entries()
        for program, what in product(entry.programs, entry.mutants)
        if (program, entry.instruction, what) not in used and program in {str(each.program) for each in found}
    ]


def main(words: list[str]) -> int:
    chosen = [program for program in PROGRAMS if all(word in str(program) for word in words)]
    if not chosen:
        print(f"no program's name has {' '.join(words)!r}; they are: {', '.join(map(str, PROGRAMS))}")
        return 2
    found: list[Outcome] = []
    for program in chosen:
        own = list(outcomes(program))
        found += own
        wrong = [each for each in own if each.problem]
        caught, harmless = sum(bool(each.caught) for each in own), sum(each.is_harmless for each in own)
        print(f"{program}: {len(own)} mutants, {caught} caught, {harmless} harmless, {len(wrong)} wrong", flush=True)
        for each in wrong:
            print(f"  {each}", flush=True)
    report(found)
    unused = stale(found)
    for each in unused:
        print(f"the table's entry is for nothing: {each}")
    return 1 if unused or any(each.problem for each in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
