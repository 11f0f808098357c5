"""Random block programs: the interpreter, native code, every pass, both readers and the sanitizer agree on them.

Values must have the same bits (any NaN equals any NaN), except what elementary functions gave: `random_checks.ULPS`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ....support.random_kernels.checks import Checked, differing
from ....support.random_kernels.control import program

SEED = st.integers(0, 2**32 - 1)
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)


def limited(examples: int):
    return settings(max_examples=examples, suppress_health_check=SLOW)


def programs(least: int, most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(SEED, min_size=least, max_size=most)


def check(seeds: list[int], size: int, memory: int) -> None:
    checked = Checked(program(seeds, size), memory)
    checked.launched()
    checked.sanitized()
    checked.text_survives()
    checked.passes()


@pytest.mark.slow
@limited(3)
@given(programs(1, 8), SEED)
def test_small_blocks(seeds: list[int], memory: int) -> None:
    check(seeds, 0, memory)


@pytest.mark.slow
@limited(3)
@given(programs(1, 6), SEED)
def test_blocks_of_thousands(seeds: list[int], memory: int) -> None:
    check(seeds, 1, memory)


@pytest.mark.slow
@limited(15)
@given(programs(2, 10), SEED)
def test_small_blocks_launched(seeds: list[int], memory: int) -> None:
    Checked(program(seeds, 0), memory).launched()


@limited(3)
@given(programs(1, 3), SEED)
def test_blocks_of_a_million(seeds: list[int], memory: int) -> None:
    Checked(program(seeds, 2), memory).launched()


@pytest.mark.slow
@limited(4)
@given(programs(1, 8), SEED, st.integers(0, 1 << 20))
def test_bounds_of_small_blocks(seeds: list[int], memory: int, choice: int) -> None:
    Checked(program(seeds, 0), memory).bounds_are_checked(choice)


@pytest.mark.slow
@limited(200)
@given(programs(1, 15), st.sampled_from([0, 0, 0, 1]), SEED, st.integers(0, 1 << 20))
def test_bounds_of_many(seeds: list[int], size: int, memory: int, choice: int) -> None:
    Checked(program(seeds, size), memory).bounds_are_checked(choice)


@pytest.mark.slow
@limited(400)
@given(programs(1, 25), st.sampled_from([0, 0, 0, 1]), SEED)
def test_many(seeds: list[int], size: int, memory: int) -> None:
    check(seeds, size, memory)


@pytest.mark.slow
@limited(60)
@given(programs(1, 6), SEED)
def test_many_blocks_of_a_million(seeds: list[int], memory: int) -> None:
    Checked(program(seeds, 2), memory).launched()


# The checks themselves


def test_a_difference_is_noticed() -> None:
    checked = Checked(program([5, 6, 7, 8, 9, 10]), 0)
    arrays = [array for array in checked.program.arrays.values()]
    assert {array.kind for array in arrays} >= {"out"}
    for i, array in enumerate(arrays):
        for at in (0, -1):  # the guard elements too
            wrong = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in checked.expected]
            assert differing(checked.program, wrong, checked.expected) is None
            wrong[i].view(np.uint8)[at] ^= 0x55
            assert (array.name in (differing(checked.program, wrong, checked.expected) or "")) or np.isnan(
                checked.expected[i].astype(np.float64)[at]
            )


def test_a_program_that_is_not_what_it_says_is_noticed() -> None:
    """Another operation in the text that is launched than in the text that is interpreted."""
    for seeds in ([3, 4, 5, 6], [11, 12, 13, 14], [21, 22, 23, 24]):
        one = Checked(program(seeds), 0)
        other = Checked(program([*seeds[:-1], seeds[-1] + 100]), 0)
        assert one.text != other.text
    checked = Checked(program([3, 4, 5, 6]), 0)
    checked.expected[-1] = checked.expected[-1].copy()
    last = next(i for i, arg in reversed(list(enumerate(checked.expected))) if isinstance(arg, np.ndarray))
    checked.expected[last].view(np.uint8)[-1] ^= 1
    for name in ("launched", "sanitized"):
        with pytest.raises(AssertionError, match="differ"):
            getattr(checked, name)()


def test_what_programs_are_made_of() -> None:
    """The statements meet most operations, and both readers' forms of control flow."""
    texts = "".join(program([seed * 7919 + i for i in range(8)]).text() for seed in range(150))
    for name in (
        "scf.for", "scf.while", "scf.if", "cf.br", "cf.cond_br", "tt.call", "tt.reduce", "tt.scan", "tt.dot", "tt.histogram",
        "tt.gather", "tt.join", "tt.split", "tt.cat", "tt.trans", "tt.reshape", "tt.atomic_rmw", "tt.load", "tt.store",
        "tt.clampf", "math.fma", "arith.divsi", "arith.shrui", "tt.unsplat", "tt.mulhiui", "arith.floordivsi", "tt.bitcast",
    ):  # fmt: skip
        assert f"{name} " in texts or f'"{name}"' in texts, name
