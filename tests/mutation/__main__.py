"""`python -m tests.mutation [words …]`: every mutant of the programs whose names have all these words, and the rates."""

from __future__ import annotations

import sys
from collections import Counter

from .programs import PROGRAMS
from .table import Outcome, entries, outcomes


def report(found: list[Outcome]) -> None:
    made: Counter[str] = Counter(each.mutant.kind for each in found)
    caught: Counter[str] = Counter(each.mutant.kind for each in found if each.caught)
    harmless: Counter[str] = Counter(each.mutant.kind for each in found if each.entry is not None)
    print(f"\n{'kind':64} made  caught  harmless  of the harmful")
    for kind in [*sorted(made), "all"]:
        numbers = [count.total() if kind == "all" else count[kind] for count in (made, caught, harmless)]
        harmful = numbers[0] - numbers[2]
        rate = f"{100 * numbers[1] / harmful:.0f} %" if harmful else "–"
        print(f"{kind:64} {numbers[0]:4}  {numbers[1]:6}  {numbers[2]:8}  {rate:>14}")
    print("\ncaught by: " + ", ".join(f"{name} {n}" for name, n in Counter(o.caught for o in found if o.caught).most_common()))


def main(words: list[str]) -> int:
    chosen = [program for program in PROGRAMS if all(word in str(program) for word in words)]
    found: list[Outcome] = []
    for program in chosen:
        own = list(outcomes(program))
        found += own
        missed = [each for each in own if each.is_missed]
        caught = sum(bool(each.caught) for each in own)
        print(f"{program}: {len(own)} mutants, {caught} caught, {len(missed)} missed", flush=True)
        for each in missed:
            print(f"  missed: {each}")
    report(found)
    used = {each.entry for each in found}
    stale = [entry for entry in entries() if entry not in used and len(chosen) == len(PROGRAMS)]
    for entry in stale:
        print(f"the table's entry is for nothing: {entry}")
    return 1 if stale or any(each.is_missed for each in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
