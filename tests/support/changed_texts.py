"""Changes texts of the corpus, and the arrays of their launches, at random, so that many of them go wrong somewhere."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .corpus import WITH_DATA, Case

Change = Callable[[str, random.Random], str | None]
LEFT_OUT = frozenset({"print_values", "print_in_loop", "pointer_table_sum", "aligned_start", "atomic_load_store"})
"""Texts that are not run natively first, whatever is changed."""
NAMES = [name for name in WITH_DATA if name not in LEFT_OUT]


def _substituted(pattern: str, by: Callable[[re.Match[str], random.Random], str]) -> Change:
    """Returns a change of one of the places that a pattern matches; None is its result where there are none."""
    compiled = re.compile(pattern)

    def change(text: str, rng: random.Random) -> str | None:
        places = list(compiled.finditer(text))
        if not places:
            return None
        place = rng.choice(places)
        return text[: place.start()] + by(place, rng) + text[place.end() :]

    return change


def _constant(place: re.Match[str], rng: random.Random) -> str:
    value = int(place[2])
    new = rng.choice([value + 1, max(0, value - 1), 0, 1, value * 2, 1 << 20, (1 << 31) - 1])
    return f"{place[1]}{new}{place[3]}"


PREDICATES = ("slt", "sle", "sgt", "sge", "eq", "ne")
CHANGES: dict[str, Change] = {
    "no mask of a load": _substituted(r"(tt\.load %[\w#]+)(, %[\w#]+)+", lambda m, _: m[1]),
    "no other": _substituted(r"(tt\.load %[\w#]+, %[\w#]+), %[\w#]+", lambda m, _: m[1]),
    "no mask of a store": _substituted(r"(tt\.store %[\w#]+, %[\w#]+), %[\w#]+", lambda m, _: m[1]),
    "constant": _substituted(
        r"(arith\.constant (?:dense<)?)(\d+)(>? : (?:tensor<[\dx]*i(?:32|64)>|i32|i64))", _constant
    ),
    "operation": _substituted(
        r"arith\.(?:addi|muli|subi)( %[\w#]+, %[\w#]+ : )",
        lambda m, rng: f"arith.{rng.choice(['addi', 'muli', 'subi', 'maxsi', 'minsi'])}{m[1]}",
    ),
    "axis": _substituted(r"(tt\.get_program_id )[xyz]", lambda m, rng: m[1] + rng.choice("xyz")),
    "predicate": _substituted(
        r"(arith\.cmpi )(?:slt|sle|sgt|sge|eq|ne)", lambda m, rng: m[1] + rng.choice(PREDICATES)
    ),
}


def changed(text: str, rng: random.Random) -> tuple[str, list[str]]:
    """Returns a text with up to two changes, and what they were."""
    done = []
    for name in rng.choices(list(CHANGES), k=rng.choice([0, 1, 1, 2])):
        new = CHANGES[name](text, rng)
        if new is not None:
            text = new
            done.append(name)
    return text, done


def changed_arguments(case: Case, rng: random.Random, how: str) -> tuple[list[Any], dict[int, np.ndarray]]:
    """Returns the arguments of a case, and which bytes of them nothing has written.

    how: "short", "overlapping" or "unwritten" arrays; "" leaves them as they are.
    """
    arguments, _ = case.arguments()
    unwritten: dict[int, np.ndarray] = {}
    arrays = [i for i, each in enumerate(arguments) if isinstance(each, np.ndarray) and each.size]
    if not arrays:
        return arguments, unwritten
    first, second = rng.choice(arrays), rng.choice(arrays)
    array = arguments[first]
    if how == "short":
        arguments[first] = array[: max(1, array.size - rng.choice([1, 3, array.size // 2]))].copy()
    elif how == "overlapping" and first != second and array.dtype == arguments[second].dtype:
        together = np.concatenate([array, arguments[second]])
        start = rng.choice([0, 1, 4, 16])
        arguments[first], arguments[second] = together[: array.size], together[start : start + arguments[second].size]
    elif how == "unwritten":
        blank = np.ones(array.nbytes, np.bool_)
        blank[: rng.choice([0, array.nbytes // 2])] = False
        unwritten[array.__array_interface__["data"][0]] = blank
    return arguments, unwritten
