"""The tiers of the tests: what is fast covers what it says, and tests that take long are named."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from ..support import durations
from ..support.tiers import each, one_in, pairs, share

TESTS = Path(__file__).resolve().parents[1]
LAYERS = ("promotion", "graph", "lowering", "runtime", "interface")
HISTORY = re.compile(r"(^|_)(more|new|old|other|user|extra|misc|made|fix(es)?)(_|$)")


def fast(parameters: list[Any]) -> set[tuple[Any, ...]]:
    return {each.values for each in parameters if not each.marks}


def test_a_share_for_every_number_is_all_of_it() -> None:
    cases = list(range(17))
    assert sorted(case for number in range(5, 9) for case in share(cases, number, 4)) == cases
    assert share(cases, 3, 4, in_full=True) == cases


@pytest.mark.parametrize("axes", [("abcdefg", (0, 1)), ("abc", (0, 1, 2, 3), "xy"), ("a", "b")])
def test_each_value_is_fast_and_the_product_is_there(axes: Any) -> None:
    for made in (each(*axes), each(*axes, times=2), pairs(*axes)):
        assert [parameter.values for parameter in made] == list(itertools.product(*axes))
        for position, axis in enumerate(axes):
            assert {values[position] for values in fast(made)} == set(axis)
    assert len(fast(each(*axes))) == max(map(len, axes))


def test_every_pair_of_values_is_fast() -> None:
    axes = ("abcd", (0, 1, 2), "xyz", (False, True))
    chosen = fast(pairs(*axes))
    for (a, first), (b, second) in itertools.combinations(enumerate(axes), 2):
        assert {(values[a], values[b]) for values in chosen} == set(itertools.product(first, second))
    assert len(chosen) < 20 < 72


def test_one_in_n_keeps_every_value_where_there_is_room() -> None:
    axes = ("abcdef", ("0", "1"), ("cpu", "gpu", "file"))
    names = ["-".join(case) for case in itertools.product(*axes)]
    for n in range(1, 7):
        fast = one_in(names, n)
        assert len(fast) == -(-len(names) // n)
        chosen = [names[number].split("-") for number in fast]
        assert all({case[position] for case in chosen} == set(axis) for position, axis in enumerate(axes)), n
    for n in (12, 18, 36, 1000):  # not every letter, but each device, as far as that goes
        chosen = [names[number].split("-") for number in one_in(names, n)]
        assert len(chosen) == max(1, 36 // n) == len({case[0] for case in chosen})
        assert len({case[2] for case in chosen}) == len(chosen)
    assert one_in(names, 5) == one_in(list(names), 5)
    assert one_in(["alone"], 9) == {0}
    counts = [sum(names[number].startswith(letter) for number in one_in(names, 3)) for letter in "abcdef"]
    assert sum(counts) == 12
    assert set(counts) == {2}


def test_long_tests_are_named() -> None:
    lines, is_failure = durations.report({"a": 1.0, "b": 5.5, "c": 7.0})
    assert (lines, is_failure) == (["7.0 s: c", "5.5 s: b"], False)
    assert durations.report({"d": 10.5}) == (["10.5 s (too long): d"], True)
    assert durations.scale(durations.UNIT / 3) == 1
    assert durations.scale(durations.UNIT * 3) == pytest.approx(3)
    before = durations.processor_seconds()
    assert 0 < durations.unit_of_work() <= durations.processor_seconds() - before


def folders_without_source(tests: Path, package: Path) -> list[str]:
    """Folders of the tests of a layer that the layer does not have."""
    found = [path for layer in LAYERS for path in (tests / layer).rglob("*") if path.is_dir() and path.name != "__pycache__"]
    return sorted(str(path.relative_to(tests)) for path in found if not (package / path.relative_to(tests)).is_dir())


def test_folders_mirror_the_source(tmp_path: Path) -> None:
    assert folders_without_source(TESTS, TESTS.parent) == []
    for path in ("tests/graph/dims", "tests/graph/gone", "graph/dims"):
        (tmp_path / path).mkdir(parents=True)
    assert folders_without_source(tmp_path / "tests", tmp_path) == ["graph/gone"]


def test_names_say_what_is_tested_and_not_when_it_was_written() -> None:
    names = [path for path in TESTS.rglob("*") if "__pycache__" not in path.parts and TESTS / "data" not in path.parents]
    assert [str(path) for path in names if HISTORY.search(path.stem)] == []
    assert all(HISTORY.search(name) for name in ("more_cases", "ttir_more", "user_cases", "test_made_descriptors"))
