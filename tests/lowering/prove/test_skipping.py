"""Sanitized launches that leave out what is proven of their sizes find what is not."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.interface.native import sanitizer

from ...support.corpus import WITH_DATA, Case, read

_HEAD = """
tt.func public @k(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32) {
  %b = arith.constant 16 : i32
  %p = tt.get_program_id x : i32
  %f = arith.muli %p, %b : i32
  %l = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %s = tt.splat %f : i32 -> tensor<16xi32>
  %i = arith.addi %s, %l : tensor<16xi32>
  %ns = tt.splat %n : i32 -> tensor<16xi32>
  %m = arith.cmpi slt, %i, %ns : tensor<16xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %ys = tt.splat %y : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %xa = tt.addptr %xs, %i : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
"""
_COPY = f"""{_HEAD}
  %ya = tt.addptr %ys, %i : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
  %v = tt.load %xa, %m : tensor<16x!tt.ptr<i32>>
  tt.store %ya, %v, %m : tensor<16x!tt.ptr<i32>>
  tt.return
}}
"""
_UNMASKED = _COPY.replace("tt.store %ya, %v, %m", "tt.store %ya, %v")
_MEETING = f"""{_HEAD}
  %ya = tt.addptr %ys, %l : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
  %v = tt.load %xa, %m : tensor<16x!tt.ptr<i32>>
  tt.store %ya, %v, %m : tensor<16x!tt.ptr<i32>>
  tt.return
}}
"""


def arrays(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.int32), np.zeros(n, np.int32)


def watched(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each native run of a sanitized launch leaves the races out."""
    found: list[bool] = []
    before = sanitizer.NativeSanitizer._variant

    def variant(self: sanitizer.NativeSanitizer, plan: sanitizer.Plan) -> object:
        found.append(plan.apart)
        return before(self, plan)

    monkeypatch.setattr(sanitizer.NativeSanitizer, "_variant", variant)
    return found


def test_what_is_proven_of_the_sizes_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = watched(monkeypatch)
    kernel = jn.kernel.from_ttir(_COPY)
    x, y = arrays(100)
    kernel.launch(7, x, y, 100, sanitize="prove")
    np.testing.assert_array_equal(x, y)
    kernel.launch(7, x, y, 100, sanitize=True)
    assert left_out == [True, False]


def test_another_word_is_refused() -> None:
    with pytest.raises(jn.UserError, match="sanitize='proof'; fix: True, False or 'prove'"):
        jn.kernel.from_ttir(_COPY).launch(7, *arrays(100), 100, sanitize="proof")


def test_an_access_outside_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = watched(monkeypatch)
    x, y = arrays(100)
    with pytest.raises(jn.SanitizerError, match="out-of-bounds"):
        jn.kernel.from_ttir(_UNMASKED).launch(7, x, y, 100, sanitize="prove")
    assert not any(left_out)


def test_a_race_that_only_some_sizes_have_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = watched(monkeypatch)
    kernel = jn.kernel.from_ttir(_MEETING)
    x, y = arrays(16)
    kernel.launch(1, x, y, 16, sanitize="prove")
    assert left_out == [True]
    x, y = arrays(32)
    with pytest.raises(jn.SanitizerError, match="race"):
        kernel.launch(2, x, y, 32, sanitize="prove")
    assert not any(left_out[1:])


def test_arrays_that_overlap_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof is about arrays that do not."""
    left_out = watched(monkeypatch)
    both = np.arange(116, dtype=np.int32)
    with pytest.raises(jn.SanitizerError, match="race"):
        jn.kernel.from_ttir(_COPY).launch(7, both[16:], both[:100], 100, sanitize="prove")
    assert not any(left_out)


def test_undefined_values_are_followed_where_races_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = watched(monkeypatch)
    undefined = _COPY.replace("tt.store %ya, %v, %m", "tt.store %ya, %v").replace("slt, %i", "slt, %l")
    x, y = np.arange(112, dtype=np.int32), np.zeros(112, np.int32)
    with pytest.raises(jn.SanitizerError, match="undefined"):
        jn.kernel.from_ttir(undefined).launch(7, x, y, 10, sanitize="prove")
    assert left_out[0]


def test_what_nothing_has_written_is_found_where_races_are_left_out() -> None:
    x, y = arrays(100)
    unwritten = {x.__array_interface__["data"][0]: np.ones(400, np.bool_)}
    report = jn.kernel.from_ttir(_COPY).sanitize(7, x, y, 100, unwritten=unwritten, notes=False, proofs=True)
    assert {each.kind for each in report.findings} == {"uninitialised"}


def test_barriers_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = watched(monkeypatch)
    x, y = arrays(100)
    jn.kernel.from_ttir(_COPY).sanitize(7, x, y, 100, needs_barriers=True, notes=False, proofs=True)
    assert left_out == [False]


@pytest.mark.slow
def test_launches_of_the_corpus_find_the_same_with_and_without_proofs() -> None:
    for name in WITH_DATA:
        case, kernel = Case(name), read(name)
        found = []
        for proofs in (False, True):
            arguments, _ = case.arguments()
            found.append(kernel.sanitize(tuple(case.facts["grid"]), *arguments, notes=False, proofs=proofs).findings)
        assert [str(each) for each in found[0]] == [str(each) for each in found[1]], name
