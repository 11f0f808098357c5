"""Random kernels in Triton-C: what they do is what NumPy says; spoiled texts are refused with places, within budgets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ..support.tiers import both_tiers
from . import triton_c_cases, triton_c_values
from .cases import Settings
from .choices import Choices
from .triton_c_mutations import bomb
from .triton_c_programs import drawn

SETTINGS = Settings(simulate=False)
FEATURES = (
    " @ ", "[:, newaxis]", "[newaxis, :]", "^", "[^1, ^0]", "*?(", " ? ", "select(", "atomic_add", "while (", "do {", "for (",
    "switch (", "break;", "continue;", "return;", "return ", "bitcast<", "argmax", " ... ", ">>", "%", "&&", "||", "half",
    "[+]", ":, :, newaxis", "g0(", "!=", "~",
)  # fmt: skip


@pytest.mark.slow
@both_tiers
def test_programs_do_what_numpy_says(in_full: bool) -> None:
    elements = 0
    for number in range(600 if in_full else 10):
        data = triton_c_cases.generate_program(Choices(f"programs/{number}"), SETTINGS)
        outcome = triton_c_cases.run_program(data, SETTINGS)
        assert not outcome.faults, (number, [(each.where, each.what) for each in outcome.faults], data["text"])
        elements += outcome.elements
    assert elements > 1000


@pytest.mark.slow
def test_programs_do_the_same_on_simulated_gpus() -> None:
    for number in range(40):
        data = {**triton_c_cases.generate_program(Choices(f"gpus/{number}"), SETTINGS), "simulated": True}
        outcome = triton_c_cases.run_program(data, Settings())
        assert not outcome.faults, (number, [(each.where, each.what) for each in outcome.faults], data["text"])
        assert outcome.runs == 3


@pytest.mark.slow
def test_programs_have_what_the_language_has() -> None:
    found: Counter[str] = Counter()
    for number in range(300):
        text = drawn(Choices(f"features/{number}")).text
        found.update(each for each in FEATURES if each in text)
    assert len(found) == len(FEATURES)
    assert min(found.values()) >= 4, found


def test_a_wrong_meaning_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(triton_c_values.ARITHMETIC, "-", lambda x, y: np.asarray(x - y - x.dtype.type(1)))
    faults = []
    for number in range(3):
        data = triton_c_cases.generate_program(Choices(f"programs/{number}"), SETTINGS)
        faults += triton_c_cases.run_program(data, SETTINGS).faults
    assert {each.where for each in faults} == {"interpreter", "cpu strict 1 thread"}
    assert "NumPy has" in faults[0].what


@both_tiers
def test_spoiled_texts_are_kernels_or_have_located_errors(in_full: bool) -> None:
    refused = 0
    for number in range(1500 if in_full else 40):
        data = triton_c_cases.generate_text(Choices(f"texts/{number}"), SETTINGS)
        if len(data["text"]) > 20_000 and not in_full:
            continue
        outcome = triton_c_cases.run_text(data, SETTINGS)
        assert not outcome.faults, (number, [each.what for each in outcome.faults], data["text"][:2000])
        refused += outcome.refused
    assert refused > 10


@both_tiers
def test_texts_that_grow_or_nest_stay_within_budgets(in_full: bool) -> None:
    for number in range(300 if in_full else 30):
        text, include = bomb(Choices(f"bombs/{number}"))
        if len(text) > 20_000 and not in_full:
            continue
        data = {"kind": "triton-c-text", "text": text, "include": include}
        outcome = triton_c_cases.run_text(data, SETTINGS)
        assert not outcome.faults, (number, [each.what for each in outcome.faults], text[:2000])
