"""Compares verdicts with launches in which assumptions and extents hold by the names of the text."""

from __future__ import annotations

import random
import sys
from collections import Counter

import joinery as jn

from .makers.stated_kernels import StatedKernel

_KINDS = {"bounds": {"out-of-bounds", "misaligned"}, "races": {"race", "lane-race"}}


def check(seed: int, launches: int = 8) -> Counter[str]:
    """Proves a random kernel: what is proven is broken by none of the launches that its specification allows.

    Returns how many properties have which verdict, and how many specifications are refused.
    """
    rng = random.Random(seed)
    subject = StatedKernel(rng)
    kernel = jn.kernel.from_ttir(subject.text)
    try:
        proof = kernel.prove(subject.assume, subject.extents, subject.grid, tuple(_KINDS))
    except jn.UserError:  # a name that could be meant for several
        return Counter({"refused": 1})
    proven = [prop for prop in _KINDS if proof.verdict(prop) == "proven"]
    for _ in range(launches if proven else 0):
        launch = subject.launch()
        findings = kernel.sanitize((launch.grid,), *launch.arguments).findings
        for prop in proven:
            faults = [found for found in findings if found.kind in _KINDS[prop]]
            assert not faults, f"seed {seed}: {prop}\n{faults[0]}\n{proof}\n{launch}\n{subject.text}"
    return Counter([proof.verdict(prop) for prop in _KINDS])


def main() -> None:
    """Tries random kernels: the first seed, and how many."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            found += check(seed)
        except AssertionError as error:
            print(error, flush=True)
            found["FAULT"] += 1
    print(dict(found))


if __name__ == "__main__":
    main()

__all__ = ["check"]
