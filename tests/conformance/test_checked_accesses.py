"""Native code that compares accesses with its arrays computes what it computes otherwise, and stops where the interpreter does.

The interpreter looks at every element of every access: it knows nothing of the ends that the host's code computes for blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from joinery.lowering.tt.interpret.memory import AccessError

from ..support.corpus import CASES, WITH_DATA, Case, read, run
from ..support.tiers import both_tiers, share


def some(number: int, of: int) -> list[Any]:
    """The cases, all but every n-th of them slow."""
    return [pytest.param(name, marks=() if i % of == number else pytest.mark.slow) for i, name in enumerate(CASES)]


@pytest.mark.parametrize("name", some(0, 6))
def test_what_is_right_is_let_through(name: str) -> None:
    run(name, lambda kernel, grid, arguments: kernel.launch(grid, *arguments, check_bounds=True))


def shortened(name: str) -> list[tuple[int, int]]:
    """The (argument, elements left out at its end) that a case is tried with."""
    return [
        (position, short)
        for position, argument in enumerate(Case(name).arguments()[0])
        if isinstance(argument, np.ndarray) and argument.size
        for short in sorted({1, min(7, argument.size), argument.size // 2 or 1})
    ]


def leaves(run: Any, case: Case, position: int, short: int, **options: Any) -> bool:
    """Whether a launch leaves an argument that lacks its last elements."""
    arguments, _ = case.arguments()
    arguments[position] = arguments[position][: arguments[position].size - short].copy()
    try:
        run(case.facts["grid"], *arguments, **options)
    except AccessError:
        return True
    return False


@pytest.mark.parametrize("name", WITH_DATA)
@both_tiers
def test_arrays_that_are_too_short_are_noticed(name: str, in_full: bool) -> None:
    case, kernel = Case(name), read(name)
    for position, short in share(shortened(name), WITH_DATA.index(name), 12, in_full):
        found = leaves(kernel.launch, case, position, short, check_bounds=True)
        assert found == leaves(kernel.interpret, case, position, short), f"argument {position}, {short} short"
