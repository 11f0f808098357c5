"""Compares two result files: which ratios changed by more than their spread.

python benchmarks/compare.py benchmarks/results/OLD.json benchmarks/results/NEW.json

Times of two runs are not comparable: clocks, neighbours and machines differ. What is compared are ratios of joinery's time to
that of each peer and to the machine's limit, which were formed round by round. A ratio has changed where its two 95 %
confidence intervals do not meet and the medians differ by 2 % at least; files from before intervals were written have
quartiles in their place.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEAST_CHANGE = 0.02


@dataclass(frozen=True, slots=True)
class Change:
    """A ratio of a case in two files: medians and intervals."""

    case: str
    pair: str
    old: float
    new: float
    old_interval: tuple[float, float]
    new_interval: tuple[float, float]

    @property
    def factor(self) -> float:
        """The new ratio over the old one: below 1, joinery became faster."""
        return self.new / self.old

    @property
    def significant(self) -> bool:
        """Whether the change is larger than the spread."""
        apart = self.new_interval[0] > self.old_interval[1] or self.new_interval[1] < self.old_interval[0]
        return apart and abs(self.factor - 1) >= LEAST_CHANGE

    def __str__(self) -> str:
        word = "slower" if self.factor > 1 else "faster"
        return f"{self.case:<32s} {self.pair:<32s} {self.old:8.3g} -> {self.new:8.3g}  {self.factor:5.2f}  {word}"


def interval(ratio: Mapping[str, Any]) -> tuple[float, float]:
    """Return the interval of a ratio in a result file."""
    low, high = ratio.get("interval") or ratio["quartiles"]
    return low, high


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the ratios that are in both results, by case and pair of contenders."""
    before = {(case["name"], pair): ratio for case in old["cases"] for pair, ratio in case["ratios"].items()}
    found = []
    for case in new["cases"]:
        for pair, ratio in case["ratios"].items():
            earlier = before.get((case["name"], pair))
            if earlier is not None and pair.startswith("joinery"):
                medians = earlier["median"], ratio["median"]
                found.append(Change(case["name"], pair, *medians, interval(earlier), interval(ratio)))
    return found


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return what else differs between the runs: threads, processor, versions."""
    lines = []
    for key in ("threads", "processor", "versions"):
        one, other = old.get(key), new.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
            lines += [f"{key}, {name}: {one.get(name)} -> {other.get(name)}" for name in names]
        elif one != other:
            lines.append(f"{key}: {one} -> {other}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--all", action="store_true", help="ratios that did not change too")
    options = parser.parse_args()
    try:
        old, new = (json.loads(path.read_text()) for path in (options.old, options.new))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    for line in differences(old, new):
        print(line)
    found = changes(old, new)
    shown = [each for each in found if each.significant or options.all]
    for each in sorted(shown, key=lambda change: -change.factor):
        print(each)
    for one, other, path in ((old, new, options.old), (new, old, options.new)):
        alone = {case["name"] for case in one["cases"]} - {case["name"] for case in other["cases"]}
        if alone:
            print(f"{len(alone)} cases are in {path} alone")
    count = sum(each.significant for each in found)
    print(f"{count} of {len(found)} ratios changed by more than their spread")


if __name__ == "__main__":
    main()
