"""Elements may be unsigned: what is refuted with such says so, with the assumption that excludes them."""

from __future__ import annotations

import joinery as jn
import pytest

pytest.importorskip("z3")

_GATHER = """void gather(float *y, float *x, TYPE *idx, int n, int m) {
  int p = get_program_id(0);
  *(y + p) = *(x + *(idx + p));
}"""
_EXTENTS = {"y": "n", "x": "m", "idx": "n"}


def _refuted(assume: list[str], type_: str = "int") -> tuple[str, int]:
    """The reason beside the refuted load of x, and what the elements of idx are in the launch."""
    proof = jn.kernel.from_triton_c(_GATHER.replace("TYPE", type_)).prove(assume, _EXTENTS, "n", ("bounds",))
    (found,) = [each for each in proof.refuted if each.array == "x"]
    assert found.counterexample is not None
    assert not found.reason or f"\n  {found.reason}" in str(found).replace("\n    ", "\n  ")
    assert not found.reason or found.reason in proof.as_json().replace("\\\\", "\\")
    return found.reason, dict(found.counterexample.contents)["idx"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("type_", "bits"), [("int", 32), ("long", 64), ("short", 16)])
def test_elements_that_are_no_signed_numbers_come_with_the_assumption_that_excludes_them(type_: str, bits: int) -> None:
    reason, value = _refuted(["0 <= idx[:]"], type_)
    assert value >= 1 << (bits - 1)
    assert reason.endswith(f"fix, if they are: assume=['0 <= idx[:] < 2**{bits - 1}']")
    assert "elements of idx are signed" in reason
    fixed, value = _refuted([f"0 <= idx[:] < 2**{bits - 1}"], type_)
    assert fixed == ""
    assert 0 <= value < 1 << (bits - 1)


def test_elements_that_are_negative_have_no_reason() -> None:
    assert _refuted(["-1 <= idx[:]"]) == ("", -1)


def test_what_is_refuted_without_such_elements_has_no_reason() -> None:
    assert _refuted(["0 <= idx[:] <= m"])[0] == ""


def test_the_assumption_that_is_named_is_one() -> None:
    made = jn.kernel.from_triton_c(_GATHER.replace("TYPE", "int"))
    assert made.prove(["0 <= idx[:]"], _EXTENTS, "n", ("bounds",)).verdict("bounds") == "refuted"
    both = ["0 <= idx[:] < 2**31", "0 <= idx[:] < m"]
    assert made.prove(both, _EXTENTS, "n", ("bounds",)).verdict("bounds") in ("proven", "proven under")
