"""Each rule of "initialised" on a kernel of which it proves something and on one that it must not, against the sanitizer."""

from __future__ import annotations

import joinery as jn
import pytest

pytest.importorskip("z3")

from ....support.proving.makers.undefined_cases import CASES, findings_of, text_of


@pytest.mark.one_in(54)
@pytest.mark.parametrize("name", CASES)
def test_a_store_is_proven_where_it_is_right_and_nowhere_else(name: str) -> None:
    case = CASES[name]
    kernel = jn.kernel.from_ttir(text_of(case))
    proof = kernel.prove(extents={"x": 8, "y": 8, "o": 8}, grid=1, properties=("initialised",))
    shown = proof.accesses[-1].verdict == "proven"
    found = any(True for _ in findings_of(kernel))
    assert shown == (case.right == "proven"), proof
    assert found == (case.right == "wrong")
    if proof.verdict("initialised") == "proven":
        assert not found
