"""Kernels of the corpus with an operation or two made wrong: whatever is still proven of them holds in launches."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice

import joinery as jn
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.proof import PROVEN, Proof

from ...kernel_mutation.rules import RULES, mutants, paired
from ...kernel_mutation.trials import NAMES, WRONG, in_order, tried
from ...support.corpus import WITH_DATA, Case
from ...support.tiers import both_tiers

QUICK = ("vec_add", "raw_early_exit")
"""Cases of which the fast tier tries a few mutants."""
_ENDLESS = frozenset({"collatz_steps"})
"""Kernels of the corpus with loops that may never end with other data."""
HARMFUL = (
    ("vec_add", "mask dropped", "tt.store %1, %8, %live_5 -> tt.store %1, %8"),
    ("vec_add", "comparison by one", "arith.cmpi slt,  -> arith.cmpi sle, "),
    ("vec_add", "program", "tt.get_program_id x : i32 -> tt.get_program_id y : i32"),
    ("vec_add", "tile changed", "tiles of 256 -> 512, constants as they are"),
    ("vec_add", "constant", "arith.constant 256 : i32 -> 128"),
)


def chosen(name: str, kind: str, change: str) -> str:
    """The text of a mutant. In tiles that overlap programs store equal values to an element, which is a race all the same."""
    return next(each.text for each in mutants(Case(name).text) if (each.kind, each.change) == (kind, change))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "kind", "change"), HARMFUL, ids=[kind for _, kind, _ in HARMFUL])
def test_a_harmful_mutant_is_refuted(name: str, kind: str, change: str) -> None:
    assert tried(name, chosen(name, kind, change), random.Random(1), 1).verdict == "refuted"


def test_a_prover_that_proves_everything_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Proof, "verdict", lambda *_: PROVEN)
    assert tried("vec_add", chosen(*HARMFUL[0]), random.Random(1), 2).verdict == WRONG
    assert tried("vec_add", chosen(*HARMFUL[2]), random.Random(1), 2).verdict == WRONG
    assert tried("vec_add", Case("vec_add").text, random.Random(1), 2).verdict == "proven"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", RULES)
def test_a_rule_makes_mutants_that_verify(kind: str) -> None:
    """Others would be counted, and try nothing."""
    number = 0
    for name in WITH_DATA:
        case = Case(name)
        for _, text in islice(RULES[kind](case.text), 2):
            try:
                jn.kernel.from_ttir(text, name=case.facts["entry"])
            except jn.UserError:
                continue
            number += text != case.text
            if number >= 2 or kind == "barrier removed":
                return
    pytest.fail(f"{number} mutants")


def test_there_are_ten_thousand_mutants_all_of_them_different() -> None:
    texts = [each.text for name in NAMES for each in mutants(Case(name).text)]
    assert len(texts) == len(set(texts)) > 10_000
    assert not set(texts) & {Case(name).text for name in NAMES}


def test_two_changes_are_those_that_the_seed_says() -> None:
    text = Case("vec_add").text
    found = {paired(text, random.Random(seed)).text for seed in range(20)}
    assert len(found) > 15
    assert paired(text, random.Random(3)) == paired(text, random.Random(3))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", QUICK)
def test_what_is_proven_of_mutants_holds(name: str) -> None:
    rng = random.Random(name)
    for each in (*rng.sample(mutants(Case(name).text), 2), paired(Case(name).text, rng)):
        outcome = tried(name, each.text, rng, 1)
        assert outcome.verdict != WRONG, f"{each.change}: {outcome.told}"


@both_tiers
def test_what_is_proven_of_kernels_of_the_corpus_holds(in_full: bool) -> None:
    rng = random.Random(5)
    for name in NAMES if in_full else QUICK:
        outcome = tried(name, Case(name).text, rng, 4 if in_full else 2, seconds=20)
        assert outcome.verdict not in (WRONG, "refused", "does not verify"), f"{name}: {outcome}"
        assert not outcome.given_up or name in _ENDLESS, name


@pytest.mark.slow
def test_most_mutants_are_refuted_or_unknown_and_none_is_proven_wrongly() -> None:
    """`make prove-mutants` runs more of them."""
    counts: Counter[str] = Counter()
    for number, (name, each) in enumerate(islice(in_order(7), 300)):
        outcome = tried(name, each.text, random.Random(number), 3)
        assert outcome.verdict != WRONG, f"{name}, {each.change}: {outcome.told}"
        counts[outcome.verdict] += 1
    print(counts)
    assert counts["refuted"] > 90
    assert counts["does not verify"] < 30
