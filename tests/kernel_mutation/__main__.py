"""Proves kernels of the corpus with something made wrong, from the root of a checkout: `python -m tests.kernel_mutation`.

    --count N        how many mutants (default: 10,000)
    --first N        begin with mutant N of the seed
    --minutes N      of processor time, after which no further one is begun (default: no end)
    --seed S         decides which mutants, in which order, and which launches they are held against
    --launches N     launches near the sizes of the corpus for what is proven, and as many of small sizes (default: 3)
    --kind NAME      only mutants of that kind

What is proven must hold in every launch. The exit status is 1 if something does not.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from ..support.root import leave_path

leave_path("tests.kernel_mutation")


def table(kinds: tuple[str, ...], verdicts: Counter[tuple[str, str]]) -> str:
    """How many mutants of each kind have which verdict, as a table of Markdown."""
    from .trials import VERDICTS, WRONG

    shown = (*VERDICTS, WRONG)
    lines = [f"| change | {' | '.join(shown)} | all |", f"|---|{'---|' * (len(shown) + 1)}"]
    for kind in (*kinds, "all"):
        chosen = kinds if kind == "all" else (kind,)
        cells = [sum(verdicts[own, each] for own in chosen) for each in shown]
        if sum(cells):
            lines.append(f"| {kind} | {' | '.join(map(str, cells))} | {sum(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kernel_mutation", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--kind", default="")
    options = parser.parse_args(arguments)
    if options.count < 1 or options.launches < 1 or options.minutes <= 0 or options.first < 0:
        parser.error("--count, --launches and --minutes must be above 0, --first 0 or more")

    from .rules import RULES
    from .trials import WRONG, in_order, tried

    kinds = (*RULES, "two changes")
    if options.kind and options.kind not in kinds:
        parser.error(f"--kind is one of: {', '.join(kinds)}")
    verdicts: Counter[tuple[str, str]] = Counter()
    numbers: Counter[str] = Counter()
    begun = time.process_time()
    for number, (name, mutant) in enumerate(in_order(options.seed)):
        if number >= options.first + options.count or time.process_time() - begun > 60 * options.minutes:
            break
        if number < options.first or (options.kind and mutant.kind != options.kind):
            continue
        since = time.process_time()
        outcome = tried(name, mutant.text, random.Random(f"{options.seed} {number}"), options.launches)
        verdicts[mutant.kind, outcome.verdict] += 1
        numbers["launches"] += outcome.launches
        numbers["given up"] += outcome.given_up
        if outcome.told:
            print(f"WRONG {number}: {name}, {mutant.change}: {outcome.told}", flush=True)
        taken = time.process_time() - since
        if taken > 10:
            print(f"{number}: {name}, {mutant.change}: {outcome.verdict} after {taken:.0f} s", file=sys.stderr, flush=True)
        if number % 500 == 499:
            print(f"\nafter {time.process_time() - begun:.0f} s:\n{table(kinds, verdicts)}", file=sys.stderr, flush=True)
    print(table(kinds, verdicts))
    print(
        f"\nseed {options.seed}: {verdicts.total()} mutants, {numbers['launches']} launches of what was proven "
        f"({numbers['given up']} given up), {time.process_time() - begun:.0f} s of processor time"
    )
    return 1 if any(verdict == WRONG for _, verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
